/* launch_launcher.c - selects the launcher that starts the ranks; called by launch.c.
 *
 * Within a running Slurm job it is srun, which knows the job's nodes and accounts for the resources of ranks. Otherwise
 * it is the first mpirun in PATH, identified by `mpirun --version`; if several exist, the choice and its reason are
 * logged. trainer.mpi_library, if set, restricts the choice to the launcher of that MPI. Without an mpirun, or with
 * trainer.transport tcp, levin starts the ranks itself (ranks_launcher.c). launch_command_line.c builds the command
 * lines. */
#include <unistd.h>

#include "base/files.h"
#include "launch/launch.h"

struct candidate {
    enum lvn_launcher kind;
    const char *name;    /* of the program, as in PATH */
    const char *program; /* its path */
    const char *title;   /* "Open MPI 4.1.4" */
    int major;           /* of its version; 0: not known */
};

/* Indexed by enum lvn_launcher: values of --launcher, and names in messages. */
static const char *const launcher_names[] = {"", "srun", "openmpi", "mpich", "intel", "levin"};
static const char *const launcher_titles[] = {"", "Slurm", "Open MPI", "MPICH", "Intel MPI"};

/* Run `program --version` and set kind, title and version; false: not a known launcher. */
static bool identify(struct lvn_launch *l, struct candidate *candidate)
{
    LVN_LOCAL_TEXT(output);
    char *words[] = {(char *)candidate->program, "--version", NULL};
    int code = lvn_process_run(words, 20, &output);
    const char *text = lvn_text_string(&output), *version = NULL;
    if (code == 0 && text) {
        candidate->kind = strstr(text, "Intel(R) MPI")                     ? LVN_LAUNCHER_INTEL
                          : strstr(text, "HYDRA") || strstr(text, "MPICH") ? LVN_LAUNCHER_MPICH
                          : strstr(text, "Open MPI") || strstr(text, "OpenRTE") || strstr(text, "prterun")
                              ? LVN_LAUNCHER_OPENMPI
                              : LVN_LAUNCHER_DIRECT;
        version = strstr(text, "Version");
        version = candidate->kind == LVN_LAUNCHER_OPENMPI ? strchr(text, ')') : version;
        while (version && *version && !isdigit((unsigned char)*version)) version++;
    }
    if (version && *version) {
        candidate->major = (int)strtol(version, NULL, 10);
        candidate->title = lvn_arena_printf(l->arena, "%s %.*s", launcher_titles[candidate->kind],
                                            (int)strspn(version, "0123456789."), version);
    } else if (code == 0) {
        candidate->title = launcher_titles[candidate->kind];
    }
    return code == 0 && candidate->kind != LVN_LAUNCHER_DIRECT && candidate->title;
}

/* All launchers in PATH, each program once, although it may have several names. */
static int search(struct lvn_launch *l, struct candidate *found, int capacity)
{
    static const char *const names[] = {"mpirun",        "mpiexec",      "mpirun.openmpi", "mpiexec.openmpi",
                                        "mpiexec.hydra", "mpirun.mpich", "mpiexec.mpich"};
    char real[8][PATH_MAX];
    int n = 0, n_real = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names && n < capacity; i++) {
        struct candidate candidate = {.name = names[i], .program = lvn_process_find(l->arena, names[i])};
        bool seen = !candidate.program || !realpath(candidate.program, real[n_real]);
        for (int k = 0; k < n_real && !seen; k++) seen = !strcmp(real[k], real[n_real]);
        if (seen) continue;
        n_real++;
        if (identify(l, &candidate)) found[n++] = candidate;
    }
    return n;
}

/* True if ranks of this launcher can load trainer.mpi_library, or if its name does not show to which MPI it belongs. */
static bool fits_library(const struct lvn_launch *l, enum lvn_launcher kind)
{
    const char *name = lvn_path_name(l->request.mpi_library);
    bool open = strstr(name, ".so.40") != NULL, other = strstr(name, ".so.12") || strstr(name, "mpich");
    if (!open && !other) return true; /* not set, or an unknown name */
    return open == (kind == LVN_LAUNCHER_OPENMPI);
}

/* Some clusters wrap their mpirun in a script. */
static bool is_script(const char *program)
{
    char first_bytes[2] = "";
    FILE *f = fopen(program, "re");
    bool script = f && fread(first_bytes, 1, 2, f) == 2 && first_bytes[0] == '#' && first_bytes[1] == '!';
    if (f) fclose(f);
    return script;
}

static void use(struct lvn_launch *l, const struct candidate *candidate)
{
    /* Intel's mpirun is a script, which a signal would terminate; use the program that it starts, in the same folder.
     */
    char *folder = lvn_path_dir(l->arena, candidate->program);
    char *real = folder ? lvn_path_join(l->arena, folder, "mpiexec.hydra") : NULL;
    bool script = candidate->kind == LVN_LAUNCHER_INTEL && real && !access(real, X_OK);
    l->launcher.kind = candidate->kind;
    l->launcher.program = script ? real : candidate->program;
    l->launcher.is_script = is_script(l->launcher.program);
    l->launcher.title = candidate->title;
    l->launcher.major = candidate->major;
}

const char *lvn_launch_daemon(const struct lvn_launch *l)
{
    const char *name = l->launcher.kind == LVN_LAUNCHER_OPENMPI ? l->launcher.major >= 5 ? "prted" : "orted"
                       : l->launcher.kind == LVN_LAUNCHER_MPICH ? "hydra_pmi_proxy"
                                                                : NULL;
    char *folder = name ? lvn_path_dir(l->arena, l->launcher.program) : NULL;
    char *path = folder ? lvn_path_join(l->arena, folder, name) : NULL;
    return path && !access(path, X_OK) ? path : NULL; /* elsewhere: its path on other hosts cannot be guessed */
}

enum lvn_status lvn_launch_use_levin_ranks(struct lvn_launch *l)
{
    const char *nodes = l->resources.in_slurm && !l->resources.in_step ? getenv("SLURM_JOB_NUM_NODES") : NULL;
    LVN_CHECK(!nodes || strtol(nodes, NULL, 10) <= 1, ARG,
              "--launcher=levin would start all ranks on the first of the %s nodes of Slurm job %s: omit it, so that "
              "srun starts them; with --trainer.transport=tcp they need no MPI",
              nodes, getenv("SLURM_JOB_ID"));
    LVN_CHECK(l->request.tcp || (!*l->request.mpi_library && !l->request.mpi), ARG,
              "--launcher=levin connects ranks with TCP, but %s requires an MPI: omit one of the two",
              l->request.mpi ? "trainer.transport" : "trainer.mpi_library");
    l->launcher.kind = LVN_LAUNCHER_LEVIN;
    l->launcher.program = l->self;
    l->launcher.title = "levin ranks";
    return LVN_OK;
}

static enum lvn_status fail_without_mpirun(const struct lvn_launch *l)
{
    const char *cure = access("/usr/bin/apt-get", X_OK) == 0 ? "apt install openmpi-bin (or mpich)"
                       : access("/usr/bin/dnf", X_OK) == 0   ? "dnf install openmpi, then module load mpi"
                                                             : "module load openmpi (module avail shows the name)";
    LVN_FAIL(ARG, "%d ranks require an MPI, but there is no mpirun in PATH: %s", l->attempt.ranks, cure);
}

/* --launcher=auto outside Slurm: the first mpirun that fits trainer.mpi_library, or levin ranks. */
static enum lvn_status pick_mpirun(struct lvn_launch *l)
{
    struct candidate found[8];
    int n = search(l, found, 8), chosen = 0;
    if (!n && (*l->request.mpi_library || l->request.mpi)) return fail_without_mpirun(l);
    if (!n) {
        lvn_log(LVN_LOG_INFO, "there is no mpirun in PATH: levin connects the ranks with TCP");
        return lvn_launch_use_levin_ranks(l);
    }
    while (chosen < n - 1 && !fits_library(l, found[chosen].kind)) chosen++;
    if (!fits_library(l, found[chosen].kind)) {
        LVN_FAIL(ARG,
                 "trainer.mpi_library is '%s', but the installed mpirun is that of %s (%s); add the mpirun of that MPI "
                 "to PATH",
                 l->request.mpi_library, found[0].title, found[0].program);
    }
    use(l, &found[chosen]);
    for (int i = 0; i < n; i++) {
        if (found[i].kind == l->launcher.kind) continue;
        lvn_log(LVN_LOG_INFO, "found %s (%s) and %s (%s): using %s, %s; --launcher=%s uses the other",
                l->launcher.title, l->launcher.program, found[i].title, found[i].program, l->launcher.title,
                chosen ? "which trainer.mpi_library belongs to" : "which is first in PATH",
                launcher_names[found[i].kind]);
        break;
    }
    return LVN_OK;
}

/* --launcher=openmpi, mpich or intel. */
static enum lvn_status pick_named(struct lvn_launch *l, const char *word)
{
    struct candidate found[8];
    int n = search(l, found, 8);
    for (int i = 0; i < n; i++) {
        if (strcmp(launcher_names[found[i].kind], word)) continue;
        use(l, &found[i]);
        return LVN_OK;
    }
    if (!n) return fail_without_mpirun(l);
    LVN_FAIL(ARG, "no mpirun of %s is in PATH, only that of %s (%s)",
             !strcmp(word, "openmpi") ? "Open MPI"
             : !strcmp(word, "mpich") ? "MPICH"
                                      : "Intel MPI",
             found[0].title, found[0].program);
}

static enum lvn_status use_srun(struct lvn_launch *l)
{
    l->launcher.program = lvn_process_find(l->arena, "srun");
    LVN_CHECK(l->launcher.program, ARG, "there is no srun in PATH: apt install slurm-client, or omit --launcher");
    LVN_CHECK(l->resources.in_slurm, ARG,
              "srun requires an allocation: salloc -n %d, or a batch script as `levin launch --slurm RECIPE` writes",
              l->attempt.ranks ? l->attempt.ranks : 2);
    l->launcher.kind = LVN_LAUNCHER_SRUN;
    l->launcher.title = "srun";
    return LVN_OK;
}

enum lvn_status lvn_launch_pick_launcher(struct lvn_launch *l)
{
    const char *word = l->c->flag[LVN_FLAG_launch_launcher].t;
    bool others = false;
    for (int i = 0; i < l->resources.n_hosts; i++) others |= !l->resources.hosts[i].here;
    if (!strcmp(word, "auto")) {
        if (l->resources.in_slurm && !l->resources.n_hosts) return use_srun(l);
        l->launcher.title = "no launcher";
        if (l->attempt.ranks == 1 && !others) return LVN_OK; /* DIRECT */
        return l->request.tcp ? lvn_launch_use_levin_ranks(l) : pick_mpirun(l);
    }
    if (!strcmp(word, "levin")) return lvn_launch_use_levin_ranks(l);
    if (!strcmp(word, "srun")) return use_srun(l);
    for (int i = LVN_LAUNCHER_OPENMPI; i <= LVN_LAUNCHER_INTEL; i++) {
        if (!strcmp(word, launcher_names[i])) return pick_named(l, word);
    }
    struct candidate candidate = {.name = word, .program = lvn_process_find(l->arena, word)};
    LVN_CHECK(candidate.program, ARG,
              "--launcher must be auto, srun, openmpi, mpich, intel, levin or the path of an mpirun, not '%s'", word);
    LVN_CHECK(identify(l, &candidate), ARG, "'%s' is not an mpirun of Open MPI, MPICH or Intel MPI", candidate.program);
    use(l, &candidate);
    return LVN_OK;
}
