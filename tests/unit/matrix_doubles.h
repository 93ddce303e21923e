/* matrix_doubles.h - doubles of instructions of matrix units, which stand in front of kernels' texts in tests: what
 * matrix_gpu.h calls there, with the operands spread over the items of a sub-group as the manuals have them. An OpenCL
 * device with Intel's sub-groups runs them: Intel's runtime for processors. */
#ifndef LVN_MATRIX_DOUBLES_H
#define LVN_MATRIX_DOUBLES_H

struct matrix_double {
    const char *name, *wants, *text; /* wants: of the platform's name; NULL: any */
};

#define OF_BF16 "static inline float of_bf16(uint bits) { return as_float(bits << 16); }\n"

/* cl_intel_subgroup_matrix_multiply_accumulate: item l has of a column l, or columns 2l and 2l + 1 where there are
 * eight; of b column l, rows 2j and 2j + 1 in number j; of c column l. */
#define INTEL(items, a, low, high)                                                                                     \
    "#define LVN_MATRIX_INTEL " items "\n" OF_BF16 "static inline float8 intel_sub_group_bf16_bf16_matrix_mad_k16(" a  \
    " a, int8 b, float8 c)\n"                                                                                          \
    "{\n"                                                                                                              \
    "    int row[8], column[8];\n"                                                                                     \
    "    float sum[8];\n"                                                                                              \
    "    vstore8(convert_int8(a), 0, row), vstore8(b, 0, column), vstore8(c, 0, sum);\n"                               \
    "    for (int i = 0; i < 8; i++)\n"                                                                                \
    "        for (int j = 0; j < 8; j++) {\n"                                                                          \
    "            sum[i] += of_bf16((uint)" low " & 0xffffu) * of_bf16((uint)column[j] & 0xffffu);\n"                   \
    "            sum[i] += of_bf16((uint)" high ") * of_bf16((uint)column[j] >> 16);\n"                                \
    "        }\n"                                                                                                      \
    "    return vload8(0, sum);\n"                                                                                     \
    "}\n"

static const struct matrix_double matrix_doubles[] = {
    {"loops", NULL, "#define LVN_MATRIX_PLAIN\n"},
    {"Intel's, of 16 items", "Intel",
     INTEL("16", "short8", "intel_sub_group_shuffle(row[i], 2 * j)",
           "intel_sub_group_shuffle(row[i], 2 * j + 1) & 0xffffu")},
    {"Intel's, of 8 items", "Intel",
     INTEL("8", "int8", "intel_sub_group_shuffle(row[i], j)", "intel_sub_group_shuffle(row[i], j) >> 16")},
    /* PTX ISA, mma.m16n8k16: a (i,k) is with lane i % 8 * 4 + k % 8 / 2, in number i / 8 + k / 8 * 2; b (k,j) with lane
     * j * 4 + k % 8 / 2, in number k / 8; of pairs the first is the low one. */
    {"NVIDIA's", "Intel",
     "#define LVN_MATRIX_NVIDIA\n"
     "#define LVN_MMA(d, a, b0, b1) mma(d, a, b0, b1)\n"
     "#define LVN_LDMATRIX(v, row) ldmatrix(v, row, 0)\n"
     "#define LVN_LDMATRIX_TURNED(v, row) ldmatrix(v, row, 1)\n"
     "#define LVN_SHUFFLE_XOR(x, mask) intel_sub_group_shuffle_xor(x, (uint)(mask))\n" OF_BF16
     /* ldmatrix.m8n8.x4: rows at addresses of 16 bytes; turned, a lane has two rows of a column. */
     "static inline void ldmatrix(uint *v, __local const ushort *row, int turned)\n"
     "{\n"
     "    int lane = (int)get_sub_group_local_id(), g = lane / 4, t = lane % 4;\n"
     "    for (int m = 0; m < 4; m++) {\n"
     "        ulong first = intel_sub_group_shuffle((ulong)row, 8 * m + (turned ? 2 * t : g));\n"
     "        ulong second = intel_sub_group_shuffle((ulong)row, 8 * m + (turned ? 2 * t + 1 : g));\n"
     "        uint low = ((__local const ushort *)first)[turned ? g : 2 * t];\n"
     "        uint high = ((__local const ushort *)second)[turned ? g : 2 * t + 1];\n"
     "        v[m] = first % 16 || second % 16 ? 0xffffffffu : low | high << 16;\n"
     "    }\n"
     "}\n"
     "static inline void mma(float *d, const uint *a, uint b0, uint b1)\n"
     "{\n"
     "    int lane = (int)get_sub_group_local_id(), g = lane / 4, t = lane % 4;\n"
     "    for (int k = 0; k < 16; k += 2) {\n"
     "        int of = k % 8 / 2;\n"
     "        uint upper = intel_sub_group_shuffle(a[k / 8 * 2], g * 4 + of);\n"
     "        uint lower = intel_sub_group_shuffle(a[k / 8 * 2 + 1], g * 4 + of);\n"
     "        uint left = intel_sub_group_shuffle(k / 8 ? b1 : b0, 2 * t * 4 + of);\n"
     "        uint right = intel_sub_group_shuffle(k / 8 ? b1 : b0, (2 * t + 1) * 4 + of);\n"
     "        for (int h = 0; h < 32; h += 16) {\n"
     "            d[0] += of_bf16(upper >> h & 0xffffu) * of_bf16(left >> h & 0xffffu);\n"
     "            d[1] += of_bf16(upper >> h & 0xffffu) * of_bf16(right >> h & 0xffffu);\n"
     "            d[2] += of_bf16(lower >> h & 0xffffu) * of_bf16(left >> h & 0xffffu);\n"
     "            d[3] += of_bf16(lower >> h & 0xffffu) * of_bf16(right >> h & 0xffffu);\n"
     "        }\n"
     "    }\n"
     "}\n"},
};

#endif
