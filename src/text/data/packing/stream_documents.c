/* stream_documents.c - see stream_documents.h. */
#include "data/packing/stream_documents.h"

#include "base/arena.h"
#include "base/list.h"

enum { BLOCK = 1 << 18 }; /* tokens that are read at a time */

static enum lvn_status add(struct lvn_stream_documents *s, int64_t start)
{
    if (!lvn_list_reserve(&s->start, &s->capacity, s->n + 2, sizeof *s->start)) return LVN_MEMORY;
    s->start[s->n++] = start;
    return LVN_OK;
}

/* Add the documents that begin after the end tokens among tokens [at, at + n), which are in `p`. */
static enum lvn_status scan(struct lvn_stream_documents *s, const void *p, const bool is_narrow, int64_t at, int64_t n,
                            int64_t end)
{
    const uint16_t *narrow = p;
    const uint32_t *wide = p;
    for (int64_t i = 0; i < n; i++)
        if ((is_narrow ? narrow[i] : wide[i]) == end) LVN_TRY(add(s, at + i + 1));
    return LVN_OK;
}

enum lvn_status lvn_stream_documents_find(struct lvn_stream_documents *s, const struct lvn_token_stream *stream,
                                          int64_t end)
{
    *s = (struct lvn_stream_documents){0};
    void *buffer = stream->tokens ? NULL : lvn_malloc((size_t)BLOCK * 4);
    enum lvn_status status = !stream->tokens && !buffer ? LVN_MEMORY : add(s, 0);
    for (int64_t at = 0, n; at < stream->n_tokens && status == LVN_OK; at += n) {
        const void *p = buffer;
        n = stream->n_tokens - at < BLOCK ? stream->n_tokens - at : BLOCK;
        if (buffer)
            status = stream->read(stream->context, at, n, buffer);
        else
            p = (const char *)stream->tokens + at * stream->width;
        if (status == LVN_OK) status = scan(s, p, stream->width == 2, at, n, end);
    }
    free(buffer);
    LVN_TRY(status);
    LVN_CHECK(s->n > 1, FORMAT,
              "data.pack: the end token %lld never occurs in '%s', so the documents in it cannot be told apart: give "
              "the id of the token that ends a document as data.end_token, or prepare the text again with `levin "
              "prepare`, which writes one after each document",
              (long long)end, stream->path);
    if (s->start[s->n - 1] == stream->n_tokens) s->n--;
    s->start[s->n] = stream->n_tokens;
    return LVN_OK;
}

void lvn_stream_documents_release(struct lvn_stream_documents *s)
{
    free(s->start);
    *s = (struct lvn_stream_documents){0};
}
