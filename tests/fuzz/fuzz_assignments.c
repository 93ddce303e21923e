/* fuzz_assignments.c - every assignment read from a Python file has a value, and a text that can be read again. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "formats/assignments.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lvn_arena a;
    const struct lvn_assigned *list;
    int n, line = 1;
    lvn_arena_init(&a);
    if (lvn_assignments_parse(&a, "the input", (const char *)data, (int64_t)size, &list, &n) == LVN_OK) {
        for (int i = 0; i < n; i++) {
            if (list[i].line < line || !list[i].text) abort();
            line = list[i].line;
            if (list[i].kind != LVN_ASSIGNED_UNREAD && !list[i].name) abort();
            if (list[i].kind != LVN_ASSIGNED_NUMBER) continue;
            if (!isfinite(list[i].number) || strtod(list[i].text, NULL) != list[i].number) abort();
        }
    }
    lvn_arena_release(&a);
    return 0;
}
