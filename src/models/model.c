/* model.c - the table of models, the named sizes, and the part of a graph that all language models share. */
#include "models/model.h"

#include <string.h>

#include "models/lora.h"

#define LVN_MODEL(name) extern const struct lvn_model lvn_model_##name;
#include "models/models.def"
#undef LVN_MODEL

static const struct lvn_model *const models[] = {
#define LVN_MODEL(name) &lvn_model_##name,
#include "models/models.def"
#undef LVN_MODEL
};

const struct lvn_model *lvn_model_find(const char *name)
{
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++)
        if (strcmp(models[i]->name, name) == 0) return models[i];
    return NULL;
}

/* As minGPT's table names them. */
static const struct lvn_model_size sizes[] = {
    {"openai-gpt", 12, 12, 768},
    {"gpt2", 12, 12, 768},
    {"gpt2-medium", 24, 16, 1024},
    {"gpt2-large", 36, 20, 1280},
    {"gpt2-xl", 48, 25, 1600},
    {"gpt2-xxl", 96, 25, 1600},
    {"gpt2-xxxl", 100, 30, 1920},
    {"gpt2-4xl", 190, 30, 1920},
    {"gopher-44m", 8, 16, 512},
    {"gpt-mini", 6, 6, 192},
    {"gpt-micro", 4, 4, 128},
    {"gpt-nano", 3, 3, 48},
    {NULL, 0, 0, 0},
};

const struct lvn_model_size *lvn_model_sizes(void)
{
    return sizes;
}

const struct lvn_model_size *lvn_model_size_find(const char *name)
{
    for (const struct lvn_model_size *s = sizes; s->name; s++)
        if (strcmp(s->name, name) == 0) return s;
    return NULL;
}

enum lvn_status lvn_model_check(const struct lvn_model_config *c)
{
    const struct {
        const char *key;
        int64_t value;
    } positive[] = {{"n_layer", c->n_layer},
                    {"n_head", c->n_head},
                    {"n_embd", c->n_embd},
                    {"block_size", c->n_positions},
                    {"vocab_size", c->vocab_size}};
    for (size_t i = 0; i < sizeof positive / sizeof positive[0]; i++)
        LVN_CHECK(positive[i].value >= 1 && positive[i].value < INT64_C(1) << 31, ARG,
                  "model.%s is %lld; it must be at least 1 and below 2^31", positive[i].key,
                  (long long)positive[i].value);
    LVN_CHECK(c->n_embd % c->n_head == 0, ARG,
              "model.n_embd is %lld, which does not divide into model.n_head = %lld heads; choose a multiple",
              (long long)c->n_embd, (long long)c->n_head);
    return LVN_OK;
}

struct lvn_model_graph lvn_model_build(struct lvn_graph *g, const struct lvn_model_config *c, int64_t B, int64_t T,
                                       bool with_loss)
{
    struct lvn_model_graph m = {.ids = lvn_input(g, "ids", LVN_DESC(LVN_I32, B, T))};
    if (with_loss) m.labels = lvn_input(g, "labels", LVN_DESC(LVN_I32, B, T));
    lvn_lora_attach(g, c);
    m.logits = c->model->logits(g, c, m.ids);
    if (!with_loss) return m;
    m.loss = lvn_cross_entropy(g, m.logits, m.labels);
    m.losses = m.loss ? m.loss->node->out[1] : NULL;
    return m;
}
