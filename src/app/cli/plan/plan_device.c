/* plan_device.c - --device: does a planned run fit into the memory of a device that this machine does not have
 * (devices.def), and are there kernels for every instruction of a step? Called by plan.c.
 *
 * An upper bound adds to the plan: the rounded copies of parameters (round_parameters.c) if they fit; the scratch of
 * the device's kernels and of its matrix library, in addition to the scratch of the CPU's kernels; batches that are
 * written while a step runs; the reserve that a run leaves free; and the driver's own share, 3 % of the memory by rule
 * of thumb. */

#include "base/text.h"
#include "cli/plan/plan.h"
#include "engine/memory_advice.h"
#include "passes/pass.h"

static const struct lvn_plan_device devices[] = {
#define LVN_PLAN_DEVICE(...) {__VA_ARGS__},
#include "cli/plan/devices.def"
};

static const double DRIVER_LEAVES = 0.97; /* of a device's memory */

/* *max: the scratch of the instruction that needs most, bytes; *copies: rounded copies of parameters. False, with an
 * error recorded: an instruction has no kernel. */
static bool choose_kernels(const struct lvn_backend *b, const struct lvn_program *p, int64_t *max, int64_t *copies)
{
    LVN_LOCAL_ARENA(a);
    uint32_t *rounds = lvn_arena_alloc(&a, sizeof *rounds * (size_t)(p->n_instrs + 1));
    *max = *copies = 0;
    if (!rounds) return false;
    for (int n = 0; n < p->n_instrs; n++) {
        struct lvn_instr i = p->instrs[n];
        int64_t scratch = 0;
        i.rounds = 0;
        if (!i.op->collective && b->choose(NULL, &i, &scratch) != LVN_OK) return false;
        if (scratch > *max) *max = scratch;
        rounds[n] = i.rounds;
    }
    return lvn_program_rounded_bytes(p, rounds, copies) == LVN_OK;
}

json_t *lvn_plan_advice(const struct lvn_cli *c, const struct lvn_train_programs *programs, int64_t needed,
                        int64_t available)
{
    struct lvn_memory_advice advice;
    char bytes[LVN_NUMBER_TEXT];
    json_t *list = c->json ? json_array() : NULL;
    lvn_memory_advice_find(&advice, programs, needed, available);
    lvn_cli_print(c, advice.n ? "Each of these makes it smaller:\n" : "Choose a smaller model or model.block_size.\n");
    for (int i = 0; i < advice.n; i++) {
        const struct lvn_advice *a = &advice.list[i];
        lvn_cli_print(c, "  %-60s %10s%s\n", a->settings, lvn_bytes_text(a->bytes, bytes), a->fits ? ", fits" : "");
        if (list)
            json_array_append_new(list, json_pack("{s:s,s:I,s:b}", "settings", a->settings, "bytes",
                                                  (json_int_t)a->bytes, "fits", a->fits));
    }
    return list;
}

const struct lvn_plan_device *lvn_plan_device_named(const char *name)
{
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++)
        if (!strcmp(devices[i].name, name)) return &devices[i];
    return NULL;
}

/* The device of --device. */
static enum lvn_status find_device(const struct lvn_cli *c, const struct lvn_plan_device **out)
{
    const char *name = c->flag[LVN_FLAG_plan_device].t;
    *out = lvn_plan_device_named(name);
    LVN_CHECK(*out, ARG, "--device '%.60s' is not in the table: `levin help plan` has the names that are", name);
    return LVN_OK;
}

enum lvn_status lvn_plan_device_check(const struct lvn_cli *c)
{
    const struct lvn_plan_device *k;
    return *c->flag[LVN_FLAG_plan_device].t ? find_device(c, &k) : LVN_OK;
}

/* Bytes that the programs need there; scratch: of their kernels. */
static int64_t device_bytes(const struct lvn_plan_device *k, const struct lvn_train_programs *programs, int64_t scratch)
{
    const struct lvn_backend *backend = lvn_backend_find(k->backend);
    int64_t bytes = lvn_model_state_bytes(programs->model_state) + lvn_backend_reserve(backend, (int64_t)k->bytes);
    if (backend != programs->model_state->device->backend)
        bytes += scratch + lvn_model_state_async_bytes(programs->model_state, backend);
    return bytes;
}

enum lvn_status lvn_plan_device_memory(const struct lvn_cli *c, const struct lvn_train_programs *programs,
                                       int64_t *needed, int64_t *available)
{
    const struct lvn_plan_device *k;
    int64_t scratch, copies; /* copies are not counted: a run drops them if memory is short */
    LVN_TRY(find_device(c, &k));
    if (!choose_kernels(lvn_backend_find(k->backend), programs->step_session->program, &scratch, &copies))
        lvn_error_clear();
    *needed = device_bytes(k, programs, scratch);
    *available = (int64_t)(DRIVER_LEAVES * k->bytes);
    return LVN_OK;
}

enum lvn_status lvn_plan_device(struct lvn_cli *c, const struct lvn_train_programs *programs)
{
    const struct lvn_plan_device *k;
    char a[LVN_NUMBER_TEXT], b[LVN_NUMBER_TEXT];
    if (!*c->flag[LVN_FLAG_plan_device].t) return LVN_OK;
    LVN_TRY(find_device(c, &k));
    const struct lvn_backend *backend = lvn_backend_find(k->backend);
    int64_t scratch, copies;
    bool kernels = choose_kernels(backend, programs->step_session->program, &scratch, &copies);
    int64_t needed = device_bytes(k, programs, scratch);
    if ((double)(needed + copies) > DRIVER_LEAVES * k->bytes) copies = 0; /* a run drops them first */
    needed += copies;
    bool fits = (double)needed <= DRIVER_LEAVES * k->bytes;
    lvn_cli_print(c, "%s: %s of %s are used: %s\n", k->title, lvn_bytes_text(needed, a),
                  lvn_bytes_text((int64_t)k->bytes, b), fits ? "it fits." : "it does NOT fit.");
    json_t *advice = fits ? NULL : lvn_plan_advice(c, programs, needed, (int64_t)(DRIVER_LEAVES * k->bytes));
    if (!kernels) lvn_cli_print(c, "It cannot run there: %s.\n", levin_error_text());
    lvn_error_clear();
    json_t *one = c->json ? json_object() : NULL;
    if (!one) return LVN_OK;
    if (advice) json_object_set_new(one, "advice", advice);
    json_object_set_new(one, "name", json_string(k->name));
    json_object_set_new(one, "memory_bytes", json_integer((json_int_t)k->bytes));
    json_object_set_new(one, "needed_bytes", json_integer(needed));
    json_object_set_new(one, "reserved_bytes", json_integer(lvn_backend_reserve(backend, (int64_t)k->bytes)));
    json_object_set_new(one, "rounded_bytes", json_integer(copies));
    json_object_set_new(one, "scratch_bytes", json_integer(scratch));
    json_object_set_new(one, "fits", json_boolean(fits));
    json_object_set_new(one, "has_kernels", json_boolean(kernels));
    lvn_cli_add(c, "device", one);
    return LVN_OK;
}
