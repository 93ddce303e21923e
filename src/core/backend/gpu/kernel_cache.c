/* kernel_cache.c - see kernel_cache.h. An entry is a file with struct head, the key and the binary. */
#include "backend/gpu/kernel_cache.h"

#include "base/files.h"
#include "host/cache_dir.h"

struct head {
    char magic[8];
    uint64_t key_bytes;
    uint64_t binary_bytes;
    uint64_t checksum; /* FNV-1a of the binary, with the basis 0 */
};

static const char magic[8] = "levinK1"; /* version of the format */

/* FNV-1a, 64 bits, with the basis `start`. */
static uint64_t hash_of(const void *p, int64_t n, uint64_t start)
{
    uint64_t h = start;
    for (int64_t i = 0; i < n; i++) h = (h ^ ((const uint8_t *)p)[i]) * 0x100000001b3u;
    return h;
}

/* The path of a key's entry. */
static enum lvn_status path_of(struct lvn_arena *a, const char *key, const char **path)
{
    const char *folder;
    const int64_t n = (int64_t)strlen(key);
    LVN_TRY(lvn_cache_folder(a, "kernels", &folder));
    *path = lvn_arena_printf(a, "%s/%016llx%016llx", folder, (unsigned long long)hash_of(key, n, 0xcbf29ce484222325u),
                             (unsigned long long)hash_of(key, n, 0x9E3779B97F4A7C15u));
    return *path ? LVN_OK : LVN_MEMORY;
}

/* Is the file a complete entry of this key? Sets *h. */
static bool is_entry(const char *file, int64_t bytes, const char *key, struct head *h)
{
    if (bytes < (int64_t)sizeof *h) return false;
    memcpy(h, file, sizeof *h);
    if (memcmp(h->magic, magic, sizeof magic) != 0 || h->key_bytes != strlen(key)) return false;
    if ((uint64_t)bytes != sizeof *h + h->key_bytes + h->binary_bytes) return false;
    const char *binary = file + sizeof *h + h->key_bytes;
    return memcmp(file + sizeof *h, key, h->key_bytes) == 0 &&
           hash_of(binary, (int64_t)h->binary_bytes, 0) == h->checksum;
}

bool lvn_kernel_cache_find(const char *key, void **binary, int64_t *bytes)
{
    LVN_LOCAL_ARENA(a);
    struct head h;
    char *file = NULL;
    int64_t n;
    const char *path;
    bool found =
        path_of(&a, key, &path) == LVN_OK && lvn_path_is_file(path) && lvn_file_read(path, 0, &file, &n) == LVN_OK;
    if (!found) lvn_error_clear();
    found = found && is_entry(file, n, key, &h);
    if (found) {
        memmove(file, file + sizeof h + h.key_bytes, h.binary_bytes);
        *binary = file;
        *bytes = (int64_t)h.binary_bytes;
    } else {
        free(file);
    }
    return found;
}

enum lvn_status lvn_kernel_cache_store(const char *key, const void *binary, int64_t bytes)
{
    LVN_LOCAL_ARENA(a);
    struct head h = {.key_bytes = strlen(key), .binary_bytes = (uint64_t)bytes, .checksum = hash_of(binary, bytes, 0)};
    const int64_t n = (int64_t)(sizeof h + h.key_bytes) + bytes;
    memcpy(h.magic, magic, sizeof magic);
    const char *path;
    LVN_TRY(path_of(&a, key, &path));
    char *file = lvn_malloc((size_t)n);
    if (!file) return LVN_MEMORY;
    memcpy(file, &h, sizeof h);
    memcpy(file + sizeof h, key, h.key_bytes);
    memcpy(file + sizeof h + h.key_bytes, binary, (size_t)bytes);
    enum lvn_status status = lvn_file_write(path, file, n);
    free(file);
    return status;
}
