/* text_tokenizer.c - see text_tokenizer.h. */
#include "data/texts/text_tokenizer.h"

#include <unistd.h>

#include "base/clock.h"
#include "base/files.h"
#include "base/getenv.h"
#include "base/log.h"
#include "base/text.h"
#include "base/threads.h"
#include "data/file_type.h"
#include "data/parquet_texts.h"
#include "data/texts/text_files.h"
#include "formats/archive_reader.h"
#include "host/machine.h"
#include "stores/store.h"
#include "tokenizers/tokenizer_config.h"

enum { CHUNK_BYTES = 32 << 20, MAX_LINE = 1 << 30 };

static enum lvn_status count(struct lvn_vocabulary_text *r)
{
    LVN_TRY(lvn_text_status(&r->text));
    if (r->text.n) LVN_TRY(lvn_vocabulary_count(r->v, r->text.p, r->text.n));
    lvn_text_clear(&r->text);
    return LVN_OK;
}

/* Add a part of a text, or with an end its last part. Words are counted when there are enough for all threads. */
static enum lvn_status add_text(struct lvn_vocabulary_text *r, const void *p, int64_t n, const char *end)
{
    if (n) lvn_text_add_bytes(&r->text, p, n);
    lvn_text_add(&r->text, end);
    r->bytes += n + (*end == '\n');
    return r->text.n >= CHUNK_BYTES ? count(r) : lvn_text_status(&r->text);
}

static const char text_end[] = {LVN_WORDS_END, '\0'};

/* What ends the text of a row: a line of it is a text, unless words may continue on the next line. */
static const char *row_end(const struct lvn_vocabulary_text *r)
{
    return r->v->o.pattern ? text_end : "\n";
}

/* Add the texts of the rows in p. With the first bytes of a table, find the columns. */
static enum lvn_status read_rows(struct lvn_vocabulary_text *r, const char *p, int64_t n)
{
    struct lvn_table_row row;
    if (r->begun) {
        lvn_table_continue(&r->table, p, n);
    } else {
        LVN_TRY(lvn_table_open_text(&r->table, r->name, p, n));
        r->begun = true;
        r->table.column_option = r->column_option;
        LVN_TRY(lvn_table_column(&r->table, r->field, true));
    }
    for (bool more = true;;) {
        LVN_TRY(lvn_table_next(&r->table, &row, &more));
        if (!more) return LVN_OK;
        if (*row.bad && !r->bad++) lvn_text_printf(&r->first_bad, "%s", row.bad);
        if (*row.bad) continue;
        LVN_TRY(add_text(r, row.cell[0].p, row.cell[0].n, row_end(r)));
    }
}

/* --- files --- */

static enum lvn_status begin(void *context, const char *name, bool named, bool *want)
{
    struct lvn_vocabulary_text *r = context;
    r->is_table = lvn_table_is_named(name);
    r->begun = false;
    r->name = name;
    r->offset = 0;
    LVN_CHECK(!named || !lvn_is_parquet(name), FORMAT, "'%s' is a Parquet file in an archive: unpack the archive first",
              name);
    *want = named || r->is_table || lvn_file_type(name, (int64_t)strlen(name)) == LVN_FILE_TYPE_TEXT;
    r->passed_over += !*want;
    return LVN_OK;
}

/* FORMAT if the next n bytes of `raw`, whole lines, are not UTF-8. */
static enum lvn_status check_utf8(const struct lvn_vocabulary_text *r, int64_t n)
{
    const int64_t wrong = lvn_utf8_check(r->raw.p, n);
    LVN_CHECK(wrong < 0, FORMAT,
              "'%s' is not UTF-8 text: byte 0x%02x at offset %lld does not belong to a character; " LVN_UTF8_ADVICE,
              r->name, (unsigned char)r->raw.p[wrong], (long long)(r->offset + wrong));
    return LVN_OK;
}

/* Process the whole lines of `raw`; with `all`, at the end of a file, all of it. A row of a .csv may span lines, so a
 * .csv is processed whole. */
static enum lvn_status process(struct lvn_vocabulary_text *r, bool all)
{
    const bool whole = r->is_table && lvn_table_is_csv(r->name), texts = !r->is_table && r->v->o.pattern;
    const char *end = r->raw.n && !all && !whole && !texts ? memrchr(r->raw.p, '\n', (size_t)r->raw.n) : NULL;
    int64_t n = all ? r->raw.n : end ? end + 1 - r->raw.p : 0;
    if (texts && !all) n = lvn_split_safe_last((const uint8_t *)r->raw.p, r->raw.n);
    LVN_TRY(lvn_text_status(&r->raw));
    LVN_CHECK(n || r->raw.n < MAX_LINE, FORMAT, "'%s': a %s of more than %d MiB", r->name, whole ? "file" : "line",
              MAX_LINE >> 20);
    if (!n) return LVN_OK;
    if (r->is_table) {
        LVN_TRY(read_rows(r, r->raw.p, n));
    } else {
        const int64_t bom = r->offset ? 0 : lvn_utf8_bom(r->raw.p, n);
        LVN_TRY(check_utf8(r, n));
        LVN_TRY(add_text(r, r->raw.p + bom, n - bom, all ? text_end : ""));
    }
    r->offset += n;
    memmove(r->raw.p, r->raw.p + n, (size_t)(r->raw.n - n));
    r->raw.n -= n;
    return LVN_OK;
}

static enum lvn_status data(void *context, const void *p, int64_t n)
{
    struct lvn_vocabulary_text *r = context;
    lvn_text_add_bytes(&r->raw, p, n);
    return r->raw.n >= CHUNK_BYTES ? process(r, false) : lvn_text_status(&r->raw);
}

static enum lvn_status end(void *context)
{
    struct lvn_vocabulary_text *r = context;
    enum lvn_status status = process(r, true);
    lvn_table_close(&r->table);
    r->table = (struct lvn_table){0};
    return status;
}

/* A text of a Parquet file. */
static enum lvn_status add_row(void *context, int64_t group, int64_t row, const void *text, int64_t n)
{
    struct lvn_vocabulary_text *r = context;
    const bool good = text && lvn_utf8_check(text, n) < 0;
    if (!good && !r->bad++)
        lvn_text_printf(&r->first_bad, "'%s', row group %lld, row %lld: %s", r->name, (long long)group, (long long)row,
                        text ? "not UTF-8 text" : "null");
    return good ? add_text(r, text, n, row_end(r)) : LVN_OK;
}

static enum lvn_status read_file(struct lvn_vocabulary_text *r, const char *path, bool named)
{
    const struct lvn_archive_visitor v = {.context = r, .begin = begin, .data = data, .end = end};
    const struct lvn_parquet_texts texts = {
        .field = r->field, .option = r->column_option, .each = add_row, .context = r};
    int64_t bytes;
    if (!lvn_is_parquet(path)) return lvn_archive_read(path, named, &v, &bytes);
    r->name = path;
    return lvn_parquet_texts_read(&texts, path, &bytes);
}

enum lvn_status lvn_vocabulary_text_read(struct lvn_vocabulary_text *r, struct lvn_arena *a, const char *input)
{
    const char *const *file;
    int64_t n;
    LVN_TRY(lvn_store_download(a, input, LVN_WANT_ALL, &input));
    LVN_TRY(lvn_text_files(a, input, &file, &n));
    for (int64_t i = 0; i < n; i++) LVN_TRY(read_file(r, file[i], n == 1 && !lvn_path_is_dir(input)));
    LVN_TRY(count(r));
    LVN_CHECK(r->bytes, FORMAT,
              "there is no text in '%s' (%lld files skipped, %lld rows that cannot be used%s%s); texts are files named "
              ".txt, .md, .py and similar, and .jsonl, .parquet, .tsv and .csv with the text in '%s' (another one: %s)",
              input, (long long)r->passed_over, (long long)r->bad, r->bad ? ", the first: " : "",
              r->bad ? r->first_bad.p : "", r->field, r->column_option);
    return LVN_OK;
}

void lvn_vocabulary_text_release(struct lvn_vocabulary_text *r)
{
    lvn_text_release(&r->raw);
    lvn_text_release(&r->text);
    lvn_text_release(&r->first_bad);
    lvn_table_close(&r->table);
}

/* --- the tokenizer of a data set --- */

/* Write the vocabulary to a new folder, open it as a tokenizer, which keeps the contents of the files, and remove
 * the folder. */
static enum lvn_status reopen(const struct lvn_vocabulary *v, struct lvn_arena *a, struct lvn_tokenizer **out)
{
    const char *parent = lvn_getenv("TMPDIR"), *const * names;
    char *dir = lvn_arena_printf(a, "%s/levin-tokenizer-XXXXXX", parent && *parent ? parent : "/tmp");
    int n = 0;
    if (!dir) return LVN_MEMORY;
    LVN_CHECK(mkdtemp(dir), IO, "cannot create a folder for the files of the tokenizer, '%s' (TMPDIR)", dir);
    enum lvn_status status = lvn_vocabulary_save(v, dir);
    if (status == LVN_OK) status = lvn_tokenizer_open(out, dir);
    if (status == LVN_OK) status = lvn_dir_list(a, dir, &names, &n);
    for (int i = 0; i < n; i++) {
        const char *path = lvn_path_join(a, dir, names[i]);
        if (path) (void)unlink(path);
    }
    (void)rmdir(dir);
    return status;
}

/* Sizes of vocabularies: WordPiece of short texts; BPE by the size of the text. */
enum { WORDPIECE_SIZE = 8000, ALPHABET = 4000, BYTES_A_TOKEN = 256, BPE_MIN = 512, BPE_MAX = 16384 };

static enum lvn_status train(struct lvn_tokenizer **out, const struct lvn_data_options *o, bool wordpiece)
{
    LVN_LOCAL_ARENA(a);
    const bool column = o->text_column && *o->text_column;
    const double begin = lvn_seconds();
    struct lvn_vocabulary v;
    struct lvn_vocabulary_text r = {
        .v = &v, .field = column ? o->text_column : "document|text|sentence", .column_option = "data.text_column"};
    struct lvn_vocabulary_options options = {.wordpiece = wordpiece,
                                             .size = o->vocab_size ? o->vocab_size : WORDPIECE_SIZE,
                                             .limit_alphabet = wordpiece ? ALPHABET : 0,
                                             .threads = lvn_threads_default()};
    char bytes[LVN_NUMBER_TEXT], tokens[LVN_NUMBER_TEXT];
    enum lvn_status status = lvn_vocabulary_open(&v, &options);
    if (status == LVN_OK) status = lvn_vocabulary_text_read(&r, &a, o->path);
    const int64_t size = r.bytes / BYTES_A_TOKEN;
    if (!wordpiece && !o->vocab_size) v.o.size = size < BPE_MIN ? BPE_MIN : size > BPE_MAX ? BPE_MAX : size;
    if (status == LVN_OK) status = lvn_vocabulary_make(&v);
    if (status == LVN_OK) status = reopen(&v, &a, out);
    if (status == LVN_OK)
        lvn_log(LVN_LOG_INFO,
                "no tokenizer is given: %s was trained on '%s' in %.1f s, %s tokens from %s of text; it is saved with "
                "the model",
                wordpiece ? "WordPiece" : "BPE", o->path, lvn_seconds() - begin, lvn_count_text(v.n, tokens),
                lvn_bytes_text(r.bytes, bytes));
    lvn_vocabulary_text_release(&r);
    lvn_vocabulary_close(&v);
    if (status == LVN_OK) return LVN_OK;
    return lvn_while_at(status, "training a tokenizer on '%s'; data.tokenizer names an existing one", o->path);
}

enum lvn_status lvn_text_tokenizer(struct lvn_dataset *d, const struct lvn_data_options *o, bool wordpiece,
                                   const struct lvn_tokenizer **out)
{
    char user[80];
    snprintf(user, sizeof user, "data.kind=%s, which cuts texts into tokens,", o->kind);
    if (o->tokenizer && *o->tokenizer) LVN_TRY(lvn_tokenizer_open(&d->tokenizer, o->tokenizer));
    *out = d->tokenizer ? d->tokenizer : o->model_tokenizer;
    if (!*out) LVN_TRY(lvn_tokenizer_require(o->tokenizer_error, user));
    if (!*out && o->trains_tokenizer && o->path && *o->path) LVN_TRY(train(&d->tokenizer, o, wordpiece));
    if (!*out) *out = d->tokenizer;
    LVN_CHECK(*out, ARG,
              "%s has no tokenizer: give data.tokenizer, a folder or a file that has one; `levin tokenizer train "
              "--kind=%s --input=%s --field=%s --out=FOLDER` makes one",
              user, wordpiece ? "wordpiece" : "bpe", o->path && *o->path ? o->path : "TEXTS",
              o->text_column && *o->text_column ? o->text_column : "COLUMN");
    if (d->tokenizer && o->add_tokens && *o->add_tokens) LVN_TRY(lvn_tokenizer_config_add(d->tokenizer, o->add_tokens));
    d->vocab_size = (*out)->n;
    return LVN_OK;
}
