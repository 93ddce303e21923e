/* conversations.c - data.kind=chat: conversations, of which the answers are learned.
 *
 * data.path is a .jsonl or .parquet file of rows, a .json file that is one list of them, or a folder or an archive of
 * these; the forms of rows are in chat/chat_row.h. Opening it encodes all conversations with the chat template, by all
 * threads (chat_rows.h). A sample is a conversation, or a part of one that the template shows differently at inference
 * (chat/chat_encode.h). It has the ids, and for each token the next one as its label if that is trained
 * (data.train_on).
 *
 * Samples longer than a row are truncated, dropped, refused or, with data.pack, split (data.overlong). A conversation
 * of which no label is left is left out, counted and named. A row that cannot be used is refused, or with
 * data.skip_bad_rows left out too. Without data.val_path a fraction of the conversations, chosen by the seed,
 * validates.
 *
 * What is encoded is kept in the user's cache (encoded_cache.h), for other ranks and later runs. It is a list of
 * records, each a multiple of eight bytes, as written by write_row() and each_row(). */

#include "base/files.h"
#include "base/list.h"
#include "base/log.h"
#include "base/random.h"
#include "data/dataset.h"
#include "data/file_type.h"
#include "data/parquet_texts.h"
#include "data/texts/chat_rows.h"
#include "data/texts/encoded_cache.h"
#include "data/texts/source_files.h"
#include "data/texts/text_files.h"
#include "data/texts/text_tokenizer.h"
#include "formats/archive_reader.h"
#include "formats/checksum.h"
#include "host/machine.h"
#include "stores/store.h"

enum { DEFAULT_LENGTH = 1024, NAMED = 10, IGNORED = -100, LOSES = 1 << 30 };

/* The head of a record. */
struct record {
    enum {
        SAMPLE,
        NAME,
        BAD,
        OTHER_FILES,
        OTHER_ROLE,
        EMPTY,
        SYSTEMS
    } kind;          /* the last three precede a row's samples */
    uint32_t row;    /* SAMPLE: number of samples of the same row that follow; instead of 0 it is LOSES if the template
                        does not write the tools, tool calls or some messages of the row */
    int64_t line, n; /* OTHER_FILES: their number, 0; SAMPLE: tokens, each two int32_t: id, label; else bytes of the
                        text that follows */
};

struct sample {
    const int32_t *tokens; /* [2 * n] id and label of each */
    int32_t n;
};

/* The conversations of data.path, data.val_path or data.test_path. */
struct part {
    struct lvn_encoded records;
    struct lvn_checksum sum; /* of the samples */
    struct sample *sample;
    int64_t n, capacity;
    int64_t *first; /* [n_rows + 1] sample of each conversation that has one */
    int64_t n_rows, rows_capacity;
    int64_t found, bad, cut, dropped, unlabeled, tokens, unknown, labels; /* rows; bad rows; samples: ... */
    struct lvn_text lost; /* the first rows that are left out, and why */
    int64_t n_lost;
    char role[64];         /* the first unknown role; "": none */
    int64_t other_roles;   /* rows with such a role */
    int64_t empty;         /* answers without text */
    int64_t two_systems;   /* rows whose `system` differs from their system message, which is used */
    int64_t without_tools; /* rows of which the template does not write tools, tool calls or some messages */
    int64_t other_files;   /* of the folder or archive, which are not read */
};

/* The samples of a split. */
struct list {
    struct sample *sample;
    int64_t n;
    const char *path;
};

struct chat_data {
    struct lvn_chat *chat;
    const struct lvn_tokenizer *tokenizer;
    struct part part[LVN_SPLIT_ALL];
    struct list list[LVN_SPLIT_COUNT];
    enum lvn_overlong overlong;
    int64_t limit; /* tokens of a sample */
};

/* --- reading --- */

struct reading {
    const struct lvn_data_options *o;
    const struct chat_data *c;
    struct lvn_encoded_output *out;
    struct lvn_chat_rows *rows;
    struct lvn_source_files files;
    int64_t at, other_files;
    struct lvn_text name; /* of the file that is read */
};

static void add_record(struct lvn_text *out, struct record head, const void *bytes, int64_t n)
{
    static const char zeros[8];
    lvn_text_add_bytes(out, &head, sizeof head);
    if (n) lvn_text_add_bytes(out, bytes, n);
    lvn_text_add_bytes(out, zeros, -n & 7);
}

static enum lvn_status write_row(struct lvn_text *out, int64_t line, const struct lvn_chat_samples *samples)
{
    const char *role = samples->other_role;
    if (role) add_record(out, (struct record){OTHER_ROLE, 0, line, (int64_t)strlen(role)}, role, (int64_t)strlen(role));
    if (samples->n_empty) add_record(out, (struct record){EMPTY, 0, samples->n_empty, 0}, NULL, 0);
    if (samples->two_systems) add_record(out, (struct record){SYSTEMS, 0, line, 0}, NULL, 0);
    for (int64_t i = 0; i < samples->n; i++) {
        const struct lvn_chat_sample *s = &samples->p[i];
        const int64_t number = samples->n - 1 - i;
        add_record(out,
                   (struct record){SAMPLE, (uint32_t)(number || !samples->loses_tools ? number : LOSES), line, s->n},
                   NULL, 0);
        for (int64_t k = 0, some; k < s->n; k += some) {
            int32_t pairs[256][2];
            some = s->n - k < 256 ? s->n - k : 256;
            for (int64_t j = 0; j < some; j++) pairs[j][0] = s->ids[k + j], pairs[j][1] = s->labels[k + j];
            lvn_text_add_bytes(out, pairs, 8 * some);
        }
    }
    return LVN_OK;
}

static enum lvn_status each_row(void *context, int64_t line, const struct lvn_text *written, const char *error)
{
    struct reading *r = context;
    LVN_CHECK(!error || r->o->skip_bad_rows, FORMAT, "%s; correct it, or skip such rows with data.skip_bad_rows=true",
              error);
    if (error)
        add_record(r->out->text, (struct record){BAD, 0, line, (int64_t)strlen(error)}, error, (int64_t)strlen(error));
    else if (written->n)
        lvn_text_add_bytes(r->out->text, written->p, written->n);
    return lvn_encoded_flush(r->out);
}

static enum lvn_status begin_file(void *context, const char *name, bool named, bool *want)
{
    struct reading *r = context;
    const int64_t n = (int64_t)strlen(name);
    *want = named || lvn_file_type(name, n) == LVN_FILE_TYPE_LINES;
    r->other_files += !*want;
    if (!*want) return LVN_OK;
    LVN_TRY(lvn_source_name(&r->name, &r->files, r->at, name));
    add_record(r->out->text, (struct record){NAME, 0, 0, r->name.n}, r->name.p, r->name.n);
    lvn_chat_rows_begin(r->rows, r->name.p);
    return lvn_encoded_flush(r->out);
}

static enum lvn_status file_bytes(void *context, const void *p, int64_t n)
{
    return lvn_chat_rows_data(((struct reading *)context)->rows, p, n);
}

static enum lvn_status end_file(void *context)
{
    return lvn_chat_rows_end(((struct reading *)context)->rows);
}

static enum lvn_status encode_parquet(struct reading *r, const char *path)
{
    bool want;
    LVN_TRY(begin_file(r, path, true, &want));
    LVN_TRY(lvn_chat_rows_parquet(r->rows, path));
    return end_file(r);
}

static enum lvn_status encode_files(void *context, struct lvn_encoded_output *out)
{
    struct reading *r = context;
    const struct lvn_chat_rows_options options = {
        .chat = r->c->chat, .n_threads = lvn_threads_default(), .context = r, .write = write_row, .each = each_row};
    const struct lvn_archive_visitor visitor = {.context = r, .begin = begin_file, .data = file_bytes, .end = end_file};
    int64_t bytes;
    r->out = out;
    LVN_TRY(lvn_chat_rows_new(&r->rows, &options));
    enum lvn_status status = LVN_OK;
    for (r->at = 0; r->at < r->files.n && status == LVN_OK; r->at++) {
        const char *file = r->files.file[r->at];
        status = lvn_is_parquet(file) ? encode_parquet(r, file)
                                      : lvn_archive_read(file, !r->files.is_folder, &visitor, &bytes);
    }
    lvn_chat_rows_free(r->rows);
    lvn_text_release(&r->name);
    if (status != LVN_OK) return status;
    add_record(out->text, (struct record){OTHER_FILES, 0, r->other_files, 0}, NULL, 0);
    return lvn_encoded_flush(out);
}

/* A checksum of all that determines the records: the files, template and tokenizer, and what has labels. */
static enum lvn_status records_key(const struct reading *r, uint64_t *key)
{
    const int64_t numbers[] = {r->o->train_on, r->o->skip_bad_rows};
    struct lvn_checksum sum;
    lvn_checksum_init(&sum);
    lvn_checksum_add_text(&sum, "chat");
    lvn_checksum_add(&sum, numbers, sizeof numbers);
    lvn_checksum_add_text(&sum, r->c->chat->given);
    LVN_TRY(lvn_source_files_sum(&r->files, r->c->tokenizer, &sum));
    *key = lvn_checksum_value(&sum);
    return LVN_OK;
}

static enum lvn_status open_records(const struct chat_data *c, const struct lvn_data_options *o, const char *path,
                                    struct lvn_encoded *out)
{
    LVN_LOCAL_ARENA(a);
    struct reading r = {.o = o, .c = c};
    uint64_t key;
    LVN_TRY(lvn_source_files_find(&r.files, &a, path));
    for (int64_t i = 0; i < r.files.n; i++) /* here, because it warns also if the records are in the cache */
        if (lvn_is_parquet(r.files.file[i])) LVN_TRY(lvn_chat_rows_check(r.files.file[i]));
    LVN_TRY(records_key(&r, &key));
    return lvn_encoded_open(out, key, o->cache, encode_files, &r);
}

/* --- samples --- */

static enum lvn_status add_sample(struct part *p, struct sample s)
{
    if (!lvn_list_reserve(&p->sample, &p->capacity, p->n + 1, sizeof *p->sample)) return LVN_MEMORY;
    p->sample[p->n++] = s;
    return LVN_OK;
}

/* The samples from `first` on are a conversation. */
static enum lvn_status add_row(struct part *p, int64_t first)
{
    if (!lvn_list_reserve(&p->first, &p->rows_capacity, p->n_rows + 2, sizeof *p->first)) return LVN_MEMORY;
    p->first[p->n_rows++] = first;
    p->first[p->n_rows] = p->n;
    return LVN_OK;
}

static int64_t count_labels(const int32_t *tokens, int64_t first, int64_t end)
{
    int64_t labels = 0;
    for (int64_t i = first; i < end; i++) labels += tokens[2 * i + 1] != IGNORED;
    return labels;
}

/* Names a row that is left out, or a part of one. */
static void LVN_PRINTF(2, 3) name_lost(struct part *p, const char *format, ...)
{
    char text[LVN_TABLE_BAD];
    va_list list;
    if (p->n_lost++ >= NAMED) return;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    lvn_text_printf(&p->lost, "%s%s", p->lost.n ? "\n" : "", text);
}

/* Cut a sample, and add it unless nothing of it can be learned. file: its name. */
static enum lvn_status take_sample(struct chat_data *c, struct part *p, const char *file, const struct record *head,
                                   const int32_t *tokens)
{
    const int64_t whole = count_labels(tokens, 1, head->n), line = head->line;
    int64_t n = head->n;
    const bool split = c->overlong == LVN_OVERLONG_SPLIT, is_long = n > c->limit && !split;
    LVN_CHECK(!is_long || c->overlong != LVN_OVERLONG_REFUSE, FORMAT,
              "%s:%" PRId64 ": the conversation has %" PRId64 " tokens, and a sample may have %" PRId64
              " (data.max_length, else the model's context length), and data.overlong is refuse: shorten it, or use "
              "truncate or drop",
              file, line, n, c->limit);
    LVN_CHECK(n <= INT32_MAX, UNSUPPORTED, "%s:%" PRId64 ": the conversation has %" PRId64 " tokens", file, line, n);
    if (is_long && c->overlong == LVN_OVERLONG_DROP) {
        p->dropped++;
        name_lost(p, "%s:%" PRId64 ": %" PRId64 " tokens, which is more than %" PRId64 " (data.overlong)", file, line,
                  n, c->limit);
        return LVN_OK;
    }
    if (is_long) n = c->limit;
    const int64_t labels = is_long ? count_labels(tokens, 1, n) : whole;
    if (!labels) {
        p->unlabeled++;
        if (whole)
            name_lost(p, "%s:%" PRId64 ": no answer begins within the first %" PRId64 " of %" PRId64 " tokens", file,
                      line, c->limit, head->n);
        else
            name_lost(p, "%s:%" PRId64 ": it has no answer that is trained", file, line);
        return LVN_OK;
    }
    lvn_checksum_add(&p->sum, &n, sizeof n);
    lvn_checksum_add(&p->sum, tokens, 8 * n);
    p->cut += is_long;
    p->tokens += n;
    for (int64_t i = 0; i < n; i++) p->unknown += tokens[2 * i] == c->tokenizer->unknown;
    p->labels += labels;
    return add_sample(p, (struct sample){tokens, (int32_t)n});
}

/* Find the samples in the records. */
static enum lvn_status find_samples(struct chat_data *c, struct part *p)
{
    const char *at = p->records.data, *end = at + p->records.bytes, *text;
    char file[LVN_TABLE_BAD] = "";
    int64_t first = 0;
    lvn_checksum_init(&p->sum);
    for (struct record head; at < end; at = text + (head.kind == SAMPLE ? 8 * head.n : (head.n + 7) & ~7)) {
        memcpy(&head, at, sizeof head);
        text = at + sizeof head;
        if (head.kind == NAME) {
            snprintf(file, sizeof file, "%.*s", (int)head.n, text);
        } else if (head.kind == OTHER_FILES) {
            p->other_files = head.line;
        } else if (head.kind == EMPTY) {
            p->empty += head.line;
        } else if (head.kind == SYSTEMS) {
            p->two_systems++;
        } else if (head.kind == OTHER_ROLE) {
            if (!p->other_roles++) snprintf(p->role, sizeof p->role, "%.*s", (int)head.n, text);
        } else if (head.kind == BAD) {
            p->found++;
            p->bad++;
            name_lost(p, "%.*s", (int)head.n, text);
        } else {
            LVN_TRY(take_sample(c, p, file, &head, (const int32_t *)text));
            if (head.row && head.row != LOSES) continue; /* more samples of the row follow */
            p->found++;
            p->without_tools += head.row == LOSES;
            if (p->n > first) LVN_TRY(add_row(p, first));
            first = p->n;
        }
    }
    return lvn_text_status(&p->lost);
}

/* Report what was read, and what is left out. FORMAT if nothing is left, or less than half. */
static enum lvn_status report(const struct chat_data *c, const struct lvn_data_options *o, const struct part *p,
                              const char *path)
{
    char rows[LVN_NUMBER_TEXT], tokens[LVN_NUMBER_TEXT], labels[LVN_NUMBER_TEXT], some[LVN_NUMBER_TEXT];
    const int64_t lost = p->found - p->n_rows;
    const int first = p->lost.n ? (int)strcspn(p->lost.p, "\n") : 0;
    if (p->other_files)
        lvn_log(LVN_LOG_INFO,
                "'%s': %" PRId64 " file%s not read: conversations are in .jsonl, .json and .parquet files", path,
                p->other_files, p->other_files == 1 ? " is" : "s are");
    LVN_CHECK(p->found, FORMAT, "'%s' has no conversations", path);
    LVN_CHECK(p->n_rows, FORMAT, "none of the %" PRId64 " conversations of '%s' can be used; the first: %.*s%s%s%s",
              p->found, path, first, p->lost.p, *p->role ? " (answers have the role assistant, and some message '" : "",
              p->role, *p->role ? "')" : "");
    LVN_CHECK(2 * lost <= p->found || o->skip_bad_rows, FORMAT,
              "%" PRId64 " of the %" PRId64
              " conversations of '%s' would be left out, more than half; the first: %.*s; "
              "correct them, or train on the others with data.skip_bad_rows=true",
              lost, p->found, path, first, p->lost.p);
    lvn_log(LVN_LOG_INFO, "'%s': %s conversation%s, %s tokens, of which %s have labels", path,
            lvn_count_text(p->n_rows, rows), lvn_plural(p->n_rows), lvn_count_text(p->tokens, tokens),
            lvn_count_text(p->labels, labels));
    if (p->cut)
        lvn_log(LVN_LOG_INFO,
                "'%s': %s of them are longer than %" PRId64
                " tokens and were truncated (data.overlong; data.max_length, else the model's context length)",
                path, lvn_count_text(p->cut, some), c->limit);
    if (p->other_roles)
        lvn_log(LVN_LOG_WARN,
                "'%s': %s conversation%s messages with other roles, as '%s': only messages with the role assistant are "
                "answers, which are trained",
                path, lvn_count_text(p->other_roles, some), p->other_roles == 1 ? " has" : "s have", p->role);
    if (p->two_systems)
        lvn_log(LVN_LOG_WARN, "'%s': %s conversation%s " LVN_CHAT_TWO_SYSTEMS, path,
                lvn_count_text(p->two_systems, some), p->two_systems == 1 ? " has" : "s have");
    if (p->empty)
        lvn_log(LVN_LOG_WARN, "'%s': %s answer%s empty, so the model learns to answer nothing: leave such rows out",
                path, lvn_count_text(p->empty, some), p->empty == 1 ? " is" : "s are");
    if (p->without_tools)
        lvn_log(LVN_LOG_WARN,
                "'%s': the template '%s' does not write the tools, tool calls or some messages of %s conversation%s, "
                "so the model does "
                "not read them",
                path, c->chat->template_name, lvn_count_text(p->without_tools, some), lvn_plural(p->without_tools));
    lvn_encoder_notes_report(c->tokenizer, path, p->unknown, p->tokens, false);
    if (!p->n_lost) return LVN_OK;
    lvn_log(LVN_LOG_WARN, "'%s': %s of %s conversations are left out%s", path, lvn_count_text(lost, some),
            lvn_count_text(p->found, rows), p->n_lost > lost ? ", and parts of others" : "");
    for (const char *line = p->lost.p; *line && !o->for_evaluation; line += line[strcspn(line, "\n")] ? 1 : 0) {
        const int n = (int)strcspn(line, "\n");
        lvn_log(LVN_LOG_WARN, "left out: %.*s", n, line);
        line += n;
    }
    return LVN_OK;
}

static enum lvn_status read_part(struct lvn_dataset *d, const struct lvn_data_options *o, enum lvn_split_id split,
                                 const char *path)
{
    struct chat_data *c = d->state;
    struct part *p = &c->part[split];
    LVN_TRY(open_records(c, o, path, &p->records));
    LVN_TRY(find_samples(c, p));
    LVN_TRY(report(c, o, p, path));
    if (split < LVN_SPLITS_TRAINED) d->contents = lvn_checksum_value(&p->sum) + 31 * d->contents;
    d->skipped += p->found - p->n_rows;
    if (!d->skipped_rows && p->lost.n) d->skipped_rows = p->lost.p;
    return LVN_OK;
}

/* --- the data set --- */

/* The samples of the conversations [first, end) of a permutation; seed 0: of the file. */
static enum lvn_status make_list(struct lvn_dataset *d, enum lvn_split_id split, const struct part *p, int64_t first,
                                 int64_t end, uint64_t seed, const char *path)
{
    struct list *l = &((struct chat_data *)d->state)->list[split];
    for (int pass = 0; pass < 2; pass++) {
        l->n = 0;
        for (int64_t i = first; i < end; i++) {
            const int64_t row = seed ? lvn_random_permute(seed, 0, p->n_rows, i) : i;
            for (int64_t k = p->first[row]; k < p->first[row + 1]; k++) {
                if (pass) l->sample[l->n] = p->sample[k];
                l->n++;
            }
        }
        if (!pass && !(l->sample = lvn_malloc(sizeof *l->sample * (size_t)(l->n + 1)))) return LVN_MEMORY;
    }
    l->path = d->split[split].path = lvn_strdup(path);
    d->split[split].n_samples = l->n;
    return l->path ? LVN_OK : LVN_MEMORY;
}

static enum lvn_status make_lists(struct lvn_dataset *d, const struct lvn_data_options *o)
{
    struct chat_data *c = d->state;
    const struct part *train = &c->part[LVN_SPLIT_TRAIN];
    const int64_t n = train->n_rows;
    int64_t cut = (int64_t)(o->val_fraction * (double)n);
    for (int i = LVN_SPLIT_VAL; i < LVN_SPLIT_ALL; i++)
        if (c->part[i].n_rows)
            LVN_TRY(make_list(d, (enum lvn_split_id)i, &c->part[i], 0, c->part[i].n_rows, 0,
                              i == LVN_SPLIT_VAL ? o->val_path : o->test_path));
    if (c->part[LVN_SPLIT_VAL].n_rows) return make_list(d, LVN_SPLIT_TRAIN, train, 0, n, 0, o->path);
    const uint64_t seed = (o->seed ^ lvn_name_hash("data.chat")) | 1;
    if (o->val_fraction > 0 && !cut && n > 1) cut = 1;
    LVN_TRY(make_list(d, LVN_SPLIT_TRAIN, train, 0, n - cut, seed, o->path));
    if (cut) LVN_TRY(make_list(d, LVN_SPLIT_VAL, train, n - cut, n, seed, o->path));
    return o->for_evaluation ? make_list(d, LVN_SPLIT_ALL, train, 0, n, 0, o->path) : LVN_OK;
}

/* ARG for options that have no meaning together. */
static enum lvn_status check_options(const struct lvn_data_options *o)
{
    LVN_CHECK(o->path && *o->path, ARG,
              "data.kind=chat needs data.path: a .jsonl or .json file of conversations, or a folder of these");
    LVN_CHECK(!o->block_size || o->max_length <= o->block_size, ARG,
              "data.max_length is %" PRId64 ", and the model has %" PRId64
              " positions: set it to at most that, or leave it out",
              o->max_length, o->block_size);
    LVN_CHECK(!o->pack || !o->max_length, ARG,
              "data.pack fills rows of model.block_size tokens, and data.max_length is %" PRId64
              ": leave one of them out",
              o->max_length);
    LVN_CHECK(o->pack || o->overlong != LVN_OVERLONG_SPLIT, ARG,
              "data.overlong=split cuts conversations into rows of data.pack: set that too, or use truncate, drop or "
              "refuse");
    LVN_CHECK(!o->masks, ARG,
              "task.kind=mlm hides words of texts, and conversations (data.kind=chat) have answers: "
              "leave task.kind out");
    return LVN_OK;
}

/* An existing model may have fewer rows than the tokenizer has tokens, if the data do not need them. */
static void fit_vocabulary(struct lvn_dataset *d, const struct lvn_data_options *o)
{
    const struct chat_data *c = d->state;
    if (!o->vocab_size || o->vocab_size >= d->vocab_size) return;
    d->vocab_size = 0;
    for (int i = 0; i < LVN_SPLIT_ALL; i++)
        for (int64_t k = 0; k < c->part[i].n; k++)
            for (int64_t t = 0; t < 2 * (int64_t)c->part[i].sample[k].n; t++)
                if (c->part[i].sample[k].tokens[t] >= d->vocab_size) d->vocab_size = c->part[i].sample[k].tokens[t] + 1;
}

/* Set *id to the special token with which the template ends an answer; -1, and a warning, if it writes none: generation
 * then finds the end by its text, or not at all. A template that refuses the conversation with which this is tried is
 * not tried further. */
static enum lvn_status check_end(const struct chat_data *c, int64_t *id)
{
    LVN_LOCAL_ARENA(a);
    struct lvn_chat_encoder *e = lvn_chat_encoder_new(c->chat);
    const char *text;
    if (!e) return LVN_MEMORY;
    enum lvn_status status = lvn_chat_end(e, &a, id, &text);
    if (status == LVN_OK && *id < 0 && *text)
        lvn_log(
            LVN_LOG_WARN,
            "the template '%s' writes '%.40s' after an answer, which is not a special token of the tokenizer and is "
            "encoded as text: add it with data.add_tokens, or use another data.template",
            c->chat->template_name, text);
    if (status == LVN_OK && *id < 0 && !*text)
        lvn_log(LVN_LOG_WARN,
                "the template '%s' writes nothing after an answer, so the model does not learn where an answer ends",
                c->chat->template_name);
    lvn_chat_encoder_free(e);
    if (status == LVN_MEMORY) return status;
    lvn_error_clear();
    return LVN_OK;
}

/* A checksum of all tokens. */
static uint64_t tokens_sum(const struct lvn_tokenizer *t)
{
    return lvn_checksum(t->byte, t->start[t->n]) + 31 * lvn_checksum(t->start, (t->n + 1) * (int64_t)sizeof *t->start);
}

static enum lvn_status open_chat(struct lvn_dataset *d, const struct lvn_data_options *o)
{
    const bool val = o->val_path && *o->val_path, test = o->test_path && *o->test_path && o->for_evaluation;
    LVN_TRY(check_options(o));
    struct chat_data *c = d->state = lvn_calloc(1, sizeof *c);
    if (!c) return LVN_MEMORY;
    c->overlong = o->overlong == LVN_OVERLONG_AUTO ? LVN_OVERLONG_TRUNCATE : (enum lvn_overlong)o->overlong;
    c->limit = d->fields.field[0].dim[0];
    /* no tokenizer is trained on the file: it would not have the special tokens of a template */
    if (!(o->tokenizer && *o->tokenizer) && !o->model_tokenizer) {
        LVN_TRY(lvn_tokenizer_require(o->tokenizer_error, "data.kind=chat"));
        LVN_FAIL(ARG,
                 "data.kind=chat has no tokenizer: give model.init=MODEL (a folder, or hf://ORGANIZATION/NAME), whose "
                 "tokenizer and chat template are used, or, for a new model, data.tokenizer and data.template");
    }
    LVN_TRY(lvn_text_tokenizer(d, o, false, &c->tokenizer));
    const struct lvn_chat_options options = {
        .chat_template = o->chat_template, .train_on = o->train_on, .reads_ids = true};
    LVN_TRY(lvn_chat_open(&c->chat, c->tokenizer, &options));
    d->chat_template = c->chat->given;
    d->contents = c->chat->sum ^ tokens_sum(c->tokenizer);
    if (!o->for_evaluation && c->chat->chat_template) LVN_TRY(check_end(c, &d->answer_end));
    LVN_TRY(read_part(d, o, LVN_SPLIT_TRAIN, o->path));
    if (val) LVN_TRY(read_part(d, o, LVN_SPLIT_VAL, o->val_path));
    if (test) LVN_TRY(read_part(d, o, LVN_SPLIT_TEST, o->test_path));
    fit_vocabulary(d, o);
    return make_lists(d, o);
}

static void close_chat(struct lvn_dataset *d)
{
    struct chat_data *c = d->state;
    if (!c) return;
    for (int i = 0; i < LVN_SPLIT_ALL; i++) {
        lvn_encoded_release(&c->part[i].records);
        lvn_text_release(&c->part[i].lost);
        free(c->part[i].sample);
        free(c->part[i].first);
    }
    for (int i = 0; i < LVN_SPLIT_COUNT; i++) free(c->list[i].sample);
    lvn_chat_close(c->chat);
    free(c);
}

static void fields(const struct lvn_data_options *o, struct lvn_fields *out)
{
    int64_t T = o->block_size ? o->block_size : DEFAULT_LENGTH;
    if (o->max_length && o->max_length < T) T = o->max_length;
    *out = lvn_stream_fields(T, o->vocab_size);
    out->field[0].ragged = out->field[1].ragged = true;
}

/* Read tokens [first, first + n) of a sample and their labels: the next tokens, where these are trained. */
static void read_tokens(const struct sample *s, int64_t first, int64_t n, int32_t *ids, int32_t *labels)
{
    const int32_t *p = s->tokens + 2 * first;
    for (int64_t i = 0; i < n; i++) {
        const bool labeled = first + i + 1 < s->n && p[2 * i + 3] != IGNORED;
        ids[i] = p[2 * i];
        labels[i] = labeled ? p[2 * i + 3] : -1;
    }
}

static int64_t length(const struct lvn_dataset *d, enum lvn_split_id split, int64_t i)
{
    return ((const struct chat_data *)d->state)->list[split].sample[i].n;
}

static enum lvn_status sample(const struct lvn_dataset *d, enum lvn_split_id split, int64_t i, struct lvn_draw draw,
                              void *const *out)
{
    const struct sample *s = &((const struct chat_data *)d->state)->list[split].sample[i];
    int32_t *ids = out[0], *labels = out[1];
    read_tokens(s, 0, s->n, ids, labels);
    for (int64_t t = s->n; t < draw.length; t++) ids[t] = 0, labels[t] = -1;
    return LVN_OK;
}

/* --- data.pack --- */

static int64_t document_length(const void *context, int64_t document)
{
    return ((const struct list *)context)->sample[document].n;
}

static int64_t document_labels(const void *context, int64_t document, int64_t first, int64_t n)
{
    const struct sample *s = &((const struct list *)context)->sample[document];
    const int64_t end = first + n + 1 < s->n ? first + n + 1 : s->n;
    return count_labels(s->tokens, first + 1, end);
}

static enum lvn_status read_document(const void *context, int64_t document, int64_t first, int64_t n, int32_t *ids,
                                     int32_t *labels)
{
    read_tokens(&((const struct list *)context)->sample[document], first, n, ids, labels);
    return LVN_OK;
}

static enum lvn_status documents(struct lvn_dataset *d, const struct lvn_data_options *o, enum lvn_split_id split,
                                 struct lvn_pack_source *out)
{
    const struct list *l = &((const struct chat_data *)d->state)->list[split];
    (void)o;
    *out = (struct lvn_pack_source){.context = l,
                                    .name = l->path,
                                    .n = l->n,
                                    .length = document_length,
                                    .labels = document_labels,
                                    .read = read_document};
    return LVN_OK;
}

/* --- which files are conversations --- */

/* Are there members of a conversation in the beginning of the file? A row may be longer than it. */
static bool has_conversation(const char *p)
{
    static const char *const pairs[][2] = {{"\"messages\"", "\"role\""},        {"\"messages\"", "\"value\""},
                                           {"\"conversations\"", "\"from\""},   {"\"conversations\"", "\"role\""},
                                           {"\"prompt\"", "\"completion\""},    {"\"instruction\"", "\"output\""},
                                           {"\"instruction\"", "\"response\""}, {"\"input_ids\"", "\"labels\""}};
    p += strspn(p, " \t\r\n[");
    if (*p != '{') return false;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (strstr(p, pairs[i][0]) && strstr(p, pairs[i][1])) return true;
    return false;
}

static bool matches(const char *path)
{
    LVN_LOCAL_ARENA(a);
    LVN_LOCAL_TEXT(rows);
    if (!lvn_path_exists(path)) return false;
    const int64_t plain = lvn_file_uncompressed_name(path);
    const enum lvn_file_type type = lvn_file_type(path, plain);
    const bool archive = type == LVN_FILE_TYPE_UNKNOWN && path[plain];
    if (!lvn_path_is_dir(path) && !lvn_is_parquet(path) && type != LVN_FILE_TYPE_LINES && !archive) return false;
    (void)lvn_text_files_look(&a, path, &rows);
    return rows.n && has_conversation(lvn_text_string(&rows) + lvn_utf8_bom(rows.p, rows.n));
}

extern const struct lvn_dataset_kind lvn_dataset_chat;
const struct lvn_dataset_kind lvn_dataset_chat = {
    .name = "chat",
    .help = "conversations, encoded with the model's chat template; the answers are learned",
    .typical_vocab = 50257,
    .reads_stores = true,
    .is_text = true,
    .needs_model = true,
    .needs_tokenizer = true,
    .mixes = true,
    .try_command = "chat",
    .matches = matches,
    .fields = fields,
    .open = open_chat,
    .close = close_chat,
    .sample = sample,
    .length = length,
    .documents = documents,
    .overlong = LVN_OVERLONG_TRUNCATE,
};
