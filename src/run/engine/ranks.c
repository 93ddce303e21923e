/* ranks.c - see ranks.h. */
#include "engine/ranks.h"

#include <sched.h>
#include <time.h>

#include "base/arena.h"
#include "base/getenv.h"
#include "base/list.h"
#include "base/log.h"
#include "base/random.h"
#include "base/text.h"
#include "base/threads.h"
#include "cluster/identity/environment.h"
#include "cluster/identity/launcher_exit.h"
#include "cluster/rendezvous/mesh.h"
#include "comm/mpi_start.h"
#include "host/isa.h"
#include "host/machine.h"

/* --- joining --- */

/* Sent by each rank to all others after joining. */
struct peer {
    char host[LVN_HOST_TEXT];
    uint64_t cpus; /* hash of the set of allowed CPUs; 0: unknown */
};

static uint64_t hash_of_cpus(void)
{
    cpu_set_t set[4]; /* of 4,096 CPUs: a set that is too small is an error */
    char text[2 * sizeof set + 1];
    memset(set, 0, sizeof set);
    if (sched_getaffinity(0, sizeof set, set) != 0) return 0;
    lvn_hex_text(set, sizeof set, text);
    return lvn_name_hash(text);
}

/* Exchange hosts and CPUs: sets host, local_rank, local_size and cpu_sharers. */
static enum lvn_status exchange_peers(struct lvn_ranks *r)
{
    struct peer *peers = lvn_calloc((size_t)r->size, sizeof *peers);
    if (!peers) return LVN_MEMORY;
    struct peer *mine = &peers[r->rank];
    snprintf(mine->host, sizeof mine->host, "%.*s", LVN_HOST_TEXT - 1, r->identity.host);
    mine->cpus = hash_of_cpus();
    /* A gather: a sum in which all summands but one are 0. */
    const int64_t n = r->size * (int64_t)(sizeof *peers / sizeof(int64_t));
    enum lvn_status status = lvn_comm_all_reduce_now(r->comm, peers, n, LVN_I64, LVN_SUM);
    for (int i = 0; i < r->size && status == LVN_OK; i++) {
        memcpy(r->host[i], peers[i].host, sizeof r->host[i]);
        if (strcmp(peers[i].host, mine->host) != 0) continue;
        r->local_size++;
        r->local_rank += i < r->rank;
        r->cpu_sharers += i == r->rank || (mine->cpus && peers[i].cpus == mine->cpus);
    }
    free(peers);
    return status;
}

/* Count the hosts. If each has the same number of consecutive ranks, sums may be hierarchical. */
static enum lvn_status set_hosts(struct lvn_ranks *r)
{
    const char **name = lvn_malloc(sizeof *name * (size_t)r->size);
    if (!name) return LVN_MEMORY;
    for (int i = 0; i < r->size; i++) name[i] = r->host[i];
    qsort(name, (size_t)r->size, sizeof *name, lvn_by_text);
    for (int i = 0; i < r->size; i++) r->hosts += i == 0 || strcmp(name[i], name[i - 1]) != 0;
    free(name);
    const int each = r->size / r->hosts;
    bool evenly_divided = r->size % r->hosts == 0;
    for (int i = 0; i < r->size && evenly_divided; i++)
        evenly_divided = strcmp(r->host[i], r->host[i / each * each]) == 0;
    return evenly_divided && r->hosts > 1 ? lvn_comm_set_hosts(r->comm, r->hosts) : LVN_OK;
}

/* Make all ranks use the same instruction set, because the bits of a step must not depend on the rank that computes it.
 */
static enum lvn_status agree_on_instructions(struct lvn_ranks *r)
{
    int32_t isa = lvn_isa_best();
    LVN_TRY(lvn_comm_all_reduce_now(r->comm, &isa, 1, LVN_I32, LVN_MIN));
    lvn_isa_limit((enum lvn_isa)isa);
    return LVN_OK;
}

/* Seconds to wait for ranks that MPI has just connected; a launcher needs some seconds to end those that failed. */
static double short_timeout(const struct lvn_ranks *r)
{
    const double min = 10;
    return r->join_timeout > min ? r->join_timeout : min;
}

/* Heartbeats do not run yet, so the wait has a timeout. The buffer may be written after the timeout and is therefore
 * never freed; this process is about to exit. */
static enum lvn_status broadcast(void *context, void *x, int64_t bytes)
{
    struct lvn_ranks *r = context;
    struct late {
        struct lvn_request request;
        char x[];
    } *late = lvn_calloc(1, sizeof *late + (size_t)bytes);
    if (!late) return LVN_MEMORY;
    memcpy(late->x, x, (size_t)bytes);
    lvn_comm_broadcast(r->comm, &late->request, late->x, bytes, 0);
    double seconds = short_timeout(r);
    if (!lvn_comm_wait_for(r->comm, &late->request, seconds)) {
        r->lost = true;
        LVN_FAIL(COMM, "rank %d of %d: rank 0 did not send the rendezvous address within %g s", r->rank, r->size,
                 seconds);
    }
    enum lvn_status status = lvn_comm_wait(r->comm, &late->request);
    memcpy(x, late->x, (size_t)bytes);
    free(late);
    return status;
}

enum lvn_status lvn_ranks_transport(const struct lvn_identity *identity, const struct lvn_values *v,
                                    const struct lvn_comm_kind **kind)
{
    const char *library = v->trainer.mpi_library; /* NULL: options were not read, which also holds for the next one */
    const struct lvn_comm_kind *requested = v->trainer.transport ? lvn_comm_kind_find(v->trainer.transport) : NULL;
    const bool no_mpi = identity->without_mpi && !(library && *library);
    *kind = lvn_comm_kind_by_connection(LVN_NOT_CONNECTED);
    if (identity->size == 1) return LVN_OK;
    *kind = requested ? requested
                      : lvn_comm_kind_by_connection(no_mpi ? LVN_CONNECTED_BY_SOCKETS : LVN_CONNECTED_BY_LAUNCHER);
    LVN_CHECK(!requested || requested->connection != LVN_CONNECTED_BY_LAUNCHER || !no_mpi, ARG,
              "trainer.transport is %s, and this is rank %d of %d of %s (%s, %s): %s", requested->name, identity->rank,
              identity->size, identity->title, identity->rank_from, identity->size_from, identity->without_mpi);
    return LVN_OK;
}

/* A library is a program, so none is loaded because the settings of a run, perhaps another user's, name it. */
static enum lvn_status check_library(const struct lvn_values *v)
{
    char text[LVN_VALUE_TEXT];
    if (!v->foreign_library) return LVN_OK;
    const char *key = lvn_option_by_id(v->foreign_library)->key, *value = lvn_value_text(v, v->foreign_library, text);
    LVN_FAIL(ARG,
             "%s, '%s', comes from the settings of a run, which may be another user's, and a library is loaded "
             "only if you name it yourself; give --%s=%s, or an empty value for the default library",
             key, value, key, value);
}

/* Open communicator and heartbeat. levin's own connections need the rendezvous for both. If a levin launch runs a
 * rendezvous server, heartbeats start before MPI does: a rank that dies or stops meanwhile is named, and MPI may need
 * any time. Otherwise MPI starts first and broadcasts the address of the rendezvous. */
static enum lvn_status connect(struct lvn_ranks *r, const struct lvn_values *v, lvn_fault_callback *fault)
{
    const struct lvn_comm_kind *kind;
    LVN_TRY(lvn_ranks_transport(&r->identity, v, &kind));
    if (r->size > 1) LVN_TRY(check_library(v));
    const bool by_sockets = kind->connection == LVN_CONNECTED_BY_SOCKETS;
    const bool heartbeat_first = !by_sockets && lvn_getenv("LEVIN_RENDEZVOUS") && r->size > 1;
    r->join_timeout = v->trainer.rank_timeout;
    if (heartbeat_first) r->join_timeout = v->trainer.start_timeout;
    const struct lvn_comm_options comm = {.rank = r->rank,
                                          .size = r->size,
                                          .kind = kind,
                                          .library = v->trainer.mpi_library,
                                          .launcher = r->identity.launcher,
                                          .timeout = r->join_timeout};
    struct lvn_member_options member = {.id = &r->identity,
                                        .join_timeout = v->trainer.start_timeout,
                                        .timeout = v->trainer.rank_timeout,
                                        .stall_timeout = v->trainer.stall_timeout,
                                        .fault = fault,
                                        .fault_context = r};
    if (by_sockets) return lvn_mesh_open(&r->comm, &r->member, comm, member, short_timeout(r));
    member.broadcast = broadcast;
    member.broadcast_context = r;
    if (heartbeat_first) {
        LVN_TRY(lvn_member_open(&r->member, &member));
        return lvn_comm_open(&r->comm, &comm);
    }
    LVN_TRY(lvn_comm_open(&r->comm, &comm));
    member.join_timeout = short_timeout(r);
    return lvn_member_open(&r->member, &member);
}

static enum lvn_status join(struct lvn_ranks *r, const struct lvn_values *v, lvn_fault_callback *fault)
{
    LVN_TRY(lvn_identity_find(&r->identity));
    if (r->identity.size == 1 && r->identity.ignored[0])
        lvn_log(LVN_LOG_WARN, "a run of one rank: %s", r->identity.ignored);
    if (*r->identity.unconnected) lvn_log(LVN_LOG_WARN, "a run of one rank: %s", r->identity.unconnected);
    r->rank = r->identity.rank;
    r->size = r->identity.size;
    r->host = lvn_calloc((size_t)r->size, sizeof *r->host);
    if (!r->host) return LVN_MEMORY;
    enum lvn_status status = connect(r, v, fault);
    /* If a rank of this host is stopped (SIGSTOP), report it as the reason why the start hangs. */
    if (status && !r->member) lvn_local_ranks_stopped(&r->identity, &r->stopped);
    if (status && r->stopped.n) {
        lvn_error_clear();
        LVN_FAIL(COMM, "rank %d on %s (pid %d) is stopped, and the other ranks wait for it at startup", r->stopped.rank,
                 r->identity.host, r->stopped.pid);
    }
    LVN_TRY(status);
    LVN_TRY(exchange_peers(r));
    LVN_TRY(set_hosts(r));
    return agree_on_instructions(r);
}

enum lvn_status lvn_ranks_over(struct lvn_ranks **out, const struct lvn_identity *identity, struct lvn_comm *comm,
                               struct lvn_member *member)
{
    struct lvn_ranks *r = *out = lvn_calloc(1, sizeof *r);
    if (!r) return LVN_MEMORY;
    *r = (struct lvn_ranks){.rank = lvn_comm_rank(comm), .size = lvn_comm_size(comm), .comm = comm, .member = member};
    pthread_mutex_init(&r->close_lock, NULL);
    r->identity = *identity;
    r->external = true;
    r->host = lvn_calloc((size_t)r->size, sizeof *r->host);
    if (!r->host) return LVN_MEMORY;
    LVN_TRY(exchange_peers(r));
    LVN_TRY(set_hosts(r));
    return agree_on_instructions(r);
}

void lvn_ranks_close(struct lvn_ranks *r)
{
    if (!r) return;
    if (!r->lost && !r->external) { /* other ranks may have exited, and closing would wait for them */
        pthread_mutex_lock(&r->close_lock);
        struct lvn_comm *comm = r->comm;
        r->comm = NULL;
        pthread_mutex_unlock(&r->close_lock);
        lvn_comm_close(
            comm); /* close it first, while heartbeats can still report a rank that is lost in MPI_Finalize */
        lvn_member_close(r->member);
    }
    pthread_mutex_destroy(&r->close_lock);
    free(r->host);
    free(r);
}

void lvn_ranks_abort(struct lvn_ranks *r, int code)
{
    const double timeout = 1;
    struct lvn_environment s;
    if (!r || lvn_getenv("LEVIN_RENDEZVOUS")) return;
    lvn_environment_read(&s);
    lvn_launcher_end_soon(lvn_launcher_pid(&s, r->identity.launcher));
    pthread_mutex_lock(&r->close_lock);
    if (r->comm && !r->external) lvn_comm_abort(r->comm, code, timeout);
    pthread_mutex_unlock(&r->close_lock);
}

static void sleep_for(double seconds)
{
    const struct timespec t = {.tv_sec = (time_t)seconds, .tv_nsec = (long)(1e9 * (seconds - (double)(time_t)seconds))};
    nanosleep(&t, NULL);
}

/* Should this rank, which could not join, print the error? Most likely no rank could join. Then one rank should print
 * and exit, after which its launcher ends the others, which wait here, because a launcher ends all ranks once one has
 * failed, and the reporter must print before that. The reporter is the lowest rank that sees a stopped rank on its
 * host, otherwise rank 0. A rank that still runs some seconds later prints too: one process per host if a launcher
 * manages them, otherwise each, since it cannot know of others. */
static bool reports_failed_join(const struct lvn_ranks *r)
{
    const double rank_0_delay = 1, timeout = 3;
    if (lvn_comm_crashed()) return true;                      /* only this process can report it */
    bool lowest = r->identity.local_rank <= r->stopped.below; /* lower ranks of this host are stopped */
    if (!lvn_is_reporter()) {                                 /* another process was made the reporter */
        sleep_for(timeout);
        return false;
    }
    if (r->stopped.n && lowest) return true;
    if (r->rank == 0 && (r->comm || r->identity.first)) { /* several processes may consider themselves rank 0 */
        if (!r->comm && r->identity.local_size != r->size) sleep_for(rank_0_delay);
        return true;
    }
    sleep_for(timeout);
    if (!r->identity.launched) return true;     /* no launcher ends it */
    return r->size && (r->rank == 0 || lowest); /* size 0: its identity could not be determined */
}

bool lvn_ranks_report_end(struct lvn_ranks *r, enum lvn_status status)
{
    const double reporter_seconds = 1.5;
    if (!r || r->size == 1) return lvn_is_reporter();
    if (status == LVN_OK || r->agreed) return r->rank == 0;
    if (!r->member) return reports_failed_join(r);
    r->lost = true;
    lvn_member_fail(r->member, status == LVN_COMM);
    if (!lvn_is_reporter()) sleep_for(reporter_seconds); /* until the reporter has printed */
    return lvn_is_reporter();
}

const char *lvn_ranks_name(const struct lvn_ranks *r, int rank, char text[LVN_RANK_TEXT])
{
    snprintf(text, LVN_RANK_TEXT, "rank %d on %s", rank, r->host[rank]);
    return text;
}

int lvn_ranks_threads(const struct lvn_ranks *r, int64_t given)
{
    if (given || !r || r->cpu_sharers <= 1) return (int)given;
    struct lvn_machine m;
    lvn_machine_read(&m);
    if (m.requested > 0) return 0;
    const int all = m.threads;
    return all > r->cpu_sharers ? all / r->cpu_sharers : 1;
}

/* --- collectives --- */

/* An error record as a message. */
struct record {
    int32_t status;
    char text[1536];
    char trace[1024];
};

static void write_record(struct record *m, enum lvn_status status)
{
    m->status = (int32_t)status;
    snprintf(m->text, sizeof m->text, "%s", *levin_error_text() ? levin_error_text() : lvn_status_text(status));
    snprintf(m->trace, sizeof m->trace, "%s", levin_error_trace());
}

/* Prefix the rank's name if not all ranks failed. */
static void sign_record(struct record *m, const struct lvn_ranks *r)
{
    char name[LVN_RANK_TEXT], text[sizeof m->text];
    snprintf(text, sizeof text, "%s", m->text);
    snprintf(m->text, sizeof m->text, "%s: %.1400s", lvn_ranks_name(r, r->rank, name), text);
}

static enum lvn_status read_record(struct record *m)
{
    enum lvn_status status = lvn_fail((enum lvn_status)m->status, "%s", m->text);
    for (char *line = m->trace, *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        status = lvn_while_at(status, "%s", strncmp(line, "while ", 6) ? line : line + 6);
    }
    return status;
}

enum lvn_status lvn_ranks_open(struct lvn_ranks **out, const struct lvn_values *v, lvn_fault_callback *fault,
                               enum lvn_status so_far)
{
    struct record earlier = {.status = (int32_t)so_far};
    struct lvn_ranks *r = *out = lvn_calloc(1, sizeof *r);
    if (!r) return LVN_MEMORY;
    pthread_mutex_init(&r->close_lock, NULL);
    if (so_far != LVN_OK) write_record(&earlier, so_far); /* joining may replace the error record */
    LVN_TRY(join(r, v, fault));
    return lvn_ranks_agree(r, so_far == LVN_OK ? LVN_OK : read_record(&earlier));
}

enum lvn_status lvn_ranks_agree(struct lvn_ranks *r, enum lvn_status mine)
{
    if (!r || r->size == 1) return mine;
    const int none = 2 * r->size, follows = mine != LVN_OK && lvn_comm_is_consequence() ? r->size : 0;
    int32_t lowest = mine == LVN_OK ? none : r->rank + follows, highest = mine == LVN_OK;
    /* minima: the lowest rank that failed, first those whose failure is no consequence; and whether any rank did not */
    int32_t found[2] = {lowest, -highest};
    struct record m = {0};
    lvn_member_set_operation(r->member, "an agreement");
    LVN_TRY(lvn_comm_all_reduce_now(r->comm, found, 2, LVN_I32, LVN_MIN));
    if (found[0] == none) {
        lvn_member_set_operation(r->member, NULL);
        return LVN_OK;
    }
    const int reporter = found[0] % r->size;
    if (reporter == r->rank) write_record(&m, mine);
    if (reporter == r->rank && found[1] < 0) sign_record(&m, r);
    LVN_TRY(lvn_comm_broadcast_now(r->comm, &m, (int64_t)sizeof m, reporter));
    lvn_member_set_operation(r->member, NULL);
    r->agreed = true;
    return read_record(&m);
}

enum lvn_status lvn_ranks_sum(struct lvn_ranks *r, double *x, int64_t n)
{
    if (!r || r->size == 1) return LVN_OK;
    lvn_member_set_operation(r->member, "a sum over ranks");
    LVN_TRY(lvn_comm_all_reduce_now(r->comm, x, n, LVN_F64, LVN_SUM));
    lvn_member_set_operation(r->member, NULL);
    return LVN_OK;
}

enum lvn_status lvn_ranks_broadcast(struct lvn_ranks *r, void *x, int64_t bytes)
{
    if (r->size == 1) return LVN_OK;
    lvn_member_set_operation(r->member, "a broadcast");
    LVN_TRY(lvn_comm_broadcast_now(r->comm, x, bytes, 0));
    lvn_member_set_operation(r->member, NULL);
    return LVN_OK;
}

enum lvn_status lvn_ranks_broadcast_text(struct lvn_ranks *r, char **text, int64_t *bytes)
{
    LVN_TRY(lvn_ranks_broadcast(r, bytes, (int64_t)sizeof *bytes));
    if (r->rank) *text = lvn_malloc((size_t)*bytes + 1);
    LVN_TRY(lvn_ranks_agree(r, *text ? LVN_OK : LVN_MEMORY));
    if (r->rank) (*text)[*bytes] = '\0';
    return *bytes ? lvn_ranks_broadcast(r, *text, *bytes) : LVN_OK;
}

enum lvn_status lvn_ranks_broadcast_memory(struct lvn_ranks *r, struct lvn_memory *m, int64_t offset, int64_t bytes)
{
    const int64_t chunk = m->host ? bytes : (int64_t)16 << 20; /* device memory is copied to the host */
    enum lvn_status status = LVN_OK;
    for (int64_t i = 0; i < bytes && r->size > 1 && status == LVN_OK; i += chunk) {
        struct lvn_window w;
        status = lvn_window_open(&w, m, offset + i, bytes - i < chunk ? bytes - i : chunk, r->rank == 0);
        if (!m->host) status = lvn_ranks_agree(r, status);
        if (status == LVN_OK) status = lvn_ranks_broadcast(r, w.p, w.bytes);
        enum lvn_status closed = lvn_window_close(&w, status == LVN_OK && r->rank);
        if (status == LVN_OK) status = closed;
    }
    return status;
}
