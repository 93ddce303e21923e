/* packed.c - see packed.h. */
#include "packed/packed.h"

#include "base/arena.h"
#include "base/threads.h"
#include "base/vectors/four.h"
#include "base/work.h"
#include "packed/ggml_blocks.h"

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static int64_t aligned(int64_t bytes)
{
    return ceil_div(bytes, 64) * 64;
}

/* --- nf4 --- */

/* Quantiles of a normal distribution, scaled to [-1, 1], with an exact zero (QLoRA, appendix E). */
static const float normal_floats[LVN_NF4_CODES] = {-1.0F,           -0x1.647362p-1F, -0x1.0cd66p-1F,  -0x1.946540p-2F,
                                                   -0x1.23449ap-2F, -0x1.7a6a7ep-3F, -0x1.74f0e2p-4F, 0.0F,
                                                   0x1.45f5fep-4F,  0x1.4995c6p-3F,  0x1.f809bap-3F,  0x1.5a0674p-2F,
                                                   0x1.c3497p-2F,   0x1.200f56p-1F,  0x1.722766p-1F,  1.0F};

/* bitsandbytes' numbers of 8 bits: 0, 1, and with both signs the middles of 2^i equal parts of [0.1, 1], times
 * 10^(i - 6). */
static void fill_map(float map[LVN_NF4_FACTORS])
{
    enum { EXPONENTS = 7, ZERO = 127 };
    int at = ZERO;
    map[ZERO] = 0;
    map[LVN_NF4_FACTORS - 1] = 1;
    for (int i = 0; i < EXPONENTS; i++) {
        const int parts = 1 << i;
        const float step = (1.0F - 0.1F) / (float)parts;
        float edge[(1 << (EXPONENTS - 1)) + 1];
        for (int k = 0; k <= parts; k++)
            edge[k] = k < (parts + 1) / 2 ? (float)((double)0.1F + (double)step * k)
                                          : (float)(1.0 - (double)step * (parts - k));
        for (int k = 0; k < parts; k++) {
            map[++at] = (edge[k] + edge[k + 1]) / 2 * (float)pow(10, i - (EXPONENTS - 1));
            map[2 * ZERO - at] = -map[at];
        }
    }
}

static int64_t nf4_blocks(const struct lvn_blocks *b)
{
    return ceil_div(b->rows * b->columns, LVN_NF4_BLOCK);
}

enum {
    NF4_CODES = LVN_NF4_CODES * (int)sizeof(float),
    NF4_TABLES = NF4_CODES + (LVN_NF4_FACTORS + 16) * (int)sizeof(float)
};

static bool has_scales(enum lvn_dtype dtype)
{
    return dtype == LVN_NF4_F32 || dtype == LVN_FP4_F32;
}

/* Of the numbers of all groups, or all scales. */
static int64_t nf4_numbers(const struct lvn_blocks *b)
{
    return aligned(ceil_div(nf4_blocks(b), has_scales(b->dtype) ? 1 : LVN_NF4_GROUP) * (int64_t)sizeof(float));
}

struct lvn_nf4 lvn_nf4_of(const struct lvn_blocks *b, const void *p)
{
    char *at = (char *)(uintptr_t)p;
    struct lvn_nf4 x = {.code = (float *)at};
    if (has_scales(b->dtype)) {
        x.scale = (float *)(at + NF4_CODES);
        x.value = (uint8_t *)at + NF4_CODES + nf4_numbers(b);
        return x;
    }
    x.map = x.code + LVN_NF4_CODES;
    x.offset = x.map + LVN_NF4_FACTORS;
    x.group = (float *)(at + NF4_TABLES);
    x.factor = (uint8_t *)at + NF4_TABLES + nf4_numbers(b);
    x.value = x.factor + aligned(nf4_blocks(b));
    return x;
}

static int64_t nf4_bytes(const struct lvn_blocks *b)
{
    return (has_scales(b->dtype) ? NF4_CODES : NF4_TABLES + aligned(nf4_blocks(b))) + nf4_numbers(b) +
           aligned(ceil_div(b->rows * b->columns, 2));
}

static void nf4_read(const struct lvn_blocks *b, const void *p, int64_t row, int64_t column, int64_t n, float *to)
{
    const struct lvn_nf4 x = lvn_nf4_of(b, p);
    lvn_nf4_read(&x, row * b->columns + column, n, to);
}

/* The index of the nearest of the sorted numbers; of two that are equally near, the smaller. */
static uint8_t nearest_factor(const float map[LVN_NF4_FACTORS], float x)
{
    int low = 0;
    for (int end = LVN_NF4_FACTORS; end - low > 1;) { /* map[low] <= x < map[end] */
        const int i = (low + end) / 2;
        if (map[i] <= x)
            low = i;
        else
            end = i;
    }
    const bool up = low + 1 < LVN_NF4_FACTORS && fabsf(map[low + 1] - x) < fabsf(x - map[low]);
    return (uint8_t)(low + up);
}

static float largest(const float *x, int64_t n)
{
    float max = 0;
    for (int64_t i = 0; i < n; i++) max = fabsf(x[i]) > max ? fabsf(x[i]) : max;
    return max;
}

struct nf4_writer {
    const struct lvn_blocks *b;
    const float *values;
    struct lvn_nf4 to;
    float *factor; /* of each block, in fp32 */
};

/* largest() of a block. As integers, magnitudes have the same order, and NaN, which does not count, is above them. */
static float largest_of_block(const float x[LVN_NF4_BLOCK])
{
    const lvn_four_ints infinity = (lvn_four_ints){0} + 0x7f800000;
    lvn_four_ints max = {0};
    for (int i = 0; i < LVN_NF4_BLOCK; i += LVN_FOUR) {
        lvn_four_ints magnitude = (lvn_four_ints)lvn_four_load(x + i) & 0x7fffffff;
        magnitude &= ~(magnitude > infinity);
        const lvn_four_ints more = magnitude > max;
        max = (magnitude & more) | (max & ~more);
    }
    const lvn_four y = (lvn_four)max;
    return largest((const float *)&y, LVN_FOUR);
}

/* The nearest codes of a block whose largest magnitude is `max`. The index of a code is the number of middles between
 * codes that are below the value. */
static void write_codes(const float x[LVN_NF4_BLOCK], float max, uint8_t to[LVN_NF4_BLOCK / 2])
{
    const float scale = 1.0F / (max > 1e-38F ? max : 1e-38F);
    lvn_four middle[LVN_NF4_CODES - 1];
    for (int i = 0; i + 1 < LVN_NF4_CODES; i++)
        middle[i] = (lvn_four){0} + (normal_floats[i] + normal_floats[i + 1]) / 2;
    for (int i = 0; i < LVN_NF4_BLOCK; i += LVN_FOUR) {
        const lvn_four value = lvn_four_load(x + i) * scale;
        lvn_four_ints code = {0};
        for (int k = 0; k + 1 < LVN_NF4_CODES; k++) code -= value > middle[k];
        *to++ = (uint8_t)(code[0] << 4 | code[1]);
        *to++ = (uint8_t)(code[2] << 4 | code[3]);
    }
}

/* Values of this thread's blocks. */
static void write_values(void *argument, int thread, int n_threads)
{
    const struct nf4_writer *w = argument;
    const int64_t count = w->b->rows * w->b->columns;
    int64_t block, end;
    lvn_thread_range(nf4_blocks(w->b), 1, thread, n_threads, &block, &end);
    for (; block < end; block++) {
        const int64_t first = block * LVN_NF4_BLOCK, n = count - first < LVN_NF4_BLOCK ? count - first : LVN_NF4_BLOCK;
        const float *values = w->values + first;
        float last[LVN_NF4_BLOCK] = {0};
        uint8_t codes[LVN_NF4_BLOCK / 2];
        if (n < LVN_NF4_BLOCK) values = memcpy(last, values, sizeof *last * (size_t)n);
        w->factor[block] = largest_of_block(values);
        write_codes(values, w->factor[block], codes);
        if (n % 2) codes[n / 2] &= 0xf0;
        memcpy(w->to.value + first / 2, codes, (size_t)(n + 1) / 2);
    }
}

static void write_factors(const struct nf4_writer *w)
{
    const int64_t blocks = nf4_blocks(w->b);
    double sum = 0;
    for (int64_t i = 0; i < blocks; i++) sum += w->factor[i];
    const float mean = (float)(sum / (double)blocks);
    w->to.offset[0] = mean;
    for (int64_t i = 0; i < blocks; i++) w->factor[i] -= mean;
    for (int64_t i = 0; i < blocks; i += LVN_NF4_GROUP) {
        const int64_t n = blocks - i < LVN_NF4_GROUP ? blocks - i : LVN_NF4_GROUP;
        const float max = w->to.group[i / LVN_NF4_GROUP] = largest(w->factor + i, n);
        for (int64_t k = i; k < i + n; k++)
            w->to.factor[k] = nearest_factor(w->to.map, max > 0 ? w->factor[k] / max : 0);
    }
}

static enum lvn_status nf4_write(const struct lvn_blocks *b, const float *values, void *p, int threads)
{
    struct nf4_writer w = {.b = b, .values = values, .to = lvn_nf4_of(b, p)};
    w.factor = lvn_malloc(sizeof *w.factor * (size_t)nf4_blocks(b));
    if (!w.factor) return LVN_MEMORY;
    memcpy(w.to.code, normal_floats, sizeof normal_floats);
    fill_map(w.to.map);
    lvn_team_run(threads, write_values, &w);
    write_factors(&w);
    free(w.factor);
    return LVN_OK;
}

/* --- int8 --- */

static int64_t int8_bytes(const struct lvn_blocks *b)
{
    return aligned(b->rows * b->columns) + aligned(b->rows * (int64_t)sizeof(float));
}

const float *lvn_int8_factors(const struct lvn_blocks *b, const void *p)
{
    return (const float *)((const char *)p + aligned(b->rows * b->columns));
}

static void int8_read(const struct lvn_blocks *b, const void *p, int64_t row, int64_t column, int64_t n, float *to)
{
    const int8_t *value = (const int8_t *)p + row * b->columns + column;
    const float factor = lvn_int8_factors(b, p)[row];
    for (int64_t i = 0; i < n; i++) to[i] = lvn_int8_value(value[i], factor);
}

struct int8_writer {
    const struct lvn_blocks *b;
    const float *values;
    void *to;
};

static void write_rows(void *argument, int thread, int n_threads)
{
    const struct int8_writer *w = argument;
    float *factor = (float *)(uintptr_t)lvn_int8_factors(w->b, w->to);
    int64_t row, end;
    lvn_thread_range(w->b->rows, 1, thread, n_threads, &row, &end);
    for (; row < end; row++) {
        const float *values = w->values + row * w->b->columns;
        int8_t *to = (int8_t *)w->to + row * w->b->columns;
        factor[row] = largest(values, w->b->columns);
        const float scale = factor[row] > 0 ? 127.0F / factor[row] : 0;
        for (int64_t i = 0; i < w->b->columns; i++) {
            const float x = rintf(values[i] * scale); /* a factor below 1e-36 has an infinite scale */
            to[i] = (int8_t)(x > 127 ? 127 : x < -127 ? -127 : x == x ? x : 0);
        }
    }
}

static enum lvn_status int8_write(const struct lvn_blocks *b, const float *values, void *p, int threads)
{
    struct int8_writer w = {b, values, p};
    lvn_team_run(threads, write_rows, &w);
    return LVN_OK;
}

/* --- blocks of GGUF files: those of a row are consecutive --- */

static int64_t ggml_row_bytes(const struct lvn_blocks *b)
{
    const struct lvn_ggml_block *type = lvn_ggml_block(b->dtype);
    return b->columns / type->values * type->bytes;
}

static int64_t ggml_bytes(const struct lvn_blocks *b)
{
    return aligned(b->rows * ggml_row_bytes(b));
}

static void ggml_read(const struct lvn_blocks *b, const void *p, int64_t row, int64_t column, int64_t n, float *to)
{
    lvn_ggml_read(lvn_ggml_block(b->dtype), (const char *)p + row * ggml_row_bytes(b), column, n, to);
}

/* --- all formats --- */

static const struct format {
    enum lvn_dtype dtype;
    int64_t (*bytes)(const struct lvn_blocks *b);
    void (*read)(const struct lvn_blocks *b, const void *p, int64_t row, int64_t column, int64_t n, float *to);
    /* NULL: values are not quantized to this type, only read from files */
    enum lvn_status (*write)(const struct lvn_blocks *b, const float *values, void *p, int threads);
} formats[] = {{LVN_NF4, nf4_bytes, nf4_read, nf4_write},
               {LVN_FP4, nf4_bytes, nf4_read, NULL},
               {LVN_NF4_F32, nf4_bytes, nf4_read, NULL},
               {LVN_FP4_F32, nf4_bytes, nf4_read, NULL},
               {LVN_INT8_ROWS, int8_bytes, int8_read, int8_write},
#define ROW(name, function, id, values, bytes, write, file_type) {LVN_##name, ggml_bytes, ggml_read, NULL},
               LVN_GGML_MAP(ROW)
#undef ROW
};

static const struct format *format_of(enum lvn_dtype dtype)
{
    return &formats[dtype - LVN_DTYPE_COUNT - 1];
}

int64_t lvn_blocks_bytes(const struct lvn_blocks *b)
{
    return format_of(b->dtype)->bytes(b);
}

void lvn_blocks_read(const struct lvn_blocks *b, const void *p, int64_t row, int64_t column, int64_t n, float *to)
{
    format_of(b->dtype)->read(b, p, row, column, n, to);
}

enum lvn_status lvn_blocks_write(const struct lvn_blocks *b, const float *values, void *p, int threads)
{
    const struct format *f = format_of(b->dtype);
    lvn_work_done(b->rows);
    return f->write ? f->write(b, values, p, threads) : lvn_fail(LVN_INTERNAL, "levin writes no blocks of this type");
}
