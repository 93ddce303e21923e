/* plan_ranks.c - levin plan RECIPE --ranks N: the time of a step on many ranks, before anything is booked.
 *
 * Computing is measured: rank 0's program runs here on made-up data, with as many copies beside it as ranks would share
 * a host, for they share its memory too. A model that is too large or too slow for that is cut to one and to two
 * layers; the difference is what each further layer takes.
 *
 * Communication is a formula of latency and bandwidth (Thakur et al., see comm/exchange.c): to sum n bytes over N
 * ranks, P to a host, each sends 2 n/N to every other one; a host's P ranks share its bandwidth, and there and back
 * takes two latencies. Sums run beside the last backward as far as they can, but for the last bucket. What MPI itself
 * takes of the processor is left out, as are slower hosts and the network's other users. */
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/machine.h"
#include "cli/plan.h"
#include "models/keys.h"
#include "train/trial.h"

enum { NEIGHBOURS = 256, TRIES = 3 };
static const double WHOLE_SECONDS = 4, ASSUMED_USE = 0.5; /* of the rate of matrix products */

struct forecast {
    struct lvn_cli *c;
    const struct lvn_training *t;
    const struct lvn_model_config *model;
    int ranks, each, hosts, cores, threads;
    int64_t rows;           /* of the rank that has most */
    int layers;             /* that were measured; 0: all */
    struct lvn_parts parts; /* of one micro-batch, without neighbours that take its cores away */
    double crowd;           /* threads for each core */
    double reduce, last, share;
    bool beside;
};

static int per_host(const struct lvn_cli *c)
{
    int64_t ranks = c->flag[LVN_FLAG_plan_ranks].i, each = c->flag[LVN_FLAG_plan_nproc_per_node].i;
    return (int)(each < 1 ? 1 : each < ranks ? each : ranks);
}

void lvn_plan_threads(struct lvn_cli *c)
{
    struct lvn_machine m;
    lvn_machine_read(&m);
    if (c->settings.trainer.threads || per_host(c) == 1) return;
    c->settings.trainer.threads = m.threads > per_host(c) ? m.threads / per_host(c) : 1;
}

/* --- computing --- */

/* Rank 0's program of a model with so many layers; `tries` 0: for ever. */
static enum lvn_status time_layers(const struct forecast *f, int64_t layers, int tries, struct lvn_parts *parts)
{
    const struct lvn_settings *s = &f->c->settings;
    struct lvn_model_config model = *f->model;
    struct lvn_training t;
    struct lvn_training_options o = {
        .size = f->ranks, .fields = &f->t->fields, .task = f->t->step->options.task, .pieces = f->t->pieces};
    int64_t labels;
    lvn_model_set(&model, LVN_MEANS_LAYERS, layers);
    enum lvn_status status = lvn_training_plan(&t, s, &model, &o);
    if (status == LVN_OK) status = lvn_network_allocate(t.network);
    if (status == LVN_OK) status = lvn_network_init_values(t.network, 1, false);
    if (status == LVN_OK) status = lvn_trial_fill(&t, lvn_model_value(&model, LVN_MEANS_VOCABULARY), &labels);
    lvn_parts_clear(parts);
    for (int i = -1; status == LVN_OK && (i < tries || !tries); i++) { /* the first touches the memory */
        if (i == 0) lvn_parts_clear(parts);
        status = lvn_parts_try(&t, i + 1, 1e-9, labels, parts);
    }
    parts->forward /= (double)t.accumulation;
    parts->backward /= (double)t.accumulation;
    lvn_training_release(&t);
    return status;
}

/* Copies of this process that compute all the while. */
static int start_neighbours(const struct forecast *f, int64_t layers, pid_t *pids, int n)
{
    struct lvn_parts parts;
    pid_t parent = getpid();
    for (int i = 0; i < n; i++) {
        pids[i] = fork();
        if (pids[i] < 0) return i;
        if (pids[i] > 0) continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() == parent && time_layers(f, layers, 0, &parts)) _exit(1);
        _exit(0);
    }
    return n;
}

static enum lvn_status time_crowd(const struct forecast *f, int64_t layers, struct lvn_parts *parts)
{
    int copies = f->cores / f->threads < f->each ? f->cores / f->threads : f->each;
    pid_t pids[NEIGHBOURS];
    int n = start_neighbours(f, layers, pids, copies > NEIGHBOURS ? NEIGHBOURS : copies - 1);
    enum lvn_status status = time_layers(f, layers, TRIES, parts);
    for (int i = 0; i < n; i++) kill(pids[i], SIGKILL);
    for (int i = 0; i < n; i++) waitpid(pids[i], NULL, 0);
    return status;
}

static double along(double one, double two, int64_t layers)
{
    return one + (two > one ? two - one : 0) * (double)(layers - 1);
}

static enum lvn_status measure(struct forecast *f)
{
    double rate;
    int64_t room = lvn_memory_available(), layers = lvn_model_value(f->model, LVN_MEANS_LAYERS);
    LVN_TRY(lvn_network_rate(f->t->network, &rate));
    bool fits = room <= 0 || lvn_network_bytes(f->t->network) <= room / f->each;
    if (fits && lvn_program_flops(f->t->step->program) / (rate * ASSUMED_USE) < WHOLE_SECONDS)
        return time_crowd(f, layers, &f->parts);
    struct lvn_parts one, two;
    f->layers = layers < 2 ? 1 : 2;
    LVN_TRY(time_crowd(f, 1, &one));
    two = one;
    if (layers > 1) LVN_TRY(time_crowd(f, 2, &two));
    f->parts = (struct lvn_parts){.forward = along(one.forward, two.forward, layers),
                                  .backward = along(one.backward, two.backward, layers),
                                  .update = along(one.update, two.update, layers)};
    return LVN_OK;
}

/* --- communication --- */

/* Every rank sends its part of each shard to the shard's owner; or gets each shard from its owner. */
static double one_way(const struct forecast *f, double bytes)
{
    double away = f->hosts > 1 ? f->ranks - f->each : f->ranks - 1;
    if (f->ranks == 1) return 0;
    return f->c->flag[LVN_FLAG_plan_latency].r +
           f->each * bytes * away / f->ranks / f->c->flag[LVN_FLAG_plan_bandwidth].r;
}

/* The most subtrees that a rank holds of the tree over all micro-batches. */
static int most_subtrees(const struct lvn_training *t, int ranks)
{
    struct lvn_subtree some[LVN_MAX_SUBTREES];
    int most = 1;
    for (int i = 0; i < ranks; i++) {
        int n = lvn_subtrees(t->leaf[ranks], t->leaf[i], t->leaf[i + 1], some);
        if (n > most) most = n;
    }
    return most;
}

static void communicate(struct forecast *f)
{
    const struct lvn_program *p = f->t->step->program;
    const struct lvn_sharding *s = &f->t->reduction.sharding;
    const double count = (double)p->graph->params->trainable_count;
    double all = count * (double)lvn_dtype_bytes(p->gradients);
    double back = s->zero1 ? 0 : 1; /* sums go back to all */
    if (s->tree) f->reduce = one_way(f, most_subtrees(f->t, f->ranks) * all) + back * one_way(f, all);
    for (int n = 0; n < p->n_instrs; n++) {
        const struct lvn_instr *i = &p->instrs[n];
        if (i->id != LVN_OP_all_reduce && i->id != LVN_OP_reduce_scatter) continue;
        f->last = (1 + back) * one_way(f, (double)p->values[i->out[0].value].bytes);
        f->reduce += f->last;
    }
    if (s->zero1) f->share = one_way(f, count * (double)lvn_dtype_bytes(p->weights));
}

/* --- together --- */

static int64_t most_rows(const struct lvn_training *t, const struct lvn_settings *s, int ranks)
{
    int64_t most = (s->trainer.batch_size + ranks - 1) / ranks;
    for (int i = 0; i < ranks && s->trainer.micro_batch_size; i++) {
        int64_t rows = (t->leaf[i + 1] - t->leaf[i]) * t->micro;
        if (i == 0 || rows > most) most = rows;
    }
    return most;
}

static double step_seconds(const struct forecast *f)
{
    double micro = (double)f->rows / (double)f->t->micro; /* micro-batches, one of them perhaps not whole */
    double forward = f->parts.forward * micro * f->crowd, last = f->parts.backward * f->crowd;
    double before = last * (micro - 1), hidden = f->reduce - f->last;
    double backward = f->beside ? before + (hidden > last ? hidden : last) + f->last : before + last + f->reduce;
    return forward + backward + f->share + f->parts.update * f->crowd;
}

static void print(const struct forecast *f, double step, double alone)
{
    struct lvn_cli *c = f->c;
    double latency = c->flag[LVN_FLAG_plan_latency].r, bandwidth = c->flag[LVN_FLAG_plan_bandwidth].r;
    double rate = (double)(c->settings.trainer.batch_size * f->t->block_size) / step,
           efficiency = alone / step / f->ranks;
    char text[LVN_NUMBER_TEXT];
    lvn_cli_print(
        c,
        "\n%d ranks, %d on each host, with %d thread%s; messages take %.3g us, a host sends %.3g GB/s (--latency, "
        "--bandwidth)\n",
        f->ranks, f->each, f->threads, f->threads == 1 ? "" : "s", latency * 1e6, bandwidth / 1e9);
    lvn_cli_print(c, "  a micro-batch of %lld, measured here%s: forward %.4g s, backward %.4g s; update %.4g s\n",
                  (long long)f->t->micro,
                  f->layers == 2 ? " on two layers"
                  : f->layers    ? " on one layer"
                                 : "",
                  f->parts.forward, f->parts.backward, f->parts.update);
    if (f->crowd > 1)
        lvn_cli_print(c, "  %.3g threads share each core of a host: computing takes so much longer\n", f->crowd);
    lvn_cli_print(c, "  sums of gradients %.4g s, %s", f->reduce,
                  f->t->reduction.sharding.tree ? "in order, behind backward"
                  : f->beside                   ? "beside the last backward"
                                                : "behind backward, for all cores compute");
    if (f->share > 0) lvn_cli_print(c, "; parameters to all %.4g s", f->share);
    lvn_cli_print(c, "\n  predicted: %.4g s a step, %s %s/s, %.0f %% of %d times one rank\n", step,
                  lvn_count_text((int64_t)rate, text), lvn_task_unit(f->t->step->options.task), 100 * efficiency,
                  f->ranks);
    json_t *p = json_pack("{s:i,s:i,s:i,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:b,s:f,s:f,s:f}", "ranks", f->ranks,
                          "nproc_per_node", f->each, "threads", f->threads, "latency_s", latency, "bytes_per_s",
                          bandwidth, "forward_s", f->parts.forward, "backward_s", f->parts.backward, "update_s",
                          f->parts.update, "reduce_s", f->reduce, "share_s", f->share, "beside", f->beside, "step_s",
                          step, "tokens_per_s", rate, "efficiency", efficiency);
    lvn_cli_add(c, "predicted", p);
}

enum lvn_status lvn_plan_ranks(struct lvn_cli *c, const struct lvn_training *t, const struct lvn_model_config *m)
{
    struct lvn_machine machine;
    struct forecast f = {.c = c, .t = t, .model = m, .each = per_host(c), .threads = t->network->threads};
    lvn_machine_read(&machine);
    f.ranks = (int)c->flag[LVN_FLAG_plan_ranks].i;
    f.hosts = (f.ranks + f.each - 1) / f.each;
    f.cores = machine.allowed > 0 ? machine.allowed : 1;
    f.rows = most_rows(t, &c->settings, f.ranks);
    f.crowd = f.each * f.threads > f.cores ? (double)f.each * f.threads / f.cores : 1;
    f.beside = !t->reduction.sharding.tree && (f.hosts > 1 || f.each * f.threads < f.cores);
    if (f.threads > f.cores) f.crowd = f.each; /* its own threads crowd it already while it is measured */
    LVN_TRY_WHILE(measure(&f), "measuring a micro-batch");
    communicate(&f);
    struct forecast one = {.t = t, .rows = c->settings.trainer.batch_size, .parts = f.parts, .crowd = 1};
    if (t->reduction.sharding.zero1) one.parts.update *= f.ranks;
    print(&f, step_seconds(&f), step_seconds(&one));
    return LVN_OK;
}
