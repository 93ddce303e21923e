/* pickle_value.c - creates and inspects values of a pickle (pickle.h). */

#include "formats/pickle.h"

struct lvn_pickle *lvn_pickle_new(struct lvn_arena *a, enum lvn_pickle_kind kind)
{
    struct lvn_pickle *value = lvn_arena_alloc(a, sizeof *value);
    if (value) value->kind = kind;
    return value;
}

struct lvn_pickle *lvn_pickle_get(const struct lvn_pickle *dict, const char *key)
{
    if (!dict || dict->kind != LVN_PICKLE_DICT) return NULL;
    for (int64_t i = dict->n - 2; i >= 0; i -= 2) {
        const struct lvn_pickle *k = dict->item[i];
        if (k->kind == LVN_PICKLE_TEXT && strcmp(k->text, key) == 0) return dict->item[i + 1];
    }
    return NULL;
}

const char *lvn_pickle_kind_text(const struct lvn_pickle *value)
{
    static const char *const text[] = {
        [LVN_PICKLE_NONE] = "None",       [LVN_PICKLE_BOOL] = "a bool",     [LVN_PICKLE_INT] = "an integer",
        [LVN_PICKLE_REAL] = "a number",   [LVN_PICKLE_TEXT] = "a text",     [LVN_PICKLE_BYTES] = "bytes",
        [LVN_PICKLE_TUPLE] = "a tuple",   [LVN_PICKLE_LIST] = "a list",     [LVN_PICKLE_DICT] = "a dict",
        [LVN_PICKLE_NAME] = "a function", [LVN_PICKLE_OBJECT] = "a tensor", [LVN_PICKLE_MARK] = "a mark",
    };
    return text[value->kind];
}
