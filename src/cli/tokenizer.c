/* tokenizer.c - levin tokenizer train: makes a vocabulary from text files. tokenizers/bpe_trainer.h does the work. */
#include <string.h>

#include "base/files.h"
#include "base/text.h"
#include "base/threads.h"
#include "cli/args.h"
#include "cli/cli.h"
#include "data/table.h"
#include "formats/archive_reader.h"
#include "host/machine.h"
#include "stores/store.h"
#include "stores/upload_staging.h"
#include "tokenizers/bpe_trainer.h"
#include "tokenizers/tokenizer.h"

enum { CHUNK_BYTES = 32 << 20, MAX_LINE = 1 << 30 };

struct reader {
    struct lvn_vocabulary *v;
    const char *field; /* columns of tables, "text|document": the first that exists holds the text */
    const char *name;  /* of the file that is read */
    bool is_table;     /* of rows with columns */
    bool begun;        /* `table` is open */
    struct lvn_table table;
    struct lvn_text raw;       /* bytes of the file that are not processed yet */
    struct lvn_text text;      /* of rows, not counted yet */
    int64_t bytes;             /* of text, counted */
    int64_t bad;               /* rows that cannot be used */
    int64_t passed_over;       /* files of other types */
    struct lvn_text first_bad; /* why, of the first bad row */
};

static enum lvn_status count(struct reader *r)
{
    LVN_TRY(lvn_text_status(&r->text));
    if (r->text.n) LVN_TRY(lvn_vocabulary_count(r->v, r->text.p, r->text.n));
    r->bytes += r->text.n;
    lvn_text_clear(&r->text);
    return LVN_OK;
}

/* Add the texts of the rows in p. With the first bytes of a table, find the columns. */
static enum lvn_status read_rows(struct reader *r, const char *p, int64_t n)
{
    struct lvn_table_row row;
    if (r->begun) {
        lvn_table_continue(&r->table, p, n);
    } else {
        LVN_TRY(lvn_table_open_text(&r->table, r->name, p, n));
        r->begun = true;
        r->table.column_option = "--field";
        LVN_TRY(lvn_table_column(&r->table, r->field, true));
    }
    for (bool more = true;;) {
        LVN_TRY(lvn_table_next(&r->table, &row, &more));
        if (!more) return LVN_OK;
        if (*row.bad && !r->bad++) lvn_text_printf(&r->first_bad, "%s", row.bad);
        if (*row.bad) continue;
        lvn_text_add_bytes(&r->text, row.cell[0].p, row.cell[0].n);
        lvn_text_add(&r->text, "\n");
        if (r->text.n >= CHUNK_BYTES) LVN_TRY(count(r));
    }
}

/* --- files --- */

static enum lvn_status begin(void *context, const char *name, bool named, bool *want)
{
    struct reader *r = context;
    r->is_table = lvn_table_is_named(name);
    r->begun = false;
    r->name = name;
    LVN_CHECK(!lvn_ends_with(name, ".parquet"), UNSUPPORTED,
              "'%s' is a Parquet file, which levin does not read; write it as .csv, .tsv or .jsonl", name);
    *want = named || lvn_ends_with(name, ".txt") || r->is_table;
    r->passed_over += !*want;
    return LVN_OK;
}

/* Process the whole lines of `raw`; with `all`, at the end of a file, all of it. A row of a .csv may span lines, so a
 * .csv is processed whole. */
static enum lvn_status process(struct reader *r, bool all)
{
    const bool whole = r->is_table && lvn_ends_with(r->name, ".csv");
    const char *end = r->raw.n && !all && !whole ? memrchr(r->raw.p, '\n', (size_t)r->raw.n) : NULL;
    int64_t n = all ? r->raw.n : end ? end + 1 - r->raw.p : 0;
    LVN_TRY(lvn_text_status(&r->raw));
    LVN_CHECK(n || r->raw.n < MAX_LINE, FORMAT, "'%s': a %s of more than %d MiB", r->name, whole ? "file" : "line",
              MAX_LINE >> 20);
    if (!n) return LVN_OK;
    if (r->is_table) {
        LVN_TRY(read_rows(r, r->raw.p, n));
    } else {
        LVN_TRY(lvn_vocabulary_count(r->v, r->raw.p, n));
        r->bytes += n;
    }
    memmove(r->raw.p, r->raw.p + n, (size_t)(r->raw.n - n));
    r->raw.n -= n;
    return LVN_OK;
}

static enum lvn_status data(void *context, const void *p, int64_t n)
{
    struct reader *r = context;
    lvn_text_add_bytes(&r->raw, p, n);
    return r->raw.n >= CHUNK_BYTES ? process(r, false) : lvn_text_status(&r->raw);
}

static enum lvn_status end(void *context)
{
    struct reader *r = context;
    enum lvn_status status = process(r, true);
    lvn_table_close(&r->table);
    r->table = (struct lvn_table){0};
    return status == LVN_OK ? count(r) : status;
}

static enum lvn_status read_all(struct reader *r, struct lvn_arena *a, const char *input)
{
    struct lvn_archive_visitor v = {.context = r, .begin = begin, .data = data, .end = end};
    const char *const *file;
    int64_t n, bytes;
    LVN_TRY(lvn_store_download(a, input, LVN_WANT_ALL, &input));
    LVN_TRY(lvn_archive_list(a, input, &file, &n));
    for (int64_t i = 0; i < n; i++) LVN_TRY(lvn_archive_read(file[i], n == 1 && !lvn_path_is_dir(input), &v, &bytes));
    LVN_CHECK(r->bytes, FORMAT,
              "there is no text in '%s' (%lld files skipped, %lld rows that cannot be used%s%s); texts are files named "
              ".txt, and .jsonl, .tsv and .csv with the text in '%s' (another one: --field)",
              input, (long long)r->passed_over, (long long)r->bad, r->bad ? ", the first: " : "",
              r->bad ? r->first_bad.p : "", r->field);
    return LVN_OK;
}

/* --- the command --- */

static enum lvn_status read_options(struct lvn_cli *c, struct lvn_vocabulary_options *o)
{
    const char *kind = c->flag[LVN_FLAG_tokenizer_kind].t;
    *o = (struct lvn_vocabulary_options){.wordpiece = !strcmp(kind, "wordpiece"),
                                         .lowercase = lvn_cli_on(c, LVN_FLAG_tokenizer_lowercase),
                                         .size = c->flag[LVN_FLAG_tokenizer_vocab_size].i,
                                         .min_frequency = c->flag[LVN_FLAG_tokenizer_min_frequency].i,
                                         .limit_alphabet = c->flag[LVN_FLAG_tokenizer_limit_alphabet].i,
                                         .threads = lvn_threads_default()};
    if (c->settings.trainer.threads > 0) o->threads = (int)c->settings.trainer.threads;
    LVN_CHECK(!strcmp(c->operand[0], "train"), ARG, "levin tokenizer wants train, got '%.40s'", c->operand[0]);
    LVN_CHECK(o->wordpiece || !strcmp(kind, "bpe"), ARG, "--kind must be wordpiece or bpe, got '%.40s'", kind);
    LVN_CHECK(o->wordpiece || (!o->lowercase && !o->limit_alphabet), ARG,
              "--lowercase and --limit-alphabet are for --kind=wordpiece: byte-level BPE keeps all bytes");
    LVN_CHECK(*c->flag[LVN_FLAG_tokenizer_input].t, ARG, "levin tokenizer train wants --input=FILE_OR_FOLDER");
    LVN_CHECK(*c->flag[LVN_FLAG_tokenizer_out].t, ARG, "levin tokenizer train wants --out=FOLDER");
    return LVN_OK;
}

static enum lvn_status make(struct lvn_cli *c, struct reader *r, const char *named)
{
    struct lvn_vocabulary *v = r->v;
    const char *out;
    char size[LVN_NUMBER_TEXT], bytes[LVN_NUMBER_TEXT];
    LVN_TRY(read_all(r, &c->settings.arena, c->flag[LVN_FLAG_tokenizer_input].t));
    LVN_TRY(lvn_vocabulary_make(v));
    LVN_TRY(lvn_upload_staging_open(&c->settings.arena, named, &out));
    LVN_TRY(lvn_vocabulary_save(v, out));
    LVN_TRY(lvn_upload_staging_send(out, named));
    lvn_cli_print(c, "%s: %s tokens from %s of text\n", named, lvn_count_text(v->n, size),
                  lvn_bytes_text(r->bytes, bytes));
    if (v->n < v->o.size)
        lvn_cli_print(c, "fewer than --vocab-size=%lld: no more pairs occur often enough\n", (long long)v->o.size);
    if (r->bad)
        lvn_cli_print(c, "%lld rows cannot be used and are skipped; the first: %s\n", (long long)r->bad,
                      r->first_bad.p);
    lvn_cli_add(c, "out", json_string(named));
    lvn_cli_add(c, "vocab_size", json_integer(v->n));
    lvn_cli_add(c, "merges", json_integer(v->n_merges));
    lvn_cli_add(c, "text_bytes", json_integer(r->bytes));
    lvn_cli_add(c, "bad_lines", json_integer(r->bad));
    return LVN_OK;
}

enum lvn_status lvn_command_tokenizer(struct lvn_cli *c)
{
    struct lvn_vocabulary_options o;
    struct lvn_vocabulary v;
    struct reader r = {.v = &v, .field = "text|document|sentence"};
    const char *field = c->flag[LVN_FLAG_tokenizer_field].t;
    if (*field) r.field = field;
    const char *named = c->flag[LVN_FLAG_tokenizer_out].t;
    LVN_TRY(lvn_cli_settings(c, NULL, 0));
    LVN_TRY(read_options(c, &o));
    LVN_CHECK(lvn_cli_on(c, LVN_FLAG_tokenizer_overwrite) || lvn_store_is_url(named) || !lvn_tokenizer_exists(named),
              ARG, "'%s' holds a tokenizer already: replace it with --overwrite, or give another folder with --out",
              named);
    enum lvn_status status = lvn_vocabulary_open(&v, &o);
    if (status == LVN_OK) status = make(c, &r, named);
    lvn_text_release(&r.raw);
    lvn_text_release(&r.text);
    lvn_text_release(&r.first_bad);
    lvn_table_close(&r.table);
    lvn_vocabulary_close(&v);
    return status;
}
