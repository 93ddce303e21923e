/* library.c - see library.h. */
#include "host/library.h"

#include <dlfcn.h>
#include <glob.h>
#include <pthread.h>

#include "base/getenv.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Try the directories that match a pattern; a pattern "$NAME/..." begins with a variable and is skipped if that is
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

static bool find_symbols(const struct lvn_library *library, void *handle)
{
    void **to = library->functions;
    for (const char *const *symbol = library->symbols; *symbol; symbol++, to++) {
        *to = dlsym(handle, *symbol); /* POSIX guarantees that function pointers fit */
        if (!*to) return false;
    }
    return true;
}

/* Return true to stop searching. *best: the first library with all functions, or the one that is compatible. */
static bool try_library(const struct lvn_library *library, void *handle, void **best)
{
    if (!handle || !find_symbols(library, handle)) return false;
    const bool compatible = !library->is_compatible || library->is_compatible();
    if (compatible || !*best) *best = handle;
    return compatible;
}

static bool load(struct lvn_library *library)
{
    void *best = NULL;
    bool found = false;
    for (const char *const *file = library->files; *file && !found; file++)
        found = try_library(library, dlopen(*file, RTLD_NOW | RTLD_LOCAL), &best);
    for (const char *const *folder = library->folders; folder && *folder && !found; folder++)
        for (const char *const *file = library->files; *file && !found; file++)
            found = try_library(library, load_from(*folder, *file), &best);
    return best && find_symbols(library, best) && (!library->start || library->start());
}

enum lvn_status lvn_library_open(struct lvn_library *library)
{
    if (library->requires && lvn_library_open(library->requires) != LVN_OK)
        lvn_error_clear(); /* the library may work without it */
    pthread_mutex_lock(&lock);
    if (library->state == LVN_LIBRARY_NOT_TRIED)
        library->state = load(library) ? LVN_LIBRARY_LOADED : LVN_LIBRARY_MISSING;
    bool loaded = library->state == LVN_LIBRARY_LOADED;
    pthread_mutex_unlock(&lock);
    LVN_CHECK(loaded, UNSUPPORTED, "%s requires %s (%s), which was not found: %s", library->use, library->name,
              library->files[0], library->hint);
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
