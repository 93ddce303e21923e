/* membership.c - see membership.h. */
#include "cluster/rendezvous/membership.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/files.h"
#include "base/sort.h"

void lvn_ranks_text(const bool *flag, int n, int first_rank, struct lvn_text *t)
{
    const char *comma = "";
    for (int i = 0; i < n; i++) {
        if (!flag[i]) continue;
        int last = i;
        while (last + 1 < n && flag[last + 1]) last++;
        lvn_text_printf(t, "%s%d", comma, first_rank + i);
        if (last > i) lvn_text_printf(t, "%s%d", last == i + 1 ? "," : "-", first_rank + last);
        comma = ",";
        i = last;
    }
}

int lvn_lowest_here(const struct lvn_peer *p, int n)
{
    for (int i = 0; i < n; i++) {
        if (p[i].state == LVN_PEER_HERE) return i;
    }
    return -1;
}

/* "rank 3 on node2", "ranks 2,3 on node2", "rank 1 on node1 and 3 others"; "and then 3 others" if these were lost in
 * later polls, as when a launcher ended them because of the first. */
static void name_lost(const struct lvn_peer *p, int n, const struct lvn_peer *first, int lost, struct lvn_text *t)
{
    int same = 0, first_poll = 0;
    for (int i = 0; i < n; i++) first_poll += p[i].state == LVN_PEER_LOST && p[i].poll_index <= first->poll_index;
    for (int i = 0; i < n; i++) same += p[i].state == LVN_PEER_LOST && !strcmp(p[i].host, first->host);
    if (lost == 1) {
        lvn_text_printf(t, "rank %d on %s", first->rank, first->host);
    } else if (same == lost && first_poll > 1) {
        const char *comma = "";
        lvn_text_add(t, "ranks ");
        for (int i = 0; i < n; i++) {
            if (p[i].state != LVN_PEER_LOST) continue;
            lvn_text_printf(t, "%s%d", comma, i);
            comma = ",";
        }
        lvn_text_printf(t, " on %s", first->host);
    } else {
        lvn_text_printf(t, "rank %d on %s and %s%d other%s", first->rank, first->host, first_poll > 1 ? "" : "then ",
                        lost - 1, lost == 2 ? "" : "s");
    }
}

void lvn_lost_text(const struct lvn_peer *p, int n, struct lvn_text *t)
{
    const struct lvn_peer *first = NULL, *waits = NULL;
    int lost = 0, here = 0;
    int64_t step = INT64_MAX;
    for (int i = 0; i < n; i++) {
        if (p[i].state == LVN_PEER_LOST) {
            if (!first || p[i].poll_index < first->poll_index) first = &p[i];
            if (p[i].step < step) step = p[i].step;
            lost++;
        } else if (p[i].state == LVN_PEER_HERE) {
            here++;
            if (!waits || (!waits->collectives && p[i].collectives)) waits = &p[i];
        }
    }
    if (!first) return;
    name_lost(p, n, first, lost, t);
    lvn_text_printf(t, " %s sent no heartbeat since ", lost == 1 ? "has" : "have");
    if (step > 0) {
        lvn_text_printf(t, "step %lld", (long long)step);
    } else {
        lvn_text_add(t, "the start");
    }
    if (first->reason && lost == 1) lvn_text_printf(t, " (%s)", first->reason);
    if (first->reason && lost > 1) lvn_text_printf(t, " (rank %d: %s)", first->rank, first->reason);
    if (!waits) return;
    const char *subject = here == 1 ? "rank" : "the others";
    char one[40];
    if (here == 1) snprintf(one, sizeof one, "rank %d", waits->rank), subject = one;
    if (waits->collectives) {
        lvn_text_printf(t, "; %s %s in reduction %d of %d", subject, here == 1 ? "waits" : "wait", waits->collective,
                        waits->collectives);
    } else if (waits->operation[0]) {
        lvn_text_printf(t, "; %s %s in %s after step %lld", subject, here == 1 ? "waits" : "wait", waits->operation,
                        (long long)waits->step);
    }
}

/* --- slow ranks --- */

/* The lower median, so that of two ranks one can be slow. 0: fewer than two are known. */
static double median_of(const struct lvn_peer *p, int n)
{
    int known = 0;
    double *all = n > 1 ? malloc(sizeof *all * (size_t)n) : NULL;
    if (!all) return 0;
    for (int i = 0; i < n; i++)
        if (p[i].compute_s > 0 && isfinite(p[i].compute_s)) all[known++] = p[i].compute_s;
    qsort(all, (size_t)known, sizeof *all, lvn_by_number);
    double median = known > 1 ? all[(known - 1) / 2] : 0;
    free(all);
    return median;
}

static bool is_slow(const struct lvn_peer *p, double median)
{
    const double min = 5e-3; /* seconds; below this it is noise */
    return median > 0 && p->compute_s >= 1.25 * median && p->compute_s >= min;
}

bool lvn_is_slow(const struct lvn_peer *p, int n, int rank, double *median)
{
    double middle = median_of(p, n);
    if (median) *median = middle;
    return is_slow(&p[rank], middle);
}

bool lvn_straggler_find(struct lvn_straggler *s, const struct lvn_peer *p, int n, double now, char text[400])
{
    enum { TIMES = 5 };
    const double pause = 600;
    int slowest = 0;
    double median = 0;
    for (int i = 1; i < n; i++) {
        if (p[i].compute_s > p[slowest].compute_s) slowest = i;
    }
    if (n < 2 || p[slowest].step == s->step) return false;
    s->step = p[slowest].step;
    if (!lvn_is_slow(p, n, slowest, &median)) {
        s->times = 0;
        return false;
    }
    if (slowest != s->rank) *s = (struct lvn_straggler){.rank = slowest, .step = s->step};
    if (++s->times < TIMES || (s->reported_at > 0 && now - s->reported_at < pause)) return false;
    s->reported_at = now;
    snprintf(text, 400,
             "rank %d on %s is slow: %.3g s of computing a step, where the median of the ranks is %.3g s (waiting left "
             "out)",
             slowest, p[slowest].host, p[slowest].compute_s, median);
    return true;
}

/* --- status.json --- */

static void add_string(struct lvn_text *t, const char *s)
{
    lvn_text_add(t, "\"");
    while (*s) {
        int used;
        int32_t code = lvn_utf8_decode(s, (int64_t)strlen(s), &used);
        if (code < 0) {
            lvn_text_add(t, "?");
        } else if (code < 32 || code == '"' || code == '\\') {
            lvn_text_printf(t, "\\u%04x", (unsigned)code);
        } else {
            lvn_text_add_bytes(t, s, used);
        }
        s += used;
    }
    lvn_text_add(t, "\"");
}

static double finite_or_zero(double x)
{
    return isfinite(x) ? x : 0;
}

int64_t lvn_attempts_computed(const struct lvn_attempts *a, int64_t step)
{
    return a->computed + (step > a->first_step ? step - a->first_step : 0);
}

static void add_attempts(struct lvn_text *t, const struct lvn_attempts *a, int64_t step)
{
    const int64_t computed = lvn_attempts_computed(a, step);
    lvn_text_printf(t,
                    ",\n  \"goodput\": {\"ratio\": %.6g, \"steps_kept\": %lld, \"steps_computed\": %lld, "
                    "\"restarts\": %lld, \"restart_seconds\": ",
                    computed > 0 ? (double)step / (double)computed : 1.0, (long long)step, (long long)computed,
                    (long long)a->restarts);
    if (a->restart_seconds > 0)
        lvn_text_printf(t, "%.3f}", a->restart_seconds);
    else
        lvn_text_add(t, "null}");
}

bool lvn_status_write(const char *path, const struct lvn_peer *p, int n, const struct lvn_attempts *attempts,
                      const char *state, const char *text)
{
    bool written = false;
    static const char *const states[] = {"absent", "running", "done", "lost"};
    struct lvn_text t = {0};
    int64_t step = 0;
    double wall = lvn_wall_seconds(), now = lvn_seconds(), median = median_of(p, n);
    for (int i = 0; i < n; i++) step = p[i].step > step ? p[i].step : step;
    lvn_text_printf(&t, "{\n  \"step\": %lld,\n  \"state\": ", (long long)step);
    add_string(&t, state);
    lvn_text_printf(&t, ",\n  \"time\": %.3f,\n  \"fault\": ", wall);
    if (*text) {
        add_string(&t, text);
    } else {
        lvn_text_add(&t, "null");
    }
    add_attempts(&t, attempts, step > attempts->first_step ? step : attempts->first_step);
    lvn_text_add(&t, ",\n  \"ranks\": [");
    for (int i = 0; i < n; i++) {
        lvn_text_printf(&t, "%s\n    {\"rank\": %d, \"host\": ", i ? "," : "", i);
        add_string(&t, p[i].host);
        lvn_text_printf(&t,
                        ", \"pid\": %lld, \"step\": %lld, \"tokens_per_s\": %.6g, \"last_seen\": %.3f, "
                        "\"compute_s\": %.6g, \"memory_bytes\": %lld, \"state\": \"%s\", \"slow\": %s, \"place\": ",
                        (long long)p[i].pid, (long long)p[i].step, finite_or_zero(p[i].tokens_per_s),
                        p[i].last_heard > 0 ? wall - (now - p[i].last_heard) : 0, finite_or_zero(p[i].compute_s),
                        (long long)p[i].memory, states[p[i].state], is_slow(&p[i], median) ? "true" : "false");
        add_string(&t, p[i].operation);
        if (p[i].collectives) {
            lvn_text_printf(&t, ", \"collective\": %d, \"collectives\": %d", p[i].collective, p[i].collectives);
        }
        lvn_text_add(&t, "}");
    }
    lvn_text_add(&t, "\n  ]\n}\n");
    char temporary[4096];
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path; /* hidden beside it, as files.h does */
    int length = snprintf(temporary, sizeof temporary, "%.*s.%s.tmp-%d", (int)(name - path), path, name, (int)getpid());
    if (!lvn_text_status(&t) && length > 0 && (size_t)length < sizeof temporary) {
        int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
        bool good = fd >= 0 && lvn_fd_write(fd, t.p, t.n);
        if (fd >= 0 && close(fd)) good = false;
        written = good && rename(temporary, path) == 0;
        if (fd >= 0 && !written) unlink(temporary);
    }
    lvn_text_release(&t);
    return written;
}
