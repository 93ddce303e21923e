/* sum.c - adding vectors, and the way from bf16 to fp32 and back.
 *
 * Element by element, so that the bits are those of the order in which vectors are added, whatever the width of the
 * machine's own vectors. `out` may be one of the inputs. */
#include <string.h>

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
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits = (uint32_t)x[i] << 16;
        memcpy(&out[i], &bits, sizeof bits);
    }
}

/* To the nearest, ties to even; what is not a number stays none. */
void lvn_narrow(uint16_t *out, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits, nan;
        memcpy(&bits, &x[i], sizeof bits);
        nan = (bits & 0x7fffffff) > 0x7f800000;
        uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16, quiet = bits >> 16 | 0x40;
        out[i] = (uint16_t)(nan ? quiet : rounded);
    }
}
