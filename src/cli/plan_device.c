/* plan_device.c - whether a planned run fits into the memory of a device that is not here (devices.def).
 *
 * What a run allocates there is exact; to it comes what a driver takes for itself, a part of the memory by rule of
 * thumb. Whether there is a kernel for all of it is asked of the backend, with trainer.accelerator. */
#include <string.h>

#include "base/text.h"
#include "cli/plan.h"

static const struct known {
    const char *name, *what;
    double bytes;
} known[] = {
#define LVN_PLAN_DEVICE(name, what, bytes) {name, what, bytes},
#include "cli/devices.def"
#undef LVN_PLAN_DEVICE
};

enum lvn_status lvn_plan_device(struct lvn_cli *c, const struct lvn_network *n)
{
    const double share = 0.97; /* of the memory that a driver leaves */
    const char *wanted = c->flag[LVN_FLAG_plan_device].t;
    const struct known *k = NULL;
    char a[LVN_NUMBER_TEXT], b[LVN_NUMBER_TEXT];
    if (!*wanted) return LVN_OK;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(known[i].name, wanted)) k = &known[i];
    LVN_CHECK(k, ARG, "--device '%.60s' is not in the table: `levin help plan` has the names that are", wanted);
    int64_t takes = lvn_network_bytes(n);
    bool fits = (double)takes <= share * k->bytes;
    lvn_cli_print(c, "%s: %s of %s are taken: %s\n", k->what, lvn_bytes_text(takes, a),
                  lvn_bytes_text((int64_t)k->bytes, b),
                  fits ? "it fits." : "it does NOT fit: take a smaller model or trainer.micro_batch_size.");
    json_t *one = c->json ? json_object() : NULL;
    if (!one) return LVN_OK;
    json_object_set_new(one, "name", json_string(k->name));
    json_object_set_new(one, "memory_bytes", json_integer((json_int_t)k->bytes));
    json_object_set_new(one, "needed_bytes", json_integer(takes));
    json_object_set_new(one, "fits", json_boolean(fits));
    lvn_cli_add(c, "device", one);
    return LVN_OK;
}
