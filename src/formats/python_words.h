/* python_words.h - the words of a Python file, one after the other: names, numbers, strings, signs, line ends.
 *
 * Comments, blanks, joined lines and line ends within brackets are passed over. For assignments.c. */
#ifndef LVN_PYTHON_WORDS_H
#define LVN_PYTHON_WORDS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/arena.h"
#include "base/status.h"

enum lvn_py_token {
    LVN_PY_NAME,
    LVN_PY_NUMBER,
    LVN_PY_STRING,
    LVN_PY_OPERATOR,
    LVN_PY_NEWLINE, /* the end of a statement's line */
    LVN_PY_END,
    LVN_PY_ODD, /* f-strings, bytes, complex numbers, odd escapes */
};

struct lvn_py_scanner {
    struct lvn_arena *arena;
    const char *name, *p, *end; /* the file's name; what is left of its text */
    int line, brackets;         /* of the place p, from 1; open brackets */

    /* the word at hand */
    enum lvn_py_token token;
    const char *at; /* where it stands */
    int64_t n;
    int at_line;
    char sign[4];
    double number;
    bool whole;
    const char *text; /* of a string, in the arena */
};

/* The next word. LVN_FORMAT with FILE:LINE for a string or a bracket without an end. */
enum lvn_status lvn_py_next(struct lvn_py_scanner *s) LVN_CHECKED;

static inline bool lvn_py_is_operator(const struct lvn_py_scanner *s, const char *what)
{
    return s->token == LVN_PY_OPERATOR && !strcmp(s->sign, what);
}

static inline bool lvn_py_is_name(const struct lvn_py_scanner *s, const char *what)
{
    return s->token == LVN_PY_NAME && s->n == (int64_t)strlen(what) && !memcmp(s->at, what, (size_t)s->n);
}

#endif
