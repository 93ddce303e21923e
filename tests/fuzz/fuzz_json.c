/* fuzz_json.c - what is read and written again, in either form, reads back as the same value. */
#include <stdint.h>
#include <stdlib.h>

#include "formats/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_form(const json_t *value, int indent)
{
    struct lvn_text t = {0};
    json_t *again;
    lvn_json_add(&t, value, indent);
    if (lvn_json_parse("what was written", lvn_text_string(&t), t.n, &again) != LVN_OK) abort();
    if (!json_equal(value, again)) abort();
    json_decref(again);
    lvn_text_release(&t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *value;
    if (lvn_json_parse("the input", (const char *)data, (int64_t)size, &value) != LVN_OK) return 0;
    check_form(value, 0);
    check_form(value, 2);
    json_decref(value);
    return 0;
}
