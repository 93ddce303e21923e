/* plan_time.c - estimates how long a step takes on this machine before anything runs; called by plan.c and
 * plan_compute.c.
 *
 * The time of an instruction is its arithmetic at the rate of matrix multiplications plus its operands at the rate of
 * reading memory; where one of the two is large, the other is small. The rates are measured once for each processor,
 * instruction set and number of threads, in a second, and cached; --measure measures them again. If other programs took
 * much of the CPUs meanwhile, a plan ten minutes later measures again too, and the higher rates are kept. The estimate
 * is a lower bound, close if matrix multiplications are large; with small ones, as of models with a few hundred
 * columns, steps take up to twice as long. */
#include <time.h>

#include "base/files.h"
#include "base/random.h"
#include "cli/humanize.h"
#include "cli/plan/plan.h"
#include "formats/json.h"
#include "host/isa.h"
#include "host/machine.h"
#include "stores/cache.h"

static const char *const names[LVN_N_RATES] = {[LVN_RATE_PRODUCTS] = "flops_per_s",
                                               [LVN_RATE_PRODUCTS_BF16] = "bf16_flops_per_s",
                                               [LVN_RATE_READING] = "bytes_per_s"};

/* --- the rates --- */

/* The cache key: all that the rates depend on. */
static const char *cache_key(struct lvn_arena *a, const struct lvn_device *d)
{
    struct lvn_machine m;
    lvn_machine_read(&m);
    return lvn_arena_printf(a, "%s, %s, %s, %d threads, levin %s", m.cpu, d->backend->name,
                            lvn_isa_name(lvn_isa_best()), d->threads, LVN_VERSION);
}

static bool read_cached(const char *path, const char *key, struct lvn_rates *r)
{
    json_t *root = NULL;
    char *text = NULL;
    int64_t bytes;
    bool good = lvn_path_is_file(path) && lvn_file_read(path, 4096, &text, &bytes) == LVN_OK &&
                lvn_json_parse(path, text, bytes, &root) == LVN_OK;
    const char *cached_key = good ? json_string_value(json_object_get(root, "machine")) : NULL;
    good = cached_key && !strcmp(cached_key, key);
    for (int i = 0; i < LVN_N_RATES && good; i++) {
        r->per_s[i] = json_number_value(json_object_get(root, names[i]));
        good = r->per_s[i] > 0;
    }
    r->others = json_number_value(json_object_get(root, "others"));
    r->at = (int64_t)json_number_value(json_object_get(root, "at"));
    lvn_error_clear(); /* a damaged file counts as missing */
    json_decref(root);
    free(text);
    return good;
}

static enum lvn_status write_cached(const char *path, const char *key, const struct lvn_rates *r)
{
    long begun = lvn_json_begin();
    json_t *root = json_pack("{s:s, s:f, s:I}", "machine", key, "others", r->others, "at", (json_int_t)r->at);
    for (int i = 0; i < LVN_N_RATES; i++) json_object_set_new(root, names[i], json_real(r->per_s[i]));
    char *text;
    enum lvn_status status = lvn_json_dump(begun, root, JSON_INDENT(2), &text);
    json_decref(root);
    if (status == LVN_OK) status = lvn_file_write(path, text, (int64_t)strlen(text));
    free(text);
    return status;
}

/* Share of the CPUs that others may take in a measurement that counts as one of an idle machine. */
static const double busy_share = 0.1;
static const int64_t BUSY_SECONDS = 600; /* for which other measurements are kept */

static bool is_stale(const struct lvn_rates *r)
{
    const int64_t now = (int64_t)time(NULL); /* r->at, from a file, may be any number */
    return r->others > busy_share && (r->at > now || r->at < now - BUSY_SECONDS);
}

/* Measure; a rate is at least what `before` has. */
static enum lvn_status measure(struct lvn_device *d, const struct lvn_rates *before, struct lvn_rates *r)
{
    const struct lvn_machine_load from = lvn_machine_load_read();
    *r = (struct lvn_rates){0};
    for (int i = 0; i < LVN_N_RATES; i++) {
        LVN_TRY(lvn_device_rate(d, (enum lvn_rate)i, &r->per_s[i]));
        if (r->per_s[i] < before->per_s[i]) r->per_s[i] = before->per_s[i];
    }
    const struct lvn_machine_load to = lvn_machine_load_read();
    r->others = lvn_machine_share_of_others(&from, &to);
    r->at = (int64_t)time(NULL);
    return LVN_OK;
}

/* refresh: measure them even if they are cached. */
static enum lvn_status find_rates(struct lvn_device *d, bool refresh, struct lvn_rates *r)
{
    LVN_LOCAL_ARENA(a);
    const char *folder, *path = NULL, *key = cache_key(&a, d);
    if (!key) return LVN_MEMORY;
    if (lvn_cache_folder(&a, "rates", &folder) == LVN_OK)
        path = lvn_arena_printf(&a, "%s/%016llx.json", folder, (unsigned long long)lvn_name_hash(key));
    lvn_error_clear(); /* without a cache rates are measured each time */
    struct lvn_rates before = {0};
    const bool found = !refresh && path && read_cached(path, key, &before);
    if (found && !is_stale(&before)) {
        *r = before;
        r->cached = true;
        return LVN_OK;
    }
    LVN_TRY(measure(d, found ? &before : &(struct lvn_rates){0}, r));
    if (path && write_cached(path, key, r) != LVN_OK) {
        lvn_log(LVN_LOG_WARN, "the measured rates are not saved: %s", levin_error_text());
        lvn_error_clear();
    }
    return LVN_OK;
}

enum lvn_status lvn_plan_rates(struct lvn_cli *c, struct lvn_device *d, struct lvn_rates *r)
{
    *r = (struct lvn_rates){0};
    LVN_TRY_WHILE(find_rates(d, lvn_cli_on(c, LVN_FLAG_plan_measure), r),
                  "measuring what this machine does in a second");
    return LVN_OK;
}

/* --- the step --- */

static double instr_seconds(const struct lvn_instr *i, const struct lvn_rates *r)
{
    /* Convolutions of mixed precision compute in fp32; the update orthogonalizes fp32 matrices in bf16. */
    const bool bf16 = i->matmul_dtype != LVN_F32 && (i->op->low_precision_ok || i->when == LVN_AFTER_BACKWARD);
    return lvn_instr_flops(i) / r->per_s[bf16 ? LVN_RATE_PRODUCTS_BF16 : LVN_RATE_PRODUCTS] +
           (double)lvn_instr_bytes(i) / r->per_s[LVN_RATE_READING];
}

void lvn_plan_parts(const struct lvn_train_programs *programs, const struct lvn_rates *r, struct lvn_parts *parts)
{
    const struct lvn_program *p = programs->step_session->program;
    *parts = (struct lvn_parts){.accumulation = programs->accumulation};
    for (int n = 0; n < p->n_instrs; n++) {
        const struct lvn_instr *i = &p->instrs[n];
        if (i->op->collective) continue;
        double seconds = instr_seconds(i, r);
        if (i->when == LVN_AFTER_BACKWARD)
            parts->update += seconds;
        else if (i->when != LVN_EVERY_MICRO_BATCH)
            parts->backward += seconds / (double)programs->accumulation; /* once a step */
        else if (i->phase == LVN_FORWARD && !i->recomputed)
            parts->forward += seconds;
        else
            parts->backward += seconds;
    }
}

enum lvn_status lvn_plan_time(struct lvn_cli *c, const struct lvn_train_programs *programs, int64_t steps)
{
    struct lvn_device *d = programs->model_state->device;
    struct lvn_rates r;
    struct lvn_parts parts;
    char all_text[LVN_NUMBER_TEXT], rate_text[LVN_NUMBER_TEXT];
    if (!d->backend->rate) return LVN_OK;
    LVN_TRY(lvn_plan_rates(c, d, &r));
    lvn_plan_parts(programs, &r, &parts);
    double step = (parts.forward + parts.backward) * (double)programs->accumulation + parts.update,
           units = (double)(c->settings.values.trainer.batch_size * programs->block_size) * programs->fill;
    lvn_cli_print(c, "time: %.3g s a step at best, %s %s/s%s%s\n", step,
                  lvn_count_text((int64_t)fmin(units / step, 1e18), rate_text),
                  lvn_task_unit(programs->step_session->options.task), steps ? "; all steps " : "",
                  steps ? lvn_seconds_text(step * (double)steps, all_text) : "");
    lvn_cli_print(c, "  at %.4g GFLOP/s of matrix multiplications (%.4g in bf16), %.3g GB/s of memory,\n  %s\n",
                  r.per_s[LVN_RATE_PRODUCTS] * 1e-9, r.per_s[LVN_RATE_PRODUCTS_BF16] * 1e-9,
                  r.per_s[LVN_RATE_READING] * 1e-9,
                  r.cached                 ? "measured before (--measure measures them again)"
                  : r.others <= busy_share ? "measured now and saved"
                                           : "measured now, and again in ten minutes: other programs are running");
    json_t *o = json_pack("{s:f, s:f, s:b}", "step_s", step, "tokens_per_s", units / step, "kept", r.cached);
    for (int i = 0; i < LVN_N_RATES; i++) json_object_set_new(o, names[i], json_real(r.per_s[i]));
    lvn_cli_add(c, "time", o);
    return LVN_OK;
}
