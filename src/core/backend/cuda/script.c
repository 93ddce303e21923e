/* script.c - see script.h. */
#include "backend/cuda/script.h"

#include <stdlib.h>

#include "backend/cuda/queue.h"
#include "base/arena.h"
#include "base/work.h"

struct action {
    enum { GRAPH, COMMUNICATE, BEFORE_UPDATE } kind;
    struct lvn_cuda_graph_run *run;
    const struct lvn_instr *instr;
};

struct script {
    int64_t n_micro_batches;
    bool without_update, collectives, hook; /* what kind of run; see struct lvn_execution */
    struct action *actions;
    int n, capacity;
    struct lvn_gpu_step *steps;    /* pinned, one per micro-batch, at least one */
    struct lvn_cuda_event *copied; /* `steps` has been copied, and may be overwritten */
    bool recording;                /* a graph is being captured */
    struct script *next;
};

static struct lvn_cuda_device *device_of(const struct lvn_gpu_program *p)
{
    return lvn_cuda_of(p->base.device);
}

int64_t lvn_cuda_max_captured =
    1 << 17; /* an estimate: a captured launch needs some hundred bytes, which no plan counts */

bool lvn_cuda_script_fits(const struct lvn_gpu_program *p, const struct lvn_execution *execution)
{
    return device_of(p)->graphs && p->n_launches * execution->n_micro_batches <= lvn_cuda_max_captured;
}

static int64_t steps_of(const struct script *s)
{
    return s->n_micro_batches > 0 ? s->n_micro_batches : 1;
}

static void script_free(struct script *s)
{
    for (int k = 0; k < s->n; k++)
        if (s->actions[k].run) (void)lvn_cuda.graph_run_free(s->actions[k].run);
    if (s->copied) (void)lvn_cuda.event_finish(s->copied);
    if (s->copied) (void)lvn_cuda.event_free(s->copied);
    if (s->steps) (void)lvn_cuda.pinned_free(s->steps);
    free(s->actions);
    free(s);
}

void lvn_cuda_scripts_free(struct lvn_gpu_program *p)
{
    for (struct script *s = p->backend_data, *next; s; s = next) {
        next = s->next;
        script_free(s);
    }
    p->backend_data = NULL;
}

/* --- recording --- */

static struct action *action_new(struct script *s, int kind)
{
    if (s->n == s->capacity) {
        int capacity = s->capacity ? 2 * s->capacity : 8;
        struct action *detail = lvn_realloc(s->actions, sizeof *detail * (size_t)capacity);
        if (!detail) return NULL;
        s->actions = detail;
        s->capacity = capacity;
    }
    s->actions[s->n] = (struct action){.kind = kind};
    return &s->actions[s->n++];
}

static enum lvn_status begin_graph(struct lvn_gpu_program *p, struct script *s)
{
    struct lvn_cuda_device *d = device_of(p);
    if (s->recording) return LVN_OK;
    LVN_CUDA_DO(d, lvn_cuda.capture_begin(d->work, LVN_CUDA_CAPTURE_RELAXED), "capturing a step");
    s->recording = true;
    return LVN_OK;
}

static enum lvn_status end_graph(struct lvn_gpu_program *p, struct script *s)
{
    struct lvn_cuda_device *d = device_of(p);
    struct lvn_cuda_graph *g = NULL;
    if (!s->recording) return LVN_OK;
    LVN_TRY(lvn_cuda_queues_end(d));
    s->recording = false;
    LVN_CUDA_DO(d, lvn_cuda.capture_end(d->work, &g), "capturing a step");
    struct action *a = action_new(s, GRAPH);
    int answer = a ? lvn_cuda.graph_prepare(&a->run, g, 0) : 0;
    if (a && answer) a->run = NULL;
    (void)lvn_cuda.graph_free(g);
    if (!a) return LVN_MEMORY;
    LVN_CUDA_DO(d, answer, "making a step's graph");
    return LVN_OK;
}

static enum lvn_status begin_micro_batch(struct lvn_gpu_program *p, struct script *s, int64_t m)
{
    struct lvn_cuda_device *d = device_of(p);
    if (m < s->n_micro_batches) lvn_gpu_set_micro_batch(p, m);
    LVN_TRY(begin_graph(p, s));
    LVN_CUDA_DO(d, lvn_cuda.upload(lvn_cuda_address_of(p->step, 0), &s->steps[m], sizeof *s->steps, d->work),
                "capturing a copy to the device");
    return LVN_OK;
}

static enum lvn_status interrupt(struct lvn_gpu_program *p, struct script *s, int kind, const struct lvn_instr *i)
{
    LVN_TRY(end_graph(p, s));
    struct action *a = action_new(s, kind);
    if (!a) return LVN_MEMORY;
    a->instr = i;
    return LVN_OK;
}

/* Collectives between devices are captured; those on the host interrupt the graph. */
static enum lvn_status record_collective(struct lvn_gpu_program *p, struct script *s, const struct lvn_instr *i,
                                         const struct lvn_collectives *collectives)
{
    if (!lvn_gpu_carries(p, collectives)) return interrupt(p, s, COMMUNICATE, i);
    LVN_TRY(begin_graph(p, s));
    return lvn_gpu_communicate(p, i, collectives, false);
}

static enum lvn_status record_all(struct lvn_gpu_program *p, struct script *s,
                                  const struct lvn_collectives *collectives)
{
    struct lvn_launch_order w = lvn_launch_order_begin(p->program, s->n_micro_batches);
    if (s->n_micro_batches == 0)
        LVN_TRY(begin_micro_batch(p, s, 0)); /* an update without micro-batches reads `steps` too */
    while (lvn_launch_order_next(&w)) {
        if (w.event == LVN_ORDER_BACKWARD_DONE && s->without_update) break;
        if (w.event == LVN_ORDER_BACKWARD_DONE && s->hook) LVN_TRY(interrupt(p, s, BEFORE_UPDATE, NULL));
        if (w.event == LVN_ORDER_MICRO_BATCH) LVN_TRY(begin_micro_batch(p, s, w.micro_batch));
        if (w.event != LVN_ORDER_LAUNCH) continue;
        if (w.instr->op->collective && collectives) LVN_TRY(record_collective(p, s, w.instr, collectives));
        if (w.instr->op->collective) continue;
        LVN_TRY(begin_graph(p, s));
        LVN_TRY(lvn_gpu_launch_all(p, w.instr));
    }
    return end_graph(p, s);
}

static enum lvn_status record(struct lvn_gpu_program *p, struct script *s, const struct lvn_collectives *collectives)
{
    struct lvn_cuda_device *d = device_of(p);
    struct lvn_cuda_graph *partial = NULL;
    LVN_CUDA_DO(d, lvn_cuda.event_new(&s->copied, LVN_CUDA_NO_TIMING), "making an event");
    LVN_CUDA_DO(d, lvn_cuda.pinned_alloc((void **)&s->steps, sizeof *s->steps * (size_t)steps_of(s), 0),
                "pinning memory");
    enum lvn_status status = record_all(p, s, collectives);
    if (s->recording && lvn_cuda.capture_end(d->work, &partial) == 0 && partial) (void)lvn_cuda.graph_free(partial);
    s->recording = false;
    return status;
}

static enum lvn_status script_for(struct lvn_gpu_program *p, const struct lvn_execution *execution, struct script **out)
{
    const struct script want = {.n_micro_batches = execution->n_micro_batches,
                                .without_update = execution->without_update,
                                .collectives = execution->collectives != NULL,
                                .hook = execution->before_update != NULL};
    for (struct script *s = *out = p->backend_data; s; s = *out = s->next)
        if (s->n_micro_batches == want.n_micro_batches && s->without_update == want.without_update &&
            s->collectives == want.collectives && s->hook == want.hook)
            return LVN_OK;
    struct script *s = lvn_calloc(1, sizeof *s);
    if (!s) return LVN_MEMORY;
    *s = want;
    enum lvn_status status = record(p, s, execution->collectives);
    if (status != LVN_OK) {
        script_free(s);
        return lvn_while_at(status, "capturing a step of %lld micro-batches", (long long)execution->n_micro_batches);
    }
    s->next = p->backend_data;
    p->backend_data = *out = s;
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
        LVN_CUDA_DO(d, lvn_cuda.graph_launch(a->run, d->work), "launching a step");
    return LVN_OK;
}

enum lvn_status lvn_cuda_script_run(struct lvn_gpu_program *p, const struct lvn_execution *execution)
{
    struct lvn_cuda_device *d = device_of(p);
    struct script *s;
    LVN_TRY(script_for(p, execution, &s));
    LVN_CUDA_DO(d, lvn_cuda.event_finish(s->copied), "waiting for the previous step");
    for (int64_t m = 0; m < steps_of(s); m++) s->steps[m] = lvn_gpu_step_at(p, m);
    for (int k = 0; k < s->n; k++) {
        LVN_TRY(perform(p, &s->actions[k], execution));
        if (k == 0) lvn_work_done(execution->n_micro_batches);
    }
    LVN_CUDA_DO(d, lvn_cuda.event_record(s->copied, d->work), "recording the end of a step");
    return LVN_OK;
}
