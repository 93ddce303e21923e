/* graph.h - a model as a graph of operations on tensors, and its parameters.
 *
 * The functions of src/models build graphs: lvn_linear(g, x, w, b, ...) and the like append a node and compute nothing.
 * lvn_program_new() (passes/program.h) makes a program of a graph. Nodes are appended in an order in which they can
 * run, so nothing is sorted later. A failed call returns NULL, and so does every call with an input that is NULL; the
 * graph records the first failure, and lvn_graph_status() returns it. So models are expressions without checks.
 *
 * Parameters belong to a struct lvn_params, not to a graph: training, evaluation and generation are different graphs
 * over the same parameters.
 *
 * Left out: gradients (passes/differentiate.c) and memory (engine/model_state.h). */
#ifndef LVN_GRAPH_H
#define LVN_GRAPH_H

#include "base/arena.h"
#include "base/index.h"
#include "graph/op.h"

/* --- parameters ------------------------------------------------------------------------------------------------ */

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

struct lvn_param {
    int number;       /* index in lvn_params.list: order of declaration */
    const char *name; /* as in Hugging Face's files: "h.0.attn.c_attn.weight" */
    uint64_t hash;    /* of the name, for initial values */
    struct lvn_desc desc;
    enum lvn_param_kind kind;
    struct lvn_init init;
    bool trainable;
    bool adapter;    /* added to the model by LoRA, absent from the model's own files */
    int block;       /* the model's block that declares it first; -1: none */
    bool decay;      /* has weight decay; set by lvn_params_layout() */
    double lr_scale; /* factor of the learning rate */
    int64_t offset;  /* elements, in the flat buffers of values, gradients and optimizer state; set by the layout */
    int64_t count;   /* elements */
};

/* Parameters that have weight decay. */
enum lvn_decay {
    LVN_DECAY_LINEAR,   /* of kind LVN_WEIGHT */
    LVN_DECAY_MATRICES, /* of two dimensions or more */
    LVN_DECAY_ALL,
};

/* A range of the flat buffers whose parameters the optimizer treats alike. */
struct lvn_param_group {
    int64_t offset; /* elements, a multiple of LVN_PARAM_ALIGN */
    int64_t count;  /* elements, a multiple of LVN_PARAM_ALIGN */
    bool decay;
    double lr_scale;
};
enum { LVN_PARAM_ALIGN = 64 }; /* elements; every parameter starts at a multiple, gaps hold zeros */

struct lvn_params {
    struct lvn_arena arena;
    struct lvn_param **list; /* [n] in order of declaration */
    int n;
    int capacity;           /* of list */
    struct lvn_index names; /* name -> index in list */
    /* Set by lvn_params_layout(): */
    struct lvn_param **flat;        /* [n] in order of the flat buffers */
    struct lvn_param_group *groups; /* [n_groups] of the trainable parameters */
    int n_groups;
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
 * of all blocks first; within a block those with weight decay first. MEMORY. */
enum lvn_status lvn_params_layout(struct lvn_params *p, enum lvn_decay rule) LVN_CHECKED;
/* Initial values of a parameter, (count): a function of seed and name alone. */
void lvn_param_init(const struct lvn_param *q, uint64_t seed, float *values);

/* --- the graph ------------------------------------------------------------------------------------------------- */

enum lvn_tensor_kind { LVN_TENSOR_INPUT, LVN_TENSOR_PARAM, LVN_TENSOR_OUTPUT, LVN_TENSOR_VIEW };

/* A value in the graph. Models pass pointers to it and do not touch its fields. */
struct lvn_tensor {
    int id; /* index in graph->tensors */
    enum lvn_tensor_kind kind;
    struct lvn_desc desc;
    const char *name;
    struct lvn_node *node;   /* OUTPUT: the node that computes it */
    int output;              /* OUTPUT: index in node->out */
    struct lvn_tensor *base; /* VIEW: the tensor in whose memory it lies; desc counts from the base's first element */
    struct lvn_param *param; /* PARAM: the parameter */
    int input;               /* INPUT: index in graph->inputs */
};

struct lvn_node {
    enum lvn_op_id op;
    union lvn_attr attr;
    struct lvn_tensor *in[LVN_MAX_IN];   /* NULL: absent */
    struct lvn_tensor *out[LVN_MAX_OUT]; /* outputs, then saved values */
    const char *name;                    /* with its scope, "h.0.linear:2" */
    uint32_t hash;                       /* of the name */
    int block;                           /* of the model; -1: outside of all blocks */
    int cache;                           /* kv_cache: index in graph->caches; other operations: -1 */
};

/* A key/value cache of a decoding graph: memory that lives between runs. */
struct lvn_cache {
    const char *name;
    struct lvn_desc desc;
};

struct lvn_graph {
    struct lvn_arena arena;
    struct lvn_params *params;
    enum lvn_dtype real;  /* fp32; fp64 for reference runs */
    int64_t cache_length; /* > 0: a decoding graph, whose kv_cache() caches this many positions; 0: kv_cache(x) is x */
    struct lvn_tensor **tensors;
    int n_tensors;
    int tensors_capacity;
    struct lvn_node **nodes;
    int n_nodes;
    int nodes_capacity;
    struct lvn_index scoped; /* "h.0.dropout" -> number of nodes of that scope and operation */
    struct lvn_tensor **inputs;
    int n_inputs;
    int inputs_capacity;
    struct lvn_cache *caches;
    int n_caches;
    int caches_capacity;
    /* Called for each linear layer, y = x w + b, that a model declares. It may append nodes (LoRA), and returns the
     * tensor that the model uses instead of y. NULL: none. */
    struct lvn_tensor *(*adapter)(struct lvn_graph *g, struct lvn_tensor *x, struct lvn_tensor *w,
                                  struct lvn_tensor *y);
    const void *adapter_context;
    char scope[128];        /* prefix of names; "": none */
    int block;              /* block that is being declared; -1: outside of all */
    int n_blocks;           /* blocks declared so far */
    enum lvn_status status; /* of the first failed call */
    const char *error;      /* message of the first failed call */
};

/* A graph over `params`, which must outlive it. Parameters that the model declares are added to it; if they exist
 * already, their shapes must agree. NULL: memory. */
struct lvn_graph *lvn_graph_new(struct lvn_params *params, enum lvn_dtype real);
void lvn_graph_free(struct lvn_graph *g);
/* The first failure while building, recorded as this thread's last error; LVN_OK: none. */
enum lvn_status lvn_graph_status(const struct lvn_graph *g) LVN_CHECKED;

/* Names declared from here on begin with this scope ("h.%d"); "" ends it. */
void lvn_scope(struct lvn_graph *g, const char *format, ...) LVN_PRINTF(2, 3);
/* Nodes and parameters from here on belong to the model's next block: one of its equal layers, the unit of
 * recomputation (passes/blocks.c). What is declared before the first lvn_block() or after lvn_block_end() belongs to no
 * block. */
void lvn_block(struct lvn_graph *g);
void lvn_block_end(struct lvn_graph *g);
/* An input, which the caller binds for every micro-batch: token ids, labels. */
struct lvn_tensor *lvn_input(struct lvn_graph *g, const char *name, struct lvn_desc desc);
/* A parameter; its name follows the scope, its type is the graph's real type. */
struct lvn_tensor *lvn_param(struct lvn_graph *g, const char *name, enum lvn_param_kind kind, struct lvn_init init,
                             struct lvn_desc desc);
/* Parameters of the three kinds: weight and table with values N(0, std), vector with a constant. */
struct lvn_tensor *lvn_weight(struct lvn_graph *g, const char *name, int64_t in, int64_t out,
                              double std);                                                                /* (in,out) */
struct lvn_tensor *lvn_table(struct lvn_graph *g, const char *name, int64_t rows, int64_t C, double std); /* (rows,C) */
struct lvn_tensor *lvn_vector(struct lvn_graph *g, const char *name, int64_t n, double value);            /* (n) */
/* View of x (B,T,C) as (B,T,n_head,head_size): channels first_channel to first_channel + n_head * head_size - 1. The
 * views of a tensor need not cover it. */
struct lvn_tensor *lvn_heads(struct lvn_graph *g, struct lvn_tensor *x, int64_t first_channel, int64_t n_head,
                             int64_t head_size);
/* View of elements first to first + count - 1 along dimension `dim`. Most operations require contiguous tensors:
 * lvn_pack() copies a view into one. Views may overlap; elements of x that no view covers get a zero gradient. */
struct lvn_tensor *lvn_slice(struct lvn_graph *g, struct lvn_tensor *x, int dim, int64_t first, int64_t count);
/* View of the same elements with another shape; x must be contiguous. */
struct lvn_tensor *lvn_reshape(struct lvn_graph *g, struct lvn_tensor *x, int rank, const int64_t *dim);
/* Append a node and return its output 0; called by the constructors in src/ops. Absent inputs are NULL; the first
 * n_in_min of the operation must be present. */
struct lvn_tensor *lvn_node_append(struct lvn_graph *g, enum lvn_op_id op, const union lvn_attr *attr,
                                   struct lvn_tensor *const *in, int n_in);

/* The constructors, one for each operation: lvn_linear(g, x, w, b, in_out), lvn_gelu(g, x), ... */
#define LVN_OP(name, attr, args) struct lvn_tensor *lvn_##name args;
#define LVN_OP_FUSED(name, attr)
#define LVN_OP_UPDATE(name, attr)
#define LVN_OP_COLLECTIVE(name, attr)
#include "ops/ops.def"

#endif
