/* attention_tiles_gpu.h - the kernels of attention.k for matrix units: products of bf16 or fp16, sums and softmax in
 * fp32. As in attention_bf16_cpu.h, q, k, v, the output and its gradient are of 16 bits, and probabilities and
 * gradients of scores are rounded where they are factors. Only attention.k includes it.
 *
 * A warp processes sixteen rows, queries (forward, dq) or keys (dk, dv), and holds them as left operands; the group
 * iterates over the keys (the queries), STEP at a time, in local memory. Scores become left operands without a move
 * (Dao: "FlashAttention-2", 2023). Exponentials are powers of two.
 *
 * With wgmma (wgmma_gpu.h) four warps multiply their 64 rows together, and COLUMNS of the others at a time; local
 * memory has panels. Rows that more than one warp shares are left to the single warps.
 *
 * Registers hold a limited number of channels of a row. For larger heads SPLIT warps share sixteen rows: each has an
 * equal part of the channels; they add their partial scores through local memory; and each computes its own channels of
 * the result. A group then has ROWS = 128 / SPLIT rows. */
#ifndef LVN_ATTENTION_TILES_GPU_H
#define LVN_ATTENTION_TILES_GPU_H

#include "ops/wgmma_gpu.h"
#ifdef LVN_DEVICE

#if defined(LVN_MATRIX_WGMMA) && SPLIT == 1 && !(defined(ATTENTION_DKV) && D > 96)
#define WARPGROUPS
#endif

/* Rows that come next are copied while the group computes: by copies that no item waits for, into a second pair of
 * arrays, or else through registers. */
#if defined(WARPGROUPS)
#define STAGES 2
#if defined(ATTENTION_FORWARD)
#define STEP (D > 96 ? 32 : 64)
#define COLUMNS STEP
#elif defined(ATTENTION_DQ)
#define STEP 32 /* registers suffice for two groups with heads of 64 */
#define COLUMNS 32
#else
#define STEP (D > 80 ? 32 : 64)
#define COLUMNS 32
#endif
#elif defined(LVN_COPY_ASYNC) && D <= 128
#define STAGES 2
#define STEP (D > 64 ? 32 : 64)
#else
#define STAGES 1
#define STEP (D > 128 ? 32 : 64)
#endif
#define WIDTH ((D + 16 * SPLIT - 1) / (16 * SPLIT) * (16 * SPLIT))
#define DEEP (WIDTH / SPLIT / 16) /* tiles of a warp's channels */
#define PITCH (WIDTH + 8)
#define WARP_ROW (LVN_TILE_WARP / SPLIT * 16)                            /* a warp's first row among the group's */
#define WARP_CHANNEL (SPLIT > 1 ? LVN_TILE_WARP % SPLIT * DEEP * 16 : 0) /* a warp's first channel of a row */
#define EXCHANGE (SPLIT > 1 ? 8 * LVN_ITEMS : LVN_TILE_EXCHANGE)         /* floats of local memory for exchanges */
#define ALONE (SPLIT == 1 && LVN_TILE_EXCHANGE == 1) /* a warp waits for no other, except to load rows */
/* TILE elements are STEP rows; in them PLACE is where row r and channel d, a multiple of 8, is. BAND rows, from
 * BAND_ROW(t) on, have the same products. */
#ifdef WARPGROUPS
#define TILE (STEP * WIDTH)
#define PLACE(r, d)                                                                                                    \
    (PANEL_FIRST(d) * STEP + LVN_WGMMA_SWIZZLED((r)*PANEL_WIDTH(d) + (d)-PANEL_FIRST(d), PANEL_WIDTH(d)))
/* The panel that has a channel: as many of 64 channels as there are, then one of 32 and one of 16. */
#define PANEL_FIRST(d) ((d) / PANEL_WIDTH(d) * PANEL_WIDTH(d))
#define PANEL_WIDTH(d) ((d) < WIDTH / 64 * 64 ? 64 : (d) < WIDTH / 32 * 32 ? 32 : 16)
#define TILE_ALIGNED 1024
#define BAND 64
#define BAND_ROW(t) ((t) & -BAND)
#else
#define TILE (STEP * PITCH)
#define PLACE(r, d) ((r)*PITCH + (d))
#define TILE_ALIGNED 16
#define BAND 16
#define BAND_ROW(t) (t)
#define COLUMNS 16
#endif
#define LN2 0.69314718055994530942f
#define MIN (-1e30f) /* below all scores; finite, since infinity - infinity is NaN */

/* Local memory for ROWS rows, OTHER for ROWS rows of a second tensor, and two arrays of STEP rows for each stage. The
 * arrays overlap the rows if left operands are in registers. */
#ifdef LVN_TILE_IN_REGISTERS
#define DECLARE_TILES(rows_memory, first, second)                                                                      \
    LVN_TILES_AT(rows_memory, ROWS *PITCH > 2 * STAGES * TILE ? ROWS * PITCH : 2 * STAGES * TILE, TILE_ALIGNED);       \
    LVN_LOCAL lvn_ushort *first = rows_memory, *second = rows_memory + TILE;                                           \
    DECLARE_NEXT
#define OTHER(rows_memory) rows_memory
#else
#define DECLARE_TILES(rows_memory, first, second)                                                                      \
    LVN_TILES(rows_memory, 2 * ROWS * PITCH);                                                                          \
    LVN_TILES(first, STEP *PITCH);                                                                                     \
    LVN_TILES(second, STEP *PITCH);                                                                                    \
    DECLARE_NEXT
#define OTHER(rows_memory) (rows_memory + ROWS * PITCH)
#endif

/* Load this item's part of rows first .. first + rows - 1 of the T rows of x that begin at element `at`, into
 * registers: PARTS(rows) times eight elements; zeros after the end, and after channel D. */
#define PARTS(rows) (((rows) * (WIDTH / 8) + LVN_ITEMS - 1) / LVN_ITEMS)
#define PART_ROW(n) ((LVN_ITEM + (n)*LVN_ITEMS) / (WIDTH / 8))
#define PART_CHANNEL(n) ((LVN_ITEM + (n)*LVN_ITEMS) % (WIDTH / 8) * 8)
#define FETCH(part, x, at, step_of, first, rows, T)                                                                    \
    LVN_UNROLLED                                                                                                       \
    for (int n_ = 0; n_ < PARTS(rows); n_++) {                                                                         \
        int r_ = PART_ROW(n_), d_ = PART_CHANNEL(n_);                                                                  \
        bool in_ = r_ < (rows) && (int)(first) + r_ < (int)(T) && d_ < D;                                              \
        LVN_UNROLLED                                                                                                   \
        for (int k_ = 0; k_ < 4; k_++) (part)[n_].v[k_] = 0;                                                           \
        if (in_) (part)[n_] = lvn_get_eight(LVN_AT(const lvn_ushort, x), ELEMENT(at, step_of, first, r_, d_));         \
    }
#define STORE(to, part, rows)                                                                                          \
    LVN_UNROLLED                                                                                                       \
    for (int n_ = 0; n_ < PARTS(rows); n_++) {                                                                         \
        int r_ = PART_ROW(n_), d_ = PART_CHANNEL(n_);                                                                  \
        LVN_UNROLLED                                                                                                   \
        for (int k_ = 0; k_ < 4; k_++)                                                                                 \
            if (r_ < (rows)) ((LVN_LOCAL lvn_uint *)((to) + r_ * PITCH + d_))[k_] = (part)[n_].v[k_];                  \
    }
/* Element d of row r of those that begin with row `first`. */
#define ELEMENT(at, step_of, first, r, d) ((at) + (first) * (step_of) + ((r) * (int)(step_of) + (d)))

/* START begins to copy rows first .. first + STEP - 1 of x and y, of which there are T, into the arrays of `stage`;
 * ARRIVE waits for them, and for all items that computed on rows before. */
#if STAGES > 1
#define DECLARE_NEXT                                                                                                   \
    LVN_COPIES                                                                                                         \
    int stage = 0
#define OF_STAGE stage
#define STAGE(stage) ((stage)*2 * TILE)
#define START(stage, X, x, x_at, x_step, Y, y, y_at, y_step, first, T)                                                 \
    COPY(X + STAGE(stage), x, x_at, x_step, first, T);                                                                 \
    COPY(Y + STAGE(stage), y, y_at, y_step, first, T)
#define COPY(to, x, at, step_of, first, T)                                                                             \
    LVN_UNROLLED                                                                                                       \
    for (int n_ = 0; n_ < PARTS(STEP); n_++) {                                                                         \
        int r_ = PART_ROW(n_), d_ = PART_CHANNEL(n_);                                                                  \
        bool in_ = (int)(first) + r_ < (int)(T) && d_ < D;                                                             \
        if (STEP * (WIDTH / 8) % LVN_ITEMS == 0 || r_ < STEP)                                                          \
            LVN_COPY_ASYNC((to) + PLACE(r_, d_), LVN_AT(const lvn_ushort, x) + ELEMENT(at, step_of, first, r_, d_),    \
                           in_);                                                                                       \
    }
#define ARRIVE(X, Y, also)                                                                                             \
    also;                                                                                                              \
    LVN_COPY_WAIT();                                                                                                   \
    LVN_WGMMA_SEES_COPIES();                                                                                           \
    LVN_BARRIER()
#define NEXT_STAGE stage ^= 1
#else
#define DECLARE_NEXT struct lvn_eight next_x[PARTS(STEP)], next_y[PARTS(STEP)]
#define OF_STAGE 0
#define STAGE(stage) 0
#define START(stage, X, x, x_at, x_step, Y, y, y_at, y_step, first, T)                                                 \
    FETCH(next_x, x, x_at, x_step, first, STEP, T);                                                                    \
    FETCH(next_y, y, y_at, y_step, first, STEP, T)
#define ARRIVE(X, Y, also)                                                                                             \
    LVN_BARRIER();                                                                                                     \
    also;                                                                                                              \
    STORE(X, next_x, STEP);                                                                                            \
    STORE(Y, next_y, STEP);                                                                                            \
    LVN_BARRIER()
#define NEXT_STAGE (void)0
#endif

/* Load rows first .. first + ROWS - 1 of x; this warp's part becomes its left operands. */
#define LOAD_LEFT(tiles, rows_memory, x, at, step_of, T)                                                               \
    {                                                                                                                  \
        struct lvn_eight part_[PARTS(ROWS)];                                                                           \
        FETCH(part_, x, at, step_of, first, ROWS, T);                                                                  \
        STORE(rows_memory, part_, ROWS);                                                                               \
        LVN_BARRIER();                                                                                                 \
        LVN_UNROLLED                                                                                                   \
        for (int d_ = 0; d_ < DEEP; d_++)                                                                              \
            (tiles)[d_] = lvn_tile_left((rows_memory) + WARP_ROW * PITCH + WARP_CHANNEL + d_ * 16, PITCH);             \
        LVN_BARRIER();                                                                                                 \
    }

/* sum (16,16) = this warp's rows times the transpose of sixteen rows of `others`. */
LVN_FUNCTION void scores(float *sum, const LVN_LEFT *rows, LVN_LOCAL const lvn_ushort *others,
                         LVN_LOCAL float *exchange)
{
    LVN_UNROLLED
    for (int e = 0; e < 8; e++) sum[e] = 0;
    LVN_UNROLLED
    for (int d = 0; d < DEEP; d++) lvn_tile_mad(sum, rows[d], lvn_tile_right(others + WARP_CHANNEL + d * 16, PITCH));
#if SPLIT > 1
    const int first = LVN_TILE_WARP / SPLIT * SPLIT * LVN_WARP_ITEMS + LVN_TILE_ITEM % LVN_WARP_ITEMS;
    LVN_BARRIER();
    LVN_UNROLLED
    for (int e = 0; e < 8; e++) exchange[e * LVN_ITEMS + LVN_TILE_ITEM] = sum[e];
    LVN_BARRIER();
    LVN_UNROLLED
    for (int e = 0; e < 8; e++) {
        sum[e] = exchange[e * LVN_ITEMS + first];
        LVN_UNROLLED
        for (int part = 1; part < SPLIT; part++) sum[e] += exchange[e * LVN_ITEMS + first + part * LVN_WARP_ITEMS];
    }
#endif
}

/* sum (16, this warp's channels) += x (16,16) times sixteen rows of `others`. */
LVN_FUNCTION void add_rows(float *sum, const float *x, LVN_LOCAL const lvn_ushort *others, LVN_LOCAL float *exchange)
{
    LVN_LEFT left = lvn_tile_left_of(x, exchange);
    LVN_UNROLLED
    for (int d = 0; d < DEEP; d++)
        lvn_tile_mad(sum + 8 * d, left, lvn_tile_right_transposed(others + WARP_CHANNEL + d * 16, PITCH));
}

/* SCORES: sums x = this warp's rows times the transpose of COLUMNS rows of `others`, from row j on. ADD_ROWS: sum += x
 * times these rows. SUMS_ARRIVE waits for all of these, whose results are the n of x and the n of y. */
#ifdef WARPGROUPS
#define SCORES(x, rows, others, j)                                                                                     \
    {                                                                                                                  \
        (void)exchange;                                                                                                \
        LVN_WGMMA_FENCE();                                                                                             \
        LVN_UNROLLED                                                                                                   \
        for (int d_ = 0; d_ < WIDTH; d_ += 16)                                                                         \
            LVN_WGMMA(x, COLUMNS, (rows)[d_ / 16].v, (others) + UNSWIZZLED(j, d_), PANEL_WIDTH(d_), 0, d_ > 0);        \
        LVN_WGMMA_COMMIT();                                                                                            \
    }
#define ADD_ROWS(sum, x, others, j)                                                                                    \
    {                                                                                                                  \
        LVN_LEFT left_[COLUMNS / 16];                                                                                  \
        LVN_UNROLLED                                                                                                   \
        for (int i_ = 0; i_ < COLUMNS / 16; i_++) {                                                                    \
            left_[i_] = lvn_tile_left_of((x) + 8 * i_, exchange);                                                      \
            LVN_PIN_LEFT(left_[i_]);                                                                                   \
        }                                                                                                              \
        LVN_PIN(sum, 8 * DEEP);                                                                                        \
        LVN_WGMMA_FENCE();                                                                                             \
        LVN_UNROLLED                                                                                                   \
        for (int d_ = 0; d_ < WIDTH; d_ += PANEL_WIDTH(d_)) {                                                          \
            LVN_UNROLLED                                                                                               \
            for (int i_ = 0; i_ < COLUMNS / 16; i_++)                                                                  \
                LVN_WGMMA((sum) + d_ / 2, PANEL_WIDTH(d_), left_[i_].v, (others) + UNSWIZZLED((j) + 16 * i_, d_),      \
                          PANEL_WIDTH(d_), 1, 1);                                                                      \
        }                                                                                                              \
        LVN_WGMMA_COMMIT();                                                                                            \
    }
#define UNSWIZZLED(r, d) (PANEL_FIRST(d) * STEP + (r)*PANEL_WIDTH(d) + (d)-PANEL_FIRST(d))
#define SUMS_ARRIVE(x, y, n)                                                                                           \
    LVN_WGMMA_WAIT();                                                                                                  \
    LVN_PIN(x, n);                                                                                                     \
    LVN_PIN(y, n)
#else
#define SCORES(x, rows, others, j) scores(x, rows, (others) + (j)*PITCH, exchange)
#define ADD_ROWS(sum, x, others, j) add_rows(sum, x, (others) + (j)*PITCH, exchange)
#define SUMS_ARRIVE(x, y, n) (void)0
#endif

/* Query t sees the keys below `end`, and below t + before; if RANGED not those before t + first, nor those before its
 * document. */
struct mask {
    int end, before;
#ifdef RANGED
    int first;
#endif
#ifdef SEGMENTED
    int T;
    LVN_GLOBAL const int *segments;
#endif
};

LVN_FUNCTION struct mask mask_make(const struct sizes *s, lvn_long max)
{
    struct mask r;
    lvn_long end = s->Tk < max ? s->Tk : max;
    if (s->cached && end > s->position + s->Tq) end = s->position + s->Tq;
    r.end = (int)end;
    r.before = s->causal ? (int)(s->cached ? s->position : s->Tk - s->Tq) + 1 : r.end;
#ifdef RANGED
    r.first = s->window ? r.before - s->window : -(1 << 30);
#endif
#ifdef SEGMENTED
    r.segments = s->segments, r.T = (int)s->Tq;
#endif
    return r;
}

LVN_FUNCTION int keys_seen(struct mask s, int t)
{
    return t + s.before < s.end ? t + s.before : s.end;
}

/* Query t sees no key before the result. */
LVN_FUNCTION int keys_from(struct mask s, int t)
{
    int first = 0;
#ifdef RANGED
    if (t + s.first > 0) first = t + s.first;
#endif
#ifdef SEGMENTED
    int start = s.segments[t < s.T ? t : s.T - 1];
    if (start > first) first = start;
#endif
    return first;
}

#ifdef DROPOUT
#define GROUPS 1
/* The factors of dropout of a tile of a head's probabilities, from query t and key `key` on: z[e] is that of sum e. */
#define DROPOUT_FACTORS(z, t, key)                                                                                     \
    float z[8];                                                                                                        \
    dropout_factors(z, dropout, t, key)
#define MAKE_DROPOUT(b, h)                                                                                             \
    const struct dropout dropout = dropout_make(LVN_NOW(now), &s, b, h, threshold, dropout_scale, op)
#ifdef ATTENTION_DKV /* rows are keys */
#define TILE_QUERY LVN_TILE_COLUMN
#define TILE_KEY LVN_TILE_ROW
#else
#define TILE_QUERY LVN_TILE_ROW
#define TILE_KEY LVN_TILE_COLUMN
#endif

/* What Philox is called with for a head: see lvn_dropout_words(). */
struct dropout {
    lvn_ulong seed;
    lvn_uint row, stream, step, threshold;
    float scale;
    bool off;
};

LVN_FUNCTION struct dropout dropout_make(LVN_GLOBAL const struct lvn_gpu_step *now, const struct sizes *s, lvn_long b,
                                         lvn_long h, int threshold, float scale, int op)
{
    struct dropout r;
    lvn_ulong row = ((lvn_ulong)((now->first_row + b) * s->Hq + h) << 20) + (lvn_ulong)s->position;
    r.seed = now->seed, r.row = (lvn_uint)row, r.step = (lvn_uint)now->step, r.threshold = (lvn_uint)threshold;
    r.stream = (lvn_uint)op ^ (lvn_uint)(row >> 32) * 0x9E3779B9u; /* a query's number, below 2^20, does not carry */
    r.scale = scale, r.off = threshold == 0 || !now->training;
    return r;
}

/* The random bits of query t and eight keys. */
LVN_FUNCTION struct lvn_four dropout_octet(struct dropout d, int t, int key)
{
    return lvn_philox(d.seed, (lvn_uint)key / 8, d.row + (lvn_uint)t, d.stream, d.step);
}

#if defined(LVN_MATRIX_NVIDIA) && !defined(ATTENTION_DKV)
/* 16 x 16 probabilities are 32 octets of keys: each lane of a warp draws one, and four lanes, which have the same two
 * rows, exchange words. Lane t draws the octet of row g + t % 2 * 8 and columns t / 2 * 8 and following. Word t of the
 * octet of each of the four is bits[lane]. */
LVN_FUNCTION void dropout_bits(lvn_uint *bits, struct dropout d, int t, int key)
{
    const bool odd = LVN_TILE_T % 2, high = LVN_TILE_T / 2;
    struct lvn_four w = dropout_octet(d, t + LVN_TILE_G + LVN_TILE_T % 2 * 8, key + LVN_TILE_T / 2 * 8);
    lvn_uint x = LVN_SHUFFLE_XOR(odd ? w.v[0] : w.v[1], 1), y = LVN_SHUFFLE_XOR(odd ? w.v[2] : w.v[3], 1);
    lvn_uint low0 = odd ? x : w.v[0], low1 = odd ? w.v[1] : x, high0 = odd ? y : w.v[2], high1 = odd ? w.v[3] : y;
    x = LVN_SHUFFLE_XOR(high ? low0 : high0, 2), y = LVN_SHUFFLE_XOR(high ? low1 : high1, 2);
    bits[0] = high ? x : low0, bits[1] = high ? y : low1, bits[2] = high ? high0 : x, bits[3] = high ? high1 : y;
}
#define DROPOUT_BITS(bits, e) ((bits)[(e) % 4 / 2 + (e) / 4 * 2] >> (e) % 2 * 16 & 0xffffu)

#elif defined(LVN_MATRIX_NVIDIA)
/* The same where rows are keys: the eight lanes that have the same four columns exchange words. Lane g of them draws
 * the octet of column g % 2 + g % 4 / 2 * 8 of theirs and keys g / 4 * 8 and following. Half g of the octets of the
 * lanes with g / 2 = i, that of the even lane in the lower half, is bits[i]. */
LVN_FUNCTION void dropout_bits(lvn_uint *bits, struct dropout d, int t, int key)
{
    const int g = LVN_TILE_G;
    const bool odd = g % 2, second = g % 4 / 2, high = g / 4;
    struct lvn_four w = dropout_octet(d, t + 2 * LVN_TILE_T + g % 2 + g % 4 / 2 * 8, key + g / 4 * 8);
    /* words 2 high, 2 high + 1 of the lanes with g / 4 = 0, then 1 */
    lvn_uint x = LVN_SHUFFLE_XOR(high ? w.v[0] : w.v[2], 16), y = LVN_SHUFFLE_XOR(high ? w.v[1] : w.v[3], 16);
    lvn_uint a0 = high ? x : w.v[0], a1 = high ? y : w.v[1], b0 = high ? w.v[2] : x, b1 = high ? w.v[3] : y;
    /* word g / 2 of the lanes with g / 2 = 0, 1, 2, 3 */
    x = LVN_SHUFFLE_XOR(second ? a0 : a1, 8), y = LVN_SHUFFLE_XOR(second ? b0 : b1, 8);
    lvn_uint c0 = second ? x : a0, c1 = second ? a1 : x, c2 = second ? y : b0, c3 = second ? b1 : y;
    /* of each the half that this lane needs, and the halves that lane g ^ 1 needs */
    lvn_uint mine01 = odd ? c0 >> 16 | (c1 & 0xffff0000u) : (c0 & 0xffffu) | c1 << 16;
    lvn_uint mine23 = odd ? c2 >> 16 | (c3 & 0xffff0000u) : (c2 & 0xffffu) | c3 << 16;
    lvn_uint other01 = odd ? (c0 & 0xffffu) | c1 << 16 : c0 >> 16 | (c1 & 0xffff0000u);
    lvn_uint other23 = odd ? (c2 & 0xffffu) | c3 << 16 : c2 >> 16 | (c3 & 0xffff0000u);
    x = LVN_SHUFFLE_XOR(other01, 4), y = LVN_SHUFFLE_XOR(other23, 4);
    bits[0] = odd ? x : mine01, bits[1] = odd ? mine01 : x; /* [g % 2], with g / 2 % 2 in the halves */
    bits[2] = odd ? y : mine23, bits[3] = odd ? mine23 : y;
}
#define DROPOUT_BITS(bits, e) ((bits)[(e) % 2 + (e) % 4 / 2 * 2] >> (e) / 4 * 16 & 0xffffu)
#endif

LVN_FUNCTION void dropout_factors(float *z, struct dropout d, int t, int key)
{
    LVN_UNROLLED
    for (int e = 0; e < 8; e++) z[e] = 1;
    if (d.off) return;
#ifdef DROPOUT_BITS
    lvn_uint bits[4];
    dropout_bits(bits, d, t, key);
    LVN_UNROLLED
    for (int e = 0; e < 8; e++) z[e] = DROPOUT_BITS(bits, e) >= d.threshold ? d.scale : 0;
#else
    LVN_UNROLLED
    for (int e = 0; e < 8; e++) {
        int column = key + TILE_KEY(e);
        struct lvn_four w = dropout_octet(d, t + TILE_QUERY(e), column);
        lvn_uint low = column & 2 ? w.v[1] : w.v[0], high = column & 2 ? w.v[3] : w.v[2];
        lvn_uint word = column & 4 ? high : low;
        z[e] = (column % 2 ? word >> 16 : word & 0xffffu) >= d.threshold ? d.scale : 0;
    }
#endif
}
#else
/* on a multiprocessor, that registers are to suffice for */
#if defined(WARPGROUPS) && (defined(ATTENTION_DKV) || defined(RANGED) || defined(CAPPED))
#define GROUPS 1
#else
#define GROUPS (D > 64 ? 1 : 2)
#endif
#define DROPOUT_FACTORS(z, t, key) const float z[8] = {1, 1, 1, 1, 1, 1, 1, 1}
#define MAKE_DROPOUT(b, h) (void)0
#endif

LVN_FUNCTION bool hides(struct mask s, int t, int key)
{
    return key >= keys_seen(s, t) || (IS_RANGED && key < keys_from(s, t));
}

/* Scores of queries from t on that do not see a key, of those from `key` on, become those of probabilities of zero. */
LVN_FUNCTION void hide(float *x, struct mask mask, int key, int t)
{
    if (key + 15 < keys_seen(mask, t) && (!IS_RANGED || key >= keys_from(mask, t + 15)))
        return; /* all of them see them all */
    LVN_UNROLLED
    for (int e = 0; e < 8; e++)
        if (hides(mask, t + LVN_TILE_ROW(e), key + LVN_TILE_COLUMN(e))) x[e] = -LVN_INFINITY;
}

/* Put sums of rows first .. first + 15 of x, of which there are T, times `factor`; `add` means what LVN_GIVE() says. */
#ifdef LVN_TILE_PAIRS
#define PUT_SUMS(x, i, add, a, b) LVN_JOIN(lvn_give_two_, TYPE_##x)(LVN_POINTER(x), i, add, a, b)
#define PER 2
#else
#define PUT_SUMS(x, i, add, a, b) LVN_GIVE(x, i, add, a)
#define PER 1
#endif
#define PUT_ROWS(x, at, step_of, first, T, add, sum, factor)                                                           \
    LVN_UNROLLED                                                                                                       \
    for (int e_ = 0; e_ < 8; e_ += PER) {                                                                              \
        int row_ = (first) + LVN_TILE_ROW(e_), d_ = WARP_CHANNEL + LVN_TILE_COLUMN(e_);                                \
        lvn_long at_ = (at) + row_ * (step_of) + d_;                                                                   \
        if (row_ >= (T)) continue;                                                                                     \
        LVN_UNROLLED                                                                                                   \
        for (int i_ = e_; i_ < 8 * DEEP; i_ += 8)                                                                      \
            if (D == WIDTH || d_ + i_ / 8 * 16 < D)                                                                    \
                PUT_SUMS(x, at_ + i_ / 8 * 16, add, (factor) * (sum)[i_], (factor) * (sum)[i_ + PER - 1]);             \
    }

/* Tiles come in two loops, of which `part` says which: one with a mask, where a warp also skips tiles of which it
 * sees nothing, and one for the tiles that all rows see. If RANGED, all tiles are in the loop with a mask. */

/* Capped scores have their scale already. */
#ifdef CAPPED
#define FACTOR 1
#define CAP_SCORES(x, n)                                                                                               \
    LVN_UNROLLED                                                                                                       \
    for (int e_ = 0; e_ < (n); e_++) (x)[e_] = CAP(raw_scale * (x)[e_])
#else
#define FACTOR raw_scale
#define CAP_SCORES(x, n) (void)0
#endif

#if defined(ATTENTION_FORWARD)
/* Scores x of STEP keys become exponentials relative to the maximum of each row so far. `scale` is that of the scores,
 * in powers of two; `factor` is what earlier sums have to be multiplied with. */
LVN_FUNCTION void softmax(float *x, float *top, float *sum, float *factor, float scale, LVN_LOCAL float *exchange)
{
    float high[LVN_TILE_ROWS];
    LVN_UNROLLED
    for (int r = 0; r < LVN_TILE_ROWS; r++) high[r] = top[r];
    LVN_UNROLLED
    for (int i = 0; i < STEP / 2; i++) high[LVN_TILE_ROW_OF(i % 8)] = lvn_max(high[LVN_TILE_ROW_OF(i % 8)], x[i]);
    LVN_UNROLLED
    for (int r = 0; r < LVN_TILE_ROWS; r++) {
        high[r] = lvn_max(lvn_tile_row_max(high[r], exchange), MIN);
        factor[r] = lvn_exp2_fast(scale * (top[r] - high[r]));
        top[r] = high[r];
        sum[r] *= factor[r];
        high[r] *= -scale;
    }
    LVN_UNROLLED
    for (int i = 0; i < STEP / 2; i++) {
        x[i] = lvn_exp2_fast(lvn_fma(scale, x[i], high[LVN_TILE_ROW_OF(i % 8)]));
        sum[LVN_TILE_ROW_OF(i % 8)] += x[i];
    }
}

LVN_TILE_KERNEL_OF(attention_forward, GROUPS) FORWARD
{
    DECLARE_TILES(Q, K, V);
    LVN_SHARED float exchange[EXCHANGE];
    MAKE_SIZES;
    lvn_long b = LVN_GROUP_Z, h = LVN_GROUP_Y, hk = (int)h / ((int)Hq / (int)Hkv);
    /* The last rows see the most keys: they come first. */
    lvn_long first = ((Tq + ROWS - 1) / ROWS - 1 - LVN_GROUP_X) * ROWS;
    MAKE_DROPOUT(b, h);
    struct mask mask = mask_make(&s, LVN_HAS(lengths) ? LVN_AT(int, lengths)[b] : Tk);
    const float raw_scale = scale;
    int t0 = (int)first + WARP_ROW, key0 = keys_from(mask, (int)first) / STEP * STEP;
    int whole = keys_seen(mask, (int)first) / STEP * STEP;
    int end = keys_seen(mask, (int)(first + ROWS < Tq ? first + ROWS : Tq) - 1);
    float top[LVN_TILE_ROWS], sum[LVN_TILE_ROWS], out[8 * DEEP];
    LVN_LEFT q_rows[DEEP];
    LVN_UNROLLED
    for (int r = 0; r < LVN_TILE_ROWS; r++) top[r] = -LVN_INFINITY, sum[r] = 0;
    LVN_UNROLLED
    for (int i = 0; i < 8 * DEEP; i++) out[i] = 0;
    if (end <= key0) end = key0 + 1;
    scale = FACTOR * LVN_LOG2E;
    LOAD_LEFT(q_rows, Q, q, b * q0 + h * q2, q1, Tq);
    START(0, K, k, b * k0 + hk * k2, k1, V, v, b * v0 + hk * v2, v1, key0, end);
    LVN_UNROLLED
    for (int part = IS_RANGED; part < 2; part++)
        for (; key0 < (part ? end : whole); key0 += STEP, NEXT_STAGE) {
            float x[STEP / 2], factor[LVN_TILE_ROWS];
            ARRIVE(K, V, (void)0);
            START(stage ^ 1, K, k, b * k0 + hk * k2, k1, V, v, b * v0 + hk * v2, v1, key0 + STEP, end);
            if (part && ALONE && key0 >= keys_seen(mask, BAND_ROW(t0) + BAND - 1)) continue;
            if (IS_RANGED && ALONE && key0 + STEP <= keys_from(mask, BAND_ROW(t0))) continue;
            LVN_UNROLLED
            for (int j = 0; j < STEP; j += COLUMNS) SCORES(x + j / 2, q_rows, K + STAGE(stage), j);
            SUMS_ARRIVE(x, x, STEP / 2);
            CAP_SCORES(x, STEP / 2);
            LVN_UNROLLED
            for (int j = 0; part && j < STEP; j += 16) hide(x + j / 2, mask, key0 + j, t0);
            softmax(x, top, sum, factor, scale, exchange);
            LVN_UNROLLED
            for (int i = 0; i < 8 * DEEP; i++) out[i] *= factor[LVN_TILE_ROW_OF(i % 8)];
            LVN_UNROLLED
            for (int j = 0; j < STEP; j += COLUMNS) {
                LVN_UNROLLED
                for (int i = j; i < j + COLUMNS; i += 16) {
                    DROPOUT_FACTORS(z, t0, key0 + i);
                    LVN_UNROLLED
                    for (int e = 0; e < 8; e++) x[i / 2 + e] *= z[e];
                }
                ADD_ROWS(out, x + j / 2, V + STAGE(stage), j);
            }
            SUMS_ARRIVE(out, out, 8 * DEEP);
        }
    LVN_UNROLLED
    for (int r = 0; r < LVN_TILE_ROWS; r++) {
        sum[r] = lvn_tile_row_sum(sum[r], exchange);
        bool none = sum[r] == 0; /* of the keys are visible */
        top[r] = top[r] * scale * LN2 + lvn_log(sum[r]);
        sum[r] = 1 / sum[r];
        if (none) top[r] = sum[r] = 0;
    }
    LVN_UNROLLED
    for (int i = 0; i < 8 * DEEP; i++) out[i] *= sum[LVN_TILE_ROW_OF(i % 8)];
    PUT_ROWS(o, (b * Tq * Hq + h) * D, Hq * D, t0, Tq, false, out, 1);
    LVN_UNROLLED
    for (int e = 0; e < 8; e++) {
        int t = t0 + LVN_TILE_ROW(e);
        bool mine = t < Tq && WARP_CHANNEL + LVN_TILE_COLUMN(e) == 0;
        if (mine) LVN_PUT(lse, (b * Hq + h) * Tq + t, top[LVN_TILE_ROW_OF(e)]);
    }
}

#elif defined(ATTENTION_DQ)
LVN_TILE_KERNEL_OF(attention_dq, GROUPS) BACKWARD_DQ
{
    DECLARE_TILES(rows_memory, K, V);
    LVN_SHARED float exchange[EXCHANGE];
    MAKE_SIZES;
    lvn_long b = LVN_GROUP_Z, h = LVN_GROUP_Y, hk = (int)h / ((int)Hq / (int)Hkv);
    lvn_long first = ((Tq + ROWS - 1) / ROWS - 1 - LVN_GROUP_X) * ROWS;
    MAKE_DROPOUT(b, h);
    struct mask mask = mask_make(&s, LVN_HAS(lengths) ? LVN_AT(int, lengths)[b] : Tk);
    const float raw_scale = scale;
    int t0 = (int)first + WARP_ROW, key0 = keys_from(mask, (int)first) / STEP * STEP;
    int whole = keys_seen(mask, (int)first) / STEP * STEP;
    int end = keys_seen(mask, (int)(first + ROWS < Tq ? first + ROWS : Tq) - 1);
    float l[LVN_TILE_ROWS], rest[LVN_TILE_ROWS], sum[8 * DEEP];
    LVN_LEFT q_rows[DEEP], g_rows[DEEP];
    LVN_UNROLLED
    for (int e = 0; e < 8; e++) {
        int t = t0 + LVN_TILE_ROW(e), r = LVN_TILE_ROW_OF(e);
        lvn_long row = (b * Hq + h) * Tq + (t < Tq ? t : Tq - 1);
        l[r] = LVN_GET(lse, row) * -LVN_LOG2E, rest[r] = LVN_GET(delta, row);
    }
    LVN_UNROLLED
    for (int i = 0; i < 8 * DEEP; i++) sum[i] = 0;
    if (end <= key0) end = key0 + 1;
    LOAD_LEFT(q_rows, rows_memory, q, b * q0 + h * q2, q1, Tq);
    LOAD_LEFT(g_rows, OTHER(rows_memory), dout, b * Tq * Hq * D + h * D, Hq * D, Tq);
    START(0, K, k, b * k0 + hk * k2, k1, V, v, b * v0 + hk * v2, v1, key0, end);
    LVN_UNROLLED
    for (int part = IS_RANGED; part < 2; part++)
        for (; key0 < (part ? end : whole); key0 += STEP, NEXT_STAGE) {
            ARRIVE(K, V, (void)0);
            START(stage ^ 1, K, k, b * k0 + hk * k2, k1, V, v, b * v0 + hk * v2, v1, key0 + STEP, end);
            LVN_UNROLLED
            for (int j = 0; j < STEP; j += COLUMNS) {
                float x[COLUMNS / 2], dp[COLUMNS / 2];
                if (part && ALONE && key0 + j >= keys_seen(mask, BAND_ROW(t0) + BAND - 1)) continue;
                if (IS_RANGED && ALONE && key0 + j + COLUMNS <= keys_from(mask, BAND_ROW(t0))) continue;
                SCORES(x, q_rows, K + STAGE(stage), j);
                SCORES(dp, g_rows, V + STAGE(stage), j);
                SUMS_ARRIVE(x, dp, COLUMNS / 2);
                CAP_SCORES(x, COLUMNS / 2);
                LVN_UNROLLED
                for (int i = 0; i < COLUMNS; i += 16) {
                    float *y = x + i / 2, *g = dp + i / 2;
                    if (part) hide(y, mask, key0 + j + i, t0);
                    DROPOUT_FACTORS(z, t0, key0 + j + i);
                    LVN_UNROLLED
                    for (int e = 0; e < 8; e++) {
                        float p = lvn_exp2_fast(lvn_fma(FACTOR * LVN_LOG2E, y[e], l[LVN_TILE_ROW_OF(e)]));
                        y[e] = p * (z[e] * g[e] - rest[LVN_TILE_ROW_OF(e)]) * CAP_SLOPE(y[e]);
                    }
                }
                ADD_ROWS(sum, x, K + STAGE(stage), j);
                SUMS_ARRIVE(sum, sum, 8 * DEEP);
            }
        }
    PUT_ROWS(dq, b * d0 + h * d2, d1, t0, Tq, add, sum, scale);
}

#else
/* Item i's number of the queries from t on: i < STEP: -LVN_LOG2E lse of query i; i < 2 STEP: delta. */
#define NUMBER(t)                                                                                                      \
    ((t) + LVN_ITEM % STEP < T && LVN_ITEM < 2 * STEP ? NUMBER_OF((b * Hq + h) * Tq + (t) + LVN_ITEM % STEP) : 0)
#define NUMBER_OF(row) (LVN_ITEM < STEP ? -LVN_LOG2E * LVN_GET(lse, row) : LVN_GET(delta, row))

/* Rows are keys, columns queries. */
LVN_TILE_KERNEL_OF(attention_dkv, GROUPS) BACKWARD_DKV
{
    DECLARE_TILES(rows_memory, Q, G);
    LVN_SHARED float exchange[EXCHANGE], numbers[STAGES][2 * STEP];
    MAKE_SIZES;
    lvn_long b = LVN_GROUP_Z, hk = LVN_GROUP_Y, first = LVN_GROUP_X * ROWS, shared = (int)Hq / (int)Hkv;
    struct mask mask = mask_make(&s, LVN_HAS(lengths) ? LVN_AT(int, lengths)[b] : Tk);
    const float raw_scale = scale;
    int first_key = (int)first + WARP_ROW, last = (int)first + ROWS - 1, T = (int)queries_end(&s, last);
    int begin = causal && first >= mask.before ? ((int)first - mask.before + 1) / STEP * STEP : 0, whole = T;
    if (last < mask.end && !IS_RANGED) whole = causal ? (last - mask.before + STEP) / STEP * STEP : 0;
    float a[8 * DEEP], c[8 * DEEP];
    LVN_LEFT k_rows[DEEP], v_rows[DEEP];
    LVN_UNROLLED
    for (int i = 0; i < 8 * DEEP; i++) a[i] = c[i] = 0;
    if (begin >= Tq) begin = 0;
    if (T <= begin) whole = T = begin + 1;
    LOAD_LEFT(k_rows, rows_memory, k, b * k0 + hk * k2, k1, Tk);
    LOAD_LEFT(v_rows, OTHER(rows_memory), v, b * v0 + hk * v2, v1, Tk);
    for (lvn_long h = hk * shared; h < (hk + 1) * shared; h++) {
        int t0 = begin;
        float next = NUMBER(t0); /* lse and delta of the next queries */
        MAKE_DROPOUT(b, h);
        START(stage, Q, q, b * q0 + h * q2, q1, G, dout, b * Tq * Hq * D + h * D, Hq * D, begin, T);
        LVN_UNROLLED
        for (int part = 0; part < 2 - IS_RANGED; part++)
            for (; t0 < T && (part || t0 < whole); t0 += STEP, NEXT_STAGE) {
                LVN_LOCAL const float *L = numbers[OF_STAGE], *rest = L + STEP;
                ARRIVE(Q, G, if (LVN_ITEM < 2 * STEP) numbers[OF_STAGE][LVN_ITEM] = next);
                next = NUMBER(t0 + STEP);
                if (t0 + STEP < T) { /* what follows has these arrays for the next head */
                    START(stage ^ 1, Q, q, b * q0 + h * q2, q1, G, dout, b * Tq * Hq * D + h * D, Hq * D, t0 + STEP, T);
                }
                LVN_UNROLLED
                for (int j = 0; j < STEP; j += COLUMNS) {
                    float x[COLUMNS / 2], dp[COLUMNS / 2];
                    if (!part && ALONE && BAND_ROW(first_key) >= keys_seen(mask, t0 + j + COLUMNS - 1)) continue;
                    if (IS_RANGED && ALONE && BAND_ROW(first_key) + BAND - 1 < keys_from(mask, t0 + j)) continue;
                    SCORES(x, k_rows, Q + STAGE(stage), j);
                    SCORES(dp, v_rows, G + STAGE(stage), j);
                    SUMS_ARRIVE(x, dp, COLUMNS / 2);
                    CAP_SCORES(x, COLUMNS / 2);
                    LVN_UNROLLED
                    for (int k = 0; k < COLUMNS; k += 16) {
                        float *y = x + k / 2, *g = dp + k / 2;
                        const int t = t0 + j + k;
                        if (!part && (first_key + 15 >= keys_seen(mask, t) ||
                                      (IS_RANGED && first_key < keys_from(mask, t + 15)))) {
                            LVN_UNROLLED
                            for (int e = 0; e < 8; e++)
                                if (hides(mask, t + LVN_TILE_COLUMN(e), first_key + LVN_TILE_ROW(e)))
                                    y[e] = -LVN_INFINITY;
                        }
                        DROPOUT_FACTORS(z, t, first_key);
                        LVN_UNROLLED
                        for (int e = 0; e < 8; e++) {
                            int i = j + k + LVN_TILE_COLUMN(e);
                            float p = lvn_exp2_fast(lvn_fma(FACTOR * LVN_LOG2E, y[e], L[i]));
                            y[e] = p * (z[e] * g[e] - rest[i]) * CAP_SLOPE(y[e]);
                            g[e] = p * z[e];
                        }
                    }
                    ADD_ROWS(a, x, Q + STAGE(stage), j);
                    ADD_ROWS(c, dp, G + STAGE(stage), j);
                    SUMS_ARRIVE(a, c, 8 * DEEP);
                }
            }
    }
    if (LVN_HAS(dk)) PUT_ROWS(dk, b * d0 + hk * d2, d1, first_key, Tk, add_k, a, scale);
    if (LVN_HAS(dv)) PUT_ROWS(dv, b * e0 + hk * e2, e1, first_key, Tk, add_v, c, 1);
}

#endif
#endif
#endif
