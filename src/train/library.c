/* library.c - the public functions of include/levin.h over the engine. */
#include <math.h>
#include <stdlib.h>

#include "levin.h"

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

/* A program's model as an entry of the table of models: the engine sees the first member. */
struct adapter {
    struct lvn_model model;
    const struct lvn_own_model *own;
    void (*on_step)(void *context, int64_t step, double loss, double val_loss);
    void *context;
};

static struct lvn_tensor *logits(struct lvn_graph *g, const struct lvn_model_config *c, struct lvn_tensor *ids)
{
    const struct adapter *a = (const struct adapter *)c->model;
    struct lvn_sizes sizes = {.n_layer = c->n_layer,
                              .n_head = c->n_head,
                              .n_embd = c->n_embd,
                              .block_size = c->n_positions,
                              .vocab_size = c->vocab_size,
                              .dropout = c->dropout_residual};
    return a->own->logits(g, &sizes, ids, a->own->context);
}

static void handle(void *context, const struct lvn_event *e)
{
    const struct adapter *a = context;
    if (e->kind == LVN_EVENT_STEP) a->on_step(a->context, e->step, e->loss, NAN);
    if (e->kind == LVN_EVENT_VALIDATION) a->on_step(a->context, e->step, e->loss, e->val_loss);
}

int lvn_train_model(struct lvn_settings *s, const struct lvn_own_model *m,
                    void (*on_step)(void *context, int64_t step, double loss, double val_loss), void *context)
{
    struct adapter a = {.model = {.name = m->name, .logits = logits}, .own = m, .on_step = on_step, .context = context};
    struct lvn_listener listener = {.handle = handle, .context = &a};
    struct lvn_train_options o = {.model = &a.model, .listeners = &listener, .n_listeners = on_step ? 1 : 0};
    struct lvn_identity who;
    if (lvn_identity_find(&who) == LVN_OK) s->ranks = who.size;
    enum lvn_status status = lvn_ranks_open(&o.ranks, s, NULL, lvn_settings_finish(s, LVN_USES_ALL));
    if (status == LVN_OK) status = lvn_train(s, &o, NULL);
    lvn_ranks_close(o.ranks);
    return (int)status;
}
