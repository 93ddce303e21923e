/* dataset_fingerprint.c - see lvn_dataset_fingerprint(): a hash of the data, of all contents, or of evenly spaced
 * blocks. */

#include "base/arena.h"
#include "data/dataset.h"
#include "data/sources/shard_list.h"
#include "stores/streaming_file.h"

/* Hash eight bytes: multiply and fold (the constants are those of MurmurHash3's finalizer). */
static uint64_t mix(uint64_t h, uint64_t x)
{
    h = (h ^ x) * 0xff51afd7ed558ccdu;
    return (h ^ h >> 33) * 0xc4ceb9fe1a85ec53u;
}

static uint64_t mix_bytes(uint64_t h, const void *data, int64_t bytes)
{
    const char *p = data;
    for (; bytes >= 8; p += 8, bytes -= 8) {
        uint64_t x;
        memcpy(&x, p, 8);
        h = mix(h, x);
    }
    uint64_t x = 0;
    memcpy(&x, p, (size_t)bytes);
    return mix(h, x ^ (uint64_t)bytes << 56);
}

enum { WHOLE = 8 << 20, BLOCKS = 512, BLOCK = 4096 };

/* Offset of block i of BLOCKS, from the first to the last block of the file. */
static int64_t block_at(int64_t bytes, int64_t i)
{
    return (bytes - BLOCK) / (BLOCKS - 1) * i;
}

enum lvn_status lvn_split_set_streaming(struct lvn_split *p, const char *path, int width)
{
    int64_t bytes = lvn_streaming_file_bytes(p->streaming) - p->header;
    LVN_CHECK(bytes > WHOLE, INTERNAL, "a stream of %lld bytes", (long long)bytes);
    LVN_TRY(lvn_split_set(p, path, NULL, width, bytes / width));
    p->blocks = lvn_malloc((size_t)BLOCKS * BLOCK);
    if (!p->blocks) return LVN_MEMORY;
    for (int64_t i = 0; i < BLOCKS; i++)
        LVN_TRY(lvn_streaming_file_read(p->streaming, p->header + block_at(bytes, i), BLOCK, p->blocks + i * BLOCK));
    return LVN_OK;
}

/* Hash evenly spaced samples of a list from files. A sample that cannot be read is no error here: training reports
 * it. */
static enum lvn_status mix_samples(uint64_t *h, const struct lvn_dataset *d, enum lvn_split_id split)
{
    struct lvn_samples one;
    int64_t n = d->split[split].n_samples;
    enum lvn_status status = LVN_OK;
    if (!n || !d->split[split].path) return LVN_OK;
    LVN_TRY(lvn_samples_init(&one, &d->fields, 1));
    for (int64_t i = 0; i < BLOCKS && status != LVN_MEMORY; i++) {
        struct lvn_draw whole = {.length = lvn_fields_length(&d->fields)};
        const int64_t at = n / BLOCKS * i + n % BLOCKS * i / BLOCKS; /* n * i / BLOCKS, which may overflow */
        status = lvn_dataset_sample(d, split, at, whole, one.p);
        for (int k = 0; k < d->fields.n; k++) *h = mix_bytes(*h, one.p[k], lvn_field_bytes(&d->fields.field[k]));
    }
    lvn_samples_release(&one);
    if (status == LVN_MEMORY) return status;
    lvn_error_clear();
    return LVN_OK;
}

enum lvn_status lvn_dataset_fingerprint(const struct lvn_dataset *d, uint64_t *out)
{
    uint64_t h = mix_bytes(0, d->kind->name, (int64_t)strlen(d->kind->name));
    if (d->vocabulary && !d->vocabulary_of_meta)
        h = mix_bytes(h, d->vocabulary->points, d->vocabulary->n * (int64_t)sizeof(uint32_t));
    if (d->contents) h = mix(h, d->contents);
    for (int split = 0; split < LVN_SPLITS_TRAINED; split++) {
        const struct lvn_split *p = &d->split[split];
        const int64_t bytes = p->shards ? 0 : p->n_tokens * p->width;
        if (p->shards) h = mix(h, lvn_shard_list_sum(p->shards));
        h = mix(mix(h, (uint64_t)p->n_tokens), (uint64_t)p->n_samples);
        LVN_TRY_WHILE(mix_samples(&h, d, (enum lvn_split_id)split), "comparing the data with those of earlier runs");
        if (bytes <= WHOLE)
            h = mix_bytes(h, p->tokens ? p->tokens : "", bytes);
        else
            for (int64_t i = 0; i < BLOCKS; i++)
                h = mix_bytes(h, p->blocks ? p->blocks + i * BLOCK : (const char *)p->tokens + block_at(bytes, i),
                              BLOCK);
    }
    for (int k = 1; d->mix && k < d->mix->n; k++) {
        uint64_t source;
        LVN_TRY(lvn_dataset_fingerprint(d->mix->data[k], &source));
        h = mix(h, source);
    }
    *out = h;
    return LVN_OK;
}

/* Hash all tokens of shards, or evenly spaced blocks if they have more than WHOLE bytes. */
static enum lvn_status mix_shards(uint64_t *h, struct lvn_shard_list *s, int width)
{
    const int64_t n = lvn_shard_list_tokens(s), most = BLOCK / width, steps = (n + most - 1) / most;
    const int64_t blocks = n * width <= WHOLE ? steps : BLOCKS;
    char *block = lvn_malloc(BLOCK);
    enum lvn_status status = block ? LVN_OK : LVN_MEMORY;
    for (int64_t i = 0; i < blocks && status == LVN_OK; i++) {
        const int64_t at = (steps / blocks * i + steps % blocks * i / blocks) * most,
                      some = n - at < most ? n - at : most;
        status = lvn_shard_list_read(s, at, some, block);
        if (status == LVN_OK) *h = mix_bytes(*h, block, some * width);
    }
    free(block);
    return status;
}

enum lvn_status lvn_dataset_shards_hash(const struct lvn_dataset *d, uint64_t *out)
{
    uint64_t h = 0;
    for (int split = 0; split < LVN_SPLITS_TRAINED; split++) {
        const struct lvn_split *p = &d->split[split];
        if (!p->shards || lvn_shard_list_streams(p->shards) || lvn_shard_list_skips(p->shards)) continue;
        LVN_TRY(mix_shards(&h, p->shards, p->width));
    }
    for (int k = 1; d->mix && k < d->mix->n; k++) {
        uint64_t source;
        LVN_TRY(lvn_dataset_shards_hash(d->mix->data[k], &source));
        h = mix(h, source);
    }
    *out = h;
    return LVN_OK;
}
