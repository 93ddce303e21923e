/* fuzz_accelerate.c - the YAML file of `accelerate config`, with arbitrary contents. */
#include "imported.h"

#include "cli/config/config_accelerate.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static enum lvn_status (*const readers[])(struct lvn_config *, const char *) = {lvn_config_accelerate, NULL};
    return import(data, size, readers);
}
