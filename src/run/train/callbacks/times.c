/* times.c - the callback that logs, at the end of a run with finished epochs, how long it took: from the start of the
 * program, and in the loop, as means over ranks and of the slowest rank. For checking a new cluster. */

#include "base/arena.h"
#include "base/clock.h"
#include "base/log.h"
#include "train/callback.h"

enum { WHOLE, LOOP, TIMES };

static enum lvn_status report(struct lvn_callback_context *context, const double *seconds)
{
    double sum[TIMES] = {0}, max[TIMES] = {0};
    char text[240], slowest[100] = "";
    const int n = context->ranks->size;
    const int64_t per_epoch = context->event.steps_per_epoch;
    const double epochs = per_epoch ? (double)context->event.step / (double)per_epoch : (double)context->event.epoch;
    for (int i = 0; i < n * TIMES; i++) {
        sum[i % TIMES] += seconds[i];
        if (seconds[i] > max[i % TIMES]) max[i % TIMES] = seconds[i];
    }
    if (n > 1)
        snprintf(slowest, sizeof slowest, ", as means over ranks; at most %.2f s and %.2f s", max[WHOLE], max[LOOP]);
    snprintf(text, sizeof text,
             "trained for %.3g epoch%s on %d rank%s of %d host%s: %.2f s from start to finish, %.2f s in the loop%s",
             epochs, epochs == 1 ? "" : "s", n, lvn_plural(n), context->ranks->hosts, lvn_plural(context->ranks->hosts),
             sum[WHOLE] / n, sum[LOOP] / n, slowest);
    if (!context->ranks->rank) lvn_log(LVN_LOG_INFO, "%s", text);
    return LVN_OK;
}

static enum lvn_status call(void *state, struct lvn_callback_context *context)
{
    (void)state;
    if (context->event.kind != LVN_EVENT_END || context->event.epoch < 1) return LVN_OK;
    double *seconds = lvn_calloc((size_t)context->ranks->size * TIMES, sizeof *seconds);
    if (!seconds) return LVN_MEMORY;
    seconds[context->ranks->rank * TIMES + WHOLE] = lvn_seconds_since_start();
    seconds[context->ranks->rank * TIMES + LOOP] = lvn_seconds() - context->start_time;
    enum lvn_status status = lvn_ranks_sum(context->ranks, seconds, (int64_t)context->ranks->size * TIMES);
    if (status == LVN_OK) status = report(context, seconds);
    free(seconds);
    return status;
}

const struct lvn_callback lvn_callback_times = {.name = "times", .in_fast_dev_run = true, .call = call};
