/* post_processor.c - see post_processor.h: post-processors, which add tokens to texts: TemplateProcessing,
 * BertProcessing, RobertaProcessing, ByteLevel (adds none), and Sequence of these. Left out, and refused by name: all
 * others. */
#include "tokenizers/post_processor.h"

#include "tokenizers/load.h"

static enum lvn_status add(struct lvn_template *f, const char *name, enum lvn_template_piece_kind kind, int64_t id,
                           int64_t type)
{
    LVN_CHECK(f->n < LVN_TEMPLATE_MAX, UNSUPPORTED, "'%s': the post-processor puts more than %d tokens around a text",
              name, LVN_TEMPLATE_MAX - 1);
    f->piece[f->n++] = (struct lvn_template_piece){.kind = kind, .id = (int32_t)id, .type = (int32_t)type};
    return LVN_OK;
}

/* Templates without added tokens. */
static void set_plain(struct lvn_tokenizer *t)
{
    t->single = (struct lvn_template){.piece = {{.kind = LVN_TEMPLATE_A}}, .n = 1};
    t->pair = (struct lvn_template){.piece = {{.kind = LVN_TEMPLATE_A}, {.kind = LVN_TEMPLATE_B, .type = 1}}, .n = 2};
}

void lvn_post_processor_bert(struct lvn_tokenizer *t, int32_t first, int32_t last, bool doubled, bool typed)
{
    const struct lvn_template_piece a = {.kind = LVN_TEMPLATE_A}, b = {.kind = LVN_TEMPLATE_B, .type = typed},
                                    begin = {.kind = LVN_TEMPLATE_TOKEN, .id = first},
                                    end = {.kind = LVN_TEMPLATE_TOKEN, .id = last},
                                    end_b = {.kind = LVN_TEMPLATE_TOKEN, .id = last, .type = typed};
    t->single = (struct lvn_template){.piece = {begin, a, end}, .n = 3};
    t->pair = doubled ? (struct lvn_template){.piece = {begin, a, end, end, b, end_b}, .n = 6}
                      : (struct lvn_template){.piece = {begin, a, end, b, end_b}, .n = 5};
}

/* ["[SEP]", 102] */
static enum lvn_status read_token(const struct lvn_tokenizer *t, const char *name, const json_t *object,
                                  const char *key, int32_t *id)
{
    const json_t *value = json_array_get(json_object_get(object, key), 1);
    int64_t n = json_is_integer(value) ? json_integer_value(value) : -1;
    LVN_CHECK(n >= 0 && n < t->n, FORMAT, "'%s': the post-processor's '%s' must be a token and its id, below %lld",
              name, key, (long long)t->n);
    *id = (int32_t)n;
    return LVN_OK;
}

static enum lvn_status read_bert(struct lvn_tokenizer *t, const char *name, const json_t *object)
{
    int32_t first = 0, last = 0;
    bool roberta = !strcmp(lvn_json_type(object), "RobertaProcessing");
    LVN_TRY(read_token(t, name, object, "cls", &first));
    LVN_TRY(read_token(t, name, object, "sep", &last));
    lvn_post_processor_bert(t, first, last, roberta, !roberta);
    return LVN_OK;
}

/* {"SpecialToken": {"id": "[CLS]", "type_id": 0}} or {"Sequence": {"id": "A", "type_id": 0}} */
static enum lvn_status read_piece(const struct lvn_tokenizer *t, struct lvn_template *f, const char *name,
                                  const json_t *piece, const json_t *specials)
{
    const json_t *token = json_object_get(piece, "SpecialToken"), *text = json_object_get(piece, "Sequence"), *id;
    const char *name_of = NULL;
    int64_t type = 0;
    size_t i;
    LVN_CHECK(json_is_object(token) || json_is_object(text), FORMAT,
              "'%s': a template of the post-processor expects parts {\"SpecialToken\": ..} and {\"Sequence\": ..}",
              name);
    LVN_TRY(lvn_json_string(name, token ? token : text, "id", true, &name_of));
    LVN_TRY(lvn_json_int(name, token ? token : text, "type_id", false, 0, 1, &type));
    if (!token) return add(f, name, strcmp(name_of, "B") ? LVN_TEMPLATE_A : LVN_TEMPLATE_B, 0, type);
    const json_t *ids = json_object_get(json_object_get(specials, name_of), "ids");
    LVN_CHECK(json_is_array(ids), FORMAT, "'%s': the post-processor's special_tokens lack '%.60s'", name, name_of);
    json_array_foreach(ids, i, id)
    {
        int64_t n = json_is_integer(id) ? json_integer_value(id) : -1;
        LVN_CHECK(n >= 0 && n < t->n, FORMAT, "'%s': the post-processor's token '%.60s' has no id below %lld", name,
                  name_of, (long long)t->n);
        LVN_TRY(add(f, name, LVN_TEMPLATE_TOKEN, n, type));
    }
    return LVN_OK;
}

/* Read a template; FORMAT unless it has each of its texts once. */
static enum lvn_status read_template_key(const struct lvn_tokenizer *t, struct lvn_template *f, const char *name,
                                         const json_t *object, const char *key, int texts)
{
    size_t i;
    json_t *piece;
    int seen[2] = {0};
    *f = (struct lvn_template){.n = 0};
    json_array_foreach(json_object_get(object, key), i, piece)
        LVN_TRY(read_piece(t, f, name, piece, json_object_get(object, "special_tokens")));
    for (int k = 0; k < f->n; k++)
        if (f->piece[k].kind != LVN_TEMPLATE_TOKEN) seen[f->piece[k].kind]++;
    LVN_CHECK(seen[0] == 1 && seen[1] == texts - 1, FORMAT,
              "'%s': the template '%s' of the post-processor must have %s, once", name, key,
              texts == 1 ? "the text A" : "the texts A and B");
    return LVN_OK;
}

static enum lvn_status read_template(struct lvn_tokenizer *t, const char *name, const json_t *object)
{
    LVN_TRY(read_template_key(t, &t->single, name, object, "single", 1));
    return read_template_key(t, &t->pair, name, object, "pair", 2);
}

static enum lvn_status read_one(struct lvn_tokenizer *t, const char *name, const json_t *object)
{
    const char *type = lvn_json_type(object);
    size_t i;
    json_t *piece;
    if (!strcmp(type, "ByteLevel")) return LVN_OK;
    if (!strcmp(type, "Sequence")) {
        const json_t *list = NULL;
        LVN_TRY(lvn_json_list(name, object, "processors", true, &list));
        json_array_foreach(list, i, piece) LVN_TRY(read_one(t, name, piece));
        return LVN_OK;
    }
    LVN_CHECK(!lvn_post_processor_added_tokens(t, false) && !lvn_post_processor_added_tokens(t, true), UNSUPPORTED,
              "'%s': two post-processors that add tokens are not supported", name);
    if (!strcmp(type, "TemplateProcessing")) return read_template(t, name, object);
    if (!strcmp(type, "BertProcessing") || !strcmp(type, "RobertaProcessing")) return read_bert(t, name, object);
    LVN_FAIL(UNSUPPORTED,
             "'%s': the post-processor '%.40s' is not supported; supported are TemplateProcessing, BertProcessing, "
             "RobertaProcessing, ByteLevel and Sequence",
             name, type);
}

enum lvn_status lvn_post_processor_read(struct lvn_tokenizer *t, const char *name, const json_t *object)
{
    set_plain(t);
    return !object || json_is_null(object) ? LVN_OK : read_one(t, name, object);
}

/* --- using it --- */

int64_t lvn_post_processor_added_tokens(const struct lvn_tokenizer *t, bool pair)
{
    const struct lvn_template *f = pair ? &t->pair : &t->single;
    return f->n - (pair ? 2 : 1);
}

static enum lvn_status append(struct lvn_ids *ids, const int32_t *p, int64_t n)
{
    LVN_TRY(lvn_ids_reserve(ids, n + 1));
    if (n) memcpy(ids->p + ids->n, p, (size_t)n * sizeof *p);
    ids->n += n;
    return LVN_OK;
}

enum lvn_status lvn_post_processor_run(const struct lvn_tokenizer *t, const struct lvn_ids *a, const struct lvn_ids *b,
                                       struct lvn_ids *ids, struct lvn_ids *types)
{
    const struct lvn_template *f = b ? &t->pair : &t->single;
    for (int i = 0; i < f->n; i++) {
        const struct lvn_template_piece *piece = &f->piece[i];
        const struct lvn_ids *text = piece->kind == LVN_TEMPLATE_A ? a : piece->kind == LVN_TEMPLATE_B ? b : NULL;
        int64_t n = text ? text->n : 1;
        LVN_TRY(append(ids, text ? text->p : &piece->id, n));
        if (!types) continue;
        LVN_TRY(lvn_ids_reserve(types, n));
        for (int64_t k = 0; k < n; k++) types->p[types->n++] = piece->type;
    }
    return LVN_OK;
}

/* The pieces of the template for one text before the text, or after it. */
static const struct lvn_template_piece *outer_pieces(const struct lvn_tokenizer *t, bool after, int *n)
{
    const struct lvn_template *f = &t->single;
    int text = 0;
    while (f->piece[text].kind == LVN_TEMPLATE_TOKEN) text++;
    *n = after ? f->n - text - 1 : text;
    return f->piece + (after ? text + 1 : 0);
}

static enum lvn_status append_outer(const struct lvn_tokenizer *t, bool after, struct lvn_ids *ids)
{
    int n;
    const struct lvn_template_piece *piece = outer_pieces(t, after, &n);
    for (int i = 0; i < n; i++) LVN_TRY(append(ids, &piece[i].id, 1));
    return LVN_OK;
}

enum lvn_status lvn_post_processor_prefix(const struct lvn_tokenizer *t, struct lvn_ids *ids)
{
    return append_outer(t, false, ids);
}

enum lvn_status lvn_post_processor_suffix(const struct lvn_tokenizer *t, struct lvn_ids *ids)
{
    return append_outer(t, true, ids);
}

bool lvn_post_processor_is_prefix(const struct lvn_tokenizer *t, int32_t id)
{
    int n;
    const struct lvn_template_piece *piece = outer_pieces(t, false, &n);
    for (int i = 0; i < n; i++)
        if (piece[i].id == id) return true;
    return false;
}

bool lvn_post_processor_is_doubled(const struct lvn_tokenizer *t, const int32_t *ids, int64_t n)
{
    int before;
    (void)outer_pieces(t, false, &before);
    return before && n > before && ids[before] == ids[before - 1];
}
