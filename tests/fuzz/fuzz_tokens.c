/* fuzz_tokens.c - token files with their .json files, texts, and vocabularies, with arbitrary contents.
 *
 * First byte: which reader. Tokens: two more bytes give the length of the .json file or of meta.pkl, the rest is the
 * .bin file. Data that open are read through the loader, so accepted lengths and ids must be usable. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/loader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char folder[] = "/tmp/levin-fuzz-tokens-XXXXXX", bin[64], sidecar[64], meta[64];

static void write_file(const char *path, const uint8_t *data, size_t size)
{
    FILE *f = fopen(path, "wb");
    if (!f) abort();
    fwrite(data, 1, size, f);
    fclose(f);
}

static void read_all(const struct lvn_data_options *o)
{
    enum { T = 8, B = 3 };
    struct lvn_dataset *d;
    if (lvn_dataset_open(&d, o) != LVN_OK) return;
    d->fields = lvn_stream_fields(T, d->id_limit);
    for (int split = 0; split < LVN_SPLIT_COUNT; split++) {
        struct lvn_loader l;
        enum lvn_sampling sampling = (enum lvn_sampling)(d->split[0].n_tokens % 3);
        if (lvn_loader_init(&l, d, (enum lvn_split_id)split, sampling, B, 1) != LVN_OK) continue;
        int32_t ids[B * T], labels[B * T];
        struct lvn_samples b = {.fields = d->fields, .rows = B, .p = {ids, labels}};
        int64_t number;
        for (int64_t step = 0; step < 4; step++) {
            if (lvn_loader_batch(&l, step, 0, &b) != LVN_OK) break;
            for (int i = 0; i < B * T; i++)
                if (ids[i] < 0 || ids[i] >= d->id_limit || labels[i] >= d->id_limit) abort();
        }
        if (lvn_loader_eval_batch(&l, 2, 0, 0, &b, &number) != LVN_OK) continue;
    }
    uint64_t fingerprint;
    if (lvn_dataset_fingerprint(d, &fingerprint) != LVN_OK) abort();
    lvn_dataset_close(d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!*bin) {
        if (!mkdtemp(folder)) abort();
        snprintf(bin, sizeof bin, "%s/a.bin", folder);
        snprintf(sidecar, sizeof sidecar, "%s/a.bin.json", folder);
        snprintf(meta, sizeof meta, "%s/meta.pkl", folder);
    }
    if (size < 3) return 0;
    size_t json = (size_t)data[1] | (size_t)data[2] << 8;
    if (data[0] % 3 == 0) {
        json = json < size - 3 ? json : size - 3;
        unlink(sidecar);
        unlink(meta);
        if (json) write_file(data[0] % 2 ? meta : sidecar, data + 3, json);
        write_file(bin, data + 3 + json, size - 3 - json);
        read_all(&(struct lvn_data_options){.kind = "tokens", .path = bin, .vocab_size = data[0] & 1 ? 1000 : 0});
    } else if (data[0] % 3 == 1) {
        write_file(bin, data + 1, size - 1);
        read_all(&(struct lvn_data_options){.kind = "chars", .path = bin});
    } else {
        struct lvn_vocab *v;
        if (lvn_vocab_from_json(&v, "the input", (const char *)data + 1, (int64_t)size - 1) == LVN_OK)
            lvn_vocab_free(v);
    }
    return 0;
}
