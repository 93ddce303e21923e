/* chat_template.c - see chat_template.h: parsing, and one rendering within its limits. */
#include "templates/chat_template.h"

#include "templates/chat_template_private.h"
#include "tokenizers/unicode/unicode.h"

/* Limits of a rendering. A conversation of 10 MB with 10,000 messages stays below them. */
enum { MAX_STEPS = 20000000, MAX_OUTPUT = 256 << 20, MAX_MEMORY = 1 << 30, MAX_TEMPLATE = 4 << 20 };

enum lvn_status lvn_tpl_fail(struct lvn_tpl_run *r, enum lvn_status status, const char *format, ...)
{
    char text[400], turn[60] = "";
    va_list list;
    if (!r) return status; /* a comparison whose failure is handled */
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    int64_t cut = lvn_utf8_check(text, (int64_t)strlen(text));
    if (cut >= 0) text[cut] = 0;
    if (r->turn) snprintf(turn, sizeof turn, ", message %lld", (long long)r->turn);
    return lvn_fail(status, "'%s', line %d%s: %s", r->t->name, r->line, turn, text);
}

enum lvn_status lvn_tpl_work(struct lvn_tpl_run *r, int64_t steps)
{
    r->steps += steps;
    if (r->steps > r->limits.steps)
        LVN_TPL_FAIL(r, UNSUPPORTED, "the template does not end within %lld steps", (long long)r->limits.steps);
    return LVN_OK;
}

void *lvn_tpl_alloc(struct lvn_tpl_run *r, int64_t bytes)
{
    if (bytes > r->limits.memory || (int64_t)(r->a->used - r->used_before) > r->limits.memory - bytes) {
        (void)lvn_tpl_fail(r, LVN_UNSUPPORTED, "the template needs more than %lld bytes of memory",
                           (long long)r->limits.memory);
        return NULL;
    }
    return lvn_arena_alloc(r->a, (size_t)bytes);
}

enum lvn_status lvn_tpl_reserve(struct lvn_tpl_run *r, void *list, int64_t n, int64_t *capacity, size_t size)
{
    if (n < *capacity) return LVN_OK;
    const int64_t larger = *capacity ? 2 * *capacity : 8;
    void *old, *p = lvn_tpl_alloc(r, larger * (int64_t)size);
    if (!p) return LVN_MEMORY;
    memcpy(&old, list, sizeof old);
    if (n) memcpy(p, old, (size_t)n * size);
    memcpy(list, &p, sizeof p);
    *capacity = larger;
    return LVN_OK;
}

static enum lvn_status parse(struct lvn_chat_template **out, const char *name, const char *text, int64_t bytes,
                             bool strict)
{
    struct lvn_tpl_token *token;
    *out = NULL;
    LVN_CHECK(bytes <= MAX_TEMPLATE, UNSUPPORTED, "'%s' is too large for a chat template: %lld bytes", name,
              (long long)bytes);
    int64_t bad = lvn_utf8_check(text, bytes);
    LVN_CHECK(bad < 0, FORMAT, "'%s' is not UTF-8 (byte %lld)", name, (long long)bad);
    lvn_unicode_init();
    struct lvn_chat_template *t = lvn_calloc(1, sizeof *t);
    if (!t) return LVN_MEMORY;
    t->strict = strict;
    lvn_arena_init(&t->arena);
    enum lvn_status status = (t->name = lvn_arena_strdup(&t->arena, name)) ? LVN_OK : LVN_MEMORY;
    if (status == LVN_OK) status = lvn_tpl_lex(t, text, bytes, &token);
    if (status == LVN_OK) status = lvn_tpl_parse(t, token);
    if (status == LVN_OK)
        *out = t;
    else
        lvn_chat_template_free(t);
    return status;
}

enum lvn_status lvn_chat_template_parse(struct lvn_chat_template **out, const char *name, const char *text,
                                        int64_t bytes)
{
    return parse(out, name, text, bytes, false);
}

enum lvn_status lvn_template_parse(struct lvn_chat_template **out, const char *name, const char *text)
{
    return parse(out, name, text, (int64_t)strlen(text), true);
}

void lvn_chat_template_free(struct lvn_chat_template *t)
{
    if (!t) return;
    lvn_arena_release(&t->arena);
    free(t);
}

bool lvn_chat_template_has_generation(const struct lvn_chat_template *t)
{
    return t->has_generation;
}

enum lvn_status lvn_chat_template_render(const struct lvn_chat_template *t, struct lvn_arena *a,
                                         const struct lvn_tpl_variable *variables, int n, const struct tm *now,
                                         const struct lvn_tpl_limits *limits, struct lvn_rendered *out)
{
    struct lvn_tpl_output output = {0};
    struct lvn_tpl_scope scope = {0};
    struct lvn_tpl_run r = {.t = t, .a = a, .now = now, .out = &output, .used_before = a->used, .line = 1};
    if (limits) r.limits = *limits;
    if (!r.limits.steps) r.limits.steps = MAX_STEPS;
    if (!r.limits.output) r.limits.output = MAX_OUTPUT;
    if (!r.limits.memory) r.limits.memory = MAX_MEMORY;
    for (int i = 0; i < n; i++) { /* messages are a list of dictionaries with numbers */
        const struct lvn_tpl_value *v = &variables[i].value;
        for (int64_t k = 0; v->kind == LVN_TPL_LIST && k < v->n; k++)
            r.excludes = r.excludes || (v->items[k].kind == LVN_TPL_DICT && v->items[k].dict->excluded);
    }
    for (int i = 0; i < n; i++)
        for (int32_t k = 0; k < t->n_names; k++)
            if (!strcmp(t->names[k], variables[i].name)) LVN_TRY(lvn_tpl_bind(&r, &scope, k, &variables[i].value));
    LVN_TRY(lvn_tpl_run_body(&r, t->body, &scope));
    LVN_TRY(lvn_tpl_add_bytes(&r, &output, "", 1, 0)); /* the NUL */
    *out = (struct lvn_rendered){.text = output.p, .marks = output.marks, .n = output.n - 1};
    return LVN_OK;
}
