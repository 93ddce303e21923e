/* fuzz_settings.c - an accepted recipe can be written and read again, and is then the same. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "settings/settings.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The settings of a recipe, resolved, as text; NULL if they are refused. */
static char *resolved(const char *text, size_t size)
{
    struct levin_settings s;
    char *yaml = NULL;
    if (lvn_settings_init(&s) == LVN_OK && lvn_settings_read(&s, text, size, "the input") == LVN_OK &&
        lvn_settings_finish(&s, LVN_USES_ALL) == LVN_OK) {
        yaml = lvn_settings_yaml(&s);
    }
    lvn_settings_release(&s);
    return yaml;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *once = resolved((const char *)data, size);
    if (!once) return 0;
    char *twice = resolved(once, strlen(once));
    if (!twice || strcmp(once, twice) != 0) abort();
    free(once);
    free(twice);
    return 0;
}
