/* run.c - runs a bound program on the CPU with a team of threads.
 *
 * The team starts once per run. Every thread executes the same launches, calls the same kernels with its thread number,
 * and waits at a barrier after each of them. Instructions that run side by side are divided among the threads. */
#include "backend/cpu/run.h"

#include <stdatomic.h>

#include "backend/calls.h"
#include "backend/cpu/cpu_kernels.h"
#include "base/arena.h"
#include "base/threads.h"
#include "base/work.h"

struct bound {
    struct lvn_bound base;
    struct lvn_calls calls;
};

/* State of a run, shared by all threads. */
struct run {
    struct lvn_calls *calls;
    const struct lvn_execution *execution;
    bool failed;     /* a collective failed */
    atomic_int next; /* of the instructions that run concurrently: index of the next one that no thread has begun */
};

/* Perform a collective: thread 0 calls the communicator. Starting does not block. Returns false on all threads if it
 * failed. */
static bool communicate(struct run *r, const struct lvn_instr *i, int thread)
{
    const struct lvn_collectives *collectives = r->execution->collectives;
    if (collectives && thread == 0 && !lvn_calls_communicate(r->calls, i, collectives)) r->failed = true;
    if (!collectives || i->id != LVN_OP_wait) return true;
    lvn_team_barrier();
    bool failed = r->failed;
    lvn_team_barrier(); /* thread 0 continues only after all threads have read `failed` */
    return !failed;
}

/* Prefetch the descriptions of the next instruction, which the weights read by this one would otherwise have evicted
 * from the cache until it begins. */
static void prefetch_next(const struct run *r, const struct lvn_instr *i)
{
    const struct lvn_program *p = r->calls->program;
    if (i + 1 == p->instrs + p->n_instrs) return;
    const char *instr = (const char *)(i + 1), *call = (const char *)lvn_calls_of(r->calls, i + 1);
    for (size_t k = 0; k < sizeof *i; k += 64) __builtin_prefetch(instr + k);
    for (size_t k = 0; k < sizeof(struct lvn_call); k += 64) __builtin_prefetch(call + k);
}

/* An instruction that one thread runs. */
struct alone {
    const struct lvn_instr *instr;
    const struct lvn_call *call;
};

static void run_alone(void *argument, int thread, int n_threads)
{
    const struct alone *a = argument;
    lvn_cpu_call(a->instr->kernel, a->call, thread, n_threads);
}

/* Run the instructions that begin with w->instr side by side, and advance w to the last of them. */
static void launch_side_by_side(struct run *r, struct lvn_launch_order *w, int thread)
{
    const struct lvn_instr *first = w->instr;
    const int n = first->n_side_by_side;
    for (int k; (k = atomic_fetch_add(&r->next, 1)) < n;) {
        struct alone a = {first + k, lvn_calls_of(r->calls, first + k)};
        lvn_team_run(1, run_alone, &a);
    }
    lvn_team_barrier();
    if (thread == 0) {
        r->next = 0;
        lvn_work_done(n);
    }
    for (int k = 1; k < n; k++) {
        if (thread == 0 && r->execution->launched) r->execution->launched(r->execution->context, w);
        lvn_launch_order_next(w);
    }
    lvn_team_barrier();
}

static bool launch(struct run *r, struct lvn_launch_order *w, int thread, int n_threads)
{
    const struct lvn_instr *i = w->instr;
    if (i->n_side_by_side) {
        launch_side_by_side(r, w, thread);
    } else if (i->op->collective) {
        if (!communicate(r, i, thread)) return false;
    } else {
        prefetch_next(r, i);
        lvn_cpu_call(i->kernel, lvn_calls_of(r->calls, i), thread, n_threads);
        lvn_team_barrier();
        if (thread == 0) lvn_work_done(1); /* a micro-batch of a large model takes many minutes on a small machine */
    }
    if (!r->execution->launched) return true;
    if (thread == 0) r->execution->launched(r->execution->context, w);
    lvn_team_barrier();
    return true;
}

static void run_all(void *argument, int thread, int n_threads)
{
    struct run *r = argument;
    struct lvn_launch_order w = lvn_launch_order_begin(r->calls->program, r->execution->n_micro_batches);
    while (lvn_launch_order_next(&w)) {
        switch (w.event) {
        case LVN_ORDER_MICRO_BATCH:
            if (thread == 0) lvn_calls_set_micro_batch(r->calls, w.micro_batch);
            lvn_team_barrier();
            break;
        case LVN_ORDER_LAUNCH:
            if (!launch(r, &w, thread, n_threads)) return;
            break;
        case LVN_ORDER_BACKWARD_DONE:
            if (r->execution->without_update) return;
            if (!r->execution->before_update) break;
            if (thread == 0) r->execution->before_update(r->execution->context);
            lvn_team_barrier();
            break;
        }
    }
}

enum lvn_status lvn_cpu_bind(struct lvn_bound **out, const struct lvn_program *p, const struct lvn_binding *b)
{
    struct bound *x = lvn_calloc(1, sizeof *x);
    *out = NULL;
    if (!x) return LVN_MEMORY;
    enum lvn_status status = lvn_calls_init(&x->calls, p, b);
    if (status != LVN_OK) {
        lvn_cpu_unbind(&x->base);
        return status;
    }
    x->base.device = (struct lvn_device *)(uintptr_t)p->device;
    *out = &x->base;
    return LVN_OK;
}

void lvn_cpu_unbind(struct lvn_bound *b)
{
    struct bound *x = (struct bound *)b;
    if (!x) return;
    lvn_calls_release(&x->calls);
    free(x);
}

enum lvn_status lvn_cpu_run(struct lvn_bound *b, const struct lvn_execution *execution)
{
    struct bound *x = (struct bound *)b;
    struct run r = {.calls = &x->calls, .execution = execution};
    lvn_calls_begin(&x->calls);
    lvn_team_run(b->device->threads, run_all, &r);
    lvn_calls_end(&x->calls);
    return r.failed ? LVN_COMM : LVN_OK;
}
