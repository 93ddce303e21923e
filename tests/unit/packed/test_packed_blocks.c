/* test_packed_blocks.c - covers: src/base/packed/packed.c
 *
 * Matrices in packed blocks: their values are those of bitsandbytes 0.50.2 for the same stored state (its CPU backend,
 * as sums of bits); quantizing finds the nearest code, whatever the shape and the number of threads. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "base/work.h"
#include "packed/packed.h"

enum { ROWS = 300, COLUMNS = 192, COUNT = ROWS * COLUMNS };

static float *random_values(int64_t n)
{
    float *x = malloc((size_t)n * sizeof *x);
    lvn_random_normal(5, 1, 0.05F, 0, n, x);
    return x;
}

static void *memory_for(const struct lvn_blocks *b)
{
    const int64_t bytes = lvn_blocks_bytes(b);
    assert_int_equal(bytes % 64, 0);
    return aligned_alloc(64, (size_t)bytes);
}

/* The sum of the bits of all values, and the sum weighted by 1, 2, ... */
static void check_values(const struct lvn_blocks *b, const void *p, uint64_t plain, uint64_t weighted)
{
    for (int64_t row = 0, i = 0; row < b->rows; row++) {
        float x[COLUMNS];
        lvn_blocks_read(b, p, row, 0, b->columns / 3, x); /* in two parts */
        lvn_blocks_read(b, p, row, b->columns / 3, b->columns - b->columns / 3, x + b->columns / 3);
        for (int64_t k = 0; k < b->columns; k++) {
            uint32_t bits;
            memcpy(&bits, &x[k], sizeof bits);
            plain -= bits;
            weighted -= bits * (uint64_t)++i;
        }
    }
    assert_int_equal(plain, 0);
    assert_int_equal(weighted, 0);
}

static void nf4_is_that_of_bitsandbytes(void **state)
{
    (void)state;
    const struct lvn_blocks b = {LVN_NF4, ROWS, COLUMNS};
    enum { BLOCKS = COUNT / LVN_NF4_BLOCK };
    float *zeros = calloc(COUNT, sizeof *zeros);
    void *p = memory_for(&b);
    assert_int_equal(lvn_blocks_write(&b, zeros, p, 1), LVN_OK);
    check_values(&b, p, 0, 0);
    const struct lvn_nf4 x = lvn_nf4_of(&b, p);
    for (int i = 0; i < COUNT / 2; i++) x.value[i] = (uint8_t)(i * 73 + i / 7 + 5);
    for (int i = 0; i < BLOCKS; i++) x.factor[i] = (uint8_t)(i * 37 + 11);
    for (int i = 0; i * LVN_NF4_GROUP < BLOCKS; i++) x.group[i] = (float)(0.0625 + i / 32.0);
    x.offset[0] = 0.1F;
    check_values(&b, p, 0x5ebf0b1cac75U, 0x29c7ce4ae606f7e6U);
    free(zeros), free(p);
}

static void int8_is_that_of_bitsandbytes(void **state)
{
    (void)state;
    const struct lvn_blocks b = {LVN_INT8_ROWS, ROWS, COLUMNS};
    char *p = memory_for(&b);
    float *factors = (float *)(uintptr_t)lvn_int8_factors(&b, p);
    for (int i = 0; i < COUNT; i++) p[i] = (char)((i * 73 + i / 11) % 255 - 127);
    for (int i = 0; i < ROWS; i++) factors[i] = (float)(0.3 + i / 7.0);
    check_values(&b, p, 0x70c5d167b4b4U, 0x31b09cb8025370aaU);
    free(p);
}

/* The largest error of a row, relative to its largest value. */
static double row_error(const struct lvn_blocks *b, const float *values, const void *p, int64_t row)
{
    float *x = malloc((size_t)b->columns * sizeof *x);
    double error = 0, max = 0;
    lvn_blocks_read(b, p, row, 0, b->columns, x);
    for (int64_t i = 0; i < b->columns; i++) {
        error = fmax(error, fabs((double)x[i] - values[row * b->columns + i]));
        max = fmax(max, fabs(values[row * b->columns + i]));
    }
    free(x);
    return error / max;
}

static void quantizes(void **state)
{
    (void)state;
    static const int64_t shapes[][2] = {{1, 2}, {3, 5}, {64, 100}, {300, 192}, {1000, 576}};
    static const struct {
        enum lvn_dtype dtype;
        double most; /* half of the largest distance of two codes, and the error of a factor */
    } formats[] = {{LVN_NF4, 0.152 + 0.05}, {LVN_INT8_ROWS, 0.5 / 127 + 1e-6}};
    for (int f = 0; f < 2; f++)
        for (int s = 0; s < 5; s++) {
            const struct lvn_blocks b = {formats[f].dtype, shapes[s][0], shapes[s][1]};
            const size_t bytes = (size_t)lvn_blocks_bytes(&b);
            float *values = random_values(b.rows * b.columns);
            char *p = memory_for(&b), *q = memory_for(&b);
            memset(p, 0, bytes), memset(q, 0, bytes);
            const int64_t work = lvn_work_count();
            assert_int_equal(lvn_blocks_write(&b, values, p, 1), LVN_OK);
            assert_true(lvn_work_count() > work);
            assert_int_equal(lvn_blocks_write(&b, values, q, 3), LVN_OK);
            assert_memory_equal(p, q, bytes);
            for (int64_t r = 0; r < b.rows; r++) assert_true(row_error(&b, values, p, r) < formats[f].most);
            free(values), free(p), free(q);
        }
}

/* Rows of zeros, subnormal numbers (which may become zero), and the largest that bitsandbytes' arithmetic can hold. */
static void extremes(void **state)
{
    (void)state;
    static const float edge[] = {0.0F, 1e-40F, 1e-37F, 2e36F};
    for (int f = 0; f < 2; f++)
        for (int e = 0; e < 4; e++) {
            const struct lvn_blocks b = {f ? LVN_INT8_ROWS : LVN_NF4, 4, 64};
            float values[4 * 64], x[64];
            void *p = memory_for(&b);
            for (int i = 0; i < 4 * 64; i++) values[i] = i % 3 ? edge[e] : -edge[e];
            assert_int_equal(lvn_blocks_write(&b, values, p, 1), LVN_OK);
            for (int64_t r = 0; r < 4; r++) {
                lvn_blocks_read(&b, p, r, 0, 64, x);
                for (int i = 0; i < 64; i++)
                    assert_true(fabsf(x[i] - values[r * 64 + i]) <= (edge[e] < 1e-38F ? edge[e] : edge[e] / 64));
            }
            free(p);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nf4_is_that_of_bitsandbytes),
        cmocka_unit_test(int8_is_that_of_bitsandbytes),
        cmocka_unit_test(quantizes),
        cmocka_unit_test(extremes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
