/* ranks.c - see ranks.h. */
#include "engine/ranks.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/arena.h"
#include "base/getenv.h"
#include "base/log.h"
#include "base/random.h"
#include "base/sort.h"
#include "base/text.h"
#include "base/threads.h"
#include "cluster/identity/launcher_exit.h"
#include "cluster/rendezvous/mesh.h"
#include "host/isa.h"
#include "host/machine.h"

/* --- joining --- */

/* What each rank tells of itself when they meet. */
struct card {
    char host[LVN_HOST_TEXT];
    uint64_t cpus; /* a number that equal sets of allowed CPUs share */
};

static uint64_t hash_of_cpus(void)
{
    cpu_set_t set;
    char text[2 * sizeof set + 1];
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) != 0) return 0;
    lvn_hex_text(&set, sizeof set, text);
    return lvn_name_hash(text);
}

/* One gather: as a sum of numbers of which all but one are 0. */
static enum lvn_status exchange_cards(struct lvn_ranks *r, struct card *cards)
{
    struct card *mine = &cards[r->rank];
    snprintf(mine->host, sizeof mine->host, "%.*s", LVN_HOST_TEXT - 1, r->identity.host);
    mine->cpus = hash_of_cpus();
    return lvn_comm_all_reduce_now(r->comm, cards, r->size * (int64_t)(sizeof *cards / sizeof(int64_t)), LVN_I64,
                                   LVN_SUM);
}

/* How many hosts there are. */
static enum lvn_status count_hosts(struct lvn_ranks *r)
{
    const char **name = lvn_malloc(sizeof *name * (size_t)r->size);
    if (!name) return LVN_MEMORY;
    for (int i = 0; i < r->size; i++) name[i] = r->host[i];
    qsort(name, (size_t)r->size, sizeof *name, lvn_by_text);
    for (int i = 0; i < r->size; i++) r->hosts += i == 0 || strcmp(name[i], name[i - 1]) != 0;
    free(name);
    return LVN_OK;
}

/* Sums may go by hosts where these have as many ranks as each other, side by side. */
static enum lvn_status tell_hosts(struct lvn_ranks *r)
{
    const int each = r->size / r->hosts;
    bool alike = r->size % r->hosts == 0;
    for (int i = 0; i < r->size && alike; i++) alike = strcmp(r->host[i], r->host[i / each * each]) == 0;
    return alike && r->hosts > 1 ? lvn_comm_set_hosts(r->comm, r->hosts) : LVN_OK;
}

static void find_neighbours(struct lvn_ranks *r, const struct card *cards)
{
    for (int i = 0; i < r->size; i++) {
        memcpy(r->host[i], cards[i].host, sizeof r->host[i]);
        if (strcmp(cards[i].host, cards[r->rank].host) != 0) continue;
        r->local_size++;
        r->local_rank += i < r->rank;
        r->cpu_sharers += cards[i].cpus == cards[r->rank].cpus;
    }
}

static enum lvn_status meet(struct lvn_ranks *r)
{
    struct card *cards = lvn_calloc((size_t)r->size, sizeof *cards);
    enum lvn_status status = cards ? exchange_cards(r, cards) : LVN_MEMORY;
    if (status == LVN_OK) find_neighbours(r, cards);
    free(cards);
    if (status == LVN_OK) status = count_hosts(r);
    return status == LVN_OK ? tell_hosts(r) : status;
}

/* The same arithmetic everywhere: the bits of a step must not depend on who computes it. */
static enum lvn_status agree_on_instructions(struct lvn_ranks *r)
{
    int32_t isa = lvn_isa_best();
    LVN_TRY(lvn_comm_all_reduce_now(r->comm, &isa, 1, LVN_I32, LVN_MIN));
    lvn_isa_limit((enum lvn_isa)isa);
    return LVN_OK;
}

/* How long to wait for those whom MPI has brought together a moment ago; a launcher that ends them takes some seconds.
 */
static double soon(const struct lvn_ranks *r)
{
    const double min = 10;
    return r->join_timeout > min ? r->join_timeout : min;
}

/* The heartbeat does not watch yet. What may still arrive after the patience is over lies in memory that is never given
 * back: this process is about to end. */
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
    double seconds = soon(r);
    if (!lvn_comm_wait_for(r->comm, &late->request, seconds)) {
        r->lost = true;
        LVN_FAIL(COMM, "rank %d of %d: rank 0 has not said within %g s where the ranks meet", r->rank, r->size,
                 seconds);
    }
    enum lvn_status status = lvn_comm_wait(r->comm, &late->request);
    memcpy(x, late->x, (size_t)bytes);
    free(late);
    return status;
}

static struct lvn_comm_options comm_options(const struct lvn_ranks *r, const struct lvn_settings *s)
{
    return (struct lvn_comm_options){.rank = r->rank,
                                     .size = r->size,
                                     .library = s->trainer.mpi_library,
                                     .launcher = r->identity.launcher,
                                     .timeout = r->join_timeout};
}

static enum lvn_status open_comm(struct lvn_ranks *r, const struct lvn_settings *s)
{
    const struct lvn_comm_options o = comm_options(r, s);
    return lvn_comm_open(&r->comm, &o);
}

static struct lvn_member_options heart_options(struct lvn_ranks *r, const struct lvn_settings *s,
                                               lvn_fault_callback *fault)
{
    return (struct lvn_member_options){.id = &r->identity,
                                       .timeout = s->trainer.rank_timeout,
                                       .stall_timeout = s->trainer.stall_timeout,
                                       .join_timeout = r->comm ? soon(r) : 0,
                                       .fault = fault,
                                       .fault_context = r};
}

/* MPI tells where to meet. */
static enum lvn_status open_heart(struct lvn_ranks *r, const struct lvn_settings *s, lvn_fault_callback *fault)
{
    struct lvn_member_options h = heart_options(r, s, fault);
    h.broadcast = broadcast;
    h.broadcast_context = r;
    return lvn_member_open(&r->member, &h);
}

enum lvn_status lvn_ranks_transport(const struct lvn_identity *who, const struct lvn_settings *s, bool *tcp)
{
    const int64_t wanted = s->trainer.transport;
    const char *library = s->trainer.mpi_library; /* NULL: settings that nobody read */
    const bool bare = who->without_mpi && !(library && *library);
    *tcp = who->size > 1 && (wanted == LVN_TRAINER_TRANSPORT_TCP || (wanted == LVN_TRAINER_TRANSPORT_AUTO && bare));
    LVN_CHECK(who->size == 1 || wanted != LVN_TRAINER_TRANSPORT_MPI || !bare, ARG,
              "trainer.transport is mpi, and this is rank %d of %d of %s (%s, %s): %s", who->rank, who->size,
              who->title, who->rank_from, who->size_from, who->without_mpi);
    return LVN_OK;
}

/* Where levin launch has a place to meet, ranks meet before their MPI begins: who dies or stops meanwhile is named, and
 * MPIs may take their time. Elsewhere MPI tells where to meet. */
static enum lvn_status connect(struct lvn_ranks *r, const struct lvn_settings *s, lvn_fault_callback *fault)
{
    const char *place = lvn_getenv("LEVIN_RENDEZVOUS");
    bool tcp;
    LVN_TRY(lvn_ranks_transport(&r->identity, s, &tcp));
    r->join_timeout = s->trainer.rank_timeout;
    if (tcp) return lvn_mesh_open(&r->comm, &r->member, comm_options(r, s), heart_options(r, s, fault), soon(r));
    if (place && r->size > 1) {
        r->join_timeout = 2 * r->join_timeout > 60 ? 2 * r->join_timeout : 60;
        LVN_TRY(open_heart(r, s, fault));
        return open_comm(r, s);
    }
    LVN_TRY(open_comm(r, s));
    return open_heart(r, s, fault);
}

/* Who does not come may stand on this host for all to see. */
static enum lvn_status explain(const struct lvn_ranks *r, enum lvn_status status)
{
    if (!r->stopped.n) return status;
    lvn_error_clear();
    LVN_FAIL(COMM, "rank %d on %s (pid %d) is stopped, and the others wait for it at the start", r->stopped.rank,
             r->identity.host, r->stopped.pid);
}

static enum lvn_status join(struct lvn_ranks *r, const struct lvn_settings *s, lvn_fault_callback *fault)
{
    LVN_TRY(lvn_identity_find(&r->identity));
    if (r->identity.size == 1 && r->identity.ignored[0])
        lvn_log(LVN_LOG_WARN, "one process, and no ranks beside it: %s", r->identity.ignored);
    r->rank = r->identity.rank;
    r->size = r->identity.size;
    r->host = lvn_calloc((size_t)r->size, sizeof *r->host);
    if (!r->host) return LVN_MEMORY;
    enum lvn_status status = connect(r, s, fault);
    if (status && !r->member) lvn_local_ranks_stopped(&r->identity, &r->stopped);
    if (status) return explain(r, status);
    LVN_TRY(meet(r));
    return agree_on_instructions(r);
}

enum lvn_status lvn_ranks_over(struct lvn_ranks **out, const struct lvn_identity *who, struct lvn_comm *comm,
                               struct lvn_member *heart)
{
    struct lvn_ranks *r = *out = lvn_calloc(1, sizeof *r);
    if (!r) return LVN_MEMORY;
    *r = (struct lvn_ranks){.rank = lvn_comm_rank(comm), .size = lvn_comm_size(comm), .comm = comm, .member = heart};
    pthread_mutex_init(&r->close_lock, NULL);
    r->identity = *who;
    r->external = true;
    r->host = lvn_calloc((size_t)r->size, sizeof *r->host);
    if (!r->host) return LVN_MEMORY;
    LVN_TRY(meet(r));
    return agree_on_instructions(r);
}

void lvn_ranks_close(struct lvn_ranks *r)
{
    if (!r) return;
    if (!r->lost && !r->external) { /* else others may be gone, and nobody waits for them */
        pthread_mutex_lock(&r->close_lock);
        struct lvn_comm *comm = r->comm;
        r->comm = NULL;
        pthread_mutex_unlock(&r->close_lock);
        lvn_comm_close(comm); /* first: who is lost while all MPIs end is still named */
        lvn_member_close(r->member);
    }
    pthread_mutex_destroy(&r->close_lock);
    free(r->host);
    free(r);
}

void lvn_ranks_abort(struct lvn_ranks *r, int code)
{
    const double patience = 1;
    struct lvn_environment s;
    if (!r || lvn_getenv("LEVIN_RENDEZVOUS")) return;
    lvn_environment_read(&s);
    lvn_launcher_end_soon(lvn_launcher_pid(&s, r->identity.launcher));
    pthread_mutex_lock(&r->close_lock);
    if (r->comm && !r->external) lvn_comm_abort(r->comm, code, patience);
    pthread_mutex_unlock(&r->close_lock);
}

static void hold_on(double seconds)
{
    const struct timespec t = {.tv_sec = (time_t)seconds, .tv_nsec = (long)(1e9 * (seconds - (double)(time_t)seconds))};
    nanosleep(&t, NULL);
}

/* A rank that could not join. Most likely no rank could: then one says so and ends, and its launcher ends the others,
 * which wait: launchers kill all once one has failed, and that must not be the one that speaks before it has spoken.
 * First who sees a stopped rank beside itself, the lowest on its host; then rank 0. Who is still there a while later
 * speaks too: one process of a host where a launcher holds them together, else each, since nothing shows that there are
 * others. */
static bool speaks_late(const struct lvn_ranks *r)
{
    const double moment = 1, patience = 3;
    if (lvn_comm_crashed()) return true;                      /* here alone: no other rank can tell */
    bool lowest = r->identity.local_rank <= r->stopped.below; /* those below it on this host stand still */
    if (!lvn_is_reporter()) {                                 /* somebody else was asked to */
        hold_on(patience);
        return false;
    }
    if (r->stopped.n && lowest) return true;
    if (r->rank == 0 && (r->comm || r->identity.first)) { /* more than one may take itself for rank 0 */
        if (!r->comm && r->identity.local_size != r->size) hold_on(moment);
        return true;
    }
    hold_on(patience);
    if (!r->identity.launched) return true;     /* nobody ends it */
    return r->size && (r->rank == 0 || lowest); /* size 0: not even who it is could be found out */
}

bool lvn_ranks_is_reporter(struct lvn_ranks *r, enum lvn_status status)
{
    const double quiet = 1.5;
    if (!r || r->size == 1) return lvn_is_reporter();
    if (status == LVN_OK || r->agreed) return r->rank == 0;
    if (!r->member) return speaks_late(r);
    r->lost = true;
    lvn_member_fail(r->member, status == LVN_COMM);
    if (!lvn_is_reporter()) hold_on(quiet); /* until who speaks has spoken */
    return lvn_is_reporter();
}

const char *lvn_ranks_name(const struct lvn_ranks *r, int rank, char text[LVN_RANK_TEXT])
{
    snprintf(text, LVN_RANK_TEXT, "rank %d on %s", rank, r->host[rank]);
    return text;
}

int lvn_ranks_threads(const struct lvn_ranks *r, int64_t given)
{
    if (given || !r || r->cpu_sharers <= 1 || lvn_getenv("OMP_NUM_THREADS")) return (int)given;
    int all = lvn_threads_default();
    return all > r->cpu_sharers ? all / r->cpu_sharers : 1;
}

/* --- deciding --- */

/* An error record on its way to the others. */
struct record {
    int32_t status;
    char text[1536], trace[1024];
};

static void keep_record(struct record *m, enum lvn_status status)
{
    m->status = (int32_t)status;
    snprintf(m->text, sizeof m->text, "%s", *lvn_error_text() ? lvn_error_text() : lvn_status_text(status));
    snprintf(m->trace, sizeof m->trace, "%s", lvn_error_trace());
}

/* Whose record it is, where it is not everybody's. */
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

enum lvn_status lvn_ranks_open(struct lvn_ranks **out, const struct lvn_settings *s, lvn_fault_callback *fault,
                               enum lvn_status so_far)
{
    struct record kept = {.status = (int32_t)so_far};
    struct lvn_ranks *r = *out = lvn_calloc(1, sizeof *r);
    if (!r) return LVN_MEMORY;
    pthread_mutex_init(&r->close_lock, NULL);
    if (so_far != LVN_OK) keep_record(&kept, so_far); /* joining may record and forget troubles of its own */
    LVN_TRY(join(r, s, fault));
    return lvn_ranks_agree(r, so_far == LVN_OK ? LVN_OK : read_record(&kept));
}

enum lvn_status lvn_ranks_agree(struct lvn_ranks *r, enum lvn_status mine)
{
    if (r->size == 1) return mine;
    int32_t lowest = mine == LVN_OK ? r->size : r->rank, highest = mine == LVN_OK;
    int32_t found[2] = {lowest, -highest}; /* the minimum of both: who fails first, and whether anybody does not */
    struct record m = {0};
    lvn_member_set_operation(r->member, "an agreement");
    LVN_TRY(lvn_comm_all_reduce_now(r->comm, found, 2, LVN_I32, LVN_MIN));
    if (found[0] == r->size) {
        lvn_member_set_operation(r->member, NULL);
        return LVN_OK;
    }
    if (found[0] == r->rank) keep_record(&m, mine);
    if (found[0] == r->rank && found[1] < 0) sign_record(&m, r);
    LVN_TRY(lvn_comm_broadcast_now(r->comm, &m, (int64_t)sizeof m, found[0]));
    lvn_member_set_operation(r->member, NULL);
    r->agreed = true;
    return read_record(&m);
}

enum lvn_status lvn_ranks_sum(struct lvn_ranks *r, double *x, int64_t n)
{
    if (r->size == 1) return LVN_OK;
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

enum lvn_status lvn_ranks_broadcast_memory(struct lvn_ranks *r, struct lvn_memory *m, int64_t offset, int64_t bytes)
{
    const int64_t piece = m->host ? bytes : (int64_t)16 << 20; /* a copy is made of so much at once */
    enum lvn_status status = LVN_OK;
    for (int64_t i = 0; i < bytes && r->size > 1 && status == LVN_OK; i += piece) {
        struct lvn_window w;
        status = lvn_window_open(&w, m, offset + i, bytes - i < piece ? bytes - i : piece, r->rank == 0);
        if (!m->host) status = lvn_ranks_agree(r, status);
        if (status == LVN_OK) status = lvn_ranks_broadcast(r, w.p, w.bytes);
        enum lvn_status closed = lvn_window_close(&w, status == LVN_OK && r->rank);
        if (status == LVN_OK) status = closed;
    }
    return status;
}
