/* membership.c - see membership.h. */
#include "cluster/rendezvous/membership.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/files.h"
#include "base/list.h"

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

int lvn_lowest_here(const struct lvn_peer *peer, int n)
{
    for (int i = 0; i < n; i++) {
        if (peer[i].state == LVN_PEER_HERE) return i;
    }
    return -1;
}

/* "rank 3 on node2", "ranks 2,3 on node2", "rank 1 on node1 and 3 others"; "and then 3 others" if these were lost in
 * later polls, for example because a launcher killed them after the first. */
static void name_lost(const struct lvn_peer *peer, int n, const struct lvn_peer *first, int lost, struct lvn_text *t)
{
    int same = 0, first_poll = 0;
    for (int i = 0; i < n; i++) first_poll += peer[i].state == LVN_PEER_LOST && peer[i].poll_index <= first->poll_index;
    for (int i = 0; i < n; i++) same += peer[i].state == LVN_PEER_LOST && !strcmp(peer[i].host, first->host);
    if (lost == 1) {
        lvn_text_printf(t, "rank %d on %s", first->rank, first->host);
    } else if (same == lost && first_poll > 1) {
        const char *comma = "";
        lvn_text_add(t, "ranks ");
        for (int i = 0; i < n; i++) {
            if (peer[i].state != LVN_PEER_LOST) continue;
            lvn_text_printf(t, "%s%d", comma, i);
            comma = ",";
        }
        lvn_text_printf(t, " on %s", first->host);
    } else {
        lvn_text_printf(t, "rank %d on %s and %s%d other%s", first->rank, first->host, first_poll > 1 ? "" : "then ",
                        lost - 1, lost == 2 ? "" : "s");
    }
}

void lvn_lost_text(const struct lvn_peer *peer, int n, struct lvn_text *t)
{
    const struct lvn_peer *first = NULL, *waits = NULL;
    int lost = 0, here = 0;
    int64_t step = INT64_MAX;
    for (int i = 0; i < n; i++) {
        if (peer[i].state == LVN_PEER_LOST) {
            if (!first || peer[i].poll_index < first->poll_index) first = &peer[i];
            if (peer[i].step < step) step = peer[i].step;
            lost++;
        } else if (peer[i].state == LVN_PEER_HERE) {
            here++;
            if (!waits || (!waits->collectives && peer[i].collectives)) waits = &peer[i];
        }
    }
    if (!first) return;
    name_lost(peer, n, first, lost, t);
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

/* The lower median, so that one of two ranks can be slow. 0: fewer than two values are known. */
static double median_of(const struct lvn_peer *peer, int n)
{
    int known = 0;
    double *all = n > 1 ? malloc(sizeof *all * (size_t)n) : NULL;
    if (!all) return 0;
    for (int i = 0; i < n; i++)
        if (peer[i].compute_s > 0 && isfinite(peer[i].compute_s)) all[known++] = peer[i].compute_s;
    qsort(all, (size_t)known, sizeof *all, lvn_by_number);
    double median = known > 1 ? all[(known - 1) / 2] : 0;
    free(all);
    return median;
}

static bool is_slow(const struct lvn_peer *peer, double median)
{
    const double min = 5e-3; /* seconds; smaller differences are noise */
    return median > 0 && peer->compute_s >= 1.25 * median && peer->compute_s >= min;
}

bool lvn_is_slow(const struct lvn_peer *peer, int n, int rank, double *median)
{
    double middle = median_of(peer, n);
    if (median) *median = middle;
    return is_slow(&peer[rank], middle);
}

bool lvn_straggler_find(struct lvn_straggler *straggler, const struct lvn_peer *peer, int n, double now, char text[400])
{
    enum { TIMES = 5 };
    const double pause = 600;
    int slowest = 0;
    double median = 0;
    for (int i = 1; i < n; i++) {
        if (peer[i].compute_s > peer[slowest].compute_s) slowest = i;
    }
    if (n < 2 || peer[slowest].step == straggler->step) return false;
    straggler->step = peer[slowest].step;
    if (!lvn_is_slow(peer, n, slowest, &median)) {
        straggler->times = 0;
        return false;
    }
    if (slowest != straggler->rank) *straggler = (struct lvn_straggler){.rank = slowest, .step = straggler->step};
    if (++straggler->times < TIMES || (straggler->reported_at > 0 && now - straggler->reported_at < pause))
        return false;
    straggler->reported_at = now;
    snprintf(
        text, 400,
        "rank %d on %s is slow: it computes %.3g s per step; the median of the ranks is %.3g s (without time spent "
        "waiting)",
        slowest, peer[slowest].host, peer[slowest].compute_s, median);
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

int64_t lvn_attempts_computed(const struct lvn_attempts *attempts, int64_t step)
{
    return attempts->computed + (step > attempts->first_step ? step - attempts->first_step : 0);
}

static void add_attempts(struct lvn_text *t, const struct lvn_attempts *attempts, int64_t step)
{
    const int64_t computed = lvn_attempts_computed(attempts, step);
    lvn_text_printf(t,
                    ",\n  \"goodput\": {\"ratio\": %.6g, \"steps_kept\": %lld, \"steps_computed\": %lld, "
                    "\"restarts\": %lld, \"restart_seconds\": ",
                    computed > 0 ? (double)step / (double)computed : 1.0, (long long)step, (long long)computed,
                    (long long)attempts->restarts);
    if (attempts->restart_seconds > 0)
        lvn_text_printf(t, "%.3f}", attempts->restart_seconds);
    else
        lvn_text_add(t, "null}");
}

bool lvn_status_write(const char *path, const struct lvn_peer *peer, int n, const struct lvn_attempts *attempts,
                      const char *state, const char *text)
{
    bool written = false;
    static const char *const states[] = {"absent", "running", "done", "lost"};
    struct lvn_text t = {0};
    int64_t step = 0;
    double wall = lvn_wall_seconds(), now = lvn_seconds(), median = median_of(peer, n);
    for (int i = 0; i < n; i++) step = peer[i].step > step ? peer[i].step : step;
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
        add_string(&t, peer[i].host);
        lvn_text_printf(&t,
                        ", \"pid\": %lld, \"step\": %lld, \"tokens_per_s\": %.6g, \"last_seen\": %.3f, "
                        "\"compute_s\": %.6g, \"memory_bytes\": %lld, \"state\": \"%s\", \"slow\": %s, \"place\": ",
                        (long long)peer[i].pid, (long long)peer[i].step, finite_or_zero(peer[i].tokens_per_s),
                        peer[i].last_heard > 0 ? wall - (now - peer[i].last_heard) : 0,
                        finite_or_zero(peer[i].compute_s), (long long)peer[i].memory, states[peer[i].state],
                        is_slow(&peer[i], median) ? "true" : "false");
        add_string(&t, peer[i].operation);
        if (*peer[i].activity) {
            lvn_text_add(&t, ", \"activity\": ");
            add_string(&t, peer[i].activity);
        }
        if (peer[i].collectives) {
            lvn_text_printf(&t, ", \"collective\": %d, \"collectives\": %d", peer[i].collective, peer[i].collectives);
        }
        lvn_text_add(&t, "}");
    }
    lvn_text_add(&t, "\n  ]\n}\n");
    char temporary[4096];
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path; /* a hidden file, as in files.h */
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
