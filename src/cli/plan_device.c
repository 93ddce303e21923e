/* plan_device.c - whether a planned run fits into the memory of a device that is not here (devices.def), and whether
 * there are kernels for all that a step computes.
 *
 * To what the plan has come, at most: the scratch of the device's kernels and of its library of products, which lies
 * beside what the processor's would take; batches that are written beside a step; and what a driver takes for itself, a
 * part of the memory by rule of thumb. */
#include <string.h>

#include "base/text.h"
#include "cli/plan.h"

static const struct known {
    const char *name, *backend, *what;
    double bytes;
} known[] = {
#define LVN_PLAN_DEVICE(name, backend, what, bytes) {name, backend, what, bytes},
#include "cli/devices.def"
};

/* The most scratch that an instruction wants; false, and an error: one has no kernel. */
static bool find_scratch(const struct lvn_backend *b, const struct lvn_program *p, int64_t *most)
{
    *most = 0;
    for (int n = 0; n < p->n_instrs; n++) {
        struct lvn_instr i = p->instrs[n];
        int64_t scratch = 0;
        if (!i.op->collective && b->choose(NULL, &i, &scratch) != LVN_OK) return false;
        if (scratch > *most) *most = scratch;
    }
    return true;
}

enum lvn_status lvn_plan_device(struct lvn_cli *c, const struct lvn_training *t)
{
    const double share = 0.97; /* of the memory that a driver leaves */
    const char *wanted = c->flag[LVN_FLAG_plan_device].t;
    const struct known *k = NULL;
    char a[LVN_NUMBER_TEXT], b[LVN_NUMBER_TEXT];
    if (!*wanted) return LVN_OK;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(known[i].name, wanted)) k = &known[i];
    LVN_CHECK(k, ARG, "--device '%.60s' is not in the table: `levin help plan` has the names that are", wanted);
    const struct lvn_backend *backend = lvn_backend_find(k->backend);
    int64_t scratch;
    bool kernels = find_scratch(backend, t->step->program, &scratch);
    int64_t takes = lvn_network_bytes(t->network);
    if (backend != t->network->device->backend) takes += scratch + lvn_network_beside_bytes(t->network, backend);
    bool fits = (double)takes <= share * k->bytes;
    lvn_cli_print(c, "%s: %s of %s are taken: %s\n", k->what, lvn_bytes_text(takes, a),
                  lvn_bytes_text((int64_t)k->bytes, b),
                  fits ? "it fits." : "it does NOT fit: take a smaller model or trainer.micro_batch_size.");
    if (!kernels) lvn_cli_print(c, "It cannot run there: %s.\n", lvn_error_text());
    lvn_error_clear();
    json_t *one = c->json ? json_object() : NULL;
    if (!one) return LVN_OK;
    json_object_set_new(one, "name", json_string(k->name));
    json_object_set_new(one, "memory_bytes", json_integer((json_int_t)k->bytes));
    json_object_set_new(one, "needed_bytes", json_integer(takes));
    json_object_set_new(one, "scratch_bytes", json_integer(scratch));
    json_object_set_new(one, "fits", json_boolean(fits));
    json_object_set_new(one, "has_kernels", json_boolean(kernels));
    lvn_cli_add(c, "device", one);
    return LVN_OK;
}
