/* doctor.c - levin doctor: reports the machine as levin sees it, and each problem with its solution.
 * doctor_ranks.c checks the ranks of a launch. */
#include <yaml.h>

#include "backend/backend.h"
#include "base/text.h"
#include "cli/args.h"
#include "cli/doctor/doctor.h"
#include "comm/comm_kind.h"
#include "formats/json.h"
#include "host/library.h"

void lvn_doctor_line(const struct lvn_doctor *r, const char *name, const char *format, ...)
{
    char value[1000];
    va_list args;
    va_start(args, format);
    vsnprintf(value, sizeof value, format, args);
    va_end(args);
    lvn_cli_print(r->c, "%-18s %s\n", name, value);
}

void lvn_doctor_finding(struct lvn_doctor *r, const char *cure, const char *format, ...)
{
    char sentence[1000];
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    json_t *one = json_object();
    json_object_set_new(one, "finding", lvn_json_text(sentence, INT64_MAX));
    json_object_set_new(one, "cure", lvn_json_text(cure, INT64_MAX));
    json_array_append_new(r->findings, one);
    if (r->n_findings < LVN_FINDINGS)
        snprintf(r->found[r->n_findings++], sizeof r->found[0], "%s.\n    %s", sentence, cure);
}

static void report_cpu(struct lvn_doctor *r)
{
    const struct lvn_machine *m = &r->m;
    lvn_doctor_line(r, "CPU", "%s", *m->cpu ? m->cpu : "not known");
    lvn_doctor_line(r, "features", "%s", *m->features ? m->features : "not known");
    bool limited = r->isa < lvn_isa_processor();
    lvn_doctor_line(r, "instructions", "%s%s", lvn_isa_name(r->isa), limited ? " (limited by LEVIN_ISA)" : "");
    lvn_doctor_line(r, "cores", "%d hardware threads, %d allowed, on %d physical cores", m->online, m->allowed,
                    m->cores);
    if (m->quota > 0) {
        lvn_doctor_line(r, "quota", "%.2f CPUs granted by the cgroup", m->quota);
    }
    lvn_doctor_line(r, "threads", "%d (%s)", m->threads, m->threads_from);
    lvn_cli_add(r->c, "cpu", json_string(m->cpu));
    lvn_cli_add(r->c, "features", json_string(m->features));
    lvn_cli_add(r->c, "instructions", json_string(lvn_isa_name(r->isa)));
    lvn_cli_add(r->c, "hardware_threads", json_integer(m->online));
    lvn_cli_add(r->c, "allowed", json_integer(m->allowed));
    lvn_cli_add(r->c, "cores", json_integer(m->cores));
    lvn_cli_add(r->c, "quota", m->quota > 0 ? json_real(m->quota) : json_null());
    lvn_cli_add(r->c, "threads", json_integer(m->threads));
    lvn_cli_add(r->c, "threads_from", json_string(m->threads_from));
    if (limited) {
        lvn_doctor_finding(r, "unset LEVIN_ISA unless you compare results", "LEVIN_ISA limits the instruction set");
    } else if (r->isa == LVN_ISA_GENERIC) {
        lvn_doctor_finding(r, "use a newer machine for anything but tests",
                           "this CPU has no AVX2, so plain C kernels run");
    }
}

static void check_threads(struct lvn_doctor *r, int ranks)
{
    const struct lvn_machine *m = &r->m;
    int usable = m->quota > 0 && m->quota < m->cores ? (m->quota < 1 ? 1 : (int)m->quota) : m->cores;
    if (m->requested < 0)
        lvn_doctor_finding(r, "unset it, or set it to the number of cores",
                           "OMP_NUM_THREADS is not a whole number from 1 to %d, and is ignored", LVN_MAX_THREADS);
    if (m->threads > usable) {
        lvn_doctor_finding(r, "unset it, or set it to the number of cores",
                           "%s asks for %d threads, but %d physical cores may be used", m->threads_from, m->threads,
                           usable);
    } else if (m->threads < usable && ranks == 1) {
        lvn_doctor_finding(r, "unset it to use them all", "%s leaves %d of %d physical cores idle", m->threads_from,
                           usable - m->threads, usable);
    }
    FILE *f = fopen("/proc/loadavg", "re");
    double load = 0;
    if (f && fscanf(f, "%lf", &load) == 1 && load > 0.5 + (m->allowed == m->online ? 0.25 * m->cores : m->online)) {
        lvn_doctor_finding(r, "measure and train when they are done, or set trainer.threads lower",
                           "the load is %.1f: other programs are using the cores", load);
    }
    if (f) fclose(f);
    if (m->nodes > 1 && m->cores == m->threads) {
        lvn_doctor_finding(r,
                           "start as `numactl --interleave=all levin ...`, or keep to one part with --cpunodebind=0 "
                           "--membind=0",
                           "memory is in %d parts (NUMA)", m->nodes);
    }
}

static void report_memory(struct lvn_doctor *r)
{
    const struct lvn_machine *m = &r->m;
    char text[300], a[LVN_NUMBER_TEXT], b[LVN_NUMBER_TEXT], c[LVN_NUMBER_TEXT];
    snprintf(text, sizeof text, "%s, %s available", lvn_bytes_text(m->memory, a),
             lvn_bytes_text(m->memory_available, b));
    if (m->memory_limit)
        lvn_print_append(text, sizeof text, ", %s limit %s", m->memory_limit_from, lvn_bytes_text(m->memory_limit, c));
    lvn_doctor_line(r, "memory", "%s", text);
    lvn_doctor_line(r, "caches", "L1 %s, L2 %s, L3 %s", lvn_bytes_text(m->cache[0], a), lvn_bytes_text(m->cache[1], b),
                    lvn_bytes_text(m->cache[2], c));
    lvn_doctor_line(r, "huge pages", "%s", *m->huge_pages ? m->huge_pages : "not known");
    lvn_cli_add(r->c, "memory_bytes", json_integer(m->memory));
    lvn_cli_add(r->c, "memory_available_bytes", json_integer(m->memory_available));
    lvn_cli_add(r->c, "memory_limit_bytes", m->memory_limit ? json_integer(m->memory_limit) : json_null());
    lvn_cli_add(r->c, "huge_pages", json_string(m->huge_pages));
    if (!strcmp(m->huge_pages, "never")) {
        lvn_doctor_finding(r, "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled",
                           "transparent huge pages are off, which slows large models");
    }
    if (m->memory_available > 0 && m->memory_available < (int64_t)1 << 30) {
        lvn_doctor_finding(r, "end other programs, or raise the limit of the container or of the job",
                           "less than 1 GiB of memory is free");
    }
    if (m->swap > (int64_t)1 << 28)
        lvn_doctor_finding(r, "end other programs that hold memory", "memory is being swapped");
}

static void report_library(struct lvn_doctor *r, const char *name, const char *version, const char *file)
{
    lvn_doctor_line(r, name, "%s%s%s", version, file && *file ? ", " : "", file ? file : "");
    json_t *one = json_object();
    json_object_set_new(one, "version", json_string(version));
    json_object_set_new(one, "file", file && *file ? lvn_json_text(file, INT64_MAX) : json_null());
    json_object_set_new(r->libraries, name, one);
}

/* Report a library that is opened at run time. */
static void try_library(struct lvn_doctor *r, struct lvn_library *l)
{
    char reason[300];
    if (lvn_library_open(l) == LVN_OK) {
        report_library(r, l->name, l->version ? l->version() : (*l->version_of)(),
                       lvn_library_path(*(void **)l->functions));
        return;
    }
    snprintf(reason, sizeof reason, "not found; for %s: %s", l->use, l->hint);
    report_library(r, l->name, "left out", reason);
    lvn_error_clear();
}

static void report_libraries(struct lvn_doctor *r)
{
    char text[64];
    int major, minor, patch;
    report_library(r, "jansson", JANSSON_VERSION, lvn_library_path((const void *)(uintptr_t)json_object));
    yaml_get_version(&major, &minor, &patch);
    snprintf(text, sizeof text, "%d.%d.%d", major, minor, patch);
    report_library(r, "libyaml", text, lvn_library_path((const void *)(uintptr_t)yaml_get_version));
    struct lvn_library *l;
    const struct lvn_comm_kind *k;
    for (int i = 0; (l = lvn_library_at(i)); i++) try_library(r, l);
    for (int i = 0; (k = lvn_comm_kind_at(i)); i++)
        if (k->library) try_library(r, k->library);
}

/* The devices that trainer.accelerator finds, other than the CPU. */
static void report_devices(struct lvn_doctor *r)
{
    json_t *all = json_array();
    const struct lvn_backend *b;
    for (int k = 0; (b = lvn_backend_at(k)); k++) {
        struct lvn_device_facts f;
        char reason[300];
        if (b->library && b->library->state == LVN_LIBRARY_LOADED && !b->describe(0, &f)) {
            lvn_backend_why_none(b, reason, sizeof reason);
            lvn_doctor_line(r, b->name, "%s", reason);
        }
        for (int i = 0; b->describe && b->describe(i, &f); i++) {
            char bytes[LVN_NUMBER_TEXT];
            lvn_doctor_line(r, b->name, "%s, %s, driver %s", f.name, lvn_bytes_text(f.memory, bytes), f.driver);
            json_array_append_new(all, json_pack("{s:s, s:s, s:s, s:I}", "backend", b->name, "name", f.name, "driver",
                                                 f.driver, "memory_bytes", (json_int_t)f.memory));
        }
    }
    lvn_cli_add(r->c, "devices", all);
}

/* Is trainer.precision bf16-mixed faster here? Rates of matrix multiplications in fp32 and in bf16, FLOP/s. */
static void report_bf16(struct lvn_doctor *r, double flops, double bf16_flops)
{
    char text[160];
    const enum lvn_isa isa = lvn_isa_best();
    if (isa < LVN_ISA_AVX512_BF16)
        snprintf(text, sizeof text, "this CPU computes in fp32: trainer.precision bf16-mixed saves memory");
    else
        snprintf(text, sizeof text, "%.0f GFLOP/s of matrix multiplications, by %s: trainer.precision bf16-mixed %s",
                 bf16_flops / 1e9, isa == LVN_ISA_AMX ? "AMX" : "AVX512-BF16",
                 bf16_flops > 1.1 * flops ? "is faster" : "saves memory, and is hardly faster here");
    lvn_doctor_line(r, "bf16", "%s", text);
}

/* FLOP/s of matrix multiplications in fp32 and in bf16, and bytes/s of reading memory. */
static enum lvn_status measure_rates(const struct lvn_doctor *r, double *flops, double *bf16_flops, double *bytes)
{
    struct lvn_device *d;
    const struct lvn_backend *cpu_backend = lvn_backend_at(0);
    LVN_TRY(cpu_backend->open(&d, &(struct lvn_device_options){.real = LVN_F32, .threads = r->m.threads}));
    enum lvn_status status = lvn_device_rate(d, LVN_RATE_PRODUCTS, flops);
    if (status == LVN_OK) status = lvn_device_rate(d, LVN_RATE_PRODUCTS_BF16, bf16_flops);
    if (status == LVN_OK) status = lvn_device_rate(d, LVN_RATE_READING, bytes);
    cpu_backend->close(d);
    return status;
}

static enum lvn_status report_rates(struct lvn_doctor *r)
{
    double flops, bf16_flops, bytes;
    LVN_TRY_WHILE(measure_rates(r, &flops, &bf16_flops, &bytes), "measuring matrix multiplications and the memory");
    lvn_doctor_line(r, "matmul", "%.0f GFLOP/s in fp32 on %d threads", flops / 1e9, r->m.threads);
    report_bf16(r, flops, bf16_flops);
    lvn_doctor_line(r, "memory speed", "%.1f GB/s read", bytes / 1e9);
    lvn_cli_add(r->c, "matmul_gflops", json_real(flops / 1e9));
    lvn_cli_add(r->c, "matmul_bf16_gflops", json_real(bf16_flops / 1e9));
    lvn_cli_add(r->c, "memory_gb_per_s", json_real(bytes / 1e9));
    return LVN_OK;
}

enum lvn_status lvn_command_doctor(struct lvn_cli *c)
{
    struct lvn_doctor r = {.c = c, .isa = lvn_isa_best()};
    struct lvn_identity identity;
    enum lvn_status status = LVN_OK;
    enum lvn_status unknown = lvn_identity_find(&identity);
    char reason[1000];
    snprintf(reason, sizeof reason, "%s", unknown ? levin_error_text() : "");
    if (unknown) identity.rank = 0, identity.size = 1; /* a finding below; the rest of the report is valid */
    LVN_TRY(lvn_cli_settings(c, NULL, 0));             /* keys and variables */
    json_t *json = c->json;
    r.train = lvn_cli_on(c, LVN_FLAG_doctor_train);
    r.library = c->settings.values.trainer.mpi_library;
    r.findings = json_array();
    r.libraries = json_object();
    lvn_machine_read(&r.m);
    if (identity.rank > 0) { /* rank 0 alone reports */
        struct lvn_cli silent = *c;
        silent.json = json_object();
        r.c = &silent;
        status = lvn_doctor_ranks(&r, &identity);
        json_decref(silent.json);
        json_decref(r.findings);
        json_decref(r.libraries);
        json_decref(json);
        c->json = NULL;
        return status;
    }
    lvn_cli_add(c, "version", json_string(LVN_VERSION));
    report_cpu(&r);
    report_memory(&r);
    report_libraries(&r);
    report_devices(&r);
    check_threads(&r, identity.size);
    if (unknown) {
        lvn_doctor_finding(&r, "until then, levin train refuses to start", "%s", reason);
    } else {
        lvn_doctor_launch(&r, &identity);
    }
    if (identity.size > 1) status = lvn_doctor_ranks(&r, &identity);
    if (!status && r.train && identity.size == 1) status = lvn_doctor_train_alone(&r, &identity);
    if (!status && lvn_cli_on(c, LVN_FLAG_doctor_measure)) status = report_rates(&r);
    if (!status) lvn_cli_print(c, "\n%s\n", r.n_findings ? "what could be better:" : "nothing is wrong.");
    for (int i = 0; i < r.n_findings && !status; i++) lvn_cli_print(c, "  - %s\n", r.found[i]);
    lvn_cli_add(c, "libraries", r.libraries);
    lvn_cli_add(c, "findings", r.findings);
    return status;
}
