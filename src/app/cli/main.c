/* main.c - main(): finds the command, warns of unknown variables of the environment, runs the command, prints its error
 * and turns its status into an exit code. Arguments are parsed in args.c; process.c handles levin as process 1 of a
 * container. */
#include <locale.h>
#include <signal.h>
#include <sys/resource.h>

#include "base/getenv.h"
#include "base/text.h"
#include "cli/args.h"
#include "cli/cli.h"
#include "cli/cli_ranks.h"
#include "cli/help.h"
#include "cli/process.h"
#include "cluster/identity/identity.h"
#include "cluster/rendezvous/member.h"
#include "formats/json.h"
#include "host/isa.h"
#include "settings/synonyms.h"

extern char **environ;

static long json_begun; /* lvn_json_begin() before the first result */

static int exit_code(enum lvn_status status)
{
    switch (status) {
    case LVN_OK:
        return LVN_EXIT_DONE;
    case LVN_ARG:
        return LVN_EXIT_USAGE;
    case LVN_STOPPED:
        return LVN_EXIT_STOPPED;
    case LVN_COMM:
        return LVN_EXIT_FAULT;
    default:
        return LVN_EXIT_FAILED;
    }
}

/* "error: sentence", and below it, indented, each "while ...". */
static void print_error(const struct lvn_cli *c, enum lvn_status status)
{
    const char *text = *levin_error_text() ? levin_error_text() : lvn_status_text(status);
    fprintf(stderr, "%s%s\n", status == LVN_STOPPED ? "" : "error: ", text);
    for (const char *line = levin_error_trace(); *line; line = strchr(line, '\n') + 1) {
        fprintf(stderr, "  %.*s\n", (int)strcspn(line, "\n"), line);
    }
    if (lvn_cli_on(c, LVN_FLAG_any_verbose)) fprintf(stderr, "  (%s)\n", lvn_error_location());
}

static void json_error(json_t *object, enum lvn_status status)
{
    json_t *trace = json_array();
    for (const char *line = levin_error_trace(); *line; line = strchr(line, '\n') + 1) {
        json_array_append_new(trace, json_stringn(line, strcspn(line, "\n")));
    }
    json_object_set_new(object, "error",
                        json_string(*levin_error_text() ? levin_error_text() : lvn_status_text(status)));
    json_object_set_new(object, "trace", trace);
}

/* One line in one write: some MPIs turn buffering off, and launchers prefix each write. */
static enum lvn_status print_json(long since, const json_t *object)
{
    LVN_LOCAL_TEXT(t);
    lvn_json_add(&t, since, object, LVN_JSON_COMPACT);
    lvn_text_add(&t, "\n");
    enum lvn_status status = lvn_text_status(&t);
    if (status == LVN_OK) fwrite(t.p, 1, (size_t)t.n, stdout);
    LVN_CHECK(status == LVN_OK, MEMORY, "not enough memory for the JSON of the results");
    return LVN_OK;
}

/* Incomplete results are a failure. */
static enum lvn_status check_results(const struct lvn_cli *c)
{
    LVN_CHECK(!lvn_cli_print_failed() && (!c->json || lvn_json_check(json_begun) == LVN_OK), MEMORY,
              "not enough memory for the results");
    return LVN_OK;
}

/* Flush stdout: output that cannot be written, as on a full disk, is a failure. Returns the exit code. */
static int flush_stdout(int code)
{
    if (!fflush(stdout) && !ferror(stdout)) return code;
    fprintf(stderr, "error: standard output cannot be written\n");
    return code ? code : LVN_EXIT_FAILED;
}

/* Print error and results, on the rank that reports them, and return the exit code. */
static int finish(struct lvn_cli *c, enum lvn_status status)
{
    if (!status) status = check_results(c);
    if (status) signal(SIGTERM, SIG_DFL); /* the launcher may end this rank while it waits for the others to report */
    const bool reporter = lvn_ranks_report_end(c->ranks, status);
    if (status && reporter) print_error(c, status);
    if (c->json && reporter) {
        long since = status ? lvn_json_begin() : json_begun; /* results of a failed command may be incomplete */
        if (status) json_error(c->json, status);
        enum lvn_status printed = print_json(since, c->json);
        if (printed && !status) print_error(c, status = printed);
    }
    int code = !status && c->code ? c->code : exit_code(status);
    lvn_cli_release(c);
    code = flush_stdout(code);
    if (getenv("LEVIN_LAUNCH")) /* an mpirun in between may change the exit code: report it as text, too */
        fprintf(stderr, "%c%d%s\n", LVN_EXIT_MARK, code, reporter || !status ? " " LVN_EXIT_EXPLAINED : "");
    return code;
}

static enum lvn_status unknown_command(const char *name)
{
    static const struct lvn_synonym synonyms[] = {
#define LVN_SYNONYM_COMMAND(word_, command_, note_) {.word = word_, .target = command_, .note = note_},
#include "settings/synonyms.def"
    };
    for (size_t i = 0; i < sizeof synonyms / sizeof *synonyms; i++) {
        const struct lvn_synonym *s = &synonyms[i];
        if (!lvn_synonym_is(s, name)) continue;
        LVN_CHECK(*s->target, ARG, "unknown command '%.60s'; %s", name, s->note);
        LVN_FAIL(ARG, "unknown command '%.60s'; levin calls it `levin %s`%s%s", name, s->target, *s->note ? ", " : "",
                 s->note);
    }
    const char *names[64];
    int n = 0;
    for (; lvn_commands[n].name && n < 64; n++) names[n] = lvn_commands[n].name;
    const char *near = lvn_nearest(name, names, n);
    LVN_FAIL(ARG, "unknown command '%.60s'%s%s%s", name,
             near ? "; did you mean '" : "; `levin help` lists all commands", near ? near : "", near ? "'?" : "");
}

/* Variables besides those of keys (LEVIN_OPTIMIZER_LR): those that levin reads, and those of its scripts and tests. */
static const char *const variables[] = {
    "LEVIN_ISA",           "LEVIN_OPENCL_PARTS",   "LEVIN_OPENCL_PLATFORM",
    "LEVIN_CACHE",         "LEVIN_CACHE_SIZE",     "LEVIN_STORE_TRIES",
    "LEVIN_STORE_THREADS", "LEVIN_RENDEZVOUS",     "LEVIN_RENDEZVOUS_TOKEN",
    "LEVIN_RANK",          "LEVIN_SIZE",           "LEVIN_LOCAL_RANK",
    "LEVIN_LOCAL_SIZE",    "LEVIN_NODE",           "LEVIN_NODES",
    "LEVIN_LAUNCH",        "LEVIN_TERMINAL",       "LEVIN_RESTART",
    "LEVIN_SOURCE",        "LEVIN_BUILD",          "LEVIN_INSIDE",
    "LEVIN_INTEL_MPI",     "LEVIN_PEERS",          "LEVIN_NO_APT",
    "LEVIN_BENCH",         "LEVIN_BENCH_MPI",      "LEVIN_CUBLASLT",
    "LEVIN_LAUNCH_ID",     "LEVIN_RUN_BEGUN",      "LEVIN_TOKEN",
    "LEVIN_JOB_ID",        "LEVIN_CUDA_GRAPHS",    "LEVIN_CUDA_WAIT",
    "LEVIN_WGMMA",         "LEVIN_FETCH_MAX_SIZE", "LEVIN_LIBRARY",
};
enum { N_VARIABLES = sizeof variables / sizeof *variables };

static void warn_unknown(const char *name, const char *const *names, int n)
{
    char text[300];
    const char *near = lvn_nearest(name, names, n);
    snprintf(text, sizeof text, "the variable %.80s is set, but levin has no such variable%s%s%s", name,
             near ? "; did you mean "
                  : ": `levin help options` lists the keys; the variable of optimizer.lr is LEVIN_OPTIMIZER_LR",
             near ? near : "", near ? "?" : "");
    lvn_log(LVN_LOG_WARN, "%s", text);
}

/* One process warns: levin launch, or rank 0. */
static bool is_reporter(void)
{
    struct lvn_identity identity;
    if (getenv("LEVIN_LAUNCH")) return false;
    lvn_error_save(); /* of the command line, which is reported after the warnings */
    bool first = lvn_identity_find(&identity) != LVN_OK || identity.rank == 0;
    lvn_error_restore();
    return first;
}

/* Warn if LEVIN_ISA names no instruction set, or one that this processor lacks: the best one is used then. */
static void check_isa(void)
{
    const char *given = lvn_getenv("LEVIN_ISA");
    if (!given || !strcmp(given, lvn_isa_name(lvn_isa_best())) || !is_reporter()) return;
    char list[200] = "";
    bool named = false;
    for (int i = 0; i < LVN_ISA_COUNT; i++) {
        const char *name = lvn_isa_name((enum lvn_isa)i);
        lvn_print_append(list, sizeof list, "%s%s", i ? ", " : "", name);
        named = named || !strcmp(given, name);
    }
    lvn_log(LVN_LOG_WARN, "LEVIN_ISA is '%.40s', which is %s%s; %s is used", given,
            named ? "not supported by this processor" : "none of ", named ? "" : list, lvn_isa_name(lvn_isa_best()));
}

/* Warn of environment variables LEVIN_... that levin does not know, most likely misspelled keys. A wrong key of a
 * recipe or of the command line is refused; a variable may be meant for another version of levin or another program. */
static void warn_unknown_variables(void)
{
    check_isa();
    static char names[LVN_OPT_ALL][LVN_VALUE_TEXT];
    const char *all[LVN_OPT_ALL + N_VARIABLES];
    int n = 0;
    for (; n < lvn_option_count(); n++) all[n] = lvn_settings_variable(lvn_option_at(n)->key, names[n]);
    for (int i = 0; i < N_VARIABLES; i++) all[n++] = variables[i];
    for (char **e = environ; *e; e++) {
        char name[LVN_VALUE_TEXT];
        bool found = strncmp(*e, "LEVIN_", 6) != 0;
        snprintf(name, sizeof name, "%.*s", (int)strcspn(*e, "="), *e);
        for (int i = 0; i < n && !found; i++) found = !strcmp(name, all[i]);
        if (!found && is_reporter()) warn_unknown(name, all, n);
    }
}

static int run(const char *name, int argc, char **argv)
{
    struct lvn_cli c = {.command = lvn_command_find(name)};
    bool json = false; /* known before the arguments are parsed: their errors are printed as JSON, too */
    for (int i = 0; i < argc && strcmp(argv[i], "--"); i++)
        json |= !strcmp(argv[i], "--json") || !strncmp(argv[i], "--json=", 7);
    json_begun = lvn_json_begin();
    if (json) c.json = json_object();
    if (json && !c.json) return finish(&c, LVN_MEMORY);
    if (!c.command) return finish(&c, unknown_command(name));
    enum lvn_status status = lvn_cli_parse(&c, argc, argv);
    if (!status && !lvn_cli_on(&c, LVN_FLAG_any_json)) {
        json_decref(c.json);
        c.json = NULL;
    }
    lvn_log_set(lvn_cli_log, NULL, lvn_cli_log_level(&c));
    warn_unknown_variables();
    if (status) status = lvn_cli_exit_collectively(&c, status);
    if (!status && lvn_cli_on(&c, LVN_FLAG_any_help)) {
        status = lvn_help_command(&c, c.command);
    } else if (!status) {
        status = c.command->run(&c);
    }
    return finish(&c, status);
}

enum { MIN_STACK = 1 << 20 };

int main(int argc, char **argv)
{
    int code;
    if (lvn_process_as_init(&code)) return code;
    signal(SIGXFSZ, SIG_IGN);              /* beyond a file size limit a write fails, and the process lives */
    setlocale(LC_CTYPE, "");               /* for libarchive, which converts file names; numbers keep their format */
    setvbuf(stderr, NULL, _IOLBF, BUFSIZ); /* whole lines in one write: launchers prefix each write */
    if (getenv("LEVIN_LAUNCH")) setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
    struct rlimit stack;
    if (getrlimit(RLIMIT_STACK, &stack) == 0 && stack.rlim_cur < MIN_STACK) {
        fprintf(stderr,
                "error: the stack limit is %llu KiB (ulimit -s), but levin needs at least %d KiB; raise it with "
                "`ulimit -s 8192`\n",
                (unsigned long long)stack.rlim_cur >> 10, MIN_STACK >> 10);
        return LVN_EXIT_FAILED;
    }
    const char *first = argc > 1 ? argv[1] : "help";
    if (!strcmp(first, "--version") || !strcmp(first, "-V")) {
        bool json = argc > 2 && !strcmp(argv[2], "--json");
        printf(json ? "{\"version\":\"%s\"}\n" : "levin %s\n", LVN_VERSION);
        return flush_stdout(LVN_EXIT_DONE);
    }
    if (!strcmp(first, "--help") || !strcmp(first, "-h")) first = "help";
    code = run(first, argc > 2 ? argc - 2 : 0, argv + (argc > 2 ? 2 : argc));
    if (argc > 1) return code;
    fprintf(stderr, "error: no command was given; `levin help COMMAND` explains the commands listed above\n");
    return LVN_EXIT_USAGE;
}
