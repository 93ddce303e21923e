/* chat_template_methods.c - see chat_template_private.h: the methods of strings, dictionaries and lists, as Python's.
 * Methods that change a value are refused, as in the sandbox of transformers. */
#include "templates/chat_template_private.h"
#include "tokenizers/unicode/unicode.h"

static enum lvn_status need_string(struct lvn_tpl_run *r, const struct lvn_tpl_value *v, const char *name)
{
    if (v->kind != LVN_TPL_STRING) LVN_TPL_FAIL(r, FORMAT, "'%s' needs a string, not %s", name, lvn_tpl_type(v));
    return LVN_OK;
}

/* --- strings --- */

struct pieces {
    struct lvn_tpl_run *r;
    struct lvn_tpl_value *p;
    int64_t n, capacity;
};

static enum lvn_status add_piece(struct pieces *l, const struct lvn_tpl_value *s, int64_t from, int64_t to)
{
    LVN_TRY(lvn_tpl_reserve(l->r, &l->p, l->n, &l->capacity, sizeof *l->p));
    LVN_TRY(lvn_tpl_work(l->r, 1));
    l->p[l->n++] = lvn_tpl_part(s, from, to);
    return LVN_OK;
}

static int64_t skip_spaces(const struct lvn_tpl_value *s, int64_t i, bool spaces)
{
    for (int used; i < s->n; i += used)
        if (lvn_tpl_space(lvn_utf8_decode(s->p + i, s->n - i, &used)) != spaces) break;
    return i;
}

static enum lvn_status split_words(struct pieces *l, const struct lvn_tpl_value *s, int64_t most)
{
    for (int64_t i = skip_spaces(s, 0, true); i < s->n;) {
        int64_t end = skip_spaces(s, i, false);
        if (l->n == most) end = s->n;
        LVN_TRY(add_piece(l, s, i, end));
        i = l->n > most ? s->n : skip_spaces(s, end, true);
    }
    return LVN_OK;
}

static int64_t search_last(const struct lvn_tpl_value *s, const struct lvn_tpl_value *part, int64_t end)
{
    for (int64_t i = end - part->n; i >= 0; i--)
        if (memcmp(s->p + i, part->p, (size_t)part->n) == 0) return i;
    return -1;
}

enum { LEFT, RIGHT }; /* modes of functions for one end of a string */

static LVN_TPL_FUNCTION(split)
{
    struct pieces l = {.r = r};
    int64_t most = a[1] && a[1]->kind == LVN_TPL_INT && a[1]->i >= 0 ? a[1]->i : INT64_MAX, found, at = 0, end = in->n;
    bool words = !a[0] || a[0]->kind == LVN_TPL_NONE;
    if (words && mode == RIGHT && most < INT64_MAX) LVN_TPL_FAIL(r, UNSUPPORTED, "rsplit() by words is not supported");
    if (!words) LVN_TRY(need_string(r, a[0], "split"));
    if (!words && !a[0]->n) LVN_TPL_FAIL(r, FORMAT, "split() by an empty string");
    if (words) LVN_TRY(split_words(&l, in, most));
    if (!words && mode == LEFT) {
        for (; l.n < most && (found = lvn_tpl_search(in, a[0], at)) >= 0; at = found + a[0]->n)
            LVN_TRY(add_piece(&l, in, at, found));
        LVN_TRY(add_piece(&l, in, at, in->n));
    }
    if (!words && mode == RIGHT) {
        for (; l.n < most && (found = search_last(in, a[0], end)) >= 0; end = found)
            LVN_TRY(add_piece(&l, in, found + a[0]->n, end));
        LVN_TRY(add_piece(&l, in, 0, end));
        for (int64_t i = 0; i < l.n / 2; i++) {
            struct lvn_tpl_value swapped = l.p[i];
            l.p[i] = l.p[l.n - 1 - i];
            l.p[l.n - 1 - i] = swapped;
        }
    }
    *out = lvn_tpl_list(l.p, l.n, LVN_LIST);
    return LVN_OK;
}

static LVN_TPL_FUNCTION(splitlines)
{
    struct pieces l = {.r = r};
    bool keep = a[0] && lvn_tpl_true(a[0]);
    int64_t begin = 0;
    for (int64_t i = 0; i < in->n;) {
        int used;
        int32_t c = lvn_utf8_decode(in->p + i, in->n - i, &used);
        int64_t end = i;
        i += used;
        if (!((c >= 10 && c <= 13) || (c >= 28 && c <= 30) || c == 0x85 || c == 0x2028 || c == 0x2029)) continue;
        if (c == '\r' && i < in->n && in->p[i] == '\n') i++;
        LVN_TRY(add_piece(&l, in, begin, keep ? i : end));
        begin = i;
    }
    if (begin < in->n) LVN_TRY(add_piece(&l, in, begin, in->n));
    *out = lvn_tpl_list(l.p, l.n, LVN_LIST);
    return LVN_OK;
}

static LVN_TPL_FUNCTION(has_end)
{
    const struct lvn_tpl_value *part = a[0];
    const struct lvn_tpl_value *all = part->kind == LVN_TPL_LIST && part->form == LVN_LIST_TUPLE ? part->items : part;
    int64_t n = all == part ? 1 : part->n;
    bool is = false;
    for (int64_t i = 0; i < n; i++) {
        LVN_TRY(need_string(r, &all[i], mode == LEFT ? "startswith" : "endswith"));
        is = is || (all[i].n <= in->n &&
                    (!all[i].n || !memcmp(in->p + (mode == LEFT ? 0 : in->n - all[i].n), all[i].p, (size_t)all[i].n)));
    }
    *out = lvn_tpl_bool(is);
    return LVN_OK;
}

static LVN_TPL_FUNCTION(remove_end)
{
    struct lvn_tpl_value has;
    LVN_TRY(need_string(r, a[0], mode == LEFT ? "removeprefix" : "removesuffix"));
    LVN_TRY(has_end(r, in, a, mode, &has));
    int64_t n = has.b ? a[0]->n : 0;
    *out = mode == LEFT ? lvn_tpl_part(in, n, in->n) : lvn_tpl_part(in, 0, in->n - n);
    return LVN_OK;
}

static int64_t characters_before(const struct lvn_tpl_value *s, int64_t byte)
{
    int64_t n = 0;
    for (int64_t i = 0; i < byte; i++) n += (s->p[i] & 0xc0) != 0x80;
    return n;
}
static LVN_TPL_FUNCTION(find)
{
    LVN_TRY(need_string(r, a[0], mode == LEFT ? "find" : "rfind"));
    int64_t at = mode == LEFT ? lvn_tpl_search(in, a[0], 0) : search_last(in, a[0], in->n);
    *out = lvn_tpl_int(at < 0 ? -1 : characters_before(in, at));
    return LVN_OK;
}
static LVN_TPL_FUNCTION(count)
{
    int64_t n = 0;
    LVN_TRY(need_string(r, a[0], "count"));
    if (!a[0]->n) LVN_TPL_FAIL(r, UNSUPPORTED, "count() of an empty string is not supported");
    for (int64_t at = 0; (at = lvn_tpl_search(in, a[0], at)) >= 0; at += a[0]->n) n++;
    *out = lvn_tpl_int(n);
    return LVN_OK;
}

static LVN_TPL_FUNCTION(join)
{
    struct lvn_tpl_output text = {0};
    struct lvn_tpl_value list;
    LVN_TRY(lvn_tpl_iterate(r, a[0], &list));
    for (int64_t i = 0; i < list.n; i++) {
        LVN_TRY(need_string(r, &list.items[i], "join"));
        if (i) LVN_TRY(lvn_tpl_add(r, &text, in));
        LVN_TRY(lvn_tpl_add(r, &text, &list.items[i]));
    }
    *out = lvn_tpl_result(&text);
    return LVN_OK;
}

/* Only the places {} and {0}, without a format. */
static LVN_TPL_FUNCTION(format)
{
    struct lvn_tpl_output text = {0};
    int next = 0;
    for (int64_t i = 0, end; i < in->n; i = end) {
        end = i + 1;
        bool open = in->p[i] == '{', twice = end < in->n && in->p[end] == in->p[i];
        struct lvn_tpl_value part = lvn_tpl_part(in, i, end);
        if ((open || in->p[i] == '}') && twice) end++;
        if (!open || twice) {
            if (in->p[i] == '}' && !twice) LVN_TPL_FAIL(r, FORMAT, "format(): a single '}'");
            LVN_TRY(lvn_tpl_add(r, &text, &part));
            continue;
        }
        int which = end < in->n && in->p[end] >= '0' && in->p[end] <= '3' ? in->p[end++] - '0' : next++;
        if (end >= in->n || in->p[end] != '}' || which >= LVN_TPL_PARAMETERS || !a[which])
            LVN_TPL_FAIL(r, UNSUPPORTED, "format() supports only {} and {0} with up to %d arguments",
                         LVN_TPL_PARAMETERS);
        end++;
        LVN_TRY(lvn_tpl_add_str(r, &text, a[which]));
    }
    *out = lvn_tpl_result(&text);
    return LVN_OK;
}

/* mode: general categories of which all characters must be; 0: they must be white space. */
static LVN_TPL_FUNCTION(all_are)
{
    bool is = in->n > 0;
    for (int64_t i = 0; i < in->n && is;) {
        int used;
        int32_t code = lvn_utf8_decode(in->p + i, in->n - i, &used);
        is = code >= 0 && (mode ? mode >> lvn_char((uint32_t)code)->category & 1 : lvn_tpl_space(code));
        i += used;
    }
    *out = lvn_tpl_bool(is);
    return LVN_OK;
}
enum {
    LETTERS = 1 << LVN_CATEGORY_Lu | 1 << LVN_CATEGORY_Ll | 1 << LVN_CATEGORY_Lt | 1 << LVN_CATEGORY_Lm |
              1 << LVN_CATEGORY_Lo,
    DIGITS = 1 << LVN_CATEGORY_Nd,
};

/* --- dictionaries and lists --- */

static LVN_TPL_FUNCTION(get)
{
    const struct lvn_tpl_value *found = lvn_tpl_find(in->dict, a[0]);
    *out = found ? *found : a[1] ? *a[1] : lvn_tpl_none();
    return LVN_OK;
}
static LVN_TPL_FUNCTION(items)
{
    return lvn_tpl_items_of(r, in, LVN_LIST_VIEW, out);
}
static LVN_TPL_FUNCTION(keys)
{
    LVN_TRY(lvn_tpl_iterate(r, in, out));
    out->form = LVN_LIST_VIEW;
    return LVN_OK;
}
static LVN_TPL_FUNCTION(values)
{
    struct lvn_tpl_value *to = lvn_tpl_alloc(r, (in->dict->n + 1) * (int64_t)sizeof *to);
    if (!to) return LVN_MEMORY;
    for (int64_t i = 0; i < in->dict->n; i++) to[i] = in->dict->e[i].value;
    *out = lvn_tpl_list(to, in->dict->n, LVN_LIST_VIEW);
    return LVN_OK;
}
static LVN_TPL_FUNCTION(copy)
{
    *out = *in; /* values do not change */
    return LVN_OK;
}
static LVN_TPL_FUNCTION(index_of)
{
    for (int64_t i = 0; i < in->n; i++)
        if (lvn_tpl_equal(&in->items[i], a[0])) {
            *out = lvn_tpl_int(i);
            return LVN_OK;
        }
    LVN_TPL_FAIL(r, FORMAT, "index(): the list has no such element");
}
static LVN_TPL_FUNCTION(count_equal)
{
    int64_t n = 0;
    for (int64_t i = 0; i < in->n; i++) n += lvn_tpl_equal(&in->items[i], a[0]);
    *out = lvn_tpl_int(n);
    return LVN_OK;
}

static const struct lvn_tpl_builtin of_string[] = {
    {"strip", "chars", 0, false, lvn_tpl_strip, LVN_STRIP},
    {"lstrip", "chars", 0, false, lvn_tpl_strip, LVN_STRIP_LEFT},
    {"rstrip", "chars", 0, false, lvn_tpl_strip, LVN_STRIP_RIGHT},
    {"split", "sep,maxsplit", 0, false, split, LEFT},
    {"rsplit", "sep,maxsplit", 0, false, split, RIGHT},
    {"splitlines", "keepends", 0, false, splitlines, 0},
    {"startswith", "prefix", 1, false, has_end, LEFT},
    {"endswith", "suffix", 1, false, has_end, RIGHT},
    {"removeprefix", "prefix", 1, false, remove_end, LEFT},
    {"removesuffix", "suffix", 1, false, remove_end, RIGHT},
    {"replace", "old,new,count", 2, false, lvn_tpl_replace, 0},
    {"lower", "", 0, false, lvn_tpl_change_case, LVN_LOWER},
    {"upper", "", 0, false, lvn_tpl_change_case, LVN_UPPER},
    {"capitalize", "", 0, false, lvn_tpl_change_case, LVN_CAPITALIZE},
    {"title", "", 0, false, lvn_tpl_change_case, LVN_TITLE_METHOD},
    {"find", "sub", 1, false, find, LEFT},
    {"rfind", "sub", 1, false, find, RIGHT},
    {"count", "sub", 1, false, count, 0},
    {"join", "iterable", 1, false, join, 0},
    {"format", "0,1,2,3", 0, false, format, 0},
    {"isalpha", "", 0, false, all_are, LETTERS},
    {"isdigit", "", 0, false, all_are, DIGITS},
    {"isalnum", "", 0, false, all_are, LETTERS | DIGITS},
    {"isspace", "", 0, false, all_are, 0},
};
static const struct lvn_tpl_builtin of_dict[] = {
    {"get", "key,default", 1, false, get, 0}, {"items", "", 0, false, items, 0}, {"keys", "", 0, false, keys, 0},
    {"values", "", 0, false, values, 0},      {"copy", "", 0, false, copy, 0},
};
static const struct lvn_tpl_builtin of_list[] = {
    {"index", "value", 1, false, index_of, 0},
    {"count", "value", 1, false, count_equal, 0},
    {"copy", "", 0, false, copy, 0},
};

/* Python's further methods, which are refused: without them the name would be undefined. */
static const char *const other_methods[4] = {
    "casefold,center,encode,expandtabs,format_map,index,isascii,isdecimal,isidentifier,islower,isnumeric,isprintable,"
    "istitle,isupper,ljust,maketrans,partition,rindex,rjust,rpartition,swapcase,translate,zfill",
    "clear,fromkeys,pop,popitem,setdefault,update",
    "append,clear,extend,insert,pop,remove,reverse,sort",
    "as_integer_ratio,bit_count,bit_length,conjugate,denominator,from_bytes,fromhex,hex,imag,is_integer,numerator,real,"
    "to_bytes",
};

static bool is_listed(const char *list, const struct lvn_tpl_value *name)
{
    for (; *list; list += *list == ',') {
        size_t n = strcspn(list, ",");
        if ((int64_t)n == name->n && memcmp(list, name->p, n) == 0) return true;
        list += n;
    }
    return false;
}

const struct lvn_tpl_builtin *lvn_tpl_method(const struct lvn_tpl_value *v, const struct lvn_tpl_value *name,
                                             bool *known)
{
    static const struct {
        const struct lvn_tpl_builtin *row;
        size_t n;
    } all[] = {{of_string, sizeof of_string / sizeof *of_string},
               {of_dict, sizeof of_dict / sizeof *of_dict},
               {of_list, sizeof of_list / sizeof *of_list}};
    int which = v->kind == LVN_TPL_STRING ? 0 : v->kind == LVN_TPL_DICT ? 1 : v->kind == LVN_TPL_LIST ? 2 : -1;
    bool number = v->kind == LVN_TPL_BOOL || v->kind == LVN_TPL_INT || v->kind == LVN_TPL_FLOAT;
    *known = number && is_listed(other_methods[3], name);
    if (which < 0) return NULL;
    for (size_t i = 0; i < all[which].n; i++)
        if (lvn_tpl_is(name, all[which].row[i].name)) return &all[which].row[i];
    *known = is_listed(other_methods[which], name);
    return NULL;
}
