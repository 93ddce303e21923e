/* tokenizer.c - levin tokenizer train: a vocabulary from text. */
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "base/threads.h"
#include "cli/cli.h"
#include "formats/walk.h"
#include "stores/stage.h"
#include "stores/store.h"
#include "tokenizers/tokenizer.h"
#include "tokenizers/train.h"

enum { CHUNK_BYTES = 32 << 20, MOST_LINE = 1 << 30 };

struct reader {
    struct lvn_vocabulary *v;
    const char *field[4], *name; /* field: the first of these that there is, NULL at the end */
    enum { LINES_TEXT, LINES_JSON, LINES_TABLE } kind;
    int64_t column, line;      /* LINES_TABLE: where the field stands, -1 before the first line */
    struct lvn_text raw, text; /* not cut into lines yet; to be counted */
    int64_t bytes, bad, passed_over;
};

static enum lvn_status count(struct reader *r)
{
    LVN_TRY(lvn_text_status(&r->text));
    if (r->text.n) LVN_TRY(lvn_vocabulary_count(r->v, r->text.p, r->text.n));
    r->bytes += r->text.n;
    lvn_text_clear(&r->text);
    return LVN_OK;
}

/* --- lines --- */

static void json_line(struct reader *r, const char *p, int64_t n)
{
    json_t *root = json_loadb(p, (size_t)n, 0, NULL), *text = NULL;
    for (int k = 0; !text && r->field[k]; k++) text = json_object_get(root, r->field[k]);
    if (json_is_string(text)) {
        lvn_text_add_bytes(&r->text, json_string_value(text), (int64_t)json_string_length(text));
        lvn_text_add(&r->text, "\n");
    } else if (n) {
        r->bad++;
    }
    json_decref(root);
}

/* The field number `column` of a line of a table. */
static bool field_of(const char *p, int64_t n, int64_t column, const char **field, int64_t *bytes)
{
    for (const char *end = p + n;; column--) {
        const char *tab = memchr(p, '\t', (size_t)(end - p));
        *field = p;
        *bytes = (tab ? tab : end) - p;
        if (!column || !tab) return !column;
        p = tab + 1;
    }
}

static enum lvn_status table_line(struct reader *r, const char *p, int64_t n)
{
    const char *field;
    int64_t bytes;
    if (r->column >= 0) {
        if (!field_of(p, n, r->column, &field, &bytes)) {
            r->bad++;
            return LVN_OK;
        }
        lvn_text_add_bytes(&r->text, field, bytes);
        lvn_text_add(&r->text, "\n");
        return LVN_OK;
    }
    for (int k = 0; r->column < 0 && r->field[k]; k++)
        for (int64_t i = 0; field_of(p, n, i, &field, &bytes); i++)
            if (bytes == (int64_t)strlen(r->field[k]) && !memcmp(field, r->field[k], (size_t)bytes)) r->column = i;
    LVN_CHECK(r->column >= 0, ARG,
              "'%s' has no column '%s' in its first line, '%.*s': name the one that holds the text with "
              "--field",
              r->name, r->field[0], (int)(n < 80 ? n : 80), p);
    return LVN_OK;
}

static enum lvn_status lines(struct reader *r, const char *p, const char *end)
{
    for (const char *next; p < end; p = next) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        next = stop ? stop + 1 : end;
        int64_t n = (stop ? stop : end) - p;
        if (n && p[n - 1] == '\r') n--;
        if (r->kind == LINES_JSON) json_line(r, p, n);
        if (r->kind == LINES_TABLE) LVN_TRY(table_line(r, p, n));
        if (r->text.n >= CHUNK_BYTES) LVN_TRY(count(r));
    }
    return LVN_OK;
}

/* --- files --- */

static bool ends(const char *name, const char *tail)
{
    size_t n = strlen(name), m = strlen(tail);
    return n >= m && !strcmp(name + n - m, tail);
}

static enum lvn_status begin(void *context, const char *name, bool named, bool *want)
{
    struct reader *r = context;
    r->kind = ends(name, ".jsonl") ? LINES_JSON : ends(name, ".tsv") ? LINES_TABLE : LINES_TEXT;
    r->name = name;
    r->column = -1;
    LVN_CHECK(!ends(name, ".parquet") && !ends(name, ".csv"), UNSUPPORTED,
              "'%s' is no text, .jsonl or .tsv: write the column with the texts to a file, a text a line", name);
    *want = named || ends(name, ".txt") || r->kind != LINES_TEXT;
    r->passed_over += !*want;
    return LVN_OK;
}

/* Whole lines of what was read so far; at the end of a file all of it. */
static enum lvn_status take(struct reader *r, bool all)
{
    const char *end = r->raw.n && !all ? memrchr(r->raw.p, '\n', (size_t)r->raw.n) : NULL;
    int64_t n = all ? r->raw.n : end ? end + 1 - r->raw.p : 0;
    LVN_TRY(lvn_text_status(&r->raw));
    LVN_CHECK(n || r->raw.n < MOST_LINE, FORMAT, "'%s': a line of more than %d MiB", r->name, MOST_LINE >> 20);
    if (!n) return LVN_OK;
    if (r->kind != LINES_TEXT) {
        LVN_TRY(lines(r, r->raw.p, r->raw.p + n));
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
    return r->raw.n >= CHUNK_BYTES ? take(r, false) : lvn_text_status(&r->raw);
}

static enum lvn_status end(void *context)
{
    struct reader *r = context;
    LVN_TRY(take(r, true));
    return count(r);
}

static enum lvn_status read_all(struct reader *r, struct lvn_arena *a, const char *input)
{
    struct lvn_walk_visitor v = {.context = r, .begin = begin, .data = data, .end = end};
    const char *const *file;
    int64_t n, bytes;
    LVN_TRY(lvn_store_download(a, input, LVN_WANT_ALL, &input));
    LVN_TRY(lvn_walk_list(a, input, &file, &n));
    for (int64_t i = 0; i < n; i++) LVN_TRY(lvn_walk_file(file[i], n == 1 && !lvn_path_is_dir(input), &v, &bytes));
    LVN_CHECK(
        r->bytes, FORMAT,
        "there is no text in '%s' (%lld files passed over, %lld lines without \"%s\"); texts are files named .txt, "
        "and .jsonl and .tsv with the text in \"%s\" (another one: --field)",
        input, (long long)r->passed_over, (long long)r->bad, r->field[0], r->field[0]);
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
    LVN_CHECK(o->wordpiece || !strcmp(kind, "bpe"), ARG, "--kind wants wordpiece or bpe, got '%.40s'", kind);
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
    LVN_TRY(lvn_stage_open(&c->settings.arena, named, &out));
    LVN_TRY(lvn_vocabulary_save(v, out));
    LVN_TRY(lvn_stage_send(out, named));
    lvn_cli_print(c, "%s: %s tokens from %s of text\n", named, lvn_count_text(v->n, size),
                  lvn_bytes_text(r->bytes, bytes));
    if (v->n < v->o.size)
        lvn_cli_print(c, "fewer than --vocab-size=%lld: no more pairs occur often enough\n", (long long)v->o.size);
    if (r->bad) lvn_cli_print(c, "%lld lines without \"%s\" skipped\n", (long long)r->bad, r->field[0]);
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
    struct reader r = {.v = &v, .field = {"text", "document", "sentence"}};
    const char *field = c->flag[LVN_FLAG_tokenizer_field].t;
    if (*field) r.field[0] = field, r.field[1] = NULL;
    const char *named = c->flag[LVN_FLAG_tokenizer_out].t;
    LVN_TRY(lvn_cli_settings(c, NULL, 0));
    LVN_TRY(read_options(c, &o));
    LVN_CHECK(lvn_cli_on(c, LVN_FLAG_tokenizer_overwrite) || lvn_store_is_url(named) || !lvn_tokenizer_there(named),
              ARG, "'%s' holds a tokenizer already: replace it with --overwrite, or give another folder with --out",
              named);
    enum lvn_status status = lvn_vocabulary_open(&v, &o);
    if (status == LVN_OK) status = make(c, &r, named);
    lvn_text_release(&r.raw);
    lvn_text_release(&r.text);
    lvn_vocabulary_close(&v);
    return status;
}
