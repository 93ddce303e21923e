/* library.h - libraries that are opened at run time, when they are first wanted: nothing of them is needed to build or
 * to start.
 *
 * A library is a list of functions, F(type, name, arguments, symbol) each, a struct of pointers that is made from it,
 * and a row that says what it is for; its line in libraries.def makes `levin doctor` list it. The functions are called
 * as curl.init() once lvn_library_open() has succeeded. A library is never closed: TLS libraries leak when unloaded. */
#ifndef LVN_LIBRARY_H
#define LVN_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

struct lvn_library {
    const char *name;             /* "libcurl" */
    const char *files[5];         /* what it is called, first choice first; NULL ends them */
    const char *const *folders;   /* to look into behind those of the loader, patterns: "$HOME/lib"; NULL ends them */
    const char *use, *hint;       /* "use takes libcurl (libcurl.so.4), which is not here: cure" */
    const char *const *symbols;   /* NULL ends them */
    void *functions;              /* the struct of pointers, in the order of symbols */
    bool (*start)(void);          /* called once when it was opened; NULL: nothing to do */
    struct lvn_library *requires; /* opened before it; NULL: it stands alone */
    bool (*is_compatible)(void);  /* does this file go with what is under it: else a later one that does is taken */
    const char *(*version)(void);
    enum { LVN_LIBRARY_NOT_TRIED, LVN_LIBRARY_LOADED, LVN_LIBRARY_MISSING } state;
};

#define LVN_LIBRARY(name) extern struct lvn_library lvn_library_##name;
#include "host/libraries.def"

/* What a list of functions becomes: the members of the struct of pointers, and the names. */
#define LVN_LIBRARY_POINTER(type, name, arguments, symbol) type(*name) arguments;
#define LVN_LIBRARY_SYMBOL(type, name, arguments, symbol) symbol,

/* LVN_UNSUPPORTED, with what to install, where it is missing or lacks a function. By any thread. */
LVN_CHECKED enum lvn_status lvn_library_open(struct lvn_library *l);
/* Whether the loader finds a library of this name. */
bool lvn_library_exists(const char *file);
/* The file that holds a function; "built in" where that is the program. */
const char *lvn_library_path(const void *function);

/* Number i of libraries.def; NULL behind the last. */
struct lvn_library *lvn_library_at(int i);

#endif
