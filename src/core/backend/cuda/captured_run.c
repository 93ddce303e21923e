/* captured_run.c - see captured_run.h. */
#include "backend/cuda/captured_run.h"

#include <stdlib.h>

#include "base/arena.h"
#include "base/list.h"
#include "base/work.h"

struct action {
    enum { GRAPH, COMMUNICATE, BEFORE_UPDATE } kind;
    struct lvn_cuda_graph_run *graph;
    const struct lvn_instr *instr;
};

struct captured_run {
    int64_t n_micro_batches;
    bool without_update, collectives, hook; /* the options of struct lvn_execution of these graphs */
    struct action *actions;
    int n;
    int64_t capacity;              /* of actions */
    struct lvn_gpu_step *steps;    /* pinned, one per micro-batch, at least one */
    struct lvn_cuda_event *copied; /* `steps` has been copied, and may be overwritten */
    bool recording;                /* a graph is being captured */
    struct captured_run *next;
};

static struct lvn_cuda_device *device_of(const struct lvn_gpu_program *p)
{
    return lvn_cuda_of(p->base.device);
}

int64_t lvn_cuda_max_captured =
    1 << 17; /* an estimate: a captured launch needs some hundred bytes, which no plan counts */

bool lvn_cuda_captures(const struct lvn_gpu_program *p, const struct lvn_execution *execution)
{
    return device_of(p)->graphs && p->n_launches * execution->n_micro_batches <= lvn_cuda_max_captured;
}

static int64_t steps_of(const struct captured_run *run)
{
    return run->n_micro_batches > 0 ? run->n_micro_batches : 1;
}

static void captured_run_free(struct captured_run *run)
{
    for (int k = 0; k < run->n; k++)
        if (run->actions[k].graph) (void)lvn_cuda.graph_run_free(run->actions[k].graph);
    if (run->copied) (void)lvn_cuda.event_finish(run->copied);
    if (run->copied) (void)lvn_cuda.event_free(run->copied);
    if (run->steps) (void)lvn_cuda.pinned_free(run->steps);
    free(run->actions);
    free(run);
}

void lvn_cuda_captured_runs_free(struct lvn_gpu_program *p)
{
    for (struct captured_run *run = p->backend_data, *next; run; run = next) {
        next = run->next;
        captured_run_free(run);
    }
    p->backend_data = NULL;
}

/* --- recording --- */

static struct action *action_new(struct captured_run *run, int kind)
{
    if (!lvn_list_reserve(&run->actions, &run->capacity, run->n + 1, sizeof *run->actions)) return NULL;
    run->actions[run->n] = (struct action){.kind = kind};
    return &run->actions[run->n++];
}

static enum lvn_status begin_graph(struct lvn_gpu_program *p, struct captured_run *run)
{
    struct lvn_cuda_device *d = device_of(p);
    if (run->recording) return LVN_OK;
    LVN_CUDA_DO(d, lvn_cuda.capture_begin(d->work, LVN_CUDA_CAPTURE_RELAXED), "capturing a step");
    run->recording = true;
    return LVN_OK;
}

static enum lvn_status end_graph(struct lvn_gpu_program *p, struct captured_run *run)
{
    struct lvn_cuda_device *d = device_of(p);
    struct lvn_cuda_graph *g = NULL;
    if (!run->recording) return LVN_OK;
    LVN_TRY(lvn_cuda_queues_end(d));
    run->recording = false;
    LVN_CUDA_DO(d, lvn_cuda.capture_end(d->work, &g), "capturing a step");
    struct action *a = action_new(run, GRAPH);
    int answer = a ? lvn_cuda.graph_prepare(&a->graph, g, 0) : 0;
    if (a && answer) a->graph = NULL;
    (void)lvn_cuda.graph_free(g);
    if (!a) return LVN_MEMORY;
    LVN_CUDA_DO(d, answer, "making a step's graph");
    return LVN_OK;
}

static enum lvn_status begin_micro_batch(struct lvn_gpu_program *p, struct captured_run *run, int64_t m)
{
    struct lvn_cuda_device *d = device_of(p);
    if (m < run->n_micro_batches) lvn_gpu_set_micro_batch(p, m);
    LVN_TRY(begin_graph(p, run));
    LVN_CUDA_DO(d, lvn_cuda.upload(lvn_cuda_address_of(p->step, 0), &run->steps[m], sizeof *run->steps, d->work),
                "capturing a copy to the device");
    return LVN_OK;
}

static enum lvn_status interrupt(struct lvn_gpu_program *p, struct captured_run *run, int kind,
                                 const struct lvn_instr *i)
{
    LVN_TRY(end_graph(p, run));
    struct action *a = action_new(run, kind);
    if (!a) return LVN_MEMORY;
    a->instr = i;
    return LVN_OK;
}

/* Collectives between devices are captured; those on the host interrupt the graph. */
static enum lvn_status record_collective(struct lvn_gpu_program *p, struct captured_run *run, const struct lvn_instr *i,
                                         const struct lvn_collectives *collectives)
{
    if (!lvn_gpu_carries(p, collectives)) return interrupt(p, run, COMMUNICATE, i);
    LVN_TRY(begin_graph(p, run));
    return lvn_gpu_communicate(p, i, collectives, false);
}

static enum lvn_status record_all(struct lvn_gpu_program *p, struct captured_run *run,
                                  const struct lvn_collectives *collectives)
{
    struct lvn_launch_order w = lvn_launch_order_begin(p->program, run->n_micro_batches);
    if (run->n_micro_batches == 0)
        LVN_TRY(begin_micro_batch(p, run, 0)); /* an update without micro-batches reads `steps` too */
    while (lvn_launch_order_next(&w)) {
        if (w.event == LVN_ORDER_BACKWARD_DONE && run->without_update) break;
        if (w.event == LVN_ORDER_BACKWARD_DONE && run->hook) LVN_TRY(interrupt(p, run, BEFORE_UPDATE, NULL));
        if (w.event == LVN_ORDER_MICRO_BATCH) LVN_TRY(begin_micro_batch(p, run, w.micro_batch));
        if (w.event != LVN_ORDER_LAUNCH) continue;
        if (w.instr->op->collective && collectives) LVN_TRY(record_collective(p, run, w.instr, collectives));
        if (w.instr->op->collective) continue;
        LVN_TRY(begin_graph(p, run));
        LVN_TRY(lvn_gpu_launch_all(p, w.instr));
    }
    return end_graph(p, run);
}

static enum lvn_status record(struct lvn_gpu_program *p, struct captured_run *run,
                              const struct lvn_collectives *collectives)
{
    struct lvn_cuda_device *d = device_of(p);
    struct lvn_cuda_graph *partial = NULL;
    LVN_CUDA_DO(d, lvn_cuda.event_new(&run->copied, LVN_CUDA_NO_TIMING), "making an event");
    LVN_CUDA_DO(d, lvn_cuda.pinned_alloc((void **)&run->steps, sizeof *run->steps * (size_t)steps_of(run), 0),
                "pinning memory");
    enum lvn_status status = record_all(p, run, collectives);
    if (run->recording && lvn_cuda.capture_end(d->work, &partial) == 0 && partial) (void)lvn_cuda.graph_free(partial);
    run->recording = false;
    return status;
}

static enum lvn_status captured_run_for(struct lvn_gpu_program *p, const struct lvn_execution *execution,
                                        struct captured_run **out)
{
    const struct captured_run want = {.n_micro_batches = execution->n_micro_batches,
                                      .without_update = execution->without_update,
                                      .collectives = execution->collectives != NULL,
                                      .hook = execution->before_update != NULL};
    for (struct captured_run *run = *out = p->backend_data; run; run = *out = run->next)
        if (run->n_micro_batches == want.n_micro_batches && run->without_update == want.without_update &&
            run->collectives == want.collectives && run->hook == want.hook)
            return LVN_OK;
    struct captured_run *run = lvn_calloc(1, sizeof *run);
    if (!run) return LVN_MEMORY;
    *run = want;
    enum lvn_status status = record(p, run, execution->collectives);
    if (status != LVN_OK) {
        captured_run_free(run);
        return lvn_while_at(status, "capturing a step of %lld micro-batches", (long long)execution->n_micro_batches);
    }
    run->next = p->backend_data;
    p->backend_data = *out = run;
    return LVN_OK;
}

/* --- replaying --- */

static enum lvn_status perform(struct lvn_gpu_program *p, const struct action *a, const struct lvn_execution *execution)
{
    struct lvn_cuda_device *d = device_of(p);
    if (a->kind == COMMUNICATE) return lvn_gpu_communicate(p, a->instr, execution->collectives, true);
    if (a->kind == BEFORE_UPDATE)
        execution->before_update(execution->context);
    else
        LVN_CUDA_DO(d, lvn_cuda.graph_launch(a->graph, d->work), "launching a step");
    return LVN_OK;
}

enum lvn_status lvn_cuda_run_captured(struct lvn_gpu_program *p, const struct lvn_execution *execution)
{
    struct lvn_cuda_device *d = device_of(p);
    struct captured_run *run;
    LVN_TRY(captured_run_for(p, execution, &run));
    LVN_CUDA_DO(d, lvn_cuda.event_finish(run->copied), "waiting for the previous step");
    for (int64_t m = 0; m < steps_of(run); m++) run->steps[m] = lvn_gpu_step_at(p, m);
    for (int k = 0; k < run->n; k++) {
        LVN_TRY(perform(p, &run->actions[k], execution));
        if (k == 0) lvn_work_done(execution->n_micro_batches);
    }
    LVN_CUDA_DO(d, lvn_cuda.event_record(run->copied, d->work), "recording the end of a step");
    return LVN_OK;
}
