/* gemm_tiles.cpu.c - the product of the matrix unit on processors that have none: gemm.cpu.c as it is compiled for AMX,
 * over a unit in plain C. So what the unit's order and rounding make of long sums is tested everywhere.
 *
 * The order: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, TDPBF16PS. Numbers below 2^-126
 * are zero on the way in and on the way out. */
#include <float.h>
#include <immintrin.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

enum { UNIT_ROWS = 16, UNIT_WORDS = 16 };
static _Thread_local uint32_t unit_tile[8][UNIT_ROWS][UNIT_WORDS];

static void unit_load(int t, const void *p, int64_t stride)
{
    for (int i = 0; i < UNIT_ROWS; i++) memcpy(unit_tile[t][i], (const char *)p + i * stride, sizeof unit_tile[t][i]);
}

static void unit_store(int t, void *p, int64_t stride)
{
    for (int i = 0; i < UNIT_ROWS; i++) memcpy((char *)p + i * stride, unit_tile[t][i], sizeof unit_tile[t][i]);
}

static inline float unit_normal(float x)
{
    return fabsf(x) < FLT_MIN ? 0 : x;
}

static inline float unit_bits(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return unit_normal(x);
}

/* c += a b: the sixteen pairs are summed by themselves, the even and the odd ones apart, and added to c once. */
static void unit_multiply(int c, int a, int b)
{
    for (int m = 0; m < UNIT_ROWS; m++) {
        float even[UNIT_WORDS] = {0}, odd[UNIT_WORDS] = {0};
        for (int k = 0; k < UNIT_WORDS; k++) {
            const float x = unit_bits(unit_tile[a][m][k] << 16), y = unit_bits(unit_tile[a][m][k] & 0xffff0000u);
            for (int n = 0; n < UNIT_WORDS; n++) {
                even[n] = unit_normal(fmaf(x, unit_bits(unit_tile[b][k][n] << 16), even[n]));
                odd[n] = unit_normal(fmaf(y, unit_bits(unit_tile[b][k][n] & 0xffff0000u), odd[n]));
            }
        }
        for (int n = 0; n < UNIT_WORDS; n++) {
            const float sum = unit_normal(unit_bits(unit_tile[c][m][n]) + unit_normal(even[n] + odd[n]));
            memcpy(&unit_tile[c][m][n], &sum, sizeof sum);
        }
    }
}

#undef _tile_loadconfig
#undef _tile_release
#undef _tile_loadd
#undef _tile_stored
#undef _tile_zero
#undef _tile_dpbf16ps
#define _tile_loadconfig(config) memset(unit_tile, 0xff, sizeof unit_tile + 0 * sizeof *(config))
#define _tile_release() memset(unit_tile, 0xff, sizeof unit_tile)
#define _tile_loadd unit_load
#define _tile_stored unit_store
#define _tile_zero(t) memset(unit_tile[t], 0, sizeof unit_tile[t])
#define _tile_dpbf16ps unit_multiply
#undef __AMX_BF16__
#define __AMX_BF16__ 1
#include "backend/cpu/gemm.cpu.c"
