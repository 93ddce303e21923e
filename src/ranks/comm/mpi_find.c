/* mpi_find.c - finds the MPI library of this machine that belongs to the launcher.
 *
 * The launcher decides: ranks started by Open MPI's mpirun can join each other only through Open MPI's library, ranks
 * started by an mpiexec of MPICH, Intel MPI or MVAPICH only through a library with MPICH's ABI. For srun, its
 * environment variables show which protocol (PMI or PMIx) it uses. Among libraries of the right kind, the one next to
 * the launcher has priority, then those that the dynamic loader finds (environment modules add their folder there),
 * then folders where distributions and vendors install them. levin's build needs no MPI.
 *
 * Sources: the MPICH ABI compatibility initiative (libmpi.so.12), MPI standard 5.0, chapter on the ABI. */
#include "comm/mpi_find.h"
#include "base/getenv.h"
#include "base/text.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <unistd.h>

enum mpi_kind { ANY, OPENMPI, MPICH }; /* the MPI that the launcher can start */

struct kind {
    const char *name, *package, *files[12];
};
static const struct kind open_mpi = {.name = "Open MPI",
                                     .package = "Debian: openmpi-bin",
                                     .files = {"libmpi.so.40", "libmpi_ibm.so.3", "libmpi_abi.so.1"}};
static const struct kind mpich = {
    .name = "MPICH, Intel MPI or MVAPICH",
    .package = "Debian: mpich",
    .files = {"libmpi.so.12", "libmpich.so.12", "libmpi_gnu_123.so.12", "libmpi_gnu_112.so.12", "libmpi_gnu_103.so.12",
              "libmpi_gnu_91.so.12", "libmpi_cray.so.12", "libmpi_intel.so.12", "libmpi_amd.so.12", "libmpi_abi.so.1"}};

/* Folders that the loader may not search: absolute, or relative to the value of a variable. */
static const struct folder {
    const char *variable, *path;
} folders[] = {{"I_MPI_ROOT", "/lib"},
               {"I_MPI_ROOT", "/lib/release"},
               {"CRAY_MPICH_DIR", "/lib"},
               {"MPI_HOME", "/lib"},
               {"MPI_ROOT", "/lib"},
               {"EBROOTOPENMPI", "/lib"},
               {"EBROOTIMPI", "/mpi/latest/lib"},
               {NULL, "/usr/lib64/openmpi/lib"},
               {NULL, "/usr/lib64/mpich/lib"},
               {NULL, "/usr/lib64/mpi/gcc/openmpi4/lib64"},
               {NULL, "/usr/lib64/mpi/gcc/mpich/lib64"},
               {NULL, "/opt/intel/oneapi/mpi/latest/lib"},
               {NULL, "/usr/local/lib"},
               {NULL, "/usr/lib64"},
               {NULL, "/usr/lib"},
#ifdef __x86_64__
               {NULL, "/usr/lib/x86_64-linux-gnu"},
#else
               {NULL, "/usr/lib/aarch64-linux-gnu"},
#endif
               {NULL, "/lib64"}};
enum { FOLDERS = sizeof folders / sizeof *folders };

/* --- the launcher's kind of MPI --- */

static enum lvn_status mpi_of_launcher(const char *launcher, enum mpi_kind *out, const char **reason)
{
    bool pmix = lvn_getenv("PMIX_RANK") || lvn_getenv("PMIX_NAMESPACE");
    bool pmi =
        lvn_getenv("PMI_RANK") || lvn_getenv("PMI_FD") || lvn_getenv("PMI_CONTROL_PORT") || lvn_getenv("PALS_RANKID");
    *reason = "because the launcher's MPI is not known";
    *out = ANY;
    if (!strcmp(launcher, "openmpi") || !strcmp(launcher, "lsf")) {
        *out = OPENMPI;
        *reason = "because the launcher is Open MPI's";
    } else if (!strcmp(launcher, "hydra") || !strcmp(launcher, "mvapich")) {
        *out = MPICH;
        *reason = "because the launcher is MPICH's, Intel MPI's or MVAPICH's";
    } else if (!strcmp(launcher, "slurm") && pmi) {
        *out = MPICH;
        *reason = "because srun uses PMI";
    } else if (!strcmp(launcher, "slurm") && pmix) {
        *out = OPENMPI;
        *reason = "because srun uses PMIx";
    } else if (!strcmp(launcher, "slurm")) {
        LVN_FAIL(UNSUPPORTED,
                 "srun started these ranks without MPI support, so they cannot join; use srun --mpi=pmix (for Open "
                 "MPI) or srun --mpi=pmi2 (for MPICH, Intel MPI, MVAPICH); `srun --mpi=list` shows the supported "
                 "values");
    } else if (lvn_getenv("OMPI_COMM_WORLD_SIZE") || (pmix && !pmi)) {
        *out = OPENMPI;
        *reason = "because variables of Open MPI are set";
    } else if (pmi) {
        *out = MPICH;
        *reason = "because variables of MPICH's launcher are set";
    }
    return LVN_OK;
}

/* --- searching --- */

/* The library folders next to the launcher. Launchers are found among this process's ancestors. */
static int launcher_folders(char out[][PATH_MAX], int max)
{
    int n = 0, pid = getppid();
    for (int up = 0; up < 6 && pid > 1 && n < max; up++) {
        char link[64], path[PATH_MAX], stat[512];
        snprintf(link, sizeof link, "/proc/%d/exe", pid);
        ssize_t length = readlink(link, path, sizeof path - 1);
        path[length > 0 ? length : 0] = '\0';
        char *slash = strrchr(path, '/');
        static const char *const names[] = {"orted",   "prted",   "prte",   "mpirun",        "orterun",
                                            "prterun", "mpiexec", "hydra_", "mpiexec.hydra", "mpirun_rsh"};
        for (size_t k = 0; slash && k < sizeof names / sizeof *names; k++) {
            if (strncmp(slash + 1, names[k], strlen(names[k]))) continue;
            *slash = '\0';
            char *bin = strrchr(path, '/');
            if (!bin) break;
            *bin = '\0';
            if (strcmp(path, "/usr") && *path && lvn_fit(out[n], PATH_MAX, "%s/lib", path)) n++;
            break;
        }
        snprintf(link, sizeof link, "/proc/%d/stat", pid);
        FILE *f = fopen(link, "r");
        if (!f) break;
        size_t read = fread(stat, 1, sizeof stat - 1, f);
        fclose(f);
        stat[read] = '\0';
        const char *end = strrchr(stat, ')');
        if (!end || sscanf(end, ") %*c %d", &pid) != 1) break;
    }
    return n;
}

static void *try_open(const char *path, char *errors, size_t bytes)
{
    void *handle = dlopen(path, RTLD_NOW | RTLD_GLOBAL); /* global: Open MPI's plug-ins need its symbols */
    const char *reason = handle ? NULL : dlerror();
    /* "No such file" is the usual error, and not worth reporting */
    if (reason && !strstr(reason, "No such file")) snprintf(errors, bytes, " (%.300s)", reason);
    return handle;
}

static void *try_folder(const struct kind *k, const char *folder, char *errors, size_t bytes)
{
    for (const char *const *file = k->files; *file; file++) {
        char path[PATH_MAX];
        void *handle = !lvn_fit(path, sizeof path, "%s/%s", folder, *file) || access(path, F_OK)
                           ? NULL
                           : try_open(path, errors, bytes);
        if (handle) return handle;
    }
    return NULL;
}

static bool folder_path(int i, char path[PATH_MAX])
{
    const char *root = folders[i].variable ? getenv(folders[i].variable) : "";
    if (!root || (folders[i].variable && !*root)) return false;
    return lvn_fit(path, PATH_MAX, "%s%s", root, folders[i].path);
}

static void *search(const struct kind *k, bool *near_launcher, char *errors, size_t bytes)
{
    char near[4][PATH_MAX], path[PATH_MAX];
    int n = launcher_folders(near, 4);
    void *handle = NULL;
    for (int i = 0; i < n && !handle; i++) handle = try_folder(k, near[i], errors, bytes);
    *near_launcher = handle != NULL;
    for (const char *const *file = k->files; *file && !handle; file++) handle = try_open(*file, errors, bytes);
    for (int i = 0; i < FOLDERS && !handle; i++)
        if (folder_path(i, path)) handle = try_folder(k, path, errors, bytes);
    return handle;
}

/* --- identifying a library --- */

/* The library's soname, which its file name may not show. */
static void soname(void *handle, char path[512], char name[64])
{
    struct link_map *map = NULL;
    name[0] = path[0] = '\0';
    if (dlinfo(handle, RTLD_DI_LINKMAP, &map) || !map) return;
    snprintf(path, 512, "%.500s", map->l_name);
    const char *strings = NULL;
    for (const ElfW(Dyn) *d = map->l_ld; d->d_tag != DT_NULL; d++)
        if (d->d_tag == DT_STRTAB) strings = (const char *)d->d_un.d_ptr;
    for (const ElfW(Dyn) *d = map->l_ld; strings && d->d_tag != DT_NULL; d++)
        if (d->d_tag == DT_SONAME) snprintf(name, 64, "%.63s", strings + d->d_un.d_val);
}

static enum lvn_status identify(struct lvn_mpi_library *out)
{
    char name[64];
    soname(out->handle, out->path, name);
    LVN_CHECK(dlsym(out->handle, "MPI_Init_thread"), ARG, "%s is not an MPI library: MPI_Init_thread is missing",
              out->path);
    LVN_CHECK(!strstr(name, "ilp64"), ARG, "%s is an MPI with 64-bit integers; use the file without ilp64 in its name",
              out->path);
    if (!strncmp(name, "libmpi_abi", 10))
        out->abi = LVN_ABI_STANDARD;
    else
        out->abi = dlsym(out->handle, "ompi_mpi_comm_world") ? LVN_ABI_OPENMPI : LVN_ABI_MPICH;
    return LVN_OK;
}

/* Append the installed MPI libraries that were not chosen. Only their files are examined, because loading two MPI
 * libraries in one process fails. `excluded`: a kind not to list. Returns the text. */
static char *add_others(char *text, size_t bytes, const char *before, const char *chosen, const struct kind *excluded)
{
    char path[PATH_MAX], file[PATH_MAX + 64], real[PATH_MAX], chosen_path[PATH_MAX], seen[PATH_MAX] = "";
    const struct kind *kinds[] = {&open_mpi, &mpich};
    if (!realpath(chosen, chosen_path)) chosen_path[0] = '\0';
    for (int i = 0; i < 2 * 2 * FOLDERS; i++) {
        const struct kind *k = kinds[i & 1];
        if (k == excluded || !folder_path(i / 4, path)) continue;
        snprintf(file, sizeof file, "%s/%s", path, k->files[i >> 1 & 1]);
        size_t n = strlen(text);
        if (!realpath(file, real) || !strcmp(real, chosen_path) || !strcmp(real, seen) || n + 200 > bytes) continue;
        snprintf(text + n, bytes - n, "%s%.150s", *seen ? ", " : before, file);
        snprintf(seen, sizeof seen, "%s", real);
    }
    return text;
}

static enum lvn_status refuse(enum mpi_kind mpi_kind, const char *reason, const char *errors)
{
    char others[600] = "";
    const struct kind *required = mpi_kind == MPICH ? &mpich : &open_mpi;
    LVN_CHECK(mpi_kind != ANY, UNSUPPORTED,
              "no MPI library was found, which the ranks of this launcher require%s; install Open MPI (%s) or MPICH "
              "(%s), load your cluster's MPI module, or set trainer.mpi_library to the path of libmpi.so",
              errors, open_mpi.package, mpich.package);
    LVN_CHECK(!*add_others(others, sizeof others, "", "", required), UNSUPPORTED,
              "no library of %s was found, which is required %s%s; found %s; start levin with the launcher of that "
              "one, or install the required one (%s), or set trainer.mpi_library to its path",
              required->name, reason, errors, others, required->package);
    LVN_FAIL(UNSUPPORTED,
             "no library of %s was found, which is required %s%s; install it (%s), load your cluster's MPI module, or "
             "set trainer.mpi_library to the path of libmpi.so",
             required->name, reason, errors, required->package);
}

enum lvn_status lvn_mpi_find(struct lvn_mpi_library *out, const char *library, const char *launcher)
{
    char errors[400] = "";
    const char *reason;
    enum mpi_kind mpi_kind;
    *out = (struct lvn_mpi_library){0};
    if (library && *library) {
        out->handle = dlopen(library, RTLD_NOW | RTLD_GLOBAL);
        LVN_CHECK(out->handle, ARG, "trainer.mpi_library: %s", dlerror());
        snprintf(out->reason, sizeof out->reason, "set by trainer.mpi_library");
        return identify(out);
    }
    LVN_TRY(mpi_of_launcher(launcher ? launcher : "", &mpi_kind, &reason));
    bool near_launcher = false;
    if (mpi_kind != MPICH) out->handle = search(&open_mpi, &near_launcher, errors, sizeof errors);
    if (!out->handle && mpi_kind != OPENMPI) out->handle = search(&mpich, &near_launcher, errors, sizeof errors);
    /* MPICH can be built with PMIx support too. */
    if (!out->handle && mpi_kind == OPENMPI && launcher && !strcmp(launcher, "slurm"))
        out->handle = search(&mpich, &near_launcher, errors, sizeof errors);
    if (!out->handle) return refuse(mpi_kind, reason, errors);
    snprintf(out->reason, sizeof out->reason, "%s%s", reason, near_launcher ? "; found next to the launcher" : "");
    LVN_TRY(identify(out));
    add_others(out->reason, sizeof out->reason, "; also installed, but not used: ", out->path, NULL);
    return LVN_OK;
}
