/* mpi.c - the transport over any installed MPI, compiled without its header.
 *
 * The library is opened at run time (mpi_find.c), its functions are looked up by name, its constants are in mpi.def.
 * Handles are ints in MPICH's ABI and pointers in the others; both are stored in a word whose low half is read as an
 * int argument (x86-64 and 64-bit ARM, little-endian). Arrays of requests have the layout of the ABI.
 *
 * Init_thread, Finalize, Comm_split and the all-reduce for measurements block; all other communication is
 * nonblocking. The engine's thread makes all calls. */
#include <dlfcn.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/random.h"
#include "comm/comm_kind.h"
#include "comm/engine.h"
#include "comm/mpi_find.h"
#include "comm/mpi_start.h"

typedef void *lvn_mpi; /* a handle of any ABI */

struct mpi {
    struct lvn_mpi_library library;
    int handle_bytes;
    void *no_status, *in_place;
    int funneled;
#define LVN_MPI_CONSTANT(name, object, mpich, standard) lvn_mpi name;
#define LVN_MPI_FUNCTION(name, arguments) int(*name) arguments;
#include "comm/mpi.def"
    int64_t max_bytes;
    lvn_mpi long_element; /* a type of max_bytes bytes */
    bool finalize;        /* MPI_Finalize will not block */
    bool linger;          /* wait before MPI_Finalize; see barrier() */
    bool ucx;
    double finalize_timeout; /* seconds to wait for the other ranks at the end */
    int rank;
};

static lvn_mpi handle_of(struct mpi *mpi, const char *object, uintptr_t mpich, uintptr_t standard)
{
    switch (mpi->library.abi) {
    case LVN_ABI_OPENMPI:
        return dlsym(mpi->library.handle, object);
    case LVN_ABI_MPICH:
        return (lvn_mpi)mpich;
    default:
        return (lvn_mpi)standard;
    }
}

static enum lvn_status bind_symbols(struct mpi *mpi)
{
    enum lvn_mpi_abi abi = mpi->library.abi;
    void *p;
    mpi->handle_bytes = abi == LVN_ABI_MPICH ? 4 : 8;
    mpi->no_status = abi == LVN_ABI_MPICH ? (void *)1 : NULL;
    mpi->in_place = abi == LVN_ABI_MPICH ? (void *)-1 : (void *)1;
    mpi->funneled = abi == LVN_ABI_STANDARD ? 1024 : 1;
#define LVN_MPI_CONSTANT(name, object, mpich, standard)                                                                \
    mpi->name = handle_of(mpi, object, mpich, standard);                                                               \
    LVN_CHECK(mpi->name, UNSUPPORTED, "%s lacks %s; an MPI of version 3 or later is required", mpi->library.path,      \
              object);
#define LVN_MPI_FUNCTION(name, arguments)                                                                              \
    p = dlsym(mpi->library.handle, "MPI_" #name);                                                                      \
    LVN_CHECK(p, UNSUPPORTED, "%s lacks MPI_" #name "; an MPI of version 3 or later is required", mpi->library.path);  \
    memcpy(&mpi->name, &p, sizeof p);
#include "comm/mpi.def"
    return LVN_OK;
}

/* "Open MPI 4.1.4", from a text that may have many lines. */
static void short_version(struct mpi *mpi, char *out, size_t bytes)
{
    static char text[9000]; /* the standard allows 8192 */
    int length = 0;
    if (mpi->Get_library_version(text, &length)) text[0] = '\0';
    const char *open = strstr(text, "Open MPI v"), *number = strstr(text, "MPICH Version:");
    char version[32] = "";
    mpi->ucx = strstr(text, "ucx") != NULL;
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
    struct mpi *mpi = state;
    memcpy(handle, &mpi->no_request, (size_t)mpi->handle_bytes); /* little-endian */
}

/* A count is an int, so a multiple of max_bytes is sent as elements of a larger type. */
static void count_and_type(const struct mpi *mpi, int64_t bytes, int *count, lvn_mpi *type)
{
    bool multiple = bytes && bytes % mpi->max_bytes == 0;
    *count = (int)(multiple ? bytes / mpi->max_bytes : bytes);
    *type = multiple ? mpi->long_element : mpi->byte;
}

static int send_bytes(void *state, const void *x, int64_t bytes, int to, int tag, void *handle)
{
    struct mpi *mpi = state;
    int count;
    lvn_mpi type;
    count_and_type(mpi, bytes, &count, &type);
    return mpi->Isend(x, count, type, to, tag, mpi->world, handle);
}

static int receive_bytes(void *state, void *x, int64_t bytes, int from, int tag, void *handle)
{
    struct mpi *mpi = state;
    int count;
    lvn_mpi type;
    count_and_type(mpi, bytes, &count, &type);
    return mpi->Irecv(x, count, type, from, tag, mpi->world, handle);
}

static lvn_mpi type_of(const struct mpi *mpi, enum lvn_dtype type)
{
    return type == LVN_F32 ? mpi->f32 : type == LVN_F64 ? mpi->f64 : type == LVN_I32 ? mpi->i32 : mpi->i64;
}

static lvn_mpi operation_of(const struct mpi *mpi, enum lvn_reduce op)
{
    return op == LVN_SUM ? mpi->sum : op == LVN_MIN ? mpi->min : mpi->max;
}

static int all_reduce(void *state, void *x, int64_t count, enum lvn_dtype type, enum lvn_reduce op, void *handle)
{
    struct mpi *mpi = state;
    return mpi->Iallreduce(mpi->in_place, x, (int)count, type_of(mpi, type), operation_of(mpi, op), mpi->world, handle);
}

static int all_reduce_blocking(void *state, void *x, int64_t count, enum lvn_dtype type, enum lvn_reduce op)
{
    struct mpi *mpi = state;
    return mpi->Allreduce(mpi->in_place, x, (int)count, type_of(mpi, type), operation_of(mpi, op), mpi->world);
}

static int broadcast(void *state, void *x, int64_t bytes, int root, void *handle)
{
    struct mpi *mpi = state;
    return mpi->Ibcast(x, (int)bytes, mpi->byte, root, mpi->world, handle);
}

static int test(void *state, void *handles, int n, int *n_done, int *done)
{
    struct mpi *mpi = state;
    int code = mpi->Testsome(n, handles, n_done, done, mpi->no_status);
    if (*n_done < 0) *n_done = 0; /* MPI_UNDEFINED: no request is active */
    return code;
}

static void make_progress(void *state)
{
    struct mpi *mpi = state;
    int flag;
    (void)mpi->Iprobe(mpi->rank, LVN_TAGS - 1, mpi->world, &flag, mpi->no_status);
}

static void error(void *state, int code, char *text, int bytes)
{
    struct mpi *mpi = state;
    char long_text[1024] = "";
    int length = 0;
    if (mpi->Error_string(code, long_text, &length)) snprintf(long_text, sizeof long_text, "error %d", code);
    snprintf(text, (size_t)bytes, "MPI reports: %.200s", long_text);
}

static void abort_all(void *state, void *code)
{
    struct mpi *mpi = state;
    mpi->Abort(mpi->world, *(int *)code);
}

/* --- groups --- */

/* The color is the group's first rank. Ranks without a group form one that is freed immediately, because the value of
 * MPI_UNDEFINED differs between ABIs. Blocks, but only for ranks that are about to make the same call. */
static enum lvn_status split(void *state, const struct lvn_group_split *group_split, void **group)
{
    struct mpi *all = state, *mpi = lvn_malloc(sizeof *mpi);
    int size = 0;
    lvn_mpi comm = NULL;
    (void)all->Comm_size(all->world, &size);
    int code = all->Comm_split(all->world, group_split->n ? group_split->member[0] : size, group_split->rank, &comm);
    if (mpi) *mpi = *all, mpi->world = comm, mpi->rank = group_split->rank;
    if (!code && mpi) code = mpi->Comm_set_errhandler(comm, mpi->errors_return);
    if (!code && mpi && group_split->n) {
        *group = mpi;
        return LVN_OK;
    }
    if (!code) (void)all->Comm_free(&comm);
    char reason[256] = "";
    if (code) error(all, code, reason, sizeof reason);
    const bool no_memory = !mpi;
    free(mpi);
    if (no_memory) return LVN_MEMORY;
    LVN_CHECK(!code, COMM, "%s", reason);
    return LVN_OK;
}

/* After an error the communicator is not freed, because a collective call may receive messages. */
static void release_group(void *group, bool failed)
{
    struct mpi *mpi = group;
    if (!failed) (void)mpi->Comm_free(&mpi->world);
    free(mpi);
}

/* --- start and end --- */

static void sleep_us(int microseconds)
{
    struct timespec t = {.tv_sec = microseconds / 1000000, .tv_nsec = microseconds % 1000000 * 1000L};
    nanosleep(&t, NULL);
}

/* A small all-reduce, polled; false: it failed, or took longer than `seconds` (0: no limit). */
static bool all_reduce_polled(struct mpi *mpi, void *x, int count, enum lvn_dtype type, enum lvn_reduce op,
                              double seconds)
{
    void *handle = NULL;
    double end = lvn_seconds() + seconds;
    clear(mpi, &handle);
    if (all_reduce(mpi, x, count, type, op, &handle)) return false;
    for (int i = 0;; i++) {
        int n = 0, index;
        if (test(mpi, &handle, 1, &n, &index)) return false;
        if (n) return true;
        if (seconds > 0 && lvn_seconds() > end) return false;
        if (i > 1000) sleep_us(20);
    }
}

/* True if all ranks are on one host. Compares the minimum and maximum of a hash of the host name. */
static bool one_host(struct mpi *mpi)
{
    char name[256] = "";
    gethostname(name, sizeof name - 1);
    const int64_t h = (int64_t)(lvn_name_hash(name) >> 2); /* so that it can be negated as a signed number */
    int64_t both[2] = {h, -h};
    return all_reduce_polled(mpi, both, 2, LVN_I64, LVN_MIN, 0) && both[0] == -both[1];
}

static enum lvn_status check_world(struct mpi *mpi, const struct lvn_comm_options *o, const char *version)
{
    int rank = -1, size = -1;
    mpi->Comm_rank(mpi->world, &rank);
    mpi->Comm_size(mpi->world, &size);
    mpi->rank = rank;
    const char *launcher = o->launcher ? o->launcher : "";
    bool open = mpi->library.abi == LVN_ABI_OPENMPI;
    if (size == 1) {
        mpi->finalize = true; /* no other rank: MPI_Finalize cannot block */
        const char *cure =
            !strcmp(launcher, "slurm") && open ? "start it with srun --mpi=pmix"
            : !strcmp(launcher, "slurm")
                ? "start it with srun --mpi=pmi2, or use an MPI that supports PMIx"
                : "start levin with the mpirun of that MPI, or set trainer.mpi_library to the library of "
                  "the mpirun that was used";
        LVN_FAIL(UNSUPPORTED,
                 "the launcher and the MPI library do not belong together: the launcher started %d ranks, but each of "
                 "them is rank 0 of 1 in %s (%s, %s); %s",
                 o->size, version, mpi->library.path, mpi->library.reason, cure);
    }
    LVN_CHECK(size == o->size, UNSUPPORTED,
              "%s has %d ranks, but the launcher set %d; do not start a launcher inside another", version, size,
              o->size);
    LVN_CHECK(rank == o->rank, UNSUPPORTED, "%s assigned rank %d to this process, but the launcher set rank %d of %d",
              version, rank, o->rank, size);
    return LVN_OK;
}

/* Open MPI terminates the process if it finds no PMIx server, so fail with a message first. */
static enum lvn_status check_environment(const struct mpi *mpi, const struct lvn_comm_options *o)
{
    bool srun = o->launcher && !strcmp(o->launcher, "slurm");
    LVN_CHECK(!srun || mpi->library.abi != LVN_ABI_OPENMPI || getenv("PMIX_RANK"), UNSUPPORTED,
              "%s is Open MPI, but srun uses PMI; use srun --mpi=pmix, or an MPI with MPICH's ABI", mpi->library.path);
    return LVN_OK;
}

static enum lvn_status start(struct mpi *mpi, const struct lvn_comm_options *o, char *description,
                             int description_bytes)
{
    char version[128] = "";
    LVN_TRY(lvn_mpi_find(&mpi->library, o->library, o->launcher));
    LVN_TRY(bind_symbols(mpi));
    LVN_TRY(check_environment(mpi, o));
    short_version(mpi, version, sizeof version);
    int provided = 0, code = lvn_mpi_guarded(mpi->Init_thread, mpi->funneled, &provided);
    LVN_CHECK(code != LVN_MPI_CRASHED, COMM, "%s (%s) crashed in MPI_Init%s; start again", version, mpi->library.path,
              mpi->library.abi == LVN_ABI_OPENMPI ? ", as Open MPI may if ranks start at different times" : "");
    LVN_CHECK(!code, COMM, "%s (%s) could not start: error %d", version, mpi->library.path, code);
    LVN_TRY(check_world(mpi, o, version));
    mpi->Comm_set_errhandler(mpi->world, mpi->errors_return);
    LVN_CHECK(provided >= mpi->funneled, UNSUPPORTED,
              "%s (%s) does not provide MPI_THREAD_FUNNELED; use an MPI that was built with support for threads",
              version, mpi->library.path);
    mpi->finalize_timeout = o->timeout > 0 ? o->timeout : 60;
    mpi->max_bytes = o->max_message_bytes;
    if (mpi->Type_contiguous((int)mpi->max_bytes, mpi->byte, &mpi->long_element) ||
        mpi->Type_commit(&mpi->long_element))
        LVN_FAIL(UNSUPPORTED, "%s cannot create a type of %lld bytes", version, (long long)mpi->max_bytes);
    mpi->linger = mpi->ucx && (getenv("UCX_TLS") || !one_host(mpi));
    snprintf(description, (size_t)description_bytes, "%s (%s), %s", version, mpi->library.path, mpi->library.reason);
    return LVN_OK;
}

static void release(void *state)
{
    struct mpi *mpi = state;
    if (mpi->finalize && mpi->long_element) mpi->Type_free(&mpi->long_element);
    if (mpi->finalize && mpi->Finalize) mpi->Finalize();
    free(mpi);
}

static enum lvn_status join(void **state, int *handle_bytes, const struct lvn_comm_options *o, char *description,
                            int description_bytes)
{
    struct mpi *mpi = lvn_calloc(1, sizeof *mpi);
    if (!mpi) return LVN_MEMORY;
    enum lvn_status status = start(mpi, o, description, description_bytes);
    *handle_bytes = mpi->handle_bytes;
    if (status == LVN_OK)
        *state = mpi;
    else
        release(mpi);
    return status;
}

/* MPI_Finalize waits for all ranks, so it is called only if all have arrived here. MPICH over UCX and TCP hangs if a
 * rank finalizes right after its last message; a pause prevents that. */
static void barrier(void *state)
{
    struct mpi *mpi = state;
    int32_t one = 1;
    mpi->finalize = all_reduce_polled(mpi, &one, 1, LVN_I32, LVN_SUM, mpi->finalize_timeout);
    if (mpi->linger && mpi->finalize) sleep_us(300000);
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
                                               .make_progress = make_progress,
                                               .error = error,
                                               .abort = abort_all,
                                               .split = split,
                                               .release_group = release_group};

const struct lvn_comm_kind lvn_comm_kind_mpi = {.name = "mpi",
                                                .description = "the MPI of the launcher that started the ranks",
                                                .connection = LVN_CONNECTED_BY_LAUNCHER,
                                                .transport = &transport};
