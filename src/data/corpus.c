/* corpus.c - see corpus.h: files to chunks, then batches to ids. */
#include "data/corpus.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "data/file_type.h"
#include "data/json_line.h"
#include "formats/checksum.h"
#include "tokenizers/post_processor.h"

enum { MAX_CHUNK = 1 << 30, MAX_WARNINGS = 10 };

/* --- files to chunks --- */

enum lvn_status lvn_chunker_begin(void *chunker, const char *name, bool named, bool *want)
{
    struct lvn_chunker *c = chunker;
    enum lvn_file_type type = lvn_file_type(name, (int64_t)strlen(name));
    bool lines = type == LVN_FILE_TYPE_LINES, text = type == LVN_FILE_TYPE_TEXT;
    if (named) LVN_TRY(lvn_file_refuse_name(name));
    *want = lines || text || named;
    if (!*want) {
        c->skipped++;
        return LVN_OK;
    }
    c->current = (struct lvn_chunk){.kind = lines  ? LVN_CHUNK_LINES
                                            : text ? LVN_CHUNK_TEXT
                                                   : c->o->kind,
                                    .line = 1,
                                    .first = true};
    free(c->name);
    c->name = lvn_strdup(name);
    c->current.name = c->name;
    c->named = named;
    c->skipping = false;
    c->emitted = 0;
    lvn_text_clear(&c->text);
    c->search_from = LVN_BATCH_BYTES;
    return c->name ? LVN_OK : LVN_MEMORY;
}

static int64_t count_lines(const char *p, int64_t n)
{
    int64_t lines = 0;
    for (const char *end = p + n; (p = memchr(p, '\n', (size_t)(end - p))); p++) lines++;
    return lines;
}

/* A file that is no text is skipped if the user did not name it and nothing of it was emitted; else FORMAT. */
static enum lvn_status check_text(struct lvn_chunker *c, int64_t n)
{
    if (c->current.kind != LVN_CHUNK_TEXT || lvn_file_refuse_bytes(c->name, c->text.p, n, c->emitted) == LVN_OK)
        return LVN_OK;
    if (c->named || c->emitted || c->o->refuse_bad) return LVN_FORMAT;
    lvn_error_clear();
    c->skipping = true;
    if (c->skipped++ < MAX_WARNINGS)
        lvn_text_printf(&c->warnings, "%s: skipped: it holds a zero byte, which no text does\n", c->name);
    lvn_text_clear(&c->text);
    return LVN_OK;
}

/* Emits the first n bytes of the text. */
static enum lvn_status emit_chunk(struct lvn_chunker *c, int64_t n, bool last)
{
    LVN_TRY(check_text(c, n));
    if (c->skipping) return LVN_OK;
    c->emitted += n;
    c->current.bytes = n;
    c->current.last = last;
    LVN_TRY(c->emit(c->context, &c->current, c->text.p ? c->text.p : ""));
    if (c->current.kind == LVN_CHUNK_LINES && n) c->current.line += count_lines(c->text.p, n);
    if (n) memmove(c->text.p, c->text.p + n, (size_t)(c->text.n - n));
    c->text.n -= n;
    c->current.first = false;
    c->search_from = LVN_BATCH_BYTES;
    return LVN_OK;
}

static int64_t find_cut(const struct lvn_chunker *c)
{
    if (c->current.kind == LVN_CHUNK_LINES) {
        const char *end = memrchr(c->text.p, '\n', (size_t)c->text.n);
        return end ? end + 1 - c->text.p : 0;
    }
    if (!lvn_tokenizer_can_cut(c->o->tokenizer)) return 0;
    return lvn_split_safe_last((const uint8_t *)c->text.p, c->text.n);
}

enum lvn_status lvn_chunker_data(void *chunker, const void *p, int64_t n)
{
    struct lvn_chunker *c = chunker;
    if (c->skipping) return LVN_OK;
    lvn_text_add_bytes(&c->text, p, n);
    LVN_TRY(lvn_text_status(&c->text));
    if (c->text.n < c->search_from) return LVN_OK;
    int64_t cut = find_cut(c);
    if (cut > 0) return emit_chunk(c, cut, false);
    LVN_CHECK(c->text.n < MAX_CHUNK, FORMAT, "'%s': a %s of more than %d MiB", c->name,
              c->current.kind == LVN_CHUNK_LINES ? "line" : "stretch without a space", MAX_CHUNK >> 20);
    c->search_from = 2 * c->text.n;
    return LVN_OK;
}

enum lvn_status lvn_chunker_end(void *chunker)
{
    struct lvn_chunker *c = chunker;
    return c->skipping ? LVN_OK : emit_chunk(c, c->text.n, true);
}

void lvn_chunker_release(struct lvn_chunker *c)
{
    lvn_text_release(&c->text);
    lvn_text_release(&c->warnings);
    free(c->name);
    c->name = NULL;
}

void lvn_chunker_take_warnings(struct lvn_chunker *c, struct lvn_text *out)
{
    if (c->warnings.n) lvn_text_add_bytes(out, c->warnings.p, c->warnings.n);
    lvn_text_clear(&c->warnings);
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
    lvn_text_release(&b->warnings);
    lvn_ids_release(&b->ids);
    free(b->chunk);
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
    if (first) LVN_TRY(lvn_post_processor_prefix(w->o->tokenizer, &b->ids));
    LVN_TRY(lvn_encode(w->e, p, n, LVN_ENCODE_ORDINARY, &b->ids));
    if (last) LVN_TRY(lvn_post_processor_suffix(w->o->tokenizer, &b->ids));
    d->n_ids = b->ids.n - before;
    b->text_bytes += n;
    b->n_documents++;
    return LVN_OK;
}

/* --- lines of JSON --- */

/* The text of a line's object; returns NULL, or why there is none. */
static const char *text_member(const json_t *root, const char *field, const json_t **text)
{
    *text = json_object_get(root, field);
    if (!*text) return "the field is missing";
    return json_is_string(*text) ? NULL : "the field is no text";
}

static enum lvn_status bad_line(struct work *w, const struct lvn_chunk *p, int64_t line, const char *reason,
                                bool refuse)
{
    LVN_CHECK(!refuse, FORMAT, "%s:%lld: %s (expected an object with the text in \"%s\")", p->name, (long long)line,
              reason, w->o->field);
    if (w->b->bad++ < MAX_WARNINGS) lvn_text_printf(&w->b->warnings, "%s:%lld: %s\n", p->name, (long long)line, reason);
    return LVN_OK;
}

static bool is_blank(const char *p, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (!strchr(" \t\r", p[i])) return false;
    return true;
}

static enum lvn_status one_line(struct work *w, const struct lvn_chunk *p, int64_t number, const char *line, int64_t n)
{
    json_error_t error;
    const json_t *text = NULL;
    if (is_blank(line, n)) return LVN_OK;
    json_t *root;
    LVN_TRY(lvn_json_load(line, n, JSON_ALLOW_NUL, &root, &error));
    const char *reason = lvn_json_line_fault(line, root, &error);
    if (!reason) reason = text_member(root, w->o->field, &text);
    enum lvn_status status =
        reason ? bad_line(w, p, number, reason, w->o->refuse_bad || (number == 1 && lvn_json_line_begins_array(line)))
               : add_document(w, json_string_value(text), (int64_t)json_string_length(text), true, true);
    json_decref(root);
    return status;
}

static enum lvn_status lines(struct work *w, const struct lvn_chunk *p, const char *bytes)
{
    int64_t number = p->line;
    for (const char *at = bytes, *end = bytes + p->bytes; at < end; number++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        if (!stop) stop = end;
        if (number == 1) at += lvn_utf8_bom(at, stop - at);
        LVN_TRY(one_line(w, p, number, at, stop - at));
        at = stop + 1;
    }
    return LVN_OK;
}

static enum lvn_status encode_chunk(void *context, const struct lvn_chunk *p, const char *bytes)
{
    struct work *w = context;
    if (p->kind == LVN_CHUNK_LINES) return lines(w, p, bytes);
    LVN_TRY_WHILE(add_document(w, bytes, p->bytes, p->first, p->last), "encoding '%s'", p->name);
    return LVN_OK;
}

/* --- a batch --- */

static enum lvn_status encode_blob(struct work *w)
{
    struct lvn_chunker c = {.o = w->o, .emit = encode_chunk, .context = w};
    struct lvn_archive_visitor v = {
        .context = &c, .begin = lvn_chunker_begin, .data = lvn_chunker_data, .end = lvn_chunker_end};
    enum lvn_status status = lvn_archive_read_memory(w->b->blob, w->b->text.p, w->b->text.n, w->b->place, &v);
    w->b->skipped += c.skipped;
    lvn_chunker_take_warnings(&c, &w->b->warnings);
    lvn_chunker_release(&c);
    return status;
}

enum lvn_status lvn_batch_encode(struct lvn_batch *b, struct lvn_encoder *e, const struct lvn_corpus_options *o)
{
    struct work w = {.b = b, .e = e, .o = o};
    enum lvn_status status = b->blob ? encode_blob(&w) : LVN_OK;
    for (int64_t i = 0; i < b->n_chunks && status == LVN_OK; i++)
        status = encode_chunk(&w, &b->chunk[i], b->text.p + b->chunk[i].at);
    if (status != LVN_OK) snprintf(b->error, sizeof b->error, "%s", lvn_error_text());
    b->status = status;
    return status;
}
