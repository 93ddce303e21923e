/* shape.c - checks for shape rules; see shape.h. */
#include "ops/shape.h"

#include "ops/real.h"

#ifndef LVN_REAL_DOUBLE

char *lvn_input_text(const struct lvn_shapes *s, int i, const char *role, char text[LVN_INPUT_TEXT])
{
    if (s->name[i])
        snprintf(text, LVN_INPUT_TEXT, "%s '%s'", role, s->name[i]);
    else
        snprintf(text, LVN_INPUT_TEXT, "%s", role);
    return text;
}

static enum lvn_status elements(const struct lvn_shapes *s, const char *role, int i, int min_rank)
{
    const struct lvn_desc *d = &s->in[i];
    char name[LVN_INPUT_TEXT], shape[LVN_SHAPE_TEXT];
    LVN_CHECK(s->has[i], SHAPE, "%s: no %s given", s->op, role);
    LVN_CHECK(d->rank >= min_rank, SHAPE, "%s: %s has %d dimensions %s; expected at least %d", s->op,
              lvn_input_text(s, i, role, name), d->rank, lvn_shape_text(d, shape), min_rank);
    LVN_CHECK(lvn_desc_count(d) > 0, SHAPE, "%s: %s of shape %s has no elements, or too many to count", s->op,
              lvn_input_text(s, i, role, name), lvn_shape_text(d, shape));
    LVN_CHECK(lvn_desc_contiguous(d), SHAPE, "%s: %s of shape %s is a view with gaps; expected a contiguous tensor",
              s->op, lvn_input_text(s, i, role, name), lvn_shape_text(d, shape));
    return LVN_OK;
}

enum lvn_status lvn_shape_reals(const struct lvn_shapes *s, const char *role, int i, int min_rank)
{
    char name[LVN_INPUT_TEXT];
    LVN_TRY(elements(s, role, i, min_rank));
    LVN_CHECK(s->in[i].dtype == s->real, SHAPE, "%s: %s has type %s; expected %s", s->op,
              lvn_input_text(s, i, role, name), lvn_dtype_name(s->in[i].dtype), lvn_dtype_name(s->real));
    return LVN_OK;
}

enum lvn_status lvn_shape_vector(const struct lvn_shapes *s, const char *role, int i, int64_t n)
{
    char name[LVN_INPUT_TEXT], shape[LVN_SHAPE_TEXT];
    LVN_TRY(lvn_shape_reals(s, role, i, 1));
    LVN_CHECK(s->in[i].rank == 1 && s->in[i].dim[0] == n, SHAPE, "%s: %s has shape %s; expected (%lld)", s->op,
              lvn_input_text(s, i, role, name), lvn_shape_text(&s->in[i], shape), (long long)n);
    return LVN_OK;
}

enum lvn_status lvn_shape_integers(const struct lvn_shapes *s, const char *role, int i, int64_t count)
{
    char name[LVN_INPUT_TEXT], shape[LVN_SHAPE_TEXT];
    LVN_TRY(elements(s, role, i, 1));
    LVN_CHECK(s->in[i].dtype == LVN_I32, SHAPE, "%s: %s has type %s; expected int32", s->op,
              lvn_input_text(s, i, role, name), lvn_dtype_name(s->in[i].dtype));
    LVN_CHECK(count < 0 || lvn_desc_count(&s->in[i]) == count, SHAPE, "%s: %s has shape %s; expected %lld elements",
              s->op, lvn_input_text(s, i, role, name), lvn_shape_text(&s->in[i], shape), (long long)count);
    return LVN_OK;
}

enum lvn_status lvn_shape_pair(const struct lvn_shapes *s)
{
    char a[LVN_INPUT_TEXT], b[LVN_INPUT_TEXT], shape_a[LVN_SHAPE_TEXT], shape_b[LVN_SHAPE_TEXT];
    LVN_TRY(lvn_shape_reals(s, "first input", 0, 1));
    LVN_TRY(lvn_shape_reals(s, "second input", 1, 1));
    LVN_CHECK(lvn_desc_same_shape(&s->in[0], &s->in[1]), SHAPE, "%s: %s has shape %s, %s has %s; they must be equal",
              s->op, lvn_input_text(s, 0, "first input", a), lvn_shape_text(&s->in[0], shape_a),
              lvn_input_text(s, 1, "second input", b), lvn_shape_text(&s->in[1], shape_b));
    return LVN_OK;
}

enum lvn_status lvn_shape_each(struct lvn_shapes *s)
{
    LVN_TRY(lvn_shape_reals(s, "input", 0, 1));
    s->out[0] = lvn_desc_make(s->real, s->in[0].rank, s->in[0].dim);
    return LVN_OK;
}

enum lvn_status lvn_shape_each_pair(struct lvn_shapes *s)
{
    LVN_TRY(lvn_shape_pair(s));
    s->out[0] = lvn_desc_make(s->real, s->in[0].rank, s->in[0].dim);
    return LVN_OK;
}

enum lvn_status lvn_shape_rows(struct lvn_shapes *s)
{
    char a[LVN_INPUT_TEXT], b[LVN_INPUT_TEXT], shape_a[LVN_SHAPE_TEXT], shape_b[LVN_SHAPE_TEXT];
    LVN_TRY(lvn_shape_reals(s, "first input", 0, 1));
    LVN_TRY(lvn_shape_reals(s, "second input", 1, 1));
    LVN_CHECK(lvn_desc_same_shape(&s->in[0], &s->in[1]) || lvn_desc_is_row(&s->in[0], &s->in[1]), SHAPE,
              "%s: %s has shape %s, %s has %s; the second must have the last dimensions of the first", s->op,
              lvn_input_text(s, 0, "first input", a), lvn_shape_text(&s->in[0], shape_a),
              lvn_input_text(s, 1, "second input", b), lvn_shape_text(&s->in[1], shape_b));
    s->out[0] = lvn_desc_make(s->real, s->in[0].rank, s->in[0].dim);
    return LVN_OK;
}

enum lvn_status lvn_shape_linear(const struct lvn_shapes *s, bool in_out, int64_t *n)
{
    char name[LVN_INPUT_TEXT], input[LVN_INPUT_TEXT], shape[LVN_SHAPE_TEXT];
    const struct lvn_desc *x = &s->in[0], *w = &s->in[1];
    LVN_TRY(lvn_shape_reals(s, "input", 0, 1));
    LVN_TRY(lvn_shape_reals(s, "weight", 1, 1));
    LVN_CHECK(w->rank == 2, SHAPE, "%s: %s has shape %s; expected a matrix", s->op,
              lvn_input_text(s, 1, "weight", name), lvn_shape_text(w, shape));
    int64_t features = x->dim[x->rank - 1], k = w->dim[in_out ? 0 : 1];
    LVN_CHECK(features == k, SHAPE, "%s: %s has %lld features, but %s of shape %s (stored %s) requires %lld", s->op,
              lvn_input_text(s, 0, "input", input), (long long)features, lvn_input_text(s, 1, "weight", name),
              lvn_shape_text(w, shape), in_out ? "in, out" : "out, in", (long long)k);
    *n = w->dim[in_out ? 1 : 0];
    if (s->has[2]) LVN_TRY(lvn_shape_vector(s, "bias", 2, *n));
    return LVN_OK;
}

enum lvn_status lvn_shape_dropout(const struct lvn_shapes *s, double p)
{
    char name[LVN_INPUT_TEXT];
    LVN_CHECK(p >= 0 && p < 1, ARG, "%s: the dropout probability is %g; it must be at least 0 and below 1", s->op, p);
    LVN_CHECK(p == 0 || s->in[0].rank >= 2, SHAPE,
              "%s: %s has one dimension; dropout requires at least two, of which the first is the sample", s->op,
              lvn_input_text(s, 0, "input", name));
    return LVN_OK;
}

#endif
