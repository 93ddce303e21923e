/* text_prepare.h - text to token files: train.bin and val.bin, as data.kind=tokens reads them.
 *
 * Documents are read from files and archives (corpus.h), tokenized by many threads, and written in one order: that of
 * the names of the files. Each is followed by the end token. Whether a document goes to validation depends on (seed,
 * its bytes) alone, by a number that is made of them. Where that would leave one of the parts empty all is read twice:
 * the document of the smallest number then validates, that of the largest trains, and the last tenth of a single one
 * validates. The result never depends on the number of threads, nor on interruptions.
 *
 * While it runs, OUT holds train.bin.part, val.bin.part, hashes.part and prepare.state.json, from which the same call
 * goes on after an interruption. In the end there are train.bin, val.bin, a .json beside each with counts and
 * checksums, and a copy of the tokenizer's files. */
#ifndef LVN_TEXT_PREPARE_H
#define LVN_TEXT_PREPARE_H

#include "data/corpus.h"
#include "data/dataset.h"

/* What was done, over all runs. */
struct lvn_text_counts {
    int64_t documents[LVN_SPLITS_TRAINED], tokens[LVN_SPLITS_TRAINED]; /* with the end tokens */
    int64_t text_bytes;
    int64_t empty, duplicates, bad, passed_over; /* documents, documents, lines, files left out */
};

struct lvn_text_progress {
    const struct lvn_text_counts *counts;
    int64_t bytes_read, bytes_total; /* of the input files, as they are stored */
    int64_t resumed_at;              /* bytes_read when this run began */
    const char *complaints;          /* lines about bad lines, new since the last call */
};

struct lvn_text_options {
    struct lvn_corpus_options corpus;
    const char *input, *out;
    int32_t end_id;
    double val_fraction;
    uint64_t seed;
    bool drop_duplicates, overwrite; /* overwrite: an interrupted preparation of something else is thrown away */
    int threads;
    double save_every; /* seconds between two states */
    /* Called after each batch; non-zero stops with LVN_STOPPED, to be continued. May be NULL. */
    int (*progress)(void *context, const struct lvn_text_progress *p);
    void *context;
};

enum lvn_status lvn_text_prepare(const struct lvn_text_options *o, struct lvn_text_counts *counts) LVN_CHECKED;

/* Did an earlier call leave something in OUT from which it can be gone on? */
bool lvn_text_prepare_begun(const char *out);

/* One text file as it is: the first nine tenths of its characters train, the rest validates; no end token. */
enum lvn_status lvn_text_prepare_one(const struct lvn_tokenizer *t, const char *path, const char *out, int threads,
                                     struct lvn_text_counts *counts) LVN_CHECKED;

/* For both: write OUT/NAME.bin.json. */
struct lvn_text_sidecar {
    const struct lvn_tokenizer *tokenizer;
    const struct lvn_text_options *options; /* NULL: of one text */
    const struct lvn_text_counts *counts;
    enum lvn_split_id split;
    uint64_t sum;
};
enum lvn_status lvn_text_sidecar_write(const char *out, const struct lvn_text_sidecar *s) LVN_CHECKED;
/* Bytes of an id. */
static inline int lvn_text_width(const struct lvn_tokenizer *t)
{
    return t->n <= 65536 ? 2 : 4;
}

#endif
