/* launch_probe.c - probes the hosts of a launch: launch.c before anything starts, launch_restart.c before a restart.
 *
 * Each host other than this machine must run this program, have the launcher's daemon, and connect back to this machine
 * at the address of the rendezvous; otherwise an MPI would wait for minutes and report little. Up to AT_ONCE hosts are
 * probed concurrently. On nodes of a Slurm job only the existence of this program is checked, with srun. */
#include <netdb.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/files.h"
#include "base/threads.h"
#include "cli/requeue.h"
#include "cluster/rendezvous/endpoints.h"
#include "launch/launch.h"

enum { AT_ONCE = 32, SSH_FAILED = 255, SSH_TRIES = 3 };
/* Exit codes of the probe's script. */
enum { NO_PROGRAM = 3, NO_CONNECTION = 4, NO_DAEMON = 5, NO_START = 6 };

enum lvn_status lvn_launch_add_remote_shell(struct lvn_words *words, const char *ssh, const char *host)
{
    char *text = lvn_arena_strdup(words->arena, ssh), *rest = NULL, *name = text ? strtok_r(text, " ", &rest) : NULL;
    const char *program = name ? lvn_process_find(words->arena, name) : NULL;
    LVN_CHECK(program, ARG, "'%s', which connects to other hosts, is not installed: apt install openssh-client", ssh);
    lvn_words_add(words, "%s", program);
    if (!strcmp(lvn_path_name(program), "ssh")) {
        lvn_words_add(words, "-oBatchMode=yes");
        lvn_words_add(words, "-oConnectTimeout=10");
    }
    while ((name = strtok_r(NULL, " ", &rest))) lvn_words_add(words, "%s", name);
    lvn_words_add(words, "%s", host);
    return LVN_OK;
}

struct probe {
    const struct lvn_launch *l;
    struct lvn_host *host;
    const char *script; /* for the remote shell */
    pthread_t thread;
    bool started; /* the thread runs and must be joined */
    int code;     /* of lvn_process_run(): the script's, -1 or -2 */
    struct lvn_text output;
};

/* The sshd of a jump host (ProxyJump) drops some of many connections that begin at the same time (MaxStartups). */
static bool was_dropped(struct lvn_text *output)
{
    const char *text = lvn_text_string(output);
    return text && strstr(text, "kex_exchange_identification");
}

static void *run_probe(void *argument)
{
    static const char *const step[] = {"--nodes=1",     "--ntasks=1", "--overlap",     "--mpi=none",
                                       "--immediate=5", "--quiet",    "/usr/bin/test", "-x"};
    struct probe *probe = argument;
    const double MIN = 5, MAX = 20, LOGIN = 60; /* seconds */
    LVN_LOCAL_ARENA(arena);
    struct lvn_words words = {.arena = &arena};
    if (probe->l->resources.in_slurm) {
        const char *srun = lvn_process_find(&arena, "srun");
        lvn_words_add(&words, "%s", srun ? srun : "srun");
        lvn_words_add(&words, "--nodelist=%s", probe->host->name);
        for (int i = 0; i < (int)(sizeof step / sizeof *step); i++) lvn_words_add(&words, "%s", step[i]);
        lvn_words_add(&words, "%s", probe->l->self);
    } else {
        if (lvn_launch_add_remote_shell(&words, probe->l->resources.ssh, probe->host->name)) words.failed = true;
        lvn_words_add(&words, "%s", probe->script);
    }
    /* ssh reports a host that does not respond, but srun waits for it: it gets the time after which a run would report
     * the host as lost. */
    double max = !probe->l->resources.in_slurm          ? LOGIN
                 : probe->l->request.rank_timeout > MAX ? MAX
                 : probe->l->request.rank_timeout < MIN ? MIN
                                                        : probe->l->request.rank_timeout;
    probe->code = words.failed                   ? -1
                  : probe->l->resources.in_slurm ? lvn_slurm_run(words.word, max, &probe->output)
                                                 : lvn_process_run(words.word, max, &probe->output);
    for (int tries = 1; probe->code == SSH_FAILED && tries < SSH_TRIES && was_dropped(&probe->output); tries++) {
        sleep((unsigned)tries);
        lvn_text_clear(&probe->output);
        probe->code = lvn_process_run(words.word, max, &probe->output);
    }
    return NULL;
}

/* ARG, with what to do, if the probe failed. The last line of its output is part of the message. */
static enum lvn_status check_result(struct probe *probe)
{
    const struct lvn_launch *l = probe->l;
    const struct lvn_host *host = probe->host;
    const char *output = lvn_text_string(&probe->output), *path = l->resources.hosts_path;
    const char *kind = host->ranks ? "host" : "spare host";
    const char *end = output ? output + strlen(output) : "", *last = end;
    char address[64], network[64];
    if (probe->code == 0) return LVN_OK;
    while (end > output && (end[-1] == '\n' || end[-1] == '\r')) end--;
    for (last = end; last > output && last[-1] != '\n';) last--;
    LVN_CHECK(probe->code != NO_PROGRAM, ARG,
              "%s:%d: the %s '%s' has no '%s'; install levin there under the same path, or share the folder", path,
              host->line, kind, host->name, l->self);
    LVN_CHECK(probe->code != NO_DAEMON, ARG,
              "%s:%d: the %s '%s' has no %s (no '%s'); install it there too, or use --trainer.transport=tcp", path,
              host->line, kind, host->name, l->launcher.title, lvn_launch_daemon(l));
    LVN_CHECK(probe->code != NO_START, ARG,
              "%s:%d: '%s' does not run on the %s '%s' (%.*s); install the same version there, or share the folder",
              path, host->line, l->self, kind, host->name, (int)(end - last), last);
    if (probe->code == NO_CONNECTION) {
        LVN_TRY(lvn_launch_address(l, address, network));
        LVN_FAIL(ARG,
                 "%s:%d: the %s '%s' cannot connect back to this one at %s: ranks connect in both directions and at "
                 "any port; check that no firewall separates the hosts",
                 path, host->line, kind, host->name, address);
    }
    LVN_CHECK(probe->code != -2, ARG,
              "%s:%d: the %s '%s' does not respond; check that it is up, or remove it from the file", path, host->line,
              kind, host->name);
    LVN_FAIL(ARG, "%s:%d: the %s '%s' cannot be reached with %s without a password (%.*s); try `%s %s true`", path,
             host->line, kind, host->name, lvn_path_name(l->resources.ssh), (int)(end - last), last,
             lvn_path_name(l->resources.ssh), host->name);
}

/* Listen on a port of this machine, at the address of the rendezvous; `place`: "address:port". */
static enum lvn_status open_listener(const struct lvn_launch *l, int *listener, char place[100])
{
    char address[64], network[64], port[16];
    struct sockaddr_storage bound = {0};
    socklen_t length = sizeof bound;
    LVN_TRY(lvn_launch_address(l, address, network));
    LVN_TRY(lvn_listen(address, 0, listener));
    LVN_CHECK(!getsockname(*listener, (struct sockaddr *)&bound, &length) &&
                  !getnameinfo((struct sockaddr *)&bound, length, NULL, 0, port, sizeof port, NI_NUMERICSERV),
              IO, "cannot determine the port at '%s'", address);
    snprintf(place, 100, strchr(address, ':') ? "[%s]:%s" : "%s:%s", address, port);
    return LVN_OK;
}

/* The command that probes a host: this program, the launcher's daemon, the connection to `place`. The login shell there
 * may be csh or fish. NULL: out of memory. */
static const char *probe_script(const struct lvn_launch *l, const char *place)
{
    const char *path = lvn_launch_daemon(l), *daemon = path ? lvn_word_quoted(l->arena, path) : "";
    const char *self = lvn_word_quoted(l->arena, l->self);
    const char *check = path ? lvn_arena_printf(l->arena, "test -x %s || exit %d; ", daemon, NO_DAEMON) : "";
    if (!self || !daemon || !check) return NULL;
    const char *script =
        lvn_arena_printf(l->arena,
                         "test -x %s || exit %d; %s%s ranks --check-connection='%s'; case $? in 0) ;; "
                         "%d) exit %d ;; *) exit %d ;; esac",
                         self, NO_PROGRAM, check, self, place, LVN_EXIT_FAULT, NO_CONNECTION, NO_START);
    const char *word = script ? lvn_word_quoted(l->arena, script) : NULL;
    return word ? lvn_arena_printf(l->arena, "exec sh -c %s", word) : NULL;
}

/* Probe each host other than this machine. record: store the result in the host; else fail at the first bad one. */
static enum lvn_status probe_all(struct lvn_launch *l, bool record)
{
    struct lvn_host *hosts = l->resources.hosts;
    const int n = l->resources.n_hosts;
    char place[100] = "";
    int listener = -1, others = 0;
    for (int i = 0; i < n; i++) others += !hosts[i].here;
    if (!others) return LVN_OK;
    struct lvn_words remote_shell = {.arena = l->arena}; /* fails early, and once, if ssh is missing */
    struct probe *probes = lvn_arena_alloc(l->arena, sizeof *probes * (size_t)n);
    enum lvn_status status = probes ? LVN_OK : LVN_MEMORY;
    if (!status && !l->resources.in_slurm) status = open_listener(l, &listener, place);
    const char *script = status ? NULL : probe_script(l, place);
    if (!status && !script) status = LVN_MEMORY;
    if (!status && !l->resources.in_slurm) status = lvn_launch_add_remote_shell(&remote_shell, l->resources.ssh, "");
    for (int first = 0; first < n && !status; first += AT_ONCE) {
        int end = first + AT_ONCE < n ? first + AT_ONCE : n;
        for (int i = first; i < end; i++) {
            if (hosts[i].here) continue;
            probes[i] = (struct probe){.l = l, .host = &hosts[i], .script = script, .code = -1};
            probes[i].started = !lvn_thread_start(&probes[i].thread, run_probe, &probes[i]);
        }
        for (int i = first; i < end; i++) {
            struct probe *probe = &probes[i];
            if (!probe->started) continue;
            pthread_join(probe->thread, NULL);
            if (record) hosts[i].down = probe->code != 0;
            if (record) hosts[i].no_route_back = probe->code == NO_CONNECTION;
            if (!record && !status) status = check_result(probe);
            lvn_text_release(&probe->output);
        }
    }
    if (listener >= 0) close(listener);
    return status;
}

enum lvn_status lvn_launch_check_hosts(struct lvn_launch *l)
{
    return probe_all(l, false);
}

void lvn_launch_probe(struct lvn_launch *l)
{
    enum lvn_status status = LVN_OK;
    if (!l->place.on) status = probe_all(l, true);
    if (l->nodes) status = lvn_launch_nodes_gather(l);
    if (status) lvn_error_clear(); /* hosts that were not probed keep their state */
}
