/* text_write.h - the writer of text_prepare.c: assigns documents to splits, writes the files and the resumable state.
 * `levin prepare` asks it whether there is such a state. */
#ifndef LVN_TEXT_WRITE_H
#define LVN_TEXT_WRITE_H

#include "data/prepare/text_prepare.h"
#include "data/resumable_file.h"

/* Where the document goes whose first part was written and whose last was not. */
enum lvn_document_open { LVN_DOCUMENT_NONE, LVN_DOCUMENT_TRAIN, LVN_DOCUMENT_VAL, LVN_DOCUMENT_DROPPED };

/* A set of 128-bit hashes with open addressing; all zero is empty. */
struct lvn_hash_set {
    uint64_t *slot;
    int64_t n, capacity;
};

struct lvn_text_writer {
    const struct lvn_text_options *o;
    struct lvn_arena arena;
    uint64_t settings; /* hash of all options and inputs that the result depends on */
    struct lvn_resumable_file part[LVN_SPLITS_TRAINED];
    struct lvn_resumable_file hashes; /* of the documents written, to find duplicates after a restart */
    struct lvn_hash_set seen;         /* the same in memory */
    struct lvn_text_counts counts;
    int64_t open;        /* enum lvn_document_open: of a document that continues in the next batch */
    int64_t min_key;     /* smallest key of the documents; the key assigns a document to a split */
    int64_t max_key;     /* largest key; if it is min_key, all documents are the same one */
    int64_t second_pass; /* 1: reading again, with a larger fraction */
    int64_t all;         /* tokens of the first pass, in the second one */
    int64_t batches;     /* written */
    int64_t file;        /* where a restart begins to read: this input file */
    int64_t file_batch;  /* number of the first batch of `file` */
    bool finished;       /* only renaming the files is left */
    bool created;        /* OUT did not exist before */
    double saved_at;     /* time of the last state, lvn_seconds() */
    void *ids;           /* of one document, as stored */
    int64_t ids_capacity;
};

/* Resume from the state in OUT if it has the same settings, else begin. files: number of input files. */
enum lvn_status lvn_text_writer_open(struct lvn_text_writer *w, const struct lvn_text_options *o, uint64_t settings,
                                     int64_t files) LVN_CHECKED;
/* The next batch, in order. */
enum lvn_status lvn_text_writer_batch(struct lvn_text_writer *w, const struct lvn_batch *b) LVN_CHECKED;
/* Called after all input was read. *needed true: the default fraction is too small for this number of tokens; the
 * writer was reset, and the caller reads all input again. */
enum lvn_status lvn_text_writer_second_pass(struct lvn_text_writer *w, bool *needed) LVN_CHECKED;
/* Called after the last pass: gives validation its exact number of tokens. ARG if a part is then too short. */
enum lvn_status lvn_text_writer_balance(struct lvn_text_writer *w) LVN_CHECKED;
/* Write the state from which a later run resumes. */
enum lvn_status lvn_text_writer_save(struct lvn_text_writer *w) LVN_CHECKED;
/* Rename the files to their final names, or cut them into shards. */
enum lvn_status lvn_text_writer_finish(struct lvn_text_writer *w) LVN_CHECKED;
/* After a failure, before closing: removes the files if there is no state to resume from. */
void lvn_text_writer_abandon(struct lvn_text_writer *w);
void lvn_text_writer_close(struct lvn_text_writer *w);

/* Does OUT have the state of an interrupted preparation? Also true if that cannot be determined. */
bool lvn_text_prepare_begun(const char *out);

/* Contents of OUT/NAME.bin.json. */
struct lvn_text_sidecar {
    const struct lvn_tokenizer *tokenizer;
    const struct lvn_text_options *options; /* NULL: of lvn_text_prepare_one() */
    const struct lvn_text_counts *counts;
    enum lvn_split_id split;
    uint64_t sum;         /* checksum of the .bin file, or of all shards */
    int64_t shard_tokens; /* as in the options */
};
enum lvn_status lvn_text_sidecar_write(const char *out, const struct lvn_text_sidecar *s) LVN_CHECKED;

#endif
