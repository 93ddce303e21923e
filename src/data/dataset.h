/* dataset.h - what a model is trained on: token ids with labels, in a training and a validation part.
 *
 * There are two shapes of data. A stream is one long row of tokens, from which windows of block_size tokens are cut at
 * any position; the label of a token is the one that follows it. A list holds single samples (the adder's sums). The
 * loader decides which windows or samples make up a batch; the data set fills them in.
 *
 * Files are memory-mapped and stay open until lvn_dataset_close(). An open data set is read only: any number of threads
 * may fill batches from it. */
#ifndef LVN_DATASET_H
#define LVN_DATASET_H

#include <stdint.h>

#include "base/status.h"
#include "data/codec.h"

struct lvn_dataset;

/* The keys of `data` in a recipe, and what the model says. Absent texts are NULL or "". */
struct lvn_data_options {
    const char *kind;     /* a name of datasets.def */
    const char *path;     /* chars: a text; tokens: a .bin or a folder with train.bin and val.bin; adder: not used */
    const char *val_path; /* validation from a file of its own */
    bool stream;          /* tokens: begin while a large file of a store is still coming */
    int64_t digits;       /* adder: digits of each number; 0: two */
    int64_t block_size;   /* tokens of a window; 0: not known, lengths are not checked */
    int64_t vocab_size;   /* of a model that exists already or is asked for; 0: follows from the data */
    const struct lvn_vocab *vocabulary; /* chars: of a model that exists already; NULL: made from the text */
};

enum lvn_split_id { LVN_SPLIT_TRAIN, LVN_SPLIT_VAL, LVN_SPLIT_COUNT };

struct lvn_split {
    char *path;                /* where it came from, for messages */
    int64_t n_tokens;          /* stream: tokens; 0: there is no such split */
    const void *tokens;        /* stream: little-endian ids of `width` bytes; NULL where `remote` reads them */
    struct lvn_remote *remote; /* stream: of a file that is still coming; the split's own */
    char *blocks;              /* what the fingerprint looks at of that */
    int width;                 /* stream: 2 or 4 */
    int64_t first;             /* stream: position of tokens[0] in the file, for messages */
    int64_t n_samples;         /* list: samples */
};

struct lvn_dataset_kind {
    const char *name;
    const char *what; /* one line for help */
    enum lvn_status (*open)(struct lvn_dataset *d, const struct lvn_data_options *o);
    void (*close)(struct lvn_dataset *d);
    /* lists: sample i as block_size ids and labels */
    enum lvn_status (*sample)(const struct lvn_dataset *d, enum lvn_split_id split, int64_t i, int64_t block_size,
                              int32_t *ids, int32_t *labels);
    /* lists with right and wrong answers: see lvn_dataset_question() */
    void (*question)(const struct lvn_dataset *d, enum lvn_split_id split, int64_t i, int32_t *prompt, int32_t *answer);
};

struct lvn_dataset {
    const struct lvn_dataset_kind *kind;
    int64_t vocab_size; /* that a new model should have, or, where o->vocab_size is given, must at least have */
    struct lvn_vocab *vocabulary;    /* text <-> ids; NULL where the data is only ids, or tokenizer has them */
    struct lvn_tokenizer *tokenizer; /* tokens: that they were made with; NULL: not known */
    int64_t id_limit;                /* ids must be below this one: the model's vocabulary when it is known */
    int64_t block_size;              /* list: the smallest that fits; stream: 0 */
    struct lvn_split split[LVN_SPLIT_COUNT];
    int64_t prompt_length, answer_length; /* of questions; 0: this data asks none */
    void *own;                            /* the kind's */
};

/* Open the data. Fails, with a sentence that names the file, when it is missing, empty, not in its format, shorter than
 * a window, or holds ids beyond o->vocab_size. */
enum lvn_status lvn_dataset_open(struct lvn_dataset **out, const struct lvn_data_options *o) LVN_CHECKED;
void lvn_dataset_close(struct lvn_dataset *d); /* NULL: nothing */

/* Text <-> ids of the data. */
static inline struct lvn_codec lvn_dataset_codec(const struct lvn_dataset *d)
{
    return (struct lvn_codec){.vocabulary = d->vocabulary, .tokenizer = d->tokenizer};
}
bool lvn_dataset_has(const struct lvn_dataset *d, enum lvn_split_id split);
/* Kind by name; NULL with an error recorded when there is none. */
const struct lvn_dataset_kind *lvn_dataset_kind_find(const char *name);
/* All kinds; ends with NULL. */
const struct lvn_dataset_kind *const *lvn_dataset_kinds(void);

/* Windows of T tokens that fit side by side into a part ((n-1)/T), or its samples. A validation part that is shorter
 * than one window counts as one, whose rest is ignored. */
int64_t lvn_dataset_windows(const struct lvn_dataset *d, enum lvn_split_id split, int64_t T);
/* One window: T ids and T labels (I32), starting at token `at` of a stream, or sample `at` of a list. Positions past
 * the end get id 0 and label -1, which no loss counts. Fails when an id lies beyond the model's vocabulary. */
enum lvn_status lvn_dataset_window(const struct lvn_dataset *d, enum lvn_split_id split, int64_t at, int64_t T,
                                   int32_t *ids, int32_t *labels) LVN_CHECKED;
/* Question i of a part (adder: a sum): prompt_length ids to continue, and the answer_length ids that are right. */
void lvn_dataset_question(const struct lvn_dataset *d, enum lvn_split_id split, int64_t i, int32_t *prompt,
                          int32_t *answer);
/* A number that changes when the data does: kind, sizes, vocabulary and contents (all of them up to some megabytes,
 * evenly spread samples beyond). For the check that a resumed run sees the same data. */
uint64_t lvn_dataset_fingerprint(const struct lvn_dataset *d);

/* Labels that count (not negative) among n. */
int64_t lvn_labels_valid(const int32_t *labels, int64_t n);

/* For the kinds. */
/* Sets a part's stream; takes nothing over but copies `path`. */
enum lvn_status lvn_split_set(struct lvn_split *p, const char *path, const void *tokens, int width,
                              int64_t n_tokens) LVN_CHECKED;
/* The same for a part that p->remote reads. */
enum lvn_status lvn_split_set_remote(struct lvn_split *p, const char *path, int width) LVN_CHECKED;
/* The largest id of a stream, and where it first stands. */
int64_t lvn_split_max(const struct lvn_split *p, int64_t *position);
/* The sentence for an id that does not fit. */
enum lvn_status lvn_split_check_id(const struct lvn_split *p, int64_t position, int64_t id, int64_t limit) LVN_CHECKED;

#endif
