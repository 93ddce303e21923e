/* corpus.h - cuts documents from files into chunks, collects these in batches, and encodes batches as token ids.
 *
 * Called by corpus_pipeline.c: one reader fills batches of some megabytes from an archive reader, any thread encodes a
 * batch, and the batches are passed on in their order. Batch boundaries depend on the files alone. A document longer
 * than a batch is cut at a position that does not change its ids. A small archive within an archive is one batch,
 * unpacked by the thread that encodes it. formats/archive_reader.h reads files. */
#ifndef LVN_CORPUS_H
#define LVN_CORPUS_H

#include "base/text.h"
#include "data/parquet_texts.h"
#include "data/text_encoding.h"
#include "formats/archive_reader.h"
#include "tokenizers/encoder.h"

enum { LVN_BATCH_BYTES = 2 << 20 };

/* A text, or a part of one; whole lines of JSON; whole documents, each with the separator after it; texts of a column,
 * each after its length, int64_t (-1: the row has none). */
enum lvn_chunk_kind { LVN_CHUNK_TEXT, LVN_CHUNK_LINES, LVN_CHUNK_SEPARATED, LVN_CHUNK_COLUMN };

struct lvn_corpus_options {
    const struct lvn_tokenizer *tokenizer;
    enum lvn_chunk_kind kind; /* of files without a known extension */
    const char *field;        /* member of a JSON line, or column of a Parquet file, with the text */
    const char *field_option; /* that names another one, for messages: "--field" */
    const char *separator;    /* text between the documents of a text file; NULL or empty: a file is a document */
    enum lvn_text_encoding encoding; /* of all files; they are converted to UTF-8 */
    bool allow_special;              /* the text of a special token is encoded as the token */
    bool refuse_bad; /* fail at a line that is not a JSON object with that field, and at a file that is not a text */
};

/* Consecutive bytes of a batch. */
struct lvn_chunk {
    enum lvn_chunk_kind kind;
    const char *name; /* of the file */
    int64_t at;       /* offset in the batch's text */
    int64_t bytes;
    int64_t line;  /* number of its first line in the file, from 1; COLUMN: row in the row group, from 0 */
    int64_t group; /* COLUMN: row group */
    bool first;    /* the file begins with it */
    bool last;     /* the file ends with it */
};

/* A document, or the part of a long document in one batch. */
struct lvn_document {
    int64_t n_ids;
    uint64_t hash[2]; /* of its bytes; of a long document's first part */
    bool first;       /* the document begins here */
    bool last;        /* the document ends here */
};

struct lvn_batch {
    int64_t number;
    struct lvn_arena arena;
    struct lvn_text text;
    struct lvn_chunk *chunk;
    int64_t n_chunks;
    int64_t chunk_capacity;
    const char *blob;                  /* name of the archive that `text` holds; NULL: `text` is made of chunks */
    struct lvn_archive_position place; /* of the blob in its archives */
    int64_t bytes_read;                /* of the files that are read, as stored, when the batch was full */
    int64_t next_file; /* number of the next input file, if the batch ends with a file (restart point); else -1 */
    int64_t skipped;   /* files without text, found while the batch was filled */

    /* Set by lvn_batch_encode(). */
    struct lvn_ids ids;
    struct lvn_document *document;
    int64_t n_documents;
    int64_t document_capacity;
    int64_t text_bytes;
    int64_t empty;      /* documents without text */
    int64_t bad;        /* lines that could not be used */
    int64_t separators; /* found in texts */
    int64_t crlf;       /* lines of documents that end in CR LF */
    int64_t doubled;    /* documents that begin with a token that the post-processor also adds */
    struct lvn_encoder_notes notes;
    struct lvn_text warnings; /* about the first bad lines and files, a line each */
    enum lvn_status status;
    char error[1024]; /* the message, if status is not LVN_OK */
};

struct lvn_batch *lvn_batch_new(int64_t number);
void lvn_batch_free(struct lvn_batch *b);
/* Encode the text of a batch; returns b->status. Thread-safe for different batches and encoders. */
enum lvn_status lvn_batch_encode(struct lvn_batch *b, struct lvn_encoder *e, const struct lvn_corpus_options *o);

/* Cuts files into chunks. Its functions are callbacks of an archive reader (struct lvn_archive_visitor). */
struct lvn_chunker {
    const struct lvn_corpus_options *o;
    enum lvn_status (*emit)(void *context, const struct lvn_chunk *p, const char *bytes); /* receives each chunk */
    void *context;                                                                        /* for emit() */
    struct lvn_text text; /* text of the file that was not emitted yet */
    struct lvn_text_decoder decoder;
    struct lvn_chunk current;             /* the chunk that `text` becomes */
    struct lvn_text name;                 /* of the file, as the user reads it */
    const struct lvn_source_files *files; /* whose names are shown instead; NULL: none */
    int64_t at;                           /* number of the file in them */
    int64_t search_from;                  /* bytes of text below which no cut is searched */
    int64_t emitted;                      /* bytes of the file that were emitted */
    bool named;                           /* the user named this file */
    bool skipping;                        /* the rest of this file is skipped */
    int64_t skipped;                      /* files skipped so far */
    struct lvn_text warnings;             /* about the first files that are no texts, a line each */
};
/* Read a file with the visitor, whose functions end in those of the chunker; a Parquet file without it. *bytes_read:
 * of the file, so far. */
enum lvn_status lvn_chunker_read(struct lvn_chunker *c, const struct lvn_archive_visitor *v, const char *path,
                                 bool named, int64_t *bytes_read) LVN_CHECKED;
enum lvn_status lvn_chunker_begin(void *chunker, const char *name, bool named, bool *want) LVN_CHECKED;
enum lvn_status lvn_chunker_data(void *chunker, const void *p, int64_t n) LVN_CHECKED;
enum lvn_status lvn_chunker_end(void *chunker) LVN_CHECKED;
/* Move the warnings to `out`. */
void lvn_chunker_take_warnings(struct lvn_chunker *c, struct lvn_text *out);
void lvn_chunker_release(struct lvn_chunker *c);

#endif
