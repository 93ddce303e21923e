/* program.h - a training step as a list of instructions (a program).
 *
 * lvn_program_new() makes a program of a graph; a backend binds it to memory and runs it (backend/backend.h). A pass
 * (pass.h) is one function in one file; it rewrites the program. They run in this order:
 *
 *     build -> prune -> fuse -> precision -> differentiate -> recompute | blocks
 *           -> accumulate -> update -> shard -> shard_sums -> scale -> verify -> memory_planning
 *
 * A program starts as the forward instructions of a graph. Fuse replaces groups of instructions by fused operations,
 * differentiate appends backward instructions, recompute and blocks free activations and compute them once more for
 * backward, verify checks the list against the operations' shape rules, memory_planning gives every value its offset.
 * Operands of instructions name values by number; every value lies in one of a few buffers. Nothing is decided while
 * the program runs.
 *
 * Left out: kernels and how the list is run, which the backend chooses. */
#ifndef LVN_PROGRAM_H
#define LVN_PROGRAM_H

#include "graph/graph.h"

struct lvn_device;
struct lvn_text;

enum lvn_buffer {
    LVN_BUFFER_ARENA,  /* activations and scratch: lives within one run; laid out by memory_planning */
    LVN_BUFFER_PARAM,  /* flat values of the parameters */
    LVN_BUFFER_GRAD,   /* n_grad_buffers flat gradients of the trainable parameters */
    LVN_BUFFER_STATE0, /* flat optimizer state: first moment */
    LVN_BUFFER_STATE1, /* flat optimizer state: second moment */
    LVN_BUFFER_SCALE,  /* struct lvn_scaling, if the loss is scaled */
    LVN_BUFFER_SUMS,   /* running sums of shards and of what is gathered (shard_sums.c) */
    LVN_BUFFER_INPUT,  /* bound by the caller for each micro-batch; slot: number of the input */
    LVN_BUFFER_CACHE,  /* key/value cache: lives between runs; slot: number of the cache */
    LVN_BUFFER_RESULT, /* results of a run: struct lvn_result, then the sums of each micro-batch */
    LVN_BUFFER_COUNT
};

struct lvn_value {
    const char *name;
    enum lvn_buffer buffer;
    int slot;             /* INPUT, CACHE: number of the input or cache */
    enum lvn_dtype dtype; /* of its elements; U8: bytes, which operands view as elements of any type */
    int64_t bytes;
    int64_t offset;          /* bytes from the start of the buffer; ARENA: set by memory_planning */
    int first;               /* ARENA: first instruction of its lifetime; set by memory_planning */
    int last;                /* ARENA: last instruction of its lifetime; set by memory_planning */
    bool in_place;           /* overwrites a value that dies, whose lifetime includes this one's; by memory_planning */
    bool keep;               /* the caller reads it after the run: it lives to the end */
    int gradient_of;         /* the value whose gradient this is; -1: no gradient of a value */
    struct lvn_param *param; /* PARAM, GRAD: the parameter; NULL: a range of the buffer */
};

/* A view of a value. */
struct lvn_operand {
    int value; /* < 0: absent */
    struct lvn_desc desc;
};

enum lvn_when {
    LVN_EVERY_MICRO_BATCH,
    LVN_FIRST_MICRO_BATCH, /* of sums over micro-batches: the first summand in place of the last step's sum */
    LVN_LATER_MICRO_BATCHES,
    LVN_LAST_MICRO_BATCH,  /* starts of reductions: once a step, when gradients are complete */
    LVN_AFTER_MICRO_BATCH, /* sums of gradients: after micro-batch instr->micro_batch */
    LVN_AFTER_BACKWARD,    /* norm, clipping, optimizer: once a step */
};

/* The ranks of a collective. */
enum lvn_scope {
    LVN_SCOPE_ALL,
    LVN_SCOPE_GROUP,   /* those that divide the model with this one */
    LVN_SCOPE_REPLICAS /* those of all groups that own the same shards as this one */
};

struct lvn_instr {
    enum lvn_phase phase;
    enum lvn_when when;
    int64_t micro_batch; /* AFTER_MICRO_BATCH: its number in the run */
    enum lvn_op_id id;
    const struct lvn_op *op;
    union lvn_attr attr;
    const char *name;             /* of the graph's node */
    uint32_t hash;                /* of that name, for random numbers */
    int block;                    /* of the model; below 0: outside of all blocks */
    bool recomputed;              /* runs for backward once more in the same micro-batch */
    enum lvn_dtype product_dtype; /* see struct lvn_call; set by precision */
    int handle;                   /* collective and its wait: collective handle, below program->n_handles */
    enum lvn_scope scope;         /* of a collective */
    struct lvn_operand in[LVN_MAX_IN];
    struct lvn_operand out[LVN_MAX_OUT];
    struct lvn_operand dout[LVN_MAX_OUT];
    struct lvn_operand din[LVN_MAX_IN];
    bool add[LVN_MAX_IN];            /* din[i] has earlier contributions: add to them */
    bool param_gradient[LVN_MAX_IN]; /* din[i] is a parameter's gradient: from the second micro-batch on, add to it */
    struct lvn_operand scratch;      /* value < 0: none */
    const void *kernel;              /* the backend's kernel, set in memory_planning by lvn_device_choose() */
    uint32_t rounds; /* mask (LVN_READS_IN) of the inputs in fp32 that the kernel only uses rounded to bf16, so that
                        it gives the same bits where they are bf16; set by lvn_device_choose() */
};

/* What a rank keeps its shard of only (passes/shard.h), instead of the whole. */
enum lvn_shards {
    LVN_SHARDS_STATE = 1, /* optimizer state: it updates its shard, and receives the other parameters */
    /* With STATE, without `tree`: the sums of gradients; those of a micro-batch are whole, a block at a time. */
    LVN_SHARDS_GRADIENTS = 2,
    LVN_SHARDS_PARAMETERS = 4 /* with STATE: parameters; those of a block are gathered before their use */
};

/* Data parallelism: each rank has a part of the batch, and of the model what is not sharded. */
struct lvn_sharding {
    int rank;
    int size;
    unsigned sharded; /* set of enum lvn_shards; 0: each rank has the whole model (ddp); STATE: zero1; STATE |
                         GRADIENTS: zero2; all three: fsdp */
    bool tree;        /* after backward, sum gradients in the order of the tree over micro-batches; else in buckets */
    bool bf16;        /* send buckets of fp32 in bf16 */
    bool keep;        /* PARAMETERS: what was gathered for forward stays until backward */
    bool round;       /* PARAMETERS: those that all their readers round to bf16 are rounded before they are gathered */
    int group; /* PARAMETERS: consecutive ranks that divide the model; their number divides `size`; 0: all of them */
    /* PARAMETERS: in so many steps what is gathered of a block is summed once (shard_sums.c); 0: never */
    int64_t sums_every;
};
/* Ranks that divide the model, and the number of one among those. */
static inline int lvn_sharding_owners(const struct lvn_sharding *s)
{
    return s->group ? s->group : s->size;
}
static inline int lvn_sharding_owner(const struct lvn_sharding *s, int rank)
{
    return rank % lvn_sharding_owners(s);
}

/* The micro-batches of a run as leaves of the tree of sums: [first, first + n) of `total` in the global batch. */
struct lvn_tree_leaves {
    int64_t first;
    int64_t n;
    int64_t total;
};

/* A node of that tree that a run leaves in a gradient buffer: the sum of micro-batches [first, end). */
struct lvn_pending_node {
    int64_t first;
    int64_t end;
    int buffer; /* number of the gradient buffer */
};
enum { LVN_MAX_PENDING = 64 };

/* Above this many partial sums gradients accumulate in fp32: in bf16 small terms vanish. */
enum { LVN_BF16_PARTIAL_SUMS_MAX = 64 };

/* Which activations are freed after forward and computed once more for backward: the later ones save more memory. */
enum lvn_recompute {
    LVN_RECOMPUTE_AUTO, /* CHEAP if activations take much of a host's memory, else NONE */
    LVN_RECOMPUTE_NONE,
    LVN_RECOMPUTE_CHEAP, /* outputs of operations with a restore kernel */
    LVN_RECOMPUTE_BLOCKS /* all but the inputs of the model's blocks */
};

struct lvn_program {
    struct lvn_arena arena; /* of names and lists */
    struct lvn_graph *graph;
    enum lvn_dtype real;
    enum lvn_dtype weights;   /* of parameters; set by precision */
    enum lvn_dtype gradients; /* of parameters' gradients: `weights`, or `real` above LVN_BF16_PARTIAL_SUMS_MAX sums */
    struct lvn_value *values;
    int n_values;
    int values_capacity;
    struct lvn_instr *instrs;
    int n_instrs;
    int instrs_capacity;
    int *value_of_tensor; /* [graph->n_tensors] tensor's id -> value; -1: not in the program */
    int *value_of_param;  /* [params->n] parameter's number -> value; -1: not in the program */
    struct lvn_tensor **outputs;
    int n_outputs;
    int n_handles;                /* collectives; set by shard */
    int n_shard_sums;             /* running sums of this rank's shards; set by shard_sums */
    bool training;                /* has backward instructions */
    enum lvn_recompute recompute; /* what was done: never AUTO */
    /* Set by accumulate: */
    int n_grad_buffers;        /* flat gradients in GRAD */
    int64_t grad_buffer_bytes; /* of each; 0 without backward */
    int *grad_buffer_of;       /* [micro-batches of the run] the buffer that each writes; NULL: all add to buffer 0 */
    struct lvn_pending_node pending[LVN_MAX_PENDING]; /* after the last micro-batch, from left to right */
    int n_pending;
    /* Set by memory_planning: */
    struct lvn_device *device; /* runs the program; NULL: not planned yet */
    int first_sum;             /* the first instruction that is not part of a micro-batch: sums over micro-batches */
    int first_update;          /* the first instruction behind those: once a step */
    int64_t sum_bytes;         /* of the sums of one micro-batch, in RESULT */
    int64_t arena_bytes;       /* of the arena: exact */
    int64_t unplaced_bytes;    /* of all values of the arena together: what no reuse would take */
};

/* The types of numbers, as in trainer.precision (mixed_precision.c). */
enum lvn_precision {
    LVN_PRECISION_TRUE, /* everything in the graph's real type */
    /* Parameters, their gradients and optimizer state in fp32; activations in bf16 where all operations that touch them
     * accept it; products in bf16 if the device is faster at it. */
    LVN_PRECISION_BF16_MIXED,
    LVN_PRECISION_BF16_TRUE, /* as BF16_MIXED, and parameters and their gradients in bf16 */
    LVN_PRECISION_16_MIXED   /* as BF16_MIXED, in fp16, with a scale of the loss (loss_scaling.c) */
};

/* How an optimizer moves whole matrices: three operations, of which the second alone needs the whole matrix. */
struct lvn_matrix_steps {
    bool used;
    enum lvn_op_id direction; /* in[0]: the gradient; out[0]: a direction, then at most as many moments as the other
                                 parameters have, updated in place; element by element */
    enum lvn_op_id whole;     /* in[0], out[0]: directions of a matrix, (inputs,outputs), in place */
    enum lvn_op_id step; /* in[0]: what came of them; out[0]: the parameters, updated in place; element by element */
    union lvn_attr direction_attr, whole_attr, step_attr; /* attr.update: clip_value */
    /* Set what in step_attr depends on the shape of the matrix. NULL: nothing does. */
    void (*fit)(const struct lvn_desc *matrix, union lvn_attr *step_attr);
};

/* An optimizer, as a program runs it; lvn_optimizer_init() makes it from a run's options (optimizers/optimizer.h). */
struct lvn_optimizer {
    const char *name;    /* optimizer.kind, for messages */
    enum lvn_op_id op;   /* in[0]: the gradient; out[0]: the parameters, then the moments, updated in place */
    union lvn_attr attr; /* of op; of attr.update: weight_decay, for the groups that decay, and clip_value */
    /* For the matrices of the model's blocks (lvn_param_is_block_matrix()); then op is for the other parameters. */
    struct lvn_matrix_steps matrices;
    double clip_norm; /* maximum 2-norm of the gradient; 0: off */
    bool bf16_state;  /* moments in bf16, if op accepts that */
};
/* Numbers that it keeps for each parameter. */
static inline int lvn_optimizer_moments(const struct lvn_optimizer *o)
{
    return lvn_op(o->op, LVN_F32)->n_out - 1;
}
/* Of these, those of a matrix of the model's blocks. */
static inline int lvn_optimizer_matrix_moments(const struct lvn_optimizer *o)
{
    return o->matrices.used ? lvn_op(o->matrices.direction, LVN_F32)->n_out - 1 : lvn_optimizer_moments(o);
}

struct lvn_plan_options {
    int n_sums; /* the first n_sums outputs are sums (of losses, of metrics): a run returns those of every micro-batch
                 */
    bool train; /* differentiate, and append the optimizer */
    bool fuse;  /* off only in tests */
    enum lvn_precision precision;
    enum lvn_recompute recompute;
    const struct lvn_tree_leaves *tree; /* sum micro-batches as a tree; NULL: each adds to one gradient */
    /* Number of partial sums of a step's gradient: of the global batch with a tree, else of this rank. */
    int64_t n_partial_sums;
    const struct lvn_optimizer *optimizer; /* NULL with train: gradients only */
    const struct lvn_sharding *sharding;   /* NULL, or of size 1: one rank */
    struct lvn_device *device;             /* the device that will run the program; must outlive it */
};

/* Run all passes in their order. The graph must outlive the program. Errors: those of the passes. */
enum lvn_status lvn_program_new(struct lvn_program **out, struct lvn_graph *g, struct lvn_tensor *const *outputs,
                                int n_outputs, const struct lvn_plan_options *o) LVN_CHECKED;
/* A program for device `device` that computes a checksum (ops/parameter_checksum.c) of each parameter of g, an empty
 * graph over them, or, with `sharding`, of this rank's part of it, if it has one; weights: the parameters' type. *sums:
 * I32 (params->n, 4) in the arena, kept, in the order of declaration. */
enum lvn_status lvn_program_new_checksums(struct lvn_program **out, struct lvn_graph *g, enum lvn_dtype weights,
                                          const struct lvn_sharding *sharding, struct lvn_device *device,
                                          struct lvn_operand *sums) LVN_CHECKED;
void lvn_program_free(struct lvn_program *p);
/* An output's operand, as the last micro-batch leaves it; value < 0: `t` is no output. */
struct lvn_operand lvn_program_output(const struct lvn_program *p, const struct lvn_tensor *t);
/* Offset in RESULT, in bytes, of the sums of micro-batch m. With m = the number of micro-batches: the size of RESULT.
 */
int64_t lvn_program_sums_at(const struct lvn_program *p, int64_t m);

/* --- program_build.c: what passes build with --- */

/* The forward instructions of `g` that the outputs need. outputs[0]: the loss, if there is one. ARG: an output is NULL,
 * or the error of the graph. */
enum lvn_status lvn_program_build(struct lvn_program **out, struct lvn_graph *g, struct lvn_tensor *const *outputs,
                                  int n_outputs) LVN_CHECKED;
/* Append a value of `count` elements; -1: memory. */
int lvn_program_add_value(struct lvn_program *p, const char *name, enum lvn_buffer buffer, enum lvn_dtype dtype,
                          int64_t count);
/* Append an instruction without operands. The pointer is valid until the next call. NULL: memory. */
struct lvn_instr *lvn_program_add_instr(struct lvn_program *p, enum lvn_op_id id, enum lvn_phase phase);
#define LVN_NO_OPERAND ((struct lvn_operand){.value = -1})
/* Append a value: elements [offset, offset + count) of a flat buffer. NO_OPERAND: memory. */
struct lvn_operand lvn_program_add_range(struct lvn_program *p, const char *name, enum lvn_buffer buffer,
                                         enum lvn_dtype dtype, int64_t offset, int64_t count);
/* Call visit() for each operand that is present; written: the instruction writes it, else it reads it. */
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
 *   %7:bf16            the element type, where it is not the program's real type
 *   %7 (2, 4)          the shape, of operands that are written
 *   [first], [last]    runs in the first, or in the last micro-batch alone
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

/* Host memory in bytes: the program's lists, and the struct lvn_call for each instruction that the CPU backends make.
 */
int64_t lvn_program_bytes(const struct lvn_program *p);
/* Index of the first backward instruction; n_instrs: none. */
int lvn_program_first_backward(const struct lvn_program *p);
/* Bytes of the arena in use while each instruction runs, and after the last one: bytes (n_instrs + 1). After
 * memory_planning. */
void lvn_program_live_bytes(const struct lvn_program *p, int64_t *bytes);

/* The arguments of an instruction's kernel, without pointers: attributes and descriptions. */
void lvn_instr_describe(const struct lvn_instr *i, struct lvn_call *call);

/* Multiplications and additions of one launch. */
double lvn_instr_flops(const struct lvn_instr *i);
/* The same, of every instruction once: of a micro-batch and the update. */
double lvn_program_flops(const struct lvn_program *p);

/* --- collectives --- */
/* Runs collective operations (ops/collective.h) for a backend, which knows nothing else of communication. The engine
 * implements it (engine/reduction.c). One thread makes all calls, in the order of the program. */
struct lvn_collectives {
    void *context;
    /* Does it work on the memory of this device? A backend copies the operands of others into host memory. NULL: of
     * none */
    bool (*carries)(void *context, const struct lvn_device *d);
    /* Start the collective on the operands of the call, and return at once. `call` stays valid until the wait. Its
     * pointers are addresses of the host, or of a device that it carries; then the collective runs in the order of what
     * is launched there, and may be captured. */
    void (*start)(void *context, const struct lvn_instr *i, const struct lvn_call *call, const struct lvn_device *d);
    /* Wait for the collective of the instruction's handle. False: it failed, and recorded the error; the run ends
     * without an update. */
    bool (*wait)(void *context, const struct lvn_instr *i);
};

#endif
