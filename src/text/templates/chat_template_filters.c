/* chat_template_filters.c - see chat_template_private.h: the filters of Jinja that published chat templates use. Where
 * the module of Jinja has a lazy result, so has this one (LVN_LIST_LAZY): such a list counts as true even if empty. */

#include "templates/chat_template_private.h"
#include "tokenizers/regex/regex.h"
#include "tokenizers/unicode/unicode.h"

static bool flag(const struct lvn_tpl_value *v, bool otherwise)
{
    return v ? lvn_tpl_true(v) : otherwise;
}

/* --- text --- */

static bool strips(const struct lvn_tpl_value *chars, const char *p, int64_t n, int *used)
{
    int32_t code = lvn_utf8_decode(p, n, used);
    if (!chars || chars->kind == LVN_TPL_NONE) return lvn_tpl_space(code);
    return memmem(chars->p, (size_t)chars->n, p, (size_t)*used) != NULL; /* UTF-8: never within another character */
}

LVN_TPL_FUNCTION(lvn_tpl_strip)
{
    const struct lvn_tpl_value *chars = a ? a[0] : NULL;
    int64_t from = 0, to = in->n;
    int used;
    if (chars && chars->kind != LVN_TPL_NONE && chars->kind != LVN_TPL_STRING)
        LVN_TPL_FAIL(r, FORMAT, "the characters to strip must be a string, not %s", lvn_tpl_type(chars));
    while (mode & LVN_STRIP_LEFT && from < to && strips(chars, in->p + from, to - from, &used)) from += used;
    while (mode & LVN_STRIP_RIGHT && to > from) {
        int64_t last = to - 1;
        while (last > from && (in->p[last] & 0xc0) == 0x80) last--;
        if (!strips(chars, in->p + last, to - last, &used)) break;
        to = last;
    }
    *out = lvn_tpl_part(in, from, to);
    return LVN_OK;
}

/* Is the character at i to be upper case? */
static bool is_upper_at(const struct lvn_tpl_value *s, int64_t i, int mode)
{
    if (mode == LVN_LOWER || mode == LVN_UPPER) return mode == LVN_UPPER;
    if (mode == LVN_CAPITALIZE || i == 0) return i == 0;
    unsigned char before = (unsigned char)s->p[i - 1];
    if (mode == LVN_TITLE_FILTER)
        return before && (strchr("-({[<", before) || lvn_tpl_space(before < 0x80 ? before : 'x'));
    bool letter = (before | 32) >= 'a' && (before | 32) <= 'z';
    return !letter && before < 0x80;
}

LVN_TPL_FUNCTION(lvn_tpl_change_case)
{
    struct lvn_tpl_output text = {0};
    for (int64_t i = 0; i < in->n;) {
        int used = 1, n = 1;
        char to[8] = {in->p[i]};
        bool upper = is_upper_at(in, i, mode);
        int mark = in->marks ? in->marks[i] : in->mark;
        if ((unsigned char)*to < 0x80) {
            if (upper ? *to >= 'a' && *to <= 'z' : *to >= 'A' && *to <= 'Z') *to ^= 32;
        } else {
            uint32_t low[2];
            int32_t code = lvn_utf8_decode(in->p + i, in->n - i, &used);
            enum lvn_category c = (enum lvn_category)(code < 0 ? 0 : lvn_char((uint32_t)code)->category);
            bool cased = c == LVN_CATEGORY_Lu || c == LVN_CATEGORY_Ll || c == LVN_CATEGORY_Lt;
            if (mode != LVN_LOWER && cased)
                LVN_TPL_FAIL(r, UNSUPPORTED, "upper case of the letter '%.*s' is not supported", used, in->p + i);
            int lows = code < 0 || mode != LVN_LOWER ? 0 : lvn_unicode_lower((uint32_t)code, low);
            memcpy(to, in->p + i, (size_t)(n = used));
            if (lows) n = lvn_utf8_encode((int32_t)low[0], to);
            if (lows > 1) n += lvn_utf8_encode((int32_t)low[1], to + n);
        }
        LVN_TRY(lvn_tpl_add_bytes(r, &text, to, n, mark));
        i += used;
    }
    *out = lvn_tpl_result(&text);
    out->form = in->form;
    return LVN_OK;
}

LVN_TPL_FUNCTION(lvn_tpl_replace)
{
    struct lvn_tpl_output text = {0};
    struct lvn_tpl_value from, to;
    int64_t left = a[2] && a[2]->kind == LVN_TPL_INT && a[2]->i >= 0 ? a[2]->i : INT64_MAX, at = 0;
    LVN_TRY(lvn_tpl_str(r, a[0], &from));
    LVN_TRY(lvn_tpl_str(r, a[1], &to));
    if (!from.n) LVN_TPL_FAIL(r, UNSUPPORTED, "replacing an empty string is not supported");
    for (int64_t found; left-- > 0 && (found = lvn_tpl_search(in, &from, at)) >= 0; at = found + from.n) {
        struct lvn_tpl_value part = lvn_tpl_part(in, at, found);
        LVN_TRY(lvn_tpl_work(r, 1));
        LVN_TRY(lvn_tpl_add(r, &text, &part));
        LVN_TRY(lvn_tpl_add(r, &text, &to));
    }
    struct lvn_tpl_value part = lvn_tpl_part(in, at, in->n);
    LVN_TRY(lvn_tpl_add(r, &text, &part));
    *out = at ? lvn_tpl_result(&text) : *in;
    return LVN_OK;
}

/* The replacement of a match, with \\1 to \\9 for its groups. */
static enum lvn_status add_replacement(struct lvn_tpl_run *r, struct lvn_tpl_output *o, const struct lvn_tpl_value *in,
                                       const struct lvn_tpl_value *to, const int64_t *place, int groups)
{
    for (int64_t i = 0, begin = 0; i <= to->n; i++) {
        if (i < to->n && to->p[i] != '\\') continue;
        struct lvn_tpl_value part = lvn_tpl_part(to, begin, i);
        LVN_TRY(lvn_tpl_add(r, o, &part));
        if (i == to->n) break;
        const int group = i + 1 < to->n ? to->p[i + 1] - '1' : -1;
        if (group < 0 || group >= groups)
            LVN_TPL_FAIL(r, UNSUPPORTED, "regex_replace: a backslash in '%.*s' must precede the number of a group",
                         (int)to->n, to->p);
        if (place[2 * group] >= 0) part = lvn_tpl_part(in, place[2 * group], place[2 * group + 1]);
        if (place[2 * group] >= 0) LVN_TRY(lvn_tpl_add(r, o, &part));
        begin = ++i + 1;
    }
    return LVN_OK;
}

/* As re.sub() of Python, for the expressions that tokenizers/regex/regex.h has. */
static LVN_TPL_FUNCTION(regex_replace)
{
    struct lvn_tpl_output text = {0};
    struct lvn_tpl_value pattern, to;
    struct lvn_regex *e;
    struct lvn_regex_scratch scratch = {0};
    int64_t left = a[2] && a[2]->kind == LVN_TPL_INT && a[2]->i > 0 ? a[2]->i : INT64_MAX, at = 0, begin, end;
    bool found = true;
    LVN_TRY(lvn_tpl_str(r, a[0], &pattern));
    LVN_TRY(lvn_tpl_str(r, a[1], &to));
    const char *expression = lvn_arena_printf(r->a, "%.*s", (int)pattern.n, pattern.p);
    if (!expression) return LVN_MEMORY;
    LVN_TRY(lvn_regex_new(&e, r->a, r->t->name, expression));
    enum lvn_status status = LVN_OK;
    for (int64_t last = -1; left-- > 0 && status == LVN_OK; at = last = end) {
        status = lvn_regex_find(e, &scratch, (const uint8_t *)in->p, in->n, last, &found, &begin, &end);
        if (status != LVN_OK || !found) break;
        struct lvn_tpl_value part = lvn_tpl_part(in, at, begin);
        status = lvn_tpl_work(r, 1);
        if (status == LVN_OK) status = lvn_tpl_add(r, &text, &part);
        if (status == LVN_OK) status = add_replacement(r, &text, in, &to, scratch.place, lvn_regex_groups(e));
    }
    lvn_regex_scratch_release(&scratch);
    LVN_TRY(status);
    struct lvn_tpl_value part = lvn_tpl_part(in, at, in->n);
    LVN_TRY(lvn_tpl_add(r, &text, &part));
    *out = lvn_tpl_result(&text);
    return LVN_OK;
}

static LVN_TPL_FUNCTION(string)
{
    return lvn_tpl_str(r, in, out);
}

static LVN_TPL_FUNCTION(safe)
{
    LVN_TRY(lvn_tpl_str(r, in, out));
    out->form = 1;
    return LVN_OK;
}

static LVN_TPL_FUNCTION(escape)
{
    return lvn_tpl_escape(r, in, out);
}

static LVN_TPL_FUNCTION(indent)
{
    struct lvn_tpl_output text = {0}, by = {0};
    int64_t width = a[0] && a[0]->kind == LVN_TPL_INT ? a[0]->i : 4;
    if (in->kind != LVN_TPL_STRING) LVN_TPL_FAIL(r, FORMAT, "'indent' needs a string, not %s", lvn_tpl_type(in));
    for (int64_t i = 0; i < width; i++) LVN_TRY(lvn_tpl_add_bytes(r, &by, " ", 1, 0));
    struct lvn_tpl_value space = a[0] && a[0]->kind == LVN_TPL_STRING ? *a[0] : lvn_tpl_result(&by);
    for (int64_t at = 0, end; at <= in->n; at = end + 1) {
        const char *newline = memchr(in->p + at, '\n', (size_t)(in->n - at));
        end = newline ? newline - in->p : in->n;
        bool indents = at ? end > at || flag(a[2], false) : flag(a[1], false);
        struct lvn_tpl_value line = lvn_tpl_part(in, at, end);
        if (at) LVN_TRY(lvn_tpl_add_bytes(r, &text, "\n", 1, in->marks ? in->marks[at - 1] : in->mark));
        if (indents) LVN_TRY(lvn_tpl_add(r, &text, &space));
        LVN_TRY(lvn_tpl_add(r, &text, &line));
    }
    *out = lvn_tpl_result(&text);
    return LVN_OK;
}

static LVN_TPL_FUNCTION(join)
{
    struct lvn_tpl_output text = {0};
    struct lvn_tpl_value list, one;
    LVN_TRY(lvn_tpl_iterate(r, in, &list));
    for (int64_t i = 0; i < list.n; i++) {
        one = list.items[i];
        if (a[1]) LVN_TRY(lvn_tpl_item(r, &list.items[i], a[1], &one));
        if (i && a[0]) LVN_TRY(lvn_tpl_add_str(r, &text, a[0]));
        LVN_TRY(lvn_tpl_add_str(r, &text, &one));
    }
    *out = lvn_tpl_result(&text);
    return LVN_OK;
}

/* --- any value --- */

static LVN_TPL_FUNCTION(length)
{
    int64_t n;
    LVN_TRY(lvn_tpl_length(r, in, &n));
    *out = lvn_tpl_int(n);
    return LVN_OK;
}

static LVN_TPL_FUNCTION(or_default)
{
    bool missing = in->kind == LVN_TPL_UNDEFINED || (flag(a[1], false) && !lvn_tpl_true(in));
    *out = !missing ? *in : a[0] ? *a[0] : lvn_tpl_text("", 0);
    return LVN_OK;
}

static LVN_TPL_FUNCTION(tojson)
{
    struct lvn_tpl_output text = {0}, by = {0};
    struct lvn_tpl_json form = {.ascii = flag(a[0], false), .sort = flag(a[3], false), .indent = lvn_tpl_none()};
    bool indented = a[1] && a[1]->kind != LVN_TPL_NONE;
    form.item = indented ? lvn_tpl_text(",", 1) : lvn_tpl_text(", ", 2);
    form.key = lvn_tpl_text(": ", 2);
    if (indented && a[1]->kind != LVN_TPL_STRING && a[1]->kind != LVN_TPL_INT)
        LVN_TPL_FAIL(r, FORMAT, "tojson: indent must be a number or a string, not %s", lvn_tpl_type(a[1]));
    for (int64_t i = 0; indented && a[1]->kind == LVN_TPL_INT && i < a[1]->i; i++)
        LVN_TRY(lvn_tpl_add_bytes(r, &by, " ", 1, 0));
    if (indented) form.indent = a[1]->kind == LVN_TPL_STRING ? *a[1] : lvn_tpl_result(&by);
    if (a[2] && a[2]->kind != LVN_TPL_NONE) {
        if (a[2]->kind != LVN_TPL_LIST || a[2]->n != 2 || a[2]->items[0].kind != LVN_TPL_STRING ||
            a[2]->items[1].kind != LVN_TPL_STRING)
            LVN_TPL_FAIL(r, FORMAT, "tojson: separators must be two strings");
        form.item = a[2]->items[0];
        form.key = a[2]->items[1];
    }
    form.item.mark = form.key.mark = LVN_MARK_CONTENT;
    LVN_TRY(lvn_tpl_add_json(r, &text, in, &form, 0));
    *out = lvn_tpl_result(&text);
    return LVN_OK;
}

/* The number that a string begins with and ends with, as int() of Python in base 10. */
static bool whole_number(const struct lvn_tpl_value *s, int64_t *out)
{
    char digits[24], *end;
    struct lvn_tpl_value v;
    if (lvn_tpl_strip(NULL, s, NULL, LVN_STRIP, &v) != LVN_OK || v.n < 1 || v.n > 18) return false;
    memcpy(digits, v.p, (size_t)v.n);
    digits[v.n] = 0;
    *out = strtoll(digits, &end, 10);
    return !*end;
}

static bool real_number(const struct lvn_tpl_value *s, double *out)
{
    char digits[64], *end;
    struct lvn_tpl_value v;
    if (lvn_tpl_strip(NULL, s, NULL, LVN_STRIP, &v) != LVN_OK || v.n < 1 || v.n > 60) return false;
    memcpy(digits, v.p, (size_t)v.n);
    digits[v.n] = 0;
    if (digits[strspn(digits, "+-.0123456789eE")]) return false;
    *out = strtod(digits, &end);
    return !*end;
}

static LVN_TPL_FUNCTION(to_int)
{
    int64_t i;
    double f;
    *out = a[0] ? *a[0] : lvn_tpl_int(0);
    if (in->kind == LVN_TPL_UNDEFINED) LVN_TPL_FAIL(r, FORMAT, "'%s' is undefined and no number", in->p);
    if (in->kind == LVN_TPL_INT || in->kind == LVN_TPL_BOOL)
        *out = lvn_tpl_int(in->kind == LVN_TPL_INT ? in->i : in->b);
    if (in->kind == LVN_TPL_STRING && whole_number(in, &i))
        *out = lvn_tpl_int(i);
    else if (in->kind == LVN_TPL_FLOAT || (in->kind == LVN_TPL_STRING && real_number(in, &f))) {
        if (in->kind == LVN_TPL_FLOAT) f = in->f;
        if (fabs(f) < 9e18) *out = lvn_tpl_int((int64_t)f);
    }
    return LVN_OK;
}

static LVN_TPL_FUNCTION(to_float)
{
    double f = 0;
    *out = a[0] ? *a[0] : (struct lvn_tpl_value){.kind = LVN_TPL_FLOAT};
    if (in->kind == LVN_TPL_UNDEFINED) LVN_TPL_FAIL(r, FORMAT, "'%s' is undefined and no number", in->p);
    if (in->kind == LVN_TPL_FLOAT) f = in->f;
    if (in->kind == LVN_TPL_INT) f = (double)in->i;
    if (in->kind == LVN_TPL_BOOL) f = in->b;
    bool number = in->kind >= LVN_TPL_BOOL && in->kind <= LVN_TPL_FLOAT;
    if (number || (in->kind == LVN_TPL_STRING && real_number(in, &f)))
        *out = (struct lvn_tpl_value){.kind = LVN_TPL_FLOAT, .f = f};
    return LVN_OK;
}

static LVN_TPL_FUNCTION(absolute)
{
    if (in->kind != LVN_TPL_INT && in->kind != LVN_TPL_FLOAT)
        LVN_TPL_FAIL(r, FORMAT, "'abs' needs a number, not %s", lvn_tpl_type(in));
    *out = *in;
    if (in->kind == LVN_TPL_INT && in->i < 0 && in->i != INT64_MIN) out->i = -in->i;
    if (in->kind == LVN_TPL_FLOAT) out->f = fabs(in->f);
    return LVN_OK;
}

/* --- lists --- */

enum { FIRST, LAST };
static LVN_TPL_FUNCTION(end_of)
{
    struct lvn_tpl_value list;
    LVN_TRY(lvn_tpl_iterate(r, in, &list));
    if (mode == LAST && in->kind == LVN_TPL_LIST && in->form == LVN_LIST_LAZY)
        LVN_TPL_FAIL(r, FORMAT, "'last' needs a list, not a generator; add the filter 'list'");
    *out = list.n ? list.items[mode == LAST ? list.n - 1 : 0] : lvn_tpl_undefined("an element of an empty list");
    return LVN_OK;
}

static LVN_TPL_FUNCTION(list)
{
    LVN_TRY(lvn_tpl_iterate(r, in, out));
    out->form = LVN_LIST;
    return LVN_OK;
}

static LVN_TPL_FUNCTION(reverse)
{
    struct lvn_tpl_value items, *to;
    struct lvn_tpl_output text = {0};
    LVN_TRY(lvn_tpl_iterate(r, in, &items));
    if (!(to = lvn_tpl_alloc(r, (items.n + 1) * (int64_t)sizeof *to))) return LVN_MEMORY;
    for (int64_t i = 0; i < items.n; i++) to[i] = items.items[items.n - 1 - i];
    *out = lvn_tpl_list(to, items.n, LVN_LIST_LAZY);
    if (in->kind != LVN_TPL_STRING) return LVN_OK;
    for (int64_t i = 0; i < items.n; i++) LVN_TRY(lvn_tpl_add(r, &text, &to[i]));
    *out = lvn_tpl_result(&text);
    return LVN_OK;
}

static LVN_TPL_FUNCTION(sum)
{
    struct lvn_tpl_value items, one;
    LVN_TRY(lvn_tpl_iterate(r, in, &items));
    *out = a[1] ? *a[1] : lvn_tpl_int(0);
    for (int64_t i = 0; i < items.n; i++) {
        struct lvn_tpl_value before = *out;
        one = items.items[i];
        if (a[0] && a[0]->kind != LVN_TPL_NONE) LVN_TRY(lvn_tpl_item(r, &items.items[i], a[0], &one));
        LVN_TRY(lvn_tpl_binary(r, LVN_SIGN_ADD, &before, &one, out));
    }
    return LVN_OK;
}

/* The list as (key, value) tuples. */
enum lvn_status lvn_tpl_items_of(struct lvn_tpl_run *r, const struct lvn_tpl_value *in, enum lvn_tpl_list form,
                                 struct lvn_tpl_value *out)
{
    int64_t n = in->kind == LVN_TPL_DICT ? in->dict->n : 0;
    struct lvn_tpl_value *pairs = lvn_tpl_alloc(r, (3 * n + 1) * (int64_t)sizeof *pairs);
    if (!pairs) return LVN_MEMORY;
    for (int64_t i = 0; i < n; i++) {
        struct lvn_tpl_value *pair = pairs + n + 2 * i;
        pair[0] = in->dict->e[i].key;
        pair[1] = in->dict->e[i].value;
        pairs[i] = lvn_tpl_list(pair, 2, LVN_LIST_TUPLE);
    }
    *out = lvn_tpl_list(pairs, n, form);
    return LVN_OK;
}

static LVN_TPL_FUNCTION(items)
{
    if (in->kind != LVN_TPL_DICT && in->kind != LVN_TPL_UNDEFINED)
        LVN_TPL_FAIL(r, FORMAT, "'items' needs a dictionary, not %s", lvn_tpl_type(in));
    return lvn_tpl_items_of(r, in, LVN_LIST_LAZY, out);
}

/* A stable merge sort of `n` elements by keys; to: room for n elements. */
static enum lvn_status merge_sort(struct lvn_tpl_run *r, struct lvn_tpl_value *v, struct lvn_tpl_value *key,
                                  struct lvn_tpl_value *spare, int64_t n, bool reverse)
{
    for (int64_t width = 1; width < n; width *= 2) {
        int64_t made = 0;
        for (int64_t begin = 0; begin < n; begin += 2 * width) {
            int64_t i = begin, middle = begin + width < n ? begin + width : n, j = middle;
            int64_t end = middle + width < n ? middle + width : n;
            while (i < middle || j < end) {
                int sign = 0;
                LVN_TRY(lvn_tpl_work(r, 1));
                if (i < middle && j < end) LVN_TRY(lvn_tpl_compare(r, &key[i], &key[j], &sign));
                bool right = i == middle || (j < end && (reverse ? sign < 0 : sign > 0));
                int64_t from = right ? j++ : i++;
                spare[made] = v[from];
                spare[n + made++] = key[from];
            }
        }
        memcpy(v, spare, (size_t)n * sizeof *v);
        memcpy(key, spare + n, (size_t)n * sizeof *key);
    }
    return LVN_OK;
}

/* Sort a copy of the list by an attribute (NULL: by the elements), letters without case unless case_sensitive. */
static enum lvn_status sort_by(struct lvn_tpl_run *r, const struct lvn_tpl_value *in,
                               const struct lvn_tpl_value *attribute, bool case_sensitive, bool reverse,
                               struct lvn_tpl_value *out)
{
    struct lvn_tpl_value items, *v;
    LVN_TRY(lvn_tpl_iterate(r, in, &items));
    if (!(v = lvn_tpl_alloc(r, (4 * items.n + 1) * (int64_t)sizeof *v))) return LVN_MEMORY;
    struct lvn_tpl_value *key = v + items.n;
    for (int64_t i = 0; i < items.n; i++) {
        v[i] = key[i] = items.items[i];
        if (attribute) LVN_TRY(lvn_tpl_item(r, &v[i], attribute, &key[i]));
        if (!case_sensitive && key[i].kind == LVN_TPL_STRING)
            LVN_TRY(lvn_tpl_change_case(r, &key[i], NULL, LVN_LOWER, &key[i]));
    }
    LVN_TRY(merge_sort(r, v, key, key + items.n, items.n, reverse));
    *out = lvn_tpl_list(v, items.n, LVN_LIST);
    return LVN_OK;
}

static LVN_TPL_FUNCTION(dictsort)
{
    struct lvn_tpl_value pairs, by = lvn_tpl_int(a[1] && lvn_tpl_is(a[1], "value"));
    if (in->kind != LVN_TPL_DICT) LVN_TPL_FAIL(r, FORMAT, "'dictsort' needs a dictionary, not %s", lvn_tpl_type(in));
    LVN_TRY(lvn_tpl_items_of(r, in, LVN_LIST, &pairs));
    return sort_by(r, &pairs, &by, flag(a[0], false), flag(a[2], false), out);
}

static LVN_TPL_FUNCTION(sort)
{
    return sort_by(r, in, a[2] && a[2]->kind != LVN_TPL_NONE ? a[2] : NULL, flag(a[1], false), flag(a[0], false), out);
}

static LVN_TPL_FUNCTION(unique)
{
    struct lvn_tpl_value items, *kept;
    int64_t n = 0;
    LVN_TRY(lvn_tpl_iterate(r, in, &items));
    if (!(kept = lvn_tpl_alloc(r, (2 * items.n + 1) * (int64_t)sizeof *kept))) return LVN_MEMORY;
    struct lvn_tpl_value *key = kept + items.n;
    for (int64_t i = 0; i < items.n; i++) {
        bool seen = false;
        key[n] = items.items[i];
        if (a[1]) LVN_TRY(lvn_tpl_item(r, &items.items[i], a[1], &key[n]));
        if (!flag(a[0], false) && key[n].kind == LVN_TPL_STRING)
            LVN_TRY(lvn_tpl_change_case(r, &key[n], NULL, LVN_LOWER, &key[n]));
        LVN_TRY(lvn_tpl_work(r, n));
        for (int64_t k = 0; k < n && !seen; k++) seen = lvn_tpl_equal(&key[k], &key[n]);
        if (!seen) kept[n++] = items.items[i];
    }
    *out = lvn_tpl_list(kept, n, LVN_LIST_LAZY);
    return LVN_OK;
}

enum { LEAST, GREATEST };
static LVN_TPL_FUNCTION(extreme)
{
    struct lvn_tpl_value sorted;
    LVN_TRY(sort_by(r, in, a[1], flag(a[0], false), mode == GREATEST, &sorted));
    *out = sorted.n ? sorted.items[0] : lvn_tpl_undefined("an element of an empty list");
    return LVN_OK;
}
static const struct lvn_tpl_builtin filters[] = {
    {"abs", "", 0, false, absolute, 0},
    {"capitalize", "", 0, true, lvn_tpl_change_case, LVN_CAPITALIZE},
    {"count", "", 0, false, length, 0},
    {"d", "default_value,boolean", 0, false, or_default, 0},
    {"default", "default_value,boolean", 0, false, or_default, 0},
    {"dictsort", "case_sensitive,by,reverse", 0, false, dictsort, 0},
    {"e", "", 0, false, escape, 0},
    {"escape", "", 0, false, escape, 0},
    {"first", "", 0, false, end_of, FIRST},
    {"float", "default", 0, false, to_float, 0},
    {"indent", "width,first,blank", 0, false, indent, 0},
    {"int", "default", 0, false, to_int, 0},
    {"items", "", 0, false, items, 0},
    {"join", "d,attribute", 0, false, join, 0},
    {"last", "", 0, false, end_of, LAST},
    {"length", "", 0, false, length, 0},
    {"list", "", 0, false, list, 0},
    {"lower", "", 0, true, lvn_tpl_change_case, LVN_LOWER},
    {"max", "case_sensitive,attribute", 0, false, extreme, GREATEST},
    {"min", "case_sensitive,attribute", 0, false, extreme, LEAST},
    {"replace", "old,new,count", 2, true, lvn_tpl_replace, 0},
    {"reverse", "", 0, false, reverse, 0},
    {"safe", "", 0, false, safe, 0},
    {"sort", "reverse,case_sensitive,attribute", 0, false, sort, 0},
    {"string", "", 0, false, string, 0},
    {"sum", "attribute,start", 0, false, sum, 0},
    {"title", "", 0, true, lvn_tpl_change_case, LVN_TITLE_FILTER},
    {"tojson", "ensure_ascii,indent,separators,sort_keys", 0, false, tojson, 0},
    {"trim", "chars", 0, true, lvn_tpl_strip, LVN_STRIP},
    {"unique", "case_sensitive,attribute", 0, false, unique, 0},
    {"upper", "", 0, true, lvn_tpl_change_case, LVN_UPPER},
};

const struct lvn_tpl_builtin *lvn_tpl_filter(const char *name, int64_t n)
{
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++)
        if ((int64_t)strlen(filters[i].name) == n && memcmp(filters[i].name, name, (size_t)n) == 0) return &filters[i];
    return NULL;
}

const struct lvn_tpl_builtin *lvn_tpl_strict_filter(const char *name, int64_t n)
{
    static const struct lvn_tpl_builtin row = {"regex_replace", "pattern,repl,count", 2, true, regex_replace, 0};
    return (int64_t)strlen(row.name) == n && memcmp(row.name, name, (size_t)n) == 0 ? &row : NULL;
}

/* --- map, select, reject, selectattr, rejectattr --- */

static const char *const mapping[] = {"map", "select", "reject", "selectattr", "rejectattr"};

bool lvn_tpl_is_mapping_filter(const char *name, int64_t n)
{
    for (size_t i = 0; i < sizeof mapping / sizeof *mapping; i++)
        if ((int64_t)strlen(mapping[i]) == n && memcmp(mapping[i], name, (size_t)n) == 0) return true;
    return false;
}

/* An element by a path such as "function.name". */
static enum lvn_status by_path(struct lvn_tpl_run *r, const struct lvn_tpl_value *in, const struct lvn_tpl_value *path,
                               struct lvn_tpl_value *out)
{
    *out = *in;
    if (path->kind != LVN_TPL_STRING) return lvn_tpl_item(r, in, path, out);
    for (int64_t at = 0, end; at <= path->n; at = end + 1) {
        const char *dot = memchr(path->p + at, '.', (size_t)(path->n - at));
        end = dot ? dot - path->p : path->n;
        struct lvn_tpl_value key = lvn_tpl_part(path, at, end), from = *out;
        LVN_TRY(lvn_tpl_item(r, &from, &key, out));
    }
    return LVN_OK;
}

static enum lvn_status map_values(struct lvn_tpl_run *r, const struct lvn_tpl_args *args,
                                  const struct lvn_tpl_value *list, struct lvn_tpl_value *to)
{
    bool attribute = args->n && args->keyword[0] && !strcmp(args->keyword[0], "attribute");
    bool has_default = args->n == 2 && args->keyword[1] && !strcmp(args->keyword[1], "default");
    bool named = args->n && !args->keyword[0] && args->v[0].kind == LVN_TPL_STRING;
    const struct lvn_tpl_builtin *filter = named ? lvn_tpl_filter(args->v[0].p, args->v[0].n) : NULL;
    if (attribute ? args->n > 1 && !has_default : !filter)
        LVN_TPL_FAIL(r, UNSUPPORTED, "'map' supports only attribute=NAME, and the names of supported filters");
    struct lvn_tpl_args rest = {.n = 0};
    for (int i = 1; filter && i < args->n; i++) {
        rest.keyword[rest.n] = args->keyword[i];
        rest.v[rest.n++] = args->v[i];
    }
    for (int64_t i = 0; i < list->n; i++) {
        if (filter) {
            LVN_TRY(lvn_tpl_apply(r, filter, &list->items[i], &rest, &to[i]));
            continue;
        }
        LVN_TRY(by_path(r, &list->items[i], &args->v[0], &to[i]));
        if (has_default && to[i].kind == LVN_TPL_UNDEFINED) to[i] = args->v[1];
    }
    return LVN_OK;
}

enum lvn_status lvn_tpl_map(struct lvn_tpl_run *r, const char *name, const struct lvn_tpl_value *in,
                            const struct lvn_tpl_args *args, struct lvn_tpl_value *out)
{
    struct lvn_tpl_value list, *to;
    bool by_attribute = strstr(name, "attr") != NULL, selects = *name == 's';
    *out = lvn_tpl_list(NULL, 0, LVN_LIST_LAZY);
    if (!lvn_tpl_true(in)) return LVN_OK; /* none, too */
    LVN_TRY(lvn_tpl_iterate(r, in, &list));
    if (!(to = lvn_tpl_alloc(r, (list.n + 1) * (int64_t)sizeof *to))) return LVN_MEMORY;
    if (*name == 'm') {
        LVN_TRY(map_values(r, args, &list, to));
        *out = lvn_tpl_list(to, list.n, LVN_LIST_LAZY);
        return LVN_OK;
    }
    int at = by_attribute;
    const struct lvn_tpl_builtin *test = NULL;
    if (args->n > at && args->v[at].kind == LVN_TPL_STRING) test = lvn_tpl_test(args->v[at].p, args->v[at].n);
    if (args->n > at && args->v[at].kind == LVN_TPL_STRING && lvn_tpl_is(&args->v[at], "=="))
        test = lvn_tpl_test("eq", 2);
    if ((by_attribute && !args->n) || (args->n > at && !test))
        LVN_TPL_FAIL(r, UNSUPPORTED, "'%s' supports only the names of supported tests", name);
    struct lvn_tpl_args rest = {.n = 0};
    for (int i = at + 1; i < args->n; i++) rest.v[rest.n++] = args->v[i];
    int64_t n = 0;
    for (int64_t i = 0; i < list.n; i++) {
        struct lvn_tpl_value v = list.items[i], is;
        if (by_attribute) LVN_TRY(by_path(r, &list.items[i], &args->v[0], &v));
        is = v;
        if (test) LVN_TRY(lvn_tpl_apply(r, test, &v, &rest, &is));
        if (lvn_tpl_true(&is) == selects) to[n++] = list.items[i];
    }
    *out = lvn_tpl_list(to, n, LVN_LIST_LAZY);
    return LVN_OK;
}
