/* library.c - see library.h. */
#include "base/library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool load(struct lvn_library *l)
{
    void *library = NULL, **to = l->functions;
    for (const char *const *file = l->files; *file && !library; file++) library = dlopen(*file, RTLD_NOW | RTLD_LOCAL);
    if (!library) return false;
    for (const char *const *symbol = l->symbols; *symbol; symbol++, to++) {
        *to = dlsym(library, *symbol); /* POSIX: a function pointer is a pointer */
        if (!*to) return false;
    }
    return !l->start || l->start();
}

enum lvn_status lvn_library_open(struct lvn_library *l)
{
    pthread_mutex_lock(&lock);
    if (l->state == LVN_LIBRARY_NEW) l->state = load(l) ? LVN_LIBRARY_HERE : LVN_LIBRARY_MISSING;
    bool here = l->state == LVN_LIBRARY_HERE;
    pthread_mutex_unlock(&lock);
    LVN_CHECK(here, UNSUPPORTED, "%s takes %s (%s), which is not here: %s", l->use, l->name, l->files[0], l->cure);
    return LVN_OK;
}

bool lvn_library_exists(const char *file)
{
    void *handle = dlopen(file, RTLD_LAZY | RTLD_LOCAL);
    if (handle) dlclose(handle);
    return handle != NULL;
}

const char *lvn_library_of(const void *function)
{
    Dl_info info;
    return dladdr(function, &info) && info.dli_fname && strstr(info.dli_fname, ".so") ? info.dli_fname : "built in";
}

struct lvn_library *lvn_library_at(int i)
{
    static struct lvn_library *const all[] = {
#define LVN_LIBRARY(name) &lvn_library_##name,
#include "base/libraries.def"
#undef LVN_LIBRARY
    };
    return i < (int)(sizeof all / sizeof *all) ? all[i] : NULL;
}
