/* token_shards.c - see token_shards.h. */
#include "data/prepare/token_shards.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/files.h"
#include "data/resumable_file.h"
#include "data/sources/shard_list.h"

enum { COPY_BYTES = 1 << 20 };

int64_t lvn_token_shards_count(int64_t tokens, int64_t shard_tokens)
{
    return shard_tokens && tokens > shard_tokens ? (tokens + shard_tokens - 1) / shard_tokens : 0;
}

enum lvn_status lvn_token_shards_check(int64_t tokens, int64_t shard_tokens)
{
    const int64_t n = lvn_token_shards_count(tokens, shard_tokens);
    LVN_CHECK(n <= LVN_TOKEN_SHARDS_MAX, ARG,
              "--shard-size=%lld cuts %lld tokens into %lld shards, and at most %d are supported: give a larger one",
              (long long)shard_tokens, (long long)tokens, (long long)n, LVN_TOKEN_SHARDS_MAX);
    return LVN_OK;
}

void lvn_token_shards_describe(json_t *root, int64_t tokens, int64_t shard_tokens)
{
    const int64_t n = lvn_token_shards_count(tokens, shard_tokens);
    if (!n) return;
    json_object_set_new(root, "shards", json_integer(n));
    json_object_set_new(root, "shard_tokens", json_integer(shard_tokens));
}

static char *shard_path(struct lvn_arena *a, const char *out, enum lvn_split_id split, int64_t i)
{
    return lvn_arena_printf(a, "%s/%s-%05lld.bin", out, lvn_split_names[split], (long long)i);
}

const char *lvn_token_shards_text(enum lvn_split_id split, int64_t tokens, int64_t shard_tokens, char text[64])
{
    const char *name = lvn_split_names[split];
    const int64_t n = lvn_token_shards_count(tokens, shard_tokens);
    if (n)
        snprintf(text, 64, "%s-00000.bin ... %s-%05lld.bin", name, name, (long long)(n - 1));
    else
        snprintf(text, 64, "%s.bin", name);
    return text;
}

static enum lvn_status remove_file(const char *path)
{
    LVN_CHECK(unlink(path) == 0 || errno == ENOENT, IO, "cannot remove '%s', which an earlier preparation wrote: %s",
              path, strerror(errno));
    return LVN_OK;
}

enum lvn_status lvn_token_shards_remove_others(const char *out, enum lvn_split_id split, int64_t tokens,
                                               int64_t shard_tokens)
{
    LVN_LOCAL_ARENA(a);
    const char *const *names;
    const int64_t shards = lvn_token_shards_count(tokens, shard_tokens);
    int64_t prefix;
    int n;
    const char *bin = lvn_arena_printf(&a, "%s/%s.bin", out, lvn_split_names[split]);
    if (!bin) return LVN_MEMORY;
    if (shards) LVN_TRY(remove_file(bin));
    LVN_TRY(lvn_dir_list(&a, out, &names, &n));
    for (int i = 0; i < n; i++) {
        if (lvn_shard_file_split(names[i], &prefix) != (int)split) continue;
        if (names[i][prefix - 1] != '-' || strspn(names[i] + prefix, "0123456789") != 5 ||
            strcmp(names[i] + prefix + 5, ".bin") != 0)
            continue; /* not written by levin */
        const char *path = lvn_path_join(&a, out, names[i]);
        if (!path) return LVN_MEMORY;
        if (strtoll(names[i] + prefix, NULL, 10) >= shards) LVN_TRY(remove_file(path));
    }
    return LVN_OK;
}

/* Copy bytes [from, to) of an open file to a new one, and sync it. */
static enum lvn_status copy(int fd, const char *path, int64_t from, int64_t to, const char *shard)
{
    LVN_LOCAL_ARENA(a);
    struct lvn_resumable_file f;
    const char *part = lvn_arena_printf(&a, "%s.part", shard);
    char *buffer = lvn_arena_alloc(&a, COPY_BYTES);
    if (!part || !buffer) return LVN_MEMORY;
    LVN_TRY(lvn_resumable_file_open(&f, part, 0, 0));
    enum lvn_status status = LVN_OK;
    for (int64_t n; from < to && status == LVN_OK; from += n) {
        n = to - from < COPY_BYTES ? to - from : COPY_BYTES;
        status = lvn_fd_read_at(fd, path, buffer, from, n);
        if (status == LVN_OK) status = lvn_resumable_file_write(&f, buffer, n);
    }
    if (status == LVN_OK) status = lvn_resumable_file_sync(&f);
    lvn_resumable_file_close(&f);
    if (status == LVN_OK) return lvn_file_rename(part, shard);
    unlink(part);
    return status;
}

static enum lvn_status cut(const char *out, enum lvn_split_id split, int fd, const char *part, int64_t shard_bytes)
{
    struct stat s;
    LVN_CHECK(fstat(fd, &s) == 0, IO, "cannot read '%s': %s", part, strerror(errno));
    for (int64_t bytes = s.st_size; bytes > shard_bytes;) {
        LVN_LOCAL_ARENA(a);
        const int64_t i = (bytes - 1) / shard_bytes;
        const char *path = shard_path(&a, out, split, i);
        if (!path) return LVN_MEMORY;
        LVN_TRY(copy(fd, part, i * shard_bytes, bytes, path));
        LVN_TRY(lvn_dir_sync(out));
        bytes = i * shard_bytes;
        LVN_CHECK(ftruncate(fd, bytes) == 0, IO, "cannot write '%s': %s", part, strerror(errno));
    }
    return LVN_OK;
}

enum lvn_status lvn_token_shards_finish(const char *out, enum lvn_split_id split, const char *part, const char *bin,
                                        int width, int64_t tokens, int64_t shard_tokens)
{
    if (!lvn_token_shards_count(tokens, shard_tokens)) return lvn_file_rename(part, bin);
    LVN_LOCAL_ARENA(a);
    const char *first = shard_path(&a, out, split, 0);
    if (!first) return LVN_MEMORY;
    const int fd = open(part, O_RDWR | O_CLOEXEC);
    LVN_CHECK(fd >= 0, IO, "cannot open '%s': %s", part, strerror(errno));
    enum lvn_status status = cut(out, split, fd, part, shard_tokens * width);
    close(fd);
    return status == LVN_OK ? lvn_file_rename(part, first) : status;
}
