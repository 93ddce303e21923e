/* args_variables.c - warns of unknown variables LEVIN_... in the environment, most likely misspelled keys; called by
 * main.c.
 *
 * A wrong key of a recipe or of the command line is refused. A variable may be meant for another version of levin or
 * another program, so it only causes a warning. */

#include "base/getenv.h"
#include "base/text.h"
#include "cli/args.h"
#include "cli/cli.h"
#include "cluster/identity/identity.h"
#include "host/isa.h"

extern char **environ;

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

static void warn(const char *name, const char *const *names, int n)
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

void lvn_cli_warn_unknown_variables(void)
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
        if (!found && is_reporter()) warn(name, all, n);
    }
}
