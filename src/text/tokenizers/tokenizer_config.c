/* tokenizer_config.c - see tokenizer_config.h. */
#include "tokenizers/tokenizer_config.h"

#include "base/files.h"
#include "base/list.h"
#include "base/log.h"
#include "formats/json_scan.h"
#include "tokenizers/decoder.h"
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
    {"fix_mistral_regex", READ, NULL}, /* warn_expression() */
    {"from_slow", NONE, NULL},
    {"full_tokenizer_file", NONE, NULL},
    {"init_inputs", NONE, NULL},
    {"is_local", NONE, NULL},
    {"keep_accents", NONE, NULL},
    {"legacy", READ, NULL}, /* of LlamaTokenizer */
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
static const char config_json[] = "tokenizer_config.json", decoder_key[] = "added_tokens_decoder",
                  class_key[] = "tokenizer_class";
enum { CONFIG_BYTES = 16 << 20 };
enum { N_KEYS = sizeof keys / sizeof keys[0] };

/* The tokens that classes of transformers name, in the order in which transformers adds those that are missing. */
static const char *const named[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                    "pad_token", "cls_token", "mask_token"};
enum { N_NAMED = sizeof named / sizeof named[0], BOS = 0, EOS = 1, MASK = 6 };

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
    json_t *config;               /* its object, with the members of special_tokens_map.json that count */
    json_t *map;                  /* of special_tokens_map.json; NULL: none, or it does not count */
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

static enum lvn_status read_object(const struct lvn_tokenizer *t, const char *name, json_t **out)
{
    const struct lvn_tokenizer_file *f = file_of(t, name);
    if (!f) return LVN_OK;
    LVN_TRY(lvn_json_parse(name, f->text, f->bytes, out));
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

/* Read both files. transformers reads special_tokens_map.json only without added_tokens_decoder; its values count. */
static enum lvn_status read_config(const struct lvn_tokenizer *t, json_t **config, json_t **map)
{
    LVN_TRY(read_object(t, config_json, config));
    LVN_TRY(read_object(t, "special_tokens_map.json", map));
    if (!*config && !(*config = json_object())) return LVN_MEMORY;
    if (*map) json_object_del(*map, class_key); /* without effect, as in transformers */
    if (!json_object_get(*config, decoder_key)) return *map && json_object_update(*config, *map) ? LVN_MEMORY : LVN_OK;
    json_decref(*map);
    *map = NULL;
    return LVN_OK;
}

enum lvn_status lvn_tokenizer_named(const struct lvn_tokenizer *t, json_t **out)
{
    json_t *map = NULL, *value;
    const char *key;
    void *next;
    *out = NULL;
    enum lvn_status status = read_config(t, out, &map);
    json_object_foreach_safe(*out, next, key, value)
    {
        const char *text = lvn_ends_with(key, "_token") ? content_of(value) : NULL;
        if (!text)
            json_object_del(*out, key);
        else if (json_is_object(value) && json_object_set_new(*out, key, json_string(text)))
            status = LVN_MEMORY;
    }
    json_decref(map);
    return status;
}

int32_t lvn_tokenizer_named_id(const struct lvn_tokenizer *t, const json_t *tokens, const char *key)
{
    const char *text = json_string_value(json_object_get(tokens, key));
    return text ? lvn_tokenizer_find(t, text, (int64_t)strlen(text)) : -1;
}

/* --- added tokens --- */

static struct lvn_added_token *find_added(struct config *c, const char *text)
{
    for (int i = 0; i < c->n; i++)
        if (!strcmp(c->list[i].text, text)) return &c->list[i];
    return NULL;
}

static enum lvn_status read_flags(const struct config *c, const json_t *flags, struct lvn_added_token *a)
{
    LVN_TRY(lvn_json_bool(c->name, flags, "special", false, &a->special));
    LVN_TRY(lvn_json_bool(c->name, flags, "single_word", false, &a->single_word));
    LVN_TRY(lvn_json_bool(c->name, flags, "lstrip", false, &a->lstrip));
    LVN_TRY(lvn_json_bool(c->name, flags, "rstrip", false, &a->rstrip));
    return lvn_json_bool(c->name, flags, "normalized", false, &a->normalized);
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
    if (json_is_object(flags)) LVN_TRY(read_flags(c, flags, &a));
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

static const char *const lists[] = {"extra_special_tokens", "additional_special_tokens"};

static bool is_special(const struct config *c, const char *text)
{
    const json_t *one;
    size_t i;
    for (int k = 0; k < N_NAMED; k++) {
        const char *name = content_of(json_object_get(c->config, named[k]));
        if (name && !strcmp(name, text)) return true;
    }
    for (int k = 0; k < 2; k++) json_array_foreach(json_object_get(c->config, lists[k]), i, one)
        {
            if (content_of(one) && !strcmp(content_of(one), text)) return true;
        }
    return false;
}

/* Tokens with ids: added_tokens_decoder, {"id": {"content", ...}}, else added_tokens.json, {"text": id}. */
static enum lvn_status add_numbered(struct config *c, struct numbered *list, size_t n, const char *file)
{
    const struct numbered *first = NULL; /* of those whose ids differ */
    int others = -1;
    qsort(list, n, sizeof *list, by_id);
    for (size_t i = 0; i < n; i++) {
        const json_t *flags = list[i].flags;
        const bool special = flags ? json_is_true(json_object_get(flags, "special")) : is_special(c, list[i].text);
        struct lvn_added_token *a = find_added(c, list[i].text);
        if (a && json_is_object(flags)) { /* transformers adds it again, with these flags */
            *a = (struct lvn_added_token){.text = a->text, .bytes = a->bytes, .id = a->id, .normalized = !special};
            LVN_TRY(read_flags(c, flags, a));
        }
        LVN_TRY(add(c, list[i].text, flags, special, !special));
        a = find_added(c, list[i].text);
        if (!a || a->id == list[i].id) continue;
        if (!first) first = &list[i];
        others++;
    }
    if (first)
        lvn_log_once(LVN_LOG_WARN,
                     "'%s': %s gives the token '%.60s' the id %lld, and its id is %d, as in transformers 5: the next "
                     "free one, or that of the vocabulary; other such tokens: %d",
                     c->name, file, first->text, (long long)first->id, find_added(c, first->text)->id, others);
    return LVN_OK;
}

static enum lvn_status read_numbered(struct config *c)
{
    const char *key;
    json_t *value, *decoder = json_object_get(c->config, decoder_key);
    json_t *from = decoder ? decoder : c->added;
    const char *file = decoder ? decoder_key : "added_tokens.json";
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

/* A token that has a name is special, unless it is one of tokenizer.json that added_tokens_decoder lacks: transformers
 * does not add these again. */
static enum lvn_status add_named(struct config *c, const char *text, const json_t *flags)
{
    const char *key;
    json_t *one, *decoder = json_object_get(c->config, decoder_key);
    if (!text || !*text) return LVN_OK;
    bool again = !decoder || !find_added(c, text);
    LVN_TRY(add(c, text, flags, true, false));
    json_object_foreach(decoder, key, one) again |= content_of(one) && !strcmp(content_of(one), text);
    if (again) find_added(c, text)->special = true;
    return LVN_OK;
}

/* Tokens that have a name, and the lists of further special tokens. */
static enum lvn_status read_named(struct config *c)
{
    const char *key;
    json_t *value;
    size_t i;
    for (int k = 0; k < N_NAMED; k++) {
        const json_t *token = json_object_get(c->config, named[k]);
        LVN_TRY(add_named(c, content_of(token), token));
    }
    json_object_foreach(c->config, key, value)
    {
        if (key_index(key) < 0 && lvn_ends_with(key, "_token")) LVN_TRY(add_named(c, content_of(value), value));
    }
    for (int k = 0; k < 2; k++) {
        const json_t *list = json_object_get(c->config, lists[k]);
        json_array_foreach(list, i, value) LVN_TRY(add(c, content_of(value), value, true, false));
        if (!json_is_object(list)) continue;
        json_object_foreach((json_t *)(uintptr_t)list, key, value) LVN_TRY(add_named(c, content_of(value), value));
    }
    return LVN_OK;
}

/* The special tokens of transformers' classes for these files, if the vocabulary has them. */
static enum lvn_status read_defaults(struct config *c)
{
    static const char *const words[] = {"[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]", NULL};
    static const char *const pair[] = {"<|endoftext|>", NULL};
    static const struct {
        const char *class, *text[N_NAMED];
    } json[] = {{"LlamaTokenizer", {"<s>", "</s>", "<unk>"}},
                {"GemmaTokenizer", {"<bos>", "<eos>", "<unk>", NULL, "<pad>", NULL, "<mask>"}}};
    for (int i = 0; i < 2 * N_NAMED && c->is_json; i++) {
        const char *text = json[i / N_NAMED].text[i % N_NAMED];
        if (text && !strcmp(c->class, json[i / N_NAMED].class) && !json_object_get(c->config, named[i % N_NAMED]) &&
            lvn_tokenizer_find(c->t, text, (int64_t)strlen(text)) >= 0)
            LVN_TRY(add_named(c, text, NULL));
    }
    if (c->is_json) return LVN_OK;
    for (const char *const *w = c->is_pair ? pair : words; *w; w++)
        if (lvn_tokenizer_find(c->t, *w, (int64_t)strlen(*w)) >= 0) LVN_TRY(add(c, *w, NULL, true, false));
    return LVN_OK;
}

/* Give the tokens that the vocabulary lacks their ids and texts. */
static enum lvn_status extend(struct config *c)
{
    struct lvn_tokenizer *t = c->t;
    int64_t n = t->n, more = 0;
    for (int i = 0; i < c->n; i++) {
        if (c->list[i].id >= n) n = c->list[i].id + 1;
        if (c->list[i].id >= t->n) more += c->list[i].bytes;
    }
    t->added = c->list;
    t->n_added = c->n;
    if (n == t->n) return LVN_OK;
    const uint32_t used = t->start[t->n];
    LVN_CHECK(used + more < UINT32_MAX, UNSUPPORTED, "'%s': the texts of all tokens exceed 4 GiB", t->path);
    unsigned char *byte = lvn_arena_alloc(&t->arena, (size_t)(used + more) + 16);
    uint32_t *start = lvn_arena_alloc(&t->arena, sizeof *start * (size_t)(n + 1));
    if (!byte || !start) return LVN_MEMORY;
    memcpy(byte, t->byte, used);
    memcpy(start, t->start, sizeof *start * (size_t)(t->n + 1));
    uint32_t at = used;
    for (int64_t id = t->n; id < n; id++) {
        for (int i = 0; i < c->n; i++) {
            if (c->list[i].id != id) continue;
            memcpy(byte + at, c->list[i].text, (size_t)c->list[i].bytes);
            at += (uint32_t)c->list[i].bytes;
        }
        start[id + 1] = at;
    }
    t->byte = byte;
    t->start = start;
    bool *in_model = lvn_arena_alloc(&t->arena, (size_t)n);
    if (!in_model) return LVN_MEMORY;
    memcpy(in_model, t->in_model, (size_t)t->n);
    t->in_model = in_model;
    t->n = n;
    return LVN_OK;
}

/* t->sum stays that of the vocabulary. */
static enum lvn_status finish(struct config *c)
{
    LVN_TRY(extend(c));
    LVN_TRY(lvn_added_sets(c->t));
    return lvn_decoder_run(c->t);
}

/* --- what a tokenizer adds to a text --- */

static int32_t id_of(struct config *c, const char *key)
{
    const char *text = content_of(json_object_get(c->config, key));
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

/* --- LlamaTokenizer --- */

enum { TYPE_TEXT = 32 };
/* model_type of the folder's config.json; exists: there is such a file. */
static enum lvn_status read_model_type(const char *dir, char type[TYPE_TEXT], bool *exists)
{
    LVN_LOCAL_ARENA(a);
    const char *path = lvn_path_join(&a, dir, "config.json");
    char *text;
    int64_t bytes;
    json_t *root;
    *type = '\0';
    *exists = false;
    if (!path) return LVN_MEMORY;
    if (!lvn_path_is_file(path)) return LVN_OK;
    *exists = true;
    LVN_TRY(lvn_file_read(path, CONFIG_BYTES, &text, &bytes));
    enum lvn_status status = lvn_json_parse(path, text, bytes, &root);
    free(text);
    if (status == LVN_MEMORY) return status;
    lvn_error_clear(); /* the reader of the model reports a damaged file */
    const char *found = json_string_value(json_object_get(root, "model_type"));
    snprintf(type, TYPE_TEXT, "%s", found ? found : "");
    json_decref(root);
    return LVN_OK;
}

/* Types of models with whose folders transformers reads tokenizer.json as it is, whatever the class. */
static bool keeps_chain(const char *type)
{
    static const char *const types[] = {"mistral",   "mistral3",  "ministral", "ministral3", "mixtral",  "pixtral",
                                        "voxtral",   "phi3",      "phi3_v",    "phimoe",     "llava",    "llava_next",
                                        "vipllava",  "internlm2", "internlm3", "minicpm3",   "minicpmv", "jamba",
                                        "persimmon", "fuyu",      "aria",      "qwen2"};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (!strcmp(type, types[i])) return true;
    return false;
}

/* Set a member of one of the tokenizer's files, which exists and has members, for copies. */
static enum lvn_status put_member(struct config *c, const char *file, const char *member, const char *value)
{
    LVN_LOCAL_ARENA(a);
    LVN_LOCAL_TEXT(text);
    if (!value) return LVN_MEMORY;
    const struct lvn_tokenizer_file *f = file_of(c->t, file);
    struct lvn_json_scan s = lvn_json_scan_begin(file, f->text, f->bytes, &a);
    const char *key, *done = f->text;
    int64_t bytes;
    bool more, found = false;
    LVN_TRY(lvn_json_scan_enter(&s, '{'));
    const char *first = s.at;
    for (int64_t i = 0;; i++) {
        LVN_TRY(lvn_json_scan_next(&s, '}', i, &more));
        if (!more) break;
        LVN_TRY(lvn_json_scan_key(&s, &key, &bytes));
        (void)lvn_json_scan_peek(&s);
        const bool is = bytes == (int64_t)strlen(member) && !memcmp(key, member, (size_t)bytes);
        if (is) lvn_text_add_bytes(&text, done, s.at - done);
        if (is) lvn_text_add(&text, value);
        LVN_TRY(lvn_json_scan_skip(&s, NULL));
        if (is) done = s.at;
        found |= is;
    }
    if (!found) lvn_text_printf(&text, "{\"%s\": %s,", member, value), done = first;
    lvn_text_add_bytes(&text, done, s.end - done);
    LVN_TRY(lvn_text_status(&text));
    return lvn_tokenizer_put_file(c->t, file, lvn_text_string(&text));
}

/* transformers' LlamaTokenizer makes its own tokenizer of the vocabulary and the merges of a tokenizer.json, except in
 * folders of some models. Copies say what holds here, so that it does not depend on the model that they belong to. */
static enum lvn_status set_llama(struct config *c, const char *dir)
{
    static const char *const schemes[] = {"never", "first", "always"}, *const llama[] = {"LlamaTokenizer", NULL};
    struct lvn_tokenizer *t = c->t;
    struct lvn_pre_tokenizer *pre = &t->pre_tokenizer;
    if (!c->is_json || !is_class(c, llama)) return LVN_OK;
    const bool never = json_is_false(json_object_get(c->config, "add_prefix_space"));
    const enum lvn_prepend_scheme prepend = never                  ? LVN_PREPEND_NEVER
                                            : is_true(c, "legacy") ? LVN_PREPEND_ALWAYS
                                                                   : LVN_PREPEND_FIRST;
    const struct lvn_pre_tokenizer_step *s = pre->step;
    const bool same = !t->normalizer.n && pre->n && s->replace_spaces && s->prepend == prepend &&
                      s->kind == LVN_PRE_NOTHING && !strcmp(s->replacement, "\xe2\x96\x81");
    char type[TYPE_TEXT];
    bool exists;
    LVN_TRY(read_model_type(dir, type, &exists));
    const bool keeps = keeps_chain(type);
    if (keeps || t->model != LVN_TOKENIZER_CHARACTERS) c->class = "PreTrainedTokenizerFast";
    if (t->model != LVN_TOKENIZER_CHARACTERS) return LVN_OK;
    if (keeps) return same ? LVN_OK : put_member(c, config_json, class_key, "\"PreTrainedTokenizerFast\"");
    t->ignore_merges = false;
    t->byte_fallback = t->fuse_unknown = true;
    for (int b = 0; b < 256; b++)
        if (t->fallback[b] < 0) t->unknown = -1;
    t->normalizer.n = 0;
    pre->n = 1;
    pre->step[0] = (struct lvn_pre_tokenizer_step){
        .prepend = prepend, .replacement = "\xe2\x96\x81", .n_replacement = 3, .replace_spaces = true};
    lvn_load_split_words(t);
    LVN_TRY(lvn_decoder_sentencepiece(t, !never));
    if (same) return LVN_OK;
    lvn_log_once(
        exists ? LVN_LOG_INFO : LVN_LOG_WARN,
        "'%s': as in transformers 5, LlamaTokenizer ignores the normalizer and the pre_tokenizer of tokenizer.json: a "
        "space is put before %s%s",
        c->name,
        never                           ? "no text"
        : prepend == LVN_PREPEND_ALWAYS ? "a text and after each added token"
                                        : "a text, and not after added tokens",
        exists ? "" : "; put the model's config.json there: if it is a Mistral's, for example, tokenizer.json counts");
    LVN_TRY(put_member(c, "tokenizer.json", "normalizer", "null"));
    return put_member(c, "tokenizer.json", "pre_tokenizer",
                      lvn_arena_printf(&t->arena,
                                       "{\"type\": \"Metaspace\", \"replacement\": \"\xe2\x96\x81\", "
                                       "\"prepend_scheme\": \"%s\", \"split\": false}",
                                       schemes[prepend]));
}

static const char *const qwen[] = {"Qwen2Tokenizer", NULL};

/* transformers' Qwen2Tokenizer, also the class of Qwen 2 to 3 models without tokenizer_class, differs from
 * GPT2Tokenizer in its normalizer and in the split into pieces. */
static enum lvn_status set_qwen(struct config *c, const char *dir)
{
    struct lvn_normalizer *n = &c->t->normalizer;
    char type[TYPE_TEXT];
    bool exists;
    if (!c->is_pair) return LVN_OK;
    LVN_TRY(read_model_type(dir, type, &exists));
    if (!*c->class && (!strcmp(type, "qwen2") || !strcmp(type, "qwen3"))) {
        c->class = qwen[0];
        LVN_TRY(file_of(c->t, config_json)
                    ? put_member(c, config_json, class_key, "\"Qwen2Tokenizer\"")
                    : lvn_tokenizer_put_file(c->t, config_json, "{\"tokenizer_class\": \"Qwen2Tokenizer\"}\n"));
    }
    if (!is_class(c, qwen)) return LVN_OK;
    json_t *nfc = json_pack("{s:s}", "type", "NFC");
    enum lvn_status status = nfc ? lvn_normalizer_read(n, &c->t->arena, c->name, nfc) : LVN_MEMORY;
    json_decref(nfc);
    c->t->pre_tokenizer.step[0] = lvn_pre_tokenizer_split(LVN_SPLIT_QWEN2);
    return status;
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
    if (c->is_json || is_class(c, c->is_pair ? gpt2 : bert) || is_class(c, c->is_pair ? qwen : berts)) return LVN_OK;
    lvn_log_once(LVN_LOG_WARN,
                 "'%s': tokenizer_class is %s, and %s here as %s's, whose ids may differ; "
                 "AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR) of transformers writes a tokenizer.json",
                 c->name, c->class, c->is_pair ? "vocab.json with merges.txt is read" : "vocab.txt is read",
                 c->is_pair ? "GPT-2" : "BERT");
    return LVN_OK;
}

/* With fix_mistral_regex, transformers uses for some large vocabularies another expression, which contains `part`. */
static void warn_expression(const struct config *c)
{
    static const char part[] = "\\\\p{Lu}\\\\p{Lt}\\\\p{Lm}\\\\p{Lo}";
    const struct lvn_tokenizer_file *f = file_of(c->t, "tokenizer.json");
    if (json_is_true(json_object_get(c->config, "fix_mistral_regex")) && c->t->n > 100000 && f &&
        !memmem(f->text, (size_t)f->bytes, part, sizeof part - 1))
        lvn_log_once(LVN_LOG_WARN,
                     "'%s': fix_mistral_regex is true, but levin uses the expression in tokenizer.json, and "
                     "transformers may use another one, so ids may differ; "
                     "AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR) of transformers writes the right one",
                     c->name);
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

static enum lvn_status apply(struct config *c, const char *dir)
{
    struct lvn_tokenizer *t = c->t;
    LVN_TRY(read_config(t, &c->config, &c->map));
    LVN_TRY(read_object(t, "added_tokens.json", &c->added));
    const char *class = json_string_value(json_object_get(c->config, class_key));
    if (class && lvn_ends_with(class, "Fast"))
        class = lvn_arena_printf(&t->arena, "%.*s", (int)strlen(class) - 4, class);
    else if (class)
        class = lvn_arena_strdup(&t->arena, class);
    c->class = class ? class : "";
    LVN_TRY(set_bert(c));
    LVN_TRY(set_llama(c, dir));
    LVN_TRY(set_qwen(c, dir));
    LVN_TRY(read_numbered(c));
    LVN_TRY(read_named(c));
    LVN_TRY(read_defaults(c));
    LVN_TRY(finish(c));
    if (c->is_pair) LVN_TRY(lvn_load_check_merges(t));
    set_bos_eos(c);
    set_prefix_space(c);
    if (content_of(json_object_get(c->config, named[EOS]))) t->end_id = id_of(c, named[EOS]);
    if (content_of(json_object_get(c->config, named[MASK]))) t->mask_id = id_of(c, named[MASK]);
    LVN_TRY(warn_class(c));
    warn_expression(c);
    return warn_keys(c);
}

/* --- tokens of data.add_tokens --- */

static const char further[] = "additional_special_tokens";

/* Put the tokens from `first` on into a member of one of the tokenizer's files: into a list, as those of tokenizer.json
 * or as texts, or into added_tokens_decoder. */
static enum lvn_status put_added(struct config *c, int first, const char *file, const char *key)
{
    LVN_LOCAL_TEXT(text);
    const long begun = lvn_json_begin();
    json_t *root = NULL;
    LVN_TRY(read_object(c->t, file, &root));
    if (!root) root = json_object();
    json_t *to = json_object_get(root, key);
    if (!json_is_array(to) && key != decoder_key) json_object_set_new(root, key, to = json_array());
    for (int i = first; i < c->n; i++) {
        const struct lvn_added_token *a = &c->list[i];
        char id[16];
        snprintf(id, sizeof id, "%d", a->id);
        json_t *one = json_pack("{s:i, s:s, s:b, s:b, s:b, s:b, s:b}", "id", (int)a->id, "content", a->text,
                                "single_word", 0, "lstrip", 0, "rstrip", 0, "normalized", 0, "special", 1);
        if (key == decoder_key) {
            json_object_del(one, "id");
            json_object_set_new(to, id, one);
        } else {
            json_array_append_new(to, c->is_json ? one : json_string(a->text));
            if (!c->is_json) json_decref(one);
        }
    }
    lvn_json_add(&text, begun, root, 2);
    json_decref(root);
    LVN_TRY(lvn_text_status(&text));
    return lvn_tokenizer_put_file(c->t, file, lvn_text_string(&text));
}

static enum lvn_status write_added(struct config *c, int first)
{
    if (!c->is_json)
        return put_added(c, first, json_object_get(c->map, further) ? "special_tokens_map.json" : config_json, further);
    LVN_TRY(put_added(c, first, "tokenizer.json", "added_tokens"));
    /* classes of transformers that make their own tokenizer know no others */
    return json_object_get(c->config, decoder_key) ? put_added(c, first, config_json, decoder_key) : LVN_OK;
}

static enum lvn_status add_list(struct config *c, const char *list)
{
    struct lvn_tokenizer *t = c->t;
    const int first = c->n;
    LVN_TRY(read_config(t, &c->config, &c->map));
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
    LVN_TRY(finish(c));
    lvn_log_once(LVN_LOG_INFO, "data.add_tokens: new special tokens of the tokenizer '%s': %d, from the id %d on",
                 t->path, c->n - first, c->list[first].id);
    if (!c->is_json) return LVN_OK;
    t->n_vocabulary = t->n; /* as in a copy */
    lvn_load_sum(t);
    return LVN_OK;
}

/* Add the tokens of a list; NULL: apply the files of a folder. */
static enum lvn_status change(struct lvn_tokenizer *t, const char *name, const char *list, const char *dir)
{
    struct config c = {.t = t, .name = name, .list = t->added, .n = t->n_added, .capacity = t->n_added};
    if (!name) return LVN_MEMORY;
    c.is_json = file_of(t, "tokenizer.json");
    c.is_pair = !c.is_json && file_of(t, "vocab.json");
    const enum lvn_status status = list ? add_list(&c, list) : apply(&c, dir);
    json_decref(c.config);
    json_decref(c.map);
    json_decref(c.added);
    return status;
}

enum lvn_status lvn_tokenizer_config_apply(struct lvn_tokenizer *t, const char *dir)
{
    return change(t, lvn_arena_printf(&t->arena, "%s/tokenizer_config.json", dir), NULL, dir);
}

enum lvn_status lvn_tokenizer_config_add(struct lvn_tokenizer *t, const char *list)
{
    return change(t, t->path, list, NULL);
}
