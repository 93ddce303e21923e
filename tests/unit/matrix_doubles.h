/* matrix_doubles.h - doubles of the matrix units' instructions that ops/matrix_gpu.h calls; tests put them in front of
 * the kernels' texts. Operands are distributed over the work-items of a sub-group as in the manuals. They run on an
 * OpenCL device with Intel's sub-groups: Intel's runtime for processors. */
#ifndef LVN_MATRIX_DOUBLES_H
#define LVN_MATRIX_DOUBLES_H

#include "base/tensor.h"

struct matrix_double {
    const char *name, *wants, *text; /* wanted part of the platform name; NULL: any */
    enum lvn_dtype half;             /* of the factors */
    int64_t heads; /* the largest heads of attention that are tested: a double takes seconds to compile a kernel */
    bool shared;   /* and heads so large that warps share rows, which exchange values in another way */
};

#define OF_bf16 "static inline float of_16(uint bits) { return as_float(bits << 16); }\n"
#define OF_f16                                                                                                         \
    "static inline float of_16(uint bits)\n{\n    ushort x = (ushort)bits;\n"                                          \
    "    return vload_half(0, (const __private half *)&x);\n}\n"

/* cl_intel_subgroup_matrix_multiply_accumulate: item l has of a column l, or columns 2l and 2l + 1 where there are
 * eight; of b column l, rows 2j and 2j + 1 in number j; of c column l. */
#define INTEL(type, items, a, low, high)                                                                               \
    "#define LVN_MATRIX_INTEL " items "\n" OF_##type                                                                   \
        "static inline float8 intel_sub_group_" #type "_" #type "_matrix_mad_k16(" a " a, int8 b, float8 c)\n"         \
        "{\n"                                                                                                          \
        "    int row[8], column[8];\n"                                                                                 \
        "    float sum[8];\n"                                                                                          \
        "    vstore8(convert_int8(a), 0, row), vstore8(b, 0, column), vstore8(c, 0, sum);\n"                           \
        "    for (int i = 0; i < 8; i++)\n"                                                                            \
        "        for (int j = 0; j < 8; j++) {\n"                                                                      \
        "            sum[i] += of_16((uint)" low " & 0xffffu) * of_16((uint)column[j] & 0xffffu);\n"                   \
        "            sum[i] += of_16((uint)" high ") * of_16((uint)column[j] >> 16);\n"                                \
        "        }\n"                                                                                                  \
        "    return vload8(0, sum);\n"                                                                                 \
        "}\n"

/* ldmatrix.m8n8.x4: rows at addresses of 16 bytes; transposed: a lane has two rows of a column. */
#define LDMATRIX                                                                                                       \
    "#define LVN_LDMATRIX(v, row) ldmatrix(v, row, 0)\n"                                                               \
    "#define LVN_LDMATRIX_TRANSPOSED(v, row) ldmatrix(v, row, 1)\n"                                                    \
    "#define LVN_SHUFFLE_XOR(x, mask) intel_sub_group_shuffle_xor(x, (uint)(mask))\n"                                  \
    "static inline void ldmatrix(uint *v, __local const ushort *row, int transposed)\n"                                \
    "{\n"                                                                                                              \
    "    int lane = (int)get_sub_group_local_id(), g = lane / 4, t = lane % 4;\n"                                      \
    "    for (int m = 0; m < 4; m++) {\n"                                                                              \
    "        ulong first = intel_sub_group_shuffle((ulong)row, 8 * m + (transposed ? 2 * t : g));\n"                   \
    "        ulong second = intel_sub_group_shuffle((ulong)row, 8 * m + (transposed ? 2 * t + 1 : g));\n"              \
    "        uint low = ((__local const ushort *)first)[transposed ? g : 2 * t];\n"                                    \
    "        uint high = ((__local const ushort *)second)[transposed ? g : 2 * t + 1];\n"                              \
    "        v[m] = first % 16 || second % 16 ? 0xffffffffu : low | high << 16;\n"                                     \
    "    }\n"                                                                                                          \
    "}\n"

/* cp.async: the copy may take place at once, or as late as the wait for it. */
#define COPIES_EARLY                                                                                                   \
    "#define LVN_COPIES\n"                                                                                             \
    "#define LVN_COPY_ASYNC(to, from, there) vstore8(there ? vload8(0, from) : (ushort8)0, 0, to)\n"                   \
    "#define LVN_COPY_WAIT() (void)0\n"
#define COPIES_LATE                                                                                                    \
    "struct copy { __local ushort *to; const __global ushort *from; };\n"                                              \
    "#define LVN_COPIES struct copy copies[16]; int n_copies = 0;\n"                                                   \
    "#define LVN_COPY_ASYNC(to_, from_, there) \\\n"                                                                   \
    "    copies[n_copies].to = to_, copies[n_copies++].from = there ? from_ : (const __global ushort *)0\n"            \
    "#define LVN_COPY_WAIT() copy_all(copies, &n_copies)\n"                                                            \
    "static inline void copy_all(const struct copy *c, int *n)\n"                                                      \
    "{\n"                                                                                                              \
    "    for (int i = 0; i < *n; i++) vstore8(c[i].from ? vload8(0, c[i].from) : (ushort8)0, 0, c[i].to);\n"           \
    "    *n = 0;\n"                                                                                                    \
    "}\n"

/* PTX ISA, mma.m16n8k16: a (i,k) is with lane i % 8 * 4 + k % 8 / 2, in number i / 8 + k / 8 * 2; b (k,j) with lane
 * j * 4 + k % 8 / 2, in number k / 8; of pairs the first is the low one. */
#define NVIDIA(type, copies)                                                                                           \
    "#define LVN_MATRIX_NVIDIA\n" OF_##type LDMATRIX copies                                                            \
        "#define LVN_MMA(d, a, b0, b1) mma(d, a, b0, b1)\n"                                                            \
        "static inline void mma(float *d, const uint *a, uint b0, uint b1)\n"                                          \
        "{\n"                                                                                                          \
        "    int lane = (int)get_sub_group_local_id(), g = lane / 4, t = lane % 4;\n"                                  \
        "    for (int k = 0; k < 16; k += 2) {\n"                                                                      \
        "        int of = k % 8 / 2;\n"                                                                                \
        "        uint upper = intel_sub_group_shuffle(a[k / 8 * 2], g * 4 + of);\n"                                    \
        "        uint lower = intel_sub_group_shuffle(a[k / 8 * 2 + 1], g * 4 + of);\n"                                \
        "        uint left = intel_sub_group_shuffle(k / 8 ? b1 : b0, 2 * t * 4 + of);\n"                              \
        "        uint right = intel_sub_group_shuffle(k / 8 ? b1 : b0, (2 * t + 1) * 4 + of);\n"                       \
        "        for (int h = 0; h < 32; h += 16) {\n"                                                                 \
        "            d[0] += of_16(upper >> h & 0xffffu) * of_16(left >> h & 0xffffu);\n"                              \
        "            d[1] += of_16(upper >> h & 0xffffu) * of_16(right >> h & 0xffffu);\n"                             \
        "            d[2] += of_16(lower >> h & 0xffffu) * of_16(left >> h & 0xffffu);\n"                              \
        "            d[3] += of_16(lower >> h & 0xffffu) * of_16(right >> h & 0xffffu);\n"                             \
        "        }\n"                                                                                                  \
        "    }\n"                                                                                                      \
        "}\n"

static const struct matrix_double matrix_doubles[] = {
    {"loops", NULL, "#define LVN_MATRIX_PLAIN\n", LVN_BF16, 24, true},
    {"Intel's, of 16 items", "Intel",
     INTEL(bf16, "16", "short8", "intel_sub_group_shuffle(row[i], 2 * j)",
           "intel_sub_group_shuffle(row[i], 2 * j + 1) & 0xffffu"),
     LVN_BF16, 16, true},
    {"Intel's, of 8 items", "Intel",
     INTEL(bf16, "8", "int8", "intel_sub_group_shuffle(row[i], j)", "intel_sub_group_shuffle(row[i], j) >> 16"),
     LVN_BF16, 0, false},
    {"NVIDIA's", "Intel", NVIDIA(bf16, COPIES_EARLY), LVN_BF16, 24, false},
    {"NVIDIA's, with late copies", "Intel", NVIDIA(bf16, COPIES_LATE), LVN_BF16, 128, false},
    {"loops, in fp16", NULL, "#define LVN_MATRIX_PLAIN\n", LVN_F16, 24, false},
    {"Intel's, of 8 items, in fp16", "Intel",
     INTEL(f16, "8", "int8", "intel_sub_group_shuffle(row[i], j)", "intel_sub_group_shuffle(row[i], j) >> 16"), LVN_F16,
     0, false},
    {"NVIDIA's, in fp16", "Intel", NVIDIA(f16, COPIES_EARLY), LVN_F16, 0, false},
};

#endif
