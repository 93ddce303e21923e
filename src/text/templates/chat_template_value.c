/* chat_template_value.c - see chat_template_private.h: values as Python's: truth, equality, order, elements, slices and
 * operators. Strings share the bytes and marks of the strings that they are parts of. */

#include "templates/chat_template_private.h"

bool lvn_tpl_space(int32_t c)
{
    if (c < 0x80) return (c >= 9 && c <= 13) || (c >= 28 && c <= 32);
    return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
           c == 0x202f || c == 0x205f || c == 0x3000;
}

/* --- from JSON --- */

static enum lvn_status of_json(struct lvn_arena *a, const json_t *json, int mark, int depth, struct lvn_tpl_value *out)
{
    *out = (struct lvn_tpl_value){.kind = LVN_TPL_NONE, .mark = (uint8_t)mark};
    LVN_CHECK(depth < 64, FORMAT, "values nest more than 64 levels");
    if (json_is_string(json)) {
        out->kind = LVN_TPL_STRING;
        out->p = json_string_value(json);
        out->n = (int64_t)json_string_length(json);
    } else if (json_is_boolean(json)) {
        *out = lvn_tpl_bool(json_is_true(json));
    } else if (json_is_integer(json)) {
        *out = lvn_tpl_int(json_integer_value(json));
    } else if (json_is_real(json)) {
        *out = (struct lvn_tpl_value){.kind = LVN_TPL_FLOAT, .f = json_real_value(json)};
    } else if (json_is_array(json)) {
        size_t n = json_array_size(json);
        struct lvn_tpl_value *items = lvn_arena_alloc(a, (n + 1) * sizeof *items);
        if (!items) return LVN_MEMORY;
        for (size_t i = 0; i < n; i++) LVN_TRY(of_json(a, json_array_get(json, i), mark, depth + 1, &items[i]));
        *out = lvn_tpl_list(items, (int64_t)n, LVN_LIST);
    } else if (json_is_object(json)) {
        size_t n = json_object_size(json);
        struct lvn_tpl_dict *dict = lvn_arena_alloc(a, sizeof *dict);
        if (!dict || !(dict->e = lvn_arena_alloc(a, (n + 1) * sizeof *dict->e))) return LVN_MEMORY;
        const char *key;
        json_t *value, *object = (json_t *)json; /* jansson's macro iterates over a mutable object */
        json_object_foreach(object, key, value)
        {
            struct lvn_tpl_entry *e = &dict->e[dict->n++];
            e->key = lvn_tpl_name(key);
            e->key.mark = (uint8_t)mark;
            LVN_TRY(of_json(a, value, mark, depth + 1, &e->value));
        }
        *out = (struct lvn_tpl_value){.kind = LVN_TPL_DICT, .dict = dict};
    }
    return LVN_OK;
}

enum lvn_status lvn_tpl_value_of_json(struct lvn_arena *a, const json_t *json, int mark, struct lvn_tpl_value *out)
{
    return of_json(a, json, mark, 0, out);
}

static bool is_plain_word(const struct lvn_tpl_value *v)
{
    for (int64_t i = 0; i < v->n; i++) {
        char c = v->p[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-'))
            return false;
    }
    return true;
}

enum lvn_status lvn_tpl_value_of_messages(struct lvn_arena *a, const json_t *json, struct lvn_tpl_value *out)
{
    LVN_TRY(of_json(a, json, LVN_MARK_CONTENT, 0, out));
    for (int64_t i = 0; out->kind == LVN_TPL_LIST && i < out->n; i++) {
        if (out->items[i].kind != LVN_TPL_DICT) continue;
        struct lvn_tpl_dict *message = out->items[i].dict;
        message->turn = i + 1;
        for (int64_t k = 0; k < message->n; k++)
            if (lvn_tpl_is(&message->e[k].key, "role") && message->e[k].value.kind == LVN_TPL_STRING &&
                is_plain_word(&message->e[k].value))
                message->e[k].value.mark = 0;
    }
    return LVN_OK;
}

void lvn_tpl_exclude(struct lvn_tpl_value *messages, int64_t i)
{
    if (messages->items[i].kind == LVN_TPL_DICT) messages->items[i].dict->excluded = true;
}

/* --- comparison --- */

const char *lvn_tpl_type(const struct lvn_tpl_value *v)
{
    static const char *const names[] = {"undefined", "NoneType",  "bool",        "int",   "float",  "str",     "list",
                                        "dict",      "Namespace", "LoopContext", "Macro", "method", "function"};
    return names[v->kind];
}

static bool is_number(const struct lvn_tpl_value *v)
{
    return v->kind == LVN_TPL_BOOL || v->kind == LVN_TPL_INT || v->kind == LVN_TPL_FLOAT;
}

static int64_t integer(const struct lvn_tpl_value *v)
{
    return v->kind == LVN_TPL_BOOL ? v->b : v->i;
}

static double real(const struct lvn_tpl_value *v)
{
    return v->kind == LVN_TPL_FLOAT ? v->f : (double)integer(v);
}

bool lvn_tpl_true(const struct lvn_tpl_value *v)
{
    switch (v->kind) {
    case LVN_TPL_UNDEFINED:
    case LVN_TPL_NONE:
        return false;
    case LVN_TPL_BOOL:
        return v->b;
    case LVN_TPL_INT:
        return v->i != 0;
    case LVN_TPL_FLOAT:
        return v->f != 0;
    case LVN_TPL_STRING:
        return v->n > 0;
    case LVN_TPL_LIST:
        return v->n > 0 || v->form == LVN_LIST_LAZY;
    case LVN_TPL_DICT:
        return v->dict->n > 0;
    default:
        return true;
    }
}

static bool equal(const struct lvn_tpl_value *x, const struct lvn_tpl_value *y, int depth)
{
    if (is_number(x) && is_number(y))
        return x->kind == LVN_TPL_FLOAT || y->kind == LVN_TPL_FLOAT ? real(x) == real(y) : integer(x) == integer(y);
    if (x->kind != y->kind || depth > 64) return false;
    if (x->kind == LVN_TPL_STRING) return x->n == y->n && memcmp(x->p, y->p, (size_t)x->n) == 0;
    if (x->kind == LVN_TPL_LIST) {
        if (x->n != y->n || (x->form == LVN_LIST_TUPLE) != (y->form == LVN_LIST_TUPLE)) return false;
        for (int64_t i = 0; i < x->n; i++)
            if (!equal(&x->items[i], &y->items[i], depth + 1)) return false;
        return true;
    }
    if (x->kind == LVN_TPL_DICT) {
        if (x->dict == y->dict) return true;
        if (x->dict->n != y->dict->n) return false;
        for (int64_t i = 0; i < x->dict->n; i++) {
            const struct lvn_tpl_value *other = lvn_tpl_find(y->dict, &x->dict->e[i].key);
            if (!other || !equal(&x->dict->e[i].value, other, depth + 1)) return false;
        }
        return true;
    }
    return x->kind == LVN_TPL_UNDEFINED || x->kind == LVN_TPL_NONE || (x->items == y->items && x->index == y->index);
}

bool lvn_tpl_equal(const struct lvn_tpl_value *x, const struct lvn_tpl_value *y)
{
    return equal(x, y, 0);
}

enum lvn_status lvn_tpl_compare(struct lvn_tpl_run *r, const struct lvn_tpl_value *x, const struct lvn_tpl_value *y,
                                int *sign)
{
    if (is_number(x) && is_number(y)) {
        bool reals = x->kind == LVN_TPL_FLOAT || y->kind == LVN_TPL_FLOAT;
        *sign =
            reals ? (real(x) > real(y)) - (real(x) < real(y)) : (integer(x) > integer(y)) - (integer(x) < integer(y));
        return LVN_OK;
    }
    if (x->kind == LVN_TPL_STRING && y->kind == LVN_TPL_STRING) {
        int64_t n = x->n < y->n ? x->n : y->n;
        int order = memcmp(x->p, y->p, (size_t)n); /* UTF-8 has the order of code points */
        *sign = order ? order : (x->n > y->n) - (x->n < y->n);
        return LVN_OK;
    }
    if (x->kind == LVN_TPL_LIST && y->kind == LVN_TPL_LIST) {
        for (int64_t i = 0; i < x->n && i < y->n; i++)
            if (!lvn_tpl_equal(&x->items[i], &y->items[i])) {
                LVN_TRY(lvn_tpl_work(r, 1));
                if (++r->depth > 200) LVN_TPL_FAIL(r, UNSUPPORTED, "lists nest too deep to be compared");
                LVN_TRY(lvn_tpl_compare(r, &x->items[i], &y->items[i], sign));
                r->depth--;
                return LVN_OK;
            }
        *sign = (x->n > y->n) - (x->n < y->n);
        return LVN_OK;
    }
    LVN_TPL_FAIL(r, FORMAT, "values of types %s and %s have no order", lvn_tpl_type(x), lvn_tpl_type(y));
}

/* --- dictionaries --- */

const struct lvn_tpl_value *lvn_tpl_find(const struct lvn_tpl_dict *d, const struct lvn_tpl_value *key)
{
    for (int64_t i = 0; i < d->n; i++)
        if (d->e[i].key.kind == LVN_TPL_STRING && key->kind == LVN_TPL_STRING
                ? d->e[i].key.n == key->n && memcmp(d->e[i].key.p, key->p, (size_t)key->n) == 0
                : lvn_tpl_equal(&d->e[i].key, key))
            return &d->e[i].value;
    return NULL;
}

enum lvn_status lvn_tpl_dict_set(struct lvn_tpl_run *r, struct lvn_tpl_dict *d, struct lvn_tpl_value key,
                                 struct lvn_tpl_value value)
{
    if (key.kind == LVN_TPL_DICT || (key.kind == LVN_TPL_LIST && key.form != LVN_LIST_TUPLE))
        LVN_TPL_FAIL(r, FORMAT, "a %s cannot be the key of a dictionary", lvn_tpl_type(&key));
    LVN_TRY(lvn_tpl_work(r, d->n / 16));
    struct lvn_tpl_value *old = (struct lvn_tpl_value *)lvn_tpl_find(d, &key);
    if (old) {
        *old = value;
        return LVN_OK;
    }
    LVN_TRY(lvn_tpl_reserve(r, &d->e, d->n, &d->capacity, sizeof *d->e));
    d->e[d->n++] = (struct lvn_tpl_entry){key, value};
    return LVN_OK;
}

/* --- elements --- */

static int64_t characters(const struct lvn_tpl_value *s)
{
    int64_t n = 0;
    for (int64_t i = 0; i < s->n; i++) n += (s->p[i] & 0xc0) != 0x80;
    return n;
}

/* The byte at which a character begins; the length if there are fewer. */
static int64_t byte_of(const struct lvn_tpl_value *s, int64_t character)
{
    int64_t i = 0;
    for (; i < s->n; i++)
        if ((s->p[i] & 0xc0) != 0x80 && character-- == 0) break;
    return i;
}

enum lvn_status lvn_tpl_length(struct lvn_tpl_run *r, const struct lvn_tpl_value *v, int64_t *n)
{
    bool has = v->kind == LVN_TPL_UNDEFINED || v->kind == LVN_TPL_STRING || v->kind == LVN_TPL_DICT ||
               (v->kind == LVN_TPL_LIST && v->form != LVN_LIST_LAZY);
    if (!has) LVN_TPL_FAIL(r, FORMAT, "a value of type %s has no length", lvn_tpl_type(v));
    *n = v->kind == LVN_TPL_UNDEFINED ? 0
         : v->kind == LVN_TPL_STRING  ? characters(v)
         : v->kind == LVN_TPL_DICT    ? v->dict->n
                                      : v->n;
    return LVN_OK;
}

enum lvn_status lvn_tpl_iterate(struct lvn_tpl_run *r, const struct lvn_tpl_value *v, struct lvn_tpl_value *list)
{
    int64_t n = v->kind == LVN_TPL_STRING ? characters(v) : v->kind == LVN_TPL_DICT ? v->dict->n : 0;
    *list = *v;
    if (v->kind == LVN_TPL_LIST) return LVN_OK;
    if (v->kind != LVN_TPL_STRING && v->kind != LVN_TPL_DICT && v->kind != LVN_TPL_UNDEFINED)
        LVN_TPL_FAIL(r, FORMAT, "a value of type %s cannot be iterated", lvn_tpl_type(v));
    struct lvn_tpl_value *items = lvn_tpl_alloc(r, (n + 1) * (int64_t)sizeof *items);
    if (!items) return LVN_MEMORY;
    if (v->kind == LVN_TPL_STRING)
        for (int64_t i = 0, at = 0; i < n; i++) {
            int64_t end = at + 1;
            while (end < v->n && (v->p[end] & 0xc0) == 0x80) end++;
            items[i] = lvn_tpl_part(v, at, end);
            at = end;
        }
    if (v->kind == LVN_TPL_DICT)
        for (int64_t i = 0; i < n; i++) items[i] = v->dict->e[i].key;
    *list = lvn_tpl_list(items, n, LVN_LIST);
    return LVN_OK;
}

enum lvn_status lvn_tpl_item(struct lvn_tpl_run *r, const struct lvn_tpl_value *v, const struct lvn_tpl_value *key,
                             struct lvn_tpl_value *out)
{
    *out = lvn_tpl_undefined("an element");
    if (v->kind == LVN_TPL_UNDEFINED) LVN_TPL_FAIL(r, FORMAT, "'%s' is undefined and has no elements", v->p);
    if (v->kind == LVN_TPL_DICT || v->kind == LVN_TPL_NAMESPACE) {
        LVN_TRY(lvn_tpl_work(r, v->dict->n / 16));
        const struct lvn_tpl_value *found = v->kind == LVN_TPL_DICT ? lvn_tpl_find(v->dict, key) : NULL;
        if (found) *out = *found;
        if (found) return LVN_OK;
    }
    bool list = v->kind == LVN_TPL_LIST && v->form != LVN_LIST_LAZY;
    if ((list || v->kind == LVN_TPL_STRING) && (key->kind == LVN_TPL_INT || key->kind == LVN_TPL_BOOL)) {
        int64_t n = list ? v->n : characters(v), i = integer(key);
        if (i < 0) i += n;
        if (i < 0 || i >= n) return LVN_OK;
        *out = list ? v->items[i] : lvn_tpl_part(v, byte_of(v, i), byte_of(v, i + 1));
        return LVN_OK;
    }
    if (key->kind != LVN_TPL_STRING) return LVN_OK;
    char *name = lvn_tpl_alloc(r, 61);
    if (!name) return LVN_MEMORY;
    memcpy(name, key->p, (size_t)(key->n < 60 ? key->n : 60));
    out->p = name;
    return lvn_tpl_attribute(r, v, key, out);
}

static int64_t clamp(int64_t i, int64_t low, int64_t high)
{
    return i < low ? low : i > high ? high : i;
}

enum lvn_status lvn_tpl_slice(struct lvn_tpl_run *r, const struct lvn_tpl_value *v,
                              const struct lvn_tpl_value *const bound[3], struct lvn_tpl_value *out)
{
    int64_t given[3] = {0}, n;
    bool is[3];
    for (int i = 0; i < 3; i++) {
        is[i] = bound[i] && bound[i]->kind != LVN_TPL_NONE;
        if (is[i] && bound[i]->kind != LVN_TPL_INT && bound[i]->kind != LVN_TPL_BOOL)
            LVN_TPL_FAIL(r, FORMAT, "the bound of a slice must be an integer, not %s", lvn_tpl_type(bound[i]));
        if (is[i]) given[i] = integer(bound[i]);
    }
    if (v->kind == LVN_TPL_UNDEFINED) LVN_TPL_FAIL(r, FORMAT, "'%s' is undefined and has no elements", v->p);
    *out = lvn_tpl_undefined("a slice");
    if (v->kind != LVN_TPL_STRING && (v->kind != LVN_TPL_LIST || v->form == LVN_LIST_LAZY)) return LVN_OK;
    LVN_TRY(lvn_tpl_length(r, v, &n));
    int64_t step = is[2] ? given[2] : 1;
    if (!step) LVN_TPL_FAIL(r, FORMAT, "the step of a slice is 0");
    int64_t low = step > 0 ? 0 : -1, high = step > 0 ? n : n - 1;
    for (int i = 0; i < 2; i++) given[i] = clamp(given[i] < 0 ? given[i] + n : given[i], low, high);
    int64_t from = is[0] ? given[0] : step > 0 ? 0 : n - 1, to = is[1] ? given[1] : step > 0 ? n : -1;
    if (v->kind == LVN_TPL_STRING && step == 1) {
        int64_t begin = byte_of(v, from);
        *out = lvn_tpl_part(v, begin, to > from ? byte_of(v, to) : begin);
        return LVN_OK;
    }
    struct lvn_tpl_value list, *items;
    LVN_TRY(lvn_tpl_iterate(r, v, &list));
    if (!(items = lvn_tpl_alloc(r, (n + 1) * (int64_t)sizeof *items))) return LVN_MEMORY;
    int64_t made = 0;
    step = clamp(step, -n - 1, n + 1);
    for (int64_t i = from; step > 0 ? i < to : i > to; i += step) items[made++] = list.items[i];
    *out = lvn_tpl_list(items, made, v->kind == LVN_TPL_LIST ? (enum lvn_tpl_list)v->form : LVN_LIST);
    if (v->kind == LVN_TPL_LIST) return LVN_OK;
    struct lvn_tpl_output text = {0};
    for (int64_t i = 0; i < made; i++) LVN_TRY(lvn_tpl_add(r, &text, &items[i]));
    *out = lvn_tpl_result(&text);
    return LVN_OK;
}

int64_t lvn_tpl_search(const struct lvn_tpl_value *s, const struct lvn_tpl_value *part, int64_t from)
{
    if (part->n > s->n - from) return -1;
    if (!part->n) return from;
    const char *found = memmem(s->p + from, (size_t)(s->n - from), part->p, (size_t)part->n);
    return found ? found - s->p : -1;
}

enum lvn_status lvn_tpl_contains(struct lvn_tpl_run *r, const struct lvn_tpl_value *v, const struct lvn_tpl_value *in,
                                 bool *is)
{
    *is = false;
    if (in->kind == LVN_TPL_STRING) {
        if (v->kind != LVN_TPL_STRING)
            LVN_TPL_FAIL(r, FORMAT, "'in' searches strings in a string, not a value of type %s", lvn_tpl_type(v));
        *is = lvn_tpl_search(in, v, 0) >= 0;
        return lvn_tpl_work(r, in->n / 64);
    }
    if (in->kind == LVN_TPL_DICT) {
        *is = lvn_tpl_find(in->dict, v) != NULL;
        return lvn_tpl_work(r, in->dict->n / 16);
    }
    struct lvn_tpl_value list;
    LVN_TRY(lvn_tpl_iterate(r, in, &list));
    for (int64_t i = 0; i < list.n && !*is; i++) *is = lvn_tpl_equal(v, &list.items[i]);
    return lvn_tpl_work(r, list.n / 16);
}

/* --- operators --- */

static enum lvn_status integers(struct lvn_tpl_run *r, enum lvn_tpl_operator op, int64_t x, int64_t y,
                                struct lvn_tpl_value *out)
{
    int64_t z = 0;
    bool over = false;
    if ((op == LVN_SIGN_FLOORDIV || op == LVN_SIGN_MOD) && !y) LVN_TPL_FAIL(r, FORMAT, "division by zero");
    if ((op == LVN_SIGN_FLOORDIV || op == LVN_SIGN_MOD) && y == -1) { /* INT64_MIN / -1 overflows */
        over = __builtin_sub_overflow((int64_t)0, op == LVN_SIGN_MOD ? 0 : x, &z);
    } else if (op == LVN_SIGN_FLOORDIV) {
        z = x / y - (x % y != 0 && (x < 0) != (y < 0));
    } else if (op == LVN_SIGN_MOD) {
        z = x % y + (x % y != 0 && (x < 0) != (y < 0) ? y : 0);
    } else if (op == LVN_SIGN_ADD) {
        over = __builtin_add_overflow(x, y, &z);
    } else if (op == LVN_SIGN_SUB) {
        over = __builtin_sub_overflow(x, y, &z);
    } else if (op == LVN_SIGN_MUL) {
        over = __builtin_mul_overflow(x, y, &z);
    } else {
        if (y < 0 || y > 64) LVN_TPL_FAIL(r, UNSUPPORTED, "the power %lld is not supported", (long long)y);
        z = 1;
        for (int64_t i = 0; i < y && !over; i++) over = __builtin_mul_overflow(z, x, &z);
    }
    if (over) LVN_TPL_FAIL(r, UNSUPPORTED, "an integer exceeds 64 bits");
    *out = lvn_tpl_int(z);
    return LVN_OK;
}

static enum lvn_status numbers(struct lvn_tpl_run *r, enum lvn_tpl_operator op, const struct lvn_tpl_value *x,
                               const struct lvn_tpl_value *y, struct lvn_tpl_value *out)
{
    if (x->kind != LVN_TPL_FLOAT && y->kind != LVN_TPL_FLOAT && op != LVN_SIGN_DIV)
        return integers(r, op, integer(x), integer(y), out);
    double a = real(x), b = real(y), z = 0;
    if ((op == LVN_SIGN_DIV || op == LVN_SIGN_FLOORDIV || op == LVN_SIGN_MOD) && b == 0)
        LVN_TPL_FAIL(r, FORMAT, "division by zero");
    if (op == LVN_SIGN_ADD) z = a + b;
    if (op == LVN_SIGN_SUB) z = a - b;
    if (op == LVN_SIGN_MUL) z = a * b;
    if (op == LVN_SIGN_DIV) z = a / b;
    if (op == LVN_SIGN_FLOORDIV) z = floor(a / b);
    if (op == LVN_SIGN_MOD) z = a - b * floor(a / b);
    if (op == LVN_SIGN_POW) z = pow(a, b);
    *out = (struct lvn_tpl_value){.kind = LVN_TPL_FLOAT, .f = z};
    return LVN_OK;
}

static enum lvn_status repeat(struct lvn_tpl_run *r, const struct lvn_tpl_value *v, int64_t times,
                              struct lvn_tpl_value *out)
{
    struct lvn_tpl_output text = {0};
    if (v->kind == LVN_TPL_STRING) {
        for (int64_t i = 0; i < times && v->n; i++) {
            LVN_TRY(lvn_tpl_work(r, 1));
            LVN_TRY(lvn_tpl_add(r, &text, v));
        }
        *out = lvn_tpl_result(&text);
        return LVN_OK;
    }
    if (times > 0 && v->n > r->limits.steps / times) LVN_TPL_FAIL(r, UNSUPPORTED, "a list is repeated too often");
    int64_t n = times > 0 ? v->n * times : 0;
    struct lvn_tpl_value *items = lvn_tpl_alloc(r, (n + 1) * (int64_t)sizeof *items);
    if (!items) return LVN_MEMORY;
    for (int64_t i = 0; i < n; i++) items[i] = v->items[i % v->n];
    *out = lvn_tpl_list(items, n, (enum lvn_tpl_list)v->form);
    return LVN_OK;
}

static enum lvn_status join_lists(struct lvn_tpl_run *r, const struct lvn_tpl_value *x, const struct lvn_tpl_value *y,
                                  struct lvn_tpl_value *out)
{
    struct lvn_tpl_value *items = lvn_tpl_alloc(r, (x->n + y->n + 1) * (int64_t)sizeof *items);
    if (!items) return LVN_MEMORY;
    if (x->n) memcpy(items, x->items, (size_t)x->n * sizeof *items);
    if (y->n) memcpy(items + x->n, y->items, (size_t)y->n * sizeof *items);
    *out = lvn_tpl_list(items, x->n + y->n, (enum lvn_tpl_list)x->form);
    return LVN_OK;
}

static enum lvn_status join_strings(struct lvn_tpl_run *r, const struct lvn_tpl_value *x, const struct lvn_tpl_value *y,
                                    struct lvn_tpl_value *out)
{
    struct lvn_tpl_output text = {0};
    struct lvn_tpl_value a = *x, b = *y;
    if (x->form && !y->form) LVN_TRY(lvn_tpl_escape(r, y, &b));
    if (y->form && !x->form) LVN_TRY(lvn_tpl_escape(r, x, &a));
    LVN_TRY(lvn_tpl_add(r, &text, &a));
    LVN_TRY(lvn_tpl_add(r, &text, &b));
    *out = lvn_tpl_result(&text);
    out->form = x->form | y->form;
    return LVN_OK;
}

enum lvn_status lvn_tpl_binary(struct lvn_tpl_run *r, enum lvn_tpl_operator op, const struct lvn_tpl_value *x,
                               const struct lvn_tpl_value *y, struct lvn_tpl_value *out)
{
    static const char *const names[] = {"+", "-", "*", "**", "/", "//", "%"};
    if (op == LVN_SIGN_TILDE) {
        struct lvn_tpl_output text = {0};
        LVN_TRY(lvn_tpl_add_str(r, &text, x));
        LVN_TRY(lvn_tpl_add_str(r, &text, y));
        *out = lvn_tpl_result(&text);
        return LVN_OK;
    }
    bool lists = x->kind == LVN_TPL_LIST && y->kind == LVN_TPL_LIST && x->form == y->form && x->form <= LVN_LIST_TUPLE;
    bool sequence = x->kind == LVN_TPL_STRING || (x->kind == LVN_TPL_LIST && x->form <= LVN_LIST_TUPLE);
    for (int i = 0; i < 2; i++) {
        const struct lvn_tpl_value *v = i ? y : x;
        if (v->kind == LVN_TPL_UNDEFINED)
            LVN_TPL_FAIL(r, FORMAT, "'%s' is undefined, and '%s' does not apply to it%s", v->p,
                         names[op - LVN_SIGN_ADD],
                         lvn_ends_with(v->p, "_token")
                             ? ": the tokenizer names no such token; its tokenizer_config.json can, as in "
                               "{\"eos_token\": \"</s>\"}"
                             : "");
    }
    if (is_number(x) && is_number(y)) return numbers(r, op, x, y, out);
    if (op == LVN_SIGN_ADD && x->kind == LVN_TPL_STRING && y->kind == LVN_TPL_STRING) return join_strings(r, x, y, out);
    if (op == LVN_SIGN_ADD && lists) return join_lists(r, x, y, out);
    if (op == LVN_SIGN_MUL && sequence && (y->kind == LVN_TPL_INT || y->kind == LVN_TPL_BOOL))
        return repeat(r, x, integer(y), out);
    if (op == LVN_SIGN_MOD && x->kind == LVN_TPL_STRING)
        LVN_TPL_FAIL(r, UNSUPPORTED, "the operator '%%' on a string is not supported");
    LVN_TPL_FAIL(r, FORMAT, "'%s' does not apply to values of types %s and %s", names[op - LVN_SIGN_ADD],
                 lvn_tpl_type(x), lvn_tpl_type(y));
}
