/* program.h - a training step as a flat list of instructions, and the passes that make it.
 *
 *     build -> prune -> fuse -> precision -> differentiate -> recompute | blocks
 *           -> accumulate -> update -> outer | shard -> scale -> verify -> place
 *
 * A program starts as the forward instructions of a graph. Each pass is one function in one file and turns the program
 * into another: fuse replaces groups of instructions, differentiate appends backward instructions, recompute forgets
 * activations and restores them, verify asks the operations' rules once more, place gives every value its offset.
 * Instructions name values by number; a value lies in one of a few buffers. Which kernel computes an instruction is the
 * backend's choice (backend/backend.h), and so is how the list is run. Nothing is decided while the program runs. */
#ifndef LVN_PROGRAM_H
#define LVN_PROGRAM_H

#include "graph/graph.h"

struct lvn_device;
struct lvn_text;

enum lvn_buffer {
    LVN_BUFFER_ARENA,  /* lives within one run of the program; placed by the place pass */
    LVN_BUFFER_PARAM,  /* flat values of the parameters */
    LVN_BUFFER_GRAD,   /* flat gradients of the trainable parameters, n_grad_buffers of them */
    LVN_BUFFER_STATE0, /* flat optimizer state: first moment */
    LVN_BUFFER_STATE1, /* second moment */
    LVN_BUFFER_SCALE,  /* struct lvn_scaling, where the loss is scaled */
    LVN_BUFFER_INPUT,  /* bound by the caller for each micro-batch; slot = number of the input */
    LVN_BUFFER_CACHE,  /* lives between runs (key/value cache); slot = number of the cache */
    LVN_BUFFER_RESULT, /* what a run gives back: struct lvn_result, then the sums of each micro-batch */
    LVN_BUFFER_COUNT
};

struct lvn_value {
    const char *name;
    enum lvn_buffer buffer;
    int slot;             /* INPUT, CACHE: which */
    enum lvn_dtype dtype; /* of its elements */
    int64_t bytes;
    int64_t offset;          /* bytes from the start of the buffer; ARENA: set by place */
    int first, last;         /* ARENA: instructions between which it must live; set by place */
    bool in_place;           /* lies where a value that died lay, which then counts as living on; set by place */
    bool keep;               /* the caller reads it after the run: lives to the end */
    int gradient_of;         /* value whose gradient this is; -1 */
    struct lvn_param *param; /* PARAM, GRAD: which */
};

/* A view of a value; value < 0: absent. */
struct lvn_operand {
    int value;
    struct lvn_desc desc;
};

enum lvn_when {
    LVN_EVERY_MICRO_BATCH,
    LVN_LAST_MICRO_BATCH,  /* starts of reductions: once a step, when gradients are complete */
    LVN_AFTER_MICRO_BATCH, /* sums of gradients: behind the one that instr->micro_batch names */
    LVN_AFTER_BACKWARD,    /* norm, clipping, optimizer: once a step */
};

struct lvn_instr {
    enum lvn_phase phase;
    enum lvn_when when;
    int64_t micro_batch; /* AFTER_MICRO_BATCH: which */
    enum lvn_op_id id;
    const struct lvn_op *op;
    union lvn_attr attr;
    const char *name;
    uint32_t hash;
    int block;                    /* of the model; -1: outside of all */
    bool recomputed;              /* runs a second time in a micro-batch, for backward */
    enum lvn_dtype product_dtype; /* see struct lvn_call; set by precision */
    int token; /* of a collective and of its wait: the number of what is started, below program->n_tokens */
    struct lvn_operand in[LVN_MAX_IN], out[LVN_MAX_OUT], dout[LVN_MAX_OUT], din[LVN_MAX_IN];
    bool add[LVN_MAX_IN];            /* din[i] is not the first contribution */
    bool param_gradient[LVN_MAX_IN]; /* din[i] is a parameter's: adds too from the second micro-batch on */
    struct lvn_operand scratch;      /* value < 0: none */
    const void *kernel;              /* the backend's own; set by its choose() in place */
};

/* How a training program is divided over ranks: each has the whole model and a part of the batch. */
struct lvn_sharding {
    int rank, size;
    bool
        zero1; /* each rank keeps optimizer state for its shard only, updates that, and gets the rest from the others */
    bool tree; /* gradients are summed in the order of the tree over micro-batches, after backward; else in buckets */
    bool bf16; /* buckets of fp32 travel in bf16 */
};

/* The micro-batches of a run, [first, first + n) of `of` in the global batch: leaves of a tree of sums. */
struct lvn_tree_leaves {
    int64_t first, n, total;
};

/* A node of that tree which a run leaves in a gradient slot: the sum of micro-batches [first, end). */
struct lvn_pending_node {
    int64_t first, end;
    int buffer;
};
enum { LVN_MAX_PENDING = 64 };

/* What is forgotten after forward and made again for backward: CHEAP: what can be had cheaply; AUTO: the same, where
 * activations take much memory; BLOCKS: all but what goes into the model's blocks. */
/* More pieces than so many are not summed in bf16: what is added would be lost beside the sum, and the sum shrinks. */
enum { LVN_BF16_PARTIAL_SUMS_MAX = 64 };

enum lvn_recompute { LVN_RECOMPUTE_AUTO, LVN_RECOMPUTE_NONE, LVN_RECOMPUTE_CHEAP, LVN_RECOMPUTE_BLOCKS };

struct lvn_program {
    struct lvn_arena arena; /* of names and lists */
    struct lvn_graph *graph;
    enum lvn_dtype real;
    enum lvn_dtype weights; /* of parameters; set by precision */
    enum lvn_dtype
        gradients; /* of those of parameters: `weights`, or `real` where many would be rounded; set by plan */
    struct lvn_value *values;
    int n_values, values_capacity;
    struct lvn_instr *instrs;
    int n_instrs, instrs_capacity;
    int *value_of_tensor; /* graph tensor id -> value; -1: not in the program */
    int *value_of_param;  /* the same, by the parameter's number */
    struct lvn_tensor **outputs;
    int n_outputs;
    int n_tokens;                 /* collectives that are started; set by shard */
    bool training;                /* has backward instructions */
    enum lvn_recompute recompute; /* what was done: not AUTO */
    int n_grad_buffers;           /* flat gradients in GRAD, of slot_bytes each; set by accumulate, as are: */
    int64_t grad_buffer_bytes;    /* 0 without backward */
    int *grad_buffer_of;          /* [micro-batches] the slot that each writes; NULL: 0, and all but the first add */
    struct lvn_pending_node pending[LVN_MAX_PENDING]; /* from left to right, after the last micro-batch */
    int n_pending;
    struct lvn_device *device;   /* it is planned for; set by place, as are: */
    int first_sum, first_update; /* instructions before the first are of every micro-batch, then come the sums */
    int64_t sum_bytes;           /* of the sums of one micro-batch, in RESULT */
    int64_t arena_bytes;         /* exact */
    int64_t unplaced_bytes;      /* sum of all arena values: what no planning would take */
};

/* Which numbers there are, as trainer.precision says. BF16_MIXED: parameters, their gradients and the optimizer's state
 * in fp32; values between operations in bf16 where all that touch them can, and products in bf16 where the processor is
 * faster at it. BF16_TRUE: the same, and parameters and their gradients in bf16. 16_MIXED: as BF16_MIXED, in fp16, with
 * a scale of the loss (loss_scaling.c). */
enum lvn_precision { LVN_PRECISION_TRUE, LVN_PRECISION_BF16_MIXED, LVN_PRECISION_BF16_TRUE, LVN_PRECISION_16_MIXED };

enum lvn_optimizer_id { LVN_ADAMW, LVN_ADAM, LVN_SGD };

struct lvn_optimizer {
    enum lvn_optimizer_id kind;
    double beta1, beta2, eps, weight_decay, momentum;
    double clip_norm, clip_value; /* 0: off */
    bool bf16_state;              /* moments in bf16; not with SGD */
};

struct lvn_plan_options {
    int n_sums; /* the first so many outputs are sums (of losses, of metrics): a run gives back every micro-batch's */
    bool train; /* differentiate, and append the optimizer */
    bool fuse;  /* off only in tests */
    enum lvn_precision precision;
    enum lvn_recompute recompute;
    const struct lvn_tree_leaves *tree; /* sum micro-batches as a tree; NULL: each adds to one gradient */
    int64_t n_partial_sums; /* parts of a step, of which gradients are summed: of the whole step with a tree, else of a
                               rank */
    const struct lvn_optimizer *optimizer; /* NULL with train: gradients only */
    const struct lvn_sharding *sharding;   /* NULL, or of size 1: one rank does everything */
    struct lvn_device *device;             /* that is to run it; outlives the program */
};

/* --- the passes, in their order --- */
/* The forward instructions of `g` that the outputs need (build and prune). The loss, if any, is outputs[0]. */
enum lvn_status lvn_program_build(struct lvn_program **out, struct lvn_graph *g, struct lvn_tensor *const *outputs,
                                  int n_outputs) LVN_CHECKED;
enum lvn_status lvn_pass_prune(struct lvn_program *p) LVN_CHECKED;
enum lvn_status lvn_pass_fuse(struct lvn_program *p) LVN_CHECKED;
enum lvn_status lvn_pass_precision(struct lvn_program *p, enum lvn_precision precision) LVN_CHECKED;
enum lvn_status lvn_pass_differentiate(struct lvn_program *p) LVN_CHECKED;
enum lvn_status lvn_pass_recompute(struct lvn_program *p, enum lvn_recompute how) LVN_CHECKED;
enum lvn_status lvn_pass_blocks(struct lvn_program *p) LVN_CHECKED;
enum lvn_status lvn_pass_accumulate(struct lvn_program *p, const struct lvn_tree_leaves *tree) LVN_CHECKED;
enum lvn_status lvn_pass_update(struct lvn_program *p, const struct lvn_optimizer *o) LVN_CHECKED;
enum lvn_status lvn_pass_outer(struct lvn_program *p, const struct lvn_device *device) LVN_CHECKED;
enum lvn_status lvn_pass_shard(struct lvn_program *p, const struct lvn_sharding *s) LVN_CHECKED;
enum lvn_status lvn_pass_scale(struct lvn_program *p, const struct lvn_optimizer *o) LVN_CHECKED;
enum lvn_status lvn_pass_verify(struct lvn_program *p) LVN_CHECKED;
enum lvn_status lvn_pass_memory_planning(struct lvn_program *p, int n_sums, struct lvn_device *device) LVN_CHECKED;

/* All passes: what callers use. The program borrows the graph, which must outlive it. */
enum lvn_status lvn_program_new(struct lvn_program **out, struct lvn_graph *g, struct lvn_tensor *const *outputs,
                                int n_outputs, const struct lvn_plan_options *o) LVN_CHECKED;
void lvn_program_free(struct lvn_program *p);
/* Where an output lies after a run, of the last micro-batch; value < 0: it is none. */
struct lvn_operand lvn_program_output(const struct lvn_program *p, const struct lvn_tensor *t);
/* Where in RESULT the sums of micro-batch m begin; those of n micro-batches end where number n would begin. */
int64_t lvn_program_sums_at(const struct lvn_program *p, int64_t m);

/* --- building blocks of passes --- */
/* A new value of `count` elements; -1: memory. */
int lvn_program_add_value(struct lvn_program *p, const char *name, enum lvn_buffer buffer, enum lvn_dtype dtype,
                          int64_t count);
struct lvn_instr *lvn_program_add_instr(struct lvn_program *p, enum lvn_op_id id,
                                        enum lvn_phase phase); /* NULL: memory */
#define LVN_NO_OPERAND ((struct lvn_operand){.value = -1})
/* A new value: elements [offset, offset + count) of a flat buffer. NO_OPERAND: memory. */
struct lvn_operand lvn_program_add_range(struct lvn_program *p, const char *name, enum lvn_buffer buffer,
                                         enum lvn_dtype dtype, int64_t offset, int64_t count);
/* Calls visit() for each operand of the instruction: what it reads (written = false) and what it writes. */
void lvn_instr_operands(struct lvn_instr *i, void (*visit)(struct lvn_operand *o, bool written, void *argument),
                        void *argument);

/* --- a program as text (print.c) --- */
/* The columns of a listing. Both begin with the instruction's number, its phase (lvn_instr_phase) and its operation.
 *
 * COST, below a line of titles: name of the model's node; shape of the first operand written; MFLOP, millions of
 * multiplications and additions of one launch (empty: not counted); MiB of the arena in use while it runs.
 *
 * OPERANDS: all operands, read -> written.
 *   x                  input, cache, parameter ("w") or its gradient ("gradient of w"), by name
 *   %7, %7@128         value number 7, in the arena; once placed, at byte 128
 *   gradients[0:64]    elements 0 to 63 of a flat buffer, from the buffer's start
 *   result@40          a sum that the run returns, at byte 40
 *   %7+12              a view that begins 12 elements into the value
 *   +%7                this gradient is added to the earlier contributions
 *   %7:bf16            the element type, where it is not the program's real type
 *   %7 (2, 4)          the shape, of what is written
 *   [last]             runs in the last micro-batch alone
 *   [after 3]          runs after micro-batch 3
 * Below the instructions: number and bytes of the gradient slots, which of them each micro-batch writes and which hold
 * sums at the end (micro-batches [first:end]), after accumulate; bytes of the arena and the sum of its values' bytes,
 * after place. */
enum lvn_print { LVN_PRINT_COST, LVN_PRINT_OPERANDS };
/* Append the listing of a program, after any pass, to `out`. MEMORY. */
enum lvn_status lvn_program_print(struct lvn_text *out, const struct lvn_program *p,
                                  enum lvn_print columns) LVN_CHECKED;
/* forward, again (forward, for backward), backward, restore, sum (over micro-batches), update, ranks (a collective). */
const char *lvn_instr_phase(const struct lvn_instr *i);
/* The operand that the instruction writes first: an output, or a gradient; NULL: none. */
const struct lvn_operand *lvn_instr_result(const struct lvn_instr *i);

/* Bytes of the lists, and of the calls that a backend of the processor makes of them. */
int64_t lvn_program_bytes(const struct lvn_program *p);
/* Number of the first backward instruction; n_instrs: there is none. */
int lvn_program_first_backward(const struct lvn_program *p);
/* Bytes of the arena that are in use while each instruction of a placed program runs, and behind them, (n_instrs + 1).
 */
void lvn_program_live_bytes(const struct lvn_program *p, int64_t *bytes);

/* Attributes and descriptions of an instruction as a kernel sees them, without pointers. */
void lvn_instr_describe(const struct lvn_instr *i, struct lvn_call *call);

/* Multiplications and additions of one instruction; of one micro-batch's instructions, and of the update. */
double lvn_instr_flops(const struct lvn_instr *i);
double lvn_program_flops(const struct lvn_program *p);

/* Where rank `rank`'s shard of the trainable parameters starts, in elements of the flat buffers; `rank` may be size:
 * the end of the last one. Multiples of the blocks over which the gradient's norm is summed. */
int64_t lvn_shard_first(const struct lvn_params *params, int size, int rank);

/* --- the order of a run, once for all backends --- */
enum lvn_launch_event {
    LVN_ORDER_MICRO_BATCH,   /* number `micro_batch` begins */
    LVN_ORDER_LAUNCH,        /* of `instr` */
    LVN_ORDER_BACKWARD_DONE, /* in all micro-batches; what comes changes parameters and state */
};

struct lvn_launch_order {
    const struct lvn_program *program;
    int64_t n_micro_batches, micro_batch;
    enum lvn_launch_event event;
    const struct lvn_instr *instr;
    int next, next_sum; /* instructions; next < 0: the next thing begins */
};

struct lvn_launch_order lvn_launch_order_begin(const struct lvn_program *p, int64_t n_micro_batches);
bool lvn_launch_order_next(struct lvn_launch_order *w); /* false: it is over */

/* --- with other ranks --- */
/* Who does what the collective operations ask for (ops/collective.h); all that backends know of communication. One
 * thread makes all calls, in the order of the list. */
struct lvn_collectives {
    void *context;
    /* Start what the instruction says, on the operands of the call, and return at once. The call stays until the wait.
     */
    void (*start)(void *context, const struct lvn_instr *i, const struct lvn_call *call);
    /* What the instruction's token stands for is done. False: it failed, and recorded why: the run ends there, and
     * nothing is updated. */
    bool (*wait)(void *context, const struct lvn_instr *i);
    /* For devices that do it themselves: the elements of out[0] at which the ranks' parts begin, [ranks + 1]; NULL: all
     * ranks have all. */
    const int64_t *(*parts)(void *context, const struct lvn_instr *i);
};

#endif
