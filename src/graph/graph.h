/* graph.h - a model as a graph of operations on tensors.
 *
 * The functions of src/models build graphs: lvn_linear(g, x, w, b, ...) and the like append a node and compute nothing.
 * lvn_program_new() (passes/program.h) makes a program of a graph. Nodes are appended in an order in which they can
 * run, so nothing is sorted later. A failed call returns NULL, and so does every call with an input that is NULL; the
 * graph records the first failure, and lvn_graph_status() returns it. So models are expressions without checks.
 *
 * Left out: parameters (params.h), gradients (passes/differentiate.c) and memory (engine/model_state.h). */
#ifndef LVN_GRAPH_H
#define LVN_GRAPH_H

#include "base/arena.h"
#include "graph/op.h"
#include "graph/params.h"

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
    int block;                           /* as lvn_param.block */
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
    int block;              /* that is being declared, as lvn_param.block */
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
 * recomputation (passes/blocks.c). What is declared before the first lvn_block(), or after lvn_block_end(), which is
 * the head, belongs to no block. */
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
