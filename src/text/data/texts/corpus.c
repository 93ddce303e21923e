/* corpus.c - see corpus.h: files to chunks, then batches to ids. */
#include "data/texts/corpus.h"

#include <jansson.h>

#include "base/files.h"
#include "base/list.h"
#include "data/file_type.h"
#include "data/json_line.h"
#include "data/parquet_texts.h"
#include "formats/checksum.h"
#include "tokenizers/post_processor.h"

enum { MAX_CHUNK = 1 << 30, MAX_WARNINGS = 10 };

/* --- files to chunks --- */

static enum lvn_status set_name(struct lvn_chunker *c, const char *name)
{
    if (c->files) return lvn_source_name(&c->name, c->files, c->at, name);
    lvn_text_clear(&c->name);
    lvn_text_add(&c->name, name);
    return lvn_text_status(&c->name);
}

enum lvn_status lvn_chunker_begin(void *chunker, const char *name, bool named, bool *want)
{
    struct lvn_chunker *c = chunker;
    LVN_TRY(set_name(c, name));
    name = c->name.p;
    enum lvn_file_type type = lvn_file_type(name, (int64_t)strlen(name));
    bool lines = type == LVN_FILE_TYPE_LINES, text = type == LVN_FILE_TYPE_TEXT;
    if (named) LVN_TRY(lvn_file_refuse_name(name));
    LVN_CHECK(!named || type != LVN_FILE_TYPE_PARQUET, FORMAT,
              "'%s' is a Parquet file in an archive: unpack the archive first", name);
    *want = lines || text || named;
    if (!*want) {
        if (c->skipped++ < MAX_WARNINGS)
            lvn_text_printf(&c->warnings, "skipped: '%s', which is no text by its name\n", name);
        return LVN_OK;
    }
    c->current = (struct lvn_chunk){.kind = lines  ? LVN_CHUNK_LINES
                                            : text ? LVN_CHUNK_TEXT
                                                   : c->o->kind,
                                    .line = 1,
                                    .first = true};
    if (c->current.kind == LVN_CHUNK_TEXT && c->o->separator && *c->o->separator) c->current.kind = LVN_CHUNK_SEPARATED;
    c->current.name = name;
    c->named = named;
    c->skipping = false;
    c->emitted = 0;
    c->decoder = (struct lvn_text_decoder){.encoding = c->o->encoding};
    lvn_text_clear(&c->text);
    c->search_from = LVN_BATCH_BYTES;
    return LVN_OK;
}

static int64_t count_lines(const char *p, int64_t n)
{
    int64_t lines = 0;
    for (const char *end = p + n; (p = memchr(p, '\n', (size_t)(end - p))); p++) lines++;
    return lines;
}

/* status: of a check of the file's bytes. A file that is not a text (FORMAT) is skipped if the user did not name it and
 * nothing of it was emitted. */
static enum lvn_status skip_file(struct lvn_chunker *c, enum lvn_status status)
{
    if (status != LVN_FORMAT || c->named || c->emitted || c->o->refuse_bad) return status;
    c->skipping = true;
    if (c->skipped++ < MAX_WARNINGS) lvn_text_printf(&c->warnings, "skipped: %s\n", levin_error_text());
    lvn_error_clear();
    lvn_text_clear(&c->text);
    return LVN_OK;
}

/* Emit the first n bytes of the text. */
static enum lvn_status emit_chunk(struct lvn_chunker *c, int64_t n, bool last)
{
    if (c->current.kind != LVN_CHUNK_LINES) /* a bad line is skipped by itself */
        LVN_TRY(skip_file(c, lvn_file_refuse_bytes(c->name.p, c->text.p, n, c->emitted)));
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

/* Bytes of the text up to the end of its last separator; 0: it has none. */
static int64_t last_separator(const struct lvn_chunker *c)
{
    const int64_t n = (int64_t)strlen(c->o->separator);
    for (int64_t end = c->text.n - n + 1; end > 0;) {
        const char *at = memrchr(c->text.p, *c->o->separator, (size_t)end);
        if (!at) return 0;
        end = at - c->text.p;
        if (!memcmp(at, c->o->separator, (size_t)n)) return end + n;
    }
    return 0;
}

static int64_t find_cut(const struct lvn_chunker *c)
{
    if (c->current.kind == LVN_CHUNK_LINES) {
        const char *end = memrchr(c->text.p, '\n', (size_t)c->text.n);
        return end ? end + 1 - c->text.p : 0;
    }
    if (c->current.kind == LVN_CHUNK_SEPARATED) return last_separator(c);
    if (!lvn_tokenizer_can_cut(c->o->tokenizer)) return 0;
    return lvn_split_safe_last((const uint8_t *)c->text.p, c->text.n);
}

enum lvn_status lvn_chunker_data(void *chunker, const void *p, int64_t n)
{
    struct lvn_chunker *c = chunker;
    if (c->skipping) return LVN_OK;
    if (c->o->encoding == LVN_TEXT_UTF_8)
        lvn_text_add_bytes(&c->text, p, n);
    else
        LVN_TRY(skip_file(c, lvn_text_decode(&c->decoder, c->name.p, p, n, &c->text)));
    LVN_TRY(lvn_text_status(&c->text));
    if (c->text.n < c->search_from) return LVN_OK;
    int64_t cut = find_cut(c);
    if (cut > 0) return emit_chunk(c, cut, false);
    LVN_CHECK(c->text.n < MAX_CHUNK, FORMAT, "'%s': a %s of more than %d MiB", c->name.p,
              c->current.kind == LVN_CHUNK_LINES       ? "line"
              : c->current.kind == LVN_CHUNK_SEPARATED ? "document"
                                                       : "stretch without a space",
              MAX_CHUNK >> 20);
    c->search_from = 2 * c->text.n;
    return LVN_OK;
}

enum lvn_status lvn_chunker_end(void *chunker)
{
    struct lvn_chunker *c = chunker;
    if (!c->skipping) LVN_TRY(skip_file(c, lvn_text_decode_end(&c->decoder, c->name.p)));
    return c->skipping ? LVN_OK : emit_chunk(c, c->text.n, true);
}

/* Emit the rows so far. */
static enum lvn_status emit_rows(struct lvn_chunker *c)
{
    c->current.bytes = c->text.n;
    if (c->text.n) LVN_TRY(c->emit(c->context, &c->current, c->text.p));
    lvn_text_clear(&c->text);
    return LVN_OK;
}

static enum lvn_status add_row(void *chunker, int64_t group, int64_t row, const void *text, int64_t n)
{
    struct lvn_chunker *c = chunker;
    const int64_t bytes = text ? n : -1;
    if (c->text.n >= LVN_BATCH_BYTES || group != c->current.group) LVN_TRY(emit_rows(c));
    if (!c->text.n) {
        c->current.line = row;
        c->current.group = group;
    }
    lvn_text_add_bytes(&c->text, &bytes, sizeof bytes);
    if (n) lvn_text_add_bytes(&c->text, text, n);
    return lvn_text_status(&c->text);
}

enum lvn_status lvn_chunker_read(struct lvn_chunker *c, const struct lvn_archive_visitor *v, const char *path,
                                 bool named, int64_t *bytes_read)
{
    if (!lvn_is_parquet(path)) return lvn_archive_read(path, named, v, bytes_read);
    const struct lvn_parquet_texts texts = {
        .field = c->o->field, .option = c->o->field_option, .each = add_row, .context = c};
    LVN_CHECK(c->o->encoding == LVN_TEXT_UTF_8, ARG,
              "'%s' is a Parquet file, whose texts are UTF-8: leave --encoding out", path);
    LVN_TRY(set_name(c, path));
    c->current = (struct lvn_chunk){.kind = LVN_CHUNK_COLUMN, .name = c->name.p};
    lvn_text_clear(&c->text);
    LVN_TRY(lvn_parquet_texts_read(&texts, path, bytes_read));
    return emit_rows(c);
}

void lvn_chunker_release(struct lvn_chunker *c)
{
    lvn_text_release(&c->text);
    lvn_text_release(&c->warnings);
    lvn_text_release(&c->name);
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
    bool listed; /* a warning of this batch lists the fields of a line */
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
    if (!lvn_list_reserve(&b->document, &b->document_capacity, b->n_documents + 1, sizeof *b->document))
        return LVN_MEMORY;
    struct lvn_document *d = &b->document[b->n_documents];
    *d = (struct lvn_document){.first = first, .last = last};
    if (first) hash_document(p, n, d->hash);
    int64_t before = b->ids.n;
    if (first) LVN_TRY(lvn_post_processor_prefix(w->o->tokenizer, &b->ids));
    LVN_TRY(lvn_encode(w->e, p, n, w->o->allow_special ? LVN_ENCODE_SPECIAL : LVN_ENCODE_ORDINARY, &b->ids));
    b->doubled += first && lvn_post_processor_is_doubled(w->o->tokenizer, b->ids.p + before, b->ids.n - before);
    if (last) LVN_TRY(lvn_post_processor_suffix(w->o->tokenizer, &b->ids));
    d->n_ids = b->ids.n - before;
    b->text_bytes += n;
    b->crlf += lvn_count_crlf(p, n);
    b->n_documents++;
    return LVN_OK;
}

/* --- lines of JSON --- */

/* "the field is missing", the first time in a batch with the fields that the line has. */
static const char *missing_field(struct work *w, const json_t *root, char *list, size_t capacity)
{
    static const char *const pairs[][2] = {
        {"question", "answer"}, {"query", "response"}, {"prompt", "response"}, {"instruction", "answer"}};
    void *at = json_object_iter((json_t *)root);
    if (json_object_get(root, "chosen") && json_object_get(root, "rejected"))
        return "chosen and rejected are preferences, and levin trains on answers alone: rename chosen to completion";
    if (w->listed || !at) return "the field is missing";
    w->listed = true;
    snprintf(list, capacity, "the field is missing; choose another one with %s:", w->o->field_option);
    for (const char *comma = ""; at; at = json_object_iter_next((json_t *)root, at), comma = ",") {
        const char *name = json_object_iter_key(at);
        const bool fits = strlen(list) + strlen(name) + 8 < capacity;
        lvn_print_append(list, capacity, "%s %s", comma, fits ? name : "...");
        if (!fits) break;
    }
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (json_object_get(root, pairs[i][0]) && json_object_get(root, pairs[i][1]))
            lvn_print_append(
                list, capacity,
                "; to train on answers, make conversations of them: jq -c '{prompt: .%s, completion: .%s}'",
                pairs[i][0], pairs[i][1]);
    for (char *c = list; *c; c++)
        if ((unsigned char)*c < ' ') *c = ' '; /* a warning is one line */
    return list;
}

/* The text of a line's object; returns NULL, or why there is none. */
static const char *text_member(struct work *w, const json_t *root, const json_t **text, char *list, size_t capacity)
{
    *text = json_object_get(root, w->o->field);
    if (!*text) return missing_field(w, root, list, capacity);
    return json_is_string(*text) ? NULL : "the field is not a text";
}

static enum lvn_status bad_line(struct work *w, const struct lvn_chunk *p, int64_t line, const char *reason,
                                bool refuse)
{
    LVN_CHECK(!refuse, FORMAT, "%s:%lld: %s (expected an object with the text in \"%s\")", p->name, (long long)line,
              reason, w->o->field);
    if (w->b->bad++ < MAX_WARNINGS) lvn_text_printf(&w->b->warnings, "%s:%lld: %s\n", p->name, (long long)line, reason);
    return LVN_OK;
}

static enum lvn_status one_line(struct work *w, const struct lvn_chunk *p, int64_t number, const char *line, int64_t n)
{
    json_error_t error;
    char list[400];
    const json_t *text = NULL;
    if (lvn_json_line_is_blank(line, n)) return LVN_OK;
    json_t *root;
    LVN_TRY(lvn_json_load(line, n, JSON_ALLOW_NUL | LVN_JSON_ROW, &root, &error));
    const char *reason = lvn_json_line_fault(line, n, root, &error);
    if (!reason) reason = text_member(w, root, &text, list, sizeof list);
    enum lvn_status status =
        reason
            ? bad_line(w, p, number, reason, w->o->refuse_bad || (number == 1 && lvn_json_line_begins_array(line, n)))
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

/* --- the column of a Parquet file --- */

static enum lvn_status bad_row(struct work *w, const struct lvn_chunk *p, int64_t row, const char *reason)
{
    LVN_CHECK(!w->o->refuse_bad, FORMAT, "'%s', row group %lld, row %lld, column '%s': %s", p->name,
              (long long)p->group, (long long)row, w->o->field, reason);
    if (w->b->bad++ < MAX_WARNINGS)
        lvn_text_printf(&w->b->warnings, "'%s', row group %lld, row %lld, column '%s': %s\n", p->name,
                        (long long)p->group, (long long)row, w->o->field, reason);
    return LVN_OK;
}

static enum lvn_status column(struct work *w, const struct lvn_chunk *p, const char *at)
{
    int64_t row = p->line, n;
    for (const char *end = at + p->bytes; at < end; row++) {
        memcpy(&n, at, sizeof n);
        at += sizeof n;
        if (n < 0)
            LVN_TRY(bad_row(w, p, row, "it is null, not text"));
        else if (lvn_utf8_check(at, n) >= 0)
            LVN_TRY(bad_row(w, p, row, "it is not UTF-8 text"));
        else
            LVN_TRY(add_document(w, at, n, true, true));
        at += n > 0 ? n : 0;
    }
    return LVN_OK;
}

/* Documents with a separator after each but the last one. A line end next to a separator belongs to it, and one at the
 * end of the file to no document. */
static enum lvn_status separated(struct work *w, const struct lvn_chunk *p, const char *at)
{
    const int64_t n = (int64_t)strlen(w->o->separator);
    const char *end = at + p->bytes;
    bool follows = !p->first; /* a separator precedes */
    w->b->empty += p->first && p->last && !p->bytes;
    for (const char *next; at < end; at = next, follows = true) {
        const char *stop = memmem(at, (size_t)(end - at), w->o->separator, (size_t)n);
        next = stop ? stop + n : end;
        w->b->separators += stop != NULL;
        if (!stop) stop = end;
        if (follows && stop - at > 1 && at[0] == '\r' && at[1] == '\n') at++;
        if (follows && at < stop && *at == '\n') at++;
        if (at == stop && next == end && p->last) break; /* nothing follows the last separator */
        if (at < stop && stop[-1] == '\n') stop--;
        if (at < stop && stop[-1] == '\r') stop--;
        LVN_TRY(add_document(w, at, stop - at, true, true));
    }
    return LVN_OK;
}

static enum lvn_status encode_chunk(void *context, const struct lvn_chunk *p, const char *bytes)
{
    struct work *w = context;
    if (p->kind == LVN_CHUNK_LINES) return lines(w, p, bytes);
    if (p->kind == LVN_CHUNK_COLUMN) return column(w, p, bytes);
    const int64_t bom = p->first ? lvn_utf8_bom(bytes, p->bytes) : 0;
    struct lvn_chunk text = *p;
    text.bytes -= bom;
    enum lvn_status status = p->kind == LVN_CHUNK_SEPARATED
                                 ? separated(w, &text, bytes + bom)
                                 : add_document(w, bytes + bom, text.bytes, p->first, p->last);
    LVN_TRY_WHILE(status, "encoding '%s'", p->name);
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
    b->notes = lvn_encoder_take_notes(e);
    if (status != LVN_OK) snprintf(b->error, sizeof b->error, "%s", levin_error_text());
    b->status = status;
    return status;
}
