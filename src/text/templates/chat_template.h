/* chat_template.h - chat templates: a bounded interpreter of Jinja that renders what apply_chat_template of
 * transformers renders.
 *
 * A template is parsed once, is read-only afterwards and is shared by all threads. Rendering allocates only from the
 * caller's arena and ends within its limits. Each byte of the result has a mark: whether it is text of the conversation
 * or was written by the template (only there special tokens are recognized), and whether it is within {% generation %}.
 * Strings carry these marks through filters, methods and slices.
 *
 * Supported: output, comments, if, for (with a condition, else, break, continue), set, macro, filter and generation
 * blocks; the expressions of Jinja; the filters, tests and methods of the tables in chat_template_filters.c,
 * chat_template_tests.c and chat_template_methods.c; the globals range, namespace, dict, raise_exception and
 * strftime_now. trim_blocks and lstrip_blocks are on, as in transformers. Left out, and refused with the line and the
 * construct: all others. */
#ifndef LVN_CHAT_TEMPLATE_H
#define LVN_CHAT_TEMPLATE_H

#include <time.h>

#include "base/arena.h"
#include "formats/json.h"

/* Marks of a byte of rendered text. */
enum { LVN_MARK_CONTENT = 1, LVN_MARK_GENERATION = 2 };

/* A value of the interpreter, as other folders see it: a conversation converted once, rendered several times. */
enum lvn_tpl_kind {
    LVN_TPL_UNDEFINED,
    LVN_TPL_NONE,
    LVN_TPL_BOOL,
    LVN_TPL_INT,
    LVN_TPL_FLOAT,
    LVN_TPL_STRING,
    LVN_TPL_LIST,
    LVN_TPL_DICT,
    LVN_TPL_NAMESPACE,
    LVN_TPL_LOOP,
    LVN_TPL_MACRO,
    LVN_TPL_METHOD,
    LVN_TPL_GLOBAL,
};
struct lvn_tpl_value {
    uint8_t kind;  /* enum lvn_tpl_kind */
    uint8_t mark;  /* STRING without `marks`: the mark of all bytes */
    uint8_t form;  /* LIST: enum lvn_tpl_list; STRING: 1 for Markup, to which + appends with HTML escapes */
    int32_t index; /* METHOD, GLOBAL: which one */
    union {
        bool b;
        int64_t i;
        double f;
        const char *p;                     /* STRING; UNDEFINED: the missing name */
        const struct lvn_tpl_value *items; /* LIST; METHOD: the receiver */
        struct lvn_tpl_dict *dict;         /* DICT, NAMESPACE */
        struct lvn_tpl_loop *loop;
        const struct lvn_tpl_macro *macro;
    };
    const uint8_t *marks; /* STRING: one for each byte, or NULL */
    int64_t n;            /* STRING: bytes; LIST: elements */
};

/* Convert JSON, as content if `mark` is LVN_MARK_CONTENT; strings of `json` must outlive the value. */
enum lvn_status lvn_tpl_value_of_json(struct lvn_arena *a, const json_t *json, int mark,
                                      struct lvn_tpl_value *out) LVN_CHECKED;
/* The same for a list of messages: errors of rendering name the message. A role of letters, digits, _ and - counts as
 * written by the template, because templates build tokens from it, as '<|' + role + '|>'. */
enum lvn_status lvn_tpl_value_of_messages(struct lvn_arena *a, const json_t *json,
                                          struct lvn_tpl_value *out) LVN_CHECKED;

/* {% generation %} blocks do not mark what they write for message i of the list. */
void lvn_tpl_exclude(struct lvn_tpl_value *messages, int64_t i);

/* Is it white space for Python's strip()? */
bool lvn_tpl_space(int32_t code);

struct lvn_tpl_variable {
    const char *name;
    struct lvn_tpl_value value;
};

/* Zero: the defaults of chat_template.c. */
struct lvn_tpl_limits {
    int64_t steps;  /* evaluated expressions and statements */
    int64_t output; /* bytes of the result */
    int64_t memory; /* bytes of the arena */
};

struct lvn_rendered {
    char *text; /* ends with a NUL that n does not count */
    uint8_t *marks;
    int64_t n;
};

struct lvn_chat_template;
/* name: of the file, for messages. LVN_FORMAT for invalid syntax, LVN_UNSUPPORTED for constructs that are left out. */
enum lvn_status lvn_chat_template_parse(struct lvn_chat_template **out, const char *name, const char *text,
                                        int64_t bytes) LVN_CHECKED;
/* A template of lm-evaluation-harness: white space around blocks and a newline at the end stay, an undefined name is an
 * error where its value is used as text, and there is the filter regex_replace(pattern, replacement, count). */
enum lvn_status lvn_template_parse(struct lvn_chat_template **out, const char *name, const char *text) LVN_CHECKED;
void lvn_chat_template_free(struct lvn_chat_template *t); /* NULL: nothing */
bool lvn_chat_template_has_generation(const struct lvn_chat_template *t);
/* Render into the arena. now: what strftime_now formats. limits: NULL for the defaults. LVN_FORMAT if the template
 * refuses the conversation or an expression fails, LVN_UNSUPPORTED for what is left out or beyond a limit. */
enum lvn_status lvn_chat_template_render(const struct lvn_chat_template *t, struct lvn_arena *a,
                                         const struct lvn_tpl_variable *variables, int n, const struct tm *now,
                                         const struct lvn_tpl_limits *limits, struct lvn_rendered *out) LVN_CHECKED;

#endif
