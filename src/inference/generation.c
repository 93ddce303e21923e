/* generation.c - see generation.h. */
#include "inference/generation.h"

#include <stdlib.h>

#include "base/files.h"
#include "engine/devices.h"
#include "formats/json.h"

static enum lvn_status read_ends(struct lvn_generator *g, const char *path)
{
    json_t *root;
    LVN_TRY(lvn_json_read(path, &root));
    enum lvn_status status = lvn_json_ints(path, root, "eos_token_id", INT32_MIN, INT32_MAX, &g->ends, &g->n_ends);
    json_decref(root);
    return status;
}

/* The end tokens of the first file that has some. A checkpoint of nanoGPT is a single file without them. */
static enum lvn_status find_ends(struct lvn_generator *g, const char *model)
{
    static const char *const files[] = {"generation_config.json", "config.json"};
    LVN_LOCAL_ARENA(a);
    enum lvn_status status = LVN_OK;
    for (int i = 0; i < 2 && status == LVN_OK && !g->n_ends; i++) {
        const char *path = lvn_path_join(&a, model, files[i]);
        if (!path)
            status = LVN_MEMORY;
        else if (lvn_path_is_file(path))
            status = read_ends(g, path);
    }
    return status;
}

enum lvn_status lvn_generator_open(struct lvn_generator *g, const struct lvn_settings *s, bool with_ends)
{
    *g = (struct lvn_generator){.settings = s};
    LVN_CHECK(*s->model.init, ARG, "generating needs a model: give a run, a checkpoint or a model directory");
    enum lvn_status status = lvn_model_setup_loaded(&g->setup, s);
    if (status == LVN_OK) status = lvn_sampling_possible(&g->setup.config);
    if (status == LVN_OK && with_ends) status = find_ends(g, g->setup.pretrained.path);
    if (status != LVN_OK) lvn_generator_close(g);
    return status;
}

/* Make the model for these samples: one row for each, and caches for the longest. */
static enum lvn_status load(struct lvn_generator *g, const struct lvn_sample *samples, int64_t n)
{
    struct lvn_model_setup *m = &g->setup;
    const struct lvn_settings *s = g->settings;
    const bool bf16 = s->trainer.precision == LVN_TRAINER_PRECISION_BF16_TRUE;
    int device;
    LVN_TRY(lvn_ranks_device(NULL, s, &device));
    struct lvn_model_state_options options = {.backend = lvn_backend_find(s->trainer.accelerator),
                                              .tf32 = s->trainer.float32_matmul_precision == LVN_TRAINER_FLOAT32_HIGH,
                                              .device = device,
                                              .real = LVN_F32,
                                              .precision = bf16 ? LVN_PRECISION_BF16_TRUE : LVN_PRECISION_TRUE,
                                              .threads = (int)s->trainer.threads};
    int64_t longest = 1;
    for (int64_t i = 0; i < n; i++) {
        LVN_TRY(lvn_sampling_check(m->config.model, m->block_size, &samples[i]));
        if (samples[i].n + samples[i].max - 1 > longest) longest = samples[i].n + samples[i].max - 1;
    }
    LVN_TRY(lvn_model_state_new(&g->model_state, &m->config, &options));
    LVN_TRY(lvn_sampler_new(&g->sampler, g->model_state, m->block_size, n, longest));
    LVN_TRY(lvn_model_state_allocate(g->model_state));
    return lvn_pretrained_load(&m->pretrained, g->model_state->params, g->model_state->memory[LVN_BUFFER_PARAM],
                               g->model_state->weights);
}

enum lvn_status lvn_generator_run(struct lvn_generator *g, struct lvn_sample *samples, int64_t n,
                                  struct lvn_sampling_options *o)
{
    o->ends = g->ends;
    o->n_ends = g->n_ends;
    LVN_TRY(load(g, samples, n));
    return lvn_sampler_run(g->sampler, samples, n, o);
}

int64_t lvn_generator_capacity(const struct lvn_generator *g, int64_t n)
{
    return lvn_sampling_capacity(g->setup.config.model, g->setup.block_size, n);
}

void lvn_generator_close(struct lvn_generator *g)
{
    lvn_sampler_free(g->sampler);
    lvn_model_state_free(g->model_state);
    lvn_model_setup_close(&g->setup);
    free(g->ends);
    *g = (struct lvn_generator){0};
}
