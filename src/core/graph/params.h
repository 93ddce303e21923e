/* params.h - the parameters of a model: declaration, layout in the flat buffers, initial values. Models declare them
 * (lvn_param() in graph.h); passes and the engine use their layout.
 *
 * Parameters belong to a struct lvn_params instead of a graph, because training, evaluation and generation are
 * different graphs over the same parameters. See engine/model_state.h for the memory. */
#ifndef LVN_PARAMS_H
#define LVN_PARAMS_H

#include "base/arena.h"
#include "base/index.h"
#include "graph/op.h"
#include "packed/packed.h"

enum lvn_param_kind {
    LVN_WEIGHT,    /* weight matrix of a linear layer, or kernel of a convolution */
    LVN_EMBEDDING, /* embedding table; a tied head shares it */
    LVN_VECTOR,    /* bias, or gain of a normalization */
};

/* Distribution of a parameter's initial values. */
struct lvn_init {
    enum { LVN_INIT_NORMAL, LVN_INIT_UNIFORM, LVN_INIT_CONSTANT } kind;
    double value;  /* NORMAL: standard deviation; UNIFORM: values are in [-value, value); CONSTANT: the first value */
    double center; /* UNIFORM: added to the values */
    double slope;  /* CONSTANT: the difference between neighbors */
};
#define LVN_NORMAL(std) ((struct lvn_init){LVN_INIT_NORMAL, (std), 0, 0})
#define LVN_UNIFORM(bound) ((struct lvn_init){LVN_INIT_UNIFORM, (bound), 0, 0})
#define LVN_CONSTANT(x) ((struct lvn_init){LVN_INIT_CONSTANT, (x), 0, 0})

enum { LVN_NAME_TEXT = 256 }; /* maximum bytes of a parameter's name, with its NUL */

/* Parameters outside of the model's blocks form two additional blocks, which are sharded and gathered like the others.
 */
enum {
    LVN_BLOCK_OUTSIDE = -2, /* before the blocks (embeddings); includes the head if it reads some of them */
    LVN_BLOCK_HEAD = -1,    /* after the blocks */
};
/* Index of lvn_param.block in lvn_params.blocks and lvn_params.frozen. */
static inline int lvn_block_index(int block)
{
    return block - LVN_BLOCK_OUTSIDE;
}
enum { LVN_BLOCK_TEXT = 32 };
/* "block 3", "the head" or "the part outside of blocks". Returns text. */
const char *lvn_block_text(int block, char text[LVN_BLOCK_TEXT]);

/* How a parameter is updated, where it differs from the optimizer's settings. */
struct lvn_update_rule {
    double lr_scale;     /* factor of the learning rate */
    double weight_decay; /* below 0: the optimizer's, for parameters that decay */
    double betas[2];     /* below 0: the optimizer's */
    bool elementwise;    /* element by element, although the optimizer updates such matrices as a whole */
};

struct lvn_param {
    int number;       /* index in lvn_params.list, in order of declaration */
    const char *name; /* as in Hugging Face's files: "h.0.attn.c_attn.weight" */
    uint64_t hash;    /* of the name, for initial values */
    struct lvn_desc desc;
    enum lvn_param_kind kind;
    struct lvn_init init;
    bool trainable;
    bool adapter; /* added by LoRA, absent from the files of the base model */
    int block;    /* the block of its first declaration; below 0: see LVN_BLOCK_... */
    bool decay;   /* has weight decay; set by lvn_params_layout() */
    struct lvn_update_rule rule;
    int64_t
        offset; /* elements, in the flat buffers of values, gradients and optimizer state; set by lvn_params_layout() */
    int64_t count; /* elements */
    /* Of a matrix of a block: its first element in the buffer of moments of lines (lvn_param_lines()), set by
     * lvn_params_layout(), and the rank of those that share the model that computes its steps, set by the pass
     * data_parallel. */
    int64_t lines_at;
    int owner;
    /* A frozen weight in packed blocks (packed/packed.h), rows of which are outputs: it is in a buffer for all of them,
     * and not in the flat buffers. dtype not packed: none, and the type is that of the flat buffer. */
    enum lvn_dtype packed;
    int64_t packed_offset, packed_bytes; /* in that buffer; set by lvn_params_layout() */
};
/* Is the parameter stored in packed blocks? */
static inline bool lvn_param_is_packed(const struct lvn_param *q)
{
    return lvn_dtype_is_packed(q->packed);
}
/* The matrix of a packed parameter (inputs,outputs). */
static inline struct lvn_blocks lvn_param_blocks(const struct lvn_param *q)
{
    return (struct lvn_blocks){q->packed, q->desc.dim[1], q->desc.dim[0]};
}

/* Parameters that have weight decay. */
enum lvn_decay {
    LVN_DECAY_LINEAR,   /* of kind LVN_WEIGHT */
    LVN_DECAY_MATRICES, /* of two dimensions or more */
    LVN_DECAY_ALL,
};

/* A range of the flat buffers, within one block, whose parameters have the same optimizer settings. */
struct lvn_param_group {
    int64_t offset; /* elements, a multiple of LVN_PARAM_ALIGN */
    int64_t count;  /* elements, a multiple of LVN_PARAM_ALIGN */
    int64_t number; /* its offset in a layout without gaps between blocks and with the head in LVN_BLOCK_OUTSIDE */
    int block;      /* lvn_param.block */
    bool decay;
    struct lvn_update_rule rule;
};
enum { LVN_PARAM_ALIGN = 64 }; /* elements; every parameter starts at a multiple of it, gaps are zero */

/* The range of the flat buffers with the trainable, or the frozen, parameters of one block of the model. It begins at a
 * multiple of LVN_NORM_BLOCK, so that shards are cut between the summands of the gradient norm. */
struct lvn_param_block {
    int64_t offset; /* elements */
    int64_t count;  /* elements, a multiple of LVN_PARAM_ALIGN; 0: none */
};

struct lvn_params {
    struct lvn_arena arena;
    struct lvn_param **list; /* [n] in order of declaration */
    int n;
    int64_t capacity;       /* of list */
    struct lvn_index names; /* name -> index in list */
    bool tied;              /* a node after the blocks reads a parameter of LVN_BLOCK_OUTSIDE */
    /* Set by lvn_params_layout(): */
    struct lvn_param **flat;        /* [n] in order of the flat buffers */
    struct lvn_param_group *groups; /* [n_groups] of the trainable parameters */
    int n_groups;
    struct lvn_param_block *blocks; /* [n_blocks] by lvn_block_index() */
    struct lvn_param_block *frozen; /* [n_blocks] the same for frozen parameters */
    int n_blocks;
    struct lvn_extents trainable; /* layout of the trainable parameters */
    int64_t flat_count;           /* elements of a flat buffer of all parameters, without packed ones */
    int64_t packed_bytes;         /* of the buffer of packed parameters */
    int64_t trainable_count;      /* elements of its first part, which holds the trainable parameters */
    int64_t lines_count;          /* elements of the buffer of moments of lines */
};

struct lvn_params *lvn_params_new(void); /* NULL: out of memory */
void lvn_params_free(struct lvn_params *p);
struct lvn_param *lvn_params_find(const struct lvn_params *p, const char *name); /* NULL: no such parameter */
/* Elements of all parameters, without the gaps of the layout. */
int64_t lvn_params_total(const struct lvn_params *p);
/* Elements of the largest parameter; trainable_only: of the largest trainable one. */
int64_t lvn_params_largest(const struct lvn_params *p, bool trainable_only);
/* Set decay, offsets and groups. Order of the flat buffers: trainable before frozen; then by block, with parameters
 * outside of blocks first, then the head's (which are outside too if the model is tied); within a block those with
 * weight decay first; packed parameters are last. A block begins at a multiple of LVN_NORM_BLOCK; gaps are zero.
 * MEMORY. */
enum lvn_status lvn_params_layout(struct lvn_params *p, enum lvn_decay rule) LVN_CHECKED;
/* The range that contains a parameter. */
const struct lvn_param_block *lvn_params_block_of(const struct lvn_params *p, const struct lvn_param *q);
/* Initial values of a parameter's elements [first, first + count): a function of seed and name only. first: a multiple
 * of LVN_PARAM_ALIGN. */
void lvn_param_init(const struct lvn_param *q, uint64_t seed, int64_t first, int64_t count, float *values);
/* Is it the (inputs,outputs) weight matrix of a linear layer in a block of the model, which optimizers on matrices
 * update as a whole? */
static inline bool lvn_param_is_block_matrix(const struct lvn_param *q)
{
    return q->block >= 0 && q->kind == LVN_WEIGHT && q->desc.rank == 2 && !q->rule.elementwise;
}

/* The lines of a matrix are its rows, or its columns if these are more or the same number. An optimizer on matrices may
 * keep a moment of each. */
static inline int64_t lvn_param_lines(const struct lvn_param *q)
{
    return q->desc.dim[0] > q->desc.dim[1] ? q->desc.dim[0] : q->desc.dim[1];
}

#endif
