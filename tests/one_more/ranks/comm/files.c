/* files.c - a transport through files of one folder, FILES_FOLDER, that all ranks see: slow, and as short as one can
 * be. A message is a file, so none is ever unexpected. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/getenv.h"
#include "comm/comm_kind.h"
#include "comm/engine.h"

enum { TAGS = 2 * LVN_TAGS };

struct files {
    int rank, size;
    const char *folder;
    int64_t *sent, *received; /* [size][TAGS] numbers of messages */
    int64_t number;           /* of reductions and broadcasts */
};

/* What a handle points to: bytes that come from a file, or a sum of one of each rank. */
struct operation {
    char path[300];
    bool done, sum;
    char *x, *part;
    int64_t bytes;
    enum lvn_dtype type;
    enum lvn_reduce op;
    int from; /* of a sum: the rank whose file is next */
};

static int write_file(const char *path, const void *x, int64_t bytes)
{
    char other[320];
    snprintf(other, sizeof other, "%s.part", path);
    FILE *f = fopen(other, "w");
    bool good = f && fwrite(x, 1, (size_t)bytes, f) == (size_t)bytes;
    if (f) good = !fclose(f) && good;
    return !good || rename(other, path);
}

/* False: it is not there yet. */
static bool read_file(const char *path, void *x, int64_t bytes)
{
    FILE *f = fopen(path, "r");
    if (!f) return false;
    bool good = fread(x, 1, (size_t)bytes, f) == (size_t)bytes;
    fclose(f);
    return good;
}

static void clear(void *state, void *handle)
{
    (void)state;
    memset(handle, 0, sizeof(void *));
}

static struct operation *start(void *handle, struct operation o)
{
    struct operation *w = lvn_malloc(sizeof *w);
    if (w) *w = o;
    memcpy(handle, &w, sizeof w);
    return w;
}

static int send_file(void *state, const void *x, int64_t bytes, int to, int tag, void *handle)
{
    struct files *f = state;
    struct operation *w = start(handle, (struct operation){.done = true});
    if (!w) return 1;
    snprintf(w->path, sizeof w->path, "%s/%d.%d.%d.%lld", f->folder, f->rank, to, tag,
             (long long)f->sent[to * TAGS + tag]++);
    return write_file(w->path, x, bytes);
}

static int receive(void *state, void *x, int64_t bytes, int from, int tag, void *handle)
{
    struct files *f = state;
    struct operation *w = start(handle, (struct operation){.x = x, .bytes = bytes});
    if (!w) return 1;
    snprintf(w->path, sizeof w->path, "%s/%d.%d.%d.%lld", f->folder, from, f->rank, tag,
             (long long)f->received[from * TAGS + tag]++);
    return 0;
}

static int all_reduce(void *state, void *x, int64_t count, enum lvn_dtype type, enum lvn_reduce op, void *handle)
{
    struct files *f = state;
    const int64_t bytes = count * lvn_dtype_bytes(type);
    struct operation *w =
        start(handle, (struct operation){.sum = true, .x = x, .bytes = bytes, .type = type, .op = op});
    char path[320];
    if (!w || !(w->part = lvn_malloc((size_t)bytes + 1))) return 1;
    snprintf(w->path, sizeof w->path, "%s/sum.%lld", f->folder, (long long)f->number++);
    snprintf(path, sizeof path, "%s.%d", w->path, f->rank);
    return write_file(path, x, bytes);
}

static int broadcast(void *state, void *x, int64_t bytes, int root, void *handle)
{
    struct files *f = state;
    struct operation *w = start(handle, (struct operation){.x = x, .bytes = bytes});
    if (!w) return 1;
    snprintf(w->path, sizeof w->path, "%s/all.%lld", f->folder, (long long)f->number++);
    return f->rank == root ? write_file(w->path, x, bytes) : 0;
}

#define COMBINE(real)                                                                                                  \
    for (int64_t i = 0; i < w->bytes / (int64_t)sizeof(real); i++) {                                                   \
        real *a = (real *)(void *)w->x + i, b = ((const real *)(const void *)w->part)[i];                              \
        *a = w->op == LVN_SUM ? *a + b : (w->op == LVN_MIN) == (b < *a) ? b : *a;                                      \
    }
static void combine(const struct operation *w)
{
    if (w->type == LVN_F32) COMBINE(float);
    if (w->type == LVN_F64) COMBINE(double);
    if (w->type == LVN_I32) COMBINE(int32_t);
    if (w->type == LVN_I64) COMBINE(int64_t);
}

static bool is_done(const struct files *f, struct operation *w)
{
    char path[320];
    if (!w->sum) return w->done || read_file(w->path, w->x, w->bytes);
    for (; w->from < f->size; w->from++) {
        snprintf(path, sizeof path, "%s.%d", w->path, w->from);
        if (!read_file(path, w->from ? w->part : w->x, w->bytes)) return false;
        if (w->from) combine(w);
    }
    return true;
}

static int test(void *state, void *handles, int n, int *n_done, int *done)
{
    *n_done = 0;
    for (int i = 0; i < n; i++) {
        struct operation *w;
        memcpy(&w, (char *)handles + (size_t)i * sizeof w, sizeof w);
        if (!w || !is_done(state, w)) continue;
        free(w->part);
        free(w);
        clear(state, (char *)handles + (size_t)i * sizeof w);
        done[(*n_done)++] = i;
    }
    return 0;
}

static void make_progress(void *state)
{
    (void)state;
}

static void error(void *state, int code, char *text, int bytes)
{
    (void)code;
    snprintf(text, (size_t)bytes, "no file could be written in %s", ((const struct files *)state)->folder);
}

static void release(void *state)
{
    struct files *f = state;
    free(f->sent);
    free(f->received);
    free(f);
}

static enum lvn_status join(void **state, int *handle_bytes, const struct lvn_comm_options *o, char *description,
                            int description_bytes)
{
    struct files *f = lvn_calloc(1, sizeof *f);
    if (!f) return LVN_MEMORY;
    *f = (struct files){.rank = o->rank, .size = o->size, .folder = lvn_getenv("FILES_FOLDER")};
    for (int i = 0; i < o->size; i++)
        if (i != o->rank) close(o->sockets[i]); /* they are this communicator's, which needs none */
    f->sent = lvn_calloc((size_t)o->size * TAGS, sizeof *f->sent);
    f->received = lvn_calloc((size_t)o->size * TAGS, sizeof *f->received);
    *state = f;
    *handle_bytes = (int)sizeof(struct operation *);
    snprintf(description, (size_t)description_bytes, "files in %s", f->folder ? f->folder : "no folder");
    if (f->sent && f->received && f->folder) return LVN_OK;
    const bool given = f->folder != NULL;
    release(f);
    LVN_CHECK(given, ARG, "trainer.transport is files, and FILES_FOLDER names no folder");
    return LVN_MEMORY;
}

static void barrier(void *state)
{
    void *handle;
    int32_t one = 1;
    int n = 0, index;
    if (all_reduce(state, &one, 1, LVN_I32, LVN_SUM, &handle)) return;
    while (!n && !test(state, &handle, 1, &n, &index)) usleep(100);
}

static const struct lvn_transport transport = {.join = join,
                                               .barrier = barrier,
                                               .release = release,
                                               .clear = clear,
                                               .send = send_file,
                                               .receive = receive,
                                               .all_reduce = all_reduce,
                                               .broadcast = broadcast,
                                               .test = test,
                                               .make_progress = make_progress,
                                               .error = error};

const struct lvn_comm_kind lvn_comm_kind_files = {.name = "files",
                                                  .description = "files of a folder",
                                                  .connection = LVN_CONNECTED_BY_SOCKETS,
                                                  .transport = &transport};
