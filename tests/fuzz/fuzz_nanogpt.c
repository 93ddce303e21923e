/* fuzz_nanogpt.c - nanoGPT's config files, which are read and never executed. */
#include "imported.h"

#include "cli/config/config_nanogpt.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static enum lvn_status (*const readers[])(struct lvn_config *, const char *) = {lvn_config_nanogpt_kind,
                                                                                    lvn_config_nanogpt, NULL};
    return import(data, size, readers);
}
