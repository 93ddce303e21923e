/* mpi.c - the transport over MPI, whichever this machine has, without its header.
 *
 * The library is opened at run time (mpi_find.c), its functions are looked up by name, its constants come from
 * mpi.def. Handles are ints in MPICH's interface and pointers in the others; both are stored in a word whose low
 * half is read as an int argument (x86-64 and 64-bit ARM, little-endian). Arrays of requests have the layout of the
 * interface.
 *
 * MPI_Init_thread and MPI_Finalize are the only calls that may block, and all calls are made by the engine's thread. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "comm/comm_kind.h"
#include "comm/engine.h"
#include "comm/mpi_find.h"
#include "comm/mpi_start.h"

typedef void *lvn_mpi; /* a handle of any binary interface */

struct mpi {
    struct lvn_mpi_library library;
    int handle_bytes;
    void *no_status, *in_place;
    int funneled;
#define LVN_MPI_CONSTANT(name, object, mpich, standard) lvn_mpi name;
#define LVN_MPI_FUNCTION(name, arguments) int(*name) arguments;
#include "comm/mpi.def"
#undef LVN_MPI_CONSTANT
#undef LVN_MPI_FUNCTION
    int64_t max_bytes;
    lvn_mpi long_element; /* a type of max_bytes bytes */
    bool finalize, linger, ucx;
    double patience; /* seconds to wait for the other ranks at the end */
    int rank;
};

static lvn_mpi handle_of(struct mpi *m, const char *object, uintptr_t mpich, uintptr_t standard)
{
    switch (m->library.abi) {
    case LVN_ABI_OPENMPI:
        return dlsym(m->library.handle, object);
    case LVN_ABI_MPICH:
        return (lvn_mpi)mpich;
    default:
        return (lvn_mpi)standard;
    }
}

static enum lvn_status bind_symbols(struct mpi *m)
{
    enum lvn_mpi_abi abi = m->library.abi;
    void *p;
    m->handle_bytes = abi == LVN_ABI_MPICH ? 4 : 8;
    m->no_status = abi == LVN_ABI_MPICH ? (void *)1 : NULL;
    m->in_place = abi == LVN_ABI_MPICH ? (void *)-1 : (void *)1;
    m->funneled = abi == LVN_ABI_STANDARD ? 1024 : 1;
#define LVN_MPI_CONSTANT(name, object, mpich, standard)                                                                \
    m->name = handle_of(m, object, mpich, standard);                                                                   \
    LVN_CHECK(m->name, UNSUPPORTED, "%s lacks %s: is it an MPI-3 library?", m->library.path, object);
#define LVN_MPI_FUNCTION(name, arguments)                                                                              \
    p = dlsym(m->library.handle, "MPI_" #name);                                                                        \
    LVN_CHECK(p, UNSUPPORTED, "%s lacks MPI_" #name ": an MPI of version 3 or later is needed", m->library.path);      \
    memcpy(&m->name, &p, sizeof p);
#include "comm/mpi.def"
#undef LVN_MPI_CONSTANT
#undef LVN_MPI_FUNCTION
    return LVN_OK;
}

/* "Open MPI 4.1.4" from a text that may be pages long. */
static void short_version(struct mpi *m, char *out, size_t bytes)
{
    static char text[9000]; /* the standard allows 8192 */
    int length = 0;
    if (m->Get_library_version(text, &length)) text[0] = '\0';
    const char *open = strstr(text, "Open MPI v"), *number = strstr(text, "MPICH Version:");
    char version[32] = "";
    m->ucx = strstr(text, "ucx") != NULL;
    if (open && sscanf(open, "Open MPI v%31[0-9a-zA-Z.]", version) == 1)
        snprintf(out, bytes, "Open MPI %s", version);
    else if (number && sscanf(number, "MPICH Version: %31s", version) == 1)
        snprintf(out, bytes, "MPICH %s", version);
    else
        snprintf(out, bytes, "%.*s", (int)strcspn(text, "\n\t,"), text);
}

/* --- messages and reductions --- */

static void clear(void *state, void *handle)
{
    struct mpi *m = state;
    memcpy(handle, &m->no_request, (size_t)m->handle_bytes); /* little-endian */
}

static void count_and_type(const struct mpi *m, int64_t bytes, int *count, lvn_mpi *type)
{
    bool whole = bytes && bytes % m->max_bytes == 0;
    *count = (int)(whole ? bytes / m->max_bytes : bytes);
    *type = whole ? m->long_element : m->byte;
}

static int send_bytes(void *state, const void *x, int64_t bytes, int to, int tag, void *handle)
{
    struct mpi *m = state;
    int count;
    lvn_mpi type;
    count_and_type(m, bytes, &count, &type);
    return m->Isend(x, count, type, to, tag, m->world, handle);
}

static int receive_bytes(void *state, void *x, int64_t bytes, int from, int tag, void *handle)
{
    struct mpi *m = state;
    int count;
    lvn_mpi type;
    count_and_type(m, bytes, &count, &type);
    return m->Irecv(x, count, type, from, tag, m->world, handle);
}

static lvn_mpi type_of(const struct mpi *m, enum lvn_dtype type)
{
    return type == LVN_F32 ? m->f32 : type == LVN_F64 ? m->f64 : type == LVN_I32 ? m->i32 : m->i64;
}

static lvn_mpi operation_of(const struct mpi *m, enum lvn_reduce op)
{
    return op == LVN_SUM ? m->sum : op == LVN_MIN ? m->min : m->max;
}

static int all_reduce(void *state, void *x, int64_t count, enum lvn_dtype type, enum lvn_reduce op, void *handle)
{
    struct mpi *m = state;
    return m->Iallreduce(m->in_place, x, (int)count, type_of(m, type), operation_of(m, op), m->world, handle);
}

static int all_reduce_blocking(void *state, void *x, int64_t count, enum lvn_dtype type, enum lvn_reduce op)
{
    struct mpi *m = state;
    return m->Allreduce(m->in_place, x, (int)count, type_of(m, type), operation_of(m, op), m->world);
}

static int broadcast(void *state, void *x, int64_t bytes, int root, void *handle)
{
    struct mpi *m = state;
    return m->Ibcast(x, (int)bytes, m->byte, root, m->world, handle);
}

static int test(void *state, void *handles, int n, int *n_done, int *done)
{
    struct mpi *m = state;
    int code = m->Testsome(n, handles, n_done, done, m->no_status);
    if (*n_done < 0) *n_done = 0; /* MPI_UNDEFINED: no request is active */
    return code;
}

static void poke(void *state)
{
    struct mpi *m = state;
    int flag;
    (void)m->Iprobe(m->rank, LVN_TAGS - 1, m->world, &flag, m->no_status);
}

static void error(void *state, int code, char *text, int bytes)
{
    struct mpi *m = state;
    char long_text[1024] = "";
    int length = 0;
    if (m->Error_string(code, long_text, &length)) snprintf(long_text, sizeof long_text, "error %d", code);
    snprintf(text, (size_t)bytes, "MPI says: %.200s", long_text);
}

static void abort_all(void *state, void *code)
{
    struct mpi *m = state;
    m->Abort(m->world, *(int *)code);
}

/* --- groups --- */

/* The colour is the group's first rank; ranks of no group are a group of their own, which is freed at once, because the
 * constant for them is another one in every interface. Blocks, but only for ranks that are about to make the same call.
 */
static enum lvn_status split(void *state, const struct lvn_group_split *s, void **group)
{
    struct mpi *all = state, *m = lvn_malloc(sizeof *m);
    int size = 0;
    lvn_mpi comm = NULL;
    (void)all->Comm_size(all->world, &size);
    int code = all->Comm_split(all->world, s->n ? s->member[0] : size, s->rank, &comm);
    if (m) *m = *all, m->world = comm, m->rank = s->rank;
    if (!code && m) code = m->Comm_set_errhandler(comm, m->errors_return);
    if (!code && m && s->n) {
        *group = m;
        return LVN_OK;
    }
    if (!code) (void)all->Comm_free(&comm);
    char reason[256] = "";
    if (code) error(all, code, reason, sizeof reason);
    const bool no_memory = !m;
    free(m);
    if (no_memory) return LVN_MEMORY;
    LVN_CHECK(!code, COMM, "%s", reason);
    return LVN_OK;
}

static void release_group(void *group)
{
    struct mpi *m = group;
    (void)m->Comm_free(&m->world);
    free(m);
}

/* --- start and end --- */

static void sleep_us(int microseconds)
{
    struct timespec t = {.tv_sec = microseconds / 1000000, .tv_nsec = microseconds % 1000000 * 1000L};
    nanosleep(&t, NULL);
}

/* A small all-reduce, polled; false: it failed, or took longer than `seconds` (0: no limit). */
static bool agree(struct mpi *m, void *x, int count, enum lvn_dtype type, enum lvn_reduce op, double seconds)
{
    void *handle = NULL;
    double end = lvn_seconds() + seconds;
    clear(m, &handle);
    if (all_reduce(m, x, count, type, op, &handle)) return false;
    for (int i = 0;; i++) {
        int n = 0, index;
        if (test(m, &handle, 1, &n, &index)) return false;
        if (n) return true;
        if (seconds > 0 && lvn_seconds() > end) return false;
        if (i > 1000) sleep_us(20);
    }
}

/* Are all ranks on one host? Compares the minimum and maximum of a hash of the host name. */
static bool one_host(struct mpi *m)
{
    char name[256] = "";
    gethostname(name, sizeof name - 1);
    uint64_t h = 1469598103934665603U;
    for (const char *p = name; *p; p++) h = (h ^ (unsigned char)*p) * 1099511628211U;
    int64_t both[2] = {(int64_t)(h >> 2), -(int64_t)(h >> 2)};
    return agree(m, both, 2, LVN_I64, LVN_MIN, 0) && both[0] == -both[1];
}

static enum lvn_status check_world(struct mpi *m, const struct lvn_comm_options *o, const char *version)
{
    int rank = -1, size = -1;
    m->Comm_rank(m->world, &rank);
    m->Comm_size(m->world, &size);
    m->rank = rank;
    const char *launcher = o->launcher ? o->launcher : "";
    bool open = m->library.abi == LVN_ABI_OPENMPI;
    if (size == 1) {
        m->finalize = true; /* no other rank: MPI_Finalize cannot block */
        const char *cure = !strcmp(launcher, "slurm") && open ? "start it by srun --mpi=pmix"
                           : !strcmp(launcher, "slurm")
                               ? "start it by srun --mpi=pmi2, or take an MPI that supports PMIx"
                               : "start levin by the mpirun of that MPI, or set trainer.mpi_library to the library of "
                                 "the mpirun that was used";
        LVN_FAIL(UNSUPPORTED,
                 "the launcher and the MPI library do not belong together: the launcher started %d ranks, but each of "
                 "them is rank 0 of 1 to %s (%s, %s); %s",
                 o->size, version, m->library.path, m->library.reason, cure);
    }
    LVN_CHECK(size == o->size, UNSUPPORTED,
              "%s has %d ranks, but the launcher said %d: do not start a launcher inside another", version, size,
              o->size);
    LVN_CHECK(rank == o->rank, UNSUPPORTED, "%s calls this process rank %d, but the launcher said rank %d of %d",
              version, rank, o->rank, size);
    return LVN_OK;
}

/* Open MPI ends the process if it finds no PMIx server; so fail with a message before. */
static enum lvn_status check_environment(const struct mpi *m, const struct lvn_comm_options *o)
{
    bool srun = o->launcher && !strcmp(o->launcher, "slurm");
    LVN_CHECK(!srun || m->library.abi != LVN_ABI_OPENMPI || getenv("PMIX_RANK"), UNSUPPORTED,
              "%s is Open MPI, but srun speaks PMI: use srun --mpi=pmix, or an MPI of MPICH's kind", m->library.path);
    return LVN_OK;
}

static enum lvn_status start(struct mpi *m, const struct lvn_comm_options *o, char *describe, int describe_bytes)
{
    char version[128] = "";
    LVN_TRY(lvn_mpi_find(&m->library, o->library, o->launcher));
    LVN_TRY(bind_symbols(m));
    LVN_TRY(check_environment(m, o));
    short_version(m, version, sizeof version);
    int given = 0, code = lvn_mpi_guarded(m->Init_thread, m->funneled, &given);
    LVN_CHECK(code != LVN_MPI_CRASHED, COMM, "%s (%s) crashed in MPI_Init%s: start again", version, m->library.path,
              m->library.abi == LVN_ABI_OPENMPI ? ", as Open MPI may where ranks start at unlike speeds" : "");
    LVN_CHECK(!code, COMM, "%s (%s) could not start: error %d", version, m->library.path, code);
    LVN_TRY(check_world(m, o, version));
    m->Comm_set_errhandler(m->world, m->errors_return);
    LVN_CHECK(given >= m->funneled, UNSUPPORTED, "%s (%s) does not allow threads: take one that was built with them",
              version, m->library.path);
    m->patience = o->timeout > 0 ? o->timeout : 60;
    m->max_bytes = o->cut;
    if (m->Type_contiguous((int)m->max_bytes, m->byte, &m->long_element) || m->Type_commit(&m->long_element))
        LVN_FAIL(UNSUPPORTED, "%s cannot make a type of %lld bytes", version, (long long)m->max_bytes);
    m->linger = m->ucx && (getenv("UCX_TLS") || !one_host(m));
    snprintf(describe, (size_t)describe_bytes, "%s (%s), %s", version, m->library.path, m->library.reason);
    return LVN_OK;
}

static void release(void *state)
{
    struct mpi *m = state;
    if (m->finalize && m->long_element) m->Type_free(&m->long_element);
    if (m->finalize && m->Finalize) m->Finalize();
    free(m);
}

static enum lvn_status join(void **state, int *handle_bytes, const struct lvn_comm_options *o, char *describe,
                            int describe_bytes)
{
    struct mpi *m = lvn_calloc(1, sizeof *m);
    if (!m) return LVN_MEMORY;
    enum lvn_status status = start(m, o, describe, describe_bytes);
    *handle_bytes = m->handle_bytes;
    if (status == LVN_OK)
        *state = m;
    else
        release(m);
    return status;
}

/* MPI_Finalize waits for all ranks: call it only if all have arrived here. MPICH over UCX and TCP hangs if a rank
 * finalises right after its last message; after a pause it does not. */
static void barrier(void *state)
{
    struct mpi *m = state;
    int32_t one = 1;
    m->finalize = agree(m, &one, 1, LVN_I32, LVN_SUM, m->patience);
    if (m->linger && m->finalize) sleep_us(300000);
}

static const struct lvn_transport transport = {.join = join,
                                               .barrier = barrier,
                                               .release = release,
                                               .clear = clear,
                                               .send = send_bytes,
                                               .receive = receive_bytes,
                                               .all_reduce = all_reduce,
                                               .all_reduce_blocking = all_reduce_blocking,
                                               .broadcast = broadcast,
                                               .test = test,
                                               .poke = poke,
                                               .error = error,
                                               .abort = abort_all,
                                               .split = split,
                                               .release_group = release_group};

const struct lvn_comm_kind lvn_comm_kind_mpi = {
    .name = "mpi", .description = "the MPI of their launcher", .meeting = LVN_MEETS_LAUNCHER, .transport = &transport};
