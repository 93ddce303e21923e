/* library.c - the public functions of include/levin.h over the engine. */
#include <math.h>
#include <stdlib.h>

#include "levin.h"

#include "models/keys.h"
#include "train/ranks.h"
#include "train/trainer.h"

struct lvn_settings *lvn_settings_new(void)
{
    struct lvn_settings *s = lvn_calloc(1, sizeof *s);
    if (s && lvn_settings_init(s) != LVN_OK) {
        free(s);
        s = NULL;
    }
    return s;
}

void lvn_settings_free(struct lvn_settings *s)
{
    if (s) lvn_settings_release(s);
    free(s);
}

int lvn_settings_put(struct lvn_settings *s, const char *key, const char *value)
{
    return (int)lvn_settings_set(s, key, value, LVN_SOURCE_PROGRAM);
}

int lvn_settings_recipe(struct lvn_settings *s, const char *path)
{
    return (int)lvn_settings_load(s, path);
}

struct lvn_tensor *lvn_weight(struct lvn_graph *g, const char *name, int64_t in, int64_t out, double std)
{
    return lvn_param(g, name, LVN_WEIGHT, LVN_NORMAL(std), LVN_DESC(LVN_F32, in, out));
}

struct lvn_tensor *lvn_table(struct lvn_graph *g, const char *name, int64_t rows, int64_t C, double std)
{
    return lvn_param(g, name, LVN_EMBEDDING, LVN_NORMAL(std), LVN_DESC(LVN_F32, rows, C));
}

struct lvn_tensor *lvn_vector(struct lvn_graph *g, const char *name, int64_t n, double value)
{
    return lvn_param(g, name, LVN_VECTOR, LVN_CONSTANT(value), LVN_DESC(LVN_F32, n));
}

/* The sizes of such a model, which are its configuration. */
#define SIZE(field)                                                                                                    \
    LVN_KEY_INT_OF(struct lvn_sizes, field), .recipe = #field, .json = #field, .least = 1, .most = 1 << 30
static const struct lvn_key keys[] = {
    {SIZE(n_layer), .means = LVN_MEANS_LAYERS},
    {SIZE(n_head), .means = LVN_MEANS_HEADS},
    {SIZE(n_embd)},
    {SIZE(block_size), .means = LVN_MEANS_POSITIONS},
    {SIZE(vocab_size), .means = LVN_MEANS_VOCABULARY, .by_data = true},
    {LVN_KEY_REAL_OF(struct lvn_sizes, dropout), .recipe = "dropout", .json = "dropout", .most = 0.999},
    {.kind = LVN_KEY_END},
};

/* A program's model as an entry of the table of models: the engine sees the first member. */
struct adapter {
    struct lvn_model model;
    const struct lvn_own_model *own;
    void (*on_step)(void *context, int64_t step, double loss, double val_loss);
    void *context;
};

static struct lvn_tensor *build(struct lvn_graph *g, const struct lvn_model_config *c, struct lvn_tensor *const *inputs)
{
    const struct adapter *a = (const struct adapter *)c->model;
    return a->own->logits(g, (const struct lvn_sizes *)(const void *)c->own, inputs[0], a->own->context);
}

static void handle(void *context, const struct lvn_event *e)
{
    const struct adapter *a = context;
    double loss = lvn_event_value(e, "loss");
    if (e->kind == LVN_EVENT_STEP) a->on_step(a->context, e->step, loss, NAN);
    if (e->kind == LVN_EVENT_VALIDATION) a->on_step(a->context, e->step, loss, lvn_event_value(e, "val_loss"));
}

int lvn_train_model(struct lvn_settings *s, const struct lvn_own_model *m,
                    void (*on_step)(void *context, int64_t step, double loss, double val_loss), void *context)
{
    struct adapter a = {.model = {.name = m->name,
                                  .keys = keys,
                                  .inputs = lvn_language_inputs,
                                  .tasks = lvn_language_tasks,
                                  .generates = true,
                                  .build = build},
                        .own = m,
                        .on_step = on_step,
                        .context = context};
    struct lvn_listener listener = {.handle = handle, .context = &a};
    struct lvn_train_options o = {.model = &a.model, .listeners = &listener, .n_listeners = on_step ? 1 : 0};
    struct lvn_identity who;
    if (lvn_identity_find(&who) == LVN_OK) s->ranks = who.size;
    enum lvn_status status = lvn_ranks_open(&o.ranks, s, NULL, lvn_settings_finish(s, LVN_USES_ALL));
    if (status == LVN_OK) status = lvn_train(s, &o, NULL);
    lvn_ranks_close(o.ranks);
    return (int)status;
}
