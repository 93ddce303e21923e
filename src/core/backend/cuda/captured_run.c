/* captured_run.c - see captured_run.h. */
#include "backend/cuda/captured_run.h"

#include "base/arena.h"
#include "base/list.h"
#include "base/log.h"
#include "base/text.h"
#include "base/work.h"

struct action {
    enum { GRAPH, COMMUNICATE, BEFORE_UPDATE } kind;
    struct lvn_cuda_graph_run *graph;
    const struct lvn_instr *instr;
};

/* A part of a run with many micro-batches: those with the same launches, but for the places of inputs and sums. */
struct part {
    bool first, last; /* of the step's micro-batches */
    int buffer;       /* of gradients */
    int begin, end;   /* its actions */
};

/* Three micro-batches represent any larger number: the first, a further one, the last. This does not hold with several
 * gradient buffers, because the order in which they are used depends on the number of micro-batches. */
enum { ANY = 3, WHOLE_MAX = 2 };

struct captured_run {
    int64_t n_micro_batches;                /* ANY: this number or more */
    bool without_update, collectives, hook; /* the options of struct lvn_execution of these graphs */
    struct action *actions;
    int n;
    int update;         /* in parts: the first action after all micro-batches */
    struct part *parts; /* NULL: captured as a whole */
    int n_parts;
    int64_t capacity;           /* of actions */
    struct lvn_gpu_step *steps; /* pinned, one per micro-batch, at least one */
    int64_t n_steps;
    struct lvn_cuda_event *copied; /* `steps` has been copied, and may be overwritten */
    struct lvn_memory *slot;       /* in parts: inputs and sums of micro-batches after the first; NULL: none */
    bool recording;                /* a graph is being captured */
    struct captured_run *next;
};

static struct lvn_cuda_device *device_of(const struct lvn_gpu_program *p)
{
    return lvn_cuda_of(p->base.device);
}

int64_t lvn_cuda_max_captured =
    1 << 17; /* an estimate: a captured launch needs some hundred bytes, which no plan counts */

static int buffer_of(const struct lvn_gpu_program *p, int64_t micro_batch)
{
    return p->program->grad_buffer_of ? p->program->grad_buffer_of[micro_batch] : 0;
}

/* The most parts: the first and the last micro-batch, and one for each gradient buffer, or for all if there is none. */
static int max_parts(const struct lvn_gpu_program *p)
{
    return 2 + (p->program->n_grad_buffers > 1 ? p->program->n_grad_buffers : 1);
}

bool lvn_cuda_captures(const struct lvn_gpu_program *p, const struct lvn_execution *execution)
{
    const int64_t all = execution->n_micro_batches, n = all > WHOLE_MAX && all > max_parts(p) ? max_parts(p) : all;
    return device_of(p)->graphs && p->n_launches * n <= lvn_cuda_max_captured;
}

static void captured_run_free(struct captured_run *run)
{
    for (int k = 0; k < run->n; k++)
        if (run->actions[k].graph) (void)lvn_cuda.graph_run_free(run->actions[k].graph);
    if (run->copied) (void)lvn_cuda.event_finish(run->copied);
    if (run->copied) (void)lvn_cuda.event_free(run->copied);
    if (run->steps) (void)lvn_cuda.pinned_free(run->steps);
    lvn_memory_free(run->slot);
    free(run->parts);
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

/* Pinned memory for the values of n micro-batches. */
static enum lvn_status make_steps(const struct lvn_cuda_device *d, struct captured_run *run, int64_t n)
{
    if (n <= run->n_steps) return LVN_OK;
    if (run->steps) (void)lvn_cuda.pinned_free(run->steps);
    run->steps = NULL, run->n_steps = 0;
    LVN_CUDA_DO(d, lvn_cuda.pinned_alloc((void **)&run->steps, sizeof *run->steps * (size_t)n, 0), "pinning memory");
    run->n_steps = n;
    return LVN_OK;
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
    int result = a ? lvn_cuda.graph_prepare(&a->graph, g, 0) : 0;
    if (a && result) a->graph = NULL;
    (void)lvn_cuda.graph_free(g);
    if (!a) return LVN_MEMORY;
    LVN_CUDA_DO(d, result, "making a step's graph");
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
    if (!lvn_gpu_has_device_comm(p, collectives)) return interrupt(p, run, COMMUNICATE, i);
    LVN_TRY(begin_graph(p, run));
    return lvn_gpu_communicate(p, i, collectives, false);
}

static enum lvn_status record_launch(struct lvn_gpu_program *p, struct captured_run *run, const struct lvn_instr *i,
                                     const struct lvn_collectives *collectives)
{
    if (i->op->collective) return collectives ? record_collective(p, run, i, collectives) : LVN_OK;
    LVN_TRY(begin_graph(p, run));
    return lvn_gpu_launch_all(p, i);
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
        if (w.event == LVN_ORDER_LAUNCH) LVN_TRY(record_launch(p, run, w.instr, collectives));
    }
    return end_graph(p, run);
}

/* The part of micro-batch m of n; NULL: none yet. */
static struct part *part_of(const struct lvn_gpu_program *p, const struct captured_run *run, int64_t m, int64_t n)
{
    for (struct part *k = run->parts; k < run->parts + run->n_parts; k++)
        if (k->first == (m == 0) && k->last == (m == n - 1) && k->buffer == buffer_of(p, m)) return k;
    return NULL;
}

/* Begin a part with micro-batch m as its pattern. All but the first use the slot. */
static struct part *begin_part(struct lvn_gpu_program *p, struct captured_run *run, int64_t m)
{
    struct part *part = &run->parts[run->n_parts++];
    *part = (struct part){
        .first = m == 0, .last = m == run->n_micro_batches - 1, .buffer = buffer_of(p, m), .begin = run->n};
    if (m == 0)
        lvn_gpu_set_micro_batch(p, 0);
    else
        lvn_gpu_set_slot(p, run->slot, part->buffer);
    return part;
}

/* Sums of gradient buffers after a micro-batch are launched one by one: each is a single launch, and they differ. */
static enum lvn_status record_parts(struct lvn_gpu_program *p, struct captured_run *run,
                                    const struct lvn_collectives *collectives)
{
    struct lvn_launch_order w = lvn_launch_order_begin(p->program, run->n_micro_batches);
    struct part *part = NULL;
    bool updating = false;
    if (!(run->parts = lvn_calloc((size_t)max_parts(p), sizeof *run->parts))) return LVN_MEMORY;
    LVN_TRY(lvn_memory_new(&run->slot, p->base.device, lvn_gpu_place_slot(p)));
    while (lvn_launch_order_next(&w)) {
        if (w.event == LVN_ORDER_LAUNCH) {
            if ((part || updating) && w.instr->when != LVN_AFTER_MICRO_BATCH)
                LVN_TRY(record_launch(p, run, w.instr, collectives));
            continue;
        }
        LVN_TRY(end_graph(p, run));
        if (part) part->end = run->n;
        part = NULL;
        if (w.event == LVN_ORDER_MICRO_BATCH) {
            if (!part_of(p, run, w.micro_batch, run->n_micro_batches)) part = begin_part(p, run, w.micro_batch);
            continue;
        }
        updating = true;
        run->update = run->n;
        if (run->without_update) break;
        if (run->hook) LVN_TRY(interrupt(p, run, BEFORE_UPDATE, NULL));
    }
    return end_graph(p, run);
}

/* The driver or a library has refused to capture this run. Without collectives between devices, set *refused: this run
 * and all later ones are launched kernel by kernel. With them, which all ranks must capture or none, return the
 * failure. */
static enum lvn_status handle_refused_capture(struct lvn_gpu_program *p, const struct lvn_collectives *collectives,
                                              enum lvn_status status, bool *refused)
{
    LVN_LOCAL_TEXT(reason);
    const bool between = collectives && lvn_gpu_has_device_comm(p, collectives);
    if (status != LVN_UNSUPPORTED && (status != LVN_MEMORY || between)) return status;
    lvn_text_add(&reason, levin_error_text());
    LVN_TRY(lvn_text_status(&reason));
    LVN_CHECK(!between, UNSUPPORTED, "%s; LEVIN_CUDA_GRAPHS=off, on all ranks, launches kernels one by one instead",
              lvn_text_string(&reason));
    lvn_error_clear();
    lvn_log(LVN_LOG_WARN,
            "a step cannot be captured as a graph (%s); its kernels are launched one by one, which gives the same bits "
            "and is slower",
            lvn_text_string(&reason));
    device_of(p)->graphs = false;
    *refused = true;
    return LVN_OK;
}

static enum lvn_status record(struct lvn_gpu_program *p, struct captured_run *run,
                              const struct lvn_collectives *collectives, bool *refused)
{
    struct lvn_cuda_device *d = device_of(p);
    struct lvn_cuda_graph *partial = NULL;
    LVN_CUDA_DO(d, lvn_cuda.event_new(&run->copied, LVN_CUDA_NO_TIMING), "creating an event");
    LVN_TRY(make_steps(d, run, run->n_micro_batches > 0 ? run->n_micro_batches : 1));
    enum lvn_status status =
        run->n_micro_batches > WHOLE_MAX ? record_parts(p, run, collectives) : record_all(p, run, collectives);
    if (run->recording && lvn_cuda.capture_end(d->work, &partial) == 0 && partial) (void)lvn_cuda.graph_free(partial);
    run->recording = false;
    return status == LVN_OK ? LVN_OK : handle_refused_capture(p, collectives, status, refused);
}

/* *out is NULL if it cannot be captured. */
static enum lvn_status captured_run_for(struct lvn_gpu_program *p, const struct lvn_execution *execution,
                                        struct captured_run **out)
{
    const int64_t n = execution->n_micro_batches;
    const struct captured_run want = {.n_micro_batches = n > ANY && !p->program->grad_buffer_of ? ANY : n,
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
    bool refused = false;
    enum lvn_status status = record(p, run, execution->collectives, &refused);
    if (status != LVN_OK || refused) {
        captured_run_free(run);
        if (refused) return LVN_OK;
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

static enum lvn_status perform_until(struct lvn_gpu_program *p, const struct captured_run *run, int first, int end,
                                     const struct lvn_execution *execution)
{
    for (int k = first; k < end; k++) LVN_TRY(perform(p, &run->actions[k], execution));
    return LVN_OK;
}

/* Copy the inputs of a micro-batch into the slot, or its sums (`results`) from there. */
static enum lvn_status copy_slot(struct lvn_gpu_program *p, const struct captured_run *run, int64_t micro_batch,
                                 bool results)
{
    struct lvn_cuda_device *d = device_of(p);
    for (const struct lvn_gpu_varying_arg *m = p->varying; m < p->varying + p->n_varying; m++) {
        if (!m->memory || m->by_grad_buffer || m->same_slot || m->result != results) continue;
        const lvn_cuda_address there = lvn_cuda_address_of(m->memory, m->origin + micro_batch * m->stride);
        const lvn_cuda_address slot = lvn_cuda_address_of(run->slot, m->slot);
        LVN_CUDA_DO(d, lvn_cuda.copy(results ? there : slot, results ? slot : there, (size_t)m->stride, d->work),
                    "copying the inputs of a micro-batch");
    }
    return LVN_OK;
}

static enum lvn_status run_parts(struct lvn_gpu_program *p, const struct captured_run *run,
                                 const struct lvn_execution *execution)
{
    struct lvn_cuda_device *d = device_of(p);
    const struct lvn_program *program = p->program;
    const int64_t n = execution->n_micro_batches;
    int sum = program->first_sum;
    for (int64_t m = 0; m < n; m++) {
        const struct part *part = part_of(p, run, m, n);
        LVN_CUDA_DO(d, lvn_cuda.upload(lvn_cuda_address_of(p->step, 0), &run->steps[m], sizeof *run->steps, d->work),
                    "copying to the device");
        if (m) LVN_TRY(copy_slot(p, run, m, false));
        LVN_TRY(perform_until(p, run, part->begin, part->end, execution));
        if (m) LVN_TRY(copy_slot(p, run, m, true));
        for (; sum < program->first_update && program->instrs[sum].micro_batch == m; sum++)
            LVN_TRY(lvn_gpu_launch_all(p, &program->instrs[sum]));
        lvn_work_done(1);
    }
    return perform_until(p, run, run->update, run->n, execution);
}

enum lvn_status lvn_cuda_run_captured(struct lvn_gpu_program *p, const struct lvn_execution *execution, bool *ran)
{
    struct lvn_cuda_device *d = device_of(p);
    const int64_t n = execution->n_micro_batches;
    struct captured_run *run;
    LVN_TRY(captured_run_for(p, execution, &run));
    *ran = run != NULL;
    if (!run) return LVN_OK;
    LVN_CUDA_DO(d, lvn_cuda.event_finish(run->copied), "waiting for the previous step");
    LVN_TRY(make_steps(d, run, n));
    for (int64_t m = 0; m < run->n_steps && (m < n || m == 0); m++) run->steps[m] = lvn_gpu_step_at(p, m);
    if (run->parts) {
        LVN_TRY(run_parts(p, run, execution));
    } else {
        LVN_TRY(perform_until(p, run, 0, run->n > 0, execution));
        lvn_work_done(n);
        LVN_TRY(perform_until(p, run, 1, run->n, execution));
    }
    LVN_CUDA_DO(d, lvn_cuda.event_record(run->copied, d->work), "recording the end of a step");
    return LVN_OK;
}
