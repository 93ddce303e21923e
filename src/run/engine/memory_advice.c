/* memory_advice.c - see memory_advice.h.
 *
 * Each row of `changes` changes one setting in a copy, or finds that it does not apply. Changes of hardware (more
 * ranks) are only listed alone; the others are also combined, starting with those that do not change numerics. */
#include "engine/memory_advice.h"
#include "engine/strategy.h"

#include "graph/names.h"
#include "optimizers/optimizer.h"
#include "options/values.h"

enum { MAX_RANKS = 1024, ADAPTER_COLUMNS = 8 };
static const double MIN_GAIN = 0.02; /* of the run's memory */

/* A copy of the options to which changes are applied. */
struct variant {
    const struct lvn_train_programs *programs;
    struct lvn_values values;
    int ranks;
    char freeze[LVN_WORD_TEXT]; /* storage of values.model.freeze */
    char text[LVN_ADVICE_TEXT]; /* the changes so far, as text */
};

static void begin(struct variant *v, const struct lvn_train_programs *programs)
{
    *v = (struct variant){
        .programs = programs, .values = *programs->values, .ranks = programs->collectives.sharding.size};
    if (programs->model_state->device->backend->describe)
        v->values.trainer.accelerator = "trace"; /* planning opens no second device */
}

static void LVN_PRINTF(2, 3) name_change(struct variant *v, const char *format, ...)
{
    char one[LVN_ADVICE_TEXT];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(one, sizeof one, format, arguments);
    va_end(arguments);
    lvn_print_append(v->text, sizeof v->text, "%s%s", *v->text ? ", " : "", one);
}

/* --- changes: each returns false if the run uses it already or cannot use it --- */

static bool recompute_blocks(struct variant *v)
{
    if (v->programs->recompute == LVN_RECOMPUTE_BLOCKS || v->programs->step_session->graph->n_blocks < 2) return false;
    v->values.trainer.recompute = LVN_TRAINER_RECOMPUTE_BLOCKS;
    name_change(v, "trainer.recompute=blocks");
    return true;
}

static bool use_single_rows(struct variant *v)
{
    if (v->programs->micro_batch == 1) return false;
    v->values.trainer.micro_batch_size = 1;
    name_change(v, "trainer.micro_batch_size=1");
    return true;
}

static bool round_state(struct variant *v)
{
    if (v->values.optimizer.state == LVN_OPTIMIZER_STATE_BF16) return false;
    if (!lvn_optimizer_in_bf16(lvn_optimizer_find(v->values.optimizer.kind))) return false;
    v->values.optimizer.state = LVN_OPTIMIZER_STATE_BF16;
    name_change(v, "optimizer.state=bf16");
    return true;
}

static bool round_weights(struct variant *v)
{
    if (v->values.trainer.precision == LVN_TRAINER_PRECISION_BF16_TRUE) return false;
    v->values.trainer.precision = LVN_TRAINER_PRECISION_BF16_TRUE;
    name_change(v, "trainer.precision=bf16-true");
    return true;
}

/* The word before a block's number in names of parameters: "layers" in "gpt_neox.layers.0.mlp". */
static bool find_blocks_word(const struct lvn_params *p, char word[LVN_WORD_TEXT])
{
    for (int i = 0; i < p->n; i++) {
        if (p->list[i]->block < 0) continue;
        const char *start = p->list[i]->name;
        for (const char *dot = strchr(start, '.'); dot; start = dot + 1, dot = strchr(start, '.'))
            if (dot[1] >= '0' && dot[1] <= '9') return lvn_fit(word, LVN_WORD_TEXT, "%.*s", (int)(dot - start), start);
    }
    return false;
}

static bool freeze_blocks(struct variant *v)
{
    if (*v->values.model.freeze || v->values.lora.rank ||
        !find_blocks_word(v->programs->model_state->params, v->freeze))
        return false;
    v->values.model.freeze = v->freeze;
    name_change(v, "model.freeze=%s (all blocks)", v->freeze);
    return true;
}

static bool train_adapters(struct variant *v)
{
    if (v->values.lora.rank || *v->values.model.freeze || !v->programs->model_state->config.model->linear_layers)
        return false;
    v->values.lora.rank = ADAPTER_COLUMNS;
    name_change(v, "lora.rank=%d%s", ADAPTER_COLUMNS,
                *v->values.model.init ? "" : " (with a trained model, model.init)");
    return true;
}

static const struct {
    bool (*apply)(struct variant *v);
    bool joins; /* is combined with others */
} changes[] = {
    {recompute_blocks, true}, {use_single_rows, true}, {round_state, true},
    {round_weights, true},    {freeze_blocks, false},  {train_adapters, true},
};
enum { CHANGES = sizeof changes / sizeof *changes };

/* Shard the model over this many ranks. If the recipe gives the batch per device, the batch grows with them. */
static bool divide_model(struct variant *v, int ranks)
{
    int64_t batch = v->values.trainer.batch_size;
    if (v->values.trainer.batch_size_per_device) batch = batch / v->ranks * ranks;
    if (batch < ranks || v->values.trainer.micro_batch_size * ranks > batch) return false;
    v->values.trainer.batch_size = batch;
    v->ranks = ranks;
    name_change(v, "trainer.strategy=%s on %d ranks", lvn_strategy_smallest(&v->values, &v->values.trainer.strategy),
                ranks);
    return true;
}

/* --- figures --- */

/* Bytes of the buffers of a rank, without the sessions of callbacks and validation; 0: the variant cannot be planned.
 */
static int64_t variant_bytes(const struct variant *v)
{
    const struct lvn_train_programs *programs = v->programs;
    const struct lvn_device *d = programs->model_state->device;
    const struct lvn_model_config *model = &programs->model_state->config;
    struct lvn_train_programs plan = {0};
    struct lvn_train_programs_options o = {.size = v->ranks,
                                           .local_size = programs->ranks ? programs->ranks->local_size
                                                                         : programs->model_state->processes,
                                           .machine_bytes = programs->model_state->machine_bytes,
                                           .fields = &programs->fields,
                                           .task = programs->step_session->options.task,
                                           .min_micro_batches = d->backend->describe ? programs->min_micro_batches : 0};
    enum lvn_status status = lvn_train_programs_plan(&plan, &v->values, model, &o);
    int64_t bytes = status == LVN_OK ? lvn_model_state_bytes(plan.model_state) : 0;
    lvn_train_programs_release(&plan);
    if (status != LVN_OK) lvn_error_clear();
    return bytes;
}

struct finding {
    struct lvn_memory_advice *out;
    int64_t base; /* bytes of the unchanged run, counted like those of a variant */
    int64_t needed, available;
};

/* Add the variant to the list. False: it saves too little. */
static bool try_variant(struct finding *f, const struct variant *v)
{
    int64_t planned = variant_bytes(v), bytes = f->needed + planned - f->base;
    if (planned <= 0 || f->base - planned < MIN_GAIN * (double)f->needed || f->out->n == LVN_ADVICE) return false;
    struct lvn_advice *a = &f->out->list[f->out->n++];
    *a = (struct lvn_advice){.bytes = bytes, .fits = f->available <= 0 || bytes <= f->available};
    memcpy(a->settings, v->text, sizeof a->settings);
    return true;
}

/* Find the fewest ranks with which it fits, or the most that still help. */
static void try_ranks(struct finding *f, const struct lvn_train_programs *programs)
{
    struct lvn_advice *last = NULL;
    int64_t so_far = f->needed;
    for (int ranks = 2; ranks <= MAX_RANKS && !(last && last->fits); ranks *= 2) {
        struct variant v;
        begin(&v, programs);
        if (ranks <= v.ranks) continue;
        if (!divide_model(&v, ranks) || !try_variant(f, &v)) break;
        struct lvn_advice *one = &f->out->list[f->out->n - 1];
        bool helps = (double)(so_far - one->bytes) >= MIN_GAIN * (double)f->needed;
        so_far = one->bytes;
        if (last) {
            if (helps) *last = *one;
            f->out->n--;
        } else {
            last = one;
        }
        if (!helps) break;
    }
}

static bool any_fits(const struct lvn_memory_advice *a)
{
    bool fits = false;
    for (int i = 0; i < a->n; i++) fits |= a->list[i].fits;
    return fits;
}

/* Combine changes one after the other until the run fits; the last combination becomes the advice. */
static void try_combined(struct finding *f, const struct lvn_train_programs *programs)
{
    const int first = f->out->n;
    struct variant v;
    begin(&v, programs);
    for (int i = 0, n = 0; i < CHANGES && !any_fits(f->out); i++) {
        if (!changes[i].joins || !changes[i].apply(&v) || ++n < 2) continue;
        f->out->n = first;
        try_variant(f, &v);
    }
}

void lvn_memory_advice_find(struct lvn_memory_advice *out, const struct lvn_train_programs *programs, int64_t needed,
                            int64_t available)
{
    struct finding f = {.out = out, .needed = needed, .available = available};
    struct variant v;
    *out = (struct lvn_memory_advice){0};
    lvn_error_save();
    begin(&v, programs);
    f.base = variant_bytes(&v);
    for (int i = 0; i < CHANGES && f.base > 0; i++) {
        begin(&v, programs);
        if (changes[i].apply(&v)) try_variant(&f, &v);
    }
    if (f.base > 0) try_ranks(&f, programs);
    if (f.base > 0 && !any_fits(out)) try_combined(&f, programs);
    lvn_error_restore();
}

/* The advice as the end of a sentence: "trainer.recompute=blocks needs 12 GiB and fits; ...". */
static void add_text(const struct lvn_memory_advice *a, struct lvn_text *text)
{
    char bytes[LVN_NUMBER_TEXT];
    for (int i = 0; i < a->n; i++)
        lvn_text_printf(text, "%s%s needs %s%s", i ? "; " : "", a->list[i].settings,
                        lvn_bytes_text(a->list[i].bytes, bytes), a->list[i].fits ? " and fits" : "");
    if (!a->n || !any_fits(a))
        lvn_text_printf(text, "%schoose a smaller model or model.block_size", a->n ? "; else " : "");
}

enum lvn_status lvn_train_programs_allocate(const struct lvn_train_programs *programs)
{
    struct lvn_memory_advice advice;
    LVN_LOCAL_TEXT(text);
    if (lvn_model_state_fits(programs->model_state)) return lvn_model_state_allocate(programs->model_state);
    lvn_memory_advice_find(&advice, programs,
                           lvn_model_state_bytes(programs->model_state) -
                               lvn_model_state_allocated_bytes(programs->model_state),
                           lvn_model_state_available(programs->model_state));
    add_text(&advice, &text);
    const char *words = lvn_text_string(&text);
    return words ? lvn_model_state_refuse(programs->model_state, words) : LVN_MEMORY;
}
