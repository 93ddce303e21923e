/* fuzz_template.c - a template that is accepted renders to a text or to a sentence, and values that are accepted are
 * written as YAML that reads back. The input is values and a template, with a line `---` between them. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "formats/template/template.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void write_values(struct lvn_arena *a, const struct lvn_variant *v)
{
    LVN_LOCAL_TEXT(t);
    LVN_LOCAL_TEXT(again);
    const struct lvn_yaml *top;
    struct lvn_variant *back;
    if (!v->n || lvn_variant_yaml(a, &t, v) != LVN_OK) return;
    if (lvn_yaml_parse(a, "values", t.p, t.n, &top) != LVN_OK) abort();
    if (lvn_variant_from_yaml(a, top, "values", &back) != LVN_OK) abort();
    if (lvn_variant_yaml(a, &again, back) != LVN_OK || strcmp(t.p, again.p)) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    LVN_LOCAL_ARENA(a);
    LVN_LOCAL_TEXT(out);
    struct lvn_templates t = {.arena = &a};
    const struct lvn_yaml *top;
    struct lvn_variant *values;
    if (size > 4096) return 0;
    char *text = lvn_arena_printf(&a, "%.*s", (int)size, (const char *)data), *template = strstr(text, "\n---\n");
    if (template) {
        *template = '\0';
        template += 5;
    } else {
        template = text + strlen(text);
    }
    if (lvn_yaml_parse(&a, "values", text, (int64_t)strlen(text), &top) != LVN_OK) return 0;
    if (lvn_variant_from_yaml(&a, top, "values", &values) != LVN_OK) return 0;
    write_values(&a, values);
    if (lvn_template_parse(&t, "template", template) != LVN_OK) return 0;
    if (lvn_template_render(&t, "template", values, &out, NULL) == LVN_OK && lvn_text_status(&out) != LVN_OK) abort();
    return 0;
}
