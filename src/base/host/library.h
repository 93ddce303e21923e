/* library.h - shared libraries that are loaded on first use (dlopen). levin builds and starts without them.
 *
 * A library is a list of functions, each F(type, name, arguments, symbol); a struct of function pointers generated from
 * the list; and a struct lvn_library. Its line in libraries.def makes `levin doctor` list it. After lvn_library_open()
 * has succeeded its functions are called as curl.init(). A library is never closed, because TLS libraries leak when
 * they are unloaded. */
#ifndef LVN_LIBRARY_H
#define LVN_LIBRARY_H

#include "base/status.h"

struct lvn_library {
    const char *name;           /* "libcurl" */
    const char *files[5];       /* file names, in order of preference; ended by NULL */
    const char *const *folders; /* searched after the loader's folders; patterns such as "$HOME/lib"; ended by NULL */
    const char *use;            /* message: "USE requires libcurl (libcurl.so.4), which was not found: HINT" */
    const char *hint;
    const char *const *symbols;       /* ended by NULL */
    void *functions;                  /* the struct of function pointers, in the order of symbols */
    bool (*start)(void);              /* called once after loading; NULL: nothing to do */
    struct lvn_library *requires;     /* a library to load before this one; NULL: none */
    bool (*is_compatible)(void);      /* with the required library; a later file that is compatible is preferred */
    const char *(*version)(void);     /* for `levin doctor` */
    const char *(**version_of)(void); /* if `version` is NULL: the pointer in `functions` to use instead */
    enum { LVN_LIBRARY_NOT_TRIED, LVN_LIBRARY_LOADED, LVN_LIBRARY_MISSING } state;
};

#define LVN_LIBRARY(name) extern struct lvn_library lvn_library_##name;
#include "host/libraries.def"

/* Expansions of a list of functions: members of the struct of pointers, and symbol names. */
#define LVN_LIBRARY_POINTER(type, name, arguments, symbol) type(*name) arguments;
#define LVN_LIBRARY_SYMBOL(type, name, arguments, symbol) symbol,

/* Load the library. LVN_UNSUPPORTED, with a hint what to install, if it is missing or lacks a function.
 * Thread-safe. */
enum lvn_status lvn_library_open(struct lvn_library *library) LVN_CHECKED;
/* True if the loader finds a library with this file name. */
bool lvn_library_exists(const char *file);
/* Path of the library that contains the function; "built in" if that is the program. */
const char *lvn_library_path(const void *function);

/* Library number i of libraries.def; NULL after the last. */
struct lvn_library *lvn_library_at(int i);

#endif
