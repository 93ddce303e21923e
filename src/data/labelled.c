/* labelled.c - data.kind=labelled: texts, or pairs of texts, with a class or a number: rows of a .tsv, .csv or .jsonl
 * file (data/table.h).
 *
 * Opening the file replaces what data.replace says (data/replace.h) in all texts, tokenizes them and stores the ids,
 * with the tokens that the tokenizer's post-processor adds to a text or a pair ([CLS] text [SEP], or none). Texts are
 * truncated to data.max_length; of a pair the longer text first. Without data.val_path a fraction of the rows, chosen
 * by the seed, is for validation.
 *
 * The label is a class number, or any finite number if the task learns from numbers. A row that cannot be used
 * (malformed; another label; no text) is refused, or skipped and counted. A text of which nothing is left is used.
 * Texts without classes have the label -1, without numbers 0. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "base/log.h"
#include "base/random.h"
#include "data/dataset.h"
#include "data/replace.h"
#include "data/table.h"
#include "formats/json.h"
#include "stores/store.h"
#include "tokenizers/post_processor.h"

enum { MAX_CLASSES = 1 << 16, DEFAULT_LENGTH = 512, NUMBER_BYTES = 64 };

struct text {
    int64_t first;  /* index of its first id */
    int32_t n;      /* ids */
    int32_t second; /* number of ids before those of the pair's second text; INT32_MAX: no pair */
    int32_t label;  /* its class; -1: none */
    float number;   /* in place of the class, if the task learns from numbers */
};

/* The rows of one file. */
struct file {
    struct text *row;
    int64_t n, capacity;
};

struct labelled {
    struct lvn_ids ids;
    struct file file[LVN_SPLIT_ALL];
    uint64_t seed;
    int64_t cut; /* rows of the training file for validation: the last ones of a permutation; 0: none */
    const struct lvn_tokenizer *tokenizer;
    struct lvn_encoder *encoder;
    struct lvn_ids first_text; /* ids of the row that is read */
    struct lvn_ids pair_text;  /* ids of its second text */
    struct lvn_ids types;      /* token types of the row that is read */
    int64_t max_length;
    struct lvn_replace *replace; /* NULL: nothing is replaced */
    struct lvn_text replaced;
    struct lvn_text bad_rows; /* lvn_dataset.skipped_rows */
};

/* --- rows --- */

static enum lvn_status encode(struct labelled *l, const char *p, int64_t n, struct lvn_ids *out)
{
    out->n = 0;
    if (l->replace) {
        LVN_TRY(lvn_replace_run(l->replace, p, n, &l->replaced));
        p = l->replaced.p;
        n = l->replaced.n;
    }
    return lvn_encode(l->encoder, p, n, LVN_ENCODE_ORDINARY, out);
}

/* Makes a sample of the encoded text or pair: truncates, the longer text first, and applies the post-processor. */
static enum lvn_status finish_row(struct labelled *l, struct text *t, bool pair)
{
    struct lvn_ids *a = &l->first_text, *b = &l->pair_text;
    const int64_t extra = lvn_post_processor_added_tokens(l->tokenizer, pair), capacity = l->max_length - extra,
                  min = pair ? 2 : 1;
    LVN_CHECK(capacity >= min, ARG,
              "a sample may have %" PRId64
              " tokens (data.max_length, else the model's positions), and the tokenizer puts %" PRId64
              " of its own around %s: take at least %" PRId64,
              l->max_length, extra, pair ? "a pair" : "a text", extra + min);
    if (!pair) b->n = 0;
    while (a->n + b->n > capacity) --*(a->n > b->n ? &a->n : &b->n);
    l->types.n = 0;
    LVN_TRY(lvn_post_processor_run(l->tokenizer, a, pair ? b : NULL, &l->ids, &l->types));
    LVN_TRY(lvn_ids_reserve(&l->ids, 1));
    if (l->ids.n == t->first) l->ids.p[l->ids.n++] = 0; /* an empty text, and no tokens of the post-processor */
    t->n = (int32_t)(l->ids.n - t->first);
    t->second = INT32_MAX;
    for (int64_t i = l->types.n - 1; i >= 0 && l->types.p[i]; i--) t->second = (int32_t)i;
    return LVN_OK;
}

/* The class number in a cell; -1: it has none. */
static int64_t parse_class(const char *p, int64_t n)
{
    int64_t x = 0;
    while (n && *p == ' ') p++, n--;
    while (n && p[n - 1] == ' ') n--;
    if (!n) return -1;
    for (; n; p++, n--) {
        if (*p < '0' || *p > '9' || x >= MAX_CLASSES) return -1;
        x = 10 * x + (*p - '0');
    }
    return x < MAX_CLASSES ? x : -1;
}

/* The number in a cell, as "-1.5" or "2e3"; false: it has none that is finite in fp32. */
static bool parse_number(const char *p, int64_t n, float *out)
{
    char text[NUMBER_BYTES], *end;
    while (n && *p == ' ') p++, n--;
    while (n && p[n - 1] == ' ') n--;
    if (!n || n >= NUMBER_BYTES) return false;
    memcpy(text, p, (size_t)n);
    text[n] = '\0';
    if (text[strspn(text, "0123456789+-.eE")]) return false; /* strtod() takes nan, inf and hexadecimal ones, too */
    *out = (float)strtod(text, &end);
    return !*end && isfinite(*out);
}

enum { TEXT, PAIR, LABEL };

static void check_class(const struct lvn_data_options *o, const struct lvn_table *t, struct lvn_table_row *row,
                        struct text *out)
{
    const char *p = row->cell[LABEL].p;
    const int64_t label = p ? parse_class(p, row->cell[LABEL].n) : -1;
    out->label = (int32_t)label;
    if (label < 0)
        snprintf(row->bad, sizeof row->bad, "%s:%" PRId64 ": the label is '%.40s'; a whole number from 0 on is wanted",
                 t->path, row->line, p ? p : "");
    else if (o->classes && label >= o->classes)
        snprintf(row->bad, sizeof row->bad, "%s:%" PRId64 ": the label is %" PRId64 "; the model knows 0 to %" PRId64,
                 t->path, row->line, label, o->classes - 1);
}

/* Sets the label of a row. If the row cannot be used, writes the reason into row->bad. */
static void check_row(const struct lvn_data_options *o, const struct lvn_table *t, struct lvn_table_row *row,
                      struct text *out)
{
    const char *p = row->cell[LABEL].p;
    *out = (struct text){.label = -1};
    if (*row->bad) return;
    if (!row->cell[TEXT].n && !o->unlabelled)
        snprintf(row->bad, sizeof row->bad, "%s:%" PRId64 ": the text is empty", t->path, row->line);
    if (o->unlabelled || o->masks) return;
    if (o->label != LVN_LABEL_NUMBER)
        check_class(o, t, row, out);
    else if (!p || !parse_number(p, row->cell[LABEL].n, &out->number))
        snprintf(row->bad, sizeof row->bad,
                 "%s:%" PRId64 ": the label is '%.40s'; a finite number is wanted, as 0.5 or -2e3", t->path, row->line,
                 p ? p : "");
}

static enum lvn_status add_row(struct labelled *l, struct file *f, const struct lvn_table_row *row, struct text t)
{
    if (f->n == f->capacity) {
        int64_t capacity = f->capacity ? 2 * f->capacity : 1024;
        struct text *more = lvn_realloc(f->row, sizeof *more * (size_t)capacity);
        if (!more) return LVN_MEMORY;
        f->row = more;
        f->capacity = capacity;
    }
    const bool pair = row->cell[PAIR].p != NULL;
    t.first = l->ids.n;
    LVN_TRY(encode(l, row->cell[TEXT].p, row->cell[TEXT].n, &l->first_text));
    if (pair) LVN_TRY(encode(l, row->cell[PAIR].p, row->cell[PAIR].n, &l->pair_text));
    LVN_TRY(finish_row(l, &t, pair));
    f->row[f->n++] = t;
    return LVN_OK;
}

/* Length in bytes of the first line of d->skipped_rows. */
static int first_line(const struct lvn_dataset *d)
{
    return d->skipped_rows ? (int)strcspn(d->skipped_rows, "\n") : 0;
}

static enum lvn_status read_rows(struct lvn_dataset *d, const struct lvn_data_options *o, struct lvn_table *t,
                                 struct file *f)
{
    struct labelled *l = d->state;
    struct lvn_table_row row;
    const char *text = o->text_column && *o->text_column ? o->text_column : "document|text|sentence";
    const char *label = o->label_column && *o->label_column ? o->label_column : "label";
    bool pair = o->pair_column && *o->pair_column;
    LVN_TRY(lvn_table_column(t, text, true));
    LVN_TRY(lvn_table_column(t, pair ? o->pair_column : "", pair));
    LVN_TRY(lvn_table_column(t, label, !o->unlabelled && !o->masks));
    t->reals[LABEL] = o->label == LVN_LABEL_NUMBER;
    for (int k = TEXT; k <= LABEL; k++) /* else the label could be part of the input */
        LVN_CHECK(
            !*t->name[k] || strcmp(t->name[k], t->name[(k + 1) % 3]) != 0, ARG,
            "'%s': the column '%s' is named twice by data.text_column, data.pair_column and data.label_column: they "
            "must be different ones",
            t->path, t->name[k]);
    for (bool more = true;;) {
        LVN_TRY(lvn_table_next(t, &row, &more));
        if (!more) break;
        struct text labelled;
        check_row(o, t, &row, &labelled);
        if (!*row.bad) {
            LVN_TRY(add_row(l, f, &row, labelled));
            continue;
        }
        LVN_CHECK(o->skip_bad_rows, FORMAT, "%s; correct it, or skip such rows with data.skip_bad_rows=true", row.bad);
        if (!d->skipped++ || o->for_evaluation) lvn_text_printf(&l->bad_rows, "%s\n", row.bad);
    }
    LVN_TRY(lvn_text_status(&l->bad_rows));
    d->skipped_rows = l->bad_rows.p;
    LVN_CHECK(f->n, FORMAT, "'%s' has no row that can be used%s%.*s", t->path, d->skipped ? "; the first one: " : "",
              first_line(d), d->skipped ? d->skipped_rows : "");
    return LVN_OK;
}

static enum lvn_status read_file(struct lvn_dataset *d, const struct lvn_data_options *o, enum lvn_split_id split,
                                 const char *path)
{
    struct labelled *l = d->state;
    struct lvn_table t;
    enum lvn_status status = lvn_table_open(&t, path);
    if (status == LVN_OK && t.format == LVN_TABLE_LINES && !o->unlabelled && !o->masks)
        status = lvn_fail(LVN_FORMAT, "'%s' is no table: data.kind=labelled wants a .tsv, .csv or .jsonl file", path);
    if (status == LVN_OK) status = read_rows(d, o, &t, &l->file[split]);
    lvn_table_close(&t);
    LVN_TRY(status);
    d->split[split].path = lvn_strdup(path);
    d->split[split].n_samples = l->file[split].n;
    return d->split[split].path ? LVN_OK : LVN_MEMORY;
}

/* Rows from the caller's texts instead of a file. */
static enum lvn_status read_texts(struct lvn_dataset *d, const struct lvn_data_options *o)
{
    struct labelled *l = d->state;
    for (int64_t i = 0; i < o->n_texts; i++) {
        struct lvn_table_row row = {.cell[TEXT] = {o->texts[i], (int64_t)strlen(o->texts[i])}};
        int64_t wrong = lvn_utf8_check(row.cell[TEXT].p, row.cell[TEXT].n);
        LVN_CHECK(wrong < 0, FORMAT, "text %" PRId64 ": byte %" PRId64 " is not UTF-8", i + 1, wrong + 1);
        const char *pair = o->pairs ? o->pairs[i] : NULL;
        if (pair) row.cell[PAIR].p = pair, row.cell[PAIR].n = (int64_t)strlen(pair);
        LVN_TRY(add_row(l, &l->file[LVN_SPLIT_TRAIN], &row, (struct text){.label = -1}));
    }
    d->split[LVN_SPLIT_ALL].n_samples = l->file[LVN_SPLIT_TRAIN].n;
    return LVN_OK;
}

/* --- the data set --- */

static enum lvn_status open_tokenizer(struct lvn_dataset *d, const struct lvn_data_options *o)
{
    struct labelled *l = d->state;
    if (o->tokenizer && *o->tokenizer) LVN_TRY(lvn_tokenizer_open(&d->tokenizer, o->tokenizer));
    const struct lvn_tokenizer *t = l->tokenizer = d->tokenizer ? d->tokenizer : o->model_tokenizer;
    if (!t) LVN_TRY(lvn_tokenizer_require(o->tokenizer_error, "data.kind=labelled, which cuts texts into tokens,"));
    LVN_CHECK(
        t, ARG,
        "data.kind=labelled cuts texts into tokens, and there is no tokenizer: give data.tokenizer, a folder or a "
        "file that has one");
    l->encoder = lvn_encoder_new(t);
    d->vocab_size = t->n;
    return l->encoder ? LVN_OK : LVN_MEMORY;
}

/* Sets a part of the training file aside for validation. */
static void split_off_validation(struct lvn_dataset *d, const struct lvn_data_options *o)
{
    struct labelled *l = d->state;
    struct lvn_split *train = &d->split[LVN_SPLIT_TRAIN];
    int64_t n = train->n_samples, cut = (int64_t)(o->val_fraction * (double)n);
    d->split[LVN_SPLIT_ALL].n_samples = n;
    if (o->val_fraction > 0 && !cut && n > 1) cut = 1;
    if (!cut) return;
    l->cut = cut;
    train->n_samples = n - cut;
    d->split[LVN_SPLIT_VAL].n_samples = cut;
}

/* Warns of classes without rows: a new head has a class for each number up to the largest, so gaps are mostly mistakes.
 */
static void warn_gaps(const struct lvn_data_options *o, const struct file *f, int64_t classes, const bool *seen)
{
    int64_t missing = 0, first = 0;
    for (int64_t k = classes - 1; k >= 0; k--)
        if (!seen[k]) missing++, first = k;
    if (missing && f->n && !o->classes && !o->unlabelled && !o->masks && !o->for_evaluation)
        lvn_log(LVN_LOG_WARN,
                "'%s': no row has the label %" PRId64 "%s of the classes 0 to %" PRId64
                ": classes are counted from 0, so check the labels",
                o->path, first, missing > 1 ? " (and others)" : "", classes - 1);
}

static enum lvn_status count_classes(struct lvn_dataset *d, const struct lvn_data_options *o)
{
    struct labelled *l = d->state;
    if (o->label == LVN_LABEL_NUMBER) return LVN_OK;
    bool *seen = lvn_calloc(MAX_CLASSES, sizeof *seen);
    int64_t classes = 2;
    if (!seen) return LVN_MEMORY;
    for (int i = 0; i < LVN_SPLIT_ALL; i++)
        for (int64_t k = 0; k < l->file[i].n; k++) {
            const int64_t label = l->file[i].row[k].label;
            if (label >= classes) classes = label + 1;
            if (label >= 0) seen[label] = true;
        }
    warn_gaps(o, &l->file[LVN_SPLIT_TRAIN], classes, seen);
    free(seen);
    int k = lvn_fields_find(&d->fields, "label");
    if (k >= 0) d->fields.field[k].below = o->unlabelled && o->classes ? o->classes : classes;
    return LVN_OK;
}

static enum lvn_status open_labelled(struct lvn_dataset *d, const struct lvn_data_options *o)
{
    bool val = o->val_path && *o->val_path, test = o->test_path && *o->test_path;
    LVN_CHECK(o->texts || (o->path && *o->path), ARG,
              "data.kind=labelled needs data.path: a .tsv, .csv or .jsonl file with a text and a label a row");
    struct labelled *l = d->state = lvn_calloc(1, sizeof *l);
    if (!l) return LVN_MEMORY;
    LVN_CHECK(!o->block_size || o->max_length <= o->block_size, ARG,
              "data.max_length is %" PRId64 ", and the model has %" PRId64 " positions: take no more, or leave it out",
              o->max_length, o->block_size);
    l->seed = o->seed ^ lvn_name_hash("data.labelled");
    l->max_length = d->fields.field[0].dim[0];
    LVN_TRY(lvn_replace_new(&l->replace, o->replace));
    LVN_TRY(open_tokenizer(d, o));
    if (o->texts) {
        LVN_TRY(read_texts(d, o));
    } else {
        LVN_TRY(read_file(d, o, LVN_SPLIT_TRAIN, o->path));
        if (val) LVN_TRY(read_file(d, o, LVN_SPLIT_VAL, o->val_path));
        if (test && o->for_evaluation) LVN_TRY(read_file(d, o, LVN_SPLIT_TEST, o->test_path));
        LVN_CHECK(!test || o->for_evaluation || lvn_store_is_url(o->test_path) || lvn_path_exists(o->test_path), IO,
                  "data.test_path: there is no '%s'; training does not read it, but `levin evaluate` will",
                  o->test_path);
        if (!val) split_off_validation(d, o);
    }
    LVN_TRY(count_classes(d, o));
    if (d->skipped && !o->for_evaluation)
        lvn_log(LVN_LOG_INFO, "%" PRId64 " rows cannot be used and are skipped; the first: %.*s", d->skipped,
                first_line(d), d->skipped_rows);
    lvn_encoder_free(l->encoder); /* frees its cache of words */
    l->encoder = NULL;
    return LVN_OK;
}

static void close_labelled(struct lvn_dataset *d)
{
    struct labelled *l = d->state;
    if (!l) return;
    for (int i = 0; i < LVN_SPLIT_ALL; i++) free(l->file[i].row);
    lvn_ids_release(&l->ids);
    lvn_ids_release(&l->first_text);
    lvn_ids_release(&l->pair_text);
    lvn_ids_release(&l->types);
    lvn_encoder_free(l->encoder);
    lvn_replace_free(l->replace);
    lvn_text_release(&l->replaced);
    lvn_text_release(&l->bad_rows);
    free(l);
}

static void fields(const struct lvn_data_options *o, struct lvn_fields *out)
{
    int64_t T = o->block_size ? o->block_size : DEFAULT_LENGTH;
    if (o->max_length && o->max_length < T) T = o->max_length;
    const bool numbers = o->label == LVN_LABEL_NUMBER;
    *out = (struct lvn_fields){
        .field = {{.name = "ids",
                   .dtype = LVN_I32,
                   .rank = 1,
                   .dim = {T},
                   .ragged = true,
                   .tokens = true,
                   .below = o->vocab_size},
                  {.name = "types", .dtype = LVN_I32, .rank = 1, .dim = {T}, .ragged = true, .below = 2},
                  {.name = "length", .dtype = LVN_I32, .below = T + 1},
                  {.name = "label",
                   .dtype = numbers ? LVN_F32 : LVN_I32,
                   .label = numbers ? LVN_LABEL_NUMBER : LVN_LABEL_CLASS,
                   .label_is_text = true}},
        .n = 4};
}

static const struct text *row_of(const struct lvn_dataset *d, enum lvn_split_id split, int64_t i)
{
    const struct labelled *l = d->state;
    bool held_out = l->cut && (split == LVN_SPLIT_TRAIN || split == LVN_SPLIT_VAL);
    int64_t all = l->file[LVN_SPLIT_TRAIN].n;
    if (held_out) i = lvn_random_permute(l->seed, 0, all, split == LVN_SPLIT_VAL ? all - l->cut + i : i);
    return &l->file[held_out || split == LVN_SPLIT_ALL ? LVN_SPLIT_TRAIN : split].row[i];
}

static int64_t length(const struct lvn_dataset *d, enum lvn_split_id split, int64_t i)
{
    return row_of(d, split, i)->n;
}

static enum lvn_status sample(const struct lvn_dataset *d, enum lvn_split_id split, int64_t i, struct lvn_draw draw,
                              void *const *out)
{
    const struct labelled *l = d->state;
    const struct text *t = row_of(d, split, i);
    int32_t *ids = out[0], *types = out[1];
    memcpy(ids, l->ids.p + t->first, (size_t)t->n * sizeof *ids);
    memset(ids + t->n, 0, (size_t)(draw.length - t->n) * sizeof *ids);
    for (int64_t k = 0; k < draw.length; k++) types[k] = k >= t->second && k < t->n;
    *(int32_t *)out[2] = t->n;
    if (d->fields.field[3].label == LVN_LABEL_NUMBER)
        *(float *)out[3] = t->number;
    else
        *(int32_t *)out[3] = t->label;
    return LVN_OK;
}

/* Is it a table with columns for a label and a text? */
static bool matches(const char *path)
{
    struct lvn_table t;
    bool good = false;
    if (!lvn_table_is_named(path)) return false;
    if (lvn_table_open(&t, path) == LVN_OK)
        good = lvn_table_column(&t, "label", true) == LVN_OK &&
               lvn_table_column(&t, "document|text|sentence", true) == LVN_OK;
    lvn_table_close(&t);
    if (!good) lvn_error_clear();
    return good;
}

extern const struct lvn_dataset_kind lvn_dataset_labelled;
const struct lvn_dataset_kind lvn_dataset_labelled = {
    .name = "labelled",
    .help = "texts with a class or a number each: rows of a .tsv, .csv or .jsonl file",
    .typical_vocab = 30000,
    .matches = matches,
    .fields = fields,
    .open = open_labelled,
    .close = close_labelled,
    .sample = sample,
    .length = length,
};
