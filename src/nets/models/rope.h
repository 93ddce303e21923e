/* rope.h - rotary positions of families that have them: the keys of config.json, checks, the table of angles.
 *
 * config.json has either `rope_theta` and `rope_scaling`, or, in newer files, all of it in `rope_parameters`. Both are
 * read. The older form is written, because all programs read it. Refused by name: frequencies that depend
 * on a list (longrope). */
#ifndef LVN_ROPE_H
#define LVN_ROPE_H

#include "graph/rotary.h"
#include "models/model.h"

/* Member `rope` of a family's struct, with the names of config.json where they are not too long. 0: absent. */
struct lvn_rope {
    int64_t scaling;   /* rope_type: enum lvn_rotary_scaling */
    double theta;      /* rope_theta */
    double factor;     /* by which positions are stretched */
    double original;   /* original_max_position_embeddings */
    double attention;  /* attention_factor */
    double beta_fast;  /* yarn */
    double beta_slow;  /* yarn */
    double low;        /* low_freq_factor */
    double high;       /* high_freq_factor */
    double mscale;     /* yarn */
    double mscale_all; /* mscale_all_dim */
    bool truncate;     /* yarn */
};

extern const struct lvn_key_word lvn_rope_words[];

#define LVN_ROPE_REAL(type, field, key, smallest, ...)                                                                 \
    {LVN_KEY_REAL_OF(type, rope.field),                                                                                \
     .json = "rope_scaling." key,                                                                                      \
     .omit_default = true,                                                                                             \
     .min = (smallest),                                                                                                \
     .max = 1e9,                                                                                                       \
     __VA_ARGS__},                                                                                                     \
    {                                                                                                                  \
        LVN_KEY_REAL_OF(type, rope.field), .json = "rope_parameters." key, .read_only = true, .min = (smallest),       \
                                           .max = 1e9, __VA_ARGS__                                                     \
    }
/* Rows of a family's keys: all but theta's name outside of these objects. */
#define LVN_ROPE_KEYS(type)                                                                                            \
    {LVN_KEY_WORD_OF(type, rope.scaling), .json = "rope_scaling.type", .words = lvn_rope_words, .read_only = true},    \
        {LVN_KEY_WORD_OF(type, rope.scaling), .json = "rope_scaling.rope_type", .words = lvn_rope_words,               \
         .omit_default = true},                                                                                        \
        {LVN_KEY_WORD_OF(type, rope.scaling), .json = "rope_parameters.type", .words = lvn_rope_words,                 \
         .read_only = true},                                                                                           \
        {LVN_KEY_WORD_OF(type, rope.scaling), .json = "rope_parameters.rope_type", .words = lvn_rope_words,            \
         .read_only = true},                                                                                           \
        {LVN_KEY_REAL_OF(type, rope.theta),                                                                            \
         .json = "rope_parameters.rope_theta",                                                                         \
         .default_value = 10000,                                                                                       \
         .min = 1,                                                                                                     \
         .max = 1e12,                                                                                                  \
         .read_only = true},                                                                                           \
        {LVN_KEY_REAL_OF(type, rope.theta),                                                                            \
         .json = "rope_scaling.rope_theta",                                                                            \
         .default_value = 10000,                                                                                       \
         .min = 1,                                                                                                     \
         .max = 1e12,                                                                                                  \
         .read_only = true},                                                                                           \
        {LVN_KEY_BOOL_OF(type, rope.truncate), .json = "rope_scaling.truncate", .default_value = true,                 \
         .omit_default = true},                                                                                        \
        {LVN_KEY_BOOL_OF(type, rope.truncate), .json = "rope_parameters.truncate", .default_value = true,              \
         .read_only = true},                                                                                           \
        LVN_ROPE_REAL(type, factor, "factor", 0, .default_value = 0),                                                  \
        LVN_ROPE_REAL(type, original, "original_max_position_embeddings", 0, .default_value = 0, .count = true),       \
        {LVN_KEY_REAL_OF(type, rope.original), .json = "original_max_position_embeddings", .max = 1e9,                 \
         .read_only = true},                                                                                           \
        LVN_ROPE_REAL(type, attention, "attention_factor", 0, .default_value = 0),                                     \
        LVN_ROPE_REAL(type, beta_fast, "beta_fast", 0, .default_value = 0),                                            \
        LVN_ROPE_REAL(type, beta_slow, "beta_slow", 0, .default_value = 0),                                            \
        LVN_ROPE_REAL(type, low, "low_freq_factor", 0, .default_value = 0),                                            \
        LVN_ROPE_REAL(type, high, "high_freq_factor", 0, .default_value = 0),                                          \
        LVN_ROPE_REAL(type, mscale, "mscale", 0, .default_value = 0),                                                  \
        LVN_ROPE_REAL(type, mscale_all, "mscale_all_dim", 0, .default_value = 0)
#define LVN_ROPE_THETA(type, key)                                                                                      \
    {                                                                                                                  \
        LVN_KEY_REAL_OF(type, rope.theta), .json = key, .recipe = "rope_theta", .default_value = 10000, .min = 1,      \
                                           .max = 1e12, .help = "base of the frequencies of rotary embeddings"         \
    }

/* ARG if the values contradict each other, or if `dims` is not an even number above 0. */
enum lvn_status lvn_rope_check(const struct lvn_rope *r, int64_t dims) LVN_CHECKED;
/* Write down the original positions of a scaling that derives them from the model's `positions`, which change. */
void lvn_rope_keep_original(struct lvn_rope *r, int64_t positions);
/* ids (B,T) -> angles (T,dims) for the first `dims` channels of each head. `positions`: the longest sequence of the
 * model, used where config.json does not give the original one. */
struct levin_tensor *lvn_rope_table(struct levin_graph *g, const struct lvn_rope *r, struct levin_tensor *ids,
                                    int64_t dims, int64_t positions);

#endif
