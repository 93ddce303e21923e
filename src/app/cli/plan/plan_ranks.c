/* plan_ranks.c - levin plan RECIPE --ranks N: predicts the time of a step on many ranks, before any node is allocated.
 * Called by plan.c.
 *
 * Computing: plan_compute.c. If the ranks of a host have more threads than it has cores, the time grows in proportion;
 * if a rank has more threads than this machine has cores, it shrinks in proportion.
 *
 * Communication between hosts is a formula: the bytes and rounds that engine/traffic.h counts, with latency and
 * bandwidth. Sums overlap the last backward pass, except for the last bucket. If no core is free, moving the data of
 * all ranks of a host takes time from computing: within the host as measured, between hosts by the byte. Saving takes
 * as long as a file of the same size on this machine. Slower hosts and other users of the network are not considered.
 */
#include <fcntl.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/plan/plan.h"
#include "engine/parameters.h"
#include "engine/traffic.h"
#include "formats/checksum.h"
#include "host/machine.h"

static const double ASSUMED_MOVING = 1e9; /* bytes/s within a host, used if no two ranks could be measured */
/* Bytes/s that a core sends to another host, receives and adds while it does nothing else. Measured over TCP: 0.8e9 on
 * a link without limit, 0.4e9 on one of 1 Gbit/s, where data arrive in small pieces. */
static const double ASSUMED_SENDING = 0.6e9;

struct forecast {
    struct lvn_cli *c;
    const struct lvn_train_programs *programs;
    int ranks;
    int each; /* ranks of a host */
    int hosts;
    int cores;    /* of a host */
    int threads;  /* of a rank */
    int64_t rows; /* of the rank that has most */
    struct lvn_compute compute;
    double crowding;            /* threads per core of a host; 1: each has a core */
    int threads_here;           /* threads of a rank in measurements on this machine */
    double slowdown;            /* seconds there / seconds measured here; below 1 if a rank has more threads there */
    double reduce;              /* seconds of a step: sums of gradients */
    double last;                /* of these, the last bucket's, which nothing overlaps */
    double share;               /* the norm, parameters to all ranks, whole matrices */
    double gathers;             /* of that, gathers of parameters before their use (fsdp) */
    double steal;               /* time that moving data takes from computing */
    double save;                /* seconds of writing a checkpoint */
    double saving;              /* seconds that saving adds to a step, on average */
    struct lvn_traffic traffic; /* of a step */
    bool overlapped;            /* communication overlaps computing */
};

int lvn_plan_per_host(const struct lvn_cli *c)
{
    int64_t ranks = c->flag[LVN_FLAG_plan_ranks].i, each = c->flag[LVN_FLAG_plan_nproc_per_node].i;
    return (int)(each < 1 ? 1 : each < ranks ? each : ranks);
}

static int local_cores(void)
{
    struct lvn_machine m;
    lvn_machine_read(&m);
    return m.allowed > 0 ? m.allowed : 1;
}

static int host_cores(const struct lvn_cli *c)
{
    int64_t cores = c->flag[LVN_FLAG_plan_cores].i;
    return cores ? (int)cores : local_cores();
}

void lvn_plan_threads(struct lvn_cli *c)
{
    struct lvn_machine m;
    int64_t cores = c->flag[LVN_FLAG_plan_cores].i;
    lvn_machine_read(&m);
    if (!cores) cores = m.threads;
    if (c->settings.values.trainer.threads || (lvn_plan_per_host(c) == 1 && !c->flag[LVN_FLAG_plan_cores].i)) return;
    c->settings.values.trainer.threads = cores > lvn_plan_per_host(c) ? cores / lvn_plan_per_host(c) : 1;
}

int lvn_plan_threads_here(const struct lvn_cli *c)
{
    int64_t threads = c->settings.values.trainer.threads;
    int here = local_cores();
    return (int)(threads < 1 || threads > here ? here : threads);
}

/* --- communication --- */

/* Seconds that the messages between hosts take. */
static double seconds_between(const struct forecast *f, const struct lvn_traffic *t)
{
    if (f->hosts == 1) return 0;
    return t->between.steps * f->c->flag[LVN_FLAG_plan_latency].r +
           (double)t->between.bytes * f->each / f->c->flag[LVN_FLAG_plan_bandwidth].r;
}

static void add(struct lvn_traffic_part *sum, const struct lvn_traffic_part *p)
{
    sum->messages += p->messages;
    sum->bytes += p->bytes;
    sum->steps += p->steps;
}

/* Seconds between hosts, which are counted in f->traffic too. */
static double add_traffic(struct forecast *f, const struct lvn_traffic *t)
{
    add(&f->traffic.within, &t->within);
    add(&f->traffic.between, &t->between);
    return seconds_between(f, t);
}

static void communicate(struct forecast *f)
{
    const struct lvn_program *p = f->programs->step_session->program;
    const struct lvn_sharding *s = &f->programs->collectives.sharding;
    const double all = (double)p->graph->params->trainable_count * (double)lvn_dtype_bytes(p->gradients);
    struct lvn_step_traffic step;
    lvn_train_programs_traffic(f->programs, f->ranks % f->hosts ? f->ranks : f->hosts, &step);
    const double last_share = (double)step.last_bytes / all;
    f->reduce = add_traffic(f, &step.gradients);
    f->last = seconds_between(f, &step.last);
    const double each_byte = 1 / ASSUMED_MOVING;
    const double within = (double)f->traffic.within.bytes * each_byte;
    if (f->each * f->threads >= f->cores) /* no core is free: moving data takes time from computing */
        f->steal = within * (1 - last_share) + (double)f->traffic.between.bytes * f->each / f->cores / ASSUMED_SENDING;
    f->reduce += within;
    if (!s->tree) f->last += within * last_share;
    const double parameters = add_traffic(f, &step.parameters) + (double)step.parameters.within.bytes * each_byte;
    const double matrices = add_traffic(f, &step.matrices) + (double)step.matrices.within.bytes * each_byte;
    f->share = add_traffic(f, &step.norm) + (double)step.norm.within.bytes * each_byte + parameters + matrices;
    f->gathers = s->sharded & LVN_SHARDS_PARAMETERS ? parameters : 0;
}

/* --- saving --- */

/* Bytes/s of writing a file, with its checksum, into the run's folder; 0: not known. */
static double write_rate(const char *run_dir)
{
    enum { BYTES = 32 << 20 };
    char path[LVN_RUN_DIR_TEXT + 32];
    char *x = calloc(BYTES, 1);
    int fd = -1;
    snprintf(path, sizeof path, "%s", run_dir);
    for (char *end; x && fd < 0; *end = '\0') { /* if the folder is not there yet, one above it */
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

/* Bytes of the whole model: of all ranks that divide it. */
static double whole_bytes(const struct lvn_model_state *n, enum lvn_parameters_of of)
{
    return (double)lvn_parameters_bytes(n, of) *
           (lvn_parameters_sharded(n, of) ? lvn_sharding_owners(&n->sharding) : 1);
}

/* A checkpoint is written by one thread during the next step, which waits for the rest. If no core is free, this thread
 * replaces one of those that compute. Shards in a device's memory are written between two steps. */
static void save(struct forecast *f, double computing)
{
    const struct lvn_model_state *n = f->programs->model_state;
    int64_t every = f->c->settings.values.checkpoint.every_n_steps;
    double rate = every ? write_rate(f->c->settings.values.run_dir) : 0;
    if (rate <= 0) return;
    f->save = (whole_bytes(n, LVN_PARAMETER_VALUES) + whole_bytes(n, LVN_PARAMETER_MOMENTS)) / rate;
    const bool between = lvn_parameters_any_sharded(n) && n->device->backend->snapshot;
    const bool replaces = f->each * f->threads >= f->cores && !between;
    const double hidden = between ? 0 : computing, waits = f->save > hidden ? f->save - hidden : 0;
    const double replaced = replaces ? f->save / f->threads : 0;
    f->saving = (replaced > waits ? replaced : waits) / (double)every;
}

/* --- the prediction --- */

static int64_t max_rows(const struct lvn_train_programs *programs, const struct levin_settings *s, int ranks)
{
    int64_t max = (s->values.trainer.batch_size + ranks - 1) / ranks;
    for (int i = 0; i < ranks && s->values.trainer.micro_batch_size; i++) {
        int64_t rows = (programs->leaf[i + 1] - programs->leaf[i]) * programs->micro_batch;
        if (i == 0 || rows > max) max = rows;
    }
    return max;
}

static double computing(const struct forecast *f)
{
    double micro = (double)f->rows / (double)f->programs->micro_batch; /* micro-batches; the last one may be smaller */
    return ((f->compute.parts.forward + f->compute.parts.backward) * micro + f->compute.parts.update) * f->slowdown;
}

/* Seconds that communication adds to computation. Reductions overlap the last backward or, with sharded gradients, that
 * of every micro-batch; gathers of parameters also overlap forward. */
static double exposed(const struct forecast *f)
{
    const struct lvn_parts *p = &f->compute.parts;
    const double times =
        f->programs->collectives.sharding.sharded & LVN_SHARDS_GRADIENTS ? (double)f->programs->accumulation : 1;
    const double available = ((f->gathers > 0 ? p->forward : 0) + p->backward) * times * f->slowdown;
    const double hidden = f->reduce - f->last + f->gathers;
    if (!f->overlapped) return f->reduce + f->share;
    return (hidden > available + f->steal ? hidden - available : f->steal) + f->last + f->share - f->gathers;
}

/* The seconds of computation, and how they were determined. */
static void print_compute(const struct forecast *f)
{
    const struct lvn_compute *m = &f->compute;
    const bool bf16 = f->programs->model_state->precision != LVN_PRECISION_TRUE;
    lvn_cli_print(f->c, "  a micro-batch of %lld: forward %.4g s, backward %.4g s; update %.4g s\n",
                  (long long)f->programs->micro_batch, m->parts.forward, m->parts.backward, m->parts.update);
    if (m->method == LVN_COMPUTED_BY_RATES)
        lvn_cli_print(
            f->c,
            "    at best: from its arithmetic at %.4g GFLOP/s and its memory at %.3g GB/s, which this machine "
            "reached %s on pieces of a fixed size; nothing of the model ran (--measure runs a part that "
            "takes seconds)\n",
            m->rates.per_s[bf16 ? LVN_RATE_PRODUCTS_BF16 : LVN_RATE_PRODUCTS] * 1e-9,
            m->rates.per_s[LVN_RATE_READING] * 1e-9, m->rates.cached ? "before" : "now");
    else
        lvn_cli_print(f->c, "    measured here%s\n",
                      m->method == LVN_COMPUTED_LAYERS
                          ? ", with one layer and with two; each further one costs the difference"
                          : "");
}

static void print(const struct forecast *f, double alone)
{
    struct lvn_cli *c = f->c;
    double latency = c->flag[LVN_FLAG_plan_latency].r, bandwidth = c->flag[LVN_FLAG_plan_bandwidth].r;
    double compute = computing(f), comm = exposed(f), step = compute + comm + f->saving;
    double rate = (double)(c->settings.values.trainer.batch_size * f->programs->block_size) * f->programs->fill / step,
           efficiency = alone / step / f->ranks;
    char text[LVN_NUMBER_TEXT];
    lvn_cli_print(
        c,
        "\n%d ranks, %d on each host of %d core%s, with %d thread%s; messages take %.3g us, a host sends %.3g "
        "GB/s (--latency, --bandwidth)\n",
        f->ranks, f->each, f->cores, f->cores == 1 ? "" : "s", f->threads, f->threads == 1 ? "" : "s", latency * 1e6,
        bandwidth / 1e9);
    print_compute(f);
    if (f->crowding > 1)
        lvn_cli_print(c, "  computing takes %.3g times as long there, because threads share cores\n", f->crowding);
    if (f->threads != f->threads_here)
        lvn_cli_print(
            c, "  computing takes %.3g times as long there as here, because a rank has %d threads there, and %d here\n",
            (double)f->threads_here / f->threads, f->threads, f->threads_here);
    lvn_cli_print(c, "  sums of gradients %.4g s, %s", f->reduce,
                  f->programs->collectives.sharding.tree ? "in order, after backward"
                  : f->overlapped                        ? "overlapped with backward"
                                                         : "after backward, because all cores compute");
    if (f->share > 0) lvn_cli_print(c, "; parameters to all %.4g s", f->share);
    lvn_cli_print(c, "; a rank sends %lld messages to its host and %lld to others\n",
                  (long long)f->traffic.within.messages, (long long)f->traffic.between.messages);
    lvn_cli_print(c, "  computing %.4g s, communication beyond it %.4g s, saving %.4g s\n", compute, comm, f->saving);
    lvn_cli_print(c, "\n  predicted: %.4g s a step, %s %s/s, %.0f %% of %d times one rank\n", step,
                  lvn_count_text((int64_t)rate, text), lvn_task_unit(f->programs->step_session->options.task),
                  100 * efficiency, f->ranks);
    json_t *p =
        json_pack("{s:i,s:i,s:i,s:i,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:b}", "ranks", f->ranks, "nproc_per_node", f->each,
                  "cores", f->cores, "threads", f->threads, "latency_s", latency, "bytes_per_s", bandwidth, "forward_s",
                  f->compute.parts.forward, "backward_s", f->compute.parts.backward, "update_s",
                  f->compute.parts.update, "reduce_s", f->reduce, "share_s", f->share, "overlapped", f->overlapped);
    json_t *more = json_pack(
        "{s:f,s:f,s:f,s:f,s:I,s:I,s:I,s:I,s:f,s:f,s:f}", "compute_s", compute, "exposed_s", comm, "save_s", f->save,
        "saving_s", f->saving, "messages_within", (json_int_t)f->traffic.within.messages, "messages_between",
        (json_int_t)f->traffic.between.messages, "bytes_within", (json_int_t)f->traffic.within.bytes, "bytes_between",
        (json_int_t)f->traffic.between.bytes, "step_s", step, "tokens_per_s", rate, "efficiency", efficiency);
    static const char *const methods[] = {
        [LVN_COMPUTED_BY_RATES] = "rates", [LVN_COMPUTED_WHOLE] = "whole", [LVN_COMPUTED_LAYERS] = "layers"};
    if (p && more) json_object_update(p, more);
    if (p) json_object_set_new(p, "computed", json_string(methods[f->compute.method]));
    json_decref(more);
    lvn_cli_add(c, "predicted", p);
}

/* The forecast without saving, for ranks whose computation takes as long as `compute`. */
static struct forecast forecast(struct lvn_cli *c, const struct lvn_train_programs *programs,
                                const struct lvn_compute *compute)
{
    struct forecast f = {.c = c,
                         .programs = programs,
                         .each = lvn_plan_per_host(c),
                         .threads = programs->model_state->threads,
                         .ranks = programs->collectives.sharding.size,
                         .compute = *compute};
    f.hosts = (f.ranks + f.each - 1) / f.each;
    f.cores = host_cores(c);
    f.rows = max_rows(programs, &c->settings, f.ranks);
    f.threads_here = lvn_plan_threads_here(c);
    f.crowding = f.each * f.threads > f.cores ? (double)f.each * f.threads / f.cores : 1;
    f.slowdown = f.crowding * f.threads_here / f.threads;
    f.overlapped = !programs->collectives.sharding.tree && (f.hosts > 1 || f.each * f.threads < f.cores);
    communicate(&f);
    return f;
}

double lvn_plan_ranks_seconds(struct lvn_cli *c, const struct lvn_train_programs *programs, const struct lvn_rates *r)
{
    struct lvn_compute by_rates = {.method = LVN_COMPUTED_BY_RATES, .rates = *r};
    lvn_plan_parts(programs, r, &by_rates.parts);
    const struct forecast f = forecast(c, programs, &by_rates);
    return computing(&f) + exposed(&f);
}

enum lvn_status lvn_plan_ranks(struct lvn_cli *c, const struct lvn_train_programs *programs,
                               const struct lvn_model_config *m)
{
    struct lvn_compute compute;
    LVN_TRY_WHILE(lvn_plan_compute(&compute, c, &c->settings, programs, m, (int)c->flag[LVN_FLAG_plan_ranks].i),
                  "measuring a micro-batch");
    struct forecast f = forecast(c, programs, &compute);
    save(&f, computing(&f));
    struct forecast one = {
        .programs = programs, .rows = c->settings.values.trainer.batch_size, .compute = f.compute, .slowdown = 1};
    if (programs->collectives.sharding.sharded & LVN_SHARDS_STATE)
        one.compute.parts.update *= lvn_sharding_owners(&programs->collectives.sharding);
    print(&f, computing(&one));
    return LVN_OK;
}
