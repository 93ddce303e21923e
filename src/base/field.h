/* field.h - what a sample is made of: blocks of numbers that have names.
 *
 * A data set says which fields its samples have, a model which ones it reads, a task which one it learns from. They
 * meet by name, before anything runs; what carries samples about (loader, batches, programs' inputs) knows names and
 * sizes alone. */
#ifndef LVN_FIELD_H
#define LVN_FIELD_H

#include "base/status.h"
#include "base/tensor.h"

enum { LVN_FIELD_RANK = LVN_MAX_RANK - 1, LVN_MAX_FIELDS = 4 };

struct lvn_field {
    const char *name; /* "pixels" */
    enum lvn_dtype dtype;
    int rank;                    /* 0: one number */
    int64_t dim[LVN_FIELD_RANK]; /* of one sample; where a model or a task asks for it, 0 takes any */
    int64_t below;               /* whole numbers lie in [0, below); 0: not known */
    bool label;                  /* int32, and -1 says that there is none: what a sample that is not there has */
    bool tokens;                 /* ids of a vocabulary, whose size is `below` */
    bool ragged; /* samples differ in dim[0], which is the most; in a batch all have that of its planned length */
};

struct lvn_fields {
    struct lvn_field field[LVN_MAX_FIELDS];
    int n;
};

/* Numbers in one sample, and bytes. */
int64_t lvn_field_count(const struct lvn_field *f);
int64_t lvn_field_bytes(const struct lvn_field *f);
/* Bytes of a sample, all fields. */
int64_t lvn_fields_bytes(const struct lvn_fields *f);
/* What ragged fields may be cut to: a few lengths, ascending, multiples of 8 up to 64 and then four to each doubling,
 * so that what fills a sample up is seldom more than a seventh of it; the last is the longest. Returns how many there
 * are; 0: no field is ragged. */
enum { LVN_LENGTHS = 96 };
int lvn_fields_lengths(const struct lvn_fields *f, int64_t length[LVN_LENGTHS]);
/* Which of n lengths is the least that holds so many; the last one where none does. */
int lvn_length_find(const int64_t *length, int n, int64_t count);
/* The longest that ragged fields are; 0: none is ragged. */
int64_t lvn_fields_length(const struct lvn_fields *f);
/* Make all ragged fields so long. */
void lvn_fields_set_length(struct lvn_fields *f, int64_t length);
/* Of B samples: (B, dim...). */
struct lvn_desc lvn_field_desc(const struct lvn_field *f, int64_t B);
/* Which of them has this name; -1: none. */
int lvn_fields_find(const struct lvn_fields *f, const char *name);
/* Does what there is have the field that is wanted? ARG with a sentence that names both sides where not; `wants` and
 * `has` are what stands before it: "the model 'mnist-cnn' reads", "data.kind=chars has". */
enum lvn_status lvn_fields_check(const struct lvn_fields *f, const char *has, const struct lvn_field *wanted,
                                 const char *wants) LVN_CHECKED;

/* Some samples: each field of all of them, one after the other. */
struct lvn_samples {
    struct lvn_fields fields;
    int64_t rows;
    int64_t n_valid; /* leading rows that are samples; the rest fills up */
    void *p[LVN_MAX_FIELDS];
};
enum lvn_status lvn_samples_init(struct lvn_samples *b, const struct lvn_fields *f, int64_t rows) LVN_CHECKED;
void lvn_samples_release(struct lvn_samples *b); /* of zeros: nothing */
/* Field k of a row. */
void *lvn_samples_at(const struct lvn_samples *b, int k, int64_t row);
/* Make a row one that fills up: labels that say there is none, zeros elsewhere. */
void lvn_samples_pad(struct lvn_samples *b, int64_t row);

#endif
