/* stream_documents.h - finds the documents of a stream of tokens, each of which ends with an end-of-text token.
 *
 * Called by tokens.c for data.pack. The whole stream is read once. Tokens after the last end token are a document too.
 * Memory: eight bytes for each document. */
#ifndef LVN_STREAM_DOCUMENTS_H
#define LVN_STREAM_DOCUMENTS_H

#include "base/status.h"

struct lvn_token_stream {
    const char *path;   /* for messages; borrowed */
    const void *tokens; /* little-endian ids of `width` bytes; NULL: read with `read` */
    /* Read tokens [at, at + n) as they are stored. */
    enum lvn_status (*read)(const void *context, int64_t at, int64_t n, void *to);
    const void *context;
    int64_t n_tokens;
    int width; /* 2 or 4 */
};

struct lvn_stream_documents {
    int64_t n;
    int64_t *start; /* [n + 1] position of the first token of each document; the last one: the number of tokens */
    int64_t capacity;
};

/* FORMAT if the stream does not contain the token `end`. Release *s even after a failure. */
enum lvn_status lvn_stream_documents_find(struct lvn_stream_documents *s, const struct lvn_token_stream *stream,
                                          int64_t end) LVN_CHECKED;
void lvn_stream_documents_release(struct lvn_stream_documents *s); /* does nothing to a zeroed struct */

#endif
