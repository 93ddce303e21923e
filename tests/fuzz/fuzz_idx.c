/* fuzz_idx.c - an IDX file that is accepted has as many elements as it says; none makes the reader take much memory. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "formats/idx.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    struct lvn_idx x;
    int fd = memfd_create("idx", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size) abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (lvn_idx_read(&x, path) == LVN_OK) {
        int64_t n = 1, sum = 0;
        for (int k = 0; k < x.rank; k++) n *= x.dim[k];
        for (int64_t i = 0; i < n; i++) sum += x.data[i];
        if (sum < 0) abort();
        lvn_idx_release(&x);
    }
    lvn_error_clear();
    close(fd);
    return 0;
}
