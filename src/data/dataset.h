/* dataset.h - what a model is trained on: samples of some fields, in parts to train, to validate and to test with.
 *
 * There are two shapes of data. A list holds single samples (the adder's sums). A stream is one long row of tokens,
 * from which samples of block_size tokens are cut at any position, with the fields `ids` and `labels`: the label of a
 * token is the one that follows it. The loader decides which samples make up a batch; the data set fills them in.
 *
 * Files are memory-mapped and stay open until lvn_dataset_close(). An open data set is read only: any number of threads
 * may fill batches from it. */
#ifndef LVN_DATASET_H
#define LVN_DATASET_H

#include <stdint.h>

#include "base/field.h"
#include "data/codec.h"
#include "data/mask.h"

struct lvn_dataset;

/* The keys of `data` in a recipe, and what the model says. Absent texts are NULL or "". */
struct lvn_data_options {
    const char *kind;     /* a name of datasets.def */
    const char *path;     /* chars: a text; tokens: a .bin or a folder with train.bin and val.bin; adder: not used */
    const char *val_path; /* validation from a file of its own */
    const char *url;      /* where to download from what is not there: kinds that fetch their files themselves */
    const char *sha256;   /* of what comes from there: 64 hexadecimal digits, of several files with commas between */
    uint64_t seed;        /* of the run */
    bool stream;          /* tokens: begin while a large file of a store is still coming */
    bool evaluates;     /* nothing is trained: parts may be short, and parts that training never sees are opened too */
    int64_t digits;     /* adder: digits of each number; 0: two */
    int64_t block_size; /* tokens of a window; 0: not known, lengths are not checked */
    int64_t vocab_size; /* of a model that exists already or is asked for; 0: follows from the data */
    const struct lvn_vocab *vocabulary; /* chars: of a model that exists already; NULL: made from the text */
    /* labelled */
    const char *test_path;
    const char *text_column, *pair_column, *label_column;
    const char *tokenizer_path;            /* a file or a folder; "": */
    const struct lvn_tokenizer *tokenizer; /* of a model that exists already; borrowed */
    const char *unread;                    /* why that model's tokenizer could not be read; NULL: it could; borrowed */
    bool clean;                            /* texts by the rule of data/clean.h */
    bool skip_bad_rows;                    /* and count them; else they are refused */
    bool unlabelled;                       /* texts alone: labels are -1 */
    int64_t max_length;                    /* tokens; 0: block_size */
    int64_t classes;                       /* of a model that exists already; 0: as many as the data have */
    double val_fraction;                   /* of the rows, without val_path */
    const char *const *texts;              /* in place of files, with `unlabelled`; NULL: none */
    const char *const *pairs;              /* NULL, or of each the other text, or NULL */
    int64_t n_texts;
    /* of all kinds: samples lose tokens, which are their labels (data/mask.h) */
    bool masks, whole_words;
    double mask_fraction;
};

/* The parts. Training sees the first two, and a run's data are what these are. `all` is there where a kind has the
 * parts in one piece, so that nothing is lost where they meet; otherwise it is the others, one after the other. */
enum lvn_split_id {
    LVN_SPLIT_TRAIN,
    LVN_SPLIT_VAL,
    LVN_SPLIT_TEST,
    LVN_SPLIT_ALL,
    LVN_SPLIT_COUNT,
    LVN_SPLITS_TRAINED = LVN_SPLIT_TEST
};
extern const char *const lvn_split_names[LVN_SPLIT_COUNT]; /* "train", ... */

/* What a batch wants of its samples. */
struct lvn_draw {
    int64_t length; /* of ragged fields */
    uint64_t order; /* a number that changes with the epoch, for what is drawn anew in each */
};

struct lvn_split {
    char *path;                        /* where it came from, for messages */
    int64_t n_tokens;                  /* stream: tokens; 0: there is no such part */
    const void *tokens;                /* stream: little-endian ids of `width` bytes; NULL where `remote` reads them */
    struct lvn_streaming_file *remote; /* stream: of a file that is still coming; the split's own */
    char *blocks;                      /* what the fingerprint looks at of that */
    int width;                         /* stream: 2 or 4 */
    int64_t first;                     /* stream: position of tokens[0] in the file, for messages */
    int64_t n_samples;                 /* list: samples */
    int64_t *by_length; /* list of ragged samples: their numbers, by planned length, then as they stand */
    int64_t first_of[LVN_LENGTHS + 1]; /* by_length[first_of[i] ... first_of[i + 1]) have planned length i */
};

struct lvn_dataset_kind {
    const char *name;
    const char *what;                /* one line for help */
    int64_t usual_vocab;             /* tokens that such data usually have, for plans without them; 0: it has none */
    bool fetches;                    /* its files, one by one, from data.url */
    bool (*takes)(const char *path); /* does what lies there, or its name, look like such data? NULL: no path does */
    /* Of a kind that has no files and makes its samples up: how many tokens each has. */
    int64_t (*made_tokens)(int64_t digits);
    /* What its samples have, as far as that is known before it is opened. */
    void (*fields)(const struct lvn_data_options *o, struct lvn_fields *out);
    enum lvn_status (*open)(struct lvn_dataset *d, const struct lvn_data_options *o);
    void (*close)(struct lvn_dataset *d);
    /* lists: the fields of sample i, in their order */
    enum lvn_status (*sample)(const struct lvn_dataset *d, enum lvn_split_id split, int64_t i, struct lvn_draw how,
                              void *const *out);
    /* lists with ragged fields: how long they are in sample i */
    int64_t (*length)(const struct lvn_dataset *d, enum lvn_split_id split, int64_t i);
};

struct lvn_dataset {
    const struct lvn_dataset_kind *kind;
    struct lvn_fields fields;
    int64_t length[LVN_LENGTHS]; /* planned ones, where fields are ragged */
    int n_lengths;
    int64_t vocab_size; /* that a new model should have, or, where o->vocab_size is given, must at least have */
    struct lvn_vocab *vocabulary;    /* text <-> ids; NULL where the data is only ids, or tokenizer has them */
    struct lvn_tokenizer *tokenizer; /* tokens: that they were made with; NULL: not known */
    char *unread;                    /* tokens: why that could not be read; NULL: it could, or none is there */
    int64_t id_limit;                /* ids must be below this one: the model's vocabulary when it is known */
    int64_t block_size;              /* list: the smallest that fits; stream: 0 */
    int64_t skipped;                 /* labelled: rows that were passed over */
    const char *skipped_rows;        /* "FILE:LINE: reason\n" of each in an evaluation, else of the first; NULL: none */
    struct lvn_mask mask;            /* where o->masks */
    bool masks;
    bool answers; /* a sample is right where all of its labels are (the adder) */
    struct lvn_split split[LVN_SPLIT_COUNT];
    bool evaluates; /* as it was opened */
    char *path;     /* as it was given, or the kind's name; for messages */
    bool is_file;   /* data.path is one file, not a folder of parts */
    void *own;      /* the kind's */
};

/* Open the data. Fails, with a sentence that names the file, when it is missing, empty, not in its format, shorter than
 * a window, or holds ids beyond o->vocab_size. */
enum lvn_status lvn_dataset_open(struct lvn_dataset **out, const struct lvn_data_options *o) LVN_CHECKED;
void lvn_dataset_close(struct lvn_dataset *d); /* NULL: nothing */

/* Text <-> ids of the data. */
static inline struct lvn_codec lvn_dataset_codec(const struct lvn_dataset *d)
{
    return (struct lvn_codec){.vocabulary = d->vocabulary, .tokenizer = d->tokenizer, .unread = NULL};
}
bool lvn_dataset_has(const struct lvn_dataset *d, enum lvn_split_id split);
/* What makes up a part: itself, or, for `all` where the kind has no such piece, every part there is. ARG, with a
 * sentence that lists the parts there are, when it is not there. */
struct lvn_split_list {
    enum lvn_split_id id[LVN_SPLIT_COUNT];
    int n;
};
enum lvn_status lvn_dataset_parts(const struct lvn_dataset *d, enum lvn_split_id split,
                                  struct lvn_split_list *out) LVN_CHECKED;
/* Kind by name; NULL with an error recorded when there is none. */
const struct lvn_dataset_kind *lvn_dataset_kind_find(const char *name);

/* The first kind that takes what lies at a path, or, where nothing does, a file of this name. *out is NULL where none
 * does and nothing is there; FORMAT, with what makes data of it, where something else is. */
enum lvn_status lvn_dataset_guess(const char *path, const struct lvn_dataset_kind **out) LVN_CHECKED;

/* Tokens of a sample where the kind makes them up, by data.digits; 0: they come from files. */
int64_t lvn_dataset_made_tokens(const char *kind, int64_t digits);

/* What a data set of these options will have, before it is opened. NULL kind: LVN_ARG. */
enum lvn_status lvn_dataset_fields(const struct lvn_data_options *o, struct lvn_fields *out) LVN_CHECKED;
/* Of text and tokens: `ids` and `labels` (T), below `below`. */
struct lvn_fields lvn_stream_fields(int64_t T, int64_t below);

/* Samples that lie side by side in a part. A part of a stream that is not trained on and is shorter than one sample
 * counts as one, whose rest is ignored. */
int64_t lvn_dataset_samples(const struct lvn_dataset *d, enum lvn_split_id split);
/* One sample, field by field in the order of d->fields: the one that begins at token `at` of a stream, or number `at`
 * of a list. Tokens past the end of a stream are id 0 and label -1, which no loss counts. Fails when a value lies
 * beyond what its field says. */
enum lvn_status lvn_dataset_sample(const struct lvn_dataset *d, enum lvn_split_id split, int64_t at,
                                   struct lvn_draw how, void *const *out) LVN_CHECKED;
/* Which of the planned lengths sample number `at` of a list wants; 0 where nothing is ragged. */
int lvn_dataset_length(const struct lvn_dataset *d, enum lvn_split_id split, int64_t at);
/* A number that changes when the data does: kind, sizes, vocabulary and contents (all of them up to some megabytes,
 * evenly spread samples beyond). For the check that a resumed run sees the same data. */
LVN_CHECKED enum lvn_status lvn_dataset_fingerprint(const struct lvn_dataset *d, uint64_t *out);

/* For the kinds. */
void lvn_stream_fields_of(const struct lvn_data_options *o, struct lvn_fields *out);
/* Sets a part's stream; takes nothing over but copies `path`. */
enum lvn_status lvn_split_set(struct lvn_split *p, const char *path, const void *tokens, int width,
                              int64_t n_tokens) LVN_CHECKED;
/* The same for a part that p->remote reads. */
enum lvn_status lvn_split_set_remote(struct lvn_split *p, const char *path, int width) LVN_CHECKED;
/* The largest id of a stream, and where it first stands. */
int64_t lvn_split_max(const struct lvn_split *p, int64_t *position);
/* Plan the lengths of ragged fields, and sort the parts by them: lvn_dataset_open() does. */
enum lvn_status lvn_dataset_sort(struct lvn_dataset *d) LVN_CHECKED;
/* The sentence for an id that does not fit. */
enum lvn_status lvn_split_check_id(const struct lvn_split *p, int64_t position, int64_t id, int64_t limit) LVN_CHECKED;

#endif
