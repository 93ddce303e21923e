/* corpus.h - documents on their way from files to token ids, in batches.
 *
 * A reader cuts what a walk over files finds into batches of some megabytes; any thread turns a batch into ids; the
 * batches are written in their order. Where a batch begins and ends depends on the files alone. A document longer than
 * a batch is cut where its ids do not change. Small archives within archives are batches of their own, unpacked by the
 * thread that encodes them. */
#ifndef LVN_CORPUS_H
#define LVN_CORPUS_H

#include "base/text.h"
#include "formats/archive_reader.h"
#include "tokenizers/tokenizer.h"

enum { LVN_BATCH_BYTES = 2 << 20 };

enum lvn_piece_kind { LVN_PIECE_TEXT, LVN_PIECE_LINES };

struct lvn_corpus_options {
    const struct lvn_tokenizer *tokenizer;
    enum lvn_piece_kind kind; /* of files whose name does not say it */
    const char *field;        /* of JSON lines: holds the text */
    bool refuse_bad; /* a line that is no JSON object with that field, or a file that is no text, ends it all */
};

/* A stretch of a batch: (part of) a text, or whole lines of JSON. */
struct lvn_piece {
    enum lvn_piece_kind kind;
    const char *name; /* of the file */
    int64_t at, bytes;
    int64_t line; /* number of the first */
    bool first, last;
};

struct lvn_document {
    int64_t n_ids;
    uint64_t hash[2]; /* of its bytes; of a long document's first part */
    bool first, last; /* this is where it begins, and ends */
};

struct lvn_batch {
    int64_t number;
    struct lvn_arena arena;
    struct lvn_text text;
    struct lvn_piece *piece;
    int64_t n_pieces, piece_capacity;
    const char *blob; /* the name of the archive that `text` is; NULL: pieces */
    struct lvn_archive_position place;
    int64_t bytes_read;  /* of all input when the batch was full */
    int64_t next_file;   /* number of the first input file behind it, where the batch ends with a file; else -1 */
    int64_t passed_over; /* files without text, found while it was filled */

    /* What lvn_batch_encode() makes of it. */
    struct lvn_ids ids;
    struct lvn_document *document;
    int64_t n_documents, document_capacity;
    int64_t text_bytes, empty, bad;
    struct lvn_text complaints; /* about the first bad lines and files, a line each */
    enum lvn_status status;
    char error[1024];
};

struct lvn_batch *lvn_batch_new(int64_t number);
void lvn_batch_free(struct lvn_batch *b);
/* Fills the second half; b->status is also returned. */
enum lvn_status lvn_batch_encode(struct lvn_batch *b, struct lvn_encoder *e, const struct lvn_corpus_options *o);

/* Files to pieces: give its functions to a walk. */
struct lvn_cutter {
    const struct lvn_corpus_options *o;
    enum lvn_status (*piece)(void *context, const struct lvn_piece *p, const char *bytes);
    void *context;
    struct lvn_text text; /* of the document, what is not handed on yet */
    struct lvn_piece at;
    char *name;
    int64_t look_again; /* do not look for a place to cut before there is so much text */
    int64_t handed;     /* bytes of the file that are handed on */
    bool named, skips;  /* the user named it; the rest of it is not wanted */
    int64_t passed_over;
    struct lvn_text complaints; /* about the first files that are no texts, a line each */
};
enum lvn_status lvn_cutter_begin(void *cutter, const char *name, bool named, bool *want) LVN_CHECKED;
enum lvn_status lvn_cutter_data(void *cutter, const void *p, int64_t n) LVN_CHECKED;
enum lvn_status lvn_cutter_end(void *cutter) LVN_CHECKED;
void lvn_cutter_complain(struct lvn_cutter *c, struct lvn_text *to); /* moves the complaints there */
void lvn_cutter_release(struct lvn_cutter *c);

#endif
