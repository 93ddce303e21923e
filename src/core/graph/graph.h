/* graph.h - a model as a graph of operations on tensors.
 *
 * The functions of src/nets/models build graphs: levin_linear(g, x, w, b, ...) and similar calls append a node and
 * compute nothing. lvn_program_new() (passes/program.h) builds a program from a graph. Nodes are appended in an order
 * in which they can run, so they need no sorting. A failed call returns NULL, and so does every call with a NULL input;
 * the graph records the first failure, and lvn_graph_status() returns it. So models are expressions without checks.
 *
 * See params.h for parameters, passes/differentiate.c for gradients and engine/model_state.h for memory. */
#ifndef LVN_GRAPH_H
#define LVN_GRAPH_H

#include "base/arena.h"
#include "graph/op.h"
#include "graph/params.h"

enum lvn_tensor_kind { LVN_TENSOR_INPUT, LVN_TENSOR_PARAM, LVN_TENSOR_OUTPUT, LVN_TENSOR_VIEW };

/* A value in the graph. Models pass pointers to it and do not touch its fields. */
struct levin_tensor {
    int id; /* index in graph->tensors */
    enum lvn_tensor_kind kind;
    struct lvn_desc desc;
    const char *name;
    struct lvn_node *node;     /* OUTPUT: the node that computes it */
    int output;                /* OUTPUT: index in node->out */
    struct levin_tensor *base; /* VIEW: the tensor that owns the memory; desc.offset counts from its first element */
    struct lvn_param *param;   /* PARAM: the parameter */
    int input;                 /* INPUT: index in graph->inputs */
};

struct lvn_node {
    enum lvn_op_id op;
    union lvn_attr attr;
    struct levin_tensor *in[LVN_MAX_IN];   /* NULL: absent */
    struct levin_tensor *out[LVN_MAX_OUT]; /* outputs, then saved values */
    const char *name;                      /* with its scope, "h.0.linear:2" */
    uint32_t hash;                         /* of the name */
    int block;                             /* as lvn_param.block */
    int cache;                             /* kv_cache: index in graph->caches; other operations: -1 */
};

/* A key/value cache of a decoding graph, kept between runs. */
struct lvn_cache {
    const char *name;
    struct lvn_desc desc;
};

struct levin_graph {
    struct lvn_arena arena;
    struct lvn_params *params;
    enum lvn_dtype real;  /* fp32; fp64 for reference runs */
    int64_t cache_length; /* > 0: a decoding graph, whose kv_cache() caches this many tokens; 0: kv_cache(x) is x */
    int64_t cache_tokens; /* maximum new tokens per run of the graphs that share the caches; 0: those of this graph */
    /* (B,T) int32, rows of several documents: for each token the position in its row at which its document begins.
     * Constructors of operations that know positions (attention, embedding with positions, rotary_table) add it as an
     * input, so attention and positions of every model restart there. NULL: each row is one document. */
    struct levin_tensor *segments;
    /* (B,T,2 LVN_HIDDEN_RANGES) int32, with segments, rows of token trees: ranges [begin, end) of earlier tokens that
     * each token does not see, in their order and disjoint; empty ones are (0,0). So continuations of one text follow
     * each other, and the text is computed once. The position of a token t is t - segments[t], so for a continuation
     * segments is the start of its document plus the number of tokens that are hidden from it. NULL: none. */
    struct levin_tensor *hidden;
    /* (1,N) int32, for B = 1: the tokens whose logits a decoder computes, (1,N,V). NULL: all, (B,T,V). */
    struct levin_tensor *selected;
    struct levin_tensor **tensors;
    int n_tensors;
    int64_t tensors_capacity;
    struct lvn_node **nodes;
    int n_nodes;
    int64_t nodes_capacity;
    struct lvn_index scoped; /* "h.0.dropout" -> number of nodes of that scope and operation */
    struct levin_tensor **inputs;
    int n_inputs;
    int64_t inputs_capacity;
    struct lvn_cache *caches;
    int n_caches;
    int64_t caches_capacity;
    /* Called for each linear layer, y = x w + b, that a model declares. It may append nodes (LoRA) and returns the
     * tensor that the model uses instead of y. NULL: none. */
    struct levin_tensor *(*adapter)(struct levin_graph *g, struct levin_tensor *x, struct levin_tensor *w,
                                    struct levin_tensor *y);
    /* The same for the first table that a model declares, that of its tokens. */
    struct levin_tensor *(*table_adapter)(struct levin_graph *g, struct levin_tensor *table);
    const void *adapter_context; /* of both */
    char scope[128];             /* prefix of names; "": none */
    int block;                   /* the current block, as lvn_param.block */
    int n_blocks;                /* blocks declared so far */
    enum lvn_status status;      /* of the first failed call */
    const char *error;           /* message of the first failed call */
};

/* A graph over `params`, which must outlive it. The model's parameters are added to `params`; if they exist already,
 * their shapes must match. NULL: out of memory. */
struct levin_graph *lvn_graph_new(struct lvn_params *params, enum lvn_dtype real);
void lvn_graph_free(struct levin_graph *g);
/* The first failure while building, recorded as this thread's last error; LVN_OK: none. */
enum lvn_status lvn_graph_status(const struct levin_graph *g) LVN_CHECKED;

/* Names declared after this call begin with this scope ("h.%d"); "" ends the scope. */
void levin_scope(struct levin_graph *g, const char *format, ...) LVN_PRINTF(2, 3);
/* Nodes and parameters declared after this call belong to the model's next block: one of its equal layers, the unit of
 * recomputation (passes/blocks.c). Those declared before the first levin_block(), and those after levin_block_end(),
 * the head, belong to no block. */
void levin_block(struct levin_graph *g);
void levin_block_end(struct levin_graph *g);
/* An input, such as token ids or labels, which the caller binds for every micro-batch. */
struct levin_tensor *lvn_input(struct levin_graph *g, const char *name, struct lvn_desc desc);
/* A parameter. Its name is prefixed with the scope, and its type is the graph's real type. */
struct levin_tensor *lvn_param(struct levin_graph *g, const char *name, enum lvn_param_kind kind, struct lvn_init init,
                               struct lvn_desc desc);
/* Parameters of the three kinds. Weights and tables are initialized with N(0, std), vectors with a constant. */
struct levin_tensor *levin_weight(struct levin_graph *g, const char *name, int64_t in, int64_t out,
                                  double std); /* (in,out) */
struct levin_tensor *levin_table(struct levin_graph *g, const char *name, int64_t rows, int64_t C,
                                 double std);                                                        /* (rows,C) */
struct levin_tensor *levin_vector(struct levin_graph *g, const char *name, int64_t n, double value); /* (n) */
/* View of x (B,T,C) as (B,T,n_head,head_size): channels first_channel to first_channel + n_head * head_size - 1. The
 * views of a tensor need not cover it. */
struct levin_tensor *levin_heads(struct levin_graph *g, struct levin_tensor *x, int64_t first_channel, int64_t n_head,
                                 int64_t head_size);
/* View of elements first to first + count - 1 along dimension `dim`. Most operations require contiguous tensors:
 * levin_pack() copies a view into one. Views may overlap; elements of x that no view covers get a zero gradient. */
struct levin_tensor *levin_slice(struct levin_graph *g, struct levin_tensor *x, int dim, int64_t first, int64_t count);
/* View of the same elements with another shape, in which one dimension may be -1: it is inferred. x must be contiguous.
 */
struct levin_tensor *levin_reshape(struct levin_graph *g, struct levin_tensor *x, int rank, const int64_t *dim);
/* View of x with two of its dimensions exchanged. */
struct levin_tensor *levin_transpose(struct levin_graph *g, struct levin_tensor *x, int dim, int other);
/* Record this thread's last error as the graph's first failure. Returns NULL, so that constructors can return it. */
struct levin_tensor *lvn_graph_fail(struct levin_graph *g, enum lvn_status status);
/* Append a node and return its output 0; called by the constructors in src/core/ops. Absent inputs are NULL; the first
 * n_in_min of the operation must be present. */
struct levin_tensor *lvn_node_append(struct levin_graph *g, enum lvn_op_id op, const union lvn_attr *attr,
                                     struct levin_tensor *const *in, int n_in);
/* The same for an operation on two tensors: op if they have the same shape; op_rows, with the longer one first, if one
 * has the last dimensions of the other. */
struct levin_tensor *lvn_node_append_pair(struct levin_graph *g, enum lvn_op_id op, enum lvn_op_id op_rows,
                                          struct levin_tensor *a, struct levin_tensor *b);

/* The constructors, one for each operation: levin_linear(g, x, w, b, in_out), levin_gelu(g, x), ... levin.h has the
 * structs of their options. */
struct levin_attention_options;
#define LVN_OP(name, attr, args) struct levin_tensor *levin_##name args;
#define LVN_OP_FUSED(name, attr)
#define LVN_OP_UPDATE(name, attr)
#define LVN_OP_COLLECTIVE(name, attr)
#include "ops/ops.def"

#endif
