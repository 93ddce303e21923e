/* tokenizer_config.c - see tokenizer_config.h. */
#include "tokenizers/tokenizer_config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/log.h"
#include "formats/json.h"
#include "tokenizers/encoder_private.h"
#include "tokenizers/load.h"
#include "tokenizers/post_processor.h"

/* --- keys --- */

/* READ: levin does what transformers does. COMPARED: levin does not; it warns if the value is none of those that
 * transformers would treat in the same way. NONE: neither ids nor the text that they mean depend on it in levin. */
enum effect { READ, COMPARED, NONE };
static const struct {
    const char *key;
    enum effect effect;
    const char *harmless; /* COMPARED: the value, as JSON, that needs no warning, apart from null */
} keys[] = {
    {"add_bos_token", READ, NULL},
    {"add_eos_token", READ, NULL},
    {"add_prefix_space", READ, NULL},
    {"added_tokens_decoder", READ, NULL},
    {"additional_special_tokens", READ, NULL},
    {"extra_special_tokens", READ, NULL},
    {"bos_token", READ, NULL},
    {"eos_token", READ, NULL},
    {"unk_token", READ, NULL}, /* with vocab.txt; in a tokenizer.json the model names it */
    {"sep_token", READ, NULL},
    {"pad_token", READ, NULL},
    {"cls_token", READ, NULL},
    {"mask_token", READ, NULL},
    {"do_lower_case", READ, NULL},
    {"strip_accents", READ, NULL},
    {"tokenize_chinese_chars", READ, NULL},
    {"tokenizer_class", READ, NULL},
    {"do_basic_tokenize", COMPARED, "true"},
    {"never_split", COMPARED, "[]"},
    {"split_special_tokens", COMPARED, "false"},
    {"truncation_side", COMPARED, "\"right\""},
    {"auto_map", NONE, NULL},
    {"backend", NONE, NULL},
    {"chat_control_tokens", NONE, NULL},
    {"chat_template", NONE, NULL},                /* the text of a prompt is what the user gives */
    {"clean_up_tokenization_spaces", NONE, NULL}, /* decoding writes the spaces that the tokens have */
    {"device_map", NONE, NULL},
    {"errors", NONE, NULL},
    {"extra_ids", NONE, NULL},
    {"fix_mistral_regex", NONE, NULL},
    {"from_slow", NONE, NULL},
    {"full_tokenizer_file", NONE, NULL},
    {"init_inputs", NONE, NULL},
    {"is_local", NONE, NULL},
    {"keep_accents", NONE, NULL},
    {"legacy", NONE, NULL},
    {"legacy_behaviour", NONE, NULL},
    {"local_files_only", NONE, NULL},
    {"max_len", NONE, NULL}, /* data.max_length, or the model's context length */
    {"max_length", NONE, NULL},
    {"max_lengths", NONE, NULL},
    {"merges_file", NONE, NULL},
    {"model_input_names", NONE, NULL},
    {"model_max_length", NONE, NULL},
    {"model_specific_special_tokens", NONE, NULL},
    {"name_or_path", NONE, NULL},
    {"pad_to_multiple_of", NONE, NULL}, /* padding is masked in levin */
    {"pad_token_type_id", NONE, NULL},
    {"padding", NONE, NULL},
    {"padding_side", NONE, NULL},
    {"processor_class", NONE, NULL},
    {"remove_space", NONE, NULL},
    {"response_schema", NONE, NULL},
    {"response_template", NONE, NULL},
    {"return_token_type_ids", NONE, NULL},
    {"sp_model_kwargs", NONE, NULL},
    {"spaces_between_special_tokens", NONE, NULL},
    {"special_tokens_map_file", NONE, NULL},
    {"stride", NONE, NULL},
    {"tokenizer_file", NONE, NULL},
    {"trim_offsets", NONE, NULL},
    {"truncation", NONE, NULL},
    {"truncation_strategy", NONE, NULL},
    {"use_default_system_prompt", NONE, NULL},
    {"use_fast", NONE, NULL},
    {"vocab_file", NONE, NULL},
    {"vocab_size", NONE, NULL},
    {"wordpieces_prefix", COMPARED, "\"##\""},
};
enum { N_KEYS = sizeof keys / sizeof keys[0] };

/* The tokens that classes of transformers name, in the order in which transformers adds those that are missing. */
static const char *const named[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                    "pad_token", "cls_token", "mask_token"};
enum { N_NAMED = sizeof named / sizeof named[0], BOS = 0, EOS = 1 };

static int key_index(const char *key)
{
    for (int i = 0; i < N_KEYS; i++)
        if (!strcmp(keys[i].key, key)) return i;
    return -1;
}

bool lvn_tokenizer_config_knows(const char *key)
{
    return key_index(key) >= 0 || lvn_ends_with(key, "_token");
}

/* --- reading --- */

struct config {
    struct lvn_tokenizer *t;
    const char *name;             /* path of tokenizer_config.json, for messages */
    json_t *config;               /* its object */
    json_t *map;                  /* of special_tokens_map.json */
    json_t *added;                /* of added_tokens.json: ids by text */
    const char *class;            /* tokenizer_class without "Fast"; "" */
    bool is_json;                 /* the vocabulary is a tokenizer.json */
    bool is_pair;                 /* ... vocab.json and merges.txt */
    struct lvn_added_token *list; /* (n) added tokens, those of the vocabulary's files first */
    int n;
    int64_t capacity;
};

static const struct lvn_tokenizer_file *file_of(const struct lvn_tokenizer *t, const char *name)
{
    for (int i = 0; i < t->n_files; i++)
        if (!strcmp(t->file[i].name, name)) return &t->file[i];
    return NULL;
}

enum lvn_status lvn_tokenizer_config_parse(const char *name, const char *text, int64_t bytes, json_t **out)
{
    json_error_t error;
    enum lvn_status status = lvn_json_parse(name, text, bytes, out);
    if (status != LVN_FORMAT || !strstr(levin_error_text(), "too big integer")) return status;
    LVN_TRY(lvn_json_load(text, bytes, JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, out, &error));
    if (!*out) return status;
    lvn_error_clear();
    return LVN_OK;
}

static enum lvn_status read_object(struct config *c, const char *name, json_t **out)
{
    const struct lvn_tokenizer_file *f = file_of(c->t, name);
    if (!f) return LVN_OK;
    LVN_TRY(lvn_tokenizer_config_parse(name, f->text, f->bytes, out));
    LVN_CHECK(json_is_object(*out), FORMAT, "'%s' must be a JSON object", name);
    return LVN_OK;
}

static bool is_class(const struct config *c, const char *const *classes)
{
    for (; *classes; classes++)
        if (!strcmp(c->class, *classes)) return true;
    return false;
}

static bool is_true(const struct config *c, const char *key)
{
    return json_is_true(json_object_get(c->config, key));
}

/* Text of a token, which is a string or an object with `content`; NULL: neither. */
static const char *content_of(const json_t *token)
{
    return json_string_value(json_is_object(token) ? json_object_get(token, "content") : token);
}

/* The value of a named token: transformers reads special_tokens_map.json only without added_tokens_decoder. */
static const json_t *value_of(const struct config *c, const char *key)
{
    const json_t *value = json_object_get(c->config, "added_tokens_decoder") ? NULL : json_object_get(c->map, key);
    return value ? value : json_object_get(c->config, key);
}

/* --- added tokens --- */

static struct lvn_added_token *find_added(struct config *c, const char *text)
{
    for (int i = 0; i < c->n; i++)
        if (!strcmp(c->list[i].text, text)) return &c->list[i];
    return NULL;
}

/* Add a token, unless there is one with its text. A text that is not a token of the vocabulary gets the next free id.
 */
static enum lvn_status add(struct config *c, const char *text, const json_t *flags, bool special, bool normalized)
{
    if (!text || !*text || find_added(c, text)) return LVN_OK;
    if (!lvn_arena_list_reserve(&c->t->arena, &c->list, c->n, &c->capacity, c->n + 1, sizeof *c->list))
        return LVN_MEMORY;
    struct lvn_added_token a = {.bytes = (int64_t)strlen(text), .special = special, .normalized = normalized};
    a.text = lvn_arena_strdup(&c->t->arena, text);
    if (!a.text) return LVN_MEMORY;
    if (json_is_object(flags)) {
        LVN_TRY(lvn_json_bool(c->name, flags, "special", false, &a.special));
        LVN_TRY(lvn_json_bool(c->name, flags, "single_word", false, &a.single_word));
        LVN_TRY(lvn_json_bool(c->name, flags, "lstrip", false, &a.lstrip));
        LVN_TRY(lvn_json_bool(c->name, flags, "rstrip", false, &a.rstrip));
        LVN_TRY(lvn_json_bool(c->name, flags, "normalized", false, &a.normalized));
    }
    a.id = lvn_tokenizer_find(c->t, text, a.bytes);
    if (a.id < 0) a.id = (int32_t)c->t->n;
    for (int i = 0; i < c->n && a.id >= c->t->n; i++)
        if (c->list[i].id >= a.id) a.id = c->list[i].id + 1;
    LVN_CHECK(a.id < LVN_TOKENS_MAX, FORMAT, "'%s' adds too many tokens", c->name);
    c->list[c->n++] = a;
    return LVN_OK;
}

struct numbered {
    int64_t id;
    const char *text;
    const json_t *flags;
};

static int by_id(const void *a, const void *b)
{
    const struct numbered *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

static bool is_special(const struct config *c, const char *text)
{
    const json_t *more = value_of(c, "additional_special_tokens"), *one;
    size_t i;
    for (int k = 0; k < N_NAMED; k++) {
        const char *name = content_of(value_of(c, named[k]));
        if (name && !strcmp(name, text)) return true;
    }
    json_array_foreach(more, i, one) if (content_of(one) && !strcmp(content_of(one), text)) return true;
    return false;
}

/* Tokens with ids: added_tokens_decoder, {"id": {"content", ...}}, else added_tokens.json, {"text": id}. */
static enum lvn_status add_numbered(struct config *c, struct numbered *list, size_t n, const char *file)
{
    qsort(list, n, sizeof *list, by_id);
    for (size_t i = 0; i < n; i++) {
        const bool special = !list[i].flags && is_special(c, list[i].text);
        LVN_TRY(add(c, list[i].text, list[i].flags, special, !special));
        const struct lvn_added_token *a = find_added(c, list[i].text);
        if (a && a->id != list[i].id)
            lvn_log_once(
                LVN_LOG_WARN,
                "'%s': %s gives the token '%.60s' the id %lld, and its id is %d, as in transformers 5: the next "
                "free one, or that of the vocabulary",
                c->name, file, list[i].text, (long long)list[i].id, a->id);
    }
    return LVN_OK;
}

static enum lvn_status read_numbered(struct config *c)
{
    const char *key;
    json_t *value, *decoder = json_object_get(c->config, "added_tokens_decoder");
    json_t *from = decoder ? decoder : c->added;
    const char *file = decoder ? "added_tokens_decoder" : "added_tokens.json";
    size_t n = 0;
    struct numbered *list = lvn_calloc(json_object_size(from) + 1, sizeof *list);
    if (!list) return LVN_MEMORY;
    enum lvn_status status = LVN_OK;
    json_object_foreach(from, key, value)
    {
        char *end = NULL;
        struct numbered one = {.text = decoder ? content_of(value) : key, .flags = decoder ? value : NULL};
        one.id = decoder ? strtoll(key, &end, 10) : json_is_integer(value) ? json_integer_value(value) : -1;
        if (!one.text || one.id < 0 || one.id >= LVN_TOKENS_MAX || (end && *end))
            status = lvn_fail(LVN_FORMAT, "'%s': %s must have texts of tokens and their ids, found '%.60s'", c->name,
                              file, key);
        list[n++] = one;
    }
    if (status == LVN_OK) status = add_numbered(c, list, n, file);
    free(list);
    return status;
}

/* Tokens that have a name, and the lists of further special tokens. */
static enum lvn_status read_named(struct config *c)
{
    static const char *const lists[] = {"extra_special_tokens", "additional_special_tokens"};
    const char *key;
    json_t *value;
    size_t i;
    for (int k = 0; k < N_NAMED; k++) {
        const json_t *token = value_of(c, named[k]);
        LVN_TRY(add(c, content_of(token), token, true, false));
    }
    json_object_foreach(c->config, key, value)
    {
        if (key_index(key) < 0 && lvn_ends_with(key, "_token")) LVN_TRY(add(c, content_of(value), value, true, false));
    }
    for (int k = 0; k < 2; k++) {
        const json_t *list = value_of(c, lists[k]);
        json_array_foreach(list, i, value) LVN_TRY(add(c, content_of(value), value, true, false));
        if (!json_is_object(list)) continue;
        json_object_foreach((json_t *)(uintptr_t)list, key, value)
            LVN_TRY(add(c, content_of(value), value, true, false));
    }
    return LVN_OK;
}

/* The special tokens of transformers' classes for these files, if the vocabulary has them. */
static enum lvn_status read_defaults(struct config *c)
{
    static const char *const words[] = {"[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]", NULL};
    static const char *const pair[] = {"<|endoftext|>", NULL};
    if (c->is_json) return LVN_OK;
    for (const char *const *w = c->is_pair ? pair : words; *w; w++)
        if (lvn_tokenizer_find(c->t, *w, (int64_t)strlen(*w)) >= 0) LVN_TRY(add(c, *w, NULL, true, false));
    return LVN_OK;
}

/* Give the tokens that the vocabulary lacks their ids and texts. t->sum stays that of the vocabulary. */
static enum lvn_status extend(struct config *c)
{
    struct lvn_tokenizer *t = c->t;
    const bool space = t->wordpiece; /* WordPiece decodes words with spaces between them */
    int64_t n = t->n, more = 0;
    for (int i = 0; i < c->n; i++) {
        if (c->list[i].id >= n) n = c->list[i].id + 1;
        if (c->list[i].id >= t->n) more += c->list[i].bytes + 1;
    }
    t->added = c->list;
    t->n_added = c->n;
    if (n == t->n) return LVN_OK;
    unsigned char **bytes[] = {&t->byte, &t->decoded};
    uint32_t **starts[] = {&t->start, &t->decoded_start};
    const bool same = t->decoded == t->byte;
    for (int k = 0; k < (same ? 1 : 2); k++) {
        const uint32_t used = (*starts[k])[t->n];
        LVN_CHECK(used + more < UINT32_MAX, UNSUPPORTED, "'%s': the texts of all tokens exceed 4 GiB", t->path);
        unsigned char *byte = lvn_arena_alloc(&t->arena, (size_t)(used + more) + 16);
        uint32_t *start = lvn_arena_alloc(&t->arena, sizeof *start * (size_t)(n + 1));
        if (!byte || !start) return LVN_MEMORY;
        memcpy(byte, *bytes[k], used);
        memcpy(start, *starts[k], sizeof *start * (size_t)(t->n + 1));
        uint32_t at = used;
        for (int64_t id = t->n; id < n; id++) {
            for (int i = 0; i < c->n; i++) {
                if (c->list[i].id != id) continue;
                if (k && space) byte[at++] = ' ';
                memcpy(byte + at, c->list[i].text, (size_t)c->list[i].bytes);
                at += (uint32_t)c->list[i].bytes;
            }
            start[id + 1] = at;
        }
        *bytes[k] = byte;
        *starts[k] = start;
    }
    if (same) t->decoded = t->byte, t->decoded_start = t->start;
    bool *in_model = lvn_arena_alloc(&t->arena, (size_t)n);
    if (!in_model) return LVN_MEMORY;
    memcpy(in_model, t->in_model, (size_t)t->n);
    t->in_model = in_model;
    t->n = n;
    return LVN_OK;
}

/* --- what a tokenizer adds to a text --- */

static int32_t id_of(struct config *c, const char *key)
{
    const char *text = content_of(value_of(c, key));
    const struct lvn_added_token *a = find_added(c, text ? text : c->is_pair ? "<|endoftext|>" : "");
    return a ? a->id : -1;
}

static bool has_token(const struct lvn_template *f, int32_t id, bool after)
{
    bool text = false;
    for (int i = 0; i < f->n; i++) {
        text |= f->piece[i].kind == LVN_TEMPLATE_A;
        if (f->piece[i].kind == LVN_TEMPLATE_TOKEN && f->piece[i].id == id && text == after) return true;
    }
    return false;
}

/* Two files: the keys decide. tokenizer.json: its post-processor does, in transformers 5 as well. */
static void set_bos_eos(struct config *c)
{
    static const char *const keys_of[] = {"add_bos_token", "add_eos_token"};
    const int32_t id[] = {id_of(c, named[BOS]), id_of(c, named[EOS])};
    for (int k = 0; k < 2 && c->is_json; k++) {
        const json_t *value = json_object_get(c->config, keys_of[k]);
        if (!json_is_boolean(value) || id[k] < 0 || json_is_true(value) == has_token(&c->t->single, id[k], k)) continue;
        lvn_log_once(LVN_LOG_WARN,
                     "'%s': %s is %s, and the post_processor of tokenizer.json, which counts (as in transformers 5), "
                     "says the opposite",
                     c->name, keys_of[k], json_is_true(value) ? "true" : "false");
    }
    if (!c->is_pair || c->t->single.n != 1) return;
    struct lvn_template *single = &c->t->single, *pair = &c->t->pair;
    const bool add[] = {is_true(c, keys_of[0]) && id[0] >= 0, is_true(c, keys_of[1]) && id[1] >= 0};
    single->n = pair->n = 0;
    for (int text = 0; text < 2; text++) {
        const struct lvn_template_piece piece[] = {
            {.kind = LVN_TEMPLATE_TOKEN, .id = id[0], .type = text},
            {.kind = text ? LVN_TEMPLATE_B : LVN_TEMPLATE_A, .type = text},
            {.kind = LVN_TEMPLATE_TOKEN, .id = id[1], .type = text},
        };
        for (int i = 0; i < 3; i++) {
            if (i != 1 && !add[i / 2]) continue;
            pair->piece[pair->n++] = piece[i];
            if (!text) single->piece[single->n++] = piece[i];
        }
    }
}

/* Classes of byte-level BPE that make their own pre-tokenizer, also from a tokenizer.json. */
static void set_prefix_space(struct config *c)
{
    static const char *const makers[] = {"GPT2Tokenizer", "GPTNeoXTokenizer", NULL};
    struct lvn_pre_tokenizer *pre = &c->t->pre_tokenizer;
    const json_t *value = json_object_get(c->config, "add_prefix_space");
    const bool prepends = json_is_true(value);
    bool found = false;
    for (int i = 0; i < pre->n; i++) {
        struct lvn_pre_tokenizer_step *s = &pre->step[i];
        if (value && (c->is_pair || (s->bytes && is_class(c, makers)))) {
            s->replacement = " ";
            s->n_replacement = 1;
            s->prepend = prepends ? LVN_PREPEND_ALWAYS : LVN_PREPEND_NEVER;
        }
        found |= s->prepend != LVN_PREPEND_NEVER;
    }
    found |= lvn_normalizer_prepends(&c->t->normalizer);
    if (json_is_boolean(value) && prepends != found)
        lvn_log_once(
            LVN_LOG_WARN,
            "'%s': add_prefix_space is %s, and tokenizer.json, which counts, puts %s space before a text; some "
            "classes of transformers follow add_prefix_space",
            c->name, prepends ? "true" : "false", found ? "a" : "no");
}

static const char *const berts[] = {"BertTokenizer",
                                    "DistilBertTokenizer",
                                    "ElectraTokenizer",
                                    "MobileBertTokenizer",
                                    "ConvBertTokenizer",
                                    "SqueezeBertTokenizer",
                                    "RetriBertTokenizer",
                                    "LxmertTokenizer",
                                    "DPRQuestionEncoderTokenizer",
                                    "LayoutLMTokenizer",
                                    "DPRContextEncoderTokenizer",
                                    NULL};

/* transformers' BertTokenizer makes its own normalizer, also from a tokenizer.json. */
static enum lvn_status set_bert(struct config *c)
{
    struct lvn_normalizer *n = &c->t->normalizer;
    bool lower = true, chinese = true, accents;
    if (!c->is_json || !c->t->wordpiece || !is_class(c, berts)) return LVN_OK;
    LVN_TRY(lvn_json_bool(c->name, c->config, "do_lower_case", false, &lower));
    LVN_TRY(lvn_json_bool(c->name, c->config, "tokenize_chinese_chars", false, &chinese));
    accents = lower;
    LVN_TRY(lvn_json_bool(c->name, c->config, "strip_accents", false, &accents));
    const struct lvn_normalizer_step *s = n->step;
    if (n->n == 1 && s->lower == lower && s->accents == accents && s->chinese == chinese) return LVN_OK;
    lvn_log_once(
        LVN_LOG_WARN,
        "'%s': as in transformers, %s follows do_lower_case, strip_accents and tokenize_chinese_chars here, and "
        "not the normalizer of tokenizer.json, which differs",
        c->name, c->class);
    *n = (struct lvn_normalizer){.step = {lvn_normalizer_bert(lower, accents, chinese)}, .n = 1};
    return LVN_OK;
}

/* --- what differs --- */

static enum lvn_status warn_class(const struct config *c)
{
    static const char *const gpt2[] = {
        "", "GPT2Tokenizer", "GPTNeoXTokenizer", "PreTrainedTokenizer", "TokenizersBackend", NULL};
    static const char *const bert[] = {"", "PreTrainedTokenizer", "TokenizersBackend", NULL};
    if (c->is_json || is_class(c, c->is_pair ? gpt2 : bert) || (!c->is_pair && is_class(c, berts))) return LVN_OK;
    lvn_log_once(LVN_LOG_WARN,
                 "'%s': tokenizer_class is %s, and %s here as %s's, whose ids may differ; "
                 "AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR) of transformers writes a tokenizer.json",
                 c->name, c->class, c->is_pair ? "vocab.json with merges.txt is read" : "vocab.txt is read",
                 c->is_pair ? "GPT-2" : "BERT");
    return LVN_OK;
}

static enum lvn_status warn_keys(const struct config *c)
{
    LVN_LOCAL_TEXT(unknown);
    const long begun = lvn_json_begin();
    const char *key;
    json_t *value;
    json_object_foreach(c->config, key, value)
    {
        const int k = key_index(key);
        if (!lvn_tokenizer_config_knows(key)) lvn_text_printf(&unknown, "%s%s", unknown.n ? ", " : "", key);
        if (k < 0 || keys[k].effect != COMPARED || json_is_null(value)) continue;
        LVN_LOCAL_TEXT(text);
        lvn_json_add(&text, begun, value, 0);
        LVN_TRY(lvn_text_status(&text));
        if (strcmp(lvn_text_string(&text), keys[k].harmless) != 0)
            lvn_log_once(LVN_LOG_WARN, "'%s': %s is %.60s, which has no effect here", c->name, key, text.p);
    }
    LVN_TRY(lvn_text_status(&unknown));
    if (unknown.n)
        lvn_log_once(LVN_LOG_INFO, "'%s': keys that levin does not know, without effect: %s", c->name, unknown.p);
    return LVN_OK;
}

static enum lvn_status apply(struct config *c)
{
    struct lvn_tokenizer *t = c->t;
    LVN_TRY(read_object(c, "tokenizer_config.json", &c->config));
    LVN_TRY(read_object(c, "special_tokens_map.json", &c->map));
    LVN_TRY(read_object(c, "added_tokens.json", &c->added));
    const char *class = json_string_value(json_object_get(c->config, "tokenizer_class"));
    if (class && lvn_ends_with(class, "Fast"))
        class = lvn_arena_printf(&t->arena, "%.*s", (int)strlen(class) - 4, class);
    else if (class)
        class = lvn_arena_strdup(&t->arena, class);
    c->class = class ? class : "";
    LVN_TRY(set_bert(c));
    LVN_TRY(read_numbered(c));
    LVN_TRY(read_named(c));
    LVN_TRY(read_defaults(c));
    LVN_TRY(extend(c));
    LVN_TRY(lvn_added_sets(t));
    set_bos_eos(c);
    set_prefix_space(c);
    if (content_of(value_of(c, named[EOS]))) t->end_id = id_of(c, named[EOS]);
    LVN_TRY(warn_class(c));
    return warn_keys(c);
}

/* --- tokens of data.add_tokens --- */

static const char further[] = "additional_special_tokens";

/* Append the tokens from `first` on to a list of the object, as the members of tokenizer.json or as texts. */
static enum lvn_status put_added(struct config *c, int first, const char *file, json_t *root, const char *key)
{
    LVN_LOCAL_TEXT(text);
    const long begun = lvn_json_begin();
    json_t *list = json_object_get(root, key);
    if (!json_is_array(list)) json_object_set_new(root, key, list = json_array());
    for (int i = first; i < c->n; i++)
        json_array_append_new(list, c->is_json
                                        ? json_pack("{s:i, s:s, s:b, s:b, s:b, s:b, s:b}", "id", (int)c->list[i].id,
                                                    "content", c->list[i].text, "single_word", 0, "lstrip", 0, "rstrip",
                                                    0, "normalized", 0, "special", 1)
                                        : json_string(c->list[i].text));
    lvn_json_add(&text, begun, root, 2);
    LVN_TRY(lvn_text_status(&text));
    return lvn_tokenizer_put_file(c->t, file, lvn_text_string(&text));
}

static enum lvn_status write_added(struct config *c, int first)
{
    const bool in_map = !json_object_get(c->config, "added_tokens_decoder") && json_object_get(c->map, further);
    const char *file = c->is_json ? "tokenizer.json" : in_map ? "special_tokens_map.json" : "tokenizer_config.json";
    json_t *root = NULL;
    LVN_TRY(read_object(c, file, &root));
    if (!root) root = json_object();
    const enum lvn_status status = put_added(c, first, file, root, c->is_json ? "added_tokens" : further);
    json_decref(root);
    return status;
}

static enum lvn_status add_list(struct config *c, const char *list)
{
    struct lvn_tokenizer *t = c->t;
    const int first = c->n;
    LVN_TRY(read_object(c, "tokenizer_config.json", &c->config));
    LVN_TRY(read_object(c, "special_tokens_map.json", &c->map));
    for (size_t n; *list; list += n, list += strspn(list, ", ")) {
        n = strcspn(list, ",");
        const char *text = lvn_arena_printf(&t->arena, "%.*s", (int)n, list);
        if (!text) return LVN_MEMORY;
        LVN_CHECK(lvn_utf8_check(text, (int64_t)n) < 0, ARG, "data.add_tokens: '%.60s' is not UTF-8", text);
        const struct lvn_added_token *a = find_added(c, text);
        const int32_t id = a ? a->id : lvn_tokenizer_find(t, text, (int64_t)n);
        LVN_CHECK(!a || a < c->list + first, ARG, "data.add_tokens names '%.60s' twice", text);
        LVN_CHECK(id < 0, ARG, "data.add_tokens: '%.60s' is a token of '%s' already, with the id %d: leave it out",
                  text, t->path, id);
        LVN_TRY(add(c, text, NULL, true, false));
    }
    if (first == c->n) return LVN_OK;
    LVN_TRY(write_added(c, first));
    LVN_TRY(extend(c));
    LVN_TRY(lvn_added_sets(t));
    lvn_log_once(LVN_LOG_INFO, "data.add_tokens: new special tokens of the tokenizer '%s': %d, from the id %d on",
                 t->path, c->n - first, c->list[first].id);
    if (!c->is_json) return LVN_OK;
    t->n_vocabulary = t->n; /* as in a copy */
    lvn_load_sum(t);
    return LVN_OK;
}

/* Add the tokens of a list; NULL: apply the files. */
static enum lvn_status change(struct lvn_tokenizer *t, const char *name, const char *list)
{
    struct config c = {.t = t, .name = name, .list = t->added, .n = t->n_added, .capacity = t->n_added};
    if (!name) return LVN_MEMORY;
    c.is_json = file_of(t, "tokenizer.json");
    c.is_pair = !c.is_json && file_of(t, "vocab.json");
    const enum lvn_status status = list ? add_list(&c, list) : apply(&c);
    json_decref(c.config);
    json_decref(c.map);
    json_decref(c.added);
    return status;
}

enum lvn_status lvn_tokenizer_config_apply(struct lvn_tokenizer *t, const char *dir)
{
    return change(t, lvn_arena_printf(&t->arena, "%s/tokenizer_config.json", dir), NULL);
}

enum lvn_status lvn_tokenizer_config_add(struct lvn_tokenizer *t, const char *list)
{
    return change(t, t->path, list);
}
