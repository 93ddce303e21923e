/* op.h - what an operation is: shapes, what its gradient reads, and its specification.
 *
 * An operation is one file in src/ops. NAME.c holds its shape rule, its gradient rule and the plain kernels, which are
 * the specification: they are compiled once for float and once for double. How a device computes the same faster, on
 * how many threads, is its backend's affair. Operations are found through the table ops/ops.def. */
#ifndef LVN_OP_H
#define LVN_OP_H

#include "base/status.h"
#include "base/tensor.h"
#include "graph/step.h"

struct lvn_graph;
struct lvn_tensor;

/* Where parameters lie in a flat buffer: number k begins at start[k], and start[n] is the end of the last one. */
struct lvn_extents {
    int n;
    const int64_t *start; /* elements, n + 1 */
};

/* Weights whose gradients, outer products, are not in the flat buffer (ops/outer.h): number k lies from element
 * first[k] on, and its gradient is in[1 + 2k] (rows) times in[2 + 2k] (columns). */
enum { LVN_MAX_OUTERS = 2, LVN_OUTER_VECTOR = 16 }; /* rows are whole vectors of so many elements */
struct lvn_outers {
    int n;
    int64_t first[LVN_MAX_OUTERS]; /* elements */
};

/* LVN_OP_embedding, LVN_OP_linear, ... */
enum lvn_op_id {
#define LVN_OP(name, attr, args) LVN_OP_##name,
#include "ops/ops.def"
    LVN_OP_COUNT
};

/* The typed constants of an operation: attr->layernorm.eps. */
union lvn_attr {
#define LVN_OP(name, attr, args) struct attr name;
#include "ops/ops.def"
};

enum { LVN_MAX_IN = 6, LVN_MAX_OUT = 4 };

enum lvn_phase {
    LVN_FORWARD,  /* outputs from inputs */
    LVN_BACKWARD, /* gradients of inputs from gradients of outputs */
    LVN_RESTORE,  /* outputs again, from inputs and saved values, at less cost than forward */
    LVN_PHASE_COUNT
};

/* One operand as a kernel on the processor sees it. `p` already includes the description's offset; NULL when absent. */
struct lvn_arg {
    void *p;
    const struct lvn_desc *desc;
};

/* Everything a kernel gets. Kernels allocate nothing, keep nothing and never fail. */
struct lvn_call {
    enum lvn_phase phase;
    const union lvn_attr *attr;
    struct lvn_arg in[LVN_MAX_IN];    /* backward: only those that the op's `reads` names, else p == NULL */
    struct lvn_arg out[LVN_MAX_OUT];  /* n_out differentiable outputs, then n_saved saved values */
    struct lvn_arg dout[LVN_MAX_OUT]; /* backward: gradients of the outputs; p == NULL when nothing depends on one */
    struct lvn_arg din[LVN_MAX_IN];   /* backward: gradients to write; p == NULL when not wanted */
    bool add[LVN_MAX_IN];             /* backward: din[i] += instead of = */
    enum lvn_dtype
        product_dtype;     /* what products may round their operands to, if that is faster: BF16, F16; F32: nothing */
    void *scratch;         /* as many bytes as scratch() asked for, 64-byte aligned */
    struct lvn_step *step; /* scale_loss alone changes it */
    struct lvn_result *result; /* of operations that run after backward */
    uint32_t op_hash;          /* hash of the node's scoped name, for random numbers */
};

/* The specification: plain C, one thread. */
typedef void lvn_plain_kernel(const struct lvn_call *call);

struct lvn_plain_kernels {
    lvn_plain_kernel *forward, *backward, *restore; /* restore: NULL where the op has none */
    /* Bytes of scratch for a phase; NULL: none. `call` carries descriptions and attributes, no pointers. */
    int64_t (*scratch)(const struct lvn_call *call);
};

/* What a shape rule works on: in[] is given, it checks them and fills out[] (outputs, then saved values). */
struct lvn_shapes {
    const char *op; /* the operation's name, for messages */
    const union lvn_attr *attr;
    struct lvn_desc in[LVN_MAX_IN];
    bool has[LVN_MAX_IN];
    const char *name[LVN_MAX_IN]; /* of the tensors, for messages; NULL: it has none */
    struct lvn_desc out[LVN_MAX_OUT];
    enum lvn_dtype real; /* type of the graph's real numbers: fp32, or fp64 for reference runs */
};

#define LVN_READS_IN(i) (1u << (i))
#define LVN_READS_OUT(i) (1u << (8 + (i))) /* outputs and saved values alike */

struct lvn_op {
    const char *name;
    int n_in, n_in_min; /* inputs from n_in_min on may be absent */
    int n_out, n_saved;
    uint32_t reads;            /* what backward reads, besides gradients */
    uint32_t restores;         /* what restore reads; 0: the op cannot be restored more cheaply than by forward */
    unsigned in_place;         /* forward: bit i: out[0] may lie where in[i] lay; backward: din[i] where dout[0] lay */
    uint32_t low_precision_ok; /* operands (as in `reads`) that fast kernels also take and give, with their gradients,
                                  as bf16 */
    bool gradient_in_forward;  /* backward gives the outputs as well (a loss): forward is dropped when training */
    bool (*same_gradient)(const union lvn_attr *attr); /* inputs 0 and 1 have one gradient, written once, to din[0] */
    bool collective;      /* no kernel: ranks do it together, by the binding's collectives */
    bool passes_gradient; /* add: the gradient of inputs 0 and 1 is dout[0] itself, nothing is run */
    enum lvn_status (*shape)(struct lvn_shapes *s);
    double (*flops)(const struct lvn_call *call); /* multiplications and additions of a phase; NULL: not counted */
    struct lvn_plain_kernels spec;                /* in the real type that the file was compiled for */
};

/* Ends an operation's file. The rules are arguments, not fields: an operation without a gradient rule does not compile.
 * What runs after backward (optimizers) says LVN_NOT_DIFFERENTIABLE. */
#define LVN_NOT_DIFFERENTIABLE ((lvn_plain_kernel *)0)
#define LVN_OPERATION(id, shape_rule, forward_kernel, backward_kernel, ...)                                            \
    const struct lvn_op LVN_REAL_NAME(lvn_op_##id) = {.name = #id,                                                     \
                                                      .shape = (shape_rule),                                           \
                                                      .spec.forward = (forward_kernel),                                \
                                                      .spec.backward = (backward_kernel),                              \
                                                      __VA_ARGS__}

/* The operation compiled for fp32 or fp64; same name, shapes and rules. */
const struct lvn_op *lvn_op(enum lvn_op_id id, enum lvn_dtype real);
/* Its plain kernel for a phase; NULL: it has none. */
static inline lvn_plain_kernel *lvn_op_plain(const struct lvn_op *op, enum lvn_phase phase)
{
    return phase == LVN_FORWARD ? op->spec.forward : phase == LVN_BACKWARD ? op->spec.backward : op->spec.restore;
}

#endif
