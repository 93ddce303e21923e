/* labelled.c - data.kind=labelled: texts, or pairs of texts, with a class or a number: rows of a .tsv, .csv,
 * .jsonl or .parquet file (data/table.h).
 *
 * Opening the file replaces what data.replace says (data/replace.h) in all texts, tokenizes them and stores the ids,
 * with the tokens that the tokenizer's post-processor adds to a text or a pair ([CLS] text [SEP], or none). Texts
 * longer than data.max_length are truncated, of a pair the longer text first, and counted; or, with data.overlong, rows
 * of them are dropped and counted, or refused. Texts without labels, of which all are predicted, are always truncated.
 * Special tokens in texts are tokens with data.allow_special, else ordinary text, which is counted. Without
 * data.val_path a fraction of the rows, chosen by the seed, is for validation.
 *
 * The label is a class (data/class_labels.h), or any finite number if the task learns from numbers. The classes are
 * those of the model, or of the file for training, which is read twice: first its labels. A row that cannot be used
 * (malformed; an unknown label; no text) is refused, or skipped and counted. A text of which nothing is left is used.
 * Texts without classes have the label -1, without numbers 0. */

#include "base/files.h"
#include "base/list.h"
#include "base/log.h"
#include "base/random.h"
#include "data/class_labels.h"
#include "data/dataset.h"
#include "data/file_type.h"
#include "data/parquet_texts.h"
#include "data/replace.h"
#include "data/table.h"
#include "data/texts/text_files.h"
#include "data/texts/text_tokenizer.h"
#include "formats/json.h"
#include "stores/store.h"
#include "tokenizers/post_processor.h"

enum { DEFAULT_LENGTH = 512 };

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
    enum lvn_overlong overlong;
    int64_t excess;              /* tokens above what a sample may have, of the row that was read last */
    struct lvn_replace *replace; /* NULL: nothing is replaced */
    struct lvn_text replaced;
    struct lvn_text bad_rows; /* lvn_dataset.skipped_rows */
    enum lvn_encoding mode;
    int64_t dropped;                     /* rows of the file that is read that are longer than a sample */
    int64_t truncated, special, doubled; /* rows of the file that is read: truncated; with the text of special tokens;
                                          * beginning with a token that the post-processor also adds */
    int64_t special_id;                  /* of such a token */
    int64_t encoded, unknown;            /* tokens of the file that is read; of these, unknown ones */
    bool reported_columns;
    struct lvn_class_labels classes;
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
    return lvn_encode(l->encoder, p, n, l->mode, out);
}

/* Truncate a pair as the `longest_first` of Hugging Face's tokenizers: a text that fits beside the other one's half
 * stays whole; of an odd number of tokens the longer text has one more, of equally long texts the second. */
static void truncate_pair(int64_t *a, int64_t *b, int64_t room)
{
    int64_t *shorter = *a > *b ? b : a, *longer = *a > *b ? a : b;
    *longer = room - *shorter > *shorter ? room - *shorter : *shorter;
    if (*a + *b <= room) return;
    *shorter = room / 2;
    *longer = room - *shorter;
}

/* Make a sample of the encoded text or pair: truncate, the longer text first, and apply the post-processor. */
static enum lvn_status finish_row(struct labelled *l, struct text *t, bool pair)
{
    struct lvn_ids *a = &l->first_text, *b = &l->pair_text;
    const int64_t extra = lvn_post_processor_added_tokens(l->tokenizer, pair), capacity = l->max_length - extra,
                  min = pair ? 2 : 1;
    LVN_CHECK(capacity >= min, ARG,
              "a sample may have %" PRId64
              " tokens (data.max_length, else the model's positions), and the tokenizer adds %" PRId64
              " special tokens to %s; set data.max_length to at least %" PRId64,
              l->max_length, extra, pair ? "a pair" : "a text", extra + min);
    if (!pair) b->n = 0;
    l->excess = a->n + b->n > capacity ? a->n + b->n - capacity : 0;
    if (l->excess && l->overlong != LVN_OVERLONG_TRUNCATE) return LVN_OK;
    if (l->excess) {
        l->truncated++;
        if (pair)
            truncate_pair(&a->n, &b->n, capacity);
        else
            a->n = capacity;
    }
    l->types.n = 0;
    LVN_TRY(lvn_post_processor_run(l->tokenizer, a, pair ? b : NULL, &l->ids, &l->types));
    l->doubled += lvn_post_processor_is_doubled(l->tokenizer, l->ids.p + t->first, l->ids.n - t->first);
    LVN_TRY(lvn_ids_reserve(&l->ids, 1));
    if (l->ids.n == t->first) l->ids.p[l->ids.n++] = 0; /* an empty text, and no tokens of the post-processor */
    t->n = (int32_t)(l->ids.n - t->first);
    t->second = INT32_MAX;
    for (int64_t i = l->types.n - 1; i >= 0 && l->types.p[i]; i--) t->second = (int32_t)i;
    return LVN_OK;
}

enum { TEXT, PAIR, LABEL };

/* Does a row have a label that is a class? */
static bool has_classes(const struct lvn_data_options *o)
{
    return !o->unlabeled && !o->masks && o->label != LVN_LABEL_NUMBER;
}

/* Write the reason why a row cannot be used, after "FILE:LINE: ". */
static void LVN_PRINTF(3, 4) set_bad(const struct lvn_table *t, struct lvn_table_row *row, const char *format, ...)
{
    va_list list;
    const int n = snprintf(row->bad, sizeof row->bad, "%s:%" PRId64 ": ", t->path, row->line);
    va_start(list, format);
    if (n > 0 && n < (int)sizeof row->bad) vsnprintf(row->bad + n, sizeof row->bad - (size_t)n, format, list);
    va_end(list);
}

static enum lvn_status check_class(struct labelled *l, const struct lvn_data_options *o, const struct lvn_table *t,
                                   struct lvn_table_row *row, struct text *out)
{
    char why[LVN_TABLE_BAD] = "";
    int64_t found;
    LVN_TRY(lvn_class_labels_find(&l->classes, row->cell[LABEL].p, row->cell[LABEL].n, &found, why, sizeof why));
    out->label = (int32_t)found;
    if (found < 0)
        set_bad(t, row, "%s%s%s", why, o->skip_bad_rows || !o->class_advice ? "" : "; ",
                o->skip_bad_rows || !o->class_advice ? "" : o->class_advice);
    return LVN_OK;
}

/* Set the label of a row. If the row cannot be used, write the reason into row->bad. */
static enum lvn_status check_row(struct labelled *l, const struct lvn_data_options *o, const struct lvn_table *t,
                                 struct lvn_table_row *row, struct text *out)
{
    double number;
    const char *p = row->cell[LABEL].p;
    *out = (struct text){.label = -1};
    if (*row->bad) return LVN_OK;
    if (!row->cell[TEXT].n && !o->unlabeled) set_bad(t, row, "the text is empty");
    if (*row->bad || o->unlabeled || o->masks) return LVN_OK;
    if (o->label != LVN_LABEL_NUMBER) return check_class(l, o, t, row, out);
    if (lvn_class_labels_number(p, row->cell[LABEL].n, &number)) out->number = (float)number;
    if (!lvn_class_labels_number(p, row->cell[LABEL].n, &number) || !isfinite(out->number))
        set_bad(t, row, "the label is '%.40s'; expected a finite number, as 0.5 or -2e3", p);
    return LVN_OK;
}

static enum lvn_status add_row(struct labelled *l, struct file *f, const struct lvn_table_row *row, struct text t)
{
    if (!lvn_list_reserve(&f->row, &f->capacity, f->n + 1, sizeof *f->row)) return LVN_MEMORY;
    const bool pair = row->cell[PAIR].p != NULL;
    t.first = l->ids.n;
    LVN_TRY(encode(l, row->cell[TEXT].p, row->cell[TEXT].n, &l->first_text));
    if (pair) LVN_TRY(encode(l, row->cell[PAIR].p, row->cell[PAIR].n, &l->pair_text));
    const struct lvn_encoder_notes notes = lvn_encoder_take_notes(l->encoder);
    if (notes.special && !l->special++) l->special_id = notes.special_id;
    l->encoded += notes.ids;
    l->unknown += notes.unknown;
    LVN_TRY(finish_row(l, &t, pair));
    if (t.n) f->row[f->n++] = t;
    return LVN_OK;
}

/* Length in bytes of the first line of d->skipped_rows. */
static int first_line(const struct lvn_dataset *d)
{
    return d->skipped_rows ? (int)strcspn(d->skipped_rows, "\n") : 0;
}

static enum lvn_status choose_columns(const struct lvn_data_options *o, struct lvn_table *t)
{
    const char *text = o->text_column && *o->text_column ? o->text_column : "document|text|sentence";
    const char *label = o->label_column && *o->label_column ? o->label_column : "label";
    bool pair = o->pair_column && *o->pair_column;
    LVN_TRY(lvn_table_column(t, text, true));
    LVN_TRY(lvn_table_column(t, pair ? o->pair_column : "", pair));
    LVN_TRY(lvn_table_column(t, label, !o->unlabeled && !o->masks));
    t->reals[LABEL] = true;
    t->booleans[LABEL] = has_classes(o);
    for (int k = TEXT; k <= LABEL; k++) /* else the label could be part of the input */
        LVN_CHECK(
            !*t->name[k] || strcmp(t->name[k], t->name[(k + 1) % 3]) != 0, ARG,
            "'%s': the column '%s' is named twice by data.text_column, data.pair_column and data.label_column: they "
            "must be different ones",
            t->path, t->name[k]);
    return LVN_OK;
}

/* Report which column was chosen as the text, if there are others that may belong to it. */
static enum lvn_status report_columns(const struct lvn_data_options *o, const struct lvn_table *t)
{
    char unread[300];
    if ((o->text_column && *o->text_column) || (o->pair_column && *o->pair_column)) return LVN_OK;
    LVN_TRY(lvn_table_unread(t, unread, sizeof unread));
    if (*unread)
        lvn_log(LVN_LOG_INFO,
                "'%s': the text is the column '%s'; not read: %s (data.text_column and data.pair_column name others)",
                t->path, t->name[TEXT], unread);
    return LVN_OK;
}

/* Determine the classes from the labels of the rows that can be used. */
static enum lvn_status read_classes(struct labelled *l, const struct lvn_data_options *o, struct lvn_table *t)
{
    struct lvn_table_row row;
    LVN_TRY(choose_columns(o, t));
    for (bool more = true;;) {
        LVN_TRY(lvn_table_next(t, &row, &more));
        if (!more) return lvn_class_labels_end(&l->classes, o->path);
        if (!*row.bad && row.cell[TEXT].n)
            LVN_TRY(lvn_class_labels_add(&l->classes, row.cell[LABEL].p, row.cell[LABEL].n));
    }
}

static enum lvn_status read_rows(struct lvn_dataset *d, const struct lvn_data_options *o, struct lvn_table *t,
                                 struct file *f)
{
    struct labelled *l = d->state;
    struct lvn_table_row row;
    if (!l->reported_columns && !o->unlabeled) LVN_TRY(report_columns(o, t));
    l->reported_columns = true;
    for (bool more = true;;) {
        LVN_TRY(lvn_table_next(t, &row, &more));
        if (!more) break;
        struct text labelled;
        LVN_TRY(check_row(l, o, t, &row, &labelled));
        if (!*row.bad) {
            LVN_TRY(add_row(l, f, &row, labelled));
            l->dropped += l->excess && l->overlong == LVN_OVERLONG_DROP;
            LVN_CHECK(!l->excess || l->overlong != LVN_OVERLONG_REFUSE, FORMAT,
                      "%s:%" PRId64 ": the text has %" PRId64 " tokens more than the %" PRId64
                      " that a sample may have (data.max_length, else the model's context length), and data.overlong "
                      "is refuse: shorten it, or use truncate or drop",
                      t->path, row.line, l->excess, l->max_length);
            continue;
        }
        LVN_CHECK(o->skip_bad_rows, FORMAT, "%s; correct it, or skip such rows with data.skip_bad_rows=true", row.bad);
        if (!d->skipped++ || o->for_evaluation) lvn_text_printf(&l->bad_rows, "%s\n", row.bad);
    }
    LVN_TRY(lvn_text_status(&l->bad_rows));
    d->skipped_rows = l->bad_rows.p;
    LVN_CHECK(f->n || !l->dropped, FORMAT,
              "all rows of '%s' are longer than the %" PRId64
              " tokens of a sample (data.max_length, else the model's context length), and data.overlong is drop",
              t->path, l->max_length);
    LVN_CHECK(f->n, FORMAT, "'%s' has no row that can be used%s%.*s", t->path, d->skipped ? "; the first one: " : "",
              first_line(d), d->skipped ? d->skipped_rows : "");
    return LVN_OK;
}

/* Report what the model does not see as it is written in the rows of `name`. */
static void report(struct labelled *l, const char *name, int64_t n, bool few)
{
    char some[LVN_NUMBER_TEXT], all[LVN_NUMBER_TEXT];
    (void)lvn_count_text(n, all);
    if (l->truncated)
        lvn_log(LVN_LOG_INFO,
                "%s: %s of %s rows are longer than %" PRId64
                " tokens and were truncated (data.max_length, else the model's context length)",
                name, lvn_count_text(l->truncated, some), all, l->max_length);
    if (l->dropped)
        lvn_log(LVN_LOG_INFO,
                "%s: %s rows are longer than %" PRId64
                " tokens (data.max_length, else the model's context length) and were dropped (data.overlong)",
                name, lvn_count_text(l->dropped, some), l->max_length);
    if (l->special) {
        const struct lvn_tokenizer *t = l->tokenizer;
        const uint32_t *at = t->start + l->special_id;
        lvn_log(LVN_LOG_WARN,
                "%s: %s of %s rows contain the text of special tokens, such as %.*s, which was encoded as ordinary "
                "text; data.allow_special=true encodes the tokens",
                name, lvn_count_text(l->special, some), all, (int)(at[1] - at[0]), (const char *)t->byte + at[0]);
    }
    if (l->doubled)
        lvn_log(
            LVN_LOG_WARN,
            "%s: %s of %s rows begin with a token that the tokenizer also adds, so the model reads it twice; remove "
            "it from the texts",
            name, lvn_count_text(l->doubled, some), all);
    lvn_encoder_notes_report(l->tokenizer, name, l->unknown, l->encoded, few);
    l->truncated = l->special = l->doubled = l->dropped = l->encoded = l->unknown = 0;
}

/* FORMAT unless the name is that of a table. */
static enum lvn_status check_name(const struct lvn_data_options *o, const char *path)
{
    if (o->unlabeled || o->masks || lvn_is_parquet(path) || lvn_table_is_named(path)) return LVN_OK;
    if (lvn_file_type(path, (int64_t)strlen(path)) == LVN_FILE_TYPE_LINES) LVN_TRY(lvn_file_refuse_array(path));
    LVN_FAIL(FORMAT, "'%s' is not a table: data.kind=labelled requires a .tsv, .csv, .jsonl or .parquet file%s", path,
             lvn_table_is_disguised(path) ? "; its first line names columns: rename it to .tsv" : "");
}

static enum lvn_status read_file(struct lvn_dataset *d, const struct lvn_data_options *o, enum lvn_split_id split,
                                 const char *path)
{
    struct labelled *l = d->state;
    struct lvn_table t = {0}, labels = {0};
    enum lvn_status status = check_name(o, path);
    if (status == LVN_OK) status = lvn_table_open(&t, path);
    if (status == LVN_OK) status = choose_columns(o, &t);
    if (status == LVN_OK && has_classes(o))
        status = lvn_class_labels_of_features(&l->classes, path, t.parquet ? lvn_parquet_features(t.parquet) : NULL,
                                              t.name[LABEL]);
    if (status == LVN_OK && !l->classes.n && has_classes(o)) {
        status = lvn_table_open_text(&labels, path, t.text, t.bytes);
        if (status == LVN_OK) status = read_classes(l, o, &labels);
        labels.doubled = 0; /* the table that is read next warns of its quotes */
    }
    if (status == LVN_OK) status = read_rows(d, o, &t, &l->file[split]);
    lvn_table_close(&labels);
    lvn_table_close(&t);
    LVN_TRY(status);
    report(l, path, l->file[split].n, false);
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
    report(l, "the given texts", o->n_texts, true);
    return LVN_OK;
}

/* --- the data set --- */

static enum lvn_status open_tokenizer(struct lvn_dataset *d, const struct lvn_data_options *o)
{
    struct labelled *l = d->state;
    LVN_TRY(lvn_text_tokenizer(d, o, true, &l->tokenizer));
    l->encoder = lvn_encoder_new(l->tokenizer);
    return l->encoder ? LVN_OK : LVN_MEMORY;
}

/* Set a part of the training file aside for validation. */
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

static const struct text *row_of(const struct lvn_dataset *d, enum lvn_split_id split, int64_t i)
{
    const struct labelled *l = d->state;
    bool held_out = l->cut && (split == LVN_SPLIT_TRAIN || split == LVN_SPLIT_VAL);
    int64_t all = l->file[LVN_SPLIT_TRAIN].n;
    if (held_out) i = lvn_random_permute(l->seed, 0, all, split == LVN_SPLIT_VAL ? all - l->cut + i : i);
    return &l->file[held_out || split == LVN_SPLIT_ALL ? LVN_SPLIT_TRAIN : split].row[i];
}

/* Warn of classes that only validation has: the share that is held back is chosen by chance. */
static enum lvn_status check_held_out(struct lvn_dataset *d)
{
    const struct labelled *l = d->state;
    if (!l->cut || d->fields.field[3].label != LVN_LABEL_CLASS) return LVN_OK;
    bool *seen = lvn_calloc((size_t)l->classes.n, sizeof *seen);
    if (!seen) return LVN_MEMORY;
    for (int64_t i = 0; i < d->split[LVN_SPLIT_TRAIN].n_samples; i++)
        if (row_of(d, LVN_SPLIT_TRAIN, i)->label >= 0) seen[row_of(d, LVN_SPLIT_TRAIN, i)->label] = true;
    for (int64_t i = 0; i < d->split[LVN_SPLIT_VAL].n_samples; i++) {
        const int32_t k = row_of(d, LVN_SPLIT_VAL, i)->label;
        char number[16];
        if (k < 0 || seen[k]) continue;
        seen[k] = true;
        snprintf(number, sizeof number, "%d", (int)k);
        lvn_log(LVN_LOG_WARN,
                "all rows with the label '%s' were chosen for validation, so the model does not learn it: give more "
                "such rows, a file of data.val_path, or another trainer.seed",
                l->classes.names ? l->classes.names[k] : number);
    }
    free(seen);
    return LVN_OK;
}

/* What the model's head and its names come from. */
static enum lvn_status share_classes(struct lvn_dataset *d, const struct lvn_data_options *o)
{
    struct labelled *l = d->state;
    const int k = lvn_fields_find(&d->fields, "label");
    if (o->label == LVN_LABEL_NUMBER) return LVN_OK;
    d->class_names = l->classes.names;
    if (k >= 0) d->fields.field[k].below = l->classes.n ? l->classes.n : 2;
    if (l->classes.numbered && !o->unlabeled)
        lvn_log(LVN_LOG_INFO, "the labels of '%s' are numbers, which count the model's classes: 0 is %s%s%s", o->path,
                l->classes.names[0], l->classes.n > 1 ? ", 1 is " : "", l->classes.n > 1 ? l->classes.names[1] : "");
    return o->for_evaluation ? LVN_OK : check_held_out(d);
}

static enum lvn_status open_labelled(struct lvn_dataset *d, const struct lvn_data_options *o)
{
    bool val = o->val_path && *o->val_path, test = o->test_path && *o->test_path;
    LVN_CHECK(
        o->texts || (o->path && *o->path), ARG,
        "data.kind=labelled needs data.path: a .tsv, .csv, .jsonl or .parquet file with a text and a label a row");
    LVN_CHECK(o->texts || !lvn_path_is_dir(o->path), ARG,
              "'%s' is a folder; data.kind=labelled reads one .tsv, .csv, .jsonl or .parquet file", o->path);
    struct labelled *l = d->state = lvn_calloc(1, sizeof *l);
    if (!l) return LVN_MEMORY;
    LVN_CHECK(!o->block_size || o->max_length <= o->block_size, ARG,
              "data.max_length is %" PRId64 ", and the model has %" PRId64
              " positions: set it to at most that, or leave it out",
              o->max_length, o->block_size);
    LVN_CHECK(o->overlong != LVN_OVERLONG_SPLIT, ARG,
              "data.overlong=split is for documents without labels (data.kind=tokens), but the label of a text is that "
              "of the whole text: use truncate, drop or refuse");
    l->overlong =
        o->overlong == LVN_OVERLONG_AUTO || o->unlabeled ? LVN_OVERLONG_TRUNCATE : (enum lvn_overlong)o->overlong;
    l->seed = o->seed ^ lvn_name_hash("data.labelled");
    l->mode = o->allow_special ? LVN_ENCODE_SPECIAL : LVN_ENCODE_ORDINARY;
    l->max_length = d->fields.field[0].dim[0];
    LVN_TRY(lvn_replace_new(&l->replace, o->replace));
    if (!o->texts) LVN_TRY(check_name(o, o->path)); /* before a tokenizer is trained on it */
    LVN_TRY(open_tokenizer(d, o));
    if (o->classes) LVN_TRY(lvn_class_labels_of_model(&l->classes, o->classes, o->class_names));
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
    /* Tokens beyond the vocabulary's files need rows of an existing model only if the data have them. */
    if (o->vocab_size && o->vocab_size < d->vocab_size) {
        d->vocab_size = l->tokenizer->n_vocabulary;
        for (int64_t i = 0; i < l->ids.n; i++)
            if (l->ids.p[i] >= d->vocab_size) d->vocab_size = l->ids.p[i] + 1;
    }
    LVN_TRY(share_classes(d, o));
    if (d->skipped && !o->for_evaluation)
        lvn_log(LVN_LOG_INFO, "%" PRId64 " row%s cannot be used and %s skipped; the first: %.*s", d->skipped,
                lvn_plural(d->skipped), d->skipped == 1 ? "is" : "are", first_line(d), d->skipped_rows);
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
    lvn_class_labels_release(&l->classes);
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

static bool parquet_matches(const char *path)
{
    struct lvn_parquet *p;
    if (lvn_parquet_open(&p, path) != LVN_OK) return false;
    const bool good = lvn_parquet_has(p, "label") &&
                      (lvn_parquet_has(p, "text") || lvn_parquet_has(p, "document") || lvn_parquet_has(p, "sentence"));
    lvn_parquet_close(p);
    return good;
}

/* Is it a table with columns for a label and a text? Also true for one that cannot be opened: opening it again gives
 * the reason. */
static bool matches(const char *path)
{
    LVN_LOCAL_ARENA(a);
    LVN_LOCAL_TEXT(rows);
    struct lvn_table t;
    if (lvn_path_is_dir(path)) return false;
    if (lvn_is_parquet(path)) return parquet_matches(path);
    if (!lvn_table_is_named(path)) return false;
    (void)lvn_text_files_look(&a, path, &rows);
    const bool good = lvn_table_open_text(&t, path, rows.p, rows.n) != LVN_OK || lvn_table_has_labels(&t);
    lvn_table_close(&t);
    lvn_error_clear();
    return good;
}

extern const struct lvn_dataset_kind lvn_dataset_labelled;
const struct lvn_dataset_kind lvn_dataset_labelled = {
    .name = "labelled",
    .help = "texts with a class or a number each: rows of a .tsv, .csv, .jsonl or .parquet file",
    .typical_vocab = 30000,
    .try_command = "predict",
    .try_flags = " --text \"...\"",
    .matches = matches,
    .fields = fields,
    .open = open_labelled,
    .close = close_labelled,
    .sample = sample,
    .length = length,
};
