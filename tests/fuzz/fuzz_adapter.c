/* fuzz_adapter.c - adapter_config.json of PEFT's folders, with arbitrary contents. An accepted file gives a rank and a
 * scale that adapters can have. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "models/adapter_files.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lvn_adapter_files f = {0};
    json_t *root;
    if (lvn_json_parse("input", (const char *)data, (int64_t)size, &root) == LVN_OK) {
        lvn_arena_init(&f.arena);
        if (lvn_adapter_files_parse(&f, "input", root) == LVN_OK) {
            if (f.lora.rank < 1 || f.lora.rank > 65536 || !isfinite(f.lora.alpha)) abort();
            if (f.base && !*f.base) abort();
        }
        lvn_adapter_files_close(&f);
        json_decref(root);
    }
    lvn_error_clear();
    return 0;
}
