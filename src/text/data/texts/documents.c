/* documents.c - data.kind=documents: texts, tokenized when the run starts.
 *
 * data.path is a text, lines of JSON, a folder or an archive of these. A document is a file or a line; after each of
 * several documents comes the end token of the tokenizer. The tokenizer is data.tokenizer, that of the model, or one
 * that is trained on the texts (data/texts/text_tokenizer.h). The last tenth of the tokens is for validation;
 * data.val_path names separate texts instead. The ids are in memory. Every rank tokenizes all texts: for many
 * gigabytes, `levin prepare` makes token files once. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "base/log.h"
#include "base/text.h"
#include "data/corpus.h"
#include "data/dataset.h"
#include "data/file_type.h"
#include "data/parquet_texts.h"
#include "data/texts/text_tokenizer.h"
#include "stores/store.h"

struct documents {
    const struct lvn_tokenizer *tokenizer;
    void *ids[LVN_SPLITS_TRAINED]; /* the second only with data.val_path */
    int width;                     /* bytes of an id */
};

/* Reports what was read, and what was not. */
static void report(const struct documents *s, const struct lvn_data_options *o, const char *path,
                   const struct lvn_batch *b)
{
    char documents[LVN_NUMBER_TEXT], some[LVN_NUMBER_TEXT], tokens[LVN_NUMBER_TEXT];
    const char *warnings = b->warnings.n ? b->warnings.p : "";
    lvn_log(LVN_LOG_INFO, "'%s': %s document%s, %s tokens", path, lvn_count_text(b->n_documents, documents),
            lvn_plural(b->n_documents), lvn_count_text(b->ids.n, tokens));
    for (size_t n; *warnings && !o->for_evaluation; warnings += n + (warnings[n] == '\n')) {
        n = strcspn(warnings, "\n");
        lvn_log(LVN_LOG_INFO, "%.*s", (int)n, warnings);
    }
    if (b->skipped > 10) lvn_log(LVN_LOG_INFO, "%s files were skipped in all", lvn_count_text(b->skipped, some));
    if (b->bad) lvn_log(LVN_LOG_WARN, "%s lines cannot be used and were skipped", lvn_count_text(b->bad, some));
    if (b->empty) lvn_log(LVN_LOG_INFO, "%s empty documents were skipped", lvn_count_text(b->empty, some));
    if (b->crlf)
        lvn_log(LVN_LOG_INFO, "%s lines end in CR LF, which the tokens contain", lvn_count_text(b->crlf, some));
    if (!b->special_texts.n) return;
    const uint32_t *at = s->tokenizer->start + b->special_texts.id;
    lvn_log(LVN_LOG_WARN, "the texts contain %s special tokens, such as %.*s, which were encoded as %s",
            lvn_count_text(b->special_texts.n, some), (int)(at[1] - at[0]), (const char *)s->tokenizer->byte + at[0],
            o->allow_special ? "tokens" : "ordinary text; data.allow_special=true encodes the tokens");
}

static void put(void *ids, int width, int64_t at, int32_t id)
{
    if (width == 2)
        ((uint16_t *)ids)[at] = (uint16_t)id;
    else
        ((uint32_t *)ids)[at] = (uint32_t)id;
}

/* Copies the ids with an end token after each document, if there are several. */
static enum lvn_status copy_ids(struct documents *s, const struct lvn_batch *b, enum lvn_split_id split, int64_t *n)
{
    const int32_t end = b->n_documents > 1 ? s->tokenizer->end_id : -1;
    const int32_t *from = b->ids.p;
    void *ids = s->ids[split] = lvn_malloc((size_t)(b->ids.n + b->n_documents + 1) * (size_t)s->width);
    if (!ids) return LVN_MEMORY;
    *n = 0;
    for (int64_t i = 0; i < b->n_documents; i++) {
        for (int64_t k = 0; k < b->document[i].n_ids; k++) put(ids, s->width, (*n)++, *from++);
        if (end >= 0 && b->document[i].last) put(ids, s->width, (*n)++, end);
    }
    return LVN_OK;
}

static enum lvn_status read_texts(struct documents *s, const struct lvn_data_options *o, enum lvn_split_id split,
                                  const char *path, int64_t *n)
{
    LVN_LOCAL_ARENA(a);
    const char *here;
    const struct lvn_corpus_options corpus = {.tokenizer = s->tokenizer,
                                              .kind = LVN_CHUNK_TEXT,
                                              .field = o->text_column && *o->text_column ? o->text_column : "text",
                                              .field_option = "data.text_column",
                                              .allow_special = o->allow_special};
    LVN_TRY(lvn_store_download(&a, path, LVN_WANT_ALL, &here));
    struct lvn_batch *b = lvn_batch_new(0);
    if (!b) return LVN_MEMORY;
    enum lvn_status status = lvn_corpus_encode(b, &corpus, here);
    if (status == LVN_OK && !b->ids.n)
        status = lvn_fail(LVN_FORMAT,
                          "there is no text in '%s' (%" PRId64 " files skipped, %" PRId64 " empty documents, %" PRId64
                          " bad lines%s%.*s); texts are files named .txt, .md, .py and similar, and .jsonl and "
                          ".parquet with the text in \"%s\" (another one: data.kind=documents and data.text_column)",
                          path, b->skipped, b->empty, b->bad, b->warnings.n ? ": " : "",
                          b->warnings.n ? (int)strcspn(b->warnings.p, "\n") : 0, b->warnings.n ? b->warnings.p : "",
                          corpus.field);
    if (status == LVN_OK && b->ids.n < 2)
        status = lvn_fail(LVN_FORMAT, "'%s' is a single token long: there is nothing to learn from it", path);
    if (status == LVN_OK) status = copy_ids(s, b, split, n);
    if (status == LVN_OK) report(s, o, path, b);
    lvn_batch_free(b);
    return status;
}

static enum lvn_status open_documents(struct lvn_dataset *d, const struct lvn_data_options *o)
{
    LVN_CHECK(o->path && *o->path, ARG, "data.kind=documents needs data.path: a text, or a folder of texts");
    struct documents *s = d->state = lvn_calloc(1, sizeof *s);
    const bool two = o->val_path && *o->val_path;
    int64_t n, n_val;
    if (!s) return LVN_MEMORY;
    LVN_TRY(lvn_text_tokenizer(d, o, false, &s->tokenizer));
    s->width = s->tokenizer->n <= 65536 ? 2 : 4;
    LVN_TRY(read_texts(s, o, LVN_SPLIT_TRAIN, o->path, &n));
    if (two) {
        LVN_TRY(read_texts(s, o, LVN_SPLIT_VAL, o->val_path, &n_val));
        LVN_TRY(lvn_split_set(&d->split[LVN_SPLIT_TRAIN], o->path, s->ids[0], s->width, n));
        return lvn_split_set(&d->split[LVN_SPLIT_VAL], o->val_path, s->ids[1], s->width, n_val);
    }
    n_val = n - (int64_t)(0.9 * (double)n);
    LVN_TRY(lvn_split_set(&d->split[LVN_SPLIT_TRAIN], o->path, s->ids[0], s->width, n - n_val));
    LVN_TRY(
        lvn_split_set(&d->split[LVN_SPLIT_VAL], o->path, (char *)s->ids[0] + (n - n_val) * s->width, s->width, n_val));
    d->split[LVN_SPLIT_VAL].first = n - n_val;
    return lvn_split_set(&d->split[LVN_SPLIT_ALL], o->path, s->ids[0], s->width, n);
}

static void close_documents(struct lvn_dataset *d)
{
    struct documents *s = d->state;
    for (int i = 0; s && i < LVN_SPLITS_TRAINED; i++) free(s->ids[i]);
    free(s);
}

/* Is there a file with this name in the folder? */
static bool has(struct lvn_arena *a, const char *folder, const char *name)
{
    const char *path = lvn_path_join(a, folder, name);
    return path && lvn_path_exists(path);
}

/* A folder with texts that is neither a run, a model nor a tokenizer; lines of JSON that are no array; an archive. */
static bool matches(const char *path)
{
    static const char *const others[] = {"settings.yaml",  "config.json", "manifest.json", "checkpoints",
                                         "tokenizer.json", "vocab.json",  "vocab.txt"};
    LVN_LOCAL_ARENA(a);
    const char *const *file;
    int64_t n = 0;
    bool texts = false;
    if (!lvn_path_exists(path)) return false;
    if (!lvn_path_is_dir(path)) {
        const int64_t unpacked = lvn_file_unpacked_name(path);
        if (path[unpacked]) return lvn_file_type(path, unpacked) != LVN_FILE_TYPE_REFUSED;
        return lvn_is_parquet(path) ||
               (lvn_file_type(path, unpacked) == LVN_FILE_TYPE_LINES && !lvn_file_begins_array(path));
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (has(&a, path, others[i])) return false;
    if (lvn_archive_list(&a, path, &file, &n) != LVN_OK) lvn_error_clear();
    for (int64_t i = 0; i < n && !texts; i++) {
        const enum lvn_file_type type = lvn_file_type(file[i], (int64_t)strlen(file[i]));
        texts = type == LVN_FILE_TYPE_TEXT || type == LVN_FILE_TYPE_LINES || type == LVN_FILE_TYPE_PARQUET;
    }
    return texts;
}

extern const struct lvn_dataset_kind lvn_dataset_documents;
const struct lvn_dataset_kind lvn_dataset_documents = {
    .name = "documents",
    .help = "texts, tokenized when the run starts; the last tenth of the tokens validates",
    .typical_vocab = 50257,
    .reads_stores = true,
    .matches = matches,
    .fields = lvn_stream_fields_of,
    .open = open_documents,
    .close = close_documents,
};
