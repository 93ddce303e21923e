/* launch_find.c - which launcher starts the ranks.
 *
 * Within a running Slurm job it is srun, which knows the job's nodes and counts what ranks use. Elsewhere it is the
 * mpirun that PATH finds first, told by what it says of its version; where there are several, which one was taken and
 * why is said. A library named by trainer.mpi_library decides for its own family. Where there is no mpirun, or
 * trainer.transport asks for it, levin starts the ranks itself (ranks.c). */
#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/files.h"
#include "cli/launch/launch.h"

struct found {
    enum lvn_launcher launcher;
    const char *name;    /* as it was looked for */
    const char *program; /* its path */
    const char *title;
    int major;
};

static const char *const family_names[] = {"", "srun", "openmpi", "mpich", "intel", "levin"};
static const char *const family_titles[] = {"", "Slurm", "Open MPI", "MPICH", "Intel MPI"};

/* What `program --version` says: the family and its version. */
static bool identify(struct lvn_launch *l, struct found *f)
{
    LVN_LOCAL_TEXT(said);
    char *words[] = {(char *)f->program, "--version", NULL};
    int code = lvn_process_run(words, 20, &said);
    const char *text = lvn_text_string(&said), *version = NULL;
    if (code == 0 && text) {
        f->launcher = strstr(text, "Intel(R) MPI")                     ? LVN_LAUNCHER_INTEL
                      : strstr(text, "HYDRA") || strstr(text, "MPICH") ? LVN_LAUNCHER_MPICH
                      : strstr(text, "Open MPI") || strstr(text, "OpenRTE") || strstr(text, "prterun")
                          ? LVN_LAUNCHER_OPENMPI
                          : LVN_LAUNCHER_DIRECT;
        version = strstr(text, "Version");
        version = f->launcher == LVN_LAUNCHER_OPENMPI ? strchr(text, ')') : version;
        while (version && *version && !isdigit((unsigned char)*version)) version++;
    }
    if (version && *version) {
        f->major = (int)strtol(version, NULL, 10);
        f->title = lvn_arena_printf(l->arena, "%s %.*s", family_titles[f->launcher],
                                    (int)strspn(version, "0123456789."), version);
    } else if (code == 0) {
        f->title = family_titles[f->launcher];
    }
    return code == 0 && f->launcher != LVN_LAUNCHER_DIRECT && f->title;
}

/* All that PATH has, each program once. */
static int search(struct lvn_launch *l, struct found *found, int capacity)
{
    static const char *const names[] = {"mpirun",        "mpiexec",      "mpirun.openmpi", "mpiexec.openmpi",
                                        "mpiexec.hydra", "mpirun.mpich", "mpiexec.mpich"};
    char real[8][PATH_MAX];
    int n = 0, n_real = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names && n < capacity; i++) {
        struct found f = {.name = names[i], .program = lvn_process_find(l->arena, names[i])};
        bool seen = !f.program || !realpath(f.program, real[n_real]);
        for (int k = 0; k < n_real && !seen; k++) seen = !strcmp(real[k], real[n_real]);
        if (seen) continue;
        n_real++;
        if (identify(l, &f)) found[n++] = f;
    }
    return n;
}

/* The family that trainer.mpi_library belongs to; DIRECT: nobody says. */
static bool fits_library(const struct lvn_launch *l, enum lvn_launcher launcher)
{
    const char *name = lvn_path_name(l->mpi_library);
    bool open = strstr(name, ".so.40") != NULL, other = strstr(name, ".so.12") || strstr(name, "mpich");
    if (!open && !other) return true; /* none given, or one that tells nothing by its name */
    return open == (launcher == LVN_LAUNCHER_OPENMPI);
}

/* Sites have wrappers around their mpirun. */
static bool is_script(const char *program)
{
    char begin[2] = "";
    FILE *f = fopen(program, "re");
    bool script = f && fread(begin, 1, 2, f) == 2 && begin[0] == '#' && begin[1] == '!';
    if (f) fclose(f);
    return script;
}

static void take(struct lvn_launch *l, const struct found *f)
{
    /* Intel's mpirun is a script, which a signal would end; the program that it starts lies beside it. */
    char *folder = lvn_path_dir(l->arena, f->program);
    char *real = folder ? lvn_path_join(l->arena, folder, "mpiexec.hydra") : NULL;
    bool script = f->launcher == LVN_LAUNCHER_INTEL && real && !access(real, X_OK);
    l->launcher = f->launcher;
    l->program = script ? real : f->program;
    l->script = is_script(l->program);
    l->title = f->title;
    l->major = f->major;
}

const char *lvn_launch_daemon(const struct lvn_launch *l)
{
    const char *name = l->launcher == LVN_LAUNCHER_OPENMPI ? l->major >= 5 ? "prted" : "orted"
                       : l->launcher == LVN_LAUNCHER_MPICH ? "hydra_pmi_proxy"
                                                           : NULL;
    char *folder = name ? lvn_path_dir(l->arena, l->program) : NULL;
    char *path = folder ? lvn_path_join(l->arena, folder, name) : NULL;
    return path && !access(path, X_OK) ? path : NULL; /* where it is elsewhere here, nobody knows where it is there */
}

static enum lvn_status take_own(struct lvn_launch *l)
{
    LVN_CHECK(l->tcp || (!*l->mpi_library && !l->mpi), ARG,
              "--launcher=levin joins ranks by TCP connections, and %s asks for an MPI: leave one of the two out",
              l->mpi ? "trainer.transport" : "trainer.mpi_library");
    l->launcher = LVN_LAUNCHER_OWN;
    l->program = l->self;
    l->title = "levin ranks";
    return LVN_OK;
}

static enum lvn_status none_here(const struct lvn_launch *l)
{
    const char *how = access("/usr/bin/apt-get", X_OK) == 0 ? "apt install openmpi-bin (or mpich)"
                      : access("/usr/bin/dnf", X_OK) == 0   ? "dnf install openmpi, then module load mpi"
                                                            : "module load openmpi (module avail shows the name)";
    LVN_FAIL(ARG, "%d ranks need an MPI, and there is no mpirun in PATH: %s", l->ranks, how);
}

static enum lvn_status find_mpirun(struct lvn_launch *l)
{
    struct found found[8];
    int n = search(l, found, 8), taken = 0;
    if (!n && (*l->mpi_library || l->mpi)) return none_here(l);
    if (!n) {
        lvn_log(LVN_LOG_INFO, "there is no mpirun in PATH: the ranks are joined by TCP connections of levin's own");
        return take_own(l);
    }
    while (taken < n - 1 && !fits_library(l, found[taken].launcher)) taken++;
    if (!fits_library(l, found[taken].launcher)) {
        LVN_FAIL(
            ARG,
            "trainer.mpi_library is '%s', and the mpirun here is that of %s (%s); put the mpirun of that MPI into PATH",
            l->mpi_library, found[0].title, found[0].program);
    }
    take(l, &found[taken]);
    for (int i = 0; i < n; i++) {
        if (found[i].launcher == l->launcher) continue;
        lvn_log(LVN_LOG_INFO, "there is %s (%s) and %s (%s): taking %s, %s; --launcher=%s takes the other", l->title,
                l->program, found[i].title, found[i].program, l->title,
                taken ? "which trainer.mpi_library belongs to" : "which PATH finds first",
                family_names[found[i].launcher]);
        break;
    }
    return LVN_OK;
}

static enum lvn_status find_family(struct lvn_launch *l, const char *word)
{
    struct found found[8];
    int n = search(l, found, 8);
    for (int i = 0; i < n; i++) {
        if (strcmp(family_names[found[i].launcher], word)) continue;
        take(l, &found[i]);
        return LVN_OK;
    }
    if (!n) return none_here(l);
    LVN_FAIL(ARG, "there is no mpirun of %s in PATH, only that of %s (%s)",
             !strcmp(word, "openmpi") ? "Open MPI"
             : !strcmp(word, "mpich") ? "MPICH"
                                      : "Intel MPI",
             found[0].title, found[0].program);
}

static enum lvn_status find_srun(struct lvn_launch *l)
{
    l->program = lvn_process_find(l->arena, "srun");
    LVN_CHECK(l->program, ARG, "there is no srun in PATH: apt install slurm-client, or leave --launcher out");
    LVN_CHECK(l->allocation, ARG,
              "srun needs an allocation: salloc -n %d, or a batch script as `levin launch --slurm RECIPE` writes",
              l->ranks ? l->ranks : 2);
    l->launcher = LVN_LAUNCHER_SRUN;
    l->title = "srun";
    return LVN_OK;
}

enum lvn_status lvn_launch_find(struct lvn_launch *l)
{
    const char *word = l->c->flag[LVN_FLAG_launch_launcher].t;
    bool others = false;
    for (int i = 0; i < l->n_hosts; i++) others |= !l->hosts[i].here;
    if (!strcmp(word, "auto")) {
        if (l->allocation && !l->n_hosts) return find_srun(l);
        l->title = "no launcher";
        if (l->ranks == 1 && !others) return LVN_OK; /* DIRECT */
        return l->tcp ? take_own(l) : find_mpirun(l);
    }
    if (!strcmp(word, "levin")) return take_own(l);
    if (!strcmp(word, "srun")) return find_srun(l);
    for (int i = LVN_LAUNCHER_OPENMPI; i <= LVN_LAUNCHER_INTEL; i++) {
        if (!strcmp(word, family_names[i])) return find_family(l, word);
    }
    struct found f = {.name = word, .program = lvn_process_find(l->arena, word)};
    LVN_CHECK(f.program, ARG,
              "--launcher is auto, srun, openmpi, mpich, intel, levin or the path of an mpirun, not '%s'", word);
    LVN_CHECK(identify(l, &f), ARG, "'%s' is not an mpirun of Open MPI, MPICH or Intel MPI", f.program);
    take(l, &f);
    return LVN_OK;
}
