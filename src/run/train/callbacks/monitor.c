/* monitor.c - see monitor.h. */
#include "train/callbacks/monitor.h"

#include "formats/json.h"

/* "loss, lr and val_loss" */
static void list_names(const struct lvn_event *e, struct lvn_text *t)
{
    int left = 0;
    for (int i = 0; i < e->n_scalars; i++) left += e->scalar[i].computed;
    for (int i = 0; i < e->n_scalars; i++) {
        if (!e->scalar[i].computed) continue;
        left--;
        lvn_text_printf(t, "%s%s", e->scalar[i].name, left > 1 ? ", " : left == 1 ? " and " : "");
    }
}

static enum lvn_status refuse(const char *part, const char *name, const struct lvn_scalar *scalar,
                              const struct lvn_event *e)
{
    LVN_LOCAL_TEXT(names);
    const char *why = !scalar                                ? "this run does not compute"
                      : scalar->kind == LVN_EVENT_VALIDATION ? "validation computes, and this run does not validate"
                                                             : "this run cannot monitor";
    list_names(e, &names);
    enum lvn_status status = lvn_text_status(&names);
    if (status == LVN_OK)
        status = lvn_fail(LVN_ARG, "%s.monitor is %.60s, which %s; it computes %s", part, name, why, names.p);
    return status;
}

static bool validates(const struct lvn_event *e)
{
    for (int i = 0; i < e->n_scalars; i++) {
        if (e->scalar[i].kind == LVN_EVENT_VALIDATION && e->scalar[i].computed) return true;
    }
    return false;
}

enum lvn_status lvn_monitor_open(struct lvn_monitor *monitor, const char *part, const char *name,
                                 enum lvn_monitor_mode mode, bool is_default, const struct lvn_event *e)
{
    int i = lvn_event_find(e, name);
    *monitor = (struct lvn_monitor){.name = name, .scalar = -1, .best = NAN};
    if (i < 0 || !e->scalar[i].computed)
        return is_default ? LVN_OK : refuse(part, name, i < 0 ? NULL : &e->scalar[i], e);
    LVN_CHECK(mode != LVN_MONITOR_AUTO || e->scalar[i].better != LVN_BETTER_UNKNOWN, ARG,
              "%s.monitor is %s, and levin does not know whether lower or higher is better; set %s.mode to min or max",
              part, name, part);
    monitor->scalar = i;
    monitor->higher = mode == LVN_MONITOR_MAX || (mode == LVN_MONITOR_AUTO && e->scalar[i].better == LVN_BETTER_HIGHER);
    monitor->event = validates(e) ? LVN_EVENT_VALIDATION : LVN_EVENT_EPOCH;
    return LVN_OK;
}

bool lvn_monitor_is_due(const struct lvn_monitor *monitor, const struct lvn_event *e)
{
    return monitor->scalar >= 0 && e->kind == monitor->event && e->step > 0;
}

bool lvn_monitor_improves(struct lvn_monitor *monitor, const struct lvn_event *e, double min_delta)
{
    double value = e->scalar[monitor->scalar].value;
    bool better = isnan(monitor->best) ||
                  (monitor->higher ? value - min_delta > monitor->best : value + min_delta < monitor->best);
    if (!isfinite(value) || !better) return false;
    monitor->best = value;
    return true;
}

void lvn_monitor_save(const struct lvn_monitor *monitor, json_t *json)
{
    json_object_set_new(json, "monitor", json_string(monitor->name));
    json_object_set_new(json, "mode", json_string(monitor->higher ? "max" : "min"));
    json_object_set_new(json, "best", lvn_json_number(monitor->best));
}

bool lvn_monitor_load(struct lvn_monitor *monitor, const json_t *json)
{
    const char *name = json_string_value(json_object_get(json, "monitor"));
    const char *mode = json_string_value(json_object_get(json, "mode"));
    const json_t *best = json_object_get(json, "best");
    if (monitor->scalar < 0 || !name || !mode || strcmp(name, monitor->name) != 0 ||
        (strcmp(mode, "max") == 0) != monitor->higher)
        return false;
    monitor->best = json_is_number(best) ? json_number_value(best) : (double)NAN;
    return true;
}

#define LVN_MAP(word, value)                                                                                           \
    case LVN_##word:                                                                                                   \
        return LVN_##value;

enum lvn_monitor_mode lvn_checkpoint_mode_of(enum lvn_checkpoint_mode word)
{
    switch (word) {
        LVN_MAP(CHECKPOINT_MODE_AUTO, MONITOR_AUTO)
        LVN_MAP(CHECKPOINT_MODE_MIN, MONITOR_MIN)
        LVN_MAP(CHECKPOINT_MODE_MAX, MONITOR_MAX)
    }
    return LVN_MONITOR_AUTO;
}

enum lvn_monitor_mode lvn_early_stopping_mode_of(enum lvn_early_stopping_mode word)
{
    switch (word) {
        LVN_MAP(EARLY_STOPPING_MODE_AUTO, MONITOR_AUTO)
        LVN_MAP(EARLY_STOPPING_MODE_MIN, MONITOR_MIN)
        LVN_MAP(EARLY_STOPPING_MODE_MAX, MONITOR_MAX)
    }
    return LVN_MONITOR_AUTO;
}
