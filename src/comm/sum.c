/* sum.c - adding vectors, and the way from bf16 to fp32 and back.
 *
 * Element by element, so that the bits are those of the order in which vectors are added, whatever the width of the
 * machine's own vectors. `out` may be one of the inputs. */
#include "base/bf16.h"
#include "comm/engine.h"

void lvn_add_f32(float *out, const float *a, const float *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++) out[i] = a[i] + b[i];
}

void lvn_add_f64(double *out, const double *a, const double *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++) out[i] = a[i] + b[i];
}

void lvn_widen(float *out, const uint16_t *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) out[i] = lvn_bf16_get(x[i]);
}

void lvn_narrow(uint16_t *out, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) out[i] = lvn_bf16_make(x[i]);
}
