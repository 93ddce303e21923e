/* pass_listing.h - small models for tests of the passes, and the comparison of a program's listing with a text.
 *
 * The listing is that of LVN_PRINT_OPERANDS (passes/program.h), one line for each instruction: %2 is value number 2 of
 * the arena, parameters and inputs have their names, shapes are those of the outputs. */
#ifndef LVN_PASS_LISTING_H
#define LVN_PASS_LISTING_H

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "bound_program.h"

/* A model, and its program so far. */
struct model {
    struct lvn_params *params;
    struct levin_graph *graph;
    struct lvn_program *program;
};

static inline struct model model_new(void)
{
    struct model m = {.params = lvn_params_new()};
    m.graph = lvn_graph_new(m.params, LVN_F32);
    return m;
}

static inline void model_free(struct model *m)
{
    lvn_program_free(m->program);
    lvn_graph_free(m->graph);
    lvn_params_free(m->params);
}

/* The build pass, for a model whose expression ends in `output`. */
static inline void model_build(struct model *m, struct levin_tensor *output)
{
    must(lvn_graph_status(m->graph));
    must(lvn_params_layout(m->params, LVN_DECAY_MATRICES));
    must(lvn_program_build(&m->program, m->graph, &output, 1));
}

/* A classifier of two samples of 4 features into 3 classes, by two linear layers: y = w2 (act(w1 x + b)); its loss. */
static inline struct levin_tensor *classifier_loss(struct levin_graph *g)
{
    struct levin_tensor *x = lvn_input(g, "x", LVN_DESC(LVN_F32, 2, 4));
    struct levin_tensor *labels = lvn_input(g, "labels", LVN_DESC(LVN_I32, 2));
    struct levin_tensor *w1 =
        levin_weight(g, "w1", 4, 8, 1); /* C does not say which argument of a call is evaluated first */
    struct levin_tensor *b = levin_vector(g, "b", 8, 0);
    struct levin_tensor *h = levin_gelu(g, levin_linear(g, x, w1, b, true));
    return levin_cross_entropy(g, levin_linear(g, h, levin_weight(g, "w2", 8, 3, 1), NULL, true), labels);
}

static inline struct model classifier_new(void)
{
    struct model m = model_new();
    model_build(&m, classifier_loss(m.graph));
    return m;
}

/* The program's listing is this text. */
static inline void expect(const struct model *m, const char *listing)
{
    LVN_LOCAL_TEXT(text);
    must(lvn_program_print(&text, m->program, LVN_PRINT_OPERANDS));
    if (strcmp(lvn_text_string(&text), listing) == 0) return;
    fprintf(stderr, "the listing is\n%swhere this was expected:\n%s", lvn_text_string(&text), listing);
    fail();
}

#endif
