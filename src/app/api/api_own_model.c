/* api_own_model.c - a program's own model as a family of models, and its training in one call.
 *
 * api_run.c uses the same model where the program makes the steps itself. */

#include "api/api.h"

/* The keys of a program's model: its sizes. */
#define SIZE(field)                                                                                                    \
    LVN_KEY_INT_OF(struct levin_sizes, field), .recipe = #field, .json = #field, .min = 1, .max = 1 << 30
static const struct lvn_key keys[] = {
    {SIZE(n_layer), .role = LVN_ROLE_LAYERS},
    {SIZE(n_head), .role = LVN_ROLE_HEADS},
    {SIZE(n_embd)},
    {SIZE(block_size), .role = LVN_ROLE_POSITIONS},
    {SIZE(vocab_size), .role = LVN_ROLE_VOCABULARY, .by_data = true},
    {LVN_KEY_REAL_OF(struct levin_sizes, dropout), .recipe = "dropout", .json = "dropout", .max = 0.999},
    {.kind = LVN_KEY_END},
};

static struct levin_tensor *build(struct levin_graph *g, const struct lvn_model_config *c,
                                  struct levin_tensor *const *inputs)
{
    const struct lvn_api_model *model = (const struct lvn_api_model *)c->model;
    const char *before = lvn_api_call_back("logits");
    struct levin_sizes sizes;
    memcpy(&sizes, c->fields, sizeof sizes);
    sizes.size = (int64_t)sizeof sizes;
    struct levin_tensor *logits = model->source.logits(g, &sizes, inputs[0], model->source.context);
    lvn_api_call_back(before);
    if (!logits && g->status == LVN_OK)
        return lvn_graph_fail(g, lvn_fail(LVN_ARG, "levin_own_model.logits returned NULL: return the logits"));
    return logits;
}

enum lvn_status lvn_api_own_model(struct lvn_api_model *out, const struct levin_own_model *source)
{
    LVN_TRY(LVN_API_READ(&out->source, source, context, levin_own_model));
    LVN_CHECK(out->source.name && out->source.logits, ARG, "levin_own_model.%s is NULL; set it",
              out->source.name ? "logits" : "name");
    const char *name = out->source.name;
    LVN_CHECK(*name && lvn_utf8_check(name, (int64_t)strlen(name)) < 0, ARG,
              "levin_own_model.name is '%s': give a text in UTF-8", name);
    LVN_CHECK(!lvn_model_find(name), ARG,
              "levin_own_model.name is '%s', a family of levin, as which its checkpoints would be read: give another "
              "name",
              name);
    out->model = (struct lvn_model){.name = out->source.name,
                                    .keys = keys,
                                    .inputs = lvn_language_inputs,
                                    .tasks = lvn_language_tasks,
                                    .generates = true,
                                    .build = build};
    return LVN_OK;
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

int levin_train_model(struct levin_settings *s, const struct levin_own_model *m,
                      void (*on_step)(void *context, int64_t step, double loss, double val_loss), void *context)
{
    locale_t before = lvn_api_begin();
    struct lvn_api_model own;
    struct lvn_api_handle run;
    enum lvn_status status = lvn_api_add(&run, "run", *s->values.run_dir ? s->values.run_dir : s->values.name);
    if (status != LVN_OK) return lvn_api_return(before, status);
    struct listener steps = {on_step, context};
    struct lvn_listener listener = {.handle = handle, .context = &steps};
    struct lvn_train_options o = {.model = &own.model, .listeners = &listener, .n_listeners = on_step ? 1 : 0};
    status = lvn_api_own_model(&own, m);
    if (status == LVN_OK) status = lvn_api_ranks(&o.ranks, s, LVN_USES_ALL);
    if (status == LVN_OK) status = lvn_train(s, &o, NULL);
    lvn_ranks_close(o.ranks);
    lvn_api_remove(&run);
    return lvn_api_return(before, status);
}
