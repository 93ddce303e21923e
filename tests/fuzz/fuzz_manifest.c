/* fuzz_manifest.c - manifests of checkpoints.
 *
 * The input is read unchanged, and, because no fuzzer guesses a checksum, once more as the "manifest" of a file whose
 * own checksum is right. In an accepted manifest sizes add up and paths stay inside the directory. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoints/manifest.h"
#include "formats/checksum.h"
#include "formats/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const char *text, int64_t bytes)
{
    struct lvn_arena a;
    struct lvn_manifest m;
    lvn_arena_init(&a);
    if (lvn_manifest_parse(&a, "the input", text, bytes, &m) == LVN_OK) {
        for (int i = 0; i < m.n; i++) {
            int64_t total = m.file[i].start;
            for (int k = 0; k < m.file[i].n; k++) total += m.file[i].tensor[k].bytes;
            const char *path = m.file[i].path;
            if (total != m.file[i].bytes) abort();
            if (path[0] == '/' || strncmp(path, "../", 3) == 0 || strstr(path, "/../")) abort();
        }
        (void)!lvn_manifest_verify("/nowhere", &m, LVN_MANIFEST_ALL);
    }
    lvn_arena_release(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *value;
    check((const char *)data, (int64_t)size);
    if (lvn_json_parse("the input", (const char *)data, (int64_t)size, &value) != LVN_OK) return 0;
    struct lvn_text line = {0}, whole = {0};
    char sum[LVN_CHECKSUM_TEXT];
    lvn_json_add(&line, lvn_json_begin(), value, 0);
    lvn_checksum_text(lvn_checksum(line.p, line.n), sum);
    lvn_text_printf(&whole, "{\"manifest\": %s, \"sum\": \"%s\"}", line.p, sum);
    check(whole.p, whole.n);
    lvn_text_release(&line);
    lvn_text_release(&whole);
    json_decref(value);
    return 0;
}
