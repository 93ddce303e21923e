/* bench_step.c - where the time of a training step goes: each instruction of the program timed on its own.
 *
 *     build/bench_step WORKLOAD [THREADS [STEPS [bf16 | bf16-true]]]      WORKLOAD: nanogpt, gpt-mini, dawn, gpt2,
 * gpt2-b4, pythia-70m, llama-124m, kcbert-base, kcbert-large, mnist-mlp, mnist-cnn, mnist-autoencoder
 *
 * Takes the best time of each instruction over the steps, adds them up by operation and phase, and prints milliseconds,
 * share, and GFLOP/s of operations that count their arithmetic. Data are random. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/random.h"
#include "data/dataset.h"
#include "engine/parameters.h"
#include "engine/session.h"
#include "models/keys.h"

static const struct workload {
    const char *name;
    const char *model;
    int64_t n_layer, n_head, n_embd, block, vocabulary, B;
    double dropout;
    bool bias;
    const char *size; /* instead of layers, heads, channels, vocabulary and bias; or NULL */
} workloads[] = {
    {"nanogpt", "nanogpt", 4, 4, 128, 64, 65, 12, 0, false, NULL},
    {"gpt-mini", "mingpt", 6, 6, 192, 128, 65, 64, 0.1, true, NULL},
    {"dawn", "mingpt", 12, 12, 768, 128, 67, 16, 0.1, true, NULL},
    {"gpt2", "nanogpt", 12, 12, 768, 1024, 50304, 1, 0, true, NULL},
    {"gpt2-b4", "nanogpt", 12, 12, 768, 1024, 50304, 4, 0, true, NULL},
    {"pythia-70m", "neox", 0, 0, 0, 1024, 50304, 2, 0, false, "pythia-70m"},
    {"llama-124m", "llama", 0, 0, 0, 1024, 50304, 1, 0, false, "llama-124m"},
    {"kcbert-base", "bert", 0, 0, 0, 16, 30000, 32, 0.1, true, "kcbert-base"}, /* a film review has 17 tokens */
    {"kcbert-large", "bert", 0, 0, 0, 16, 30000, 32, 0.1, true, "kcbert-large"},
    {"mnist-mlp", "mnist-mlp", .B = 128},
    {"mnist-cnn", "mnist-cnn", .B = 64},
    {"mnist-autoencoder", "mnist-autoencoder", .B = 1},
};

extern const struct lvn_dataset_kind lvn_dataset_mnist, lvn_dataset_labelled;

struct bench {
    const struct lvn_program *p;
    double last;
    double *best; /* seconds of each instruction */
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void launched(void *argument, const struct lvn_launch_order *at)
{
    struct bench *b = argument;
    double t = now(), *best = &b->best[at->instr - b->p->instrs];
    if (t - b->last < *best) *best = t - b->last;
    b->last = now();
}

static double flops_of(const struct lvn_instr *i)
{
    struct lvn_call call;
    lvn_instr_describe(i, &call);
    return i->op->flops ? i->op->flops(&call) : 0;
}

static const char *const phases[LVN_PHASE_COUNT] = {"", "backward", "restore"};

/* Print each instruction, for programs with few of them. */
static void report_each(const struct bench *b)
{
    enum { FEW = 32 };
    for (int n = 0; n < b->p->n_instrs && b->p->n_instrs <= FEW; n++) {
        const struct lvn_instr *i = &b->p->instrs[n];
        printf("%-24s %-11s %9.1f us %9.1f GFLOP/s\n", i->name, phases[i->phase], 1e6 * b->best[n],
               1e-9 * flops_of(i) / b->best[n]);
    }
}

static void report(const struct bench *b, double step, double best_step, int64_t tokens)
{
    double all = 0;
    for (int n = 0; n < b->p->n_instrs; n++) all += b->best[n];
    report_each(b);
    printf("%-36s %9s %7s %9s %6s\n", "", "ms", "share", "GFLOP/s", "calls");
    for (int id = 0; id < LVN_OP_COUNT; id++) {
        for (int phase = 0; phase < LVN_PHASE_COUNT; phase++) {
            double seconds = 0, flops = 0;
            int calls = 0;
            for (int n = 0; n < b->p->n_instrs; n++) {
                const struct lvn_instr *i = &b->p->instrs[n];
                if ((int)i->id != id || (int)i->phase != phase) continue;
                seconds += b->best[n], flops += flops_of(i), calls++;
            }
            if (!calls) continue;
            printf("%-24s %-11s %9.3f %6.1f%% %9.1f %6d\n", lvn_op((enum lvn_op_id)id, LVN_F32)->name, phases[phase],
                   1e3 * seconds, 100 * seconds / all, 1e-9 * flops / seconds, calls);
        }
    }
    printf("sum %.3f ms; whole steps: best %.3f ms, mean %.3f ms, %.0f tokens/s\n", 1e3 * all, 1e3 * best_step,
           1e3 * step, (double)tokens / best_step);
}

/* A batch of a stream of text, of labelled texts, or of digits. */
static struct lvn_fields fields_of(const struct workload *w)
{
    struct lvn_fields fields;
    const struct lvn_data_options labelled = {.block_size = w->block, .vocab_size = w->vocabulary};
    if (!w->block)
        lvn_dataset_mnist.fields(NULL, &fields);
    else if (strcmp(w->model, "bert") == 0)
        lvn_dataset_labelled.fields(&labelled, &fields);
    else
        fields = lvn_stream_fields(w->block, w->vocabulary);
    return fields;
}

static enum lvn_status feed(struct lvn_session *session, const struct lvn_fields *fields, int64_t B)
{
    struct lvn_samples batch;
    LVN_TRY(lvn_samples_init(&batch, fields, B));
    for (int k = 0; k < fields->n; k++) {
        const struct lvn_field *f = &fields->field[k];
        for (int64_t i = 0; i < B * lvn_field_count(f); i++) {
            int64_t x = f->below > 1 ? (int64_t)lvn_random_below(1, (uint64_t)i, (uint64_t)k, f->below - 1) + 1 : 0;
            if (f->dtype == LVN_I32)
                ((int32_t *)batch.p[k])[i] = (int32_t)x;
            else
                ((uint8_t *)batch.p[k])[i] = (uint8_t)x;
        }
    }
    enum lvn_status status = lvn_session_feed(session, 0, &batch);
    lvn_samples_release(&batch);
    return status;
}

static enum lvn_status put_sizes(struct lvn_model_config *c, const struct workload *w)
{
    const struct lvn_key_value sizes[] = {{"n_layer", (double)w->n_layer},
                                          {"n_head", (double)w->n_head},
                                          {"n_embd", (double)w->n_embd},
                                          {"block_size", (double)w->block},
                                          {"vocab_size", (double)w->vocabulary},
                                          {"bias", w->bias},
                                          {"dropout", w->dropout},
                                          {NULL, 0}};
    lvn_model_config_init(c, lvn_model_find(w->model));
    if (!w->block) return LVN_OK;
    if (w->size)
        LVN_TRY(lvn_model_put_size(c, lvn_size_find(c->model, w->size)));
    else
        LVN_TRY(lvn_model_put_all(c, sizes));
    return lvn_model_put(c, "block_size", (double)w->block);
}

static enum lvn_status run(const struct workload *w, int threads, int steps, enum lvn_precision precision)
{
    struct lvn_model_config c;
    struct lvn_model_state *n;
    LVN_TRY(put_sizes(&c, w));
    LVN_TRY(lvn_model_state_new(
        &n, &c,
        &(struct lvn_model_state_options){
            .real = LVN_F32, .precision = precision, .threads = threads, .decay = LVN_DECAY_MATRICES}));
    const struct lvn_optimizer text = {.op = LVN_OP_adamw,
                                       .attr.adamw = {{.weight_decay = 0.1}, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8},
                                       .clip_norm = 1},
                               digits = {.op = LVN_OP_adamw,
                                         .attr.adamw = {.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .coupled = true}};
    const struct lvn_fields fields = fields_of(w);
    const struct lvn_session_options o = {.fields = &fields,
                                          .B = w->B,
                                          .task = lvn_task_find(c.model->tasks[0]),
                                          .train = true,
                                          .optimizer = w->block ? &text : &digits};
    struct lvn_session *session;
    LVN_TRY(lvn_session_new(&session, n, &o));
    LVN_TRY(lvn_model_state_allocate(n));
    LVN_TRY(lvn_parameters_init_values(n, 1, false));
    LVN_TRY(feed(session, &fields, w->B));
    int64_t tokens = w->B * (w->block ? w->block : 1);
    session->step_args = (struct lvn_step){.seed = 1, .lr = 1e-4, .grad_scale = 1.0 / (double)tokens, .training = 1};
    struct bench b = {session->program, 0, calloc((size_t)session->program->n_instrs, sizeof *b.best)};
    for (int i = 0; i < session->program->n_instrs; i++) b.best[i] = 1e9;
    double sum = 0, best = 1e9;
    for (int s = 0; s < 2 * steps; s++) { /* whole steps and single instructions in turns */
        struct lvn_execution how = {.n_micro_batches = 1, .context = &b, .launched = s % 2 ? launched : NULL};
        double begin = b.last = now();
        LVN_TRY(lvn_session_run_as(session, &how));
        double seconds = now() - begin;
        session->step_args.step++;
        if (s % 2 || s == 0) continue;
        sum += seconds;
        if (seconds < best) best = seconds;
    }
    report(&b, sum / (steps > 1 ? steps - 1 : 1), best, tokens);
    free(b.best);
    lvn_model_state_free(n);
    return LVN_OK;
}

int main(int argc, char **argv)
{
    enum lvn_precision precision = argc <= 4                           ? LVN_PRECISION_TRUE
                                   : strcmp(argv[4], "bf16-true") == 0 ? LVN_PRECISION_BF16_TRUE
                                                                       : LVN_PRECISION_BF16_MIXED;
    int threads = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 0, steps = argc > 3 ? (int)strtol(argv[3], NULL, 10) : 5;
    for (size_t i = 0; argc > 1 && i < sizeof workloads / sizeof *workloads; i++) {
        if (strcmp(argv[1], workloads[i].name) != 0) continue;
        if (run(&workloads[i], threads, steps < 2 ? 2 : steps, precision) == LVN_OK) return 0;
        fprintf(stderr, "bench_step: %s\n%s", levin_error_text(), levin_error_trace());
        return 1;
    }
    fprintf(stderr, "usage: bench_step WORKLOAD [threads [steps [bf16 | bf16-true]]]; a WORKLOAD is one of");
    for (size_t i = 0; i < sizeof workloads / sizeof *workloads; i++) fprintf(stderr, " %s", workloads[i].name);
    fprintf(stderr, "\n");
    return 2;
}
