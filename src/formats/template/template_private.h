/* template_private.h - templates after parsing: nodes, pipelines, terms. Private to template_parse.c, template.c and
 * template_functions.c. */
#ifndef LVN_TEMPLATE_PRIVATE_H
#define LVN_TEMPLATE_PRIVATE_H

#include "formats/template/template.h"

enum { LVN_TEMPLATE_ARGUMENTS = 24 }; /* of one function */

enum lvn_template_term_kind {
    LVN_TERM_VALUE,    /* a literal */
    LVN_TERM_DOT,      /* . with fields */
    LVN_TERM_VARIABLE, /* $x with fields */
    LVN_TERM_FUNCTION, /* its name; the terms behind it are its arguments */
    LVN_TERM_PIPELINE  /* in parentheses, with fields */
};

struct lvn_template_name {
    const char *name;
    struct lvn_template_name *next;
};

struct lvn_template_term {
    enum lvn_template_term_kind kind;
    const struct lvn_variant *value;          /* VALUE */
    const char *name;                         /* VARIABLE without $ ("": $ itself), FUNCTION */
    const struct lvn_template_function *call; /* FUNCTION */
    struct lvn_template_command *pipeline;    /* PIPELINE */
    struct lvn_template_name *fields;         /* .a.b behind it */
    struct lvn_template_term *next;           /* of the same command */
};

/* Terms of which the first may be a function; a pipeline is commands that `|` connects. */
struct lvn_template_command {
    struct lvn_template_term *terms;
    struct lvn_template_command *next;
};

enum lvn_template_node_kind {
    LVN_NODE_TEXT,
    LVN_NODE_OUTPUT,
    LVN_NODE_ASSIGN, /* $x := pipeline */
    LVN_NODE_IF,
    LVN_NODE_RANGE
};

struct lvn_template_node {
    enum lvn_template_node_kind kind;
    const char *file;
    int line;
    const char *text;                      /* TEXT */
    int64_t bytes;                         /* TEXT */
    struct lvn_template_command *pipeline; /* all others */
    const char *key;                       /* RANGE: variable of the key or index; NULL: none */
    const char *variable;                  /* ASSIGN, RANGE: variable of the value; NULL: none */
    struct lvn_template_node *body;        /* IF, RANGE */
    struct lvn_template_node *otherwise;   /* IF, RANGE: behind else */
    struct lvn_template_node *next;
};

struct lvn_template_define {
    const char *name;
    struct lvn_template_node *body;
    struct lvn_template_define *next;
};

/* One rendering. */
struct lvn_template_run {
    const struct lvn_templates *templates;
    struct lvn_arena *arena;
    const char *file; /* of the node that is executed */
    int line;
    int depth;   /* of templates within templates */
    int64_t ran; /* nodes */
    bool failed; /* by the template's own `fail` */
};

/* argument[n]: never NULL. */
struct lvn_template_function {
    const char *name;
    int min; /* number of arguments */
    int max;
    enum lvn_status (*call)(struct lvn_template_run *r, const struct lvn_variant *const *argument, int n,
                            const struct lvn_variant **out);
};
/* NULL: there is no such function. `and` and `or` have no call: template.c evaluates as many arguments as it takes. */
const struct lvn_template_function *lvn_template_function_find(const char *name);
/* All names, ", " between them; for messages. */
void lvn_template_function_names(struct lvn_text *t);

/* template.c: the text of a template, for `include`. */
LVN_CHECKED enum lvn_status lvn_template_include(struct lvn_template_run *r, const char *name,
                                                 const struct lvn_variant *dot, struct lvn_text *out);
#define LVN_TEMPLATE_CHECK(condition, r, ...)                                                                          \
    do {                                                                                                               \
        if (!(condition)) return lvn_template_error(r, __VA_ARGS__);                                                   \
    } while (0)
/* Fail with "FILE:LINE: " before the sentence. */
enum lvn_status lvn_template_error(const struct lvn_template_run *r, const char *format, ...) LVN_PRINTF(2, 3);

#endif
