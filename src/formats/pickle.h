/* pickle.h - values from Python's pickle format, without running anything.
 *
 * A pickle is a program for a small stack machine: most of its instructions build plain values, and some call whatever
 * function the file names, which is how a pickle can do anything that Python can. This reader has the instructions
 * that build. What a call would do is asked of a host, which knows a handful of functions by name and makes their
 * values itself; every other name is refused, with its name. Instructions that make instances of classes are not there.
 *
 * Memory is bounded by the size of the pickle: no instruction copies what is there already. Containers may hold one
 * another in circles (a list that is in itself), so what walks them must bound its depth.
 * Protocols 0 (in part) to 5. Left out: sets, integers beyond 64 bits (they read as reals), Python 2's text escapes.
 * (Python: Lib/pickletools.py, which describes every instruction.) */
#ifndef LVN_PICKLE_H
#define LVN_PICKLE_H

#include <stdbool.h>
#include <stdint.h>

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
    LVN_PICKLE_NAME,   /* of a function or class, "collections.OrderedDict" */
    LVN_PICKLE_OBJECT, /* the host's */
    LVN_PICKLE_MARK,   /* the reader's own; never handed out */
};

struct lvn_pickle {
    enum lvn_pickle_kind kind;
    int64_t n; /* bytes of a text; items of a container, where a dict counts keys and values: 2 a pair */
    union {
        bool truth;
        int64_t integer;
        double real;
        const char *text;         /* TEXT, NAME: ended by a NUL; BYTES: into the pickle */
        struct lvn_pickle **item; /* TUPLE, LIST; DICT: key, value, key, value ... */
        void *object;
    };
    int64_t capacity; /* items that there is memory for */
};

/* Who knows what the names in a pickle stand for. Both fail with a sentence for what they do not know. */
struct lvn_pickle_host {
    void *context;
    /* The value of function(arguments...). */
    enum lvn_status (*call)(void *context, struct lvn_arena *a, const char *function,
                            const struct lvn_pickle *arguments, struct lvn_pickle **out);
    /* What lies outside of the pickle under this id. */
    enum lvn_status (*persistent_load)(void *context, struct lvn_arena *a, const struct lvn_pickle *id,
                                       struct lvn_pickle **out);
};

/* Read one pickle; `name` is what messages call it. *used: its bytes, for files of several. LVN_FORMAT when it is not
 * good, or holds what is no plain value. */
LVN_CHECKED enum lvn_status lvn_pickle_read(struct lvn_arena *a, const char *name, const unsigned char *data,
                                            int64_t bytes, const struct lvn_pickle_host *host, struct lvn_pickle **out,
                                            int64_t *used);

/* A new value; NULL: memory. */
struct lvn_pickle *lvn_pickle_new(struct lvn_arena *a, enum lvn_pickle_kind kind);
/* The value of a text key; NULL when it is not there, or `dict` is NULL or no dict. The last of equal keys counts. */
struct lvn_pickle *lvn_pickle_get(const struct lvn_pickle *dict, const char *key);
/* "a tuple", "an integer", for messages. */
const char *lvn_pickle_kind_text(const struct lvn_pickle *value);

#endif
