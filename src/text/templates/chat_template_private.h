/* chat_template_private.h - the parsed form of a template and the state of a rendering; for src/text/templates alone.
 */
#ifndef LVN_CHAT_TEMPLATE_PRIVATE_H
#define LVN_CHAT_TEMPLATE_PRIVATE_H

#include "templates/chat_template.h"

/* --- tokens and nodes --- */

enum lvn_tpl_token_kind {
    LVN_TOKEN_END,
    LVN_TOKEN_DATA,
    LVN_TOKEN_OUTPUT,        /* {{ */
    LVN_TOKEN_OUTPUT_END,    /* }} */
    LVN_TOKEN_STATEMENT,     /* {% */
    LVN_TOKEN_STATEMENT_END, /* %} */
    LVN_TOKEN_NAME,
    LVN_TOKEN_STRING,
    LVN_TOKEN_NUMBER,
    LVN_TOKEN_OPERATOR,
};
enum lvn_tpl_operator {
    LVN_SIGN_NONE,
    LVN_SIGN_EQ,
    LVN_SIGN_NE,
    LVN_SIGN_LT,
    LVN_SIGN_LE,
    LVN_SIGN_GT,
    LVN_SIGN_GE,
    LVN_SIGN_IN,
    LVN_SIGN_NOT_IN,
    LVN_SIGN_ADD,
    LVN_SIGN_SUB,
    LVN_SIGN_MUL,
    LVN_SIGN_POW,
    LVN_SIGN_DIV,
    LVN_SIGN_FLOORDIV,
    LVN_SIGN_MOD,
    LVN_SIGN_TILDE,
    LVN_SIGN_ASSIGN,
    LVN_SIGN_DOT,
    LVN_SIGN_COMMA,
    LVN_SIGN_COLON,
    LVN_SIGN_PIPE,
    LVN_SIGN_LPAREN,
    LVN_SIGN_RPAREN,
    LVN_SIGN_LBRACKET,
    LVN_SIGN_RBRACKET,
    LVN_SIGN_LBRACE,
    LVN_SIGN_RBRACE,
};
struct lvn_tpl_token {
    uint8_t kind, op;
    int32_t line;
    const char *p; /* text of DATA, NAME, STRING (without escapes), NUMBER */
    int64_t n;
};

enum lvn_tpl_node_kind {
    /* expressions */
    LVN_NODE_CONST,   /* v */
    LVN_NODE_NAME,    /* name */
    LVN_NODE_LIST,    /* a: elements; op 1: a tuple */
    LVN_NODE_DICT,    /* a: PAIRs */
    LVN_NODE_PAIR,    /* a: key, b: value; also a keyword argument, with its name in v and the value in a */
    LVN_NODE_ATTR,    /* a, v: the name */
    LVN_NODE_ITEM,    /* a, b: the key or a SLICE */
    LVN_NODE_SLICE,   /* a: start, b: stop, c: step; each may be NULL */
    LVN_NODE_CALL,    /* a: what is called, b: arguments */
    LVN_NODE_FILTER,  /* a: input, NULL in a filter block; name: row of the table, b: arguments */
    LVN_NODE_TEST,    /* a: input; name: row of the table, b: arguments */
    LVN_NODE_NEGATE,  /* a */
    LVN_NODE_NOT,     /* a */
    LVN_NODE_AND,     /* a, b */
    LVN_NODE_OR,      /* a, b */
    LVN_NODE_BINARY,  /* op, a, b */
    LVN_NODE_COMPARE, /* a; b: operands, each a COMPARE with op and a */
    LVN_NODE_IF_ELSE, /* a: condition, b: then, c: else or NULL */
    /* statements */
    LVN_NODE_TEXT,     /* v */
    LVN_NODE_OUTPUT,   /* a */
    LVN_NODE_IF,       /* a: condition, b: body, c: else */
    LVN_NODE_FOR,      /* a: target, b: iterable, c: body, d: else, e: condition */
    LVN_NODE_SET,      /* a: target, b: value */
    LVN_NODE_SET_BODY, /* a: target, b: body, c: filters */
    LVN_NODE_MACRO,    /* name; a: parameters (NAME, with the default in a); b: body */
    LVN_NODE_BREAK,
    LVN_NODE_CONTINUE,
    LVN_NODE_GENERATION,   /* b: body */
    LVN_NODE_FILTER_BLOCK, /* b: body, c: filters */
};
struct lvn_tpl_node {
    uint8_t kind, op;
    int32_t line, name;
    struct lvn_tpl_node *a, *b, *c, *d, *e, *next;
    struct lvn_tpl_value v;
};

struct lvn_chat_template {
    struct lvn_arena arena;
    const char *name;
    struct lvn_tpl_node *body;
    const char **names;         /* variables; the first are the globals */
    int32_t n_names, loop_name; /* loop_name: of `loop`, -1 if the template does not read it */
    bool has_generation;
    bool strict; /* lvn_template_parse() */
};

/* Globals have the first names. */
enum { LVN_GLOBAL_RANGE, LVN_GLOBAL_NAMESPACE, LVN_GLOBAL_DICT, LVN_GLOBAL_RAISE, LVN_GLOBAL_NOW, LVN_GLOBALS };

/* chat_template_lexer.c: the tokens of a template, ended by LVN_TOKEN_END. */
enum lvn_status lvn_tpl_lex(struct lvn_chat_template *t, const char *text, int64_t bytes,
                            struct lvn_tpl_token **out) LVN_CHECKED;
/* chat_template_parser.c: sets body, names and has_generation. */
enum lvn_status lvn_tpl_parse(struct lvn_chat_template *t, const struct lvn_tpl_token *token) LVN_CHECKED;

/* --- values --- */

enum lvn_tpl_list {
    LVN_LIST,
    LVN_LIST_TUPLE,
    LVN_LIST_LAZY, /* a generator: always true, without a length and elements by index */
    LVN_LIST_VIEW, /* of a dictionary, or a range: with a length */
};
struct lvn_tpl_entry {
    struct lvn_tpl_value key, value;
};
struct lvn_tpl_dict {
    struct lvn_tpl_entry *e;
    int64_t n, capacity;
    int64_t turn;  /* of a message: its number, from 1; else 0 */
    bool excluded; /* by lvn_tpl_exclude() */
};
struct lvn_tpl_binding {
    int32_t name;
    struct lvn_tpl_value value;
};
struct lvn_tpl_scope {
    struct lvn_tpl_scope *parent;
    struct lvn_tpl_binding *b;
    int64_t n, capacity;
};
struct lvn_tpl_macro {
    const struct lvn_tpl_node *node;
    struct lvn_tpl_scope *scope;
};
struct lvn_tpl_loop {
    struct lvn_tpl_value list;
    int64_t i;
};
struct lvn_tpl_output {
    char *p;
    uint8_t *marks;
    int64_t n, capacity;
};

/* The state of one rendering. */
struct lvn_tpl_run {
    const struct lvn_chat_template *t;
    struct lvn_arena *a;
    const struct tm *now;
    struct lvn_tpl_limits limits;
    struct lvn_tpl_output *out;
    int64_t steps, turn;
    bool excluded;      /* the message of this turn is */
    bool excludes;      /* some message is */
    size_t used_before; /* of the arena */
    int32_t line;
    int depth, macros;
};

enum { LVN_TPL_ARGUMENTS = 16 };
struct lvn_tpl_args {
    struct lvn_tpl_value v[LVN_TPL_ARGUMENTS];
    const char *keyword[LVN_TPL_ARGUMENTS]; /* NULL: positional; these come first */
    int n;
};
/* A function of filters, tests or methods. a[i]: NULL if parameter i is not given. */
#define LVN_TPL_FUNCTION(name)                                                                                         \
    enum lvn_status name(__attribute__((unused)) struct lvn_tpl_run *r, const struct lvn_tpl_value *in,                \
                         __attribute__((unused)) const struct lvn_tpl_value *const *a,                                 \
                         __attribute__((unused)) int mode, struct lvn_tpl_value *out)
typedef LVN_TPL_FUNCTION(lvn_tpl_function);
/* A filter, a test or a method. signature: names of its parameters; the first `required` ones must be given. */
enum { LVN_TPL_PARAMETERS = 4 };
struct lvn_tpl_builtin {
    const char *name, *signature;
    int required;
    bool text; /* the input is converted to a string */
    lvn_tpl_function *run;
    int mode; /* argument of run() */
};

/* Records the failure with the template's name, the line and the message that is rendered. */
#define LVN_TPL_FAIL(r, status, ...) return lvn_tpl_fail(r, LVN_##status, __VA_ARGS__)
enum lvn_status lvn_tpl_fail(struct lvn_tpl_run *r, enum lvn_status status, const char *format, ...) LVN_PRINTF(3, 4);
void *lvn_tpl_alloc(struct lvn_tpl_run *r, int64_t bytes); /* NULL: refused or out of memory, recorded */
/* lvn_arena_list_reserve() for one more element, within the limit of lvn_tpl_alloc(). */
enum lvn_status lvn_tpl_reserve(struct lvn_tpl_run *r, void *list, int64_t n, int64_t *capacity,
                                size_t size) LVN_CHECKED;
enum lvn_status lvn_tpl_work(struct lvn_tpl_run *r, int64_t steps) LVN_CHECKED; /* counts steps */

/* chat_template_value.c */
bool lvn_tpl_true(const struct lvn_tpl_value *v);
bool lvn_tpl_equal(const struct lvn_tpl_value *x, const struct lvn_tpl_value *y);
enum lvn_status lvn_tpl_compare(struct lvn_tpl_run *r, const struct lvn_tpl_value *x, const struct lvn_tpl_value *y,
                                int *sign) LVN_CHECKED;
const char *lvn_tpl_type(const struct lvn_tpl_value *v); /* Python's name of its type, for messages */
const struct lvn_tpl_value *lvn_tpl_find(const struct lvn_tpl_dict *d, const struct lvn_tpl_value *key);
enum lvn_status lvn_tpl_dict_set(struct lvn_tpl_run *r, struct lvn_tpl_dict *d, struct lvn_tpl_value key,
                                 struct lvn_tpl_value value) LVN_CHECKED;
/* The elements over which `for` iterates: characters, keys, or the list itself. */
enum lvn_status lvn_tpl_iterate(struct lvn_tpl_run *r, const struct lvn_tpl_value *v,
                                struct lvn_tpl_value *list) LVN_CHECKED;
enum lvn_status lvn_tpl_length(struct lvn_tpl_run *r, const struct lvn_tpl_value *v, int64_t *n) LVN_CHECKED;
enum lvn_status lvn_tpl_item(struct lvn_tpl_run *r, const struct lvn_tpl_value *v, const struct lvn_tpl_value *key,
                             struct lvn_tpl_value *out) LVN_CHECKED;
enum lvn_status lvn_tpl_slice(struct lvn_tpl_run *r, const struct lvn_tpl_value *v,
                              const struct lvn_tpl_value *const bound[3], struct lvn_tpl_value *out) LVN_CHECKED;
enum lvn_status lvn_tpl_contains(struct lvn_tpl_run *r, const struct lvn_tpl_value *v, const struct lvn_tpl_value *in,
                                 bool *is) LVN_CHECKED;
enum lvn_status lvn_tpl_binary(struct lvn_tpl_run *r, enum lvn_tpl_operator op, const struct lvn_tpl_value *x,
                               const struct lvn_tpl_value *y, struct lvn_tpl_value *out) LVN_CHECKED;
int64_t lvn_tpl_search(const struct lvn_tpl_value *s, const struct lvn_tpl_value *part, int64_t from); /* -1: none */

static inline struct lvn_tpl_value lvn_tpl_of(enum lvn_tpl_kind kind)
{
    struct lvn_tpl_value v;
    memset(&v, 0, sizeof v);
    v.kind = kind;
    return v;
}
static inline struct lvn_tpl_value lvn_tpl_text(const char *p, int64_t n)
{
    struct lvn_tpl_value v = lvn_tpl_of(LVN_TPL_STRING);
    v.p = p;
    v.n = n;
    return v;
}
static inline struct lvn_tpl_value lvn_tpl_name(const char *p)
{
    return lvn_tpl_text(p, (int64_t)strlen(p));
}
static inline struct lvn_tpl_value lvn_tpl_int(int64_t i)
{
    struct lvn_tpl_value v = lvn_tpl_of(LVN_TPL_INT);
    v.i = i;
    return v;
}
static inline struct lvn_tpl_value lvn_tpl_bool(bool b)
{
    struct lvn_tpl_value v = lvn_tpl_of(LVN_TPL_BOOL);
    v.b = b;
    return v;
}
static inline struct lvn_tpl_value lvn_tpl_none(void)
{
    return lvn_tpl_of(LVN_TPL_NONE);
}
static inline struct lvn_tpl_value lvn_tpl_undefined(const char *name)
{
    struct lvn_tpl_value v = lvn_tpl_of(LVN_TPL_UNDEFINED);
    v.p = name;
    return v;
}
static inline struct lvn_tpl_value lvn_tpl_list(const struct lvn_tpl_value *items, int64_t n, enum lvn_tpl_list form)
{
    struct lvn_tpl_value v = lvn_tpl_of(LVN_TPL_LIST);
    v.form = (uint8_t)form;
    v.items = items;
    v.n = n;
    return v;
}
/* Bytes [from, to) of a string. */
static inline struct lvn_tpl_value lvn_tpl_part(const struct lvn_tpl_value *s, int64_t from, int64_t to)
{
    struct lvn_tpl_value part = *s;
    part.p += from;
    part.marks = s->marks ? s->marks + from : NULL;
    part.n = to - from;
    return part;
}
static inline bool lvn_tpl_is(const struct lvn_tpl_value *s, const char *text)
{
    return s->kind == LVN_TPL_STRING && s->n == (int64_t)strlen(text) && memcmp(s->p, text, (size_t)s->n) == 0;
}

/* chat_template_print.c: appends to an output. */
enum lvn_status lvn_tpl_add(struct lvn_tpl_run *r, struct lvn_tpl_output *o, const struct lvn_tpl_value *s) LVN_CHECKED;
enum lvn_status lvn_tpl_add_bytes(struct lvn_tpl_run *r, struct lvn_tpl_output *o, const char *p, int64_t n,
                                  int mark) LVN_CHECKED;
/* As Python's str, and json.dumps. */
enum lvn_status lvn_tpl_add_str(struct lvn_tpl_run *r, struct lvn_tpl_output *o,
                                const struct lvn_tpl_value *v) LVN_CHECKED;
struct lvn_tpl_json {
    bool ascii, sort;
    struct lvn_tpl_value indent, item, key; /* strings; no indent: kind NONE */
};
enum lvn_status lvn_tpl_add_json(struct lvn_tpl_run *r, struct lvn_tpl_output *o, const struct lvn_tpl_value *v,
                                 const struct lvn_tpl_json *form, int depth) LVN_CHECKED;
enum lvn_status lvn_tpl_str(struct lvn_tpl_run *r, const struct lvn_tpl_value *v,
                            struct lvn_tpl_value *out) LVN_CHECKED;
/* With the characters & < > " ' as HTML entities, and form 1. */
enum lvn_status lvn_tpl_escape(struct lvn_tpl_run *r, const struct lvn_tpl_value *v,
                               struct lvn_tpl_value *out) LVN_CHECKED;
static inline struct lvn_tpl_value lvn_tpl_result(const struct lvn_tpl_output *o)
{
    struct lvn_tpl_value v = lvn_tpl_of(LVN_TPL_STRING);
    v.p = o->p ? o->p : "";
    v.marks = o->marks;
    v.n = o->n;
    return v;
}

/* chat_template_eval.c */
enum lvn_status lvn_tpl_run_body(struct lvn_tpl_run *r, const struct lvn_tpl_node *body,
                                 struct lvn_tpl_scope *scope) LVN_CHECKED;
enum lvn_status lvn_tpl_bind(struct lvn_tpl_run *r, struct lvn_tpl_scope *s, int32_t name,
                             const struct lvn_tpl_value *v) LVN_CHECKED;
/* Call a row of a table. */
enum lvn_status lvn_tpl_apply(struct lvn_tpl_run *r, const struct lvn_tpl_builtin *row, const struct lvn_tpl_value *in,
                              const struct lvn_tpl_args *args, struct lvn_tpl_value *out) LVN_CHECKED;
enum lvn_status lvn_tpl_attribute(struct lvn_tpl_run *r, const struct lvn_tpl_value *v,
                                  const struct lvn_tpl_value *name, struct lvn_tpl_value *out) LVN_CHECKED;

/* Tables: chat_template_filters.c, chat_template_tests.c, chat_template_methods.c. NULL: no such row. */
const struct lvn_tpl_builtin *lvn_tpl_filter(const char *name, int64_t n);
/* A filter that only templates of lvn_template_parse() have. */
const struct lvn_tpl_builtin *lvn_tpl_strict_filter(const char *name, int64_t n);
const struct lvn_tpl_builtin *lvn_tpl_test(const char *name, int64_t n);
/* The method of a value; *known: Python has it, be it supported here or not. */
const struct lvn_tpl_builtin *lvn_tpl_method(const struct lvn_tpl_value *v, const struct lvn_tpl_value *name,
                                             bool *known);
/* filters that are also methods of strings */
lvn_tpl_function lvn_tpl_strip, lvn_tpl_change_case, lvn_tpl_replace;
enum { LVN_STRIP_LEFT = 1, LVN_STRIP_RIGHT = 2, LVN_STRIP = LVN_STRIP_LEFT | LVN_STRIP_RIGHT }; /* modes of strip */
enum { LVN_LOWER, LVN_UPPER, LVN_CAPITALIZE, LVN_TITLE_FILTER, LVN_TITLE_METHOD }; /* modes of change_case */
/* A dictionary's entries as tuples of key and value. */
enum lvn_status lvn_tpl_items_of(struct lvn_tpl_run *r, const struct lvn_tpl_value *in, enum lvn_tpl_list form,
                                 struct lvn_tpl_value *out) LVN_CHECKED;
/* map, select, reject, selectattr and rejectattr have free arguments. */
bool lvn_tpl_is_mapping_filter(const char *name, int64_t n);
enum lvn_status lvn_tpl_map(struct lvn_tpl_run *r, const char *name, const struct lvn_tpl_value *in,
                            const struct lvn_tpl_args *args, struct lvn_tpl_value *out) LVN_CHECKED;

#endif
