/* launch_survivors.c - after an attempt: which ranks still exist on this machine, and which host was at fault. Called
 * by launch_attempt.c. On other hosts the launcher's daemons terminate ranks. */
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "cluster/rendezvous/local_ranks.h"
#include "launch/launch.h"

static const double KILL_SECONDS = 3; /* maximum time to kill survivors */

bool lvn_launch_rank_is_here(const struct lvn_peer *peer)
{
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    return !strcmp(peer->host, host);
}

static bool is_alive(const struct lvn_peer *peer)
{
    return lvn_launch_rank_is_here(peer) && (lvn_process_stopped((int)peer->pid) || lvn_process_runs((int)peer->pid));
}

void lvn_launch_list_survivors(const struct lvn_launch *l, const struct lvn_peer *peer, struct lvn_text *t)
{
    for (int i = 0; i < l->attempt.ranks; i++) {
        if (!is_alive(&peer[i])) continue;
        lvn_text_printf(t, "%srank %d on %s (pid %lld) %s", t->n ? ", " : ": ", i, peer[i].host, (long long)peer[i].pid,
                        lvn_process_stopped((int)peer[i].pid) ? "is stopped" : "still runs");
    }
}

/* True if the process is a rank of this attempt, and not another one that has the same pid now. */
static bool has_token(int64_t pid, const char *token)
{
    char path[64];
    char *text = NULL;
    size_t capacity = 0;
    ssize_t n;
    bool found = false;
    const char name[] = "LEVIN_RENDEZVOUS_TOKEN=";
    snprintf(path, sizeof path, "/proc/%lld/environ", (long long)pid);
    FILE *f = fopen(path, "re");
    while (f && !found && (n = getdelim(&text, &capacity, '\0', f)) > 0)
        found = !strncmp(text, name, sizeof name - 1) && !strcmp(text + sizeof name - 1, token);
    if (f) fclose(f);
    free(text);
    return found;
}

void lvn_launch_end_survivors(const struct lvn_launch *l, const struct lvn_peer *peer, const char *token)
{
    const struct timespec tick = {.tv_nsec = 20000000};
    bool alive = true;
    for (double begin = lvn_seconds(); alive && lvn_seconds() - begin < KILL_SECONDS; nanosleep(&tick, NULL)) {
        alive = false;
        for (int i = 0; i < l->attempt.ranks; i++) {
            if (!is_alive(&peer[i]) || !has_token(peer[i].pid, token)) continue;
            kill((pid_t)peer[i].pid, SIGKILL);
            alive = true;
        }
    }
}

/* Determined by the order of the hosts file; on nodes of Slurm by the host name that the rank reported. */
int lvn_launch_host_of(const struct lvn_launch *l, const struct lvn_peer *peer)
{
    int before = 0;
    for (int i = 0; i < l->resources.n_hosts; i++) {
        size_t n = strcspn(l->resources.hosts[i].name, ".");
        before += l->resources.hosts[i].ranks;
        if (!l->resources.in_slurm && peer->rank < before) return i;
        if (l->resources.in_slurm && n == strcspn(peer->host, ".") &&
            !strncmp(l->resources.hosts[i].name, peer->host, n))
            return i;
    }
    return -1;
}

int lvn_launch_host_at_fault(const struct lvn_launch *l, const struct lvn_peer *peer, int fault_rank)
{
    enum lvn_peer_state bad = LVN_PEER_ABSENT;
    int64_t first = INT64_MAX;
    int host = -1;
    for (int i = 0; i < l->attempt.ranks; i++) {
        if (peer[i].state != LVN_PEER_LOST) continue;
        bad = LVN_PEER_LOST;
        if (peer[i].poll_index < first) first = peer[i].poll_index;
    }
    for (int i = 0; i < l->attempt.ranks; i++) {
        if (peer[i].state != bad || (bad == LVN_PEER_LOST && peer[i].poll_index > first)) continue;
        int of_rank = lvn_launch_host_of(l, &peer[i]);
        if (of_rank < 0 || (host >= 0 && of_rank != host)) return -1;
        host = of_rank;
    }
    return host < 0 && fault_rank >= 0 ? lvn_launch_host_of(l, &peer[fault_rank]) : host;
}
