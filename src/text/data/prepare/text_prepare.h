/* text_prepare.h - tokenizes text into train.bin and val.bin, the files of data.kind=tokens. Called by `levin prepare`.
 *
 * Documents are read from files and archives (corpus.h), tokenized by several threads, and written in the order of the
 * files' names, each followed by the end token. A hash of (seed, the document's bytes) decides whether a document goes
 * to validation. Then the parts get their exact sizes: what validation lacks is the end of the training tokens, and
 * what it has too much, its beginning, is appended to these, so at most one document is cut. Without a given fraction a
 * small text needs a larger one than the default: it is read a second time for that. A single document keeps its last
 * tenth. The result does not depend on the number of threads or on interruptions.
 *
 * During the run OUT holds train.bin.part, val.bin.part, hashes.part and prepare.state.json; after an interruption the
 * same call resumes from these. The result is train.bin, val.bin, a .json with counts and checksums for each, and a
 * copy of the tokenizer's files. With shard_tokens the complete train.bin.part is cut into shards in the end
 * (token_shards.h). */
#ifndef LVN_TEXT_PREPARE_H
#define LVN_TEXT_PREPARE_H

#include "data/dataset.h"
#include "data/texts/corpus.h"

/* Counts over all runs. */
struct lvn_text_counts {
    int64_t documents[LVN_SPLITS_TRAINED];
    int64_t tokens[LVN_SPLITS_TRAINED]; /* with the end tokens */
    int64_t text_bytes;
    int64_t empty;      /* documents without text */
    int64_t duplicates; /* documents */
    int64_t bad;        /* lines of JSON that could not be used */
    int64_t skipped;    /* files without text */
    int64_t separators; /* between documents of a file */
    int64_t crlf;       /* lines that end in CR LF */
    int64_t doubled;    /* documents that begin with a token that the post-processor also adds */
    struct lvn_encoder_notes notes;
};

struct lvn_text_progress {
    const struct lvn_text_counts *counts;
    int64_t bytes_read;   /* of the input files, as stored (compressed) */
    int64_t bytes_total;  /* of the input files, as stored (compressed) */
    int64_t resumed_at;   /* bytes_read when this run began */
    const char *warnings; /* about bad lines and files, a line each, new since the last call */
};

struct lvn_text_options {
    struct lvn_corpus_options corpus;
    const char *input;   /* a file or a folder */
    const char *out;     /* a folder */
    int32_t end_id;      /* written after each document; -1: none */
    double val_fraction; /* of the tokens */
    bool val_given;      /* the user gave val_fraction; else a small text has more validation tokens */
    int64_t window;      /* tokens of a sample (model.block_size); 0: not known */
    uint64_t seed;
    bool drop_duplicates;
    bool overwrite;       /* discard an interrupted preparation of other input or with other options */
    int64_t shard_tokens; /* a part with more tokens is cut into shards of this many; 0: parts are not cut */
    int threads;
    double save_every; /* seconds between two states */
    /* Called after each batch; a non-zero result stops with LVN_STOPPED, resumable. May be NULL. */
    int (*progress)(void *context, const struct lvn_text_progress *p);
    void *context;
};

enum lvn_status lvn_text_prepare(const struct lvn_text_options *o, struct lvn_text_counts *counts) LVN_CHECKED;

/* One text file as a single stream: the last characters, a tenth of them or val_fraction if it is given, are for
 * validation; no end token. */
enum lvn_status lvn_text_prepare_one(const struct lvn_text_options *o, struct lvn_text_counts *counts) LVN_CHECKED;
/* ARG, with a fraction that works, if the part with `train` or `val` tokens is too short for a sample (window: tokens
 * of one; 0: not known). A fraction of 0 or 1 means that one part is empty. */
enum lvn_status lvn_val_fraction_check(double fraction, int64_t train, int64_t val, int64_t window) LVN_CHECKED;

/* Bytes of an id in a file: 2 or 4. */
static inline int lvn_text_width(const struct lvn_tokenizer *t)
{
    return t->n <= 65536 ? 2 : 4;
}

#endif
