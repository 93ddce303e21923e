/* template.c - executes the tree of a template: see template.h. */
#include "formats/template/template.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "formats/template/template_private.h"

enum { DEPTH = 32, MAX_NODES = 1000000, MAX_OUTPUT = 8 << 20 };

/* The innermost variable first. */
struct variable {
    const char *name; /* "": $ */
    const struct lvn_variant *value;
    const struct variable *outer;
};

/* What a block sees. */
struct scope {
    struct lvn_template_run *run;
    const struct lvn_variant *dot;
    const struct variable *variables;
};

static const struct lvn_variant null = {.kind = LVN_VARIANT_NULL};

enum lvn_status lvn_template_error(const struct lvn_template_run *r, const char *format, ...)
{
    char text[600];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return lvn_fail(LVN_ARG, "%s:%d: %s", r->file, r->line, text);
}

static enum lvn_status evaluate(const struct scope *s, const struct lvn_template_command *pipeline,
                                const struct lvn_variant **out);

static enum lvn_status fields(const struct scope *s, const struct lvn_template_name *field,
                              const struct lvn_variant **value)
{
    for (; field; field = field->next) {
        LVN_TEMPLATE_CHECK((*value)->kind == LVN_VARIANT_MAP, s->run, "'.%.60s' wants a map, and this is %s",
                           field->name, lvn_variant_kind_text(*value));
        *value = lvn_variant_get(*value, field->name);
        if (!*value) *value = &null;
    }
    return LVN_OK;
}

static enum lvn_status term(const struct scope *s, const struct lvn_template_term *t, const struct lvn_variant **out)
{
    const struct variable *v = s->variables;
    switch (t->kind) {
    case LVN_TERM_VALUE:
        *out = t->value;
        return LVN_OK;
    case LVN_TERM_DOT:
        *out = s->dot;
        break;
    case LVN_TERM_VARIABLE:
        while (v && strcmp(v->name, t->name)) v = v->outer;
        LVN_TEMPLATE_CHECK(v, s->run, "there is no variable $%.60s", t->name);
        *out = v->value;
        break;
    case LVN_TERM_PIPELINE:
        LVN_TRY(evaluate(s, t->pipeline, out));
        break;
    case LVN_TERM_FUNCTION:
        LVN_FAIL(INTERNAL, "%s:%d: a function as an argument", s->run->file, s->run->line);
    }
    return fields(s, t->fields, out);
}

/* and, or: the first argument that decides, else the last one. `piped` (NULL: none) is one more at the end. */
static enum lvn_status decide(const struct scope *s, bool stops_at, const struct lvn_template_term *t,
                              const struct lvn_variant *piped, const struct lvn_variant **out)
{
    *out = &null;
    for (; t; t = t->next) {
        LVN_TRY(term(s, t, out));
        if (lvn_variant_is_true(*out) == stops_at) return LVN_OK;
    }
    if (piped) *out = piped;
    return LVN_OK;
}

static enum lvn_status command(const struct scope *s, const struct lvn_template_command *c,
                               const struct lvn_variant *piped, const struct lvn_variant **out)
{
    const struct lvn_template_function *f = c->terms->call;
    const struct lvn_variant *argument[LVN_TEMPLATE_ARGUMENTS];
    int n = 0;
    if (!f) return term(s, c->terms, out);
    for (const struct lvn_template_term *t = c->terms->next; t; t = t->next) n++;
    n += piped != NULL;
    LVN_TEMPLATE_CHECK(n >= f->min && n <= f->max, s->run, "%s takes %d%s argument%s, not %d", f->name, f->min,
                       f->max > f->min ? " or more" : "", f->min == 1 && f->max == 1 ? "" : "s", n);
    if (!f->call) return decide(s, *f->name == 'o', c->terms->next, piped, out);
    n = 0;
    for (const struct lvn_template_term *t = c->terms->next; t; t = t->next) LVN_TRY(term(s, t, &argument[n++]));
    if (piped) argument[n++] = piped;
    LVN_TRY(f->call(s->run, argument, n, out));
    return *out ? LVN_OK : LVN_MEMORY;
}

static enum lvn_status evaluate(const struct scope *s, const struct lvn_template_command *pipeline,
                                const struct lvn_variant **out)
{
    const struct lvn_variant *piped = NULL;
    for (const struct lvn_template_command *c = pipeline; c; c = c->next) {
        LVN_TRY(command(s, c, piped, out));
        piped = *out;
    }
    return LVN_OK;
}

/* --- nodes --- */

static enum lvn_status execute(struct scope s, const struct lvn_template_node *node, struct lvn_text *out);

static enum lvn_status range(const struct scope *s, const struct lvn_template_node *n, struct lvn_text *out)
{
    const struct lvn_variant *over;
    LVN_TRY(evaluate(s, n->pipeline, &over));
    const bool map = over->kind == LVN_VARIANT_MAP;
    LVN_TEMPLATE_CHECK(map || over->kind == LVN_VARIANT_LIST || over->kind == LVN_VARIANT_NULL, s->run,
                       "range wants a list or a map, and this is %s", lvn_variant_kind_text(over));
    if (!over->n) return execute(*s, n->otherwise, out);
    const struct lvn_variant **child = lvn_variant_sorted(s->run->arena, over);
    if (!child) return LVN_MEMORY;
    for (int i = 0; i < over->n; i++) {
        struct scope inner = *s;
        struct variable key = {.name = n->key, .outer = s->variables}, value = {.name = n->variable};
        if (n->key) {
            key.value = map ? lvn_variant_text(s->run->arena, child[i]->key) : lvn_variant_int(s->run->arena, i);
            if (!key.value) return LVN_MEMORY;
            inner.variables = &key;
        }
        value.outer = inner.variables;
        value.value = child[i];
        if (n->variable) inner.variables = &value;
        inner.dot = child[i];
        LVN_TRY(execute(inner, n->body, out));
    }
    return LVN_OK;
}

/* Nodes up to the end of their block; a variable that one of them sets is seen by those behind it. */
static enum lvn_status execute(struct scope s, const struct lvn_template_node *node, struct lvn_text *out)
{
    for (; node; node = node->next) {
        const struct lvn_variant *value = &null;
        s.run->file = node->file;
        s.run->line = node->line;
        LVN_TEMPLATE_CHECK(++s.run->ran <= MAX_NODES && out->n <= MAX_OUTPUT, s.run,
                           "the template does not come to an end");
        if (node->kind == LVN_NODE_TEXT) {
            lvn_text_add_bytes(out, node->text, node->bytes);
            continue;
        }
        if (node->kind == LVN_NODE_RANGE) {
            LVN_TRY(range(&s, node, out));
            continue;
        }
        LVN_TRY(evaluate(&s, node->pipeline, &value));
        if (node->kind == LVN_NODE_IF) {
            LVN_TRY(execute(s, lvn_variant_is_true(value) ? node->body : node->otherwise, out));
        } else if (node->kind == LVN_NODE_ASSIGN) {
            struct variable *v = lvn_arena_alloc(s.run->arena, sizeof *v);
            if (!v) return LVN_MEMORY;
            *v = (struct variable){.name = node->variable, .value = value, .outer = s.variables};
            s.variables = v;
        } else {
            LVN_TEMPLATE_CHECK(value->kind != LVN_VARIANT_MAP && value->kind != LVN_VARIANT_LIST, s.run,
                               "a %s is printed; put toYaml before it", lvn_variant_kind_text(value));
            lvn_variant_print(out, value);
        }
    }
    return lvn_text_status(out);
}

enum lvn_status lvn_template_include(struct lvn_template_run *r, const char *name, const struct lvn_variant *dot,
                                     struct lvn_text *out)
{
    const struct lvn_template_define *d = r->templates->defines;
    const char *file = r->file;
    const int line = r->line;
    while (d && strcmp(d->name, name)) d = d->next;
    LVN_TEMPLATE_CHECK(d, r, "there is no template \"%.80s\"", name);
    LVN_TEMPLATE_CHECK(++r->depth <= DEPTH, r, "more than %d templates within each other", DEPTH);
    const struct variable root = {.name = "", .value = dot};
    LVN_TRY(execute((struct scope){.run = r, .dot = dot, .variables = &root}, d->body, out));
    r->depth--;
    r->file = file;
    r->line = line;
    return LVN_OK;
}

enum lvn_status lvn_template_render(const struct lvn_templates *t, const char *name, const struct lvn_variant *dot,
                                    struct lvn_text *out, bool *failed)
{
    struct lvn_template_run r = {.templates = t, .arena = t->arena, .file = name, .line = 1};
    enum lvn_status status = lvn_template_include(&r, name, dot, out);
    if (failed) *failed = r.failed;
    return status;
}
