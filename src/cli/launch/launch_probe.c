/* launch_probe.c - do the hosts of a launch answer, and have they what it takes?
 *
 * Each host that is not this machine is visited before anything starts, many at once: it must have this program, the
 * launcher's daemon, and reach this machine at the address where ranks will meet. Else MPIs wait for minutes and say
 * little. Restarts look again, for who is still there. */
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/files.h"
#include "base/threads.h"
#include "cli/launch/launch.h"
#include "cluster/rendezvous/endpoints.h"

enum { AT_ONCE = 32, NO_PROGRAM = 3, NO_CALL = 4, NO_DAEMON = 5, NO_START = 6 };

enum lvn_status lvn_launch_remote(struct lvn_words *w, const char *ssh, const char *host)
{
    char *words = lvn_arena_strdup(w->arena, ssh), *rest = NULL, *name = words ? strtok_r(words, " ", &rest) : NULL;
    const char *program = name ? lvn_process_find(w->arena, name) : NULL;
    LVN_CHECK(program, ARG, "'%s' is not installed, which reaches other hosts: apt install openssh-client", ssh);
    lvn_words_add(w, "%s", program);
    if (!strcmp(lvn_path_name(program), "ssh")) {
        lvn_words_add(w, "-oBatchMode=yes");
        lvn_words_add(w, "-oConnectTimeout=10");
    }
    while ((name = strtok_r(NULL, " ", &rest))) lvn_words_add(w, "%s", name);
    lvn_words_add(w, "%s", host);
    return LVN_OK;
}

struct visit {
    const struct lvn_launch *l;
    struct lvn_host *host;
    const char *script;
    pthread_t thread;
    bool started;
    int code;
    struct lvn_text said;
};

static void *pay_visit(void *argument)
{
    static const char *const step[] = {"--nodes=1",     "--ntasks=1", "--overlap",     "--mpi=none",
                                       "--immediate=5", "--quiet",    "/usr/bin/test", "-x"};
    struct visit *v = argument;
    const double MIN = 5, MAX = 20, LOGIN = 60;
    LVN_LOCAL_ARENA(arena);
    struct lvn_words w = {.arena = &arena};
    if (v->l->allocation) {
        const char *srun = lvn_process_find(&arena, "srun");
        lvn_words_add(&w, "%s", srun ? srun : "srun");
        lvn_words_add(&w, "--nodelist=%s", v->host->name);
        for (int i = 0; i < (int)(sizeof step / sizeof *step); i++) lvn_words_add(&w, "%s", step[i]);
        lvn_words_add(&w, "%s", v->l->self);
    } else {
        if (lvn_launch_remote(&w, v->l->ssh, v->host->name)) w.failed = true;
        lvn_words_add(&w, "%s", v->script);
    }
    /* ssh knows when nobody answers, srun waits; who would be taken for lost in a run is taken for lost here */
    double max = !v->l->allocation          ? LOGIN
                 : v->l->rank_timeout > MAX ? MAX
                 : v->l->rank_timeout < MIN ? MIN
                                            : v->l->rank_timeout;
    v->code = w.failed ? -1 : lvn_process_run(w.word, max, &v->said);
    return NULL;
}

static enum lvn_status judge(struct visit *v)
{
    const struct lvn_launch *l = v->l;
    const struct lvn_host *h = v->host;
    const char *said = lvn_text_string(&v->said), *path = l->hosts_path, *what = h->ranks ? "host" : "spare host";
    const char *end = said ? said + strlen(said) : "", *last = end;
    char address[64], network[64];
    if (v->code == 0) return LVN_OK;
    while (end > said && (end[-1] == '\n' || end[-1] == '\r')) end--;
    for (last = end; last > said && last[-1] != '\n';) last--;
    LVN_CHECK(v->code != NO_PROGRAM, ARG,
              "%s:%d: the %s '%s' has no '%s'; install levin there under the same path, or share the folder", path,
              h->line, what, h->name, l->self);
    LVN_CHECK(v->code != NO_DAEMON, ARG,
              "%s:%d: the %s '%s' has no %s (no '%s'); install it there as here, or --trainer.transport=tcp", path,
              h->line, what, h->name, l->title, lvn_launch_daemon(l));
    LVN_CHECK(v->code != NO_START, ARG,
              "%s:%d: '%s' does not run on the %s '%s' (%.*s); install there what runs here, or share the folder", path,
              h->line, l->self, what, h->name, (int)(end - last), last);
    if (v->code == NO_CALL) {
        LVN_TRY(lvn_launch_address(l, NULL, address, network));
        LVN_FAIL(
            ARG,
            "%s:%d: the %s '%s' cannot connect back to this one at %s: ranks connect in both directions and at any "
            "port, so see that no firewall stands between the hosts",
            path, h->line, what, h->name, address);
    }
    LVN_CHECK(v->code != -2, ARG, "%s:%d: the %s '%s' does not answer; check that it is up, or take it out of the file",
              path, h->line, what, h->name);
    LVN_FAIL(ARG, "%s:%d: the %s '%s' cannot be reached by %s without a password (%.*s); try `%s %s true`", path,
             h->line, what, h->name, lvn_path_name(l->ssh), (int)(end - last), last, lvn_path_name(l->ssh), h->name);
}

/* Visit those that are not this machine; `met` is told what came of each. */
static enum lvn_status visit_all(struct lvn_launch *l, const char *script,
                                 void (*met)(struct visit *v, enum lvn_status *status))
{
    struct lvn_words try = {.arena = l->arena};
    enum lvn_status status = LVN_OK;
    struct visit *visits = lvn_arena_alloc(l->arena, sizeof *visits * (size_t)(l->n_hosts + 1));
    if (!visits || !script) return LVN_MEMORY;
    for (int first = 0; first < l->n_hosts && !status; first += AT_ONCE) {
        int end = first + AT_ONCE < l->n_hosts ? first + AT_ONCE : l->n_hosts;
        for (int i = first; i < end; i++) {
            if (l->hosts[i].here) continue;
            if (!l->allocation) LVN_TRY(lvn_launch_remote(&try, l->ssh, ""));
            visits[i] = (struct visit){.l = l, .host = &l->hosts[i], .script = script, .code = -1};
            visits[i].started = !lvn_thread_start(&visits[i].thread, pay_visit, &visits[i]);
        }
        for (int i = first; i < end; i++) {
            if (!visits[i].started) continue;
            pthread_join(visits[i].thread, NULL);
            met(&visits[i], &status);
            lvn_text_release(&visits[i].said);
        }
    }
    return status;
}

static void refuse(struct visit *v, enum lvn_status *status)
{
    if (!*status) *status = judge(v);
}

static void remember(struct visit *v, enum lvn_status *status)
{
    (void)status;
    v->host->down = v->code != 0;
    v->host->quiet = v->code == NO_CALL;
}

/* A port of this machine, at the address where ranks will meet. */
static enum lvn_status open_door(const struct lvn_launch *l, int *door, char place[100])
{
    char address[64], network[64], port[16];
    struct sockaddr_storage at = {0};
    socklen_t length = sizeof at;
    LVN_TRY(lvn_launch_address(l, NULL, address, network));
    LVN_TRY(lvn_listen(address, 0, door));
    LVN_CHECK(!getsockname(*door, (struct sockaddr *)&at, &length) &&
                  !getnameinfo((struct sockaddr *)&at, length, NULL, 0, port, sizeof port, NI_NUMERICSERV),
              IO, "a port of '%s' has no number", address);
    snprintf(place, 100, strchr(address, ':') ? "[%s]:%s" : "%s:%s", address, port);
    return LVN_OK;
}

/* The probe of a host: it must have this program and the launcher's daemon, and must reach this machine. */
static const char *probe(const struct lvn_launch *l, const char *place)
{
    const char *daemon = lvn_launch_daemon(l);
    return lvn_arena_printf(l->arena,
                            "test -x '%s' || exit %d; %s%s%s '%s' ranks --call='%s'; case $? in 0) ;; "
                            "%d) exit %d ;; *) exit %d ;; esac",
                            l->self, NO_PROGRAM, daemon ? "test -x '" : "", daemon ? daemon : "",
                            daemon ? lvn_arena_printf(l->arena, "' || exit %d;", NO_DAEMON) : "", l->self, place,
                            LVN_EXIT_FAULT, NO_CALL, NO_START);
}

static enum lvn_status visit(struct lvn_launch *l, void (*met)(struct visit *v, enum lvn_status *status))
{
    int door = -1;
    bool others = false;
    char place[100] = "";
    for (int i = 0; i < l->n_hosts; i++) others |= !l->hosts[i].here;
    if (!others) return LVN_OK;
    enum lvn_status status = l->allocation ? LVN_OK : open_door(l, &door, place);
    if (!status) status = visit_all(l, probe(l, place), met);
    if (door >= 0) close(door);
    return status;
}

enum lvn_status lvn_launch_reach(struct lvn_launch *l)
{
    return visit(l, refuse);
}

void lvn_launch_probe(struct lvn_launch *l)
{
    if (visit(l, remember)) lvn_error_clear(); /* those that were not visited are tried */
}
