/* fuzz_accelerate.c - the YAML that `accelerate config` writes, or anybody. */
#include "imported.h"

#include "cli/config/config_accelerate.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static enum lvn_status (*const readers[])(struct lvn_config *, const char *) = {lvn_config_accelerate, NULL};
    return import(data, size, readers);
}
