/* tokenizer.c - see tokenizer.h: finding, opening and copying a tokenizer's files. */
#include "tokenizers/tokenizer.h"

#include "base/files.h"
#include "base/log.h"
#include "base/target.h"
#include "base/text.h"
#include "stores/store.h"
#include "tokenizers/encoder_private.h"
#include "tokenizers/gguf_tokenizer.h"
#include "tokenizers/load.h"
#include "tokenizers/tokenizer_config.h"
#include "tokenizers/unicode/unicode.h"
#include "tokenizers/unigram.h"
#include "tokenizers/wordpiece.h"

enum { MAX_BYTES = 256 << 20 };

/* A vocabulary and its merges. */
static const struct {
    const char *vocab, *merges;
} pairs[] = {{"vocab.json", "merges.txt"}, {"encoder.json", "vocab.bpe"}};
enum { N_PAIRS = sizeof pairs / sizeof pairs[0] };

/* Read a file; the tokenizer owns the text, from which copies are written. */
static enum lvn_status read_text(struct lvn_tokenizer *t, const char *path, const char **text, int64_t *bytes)
{
    char *read;
    LVN_TRY(lvn_file_read(path, MAX_BYTES, &read, bytes));
    *text = t->text[t->n_texts++] = read;
    return LVN_OK;
}

static enum lvn_status read_pair(struct lvn_tokenizer *t, const char *vocab, const char *merges)
{
    const char *v, *m;
    int64_t v_bytes, m_bytes;
    LVN_TRY(read_text(t, vocab, &v, &v_bytes));
    LVN_TRY(read_text(t, merges, &m, &m_bytes));
    return lvn_load_merges(t, vocab, v, v_bytes, merges, m, m_bytes);
}

static enum lvn_status read_json(struct lvn_tokenizer *t, const char *path)
{
    const char *text;
    int64_t bytes;
    LVN_TRY(read_text(t, path, &text, &bytes));
    return lvn_load_json(t, path, text, bytes);
}

/* vocab.txt, and tokenizer_config.json in the same folder if there is one. */
static enum lvn_status read_words(struct lvn_tokenizer *t, const char *path)
{
    const char *text, *config = NULL, *dir = lvn_path_dir(&t->arena, path);
    char *config_path = dir ? lvn_path_join(&t->arena, dir, "tokenizer_config.json") : NULL;
    int64_t bytes, config_bytes = 0;
    if (!config_path) return LVN_MEMORY;
    LVN_TRY(read_text(t, path, &text, &bytes));
    if (lvn_path_is_file(config_path)) LVN_TRY(read_text(t, config_path, &config, &config_bytes));
    return lvn_load_wordpiece(t, path, text, bytes, config_path, config, config_bytes);
}

/* The path of the other file of a pair: the same path with another extension. */
static char *other_file(struct lvn_tokenizer *t, const char *path, const char *extension, const char *other)
{
    return lvn_arena_printf(&t->arena, "%.*s%s", (int)(strlen(path) - strlen(extension)), path, other);
}

/* Tokenizers in formats of other programs, which levin does not read. */
static const struct {
    const char *name, *format;
} foreign[] = {{"tokenizer.model", "SentencePiece"},
               {"spiece.model", "SentencePiece"},
               {"sentencepiece.bpe.model", "SentencePiece"},
               {"tekken.json", "Mistral's tekken"},
               {"qwen.tiktoken", "tiktoken"},
               {"tiktoken.model", "tiktoken"}};
enum { N_FOREIGN = sizeof foreign / sizeof foreign[0] };

static enum lvn_status refuse_foreign(const char *path, int i)
{
    LVN_FAIL(UNSUPPORTED,
             "'%s' is a tokenizer in the format of %s, which levin does not read: write the folder's tokenizer.json "
             "with transformers, AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)",
             path, foreign[i].format);
}

static enum lvn_status read_file(struct lvn_tokenizer *t, const char *path)
{
    if (lvn_gguf_is_file(path)) return lvn_gguf_tokenizer_read(t, path);
    for (int i = 0; i < N_PAIRS; i++) {
        bool vocab = lvn_ends_with(path, pairs[i].vocab), merges = lvn_ends_with(path, pairs[i].merges);
        if (!vocab && !merges) continue;
        char *other =
            other_file(t, path, vocab ? pairs[i].vocab : pairs[i].merges, vocab ? pairs[i].merges : pairs[i].vocab);
        if (!other) return LVN_MEMORY;
        LVN_CHECK(lvn_path_is_file(other), ARG, "'%s' is half of a tokenizer: '%s' must be in the same folder", path,
                  other);
        return vocab ? read_pair(t, path, other) : read_pair(t, other, path);
    }
    for (int i = 0; i < N_FOREIGN; i++)
        if (lvn_ends_with(path, foreign[i].name)) return refuse_foreign(path, i);
    return lvn_ends_with(path, "vocab.txt") ? read_words(t, path) : read_json(t, path);
}

static enum lvn_status read_dir(struct lvn_tokenizer *t, const char *dir)
{
    char *json = lvn_path_join(&t->arena, dir, "tokenizer.json"), *words = lvn_path_join(&t->arena, dir, "vocab.txt");
    if (!json || !words) return LVN_MEMORY;
    if (lvn_path_is_file(json)) return read_json(t, json);
    for (int i = 0; i < N_PAIRS; i++) {
        char *vocab = lvn_path_join(&t->arena, dir, pairs[i].vocab);
        char *merges = lvn_path_join(&t->arena, dir, pairs[i].merges);
        if (!vocab || !merges) return LVN_MEMORY;
        if (lvn_path_is_file(vocab) && lvn_path_is_file(merges)) return read_pair(t, vocab, merges);
    }
    if (lvn_path_is_file(words)) return read_words(t, words);
    for (int i = 0; i < N_FOREIGN; i++) {
        const char *path = lvn_path_join(&t->arena, dir, foreign[i].name);
        if (!path) return LVN_MEMORY;
        if (lvn_path_is_file(path)) return refuse_foreign(path, i);
    }
    LVN_FAIL(ARG,
             "'%s' holds no tokenizer: expected tokenizer.json, vocab.json with merges.txt, encoder.json with "
             "vocab.bpe, or vocab.txt",
             dir);
}

bool lvn_tokenizer_exists(const char *dir)
{
    LVN_LOCAL_ARENA(a);
    if (!lvn_path_is_dir(dir)) return lvn_gguf_tokenizer_exists(dir);
    char *json = lvn_path_join(&a, dir, "tokenizer.json"), *words = lvn_path_join(&a, dir, "vocab.txt");
    bool exists = (json && lvn_path_is_file(json)) || (words && lvn_path_is_file(words));
    for (int i = 0; i < N_PAIRS && !exists; i++) {
        char *vocab = lvn_path_join(&a, dir, pairs[i].vocab), *merges = lvn_path_join(&a, dir, pairs[i].merges);
        exists = vocab && merges && lvn_path_is_file(vocab) && lvn_path_is_file(merges);
    }
    for (int i = 0; i < N_FOREIGN && !exists; i++) {
        const char *path = lvn_path_join(&a, dir, foreign[i].name);
        exists = path && lvn_path_is_file(path);
    }
    return exists;
}

/* Find both tokens by their usual names, for files that do not name them (eos_token, mask_token). */
static void find_end_and_mask(struct lvn_tokenizer *t)
{
    static const char *const names[] = {"<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "<|im_end|>"};
    t->end_id = -1;
    t->mask_id = lvn_tokenizer_find(t, "[MASK]", 6);
    if (t->mask_id < 0) t->mask_id = lvn_tokenizer_find(t, "<mask>", 6);
    for (size_t i = 0; i < sizeof names / sizeof names[0] && t->end_id < 0; i++)
        t->end_id = lvn_tokenizer_find(t, names[i], (int64_t)strlen(names[i]));
}

static bool has_file(const struct lvn_tokenizer *t, const char *name)
{
    for (int i = 0; i < t->n_files; i++)
        if (!strcmp(t->file[i].name, name)) return true;
    return false;
}

/* Does the file determine ids or the text of prompts, and does its content match its name? Only such files are read
 * through links out of the folder, like tokenizer.json: a link may name any file, and checkpoints get copies. text
 * NULL: only the name is checked. */
static bool is_followed(const char *name, const char *text)
{
    static const struct {
        const char *name, *has;
    } files[] = {{"tokenizer_config.json", "\"tokenizer_class\""},
                 {"tokenizer_config.json", "\"model_max_length\""},
                 {"tokenizer_config.json", "\"do_lower_case\""},
                 {"special_tokens_map.json", "\"eos_token\""},
                 {"special_tokens_map.json", "\"unk_token\""},
                 {"added_tokens.json", ""},
                 {"chat_template.jinja", "{%"},
                 {LVN_TOOL_TEMPLATE, "{%"}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (!strcmp(name, files[i].name) && (!text || strstr(text, files[i].has))) return true;
    return false;
}

/* Read further files of Hugging Face's tokenizers in `dir`, so that copies of the tokenizer have them, too. Beside a
 * tokenizer.json, which levin prefers, these include the files of other programs' tokenizers. */
static enum lvn_status read_companions(struct lvn_tokenizer *t, const char *dir)
{
    const char *const *const lists[] = {lvn_store_tokenizer_companions, lvn_store_tokenizer_files};
    const int n = has_file(t, "tokenizer.json") ? 2 : 1;
    for (int i = 0; i < n; i++)
        for (const char *const *name = lists[i]; *name; name++) {
            const char *path = lvn_path_join(&t->arena, dir, *name), *text;
            int64_t bytes;
            bool found;
            if (!path) return LVN_MEMORY;
            if (has_file(t, *name)) continue;
            LVN_TRY(lvn_path_find(path, &found));
            if (!found || !lvn_path_is_file(path)) continue;
            const bool outside = !lvn_path_is_inside(dir, path);
            if (outside && !is_followed(*name, NULL)) continue;
            LVN_TRY(read_text(t, path, &text, &bytes));
            if (outside && !is_followed(*name, text)) {
                lvn_log_once(LVN_LOG_WARN,
                             "'%s' is a link to a file outside the folder that is no such file: it is not read", path);
                continue;
            }
            lvn_load_add_file(t, *name, text, bytes);
        }
    return LVN_OK;
}

/* Download a tokenizer from a store; for one file also the others in its folder. */
static enum lvn_status download(struct lvn_tokenizer *t, const char *path, const char **local)
{
    LVN_TRY(lvn_store_download(&t->arena, path, LVN_WANT_TOKENIZER, local));
    const bool alone = lvn_store_is_remote(path) && lvn_path_is_file(*local) && !lvn_gguf_is_file(*local);
    return alone ? lvn_store_download_companions(&t->arena, path) : LVN_OK;
}

static enum lvn_status read_any(struct lvn_tokenizer *t, const char *path)
{
    t->path = lvn_arena_strdup(&t->arena, path);
    if (!t->path) return LVN_MEMORY;
    LVN_TRY(download(t, path, &path));
    LVN_CHECK(lvn_path_exists(path), ARG, "there is no tokenizer '%s'", path);
    const bool folder = lvn_path_is_dir(path), whole = !folder && lvn_gguf_is_file(path);
    const char *dir = folder ? path : lvn_path_dir(&t->arena, path);
    if (!dir) return LVN_MEMORY;
    LVN_TRY(folder ? read_dir(t, path) : read_file(t, path));
    t->n_vocabulary = t->n;
    find_end_and_mask(t);
    if (!whole) LVN_TRY(read_companions(t, dir)); /* else they are of another model */
    return lvn_tokenizer_config_apply(t, dir);
}

enum lvn_status lvn_tokenizer_open(struct lvn_tokenizer **out, const char *path)
{
    *out = NULL;
    lvn_unicode_init();
    struct lvn_tokenizer *t = lvn_calloc(1, sizeof *t);
    if (!t) return LVN_MEMORY;
    lvn_arena_init(&t->arena);
    enum lvn_status status = read_any(t, path);
    if (status != LVN_OK) {
        lvn_tokenizer_close(t);
        return lvn_while_at(status, "opening the tokenizer '%s'", path);
    }
    *out = t;
    return LVN_OK;
}

void lvn_tokenizer_close(struct lvn_tokenizer *t)
{
    if (!t) return;
    lvn_bpe_release(&t->bpe);
    if (t->unigram) lvn_bpe_release(&t->unigram->trie);
    for (int i = 0; i < t->n_texts; i++) free(t->text[i]);
    lvn_arena_release(&t->arena);
    free(t);
}

int32_t lvn_tokenizer_find(const struct lvn_tokenizer *t, const char *text, int64_t bytes)
{
    for (int64_t id = t->n - 1; id >= 0; id--)
        if (t->start[id + 1] - t->start[id] == bytes && !memcmp(t->byte + t->start[id], text, (size_t)bytes))
            return (int32_t)id;
    return -1;
}

enum lvn_status lvn_tokenizer_allow(struct lvn_tokenizer *t, const char *name)
{
    int64_t bytes = (int64_t)strlen(name);
    for (int i = 0; i < t->n_added; i++)
        if (t->added[i].bytes == bytes && !strcmp(t->added[i].text, name)) return LVN_OK;
    int32_t id = *name ? lvn_tokenizer_find(t, name, bytes) : -1;
    LVN_CHECK(id >= 0, ARG, "'%s' has no token '%.60s'", t->path, name);
    struct lvn_added_token *more = lvn_arena_alloc(&t->arena, sizeof *more * (size_t)(t->n_added + 1));
    if (!more) return LVN_MEMORY;
    if (t->n_added) memcpy(more, t->added, sizeof *more * (size_t)t->n_added);
    char *copy = lvn_arena_strdup(&t->arena, name);
    if (!copy) return LVN_MEMORY;
    more[t->n_added++] = (struct lvn_added_token){.text = copy, .bytes = bytes, .id = id, .special = true};
    t->added = more;
    return lvn_added_sets(t);
}

enum lvn_status lvn_tokenizer_put_file(struct lvn_tokenizer *t, const char *name, const char *text)
{
    int i = 0;
    while (i < t->n_files && strcmp(t->file[i].name, name) != 0) i++;
    LVN_CHECK(i < LVN_TOKENIZER_FILES, UNSUPPORTED, "the tokenizer '%s' has more than %d files", t->path,
              LVN_TOKENIZER_FILES);
    const struct lvn_tokenizer_file file = {lvn_arena_strdup(&t->arena, name), lvn_arena_strdup(&t->arena, text),
                                            (int64_t)strlen(text)};
    if (!file.name || !file.text) return LVN_MEMORY;
    t->file[i] = file;
    t->n_files += i == t->n_files;
    return LVN_OK;
}

enum lvn_status lvn_tokenizer_put_template(struct lvn_tokenizer *t, const char *text)
{
    LVN_TRY(lvn_tokenizer_put_file(t, "chat_template.jinja", text));
    return has_file(t, LVN_TOOL_TEMPLATE) ? lvn_tokenizer_put_file(t, LVN_TOOL_TEMPLATE, text) : LVN_OK;
}

enum lvn_status lvn_tokenizer_save(const struct lvn_tokenizer *t, const char *dir)
{
    LVN_LOCAL_ARENA(a);
    enum lvn_status status = lvn_dir_make(dir);
    for (int i = 0; i < t->n_files && status == LVN_OK; i++) {
        char *path = lvn_path_join(&a, dir, t->file[i].name), *folder = path ? lvn_path_dir(&a, path) : NULL;
        status = folder ? lvn_dir_make(folder) : LVN_MEMORY;
        if (status == LVN_OK) status = lvn_target_write(path, t->file[i].text, t->file[i].bytes);
    }
    return status;
}
