/* generate.c - see generate.h. */
#include "train/generate.h"

#include "train/model_setup.h"

static enum lvn_status load(struct lvn_generator *g, struct lvn_model_setup *m, const struct lvn_settings *s)
{
    struct lvn_network_options network = {.real = LVN_F32, .threads = (int)s->trainer.threads};
    LVN_TRY(lvn_model_setup_loaded(m, s));
    LVN_TRY(lvn_network_new(&g->network, &m->config, &network));
    LVN_TRY(lvn_sampler_new(&g->sampler, g->network, m->block_size));
    LVN_TRY(lvn_network_allocate(g->network));
    LVN_TRY(
        lvn_pretrained_load(&m->pretrained, g->network->params, lvn_network_values(g->network), g->network->weights));
    g->codec = m->codec;
    m->codec = (struct lvn_codec){0};
    return LVN_OK;
}

enum lvn_status lvn_generator_open(struct lvn_generator *g, const struct lvn_settings *s)
{
    struct lvn_model_setup m = {0};
    *g = (struct lvn_generator){0};
    LVN_CHECK(*s->model.init, ARG, "generating needs a model: give a run, a checkpoint or a model directory");
    enum lvn_status status = load(g, &m, s);
    lvn_model_setup_close(&m);
    if (status != LVN_OK) lvn_generator_close(g);
    return status;
}

void lvn_generator_close(struct lvn_generator *g)
{
    lvn_sampler_free(g->sampler);
    lvn_network_free(g->network);
    lvn_codec_release(&g->codec);
    *g = (struct lvn_generator){0};
}
