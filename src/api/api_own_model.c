/* api_own_model.c - a program's own model as a family of models, and its training in one call.
 *
 * api_run.c uses the same model where the program makes the steps itself. */
#include "api/api.h"
#include "graph/rotary.h"

/* The keys of a program's model: its sizes. */
#define SIZE(field) LVN_KEY_INT_OF(struct lvn_sizes, field), .recipe = #field, .json = #field, .min = 1, .max = 1 << 30
static const struct lvn_key keys[] = {
    {SIZE(n_layer), .role = LVN_ROLE_LAYERS},
    {SIZE(n_head), .role = LVN_ROLE_HEADS},
    {SIZE(n_embd)},
    {SIZE(block_size), .role = LVN_ROLE_POSITIONS},
    {SIZE(vocab_size), .role = LVN_ROLE_VOCABULARY, .by_data = true},
    {LVN_KEY_REAL_OF(struct lvn_sizes, dropout), .recipe = "dropout", .json = "dropout", .max = 0.999},
    {.kind = LVN_KEY_END},
};

static struct lvn_tensor *build(struct lvn_graph *g, const struct lvn_model_config *c, struct lvn_tensor *const *inputs)
{
    const struct lvn_api_model *a = (const struct lvn_api_model *)c->model;
    return a->source->logits(g, (const struct lvn_sizes *)(const void *)c->fields, inputs[0], a->source->context);
}

void lvn_api_own_model(struct lvn_api_model *out, const struct lvn_own_model *source)
{
    *out = (struct lvn_api_model){.model = {.name = source->name,
                                            .keys = keys,
                                            .inputs = lvn_language_inputs,
                                            .tasks = lvn_language_tasks,
                                            .generates = true,
                                            .build = build},
                                  .source = source};
}

struct lvn_tensor *lvn_rotary_angles(struct lvn_graph *g, struct lvn_tensor *ids, int64_t dims, double theta)
{
    return lvn_rotary_table(
        g, ids,
        &(union lvn_attr){.rotary_table = {.dims = dims, .theta = theta, .scaling = LVN_ROTARY_PLAIN, .magnitude = 1}});
}

enum lvn_status lvn_api_ranks(struct lvn_ranks **ranks, struct lvn_settings *s)
{
    struct lvn_identity identity;
    if (lvn_identity_find(&identity) == LVN_OK) s->ranks = identity.size;
    return lvn_ranks_open(ranks, s, NULL, lvn_settings_finish(s, LVN_USES_ALL));
}

struct listener {
    void (*on_step)(void *context, int64_t step, double loss, double val_loss);
    void *context;
};

static void handle(void *context, const struct lvn_event *e)
{
    const struct listener *l = context;
    double loss = lvn_event_value(e, "loss");
    if (e->kind == LVN_EVENT_STEP) l->on_step(l->context, e->step, loss, NAN);
    if (e->kind == LVN_EVENT_VALIDATION) l->on_step(l->context, e->step, loss, lvn_event_value(e, "val_loss"));
}

int lvn_train_model(struct lvn_settings *s, const struct lvn_own_model *m,
                    void (*on_step)(void *context, int64_t step, double loss, double val_loss), void *context)
{
    locale_t before = lvn_api_begin();
    struct lvn_api_model own;
    struct listener steps = {on_step, context};
    struct lvn_listener listener = {.handle = handle, .context = &steps};
    lvn_api_own_model(&own, m);
    struct lvn_train_options o = {.model = &own.model, .listeners = &listener, .n_listeners = on_step ? 1 : 0};
    enum lvn_status status = lvn_api_ranks(&o.ranks, s);
    if (status == LVN_OK) status = lvn_train(s, &o, NULL);
    lvn_ranks_close(o.ranks);
    return lvn_api_return(before, status);
}
