/* bench_attention.c - attention over ranges of keys, on one thread, compared with attention to all earlier keys.
 *
 *     build/bench_attention [ROUNDS]
 *
 * Prints milliseconds of processor time for forward and backward, the minimum over the rounds, in which the rows
 * alternate, and the quotient by the causal row of the same length. LEVIN_ISA limits the instruction set. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "backend/cpu/cpu_kernels.h"
#include "base/bf16.h"
#include "base/random.h"
#include "base/threads.h"

enum { HEADS = 2, CHANNELS = 64, Q = 0, K, V, OUT, LSE, DOUT, DQ, DK, DV, SEGMENTS, OPERANDS };

static const struct row {
    const char *name;
    int64_t T, window, document; /* document: tokens of each; 0: the row is one */
    double softcap;
    int base; /* the row to divide by */
} rows[] = {
    {"causal", 8192, 0, 0, 0, 0}, {"window of 1024", 8192, 1024, 0, 0, 0},  {"soft cap", 8192, 0, 0, 50, 0},
    {"causal", 4096, 0, 0, 0, 3}, {"documents of 512", 4096, 0, 512, 0, 3},
};
enum { N_ROWS = sizeof rows / sizeof *rows };

struct problem {
    union lvn_attr attr;
    struct lvn_step step;
    struct lvn_desc desc[OPERANDS];
    void *memory[OPERANDS];
    struct lvn_call call;
    double best;
};

static struct lvn_arg operand(struct problem *p, int n, struct lvn_desc desc, int64_t document)
{
    const int64_t count = lvn_desc_count(&desc);
    void *memory = calloc((size_t)count, (size_t)lvn_dtype_bytes(desc.dtype));
    if (!memory) exit(1);
    for (int64_t i = 0; i < count; i++) {
        const float x = 2 * lvn_uniform(lvn_philox(1, (uint32_t)i, (uint32_t)n, 0, LVN_STREAM_TEST).v[0]) - 1;
        if (desc.dtype == LVN_F32) ((float *)memory)[i] = x;
        if (desc.dtype == LVN_BF16) ((uint16_t *)memory)[i] = lvn_bf16_make(x);
        if (desc.dtype == LVN_I32) ((int32_t *)memory)[i] = (int32_t)(i / document * document);
    }
    p->desc[n] = desc;
    p->memory[n] = memory;
    return (struct lvn_arg){memory, &p->desc[n]};
}

static void problem_init(struct problem *p, const struct row *r, enum lvn_dtype type)
{
    const struct lvn_desc heads = LVN_DESC(type, 1, r->T, HEADS, CHANNELS);
    const struct lvn_desc out = LVN_DESC(type, 1, r->T, HEADS * CHANNELS);
    *p = (struct problem){.step = {.training = 1}, .best = 1e9};
    p->attr.attention.causal = true;
    p->attr.attention.scale = 0.125;
    p->attr.attention.window = r->window;
    p->attr.attention.softcap = r->softcap;
    p->call = (struct lvn_call){.attr = &p->attr, .step = &p->step, .matmul_dtype = type};
    for (int i = 0; i < 3; i++) {
        p->call.in[i] = operand(p, Q + i, heads, 0);
        p->call.din[i] = operand(p, DQ + i, heads, 0);
    }
    if (r->document) p->call.in[4] = operand(p, SEGMENTS, LVN_DESC(LVN_I32, 1, r->T), r->document);
    p->call.out[0] = operand(p, OUT, out, 0);
    p->call.out[1] = operand(p, LSE, LVN_DESC(LVN_F32, 1, HEADS, r->T), 0);
    p->call.dout[0] = operand(p, DOUT, out, 0);
}

static void call_kernel(void *argument, int thread, int n_threads)
{
    lvn_cpu_call(lvn_cpu_ops(lvn_isa_best()) + LVN_OP_attention, argument, thread, n_threads);
}

static void measure(struct problem *p)
{
    const struct lvn_cpu_op *kernels = lvn_cpu_ops(lvn_isa_best()) + LVN_OP_attention;
    struct timespec begin, end;
    double seconds = 0;
    for (int phase = LVN_FORWARD; phase <= LVN_BACKWARD; phase++) {
        p->call.phase = (enum lvn_phase)phase;
        const int64_t bytes = lvn_cpu_scratch(kernels, &p->call, 1);
        p->call.scratch = aligned_alloc(64, (size_t)(bytes + 63) / 64 * 64);
        if (!p->call.scratch) exit(1);
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
        lvn_team_run(1, call_kernel, &p->call);
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
        seconds += (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec);
        free(p->call.scratch);
    }
    if (seconds < p->best) p->best = seconds;
}

int main(int argc, char **argv)
{
    static struct problem problems[N_ROWS];
    const long rounds = argc > 1 ? strtol(argv[1], NULL, 10) : 5;
    for (int bf16 = 0; bf16 < 2; bf16++) {
        for (int i = 0; i < N_ROWS; i++) problem_init(&problems[i], &rows[i], bf16 ? LVN_BF16 : LVN_F32);
        for (long k = 0; k < rounds; k++)
            for (int i = 0; i < N_ROWS; i++) measure(&problems[i]);
        for (int i = 0; i < N_ROWS; i++) {
            printf("%s %-5s T %5lld  %-17s %8.1f ms  %5.3f\n", lvn_isa_name(lvn_isa_best()), bf16 ? "bf16" : "fp32",
                   (long long)rows[i].T, rows[i].name, 1e3 * problems[i].best,
                   problems[i].best / problems[rows[i].base].best);
            for (int n = 0; n < OPERANDS; n++) free(problems[i].memory[n]);
        }
    }
    return 0;
}
