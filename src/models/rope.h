/* rope.h - rotary positions as the config.json of many families has them: `rope_scaling` beside `rope_theta`, and
 * `rope_parameters`, in which newer files have all of it. Both are read; the older form, which all programs read, is
 * written. Frequencies that follow the text's length (dynamic) or a list (longrope) are refused by their names. */
#ifndef LVN_ROPE_H
#define LVN_ROPE_H

#include "graph/rotary.h"
#include "models/model.h"

/* Member `rope` of a family's own struct. 0: not said. */
struct lvn_rope {
    int64_t scaling; /* enum lvn_rotary_scaling */
    double theta, factor, original, attention, beta_fast, beta_slow, low, high, mscale, mscale_all;
    bool truncate;
};

extern const struct lvn_word lvn_rope_words[];

#define LVN_ROPE_REAL(type, field, key, smallest, ...)                                                                 \
    {LVN_KEY_REAL_OF(type, rope.field),                                                                                \
     .json = "rope_scaling." key,                                                                                      \
     .only_told = true,                                                                                                \
     .min = (smallest),                                                                                                \
     .max = 1e9,                                                                                                       \
     __VA_ARGS__},                                                                                                     \
    {                                                                                                                  \
        LVN_KEY_REAL_OF(type, rope.field), .json = "rope_parameters." key, .read_only = true, .min = (smallest),       \
                                           .max = 1e9, __VA_ARGS__                                                     \
    }
/* Rows of a family's keys, all but theta's name outside of these objects. */
#define LVN_ROPE_KEYS(type)                                                                                            \
    {LVN_KEY_WORD_OF(type, rope.scaling), .json = "rope_scaling.type", .words = lvn_rope_words, .read_only = true},    \
        {LVN_KEY_WORD_OF(type, rope.scaling), .json = "rope_scaling.rope_type", .words = lvn_rope_words,               \
         .only_told = true},                                                                                           \
        {LVN_KEY_WORD_OF(type, rope.scaling), .json = "rope_parameters.type", .words = lvn_rope_words,                 \
         .read_only = true},                                                                                           \
        {LVN_KEY_WORD_OF(type, rope.scaling), .json = "rope_parameters.rope_type", .words = lvn_rope_words,            \
         .read_only = true},                                                                                           \
        {LVN_KEY_REAL_OF(type, rope.theta),                                                                            \
         .json = "rope_parameters.rope_theta",                                                                         \
         .initial = 10000,                                                                                             \
         .min = 1,                                                                                                     \
         .max = 1e12,                                                                                                  \
         .read_only = true},                                                                                           \
        {LVN_KEY_REAL_OF(type, rope.theta),                                                                            \
         .json = "rope_scaling.rope_theta",                                                                            \
         .initial = 10000,                                                                                             \
         .min = 1,                                                                                                     \
         .max = 1e12,                                                                                                  \
         .read_only = true},                                                                                           \
        {LVN_KEY_BOOL_OF(type, rope.truncate), .json = "rope_scaling.truncate", .initial = true, .only_told = true},   \
        {LVN_KEY_BOOL_OF(type, rope.truncate), .json = "rope_parameters.truncate", .initial = true,                    \
         .read_only = true},                                                                                           \
        LVN_ROPE_REAL(type, factor, "factor", 0, .initial = 0),                                                        \
        LVN_ROPE_REAL(type, original, "original_max_position_embeddings", 0, .initial = 0),                            \
        {LVN_KEY_REAL_OF(type, rope.original), .json = "original_max_position_embeddings", .max = 1e9,                 \
         .read_only = true},                                                                                           \
        LVN_ROPE_REAL(type, attention, "attention_factor", 0, .initial = 0),                                           \
        LVN_ROPE_REAL(type, beta_fast, "beta_fast", 0, .initial = 0),                                                  \
        LVN_ROPE_REAL(type, beta_slow, "beta_slow", 0, .initial = 0),                                                  \
        LVN_ROPE_REAL(type, low, "low_freq_factor", 0, .initial = 0),                                                  \
        LVN_ROPE_REAL(type, high, "high_freq_factor", 0, .initial = 0),                                                \
        LVN_ROPE_REAL(type, mscale, "mscale", 0, .initial = 0),                                                        \
        LVN_ROPE_REAL(type, mscale_all, "mscale_all_dim", 0, .initial = 0)
#define LVN_ROPE_THETA(type, key)                                                                                      \
    {                                                                                                                  \
        LVN_KEY_REAL_OF(type, rope.theta), .json = key, .recipe = "rope_theta", .initial = 10000, .min = 1,            \
                                           .max = 1e12, .help = "base of the rotary positions' frequencies"            \
    }

/* Do the values make sense together? ARG, UNSUPPORTED with a sentence. */
enum lvn_status lvn_rope_check(const struct lvn_rope *r, int64_t dims) LVN_CHECKED;
/* The angles of `dims` channels of each head for the positions of ids (B,T), of a model with so many positions. */
struct lvn_tensor *lvn_rope_table(struct lvn_graph *g, const struct lvn_rope *r, struct lvn_tensor *ids, int64_t dims,
                                  int64_t positions);

#endif
