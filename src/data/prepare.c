/* prepare.c - writes a data set's parts as token files that data.kind=tokens reads.
 *
 * Each file is written beside its place, synced and renamed, the .json first: at no time does a .bin stand beside a
 * description of another one unless a rename fails half way. */
#include "data/prepare.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"

static enum lvn_status write_all(int file, const char *path, const void *data, int64_t bytes)
{
    const char *p = data;
    while (bytes > 0) {
        ssize_t n = write(file, p, bytes < (1 << 30) ? (size_t)bytes : (size_t)1 << 30);
        if (n < 0 && errno == EINTR) continue;
        LVN_CHECK(n > 0, IO, "cannot write '%s': %s", path, n ? strerror(errno) : "no space");
        p += n;
        bytes -= n;
    }
    LVN_CHECK(fsync(file) == 0, IO, "cannot write '%s': %s", path, strerror(errno));
    return LVN_OK;
}

static enum lvn_status replace_file(const char *path, const void *data, int64_t bytes)
{
    char temporary[4096];
    int n = snprintf(temporary, sizeof temporary, "%s.part", path);
    LVN_CHECK(n > 0 && n < (int)sizeof temporary, ARG, "the path '%s' is too long", path);
    int file = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    LVN_CHECK(file >= 0, IO, "cannot create '%s': %s", temporary, strerror(errno));
    enum lvn_status status = write_all(file, temporary, data, bytes);
    close(file);
    if (status == LVN_OK && rename(temporary, path))
        status = lvn_fail_at(__FILE__, __LINE__, LVN_IO, "cannot write '%s': %s", path, strerror(errno));
    if (status != LVN_OK) unlink(temporary);
    return status;
}

/* The kind's vocabulary as JSON, with the element type in front. */
static enum lvn_status describe(const struct lvn_dataset *d, int width, char **text)
{
    char *vocabulary = NULL;
    if (d->vocabulary) LVN_TRY(lvn_vocab_to_json(d->vocabulary, &vocabulary));
    json_t *root =
        json_pack("{s:s, s:I}", "dtype", width == 2 ? "uint16" : "uint32", "vocab_size", (json_int_t)d->vocab_size);
    json_t *more = vocabulary ? json_loads(vocabulary, 0, NULL) : NULL;
    if (root && more) json_object_update(root, more);
    *text = root ? json_dumps(root, JSON_INDENT(1)) : NULL;
    json_decref(root);
    json_decref(more);
    free(vocabulary);
    LVN_CHECK(*text, MEMORY, "not enough memory to describe the token files");
    return LVN_OK;
}

static enum lvn_status write_part(const struct lvn_dataset *d, const struct lvn_part *p, const char *out,
                                  const char *name)
{
    char path[4096];
    int n = snprintf(path, sizeof path, "%s/%s.bin.json", out, name);
    LVN_CHECK(n > 0 && n < (int)sizeof path, ARG, "the path '%s' is too long", out);
    char *json;
    LVN_TRY(describe(d, p->width, &json));
    enum lvn_status status = replace_file(path, json, (int64_t)strlen(json));
    free(json);
    LVN_TRY(status);
    path[n - 5] = '\0';
    return replace_file(path, p->tokens, p->n_tokens * p->width);
}

enum lvn_status lvn_prepare(const struct lvn_data_options *o, const char *out, struct lvn_prepared *result)
{
    static const char *const names[LVN_PART_COUNT] = {"train", "val"};
    const struct lvn_dataset_kind *kind = lvn_dataset_kind_find(o->kind);
    if (!kind) return LVN_ARG;
    LVN_CHECK(!kind->sample, ARG, "data.kind=%s is made on the spot: there is nothing to prepare", kind->name);
    struct lvn_dataset *d;
    LVN_TRY(lvn_dataset_open(&d, o));
    enum lvn_status status = LVN_OK;
    if (mkdir(out, 0777) && errno != EEXIST)
        status = lvn_fail_at(__FILE__, __LINE__, LVN_IO, "cannot make the folder '%s': %s", out, strerror(errno));
    *result = (struct lvn_prepared){.vocab_size = d->vocab_size};
    for (int i = 0; i < LVN_PART_COUNT && status == LVN_OK; i++) {
        result->n_tokens[i] = d->part[i].n_tokens;
        if (d->part[i].n_tokens) status = write_part(d, &d->part[i], out, names[i]);
    }
    lvn_dataset_close(d);
    return status;
}
