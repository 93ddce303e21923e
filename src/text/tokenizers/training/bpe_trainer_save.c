/* bpe_trainer_save.c - see bpe_trainer.h: writes the files of a new vocabulary for Hugging Face's libraries. */
#include <jansson.h>

#include "base/files.h"
#include "base/target.h"
#include "formats/json.h"
#include "tokenizers/load.h"
#include "tokenizers/training/bpe_trainer.h"

/* Write a token in a file's notation: bytes in the alphabet, special tokens unchanged. */
static void write_token(const struct lvn_vocabulary *v, int64_t id, struct lvn_text *out)
{
    const struct lvn_vocabulary_token *t = &v->token[id];
    int letter[256];
    if (v->o.wordpiece || (id >= v->special && id < v->special + v->n_special)) {
        lvn_text_add_bytes(out, t->text, t->bytes);
        return;
    }
    for (int c = 0; c < LVN_ALPHABET; c++)
        if (lvn_alphabet_byte(c) >= 0) letter[lvn_alphabet_byte(c)] = c;
    for (int64_t i = 0; i < t->bytes; i++) {
        char text[4];
        lvn_text_add_bytes(out, text, lvn_utf8_encode(letter[(unsigned char)t->text[i]], text));
    }
}

static enum lvn_status vocab_of(const struct lvn_vocabulary *v, json_t *vocab)
{
    struct lvn_text text = {0};
    for (int64_t id = 0; id < v->n; id++) {
        lvn_text_clear(&text);
        write_token(v, id, &text);
        json_object_setn_new(vocab, text.p ? text.p : "", (size_t)text.n, json_integer(id));
    }
    enum lvn_status status = lvn_text_status(&text);
    lvn_text_release(&text);
    return status;
}

/* Mark the merges that are the last of their pair; earlier ones are not written. */
static enum lvn_status last_merges(const struct lvn_vocabulary *v, bool **last)
{
    struct lvn_bpe seen;
    *last = lvn_calloc((size_t)v->n_merges + 1, sizeof **last);
    if (!*last) return LVN_MEMORY;
    LVN_TRY(lvn_bpe_init(&seen, v->n_merges));
    for (int64_t i = v->n_merges - 1; i >= 0; i--) {
        (*last)[i] = !lvn_bpe_find(&seen, v->merge[i].left, v->merge[i].right);
        lvn_bpe_add(&seen, v->merge[i].left, v->merge[i].right, 0);
    }
    lvn_bpe_release(&seen);
    return LVN_OK;
}

/* "merges" of a tokenizer.json, and merges.txt. */
static enum lvn_status merges_of(const struct lvn_vocabulary *v, json_t *list, struct lvn_text *lines)
{
    struct lvn_text part[2] = {{0}, {0}};
    bool *last = NULL;
    enum lvn_status status = last_merges(v, &last);
    lvn_text_add(lines, "#version: 0.2\n");
    for (int64_t i = 0; i < v->n_merges && status == LVN_OK; i++) {
        if (!last[i]) continue;
        for (int k = 0; k < 2; k++) {
            lvn_text_clear(&part[k]);
            write_token(v, k ? v->merge[i].right : v->merge[i].left, &part[k]);
        }
        status = lvn_text_status(&part[0]);
        if (status == LVN_OK) status = lvn_text_status(&part[1]);
        if (status != LVN_OK) break;
        json_array_append_new(list, json_pack("[s,s]", part[0].p, part[1].p));
        lvn_text_printf(lines, "%s %s\n", part[0].p, part[1].p);
    }
    lvn_text_release(&part[0]);
    lvn_text_release(&part[1]);
    free(last);
    return status == LVN_OK ? lvn_text_status(lines) : status;
}

static json_t *added_of(const struct lvn_vocabulary *v)
{
    json_t *list = json_array();
    for (int64_t id = v->special; id < v->special + v->n_special; id++)
        json_array_append_new(list, json_pack("{s:I, s:s, s:b, s:b, s:b, s:b, s:b}", "id", (json_int_t)id, "content",
                                              v->token[id].text, "single_word", 0, "lstrip", 0, "rstrip", 0,
                                              "normalized", 0, "special", 1));
    return list;
}

/* {"[CLS]": {"id": "[CLS]", "ids": [2], "tokens": ["[CLS]"]}}, and templates of these. */
static json_t *template_of(const struct lvn_vocabulary *v)
{
    static const char text[] = "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"[CLS]\","
                               "\"type_id\":0}},{\"Sequence\":{"
                               "\"id\":\"A\",\"type_id\":0}},{\"SpecialToken\":{\"id\":\"[SEP]\",\"type_id\":0}}],"
                               "\"pair\":[{\"SpecialToken\":{"
                               "\"id\":\"[CLS]\",\"type_id\":0}},{\"Sequence\":{\"id\":\"A\",\"type_id\":0}},{"
                               "\"SpecialToken\":{\"id\":\"[SEP]\","
                               "\"type_id\":0}},{\"Sequence\":{\"id\":\"B\",\"type_id\":1}},{\"SpecialToken\":{\"id\":"
                               "\"[SEP]\",\"type_id\":1}}]}";
    json_error_t error;
    json_t *template, *specials = json_object();
    if (lvn_json_load(text, sizeof text - 1, 0, &template, &error) != LVN_OK)
        template = NULL; /* write_json() sees it */
    for (int id = 2; id < 4; id++) {
        const char *name = v->token[id].text;
        json_object_set_new(specials, name, json_pack("{s:s, s:[i], s:[s]}", "id", name, "ids", id, "tokens", name));
    }
    json_object_set_new(template, "special_tokens", specials);
    return template;
}

/* The members of tokenizer.json that the two models do not share. */
static json_t *wordpiece_of(const struct lvn_vocabulary *v, json_t *vocab)
{
    return json_pack("{s:{s:s, s:b, s:b, s:n, s:b}, s:{s:s}, s:o, s:{s:s, s:s, s:b}, s:{s:s, s:s, s:s, s:i, s:o}}",
                     "normalizer", "type", "BertNormalizer", "clean_text", 1, "handle_chinese_chars", 1,
                     "strip_accents", "lowercase", v->o.lowercase, "pre_tokenizer", "type", "BertPreTokenizer",
                     "post_processor", template_of(v), "decoder", "type", "WordPiece", "prefix", "##", "cleanup", 1,
                     "model", "type", "WordPiece", "unk_token", "[UNK]", "continuing_subword_prefix", "##",
                     "max_input_chars_per_word", 100, "vocab", vocab);
}

static json_t *bytes_of(const char *pattern, json_t *vocab, json_t *merges)
{
    static const char *const parts[] = {"pre_tokenizer", "post_processor", "decoder"};
    json_t *root = json_pack("{s:n}", "normalizer");
    for (int i = 0; i < 3; i++)
        json_object_set_new(root, parts[i],
                            json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 0,
                                      "trim_offsets", i == 2, "use_regex", !pattern));
    if (pattern)
        json_object_set_new(root, parts[0],
                            json_pack("{s:s, s:[{s:s, s:{s:s}, s:s, s:b}, O]}", "type", "Sequence", "pretokenizers",
                                      "type", "Split", "pattern", "Regex", pattern, "behavior", "Isolated", "invert", 0,
                                      json_object_get(root, parts[0])));
    json_object_set_new(root, "model",
                        json_pack("{s:s, s:n, s:n, s:n, s:n, s:b, s:b, s:b, s:o, s:o}", "type", "BPE", "dropout",
                                  "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", 0,
                                  "byte_fallback", 0, "ignore_merges", 0, "vocab", vocab, "merges", merges));
    return root;
}

/* Do vocab.json and merges.txt say all of it, for programs that read them as GPT-2's? */
static bool is_gpt2(const struct lvn_vocabulary *v)
{
    return !v->o.wordpiece && !v->o.pattern && !v->o.n_special;
}

static json_t *config_of(const struct lvn_vocabulary *v)
{
    if (v->o.wordpiece)
        return json_pack("{s:s, s:b, s:n, s:b, s:i, s:s, s:s, s:s, s:s, s:s}", "tokenizer_class", "BertTokenizer",
                         "do_lower_case", v->o.lowercase, "strip_accents", "tokenize_chinese_chars", 1,
                         "model_max_length", 512, "unk_token", "[UNK]", "cls_token", "[CLS]", "sep_token", "[SEP]",
                         "pad_token", "[PAD]", "mask_token", "[MASK]");
    const char *end = v->token[v->special].text; /* between texts */
    if (!is_gpt2(v))
        return json_pack("{s:s, s:s, s:s}", "tokenizer_class", "PreTrainedTokenizerFast", "bos_token", end, "eos_token",
                         end);
    return json_pack("{s:s, s:b, s:i, s:s, s:s, s:s}", "tokenizer_class", "GPT2Tokenizer", "add_prefix_space", 0,
                     "model_max_length", 1024, "unk_token", end, "bos_token", end, "eos_token", end);
}

struct writer {
    struct lvn_arena arena;
    const char *dir;
    long begun; /* lvn_json_begin() */
};

static enum lvn_status write_json(struct writer *w, const char *name, const json_t *value)
{
    char *path = lvn_path_join(&w->arena, w->dir, name);
    return path ? lvn_json_write(path, w->begun, value) : LVN_MEMORY;
}

static enum lvn_status write_text(struct writer *w, const char *name, const struct lvn_text *text)
{
    char *path = lvn_path_join(&w->arena, w->dir, name);
    return path ? lvn_target_write(path, text->p ? text->p : "", text->n) : LVN_MEMORY;
}

/* vocab.txt */
static enum lvn_status write_lines(struct writer *w, const struct lvn_vocabulary *v)
{
    struct lvn_text text = {0};
    for (int64_t id = 0; id < v->n; id++) {
        write_token(v, id, &text);
        lvn_text_add(&text, "\n");
    }
    enum lvn_status status = lvn_text_status(&text);
    if (status == LVN_OK) status = write_text(w, "vocab.txt", &text);
    lvn_text_release(&text);
    return status;
}

static enum lvn_status write_all(struct writer *w, const struct lvn_vocabulary *v, json_t *vocab, json_t *merges)
{
    struct lvn_text lines = {0};
    enum lvn_status status = vocab_of(v, vocab);
    if (status == LVN_OK && !v->o.wordpiece) status = merges_of(v, merges, &lines);
    if (status == LVN_OK) {
        json_t *root =
            json_pack("{s:s, s:n, s:n, s:o}", "version", "1.0", "truncation", "padding", "added_tokens", added_of(v));
        json_t *rest = v->o.wordpiece ? wordpiece_of(v, json_incref(vocab))
                                      : bytes_of(v->o.pattern, json_incref(vocab), json_incref(merges));
        json_object_update(root, rest);
        status = write_json(w, "tokenizer.json", rest ? root : NULL);
        json_decref(root);
        json_decref(rest);
    }
    json_t *config = config_of(v);
    if (status == LVN_OK) status = write_json(w, "tokenizer_config.json", config);
    if (status == LVN_OK && v->o.wordpiece) status = write_lines(w, v);
    if (status == LVN_OK && is_gpt2(v)) status = write_json(w, "vocab.json", vocab);
    if (status == LVN_OK && is_gpt2(v)) status = write_text(w, "merges.txt", &lines);
    json_decref(config);
    lvn_text_release(&lines);
    return status;
}

enum lvn_status lvn_vocabulary_save(const struct lvn_vocabulary *v, const char *dir)
{
    struct writer w = {.dir = dir};
    LVN_TRY(lvn_dir_make(dir));
    w.begun = lvn_json_begin();
    lvn_arena_init(&w.arena);
    json_t *vocab = json_object(), *merges = json_array();
    enum lvn_status status = vocab && merges ? write_all(&w, v, vocab, merges) : LVN_MEMORY;
    json_decref(vocab);
    json_decref(merges);
    lvn_arena_release(&w.arena);
    return status;
}
