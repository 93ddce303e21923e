/* launch_survivors.c - after an attempt: which ranks are left, and which host is to blame. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/launch/launch.h"
#include "cluster/rendezvous/local_ranks.h"

static const double LEFT_SECONDS = 3;

bool lvn_launch_is_here(const struct lvn_peer *p)
{
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    return !strcmp(p->host, host);
}

static bool is_left(const struct lvn_peer *p)
{
    return lvn_launch_is_here(p) && (lvn_process_stopped((int)p->pid) || lvn_process_runs((int)p->pid));
}

void lvn_launch_survivors(const struct lvn_launch *l, const struct lvn_peer *peer, struct lvn_text *t)
{
    for (int i = 0; i < l->ranks; i++) {
        if (!is_left(&peer[i])) continue;
        lvn_text_printf(t, "%srank %d on %s (pid %lld) %s", t->n ? ", " : ": ", i, peer[i].host, (long long)peer[i].pid,
                        lvn_process_stopped((int)peer[i].pid) ? "is stopped" : "still runs");
    }
}

/* Is it a rank of this attempt, and no other process that has its number now? */
static bool is_ours(int64_t pid, const char *token)
{
    char path[64];
    char *text = NULL;
    size_t capacity = 0;
    ssize_t n;
    bool ours = false;
    const char name[] = "LEVIN_RENDEZVOUS_TOKEN=";
    snprintf(path, sizeof path, "/proc/%lld/environ", (long long)pid);
    FILE *f = fopen(path, "re");
    while (f && !ours && (n = getdelim(&text, &capacity, '\0', f)) > 0)
        ours = !strncmp(text, name, sizeof name - 1) && !strcmp(text + sizeof name - 1, token);
    if (f) fclose(f);
    free(text);
    return ours;
}

void lvn_launch_end_survivors(const struct lvn_launch *l, const struct lvn_peer *peer, const char *token)
{
    const struct timespec moment = {.tv_nsec = 20000000};
    bool left = true;
    for (double begin = lvn_seconds(); left && lvn_seconds() - begin < LEFT_SECONDS; nanosleep(&moment, NULL)) {
        left = false;
        for (int i = 0; i < l->ranks; i++) {
            if (!is_left(&peer[i]) || !is_ours(peer[i].pid, token)) continue;
            kill((pid_t)peer[i].pid, SIGKILL);
            left = true;
        }
    }
}

/* Where a rank ran: in the order of a hosts file, or, on nodes of Slurm, as it said itself. -1: not known. */
int lvn_launch_host_of(const struct lvn_launch *l, const struct lvn_peer *p)
{
    int before = 0;
    for (int i = 0; i < l->n_hosts; i++) {
        size_t n = strcspn(l->hosts[i].name, ".");
        before += l->hosts[i].ranks;
        if (!l->allocation && p->rank < before) return i;
        if (l->allocation && n == strcspn(p->host, ".") && !strncmp(l->hosts[i].name, p->host, n)) return i;
    }
    return -1;
}

int lvn_launch_blame(const struct lvn_launch *l, const struct lvn_peer *peer, int fault_rank)
{
    enum lvn_peer_state bad = LVN_PEER_ABSENT;
    int64_t first = INT64_MAX;
    int host = -1;
    for (int i = 0; i < l->ranks; i++) {
        if (peer[i].state != LVN_PEER_LOST) continue;
        bad = LVN_PEER_LOST;
        if (peer[i].poll_index < first) first = peer[i].poll_index;
    }
    for (int i = 0; i < l->ranks; i++) {
        if (peer[i].state != bad || (bad == LVN_PEER_LOST && peer[i].poll_index > first)) continue;
        int its = lvn_launch_host_of(l, &peer[i]);
        if (its < 0 || (host >= 0 && its != host)) return -1;
        host = its;
    }
    return host < 0 && fault_rank >= 0 ? lvn_launch_host_of(l, &peer[fault_rank]) : host;
}
