/* shape.h - checks that the shape rules of many operations share.
 *
 * Each returns LVN_SHAPE with a sentence that names the operation, what the input is for (`what`) and the
 * tensor. Kernels walk plain arrays: every input must be contiguous, except where an operation says that it takes
 * views. */
#ifndef LVN_SHAPE_H
#define LVN_SHAPE_H

#include "graph/op.h"

/* "weight 'h.0.mlp.c_fc.weight'", or "weight" when the tensor has no name, into `text`; returns text. */
enum { LVN_INPUT_TEXT = 192 };
char *lvn_input_text(const struct lvn_shapes *s, int i, const char *what, char text[LVN_INPUT_TEXT]);

/* Input i holds real numbers: contiguous, at least one element, at least min_rank dims. */
enum lvn_status lvn_shape_reals(const struct lvn_shapes *s, const char *what, int i, int min_rank) LVN_CHECKED;
/* Input i is a vector of n real numbers. */
enum lvn_status lvn_shape_vector(const struct lvn_shapes *s, const char *what, int i, int64_t n) LVN_CHECKED;
/* Input i holds `count` integers (int32), or any number of them for count < 0. */
enum lvn_status lvn_shape_integers(const struct lvn_shapes *s, const char *what, int i, int64_t count) LVN_CHECKED;
/* Whole rules: real numbers of any shape in, the same shape out; of one input, or of two of the same shape. */
enum lvn_status lvn_shape_each(struct lvn_shapes *s) LVN_CHECKED;
enum lvn_status lvn_shape_each_pair(struct lvn_shapes *s) LVN_CHECKED;
/* Inputs 0 and 1 are tensors of real numbers of the same shape. */
enum lvn_status lvn_shape_pair(const struct lvn_shapes *s) LVN_CHECKED;
/* Inputs x (...,K), weight (K,N) or (N,K), bias (N) or absent, as numbers 0, 1, 2; *n = N. */
enum lvn_status lvn_shape_linear(const struct lvn_shapes *s, bool in_out, int64_t *n) LVN_CHECKED;
/* A probability of dropping, and a tensor whose first dimension counts samples. */
enum lvn_status lvn_shape_dropout(const struct lvn_shapes *s, double p) LVN_CHECKED;

/* Label of a row that takes no part in the loss: every negative one, and the operation's `ignore`. */
static inline bool lvn_label_ignored(int32_t label, int64_t ignore)
{
    return label < 0 || label == ignore;
}

#endif
