/* chat_template_print.c - see chat_template_private.h: values as text, in the forms of Python's str, repr and
 * json.dumps. The characters of strings keep their marks; what these forms add, such as quotes, counts as content. */

#include "templates/chat_template_private.h"
#include "tokenizers/unicode/unicode.h"

enum { MAX_DEPTH = 64 };

static enum lvn_status reserve(struct lvn_tpl_run *r, struct lvn_tpl_output *o, int64_t more)
{
    if (o->n + more > r->limits.output)
        LVN_TPL_FAIL(r, UNSUPPORTED, "the text exceeds the limit of %lld bytes", (long long)r->limits.output);
    if (o->n + more < o->capacity) return LVN_OK;
    int64_t capacity = 2 * o->capacity > o->n + more ? 2 * o->capacity : o->n + more + 64;
    char *p = lvn_tpl_alloc(r, 2 * capacity);
    if (!p) return LVN_MEMORY;
    if (o->n) memcpy(p, o->p, (size_t)o->n);
    if (o->n) memcpy(p + capacity, o->marks, (size_t)o->n);
    o->p = p;
    o->marks = (uint8_t *)p + capacity;
    o->capacity = capacity;
    return LVN_OK;
}

enum lvn_status lvn_tpl_add(struct lvn_tpl_run *r, struct lvn_tpl_output *o, const struct lvn_tpl_value *s)
{
    if (!s->n) return LVN_OK;
    LVN_TRY(reserve(r, o, s->n));
    memcpy(o->p + o->n, s->p, (size_t)s->n);
    if (s->marks)
        memcpy(o->marks + o->n, s->marks, (size_t)s->n);
    else
        memset(o->marks + o->n, s->mark, (size_t)s->n);
    o->n += s->n;
    return LVN_OK;
}

enum lvn_status lvn_tpl_add_bytes(struct lvn_tpl_run *r, struct lvn_tpl_output *o, const char *p, int64_t n, int mark)
{
    return lvn_tpl_add(r, o, &(struct lvn_tpl_value){.p = p, .n = n, .mark = (uint8_t)mark});
}

static enum lvn_status add_syntax(struct lvn_tpl_run *r, struct lvn_tpl_output *o, const char *text)
{
    return lvn_tpl_add_bytes(r, o, text, (int64_t)strlen(text), LVN_MARK_CONTENT);
}

/* The shortest digits that read back as the same number, in Python's form. json: NaN and Infinity. */
static enum lvn_status add_float(struct lvn_tpl_run *r, struct lvn_tpl_output *o, double f, bool json)
{
    char text[64], digits[32];
    if (isnan(f)) return add_syntax(r, o, json ? "NaN" : "nan");
    if (isinf(f)) return add_syntax(r, o, json ? f > 0 ? "Infinity" : "-Infinity" : f > 0 ? "inf" : "-inf");
    int n = 0;
    do snprintf(text, sizeof text, "%.*e", n, f);
    while (n++ < 17 && strtod(text, NULL) != f);
    char *e = strchr(text, 'e'); /* -d.ddde-xx */
    int exponent = (int)strtol(e + 1, NULL, 10), k = 0;
    for (char *p = text; p < e; p++)
        if (*p >= '0' && *p <= '9') digits[k++] = *p;
    digits[k] = 0;
    if (f < 0 || signbit(f)) LVN_TRY(add_syntax(r, o, "-"));
    if (exponent < -4 || exponent >= 16) {
        snprintf(text, sizeof text, "%c%s%se%c%02d", digits[0], k > 1 ? "." : "", digits + 1, exponent < 0 ? '-' : '+',
                 abs(exponent));
    } else if (exponent < 0) {
        snprintf(text, sizeof text, "0.%.*s%s", -exponent - 1, "000", digits);
    } else if (k <= exponent + 1) {
        snprintf(text, sizeof text, "%s%.*s.0", digits, exponent + 1 - k, "0000000000000000");
    } else {
        snprintf(text, sizeof text, "%.*s.%s", exponent + 1, digits, digits + exponent + 1);
    }
    return add_syntax(r, o, text);
}

static enum lvn_status add_int(struct lvn_tpl_run *r, struct lvn_tpl_output *o, int64_t i)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)i);
    return add_syntax(r, o, text);
}

/* Append an escape with the mark of byte i of the string that it replaces. */
static enum lvn_status add_escape(struct lvn_tpl_run *r, struct lvn_tpl_output *o, const struct lvn_tpl_value *s,
                                  int64_t i, const char *text)
{
    return lvn_tpl_add_bytes(r, o, text, (int64_t)strlen(text), s->marks ? s->marks[i] : s->mark);
}

/* The escape of a character in a quoted string; false: none. */
typedef bool escape_function(int32_t code, char quote, char text[16]);

static bool escape_json(int32_t code, char ascii, char text[16])
{
    static const char letters[] = "\"\"\\\\\nn\rr\tt\bb\ff";
    for (const char *l = letters; *l; l += 2)
        if (code == *l) {
            snprintf(text, 16, "\\%c", l[1]);
            return true;
        }
    if (code >= 0x20 && (code < 0x7f || !ascii)) return false;
    if (code < 0x10000)
        snprintf(text, 16, "\\u%04x", (unsigned)code);
    else
        snprintf(text, 16, "\\u%04x\\u%04x", 0xd800 + ((unsigned)code - 0x10000) / 1024,
                 0xdc00 + ((unsigned)code - 0x10000) % 1024);
    return true;
}

static bool is_printable(int32_t code)
{
    if (code < 0x7f) return code >= 0x20;
    enum lvn_category c = (enum lvn_category)lvn_char((uint32_t)code)->category;
    return c != LVN_CATEGORY_OTHER && c < LVN_CATEGORY_Zs;
}

static bool escape_repr(int32_t code, char quote, char text[16])
{
    char letter = code == '\n' ? 'n' : code == '\r' ? 'r' : code == '\t' ? 't' : 0;
    if (code == '\\' || code == quote) letter = (char)code;
    if (!letter && is_printable(code)) return false;
    if (letter)
        snprintf(text, 16, "\\%c", letter);
    else
        snprintf(text, 16, code < 0x100 ? "\\x%02x" : code < 0x10000 ? "\\u%04x" : "\\U%08x", (unsigned)code);
    return true;
}

static bool escape_html(int32_t code, char unused, char text[16])
{
    (void)unused;
    const char *entity = code == '&'    ? "&amp;"
                         : code == '<'  ? "&lt;"
                         : code == '>'  ? "&gt;"
                         : code == '"'  ? "&#34;"
                         : code == '\'' ? "&#39;"
                                        : NULL;
    if (entity) snprintf(text, 16, "%s", entity);
    return entity != NULL;
}

static enum lvn_status add_escaped(struct lvn_tpl_run *r, struct lvn_tpl_output *o, const struct lvn_tpl_value *s,
                                   escape_function *escape, char argument)
{
    char text[16];
    int64_t done = 0;
    for (int64_t i = 0; i < s->n;) {
        int used = 1;
        int32_t code = (unsigned char)s->p[i];
        if (code >= 0x80) code = lvn_utf8_decode(s->p + i, s->n - i, &used);
        if (code >= 0 && escape(code, argument, text)) {
            struct lvn_tpl_value plain = lvn_tpl_part(s, done, i);
            LVN_TRY(lvn_tpl_add(r, o, &plain));
            LVN_TRY(add_escape(r, o, s, i, text));
            done = i + used;
        }
        i += used;
    }
    struct lvn_tpl_value plain = lvn_tpl_part(s, done, s->n);
    return lvn_tpl_add(r, o, &plain);
}

static enum lvn_status add_repr(struct lvn_tpl_run *r, struct lvn_tpl_output *o, const struct lvn_tpl_value *v,
                                int depth);

static enum lvn_status add_repr_items(struct lvn_tpl_run *r, struct lvn_tpl_output *o, const struct lvn_tpl_value *v,
                                      int depth)
{
    bool dict = v->kind == LVN_TPL_DICT, tuple = !dict && v->form == LVN_LIST_TUPLE;
    int64_t n = dict ? v->dict->n : v->n;
    if (depth > MAX_DEPTH) LVN_TPL_FAIL(r, UNSUPPORTED, "values nest more than %d levels", MAX_DEPTH);
    LVN_TRY(add_syntax(r, o, dict ? "{" : tuple ? "(" : "["));
    for (int64_t i = 0; i < n; i++) {
        if (i) LVN_TRY(add_syntax(r, o, ", "));
        if (dict) LVN_TRY(add_repr(r, o, &v->dict->e[i].key, depth + 1));
        if (dict) LVN_TRY(add_syntax(r, o, ": "));
        LVN_TRY(add_repr(r, o, dict ? &v->dict->e[i].value : &v->items[i], depth + 1));
    }
    return add_syntax(r, o, dict ? "}" : tuple ? n == 1 ? ",)" : ")" : "]");
}

static enum lvn_status add_repr(struct lvn_tpl_run *r, struct lvn_tpl_output *o, const struct lvn_tpl_value *v,
                                int depth)
{
    LVN_TRY(lvn_tpl_work(r, 1));
    switch (v->kind) {
    case LVN_TPL_UNDEFINED:
        return add_syntax(r, o, "Undefined");
    case LVN_TPL_NONE:
        return add_syntax(r, o, "None");
    case LVN_TPL_BOOL:
        return add_syntax(r, o, v->b ? "True" : "False");
    case LVN_TPL_INT:
        return add_int(r, o, v->i);
    case LVN_TPL_FLOAT:
        return add_float(r, o, v->f, false);
    case LVN_TPL_STRING: {
        bool single = memchr(v->p, '\'', (size_t)v->n), both = single && memchr(v->p, '"', (size_t)v->n);
        const char *quote = single && !both ? "\"" : "'";
        LVN_TRY(add_syntax(r, o, quote));
        LVN_TRY(add_escaped(r, o, v, escape_repr, *quote));
        return add_syntax(r, o, quote);
    }
    case LVN_TPL_LIST:
        if (v->form <= LVN_LIST_TUPLE) return add_repr_items(r, o, v, depth);
        break;
    case LVN_TPL_DICT:
        return add_repr_items(r, o, v, depth);
    }
    LVN_TPL_FAIL(r, UNSUPPORTED, "a value of type %s is not supported as text; add the filter 'list'",
                 v->kind == LVN_TPL_LIST ? "generator or range" : lvn_tpl_type(v));
}

enum lvn_status lvn_tpl_add_str(struct lvn_tpl_run *r, struct lvn_tpl_output *o, const struct lvn_tpl_value *v)
{
    if (v->kind == LVN_TPL_UNDEFINED && r->t->strict) LVN_TPL_FAIL(r, FORMAT, "'%.60s' is undefined", v->p);
    if (v->kind == LVN_TPL_UNDEFINED) return LVN_OK;
    return v->kind == LVN_TPL_STRING ? lvn_tpl_add(r, o, v) : add_repr(r, o, v, 0);
}

enum lvn_status lvn_tpl_str(struct lvn_tpl_run *r, const struct lvn_tpl_value *v, struct lvn_tpl_value *out)
{
    struct lvn_tpl_output text = {0};
    *out = *v;
    if (v->kind == LVN_TPL_STRING) return LVN_OK;
    LVN_TRY(lvn_tpl_add_str(r, &text, v));
    *out = lvn_tpl_result(&text);
    return LVN_OK;
}

enum lvn_status lvn_tpl_escape(struct lvn_tpl_run *r, const struct lvn_tpl_value *v, struct lvn_tpl_value *out)
{
    struct lvn_tpl_output text = {0};
    struct lvn_tpl_value s;
    LVN_TRY(lvn_tpl_str(r, v, &s));
    *out = s;
    if (s.form) return LVN_OK;
    LVN_TRY(add_escaped(r, &text, &s, escape_html, 0));
    *out = lvn_tpl_result(&text);
    out->form = 1;
    return LVN_OK;
}

/* --- JSON --- */

static enum lvn_status add_json_string(struct lvn_tpl_run *r, struct lvn_tpl_output *o, const struct lvn_tpl_value *s,
                                       bool ascii)
{
    LVN_TRY(add_syntax(r, o, "\""));
    LVN_TRY(add_escaped(r, o, s, escape_json, ascii));
    return add_syntax(r, o, "\"");
}

static enum lvn_status add_json_line(struct lvn_tpl_run *r, struct lvn_tpl_output *o, const struct lvn_tpl_json *form,
                                     int depth)
{
    if (form->indent.kind == LVN_TPL_NONE) return LVN_OK;
    LVN_TRY(add_syntax(r, o, "\n"));
    for (int i = 0; i < depth; i++) LVN_TRY(lvn_tpl_add(r, o, &form->indent));
    return LVN_OK;
}

static enum lvn_status add_json_key(struct lvn_tpl_run *r, struct lvn_tpl_output *o, const struct lvn_tpl_value *key,
                                    const struct lvn_tpl_json *form)
{
    bool quoted = key->kind == LVN_TPL_STRING;
    if (quoted) {
        LVN_TRY(add_json_string(r, o, key, form->ascii));
    } else {
        if (key->kind == LVN_TPL_LIST) LVN_TPL_FAIL(r, FORMAT, "tojson: a list cannot be a key");
        LVN_TRY(add_syntax(r, o, "\""));
        LVN_TRY(lvn_tpl_add_json(r, o, key, form, 0));
        LVN_TRY(add_syntax(r, o, "\""));
    }
    return lvn_tpl_add(r, o, &form->key);
}

/* The entry with the least key above `last`, for sort_keys. */
static const struct lvn_tpl_entry *next_entry(const struct lvn_tpl_dict *d, const struct lvn_tpl_entry *last)
{
    const struct lvn_tpl_entry *best = NULL;
    int sign;
    for (int64_t i = 0; i < d->n; i++) {
        const struct lvn_tpl_entry *e = &d->e[i];
        if (last && (lvn_tpl_compare(NULL, &e->key, &last->key, &sign) != LVN_OK || sign <= 0)) continue;
        if (!best || (lvn_tpl_compare(NULL, &e->key, &best->key, &sign) == LVN_OK && sign < 0)) best = e;
    }
    return best;
}

static enum lvn_status add_json_items(struct lvn_tpl_run *r, struct lvn_tpl_output *o, const struct lvn_tpl_value *v,
                                      const struct lvn_tpl_json *form, int depth)
{
    bool dict = v->kind == LVN_TPL_DICT;
    int64_t n = dict ? v->dict->n : v->n;
    const struct lvn_tpl_entry *e = NULL;
    if (depth > MAX_DEPTH) LVN_TPL_FAIL(r, UNSUPPORTED, "values nest more than %d levels", MAX_DEPTH);
    if (!n) return add_syntax(r, o, dict ? "{}" : "[]");
    for (int64_t i = 0; dict && form->sort && i < n; i++)
        if (v->dict->e[i].key.kind != LVN_TPL_STRING)
            LVN_TPL_FAIL(r, UNSUPPORTED, "tojson: sort_keys supports only keys that are strings");
    LVN_TRY(add_syntax(r, o, dict ? "{" : "["));
    for (int64_t i = 0; i < n; i++) {
        if (i) LVN_TRY(lvn_tpl_add(r, o, &form->item));
        LVN_TRY(add_json_line(r, o, form, depth + 1));
        if (dict) {
            LVN_TRY(lvn_tpl_work(r, form->sort ? n : 0));
            e = form->sort ? next_entry(v->dict, e) : &v->dict->e[i];
            LVN_TRY(add_json_key(r, o, &e->key, form));
        }
        LVN_TRY(lvn_tpl_add_json(r, o, dict ? &e->value : &v->items[i], form, depth + 1));
    }
    LVN_TRY(add_json_line(r, o, form, depth));
    return add_syntax(r, o, dict ? "}" : "]");
}

enum lvn_status lvn_tpl_add_json(struct lvn_tpl_run *r, struct lvn_tpl_output *o, const struct lvn_tpl_value *v,
                                 const struct lvn_tpl_json *form, int depth)
{
    LVN_TRY(lvn_tpl_work(r, 1));
    if (v->kind == LVN_TPL_NONE) return add_syntax(r, o, "null");
    if (v->kind == LVN_TPL_BOOL) return add_syntax(r, o, v->b ? "true" : "false");
    if (v->kind == LVN_TPL_INT) return add_int(r, o, v->i);
    if (v->kind == LVN_TPL_FLOAT) return add_float(r, o, v->f, true);
    if (v->kind == LVN_TPL_STRING) return add_json_string(r, o, v, form->ascii);
    if (v->kind == LVN_TPL_DICT || (v->kind == LVN_TPL_LIST && v->form <= LVN_LIST_TUPLE))
        return add_json_items(r, o, v, form, depth);
    LVN_TPL_FAIL(r, FORMAT, "tojson: a value of type %s is not JSON", lvn_tpl_type(v));
}
