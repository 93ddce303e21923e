/* plan_ranks.c - levin plan RECIPE --ranks N: the time of a step on many ranks, before anything is booked.
 *
 * Computing is measured: the program of a rank runs here on made-up data, in as many processes as a host has ranks,
 * where this machine can stand for such a host (plan_crowd.c); their sums are measured with it. Else it is filled as
 * far as the host would be, and threads that are too many for a host's cores, or for this machine's, count in
 * proportion. A model that is too large or too slow for that is cut to one and to two layers; the difference is what
 * each further layer takes.
 *
 * What goes between hosts is a formula: the bytes and rounds that lvn_sum_traffic() counts, with latency and bandwidth.
 * Sums run beside the last backward as far as they can, but for the last bucket; where no core is free, moving the data
 * of all ranks of a host takes from computing: within it what was measured, between hosts by the byte. Saving takes
 * what a file here takes to be written. Slower hosts and the network's other users are left out. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/machine.h"
#include "cli/plan.h"
#include "formats/checksum.h"
#include "models/keys.h"
#include "train/trial.h"

enum { TRIES = 3 };
static const double WHOLE_SECONDS = 4, ASSUMED_USE = 0.5; /* of the rate of matrix products */
static const double ASSUMED_MOVING = 1e9; /* bytes a second within a host, where no two ranks could be measured */
/* Bytes that a core sends to another host, takes from there and adds, a second, while it does nothing else: measured
 * over TCP; 0.8e9 where a link has no limit, 0.4e9 where it has 1 Gbit/s, so that data come in small parts. */
static const double ASSUMED_SENDING = 0.6e9;

struct forecast {
    struct lvn_cli *c;
    const struct lvn_training *t;
    const struct lvn_model_config *model;
    struct lvn_ranks *local; /* that measure together; NULL: one process */
    int n_local;
    int ranks, each, hosts, cores, here, threads; /* cores of a host; of this machine */
    int64_t rows;                                 /* of the rank that has most */
    int layers;                                   /* that were measured; 0: all */
    struct lvn_parts parts;                       /* of one micro-batch, and of the sums of the processes here */
    double crowd;                                 /* threads for each core that computes, beyond what was measured */
    double reduce, last, share, steal, saving;
    struct lvn_traffic traffic; /* of a step */
    bool beside;
};

static int per_host(const struct lvn_cli *c)
{
    int64_t ranks = c->flag[LVN_FLAG_plan_ranks].i, each = c->flag[LVN_FLAG_plan_nproc_per_node].i;
    return (int)(each < 1 ? 1 : each < ranks ? each : ranks);
}

static int cores_here(void)
{
    struct lvn_machine m;
    lvn_machine_read(&m);
    return m.allowed > 0 ? m.allowed : 1;
}

static int cores_there(const struct lvn_cli *c)
{
    int64_t cores = c->flag[LVN_FLAG_plan_cores].i;
    return cores ? (int)cores : cores_here();
}

void lvn_plan_threads(struct lvn_cli *c)
{
    struct lvn_machine m;
    int64_t cores = c->flag[LVN_FLAG_plan_cores].i;
    lvn_machine_read(&m);
    if (!cores) cores = m.threads;
    if (c->settings.trainer.threads || (per_host(c) == 1 && !c->flag[LVN_FLAG_plan_cores].i)) return;
    c->settings.trainer.threads = cores > per_host(c) ? cores / per_host(c) : 1;
}

static int threads_here(const struct lvn_cli *c)
{
    int64_t threads = c->settings.trainer.threads;
    int here = cores_here();
    return (int)(threads < 1 || threads > here ? here : threads);
}

/* All ranks of a host, where this machine has its cores; else as many as fill this one, where that one is full. */
int lvn_plan_crowd(const struct lvn_cli *c)
{
    int each = per_host(c), here = cores_here(), there = cores_there(c), threads = threads_here(c),
        room = here / threads;
    bool full = (int64_t)each * (c->settings.trainer.threads ? c->settings.trainer.threads : there) >= there;
    int n = each <= LVN_CROWD && here == there && each <= 4 * room ? each : full || each > room ? room : each;
    int64_t batch = c->settings.trainer.batch_size;
    if (n > LVN_CROWD) n = LVN_CROWD;
    return n < 1 ? 1 : n > batch ? (int)batch : n;
}

/* --- computing --- */

static enum lvn_status run_trial(struct lvn_training *t, const struct lvn_settings *s,
                                 const struct lvn_model_config *model, const struct lvn_training_options *o,
                                 struct lvn_parts *parts)
{
    int64_t labels;
    LVN_TRY(lvn_training_plan(t, s, model, o));
    LVN_TRY(lvn_network_allocate(t->network));
    LVN_TRY(lvn_network_init_values(t->network, 1, false));
    LVN_TRY(lvn_trial_fill(t, lvn_model_value(model, LVN_MEANS_VOCABULARY), &labels));
    lvn_parts_clear(parts);
    for (int i = -1; i < TRIES; i++) { /* the first touches the memory */
        if (i == 0) lvn_parts_clear(parts);
        LVN_TRY(lvn_parts_try(t, i + 1, 1e-9, labels, parts));
    }
    return o->ranks ? lvn_parts_agree(o->ranks, parts) : LVN_OK;
}

/* A rank's program of a model with so many layers: of one micro-batch, on each process here. */
static enum lvn_status time_layers(const struct forecast *f, int64_t layers, struct lvn_parts *parts)
{
    struct lvn_settings s = f->c->settings;
    struct lvn_model_config model = *f->model;
    struct lvn_training t = {0};
    struct lvn_training_options o = {.ranks = f->local,
                                     .size = f->ranks,
                                     .fields = &f->t->fields,
                                     .task = f->t->step->options.task,
                                     .pieces = f->t->pieces};
    s.trainer.threads = threads_here(f->c);
    if (f->local) {
        s.trainer.batch_size = f->t->micro * f->n_local;
        o.pieces = 1;
    }
    lvn_model_set(&model, LVN_MEANS_LAYERS, layers);
    enum lvn_status status = run_trial(&t, &s, &model, &o, parts);
    parts->forward /= (double)t.accumulation;
    parts->backward /= (double)t.accumulation;
    if (f->local && f->t->reduction.sharding.zero1) parts->update *= (double)f->n_local / f->ranks;
    lvn_training_release(&t);
    return status;
}

static double along(double one, double two, int64_t layers)
{
    return one + (two > one ? two - one : 0) * (double)(layers - 1);
}

/* Whether the whole model is measured; the first process decides. */
static enum lvn_status is_whole(const struct forecast *f, bool *whole)
{
    double rate, room = (double)lvn_memory_available(), decided = 0;
    if (!f->local || !f->local->rank) {
        LVN_TRY(lvn_network_rate(f->t->network, &rate));
        bool fits = room <= 0 || (double)lvn_network_bytes(f->t->network) <= room / f->n_local;
        decided = fits && lvn_program_flops(f->t->step->program) / (rate * ASSUMED_USE) < WHOLE_SECONDS;
    }
    if (f->local) LVN_TRY(lvn_ranks_sum(f->local, &decided, 1));
    *whole = decided > 0;
    return LVN_OK;
}

static enum lvn_status measure(struct forecast *f)
{
    bool whole;
    int64_t layers = lvn_model_value(f->model, LVN_MEANS_LAYERS);
    LVN_TRY(is_whole(f, &whole));
    if (whole) return time_layers(f, layers, &f->parts);
    struct lvn_parts one, two;
    f->layers = layers < 2 ? 1 : 2;
    LVN_TRY(time_layers(f, 1, &one));
    two = one;
    if (layers > 1) LVN_TRY(time_layers(f, 2, &two));
    f->parts = (struct lvn_parts){.forward = along(one.forward, two.forward, layers),
                                  .backward = along(one.backward, two.backward, layers),
                                  .update = along(one.update, two.update, layers),
                                  .reduce = along(one.reduce, two.reduce, layers),
                                  .last = two.last,
                                  .share = along(one.share, two.share, layers)};
    return LVN_OK;
}

static enum lvn_status measure_together(struct forecast *f, struct lvn_crowd *w)
{
    struct lvn_comm *comm;
    struct lvn_identity who = {.family = "local", .title = "levin plan", .rank = w->rank, .size = w->n, .host = "here"};
    struct lvn_comm_options o = {.rank = w->rank, .size = w->n, .sockets = w->sockets};
    if (w->n == 1) return measure(f);
    LVN_TRY(lvn_comm_open(&comm, &o));
    enum lvn_status status = lvn_ranks_over(&f->local, &who, comm, NULL);
    if (status == LVN_OK) status = measure(f);
    lvn_ranks_close(f->local);
    f->local = NULL;
    lvn_comm_close(comm);
    return status;
}

/* --- communication --- */

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

static void add(struct lvn_traffic_part *sum, const struct lvn_traffic_part *p)
{
    sum->messages += p->messages;
    sum->bytes += p->bytes;
    sum->rounds += p->rounds;
}

/* Seconds between hosts of one sum, which counts; ways: 1 reduce, 2 gather, 3 both. */
static double between(struct forecast *f, double bytes, int ways, int partials)
{
    struct lvn_sum_question q = {.ranks = f->ranks,
                                 .hosts = f->ranks % f->hosts ? f->ranks : f->hosts,
                                 .bytes = (int64_t)bytes,
                                 .partials = partials,
                                 .reduce = ways & 1,
                                 .gather = ways & 2};
    struct lvn_traffic t;
    lvn_sum_traffic(&q, &t);
    add(&f->traffic.within, &t.within);
    add(&f->traffic.between, &t.between);
    if (f->hosts == 1) return 0;
    return t.between.rounds * f->c->flag[LVN_FLAG_plan_latency].r +
           (double)t.between.bytes * f->each / f->c->flag[LVN_FLAG_plan_bandwidth].r;
}

/* What the processes here took to move and add bytes, for each that one of them sent. */
static double moving(const struct forecast *f, double bytes)
{
    double sent = bytes * (f->t->reduction.sharding.zero1 ? 1 : 2) * (f->n_local - 1) / f->n_local;
    return f->n_local > 1 && bytes > 0 ? f->parts.reduce / sent : 1 / ASSUMED_MOVING;
}

static void communicate(struct forecast *f)
{
    const struct lvn_program *p = f->t->step->program;
    const struct lvn_sharding *s = &f->t->reduction.sharding;
    const double count = (double)p->graph->params->trainable_count;
    const int ways = s->zero1 ? 1 : 3; /* sums go back to all */
    double all = count * (double)lvn_dtype_bytes(p->gradients), last_bytes = all;
    if (s->tree) f->reduce = between(f, all, ways, most_subtrees(f->t, f->ranks));
    for (int n = 0; n < p->n_instrs; n++) {
        const struct lvn_instr *i = &p->instrs[n];
        if (i->id != LVN_OP_all_reduce && i->id != LVN_OP_reduce_scatter) continue;
        last_bytes = (double)p->values[i->out[0].value].bytes;
        f->last = between(f, last_bytes, ways, 0);
        f->reduce += f->last;
    }
    const double each_byte = moving(f, all);
    double within = (double)f->traffic.within.bytes * each_byte;
    if (f->n_local == f->each && f->hosts == 1) within = f->each > 1 ? f->parts.reduce : 0;
    if (f->each * f->threads >= f->cores) /* no core is free: within a host it is work, and so is sending */
        f->steal =
            within * (1 - last_bytes / all) + (double)f->traffic.between.bytes * f->each / f->cores / ASSUMED_SENDING;
    f->reduce += within;
    if (!s->tree) f->last += within * last_bytes / all;
    if (!s->zero1) return;
    int64_t before = f->traffic.within.bytes;
    f->share = between(f, count * (double)lvn_dtype_bytes(p->weights), 2, 0);
    f->share += (double)(f->traffic.within.bytes - before) * each_byte;
}

/* --- saving --- */

/* Bytes a second that a file of the run's folder takes, with their checksums; 0: not known. */
static double write_rate(const char *run_dir)
{
    enum { BYTES = 32 << 20 };
    char path[LVN_RUN_DIR_TEXT + 32];
    char *x = calloc(BYTES, 1);
    int fd = -1;
    snprintf(path, sizeof path, "%s", run_dir);
    for (char *end; x && fd < 0; *end = '\0') { /* the folder need not be there yet */
        fd = open(*path ? path : ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
        end = strrchr(path, '/');
        if (fd >= 0 || !*path) break;
        if (!end) end = path;
    }
    double begin = lvn_seconds();
    bool written = fd >= 0 && write(fd, x, BYTES) == BYTES;
    volatile uint64_t sum = written ? lvn_checksum(x, BYTES) : 0;
    (void)sum;
    double seconds = lvn_seconds() - begin;
    if (fd >= 0) close(fd);
    free(x);
    return written && seconds > 0 ? BYTES / seconds : 0;
}

/* Seconds of a step, on the average, that checkpoints take: rank 0 writes while it computes. */
static void save(struct forecast *f, double computing)
{
    const struct lvn_network *n = f->t->network;
    int64_t every = f->c->settings.checkpoint.every_n_steps;
    double rate = every ? write_rate(f->c->settings.run_dir) : 0, state = 0;
    for (int b = LVN_BUFFER_STATE0; b <= LVN_BUFFER_STATE1; b++) state += (double)n->bytes[b];
    if (f->t->reduction.sharding.zero1) state *= f->ranks;
    if (rate <= 0) return;
    double seconds = ((double)n->bytes[LVN_BUFFER_PARAM] + state) / rate, hidden = computing;
    if (f->each * f->threads >= f->cores) hidden = 0; /* no core is free */
    f->saving = (seconds > hidden ? seconds - hidden : 0) / f->threads / (double)every;
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

static double computing(const struct forecast *f)
{
    double micro = (double)f->rows / (double)f->t->micro; /* micro-batches, one of them perhaps not whole */
    return ((f->parts.forward + f->parts.backward) * micro + f->parts.update) * f->crowd;
}

/* What communication adds to it. */
static double exposed(const struct forecast *f)
{
    double last = f->parts.backward * f->crowd, hidden = f->reduce - f->last;
    if (!f->beside) return f->reduce + f->share;
    return (hidden > last + f->steal ? hidden - last : f->steal) + f->last + f->share;
}

static void print(const struct forecast *f, double alone)
{
    struct lvn_cli *c = f->c;
    double latency = c->flag[LVN_FLAG_plan_latency].r, bandwidth = c->flag[LVN_FLAG_plan_bandwidth].r;
    double compute = computing(f), comm = exposed(f), step = compute + comm + f->saving;
    double rate = (double)(c->settings.trainer.batch_size * f->t->block_size) / step,
           efficiency = alone / step / f->ranks;
    char text[LVN_NUMBER_TEXT];
    lvn_cli_print(
        c,
        "\n%d ranks, %d on each host of %d core%s, with %d thread%s; messages take %.3g us, a host sends %.3g "
        "GB/s (--latency, --bandwidth)\n",
        f->ranks, f->each, f->cores, f->cores == 1 ? "" : "s", f->threads, f->threads == 1 ? "" : "s", latency * 1e6,
        bandwidth / 1e9);
    lvn_cli_print(
        c, "  a micro-batch of %lld, measured here%s by %d process%s: forward %.4g s, backward %.4g s; update %.4g s\n",
        (long long)f->t->micro,
        f->layers == 2 ? " on two layers"
        : f->layers    ? " on one layer"
                       : "",
        f->n_local, f->n_local == 1 ? "" : "es", f->parts.forward, f->parts.backward, f->parts.update);
    if (f->crowd != 1) lvn_cli_print(c, "  computing takes %.3g times that there: threads for each core\n", f->crowd);
    lvn_cli_print(c, "  sums of gradients %.4g s, %s", f->reduce,
                  f->t->reduction.sharding.tree ? "in order, behind backward"
                  : f->beside                   ? "beside the last backward"
                                                : "behind backward, for all cores compute");
    if (f->share > 0) lvn_cli_print(c, "; parameters to all %.4g s", f->share);
    lvn_cli_print(c, "; a rank sends %lld messages to its host and %lld to others\n",
                  (long long)f->traffic.within.messages, (long long)f->traffic.between.messages);
    lvn_cli_print(c, "  computing %.4g s, communication beyond it %.4g s, saving %.4g s\n", compute, comm, f->saving);
    lvn_cli_print(c, "\n  predicted: %.4g s a step, %s %s/s, %.0f %% of %d times one rank\n", step,
                  lvn_count_text((int64_t)rate, text), lvn_task_unit(f->t->step->options.task), 100 * efficiency,
                  f->ranks);
    json_t *p = json_pack("{s:i,s:i,s:i,s:i,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:b}", "ranks", f->ranks, "nproc_per_node",
                          f->each, "cores", f->cores, "threads", f->threads, "latency_s", latency, "bytes_per_s",
                          bandwidth, "forward_s", f->parts.forward, "backward_s", f->parts.backward, "update_s",
                          f->parts.update, "reduce_s", f->reduce, "share_s", f->share, "beside", f->beside);
    json_t *more = json_pack("{s:f,s:f,s:f,s:I,s:I,s:I,s:I,s:f,s:f,s:f}", "compute_s", compute, "exposed_s", comm,
                             "saving_s", f->saving, "messages_within", (json_int_t)f->traffic.within.messages,
                             "messages_between", (json_int_t)f->traffic.between.messages, "bytes_within",
                             (json_int_t)f->traffic.within.bytes, "bytes_between", (json_int_t)f->traffic.between.bytes,
                             "step_s", step, "tokens_per_s", rate, "efficiency", efficiency);
    if (p && more) json_object_update(p, more);
    json_decref(more);
    lvn_cli_add(c, "predicted", p);
}

enum lvn_status lvn_plan_ranks(struct lvn_cli *c, const struct lvn_training *t, const struct lvn_model_config *m,
                               struct lvn_crowd *crowd)
{
    struct forecast f = {
        .c = c, .t = t, .model = m, .each = per_host(c), .threads = t->network->threads, .n_local = crowd->n};
    f.ranks = (int)c->flag[LVN_FLAG_plan_ranks].i;
    f.hosts = (f.ranks + f.each - 1) / f.each;
    f.here = cores_here();
    f.cores = cores_there(c);
    f.rows = most_rows(t, &c->settings, f.ranks);
    const int used = threads_here(c);
    f.crowd = f.each * f.threads > f.cores ? (double)f.each * f.threads / f.cores : 1;
    if (f.n_local == f.each && f.here == f.cores) f.crowd = 1; /* measured */
    f.crowd *= (double)used / f.threads;
    f.beside = !t->reduction.sharding.tree && (f.hosts > 1 || f.each * f.threads < f.cores);
    LVN_TRY_WHILE(measure_together(&f, crowd), "measuring a micro-batch");
    communicate(&f);
    save(&f, computing(&f));
    struct forecast one = {.t = t, .rows = c->settings.trainer.batch_size, .parts = f.parts, .crowd = 1};
    if (t->reduction.sharding.zero1) one.parts.update *= f.ranks;
    print(&f, computing(&one));
    return LVN_OK;
}
