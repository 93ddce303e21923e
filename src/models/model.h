/* model.h - what a model is: sizes in, a graph out.
 *
 * A family is one file that ends in a `struct lvn_model` (variants may share a file), and a line in models.def. It
 * writes the network down once, as expressions over operations; training, evaluation and generation are graphs of the
 * same expressions. */
#ifndef LVN_MODEL_H
#define LVN_MODEL_H

#include "graph/graph.h"

/* Adapters beside linear maps (models/lora.h). */
struct lvn_lora {
    int64_t rank; /* 0: none */
    double alpha;
    const char *targets; /* patterns over names (graph/names.h) */
};

/* The sizes of a model. What a family has no use for it leaves alone. */
struct lvn_model_config {
    const struct lvn_model *model;
    int64_t n_layer, n_head, n_embd;
    int64_t n_positions; /* rows of the position table; windows may be shorter */
    int64_t vocab_size;
    bool bias;      /* in linear maps and layer norms */
    bool tied;      /* the head shares the embedding's weights */
    bool gelu_tanh; /* the tanh approximation; otherwise erf */
    double dropout_embedding, dropout_residual, dropout_attention;
    double eps; /* of layer norms */
    struct lvn_lora lora;
};

/* The tensors of one graph. */
struct lvn_model_graph {
    struct lvn_tensor *ids;    /* (B,T) I32, an input */
    struct lvn_tensor *labels; /* (B,T) I32, an input; NULL when there is no loss */
    struct lvn_tensor *loss;   /* (1) F64: sum over the labels that are not ignored; NULL when there is none */
    struct lvn_tensor *losses; /* (B*T): of each label */
    struct lvn_tensor *logits; /* (B,T,V) */
};

struct lvn_model {
    const char *name;
    /* Defaults of the family, before settings or a config.json fill in what they give. */
    void (*defaults)(struct lvn_model_config *c);
    /* The network: logits (B,T,V) from ids (B,T). */
    struct lvn_tensor *(*logits)(struct lvn_graph *g, const struct lvn_model_config *c, struct lvn_tensor *ids);
};

/* By name; NULL when there is none. */
const struct lvn_model *lvn_model_find(const char *name);
/* Do these sizes make a model? ARG with a sentence when not. */
enum lvn_status lvn_model_check(const struct lvn_model_config *c) LVN_CHECKED;
/* Build the graph for B sequences of T tokens. Errors are in the graph (lvn_graph_status). */
struct lvn_model_graph lvn_model_build(struct lvn_graph *g, const struct lvn_model_config *c, int64_t B, int64_t T,
                                       bool with_loss);

/* A named size ("gpt2", "gpt-mini"). */
struct lvn_model_size {
    const char *name;
    int64_t n_layer, n_head, n_embd;
};
/* NULL when there is none of that name. */
const struct lvn_model_size *lvn_model_size_find(const char *name);
/* All of them, ended by a NULL name. */
const struct lvn_model_size *lvn_model_sizes(void);

#endif
