/* kernel_launch.h - the host half of src/core/ops/NAME.k: functions by which an operation describes its kernel launches
 * on a device. gpu_program.c calls them.
 *
 * For each phase a function describes the launches of one instruction: kernel, grid, arguments. It sees shapes,
 * attributes (g->call) and two properties of the device (matrix units, a library), but no memory, because it is called
 * when the program is planned (to compute scratch and whether a kernel exists) and again when program and memory are
 * bound. A step calls none of it. After a first failure later calls do nothing.
 *
 *     static void forward(struct lvn_gpu *g)
 *     {
 *         int64_t n = lvn_desc_count(g->call->out[0].desc);
 *         LVN_LAUNCH(g, "tanh_forward", lvn_gpu_groups(n), 1, 1, LVN_IN(0, x), LVN_OUT(0, y), LVN_LONG(n));
 *     }
 *
 * Arguments are in the order of the kernel's parameters. An absent operand is a null pointer. */
#ifndef LVN_KERNEL_LAUNCH_H
#define LVN_KERNEL_LAUNCH_H

#include "backend/gpu/step_gpu.h"
#include "base/random.h"
#include "graph/op.h"
#include "graph/step.h"

struct lvn_memory;
struct lvn_arena;

enum { LVN_GPU_ALIGNED = 16 }; /* bytes: the alignment that the widest loads require */

enum lvn_gpu_kind {
    LVN_GPU_END,
    LVN_GPU_OPERAND_IN, /* these four: operand `index` of the call, plus `number` bytes */
    LVN_GPU_OPERAND_OUT,
    LVN_GPU_OPERAND_DIN,
    LVN_GPU_OPERAND_DOUT,
    LVN_GPU_OPERAND_SCRATCH, /* the instruction's scratch, plus `number` bytes */
    LVN_GPU_OPERAND_NONE,    /* a null pointer */
    LVN_GPU_OPERAND_DATA,    /* `bytes` bytes at `data`, the same in every run */
    LVN_GPU_OPERAND_STEP,    /* struct lvn_gpu_step */
    LVN_GPU_OPERAND_RESULT,  /* struct lvn_result */
    LVN_GPU_VALUE_ADD,       /* int: 1 if the kernel adds to the gradient din[index] */
    LVN_GPU_VALUE_LONG,
    LVN_GPU_VALUE_INT,
    LVN_GPU_VALUE_FLOAT,
};

struct lvn_gpu_arg {
    enum lvn_gpu_kind kind;
    int index;
    const char *name;    /* name of an operand in the kernel */
    const void *data;    /* DATA: the bytes, in g->arena */
    int64_t bytes;       /* DATA: their number */
    int64_t number;      /* ADD, LONG, INT: the value; operands: bytes */
    float real;          /* FLOAT: the value */
    enum lvn_dtype type; /* SCRATCH: type of its elements; fp32 by default */
    /* Operands, set when they are bound: */
    struct lvn_memory *memory; /* NULL: absent */
    int64_t offset;            /* bytes */
};

/* A matrix multiplication, for kernels and libraries:
 *
 *     c (M,N) = a (M,K) b (K,N) + bias (N); y (M,N) = gelu(c)
 *
 * a and b may have any two strides, which covers all four transposes; c and y are row-major, with rows of N elements,
 * or c_row if that is not 0. */
struct lvn_gpu_product {
    struct lvn_gpu_arg a, b, bias, c, y; /* with these names; bias and y may be absent */
    struct lvn_gpu_arg add;              /* an int: accumulate, c += */
    int64_t M, N, K;
    int64_t a_row, a_col, b_row, b_col, c_row; /* strides in elements */
    int tanh_gelu;                             /* GELU is the tanh approximation, not the exact one */
};

/* A matrix multiplication as described to a library, before memory is bound. The struct has no padding, so that it can
 * be compared as bytes. */
struct lvn_gpu_matmul {
    int64_t M, N, K;
    int64_t a_ld; /* leading dimension in elements of a as stored: (M,K) or, transposed, (K,M) */
    int64_t b_ld; /* of b: (K,N) or, transposed, (N,K) */
    int64_t c_ld; /* of c and y */
    int64_t max_scratch_bytes;
    int a_transposed, b_transposed;
    int in;   /* enum lvn_dtype of a and b */
    int out;  /* enum lvn_dtype of c, y and bias */
    int bias; /* a bias is added */
    int gelu; /* y = gelu(c), by tanh, and c is written too */
    int a_at; /* alignment of a, bytes */
    int b_at; /* alignment of b */
    int c_at; /* alignment of c, y and bias */
    int unused;
};

/* A library that computes matrix multiplications instead of kernels. */
struct lvn_gpu_matmul_library {
    /* *supported: the library can compute it; *scratch: bytes that it then needs. */
    enum lvn_status (*supports)(const struct lvn_gpu_matmul_library *l, const struct lvn_gpu_matmul *m, bool *supported,
                                int64_t *scratch);
    int64_t max_scratch_bytes; /* of a multiplication */
};

struct lvn_gpu_launch {
    const char *source;  /* NAME of NAME.k */
    const char *kernel;  /* name in the text */
    const char *defines; /* "#define A 1\n...": constants and types of operands other than fp32 */
    int64_t grid[3];     /* work-groups of LVN_ITEMS items */
    struct lvn_gpu_arg *args;
    int n_args;
    int module;                           /* index of its module, set when it is bound */
    void *backend_data;                   /* the backend's kernel object */
    const struct lvn_gpu_matmul *product; /* by the library, with arguments LVN_GPU_PRODUCT_...; NULL: a kernel */
    int64_t product_scratch;              /* bytes */
};
enum {
    LVN_GPU_PRODUCT_A,
    LVN_GPU_PRODUCT_B,
    LVN_GPU_PRODUCT_BIAS,
    LVN_GPU_PRODUCT_C,
    LVN_GPU_PRODUCT_Y,
    LVN_GPU_PRODUCT_ADD,
    LVN_GPU_PRODUCT_SCRATCH,
    LVN_GPU_PRODUCT_ARGS
};

/* The launches of one instruction while they are being described. */
struct lvn_gpu {
    const struct lvn_call *call;
    struct lvn_arena *arena;
    const char *source;    /* NAME of NAME.k */
    const char *constants; /* #define lines of later launches */
    struct lvn_gpu_launch *launches;
    int n_launches;
    int64_t scratch_bytes;
    enum lvn_status status;
    const struct lvn_gpu_matmul_library *library; /* NULL: none */
    bool matrix_units;                            /* the device has matrix units (tensor cores) */
    struct lvn_gpu_rounded *rounded;              /* operands that were rounded for the library */
    uint32_t read;                                /* mask (LVN_READS_IN) of the inputs that are read without rounding */
};

/* Append a launch of (x, y, z) work-groups; none if one of these is 0. args end with LVN_GPU_END. */
void lvn_gpu_launch(struct lvn_gpu *g, const char *kernel, int64_t x, int64_t y, int64_t z,
                    const struct lvn_gpu_arg *args);
/* The same with an item for each LVN_WIDTH of n elements (ops/numbers_gpu.h): 8 if the elements of a row and the
 * operands' alignment allow it, else 1. n is an argument too. */
void lvn_gpu_launch_wide(struct lvn_gpu *g, const char *kernel, int64_t n, int64_t row, const struct lvn_gpu_arg *args);
/* Add "#define name value" to all later launches of the instruction. */
void lvn_gpu_define(struct lvn_gpu *g, const char *name, int64_t value);
/* The same with the name of a floating-point type as the value. */
void lvn_gpu_define_type(struct lvn_gpu *g, const char *name, enum lvn_dtype type);
/* Reserve bytes of the instruction's scratch; returns the `number` of an argument LVN_SCRATCH. */
int64_t lvn_gpu_scratch(struct lvn_gpu *g, int64_t bytes);
/* The shape of an operand of the call; NULL: not an operand, or absent. */
const struct lvn_desc *lvn_gpu_desc(const struct lvn_call *c, const struct lvn_gpu_arg *a);
/* LVN_WIDTH (ops/numbers_gpu.h) of a launch with these arguments, the last of which is LVN_GPU_END: 8 if the elements
 * of a row and the operands' alignment allow it, else 1. */
int lvn_gpu_width(const struct lvn_gpu *g, int64_t row, const struct lvn_gpu_arg *args);

/* Fail with UNSUPPORTED: `format` describes what has no kernel. */
void lvn_gpu_refuse(struct lvn_gpu *g, const char *format, ...) LVN_PRINTF(2, 3);

/* Arguments for dropout of a tensor (samples,...,C): the last four parameters of lvn_dropout_factor() of
 * kernel_language.h. */
#define LVN_DROPOUT(g, p, desc)                                                                                        \
    LVN_INT(lvn_dropout_threshold(p)), LVN_FLOAT(lvn_gpu_dropout_scale(p)), LVN_INT((int32_t)(g)->call->op_hash),      \
        LVN_LONG(lvn_desc_rows(desc) / (desc)->dim[0])
/* The factor of elements that dropout retains: 1 / (1 - p), with p rounded as in the threshold. */
static inline double lvn_gpu_dropout_scale(double p)
{
    uint32_t threshold = lvn_dropout_threshold(p);
    return threshold < 65536 ? 1 / (1 - threshold / 65536.0) : 0;
}

/* --- matrix multiplication by a library --- */

/* Launch a multiplication by the library, and the kernels that it needs before and after. False: there is no library,
 * or it cannot compute this one; nothing is launched. */
bool lvn_gpu_product(struct lvn_gpu *g, const struct lvn_gpu_product *p);
/* After an instruction's last launch: place the scratch shared by its library calls after the rest. */
void lvn_gpu_products_end(struct lvn_gpu *g);

/* Number of work-groups for n items. */
static inline int64_t lvn_gpu_groups(int64_t n)
{
    return (n + LVN_ITEMS - 1) / LVN_ITEMS;
}

#define LVN_LAUNCH(g, kernel, x, y, z, ...)                                                                            \
    lvn_gpu_launch(g, kernel, x, y, z, (const struct lvn_gpu_arg[]){__VA_ARGS__, {.kind = LVN_GPU_END}})
/* One item for each of n elements; n is the kernel's last parameter. */
#define LVN_LAUNCH_EACH(g, kernel, n, ...) LVN_LAUNCH(g, kernel, lvn_gpu_groups(n), 1, 1, __VA_ARGS__, LVN_LONG(n))
/* The same for n elements in rows of `row` elements; an item processes LVN_WIDTH of them. */
#define LVN_LAUNCH_WIDE(g, kernel, n, row, ...)                                                                        \
    lvn_gpu_launch_wide(g, kernel, n, row,                                                                             \
                        (const struct lvn_gpu_arg[]){__VA_ARGS__, LVN_LONG(n), {.kind = LVN_GPU_END}})
/* clang-format off */
#define LVN_IN(i, n) {.kind = LVN_GPU_OPERAND_IN, .index = (i), .name = #n}
#define LVN_OUT(i, n) {.kind = LVN_GPU_OPERAND_OUT, .index = (i), .name = #n}
#define LVN_DIN(i, n) {.kind = LVN_GPU_OPERAND_DIN, .index = (i), .name = #n}
#define LVN_DOUT(i, n) {.kind = LVN_GPU_OPERAND_DOUT, .index = (i), .name = #n}
#define LVN_SCRATCH(at, n) {.kind = LVN_GPU_OPERAND_SCRATCH, .number = (at), .name = #n}
#define LVN_ABSENT(n) {.kind = LVN_GPU_OPERAND_NONE, .name = #n}
#define LVN_DATA(p, bytes_, n) {.kind = LVN_GPU_OPERAND_DATA, .data = (p), .bytes = (bytes_), .name = #n}
#define LVN_STEP {.kind = LVN_GPU_OPERAND_STEP, .name = "now"}
#define LVN_RESULT {.kind = LVN_GPU_OPERAND_RESULT, .name = "result"}
#define LVN_ADDS(i) {.kind = LVN_GPU_VALUE_ADD, .index = (i)}
#define LVN_LONG(n) {.kind = LVN_GPU_VALUE_LONG, .number = (n)}
#define LVN_INT(n) {.kind = LVN_GPU_VALUE_INT, .number = (n)}
#define LVN_FLOAT(x) {.kind = LVN_GPU_VALUE_FLOAT, .real = (float)(x)}
/* The difference of a double and the nearest float. */
#define LVN_REST(x) LVN_FLOAT((x) - (double)(float)(x))
/* clang-format on */

/* At the end of an operation's NAME.k. An omitted phase has no kernel. */
struct lvn_gpu_operation {
    const char *name;
    void (*forward)(struct lvn_gpu *g);
    void (*backward)(struct lvn_gpu *g);
    void (*restore)(struct lvn_gpu *g);
};
#define LVN_GPU_OPERATION(id, ...) const struct lvn_gpu_operation lvn_gpu_##id = {.name = #id, __VA_ARGS__}

#endif
