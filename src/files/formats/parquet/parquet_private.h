/* parquet_private.h - for the files parquet*.c: the metadata of a file, the reader of a column. */
#ifndef LVN_PARQUET_PRIVATE_H
#define LVN_PARQUET_PRIVATE_H

#include "base/arena.h"
#include "formats/parquet/parquet.h"

/* Levels are stored as bytes. */
enum { LVN_PARQUET_LEVELS = 255, LVN_PARQUET_BATCH = 1024, LVN_PARQUET_PAGE = 256 << 20 };

enum lvn_parquet_type {
    LVN_PARQUET_GROUP = -1,
    LVN_PARQUET_BOOLEAN = 0,
    LVN_PARQUET_INT32 = 1,
    LVN_PARQUET_INT64 = 2,
    LVN_PARQUET_INT96 = 3,
    LVN_PARQUET_FLOAT = 4,
    LVN_PARQUET_DOUBLE = 5,
    LVN_PARQUET_BYTE_ARRAY = 6
};
enum lvn_parquet_repetition { LVN_PARQUET_REQUIRED, LVN_PARQUET_OPTIONAL, LVN_PARQUET_REPEATED };

/* A column, or a group of columns; in the order of the schema, in which a group precedes its members. */
struct lvn_parquet_node {
    const char *name;
    const char *path; /* dotted */
    int type;         /* of values; LVN_PARQUET_GROUP */
    enum lvn_parquet_repetition repetition;
    int end;                /* index of the first node after it and its members */
    int max_def;            /* definition level of a value that exists */
    int max_rep;            /* repetition level of further elements of the innermost list */
    int leaf;               /* index of the column; -1: a group */
    bool is_list;           /* a group that is annotated as a list */
    bool is_map;            /* a group that is annotated as a map */
    bool is_annotated;      /* the values have an annotation */
    const char *annotation; /* name of a logical type that is not read; NULL: none */
    bool is_text;           /* UTF-8 by its annotation */
    bool is_json;           /* text that is JSON */
    bool is_integer;        /* a whole number by its annotation */
    bool is_unsigned;       /* one that is never negative */
    int first_text;         /* index of the first column in it that is text; -1: none */
};

/* A column of a row group. */
struct lvn_parquet_chunk {
    int64_t at, bytes; /* of its pages */
    int64_t values;
    int codec;
    bool elsewhere; /* in another file */
    bool encrypted;
};

struct lvn_parquet {
    struct lvn_arena arena;
    const char *name;
    const char *features; /* see lvn_parquet_features() */
    int fd;
    const unsigned char *memory; /* NULL: fd */
    int64_t bytes;
    struct lvn_parquet_node *node;
    int n_nodes;
    const struct lvn_parquet_node **leaf;
    int n_leaves;
    struct lvn_parquet_chunk *chunk; /* [n_groups][n_leaves] */
    int64_t *rows;                   /* [n_groups] */
    int64_t n_groups;
    bool out_of_memory;        /* while the schema was read */
    int64_t delivered, values; /* bytes of text, and values, so far, which are bounded */
};

enum lvn_status lvn_parquet_bytes_at(const struct lvn_parquet *p, int64_t at, void *to, int64_t bytes) LVN_CHECKED;

/* --- Thrift's compact protocol --- */

/* Read a varint (7 bits per byte). False: the bytes end within it. */
bool lvn_varint(const unsigned char **p, const unsigned char *end, uint64_t *out);

enum lvn_thrift_type {
    LVN_THRIFT_TRUE = 1,
    LVN_THRIFT_FALSE = 2,
    LVN_THRIFT_BYTE,
    LVN_THRIFT_I16,
    LVN_THRIFT_I32,
    LVN_THRIFT_I64,
    LVN_THRIFT_DOUBLE,
    LVN_THRIFT_BINARY,
    LVN_THRIFT_LIST,
    LVN_THRIFT_SET,
    LVN_THRIFT_MAP,
    LVN_THRIFT_STRUCT
};
struct lvn_thrift {
    const unsigned char *p, *end;
    bool bad; /* the bytes are no such data, or end early; all further reads give 0 */
    int depth;
};
/* The next field of a struct; false at its end. A field must be read or skipped. *id: of the field before, 0 first. */
bool lvn_thrift_next(struct lvn_thrift *t, int *id, int *type);
void lvn_thrift_skip(struct lvn_thrift *t, int type);
int64_t lvn_thrift_int(struct lvn_thrift *t, int type);
bool lvn_thrift_bool(struct lvn_thrift *t, int type);
/* The bytes of a string; NULL: bad. */
const char *lvn_thrift_string(struct lvn_thrift *t, int type, int64_t *n);
/* Number of elements of a list. */
int64_t lvn_thrift_list(struct lvn_thrift *t, int type, int *element);

/* --- codecs --- */

/* Decompress exactly `bytes` bytes into `to`, which has room for LVN_PARQUET_SLACK more. FORMAT or UNSUPPORTED with a
 * reason, such as "its gzip data are invalid". */
enum { LVN_PARQUET_SLACK = 32 };
enum lvn_status lvn_parquet_decompress(int codec, const unsigned char *from, int64_t n, unsigned char *to,
                                       int64_t bytes) LVN_CHECKED;
bool lvn_snappy_decompress(const unsigned char *from, int64_t n, unsigned char *to, int64_t bytes);

/* --- a column of a row group --- */

struct lvn_parquet_value {
    const unsigned char *p;
    int64_t n;
};

/* Runs of equal numbers, and numbers of a fixed number of bits. */
struct lvn_hybrid {
    const unsigned char *p, *end;
    int width;
    int64_t left; /* numbers of the current run */
    bool bit_packed;
    uint32_t value;          /* of a run of equal numbers */
    const unsigned char *at; /* bit_packed: the bits */
    int64_t bit;             /* bit_packed: of the next number */
};

/* DELTA_BINARY_PACKED. */
struct lvn_delta {
    const unsigned char *p, *end;
    int64_t left; /* values */
    uint64_t value, min;
    int64_t block, per_mini;
    int minis, mini;
    const unsigned char *widths;
    int64_t in_mini;         /* values left of the miniblock */
    const unsigned char *at; /* of its bits */
    int64_t bit;
    bool started;
};

/* The next n numbers; false: there are fewer. */
bool lvn_hybrid_read(struct lvn_hybrid *h, uint32_t *out, int64_t n);
bool lvn_delta_begin(struct lvn_delta *d, const unsigned char *p, const unsigned char *end);
/* The next n numbers; false: there are fewer. */
bool lvn_delta_read(struct lvn_delta *d, int64_t *out, int64_t n);
/* The next n lengths; false: there are fewer, or one is no length. */
bool lvn_delta_read_lengths(struct lvn_delta *d, int32_t *out, int64_t n);
/* The byte after the numbers, before the first is read. */
bool lvn_delta_end(const struct lvn_delta *delta, const unsigned char **end);

struct lvn_parquet_reader {
    struct lvn_parquet *file;
    const struct lvn_parquet_node *column;
    const struct lvn_parquet_chunk *chunk;
    int64_t group;
    int64_t at;         /* of the next page */
    int64_t left;       /* levels that were not delivered yet */
    int64_t in_page;    /* levels of the page that were not delivered yet */
    unsigned char *raw; /* bytes of a page, as stored */
    int64_t raw_capacity;
    unsigned char *page; /* decompressed; may be raw */
    unsigned char *decompressed;
    int64_t decompressed_capacity;
    unsigned char *dictionary_bytes;
    struct lvn_parquet_value *dictionary;
    int64_t n_dictionary;
    bool has_dictionary;
    struct lvn_hybrid rep, def, index; /* index: also booleans */
    bool index_begun;
    int64_t bit;                  /* PLAIN booleans: of the next one in the byte at p */
    int encoding;                 /* of the values of the page */
    const unsigned char *p, *end; /* values that were not delivered yet */
    struct lvn_delta prefix, length;
    bool delta_begun;
    struct lvn_text built, last; /* DELTA_BYTE_ARRAY: values of the batch; the one before */

    /* The batch. */
    int64_t n; /* levels; 0: the column ends */
    uint8_t rep_level[LVN_PARQUET_BATCH], def_level[LVN_PARQUET_BATCH];
    struct lvn_parquet_value value[LVN_PARQUET_BATCH]; /* [n_values] of the levels with column->max_def; the bytes of
                                                          a number are little-endian, a boolean has one */
    int64_t n_values;
    uint32_t scratch[LVN_PARQUET_BATCH];
    int64_t number[LVN_PARQUET_BATCH]; /* DELTA_BINARY_PACKED */
};

/* Always close it. UNSUPPORTED for what is not read. */
enum lvn_status lvn_parquet_reader_open(struct lvn_parquet_reader *r, struct lvn_parquet *p, int64_t group,
                                        int column) LVN_CHECKED;
enum lvn_status lvn_parquet_reader_next(struct lvn_parquet_reader *r) LVN_CHECKED;
void lvn_parquet_reader_close(struct lvn_parquet_reader *r);
/* FORMAT: names the file, row group and column. */
enum lvn_status lvn_parquet_damaged(const struct lvn_parquet_reader *r, const char *format, ...) LVN_PRINTF(2, 3);
/* Count the batch. FORMAT for a file that expands too much. */
enum lvn_status lvn_parquet_deliver(const struct lvn_parquet_reader *r) LVN_CHECKED;

#endif
