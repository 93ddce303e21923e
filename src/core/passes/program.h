/* program.h - a training step as a list of instructions (a program).
 *
 * lvn_program_new() builds a program from a graph; a backend binds it to memory and runs it (backend/backend.h). A pass
 * (pass.h) is one function in one file; it rewrites the program. They run in this order:
 *
 *     build -> prune -> fuse -> fuse_chains -> mixed_precision -> differentiate -> recompute | blocks
 *           -> gradient_accumulation -> update -> data_parallel -> shard_checksums -> loss_scaling
 *           -> round_parameters -> verify -> memory_planning
 *
 * A program starts as the forward instructions of a graph. Fuse and fuse_chains replace groups of instructions by fused
 * operations, differentiate appends backward instructions, recompute and blocks free activations and recompute them for
 * backward, verify checks the list against the operations' shape rules, memory_planning gives every value its offset.
 * Operands refer to values by index; every value is in one of a few buffers. Nothing is decided while the program runs.
 *
 * Not here: kernels and running the list, which belong to the backend. */
#ifndef LVN_PROGRAM_H
#define LVN_PROGRAM_H

#include "graph/graph.h"

struct lvn_device;
struct lvn_text;

enum lvn_buffer {
    LVN_BUFFER_ARENA,  /* activations and scratch: valid during one run; laid out by memory_planning */
    LVN_BUFFER_PARAM,  /* flat values of the parameters */
    LVN_BUFFER_PACKED, /* weights in packed blocks (packed/packed.h), which no run changes */
    LVN_BUFFER_GRAD,   /* n_grad_buffers flat gradients of the trainable parameters */
    LVN_BUFFER_STATE0, /* flat optimizer state: first moment */
    LVN_BUFFER_STATE1, /* flat optimizer state: second moment */
    LVN_BUFFER_LINES,  /* second moments of lines of matrices (lvn_param_lines()), of all matrices on every rank */
    LVN_BUFFER_SCALE,  /* struct lvn_scaling, if the loss is scaled */
    LVN_BUFFER_SUMS,   /* running sums of shards and gathered parameters (shard_checksums.c) */
    LVN_BUFFER_INPUT,  /* bound by the caller for each micro-batch; slot: index of the input */
    LVN_BUFFER_CACHE,  /* key/value cache: kept between runs; slot: index of the cache */
    LVN_BUFFER_RESULT, /* results of a run: struct lvn_result, then the sums of each micro-batch */
    LVN_BUFFER_COUNT
};

struct lvn_value {
    const char *name;
    enum lvn_buffer buffer;
    int slot;             /* INPUT, CACHE: index of the input or cache */
    enum lvn_dtype dtype; /* of its elements; U8: bytes, which operands view as elements of any type */
    int64_t bytes;
    int64_t offset;          /* bytes from the start of the buffer; ARENA: set by memory_planning */
    int first;               /* ARENA: first instruction of its lifetime; set by memory_planning */
    int last;                /* ARENA: last instruction of its lifetime; set by memory_planning */
    bool in_place;           /* overwrites a dead value, whose lifetime includes this one's; set by memory_planning */
    bool keep;               /* the caller reads it after the run */
    struct lvn_param *param; /* PARAM, PACKED, GRAD: the parameter; NULL: a range of the buffer */
};

/* A view of a value. */
struct lvn_operand {
    int value; /* < 0: absent */
    struct lvn_desc desc;
};

enum lvn_when {
    LVN_EVERY_MICRO_BATCH,
    LVN_FIRST_MICRO_BATCH, /* sums over micro-batches: overwrite the previous step's sum; copies of parameters */
    LVN_LATER_MICRO_BATCHES,
    LVN_LAST_MICRO_BATCH,  /* starts of reductions, once per step when gradients are complete */
    LVN_AFTER_MICRO_BATCH, /* sums of gradients, after micro-batch instr->micro_batch */
    LVN_AFTER_BACKWARD,    /* norm, clipping, optimizer, once per step */
};

/* The ranks of a collective. */
enum lvn_scope {
    LVN_SCOPE_ALL,
    LVN_SCOPE_GROUP,   /* the ranks among which this rank's copy of the model is sharded */
    LVN_SCOPE_REPLICAS /* the ranks of all groups that own the same shards as this rank */
};

struct lvn_instr {
    enum lvn_phase phase;
    enum lvn_when when;
    int64_t micro_batch; /* AFTER_MICRO_BATCH: index in the run */
    enum lvn_op_id id;
    const struct lvn_op *op;
    union lvn_attr attr;
    const char *name;            /* of the graph's node */
    uint32_t hash;               /* of that name, for random numbers */
    int block;                   /* of the model; below 0: outside of all blocks */
    bool recomputed;             /* repeats a forward instruction for backward */
    enum lvn_dtype matmul_dtype; /* see struct lvn_call; set by mixed_precision.c */
    int handle;                  /* collective and its wait: collective handle, below program->n_handles */
    enum lvn_scope scope;        /* of a collective */
    struct lvn_operand in[LVN_MAX_IN];
    struct lvn_operand out[LVN_MAX_OUT];
    struct lvn_operand dout[LVN_MAX_OUT];
    struct lvn_operand din[LVN_MAX_IN];
    bool add[LVN_MAX_IN];            /* din[i] has earlier contributions: add to them */
    bool param_gradient[LVN_MAX_IN]; /* din[i] is a parameter's gradient: from the second micro-batch on, add to it */
    struct lvn_operand scratch;      /* value < 0: none */
    /* Number of instructions, beginning with this one, that run concurrently, each on one thread; their values do not
     * share memory. 0: all threads run this instruction together. Set by memory_planning. */
    int n_side_by_side;
    const void *kernel; /* the backend's kernel; set by lvn_device_choose() in memory_planning */
    uint32_t rounds; /* mask (LVN_READS_IN) of the fp32 inputs that the kernel reads only after rounding them to bf16,
                        so that bf16 inputs give the same bits; set by lvn_device_choose() */
};

/* What is sharded: a rank keeps only its shard of it (passes/shard.h). */
enum lvn_shards {
    LVN_SHARDS_STATE = 1, /* optimizer state: a rank updates its shard and receives the other parameters */
    /* With STATE, without `tree`: the sums of gradients; those of a micro-batch are whole for one block at a time. */
    LVN_SHARDS_GRADIENTS = 2,
    LVN_SHARDS_PARAMETERS = 4 /* with STATE: parameters; those of a block are gathered before use */
};

/* Data parallelism: each rank has a part of the batch, and all of the model that is not sharded. */
struct lvn_sharding {
    int rank;
    int size;
    unsigned sharded; /* set of enum lvn_shards; 0: each rank has the whole model (ddp); STATE: zero1; STATE |
                         GRADIENTS: zero2; all three: fsdp */
    bool tree;        /* sum gradients after backward in the order of the tree over micro-batches; else in buckets */
    bool bf16;        /* send buckets of fp32 in bf16 */
    bool keep;        /* PARAMETERS: keep gathered parameters from forward to backward */
    bool round;       /* PARAMETERS: round those that all readers round to bf16 before gathering */
    int group; /* PARAMETERS: number of consecutive ranks that shard a copy of the model, a divisor of `size`; 0: all */
    /* PARAMETERS: number of steps in which each block's gathered parameters are summed once (shard_checksums.c); 0:
     * never */
    int64_t sums_every;
};
/* Number of ranks that shard a copy of the model, and a rank's index among them. */
static inline int lvn_sharding_owners(const struct lvn_sharding *s)
{
    return s->group ? s->group : s->size;
}
static inline int lvn_sharding_owner(const struct lvn_sharding *s, int rank)
{
    return rank % lvn_sharding_owners(s);
}

/* The micro-batches of a run as leaves of the summation tree: [first, first + n) of `total` in the global batch. */
struct lvn_tree_leaves {
    int64_t first;
    int64_t n;
    int64_t total;
};

/* A tree node that a run leaves in a gradient buffer: the sum of micro-batches [first, end). */
struct lvn_pending_node {
    int64_t first;
    int64_t end;
    int buffer; /* index of the gradient buffer */
};
enum { LVN_MAX_PENDING = 64 };

/* Above this many partial sums, gradients accumulate in fp32, because small terms vanish in bf16. */
enum { LVN_BF16_PARTIAL_SUMS_MAX = 64 };

/* Which activations are freed after forward and recomputed for backward. Later values save more memory. */
enum lvn_recompute {
    LVN_RECOMPUTE_AUTO, /* CHEAP if activations use much of a host's memory, else NONE */
    LVN_RECOMPUTE_NONE,
    LVN_RECOMPUTE_CHEAP, /* outputs of operations with a restore kernel */
    LVN_RECOMPUTE_BLOCKS /* all but the inputs of the model's blocks */
};

struct lvn_program {
    struct lvn_arena arena; /* for names and lists */
    struct levin_graph *graph;
    enum lvn_dtype real;
    enum lvn_dtype weights;      /* of parameters; set by mixed_precision.c */
    enum lvn_dtype matmul_dtype; /* of instructions that later passes append; set by mixed_precision.c */
    enum lvn_dtype gradients; /* of parameters' gradients: `weights`, or `real` above LVN_BF16_PARTIAL_SUMS_MAX sums */
    bool writes_gradients;    /* each micro-batch writes the whole gradient of a parameter that it uses (zero2, fsdp) */
    struct lvn_value *values;
    int n_values;
    int64_t values_capacity;
    struct lvn_instr *instrs;
    int n_instrs;
    int64_t instrs_capacity;
    int *value_of_tensor; /* [graph->n_tensors] tensor's id -> value; -1: not in the program */
    int *value_of_param;  /* [params->n] parameter's number -> value; -1: not in the program */
    struct levin_tensor **outputs;
    int n_outputs;
    int n_handles;                /* collectives; set by shard */
    int n_shard_checksums;        /* running sums of this rank's shards; set by shard_checksums */
    bool training;                /* has backward instructions */
    enum lvn_recompute recompute; /* the mode in effect, never AUTO */
    bool rounds_once;             /* it has copies of parameters (round_parameters.c) */
    /* Set by accumulate: */
    int n_grad_buffers;        /* flat gradients in GRAD */
    int64_t grad_buffer_bytes; /* size of each; 0 without backward */
    int *grad_buffer_of;       /* [micro-batches of the run] buffer that each writes; NULL: all add to buffer 0 */
    struct lvn_pending_node pending[LVN_MAX_PENDING]; /* after the last micro-batch, from left to right */
    int n_pending;
    /* Set by memory_planning: */
    struct lvn_device *device; /* runs the program; NULL: not planned yet */
    int first_sum;             /* the first instruction that is not part of a micro-batch: sums over micro-batches */
    int first_update;          /* the first instruction after those: once per step */
    int64_t sum_bytes;         /* of the sums of one micro-batch, in RESULT */
    int64_t arena_bytes;       /* exact size of the arena */
    int64_t unplaced_bytes;    /* sum over all values of the arena: its size without reuse */
};

/* Data types, as in trainer.precision (mixed_precision.c). */
enum lvn_precision {
    LVN_PRECISION_TRUE, /* everything in the graph's real type */
    /* Parameters, gradients and optimizer state in fp32; activations in bf16 if all operations that use them accept it;
     * matrix multiplications in bf16 if the device is faster at it. */
    LVN_PRECISION_BF16_MIXED,
    LVN_PRECISION_BF16_TRUE, /* as BF16_MIXED, and parameters and their gradients in bf16 */
    LVN_PRECISION_16_MIXED   /* as BF16_MIXED, in fp16, with a loss scale (loss_scaling.c) */
};

/* An optimizer step on whole matrices: three operations, of which only the second requires the whole matrix. */
struct lvn_matrix_steps {
    bool used;
    enum lvn_op_id direction; /* in[0]: the gradient; out[0]: a direction, then at most the number of moments of the
                                 other parameters, updated in place; element-wise */
    enum lvn_op_id whole;     /* in[0], out[0]: directions of a matrix, (inputs,outputs), in place */
    bool lines;               /* whole, out[1]: a moment of each line (lvn_param_lines()), updated in place */
    enum lvn_op_id
        step; /* in[0]: the result of `whole`; out[0]: the parameters, updated in place; element by element */
    union lvn_attr direction_attr, whole_attr, step_attr; /* attr.update: clip_value */
    /* Set the members of step_attr that depend on the shape of the matrix. NULL: none do. */
    void (*fit)(const struct lvn_desc *matrix, union lvn_attr *step_attr);
};

/* An optimizer as a program runs it; lvn_optimizer_init() creates it from a run's options (optimizers/optimizer.h). */
struct lvn_optimizer {
    const char *name;    /* optimizer.kind, for messages */
    enum lvn_op_id op;   /* in[0]: the gradient; out[0]: the parameters, then the moments, updated in place */
    union lvn_attr attr; /* of op; of attr.update: weight_decay, for the groups that decay, and clip_value */
    /* Set the decay rates of op, for groups that have their own; NULL: no group does. */
    void (*set_betas)(union lvn_attr *attr, const double betas[2]);
    /* For the matrices of the model's blocks (lvn_param_is_block_matrix()); then op is for the other parameters. */
    struct lvn_matrix_steps matrices;
    double clip_norm; /* maximum 2-norm of the gradient; 0: off */
    bool bf16_state;  /* moments in bf16, if op accepts that */
};
/* Number of moments per parameter. */
static inline int lvn_optimizer_moments(const struct lvn_optimizer *o)
{
    return lvn_op(o->op, LVN_F32)->n_out - 1;
}
/* Number of moments per element of a block's matrix. */
static inline int lvn_optimizer_matrix_moments(const struct lvn_optimizer *o)
{
    return o->matrices.used ? lvn_op(o->matrices.direction, LVN_F32)->n_out - 1 : lvn_optimizer_moments(o);
}

struct lvn_plan_options {
    int n_sums; /* the first n_sums outputs are sums (losses, metrics), which a run returns for every micro-batch */
    bool train; /* differentiate, and append the optimizer */
    bool fuse;  /* off only in tests */
    enum lvn_precision precision;
    enum lvn_recompute recompute;
    bool round_once;                    /* round_parameters.c */
    const struct lvn_tree_leaves *tree; /* sum micro-batches as a tree; NULL: each adds to one gradient */
    /* Number of partial sums of a step's gradient: of the global batch with a tree, else of this rank. */
    int64_t n_partial_sums;
    const struct lvn_optimizer *optimizer; /* NULL with train: gradients only */
    const struct lvn_sharding *sharding;   /* NULL, or of size 1: one rank */
    struct lvn_device *device;             /* the device that will run the program; must outlive it */
};

/* Run all passes in order. The graph must outlive the program. Errors: see the passes. */
enum lvn_status lvn_program_new(struct lvn_program **out, struct levin_graph *g, struct levin_tensor *const *outputs,
                                int n_outputs, const struct lvn_plan_options *o) LVN_CHECKED;
/* A program for `device` that computes a checksum (ops/parameter_checksum.c) of each parameter of g, a graph without
 * nodes, or, with `sharding`, of this rank's part of it, if it has one. weights: the parameters' type. *sums: I32
 * (params->n, 4) in the arena, kept, in the order of declaration. */
enum lvn_status lvn_program_new_checksums(struct lvn_program **out, struct levin_graph *g, enum lvn_dtype weights,
                                          const struct lvn_sharding *sharding, struct lvn_device *device,
                                          struct lvn_operand *sums) LVN_CHECKED;
void lvn_program_free(struct lvn_program *p);
/* The operand of output `t`, valid after the last micro-batch; value < 0: `t` is no output. */
struct lvn_operand lvn_program_output(const struct lvn_program *p, const struct levin_tensor *t);
/* Offset in RESULT, in bytes, of the sums of micro-batch m. With m = the number of micro-batches: the size of RESULT.
 */
int64_t lvn_program_sums_at(const struct lvn_program *p, int64_t m);

/* --- program_build.c: functions with which passes build programs --- */

/* The forward instructions of `g` that the outputs need. outputs[0]: the loss, if there is one. ARG: an output is NULL,
 * or the error of the graph. */
enum lvn_status lvn_program_build(struct lvn_program **out, struct levin_graph *g, struct levin_tensor *const *outputs,
                                  int n_outputs) LVN_CHECKED;
/* Append a value of `count` elements; -1: out of memory. */
int lvn_program_add_value(struct lvn_program *p, const char *name, enum lvn_buffer buffer, enum lvn_dtype dtype,
                          int64_t count);
/* Append an instruction without operands. The pointer is valid until the next call. NULL: out of memory. */
struct lvn_instr *lvn_program_add_instr(struct lvn_program *p, enum lvn_op_id id, enum lvn_phase phase);
#define LVN_NO_OPERAND ((struct lvn_operand){.value = -1})
/* Append a value: elements [offset, offset + count) of a flat buffer. NO_OPERAND: out of memory. */
struct lvn_operand lvn_program_add_range(struct lvn_program *p, const char *name, enum lvn_buffer buffer,
                                         enum lvn_dtype dtype, int64_t offset, int64_t count);
/* Call visit() for each operand that is present; written: the instruction writes it; otherwise it reads it. */
void lvn_instr_operands(struct lvn_instr *i, void (*visit)(struct lvn_operand *o, bool written, void *argument),
                        void *argument);

/* --- program_print.c: a program as text --- */

/* The columns of a listing. Both begin with the instruction's number, its phase (lvn_instr_phase) and its operation.
 *
 * COST, below a line of titles: name of the model's node; shape of the first operand written; MFLOP, millions of
 * multiplications and additions of one launch (empty: not counted); MiB of the arena in use while it runs.
 *
 * OPERANDS: all operands, read -> written.
 *   x                  input, cache, parameter ("w") or its gradient ("gradient of w"), by name
 *   %7, %7@128         value number 7, in the arena; after memory_planning, at byte 128
 *   gradients[0:64]    elements 0 to 63 of a flat buffer, from the buffer's start
 *   result@40          a sum that the run returns, at byte 40
 *   %7+12              a view that begins 12 elements into the value
 *   +%7                this gradient is added to the earlier contributions
 *   %7:bf16            the element type, if it differs from the program's real type
 *   %7 (2, 4)          the shape, of operands that are written
 *   [first], [last]    runs only in the first or the last micro-batch
 *   [later]            runs in all micro-batches but the first
 *   [after 3]          runs after micro-batch 3
 * Below the instructions, after accumulate: number and bytes of the gradient buffers, the buffer that each micro-batch
 * writes, and the buffers that hold sums at the end (of micro-batches [first:end]). After memory_planning: bytes of the
 * arena, and the sum of its values' bytes. */
enum lvn_print { LVN_PRINT_COST, LVN_PRINT_OPERANDS };
/* Append the listing of a program to `out`; it works after any pass. MEMORY. */
enum lvn_status lvn_program_print(struct lvn_text *out, const struct lvn_program *p,
                                  enum lvn_print columns) LVN_CHECKED;
/* "forward", "again" (forward, recomputed for backward), "backward", "restore", "sum" (over micro-batches), "update",
 * "ranks" (a collective). */
const char *lvn_instr_phase(const struct lvn_instr *i);
/* The first operand that the instruction writes: an output, or a gradient. NULL: none. */
const struct lvn_operand *lvn_instr_result(const struct lvn_instr *i);

/* --- program_facts.c: facts about a program --- */

/* Host memory in bytes: the program's lists, and the CPU backends' struct lvn_call for each instruction. */
int64_t lvn_program_bytes(const struct lvn_program *p);
/* Index of the first backward instruction; n_instrs: none. */
int lvn_program_first_backward(const struct lvn_program *p);
/* Bytes of the arena in use while each instruction runs, and after the last one: bytes (n_instrs + 1). After
 * memory_planning. */
void lvn_program_live_bytes(const struct lvn_program *p, int64_t *bytes);

/* The arguments of an instruction's kernel, without pointers: attributes and descriptions. */
void lvn_instr_describe(const struct lvn_instr *i, struct lvn_call *call);

/* Multiplications and additions in one launch. */
double lvn_instr_flops(const struct lvn_instr *i);
/* Bytes of the operands, as if each were read or written once. */
int64_t lvn_instr_bytes(const struct lvn_instr *i);
/* The sum over all instructions of a step: those of that many micro-batches, and the update once. */
double lvn_program_flops(const struct lvn_program *p, int64_t micro_batches);

/* --- collectives --- */
/* Runs collective operations (ops/collective.h) for a backend, which knows nothing else about communication. The engine
 * implements it (engine/collective_runner.c). One thread makes all calls, in program order. */
struct lvn_collectives {
    void *context;
    /* Does it work on this device's memory? For other devices the backend copies operands to host memory. NULL: for
     * none. */
    bool (*supports_device)(void *context, const struct lvn_device *d);
    /* Start the collective on the operands of `call`, without blocking. `call` stays valid until the wait. Its pointers
     * are host addresses, or addresses of a device for which supports_device() is true; then the collective runs in
     * stream order and may be captured. */
    void (*start)(void *context, const struct lvn_instr *i, const struct lvn_call *call, const struct lvn_device *d);
    /* Wait for the collective with the instruction's handle. False: it failed and recorded the error; the run ends
     * without an update. */
    bool (*wait)(void *context, const struct lvn_instr *i);
};

#endif
