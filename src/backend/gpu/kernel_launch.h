/* kernel_launch.h - what an operation launches on a device: the host's half of src/ops/NAME.k.
 *
 * For each phase a function describes the launches of one instruction: kernel, grid, arguments. It sees descriptions
 * and attributes alone (g->call), no memory and no device, for it is called when the program is planned (what does it
 * want of scratch, is there a kernel at all) and once more when program and memory are bound. So nothing of it is done
 * in a step. The first failure sticks: later calls do nothing.
 *
 *     static void forward(struct lvn_gpu *g)
 *     {
 *         int64_t n = lvn_desc_count(g->call->out[0].desc);
 *         LVN_LAUNCH(g, "gelu_forward", lvn_gpu_groups(n), 1, 1, LVN_IN(0, x), LVN_OUT(0, y), LVN_LONG(n));
 *     }
 *
 * Arguments stand in the order of the kernel's parameters. An operand that is absent is a pointer to nothing. */
#ifndef LVN_KERNEL_LAUNCH_H
#define LVN_KERNEL_LAUNCH_H

#include "base/random.h"
#include "graph/op.h"
#include "graph/step.h"

struct lvn_memory;
struct lvn_arena;

enum { LVN_ITEMS = 256 }; /* of a group; words.h */

/* What lies on the device of struct lvn_step, as struct lvn_now of words.h has it. */
struct lvn_gpu_step {
    uint64_t seed;
    int64_t step, first_row, end_row;
    float lr, grad_scale, lr_rest; /* lr = lr + lr_rest, to twice the digits */
    int32_t training;
    int32_t position[LVN_DECODE_ROWS]; /* words.h says 8 */
};

enum lvn_gpu_kind {
    LVN_GPU_END,
    LVN_GPU_OPERAND_IN, /* these four: number `index` of the call's, from its `number`-th byte on */
    LVN_GPU_OPERAND_OUT,
    LVN_GPU_OPERAND_DIN,
    LVN_GPU_OPERAND_DOUT,
    LVN_GPU_OPERAND_SCRATCH, /* `number` bytes behind the start of the instruction's */
    LVN_GPU_OPERAND_NONE,    /* a pointer to nothing */
    LVN_GPU_OPERAND_DATA,    /* `index` bytes at `data`, the same in every run */
    LVN_GPU_OPERAND_STEP,    /* struct lvn_gpu_step */
    LVN_GPU_OPERAND_RESULT,  /* struct lvn_result */
    LVN_GPU_VALUE_ADD,       /* int: does din[index] add */
    LVN_GPU_VALUE_LONG,
    LVN_GPU_VALUE_INT,
    LVN_GPU_VALUE_FLOAT,
};

struct lvn_gpu_arg {
    enum lvn_gpu_kind kind;
    int index;
    const char *name;    /* of an operand, in the kernel */
    const void *data;    /* of DATA: in g->arena */
    int64_t number;      /* the value of ADD, LONG, INT */
    float real;          /* of FLOAT */
    enum lvn_dtype type; /* SCRATCH: of its numbers, fp32 where nothing is said */
    /* Operands, once they are bound: */
    struct lvn_memory *memory; /* NULL: absent */
    int64_t offset;            /* bytes */
};

/* A matrix product, as kernels and libraries are asked for it:
 *
 *     c (M,N) = a (M,K) b (K,N) + bias (N); y (M,N) = gelu(c)
 *
 * a and b lie with any two strides, which makes all four transposes; c and y are row-major. */
struct lvn_gpu_product {
    struct lvn_gpu_arg a, b, bias, c, y; /* named a, b, bias, c, y; bias and y: may be absent */
    struct lvn_gpu_arg add;              /* an int: c += */
    int64_t M, N, K;
    int64_t a_row, a_col, b_row, b_col; /* elements from one to the next */
    int tangent;                        /* which gelu: by tanh */
};

/* What a library is asked about one: no memory yet. Without gaps, so that two are compared as bytes. */
struct lvn_gpu_matmul {
    int64_t M, N, K;
    int64_t a_ld, b_ld; /* elements from row to row of what lies there: (M,K) or, transposed, (K,M); (K,N) or (N,K) */
    int64_t max;        /* bytes of scratch that it may want */
    int a_transposed, b_transposed;
    int in, out;          /* enum lvn_dtype: of a and b, which are of one; of c, y and bias */
    int bias, gelu;       /* there is one; y = gelu(c), by tanh, and c is kept */
    int a_at, b_at, c_at; /* bytes that the addresses of a, of b, and of c, y and bias are multiples of */
    int none;
};

/* What makes products in place of kernels: the library of a device's maker. */
struct lvn_gpu_library {
    enum lvn_status (*takes)(const struct lvn_gpu_library *l, const struct lvn_gpu_matmul *m, bool *taken,
                             int64_t *scratch);
    int64_t max; /* bytes of scratch that each product may want */
};

struct lvn_gpu_launch {
    const char *source;  /* NAME of NAME.k */
    const char *kernel;  /* of the text */
    const char *defines; /* "#define A 1\n...": of constants, and of the types of operands that are not fp32 */
    int64_t grid[3];     /* groups, of LVN_ITEMS items each */
    struct lvn_gpu_arg *args;
    int n_args;
    int module;                           /* number of the text that it is in, once it is bound */
    void *own;                            /* the backend's */
    const struct lvn_gpu_matmul *product; /* of the library, with the arguments LVN_GPU_PRODUCT_...; NULL: a kernel */
    int64_t product_scratch;              /* bytes */
    struct lvn_gpu_launch *other;         /* lvn_gpu_two_variants(); NULL: there is none */
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

/* The launches of one instruction, while they are described. */
struct lvn_gpu {
    const struct lvn_call *call;
    struct lvn_arena *arena;
    const char *source, *constants;
    struct lvn_gpu_launch *launches;
    int n_launches;
    int64_t scratch_bytes;
    enum lvn_status status;
    const struct lvn_gpu_library *library; /* NULL: there is none */
    bool units;                            /* there are matrix units whose items have whole rows */
    struct lvn_gpu_rounded *rounded;       /* product.c */
};

void lvn_gpu_launch(struct lvn_gpu *g, const char *kernel, int64_t x, int64_t y, int64_t z,
                    const struct lvn_gpu_arg *args);
/* `name` is `value` in the launches from here on: "#define name value". */
void lvn_gpu_define(struct lvn_gpu *g, const char *name, int64_t value);
/* A type of real numbers, as kernels call it. */
void lvn_gpu_define_type(struct lvn_gpu *g, const char *name, enum lvn_dtype type);
/* Room within the instruction's scratch: an argument's `number`. */
int64_t lvn_gpu_scratch(struct lvn_gpu *g, int64_t bytes);
/* --- products by a library: product.c --- */
/* False: there is none, or it does not take this one, and nothing is launched. */
bool lvn_gpu_product(struct lvn_gpu *g, const struct lvn_gpu_product *p);
/* Behind an instruction's last launch: where the scratch of its products lies, one's after the other's. */
void lvn_gpu_products_end(struct lvn_gpu *g);
/* What was rounded in scratch for a product may be written over: it is rounded again when it is wanted. */
void lvn_gpu_products_forget(struct lvn_gpu *g);
/* A launch of l's kernel, or product, with n arguments; NULL: it failed. */
struct lvn_gpu_launch *lvn_gpu_append(struct lvn_gpu *g, const struct lvn_gpu_launch *l, const struct lvn_gpu_arg *args,
                                      int n);
/* The last launch is the one before it in another form: the same arguments, the same bits, another text or grid. A
 * device that measures takes the faster one, others the first. */
void lvn_gpu_two_variants(struct lvn_gpu *g);
/* The description of an operand of the call; NULL: it is none, or absent. */
const struct lvn_desc *lvn_gpu_desc(const struct lvn_call *c, const struct lvn_gpu_arg *a);

/* There is no kernel for this: the sentence says what is not there. */
void lvn_gpu_refuse(struct lvn_gpu *g, const char *format, ...) LVN_PRINTF(2, 3);

/* Dropout of a tensor (samples,...,C): the last four parameters of lvn_dropout_factor() of words.h, in its order. */
#define LVN_DROPOUT(g, p, desc)                                                                                        \
    LVN_INT(lvn_dropout_threshold(p)), LVN_FLOAT(lvn_gpu_retained(p)), LVN_INT((int32_t)(g)->call->op_hash),           \
        LVN_LONG(lvn_desc_rows(desc) / (desc)->dim[0])
/* What dropout multiplies with what it keeps. */
static inline double lvn_gpu_retained(double p)
{
    uint32_t threshold = lvn_dropout_threshold(p);
    return threshold < 65536 ? 1 / (1 - threshold / 65536.0) : 0;
}

/* Groups for so many items. */
static inline int64_t lvn_gpu_groups(int64_t n)
{
    return (n + LVN_ITEMS - 1) / LVN_ITEMS;
}

#define LVN_LAUNCH(g, kernel, x, y, z, ...)                                                                            \
    lvn_gpu_launch(g, kernel, x, y, z, (const struct lvn_gpu_arg[]){__VA_ARGS__, {.kind = LVN_GPU_END}})
/* An item for each of n elements; n is the kernel's last parameter. */
#define LVN_LAUNCH_EACH(g, kernel, n, ...) LVN_LAUNCH(g, kernel, lvn_gpu_groups(n), 1, 1, __VA_ARGS__, LVN_LONG(n))
/* clang-format off */
#define LVN_IN(i, n) {.kind = LVN_GPU_OPERAND_IN, .index = (i), .name = #n}
#define LVN_OUT(i, n) {.kind = LVN_GPU_OPERAND_OUT, .index = (i), .name = #n}
#define LVN_DIN(i, n) {.kind = LVN_GPU_OPERAND_DIN, .index = (i), .name = #n}
#define LVN_DOUT(i, n) {.kind = LVN_GPU_OPERAND_DOUT, .index = (i), .name = #n}
#define LVN_SCRATCH(at, n) {.kind = LVN_GPU_OPERAND_SCRATCH, .number = (at), .name = #n}
#define LVN_ABSENT(n) {.kind = LVN_GPU_OPERAND_NONE, .name = #n}
#define LVN_DATA(p, bytes, n) {.kind = LVN_GPU_OPERAND_DATA, .data = (p), .index = (bytes), .name = #n}
#define LVN_STEP {.kind = LVN_GPU_OPERAND_STEP, .name = "now"}
#define LVN_RESULT {.kind = LVN_GPU_OPERAND_RESULT, .name = "result"}
#define LVN_ADDS(i) {.kind = LVN_GPU_VALUE_ADD, .index = (i)}
#define LVN_LONG(n) {.kind = LVN_GPU_VALUE_LONG, .number = (n)}
#define LVN_INT(n) {.kind = LVN_GPU_VALUE_INT, .number = (n)}
#define LVN_FLOAT(x) {.kind = LVN_GPU_VALUE_FLOAT, .real = (float)(x)}
/* clang-format on */

/* Ends an operation's NAME.k. A phase that is left out has no kernel. */
struct lvn_gpu_operation {
    const char *name;
    void (*forward)(struct lvn_gpu *g);
    void (*backward)(struct lvn_gpu *g);
    void (*restore)(struct lvn_gpu *g);
};
#define LVN_GPU_OPERATION(id, ...) const struct lvn_gpu_operation lvn_gpu_##id = {.name = #id, __VA_ARGS__}

#endif
