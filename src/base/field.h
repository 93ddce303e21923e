/* field.h - fields: the named arrays of which a sample consists.
 *
 * A dataset declares the fields of its samples, a model the fields that it reads, a task the labels. They are matched
 * by name before anything runs. Code that moves samples (loader, batches, inputs of programs) uses only names and
 * sizes. */
#ifndef LVN_FIELD_H
#define LVN_FIELD_H

#include "base/status.h"
#include "base/tensor.h"

enum { LVN_FIELD_RANK = LVN_MAX_RANK - 1, LVN_MAX_FIELDS = 5 };

/* The type of a label. Integers: -1 is no label, as in rows that pad a batch. */
enum lvn_label_kind {
    LVN_LABEL_NONE,        /* no label: an input */
    LVN_LABEL_TOKEN,       /* int32 (T): a token for each position */
    LVN_LABEL_CLASS,       /* int32: a class of the sample */
    LVN_LABEL_TOKEN_CLASS, /* int32 (T): a class for each token */
    LVN_LABEL_NUMBER,      /* fp32: a value for the sample, never missing */
    LVN_LABEL_VECTOR,      /* fp32 (N): values for the sample, never missing */
};

/* For each token id the bytes of its text in UTF-8; 0: a special token, or none. */
struct lvn_token_bytes {
    int64_t n; /* further ids have no text */
    uint32_t bytes[];
};

struct lvn_field {
    const char *name; /* "pixels" */
    enum lvn_dtype dtype;
    int rank;                    /* 0: a scalar */
    int64_t dim[LVN_FIELD_RANK]; /* of one sample. In the declaration of a model or task, 0 accepts any size. */
    int64_t min, below;          /* integers are in [min, below), labels may also be -1; below 0: unknown */
    enum lvn_label_kind label;
    bool label_is_text; /* the label is text in a file: the task determines whether it is a class or a number */
    bool tokens;        /* token ids; `below` is the size of the vocabulary */
    const struct lvn_token_bytes *text; /* of token labels, for metrics of text; NULL: not known */
    bool ragged;                        /* samples vary in dim[0], the maximum; a batch uses one planned length */
};

/* Name of the field of packed samples (data/packing/packing.h), int32 (T): for each token the position in the sample at
 * which its document begins. It is no input of a model: attention and positions of every decoder restart there
 * (graph.h). */
#define LVN_SEGMENTS "segments"
/* Two more that decoders accept, and no data has: `hidden` and `selected` of graph.h. */
#define LVN_HIDDEN "hidden ranges"
#define LVN_SELECTED "selected tokens"

struct lvn_fields {
    struct lvn_field field[LVN_MAX_FIELDS];
    int n;
};

/* True if labels of this kind are integers, which may be -1. */
bool lvn_label_is_integer(enum lvn_label_kind kind);
/* Elements and bytes of the field in one sample. */
int64_t lvn_field_count(const struct lvn_field *field);
int64_t lvn_field_bytes(const struct lvn_field *field);
/* Bytes of all fields in one sample. */
int64_t lvn_fields_bytes(const struct lvn_fields *fields);
/* The lengths to which batches of ragged fields are padded, ascending: multiples of 8 up to 64, then four per doubling,
 * so padding is seldom more than a seventh of a sample; the last is the longest. Returns their number; 0: no field is
 * ragged. */
enum { LVN_LENGTHS = 96 };
int lvn_fields_lengths(const struct lvn_fields *fields, int64_t length[LVN_LENGTHS]);
/* Index of the smallest of n lengths that is at least `count`; the last one if none is. */
int lvn_length_find(const int64_t *length, int n, int64_t count);
/* The maximum length of the ragged fields; 0: none is ragged. */
int64_t lvn_fields_length(const struct lvn_fields *fields);
/* Set the length of all ragged fields. */
void lvn_fields_set_length(struct lvn_fields *fields, int64_t length);
/* Description of the field for B samples: (B, dim...). */
struct lvn_desc lvn_field_desc(const struct lvn_field *field, int64_t B);
/* Index of the field of this name; -1: none. */
int lvn_fields_find(const struct lvn_fields *fields, const char *name);
/* Check that `fields` has the field `required`. LVN_ARG if not, with a message that describes both sides. `requires`
 * and `has` begin its two halves: "the model 'mnist-cnn' reads", "data.kind=chars has". */
enum lvn_status lvn_fields_check(const struct lvn_fields *fields, const char *has, const struct lvn_field *required,
                                 const char *requires) LVN_CHECKED;

/* A batch in memory: for each field, the values of all rows, contiguous. */
struct lvn_samples {
    struct lvn_fields fields;
    int64_t rows;
    int64_t n_valid; /* leading rows that contain samples; the others are padding */
    void *p[LVN_MAX_FIELDS];
};
enum lvn_status lvn_samples_init(struct lvn_samples *samples, const struct lvn_fields *fields,
                                 int64_t rows) LVN_CHECKED;
void lvn_samples_release(struct lvn_samples *samples); /* does nothing to a zeroed struct */
/* Address of field k of a row. */
void *lvn_samples_at(const struct lvn_samples *samples, int k, int64_t row);
/* Fill a row with padding: integer labels -1, zeros elsewhere. */
void lvn_samples_pad(struct lvn_samples *samples, int64_t row);

#endif
