/* shape.h - checks for the shape rules of operations.
 *
 * Each returns SHAPE with a message that names the operation, the input's role (`role`) and the tensor. Kernels read
 * plain arrays: inputs must be contiguous, unless the operation accepts views. */
#ifndef LVN_SHAPE_H
#define LVN_SHAPE_H

#include "graph/op.h"

enum { LVN_INPUT_TEXT = 192 };
/* "weight 'h.0.mlp.c_fc.weight'", or "weight" if the tensor has no name, into `text`. Returns text. */
char *lvn_input_text(const struct lvn_shapes *s, int i, const char *role, char text[LVN_INPUT_TEXT]);

/* Input i is present, contiguous, of the real type, with at least one element and min_rank dimensions. */
enum lvn_status lvn_shape_reals(const struct lvn_shapes *s, const char *role, int i, int min_rank) LVN_CHECKED;
/* Input i is a vector (n) of the real type. */
enum lvn_status lvn_shape_vector(const struct lvn_shapes *s, const char *role, int i, int64_t n) LVN_CHECKED;
/* Input i is int32 with `count` elements; count < 0: any number. */
enum lvn_status lvn_shape_integers(const struct lvn_shapes *s, const char *role, int i, int64_t count) LVN_CHECKED;
/* Complete shape rules of element-wise operations: one input, or two of the same shape; output of that shape. */
enum lvn_status lvn_shape_each(struct lvn_shapes *s) LVN_CHECKED;
enum lvn_status lvn_shape_each_pair(struct lvn_shapes *s) LVN_CHECKED;
/* The same for two inputs of which the second has the last dimensions of the first: it is broadcast over the others. */
enum lvn_status lvn_shape_rows(struct lvn_shapes *s) LVN_CHECKED;
/* Inputs 0 and 1 have the real type and the same shape. */
enum lvn_status lvn_shape_pair(const struct lvn_shapes *s) LVN_CHECKED;
/* Input 0: x (...,K). Input 1: weight (K,N) if in_out, else (N,K). Input 2: bias (N), or absent. Sets *n = N. */
enum lvn_status lvn_shape_linear(const struct lvn_shapes *s, bool in_out, int64_t *n) LVN_CHECKED;
/* p is a dropout probability in [0, 1); if it is above 0, the first of input 0's two or more dimensions is the sample.
 * ARG, SHAPE. */
enum lvn_status lvn_shape_dropout(const struct lvn_shapes *s, double p) LVN_CHECKED;

/* Is the label's row excluded from the loss? Negative labels and the operation's `ignore` are. */
static inline bool lvn_label_ignored(int32_t label, int64_t ignore)
{
    return label < 0 || label == ignore;
}

#endif
