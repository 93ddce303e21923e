/* lanes.h - the streams of the double of NVIDIA's driver: how their work runs; see cuda.c. */
#ifndef LVN_DOUBLE_LANES_H
#define LVN_DOUBLE_LANES_H

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "double.h"
#include "opencl.h"

enum {
    INVALID = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    INVALID_CONTEXT = 201,
    NO_BINARY = 209,
    NOT_FOUND = 500,
    ILLEGAL_ADDRESS = 700,
    CAPTURE_UNSUPPORTED = 900,
    CAPTURE_UNJOINED = 904,
    NOT_READY = 600,
    UNKNOWN = 999
};
enum { MAX_ARGS = 64, BEFORE = 256, WATCH = 64, MAX_LANES = 16, MAX_HELD = 256 };

struct module {
    cl program;
    const char *signatures; /* of struct compiled */
    struct function *functions;
};

/* Modules compiled before in this process: tests open many devices. */
struct compiled {
    char *text;
    char *signatures; /* a line for each kernel: its name, a blank, two letters for each argument (describe) */
    cl program;
    struct compiled *next;
};

struct function {
    cl kernel;
    char *name;
    int n;
    struct {
        size_t bytes;
        bool pointer, local;
    } arg[MAX_ARGS];
    struct function *next;
};

/* One recording of an event: done when the lane has reached it. */
struct mark {
    struct lane *lane;
    bool done;
    double at;         /* on the clock, ms */
    struct mark *next; /* all of them, to free at the end */
};

struct op {
    enum { KERNEL, COPY, ZERO, FREE, RECORD, WAIT, GRAPH, HOST } kind;
    struct function *f;
    size_t grid[3], group[3], shared;
    unsigned char (*args)[16];
    void *to, *from, *own; /* own: what is freed with the op */
    size_t bytes;
    unsigned char value;
    struct mark *mark;
    struct graph *graph;
    void (*call)(void *data); /* on the host, with `to` */
};

struct lane {
    struct op *ops;
    int n, next, capacity;
    struct stream *stream; /* of a graph's lane: the stream whose work was captured */
    bool busy;             /* its work is running: lanes that wait for each other in a circle are an error */
};

struct stream {
    struct lane lane;
    struct graph *capture; /* NULL: no capture is in progress */
    bool began;            /* its capture was begun by a call */
    struct stream *next;
};

struct event {
    bool timed;
    struct mark *mark;     /* of the last record; NULL: none */
    struct graph *capture; /* the capture of that record */
};

struct graph {
    struct lane lanes[MAX_LANES];
    int n_lanes, owners;        /* graph, executable, launches on their way */
    atomic_int *held[MAX_HELD]; /* counters of libraries for the graphs that they were captured in */
    int n_held;
};

struct block {
    char *p; /* the caller's address; WATCH bytes before and after the block */
    size_t bytes;
    bool pinned;
    struct block *next;
};

/* One thread runs lanes at a time; other callers wait. */
static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static cl device, context, queue;
static int sticky, retained;
static pid_t process;              /* that called cuInit */
static _Thread_local bool current; /* this thread has a context */
static struct stream *streams;
static struct block *blocks;
static struct mark *marks;
static struct compiled *compiled;
static struct {
    long memory, pinned, streams, events, modules, graphs, runs;
} left;
static size_t in_use, max_in_use;
static long kernels, broken;
static double clock_ms; /* no real time: it stands still but for doublePass() */

/* After a fork a driver that was started before cannot be used; and all but a few calls need a context, which belongs
 * to a thread. */
static inline int usable(const char *name)
{
    static const char *const free_of_it[] = {"cuInit", "cuDriver", "cuDevice", "cuCtx"};
    if (process && process != getpid()) return NOT_INITIALIZED;
    for (int k = 0; k < 4; k++)
        if (!strncmp(name, free_of_it[k], strlen(free_of_it[k]))) return 0;
    return current && retained ? 0 : INVALID_CONTEXT;
}

/* Every call: counted, failed if the test asks for that, refused if the device is lost. */
#define EXPORT __attribute__((visibility("default"), noinline))
#define CALL(name, code)                                                                                               \
    int failed_ = double_call(name, code);                                                                             \
    if (failed_ >= ILLEGAL_ADDRESS && failed_ != CAPTURE_UNSUPPORTED) sticky = failed_;                                \
    if (!failed_ && !sticky) failed_ = usable(name);                                                                   \
    if (failed_ || sticky) return failed_ ? failed_ : sticky

/* --- running --- */

static int run_until(struct lane *lane, const struct mark *mark);
static void run_all_but(const struct lane *mine);

static bool is_late(void)
{
    const char *order = getenv("LEVIN_DOUBLE_ORDER");
    return !order || strcmp(order, "early") != 0;
}

static void fill(void *p, size_t bytes, unsigned char value)
{
    memset(p, value, bytes);
}

static struct block *find(const void *p, size_t bytes)
{
    pthread_mutex_lock(&lock);
    struct block *b = blocks;
    while (b && ((const char *)p < b->p || (const char *)p + bytes > b->p + b->bytes)) b = b->next;
    pthread_mutex_unlock(&lock);
    return b;
}

static struct block *block_new(size_t bytes, bool pinned)
{
    struct block *b = calloc(1, sizeof *b);
    char *p = aligned_alloc(BEFORE, (BEFORE + bytes + WATCH + BEFORE - 1) / BEFORE * BEFORE);
    *b = (struct block){.p = p + BEFORE, .bytes = bytes, .pinned = pinned, .next = blocks};
    fill(p, BEFORE, 0xa5);
    fill(b->p, bytes, 0xff); /* as numbers: none */
    fill(b->p + bytes, WATCH, 0xa5);
    blocks = b;
    return b;
}

static bool intact(const struct block *b)
{
    for (int i = 0; i < WATCH; i++)
        if ((unsigned char)b->p[-1 - i] != 0xa5 || (unsigned char)b->p[b->bytes + (size_t)i] != 0xa5) return false;
    return true;
}

static int block_free(void *p)
{
    for (struct block **at = &blocks; *at; at = &(*at)->next) {
        struct block *b = *at;
        if (b->p != p) continue;
        *at = b->next;
        broken += !intact(b);
        fill(b->p, b->bytes, 0xff);
        free(b->p - BEFORE);
        if (!b->pinned) in_use -= b->bytes;
        free(b);
        return 0;
    }
    return INVALID;
}

static int run_kernel(const struct op *o)
{
    struct function *f = o->f;
    size_t global[3];
    for (int k = 0; k < 3; k++) global[k] = o->grid[k] * o->group[k];
    kernels++;
    int failed = double_call("kernel", ILLEGAL_ADDRESS);
    if (failed) return failed;
    for (int k = 0; k < f->n; k++) {
        void *p;
        memcpy(&p, o->args[k], sizeof p);
        int error = f->arg[k].local     ? ocl.SetKernelArg(f->kernel, (unsigned)k, o->shared, NULL)
                    : f->arg[k].pointer ? ocl.SetKernelArgSVMPointer(f->kernel, (unsigned)k, p)
                                        : ocl.SetKernelArg(f->kernel, (unsigned)k, f->arg[k].bytes, o->args[k]);
        if (error) fprintf(stderr, "double: argument %d of %s: OpenCL %d\n", k, f->name, error);
        if (error) return UNKNOWN;
    }
    int error = ocl.EnqueueNDRangeKernel(queue, f->kernel, 3, NULL, global, o->group, 0, NULL, NULL);
    if (!error) error = ocl.Finish(queue);
    if (error) fprintf(stderr, "double: %s: OpenCL %d\n", f->name, error);
    return error ? UNKNOWN : 0;
}

static void graph_release(struct graph *g)
{
    if (--g->owners > 0) return;
    for (int k = 0; k < g->n_held; k++) atomic_fetch_sub(g->held[k], 1);
    for (int l = 0; l < g->n_lanes; l++) {
        for (int k = 0; k < g->lanes[l].n; k++) {
            free(g->lanes[l].ops[k].args);
            free(g->lanes[l].ops[k].own);
        }
        free(g->lanes[l].ops);
    }
    free(g);
}

static int run_graph(struct graph *g)
{
    for (int l = 0; l < g->n_lanes; l++) {
        g->lanes[l].next = 0;
        for (int k = 0; k < g->lanes[l].n; k++)
            if (g->lanes[l].ops[k].kind == RECORD) g->lanes[l].ops[k].mark->done = false;
    }
    int failed = 0; /* the other lanes first, or as late as possible */
    for (int l = g->n_lanes - 1; l > 0 && !failed && !is_late(); l--) failed = run_until(&g->lanes[l], NULL);
    for (int l = 0; l < g->n_lanes && !failed; l++) failed = run_until(&g->lanes[l], NULL);
    return failed;
}

static int run_op(struct op *o)
{
    switch (o->kind) {
    case KERNEL:
        return run_kernel(o);
    case COPY:
        memcpy(o->to, o->from, o->bytes);
        return 0;
    case ZERO:
        fill(o->to, o->bytes, o->value);
        return 0;
    case FREE:
        return block_free(o->to);
    case RECORD:
        o->mark->done = true;
        o->mark->at = clock_ms;
        return 0;
    case WAIT:
        return o->mark->done ? 0 : run_until(o->mark->lane, o->mark);
    case GRAPH:
        return run_graph(o->graph);
    case HOST:
        o->call(o->to);
        return 0;
    }
    return UNKNOWN;
}

/* NULL: to its end. */
static int run_on(struct lane *lane, const struct mark *mark)
{
    int failed = 0;
    if (lane->busy) return UNKNOWN;
    lane->busy = true;
    while (!failed && lane->next < lane->n && !(mark && mark->done)) failed = run_op(&lane->ops[lane->next++]);
    lane->busy = false;
    if (failed) sticky = failed;
    if (lane->stream || lane->next < lane->n) return failed;
    for (int k = 0; k < lane->n; k++) { /* a stream's lane starts again */
        free(lane->ops[k].args);
        free(lane->ops[k].own);
        if (lane->ops[k].kind == GRAPH) graph_release(lane->ops[k].graph);
    }
    lane->n = lane->next = 0;
    return failed;
}

static int run_until(struct lane *lane, const struct mark *mark)
{
    pthread_mutex_lock(&lock);
    int failed = run_on(lane, mark);
    pthread_mutex_unlock(&lock);
    return failed;
}

static void run_all_but(const struct lane *mine)
{
    for (struct stream *s = streams; s && !is_late(); s = s->next)
        if (&s->lane != mine && !s->capture) (void)run_until(&s->lane, NULL);
}

static int finish(struct stream *s)
{
    run_all_but(&s->lane);
    return run_until(&s->lane, NULL);
}

static struct lane *lane_of(struct stream *s)
{
    struct graph *g = s->capture;
    if (!g) return &s->lane;
    for (int l = 0; l < g->n_lanes; l++)
        if (g->lanes[l].stream == s) return &g->lanes[l];
    if (g->n_lanes == MAX_LANES) abort();
    g->lanes[g->n_lanes] = (struct lane){.stream = s};
    return &g->lanes[g->n_lanes++];
}

static int put(struct stream *s, struct op o)
{
    pthread_mutex_lock(&lock);
    struct lane *lane = lane_of(s);
    if (lane->n == lane->capacity) {
        lane->capacity = lane->capacity ? 2 * lane->capacity : 64;
        lane->ops = realloc(lane->ops, sizeof *lane->ops * (size_t)lane->capacity);
    }
    lane->ops[lane->n++] = o;
    pthread_mutex_unlock(&lock);
    return 0;
}

#endif
