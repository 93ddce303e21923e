/* shares.c - see shares.h. */
#include "engine/shares.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

int64_t lvn_shares_units(const struct lvn_values *v)
{
    return v->trainer.batch_size / (v->trainer.micro_batch_size ? v->trainer.micro_batch_size : 1);
}

const char *lvn_shares_unit(const struct lvn_values *v)
{
    return v->trainer.micro_batch_size ? "micro-batches" : "sequences";
}

double lvn_shares_seconds(int size, const double *speed, const int64_t *share)
{
    double max = 0;
    for (int i = 0; i < size; i++)
        if ((double)share[i] / speed[i] > max) max = (double)share[i] / speed[i];
    return max;
}

/* more 1: the rank that would finish first with one more unit; more -1: the rank that finishes last and has more than
 * one unit. */
static int next(int size, const double *speed, const int64_t *share, int64_t more)
{
    int best = -1;
    double seconds = 0;
    for (int i = 0; i < size; i++) {
        double t = (double)(share[i] + (more > 0)) / speed[i];
        if (more < 0 && share[i] == 1) continue;
        if (best < 0 || (more > 0 ? t < seconds : t > seconds)) best = i, seconds = t;
    }
    return best;
}

/* Proportional parts, rounded down, and the remainder one by one. */
void lvn_shares_divide(int64_t units, int size, const double *speed, int64_t *share)
{
    double all = 0;
    int64_t left = units;
    for (int i = 0; i < size; i++) all += speed[i];
    for (int i = 0; i < size; i++) {
        share[i] = (int64_t)((double)units * speed[i] / all);
        if (share[i] < 1) share[i] = 1;
        left -= share[i];
    }
    for (int64_t more = left > 0 ? 1 : -1; left; left -= more) share[next(size, speed, share, more)] += more;
}

enum lvn_status lvn_shares_read(const char *text, int64_t units, int size, int64_t *share)
{
    int64_t sum = 0;
    int n = 0;
    for (const char *at = text;; at++) {
        char *end;
        long long x = strtoll(at, &end, 10);
        LVN_CHECK(end != at && (*end == ',' || !*end) && x >= 1 && x <= units, ARG,
                  "trainer.shares is '%.60s'; expected integers from 1 to %" PRId64
                  " separated by commas, the units that each rank computes of a step",
                  text, units);
        if (n < size) share[n] = x;
        n++;
        sum += x;
        at = end;
        if (!*at) break;
    }
    LVN_CHECK(n == size, ARG,
              "trainer.shares is '%.60s', for %d rank%s, but %d %s started; give one number per rank, or omit it and "
              "they are measured",
              text, n, lvn_plural(n), size, size == 1 ? "is" : "are");
    LVN_CHECK(sum == units, ARG,
              "trainer.shares is '%.60s', %" PRId64 " in total, but a step has %" PRId64 " to share out (its batch, in "
              "micro-batches if trainer.micro_batch_size is given); make their sum equal",
              text, sum, units);
    return LVN_OK;
}

enum lvn_status lvn_shares_write(int size, const int64_t *share, char text[LVN_SHARES_TEXT])
{
    size_t used = 0;
    for (int i = 0; i < size; i++) {
        LVN_CHECK(lvn_fit(text + used, LVN_SHARES_TEXT - used, "%s%" PRId64, i ? "," : "", share[i]), ARG,
                  "the shares of %d ranks exceed %d bytes as text; set trainer.share to equal", size, LVN_SHARES_TEXT);
        used += strlen(text + used);
    }
    return LVN_OK;
}

/* --- changes of speed --- */

static const double FIRST_WINDOW = 2, LAST_WINDOW = 300, WORTH = 0.9;

enum lvn_status lvn_share_balance_init(struct lvn_share_balance *w, int size)
{
    *w = (struct lvn_share_balance){.window = FIRST_WINDOW};
    w->seconds = lvn_calloc((size_t)size, sizeof *w->seconds);
    return w->seconds ? LVN_OK : LVN_MEMORY;
}

void lvn_share_balance_release(struct lvn_share_balance *w)
{
    free(w->seconds);
    *w = (struct lvn_share_balance){0};
}

/* Replace w->seconds by speeds; false: the speed of some rank is unknown. */
static bool speeds(struct lvn_share_balance *w, int size, const int64_t *share)
{
    bool all = true;
    for (int i = 0; i < size; i++) {
        all &= w->seconds[i] > 0;
        w->seconds[i] = (double)(share[i] * w->steps) / w->seconds[i];
    }
    return all;
}

bool lvn_share_balance_step(struct lvn_share_balance *w, int size, const double *seconds, const int64_t *share,
                            int64_t *better)
{
    double longest = 0;
    for (int i = 0; i < size; i++) {
        w->seconds[i] += seconds[i];
        if (seconds[i] > longest) longest = seconds[i];
    }
    w->slowest += longest;
    if (++w->steps < LVN_SHARES_WINDOW_STEPS || w->slowest < w->window) return false;
    bool wanted = false;
    if (speeds(w, size, share)) {
        int64_t units = 0;
        for (int i = 0; i < size; i++) units += share[i];
        lvn_shares_divide(units, size, w->seconds, better);
        wanted = lvn_shares_seconds(size, w->seconds, better) < WORTH * lvn_shares_seconds(size, w->seconds, share);
    }
    w->wins = wanted ? w->wins + 1 : 0;
    w->steps = 0;
    w->slowest = 0;
    memset(w->seconds, 0, sizeof *w->seconds * (size_t)size);
    if (w->wins < 2) return false;
    w->wins = 0;
    w->window = 2 * w->window < LAST_WINDOW ? 2 * w->window : LAST_WINDOW;
    return true;
}
