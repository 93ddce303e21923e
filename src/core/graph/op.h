/* op.h - the definition of an operation: its shape rule, the operands of its gradient, and its plain kernels.
 *
 * Each src/core/ops/NAME.c defines one operation with LVN_OPERATION(). Its plain kernels are the specification,
 * compiled once for float and once for double. The graph, the passes and the backends find operations by id (lvn_op());
 * ops/ops.def lists all of them.
 *
 * Fast kernels and threads belong to the backends (ops/NAME.cpu.c, ops/NAME.k). */
#ifndef LVN_OP_H
#define LVN_OP_H

#include "base/status.h"
#include "base/tensor.h"
#include "graph/step.h"

struct levin_graph;
struct levin_tensor;

/* Layout of parameters in a flat buffer: parameter k is elements [start[k], start[k + 1]). */
struct lvn_extents {
    int n;
    const int64_t *start; /* [n + 1] elements; start[n]: end of the last parameter */
};

/* Attributes of every optimizer's operation; in ops.def their struct begins with a member `update` of this type. */
struct lvn_update {
    double weight_decay; /* 0: off */
    double lr_scale;     /* factor of the step's learning rate */
    double clip_value;   /* maximum absolute value of a gradient's elements; 0: off */
    int64_t first;       /* element of the flat buffers at which the range begins */
    int64_t number;      /* number of that element for stochastic rounding; see lvn_param_group.number */
    const struct lvn_extents *parameters; /* layout of the trainable parameters; NULL: the range is one parameter */
    unsigned summed; /* mask of the outputs whose running sum is updated (ops/update.h), in the last output */
};

/* LVN_OP_embedding, LVN_OP_linear, ... */
enum lvn_op_id {
#define LVN_OP(name, attr, args) LVN_OP_##name,
#include "ops/ops.def"
    LVN_OP_COUNT
};

/* The typed attributes of an operation: attr->layernorm.eps. */
union lvn_attr {
#define LVN_OP(name, attr, args) struct attr name;
#include "ops/ops.def"
    struct lvn_update update; /* common to all optimizers' operations */
};

enum { LVN_MAX_IN = 6, LVN_MAX_OUT = 4 };
enum { LVN_HIDDEN_RANGES = 2 }; /* of keys that attention hides from a query, see graph.h */

enum lvn_phase {
    LVN_FORWARD,  /* outputs from inputs */
    LVN_BACKWARD, /* gradients of inputs from gradients of outputs */
    LVN_RESTORE,  /* recompute outputs from inputs and saved values, more cheaply than forward */
    LVN_PHASE_COUNT
};

/* One operand of a kernel. */
struct lvn_arg {
    void *p;                     /* first element: desc->offset is included; NULL: absent */
    const struct lvn_desc *desc; /* shape, strides, type; NULL: absent */
};

/* The arguments of a kernel. Kernels allocate nothing, have no state and never fail. */
struct lvn_call {
    enum lvn_phase phase;
    const union lvn_attr *attr;
    struct lvn_arg in[LVN_MAX_IN];    /* backward: only those in the operation's `reads`, else p == NULL */
    struct lvn_arg out[LVN_MAX_OUT];  /* n_out differentiable outputs, then n_saved saved values */
    struct lvn_arg dout[LVN_MAX_OUT]; /* backward: gradients of the outputs; p == NULL: no gradient */
    struct lvn_arg din[LVN_MAX_IN];   /* backward: gradients to write; p == NULL: not needed */
    bool add[LVN_MAX_IN];             /* backward: din[i] += instead of din[i] = */
    /* BF16, F16: matrix multiplications may round operands to it if that is faster; F32: never */
    enum lvn_dtype matmul_dtype;
    void *scratch;             /* scratch memory, as large as scratch() returned, 64-byte aligned */
    struct lvn_step *step;     /* only scale_loss writes it */
    struct lvn_result *result; /* used by operations that run after backward */
    uint32_t op_hash;          /* hash of the node's scoped name, for random numbers */
};

/* The specification: plain C, one thread. */
typedef void lvn_plain_kernel(const struct lvn_call *call);

struct lvn_plain_kernels {
    lvn_plain_kernel *forward;
    lvn_plain_kernel *backward; /* NULL: not differentiable */
    lvn_plain_kernel *restore;  /* NULL: outputs cannot be restored */
    /* Bytes of scratch for call->phase; NULL: none. The call has descriptors and attributes, but no pointers. */
    int64_t (*scratch)(const struct lvn_call *call);
};

/* Arguments of a shape rule: it checks in[] and sets out[] (outputs, then saved values). */
struct lvn_shapes {
    const char *op; /* name of the operation, for messages */
    const union lvn_attr *attr;
    struct lvn_desc in[LVN_MAX_IN];
    bool has[LVN_MAX_IN];         /* false: input i is absent */
    const char *name[LVN_MAX_IN]; /* names of the inputs, for messages; NULL: unnamed */
    struct lvn_desc out[LVN_MAX_OUT];
    enum lvn_dtype real; /* the graph's real type: fp32, or fp64 for reference runs */
};

/* Bits of a mask of operands. */
#define LVN_READS_IN(i) (1u << (i))
#define LVN_READS_OUT(i) (1u << (8 + (i))) /* outputs and saved values */

struct lvn_op {
    const char *name;
    int n_in;
    int n_in_min; /* inputs from this one on may be absent */
    int n_out;    /* differentiable outputs */
    int n_saved;  /* further outputs, for backward only */
    /* Mask of the operands that backward reads, besides gradients. */
    uint32_t reads;
    /* Mask of the operands that restore reads; 0: restoring is not cheaper than forward. */
    uint32_t restores;
    /* Forward: bit i: out[0] may overwrite in[i]. Backward: din[i] may overwrite dout[0]. */
    unsigned in_place;
    /* Mask of the operands that fast kernels also accept in bf16, together with their gradients. */
    uint32_t low_precision_ok;
    /* Mask of the inputs (biases) that GPUs also accept in bf16, if their kernel rounds them to bf16 before it reads
     * them (lvn_instr.rounds). CPUs do not accept them in bf16. */
    uint32_t rounded_ok;
    /* Mask of the inputs that fast kernels also accept in packed blocks (packed/packed.h), without a gradient. */
    uint32_t packed_ok;
    /* Backward also computes the outputs (losses), so training drops forward. */
    bool forward_in_backward;
    /* True: inputs 0 and 1 have the same gradient, which is written once, to din[0]. NULL: never. */
    bool (*same_gradient)(const union lvn_attr *attr);
    /* True: consecutive instructions of this operation are independent, and CPUs run them concurrently, each on one
     * thread (lvn_instr.n_side_by_side), because small calls gain little from many threads. */
    bool side_by_side;
    /* There is no kernel; all ranks run it together through the binding's struct lvn_collectives. */
    bool collective;
    /* The gradient of inputs 0 and 1 is dout[0] itself, so backward runs nothing (add). */
    bool passes_gradient;
    /* The shape rule. SHAPE, ARG, UNSUPPORTED: the inputs do not fit the operation. */
    enum lvn_status (*shape)(struct lvn_shapes *s);
    /* Multiplications and additions of call->phase; NULL: not counted. */
    double (*flops)(const struct lvn_call *call);
    struct lvn_plain_kernels spec; /* in the real type that the file was compiled for */
};

/* Define an operation: the last statement of its file. The rules are macro arguments instead of designated
 * initializers, so an operation without a gradient rule does not compile. Operations without a gradient (optimizers,
 * counts, collectives) pass LVN_NOT_DIFFERENTIABLE. */
#define LVN_NOT_DIFFERENTIABLE ((lvn_plain_kernel *)0)
#define LVN_OPERATION(id, shape_rule, forward_kernel, backward_kernel, ...)                                            \
    const struct lvn_op LVN_REAL_NAME(lvn_op_##id) = {.name = #id,                                                     \
                                                      .shape = (shape_rule),                                           \
                                                      .spec.forward = (forward_kernel),                                \
                                                      .spec.backward = (backward_kernel),                              \
                                                      __VA_ARGS__}

/* The operation compiled for `real`, LVN_F32 or LVN_F64. Both have the same name, shapes and rules. */
const struct lvn_op *lvn_op(enum lvn_op_id id, enum lvn_dtype real);
/* The operation's plain kernel for a phase; NULL: none. */
static inline lvn_plain_kernel *lvn_op_plain(const struct lvn_op *op, enum lvn_phase phase)
{
    return phase == LVN_FORWARD ? op->spec.forward : phase == LVN_BACKWARD ? op->spec.backward : op->spec.restore;
}

#endif
