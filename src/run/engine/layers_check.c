/* layers_check.c - see layers_check.h. */
#include "engine/layers_check.h"

#include "base/text.h"
#include "host/machine.h"
#include "models/keys.h"
#include "passes/program.h"

enum {
    ALWAYS_ALLOWED = 1000, /* number of layers that is not checked */
    /* An estimate per graph node: forward and backward instruction, the one for validation, bound calls, and unused
     * list capacity. */
    INSTRS_PER_NODE = 5,
    PROGRAM_MEMORY_DIVISOR = 4, /* programs may use at most a quarter of the free memory */
};

struct size {
    int64_t parameters, nodes;
};

static enum lvn_status size_of(const struct lvn_model_config *c, int64_t layers, struct size *out)
{
    struct lvn_model_config small = *c;
    struct lvn_params *params = lvn_params_new();
    struct levin_graph *g = params ? lvn_graph_new(params, LVN_F32) : NULL;
    enum lvn_status status = g ? LVN_OK : LVN_MEMORY;
    lvn_model_set(&small, LVN_ROLE_LAYERS, layers);
    if (g) lvn_model_declare(g, &small);
    if (g) status = lvn_graph_status(g);
    if (status == LVN_OK) *out = (struct size){lvn_params_total(params), g->n_nodes};
    lvn_graph_free(g);
    lvn_params_free(params);
    return status;
}

enum lvn_status lvn_layers_check(const struct lvn_model_config *c, int64_t weight_bytes, bool allocates)
{
    const int64_t layers = lvn_model_value(c, LVN_ROLE_LAYERS), available = lvn_memory_available();
    char count[LVN_NUMBER_TEXT], needed[LVN_NUMBER_TEXT], free_text[LVN_NUMBER_TEXT];
    struct size one, two;
    if (layers <= ALWAYS_ALLOWED || available <= 0) return LVN_OK;
    LVN_TRY(size_of(c, 1, &one));
    LVN_TRY(size_of(c, 2, &two));
    const double parameters = (double)one.parameters + (double)(two.parameters - one.parameters) * (double)(layers - 1);
    const double nodes = (double)one.nodes + (double)(two.nodes - one.nodes) * (double)(layers - 1);
    const double programs = nodes * INSTRS_PER_NODE * sizeof(struct lvn_instr),
                 weights = parameters * (double)weight_bytes;
    LVN_CHECK(!allocates || weights <= (double)available, MEMORY,
              "the parameters of %s layers need %s, but %s are free; choose fewer layers or a smaller model",
              lvn_count_text(layers, count), lvn_bytes_text((int64_t)weights, needed),
              lvn_bytes_text(available, free_text));
    LVN_CHECK(programs <= (double)(available / PROGRAM_MEMORY_DIVISOR), MEMORY,
              "the programs of %s layers need about %s, but may use only a quarter of the free %s; choose "
              "fewer layers",
              lvn_count_text(layers, count), lvn_bytes_text((int64_t)programs, needed),
              lvn_bytes_text(available, free_text));
    return LVN_OK;
}
