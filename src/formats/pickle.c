/* pickle.c - see pickle.h: the stack machine. One small function for each kind of instruction, and a table of them. */
#include "formats/pickle.h"

#include <string.h>

struct machine {
    struct lvn_arena *a;
    const char *name;
    const unsigned char *data, *p, *end;
    const struct lvn_pickle_host *host;
    struct lvn_pickle **stack, **memo;
    int64_t depth, stack_capacity, memo_capacity, memo_n;
    bool stopped;
};

/* --- reading, and the stack --- */

#define DAMAGED(m, message)                                                                                            \
    LVN_FAIL(FORMAT, "'%s': its pickle is damaged at byte %lld: %s", (m)->name, (long long)((m)->p - (m)->data),       \
             message)

static enum lvn_status take(struct machine *m, int64_t n, const unsigned char **out)
{
    if (n < 0 || n > m->end - m->p) DAMAGED(m, "it ends too early");
    *out = m->p;
    m->p += n;
    return LVN_OK;
}

/* Reads an unsigned little-endian number. */
static enum lvn_status take_number(struct machine *m, int64_t bytes, uint64_t *out)
{
    const unsigned char *p;
    LVN_TRY(take(m, bytes, &p));
    *out = 0;
    while (bytes--) *out = *out << 8 | p[bytes];
    return LVN_OK;
}

/* Reads text up to the end of the line. */
static enum lvn_status take_line(struct machine *m, const char **out)
{
    const unsigned char *end = memchr(m->p, '\n', (size_t)(m->end - m->p));
    if (!end || end - m->p > 1000) DAMAGED(m, "a line without end");
    *out = lvn_arena_printf(m->a, "%.*s", (int)(end - m->p), (const char *)m->p);
    m->p = end + 1;
    return *out ? LVN_OK : LVN_MEMORY;
}

/* Grows a list by doubling; the old memory stays in the arena. */
static enum lvn_status grow(struct lvn_arena *a, struct lvn_pickle ***list, int64_t n, int64_t *capacity)
{
    if (n < *capacity) return LVN_OK;
    int64_t larger = *capacity ? 2 * *capacity : 8;
    struct lvn_pickle **grown = lvn_arena_alloc(a, sizeof *grown * (size_t)larger);
    if (!grown) return LVN_MEMORY;
    if (n) memcpy(grown, *list, sizeof *grown * (size_t)n);
    *list = grown;
    *capacity = larger;
    return LVN_OK;
}

static enum lvn_status push(struct machine *m, struct lvn_pickle *v)
{
    if (!v) return LVN_MEMORY;
    LVN_TRY(grow(m->a, &m->stack, m->depth, &m->stack_capacity));
    m->stack[m->depth++] = v;
    return LVN_OK;
}

static enum lvn_status pop(struct machine *m, struct lvn_pickle **out)
{
    if (!m->depth || m->stack[m->depth - 1]->kind == LVN_PICKLE_MARK)
        DAMAGED(m, "it takes a value that its stack lacks");
    *out = m->stack[--m->depth];
    return LVN_OK;
}

/* The topmost value, without removing it. */
static enum lvn_status top(struct machine *m, struct lvn_pickle **out)
{
    LVN_TRY(pop(m, out));
    m->depth++;
    return LVN_OK;
}

/* Index of the first value above the topmost mark. */
static enum lvn_status find_mark(struct machine *m, int64_t *first)
{
    *first = m->depth;
    while (*first && m->stack[*first - 1]->kind != LVN_PICKLE_MARK) --*first;
    if (!*first) DAMAGED(m, "it has no mark to return to");
    return LVN_OK;
}

static enum lvn_status add_item(struct machine *m, struct lvn_pickle *container, struct lvn_pickle *v)
{
    LVN_TRY(grow(m->a, &container->item, container->n, &container->capacity));
    container->item[container->n++] = v;
    return LVN_OK;
}

/* --- plain values --- */

static enum lvn_status ignore(struct machine *m, int64_t bytes) /* PROTO, FRAME */
{
    const unsigned char *p;
    return take(m, bytes, &p);
}

static enum lvn_status new_empty(struct machine *m, int64_t kind)
{
    return push(m, lvn_pickle_new(m->a, (enum lvn_pickle_kind)kind));
}

static enum lvn_status new_bool(struct machine *m, int64_t truth)
{
    struct lvn_pickle *v = lvn_pickle_new(m->a, LVN_PICKLE_BOOL);
    if (v) v->truth = truth != 0;
    return push(m, v);
}

static enum lvn_status push_int(struct machine *m, int64_t x)
{
    struct lvn_pickle *v = lvn_pickle_new(m->a, LVN_PICKLE_INT);
    if (v) v->integer = x;
    return push(m, v);
}

static enum lvn_status new_int(struct machine *m, int64_t bytes)
{
    uint64_t x;
    LVN_TRY(take_number(m, bytes, &x));
    return push_int(m, bytes == 4 ? (int32_t)(uint32_t)x : (int64_t)x);
}

/* LONG1, LONG4: a two's complement number of any length; the length field has `bytes` bytes. */
static enum lvn_status new_long(struct machine *m, int64_t bytes)
{
    uint64_t n;
    const unsigned char *p;
    LVN_TRY(take_number(m, bytes, &n));
    LVN_TRY(take(m, (int64_t)n, &p));
    bool negative = n && p[n - 1] & 0x80;
    if (n <= 8) {
        uint64_t x = negative ? UINT64_MAX : 0;
        for (uint64_t i = n; i-- > 0;) x = x << 8 | p[i];
        return push_int(m, (int64_t)x);
    }
    struct lvn_pickle *v = lvn_pickle_new(m->a, LVN_PICKLE_REAL);
    if (!v) return LVN_MEMORY;
    v->real = negative ? -1.0 : 0.0; /* the value of the bytes as an infinitely sign-extended number */
    for (uint64_t i = n; i-- > 0;) v->real = v->real * 256.0 + p[i];
    return push(m, v);
}

static enum lvn_status new_real(struct machine *m, int64_t unused)
{
    (void)unused;
    const unsigned char *p;
    uint64_t bits = 0;
    LVN_TRY(take(m, 8, &p));
    for (int i = 0; i < 8; i++) bits = bits << 8 | p[i]; /* big-endian, unlike all other numbers of the format */
    struct lvn_pickle *v = lvn_pickle_new(m->a, LVN_PICKLE_REAL);
    if (v) memcpy(&v->real, &bits, 8);
    return push(m, v);
}

static enum lvn_status new_text(struct machine *m, int64_t length_bytes)
{
    uint64_t n;
    const unsigned char *p;
    LVN_TRY(take_number(m, length_bytes, &n));
    LVN_TRY(take(m, n > INT64_MAX ? -1 : (int64_t)n, &p));
    if (n > INT32_MAX || memchr(p, 0, (size_t)n)) DAMAGED(m, "a text with a zero byte or beyond 2 GiB");
    struct lvn_pickle *v = lvn_pickle_new(m->a, LVN_PICKLE_TEXT);
    if (!v) return LVN_MEMORY;
    v->n = (int64_t)n;
    v->text = lvn_arena_printf(m->a, "%.*s", (int)n, (const char *)p);
    return v->text ? push(m, v) : LVN_MEMORY;
}

static enum lvn_status new_bytes(struct machine *m, int64_t length_bytes)
{
    uint64_t n;
    const unsigned char *p;
    LVN_TRY(take_number(m, length_bytes, &n));
    LVN_TRY(take(m, n > INT64_MAX ? -1 : (int64_t)n, &p));
    struct lvn_pickle *v = lvn_pickle_new(m->a, LVN_PICKLE_BYTES);
    if (!v) return LVN_MEMORY;
    v->n = (int64_t)n;
    v->text = (const char *)p;
    return push(m, v);
}

/* --- containers --- */

/* TUPLE1 .. TUPLE3: a tuple of the topmost n values; -1: of all values above the mark. */
static enum lvn_status new_tuple(struct machine *m, int64_t n)
{
    int64_t first = 0;
    if (n < 0) LVN_TRY(find_mark(m, &first));
    if (n < 0) n = m->depth - first;
    struct lvn_pickle *v = lvn_pickle_new(m->a, LVN_PICKLE_TUPLE), *one;
    if (!v) return LVN_MEMORY;
    if (n) v->item = lvn_arena_alloc(m->a, sizeof *v->item * (size_t)n);
    if (n && !v->item) return LVN_MEMORY;
    v->n = v->capacity = n;
    while (n--) {
        LVN_TRY(pop(m, &one));
        v->item[n] = one;
    }
    if (first) m->depth--; /* the mark */
    return push(m, v);
}

/* APPENDS, SETITEMS: all values above the mark are added to the container below it. */
static enum lvn_status add_items(struct machine *m, int64_t kind)
{
    int64_t first;
    LVN_TRY(find_mark(m, &first));
    struct lvn_pickle *container = first >= 2 ? m->stack[first - 2] : NULL;
    if (!container || container->kind != (enum lvn_pickle_kind)kind) DAMAGED(m, "items for what is no container");
    if (kind == LVN_PICKLE_DICT && (m->depth - first) % 2) DAMAGED(m, "a key without a value");
    for (int64_t i = first; i < m->depth; i++) LVN_TRY(add_item(m, container, m->stack[i]));
    m->depth = first - 1;
    return LVN_OK;
}

/* APPEND, SETITEM: the topmost n values are added to the container below them. */
static enum lvn_status add_one(struct machine *m, int64_t n)
{
    struct lvn_pickle *v[2] = {NULL, NULL}, *container;
    for (int64_t i = n; i-- > 0;) LVN_TRY(pop(m, &v[i]));
    LVN_TRY(top(m, &container));
    if (container->kind != (n == 2 ? LVN_PICKLE_DICT : LVN_PICKLE_LIST)) DAMAGED(m, "items for what is no container");
    for (int64_t i = 0; i < n; i++) LVN_TRY(add_item(m, container, v[i]));
    return LVN_OK;
}

/* --- the memo, and removing values --- */

static enum lvn_status memoize(struct machine *m, uint64_t i)
{
    struct lvn_pickle *v;
    LVN_TRY(top(m, &v));
    if (i > (uint64_t)(m->end - m->data)) DAMAGED(m, "it remembers more values than it has bytes");
    while (m->memo_n <= (int64_t)i) {
        LVN_TRY(grow(m->a, &m->memo, m->memo_n, &m->memo_capacity));
        m->memo[m->memo_n++] = NULL;
    }
    m->memo[i] = v;
    return LVN_OK;
}

static enum lvn_status memo_put(struct machine *m, int64_t bytes)
{
    uint64_t i;
    LVN_TRY(take_number(m, bytes, &i));
    return memoize(m, i);
}

static enum lvn_status memo_add(struct machine *m, int64_t unused)
{
    (void)unused;
    return memoize(m, (uint64_t)m->memo_n);
}

static enum lvn_status memo_get(struct machine *m, int64_t bytes)
{
    uint64_t i;
    LVN_TRY(take_number(m, bytes, &i));
    if (i >= (uint64_t)m->memo_n || !m->memo[i]) DAMAGED(m, "it recalls a value that it never had");
    return push(m, m->memo[i]);
}

static enum lvn_status drop(struct machine *m, int64_t to_mark)
{
    struct lvn_pickle *v;
    if (!to_mark) return pop(m, &v);
    int64_t first;
    LVN_TRY(find_mark(m, &first));
    m->depth = first - 1;
    return LVN_OK;
}

static enum lvn_status stop(struct machine *m, int64_t unused)
{
    (void)unused;
    m->stopped = true;
    return LVN_OK;
}

/* --- names and calls, delegated to the host --- */

static enum lvn_status push_name(struct machine *m, const char *module, const char *name)
{
    struct lvn_pickle *v = lvn_pickle_new(m->a, LVN_PICKLE_NAME);
    if (v) v->text = lvn_arena_printf(m->a, "%s.%s", module, name);
    return v && v->text ? push(m, v) : LVN_MEMORY;
}

static enum lvn_status name_by_lines(struct machine *m, int64_t unused)
{
    (void)unused;
    const char *module, *name;
    LVN_TRY(take_line(m, &module));
    LVN_TRY(take_line(m, &name));
    return push_name(m, module, name);
}

static enum lvn_status name_by_texts(struct machine *m, int64_t unused)
{
    (void)unused;
    struct lvn_pickle *module, *name;
    LVN_TRY(pop(m, &name));
    LVN_TRY(pop(m, &module));
    if (module->kind != LVN_PICKLE_TEXT || name->kind != LVN_PICKLE_TEXT) DAMAGED(m, "a name that is no text");
    return push_name(m, module->text, name->text);
}

static enum lvn_status call(struct machine *m, int64_t unused)
{
    (void)unused;
    struct lvn_pickle *arguments, *function, *v = NULL;
    LVN_TRY(pop(m, &arguments));
    LVN_TRY(pop(m, &function));
    if (arguments->kind != LVN_PICKLE_TUPLE || function->kind != LVN_PICKLE_NAME) DAMAGED(m, "a call of no function");
    LVN_TRY(m->host->call(m->host->context, m->a, function->text, arguments, &v));
    return push(m, v);
}

static enum lvn_status persistent_load(struct machine *m, int64_t unused)
{
    (void)unused;
    struct lvn_pickle *id, *v = NULL;
    LVN_TRY(pop(m, &id));
    LVN_TRY(m->host->persistent_load(m->host->context, m->a, id, &v));
    return push(m, v);
}

/* BUILD: sets attributes of an instance. Attributes of a dict (a state_dict's _metadata) are not items, and are
 * ignored. */
static enum lvn_status attributes(struct machine *m, int64_t unused)
{
    (void)unused;
    struct lvn_pickle *state, *instance;
    LVN_TRY(pop(m, &state));
    LVN_TRY(top(m, &instance));
    LVN_CHECK(instance->kind == LVN_PICKLE_DICT, FORMAT,
              "'%s' sets attributes of %s; only tensors and plain values are read", m->name,
              lvn_pickle_kind_text(instance));
    return LVN_OK;
}

static enum lvn_status refuse(struct machine *m, int64_t unused)
{
    (void)unused;
    LVN_FAIL(FORMAT, "'%s' makes an instance of a class; levin runs nothing and reads tensors and plain values only",
             m->name);
}

/* --- the table --- */

static const struct {
    enum lvn_status (*run)(struct machine *m, int64_t argument);
    int64_t argument;
} instructions[256] = {
    [0x80] = {ignore, 1}, /* PROTO */
    [0x95] = {ignore, 8}, /* FRAME */
    ['('] = {new_empty, LVN_PICKLE_MARK},
    ['N'] = {new_empty, LVN_PICKLE_NONE},
    ['}'] = {new_empty, LVN_PICKLE_DICT},
    [']'] = {new_empty, LVN_PICKLE_LIST},
    [')'] = {new_empty, LVN_PICKLE_TUPLE},
    [0x88] = {new_bool, 1},
    [0x89] = {new_bool, 0},
    ['J'] = {new_int, 4},
    ['K'] = {new_int, 1},
    ['M'] = {new_int, 2},
    [0x8a] = {new_long, 1},
    [0x8b] = {new_long, 4},
    ['G'] = {new_real, 0},
    ['X'] = {new_text, 4}, /* BINUNICODE and its shorter and longer forms */
    [0x8c] = {new_text, 1},
    [0x8d] = {new_text, 8},
    ['U'] = {new_text, 1}, /* SHORT_BINSTRING, BINSTRING: Python 2's texts */
    ['T'] = {new_text, 4},
    ['C'] = {new_bytes, 1},
    ['B'] = {new_bytes, 4},
    [0x8e] = {new_bytes, 8},
    [0x96] = {new_bytes, 8},
    [0x85] = {new_tuple, 1},
    [0x86] = {new_tuple, 2},
    [0x87] = {new_tuple, 3},
    ['t'] = {new_tuple, -1},
    ['a'] = {add_one, 1},
    ['s'] = {add_one, 2},
    ['e'] = {add_items, LVN_PICKLE_LIST},
    ['u'] = {add_items, LVN_PICKLE_DICT},
    ['q'] = {memo_put, 1},
    ['r'] = {memo_put, 4},
    [0x94] = {memo_add, 0},
    ['h'] = {memo_get, 1},
    ['j'] = {memo_get, 4},
    ['0'] = {drop, 0},
    ['1'] = {drop, 1},
    ['.'] = {stop, 0},
    ['c'] = {name_by_lines, 0},
    [0x93] = {name_by_texts, 0},
    ['R'] = {call, 0},
    ['Q'] = {persistent_load, 0},
    ['b'] = {attributes, 0},
    ['i'] = {refuse, 0}, /* INST, OBJ, NEWOBJ, NEWOBJ_EX, EXT1 .. EXT4 */
    ['o'] = {refuse, 0},
    [0x81] = {refuse, 0},
    [0x92] = {refuse, 0},
    [0x82] = {refuse, 0},
    [0x83] = {refuse, 0},
    [0x84] = {refuse, 0},
};

enum lvn_status lvn_pickle_read(struct lvn_arena *a, const char *name, const unsigned char *data, int64_t bytes,
                                const struct lvn_pickle_host *host, struct lvn_pickle **out, int64_t *used)
{
    struct machine m = {.a = a, .name = name, .data = data, .p = data, .end = data + bytes, .host = host};
    while (!m.stopped) {
        const unsigned char *code;
        LVN_TRY(take(&m, 1, &code));
        LVN_CHECK(instructions[*code].run, FORMAT,
                  "'%s': byte %lld of its pickle is 0x%02x, which is no instruction that this reader has", name,
                  (long long)(code - data), *code);
        LVN_TRY(instructions[*code].run(&m, instructions[*code].argument));
    }
    if (m.depth != 1 || m.stack[0]->kind == LVN_PICKLE_MARK) DAMAGED(&m, "it does not end with one value");
    *out = m.stack[0];
    *used = m.p - data;
    return LVN_OK;
}
