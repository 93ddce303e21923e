/* doctor_ranks.c - levin doctor under a launcher: collects facts of every rank, and rank 0 reports problems. Called by
 * doctor.c.
 *
 * Facts of ranks travel through the rendezvous (cluster/rendezvous/member.h), so they arrive even where MPIs do not
 * match; links are measured with the communication that training uses. */
#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "cli/doctor/doctor.h"
#include "cluster/rendezvous/mesh.h"
#include "engine/consistency.h"

enum { CPUS = 4096 };

void lvn_doctor_launch(struct lvn_doctor *r, const struct lvn_identity *identity)
{
    char text[700];
    snprintf(text, sizeof text, "%s%s%s%s%s%s", identity->title, *identity->rank_from ? " (rank from " : "",
             identity->rank_from, *identity->size_from ? ", size from " : "", identity->size_from,
             *identity->rank_from ? ")" : "");
    if (*identity->rank_from) lvn_print_append(text, sizeof text, ", %s", identity->evidence);
    lvn_doctor_line(r, "launched by", "%s", text);
    lvn_cli_add(r->c, "launcher", json_string(identity->launcher));
    lvn_cli_add(r->c, "rank_from", *identity->rank_from ? json_string(identity->rank_from) : json_null());
    lvn_cli_add(r->c, "size_from", *identity->size_from ? json_string(identity->size_from) : json_null());
    if (*identity->ignored) {
        lvn_doctor_finding(r, "unset them if other programs than levin are to run here",
                           "variables of a launcher that did not start this process: %s", identity->ignored);
    }
}

/* --- facts of a rank --- */

enum { F_BUILD, F_ISA, F_MPI, F_CPU, F_CPUS, F_THREADS, F_MEMORY, F_ONLINE, F_CORES, FACTS };
static const char *const keys[FACTS] = {"build",   "instruction set", "MPI",    "CPU",  "cpus",
                                        "threads", "memory",          "online", "cores"};

struct facts {
    char text[FACTS][600];
};

/* "0-3,8" of the CPUs that this process may use. */
static void cpu_list(char *text, size_t capacity)
{
    cpu_set_t set;
    LVN_LOCAL_TEXT(t);
    bool flag[CPU_SETSIZE];
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set)) CPU_ZERO(&set);
    for (int i = 0; i < CPU_SETSIZE; i++) flag[i] = CPU_ISSET(i, &set);
    lvn_ranks_text(flag, CPU_SETSIZE, 0, &t);
    snprintf(text, capacity, "%s", t.p ? t.p : "");
}

/* The version, and a checksum that equal programs share. */
static void build_text(char *text, size_t capacity)
{
    snprintf(text, capacity, "%s, program %08llx", LVN_VERSION, (unsigned long long)(lvn_consistency_program() >> 32));
}

static void collect_facts(struct facts *f, const struct lvn_doctor *r, const struct lvn_comm *comm)
{
    const struct lvn_machine *m = &r->m;
    build_text(f->text[F_BUILD], sizeof f->text[0]);
    snprintf(f->text[F_ISA], sizeof f->text[0], "%s", lvn_isa_name(r->isa));
    snprintf(f->text[F_MPI], sizeof f->text[0], "%s", comm ? lvn_comm_describe(comm) : "none: TCP");
    snprintf(f->text[F_CPU], sizeof f->text[0], "%s", m->cpu);
    cpu_list(f->text[F_CPUS], sizeof f->text[0]);
    snprintf(f->text[F_THREADS], sizeof f->text[0], "%d%s", m->threads, getenv("OMP_NUM_THREADS") ? " set" : "");
    snprintf(f->text[F_MEMORY], sizeof f->text[0], "%lld", (long long)m->memory_available);
    snprintf(f->text[F_ONLINE], sizeof f->text[0], "%d", m->online);
    snprintf(f->text[F_CORES], sizeof f->text[0], "%d", m->cores);
}

/* --- latency and bandwidth between ranks, and the differences of their clocks ---
 *
 * One pair is measured at a time; the other ranks wait, asleep most of the time. The best of many tries counts: it
 * shows the link rather than the load of the machines. All pairs of up to six ranks are measured, else each rank with
 * the next one, 64 pairs at most. */

/* The link between two ranks. */
struct link {
    int a;          /* rank */
    int b;          /* rank */
    double seconds; /* latency: half a round trip */
    double rate;    /* bytes/s */
};

enum { ALL_PAIRS = 6, PAIRS = 64, PINGS = 200, BLOCKS = 6, BLOCK = 4 << 20, REDUCE = 16 << 20 };
static const double PAIR_SECONDS = 0.2; /* for each of the two measurements */

static enum lvn_status send_now(struct lvn_comm *c, const void *x, int64_t bytes, int to)
{
    struct lvn_request r;
    lvn_comm_send(c, &r, x, bytes, to, 1);
    return lvn_comm_wait(c, &r);
}

static enum lvn_status receive_now(struct lvn_comm *c, void *x, int64_t bytes, int from)
{
    struct lvn_request r;
    lvn_comm_receive(c, &r, x, bytes, from, 1);
    return lvn_comm_wait(c, &r);
}

/* The first rank of the pair: sends 1 and waits for the other's clock, many times; then sends 0, the end. */
static enum lvn_status ping(struct lvn_comm *c, int other, int pings, double *seconds, double *offset)
{
    double begin = lvn_seconds(), best = INFINITY, reply = 0;
    for (int i = 0; i <= pings; i++) {
        double more = i < pings && lvn_seconds() - begin < PAIR_SECONDS, t = lvn_seconds(), wall = lvn_wall_seconds();
        LVN_TRY(send_now(c, &more, sizeof more, other));
        if (more == 0) break;
        LVN_TRY(receive_now(c, &reply, sizeof reply, other));
        double took = lvn_seconds() - t;
        if (took >= best) continue;
        best = took;
        *offset = reply - (wall + took / 2);
    }
    *seconds = best / 2;
    return LVN_OK;
}

static enum lvn_status pong(struct lvn_comm *c, int other)
{
    for (;;) {
        double more;
        LVN_TRY(receive_now(c, &more, sizeof more, other));
        if (more == 0) return LVN_OK;
        double now = lvn_wall_seconds();
        LVN_TRY(send_now(c, &now, sizeof now, other));
    }
}

/* The same with a block of BLOCK bytes after the 1. */
static enum lvn_status push(struct lvn_comm *c, int other, char *block, double *rate)
{
    double begin = lvn_seconds(), best = 0, answer;
    for (int i = 0; i <= BLOCKS; i++) {
        double more = i < BLOCKS && (i < 2 || lvn_seconds() - begin < PAIR_SECONDS), t = lvn_seconds();
        LVN_TRY(send_now(c, &more, sizeof more, other));
        if (more == 0) break;
        LVN_TRY(send_now(c, block, BLOCK, other));
        LVN_TRY(receive_now(c, &answer, sizeof answer, other));
        double now = BLOCK / (lvn_seconds() - t);
        if (now > best) best = now;
    }
    *rate = best;
    return LVN_OK;
}

static enum lvn_status pull(struct lvn_comm *c, int other, char *block)
{
    for (;;) {
        double more;
        LVN_TRY(receive_now(c, &more, sizeof more, other));
        if (more == 0) return LVN_OK;
        LVN_TRY(receive_now(c, block, BLOCK, other));
        LVN_TRY(send_now(c, &more, sizeof more, other));
    }
}

/* The pairs to measure, the same on all ranks; returns their number. */
static int choose_pairs(int size, struct link *links)
{
    int n = 0;
    for (int a = 0; size <= ALL_PAIRS && a < size; a++) {
        for (int b = a + 1; b < size; b++) links[n++] = (struct link){.a = a, .b = b};
    }
    if (n || size < 2) return n;
    int every = (size + PAIRS - 1) / PAIRS;
    for (int a = 0; a < size && n < PAIRS; a += every) links[n++] = (struct link){.a = a, .b = (a + 1) % size};
    return n;
}

static enum lvn_status barrier(struct lvn_comm *c)
{
    int32_t one = 1;
    return lvn_comm_all_reduce_now(c, &one, 1, LVN_I32, LVN_SUM);
}

static enum lvn_status measure(struct lvn_comm *c, struct link *links, int n, double *clock, double *reduce_s,
                               char *block)
{
    int rank = lvn_comm_rank(c), size = lvn_comm_size(c);
    double unused, seconds;
    double *found = calloc((size_t)(2 * n + 1), sizeof *found);
    LVN_CHECK(found, MEMORY, "no memory for measurements");
    enum lvn_status status = LVN_OK;
    for (int i = 0; i < n && !status; i++) {
        struct link *l = &links[i];
        if (rank == l->a) {
            status = ping(c, l->b, PINGS, &found[2 * i], &unused);
            if (!status) status = push(c, l->b, block, &found[2 * i + 1]);
        } else if (rank == l->b) {
            status = pong(c, l->a);
            if (!status) status = pull(c, l->a, block);
        }
        if (!status) status = barrier(c);
    }
    for (int i = 1; i < size && !status; i++) {
        if (rank == 0) status = ping(c, i, 8, &seconds, &clock[i]);
        if (rank == i) status = pong(c, 0);
    }
    if (!status)
        status =
            lvn_comm_all_reduce_now(c, found, 2 * n + 1, LVN_F64, LVN_SUM); /* each number is one rank's, 0 elsewhere */
    for (int i = 0; i < n; i++) {
        links[i].seconds = found[2 * i];
        links[i].rate = found[2 * i + 1];
    }
    free(found);
    *reduce_s = INFINITY;
    for (int i = 0; i < 3 && !status; i++) {
        status = barrier(c);
        double t = lvn_seconds();
        if (!status) status = lvn_comm_all_reduce_now(c, block, REDUCE / 4, LVN_F32, LVN_SUM);
        t = lvn_seconds() - t;
        if (t < *reduce_s) *reduce_s = t;
    }
    if (!status) status = lvn_comm_all_reduce_now(c, reduce_s, 1, LVN_F64, LVN_MAX);
    return status;
}

/* All ranks call it, and all get the results. *links (the caller frees it): of some pairs. clock[i]: seconds that rank
 * i's clock is ahead of rank 0's; on rank 0 alone. *reduce_s: seconds of one all-reduce of *reduce_bytes bytes. */
static enum lvn_status measure_links(struct lvn_comm *comm, struct link **links, int *n_links, double *clock,
                                     double *reduce_s, int64_t *reduce_bytes)
{
    int size = lvn_comm_size(comm);
    char *block = calloc(1, REDUCE);
    *links = calloc(PAIRS + ALL_PAIRS * ALL_PAIRS, sizeof **links);
    *n_links = 0;
    enum lvn_status status = LVN_MEMORY;
    if (block && *links) {
        *n_links = choose_pairs(size, *links);
        *reduce_bytes = REDUCE;
        status = measure(comm, *links, *n_links, clock, reduce_s, block);
    } else {
        (void)lvn_fail(LVN_MEMORY, "no memory for measurements");
    }
    free(block);
    return status;
}

/* --- the ranks of one host --- */

static long fact_number(const struct lvn_member *h, int rank, int key)
{
    return strtol(lvn_member_fact(h, rank, keys[key]), NULL, 10);
}

/* times[i]: how many ranks of the host may use CPU i. Returns how many CPUs at least one rank may use. */
static int count_cpus(const struct lvn_member *h, const struct lvn_peer *p, int n, int host, unsigned short *times)
{
    int any = 0;
    memset(times, 0, sizeof *times * CPUS);
    for (int i = 0; i < n; i++) {
        if (strcmp(p[i].host, p[host].host) != 0) continue;
        for (const char *list = lvn_member_fact(h, i, keys[F_CPUS]); *list;) {
            char *end;
            long first = strtol(list, &end, 10), last = first;
            if (end == list) break;
            if (*end == '-') last = strtol(end + 1, &end, 10);
            for (long k = first; k <= last && k < CPUS; k++) any += !times[k]++;
            list = *end ? end + 1 : end;
        }
    }
    return any;
}

/* Findings about a host; `host` is the first rank there. */
static void check_host(struct lvn_doctor *r, const struct lvn_member *h, const struct lvn_peer *p, int n, int host)
{
    static unsigned short times[CPUS];
    char cure[300];
    int ranks = 0, threads = 0, given = 0, max = 0, any = count_cpus(h, p, n, host, times);
    const char *mine = lvn_member_fact(h, host, keys[F_CPUS]);
    bool same_cpus = true;
    for (int i = 0; i < n; i++) {
        if (strcmp(p[i].host, p[host].host) != 0) continue;
        ranks++;
        threads += (int)fact_number(h, i, F_THREADS);
        given += strstr(lvn_member_fact(h, i, keys[F_THREADS]), "set") != NULL;
        same_cpus = same_cpus && !strcmp(mine, lvn_member_fact(h, i, keys[F_CPUS]));
    }
    for (int k = 0; k < CPUS; k++) max = times[k] > max ? times[k] : max;
    int online = (int)fact_number(h, host, F_ONLINE);
    if (ranks > any) {
        snprintf(cure, sizeof cure,
                 "start %d there, or give the job more CPUs (srun --cpus-per-task, mpirun --bind-to none)", any);
        lvn_doctor_finding(r, cure, "%d ranks run on the %d CPU%s of %s that they may use", ranks, any, lvn_plural(any),
                           p[host].host);
    } else if (given && threads > any) {
        snprintf(cure, sizeof cure, "unset it, or set it to %d", any / ranks);
        lvn_doctor_finding(r, cure, "OMP_NUM_THREADS makes %d threads of the %d ranks on %s, which have %d CPUs",
                           threads, ranks, p[host].host, any);
    }
    if (max > 1 && !same_cpus) {
        lvn_doctor_finding(r,
                           "let one launcher pin: mpirun --map-by slot:PE=N, mpiexec -bind-to core:N, srun "
                           "--cpu-bind=cores; levin launch does it",
                           "ranks on %s are pinned to CPUs that overlap (%d of them on one CPU)", p[host].host, max);
    }
    if (ranks > 1 && max == ranks && same_cpus && any < online) {
        lvn_doctor_finding(r, "give each its own: srun --cpus-per-task=N, mpirun --map-by slot:PE=N, or levin launch",
                           "all %d ranks on %s are held to the same CPUs (%.200s), though the host has %d", ranks,
                           p[host].host, mine, online);
    } else if (any < online && any == ranks && ranks < online) {
        lvn_doctor_finding(r,
                           "mpirun --map-by slot:PE=N --bind-to core, mpiexec -bind-to core:N, srun --cpus-per-task=N, "
                           "or levin launch, which does it",
                           "each rank on %s is pinned to one CPU, and %d of the host's %d stay idle", p[host].host,
                           online - any, online);
    }
}

/* --- differences --- */

static void check_differences(struct lvn_doctor *r, const struct lvn_member *h)
{
    static const struct {
        int key;
        const char *cure;
    } all[] = {
        {F_BUILD, "install the same levin on all hosts; results of different builds may differ"},
        {F_MPI, "install the same MPI on all hosts, or name it by trainer.mpi_library"},
        {F_ISA, "nothing needs to be done: all ranks use the lowest one; faster without the older hosts"},
        {F_CPU, "nothing needs to be done, but each step takes as long as on the slowest host"},
    };
    char text[700];
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (lvn_member_difference(h, keys[all[i].key], text, sizeof text))
            lvn_doctor_finding(r, all[i].cure, "%s", text);
    }
}

static void check_clocks(struct lvn_doctor *r, const struct lvn_peer *p, int n, const double *clock)
{
    int worst = 0;
    for (int i = 1; i < n; i++) worst = fabs(clock[i]) > fabs(clock[worst]) ? i : worst;
    lvn_doctor_line(r, "clocks", "at most %.3g ms apart", 1e3 * fabs(clock[worst]));
    lvn_cli_add(r->c, "clocks_apart_s", lvn_json_number(fabs(clock[worst])));
    if (fabs(clock[worst]) < 1) return;
    lvn_doctor_finding(r, "set the clocks by NTP (chronyc makestep), or logs and file times will mislead",
                       "the clock of %.200s is %.1f s %s that of %.100s", p[worst].host, fabs(clock[worst]),
                       clock[worst] > 0 ? "ahead of" : "behind", p[0].host);
}

/* --- links --- */

static void time_text(double seconds, char text[32])
{
    snprintf(text, 32, seconds < 1e-3 ? "%.3g us" : "%.3g ms", seconds < 1e-3 ? 1e6 * seconds : 1e3 * seconds);
}

/* Links within hosts, or those between hosts. oversubscribed: a host has at least one rank per CPU, so messages are
 * slow.
 */
static void check_links(struct lvn_doctor *r, const struct lvn_peer *p, const struct link *links, int n, bool between,
                        bool oversubscribed)
{
    const struct link *slow = NULL, *late = NULL;
    double fastest = 0, first = INFINITY;
    char text[400], a[32], b[32];
    const char *where = between ? "between hosts" : "in a host";
    for (int i = 0; i < n; i++) {
        const struct link *l = &links[i];
        if ((strcmp(p[l->a].host, p[l->b].host) != 0) != between) continue;
        if (!slow || l->rate < slow->rate) slow = l;
        if (!late || l->seconds > late->seconds) late = l;
        if (l->rate > fastest) fastest = l->rate;
        if (l->seconds < first) first = l->seconds;
    }
    if (!slow) return;
    time_text(first, a);
    time_text(late->seconds, b);
    snprintf(text, sizeof text, "%s%s%s there, %.3g", a, late->seconds > first ? " to " : "",
             late->seconds > first ? b : "", slow->rate / 1e9);
    if (slow->rate < fastest) lvn_print_append(text, sizeof text, " to %.3g", fastest / 1e9);
    lvn_print_append(text, sizeof text, " GB/s");
    lvn_doctor_line(r, where, "%s", text);
    if (slow->rate < fastest / 3) {
        lvn_doctor_finding(r, "look at that host's cable, port and interface, or leave it out",
                           "the link of ranks %d and %d (%.100s, %.100s) is slow: %.3g GB/s, others reach %.3g",
                           slow->a, slow->b, p[slow->a].host, p[slow->b].host, slow->rate / 1e9, fastest / 1e9);
    }
    if (between && fastest < 0.3e9) {
        lvn_doctor_finding(r,
                           "let MPI use the fast network: OMPI_MCA_btl_tcp_if_include, UCX_NET_DEVICES, FI_PROVIDER; "
                           "or use larger batches",
                           "hosts reach each other at %.3g GB/s only, as over 1 or 2 Gbit/s", fastest / 1e9);
    }
    if (!between && !oversubscribed && first > 100e-6) {
        lvn_doctor_finding(r,
                           "let MPI use shared memory: unset OMPI_MCA_btl, UCX_TLS, I_MPI_FABRICS; in a container "
                           "give it /dev/shm",
                           "a message between ranks of one host takes %s", a);
    }
}

/* --- the report --- */

static void list_ranks(struct lvn_doctor *r, const struct lvn_member *h, const struct lvn_peer *p, int n,
                       const double *clock)
{
    json_t *list = json_array();
    char memory[LVN_NUMBER_TEXT];
    lvn_cli_print(r->c, "\n%5s %-16s %8s %-14s %7s %-8s %10s\n", "rank", "host", "pid", "CPUs", "threads", "isa",
                  "memory");
    for (int i = 0; i < n; i++) {
        const char *cpus = lvn_member_fact(h, i, keys[F_CPUS]), *isa = lvn_member_fact(h, i, keys[F_ISA]);
        int64_t bytes = fact_number(h, i, F_MEMORY);
        lvn_cli_print(r->c, "%5d %-16.16s %8lld %-14s %7ld %-8s %10s\n", i, p[i].host, (long long)p[i].pid, cpus,
                      fact_number(h, i, F_THREADS), isa, lvn_bytes_text(bytes, memory));
        json_t *one = json_object();
        json_object_set_new(one, "rank", json_integer(i));
        json_object_set_new(one, "host", json_string(p[i].host));
        json_object_set_new(one, "pid", json_integer(p[i].pid));
        json_object_set_new(one, "cpus", json_string(cpus));
        json_object_set_new(one, "threads", json_integer(fact_number(h, i, F_THREADS)));
        json_object_set_new(one, "instructions", json_string(isa));
        json_object_set_new(one, "memory_available_bytes", json_integer(bytes));
        json_object_set_new(one, "build", json_string(lvn_member_fact(h, i, keys[F_BUILD])));
        json_object_set_new(one, "mpi", json_string(lvn_member_fact(h, i, keys[F_MPI])));
        json_object_set_new(one, "clock_ahead_s", lvn_json_number(clock[i]));
        json_array_append_new(list, one);
    }
    lvn_cli_print(r->c, "\n");
    lvn_cli_add(r->c, "ranks", list);
}

static void report(struct lvn_doctor *r, const struct lvn_member *h, const struct lvn_peer *p, int n,
                   const struct link *links, int n_links, const double *clock, double reduce_s, int64_t bytes)
{
    char a[LVN_NUMBER_TEXT];
    int hosts = 0;
    bool oversubscribed = false;
    static unsigned short times[CPUS];
    list_ranks(r, h, p, n, clock);
    for (int i = 0; i < n; i++) {
        int first = 0, ranks = 0;
        while (strcmp(p[first].host, p[i].host) != 0) first++;
        if (first != i) continue;
        hosts++;
        check_host(r, h, p, n, i);
        for (int k = 0; k < n; k++) ranks += !strcmp(p[k].host, p[i].host);
        oversubscribed = oversubscribed || ranks >= count_cpus(h, p, n, i, times);
    }
    lvn_doctor_line(r, "ranks", "%d on %d host%s", n, hosts, lvn_plural(hosts));
    lvn_doctor_line(r, "MPI", "%s", lvn_member_fact(h, 0, keys[F_MPI]));
    check_links(r, p, links, n_links, false, oversubscribed);
    check_links(r, p, links, n_links, true, oversubscribed);
    lvn_doctor_line(r, "all-reduce", "%s in %.3g ms (%.3g GB/s)", lvn_bytes_text(bytes, a), 1e3 * reduce_s,
                    (double)bytes / reduce_s / 1e9);
    check_clocks(r, p, n, clock);
    check_differences(r, h);
    json_t *list = json_array();
    for (int i = 0; i < n_links; i++) {
        json_t *one = json_pack("{s:i,s:i,s:f,s:f}", "a", links[i].a, "b", links[i].b, "latency_s", links[i].seconds,
                                "bytes_per_s", links[i].rate);
        if (one) json_array_append_new(list, one);
    }
    lvn_cli_add(r->c, "links", list);
    lvn_cli_add(r->c, "hosts", json_integer(hosts));
    lvn_cli_add(r->c, "mpi", json_string(lvn_member_fact(h, 0, keys[F_MPI])));
    lvn_cli_add(r->c, "all_reduce_s", lvn_json_number(reduce_s));
    lvn_cli_add(r->c, "all_reduce_bytes", json_integer(bytes));
}

static enum lvn_status broadcast(void *context, void *x, int64_t bytes)
{
    return lvn_comm_broadcast_now(context, x, bytes, 0);
}

static void on_fault(void *context, const struct lvn_fault *f)
{
    (void)context;
    if (f->is_reporter) fprintf(stderr, "error: %s\n", f->text);
    _exit(LVN_EXIT_FAILED);
}

/* Measure the links; rank 0 reports. */
static enum lvn_status measure_and_report(struct lvn_doctor *r, struct lvn_comm *comm, struct lvn_member *h, int n)
{
    struct lvn_peer *p = calloc((size_t)n, sizeof *p);
    double *clock = calloc((size_t)n, sizeof *clock), reduce_s;
    struct link *links = NULL;
    int n_links = 0;
    int64_t bytes = 0;
    enum lvn_status status = LVN_MEMORY;
    if (p && clock) {
        lvn_member_table(h, p, n);
        status = measure_links(comm, &links, &n_links, clock, &reduce_s, &bytes);
        if (!status && lvn_comm_rank(comm) == 0) report(r, h, p, n, links, n_links, clock, reduce_s, bytes);
    }
    free(links);
    free(clock);
    free(p);
    return status;
}

static enum lvn_status train(struct lvn_doctor *r, const struct lvn_identity *identity, struct lvn_comm *comm,
                             struct lvn_member *h)
{
    struct lvn_ranks *ranks = NULL;
    enum lvn_status status = lvn_ranks_over(&ranks, identity, comm, h);
    if (!status) status = lvn_doctor_train(r, ranks);
    lvn_ranks_close(ranks);
    return status;
}

/* How ranks are connected, and the facts that they exchange. */
struct connection {
    bool tcp; /* by sockets that the rendezvous makes; else by MPI */
    struct lvn_mesh mesh;
    struct lvn_comm_options comm;
    struct lvn_fact facts[FACTS + LVN_MESH_FACTS];
};

static const double TIMEOUT = 30; /* seconds */

static enum lvn_status join(struct lvn_doctor *r, const struct lvn_identity *identity, struct connection *m,
                            struct lvn_comm **comm, struct lvn_member **h)
{
    if (m->tcp)
        LVN_TRY(lvn_mesh_listen(&m->mesh, identity->rank, identity->size, identity->one_host));
    else
        LVN_TRY(lvn_comm_open(comm, &m->comm));
    struct facts *f = calloc(1, sizeof *f);
    LVN_CHECK(f, MEMORY, "no memory for a report");
    collect_facts(f, r, *comm);
    for (int i = 0; i < FACTS; i++) m->facts[i] = (struct lvn_fact){keys[i], f->text[i]};
    for (int i = 0; i < m->mesh.n_facts; i++) m->facts[FACTS + i] = m->mesh.fact[i];
    struct lvn_member_options ho = {.id = identity,
                                    .timeout = TIMEOUT,
                                    .facts = m->facts,
                                    .n_facts = FACTS + m->mesh.n_facts,
                                    .broadcast = m->tcp ? NULL : broadcast,
                                    .broadcast_context = *comm,
                                    .fault = on_fault};
    enum lvn_status status = lvn_member_open(h, &ho); /* if it fails, it fails on all ranks */
    free(f);
    LVN_TRY(status);
    if (!m->tcp) return LVN_OK;
    LVN_TRY(lvn_mesh_connect(&m->mesh, *h, TIMEOUT));
    m->comm.sockets = m->mesh.sockets;
    LVN_TRY(lvn_comm_open(comm, &m->comm));
    lvn_mesh_detach_sockets(&m->mesh);
    return LVN_OK;
}

enum lvn_status lvn_doctor_ranks(struct lvn_doctor *r, const struct lvn_identity *identity)
{
    struct lvn_comm *comm = NULL;
    struct lvn_member *h = NULL;
    struct connection m = {.mesh.listening = -1,
                           .comm = {.rank = identity->rank,
                                    .size = identity->size,
                                    .library = r->library,
                                    .launcher = identity->launcher,
                                    .timeout = TIMEOUT}};
    LVN_TRY(lvn_ranks_transport(identity, &r->c->settings.values, &m.comm.kind));
    m.tcp = m.comm.kind->connection == LVN_CONNECTED_BY_SOCKETS;
    enum lvn_status status = join(r, identity, &m, &comm, &h);
    lvn_mesh_release(&m.mesh);
    if (status && !h) {
        lvn_while_at(status, "joining the ranks");
        return status;
    }
    if (!status) status = measure_and_report(r, comm, h, identity->size);
    if (!status && r->train) status = train(r, identity, comm, h);
    if (status) {
        lvn_member_fail(h, status == LVN_COMM);
        return status;
    }
    lvn_member_close(h);
    lvn_comm_close(comm);
    return LVN_OK;
}
