/* archive_api.c - see archive_api.h. */
#include "formats/archive_api.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>

static struct lvn_archive_api api;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool complete;

static const struct {
    const char *name;
    size_t at;
} symbols[] = {
#define S(field, symbol)                                                                                               \
    {                                                                                                                  \
        symbol, offsetof(struct lvn_archive_api, field)                                                                \
    }
    S(read_new, "archive_read_new"),
    S(read_free, "archive_read_free"),
    S(filter_gzip, "archive_read_support_filter_gzip"),
    S(filter_bzip2, "archive_read_support_filter_bzip2"),
    S(filter_xz, "archive_read_support_filter_xz"),
    S(filter_zstd, "archive_read_support_filter_zstd"),
    S(format_tar, "archive_read_support_format_tar"),
    S(format_raw, "archive_read_support_format_raw"),
    S(format_empty, "archive_read_support_format_empty"),
    S(open, "archive_read_open"),
    S(next_header, "archive_read_next_header"),
    S(data, "archive_read_data"),
    S(format, "archive_format"),
    S(error, "archive_error_string"),
    S(pathname, "archive_entry_pathname"),
    S(pathname_utf8, "archive_entry_pathname_utf8"),
    S(filetype, "archive_entry_filetype"),
    S(size, "archive_entry_size"),
    S(version, "archive_version_string"),
#undef S
};

static void load(void)
{
    void *library = dlopen("libarchive.so.13", RTLD_NOW | RTLD_LOCAL); /* kept open to the end */
    if (!library) return;
    complete = true;
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        void *found = dlsym(library, symbols[i].name);
        *(void **)(void *)((char *)&api + symbols[i].at) = found;
        complete = complete && found;
    }
}

enum lvn_status lvn_archive_api(const struct lvn_archive_api **out)
{
    pthread_once(&once, load);
    LVN_CHECK(
        complete, UNSUPPORTED,
        "reading archives and compressed files takes libarchive (libarchive.so.13), which is not here: install it "
        "(apt install libarchive13), or unpack them first");
    *out = &api;
    return LVN_OK;
}
