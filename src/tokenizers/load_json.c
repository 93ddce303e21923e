/* load_json.c - tokenizer.json, as Hugging Face's tokenizers library writes it: {"normalizer", "pre_tokenizer",
 * "added_tokens", "model": {"vocab", "merges"}}. Merges are "a b" in older files, ["a", "b"] in newer ones.
 *
 * What decides on ids is read or refused; what decides on other things (padding, truncation, templates) is passed over.
 */
#include <string.h>

#include "tokenizers/load.h"
#include "tokenizers/unicode.h"

static const char *type_of(const json_t *object)
{
    const char *type = json_string_value(json_object_get(object, "type"));
    return type ? type : "(none)";
}

static bool is_on(const json_t *object, const char *key, bool otherwise)
{
    const json_t *value = json_object_get(object, key);
    return json_is_boolean(value) ? json_is_true(value) : otherwise;
}

/* --- what happens to text before it is merged --- */

static enum lvn_status normalizer(struct lvn_tokenizer *t, const char *name, const json_t *n)
{
    size_t i;
    json_t *part;
    if (!n || json_is_null(n)) return LVN_OK;
    const char *type = type_of(n);
    if (!strcmp(type, "NFC")) {
        t->nfc = true;
        return LVN_OK;
    }
    LVN_CHECK(!strcmp(type, "Sequence"), UNSUPPORTED, "'%s': the normalizer '%.40s' is not there; only NFC is", name,
              type);
    json_array_foreach(json_object_get(n, "normalizers"), i, part)
    {
        LVN_CHECK(!strcmp(type_of(part), "NFC"), UNSUPPORTED, "'%s': the normalizer '%.40s' is not there; only NFC is",
                  name, type_of(part));
        t->nfc = true;
    }
    return LVN_OK;
}

static enum lvn_status byte_level(struct lvn_tokenizer *t, const json_t *p)
{
    t->prefix_space = is_on(p, "add_prefix_space", true);
    if (is_on(p, "use_regex", true)) t->split = LVN_SPLIT_BYTE_LEVEL;
    return LVN_OK;
}

static enum lvn_status split(struct lvn_tokenizer *t, const char *name, const json_t *p)
{
    const char *expression = json_string_value(json_object_get(json_object_get(p, "pattern"), "Regex"));
    const char *behavior = json_string_value(json_object_get(p, "behavior"));
    LVN_CHECK(expression, UNSUPPORTED, "'%s': the pre-tokenizer splits by something else than a regular expression",
              name);
    bool whole = (behavior && !strcmp(behavior, "Isolated") && !is_on(p, "invert", false)) ||
                 (behavior && !strcmp(behavior, "Removed") && is_on(p, "invert", false));
    LVN_CHECK(whole, UNSUPPORTED, "'%s': the pre-tokenizer's split '%.40s' is not there; only 'Isolated' is", name,
              behavior ? behavior : "(none)");
    int kind = lvn_split_find(expression);
    LVN_CHECK(kind >= 0, UNSUPPORTED,
              "'%s' splits text by the expression '%.200s', which this version does not know; it knows those of %s",
              name, expression, lvn_split_known);
    t->split = (enum lvn_split_kind)kind;
    return LVN_OK;
}

static enum lvn_status pre_tokenizer(struct lvn_tokenizer *t, const char *name, const json_t *p)
{
    if (!strcmp(type_of(p), "ByteLevel")) return byte_level(t, p);
    const json_t *parts = json_object_get(p, "pretokenizers");
    bool known = !strcmp(type_of(p), "Sequence") && json_array_size(parts) == 2;
    const json_t *first = json_array_get(parts, 0), *second = json_array_get(parts, 1);
    known = known && !strcmp(type_of(first), "Split") && !strcmp(type_of(second), "ByteLevel") &&
            !is_on(second, "use_regex", true);
    LVN_CHECK(known, UNSUPPORTED,
              "'%s': the pre-tokenizer '%.40s' is not there; this version reads byte-level BPE: ByteLevel, or a Split "
              "before it",
              name, type_of(p));
    LVN_TRY(byte_level(t, second));
    LVN_CHECK(!t->prefix_space, UNSUPPORTED, "'%s': add_prefix_space behind a Split is not there", name);
    return split(t, name, first);
}

/* --- added tokens --- */

static enum lvn_status added_token(struct lvn_tokenizer *t, const char *name, const json_t *object)
{
    const char *content = NULL;
    int64_t id = -1;
    struct lvn_added_token *a = &t->added[t->n_added];
    LVN_TRY(lvn_json_string(name, object, "content", true, &content));
    LVN_TRY(lvn_json_int(name, object, "id", true, 0, (1 << 24) - 1, &id));
    LVN_CHECK(*content, FORMAT, "'%s': the added token %lld is empty", name, (long long)id);
    a->text = lvn_arena_strdup(&t->arena, content);
    if (!a->text) return LVN_MEMORY;
    a->bytes = (int64_t)strlen(content);
    a->id = (int32_t)id;
    LVN_TRY(lvn_json_bool(name, object, "special", false, &a->special));
    LVN_TRY(lvn_json_bool(name, object, "single_word", false, &a->single_word));
    LVN_TRY(lvn_json_bool(name, object, "lstrip", false, &a->lstrip));
    LVN_TRY(lvn_json_bool(name, object, "rstrip", false, &a->rstrip));
    LVN_TRY(lvn_json_bool(name, object, "normalized", false, &a->normalized));
    t->n_added++;
    return LVN_OK;
}

static enum lvn_status added_tokens(struct lvn_tokenizer *t, const char *name, const json_t *list)
{
    size_t i;
    json_t *object;
    size_t room = json_array_size(list) + 1;
    t->added = lvn_arena_alloc(&t->arena, sizeof *t->added * room);
    if (!t->added) return LVN_MEMORY;
    json_array_foreach(list, i, object)
    {
        LVN_CHECK(json_is_object(object), FORMAT, "'%s': added_tokens must be a list of objects", name);
        LVN_TRY(added_token(t, name, object));
    }
    return LVN_OK;
}

/* --- the model --- */

static enum lvn_status check_model(const char *name, const json_t *model)
{
    const json_t *type = json_object_get(model, "type");
    LVN_CHECK(!type || (json_is_string(type) && !strcmp(json_string_value(type), "BPE")), UNSUPPORTED,
              "'%s' is a tokenizer of the kind '%.40s'; this version reads byte-level BPE", name, type_of(model));
    static const char *const affixes[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    for (int i = 0; i < 2; i++) {
        const char *affix = json_string_value(json_object_get(model, affixes[i]));
        LVN_CHECK(!affix || !*affix, UNSUPPORTED, "'%s': %s is '%.20s', which byte-level BPE has not", name, affixes[i],
                  affix);
    }
    const json_t *dropout = json_object_get(model, "dropout");
    LVN_CHECK(!json_is_number(dropout) || json_number_value(dropout) == 0, UNSUPPORTED,
              "'%s': merges that are dropped at random (dropout) are not there", name);
    LVN_CHECK(!is_on(model, "byte_fallback", false), UNSUPPORTED,
              "'%s' falls back to bytes, as SentencePiece does; this version reads byte-level BPE", name);
    LVN_CHECK(json_is_object(json_object_get(model, "vocab")) && json_is_array(json_object_get(model, "merges")),
              FORMAT, "'%s': model.vocab and model.merges are missing: it is no tokenizer.json of byte-level BPE",
              name);
    return LVN_OK;
}

static enum lvn_status merges(struct lvn_tokenizer *t, const char *name, const json_t *vocab, const json_t *list)
{
    size_t i;
    json_t *merge;
    json_array_foreach(list, i, merge)
    {
        const char *a = json_string_value(merge), *gap = a ? strchr(a, ' ') : NULL, *b = gap ? gap + 1 : NULL;
        size_t n = gap ? (size_t)(gap - a) : 0;
        if (json_is_array(merge) && json_array_size(merge) == 2) {
            a = json_string_value(json_array_get(merge, 0));
            b = json_string_value(json_array_get(merge, 1));
            n = a ? strlen(a) : 0;
        }
        LVN_CHECK(a && b, FORMAT, "'%s': model.merges[%zu] must be a text of two tokens or a list of two", name, i);
        LVN_TRY(lvn_load_merge(t, name, (int64_t)i, vocab, a, n, b, strlen(b)));
    }
    return LVN_OK;
}

static enum lvn_status read_root(struct lvn_tokenizer *t, const char *name, const json_t *root)
{
    const json_t *model = json_object_get(root, "model"), *vocab = json_object_get(model, "vocab");
    LVN_CHECK(json_is_object(model), FORMAT, "'%s' has no 'model': it is no tokenizer.json", name);
    LVN_TRY(check_model(name, model));
    LVN_TRY(normalizer(t, name, json_object_get(root, "normalizer")));
    LVN_TRY(pre_tokenizer(t, name, json_object_get(root, "pre_tokenizer")));
    LVN_TRY(added_tokens(t, name, json_object_get(root, "added_tokens")));
    const json_t *list = json_object_get(model, "merges");
    LVN_TRY(lvn_bpe_init(&t->bpe, (int64_t)json_array_size(list)));
    LVN_TRY(lvn_load_tokens(t, name, vocab));
    LVN_TRY(merges(t, name, vocab, list));
    if (is_on(model, "ignore_merges", false)) LVN_TRY(lvn_load_whole(t, name, vocab));
    return lvn_added_sets(t);
}

enum lvn_status lvn_load_json(struct lvn_tokenizer *t, const char *name, const char *text, int64_t bytes)
{
    json_t *root;
    LVN_TRY(lvn_json_parse(name, text, bytes, &root));
    enum lvn_status status = read_root(t, name, root);
    json_decref(root);
    return status == LVN_OK ? lvn_load_keep(t, "tokenizer.json", text, bytes) : status;
}
