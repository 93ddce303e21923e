/* tensorboard.c - the folder tensorboard: a file of events for TensorBoard from each time that the run was started. */
#include "formats/tensorboard.h"

#include <stdio.h>
#include <time.h>

#include "train/callbacks/callback.h"

static const char name[] = "tensorboard";

struct own {
    struct lvn_tensorboard file;
    bool is_open, told;
};

static double wall_time(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static enum lvn_status start(struct own *o, const struct lvn_moment *m)
{
    char path[LVN_MOMENT_PATH];
    int64_t from = m->resumed_at < 0 ? 0 : m->resumed_at + 1;
    LVN_TRY(lvn_tensorboard_open(&o->file, lvn_moment_path(m, name, path), wall_time(), from));
    o->is_open = true;
    return LVN_OK;
}

static enum lvn_status write_all(struct own *o, const struct lvn_event *e)
{
    double now = wall_time();
    for (int i = 0; i < e->n_scalars; i++) {
        if (lvn_event_brings(e, i) && e->scalar[i].computed) /* events have a time of their own */
            LVN_TRY(lvn_tensorboard_scalar(&o->file, now, e->step, e->scalar[i].name, e->scalar[i].value));
    }
    return LVN_OK;
}

static enum lvn_status call(void *own, struct lvn_moment *m)
{
    struct own *o = own;
    if (m->event.kind == LVN_EVENT_START) return lvn_ranks_agree(m->ranks, m->dir ? start(o, m) : LVN_OK);
    if (!o->is_open || write_all(o, &m->event) == LVN_OK) return LVN_OK;
    if (o->told) {
        lvn_error_clear();
    } else {
        lvn_moment_note(m, "TensorBoard's events could not be written");
    }
    o->told = true;
    return LVN_OK;
}

static void close_it(void *own)
{
    struct own *o = own;
    if (o->is_open) lvn_tensorboard_close(&o->file);
}

const struct lvn_callback lvn_callback_tensorboard = {.name = name,
                                                      .bytes = sizeof(struct own),
                                                      .leaves = name,
                                                      .holds = "events.out.tfevents.*.levin",
                                                      .call = call,
                                                      .close = close_it};
