/* library.c - see library.h. */
#include "host/library.h"

#include <dlfcn.h>
#include <glob.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/getenv.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Tries the directories that match a pattern; a pattern "$NAME/..." begins with a variable and is skipped if that is
 * not set. */
static void *load_from(const char *folder, const char *file)
{
    void *library = NULL;
    char name[64], pattern[4096];
    glob_t found;
    const char *rest = folder, *start = "";
    if (*folder == '$') {
        size_t length = strcspn(folder, "/");
        snprintf(name, sizeof name, "%.*s", (int)length - 1, folder + 1);
        rest = folder + length;
        start = lvn_getenv(name);
        if (!start) return NULL;
    }
    if (snprintf(pattern, sizeof pattern, "%s%s/%s", start, rest, file) >= (int)sizeof pattern) return NULL;
    if (glob(pattern, 0, NULL, &found)) return NULL;
    for (size_t i = 0; i < found.gl_pathc && !library; i++) library = dlopen(found.gl_pathv[i], RTLD_NOW | RTLD_LOCAL);
    globfree(&found);
    return library;
}

static bool find_symbols(const struct lvn_library *l, void *library)
{
    void **to = l->functions;
    for (const char *const *symbol = l->symbols; *symbol; symbol++, to++) {
        *to = dlsym(library, *symbol); /* POSIX guarantees that function pointers fit */
        if (!*to) return false;
    }
    return true;
}

/* True: stop searching. *best: the first library with all functions, or the one that is compatible. */
static bool consider(const struct lvn_library *l, void *library, void **best)
{
    if (!library || !find_symbols(l, library)) return false;
    const bool fits = !l->is_compatible || l->is_compatible();
    if (fits || !*best) *best = library;
    return fits;
}

static bool load(struct lvn_library *l)
{
    void *best = NULL;
    bool over = false;
    for (const char *const *file = l->files; *file && !over; file++)
        over = consider(l, dlopen(*file, RTLD_NOW | RTLD_LOCAL), &best);
    for (const char *const *folder = l->folders; folder && *folder && !over; folder++)
        for (const char *const *file = l->files; *file && !over; file++)
            over = consider(l, load_from(*folder, *file), &best);
    return best && find_symbols(l, best) && (!l->start || l->start());
}

enum lvn_status lvn_library_open(struct lvn_library *l)
{
    if (l->requires && lvn_library_open(l->requires) != LVN_OK) lvn_error_clear(); /* the library may work without it */
    pthread_mutex_lock(&lock);
    if (l->state == LVN_LIBRARY_NOT_TRIED) l->state = load(l) ? LVN_LIBRARY_LOADED : LVN_LIBRARY_MISSING;
    bool here = l->state == LVN_LIBRARY_LOADED;
    pthread_mutex_unlock(&lock);
    LVN_CHECK(here, UNSUPPORTED, "%s needs %s (%s), which was not found: %s", l->use, l->name, l->files[0], l->hint);
    return LVN_OK;
}

bool lvn_library_exists(const char *file)
{
    void *handle = dlopen(file, RTLD_LAZY | RTLD_LOCAL);
    if (handle) dlclose(handle);
    return handle != NULL;
}

const char *lvn_library_path(const void *function)
{
    Dl_info info;
    return dladdr(function, &info) && info.dli_fname && strstr(info.dli_fname, ".so") ? info.dli_fname : "built in";
}

struct lvn_library *lvn_library_at(int i)
{
    static struct lvn_library *const all[] = {
#define LVN_LIBRARY(name) &lvn_library_##name,
#include "host/libraries.def"
    };
    return i < (int)(sizeof all / sizeof *all) ? all[i] : NULL;
}
