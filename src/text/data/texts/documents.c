/* documents.c - data.kind=documents: texts, tokenized when the run starts.
 *
 * data.path is a text, lines of JSON, a folder or an archive of these. A document is a file or a line; after each of
 * several documents comes the end token of the tokenizer, unless its post-processor ends texts. The tokenizer is
 * data.tokenizer, that of the model, or one that is trained on the texts (data/texts/text_tokenizer.h). The last tenth
 * of the tokens is for validation; data.val_path names separate texts instead.
 *
 * All threads tokenize. The ids are kept in the user's cache (encoded_cache.h), for other ranks and later runs. */

#include "base/files.h"
#include "base/log.h"
#include "base/text.h"
#include "data/dataset.h"
#include "data/file_type.h"
#include "data/parquet_texts.h"
#include "data/table.h"
#include "data/texts/corpus_pipeline.h"
#include "data/texts/encoded_cache.h"
#include "data/texts/source_files.h"
#include "data/texts/text_files.h"
#include "data/texts/text_tokenizer.h"
#include "host/machine.h"
#include "tokenizers/post_processor.h"

enum { WARNED = 20 };

/* The end of an entry of the cache, after the ids and the warnings. */
struct summary {
    int64_t n;      /* ids */
    int64_t tokens; /* ids that are no end of a document */
    int64_t documents, skipped, bad, empty, crlf;
    int64_t warnings;       /* bytes, of the first WARNED */
    int64_t other_warnings; /* number of those that are left out */
    struct lvn_encoder_notes notes;
};

struct documents {
    const struct lvn_tokenizer *tokenizer;
    struct lvn_encoded encoded[LVN_SPLITS_TRAINED]; /* the second only with data.val_path */
    int width;                                      /* bytes of an id */
    int32_t end_id;                                 /* written after each of several documents; -1: none */
};

/* --- encoding --- */

struct encoding {
    const struct lvn_data_options *o;
    const struct documents *s;
    const char *path; /* as given */
    const char *field;
    struct lvn_source_files files;
    struct lvn_encoded_output *out;
    struct summary sum;
    struct lvn_text warnings;
    int64_t n_warnings;
    bool end_is_due; /* after the first document, if another one follows */
};

static void put_ids(struct encoding *e, const int32_t *ids, int64_t n)
{
    enum { SOME = 1024 };
    uint16_t narrow[SOME];
    e->sum.n += n;
    if (e->s->width == sizeof *ids) lvn_text_add_bytes(e->out->text, ids, n * (int64_t)sizeof *ids);
    for (int64_t k, some; e->s->width < (int)sizeof *ids && n > 0; ids += some, n -= some) {
        some = n < SOME ? n : SOME;
        for (k = 0; k < some; k++) narrow[k] = (uint16_t)ids[k];
        lvn_text_add_bytes(e->out->text, narrow, some * (int64_t)sizeof *narrow);
    }
}

static void count(struct encoding *e, const struct lvn_batch *b)
{
    struct summary *sum = &e->sum;
    sum->skipped += b->skipped, sum->bad += b->bad, sum->empty += b->empty, sum->crlf += b->crlf;
    lvn_encoder_notes_add(&sum->notes, b->notes);
    for (int64_t at = 0, n; at < b->warnings.n; at += n) { /* lines */
        const char *line = b->warnings.p + at, *end = memchr(line, '\n', (size_t)(b->warnings.n - at));
        n = end ? end + 1 - line : b->warnings.n - at;
        if (e->n_warnings++ < WARNED) lvn_text_add_bytes(&e->warnings, line, n);
    }
}

/* Write documents, with an end token after each if there are several. */
static enum lvn_status put_documents(void *context, const struct lvn_batch *b)
{
    struct encoding *e = context;
    const int32_t end = e->s->end_id, *ids = b->ids.p;
    count(e, b);
    for (int64_t i = 0; i < b->n_documents; i++) {
        const struct lvn_document *d = &b->document[i];
        if (e->end_is_due) put_ids(e, &end, 1);
        put_ids(e, ids, d->n_ids);
        ids += d->n_ids;
        e->sum.tokens += d->n_ids;
        e->sum.documents += d->first;
        e->end_is_due = end >= 0 && d->last && e->sum.documents == 1;
        if (end >= 0 && d->last && e->sum.documents > 1) put_ids(e, &end, 1);
        LVN_TRY(lvn_encoded_flush(e->out));
    }
    return LVN_OK;
}

/* Append n bytes, then zeros up to a multiple of 8. before: bytes already written since a multiple of 8. */
static void add_padded(struct lvn_text *out, const void *bytes, int64_t n, int64_t before)
{
    static const char zeros[8];
    if (n) lvn_text_add_bytes(out, bytes, n);
    lvn_text_add_bytes(out, zeros, -(before + n) & 7);
}

static enum lvn_status check_tokens(const struct encoding *e)
{
    const struct lvn_text *warnings = &e->warnings;
    LVN_CHECK(e->sum.tokens, FORMAT,
              "there is no text in '%s' (%" PRId64 " files skipped, %" PRId64 " empty documents, %" PRId64
              " bad lines%s%.*s); texts are files named .txt, .md, .py and similar, and .jsonl and "
              ".parquet with the text in \"%s\" (another one: data.kind=documents and data.text_column)",
              e->path, e->sum.skipped, e->sum.empty, e->sum.bad, warnings->n ? ": " : "",
              warnings->n ? (int)strcspn(warnings->p, "\n") : 0, warnings->n ? warnings->p : "", e->field);
    LVN_CHECK(e->sum.tokens > 1, FORMAT, "'%s' is a single token long: there is nothing to learn from it", e->path);
    return LVN_OK;
}

static enum lvn_status encode(void *context, struct lvn_encoded_output *out)
{
    struct encoding *e = context;
    const struct lvn_corpus_options corpus = {.tokenizer = e->s->tokenizer,
                                              .kind = LVN_CHUNK_TEXT,
                                              .field = e->field,
                                              .field_option = "data.text_column",
                                              .allow_special = e->o->allow_special};
    const struct lvn_corpus_pipeline pipeline = {
        .corpus = &corpus, .files = &e->files, .threads = lvn_threads_default(), .each = put_documents, .context = e};
    e->out = out;
    enum lvn_status status = lvn_corpus_pipeline_run(&pipeline);
    if (status == LVN_OK) status = lvn_text_status(&e->warnings);
    if (status == LVN_OK) status = check_tokens(e);
    if (status == LVN_OK) {
        e->sum.warnings = e->warnings.n;
        e->sum.other_warnings = e->n_warnings > WARNED ? e->n_warnings - WARNED : 0;
        add_padded(out->text, NULL, 0, e->sum.n * e->s->width);
        add_padded(out->text, e->warnings.p, e->warnings.n, 0);
        lvn_text_add_bytes(out->text, &e->sum, sizeof e->sum);
    }
    lvn_text_release(&e->warnings);
    return status;
}

/* --- reading --- */

/* Report what was read, and what was not. */
static void report(const struct documents *s, const struct lvn_data_options *o, const char *path,
                   const struct summary *sum, const char *warnings)
{
    char documents[LVN_NUMBER_TEXT], some[LVN_NUMBER_TEXT], tokens[LVN_NUMBER_TEXT];
    const char *end = warnings + (o->for_evaluation ? 0 : sum->warnings);
    lvn_log(LVN_LOG_INFO, "'%s': %s document%s, %s tokens", path, lvn_count_text(sum->documents, documents),
            lvn_plural(sum->documents), lvn_count_text(sum->tokens, tokens));
    for (const char *line; (line = warnings) < end; warnings++) {
        while (warnings < end && *warnings != '\n') warnings++;
        lvn_log(LVN_LOG_INFO, "%.*s", (int)(warnings - line), line);
    }
    if (sum->skipped > 10 || (sum->skipped && sum->other_warnings))
        lvn_log(LVN_LOG_INFO, "skipped %s file%s in total", lvn_count_text(sum->skipped, some),
                lvn_plural(sum->skipped));
    if (sum->bad)
        lvn_log(LVN_LOG_WARN, "skipped %s line%s that cannot be used", lvn_count_text(sum->bad, some),
                lvn_plural(sum->bad));
    if (sum->empty)
        lvn_log(LVN_LOG_INFO, "skipped %s empty document%s", lvn_count_text(sum->empty, some), lvn_plural(sum->empty));
    if (sum->crlf)
        lvn_log(LVN_LOG_INFO, "%s %s in CR LF, which the tokens contain", lvn_count_text(sum->crlf, some),
                sum->crlf == 1 ? "line ends" : "lines end");
    lvn_encoder_notes_report(s->tokenizer, path, sum->notes.unknown, sum->notes.ids, false);
    if (!sum->notes.special) return;
    const uint32_t *at = s->tokenizer->start + sum->notes.special_id;
    lvn_log(LVN_LOG_WARN, "the texts contain %s special token%s, such as %.*s, encoded as %s",
            lvn_count_text(sum->notes.special, some), lvn_plural(sum->notes.special), (int)(at[1] - at[0]),
            (const char *)s->tokenizer->byte + at[0],
            o->allow_special ? "tokens" : "ordinary text; data.allow_special=true encodes the tokens");
}

/* A checksum of all that determines the ids. */
static enum lvn_status find_key(const struct encoding *e, uint64_t *key)
{
    const int64_t numbers[] = {e->o->allow_special};
    struct lvn_checksum sum;
    lvn_checksum_init(&sum);
    lvn_checksum_add_text(&sum, "documents");
    lvn_checksum_add(&sum, numbers, sizeof numbers);
    lvn_checksum_add_text(&sum, e->field);
    LVN_TRY(lvn_source_files_sum(&e->files, e->s->tokenizer, &sum));
    *key = lvn_checksum_value(&sum);
    return LVN_OK;
}

/* The token after each of several documents; -1: there is none, or the post-processor already adds tokens to each. */
static enum lvn_status find_end(const struct lvn_tokenizer *t, int32_t *id)
{
    struct lvn_ids suffix = {0};
    LVN_TRY(lvn_post_processor_suffix(t, &suffix));
    *id = suffix.n ? -1 : t->end_id;
    lvn_ids_release(&suffix);
    return LVN_OK;
}

static enum lvn_status read_texts(struct documents *s, const struct lvn_data_options *o, enum lvn_split_id split,
                                  const char *path, int64_t *n)
{
    LVN_LOCAL_ARENA(a);
    struct encoding e = {
        .o = o, .s = s, .path = path, .field = o->text_column && *o->text_column ? o->text_column : "text"};
    struct lvn_encoded *encoded = &s->encoded[split];
    struct summary sum;
    uint64_t key;
    LVN_TRY(lvn_source_files_find(&e.files, &a, path));
    LVN_TRY(find_key(&e, &key));
    LVN_TRY(lvn_encoded_open(encoded, key, o->cache, encode, &e));
    LVN_CHECK(encoded->bytes >= (int64_t)sizeof sum, INTERNAL, "%" PRId64 " encoded bytes", encoded->bytes);
    memcpy(&sum, encoded->data + encoded->bytes - sizeof sum, sizeof sum);
    report(s, o, path, &sum, encoded->data + (sum.n * s->width + 7) / 8 * 8);
    *n = sum.n;
    return LVN_OK;
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
    LVN_TRY(find_end(s->tokenizer, &s->end_id));
    LVN_TRY(read_texts(s, o, LVN_SPLIT_TRAIN, o->path, &n));
    if (two) {
        LVN_TRY(read_texts(s, o, LVN_SPLIT_VAL, o->val_path, &n_val));
        LVN_TRY(lvn_split_set(&d->split[LVN_SPLIT_TRAIN], o->path, s->encoded[0].data, s->width, n));
        return lvn_split_set(&d->split[LVN_SPLIT_VAL], o->val_path, s->encoded[1].data, s->width, n_val);
    }
    n_val = n - (int64_t)(0.9 * (double)n);
    LVN_TRY(lvn_split_set(&d->split[LVN_SPLIT_TRAIN], o->path, s->encoded[0].data, s->width, n - n_val));
    LVN_TRY(
        lvn_split_set(&d->split[LVN_SPLIT_VAL], o->path, s->encoded[0].data + (n - n_val) * s->width, s->width, n_val));
    d->split[LVN_SPLIT_VAL].first = n - n_val;
    return lvn_split_set(&d->split[LVN_SPLIT_ALL], o->path, s->encoded[0].data, s->width, n);
}

static void close_documents(struct lvn_dataset *d)
{
    struct documents *s = d->state;
    for (int i = 0; s && i < LVN_SPLITS_TRAINED; i++) lvn_encoded_release(&s->encoded[i]);
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
        const int64_t plain = lvn_file_uncompressed_name(path);
        if (path[plain]) return lvn_file_type(path, plain) != LVN_FILE_TYPE_REFUSED;
        return lvn_is_parquet(path) ||
               (lvn_file_type(path, plain) == LVN_FILE_TYPE_LINES && !lvn_file_begins_array(path));
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (has(&a, path, others[i])) return false;
    if (lvn_text_files_quietly(&a, path, &file, &n) != LVN_OK) lvn_error_clear();
    for (int64_t i = 0; i < n && !texts; i++) {
        const enum lvn_file_type type = lvn_file_type(file[i], lvn_file_uncompressed_name(file[i]));
        texts = type == LVN_FILE_TYPE_TEXT || type == LVN_FILE_TYPE_LINES || type == LVN_FILE_TYPE_PARQUET;
    }
    return texts;
}

/* FORMAT if rows with labels would be read as documents, because most users want to train on the labels. */
static enum lvn_status refuse_labels(const char *path)
{
    LVN_LOCAL_ARENA(a);
    LVN_LOCAL_TEXT(rows);
    struct lvn_table t;
    const bool folder = lvn_path_is_dir(path);
    const char *file = lvn_text_files_look(&a, path, &rows);
    const bool found = lvn_table_open_text(&t, "rows.jsonl", rows.p, rows.n) == LVN_OK && lvn_table_has_labels(&t);
    lvn_table_close(&t);
    lvn_error_clear();
    const bool lines = lvn_file_type(path, lvn_file_uncompressed_name(path)) == LVN_FILE_TYPE_LINES;
    LVN_CHECK(
        !found, FORMAT,
        "the rows of '%s' have texts and labels, and labels are read from one file, %s%s%s: to learn them, %s; to "
        "learn the texts alone, as a language model, set data.kind=documents",
        path, folder ? "as '" : "a .tsv, .csv, .jsonl or .parquet", folder ? file : "", folder ? "'" : "",
        folder  ? "give its path"
        : lines ? "let .jsonl replace .json in its name"
                : "unpack it");
    return LVN_OK;
}

extern const struct lvn_dataset_kind lvn_dataset_documents;
const struct lvn_dataset_kind lvn_dataset_documents = {
    .name = "documents",
    .help = "texts, tokenized when the run starts; the last tenth of the tokens is used for validation",
    .typical_vocab = 50257,
    .reads_stores = true,
    .is_text = true,
    .needs_tokenizer = true,
    .mixes = true,
    .try_command = "generate",
    .try_flags = " --prompt \"...\"",
    .matches = matches,
    .check_guess = refuse_labels,
    .fields = lvn_stream_fields_of,
    .open = open_documents,
    .close = close_documents,
};
