/* c_api.c - the public functions of include/levin.h, over the engine.
 *
 * Programs that link levin call them. Each function that may read or write numbers runs in the locale "C", which the
 * threads that it starts inherit (lvn_thread_start()): in a program with a German locale, metrics still have decimal
 * points. */
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "levin.h"

#include "engine/ranks.h"
#include "inference/sampler.h"
#include "train/trainer_private.h"

static locale_t set_c_locale(void)
{
    return uselocale(newlocale(LC_ALL_MASK, "C", (locale_t)0)); /* "C" always exists, and takes no memory */
}

static int restore_locale(locale_t before, enum lvn_status status)
{
    uselocale(before);
    return (int)status;
}

struct lvn_settings *lvn_settings_new(void)
{
    locale_t before = set_c_locale();
    struct lvn_settings *s = lvn_calloc(1, sizeof *s);
    if (s && lvn_settings_init(s) != LVN_OK) {
        free(s);
        s = NULL;
    }
    restore_locale(before, LVN_OK);
    return s;
}

void lvn_settings_free(struct lvn_settings *s)
{
    if (s) lvn_settings_release(s);
    free(s);
}

int lvn_settings_put(struct lvn_settings *s, const char *key, const char *value)
{
    locale_t before = set_c_locale();
    return restore_locale(before, lvn_settings_set(s, key, value, LVN_SOURCE_PROGRAM));
}

int lvn_settings_recipe(struct lvn_settings *s, const char *path)
{
    locale_t before = set_c_locale();
    return restore_locale(before, lvn_settings_load(s, path));
}

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

/* A program's model as a struct lvn_model, which must be the first member. */
struct adapter {
    struct lvn_model model;
    const struct lvn_own_model *source;
    void (*on_step)(void *context, int64_t step, double loss, double val_loss);
    void *context;
};

static struct lvn_tensor *build(struct lvn_graph *g, const struct lvn_model_config *c, struct lvn_tensor *const *inputs)
{
    const struct adapter *a = (const struct adapter *)c->model;
    return a->source->logits(g, (const struct lvn_sizes *)(const void *)c->fields, inputs[0], a->source->context);
}

static void handle(void *context, const struct lvn_event *e)
{
    const struct adapter *a = context;
    double loss = lvn_event_value(e, "loss");
    if (e->kind == LVN_EVENT_STEP) a->on_step(a->context, e->step, loss, NAN);
    if (e->kind == LVN_EVENT_VALIDATION) a->on_step(a->context, e->step, loss, lvn_event_value(e, "val_loss"));
}

static struct adapter adapt(const struct lvn_own_model *m)
{
    return (struct adapter){.model = {.name = m->name,
                                      .keys = keys,
                                      .inputs = lvn_language_inputs,
                                      .tasks = lvn_language_tasks,
                                      .generates = true,
                                      .build = build},
                            .source = m};
}

/* Open the ranks that the environment describes. */
static enum lvn_status open_ranks(struct lvn_ranks **ranks, struct lvn_settings *s)
{
    struct lvn_identity identity;
    if (lvn_identity_find(&identity) == LVN_OK) s->ranks = identity.size;
    return lvn_ranks_open(ranks, s, NULL, lvn_settings_finish(s, LVN_USES_ALL));
}

int lvn_train_model(struct lvn_settings *s, const struct lvn_own_model *m,
                    void (*on_step)(void *context, int64_t step, double loss, double val_loss), void *context)
{
    locale_t before = set_c_locale();
    struct adapter a = adapt(m);
    a.on_step = on_step;
    a.context = context;
    struct lvn_listener listener = {.handle = handle, .context = &a};
    struct lvn_train_options o = {.model = &a.model, .listeners = &listener, .n_listeners = on_step ? 1 : 0};
    enum lvn_status status = open_ranks(&o.ranks, s);
    if (status == LVN_OK) status = lvn_train(s, &o, NULL);
    lvn_ranks_close(o.ranks);
    return restore_locale(before, status);
}

/* --- a run whose steps the program makes --- */

struct lvn_run {
    struct trainer trainer;
    struct lvn_train_options options;
    struct adapter adapter;
    const char *end_reason; /* reason of the end; NULL: it has not ended */
    enum lvn_status status; /* of the call that failed */
    char part[16];          /* split of the last evaluation, "test"; "": none. Its results: */
    const struct lvn_task_graph *task;
    double loss, value[LVN_TASK_METRICS];
};

/* A callback that generates on request: its sampler is planned with the training. */
struct generator {
    struct lvn_sampler *sampler; /* rank 0's; NULL: the model does not generate */
};

static enum lvn_status plan_generator(void *state, struct lvn_model_state *n, int64_t block_size, int rank)
{
    struct generator *o = state;
    if (rank || !n->config.model->generates) return LVN_OK;
    enum lvn_status status = lvn_sampler_new(&o->sampler, n, block_size, 1, block_size);
    if (status != LVN_UNSUPPORTED) return status;
    lvn_error_clear(); /* reported by lvn_run_generate() */
    return LVN_OK;
}

static void forget_generator(void *state)
{
    struct generator *o = state;
    lvn_sampler_free(o->sampler);
    o->sampler = NULL;
}

static const struct lvn_callback generator = {.name = "speaker",
                                              .bytes = sizeof(struct generator),
                                              .in_fast_dev_run = true,
                                              .plan = plan_generator,
                                              .forget = forget_generator};

_Static_assert((int)LVN_OPEN_NEW == (int)LVN_RUN_NEW && (int)LVN_OPEN_RESUME == (int)LVN_RUN_RESUME &&
                   (int)LVN_OPEN_OVERWRITE == (int)LVN_RUN_OVERWRITE,
               "the modes of levin.h are those of run_dir.h");

int lvn_run_open(struct lvn_run **out, struct lvn_settings *s, const struct lvn_own_model *m, enum lvn_open mode)
{
    locale_t before = set_c_locale();
    struct lvn_run *r = *out = lvn_calloc(1, sizeof *r);
    if (!r) return restore_locale(before, LVN_MEMORY);
    if (m) r->adapter = adapt(m);
    r->options = (struct lvn_train_options){
        .model = m ? &r->adapter.model : NULL, .mode = (enum lvn_run_mode)mode, .callback = &generator};
    r->status = open_ranks(&r->options.ranks, s);
    if (r->status == LVN_OK) {
        r->status = lvn_trainer_open(&r->trainer, s, &r->options);
        if (r->status != LVN_OK) r->status = lvn_trainer_close(&r->trainer, r->status, NULL);
    }
    if (r->status == LVN_OK && r->trainer.running.done) r->end_reason = "all of its steps were done before";
    if (r->status == LVN_OK) return restore_locale(before, LVN_OK);
    enum lvn_status status = r->status;
    lvn_ranks_close(r->options.ranks);
    free(r);
    *out = NULL;
    return restore_locale(before, status);
}

/* ARG if an earlier call of the run failed. */
static enum lvn_status check_whole(const struct lvn_run *r)
{
    LVN_CHECK(r->status == LVN_OK, ARG, "the run failed at step %lld: close it, and continue with LVN_OPEN_RESUME",
              (long long)r->trainer.running.step);
    return LVN_OK;
}

/* Store a failure of the run, and restore the locale. */
static int finish_call(struct lvn_run *r, locale_t before, enum lvn_status status)
{
    if (r->status == LVN_OK) r->status = status;
    return restore_locale(before, status);
}

int lvn_run_step(struct lvn_run *r, bool *over)
{
    locale_t before = set_c_locale();
    enum lvn_status status = check_whole(r);
    *over = true;
    if (status == LVN_OK && r->end_reason) status = lvn_fail(LVN_ARG, "the run is over: %s", r->end_reason);
    if (status != LVN_OK) return restore_locale(before, status);
    *r->part = '\0'; /* the last evaluation is of older weights */
    status = lvn_trainer_step(&r->trainer, &r->end_reason);
    *over = r->end_reason != NULL;
    return finish_call(r, before, status);
}

static enum lvn_status validate(struct lvn_run *r)
{
    LVN_CHECK(r->trainer.opened.validation.on, ARG,
              "this run does not validate: give it validation data and trainer.limit_val_batches "
              "above 0");
    return lvn_trainer_validate(&r->trainer);
}

int lvn_run_validate(struct lvn_run *r)
{
    locale_t before = set_c_locale();
    enum lvn_status status = check_whole(r);
    if (status == LVN_OK) *r->part = '\0'; /* val_loss is now that of this validation */
    return restore_locale(before, status == LVN_OK ? validate(r) : status);
}

static enum lvn_status score(struct lvn_run *r, struct lvn_model_setup *setup, struct lvn_validation *v, int part)
{
    struct trainer *t = &r->trainer;
    enum lvn_status opened = lvn_model_setup_evaluation(setup, t->settings, r->options.model, NULL);
    if (opened == LVN_OK)
        opened = lvn_validation_open_part(v, &t->opened.train_loader, setup->data, (enum lvn_split_id)part);
    if (opened == LVN_OK) opened = lvn_validation_allocate(v, &t->planned.programs);
    LVN_TRY(lvn_ranks_agree(t->ranks, opened));
    LVN_TRY(lvn_validation_run(v, &t->planned.programs, &r->loss));
    r->task = &t->planned.programs.eval_session->outputs;
    memcpy(r->value, v->value, sizeof r->value);
    snprintf(r->part, sizeof r->part, "%s", lvn_split_names[part]);
    return LVN_OK;
}

static enum lvn_status evaluate(struct lvn_run *r, const char *part)
{
    struct lvn_model_setup setup = {0};
    struct lvn_validation v = {0};
    int id = 0;
    while (id < LVN_SPLIT_ALL && strcmp(lvn_split_names[id], part) != 0) id++;
    LVN_CHECK(id < LVN_SPLIT_ALL, ARG, "'%s' is no part of data: train, val and test are", part);
    LVN_CHECK(r->trainer.planned.programs.eval_session, ARG,
              "a run that does not validate has no program to evaluate with: give it validation data and "
              "trainer.limit_val_batches above 0");
    enum lvn_status status = score(r, &setup, &v, id);
    lvn_validation_release(&v);
    lvn_model_setup_close(&setup);
    return status;
}

int lvn_run_evaluate(struct lvn_run *r, const char *part)
{
    locale_t before = set_c_locale();
    enum lvn_status status = check_whole(r);
    return restore_locale(before, status == LVN_OK ? evaluate(r, part) : status);
}

static enum lvn_status generate(struct lvn_run *r, const char *prompt, char **text)
{
    const struct lvn_callbacks *c = &r->trainer.callbacks;
    const struct generator *state = c->state[c->n - 1]; /* the program's is the last one */
    struct lvn_text made = {0};
    *text = NULL;
    LVN_CHECK(r->options.ranks->rank == 0, ARG, "text is generated on rank 0 alone, and this is rank %d",
              r->options.ranks->rank);
    LVN_CHECK(state->sampler, UNSUPPORTED,
              "a %s does not generate text: give a language model whose attention is cached",
              r->trainer.opened.setup.config.model->name);
    enum lvn_status status = lvn_sampler_text(state->sampler, r->trainer.settings, &r->trainer.context.codec, prompt,
                                              r->trainer.running.step, &made);
    if (status != LVN_OK) lvn_text_release(&made);
    *text = made.p;
    return status;
}

int lvn_run_generate(struct lvn_run *r, const char *prompt, char **text)
{
    locale_t before = set_c_locale();
    enum lvn_status status = check_whole(r);
    return restore_locale(before, status == LVN_OK ? generate(r, prompt, text) : status);
}

int lvn_run_save(struct lvn_run *r)
{
    locale_t before = set_c_locale();
    bool saved = true;
    enum lvn_status status = check_whole(r);
    if (status != LVN_OK) return restore_locale(before, status);
    status = lvn_trainer_save(&r->trainer, &saved);
    if (status == LVN_OK && !saved)
        return restore_locale(before, lvn_fail(LVN_IO,
                                               "step %lld could not be saved in '%s'; the "
                                               "checkpoints before it are whole",
                                               (long long)r->trainer.running.step, r->trainer.settings->run_dir));
    return finish_call(r, before, status);
}

int64_t lvn_run_steps(const struct lvn_run *r)
{
    return r->trainer.running.step;
}

double lvn_run_value(const struct lvn_run *r, const char *name)
{
    size_t n = strlen(r->part);
    if (!n || strncmp(name, r->part, n) != 0 || name[n] != '_') return lvn_event_value(&r->trainer.context.event, name);
    if (!strcmp(name + n + 1, "loss")) return r->loss;
    for (int i = 0; i < r->task->n_metrics; i++)
        if (!strcmp(name + n + 1, r->task->metrics[i]->name)) return r->value[i];
    return lvn_event_value(&r->trainer.context.event, name);
}

int lvn_run_close(struct lvn_run *r)
{
    if (!r) return 0;
    locale_t before = set_c_locale();
    enum lvn_status status = r->status;
    if (status == LVN_OK && !r->trainer.running.done)
        status = lvn_trainer_end(&r->trainer, r->end_reason ? r->end_reason : "closed by its program");
    status = lvn_trainer_close(&r->trainer, status, NULL);
    lvn_ranks_close(r->options.ranks);
    free(r);
    return restore_locale(before, status);
}
