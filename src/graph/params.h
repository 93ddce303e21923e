/* params.h - the parameters of a model: how they are declared, their layout in the flat buffers, their initial values.
 * Models declare them (lvn_param() of graph.h), passes and the engine use their layout.
 *
 * Parameters belong to a struct lvn_params, not to a graph: training, evaluation and generation are different graphs
 * over the same parameters. Left out: the memory itself (engine/model_state.h). */
#ifndef LVN_PARAMS_H
#define LVN_PARAMS_H

#include "base/arena.h"
#include "base/index.h"
#include "graph/op.h"

enum lvn_param_kind {
    LVN_WEIGHT,    /* matrix of a linear layer, or kernel of a convolution */
    LVN_EMBEDDING, /* table, looked up by index; a tied head shares it */
    LVN_VECTOR,    /* bias, gain of a normalisation */
};

/* Distribution of a parameter's initial values. */
struct lvn_init {
    enum { LVN_INIT_NORMAL, LVN_INIT_UNIFORM, LVN_INIT_CONSTANT } kind;
    double value; /* NORMAL: standard deviation; UNIFORM: values lie in [-value, value); CONSTANT: the value */
};
#define LVN_NORMAL(std) ((struct lvn_init){LVN_INIT_NORMAL, (std)})
#define LVN_UNIFORM(bound) ((struct lvn_init){LVN_INIT_UNIFORM, (bound)})
#define LVN_CONSTANT(x) ((struct lvn_init){LVN_INIT_CONSTANT, (x)})

enum { LVN_NAME_TEXT = 256 }; /* maximum bytes of a parameter's name, with its NUL */

/* Parameters outside of the model's blocks form two more blocks, which are sharded and gathered like the others. */
enum {
    LVN_BLOCK_OUTSIDE = -2, /* before the blocks (embeddings); all, if the head reads some of it */
    LVN_BLOCK_HEAD = -1,    /* behind the blocks */
};
/* Index in lvn_params.blocks and lvn_params.frozen of lvn_param.block. */
static inline int lvn_block_index(int block)
{
    return block - LVN_BLOCK_OUTSIDE;
}
enum { LVN_BLOCK_TEXT = 32 };
/* "block 3", "the head" or "the part outside of blocks". Returns text. */
const char *lvn_block_text(int block, char text[LVN_BLOCK_TEXT]);

struct lvn_param {
    int number;       /* index in lvn_params.list: order of declaration */
    const char *name; /* as in Hugging Face's files: "h.0.attn.c_attn.weight" */
    uint64_t hash;    /* of the name, for initial values */
    struct lvn_desc desc;
    enum lvn_param_kind kind;
    struct lvn_init init;
    bool trainable;
    bool adapter;        /* added to the model by LoRA, absent from the model's own files */
    int block;           /* the model's block that declares it first; below 0: see LVN_BLOCK_... */
    bool decay;          /* has weight decay; set by lvn_params_layout() */
    double lr_scale;     /* factor of the learning rate */
    double weight_decay; /* of its own; below 0: that of the optimizer, for those that decay */
    int64_t offset;      /* elements, in the flat buffers of values, gradients and optimizer state; set by the layout */
    int64_t count;       /* elements */
};

/* Parameters that have weight decay. */
enum lvn_decay {
    LVN_DECAY_LINEAR,   /* of kind LVN_WEIGHT */
    LVN_DECAY_MATRICES, /* of two dimensions or more */
    LVN_DECAY_ALL,
};

/* A range of the flat buffers, within one block, whose parameters the optimizer treats alike. */
struct lvn_param_group {
    int64_t offset; /* elements, a multiple of LVN_PARAM_ALIGN */
    int64_t count;  /* elements, a multiple of LVN_PARAM_ALIGN */
    int64_t number; /* what its offset would be without gaps between blocks, and with the head outside of them */
    int block;      /* lvn_param.block */
    bool decay;
    double lr_scale;
    double weight_decay; /* of their own; below 0: that of the optimizer, if they decay */
};
enum { LVN_PARAM_ALIGN = 64 }; /* elements; every parameter starts at a multiple, gaps hold zeros */

/* The range of the flat buffers that holds the trainable parameters of one block of the model, or its frozen ones. It
 * begins at a multiple of LVN_NORM_BLOCK, so that shards of a block are cut between the summands of the gradient's
 * norm. */
struct lvn_param_block {
    int64_t offset; /* elements */
    int64_t count;  /* elements, a multiple of LVN_PARAM_ALIGN; 0: it has none */
};

struct lvn_params {
    struct lvn_arena arena;
    struct lvn_param **list; /* [n] in order of declaration */
    int n;
    int capacity;           /* of list */
    struct lvn_index names; /* name -> index in list */
    bool tied;              /* a node behind the blocks reads a parameter of LVN_BLOCK_OUTSIDE */
    /* Set by lvn_params_layout(): */
    struct lvn_param **flat;        /* [n] in order of the flat buffers */
    struct lvn_param_group *groups; /* [n_groups] of the trainable parameters */
    int n_groups;
    struct lvn_param_block *blocks; /* [n_blocks] by lvn_block_index() */
    struct lvn_param_block *frozen; /* [n_blocks] the same of frozen parameters */
    int n_blocks;
    struct lvn_extents trainable; /* layout of the trainable parameters */
    int64_t flat_count;           /* elements of a flat buffer of all parameters */
    int64_t trainable_count;      /* elements of its leading part, which holds the trainable parameters */
};

struct lvn_params *lvn_params_new(void); /* NULL: memory */
void lvn_params_free(struct lvn_params *p);
struct lvn_param *lvn_params_find(const struct lvn_params *p, const char *name); /* NULL: no such parameter */
/* Elements of all parameters, without the gaps of the layout. */
int64_t lvn_params_total(const struct lvn_params *p);
/* Elements of the largest parameter; trainable_only: of the largest trainable one. */
int64_t lvn_params_largest(const struct lvn_params *p, bool trainable_only);
/* Set decay, offsets and groups. Order of the flat buffers: trainable before frozen; then by block, parameters outside
 * of all blocks first, then the head's, which are outside too if the model is tied; within a block those with weight
 * decay first. A block begins at a multiple of LVN_NORM_BLOCK; gaps hold zeros. MEMORY. */
enum lvn_status lvn_params_layout(struct lvn_params *p, enum lvn_decay rule) LVN_CHECKED;
/* The range in which a parameter lies. */
const struct lvn_param_block *lvn_params_block_of(const struct lvn_params *p, const struct lvn_param *q);
/* Initial values of a parameter's elements [first, first + count): a function of seed and name alone. first: a multiple
 * of LVN_PARAM_ALIGN. */
void lvn_param_init(const struct lvn_param *q, uint64_t seed, int64_t first, int64_t count, float *values);
/* Is it the matrix, (inputs,outputs), of a linear map in a block of the model? */
static inline bool lvn_param_is_block_matrix(const struct lvn_param *q)
{
    return q->block >= 0 && q->kind == LVN_WEIGHT && q->desc.rank == 2;
}

#endif
