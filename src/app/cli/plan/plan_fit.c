/* plan_fit.c - levin plan --fit: the settings with which a run fits the memory of a rank. Called by plan.c, which then
 * plans with them.
 *
 * It searches strategy, fsdp group size, recomputation and micro-batch, unless they are given. Memory grows with the
 * micro-batch and time does not. So for each strategy and each kind of recomputation the largest micro-batch that fits
 * is a candidate, and stronger recomputation is tried only if all rows of a rank do not fit as one micro-batch. Each
 * candidate is planned as training would plan it, so its memory is exact. Its time is computed from the rates of this
 * machine, and nothing runs. So differences of one percent are not significant, and of such candidates the one with the
 * fewest features is chosen. */

#include "base/text.h"
#include "cli/humanize.h"
#include "cli/plan/plan.h"
#include "engine/strategy.h"

enum {
    CANDIDATES = 64, /* strategies and groups of MAX_RANKS, times kinds of recomputation, at most */
    SIZES = 1344,    /* no whole number up to 1e9 has more divisors */
    MAX_RANKS = 1 << 16
};
static const double SAME_TIME = 1.01; /* relative to the fastest */
static const double MIN_GAIN = 0.02;  /* of memory, by doubling the number of ranks */

static const char *const recomputes[] = {
#define LVN_X(name, word) word,
    LVN_CHOICES_trainer_recompute(LVN_X)
#undef LVN_X
};
enum { RECOMPUTES = sizeof recomputes / sizeof *recomputes }; /* the first is auto, each later one saves more */

struct candidate {
    const char *strategy; /* NULL: one rank */
    int group;            /* trainer.fsdp_size */
    const char *recompute;
    int64_t micro; /* batch */
    int64_t bytes; /* that a rank needs */
    double seconds;
    bool fits;
    const char *refused; /* why it cannot be planned; NULL: it can be */
};

struct search {
    struct lvn_cli *c;
    const struct lvn_model_config *model;
    const struct lvn_train_programs_options *options;
    bool keeps_strategy, keeps_micro, keeps_recompute; /* as given */
    int group;                                         /* trainer.fsdp_size as given; 0: it is searched */
    const char *kept;                                  /* these, as text; NULL: none */
    int64_t available;                                 /* bytes for a rank; 0: not known yet */
    int64_t base;                                      /* bytes of this process without the first plan; 0: not known */
    bool timed;                                        /* this machine has rates */
    struct lvn_rates rates;
    int64_t size[SIZES]; /* [n_sizes] candidate sizes of the micro-batch, from the smallest */
    int n_sizes;
    struct candidate list[CANDIDATES];
    int n;
};

enum lvn_status lvn_plan_fit_check(const struct lvn_cli *c)
{
    const struct lvn_backend *b = lvn_backend_find(c->settings.values.trainer.accelerator);
    const bool device = *c->flag[LVN_FLAG_plan_device].t;
    LVN_CHECK(!lvn_cli_on(c, LVN_FLAG_plan_schedule), ARG,
              "--schedule prints learning rates and plans no memory, so --fit finds nothing there: leave one of them "
              "out");
    LVN_CHECK(!lvn_cli_on(c, LVN_FLAG_plan_measure), ARG,
              "--fit compares settings by the rates of this machine, and --measure runs one of them: leave --measure "
              "out, then plan with it and the keys that --fit prints");
    LVN_CHECK(!device || !c->given[LVN_FLAG_plan_memory], ARG,
              "--device and --memory both set the memory that --fit may use: leave one of them out");
    LVN_CHECK(
        device || b->computes, ARG,
        "--fit needs to know the memory of a rank, and trainer.accelerator %s has none: name a device by --device, "
        "or set trainer.accelerator to cpu",
        b->name);
    return LVN_OK;
}

/* --- one candidate --- */

static enum lvn_status set_keys(struct search *s, const struct candidate *k)
{
    struct levin_settings *to = &s->c->settings;
    char number[LVN_NUMBER_TEXT], group[LVN_NUMBER_TEXT];
    snprintf(number, sizeof number, "%" PRId64, k->micro);
    snprintf(group, sizeof group, "%d", k->group);
    if (k->strategy) LVN_TRY(lvn_settings_set(to, "trainer.strategy", k->strategy, LVN_SOURCE_PROGRAM));
    if (k->strategy && !s->group) LVN_TRY(lvn_settings_set(to, "trainer.fsdp_size", group, LVN_SOURCE_PROGRAM));
    LVN_TRY(lvn_settings_set(to, "trainer.recompute", k->recompute, LVN_SOURCE_PROGRAM));
    return lvn_settings_set(to, "trainer.micro_batch_size", number, LVN_SOURCE_PROGRAM);
}

/* "--trainer.strategy=fsdp --trainer.fsdp_size=8 --trainer.micro_batch_size=4 --trainer.recompute=blocks" */
static const char *keys_text(struct search *s, const struct candidate *k)
{
    char group[64] = "";
    if (k->group) snprintf(group, sizeof group, "--trainer.fsdp_size=%d ", k->group);
    return lvn_arena_printf(&s->c->settings.arena,
                            "%s%s%s%s--trainer.micro_batch_size=%" PRId64 " --trainer.recompute=%s",
                            k->strategy ? "--trainer.strategy=" : "", k->strategy ? k->strategy : "",
                            k->strategy ? " " : "", group, k->micro, k->recompute);
}

static enum lvn_status compare_memory(struct search *s, const struct lvn_train_programs *programs, struct candidate *k)
{
    const struct lvn_model_state *n = programs->model_state;
    int64_t available;
    if (*s->c->flag[LVN_FLAG_plan_device].t) {
        LVN_TRY(lvn_plan_device_memory(s->c, programs, &k->bytes, &available));
    } else {
        if (!s->base) s->base = lvn_plan_base_bytes(programs);
        k->bytes = n->device->memory_bytes ? lvn_model_state_bytes(n) : lvn_plan_process_bytes(programs, s->base);
        available = lvn_model_state_available(n);
    }
    /* All candidates are compared with the same value, even if other programs allocate or free memory meanwhile. */
    if (!s->available) s->available = available;
    k->fits = k->bytes <= s->available;
    return LVN_OK;
}

/* Seconds of a step; without rates of the device, the FLOPs of a step, by which candidates are then compared. */
static enum lvn_status time_step(struct search *s, const struct lvn_train_programs *programs, double *seconds)
{
    struct lvn_device *d = programs->model_state->device;
    struct lvn_parts parts;
    if (!d->backend->rate) {
        *seconds = lvn_program_flops(programs->step_session->program, programs->accumulation);
        return LVN_OK;
    }
    if (!s->timed) LVN_TRY(lvn_plan_rates(s->c, d, &s->rates));
    s->timed = true;
    lvn_plan_parts(programs, &s->rates, &parts);
    *seconds = (parts.forward + parts.backward) * (double)programs->accumulation + parts.update;
    if (s->c->flag[LVN_FLAG_plan_ranks].i) *seconds = lvn_plan_ranks_seconds(s->c, programs, &s->rates);
    return LVN_OK;
}

/* Plan the candidate on `ranks` ranks, and set its memory and time. */
static enum lvn_status plan(struct search *s, struct candidate *k, int ranks)
{
    struct lvn_train_programs programs = {0};
    struct lvn_train_programs_options o = *s->options;
    o.size = ranks;
    LVN_TRY(set_keys(s, k));
    enum lvn_status status = lvn_train_programs_plan(&programs, &s->c->settings.values, s->model, &o);
    const bool refused = status == LVN_ARG || status == LVN_UNSUPPORTED;
    if (refused) k->refused = lvn_arena_printf(&s->c->settings.arena, "%s", levin_error_text());
    if (status == LVN_OK) status = compare_memory(s, &programs, k);
    if (status == LVN_OK && k->fits) status = time_step(s, &programs, &k->seconds);
    lvn_train_programs_release(&programs);
    if (!refused) return status;
    lvn_error_clear();
    return k->refused ? LVN_OK : LVN_MEMORY;
}

/* --- the search --- */

/* Add candidate k to the list, with the largest micro-batch that fits, or if none fits, the smallest. *last: stronger
 * recomputation gains nothing, because all rows of a rank fit as one micro-batch, or the strategy is refused. */
static enum lvn_status add_candidate(struct search *s, struct candidate k, bool *last)
{
    LVN_CHECK(s->n < CANDIDATES, INTERNAL, "--fit has room for %d candidates", CANDIDATES);
    struct candidate *best = &s->list[s->n++];
    k.micro = s->size[0];
    LVN_TRY(plan(s, &k, s->options->size));
    *best = k;
    int low = 0, high = s->n_sizes; /* the first fits, the second does not */
    for (int i = high - 1; best->fits && high - low > 1; i = (low + high) / 2) {
        k.micro = s->size[i];
        LVN_TRY(plan(s, &k, s->options->size));
        if (k.fits && !k.refused) {
            low = i;
            *best = k;
        } else {
            high = i;
            k.refused = NULL;
        }
    }
    *last = best->refused || (best->fits && low == s->n_sizes - 1);
    return LVN_OK;
}

/* The same candidate with groups of the ranks of 1, 2, 4, ... hosts, up to the group size with which its
 * micro-batch fits. Smaller groups do not send less to other hosts, because the reductions of all groups go there;
 * larger ones send more, and gain only memory. */
static enum lvn_status search_groups(struct search *s, struct candidate k)
{
    const int ranks = s->options->size, each = s->options->local_size;
    const int64_t max_micro = k.micro;
    int64_t micro = 0;
    bool last;
    for (int min = each > 1 ? each : 2; min < ranks && micro < max_micro; min = 2 * k.group) {
        k.group = min;
        while (k.group % each || ranks % k.group) k.group++;
        if (k.group == ranks) break;
        LVN_TRY(add_candidate(s, k, &last));
        const struct candidate *added = &s->list[s->n - 1];
        if (added->fits && added->micro > micro)
            micro = added->micro;
        else
            s->n--;
    }
    return LVN_OK;
}

static enum lvn_status search_strategy(struct search *s, const char *strategy)
{
    char text[LVN_VALUE_TEXT];
    const char *given = lvn_settings_value(&s->c->settings, LVN_OPT_trainer_recompute, text);
    const char *fsdp = lvn_option_by_id(LVN_OPT_trainer_strategy)->choices[LVN_TRAINER_STRATEGY_FSDP];
    const bool divides = strategy && !strcmp(strategy, fsdp);
    struct candidate k = {.strategy = strategy, .group = divides ? s->group : 0};
    const int first = s->n;
    bool last = false;
    for (int i = 1; i < RECOMPUTES && !last; i++) {
        if (s->keeps_recompute && strcmp(given, recomputes[i])) continue;
        k.recompute = recomputes[i];
        LVN_TRY(add_candidate(s, k, &last));
    }
    if (!divides || s->group || s->options->size % s->options->local_size) return LVN_OK;
    for (int i = first, end = s->n; i < end; i++)
        if (s->list[i].fits) LVN_TRY(search_groups(s, s->list[i]));
    return LVN_OK;
}

static enum lvn_status search_all(struct search *s)
{
    char text[LVN_VALUE_TEXT];
    const char *given = lvn_settings_value(&s->c->settings, LVN_OPT_trainer_strategy, text);
    if (s->options->size <= 1) return search_strategy(s, NULL);
    for (int i = 0; lvn_strategy_at(i); i++)
        if (!s->keeps_strategy || !strcmp(given, lvn_strategy_at(i))) LVN_TRY(search_strategy(s, lvn_strategy_at(i)));
    return LVN_OK;
}

/* List the sizes that give every rank the same number of micro-batches, or, if impossible, nearly the same. */
static void list_micro_batches(struct search *s)
{
    const int64_t batch = s->c->settings.values.trainer.batch_size, ranks = s->options->size > 1 ? s->options->size : 1;
    const bool equal = batch % ranks == 0;
    const int64_t of = equal ? batch / ranks : batch, max = equal ? of : batch / ranks;
    int64_t d = 1;
    s->size[s->n_sizes++] = s->keeps_micro ? s->c->settings.values.trainer.micro_batch_size : 1;
    if (s->keeps_micro) return;
    for (d = 2; d * d <= of && d <= max; d++)
        if (of % d == 0) s->size[s->n_sizes++] = d;
    for (d--; d > 0; d--)
        if (of % d == 0 && of / d <= max && of / d > s->size[s->n_sizes - 1]) s->size[s->n_sizes++] = of / d;
}

static void keep(struct search *s, enum lvn_option_id id)
{
    char value[LVN_VALUE_TEXT], origin[LVN_VALUE_TEXT];
    struct levin_settings *from = &s->c->settings;
    const char *so_far = s->kept ? s->kept : "";
    s->kept = lvn_arena_printf(&from->arena, "%s%s%s=%s (%s)", so_far, *so_far ? ", " : "", lvn_option_by_id(id)->key,
                               lvn_settings_value(from, id, value), lvn_settings_origin(from, id, origin));
}

/* Determine which keys are given. `auto` and 0 leave the choice open, and so does deterministic mode, in which the
 * micro-batch is derived from the batch. */
static enum lvn_status find_kept(struct search *s)
{
    const struct levin_settings *from = &s->c->settings;
    const bool derived = from->origin[LVN_OPT_trainer_micro_batch_size].source == LVN_SOURCE_DERIVED;
    s->keeps_strategy = from->values.trainer.strategy != LVN_TRAINER_STRATEGY_AUTO && s->options->size > 1;
    s->group = s->options->size > 1 ? (int)from->values.trainer.fsdp_size : 0;
    s->keeps_micro =
        from->values.trainer.micro_batch_size && (!derived || from->values.trainer.accumulate_grad_batches > 1);
    s->keeps_recompute = from->values.trainer.recompute != LVN_TRAINER_RECOMPUTE_AUTO;
    if (s->keeps_strategy) keep(s, LVN_OPT_trainer_strategy);
    if (s->group) keep(s, LVN_OPT_trainer_fsdp_size);
    if (s->keeps_micro) keep(s, LVN_OPT_trainer_micro_batch_size);
    if (s->keeps_recompute) keep(s, LVN_OPT_trainer_recompute);
    return s->kept || !(s->keeps_strategy || s->group || s->keeps_micro || s->keeps_recompute) ? LVN_OK : LVN_MEMORY;
}

/* The fastest that fits; NULL: none does. */
static const struct candidate *choose(const struct search *s)
{
    const struct candidate *best = NULL;
    for (int i = 0; i < s->n; i++)
        if (s->list[i].fits && (!best || s->list[i].seconds < best->seconds)) best = &s->list[i];
    for (int i = 0; i < s->n; i++)
        if (s->list[i].fits && s->list[i].seconds <= SAME_TIME * best->seconds) return &s->list[i];
    return NULL;
}

/* --- the report --- */

static void print_candidates(const struct search *s, const struct candidate *chosen)
{
    char bytes[LVN_NUMBER_TEXT], group[LVN_NUMBER_TEXT];
    struct lvn_cli *c = s->c;
    if (!s->available) return; /* all are refused */
    lvn_cli_print(c, "fit: %s of memory%s\n  %-9s %9s %-9s %11s %10s\n", lvn_bytes_text(s->available, bytes),
                  s->options->size > 1 ? " for each rank" : "", "strategy", "fsdp_size", "recompute", "micro-batch",
                  "needs");
    for (int i = 0; i < s->n; i++) {
        const struct candidate *k = &s->list[i];
        snprintf(group, sizeof group, "%d", k->group);
        lvn_cli_print(c, "  %-9s %9s %-9s %11" PRId64, k->strategy ? k->strategy : "-", k->group ? group : "-",
                      k->recompute, k->micro);
        if (k->refused)
            lvn_cli_print(c, "  refused: %s\n", k->refused);
        else if (!k->fits)
            lvn_cli_print(c, " %10s  does not fit\n", lvn_bytes_text(k->bytes, bytes));
        else if (s->timed)
            lvn_cli_print(c, " %10s  %.4g s a step%s\n", lvn_bytes_text(k->bytes, bytes), k->seconds,
                          k == chosen ? ", chosen" : "");
        else
            lvn_cli_print(c, " %10s  %.4g FLOPs a step%s\n", lvn_bytes_text(k->bytes, bytes), k->seconds,
                          k == chosen ? ", chosen" : "");
    }
    if (s->kept) lvn_cli_print(c, "kept as given: %s\n", s->kept);
}

static json_t *candidate_json(const struct search *s, const struct candidate *k)
{
    json_t *one =
        json_pack("{s:s?,s:i,s:s,s:I,s:b}", "trainer.strategy", k->strategy, "trainer.fsdp_size", k->group,
                  "trainer.recompute", k->recompute, "trainer.micro_batch_size", (json_int_t)k->micro, "fits", k->fits);
    json_object_set_new(one, "needed_bytes", k->refused ? json_null() : json_integer(k->bytes));
    json_object_set_new(one, "step_s", k->fits && s->timed ? json_real(k->seconds) : json_null());
    if (k->refused) json_object_set_new(one, "refused", json_string(k->refused));
    return one;
}

static void add_json(const struct search *s, const struct candidate *chosen, const char *keys)
{
    if (!s->c->json) return;
    json_t *fit = json_object(), *list = json_array();
    for (int i = 0; i < s->n; i++) json_array_append_new(list, candidate_json(s, &s->list[i]));
    json_object_set_new(fit, "available_bytes", json_integer(s->available));
    json_object_set_new(fit, "chosen", chosen ? candidate_json(s, chosen) : json_null());
    json_object_set_new(fit, "keys", keys ? json_string(keys) : json_null());
    json_object_set_new(fit, "kept", s->kept ? json_string(s->kept) : json_null());
    json_object_set_new(fit, "candidates", list);
    lvn_cli_add(s->c, "fit", fit);
}

/* The smallest multiple 2, 4, 8, ... of the ranks with which the candidate fits; *ranks 0: more ranks do not help. */
static enum lvn_status find_ranks(struct search *s, struct candidate *k, int *ranks)
{
    struct levin_settings *to = &s->c->settings;
    *ranks = 0;
    for (int n = s->options->size; n > 1 && n <= MAX_RANKS / 2 && !k->fits;) {
        const int64_t before = k->bytes;
        n *= 2;
        if (to->values.trainer.batch_size_per_device) to->values.trainer.batch_size *= 2;
        LVN_TRY(plan(s, k, n));
        if (k->refused) return LVN_OK;
        if (k->fits)
            *ranks = n;
        else if ((double)(before - k->bytes) < MIN_GAIN * (double)before)
            return LVN_OK;
    }
    return LVN_OK;
}

/* Fail with the candidate that needs the least memory, and with what would make it fit. */
static enum lvn_status refuse(struct search *s)
{
    const struct candidate *nearest = NULL;
    char needed[LVN_NUMBER_TEXT], available[LVN_NUMBER_TEXT], there[LVN_NUMBER_TEXT];
    LVN_LOCAL_TEXT(remedy);
    int ranks;
    for (int i = 0; i < s->n; i++)
        if (!s->list[i].refused && (!nearest || s->list[i].bytes < nearest->bytes)) nearest = &s->list[i];
    LVN_CHECK(nearest, ARG, "%s", s->list[0].refused);
    struct candidate more = *nearest;
    const char *keys = keys_text(s, nearest);
    LVN_TRY(find_ranks(s, &more, &ranks));
    if (ranks)
        lvn_text_printf(&remedy, "start %d ranks, each of which needs %s, or give each of %d that much", ranks,
                        lvn_bytes_text(more.bytes, there), s->options->size);
    else
        lvn_text_printf(&remedy, "%s give it that much, or use a smaller model or model.block_size",
                        s->options->size > 1 ? "more ranks alone do not help:" : "plan several ranks (--ranks),");
    if (s->kept) lvn_text_printf(&remedy, "; kept as given: %s, where auto or 0 lets --fit choose", s->kept);
    const char *words = lvn_text_string(&remedy);
    if (!keys || !words) return LVN_MEMORY;
    LVN_FAIL(MEMORY, "a rank may use %s of memory, and no settings fit; %s need the least, %s: %s",
             lvn_bytes_text(s->available, available), keys, lvn_bytes_text(nearest->bytes, needed), words);
}

enum lvn_status lvn_plan_fit(struct lvn_cli *c, const struct lvn_model_config *m,
                             const struct lvn_train_programs_options *o, int64_t *base)
{
    struct search s = {.c = c, .model = m, .options = o};
    LVN_TRY(find_kept(&s));
    list_micro_batches(&s);
    LVN_TRY(search_all(&s));
    *base = s.base;
    const struct candidate *chosen = choose(&s);
    const char *keys = chosen ? keys_text(&s, chosen) : NULL;
    if (chosen && !keys) return LVN_MEMORY;
    print_candidates(&s, chosen);
    add_json(&s, chosen, keys);
    if (!chosen) return refuse(&s);
    lvn_cli_print(c, "\n%s\n\n", keys);
    return set_keys(&s, chosen);
}
