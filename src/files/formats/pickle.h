/* pickle.h - reads values from Python's pickle format without executing code; used for files of torch.save() (torch.h).
 *
 * A pickle is a program for a small stack machine: most of its instructions build plain values, and some call arbitrary
 * functions by name. This reader implements the instructions that build values. Calls are delegated to the caller's
 * functions (the role of find_class and persistent_load of Python's Unpickler), which builds the values of a few known
 * functions; all other functions are refused. Instructions that create instances of classes are not implemented.
 *
 * Memory is bounded by the size of the pickle: no instruction copies existing values. Containers may be cyclic (a list
 * that contains itself), so code that traverses them must bound its depth. Protocols 0 (in part) to 5. Not supported:
 * sets, integers beyond 64 bits (they become reals), Python 2's text escapes. All instructions are described in
 * Python's Lib/pickletools.py. */
#ifndef LVN_PICKLE_H
#define LVN_PICKLE_H

#include "base/arena.h"
#include "base/status.h"

enum lvn_pickle_kind {
    LVN_PICKLE_NONE,
    LVN_PICKLE_BOOL,
    LVN_PICKLE_INT,
    LVN_PICKLE_REAL,
    LVN_PICKLE_TEXT,
    LVN_PICKLE_BYTES,
    LVN_PICKLE_TUPLE,
    LVN_PICKLE_LIST,
    LVN_PICKLE_DICT,
    LVN_PICKLE_NAME,   /* a function or class, "collections.OrderedDict" */
    LVN_PICKLE_OBJECT, /* built by a function of the caller */
    LVN_PICKLE_MARK,   /* the stack marker of the format (MARK); never returned */
};

struct lvn_pickle {
    enum lvn_pickle_kind kind;
    int64_t n; /* bytes of a text; items of a container (a dict has 2 for each pair) */
    union {
        bool truth;
        int64_t integer;
        double real;
        const char *text;         /* TEXT, NAME: ends with a NUL; BYTES: points into the pickle */
        struct lvn_pickle **item; /* TUPLE, LIST; DICT: key, value, key, value ... */
        void *object;
    };
    int64_t capacity; /* allocated items */
};

/* The functions and objects that a pickle may refer to. Both callbacks fail with a message for unknown ones. */
struct lvn_pickle_functions {
    void *context;
    /* The result of function(arguments...). */
    enum lvn_status (*call)(void *context, struct lvn_arena *a, const char *function,
                            const struct lvn_pickle *arguments, struct lvn_pickle **out);
    /* The object outside of the pickle with this persistent ID. */
    enum lvn_status (*persistent_load)(void *context, struct lvn_arena *a, const struct lvn_pickle *id,
                                       struct lvn_pickle **out);
};

/* Read one pickle; `name` is its name in messages. *used: its length, for files with several pickles. LVN_FORMAT if it
 * is damaged or has values other than plain ones. */
enum lvn_status lvn_pickle_read(struct lvn_arena *a, const char *name, const unsigned char *data, int64_t bytes,
                                const struct lvn_pickle_functions *functions, struct lvn_pickle **out,
                                int64_t *used) LVN_CHECKED;

/* A new value; NULL: out of memory. */
struct lvn_pickle *lvn_pickle_new(struct lvn_arena *a, enum lvn_pickle_kind kind);
/* The value of a text key; NULL if it is missing, or `dict` is NULL or not a dict. Of equal keys the last one is used.
 */
struct lvn_pickle *lvn_pickle_get(const struct lvn_pickle *dict, const char *key);
/* "a tuple", "an integer", for messages. */
const char *lvn_pickle_kind_text(const struct lvn_pickle *value);

#endif
