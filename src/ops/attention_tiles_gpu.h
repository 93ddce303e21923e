/* attention_tiles_gpu.h - attention.k on matrix units: products of bf16 or fp16, sums and softmax in fp32, as
 * attention_bf16_cpu.h has it: q, k, v, the output and its gradient have 16 bits as they come, probabilities and the
 * gradients of scores are rounded where they are factors.
 *
 * A team takes sixteen rows, queries (forward, dq) or keys (dk, dv), and holds them as left operands; the group walks
 * along the others, BESIDE at a time, in local memory. Sums of scores become left operands where they lie (Dao:
 * "FlashAttention-2", 2023). Exponentials are of two.
 *
 * Registers hold only so many channels of a row. SPLIT teams share sixteen rows where heads are larger: each has an
 * equal part of the channels, they exchange what their parts add to a score through local memory, and each makes its
 * own channels of the result. A group then has ROWS = 128 / SPLIT rows. */
#ifndef LVN_ATTENTION_TILES_GPU_H
#define LVN_ATTENTION_TILES_GPU_H

#include "ops/matrix_gpu.h"
#ifdef LVN_DEVICE

#define BESIDE (D > 128 ? 32 : 64)
#define WIDTH ((D + 16 * SPLIT - 1) / (16 * SPLIT) * (16 * SPLIT))
#define DEEP (WIDTH / SPLIT / 16) /* tiles of a team's channels */
#define PITCH (WIDTH + 8)
#define TEAM_ROW (LVN_TILE_TEAM / SPLIT * 16)                            /* where a team's rows begin in the group's, */
#define TEAM_CHANNEL (SPLIT > 1 ? LVN_TILE_TEAM % SPLIT * DEEP * 16 : 0) /* and its channels in a row */
#define CAPACITY (SPLIT > 1 ? 8 * LVN_ITEMS : LVN_TILE_CAPACITY)         /* floats of local memory for exchanges */
#define LOG2E 1.44269504088896340736f
#define MIN (-1e30f) /* below all scores; less it are numbers, which less -infinity are none */

/* Room for ROWS rows, and OTHER for as many of a second kind, which are written over by two times BESIDE others where
 * operands are held in registers. */
#ifdef LVN_TILE_HELD
#define ROOMS(own, first, second)                                                                                      \
    LVN_TILES(own, (ROWS > 2 * BESIDE ? ROWS : 2 * BESIDE) * PITCH);                                                   \
    LVN_LOCAL lvn_ushort *first = own, *second = own + BESIDE * PITCH
#define OTHER(own) own
#else
#define ROOMS(own, first, second)                                                                                      \
    LVN_TILES(own, 2 * ROWS * PITCH);                                                                                  \
    LVN_TILES(first, BESIDE *PITCH);                                                                                   \
    LVN_TILES(second, BESIDE *PITCH)
#define OTHER(own) (own + ROWS * PITCH)
#endif

/* This item's part of rows first .. first + rows - 1, of T rows of x from element `at` on, in PARTS(rows) pieces of
 * eight; zeros behind the end, and behind D. Fetched while the group computes with those before them. */
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
/* Rows first .. first + ROWS - 1 of x: this team's part, as left operands. */
#define HOLD(tiles, own, x, at, step_of, T)                                                                            \
    {                                                                                                                  \
        struct lvn_eight part_[PARTS(ROWS)];                                                                           \
        FETCH(part_, x, at, step_of, first, ROWS, T);                                                                  \
        LVN_BARRIER();                                                                                                 \
        STORE(own, part_, ROWS);                                                                                       \
        LVN_BARRIER();                                                                                                 \
        LVN_UNROLLED                                                                                                   \
        for (int d_ = 0; d_ < DEEP; d_++)                                                                              \
            (tiles)[d_] = lvn_tile_left((own) + TEAM_ROW * PITCH + TEAM_CHANNEL + d_ * 16, PITCH);                     \
    }

/* sum (16,16) = the held rows times sixteen rows of `beside`, transposed. */
LVN_FUNCTION void scores(float *sum, const LVN_LEFT *held, LVN_LOCAL const lvn_ushort *beside,
                         LVN_LOCAL float *capacity)
{
    LVN_UNROLLED
    for (int e = 0; e < 8; e++) sum[e] = 0;
    LVN_UNROLLED
    for (int d = 0; d < DEEP; d++) lvn_tile_mad(sum, held[d], lvn_tile_right(beside + TEAM_CHANNEL + d * 16, PITCH));
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

/* sum (16, this team's channels) += x (16,16) times sixteen rows of `beside`. */
LVN_FUNCTION void add_rows(float *sum, const float *x, LVN_LOCAL const lvn_ushort *beside, LVN_LOCAL float *capacity)
{
    LVN_LEFT left = lvn_tile_left_of(x, capacity);
    LVN_UNROLLED
    for (int d = 0; d < DEEP; d++)
        lvn_tile_mad(sum + 8 * d, left, lvn_tile_right_turned(beside + TEAM_CHANNEL + d * 16, PITCH));
}

/* Who sees whom: query t keys below `end`, and below t + ahead where that is wanted. */
struct sight {
    int end, ahead;
    bool causal;
};

LVN_FUNCTION struct sight sight_of(const struct sizes *s, lvn_long max)
{
    struct sight r;
    lvn_long end = s->Tk < max ? s->Tk : max;
    if (s->cached && end > s->position + s->Tq) end = s->position + s->Tq;
    r.end = (int)end, r.causal = s->causal != 0;
    r.ahead = (int)(s->cached ? s->position : s->Tk - s->Tq) + 1;
    return r;
}

LVN_FUNCTION bool sees(struct sight s, int t, int key)
{
    return key < s.end && (!s.causal || key < t + s.ahead);
}

#ifdef DROPOUT
#define KEPT(t, key) kept_of(LVN_NOW(now), &s, b, h, t, key, threshold, kept, op)
#else
#define KEPT(t, key) 1
#endif

#if defined(ATTENTION_FORWARD)
LVN_TILE_KERNEL(attention_forward) FORWARD
{
    ROOMS(Q, K, V);
    LVN_SHARED float capacity[CAPACITY];
    MAKE_SIZES;
    lvn_long b = LVN_GROUP_Z, h = LVN_GROUP_Y, hk = h / (Hq / Hkv);
    /* The last rows see most: they come first. */
    lvn_long first = ((Tq + ROWS - 1) / ROWS - 1 - LVN_GROUP_X) * ROWS;
    struct sight sight = sight_of(&s, LVN_HAS(lengths) ? LVN_AT(int, lengths)[b] : Tk);
    lvn_long last = first + ROWS < Tq ? first + ROWS - 1 : Tq - 1, end = visible(&s, last, sight.end);
    int t0 = (int)first + TEAM_ROW;
    float top[LVN_TILE_ROWS], sum[LVN_TILE_ROWS], out[8 * DEEP];
    LVN_LEFT q_rows[DEEP];
    LVN_UNROLLED
    for (int r = 0; r < LVN_TILE_ROWS; r++) top[r] = -LVN_INFINITY, sum[r] = 0;
    LVN_UNROLLED
    for (int i = 0; i < 8 * DEEP; i++) out[i] = 0;
    if (end < 1) end = 1;
    HOLD(q_rows, Q, q, b * q0 + h * q2, q1, Tq);
    struct lvn_eight next_k[PARTS(BESIDE)], next_v[PARTS(BESIDE)];
    FETCH(next_k, k, b * k0 + hk * k2, k1, 0, BESIDE, Tk);
    FETCH(next_v, v, b * v0 + hk * v2, v1, 0, BESIDE, Tk);
    for (lvn_long key0 = 0; key0 < end; key0 += BESIDE) {
        float x[BESIDE / 2], high[LVN_TILE_ROWS], factor[LVN_TILE_ROWS];
        LVN_BARRIER();
        STORE(K, next_k, BESIDE);
        STORE(V, next_v, BESIDE);
        LVN_BARRIER();
        FETCH(next_k, k, b * k0 + hk * k2, k1, key0 + BESIDE, BESIDE, Tk);
        FETCH(next_v, v, b * v0 + hk * v2, v1, key0 + BESIDE, BESIDE, Tk);
        LVN_UNROLLED
        for (int j = 0; j < BESIDE / 16; j++) scores(x + 8 * j, q_rows, K + j * 16 * PITCH, capacity);
        LVN_UNROLLED
        for (int r = 0; r < LVN_TILE_ROWS; r++) high[r] = top[r];
        LVN_UNROLLED
        for (int i = 0; i < BESIDE / 2; i++) {
            int t = t0 + LVN_TILE_ROW(i % 8), key = (int)key0 + i / 8 * 16 + LVN_TILE_COLUMN(i % 8),
                r = LVN_TILE_ROW_OF(i % 8);
            x[i] = sees(sight, t, key) ? scale * LOG2E * x[i] : -LVN_INFINITY;
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
        for (int i = 0; i < BESIDE / 2; i++) {
            int r = LVN_TILE_ROW_OF(i % 8);
            x[i] = lvn_exp2(x[i] - top[r]);
            sum[r] += x[i];
            x[i] *= KEPT(t0 + LVN_TILE_ROW(i % 8), key0 + i / 8 * 16 + LVN_TILE_COLUMN(i % 8));
        }
        LVN_UNROLLED
        for (int i = 0; i < 8 * DEEP; i++) out[i] *= factor[LVN_TILE_ROW_OF(i % 8)];
        LVN_UNROLLED
        for (int j = 0; j < BESIDE / 16; j++) add_rows(out, x + 8 * j, V + j * 16 * PITCH, capacity);
    }
    LVN_UNROLLED
    for (int r = 0; r < LVN_TILE_ROWS; r++) sum[r] = lvn_tile_row_sum(sum[r], capacity);
    LVN_UNROLLED
    for (int i = 0; i < 8 * DEEP; i++) {
        int t = t0 + LVN_TILE_ROW(i % 8), d = TEAM_CHANNEL + i / 8 * 16 + LVN_TILE_COLUMN(i % 8);
        int r = LVN_TILE_ROW_OF(i % 8);
        bool none = !sees(sight, t, 0);
        if (t < Tq && d < D) LVN_PUT(o, ((b * Tq + t) * Hq + h) * D + d, none ? 0 : out[i] / sum[r]);
        if (t < Tq && d == 0) LVN_PUT(lse, (b * Hq + h) * Tq + t, none ? 0 : top[r] / LOG2E + lvn_log(sum[r]));
    }
}

#elif defined(ATTENTION_DQ)
LVN_TILE_KERNEL(attention_dq) BACKWARD_DQ
{
    ROOMS(own, K, V);
    LVN_SHARED float capacity[CAPACITY];
    MAKE_SIZES;
    lvn_long b = LVN_GROUP_Z, h = LVN_GROUP_Y, hk = h / (Hq / Hkv);
    lvn_long first = ((Tq + ROWS - 1) / ROWS - 1 - LVN_GROUP_X) * ROWS;
    struct sight sight = sight_of(&s, LVN_HAS(lengths) ? LVN_AT(int, lengths)[b] : Tk);
    lvn_long last = first + ROWS < Tq ? first + ROWS - 1 : Tq - 1, end = visible(&s, last, sight.end);
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
    HOLD(q_rows, own, q, b * q0 + h * q2, q1, Tq);
    HOLD(g_rows, OTHER(own), dout, b * Tq * Hq * D + h * D, Hq * D, Tq);
    struct lvn_eight next_k[PARTS(BESIDE)], next_v[PARTS(BESIDE)];
    FETCH(next_k, k, b * k0 + hk * k2, k1, 0, BESIDE, Tk);
    FETCH(next_v, v, b * v0 + hk * v2, v1, 0, BESIDE, Tk);
    for (lvn_long key0 = 0; key0 < end; key0 += BESIDE) {
        LVN_BARRIER();
        STORE(K, next_k, BESIDE);
        STORE(V, next_v, BESIDE);
        LVN_BARRIER();
        FETCH(next_k, k, b * k0 + hk * k2, k1, key0 + BESIDE, BESIDE, Tk);
        FETCH(next_v, v, b * v0 + hk * v2, v1, key0 + BESIDE, BESIDE, Tk);
        for (int j = 0; j < BESIDE; j += 16) {
            float x[8], dp[8];
            scores(x, q_rows, K + j * PITCH, capacity);
            scores(dp, g_rows, V + j * PITCH, capacity);
            LVN_UNROLLED
            for (int e = 0; e < 8; e++) {
                int t = t0 + LVN_TILE_ROW(e), key = (int)key0 + j + LVN_TILE_COLUMN(e), r = LVN_TILE_ROW_OF(e);
                float p = sees(sight, t, key) ? lvn_exp2(scale * LOG2E * x[e] - l[r]) : 0;
                x[e] = scale * p * (KEPT(t, key) * dp[e] - rest[r]);
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
    ROOMS(own, Q, G);
    LVN_SHARED float capacity[CAPACITY], L[BESIDE], rest[BESIDE];
    MAKE_SIZES;
    lvn_long b = LVN_GROUP_Z, hk = LVN_GROUP_Y, first = LVN_GROUP_X * ROWS, shared = Hq / Hkv;
    struct sight sight = sight_of(&s, LVN_HAS(lengths) ? LVN_AT(int, lengths)[b] : Tk);
    lvn_long begin = causal && first >= sight.ahead ? (first - sight.ahead + 1) / BESIDE * BESIDE : 0;
    int first_key = (int)first + TEAM_ROW;
    float a[8 * DEEP], c[8 * DEEP];
    LVN_LEFT k_rows[DEEP], v_rows[DEEP];
    LVN_UNROLLED
    for (int i = 0; i < 8 * DEEP; i++) a[i] = c[i] = 0;
    if (begin >= Tq) begin = 0;
    HOLD(k_rows, own, k, b * k0 + hk * k2, k1, Tk);
    HOLD(v_rows, OTHER(own), v, b * v0 + hk * v2, v1, Tk);
    for (lvn_long h = hk * shared; h < (hk + 1) * shared; h++) {
        struct lvn_eight next_q[PARTS(BESIDE)], next_g[PARTS(BESIDE)];
        FETCH(next_q, q, b * q0 + h * q2, q1, begin, BESIDE, Tq);
        FETCH(next_g, dout, b * Tq * Hq * D + h * D, Hq * D, begin, BESIDE, Tq);
        for (lvn_long t0 = begin; t0 < Tq; t0 += BESIDE) {
            lvn_long row = (b * Hq + h) * Tq + t0;
            LVN_BARRIER();
            STORE(Q, next_q, BESIDE);
            STORE(G, next_g, BESIDE);
            for (int i = LVN_ITEM; i < BESIDE; i += LVN_ITEMS) {
                bool there = t0 + i < Tq;
                L[i] = there ? LVN_GET(lse, row + i) * LOG2E : 0;
                rest[i] = there ? LVN_GET(delta, row + i) : 0;
            }
            LVN_BARRIER();
            FETCH(next_q, q, b * q0 + h * q2, q1, t0 + BESIDE, BESIDE, Tq);
            FETCH(next_g, dout, b * Tq * Hq * D + h * D, Hq * D, t0 + BESIDE, BESIDE, Tq);
            for (int j = 0; j < BESIDE; j += 16) {
                float x[8], dp[8];
                scores(x, k_rows, Q + j * PITCH, capacity);
                scores(dp, v_rows, G + j * PITCH, capacity);
                LVN_UNROLLED
                for (int e = 0; e < 8; e++) {
                    int i = j + LVN_TILE_COLUMN(e), t = (int)t0 + i, key = first_key + LVN_TILE_ROW(e);
                    float p = t < Tq && sees(sight, t, key) ? lvn_exp2(scale * LOG2E * x[e] - L[i]) : 0;
                    float z = KEPT(t, key);
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
