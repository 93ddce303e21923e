/* local_ranks.c - see local_ranks.h; reads /proc. */
#include "cluster/rendezvous/local_ranks.h"

#include <dirent.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cluster/rendezvous/endpoints.h"
#include "cluster/rendezvous/wire.h"

/* State letter and parent of a process, from "pid (name) state parent ..."; 0: it does not exist. */
static char state_of(int pid, int *parent)
{
    char path[64], text[512], state;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *f = fopen(path, "re");
    if (!f) return 0;
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = '\0';
    const char *close = strrchr(text, ')');
    return close && sscanf(close + 1, " %c %d", &state, parent) == 2 ? state : 0;
}

static bool is_stopped(char state)
{
    return state == 'T' || state == 't';
}

bool lvn_process_runs(int pid)
{
    int parent;
    char state = state_of(pid, &parent);
    return state && !is_stopped(state) && state != 'Z' && state != 'X';
}

bool lvn_process_stopped(int pid)
{
    int parent;
    return is_stopped(state_of(pid, &parent));
}

/* The number in a variable of a process's initial environment; -1: not set. */
static int variable_of(int pid, const char *name)
{
    char path[64], *entry = NULL;
    int value = -1;
    size_t capacity = 0, n = strlen(name);
    snprintf(path, sizeof path, "/proc/%d/environ", pid);
    FILE *f = fopen(path, "re");
    while (f && getdelim(&entry, &capacity, '\0', f) > 0) {
        if (!strncmp(entry, name, n) && entry[n] == '=') value = (int)strtol(entry + n + 1, NULL, 10);
    }
    if (f) fclose(f);
    free(entry);
    return value;
}

void lvn_local_ranks_stopped(const struct lvn_identity *identity, struct lvn_stopped *out)
{
    DIR *all = opendir("/proc");
    *out = (struct lvn_stopped){.rank = -1};
    if (!all || !identity->rank_from || !*identity->rank_from) {
        if (all) closedir(all);
        return;
    }
    for (struct dirent *e; (e = readdir(all));) {
        int pid = (int)strtol(e->d_name, NULL, 10), parent = -1;
        if (pid <= 0 || pid == getpid()) continue;
        char state = state_of(pid, &parent);
        if (!is_stopped(state) || parent != getppid()) continue;
        int rank = variable_of(pid, identity->rank_from);
        if (rank < 0) continue;
        out->n++;
        out->below += rank < identity->rank;
        if (out->rank < 0 || rank < out->rank) out->rank = rank, out->pid = pid;
    }
    closedir(all);
}

void lvn_local_ranks_report(const char *endpoint, const char *token, int rank, int pid)
{
    const double timeout = 1;
    LVN_LOCAL_TEXT(line);
    char host[256] = "";
    int at, fd = -1;
    gethostname(host, sizeof host - 1);
    lvn_message_add(&line, LVN_MESSAGE_STOPPED, token, (int64_t)rank, (int64_t)pid, host);
    if (!line.p || lvn_endpoint_connect(endpoint, LVN_MEETING, timeout, 0, &at, &fd)) {
        lvn_error_clear();
        return;
    }
    (void)!send(fd, line.p, (size_t)line.n, MSG_NOSIGNAL | MSG_DONTWAIT);
    close(fd);
}
