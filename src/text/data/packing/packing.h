/* packing.h - packs documents into rows of a fixed length, so that rows of short documents need almost no padding
 * (data.pack).
 *
 * Any kind of data can be a source: it states how many documents it has and how long each is, and reads parts of them.
 * lvn_pack_new() handles documents that are longer than a row according to data.overlong, and places the pieces by
 * first-fit. Documents come in a random order; of each window of them, the longest is placed first, into the first open
 * row with enough room. Which documents form a row is a function of the source and the seed alone. Called by dataset.c,
 * whose samples are then the rows. A document without a label (a single token) is left out and counted.
 *
 * A row has three fields: the ids; the labels (the next token; the last token of a document has none); and the
 * segments: for each token the position in the row at which its document begins. Positions and attention restart there
 * (graph.h, segments). Padding at the end of a row has the id 0 and no label, and each of its tokens is its own
 * segment. */
#ifndef LVN_PACKING_H
#define LVN_PACKING_H

#include "base/field.h"

/* What happens to documents that are longer than a row, in the order of the words of data.overlong. */
enum lvn_overlong {
    LVN_OVERLONG_AUTO,     /* the kind of data chooses */
    LVN_OVERLONG_SPLIT,    /* parts of one row each; the last token of a part has the next one as its label */
    LVN_OVERLONG_TRUNCATE, /* the first tokens are used */
    LVN_OVERLONG_DROP,     /* the document is left out */
    LVN_OVERLONG_REFUSE,   /* an error */
};

struct lvn_pack_source {
    const void *context;                                      /* for the functions; borrowed */
    const char *name;                                         /* of the file, for messages; borrowed */
    int64_t n;                                                /* documents */
    int64_t (*length)(const void *context, int64_t document); /* tokens, at least 1 */
    /* Number of labels of tokens [first, first + n). NULL: each token has one, except the last one of a document. */
    int64_t (*labels)(const void *context, int64_t document, int64_t first, int64_t n);
    /* Read tokens [first, first + n) and their labels; -1: no label. */
    enum lvn_status (*read)(const void *context, int64_t document, int64_t first, int64_t n, int32_t *ids,
                            int32_t *labels);
};

/* A document or a part of one: tokens [part * T, (part + 1) * T) that exist. */
struct lvn_pack_piece {
    uint32_t document, part;
};

struct lvn_pack {
    struct lvn_pack_source source;
    enum lvn_overlong overlong;
    int64_t T;      /* tokens of a row */
    int64_t rows;   /* at least 1 */
    int64_t *first; /* [rows + 1] row r has the pieces first[r] to first[r + 1] - 1 */
    struct lvn_pack_piece *piece;
    int64_t n_pieces;
    int64_t tokens;    /* in rows, padding excluded */
    int64_t cut;       /* documents longer than a row */
    int64_t lost;      /* tokens of the documents that are neither in a row nor the label of a token in one */
    int64_t unlabeled; /* documents or parts left out because they have no label */
};

/* ARG if a document is longer than a row and `overlong` is REFUSE; FORMAT if no document has a label. Copies *source;
 * T: tokens of a row. */
enum lvn_status lvn_pack_new(struct lvn_pack **out, const struct lvn_pack_source *source, int64_t T,
                             enum lvn_overlong overlong, uint64_t seed) LVN_CHECKED;
void lvn_pack_free(struct lvn_pack *p); /* NULL: nothing */
/* Log rows, padding, and what was cut, lost or left out. */
void lvn_pack_report(const struct lvn_pack *p);
/* Fields of a row: ids, labels and segments (T). */
struct lvn_fields lvn_pack_fields(int64_t T, int64_t vocab_size);
/* Tokens of a row without padding. */
int64_t lvn_pack_tokens(const struct lvn_pack *p, int64_t row);
/* Read row `row`: ids, labels and segments, T of each. */
enum lvn_status lvn_pack_row(const struct lvn_pack *p, int64_t row, int32_t *ids, int32_t *labels,
                             int32_t *segments) LVN_CHECKED;

#endif
