/* corpus.c - cutting files into pieces, and batches into ids: see corpus.h. */
#include "data/corpus.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "data/file_type.h"
#include "formats/checksum.h"
#include "formats/json.h"

enum { MAX_PIECE = 1 << 30, COMPLAINTS = 10 };

/* --- files to pieces --- */

enum lvn_status lvn_cutter_begin(void *cutter, const char *name, bool named, bool *want)
{
    struct lvn_cutter *c = cutter;
    enum lvn_file_type form = lvn_file_type(name, (int64_t)strlen(name));
    bool lines = form == LVN_FILE_TYPE_LINES, text = form == LVN_FILE_TYPE_TEXT;
    if (named) LVN_TRY(lvn_file_refuse_name(name));
    *want = lines || text || named;
    if (!*want) {
        c->passed_over++;
        return LVN_OK;
    }
    c->at = (struct lvn_piece){.kind = lines  ? LVN_PIECE_LINES
                                       : text ? LVN_PIECE_TEXT
                                              : c->o->kind,
                               .line = 1,
                               .first = true};
    free(c->name);
    c->name = lvn_strdup(name);
    c->at.name = c->name;
    c->named = named;
    c->skips = false;
    c->handed = 0;
    lvn_text_clear(&c->text);
    c->look_again = LVN_BATCH_BYTES;
    return c->name ? LVN_OK : LVN_MEMORY;
}

static int64_t count_lines(const char *p, int64_t n)
{
    int64_t lines = 0;
    for (const char *end = p + n; (p = memchr(p, '\n', (size_t)(end - p))); p++) lines++;
    return lines;
}

/* What is no text is passed over where it was found on the way, while nothing of it has been handed on. */
static enum lvn_status check_text(struct lvn_cutter *c, int64_t n)
{
    if (c->at.kind != LVN_PIECE_TEXT || lvn_file_refuse_bytes(c->name, c->text.p, n, c->handed) == LVN_OK)
        return LVN_OK;
    if (c->named || c->handed || c->o->refuse_bad) return LVN_FORMAT;
    lvn_error_clear();
    c->skips = true;
    if (c->passed_over++ < COMPLAINTS)
        lvn_text_printf(&c->complaints, "%s: skipped: it holds a zero byte, which no text does\n", c->name);
    lvn_text_clear(&c->text);
    return LVN_OK;
}

/* Hand the first n bytes on. */
static enum lvn_status hand_on(struct lvn_cutter *c, int64_t n, bool last)
{
    LVN_TRY(check_text(c, n));
    if (c->skips) return LVN_OK;
    c->handed += n;
    c->at.bytes = n;
    c->at.last = last;
    LVN_TRY(c->piece(c->context, &c->at, c->text.p ? c->text.p : ""));
    if (c->at.kind == LVN_PIECE_LINES && n) c->at.line += count_lines(c->text.p, n);
    if (n) memmove(c->text.p, c->text.p + n, (size_t)(c->text.n - n));
    c->text.n -= n;
    c->at.first = false;
    c->look_again = LVN_BATCH_BYTES;
    return LVN_OK;
}

static int64_t place_to_cut(const struct lvn_cutter *c)
{
    if (c->at.kind == LVN_PIECE_LINES) {
        const char *end = memrchr(c->text.p, '\n', (size_t)c->text.n);
        return end ? end + 1 - c->text.p : 0;
    }
    if (!lvn_tokenizer_cuts(c->o->tokenizer)) return 0;
    return lvn_split_safe_last((const uint8_t *)c->text.p, c->text.n);
}

enum lvn_status lvn_cutter_data(void *cutter, const void *p, int64_t n)
{
    struct lvn_cutter *c = cutter;
    if (c->skips) return LVN_OK;
    lvn_text_add_bytes(&c->text, p, n);
    LVN_TRY(lvn_text_status(&c->text));
    if (c->text.n < c->look_again) return LVN_OK;
    int64_t cut = place_to_cut(c);
    if (cut > 0) return hand_on(c, cut, false);
    LVN_CHECK(c->text.n < MAX_PIECE, FORMAT, "'%s': a %s of more than %d MiB", c->name,
              c->at.kind == LVN_PIECE_LINES ? "line" : "stretch without a space", MAX_PIECE >> 20);
    c->look_again = 2 * c->text.n;
    return LVN_OK;
}

enum lvn_status lvn_cutter_end(void *cutter)
{
    struct lvn_cutter *c = cutter;
    return c->skips ? LVN_OK : hand_on(c, c->text.n, true);
}

void lvn_cutter_release(struct lvn_cutter *c)
{
    lvn_text_release(&c->text);
    lvn_text_release(&c->complaints);
    free(c->name);
    c->name = NULL;
}

void lvn_cutter_complain(struct lvn_cutter *c, struct lvn_text *to)
{
    if (c->complaints.n) lvn_text_add_bytes(to, c->complaints.p, c->complaints.n);
    lvn_text_clear(&c->complaints);
}

/* --- batches --- */

struct lvn_batch *lvn_batch_new(int64_t number)
{
    struct lvn_batch *b = lvn_calloc(1, sizeof *b);
    if (!b) return NULL;
    lvn_arena_init(&b->arena);
    b->number = number;
    b->next_file = -1;
    return b;
}

void lvn_batch_free(struct lvn_batch *b)
{
    if (!b) return;
    lvn_arena_release(&b->arena);
    lvn_text_release(&b->text);
    lvn_text_release(&b->complaints);
    lvn_ids_release(&b->ids);
    free(b->piece);
    free(b->document);
    free(b);
}

struct work {
    struct lvn_batch *b;
    struct lvn_encoder *e;
    const struct lvn_corpus_options *o;
};

static void hash_document(const void *p, int64_t n, uint64_t hash[2])
{
    static const char salt[8] = "levin\n\n";
    struct lvn_checksum c;
    hash[0] = lvn_checksum(p, n);
    lvn_checksum_init(&c);
    lvn_checksum_add(&c, salt, sizeof salt);
    lvn_checksum_add(&c, p, n);
    hash[1] = lvn_checksum_value(&c);
}

static enum lvn_status add_document(struct work *w, const char *p, int64_t n, bool first, bool last)
{
    struct lvn_batch *b = w->b;
    if (n == 0 && first && last) {
        b->empty++;
        return LVN_OK;
    }
    if (b->n_documents == b->document_capacity) {
        int64_t capacity = b->document_capacity ? 2 * b->document_capacity : 256;
        struct lvn_document *more = lvn_realloc(b->document, (size_t)capacity * sizeof *more);
        if (!more) return LVN_MEMORY;
        b->document = more;
        b->document_capacity = capacity;
    }
    struct lvn_document *d = &b->document[b->n_documents];
    *d = (struct lvn_document){.first = first, .last = last};
    if (first) hash_document(p, n, d->hash);
    int64_t before = b->ids.n;
    if (first) LVN_TRY(lvn_post_processor_begin(w->o->tokenizer, &b->ids));
    LVN_TRY(lvn_encode(w->e, p, n, LVN_ENCODE_ORDINARY, &b->ids));
    if (last) LVN_TRY(lvn_post_processor_end(w->o->tokenizer, &b->ids));
    d->n_ids = b->ids.n - before;
    b->text_bytes += n;
    b->n_documents++;
    return LVN_OK;
}

/* --- lines of JSON --- */

/* NULL, or what is wrong with the line. */
static const char *text_of(const json_t *root, const char *field, const json_t **text)
{
    if (!json_is_object(root)) return "it is no JSON object";
    *text = json_object_get(root, field);
    if (!*text) return "the field is missing";
    return json_is_string(*text) ? NULL : "the field is no text";
}

static enum lvn_status bad_line(struct work *w, const struct lvn_piece *p, int64_t line, const char *why)
{
    LVN_CHECK(!w->o->refuse_bad, FORMAT, "%s:%lld: %s (expected an object with the text in \"%s\")", p->name,
              (long long)line, why, w->o->field);
    if (w->b->bad++ < COMPLAINTS) lvn_text_printf(&w->b->complaints, "%s:%lld: %s\n", p->name, (long long)line, why);
    return LVN_OK;
}

static bool is_blank(const char *p, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (!strchr(" \t\r", p[i])) return false;
    return true;
}

static enum lvn_status one_line(struct work *w, const struct lvn_piece *p, int64_t number, const char *line, int64_t n)
{
    json_error_t error;
    const json_t *text = NULL;
    if (is_blank(line, n)) return LVN_OK;
    json_t *root;
    LVN_TRY(lvn_json_load(line, n, JSON_ALLOW_NUL, &root, &error));
    const char *why = root ? text_of(root, w->o->field, &text) : error.text;
    enum lvn_status status =
        why ? bad_line(w, p, number, why)
            : add_document(w, json_string_value(text), (int64_t)json_string_length(text), true, true);
    json_decref(root);
    return status;
}

static enum lvn_status lines(struct work *w, const struct lvn_piece *p, const char *bytes)
{
    int64_t number = p->line;
    for (const char *at = bytes, *end = bytes + p->bytes; at < end; number++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        if (!stop) stop = end;
        if (number == 1) at += lvn_utf8_mark(at, stop - at);
        LVN_TRY(one_line(w, p, number, at, stop - at));
        at = stop + 1;
    }
    return LVN_OK;
}

static enum lvn_status encode_piece(void *context, const struct lvn_piece *p, const char *bytes)
{
    struct work *w = context;
    if (p->kind == LVN_PIECE_LINES) return lines(w, p, bytes);
    LVN_TRY_WHILE(add_document(w, bytes, p->bytes, p->first, p->last), "encoding '%s'", p->name);
    return LVN_OK;
}

/* --- a batch --- */

static enum lvn_status encode_blob(struct work *w)
{
    struct lvn_cutter c = {.o = w->o, .piece = encode_piece, .context = w};
    struct lvn_archive_visitor v = {
        .context = &c, .begin = lvn_cutter_begin, .data = lvn_cutter_data, .end = lvn_cutter_end};
    enum lvn_status status = lvn_archive_read_memory(w->b->blob, w->b->text.p, w->b->text.n, w->b->place, &v);
    w->b->passed_over += c.passed_over;
    lvn_cutter_complain(&c, &w->b->complaints);
    lvn_cutter_release(&c);
    return status;
}

enum lvn_status lvn_batch_encode(struct lvn_batch *b, struct lvn_encoder *e, const struct lvn_corpus_options *o)
{
    struct work w = {.b = b, .e = e, .o = o};
    enum lvn_status status = b->blob ? encode_blob(&w) : LVN_OK;
    for (int64_t i = 0; i < b->n_pieces && status == LVN_OK; i++)
        status = encode_piece(&w, &b->piece[i], b->text.p + b->piece[i].at);
    if (status != LVN_OK) snprintf(b->error, sizeof b->error, "%s", lvn_error_text());
    b->status = status;
    return status;
}
