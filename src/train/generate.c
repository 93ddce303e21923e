/* generate.c - see generate.h. */
#include "train/generate.h"

#include <stdlib.h>

#include "base/files.h"
#include "formats/json.h"
#include "train/model_setup.h"

static enum lvn_status read_ends(struct lvn_generator *g, const char *path)
{
    json_t *root;
    LVN_TRY(lvn_json_read(path, &root));
    enum lvn_status status = lvn_json_ints(path, root, "eos_token_id", INT32_MIN, INT32_MAX, &g->ends, &g->n_ends);
    json_decref(root);
    return status;
}

/* The end tokens of the first file that names some. A checkpoint of nanoGPT is a file and has none of these. */
static enum lvn_status find_ends(struct lvn_generator *g, const char *model)
{
    static const char *const files[] = {"generation_config.json", "config.json"};
    struct lvn_arena a;
    enum lvn_status status = LVN_OK;
    lvn_arena_init(&a);
    for (int i = 0; i < 2 && status == LVN_OK && !g->n_ends; i++) {
        const char *path = lvn_path_join(&a, model, files[i]);
        if (!path)
            status = LVN_MEMORY;
        else if (lvn_path_is_file(path))
            status = read_ends(g, path);
    }
    lvn_arena_release(&a);
    return status;
}

static enum lvn_status load(struct lvn_generator *g, struct lvn_model_setup *m, const struct lvn_settings *s,
                            bool with_ends)
{
    struct lvn_network_options network = {
        .backend = lvn_backend_find(s->trainer.accelerator), .real = LVN_F32, .threads = (int)s->trainer.threads};
    LVN_TRY(lvn_model_setup_loaded(m, s));
    if (with_ends) LVN_TRY(find_ends(g, m->pretrained.path));
    LVN_TRY(lvn_network_new(&g->network, &m->config, &network));
    LVN_TRY(lvn_sampler_new(&g->sampler, g->network, m->block_size));
    LVN_TRY(lvn_network_allocate(g->network));
    LVN_TRY(lvn_pretrained_load(&m->pretrained, g->network->params, g->network->memory[LVN_BUFFER_PARAM],
                                g->network->weights));
    g->codec = m->codec;
    m->codec = (struct lvn_codec){0};
    return LVN_OK;
}

enum lvn_status lvn_generator_open(struct lvn_generator *g, const struct lvn_settings *s, bool with_ends)
{
    struct lvn_model_setup m = {0};
    *g = (struct lvn_generator){0};
    LVN_CHECK(*s->model.init, ARG, "generating needs a model: give a run, a checkpoint or a model directory");
    enum lvn_status status = load(g, &m, s, with_ends);
    lvn_model_setup_close(&m);
    if (status != LVN_OK) lvn_generator_close(g);
    return status;
}

void lvn_generator_close(struct lvn_generator *g)
{
    lvn_sampler_free(g->sampler);
    lvn_network_free(g->network);
    lvn_codec_release(&g->codec);
    free(g->ends);
    *g = (struct lvn_generator){0};
}
