/* fuzz_template.c - arbitrary chat templates: parsing and rendering end within their limits, the result has a mark for
 * each byte, and rendering again gives the same text. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "templates/chat_template.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const conversation =
    "[{\"role\": \"system\", \"content\": \" be kind\\n\"}, {\"role\": \"user\", \"content\": \"hi \\u00e9 <|end|>\"},"
    " {\"role\": \"assistant\", \"content\": \"<think>x</think>a,b\", \"tool_calls\": [{\"function\": {\"name\": \"f\","
    " \"arguments\": {\"a\": [1, 2.5, null, true], \"items\": \"it's\"}}}]}]";

static enum lvn_status render(const struct lvn_chat_template *t, const json_t *messages, struct lvn_arena *a,
                              struct lvn_rendered *out)
{
    static const struct lvn_tpl_limits limits = {.steps = 20000, .output = 100000, .memory = 4000000};
    static const struct tm now = {.tm_year = 126, .tm_mday = 5};
    struct lvn_tpl_variable v[] = {{.name = "messages"}, {.name = "tools"}, {.name = "add_generation_prompt"}};
    LVN_TRY(lvn_tpl_value_of_messages(a, messages, &v[0].value));
    LVN_TRY(lvn_tpl_value_of_json(a, json_array_get(messages, 2), LVN_MARK_CONTENT, &v[1].value));
    v[2].value = (struct lvn_tpl_value){.kind = LVN_TPL_BOOL, .b = true};
    return lvn_chat_template_render(t, a, v, 3, &now, &limits, out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lvn_chat_template *t;
    if (size > 20000) return 0;
    char *text = malloc(size ? size : 1); /* exactly `size` bytes, so that sanitizers detect a read past the end */
    if (!text) abort();
    if (size) memcpy(text, data, size);
    enum lvn_status status = lvn_chat_template_parse(&t, "fuzz", text, (int64_t)size);
    free(text);
    if (status != LVN_OK) {
        if (!*levin_error_text()) abort();
        return 0;
    }
    json_t *messages = json_loads(conversation, 0, NULL);
    LVN_LOCAL_ARENA(a);
    LVN_LOCAL_ARENA(b);
    struct lvn_rendered first, second;
    if (!messages) abort();
    status = render(t, messages, &a, &first);
    if (render(t, messages, &b, &second) != status) abort();
    if (status == LVN_OK) {
        if (first.n != second.n || memcmp(first.text, second.text, (size_t)first.n) != 0) abort();
        if (first.text[first.n] || lvn_utf8_check(first.text, first.n) >= 0) abort();
        for (int64_t i = 0; i < first.n; i++)
            if (first.marks[i] & ~(LVN_MARK_CONTENT | LVN_MARK_GENERATION) || first.marks[i] != second.marks[i] ||
                (first.marks[i] & LVN_MARK_GENERATION && !lvn_chat_template_has_generation(t)))
                abort();
    } else if (!*levin_error_text()) {
        abort();
    }
    json_decref(messages);
    lvn_chat_template_free(t);
    return 0;
}
