/* tensor.c - see tensor.h. */
#include "base/tensor.h"

#include "base/text.h"

int64_t lvn_dtype_bytes(enum lvn_dtype dtype)
{
    static const int64_t bytes[LVN_DTYPE_END] = {
#define LVN_X(name, text, bytes, safetensors) [LVN_##name] = (bytes),
        LVN_DTYPE_MAP(LVN_X)
#undef LVN_X
    };
    return dtype < LVN_DTYPE_END ? bytes[dtype] : 0;
}

const char *lvn_dtype_name(enum lvn_dtype dtype)
{
    static const char *const name[] = {
#define LVN_X(name, text, bytes, safetensors) [LVN_##name] = (text),
        LVN_DTYPE_MAP(LVN_X)
#undef LVN_X
#define LVN_X(name, text) [LVN_##name] = (text),
            LVN_BLOCK_MAP(LVN_X)
#undef LVN_X
    };
    return name[dtype];
}

struct lvn_desc lvn_desc_make(enum lvn_dtype dtype, int rank, const int64_t *dim)
{
    struct lvn_desc d = {.dtype = dtype, .rank = rank};
    int64_t stride = 1;
    for (int i = rank - 1; i >= 0; i--) {
        d.dim[i] = dim[i];
        d.stride[i] = stride;
        if (__builtin_mul_overflow(stride, dim[i], &stride)) stride = -1; /* lvn_desc_count() reports it */
    }
    return d;
}

int64_t lvn_desc_count(const struct lvn_desc *d)
{
    int64_t n = 1;
    for (int i = 0; i < d->rank; i++)
        if (d->dim[i] < 0 || __builtin_mul_overflow(n, d->dim[i], &n)) return -1;
    return n;
}

int64_t lvn_desc_rows(const struct lvn_desc *d)
{
    int64_t n = 1;
    for (int i = 0; i + 1 < d->rank; i++) n *= d->dim[i];
    return n;
}

int64_t lvn_desc_count_from(const struct lvn_desc *d, int64_t dim)
{
    int64_t n = 1;
    for (int64_t i = dim; i < d->rank; i++) n *= d->dim[i];
    return n;
}

bool lvn_desc_contiguous(const struct lvn_desc *d)
{
    int64_t stride = 1;
    for (int i = d->rank - 1; i >= 0; i--) {
        if (d->dim[i] != 1 && d->stride[i] != stride) return false;
        stride *= d->dim[i];
    }
    return true;
}

bool lvn_desc_is_row(const struct lvn_desc *a, const struct lvn_desc *b)
{
    bool fits = b->rank < a->rank;
    for (int i = 1; fits && i <= b->rank; i++) fits = b->dim[b->rank - i] == a->dim[a->rank - i];
    return fits;
}

bool lvn_desc_same_shape(const struct lvn_desc *a, const struct lvn_desc *b)
{
    if (a->rank != b->rank) return false;
    for (int i = 0; i < a->rank; i++)
        if (a->dim[i] != b->dim[i]) return false;
    return true;
}

/* Channels [*begin, *end) that a view (B,T,heads,D) covers in each row, and the row's length. False if it is not such a
 * view. */
static bool slice_of_rows(const struct lvn_desc *d, int64_t *row, int64_t *begin, int64_t *end)
{
    *row = d->stride[1];
    *begin = d->offset;
    *end = d->offset + 1;
    for (int k = 2; k < d->rank; k++) *end += (d->dim[k] - 1) * d->stride[k];
    return d->rank == 4 && d->stride[0] == d->dim[1] * *row && *end <= *row && *end - *begin == d->dim[2] * d->dim[3];
}

/* Are the views boxes of one array that are disjoint along some dimension? */
static bool boxes_disjoint(const struct lvn_desc *a, const struct lvn_desc *b)
{
    int64_t rest_a = a->offset, rest_b = b->offset;
    bool is_disjoint = false;
    if (a->rank != b->rank || memcmp(a->stride, b->stride, sizeof a->stride[0] * (size_t)a->rank) != 0) return false;
    for (int k = 0; k < a->rank; k++) {
        if (a->stride[k] <= 0) return false;
        int64_t stride = a->stride[k], at_a = rest_a / stride, at_b = rest_b / stride;
        int64_t extent = k ? a->stride[k - 1] / stride : INT64_MAX;               /* of this dimension, in elements */
        if (at_a + a->dim[k] > extent || at_b + b->dim[k] > extent) return false; /* not a box of these strides */
        is_disjoint |= at_a + a->dim[k] <= at_b || at_b + b->dim[k] <= at_a;
        rest_a %= stride;
        rest_b %= stride;
    }
    return is_disjoint;
}

bool lvn_desc_disjoint(const struct lvn_desc *a, const struct lvn_desc *b)
{
    if (lvn_desc_contiguous(a) && lvn_desc_contiguous(b))
        return a->offset + lvn_desc_count(a) <= b->offset || b->offset + lvn_desc_count(b) <= a->offset;
    if (boxes_disjoint(a, b)) return true;
    int64_t row_a, begin_a, end_a, row_b, begin_b, end_b;
    if (!slice_of_rows(a, &row_a, &begin_a, &end_a) || !slice_of_rows(b, &row_b, &begin_b, &end_b)) return false;
    return row_a == row_b && (end_a <= begin_b || end_b <= begin_a);
}

char *lvn_shape_text(const struct lvn_desc *d, char text[LVN_SHAPE_TEXT])
{
    snprintf(text, LVN_SHAPE_TEXT, "(");
    for (int i = 0; i < d->rank; i++)
        lvn_print_append(text, LVN_SHAPE_TEXT, "%s%lld", i ? ", " : "", (long long)d->dim[i]);
    lvn_print_append(text, LVN_SHAPE_TEXT, ")");
    return text;
}
