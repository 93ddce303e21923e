/* map.c - files as read-only memory (mmap). */
#include "data/map.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum lvn_status lvn_map_open(struct lvn_map *m, const char *path)
{
    *m = (struct lvn_map){0};
    int file = open(path, O_RDONLY | O_CLOEXEC);
    LVN_CHECK(file >= 0, IO, "cannot open '%s': %s", path, strerror(errno));
    struct stat info;
    void *data = MAP_FAILED;
    int error = fstat(file, &info) ? errno : 0;
    bool plain = !error && S_ISREG(info.st_mode);
    if (plain && info.st_size) {
        data = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, file, 0);
        error = data == MAP_FAILED ? errno : 0;
    }
    close(file);
    LVN_CHECK(!error, IO, "cannot read '%s': %s", path, strerror(error));
    LVN_CHECK(plain, IO, "'%s' is %s, not a file", path, S_ISDIR(info.st_mode) ? "a folder" : "a device or pipe");
    LVN_CHECK(info.st_size, FORMAT, "'%s' is empty: there is nothing to read", path);
    m->data = data;
    m->bytes = info.st_size;
    return LVN_OK;
}

void lvn_map_close(struct lvn_map *m)
{
    if (m->data) munmap((void *)m->data, (size_t)m->bytes);
    *m = (struct lvn_map){0};
}
