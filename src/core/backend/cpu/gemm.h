/* gemm.h - matrix multiplication, C = A B, with everything that linear layers need. The kernels of
 * src/core/ops/NAME.cpu.c call it.
 *
 * A, B and C are strided views: A and B may have any row and column strides (so x W, x W^T and dY^T X are the same
 * call); the columns of C are contiguous. All threads of the team make the call with the same arguments. Each computes
 * its part of C without waiting for others, so a barrier must follow before C is read elsewhere.
 *
 * Each element of C is the sum of fixed blocks of K, each of them one chain of fused multiply-adds in the order of k.
 * How K is divided depends only on K. So the bits of an element depend neither on the number of threads nor on the
 * number of rows or columns computed together with it, and they are the same on AVX2 and AVX-512. Multiplications in
 * bf16 on AVX512-BF16, and all on AMX, are computed differently (gemm_bf16.h), with the same accuracy and other bits,
 * unless they have fewer than 16 rows, columns or steps of k. With few rows, B in packed blocks is decoded in registers
 * and summed in another order (gemm_few_blocks.h), and AMX has its own kernels for bf16 (gemm_few_amx.h).
 *
 * C and all sums are fp32. A and B may be bf16, and B in packed blocks. If `bf16` is set, a CPU that multiplies bf16
 * faster may round fp32 operands to bf16, once, to nearest; others compute in fp32. */
#ifndef LVN_GEMM_H
#define LVN_GEMM_H

#include "host/isa.h"
#include "packed/packed.h"

struct lvn_gemm {
    int64_t m, n, k;
    const void *a; /* (M,K): element (i,k) at a[i * a_row + k * a_col] */
    int64_t a_row, a_col;
    const void *b; /* (K,N): element (k,j) at b[k * b_row + j * b_col] */
    int64_t b_row, b_col;
    bool a_bf16, b_bf16; /* elements are bf16, else fp32 */
    /* B in packed blocks, as rows of columns of B (b_row is 1, b_col the length of a row) or of its rows (the reverse);
     * it is widened part by part while it is packed. dtype not packed: none. */
    struct lvn_blocks b_blocks;
    bool bf16; /* operands may be rounded to bf16 */
    float *c;  /* (M,N): element (i,j) at c[i * c_row + j]; NULL: only finish() reads C; see buffers() below */
    int64_t c_row;
    bool add;          /* C += A B; otherwise C is overwritten and never read */
    const float *bias; /* (N), added to every row; NULL: none. Must be NULL if `add` is set. */
    /* Epilogue, called for blocks of C, rows i..i+m-1 and columns j..j+n-1, as soon as they are complete and still in
     * the cache: their first element is at `block`, and the next row `row` elements further. Each element is in exactly
     * one block. NULL: none. */
    void (*finish)(const struct lvn_gemm *g, float *block, int64_t row, int64_t i, int64_t m, int64_t j, int64_t n);
    /* A B equals its transpose. If `c` is NULL, blocks below the diagonal are not computed: finish() gets only blocks
     * that have an element on the diagonal or above it, all with i and j multiples of LVN_GEMM_BLOCK. */
    bool symmetric;
    const void *argument; /* for finish() */
};

/* lvn_gemm_kernel.buffers() may be false for fewer rows than these, although it is true for more. */
enum { LVN_GEMM_FEW = 16 };

/* The implementation for one instruction set. */
struct lvn_gemm_kernel {
    /* Bytes of scratch per thread, a multiple of 64, also sufficient for sizes that are smaller in any dimension.
     * Pointers in `g` need not be set. */
    int64_t (*scratch)(const struct lvn_gemm *g);
    /* Are fp32 operands rounded to bf16? Then operands rounded beforehand give the same bits. Pointers in `g` need not
     * be set. */
    bool (*rounds)(const struct lvn_gemm *g);
    /* May `c` be NULL, so that blocks of C are only in the thread's scratch until finish() has read them? Pointers in
     * `g` need not be set. */
    bool (*buffers)(const struct lvn_gemm *g);
    /* `scratch` is the calling thread's, 64-byte aligned. */
    void (*run)(const struct lvn_gemm *g, void *scratch, int thread, int n_threads);
};
/* lvn_gemm_kernel() of cpu_kernels.h selects one of them. */
extern const struct lvn_gemm_kernel lvn_gemm_generic, lvn_gemm_avx2, lvn_gemm_avx512, lvn_gemm_avx512_bf16,
    lvn_gemm_amx;

enum {
    LVN_GEMM_KC = 512,   /* longest block of K */
    LVN_GEMM_BLOCK = 32, /* rows and columns of a block of C in scratch */
};

#endif
