/* imported.h - shared by the targets for other programs' configurations: the input as a file, and a recipe to read it
 * into. Notes and keys are handled as in config.c, without its questions. */
#ifndef LVN_FUZZ_IMPORTED_H
#define LVN_FUZZ_IMPORTED_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cli/config/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum lvn_status lvn_config_note(struct lvn_config *cf, const char *key, const char *format, ...)
{
    char text[600];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    cf->n_notes++;
    return key ? LVN_OK : LVN_INTERNAL;
}

enum lvn_status lvn_config_set(struct lvn_config *cf, const char *key, const char *value, int line)
{
    struct lvn_origin origin = {.source = LVN_SOURCE_RECIPE, .where = line ? "input" : "defaults", .line = line};
    return lvn_settings_set_at(cf->s, key, value, origin);
}

#include "cli/config/config_fp16.c"

/* Read by each of the readers in turn (NULL: the end): the result is a recipe that can be written, or an error
 * sentence. */
static int import(const uint8_t *data, size_t size,
                  enum lvn_status (*const *readers)(struct lvn_config *, const char *))
{
    char path[40];
    int fd = memfd_create("input", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size) abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    for (; *readers; readers++) {
        struct levin_settings s;
        if (lvn_settings_init(&s) != LVN_OK) abort();
        struct lvn_config cf = {.s = &s, .hosts = ""};
        if ((*readers)(&cf, path) != LVN_OK) {
            if (!*levin_error_text()) abort();
        } else {
            free(lvn_settings_yaml(&s));
        }
        lvn_error_clear();
        lvn_settings_release(&s);
    }
    close(fd);
    return 0;
}

#endif
