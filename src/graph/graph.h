/* graph.h - a model as plain expressions over operations.
 *
 * A model is a function that calls lvn_linear(g, x, w, b, ...) and the like; each call appends a node to the graph and
 * computes nothing. Nodes are appended in an order in which they can run, so no sort is ever needed. The first failed
 * call returns NULL and is remembered in the graph; NULL passes through the calls after it; lvn_graph_status() reports
 * it. So model files are expressions without checks.
 *
 * Parameters belong to a struct lvn_params, not to the graph: training, evaluation and generation are different graphs
 * over the same parameters. */
#ifndef LVN_GRAPH_H
#define LVN_GRAPH_H

#include "base/arena.h"
#include "base/index.h"
#include "graph/op.h"

/* --- parameters ------------------------------------------------------------------------------------------------ */

enum lvn_param_kind {
    LVN_WEIGHT,    /* of a linear map */
    LVN_EMBEDDING, /* looked up by index; a tied head shares it */
    LVN_VECTOR,    /* biases, normalisation */
};

struct lvn_init {
    enum { LVN_INIT_NORMAL, LVN_INIT_UNIFORM, LVN_INIT_CONSTANT } kind;
    double value; /* standard deviation; bound: values lie in [-bound, bound); the constant */
};
#define LVN_NORMAL(std) ((struct lvn_init){LVN_INIT_NORMAL, (std)})
#define LVN_UNIFORM(bound) ((struct lvn_init){LVN_INIT_UNIFORM, (bound)})
#define LVN_CONSTANT(x) ((struct lvn_init){LVN_INIT_CONSTANT, (x)})

enum { LVN_NAME_TEXT = 256 }; /* bytes of a parameter's name, with its end */

struct lvn_param {
    int number;       /* in order of declaration: position in the list */
    const char *name; /* Hugging Face's, "h.0.attn.c_attn.weight" */
    uint64_t hash;    /* of the name, for initial values */
    struct lvn_desc desc;
    enum lvn_param_kind kind;
    struct lvn_init init;
    bool trainable;
    bool adapter; /* put beside the model's own: not in its files */
    int block;    /* of the model, that declares it first; -1: none */
    bool decay;   /* by the optimizer's rule; set by lvn_params_layout() */
    double lr_scale;
    int64_t offset; /* in elements, in the flat buffers of values, gradients and optimizer state */
    int64_t count;
};

enum lvn_decay { LVN_DECAY_LINEAR, LVN_DECAY_MATRICES, LVN_DECAY_ALL };

/* Neighbouring parameters in the flat buffers that the optimizer treats alike. */
struct lvn_param_group {
    int64_t offset, count; /* elements, multiples of LVN_PARAM_ALIGN */
    bool decay;
    double lr_scale;
};
enum { LVN_PARAM_ALIGN = 64 }; /* elements; every parameter starts at a multiple, gaps hold zeros */

struct lvn_params {
    struct lvn_arena arena;
    struct lvn_param **list; /* in order of declaration */
    int n, capacity;
    struct lvn_param **flat;        /* in order of the flat buffers; after lvn_params_layout() */
    struct lvn_index names;         /* to positions in the list */
    struct lvn_param_group *groups; /* of trainable parameters; after lvn_params_layout() */
    struct lvn_extents trainable;   /* where those lie; after lvn_params_layout() */
    int n_groups;
    int64_t flat_count;      /* elements of a flat buffer that holds all parameters */
    int64_t trainable_count; /* elements of its leading part that holds the trainable ones */
};

struct lvn_params *lvn_params_new(void);
void lvn_params_free(struct lvn_params *p);
struct lvn_param *lvn_params_find(const struct lvn_params *p, const char *name); /* NULL: none */
/* Number of values in all parameters, padding left out. */
int64_t lvn_params_total(const struct lvn_params *p);
/* Values of the largest parameter, or of the largest that is trained. */
int64_t lvn_params_largest(const struct lvn_params *p, bool trained);
/* Decide which parameters decay, and lay them out: trainable before frozen, then block by block, those outside of all
 * first, and within a block those that decay first. */
enum lvn_status lvn_params_layout(struct lvn_params *p, enum lvn_decay rule) LVN_CHECKED;
/* Initial values of a parameter, a function of (seed, name) alone: (count). */
void lvn_param_init(const struct lvn_param *q, uint64_t seed, float *values);

/* --- the graph ------------------------------------------------------------------------------------------------- */

enum lvn_tensor_kind { LVN_TENSOR_INPUT, LVN_TENSOR_PARAM, LVN_TENSOR_OUTPUT, LVN_TENSOR_VIEW };

/* A value in the graph. All fields are the graph's; models only pass pointers around. */
struct lvn_tensor {
    int id; /* position in graph->tensors */
    enum lvn_tensor_kind kind;
    struct lvn_desc desc;
    const char *name;
    struct lvn_node *node;   /* OUTPUT: who makes it */
    int output;              /* OUTPUT: which of its outputs (saved values too) */
    struct lvn_tensor *base; /* VIEW: whose memory; desc.offset and strides count from the base's first element */
    struct lvn_param *param; /* PARAM */
    int input;               /* INPUT: which of the graph's inputs */
};

struct lvn_node {
    enum lvn_op_id op;
    union lvn_attr attr;
    struct lvn_tensor *in[LVN_MAX_IN];
    struct lvn_tensor *out[LVN_MAX_OUT];
    const char *name; /* scoped, "h.0.attn.c_attn:linear" */
    uint32_t hash;
    int block; /* of the model; -1: outside of all */
    int cache; /* kv_cache: which of the graph's caches; -1 for other operations */
};

struct lvn_cache {
    const char *name;
    struct lvn_desc desc;
};

struct lvn_graph {
    struct lvn_arena arena;
    struct lvn_params *params;
    enum lvn_dtype real;  /* fp32; fp64 for reference runs */
    int64_t cache_length; /* > 0: a decoding graph, whose kv_cache() keeps so many positions; 0: kv_cache(x) is x */
    struct lvn_tensor **tensors;
    int n_tensors, tensors_capacity;
    struct lvn_node **nodes;
    int n_nodes, nodes_capacity;
    struct lvn_index scoped; /* "h.0.dropout": how many nodes of that scope and operation there are */
    struct lvn_tensor **inputs;
    int n_inputs, inputs_capacity;
    struct lvn_cache *caches;
    int n_caches, caches_capacity;
    /* Sees each linear map that a model writes down, and may put something beside it; returns what the model goes on
     * with. NULL: nobody. */
    struct lvn_tensor *(*adapter)(struct lvn_graph *g, struct lvn_tensor *x, struct lvn_tensor *w,
                                  struct lvn_tensor *y);
    const void *adapter_context;
    char scope[128];
    int block, n_blocks;    /* what is being declared: a block's number, or -1; how many there are so far */
    enum lvn_status status; /* of the first failed call; its record is kept in `error` */
    const char *error;
};

/* `params` is extended by the parameters that the model declares, or, where they exist already, must agree. */
struct lvn_graph *lvn_graph_new(struct lvn_params *params, enum lvn_dtype real);
void lvn_graph_free(struct lvn_graph *g);
/* The first failure while building, recorded again; LVN_OK when there was none. */
enum lvn_status lvn_graph_status(const struct lvn_graph *g) LVN_CHECKED;

/* Names declared from here on start with this scope ("h.%d"); "" ends it. */
void lvn_scope(struct lvn_graph *g, const char *format, ...) LVN_PRINTF(2, 3);
/* Nodes and parameters from here on are the model's next block: one of its equal layers, the unit in which activations
 * are forgotten and computed again. What stands before the first block and behind the end of the last belongs to none.
 */
void lvn_block(struct lvn_graph *g);
void lvn_block_end(struct lvn_graph *g);
/* Data that the caller binds at every run: token ids, labels. */
struct lvn_tensor *lvn_input(struct lvn_graph *g, const char *name, struct lvn_desc desc);
/* A parameter, named within the scope. */
struct lvn_tensor *lvn_param(struct lvn_graph *g, const char *name, enum lvn_param_kind kind, struct lvn_init init,
                             struct lvn_desc desc);
/* The usual ones: N(0, std) and constant. */
struct lvn_tensor *lvn_weight(struct lvn_graph *g, const char *name, int64_t in, int64_t out,
                              double std);                                                                /* (in,out) */
struct lvn_tensor *lvn_table(struct lvn_graph *g, const char *name, int64_t rows, int64_t C, double std); /* (rows,C) */
struct lvn_tensor *lvn_vector(struct lvn_graph *g, const char *name, int64_t n, double value);            /* (n) */
/* Heads start*S .. of the last dimension of x (B,T,C) as (B,T,n_head,S), without moving anything. The views of one
 * tensor need not cover it. */
struct lvn_tensor *lvn_heads(struct lvn_graph *g, struct lvn_tensor *x, int64_t first_channel, int64_t n_head,
                             int64_t head_size);
/* Elements first .. first + count - 1 along one dimension, without moving anything. Most operations want tensors
 * without gaps: lvn_pack() makes one of a view. Parts that no view of x covers have no gradient, and views may overlap.
 */
struct lvn_tensor *lvn_slice(struct lvn_graph *g, struct lvn_tensor *x, int dim, int64_t first, int64_t count);
/* The same elements with other dims; x must be contiguous. */
struct lvn_tensor *lvn_reshape(struct lvn_graph *g, struct lvn_tensor *x, int rank, const int64_t *dim);
/* Append a node; returns output 0. For constructors in src/ops. `in` may hold NULL for absent inputs: pass how many of
 * the leading ones are required through the op's n_in_min. */
struct lvn_tensor *lvn_node_append(struct lvn_graph *g, enum lvn_op_id op, const union lvn_attr *attr,
                                   struct lvn_tensor *const *in, int n_in);

/* Constructors, one per operation: lvn_linear(g, x, w, b, in_out), lvn_gelu(g, x), ... */
#define LVN_OP(name, attr, args) struct lvn_tensor *lvn_##name args;
#define LVN_OP_FUSED(name, attr)
#define LVN_OP_UPDATE(name, attr)
#define LVN_OP_COLLECTIVE(name, attr)
#include "ops/ops.def"

#endif
