/* chat_template_eval.c - see chat_template_private.h: runs the statements and computes the expressions of a template.
 *
 * Scopes are those of Jinja: a loop's body, a macro, a set block and a generation block have their own; if has none. */

#include "templates/chat_template_private.h"

enum { MAX_DEPTH = 400, MAX_MACROS = 60 };
enum flow { FLOW_NEXT, FLOW_BREAK, FLOW_CONTINUE };

static enum lvn_status eval(struct lvn_tpl_run *r, const struct lvn_tpl_node *e, struct lvn_tpl_scope *s,
                            struct lvn_tpl_value *out);
static enum lvn_status run_body(struct lvn_tpl_run *r, const struct lvn_tpl_node *body, struct lvn_tpl_scope *s,
                                enum flow *flow);

/* --- variables --- */

enum lvn_status lvn_tpl_bind(struct lvn_tpl_run *r, struct lvn_tpl_scope *s, int32_t name,
                             const struct lvn_tpl_value *v)
{
    for (int32_t i = 0; i < s->n; i++)
        if (s->b[i].name == name) {
            s->b[i].value = *v;
            return LVN_OK;
        }
    LVN_TRY(lvn_tpl_reserve(r, &s->b, s->n, &s->capacity, sizeof *s->b));
    s->b[s->n++] = (struct lvn_tpl_binding){name, *v};
    return LVN_OK;
}

static enum lvn_status look_up(struct lvn_tpl_run *r, struct lvn_tpl_scope *s, int32_t name, struct lvn_tpl_value *out)
{
    for (; s; s = s->parent)
        for (int32_t i = 0; i < s->n; i++)
            if (s->b[i].name == name) {
                *out = s->b[i].value;
                return LVN_OK;
            }
    static const char *const left_out[] = {"joiner", "cycler", "lipsum", "caller", "varargs", "kwargs", "self"};
    for (size_t i = 0; i < sizeof left_out / sizeof *left_out; i++)
        if (!strcmp(r->t->names[name], left_out[i])) LVN_TPL_FAIL(r, UNSUPPORTED, "'%s' is not supported", left_out[i]);
    *out = name < LVN_GLOBALS ? (struct lvn_tpl_value){.kind = LVN_TPL_GLOBAL, .index = name}
                              : lvn_tpl_undefined(r->t->names[name]);
    return LVN_OK;
}

static enum lvn_status assign(struct lvn_tpl_run *r, const struct lvn_tpl_node *target, const struct lvn_tpl_value *v,
                              struct lvn_tpl_scope *s)
{
    if (target->kind == LVN_NODE_NAME) return lvn_tpl_bind(r, s, target->name, v);
    if (target->kind == LVN_NODE_ATTR) {
        struct lvn_tpl_value space;
        LVN_TRY(eval(r, target->a, s, &space));
        if (space.kind != LVN_TPL_NAMESPACE)
            LVN_TPL_FAIL(r, FORMAT, "only attributes of a namespace can be set, not of a value of type %s",
                         lvn_tpl_type(&space));
        return lvn_tpl_dict_set(r, space.dict, target->v, *v);
    }
    struct lvn_tpl_value list;
    int64_t i = 0;
    LVN_TRY(lvn_tpl_iterate(r, v, &list));
    for (const struct lvn_tpl_node *one = target->a; one; one = one->next, i++)
        if (i < list.n) LVN_TRY(assign(r, one, &list.items[i], s));
    if (i != list.n)
        LVN_TPL_FAIL(r, FORMAT, "%lld values are assigned to %lld variables", (long long)list.n, (long long)i);
    return LVN_OK;
}

/* --- attributes --- */

static enum lvn_status loop_attribute(struct lvn_tpl_run *r, const struct lvn_tpl_loop *l,
                                      const struct lvn_tpl_value *name, struct lvn_tpl_value *out)
{
    int64_t n = l->list.n, i = l->i;
    const struct {
        const char *name;
        struct lvn_tpl_value v;
    } all[] = {{"index", lvn_tpl_int(i + 1)},
               {"index0", lvn_tpl_int(i)},
               {"first", lvn_tpl_bool(i == 0)},
               {"last", lvn_tpl_bool(i + 1 == n)},
               {"length", lvn_tpl_int(n)},
               {"revindex", lvn_tpl_int(n - i)},
               {"revindex0", lvn_tpl_int(n - i - 1)},
               {"depth", lvn_tpl_int(1)},
               {"depth0", lvn_tpl_int(0)}}; /* of recursive loops */
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        if (lvn_tpl_is(name, all[k].name)) {
            *out = all[k].v;
            return LVN_OK;
        }
    bool previous = lvn_tpl_is(name, "previtem"), next = lvn_tpl_is(name, "nextitem");
    if (!previous && !next) LVN_TPL_FAIL(r, UNSUPPORTED, "'loop.%.*s' is not supported", (int)name->n, name->p);
    int64_t at = previous ? i - 1 : i + 1;
    *out = at >= 0 && at < n ? l->list.items[at] : lvn_tpl_undefined(previous ? "loop.previtem" : "loop.nextitem");
    return LVN_OK;
}

enum lvn_status lvn_tpl_attribute(struct lvn_tpl_run *r, const struct lvn_tpl_value *v,
                                  const struct lvn_tpl_value *name, struct lvn_tpl_value *out)
{
    bool known = false;
    if (v->kind == LVN_TPL_LOOP) return loop_attribute(r, v->loop, name, out);
    if (name->n && *name->p == '_')
        LVN_TPL_FAIL(r, UNSUPPORTED, "the attribute '%.*s' is not supported", (int)(name->n < 60 ? name->n : 60),
                     name->p);
    const struct lvn_tpl_builtin *row = lvn_tpl_method(v, name, &known);
    if (known && !row)
        LVN_TPL_FAIL(r, UNSUPPORTED, "'%.*s' of a %s is not supported", (int)name->n, name->p, lvn_tpl_type(v));
    if (!row) return LVN_OK;
    struct lvn_tpl_value *receiver = lvn_tpl_alloc(r, (int64_t)sizeof *receiver);
    if (!receiver) return LVN_MEMORY;
    *receiver = *v;
    *out = (struct lvn_tpl_value){.kind = LVN_TPL_METHOD, .items = receiver, .marks = (const void *)row};
    return LVN_OK;
}

static enum lvn_status eval_attribute(struct lvn_tpl_run *r, const struct lvn_tpl_node *e, struct lvn_tpl_scope *s,
                                      struct lvn_tpl_value *out)
{
    struct lvn_tpl_value v;
    LVN_TRY(eval(r, e->a, s, &v));
    r->line = e->line;
    if (v.kind == LVN_TPL_UNDEFINED)
        LVN_TPL_FAIL(r, FORMAT, "'%.60s' is undefined and has no attribute '%.*s'", v.p, (int)e->v.n, e->v.p);
    *out = lvn_tpl_undefined("");
    if (v.kind != LVN_TPL_NAMESPACE) LVN_TRY(lvn_tpl_attribute(r, &v, &e->v, out));
    if (out->kind != LVN_TPL_UNDEFINED) return LVN_OK;
    const struct lvn_tpl_value *found =
        v.kind == LVN_TPL_DICT || v.kind == LVN_TPL_NAMESPACE ? lvn_tpl_find(v.dict, &e->v) : NULL;
    *out = found ? *found : lvn_tpl_undefined(e->v.p);
    return LVN_OK;
}

static enum lvn_status eval_item(struct lvn_tpl_run *r, const struct lvn_tpl_node *e, struct lvn_tpl_scope *s,
                                 struct lvn_tpl_value *out)
{
    struct lvn_tpl_value v, part[3];
    const struct lvn_tpl_node *bound[3] = {e->b->a, e->b->b, e->b->c};
    const struct lvn_tpl_value *given[3] = {NULL, NULL, NULL};
    LVN_TRY(eval(r, e->a, s, &v));
    if (e->b->kind != LVN_NODE_SLICE) {
        LVN_TRY(eval(r, e->b, s, &part[0]));
        r->line = e->line;
        return lvn_tpl_item(r, &v, &part[0], out);
    }
    for (int i = 0; i < 3; i++) {
        if (!bound[i]) continue;
        LVN_TRY(eval(r, bound[i], s, &part[i]));
        given[i] = &part[i];
    }
    r->line = e->line;
    return lvn_tpl_slice(r, &v, given, out);
}

/* --- calls --- */

static enum lvn_status eval_arguments(struct lvn_tpl_run *r, const struct lvn_tpl_node *list, struct lvn_tpl_scope *s,
                                      struct lvn_tpl_args *args)
{
    args->n = 0;
    for (; list; list = list->next) {
        bool keyword = list->kind == LVN_NODE_PAIR;
        args->keyword[args->n] = keyword ? list->v.p : NULL;
        LVN_TRY(eval(r, keyword ? list->a : list, s, &args->v[args->n]));
        args->n++;
    }
    return LVN_OK;
}

/* The number of a parameter in "a,b,c"; -1: none. */
static int parameter(const char *signature, const char *name)
{
    size_t n = strlen(name);
    for (int i = 0; *signature; i++) {
        size_t length = strcspn(signature, ",");
        if (length == n && memcmp(signature, name, n) == 0) return i;
        signature += length + (signature[length] == ',');
    }
    return -1;
}

static int count_parameters(const char *signature)
{
    int n = *signature != 0;
    for (; *signature; signature++) n += *signature == ',';
    return n;
}

enum lvn_status lvn_tpl_apply(struct lvn_tpl_run *r, const struct lvn_tpl_builtin *row, const struct lvn_tpl_value *in,
                              const struct lvn_tpl_args *args, struct lvn_tpl_value *out)
{
    const struct lvn_tpl_value *given[LVN_TPL_PARAMETERS] = {NULL};
    int n = count_parameters(row->signature);
    for (int i = 0; i < args->n; i++) {
        int at = args->keyword[i] ? parameter(row->signature, args->keyword[i]) : i;
        if (at < 0 || at >= n || given[at])
            LVN_TPL_FAIL(r, UNSUPPORTED, "'%s' does not support its argument %d%s%.60s", row->name, i + 1,
                         args->keyword[i] ? ", " : "", args->keyword[i] ? args->keyword[i] : "");
        given[at] = &args->v[i];
    }
    for (int i = 0; i < row->required; i++)
        if (!given[i])
            LVN_TPL_FAIL(r, FORMAT, "'%s' needs %d argument%s", row->name, row->required, lvn_plural(row->required));
    struct lvn_tpl_value text;
    if (row->text) LVN_TRY(lvn_tpl_str(r, in, &text));
    LVN_TRY(lvn_tpl_work(r, in->kind == LVN_TPL_STRING || in->kind == LVN_TPL_LIST ? in->n / 32 : 0));
    return row->run(r, row->text ? &text : in, given, row->mode, out);
}

static enum lvn_status make_range(struct lvn_tpl_run *r, const struct lvn_tpl_args *args, struct lvn_tpl_value *out)
{
    int64_t v[3] = {0, 0, 1};
    bool wrong = args->n < 1 || args->n > 3;
    for (int i = 0; i < args->n && !wrong; i++) {
        wrong = args->keyword[i] || args->v[i].kind != LVN_TPL_INT;
        v[args->n == 1 ? 1 : i] = args->v[i].i;
    }
    if (wrong || !v[2]) LVN_TPL_FAIL(r, FORMAT, "range() needs one to three integers, the last of them not 0");
    enum { LARGEST = 100000 }; /* the limit of Jinja's sandbox */
    __int128 n =
        v[2] > 0 ? ((__int128)v[1] - v[0] + v[2] - 1) / v[2] : ((__int128)v[0] - v[1] - v[2] - 1) / -(__int128)v[2];
    if (n < 0) n = 0;
    if (n > LARGEST) LVN_TPL_FAIL(r, FORMAT, "range() has more than %d elements", LARGEST);
    struct lvn_tpl_value *items = lvn_tpl_alloc(r, ((int64_t)n + 1) * (int64_t)sizeof *items);
    if (!items) return LVN_MEMORY;
    for (int64_t i = 0; i < n; i++) items[i] = lvn_tpl_int(v[0] + i * v[2]);
    *out = lvn_tpl_list(items, (int64_t)n, LVN_LIST_VIEW);
    return LVN_OK;
}

static enum lvn_status make_dict(struct lvn_tpl_run *r, const struct lvn_tpl_args *args, bool space,
                                 struct lvn_tpl_value *out)
{
    struct lvn_tpl_dict *dict = lvn_tpl_alloc(r, (int64_t)sizeof *dict);
    if (!dict) return LVN_MEMORY;
    for (int i = 0; i < args->n; i++) {
        const struct lvn_tpl_value *v = &args->v[i];
        if (args->keyword[i]) {
            LVN_TRY(lvn_tpl_dict_set(r, dict, lvn_tpl_name(args->keyword[i]), *v));
            continue;
        }
        if (v->kind != LVN_TPL_DICT) LVN_TPL_FAIL(r, UNSUPPORTED, "only a dictionary can be converted by dict()");
        for (int64_t k = 0; k < v->dict->n; k++)
            LVN_TRY(lvn_tpl_dict_set(r, dict, v->dict->e[k].key, v->dict->e[k].value));
    }
    *out = (struct lvn_tpl_value){.kind = space ? LVN_TPL_NAMESPACE : LVN_TPL_DICT, .dict = dict};
    return LVN_OK;
}

static enum lvn_status call_global(struct lvn_tpl_run *r, int which, const struct lvn_tpl_args *args,
                                   struct lvn_tpl_value *out)
{
    char text[256];
    if (which == LVN_GLOBAL_RANGE) return make_range(r, args, out);
    if (which == LVN_GLOBAL_NAMESPACE || which == LVN_GLOBAL_DICT)
        return make_dict(r, args, which == LVN_GLOBAL_NAMESPACE, out);
    if (args->n != 1) LVN_TPL_FAIL(r, FORMAT, "%s() needs one argument", r->t->names[which]);
    struct lvn_tpl_output message = {0};
    LVN_TRY(lvn_tpl_add_str(r, &message, &args->v[0]));
    struct lvn_tpl_value v = lvn_tpl_result(&message);
    if (which == LVN_GLOBAL_RAISE)
        LVN_TPL_FAIL(r, FORMAT, "the template refuses the conversation: %.*s", (int)(v.n < 200 ? v.n : 200), v.p);
    snprintf(text, sizeof text, "%.*s", (int)(v.n < 200 ? v.n : 200), v.p);
    char *now = lvn_tpl_alloc(r, 512);
    if (!now) return LVN_MEMORY;
    if (!r->now) LVN_TPL_FAIL(r, UNSUPPORTED, "strftime_now is not supported here, which has no clock");
    *out = lvn_tpl_text(now, (int64_t)strftime(now, 512, text, r->now));
    return LVN_OK;
}

/* Run a body with its own output. */
static enum lvn_status capture(struct lvn_tpl_run *r, const struct lvn_tpl_node *body, struct lvn_tpl_scope *s,
                               struct lvn_tpl_value *out)
{
    struct lvn_tpl_output text = {0}, *before = r->out;
    enum flow flow;
    r->out = &text;
    enum lvn_status status = run_body(r, body, s, &flow);
    r->out = before;
    *out = lvn_tpl_result(&text);
    return status;
}

static enum lvn_status call_macro(struct lvn_tpl_run *r, const struct lvn_tpl_macro *m, const struct lvn_tpl_args *args,
                                  struct lvn_tpl_value *out)
{
    struct lvn_tpl_scope *s = lvn_tpl_alloc(r, (int64_t)sizeof *s);
    const struct lvn_tpl_node *parameters = m->node->a;
    int i = 0, used = 0;
    if (!s) return LVN_MEMORY;
    s->parent = m->scope;
    if (++r->macros > MAX_MACROS) LVN_TPL_FAIL(r, UNSUPPORTED, "calls of macros nest more than %d levels", MAX_MACROS);
    for (const struct lvn_tpl_node *one = parameters; one; one = one->next, i++) {
        struct lvn_tpl_value v = lvn_tpl_undefined(r->t->names[one->name]);
        bool given = i < args->n && !args->keyword[i];
        if (given) v = args->v[i];
        for (int k = 0; k < args->n && !given; k++)
            if (args->keyword[k] && !strcmp(args->keyword[k], r->t->names[one->name])) {
                v = args->v[k];
                given = true;
            }
        used += given;
        if (!given && one->a) LVN_TRY(eval(r, one->a, s, &v));
        LVN_TRY(lvn_tpl_bind(r, s, one->name, &v));
    }
    if (used != args->n)
        LVN_TPL_FAIL(r, FORMAT, "the macro '%s' has no parameter for an argument", r->t->names[m->node->name]);
    LVN_TRY(capture(r, m->node->b, s, out));
    r->macros--;
    return LVN_OK;
}

static enum lvn_status eval_call(struct lvn_tpl_run *r, const struct lvn_tpl_node *e, struct lvn_tpl_scope *s,
                                 struct lvn_tpl_value *out)
{
    struct lvn_tpl_args args;
    struct lvn_tpl_value f;
    LVN_TRY(eval(r, e->a, s, &f));
    LVN_TRY(eval_arguments(r, e->b, s, &args));
    r->line = e->line;
    if (f.kind == LVN_TPL_MACRO) return call_macro(r, f.macro, &args, out);
    if (f.kind == LVN_TPL_GLOBAL) return call_global(r, f.index, &args, out);
    if (f.kind == LVN_TPL_METHOD) return lvn_tpl_apply(r, (const void *)f.marks, f.items, &args, out);
    if (f.kind == LVN_TPL_UNDEFINED) LVN_TPL_FAIL(r, FORMAT, "'%.60s' is undefined and cannot be called", f.p);
    LVN_TPL_FAIL(r, FORMAT, "a value of type %s cannot be called", lvn_tpl_type(&f));
}

static enum lvn_status apply_filter(struct lvn_tpl_run *r, const struct lvn_tpl_node *e, const struct lvn_tpl_value *in,
                                    struct lvn_tpl_scope *s, struct lvn_tpl_value *out)
{
    struct lvn_tpl_args args;
    LVN_TRY(eval_arguments(r, e->b, s, &args));
    r->line = e->line;
    if (e->op) LVN_TPL_FAIL(r, UNSUPPORTED, "the filter '%s' is not supported", r->t->names[e->name]);
    if (!e->v.items) return lvn_tpl_map(r, r->t->names[e->name], in, &args, out);
    return lvn_tpl_apply(r, (const void *)e->v.items, in, &args, out);
}

static enum lvn_status eval_filter(struct lvn_tpl_run *r, const struct lvn_tpl_node *e, struct lvn_tpl_scope *s,
                                   struct lvn_tpl_value *out)
{
    struct lvn_tpl_value in;
    LVN_TRY(eval(r, e->a, s, &in));
    return apply_filter(r, e, &in, s, out);
}

static enum lvn_status eval_test(struct lvn_tpl_run *r, const struct lvn_tpl_node *e, struct lvn_tpl_scope *s,
                                 struct lvn_tpl_value *out)
{
    struct lvn_tpl_args args;
    struct lvn_tpl_value in;
    LVN_TRY(eval(r, e->a, s, &in));
    LVN_TRY(eval_arguments(r, e->b, s, &args));
    r->line = e->line;
    if (!e->v.items) LVN_TPL_FAIL(r, UNSUPPORTED, "the test 'is %s' is not supported", r->t->names[e->name]);
    return lvn_tpl_apply(r, (const void *)e->v.items, &in, &args, out);
}

/* --- operators --- */

static enum lvn_status eval_compare(struct lvn_tpl_run *r, const struct lvn_tpl_node *e, struct lvn_tpl_scope *s,
                                    struct lvn_tpl_value *out)
{
    struct lvn_tpl_value x, y;
    bool is = true;
    LVN_TRY(eval(r, e->a, s, &x));
    for (const struct lvn_tpl_node *one = e->b; one && is; one = one->next, x = y) {
        int sign = 0;
        LVN_TRY(eval(r, one->a, s, &y));
        r->line = e->line;
        if (one->op == LVN_SIGN_EQ || one->op == LVN_SIGN_NE) {
            is = lvn_tpl_equal(&x, &y) == (one->op == LVN_SIGN_EQ);
        } else if (one->op == LVN_SIGN_IN || one->op == LVN_SIGN_NOT_IN) {
            LVN_TRY(lvn_tpl_contains(r, &x, &y, &is));
            is = is == (one->op == LVN_SIGN_IN);
        } else {
            LVN_TRY(lvn_tpl_compare(r, &x, &y, &sign));
            is = one->op == LVN_SIGN_LT   ? sign < 0
                 : one->op == LVN_SIGN_LE ? sign <= 0
                 : one->op == LVN_SIGN_GT ? sign > 0
                                          : sign >= 0;
        }
    }
    *out = lvn_tpl_bool(is);
    return LVN_OK;
}

static enum lvn_status eval_negate(struct lvn_tpl_run *r, const struct lvn_tpl_node *e, struct lvn_tpl_scope *s,
                                   struct lvn_tpl_value *out)
{
    struct lvn_tpl_value v, zero = lvn_tpl_int(0);
    LVN_TRY(eval(r, e->a, s, &v));
    r->line = e->line;
    if (v.kind == LVN_TPL_FLOAT && e->op == LVN_SIGN_SUB) {
        *out = v;
        out->f = -v.f;
        return LVN_OK;
    }
    return lvn_tpl_binary(r, (enum lvn_tpl_operator)e->op, &zero, &v, out);
}

static enum lvn_status eval_list(struct lvn_tpl_run *r, const struct lvn_tpl_node *e, struct lvn_tpl_scope *s,
                                 struct lvn_tpl_value *out)
{
    int64_t n = 0;
    for (const struct lvn_tpl_node *one = e->a; one; one = one->next) n++;
    struct lvn_tpl_value *items = lvn_tpl_alloc(r, (n + 1) * (int64_t)sizeof *items);
    if (!items) return LVN_MEMORY;
    *out = lvn_tpl_list(items, n, e->op ? LVN_LIST_TUPLE : LVN_LIST);
    for (const struct lvn_tpl_node *one = e->a; one; one = one->next) LVN_TRY(eval(r, one, s, items++));
    return LVN_OK;
}

static enum lvn_status eval_dict(struct lvn_tpl_run *r, const struct lvn_tpl_node *e, struct lvn_tpl_scope *s,
                                 struct lvn_tpl_value *out)
{
    LVN_TRY(make_dict(r, &(struct lvn_tpl_args){.n = 0}, false, out));
    for (const struct lvn_tpl_node *one = e->a; one; one = one->next) {
        struct lvn_tpl_value key, v;
        LVN_TRY(eval(r, one->a, s, &key));
        LVN_TRY(eval(r, one->b, s, &v));
        LVN_TRY(lvn_tpl_dict_set(r, out->dict, key, v));
    }
    return LVN_OK;
}

static enum lvn_status eval_if_else(struct lvn_tpl_run *r, const struct lvn_tpl_node *e, struct lvn_tpl_scope *s,
                                    struct lvn_tpl_value *out)
{
    LVN_TRY(eval(r, e->a, s, out));
    if (lvn_tpl_true(out)) return eval(r, e->b, s, out);
    *out = lvn_tpl_undefined("an expression without else");
    return e->c ? eval(r, e->c, s, out) : LVN_OK;
}

static enum lvn_status eval_logic(struct lvn_tpl_run *r, const struct lvn_tpl_node *e, struct lvn_tpl_scope *s,
                                  struct lvn_tpl_value *out)
{
    LVN_TRY(eval(r, e->a, s, out));
    if (e->kind == LVN_NODE_NOT) {
        *out = lvn_tpl_bool(!lvn_tpl_true(out));
        return LVN_OK;
    }
    return lvn_tpl_true(out) == (e->kind == LVN_NODE_AND) ? eval(r, e->b, s, out) : LVN_OK;
}

static enum lvn_status eval_binary(struct lvn_tpl_run *r, const struct lvn_tpl_node *e, struct lvn_tpl_scope *s,
                                   struct lvn_tpl_value *out)
{
    struct lvn_tpl_value x, y;
    LVN_TRY(eval(r, e->a, s, &x));
    LVN_TRY(eval(r, e->b, s, &y));
    r->line = e->line;
    return lvn_tpl_binary(r, (enum lvn_tpl_operator)e->op, &x, &y, out);
}

static enum lvn_status eval_const(struct lvn_tpl_run *r, const struct lvn_tpl_node *e, struct lvn_tpl_scope *s,
                                  struct lvn_tpl_value *out)
{
    (void)r, (void)s;
    *out = e->v;
    return LVN_OK;
}

static enum lvn_status eval_name(struct lvn_tpl_run *r, const struct lvn_tpl_node *e, struct lvn_tpl_scope *s,
                                 struct lvn_tpl_value *out)
{
    return look_up(r, s, e->name, out);
}

static enum lvn_status (*const evaluators[])(struct lvn_tpl_run *r, const struct lvn_tpl_node *e,
                                             struct lvn_tpl_scope *s, struct lvn_tpl_value *out) = {
    [LVN_NODE_CONST] = eval_const,     [LVN_NODE_NAME] = eval_name,      [LVN_NODE_LIST] = eval_list,
    [LVN_NODE_DICT] = eval_dict,       [LVN_NODE_ATTR] = eval_attribute, [LVN_NODE_ITEM] = eval_item,
    [LVN_NODE_CALL] = eval_call,       [LVN_NODE_FILTER] = eval_filter,  [LVN_NODE_TEST] = eval_test,
    [LVN_NODE_NEGATE] = eval_negate,   [LVN_NODE_BINARY] = eval_binary,  [LVN_NODE_COMPARE] = eval_compare,
    [LVN_NODE_IF_ELSE] = eval_if_else, [LVN_NODE_NOT] = eval_logic,      [LVN_NODE_AND] = eval_logic,
    [LVN_NODE_OR] = eval_logic};

static enum lvn_status eval(struct lvn_tpl_run *r, const struct lvn_tpl_node *e, struct lvn_tpl_scope *s,
                            struct lvn_tpl_value *out)
{
    r->line = e->line;
    LVN_TRY(lvn_tpl_work(r, 1));
    if (++r->depth > MAX_DEPTH) LVN_TPL_FAIL(r, UNSUPPORTED, "the template nests more than %d levels", MAX_DEPTH);
    LVN_TRY(evaluators[e->kind](r, e, s, out));
    r->depth--;
    return LVN_OK;
}

/* --- statements --- */

/* The elements for which a loop's condition holds. */
static enum lvn_status select_items(struct lvn_tpl_run *r, const struct lvn_tpl_node *e, struct lvn_tpl_scope *s,
                                    struct lvn_tpl_value *list)
{
    struct lvn_tpl_value *items = lvn_tpl_alloc(r, (list->n + 1) * (int64_t)sizeof *items), is;
    struct lvn_tpl_scope inner = {.parent = s};
    int64_t n = 0;
    if (!items) return LVN_MEMORY;
    for (int64_t i = 0; i < list->n; i++) {
        inner.n = 0;
        LVN_TRY(assign(r, e->a, &list->items[i], &inner));
        LVN_TRY(eval(r, e->e, &inner, &is));
        if (lvn_tpl_true(&is)) items[n++] = list->items[i];
    }
    *list = lvn_tpl_list(items, n, LVN_LIST);
    return LVN_OK;
}

static enum lvn_status run_for(struct lvn_tpl_run *r, const struct lvn_tpl_node *e, struct lvn_tpl_scope *s)
{
    struct lvn_tpl_value list;
    enum flow flow = FLOW_NEXT;
    LVN_TRY(eval(r, e->b, s, &list));
    r->line = e->line;
    LVN_TRY(lvn_tpl_iterate(r, &list, &list));
    if (e->e) LVN_TRY(select_items(r, e, s, &list));
    if (!list.n) return e->d ? run_body(r, e->d, s, &flow) : LVN_OK;
    struct lvn_tpl_loop *loop = lvn_tpl_alloc(r, (int64_t)sizeof *loop);
    struct lvn_tpl_scope *inner = lvn_tpl_alloc(r, (int64_t)sizeof *inner); /* macros in the body refer to it */
    if (!loop || !inner) return LVN_MEMORY;
    *loop = (struct lvn_tpl_loop){.list = list};
    inner->parent = s;
    int32_t name = r->t->loop_name;
    int64_t turn = r->turn;
    bool excluded = r->excluded;
    for (loop->i = 0; loop->i < list.n && flow != FLOW_BREAK; loop->i++) {
        const struct lvn_tpl_value *one = &list.items[loop->i];
        inner->n = 0;
        r->line = e->line;
        LVN_TRY(lvn_tpl_work(r, 1));
        if (one->kind == LVN_TPL_DICT && one->dict->turn) {
            r->turn = one->dict->turn;
            r->excluded = one->dict->excluded;
        }
        if (name >= 0)
            LVN_TRY(lvn_tpl_bind(r, inner, name, &(struct lvn_tpl_value){.kind = LVN_TPL_LOOP, .loop = loop}));
        LVN_TRY(assign(r, e->a, one, inner));
        LVN_TRY(run_body(r, e->c, inner, &flow));
    }
    r->turn = turn;
    r->excluded = excluded;
    return LVN_OK;
}

static enum lvn_status run_generation(struct lvn_tpl_run *r, const struct lvn_tpl_node *e, struct lvn_tpl_scope *s)
{
    struct lvn_tpl_scope *inner = lvn_tpl_alloc(r, (int64_t)sizeof *inner);
    enum flow flow;
    int64_t begin = r->out->n;
    if (!inner) return LVN_MEMORY;
    inner->parent = s;
    LVN_TRY(run_body(r, e->b, inner, &flow));
    if (r->excludes && !r->turn)
        LVN_TPL_FAIL(r, UNSUPPORTED, "{%% generation %%} outside of a loop over messages cannot leave out an answer");
    for (int64_t i = begin; i < r->out->n && !r->excluded; i++) r->out->marks[i] |= LVN_MARK_GENERATION;
    return LVN_OK;
}

/* A set block, or a filter block, whose result is written. */
static enum lvn_status run_captured(struct lvn_tpl_run *r, const struct lvn_tpl_node *e, struct lvn_tpl_scope *s)
{
    struct lvn_tpl_scope *inner = lvn_tpl_alloc(r, (int64_t)sizeof *inner);
    struct lvn_tpl_value v;
    if (!inner) return LVN_MEMORY;
    inner->parent = s;
    LVN_TRY(capture(r, e->b, inner, &v));
    const struct lvn_tpl_node *chain[16];
    int n = 0;
    for (const struct lvn_tpl_node *f = e->c; f; f = f->a) {
        if (n == 16) LVN_TPL_FAIL(r, UNSUPPORTED, "more than 16 filters of a block are not supported");
        chain[n++] = f;
    }
    while (n--) {
        struct lvn_tpl_value in = v;
        LVN_TRY(apply_filter(r, chain[n], &in, s, &v));
    }
    return e->kind == LVN_NODE_SET_BODY ? assign(r, e->a, &v, s) : lvn_tpl_add_str(r, r->out, &v);
}

static enum lvn_status run_if(struct lvn_tpl_run *r, const struct lvn_tpl_node *e, struct lvn_tpl_scope *s,
                              enum flow *flow)
{
    for (;;) {
        struct lvn_tpl_value v;
        LVN_TRY(eval(r, e->a, s, &v));
        if (lvn_tpl_true(&v)) return run_body(r, e->b, s, flow);
        if (!e->c || e->c->kind != LVN_NODE_IF || !e->c->op) return run_body(r, e->c, s, flow);
        e = e->c;
    }
}

static enum lvn_status run_statement(struct lvn_tpl_run *r, const struct lvn_tpl_node *e, struct lvn_tpl_scope *s,
                                     enum flow *flow)
{
    struct lvn_tpl_value v;
    struct lvn_tpl_macro *macro;
    switch (e->kind) {
    case LVN_NODE_TEXT:
        return lvn_tpl_add(r, r->out, &e->v);
    case LVN_NODE_OUTPUT:
        LVN_TRY(eval(r, e->a, s, &v));
        r->line = e->line;
        return lvn_tpl_add_str(r, r->out, &v);
    case LVN_NODE_IF:
        return run_if(r, e, s, flow);
    case LVN_NODE_FOR:
        return run_for(r, e, s);
    case LVN_NODE_SET:
        LVN_TRY(eval(r, e->b, s, &v));
        r->line = e->line;
        return assign(r, e->a, &v, s);
    case LVN_NODE_MACRO:
        if (!(macro = lvn_tpl_alloc(r, (int64_t)sizeof *macro))) return LVN_MEMORY;
        *macro = (struct lvn_tpl_macro){.node = e, .scope = s};
        return lvn_tpl_bind(r, s, e->name, &(struct lvn_tpl_value){.kind = LVN_TPL_MACRO, .macro = macro});
    case LVN_NODE_GENERATION:
        return run_generation(r, e, s);
    case LVN_NODE_BREAK:
    case LVN_NODE_CONTINUE:
        *flow = e->kind == LVN_NODE_BREAK ? FLOW_BREAK : FLOW_CONTINUE;
        return LVN_OK;
    default:
        return run_captured(r, e, s);
    }
}

static enum lvn_status run_body(struct lvn_tpl_run *r, const struct lvn_tpl_node *body, struct lvn_tpl_scope *s,
                                enum flow *flow)
{
    *flow = FLOW_NEXT;
    if (++r->depth > MAX_DEPTH) LVN_TPL_FAIL(r, UNSUPPORTED, "the template nests more than %d levels", MAX_DEPTH);
    for (; body && *flow == FLOW_NEXT; body = body->next) {
        r->line = body->line;
        LVN_TRY(lvn_tpl_work(r, 1));
        LVN_TRY(run_statement(r, body, s, flow));
    }
    r->depth--;
    return LVN_OK;
}

enum lvn_status lvn_tpl_run_body(struct lvn_tpl_run *r, const struct lvn_tpl_node *body, struct lvn_tpl_scope *s)
{
    enum flow flow;
    return run_body(r, body, s, &flow);
}
