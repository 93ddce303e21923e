/* exchange_sum.c - adds the sources of an exchange, and converts between bf16 and fp32; exchange.c calls it.
 *
 * Sums are element-wise, so the bits depend on the order in which vectors are added, and not on the width of
 * vector registers. `out` may be one of the inputs. */

#include "base/bf16.h"
#include "comm/exchange.h"

static void add_f32(float *out, const float *a, const float *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++) out[i] = a[i] + b[i];
}

static void add_f64(double *out, const double *a, const double *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++) out[i] = a[i] + b[i];
}

static void bf16_to_f32(float *out, const uint16_t *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) out[i] = lvn_bf16_get(x[i]);
}

static void f32_to_bf16(uint16_t *out, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) out[i] = lvn_bf16_make(x[i]);
}

void lvn_add_sources(const struct lvn_tree *tree, const struct lvn_exchange_stage *stage, void *out, int64_t n,
                     enum lvn_dtype type)
{
    const int64_t bytes = lvn_dtype_bytes(type);
    if (!stage->n_adds && out && out != tree->source[0]) memcpy(out, tree->source[0], (size_t)(n * bytes));
    for (int64_t at = 0; at < n && stage->n_adds; at += LVN_BLOCK) {
        int64_t m = n - at < LVN_BLOCK ? n - at : LVN_BLOCK;
        for (int s = 0; type == LVN_BF16 && s < stage->n_sources; s++)
            bf16_to_f32(tree->f32 + (int64_t)s * LVN_BLOCK, (const uint16_t *)tree->source[s] + at, m);
        for (int k = 0; k < stage->n_adds; k++) {
            const int a = stage->add[k].into, b = stage->add[k].from;
            const bool last = out && k == stage->n_adds - 1;
            if (type == LVN_F64) {
                double *x = (double *)tree->source[a] + at;
                add_f64(last ? (double *)out + at : x, x, (const double *)tree->source[b] + at, m);
            } else if (type == LVN_F32) {
                float *x = (float *)tree->source[a] + at;
                add_f32(last ? (float *)out + at : x, x, (const float *)tree->source[b] + at, m);
            } else {
                float *x = tree->f32 + (int64_t)a * LVN_BLOCK;
                add_f32(x, x, tree->f32 + (int64_t)b * LVN_BLOCK, m);
                for (int64_t i = 0; !tree->plain && i < m; i++) x[i] = lvn_bf16_get(lvn_bf16_make(x[i]));
            }
        }
        for (int k = 0; type == LVN_BF16 && k < stage->n_results; k++) {
            const int s = stage->result[k];
            f32_to_bf16((uint16_t *)(out ? out : tree->source[s]) + at, tree->f32 + (int64_t)s * LVN_BLOCK, m);
        }
    }
}
