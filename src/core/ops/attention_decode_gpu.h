/* attention_decode_gpu.h - attention of few queries and many keys, as when text is generated token by token. Only
 * attention.k includes it.
 *
 * A group for each head would leave most of a device idle. So the keys are divided into chunks, and a group processes
 * one chunk for ROWS rows. A row is one query of one of the heads that share a key head, so keys and values are loaded
 * once for all of them. It writes the maximum of a row's scores, the sum of their exponentials and the weighted values;
 * a second kernel adds up the chunks of a row ("Flash-Decoding for long-context inference", Dao, Haziza, Massa, Sizov,
 * 2023).
 *
 * A captured step has the same groups for every position. It launches chunks for the whole cache; both kernels skip
 * those that no query attends to. The chunks of a row follow from its own keys alone, so its bits do not depend on the
 * other rows of the batch. */
#ifndef LVN_ATTENTION_DECODE_GPU_H
#define LVN_ATTENTION_DECODE_GPU_H

#include "ops/numbers_gpu.h"
#ifdef LVN_DEVICE

/* Eight work-items share a key. Each holds DEEP vectors of LVN_WIDTH consecutive channels. */
#define LANES 8
#define SLOTS (LVN_ITEMS / LANES)
#define ROUNDS (KEYS / SLOTS)
#define DEEP ((D + LANES * LVN_WIDTH - 1) / (LANES * LVN_WIDTH))
#define CHANNELS (DEEP * LANES * LVN_WIDTH)
#define FEW 8 /* parts of a row's keys, whose maxima are computed separately */
#define SCORES_MEMORY (ROWS * KEYS * (LANES + 1))
#define VALUES_MEMORY (SLOTS * (CHANNELS + 1))
#define SIDE (D > 128 ? 256 : D > 64 ? 128 : D > 32 ? 64 : 32) /* items for the channels of a row */

/* In CUDA a group without work ends immediately. In OpenCL it must reach the barriers; its results are not read. */
#ifdef LVN_CUDA
#define END_GROUP_IF(condition)                                                                                        \
    if (condition) return
#else
#define END_GROUP_IF(condition)
#endif

/* Load this item's channels of keys [first, end) from x, whose key 0 is at element `at`; zeros for other keys. */
#define LOAD_KEYS(to, x, at, step_of)                                                                                  \
    LVN_UNROLLED                                                                                                       \
    for (int n_ = 0; n_ < ROUNDS * DEEP; n_++) {                                                                       \
        int key_ = first + n_ / DEEP * SLOTS + slot, d_ = (n_ % DEEP * LANES + lane) * LVN_WIDTH;                      \
        LVN_EACH(c_)(to)[n_].v[c_] = 0;                                                                                \
        if (key_ < end && d_ < D) (to)[n_] = LVN_GETS(x, (at) + key_ * (step_of) + d_);                                \
    }
/* This item's channel c of its n-th vector. */
#define CHANNEL(n, c) (((n)*LANES + lane) * LVN_WIDTH + (c))

#ifdef DROPOUT
#define DROPOUT_FACTOR(r, key)                                                                                         \
    dropout_factor(LVN_NOW(now), &s, b, hk *heads + (r) % heads, (r) / heads, key, threshold, dropout_scale, op)
#else
#define DROPOUT_FACTOR(r, key) 1
#endif

/* The range of cache rows that query t may attend to, and whether it attends to the key in one row. */
LVN_FUNCTION lvn_long rows_end(const struct sizes *s, lvn_long t, lvn_long max)
{
#ifdef RING
    return s->position + s->Tq < s->Tk ? s->position + s->Tq : s->Tk;
#else
    return visible(s, t, max);
#endif
}
LVN_FUNCTION lvn_long rows_begin(const struct sizes *s, lvn_long t)
{
#ifdef RING
    return 0;
#else
    return first_seen(s, t);
#endif
}
LVN_FUNCTION bool sees_row(const struct sizes *s, lvn_long t, lvn_long row, lvn_long max)
{
    lvn_long key = row;
#ifdef RING
    lvn_long last = s->position + s->Tq - 1;
    if (row > last || row >= s->Tk) return false;
    key = last - (last - row) % s->Tk;
#endif
    return key < visible(s, t, max) && key >= first_seen(s, t);
}

/* This item's partial dot products of all rows of Q with the chunk's keys. */
LVN_FUNCTION void multiply_keys(LVN_LOCAL float *X, LVN_LOCAL const float *Q, const struct lvn_numbers *K, int lane,
                                int slot)
{
    for (int r = 0; r < ROWS; r++) {
        LVN_UNROLLED
        for (int m = 0; m < ROUNDS; m++) {
            float x = 0;
            LVN_UNROLLED
            for (int n = 0; n < DEEP; n++)
                LVN_EACH(c) x = lvn_fma(Q[r * CHANNELS + CHANNEL(n, c)], K[m * DEEP + n].v[c], x);
            X[(r * KEYS + m * SLOTS + slot) * (LANES + 1) + lane] = x;
        }
    }
}

/* This item's part of the sum of the chunk's values, times factors Z. */
LVN_FUNCTION void multiply_values(LVN_LOCAL float *X, LVN_LOCAL const float *Z, const struct lvn_numbers *V, int lane,
                                  int slot)
{
    LVN_UNROLLED
    for (int n = 0; n < DEEP; n++) LVN_EACH(c)
        {
            float x = 0;
            LVN_UNROLLED
            for (int m = 0; m < ROUNDS; m++) x = lvn_fma(Z[m * SLOTS + slot], V[m * DEEP + n].v[c], x);
            X[slot * (CHANNELS + 1) + CHANNEL(n, c)] = x;
        }
}

/* Row r of a key head: query r / heads of its query head r % heads. */
LVN_KERNEL(attention_chunks)
(LVN_OPERAND(q), LVN_OPERAND(k), LVN_OPERAND(v), LVN_OPERAND(lengths), LVN_OPERAND(values), LVN_OPERAND(sums),
 LVN_OPERAND(now), lvn_long q0, lvn_long q1, lvn_long q2, lvn_long k0, lvn_long k1, lvn_long k2, lvn_long v0,
 lvn_long v1, lvn_long v2, SIZES)
{
    LVN_SHARED float Q[ROWS * CHANNELS];
    LVN_SHARED float X[SCORES_MEMORY > VALUES_MEMORY ? SCORES_MEMORY : VALUES_MEMORY];
    LVN_SHARED float S[ROWS * KEYS];
    LVN_SHARED float Z[ROWS * KEYS];
    LVN_SHARED float T[ROWS * FEW];
    MAKE_SIZES;
    int heads = (int)(Hq / Hkv), rows = heads * (int)Tq, tiles = (rows + ROWS - 1) / ROWS;
    int b = (int)LVN_GROUP_Z, hk = (int)LVN_GROUP_Y / tiles, row = (int)LVN_GROUP_Y % tiles * ROWS;
    int chunk = (int)LVN_GROUP_X, chunks = (int)(Tk + KEYS - 1) / KEYS, first = chunk * KEYS;
    lvn_long max = LVN_HAS(lengths) ? LVN_AT(int, lengths)[b] : Tk;
    int end = (int)rows_end(&s, ((row + ROWS < rows ? row + ROWS : rows) - 1) / heads, max);
    int lane = LVN_ITEM % LANES, slot = LVN_ITEM / LANES;
    struct lvn_numbers K[ROUNDS * DEEP], V[ROUNDS * DEEP];
    END_GROUP_IF(first >= end || first + KEYS <= (int)rows_begin(&s, row / heads));
    LOAD_KEYS(K, k, b * k0 + hk * k2, k1);
    LOAD_KEYS(V, v, b * v0 + hk * v2, v1);
    for (int e = LVN_ITEM; e < ROWS * CHANNELS; e += LVN_ITEMS) {
        int r = row + e / CHANNELS, d = e % CHANNELS;
        Q[e] = r < rows && d < D ? LVN_GET(q, b * q0 + r / heads * q1 + (hk * heads + r % heads) * q2 + d) : 0;
    }
    LVN_BARRIER();
    multiply_keys(X, Q, K, lane, slot);
    LVN_BARRIER();
    for (int e = LVN_ITEM; e < ROWS * KEYS; e += LVN_ITEMS) {
        int r = row + e / KEYS, key = first + e % KEYS;
        float x = 0;
        for (int m = 0; m < LANES; m++) x += X[e * (LANES + 1) + m];
        S[e] = r < rows && sees_row(&s, r / heads, key, max) ? CAP(scale * x) : -LVN_INFINITY;
    }
    LVN_BARRIER();
    if (LVN_ITEM < ROWS * FEW) {
        float x = -LVN_INFINITY;
        for (int m = 0; m < KEYS / FEW; m++) x = lvn_max(x, S[LVN_ITEM * (KEYS / FEW) + m]);
        T[LVN_ITEM] = x;
    }
    LVN_BARRIER();
    for (int e = LVN_ITEM; e < ROWS * KEYS; e += LVN_ITEMS) {
        int r = row + e / KEYS, key = first + e % KEYS;
        float top = -LVN_INFINITY, x = 0;
        for (int m = 0; m < FEW; m++) top = lvn_max(top, T[e / KEYS * FEW + m]);
        if (r < rows && sees_row(&s, r / heads, key, max)) x = lvn_exp(S[e] - top);
        S[e] = x;
        Z[e] = x * DROPOUT_FACTOR(r, key);
    }
    for (int r = 0; r < ROWS; r++) {
        int i = row + r;
        lvn_long at = ((b * Hq + hk * heads + i % heads) * Tq + i / heads) * chunks + chunk;
        LVN_BARRIER();
        multiply_values(X, Z + r * KEYS, V, lane, slot);
        LVN_BARRIER();
        if (LVN_ITEM < D && i < rows) {
            float x = 0;
            for (int m = 0; m < SLOTS; m++) x += X[m * (CHANNELS + 1) + LVN_ITEM];
            LVN_PUT(values, at * D + LVN_ITEM, x);
        }
        if (LVN_ITEM == LVN_ITEMS - 1 && i < rows) {
            float top = -LVN_INFINITY, sum = 0;
            for (int m = 0; m < FEW; m++) top = lvn_max(top, T[r * FEW + m]);
            for (int m = 0; m < KEYS; m++) sum += S[r * KEYS + m];
            LVN_PUT(sums, 2 * at, top);
            LVN_PUT(sums, 2 * at + 1, sum);
        }
    }
}

/* A group adds up the chunks that a query of a head attends to. */
LVN_KERNEL(attention_combine)
(LVN_OPERAND(values), LVN_OPERAND(sums), LVN_OPERAND(lengths), LVN_OPERAND(o), LVN_OPERAND(lse), LVN_OPERAND(now),
 SIZES)
{
    LVN_GROUP_SHARED(float, shared);
    MAKE_SIZES;
    lvn_long b = LVN_GROUP_Z, t = LVN_GROUP_Y, h = LVN_GROUP_X, chunks = (Tk + KEYS - 1) / KEYS;
    lvn_long row = (b * Hq + h) * Tq + t, at = row * chunks;
    lvn_long n = rows_end(&s, t, LVN_HAS(lengths) ? LVN_AT(int, lengths)[b] : Tk), count = (n + KEYS - 1) / KEYS;
    lvn_long from = rows_begin(&s, t) / KEYS;
    bool any = n > rows_begin(&s, t);
    int d = LVN_ITEM % SIDE, part = LVN_ITEM / SIDE;
    float top = -LVN_INFINITY, sum = 0, x = 0;
    for (lvn_long c = from + LVN_ITEM; c < count; c += LVN_ITEMS) top = lvn_max(top, LVN_GET(sums, 2 * (at + c)));
    top = lvn_group_max(top, shared);
    for (lvn_long c = from + LVN_ITEM; c < count; c += LVN_ITEMS)
        sum = lvn_fma(lvn_exp(LVN_GET(sums, 2 * (at + c)) - top), LVN_GET(sums, 2 * (at + c) + 1), sum);
    sum = lvn_group_sum(sum, shared);
    for (lvn_long c = from + part; c < count && d < D; c += LVN_ITEMS / SIDE)
        x = lvn_fma(lvn_exp(LVN_GET(sums, 2 * (at + c)) - top), LVN_GET(values, (at + c) * D + d), x);
    LVN_BARRIER();
    shared[LVN_ITEM] = x;
    LVN_BARRIER();
    if (LVN_ITEM < D) {
        for (int m = 1; m < LVN_ITEMS / SIDE; m++) x += shared[m * SIDE + d];
        LVN_PUT(o, ((b * Tq + t) * Hq + h) * D + d, any ? x / sum : 0);
    }
    if (LVN_ITEM == 0) LVN_PUT(lse, row, any ? top + lvn_log(sum) : 0);
}

#endif
#endif
