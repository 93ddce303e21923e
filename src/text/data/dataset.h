/* dataset.h - a data set: samples of some fields, in splits for training, validation and testing.
 *
 * A data set is a list or a stream. A list holds separate samples (texts with classes). A stream is one long sequence
 * of tokens; a sample is a window of block_size tokens at any position, with the fields `ids` and `labels`: the label
 * of a token is the next token. With data.pack a sample is a row of documents (data/packing/packing.h). A kind of data
 * is one file that ends in a `struct lvn_dataset_kind`, and a line in datasets.def. The loader (data/loader.h) chooses
 * the samples of a batch and reads them here.
 *
 * Files are memory-mapped and stay open until lvn_dataset_close(). An open data set is read-only: any number of threads
 * may read samples. See loader.h for batches. */
#ifndef LVN_DATASET_H
#define LVN_DATASET_H

#include "base/field.h"
#include "data/codec.h"
#include "data/mask.h"
#include "data/packing/packing.h"
#include "data/sources/mix.h"

struct lvn_dataset;

/* The keys of `data` in a recipe, one field for each row of datasets.def and of the kinds' own tables; then what is
 * known of the run and its model. Absent texts are NULL or "". */
struct lvn_data_options {
#define LVN_ROWS_AS_MEMBERS
#include "data/datasets_each.h"
    uint64_t seed;             /* of the run */
    enum lvn_label_kind label; /* that the task learns from; NONE: not known yet, or the task has no label field */
    bool trains_tokenizer;     /* the model is new, so a tokenizer is trained on texts that have none */
    bool for_evaluation;       /* nothing is trained: splits may be short, and splits unused in training are opened */
    bool needs_test;           /* for_evaluation of the test split, alone or with all others */
    int64_t block_size;        /* tokens of a window; 0: unknown, lengths are not checked */
    int64_t vocab_size;        /* of an existing model or a requested one; 0: set from the data */
    int64_t classes;           /* of an existing model; 0: the number in the data */
    const char *class_names;   /* of these, each ended by a NUL; NULL: they have no names; borrowed */
    const char *class_advice;  /* what to do if a label is none of these; NULL: nothing */
    const struct lvn_vocab *vocabulary;          /* chars: of an existing model; NULL: made from the text */
    const struct lvn_tokenizer *model_tokenizer; /* of an existing model, used without data.tokenizer; borrowed */
    const char *tokenizer_error;                 /* why that tokenizer could not be read; NULL: no error; borrowed */
    const char *shards; /* data.stream: the folder of a store with the training shards, set by lvn_dataset_open() */
    /* labelled: texts in place of files */
    bool unlabeled;           /* texts alone: labels are -1, or 0 if they are numbers */
    const char *const *texts; /* with `unlabeled`; NULL: none */
    const char *const *pairs; /* second text of each, or NULL; NULL: no pairs */
    int64_t n_texts;
    /* all kinds with tokens: masked language modeling (data/mask.h) */
    bool masks;
    bool whole_words;
    double mask_fraction;
};

/* Training uses the first two splits; the fingerprint covers these. `all` exists if a kind has contiguous data, so
 * that no token is lost between splits; otherwise it means the other splits, one after the other. */
enum lvn_split_id {
    LVN_SPLIT_TRAIN,
    LVN_SPLIT_VAL,
    LVN_SPLIT_TEST,
    LVN_SPLIT_ALL,
    LVN_SPLIT_COUNT,
    LVN_SPLITS_TRAINED = LVN_SPLIT_TEST
};
extern const char *const lvn_split_names[LVN_SPLIT_COUNT]; /* "train", ... */

/* How a batch reads its samples. */
struct lvn_draw {
    int64_t length; /* of ragged fields, padding included */
    uint64_t order; /* a number for each epoch; seeds random choices that differ between epochs (masks) */
};

struct lvn_split {
    char *path;         /* source, for messages */
    int64_t n_tokens;   /* stream: tokens; 0: no such split */
    const void *tokens; /* stream: little-endian ids of `width` bytes; NULL: read from `streaming` or `shards` */
    struct lvn_streaming_file *streaming; /* stream: a file during its download; owned by the split */
    struct lvn_shard_list *shards;        /* stream: several files (data/sources/shard_list.h); owned by the split */
    char *blocks;                         /* the blocks of `streaming` that the fingerprint covers */
    int width;                            /* stream: 2 or 4 */
    int64_t header;                       /* stream: bytes before the tokens in the file */
    int64_t first;                        /* stream: position of tokens[0] in the file, for messages */
    int64_t n_samples;                    /* list, or packed stream: samples */
    struct lvn_pack *pack;                /* data.pack: the samples are its rows; NULL: not packed */
    int64_t *by_length; /* list of ragged samples: sample numbers, sorted by planned length, then by number */
    int64_t length_start[LVN_LENGTHS + 1]; /* by_length[length_start[i], length_start[i + 1]) have planned length i */
};

struct lvn_dataset_kind {
    const char *name;
    const char *help;           /* one line */
    int64_t typical_vocab;      /* tokens of typical data, for plans without data; 0: it has no tokens */
    bool fetches;               /* downloads its files, one by one, from data.url */
    bool reads_stores;          /* downloads data.path and the other paths from stores itself */
    bool is_text;               /* `levin train DATA` chooses settings for it */
    bool needs_model;           /* it is encoded as its model prescribes, so a new model cannot be trained on it */
    bool needs_tokenizer;       /* it does not have its own vocabulary */
    bool mixes;                 /* may be a source of data.mix */
    bool needs_val_path;        /* validation data are a separate file */
    bool refuses_unread;        /* a field that neither model nor task reads is an error */
    const char *tokenized_kind; /* as which it is read if there is a tokenizer; NULL: itself */
    const char *own_tokens;     /* why data.tokenizer is refused, and what to do instead; NULL: it is not */
    const char *instead_of_tokenizer;
    const char *try_command;           /* to try a model that was trained on it: "generate"; NULL: none */
    const char *try_flags;             /* of that command; NULL: none */
    bool (*matches)(const char *path); /* does the path, by its contents or name, look like such data? NULL: never */
    /* Fails if the data of a path that matches are probably meant for another kind; NULL: no check. */
    enum lvn_status (*check_guess)(const char *path);
    /* The fields of its samples, as far as they are known before it is opened. */
    void (*fields)(const struct lvn_data_options *o, struct lvn_fields *out);
    enum lvn_status (*open)(struct lvn_dataset *d, const struct lvn_data_options *o);
    void (*close)(struct lvn_dataset *d);
    /* lists: reads the fields of sample i, in their order */
    enum lvn_status (*sample)(const struct lvn_dataset *d, enum lvn_split_id split, int64_t i, struct lvn_draw draw,
                              void *const *out);
    /* lists with ragged fields: their length in sample i */
    int64_t (*length)(const struct lvn_dataset *d, enum lvn_split_id split, int64_t i);
    /* The documents of a split that exists, for data.pack; what the source borrows is valid until close(). NULL: the
     * kind has no documents. */
    enum lvn_status (*documents)(struct lvn_dataset *d, const struct lvn_data_options *o, enum lvn_split_id split,
                                 struct lvn_pack_source *out);
    enum lvn_overlong overlong; /* data.overlong=auto */
};

struct lvn_dataset {
    const struct lvn_dataset_kind *kind;
    struct lvn_fields fields;
    int64_t length[LVN_LENGTHS]; /* planned lengths of ragged fields (base/field.h), ascending */
    int n_lengths;
    int64_t vocab_size;           /* for a new model; if o->vocab_size is given: the smallest that fits the data */
    int64_t stated_vocab_size;    /* that token files state; 0: none */
    struct lvn_vocab *vocabulary; /* text <-> ids; NULL: ids only, or by `tokenizer` */
    bool vocabulary_of_meta;      /* from nanoGPT's meta.pkl: not part of the fingerprint, so a run may get it later */
    struct lvn_tokenizer *tokenizer; /* that made the tokens; NULL: unknown */
    char *tokenizer_error;           /* why it could not be read; NULL: no error */
    int64_t id_limit;                /* ids must be below: the model's vocabulary if it is known */
    int64_t block_size;              /* list: the smallest that fits; stream: 0 */
    const char *const *class_names;  /* of the label's classes; NULL: they have no names; owned by the kind */
    const char *chat_template;       /* data.template; NULL: the model's; owned by the kind */
    int64_t answer_end;              /* chat: the special token with which the template ends an answer; -1: none */
    uint64_t contents;               /* checksum of the samples, if the kind knows it; else 0 */
    int64_t skipped;                 /* labelled, chat: rows that were skipped */
    const char *skipped_rows; /* "FILE:LINE: reason\n" of each for an evaluation, else of the first; NULL: none */
    struct lvn_mask mask;     /* if masks */
    bool masks;               /* o->masks */
    struct lvn_split split[LVN_SPLIT_COUNT];
    struct lvn_mix *mix; /* data.mix: its sources, of which this data set is the first; NULL: none */
    bool for_evaluation; /* as in the options */
    char *path;          /* data.path, or the kind's name; for messages */
    bool is_file;        /* data.path is one file, not a folder of splits */
    void *state;         /* the kind's */
};

/* Open the data. IO, FORMAT or ARG, naming the file, if it is missing, empty, not in its format, shorter than a
 * window, or has ids beyond o->vocab_size. */
enum lvn_status lvn_dataset_open(struct lvn_dataset **out, const struct lvn_data_options *o) LVN_CHECKED;
void lvn_dataset_close(struct lvn_dataset *d); /* NULL: nothing */

/* Text <-> ids of the data. */
static inline struct lvn_codec lvn_dataset_codec(const struct lvn_dataset *d)
{
    return (struct lvn_codec){.vocabulary = d->vocabulary, .tokenizer = d->tokenizer, .tokenizer_error = NULL};
}
/* Of one source of a mix at least. */
bool lvn_dataset_has(const struct lvn_dataset *d, enum lvn_split_id split);
/* Tokens of a stream or of packed rows, and samples of lists and packed rows; of all sources of a mix. */
void lvn_dataset_count(const struct lvn_dataset *d, enum lvn_split_id split, int64_t *tokens, int64_t *samples);
/* The splits that `split` means: itself, or, for `all` of a kind that lacks it, every split that exists. ARG, with
 * a list of those that exist, if there is none. */
struct lvn_split_list {
    enum lvn_split_id id[LVN_SPLIT_COUNT];
    int n;
};
enum lvn_status lvn_dataset_splits(const struct lvn_dataset *d, enum lvn_split_id split,
                                   struct lvn_split_list *out) LVN_CHECKED;
/* All kinds, ending in NULL. */
const struct lvn_dataset_kind *const *lvn_dataset_kinds(void);
/* Kind by name; NULL with an error recorded if there is none. */
const struct lvn_dataset_kind *lvn_dataset_kind_find(const char *name);

/* The first kind that matches a path (by its contents, or, if nothing exists there, by its name). *out is NULL if no
 * kind matches and nothing exists there. FORMAT, with a command that converts it, if something else does. */
enum lvn_status lvn_dataset_guess(const char *path, const struct lvn_dataset_kind **out) LVN_CHECKED;

/* The fields of a data set with these options, before it is opened. LVN_ARG for an unknown kind. */
enum lvn_status lvn_dataset_fields(const struct lvn_data_options *o, struct lvn_fields *out) LVN_CHECKED;
/* Fields of a stream: `ids` and `labels` (T), values in [0, below). */
struct lvn_fields lvn_stream_fields(int64_t T, int64_t below);

/* Number of samples in a split; in a stream, of windows that do not overlap. A split of a stream that is shorter than
 * one window, and not trained on, counts as one sample, whose missing labels are ignored. */
int64_t lvn_dataset_samples(const struct lvn_dataset *d, enum lvn_split_id split);
/* Read one sample, field by field in the order of d->fields: the window that begins at token `at` of a stream, or
 * number `at` of a list. Tokens past the end of a stream have id 0 and label -1, which no loss counts. FORMAT if an id
 * is beyond the vocabulary. */
enum lvn_status lvn_dataset_sample(const struct lvn_dataset *d, enum lvn_split_id split, int64_t at,
                                   struct lvn_draw draw, void *const *out) LVN_CHECKED;
/* Index of the planned length of sample number `at` of a list; 0 if no field is ragged. */
int lvn_dataset_length(const struct lvn_dataset *d, enum lvn_split_id split, int64_t at);
/* Share of the tokens of a split's samples that are no padding, where it is known: in packed rows; else 1. In a mix it
 * is the mean by weight. */
double lvn_dataset_fill(const struct lvn_dataset *d, enum lvn_split_id split);
/* A hash of kind, sizes, vocabulary and contents (all of them up to 8 MiB, else evenly spaced blocks), to check that a
 * resumed run has the same data. */
enum lvn_status lvn_dataset_fingerprint(const struct lvn_dataset *d, uint64_t *out) LVN_CHECKED;
/* A hash of the tokens in shards on this machine (all of them up to 8 MiB, else evenly spaced blocks), of which the
 * fingerprint has the names and sizes only: ranks compare it, to find copies that differ. 0 without shards. Shards of
 * which damaged ones are skipped are left out. */
enum lvn_status lvn_dataset_shards_hash(const struct lvn_dataset *d, uint64_t *out) LVN_CHECKED;

/* data.skip_bad_shards (sources/shard_list.h): are damaged training shards skipped? */
bool lvn_dataset_skips_shards(const struct lvn_dataset *d);
/* Number of those found so far and their tokens; names: a line for each, which lvn_dataset_mark_shards() reads. */
int64_t lvn_dataset_bad_shards(const struct lvn_dataset *d, int64_t *tokens, struct lvn_text *names);
/* The next one that was found; false: no more. seen: [LVN_MIX_SOURCES] of the caller, zero at first. */
struct lvn_bad_shard;
bool lvn_dataset_bad_shard(const struct lvn_dataset *d, int64_t *seen, struct lvn_bad_shard *out);
/* Skip these shards, as an earlier part of the run did. */
enum lvn_status lvn_dataset_mark_shards(const struct lvn_dataset *d, const char *names) LVN_CHECKED;

/* For implementations of kinds: */

/* lvn_dataset_kind.fields of streams. */
void lvn_stream_fields_of(const struct lvn_data_options *o, struct lvn_fields *out);
/* Set the tokens of a split; borrows `tokens`, copies `path`. */
enum lvn_status lvn_split_set(struct lvn_split *p, const char *path, const void *tokens, int width,
                              int64_t n_tokens) LVN_CHECKED;
/* The same for a split that is read from p->streaming. */
enum lvn_status lvn_split_set_streaming(struct lvn_split *p, const char *path, int width) LVN_CHECKED;
/* Read tokens [at, at + n) of a stream, which exist, as they are stored: little-endian ids of p->width bytes. */
enum lvn_status lvn_split_tokens(const struct lvn_split *p, int64_t at, int64_t n, void *to) LVN_CHECKED;
/* The largest id of a stream, and its first position. */
enum lvn_status lvn_split_max(const struct lvn_split *p, int64_t *max, int64_t *position) LVN_CHECKED;
/* Plan the lengths of ragged fields and sort the splits by them. lvn_dataset_open() calls it. */
enum lvn_status lvn_dataset_sort(struct lvn_dataset *d) LVN_CHECKED;
/* Read tokens [at, at + n) of a stream, which exist, and their labels; the last token of the stream has the label -1.
 * FORMAT if an id is beyond the vocabulary. */
enum lvn_status lvn_split_read(const struct lvn_split *p, int64_t at, int64_t n, int64_t id_limit, int32_t *ids,
                               int32_t *labels) LVN_CHECKED;
/* FORMAT if the id at this position is not below the limit. */
enum lvn_status lvn_split_check_id(const struct lvn_split *p, int64_t position, int64_t id, int64_t limit) LVN_CHECKED;

#endif
