/* attention_tiles_gpu.h - the kernels of attention.k for matrix units: products of bf16 or fp16, sums and softmax in
 * fp32. As in attention_bf16_cpu.h, q, k, v, the output and its gradient are of 16 bits, and probabilities and
 * gradients of scores are rounded where they are factors. Only attention.k includes it.
 *
 * A team takes sixteen rows, queries (forward, dq) or keys (dk, dv), and holds them as left operands; the group goes
 * through the keys (the queries), STEP at a time, in local memory. Scores become left operands without a move (Dao:
 * "FlashAttention-2", 2023). Exponentials are powers of two.
 *
 * Registers hold a limited number of channels of a row. For larger heads SPLIT teams share sixteen rows: each has an
 * equal part of the channels; they add their partial scores through local memory; and each computes its own channels of
 * the result. A group then has ROWS = 128 / SPLIT rows. */
#ifndef LVN_ATTENTION_TILES_GPU_H
#define LVN_ATTENTION_TILES_GPU_H

#include "ops/matrix_gpu.h"
#ifdef LVN_DEVICE

#define STEP (D > 128 ? 32 : 64)
#define WIDTH ((D + 16 * SPLIT - 1) / (16 * SPLIT) * (16 * SPLIT))
#define DEEP (WIDTH / SPLIT / 16) /* tiles of a team's channels */
#define PITCH (WIDTH + 8)
#define TEAM_ROW (LVN_TILE_TEAM / SPLIT * 16)                            /* a team's first row among the group's */
#define TEAM_CHANNEL (SPLIT > 1 ? LVN_TILE_TEAM % SPLIT * DEEP * 16 : 0) /* a team's first channel of a row */
#define CAPACITY (SPLIT > 1 ? 8 * LVN_ITEMS : LVN_TILE_CAPACITY)         /* floats of local memory for exchanges */
#define LOG2E 1.44269504088896340736f
#define MIN (-1e30f) /* below all scores; finite, since infinity - infinity is NaN */

/* Local memory for ROWS rows, OTHER for as many of a second tensor, and two arrays of STEP rows. The arrays overlap the
 * rows if left operands are in registers. */
#ifdef LVN_TILE_IN_REGISTERS
#define DECLARE_TILES(rows_memory, first, second)                                                                      \
    LVN_TILES(rows_memory, (ROWS > 2 * STEP ? ROWS : 2 * STEP) * PITCH);                                               \
    LVN_LOCAL lvn_ushort *first = rows_memory, *second = rows_memory + STEP * PITCH
#define OTHER(rows_memory) rows_memory
#else
#define DECLARE_TILES(rows_memory, first, second)                                                                      \
    LVN_TILES(rows_memory, 2 * ROWS * PITCH);                                                                          \
    LVN_TILES(first, STEP *PITCH);                                                                                     \
    LVN_TILES(second, STEP *PITCH)
#define OTHER(rows_memory) (rows_memory + ROWS * PITCH)
#endif

/* Load this item's part of rows first .. first + rows - 1 of the T rows of x that begin at element `at`, into
 * registers: PARTS(rows) times eight elements; zeros behind the end, and behind D. It overlaps with the computation on
 * earlier rows. */
#define PARTS(rows) (((rows) * (WIDTH / 8) + LVN_ITEMS - 1) / LVN_ITEMS)
#define FETCH(part, x, at, step_of, first, rows, T)                                                                    \
    LVN_UNROLLED                                                                                                       \
    for (int n_ = 0; n_ < PARTS(rows); n_++) {                                                                         \
        int e_ = LVN_ITEM + n_ * LVN_ITEMS, r_ = e_ / (WIDTH / 8), d_ = e_ % (WIDTH / 8) * 8;                          \
        bool in_ = r_ < (rows) && (first) + r_ < (T) && d_ < D;                                                        \
        LVN_UNROLLED                                                                                                   \
        for (int k_ = 0; k_ < 4; k_++) (part)[n_].v[k_] = 0;                                                           \
        if (in_) (part)[n_] = lvn_get_eight(LVN_AT(const lvn_ushort, x), (at) + ((first) + r_) * (step_of) + d_);      \
    }
#define STORE(to, part, rows)                                                                                          \
    LVN_UNROLLED                                                                                                       \
    for (int n_ = 0; n_ < PARTS(rows); n_++) {                                                                         \
        int e_ = LVN_ITEM + n_ * LVN_ITEMS, r_ = e_ / (WIDTH / 8), d_ = e_ % (WIDTH / 8) * 8;                          \
        LVN_UNROLLED                                                                                                   \
        for (int k_ = 0; k_ < 4; k_++)                                                                                 \
            if (r_ < (rows)) ((LVN_LOCAL lvn_uint *)((to) + r_ * PITCH + d_))[k_] = (part)[n_].v[k_];                  \
    }
/* Load rows first .. first + ROWS - 1 of x; this team's part becomes its left operands. */
#define LOAD_LEFT(tiles, rows_memory, x, at, step_of, T)                                                               \
    {                                                                                                                  \
        struct lvn_eight part_[PARTS(ROWS)];                                                                           \
        FETCH(part_, x, at, step_of, first, ROWS, T);                                                                  \
        LVN_BARRIER();                                                                                                 \
        STORE(rows_memory, part_, ROWS);                                                                               \
        LVN_BARRIER();                                                                                                 \
        LVN_UNROLLED                                                                                                   \
        for (int d_ = 0; d_ < DEEP; d_++)                                                                              \
            (tiles)[d_] = lvn_tile_left((rows_memory) + TEAM_ROW * PITCH + TEAM_CHANNEL + d_ * 16, PITCH);             \
    }

/* sum (16,16) = this team's rows times the transpose of sixteen rows of `others`. */
LVN_FUNCTION void scores(float *sum, const LVN_LEFT *rows, LVN_LOCAL const lvn_ushort *others,
                         LVN_LOCAL float *capacity)
{
    LVN_UNROLLED
    for (int e = 0; e < 8; e++) sum[e] = 0;
    LVN_UNROLLED
    for (int d = 0; d < DEEP; d++) lvn_tile_mad(sum, rows[d], lvn_tile_right(others + TEAM_CHANNEL + d * 16, PITCH));
#if SPLIT > 1
    const int first = LVN_TILE_TEAM / SPLIT * SPLIT * LVN_TEAM + LVN_TILE_ITEM % LVN_TEAM;
    LVN_BARRIER();
    LVN_UNROLLED
    for (int e = 0; e < 8; e++) capacity[e * LVN_ITEMS + LVN_TILE_ITEM] = sum[e];
    LVN_BARRIER();
    LVN_UNROLLED
    for (int e = 0; e < 8; e++) {
        sum[e] = capacity[e * LVN_ITEMS + first];
        LVN_UNROLLED
        for (int part = 1; part < SPLIT; part++) sum[e] += capacity[e * LVN_ITEMS + first + part * LVN_TEAM];
    }
#endif
}

/* sum (16, this team's channels) += x (16,16) times sixteen rows of `others`. */
LVN_FUNCTION void add_rows(float *sum, const float *x, LVN_LOCAL const lvn_ushort *others, LVN_LOCAL float *capacity)
{
    LVN_LEFT left = lvn_tile_left_of(x, capacity);
    LVN_UNROLLED
    for (int d = 0; d < DEEP; d++)
        lvn_tile_mad(sum + 8 * d, left, lvn_tile_right_transposed(others + TEAM_CHANNEL + d * 16, PITCH));
}

/* Query t sees the keys below `end`, and, if causal, below t + before. */
struct mask {
    int end;
    int before;
    bool causal;
};

LVN_FUNCTION struct mask mask_make(const struct sizes *s, lvn_long max)
{
    struct mask r;
    lvn_long end = s->Tk < max ? s->Tk : max;
    if (s->cached && end > s->position + s->Tq) end = s->position + s->Tq;
    r.end = (int)end, r.causal = s->causal != 0;
    r.before = (int)(s->cached ? s->position : s->Tk - s->Tq) + 1;
    return r;
}

LVN_FUNCTION bool is_visible(struct mask s, int t, int key)
{
    return key < s.end && (!s.causal || key < t + s.before);
}

#ifdef DROPOUT
#define DROPOUT_FACTOR(t, key) dropout_factor(LVN_NOW(now), &s, b, h, t, key, threshold, dropout_scale, op)
#else
#define DROPOUT_FACTOR(t, key) 1
#endif

#if defined(ATTENTION_FORWARD)
LVN_TILE_KERNEL(attention_forward) FORWARD
{
    DECLARE_TILES(Q, K, V);
    LVN_SHARED float capacity[CAPACITY];
    MAKE_SIZES;
    lvn_long b = LVN_GROUP_Z, h = LVN_GROUP_Y, hk = h / (Hq / Hkv);
    /* The last rows see the most keys: they come first. */
    lvn_long first = ((Tq + ROWS - 1) / ROWS - 1 - LVN_GROUP_X) * ROWS;
    struct mask mask = mask_make(&s, LVN_HAS(lengths) ? LVN_AT(int, lengths)[b] : Tk);
    lvn_long last = first + ROWS < Tq ? first + ROWS - 1 : Tq - 1, end = visible(&s, last, mask.end);
    int t0 = (int)first + TEAM_ROW;
    float top[LVN_TILE_ROWS], sum[LVN_TILE_ROWS], out[8 * DEEP];
    LVN_LEFT q_rows[DEEP];
    LVN_UNROLLED
    for (int r = 0; r < LVN_TILE_ROWS; r++) top[r] = -LVN_INFINITY, sum[r] = 0;
    LVN_UNROLLED
    for (int i = 0; i < 8 * DEEP; i++) out[i] = 0;
    if (end < 1) end = 1;
    LOAD_LEFT(q_rows, Q, q, b * q0 + h * q2, q1, Tq);
    struct lvn_eight next_k[PARTS(STEP)], next_v[PARTS(STEP)];
    FETCH(next_k, k, b * k0 + hk * k2, k1, 0, STEP, Tk);
    FETCH(next_v, v, b * v0 + hk * v2, v1, 0, STEP, Tk);
    for (lvn_long key0 = 0; key0 < end; key0 += STEP) {
        float x[STEP / 2], high[LVN_TILE_ROWS], factor[LVN_TILE_ROWS];
        LVN_BARRIER();
        STORE(K, next_k, STEP);
        STORE(V, next_v, STEP);
        LVN_BARRIER();
        FETCH(next_k, k, b * k0 + hk * k2, k1, key0 + STEP, STEP, Tk);
        FETCH(next_v, v, b * v0 + hk * v2, v1, key0 + STEP, STEP, Tk);
        LVN_UNROLLED
        for (int j = 0; j < STEP / 16; j++) scores(x + 8 * j, q_rows, K + j * 16 * PITCH, capacity);
        LVN_UNROLLED
        for (int r = 0; r < LVN_TILE_ROWS; r++) high[r] = top[r];
        LVN_UNROLLED
        for (int i = 0; i < STEP / 2; i++) {
            int t = t0 + LVN_TILE_ROW(i % 8), key = (int)key0 + i / 8 * 16 + LVN_TILE_COLUMN(i % 8),
                r = LVN_TILE_ROW_OF(i % 8);
            x[i] = is_visible(mask, t, key) ? scale * LOG2E * x[i] : -LVN_INFINITY;
            high[r] = lvn_max(high[r], x[i]);
        }
        LVN_UNROLLED
        for (int r = 0; r < LVN_TILE_ROWS; r++) {
            high[r] = lvn_max(lvn_tile_row_max(high[r], capacity), MIN);
            factor[r] = lvn_exp2(top[r] - high[r]);
            top[r] = high[r];
            sum[r] *= factor[r];
        }
        LVN_UNROLLED
        for (int i = 0; i < STEP / 2; i++) {
            int r = LVN_TILE_ROW_OF(i % 8);
            x[i] = lvn_exp2(x[i] - top[r]);
            sum[r] += x[i];
            x[i] *= DROPOUT_FACTOR(t0 + LVN_TILE_ROW(i % 8), key0 + i / 8 * 16 + LVN_TILE_COLUMN(i % 8));
        }
        LVN_UNROLLED
        for (int i = 0; i < 8 * DEEP; i++) out[i] *= factor[LVN_TILE_ROW_OF(i % 8)];
        LVN_UNROLLED
        for (int j = 0; j < STEP / 16; j++) add_rows(out, x + 8 * j, V + j * 16 * PITCH, capacity);
    }
    LVN_UNROLLED
    for (int r = 0; r < LVN_TILE_ROWS; r++) sum[r] = lvn_tile_row_sum(sum[r], capacity);
    LVN_UNROLLED
    for (int i = 0; i < 8 * DEEP; i++) {
        int t = t0 + LVN_TILE_ROW(i % 8), d = TEAM_CHANNEL + i / 8 * 16 + LVN_TILE_COLUMN(i % 8);
        int r = LVN_TILE_ROW_OF(i % 8);
        bool none = !is_visible(mask, t, 0);
        if (t < Tq && d < D) LVN_PUT(o, ((b * Tq + t) * Hq + h) * D + d, none ? 0 : out[i] / sum[r]);
        if (t < Tq && d == 0) LVN_PUT(lse, (b * Hq + h) * Tq + t, none ? 0 : top[r] / LOG2E + lvn_log(sum[r]));
    }
}

#elif defined(ATTENTION_DQ)
LVN_TILE_KERNEL(attention_dq) BACKWARD_DQ
{
    DECLARE_TILES(rows_memory, K, V);
    LVN_SHARED float capacity[CAPACITY];
    MAKE_SIZES;
    lvn_long b = LVN_GROUP_Z, h = LVN_GROUP_Y, hk = h / (Hq / Hkv);
    lvn_long first = ((Tq + ROWS - 1) / ROWS - 1 - LVN_GROUP_X) * ROWS;
    struct mask mask = mask_make(&s, LVN_HAS(lengths) ? LVN_AT(int, lengths)[b] : Tk);
    lvn_long last = first + ROWS < Tq ? first + ROWS - 1 : Tq - 1, end = visible(&s, last, mask.end);
    int t0 = (int)first + TEAM_ROW;
    float l[LVN_TILE_ROWS], rest[LVN_TILE_ROWS], sum[8 * DEEP];
    LVN_LEFT q_rows[DEEP], g_rows[DEEP];
    LVN_UNROLLED
    for (int e = 0; e < 8; e++) {
        int t = t0 + LVN_TILE_ROW(e), r = LVN_TILE_ROW_OF(e);
        lvn_long row = (b * Hq + h) * Tq + (t < Tq ? t : Tq - 1);
        l[r] = LVN_GET(lse, row) * LOG2E, rest[r] = LVN_GET(delta, row);
    }
    LVN_UNROLLED
    for (int i = 0; i < 8 * DEEP; i++) sum[i] = 0;
    if (end < 1) end = 1;
    LOAD_LEFT(q_rows, rows_memory, q, b * q0 + h * q2, q1, Tq);
    LOAD_LEFT(g_rows, OTHER(rows_memory), dout, b * Tq * Hq * D + h * D, Hq * D, Tq);
    struct lvn_eight next_k[PARTS(STEP)], next_v[PARTS(STEP)];
    FETCH(next_k, k, b * k0 + hk * k2, k1, 0, STEP, Tk);
    FETCH(next_v, v, b * v0 + hk * v2, v1, 0, STEP, Tk);
    for (lvn_long key0 = 0; key0 < end; key0 += STEP) {
        LVN_BARRIER();
        STORE(K, next_k, STEP);
        STORE(V, next_v, STEP);
        LVN_BARRIER();
        FETCH(next_k, k, b * k0 + hk * k2, k1, key0 + STEP, STEP, Tk);
        FETCH(next_v, v, b * v0 + hk * v2, v1, key0 + STEP, STEP, Tk);
        for (int j = 0; j < STEP; j += 16) {
            float x[8], dp[8];
            scores(x, q_rows, K + j * PITCH, capacity);
            scores(dp, g_rows, V + j * PITCH, capacity);
            LVN_UNROLLED
            for (int e = 0; e < 8; e++) {
                int t = t0 + LVN_TILE_ROW(e), key = (int)key0 + j + LVN_TILE_COLUMN(e), r = LVN_TILE_ROW_OF(e);
                float p = is_visible(mask, t, key) ? lvn_exp2(scale * LOG2E * x[e] - l[r]) : 0;
                x[e] = scale * p * (DROPOUT_FACTOR(t, key) * dp[e] - rest[r]);
            }
            add_rows(sum, x, K + j * PITCH, capacity);
        }
    }
    LVN_UNROLLED
    for (int i = 0; i < 8 * DEEP; i++) {
        int t = t0 + LVN_TILE_ROW(i % 8), d = TEAM_CHANNEL + i / 8 * 16 + LVN_TILE_COLUMN(i % 8);
        if (t < Tq && d < D) LVN_GIVE(dq, b * d0 + t * d1 + h * d2 + d, add, sum[i]);
    }
}

#else
/* Rows are keys, columns queries. */
LVN_TILE_KERNEL(attention_dkv) BACKWARD_DKV
{
    DECLARE_TILES(rows_memory, Q, G);
    LVN_SHARED float capacity[CAPACITY], L[STEP], rest[STEP];
    MAKE_SIZES;
    lvn_long b = LVN_GROUP_Z, hk = LVN_GROUP_Y, first = LVN_GROUP_X * ROWS, shared = Hq / Hkv;
    struct mask mask = mask_make(&s, LVN_HAS(lengths) ? LVN_AT(int, lengths)[b] : Tk);
    lvn_long begin = causal && first >= mask.before ? (first - mask.before + 1) / STEP * STEP : 0;
    int first_key = (int)first + TEAM_ROW;
    float a[8 * DEEP], c[8 * DEEP];
    LVN_LEFT k_rows[DEEP], v_rows[DEEP];
    LVN_UNROLLED
    for (int i = 0; i < 8 * DEEP; i++) a[i] = c[i] = 0;
    if (begin >= Tq) begin = 0;
    LOAD_LEFT(k_rows, rows_memory, k, b * k0 + hk * k2, k1, Tk);
    LOAD_LEFT(v_rows, OTHER(rows_memory), v, b * v0 + hk * v2, v1, Tk);
    for (lvn_long h = hk * shared; h < (hk + 1) * shared; h++) {
        struct lvn_eight next_q[PARTS(STEP)], next_g[PARTS(STEP)];
        FETCH(next_q, q, b * q0 + h * q2, q1, begin, STEP, Tq);
        FETCH(next_g, dout, b * Tq * Hq * D + h * D, Hq * D, begin, STEP, Tq);
        for (lvn_long t0 = begin; t0 < Tq; t0 += STEP) {
            lvn_long row = (b * Hq + h) * Tq + t0;
            LVN_BARRIER();
            STORE(Q, next_q, STEP);
            STORE(G, next_g, STEP);
            for (int i = LVN_ITEM; i < STEP; i += LVN_ITEMS) {
                bool valid = t0 + i < Tq;
                L[i] = valid ? LVN_GET(lse, row + i) * LOG2E : 0;
                rest[i] = valid ? LVN_GET(delta, row + i) : 0;
            }
            LVN_BARRIER();
            FETCH(next_q, q, b * q0 + h * q2, q1, t0 + STEP, STEP, Tq);
            FETCH(next_g, dout, b * Tq * Hq * D + h * D, Hq * D, t0 + STEP, STEP, Tq);
            for (int j = 0; j < STEP; j += 16) {
                float x[8], dp[8];
                scores(x, k_rows, Q + j * PITCH, capacity);
                scores(dp, v_rows, G + j * PITCH, capacity);
                LVN_UNROLLED
                for (int e = 0; e < 8; e++) {
                    int i = j + LVN_TILE_COLUMN(e), t = (int)t0 + i, key = first_key + LVN_TILE_ROW(e);
                    float p = t < Tq && is_visible(mask, t, key) ? lvn_exp2(scale * LOG2E * x[e] - L[i]) : 0;
                    float z = DROPOUT_FACTOR(t, key);
                    x[e] = scale * p * (z * dp[e] - rest[i]);
                    dp[e] = p * z;
                }
                add_rows(a, x, Q + j * PITCH, capacity);
                add_rows(c, dp, G + j * PITCH, capacity);
            }
        }
    }
    LVN_UNROLLED
    for (int i = 0; i < 8 * DEEP; i++) {
        lvn_long key = first_key + LVN_TILE_ROW(i % 8), d = TEAM_CHANNEL + i / 8 * 16 + LVN_TILE_COLUMN(i % 8);
        if (key >= Tk || d >= D) continue;
        if (LVN_HAS(dk)) LVN_GIVE(dk, b * d0 + key * d1 + hk * d2 + d, add_k, a[i]);
        if (LVN_HAS(dv)) LVN_GIVE(dv, b * e0 + key * e1 + hk * e2 + d, add_v, c[i]);
    }
}

#endif
#endif
#endif
