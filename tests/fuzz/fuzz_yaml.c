/* fuzz_yaml.c - an accepted recipe is a tree within its limits, and its scalars can be written and read again. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "formats/yaml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_scalar(const char *text)
{
    struct lvn_arena a;
    struct lvn_text t = {0};
    const struct lvn_yaml *top;
    lvn_arena_init(&a);
    lvn_text_add(&t, "key: ");
    lvn_yaml_add_scalar(&t, text);
    if (lvn_yaml_parse(&a, "a scalar", lvn_text_string(&t), t.n, &top) != LVN_OK) abort();
    if (strcmp(lvn_yaml_get(top, "key")->text, text) != 0) abort();
    lvn_text_release(&t);
    lvn_arena_release(&a);
}

static void visit(const struct lvn_yaml *node, int depth, int *scalars)
{
    if (depth > 33 || node->line < 1) abort();
    if (node->kind == LVN_YAML_SCALAR) {
        if (++*scalars <= 20) check_scalar(node->text);
        return;
    }
    int n = 0;
    for (const struct lvn_yaml *c = node->child; c; c = c->next, n++) {
        if ((node->kind == LVN_YAML_MAP) != (c->key != NULL)) abort();
        if (c->key && n < 20 && lvn_yaml_get(node, c->key) != c) abort(); /* no key twice */
        visit(c, depth + 1, scalars);
    }
    if (n != node->n) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lvn_arena a;
    const struct lvn_yaml *top;
    int scalars = 0;
    lvn_arena_init(&a);
    if (lvn_yaml_parse(&a, "the input", (const char *)data, (int64_t)size, &top) == LVN_OK) visit(top, 1, &scalars);
    lvn_arena_release(&a);
    return 0;
}
