/* pickle.c - see pickle.h: the stack machine: a function for each kind of instruction, and a table of them. */
#include "formats/pickle.h"

struct machine {
    struct lvn_arena *a;
    const char *name;
    const unsigned char *data, *p, *end;
    const struct lvn_pickle_functions *functions;
    struct lvn_pickle **stack, **memo;
    int64_t depth, stack_capacity, memo_capacity, memo_n;
    bool stopped;
};

/* --- input and stack --- */

#define DAMAGED(m, message)                                                                                            \
    LVN_FAIL(FORMAT, "'%s': its pickle is damaged at byte %lld: %s", (m)->name, (long long)((m)->p - (m)->data),       \
             message)

static enum lvn_status read_bytes(struct machine *machine, int64_t n, const unsigned char **out)
{
    if (n < 0 || n > machine->end - machine->p) DAMAGED(machine, "it ends too early");
    *out = machine->p;
    machine->p += n;
    return LVN_OK;
}

/* Read an unsigned little-endian number. */
static enum lvn_status read_number(struct machine *machine, int64_t bytes, uint64_t *out)
{
    const unsigned char *p;
    LVN_TRY(read_bytes(machine, bytes, &p));
    *out = 0;
    while (bytes--) *out = *out << 8 | p[bytes];
    return LVN_OK;
}

/* Read text up to the end of the line. */
static enum lvn_status read_line(struct machine *machine, const char **out)
{
    const unsigned char *end = memchr(machine->p, '\n', (size_t)(machine->end - machine->p));
    if (!end || end - machine->p > 1000) DAMAGED(machine, "unterminated line");
    *out = lvn_arena_printf(machine->a, "%.*s", (int)(end - machine->p), (const char *)machine->p);
    machine->p = end + 1;
    return *out ? LVN_OK : LVN_MEMORY;
}

/* Grow a list by doubling; the old memory stays in the arena. */
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

static enum lvn_status push(struct machine *machine, struct lvn_pickle *value)
{
    if (!value) return LVN_MEMORY;
    LVN_TRY(grow(machine->a, &machine->stack, machine->depth, &machine->stack_capacity));
    machine->stack[machine->depth++] = value;
    return LVN_OK;
}

static enum lvn_status pop(struct machine *machine, struct lvn_pickle **out)
{
    if (!machine->depth || machine->stack[machine->depth - 1]->kind == LVN_PICKLE_MARK)
        DAMAGED(machine, "an instruction pops from an empty stack");
    *out = machine->stack[--machine->depth];
    return LVN_OK;
}

/* The topmost value, without removing it. */
static enum lvn_status top(struct machine *machine, struct lvn_pickle **out)
{
    LVN_TRY(pop(machine, out));
    machine->depth++;
    return LVN_OK;
}

/* Index of the first value above the topmost mark. */
static enum lvn_status find_mark(struct machine *machine, int64_t *first)
{
    *first = machine->depth;
    while (*first && machine->stack[*first - 1]->kind != LVN_PICKLE_MARK) --*first;
    if (!*first) DAMAGED(machine, "an instruction needs a MARK that is not on the stack");
    return LVN_OK;
}

static enum lvn_status add_item(struct machine *machine, struct lvn_pickle *container, struct lvn_pickle *value)
{
    LVN_TRY(grow(machine->a, &container->item, container->n, &container->capacity));
    container->item[container->n++] = value;
    return LVN_OK;
}

/* --- plain values --- */

static enum lvn_status ignore(struct machine *machine, int64_t bytes) /* PROTO, FRAME */
{
    const unsigned char *p;
    return read_bytes(machine, bytes, &p);
}

static enum lvn_status new_empty(struct machine *machine, int64_t kind)
{
    return push(machine, lvn_pickle_new(machine->a, (enum lvn_pickle_kind)kind));
}

static enum lvn_status new_bool(struct machine *machine, int64_t truth)
{
    struct lvn_pickle *value = lvn_pickle_new(machine->a, LVN_PICKLE_BOOL);
    if (value) value->truth = truth != 0;
    return push(machine, value);
}

static enum lvn_status push_int(struct machine *machine, int64_t x)
{
    struct lvn_pickle *value = lvn_pickle_new(machine->a, LVN_PICKLE_INT);
    if (value) value->integer = x;
    return push(machine, value);
}

static enum lvn_status new_int(struct machine *machine, int64_t bytes)
{
    uint64_t x;
    LVN_TRY(read_number(machine, bytes, &x));
    return push_int(machine, bytes == 4 ? (int32_t)(uint32_t)x : (int64_t)x);
}

/* LONG1, LONG4: a two's complement number of any length; the length field has `bytes` bytes. */
static enum lvn_status new_long(struct machine *machine, int64_t bytes)
{
    uint64_t n;
    const unsigned char *p;
    LVN_TRY(read_number(machine, bytes, &n));
    LVN_TRY(read_bytes(machine, (int64_t)n, &p));
    bool negative = n && p[n - 1] & 0x80;
    if (n <= 8) {
        uint64_t x = negative ? UINT64_MAX : 0;
        for (uint64_t i = n; i-- > 0;) x = x << 8 | p[i];
        return push_int(machine, (int64_t)x);
    }
    struct lvn_pickle *value = lvn_pickle_new(machine->a, LVN_PICKLE_REAL);
    if (!value) return LVN_MEMORY;
    value->real = negative ? -1.0 : 0.0; /* the value of the bytes as an infinitely sign-extended number */
    for (uint64_t i = n; i-- > 0;) value->real = value->real * 256.0 + p[i];
    return push(machine, value);
}

static enum lvn_status new_real(struct machine *machine, int64_t unused)
{
    (void)unused;
    const unsigned char *p;
    uint64_t bits = 0;
    LVN_TRY(read_bytes(machine, 8, &p));
    for (int i = 0; i < 8; i++) bits = bits << 8 | p[i]; /* big-endian, unlike all other numbers of the format */
    struct lvn_pickle *value = lvn_pickle_new(machine->a, LVN_PICKLE_REAL);
    if (value) memcpy(&value->real, &bits, 8);
    return push(machine, value);
}

static enum lvn_status new_text(struct machine *machine, int64_t length_bytes)
{
    uint64_t n;
    const unsigned char *p;
    LVN_TRY(read_number(machine, length_bytes, &n));
    LVN_TRY(read_bytes(machine, n > INT64_MAX ? -1 : (int64_t)n, &p));
    if (n > INT32_MAX || memchr(p, 0, (size_t)n)) DAMAGED(machine, "a text contains a NUL byte or has more than 2 GiB");
    struct lvn_pickle *value = lvn_pickle_new(machine->a, LVN_PICKLE_TEXT);
    if (!value) return LVN_MEMORY;
    value->n = (int64_t)n;
    value->text = lvn_arena_printf(machine->a, "%.*s", (int)n, (const char *)p);
    return value->text ? push(machine, value) : LVN_MEMORY;
}

static enum lvn_status new_bytes(struct machine *machine, int64_t length_bytes)
{
    uint64_t n;
    const unsigned char *p;
    LVN_TRY(read_number(machine, length_bytes, &n));
    LVN_TRY(read_bytes(machine, n > INT64_MAX ? -1 : (int64_t)n, &p));
    struct lvn_pickle *value = lvn_pickle_new(machine->a, LVN_PICKLE_BYTES);
    if (!value) return LVN_MEMORY;
    value->n = (int64_t)n;
    value->text = (const char *)p;
    return push(machine, value);
}

/* --- containers --- */

/* TUPLE1 .. TUPLE3: a tuple of the topmost n values; -1: of all values above the mark. */
static enum lvn_status new_tuple(struct machine *machine, int64_t n)
{
    int64_t first = 0;
    if (n < 0) LVN_TRY(find_mark(machine, &first));
    if (n < 0) n = machine->depth - first;
    struct lvn_pickle *value = lvn_pickle_new(machine->a, LVN_PICKLE_TUPLE), *one;
    if (!value) return LVN_MEMORY;
    if (n) value->item = lvn_arena_alloc(machine->a, sizeof *value->item * (size_t)n);
    if (n && !value->item) return LVN_MEMORY;
    value->n = value->capacity = n;
    while (n--) {
        LVN_TRY(pop(machine, &one));
        value->item[n] = one;
    }
    if (first) machine->depth--; /* the mark */
    return push(machine, value);
}

/* APPENDS, SETITEMS: all values above the mark are added to the container below it. */
static enum lvn_status add_items(struct machine *machine, int64_t kind)
{
    int64_t first;
    LVN_TRY(find_mark(machine, &first));
    struct lvn_pickle *container = first >= 2 ? machine->stack[first - 2] : NULL;
    if (!container || container->kind != (enum lvn_pickle_kind)kind)
        DAMAGED(machine, "items are added to a value that is not a container");
    if (kind == LVN_PICKLE_DICT && (machine->depth - first) % 2) DAMAGED(machine, "a key has no value");
    for (int64_t i = first; i < machine->depth; i++) LVN_TRY(add_item(machine, container, machine->stack[i]));
    machine->depth = first - 1;
    return LVN_OK;
}

/* APPEND, SETITEM: the topmost n values are added to the container below them. */
static enum lvn_status add_one(struct machine *machine, int64_t n)
{
    struct lvn_pickle *value[2] = {NULL, NULL}, *container;
    for (int64_t i = n; i-- > 0;) LVN_TRY(pop(machine, &value[i]));
    LVN_TRY(top(machine, &container));
    if (container->kind != (n == 2 ? LVN_PICKLE_DICT : LVN_PICKLE_LIST))
        DAMAGED(machine, "items are added to a value that is not a container");
    for (int64_t i = 0; i < n; i++) LVN_TRY(add_item(machine, container, value[i]));
    return LVN_OK;
}

/* --- the memo, and removing values --- */

static enum lvn_status memoize(struct machine *machine, uint64_t i)
{
    struct lvn_pickle *value;
    LVN_TRY(top(machine, &value));
    if (i > (uint64_t)(machine->end - machine->data)) DAMAGED(machine, "its memo index is larger than the file");
    while (machine->memo_n <= (int64_t)i) {
        LVN_TRY(grow(machine->a, &machine->memo, machine->memo_n, &machine->memo_capacity));
        machine->memo[machine->memo_n++] = NULL;
    }
    machine->memo[i] = value;
    return LVN_OK;
}

static enum lvn_status memo_put(struct machine *machine, int64_t bytes)
{
    uint64_t i;
    LVN_TRY(read_number(machine, bytes, &i));
    return memoize(machine, i);
}

static enum lvn_status memo_add(struct machine *machine, int64_t unused)
{
    (void)unused;
    return memoize(machine, (uint64_t)machine->memo_n);
}

static enum lvn_status memo_get(struct machine *machine, int64_t bytes)
{
    uint64_t i;
    LVN_TRY(read_number(machine, bytes, &i));
    if (i >= (uint64_t)machine->memo_n || !machine->memo[i])
        DAMAGED(machine, "it reads a memo entry that was never stored");
    return push(machine, machine->memo[i]);
}

static enum lvn_status drop(struct machine *machine, int64_t to_mark)
{
    struct lvn_pickle *value;
    if (!to_mark) return pop(machine, &value);
    int64_t first;
    LVN_TRY(find_mark(machine, &first));
    machine->depth = first - 1;
    return LVN_OK;
}

static enum lvn_status stop(struct machine *machine, int64_t unused)
{
    (void)unused;
    machine->stopped = true;
    return LVN_OK;
}

/* --- names and calls, delegated to the caller's functions --- */

static enum lvn_status push_name(struct machine *machine, const char *module, const char *name)
{
    struct lvn_pickle *value = lvn_pickle_new(machine->a, LVN_PICKLE_NAME);
    if (value) value->text = lvn_arena_printf(machine->a, "%s.%s", module, name);
    return value && value->text ? push(machine, value) : LVN_MEMORY;
}

static enum lvn_status name_by_lines(struct machine *machine, int64_t unused)
{
    (void)unused;
    const char *module, *name;
    LVN_TRY(read_line(machine, &module));
    LVN_TRY(read_line(machine, &name));
    return push_name(machine, module, name);
}

static enum lvn_status name_by_texts(struct machine *machine, int64_t unused)
{
    (void)unused;
    struct lvn_pickle *module, *name;
    LVN_TRY(pop(machine, &name));
    LVN_TRY(pop(machine, &module));
    if (module->kind != LVN_PICKLE_TEXT || name->kind != LVN_PICKLE_TEXT) DAMAGED(machine, "a name is not a text");
    return push_name(machine, module->text, name->text);
}

static enum lvn_status call(struct machine *machine, int64_t unused)
{
    (void)unused;
    struct lvn_pickle *arguments, *function, *value = NULL;
    LVN_TRY(pop(machine, &arguments));
    LVN_TRY(pop(machine, &function));
    if (arguments->kind != LVN_PICKLE_TUPLE || function->kind != LVN_PICKLE_NAME)
        DAMAGED(machine, "a call of a value that is not a function");
    LVN_TRY(machine->functions->call(machine->functions->context, machine->a, function->text, arguments, &value));
    return push(machine, value);
}

static enum lvn_status persistent_load(struct machine *machine, int64_t unused)
{
    (void)unused;
    struct lvn_pickle *id, *value = NULL;
    LVN_TRY(pop(machine, &id));
    LVN_TRY(machine->functions->persistent_load(machine->functions->context, machine->a, id, &value));
    return push(machine, value);
}

/* BUILD: sets attributes of an instance. Attributes of a dict (a state_dict's _metadata) are ignored. */
static enum lvn_status set_attributes(struct machine *machine, int64_t unused)
{
    (void)unused;
    struct lvn_pickle *state, *instance;
    LVN_TRY(pop(machine, &state));
    LVN_TRY(top(machine, &instance));
    LVN_CHECK(instance->kind == LVN_PICKLE_DICT, FORMAT,
              "'%s' sets attributes of %s; levin only reads tensors and plain values", machine->name,
              lvn_pickle_kind_text(instance));
    return LVN_OK;
}

static enum lvn_status refuse(struct machine *machine, int64_t unused)
{
    (void)unused;
    LVN_FAIL(FORMAT,
             "'%s' creates an instance of a class; levin does not execute code and only reads tensors and plain values",
             machine->name);
}

/* --- the table --- */

static const struct {
    enum lvn_status (*run)(struct machine *machine, int64_t argument);
    int64_t argument;
} instructions[256] = {
    [0x80] = {ignore, 1},                  /* PROTO */
    [0x95] = {ignore, 8},                  /* FRAME */
    ['('] = {new_empty, LVN_PICKLE_MARK},  /* MARK */
    ['N'] = {new_empty, LVN_PICKLE_NONE},  /* NONE */
    ['}'] = {new_empty, LVN_PICKLE_DICT},  /* EMPTY_DICT */
    [']'] = {new_empty, LVN_PICKLE_LIST},  /* EMPTY_LIST */
    [')'] = {new_empty, LVN_PICKLE_TUPLE}, /* EMPTY_TUPLE */
    [0x88] = {new_bool, 1},                /* NEWTRUE */
    [0x89] = {new_bool, 0},                /* NEWFALSE */
    ['J'] = {new_int, 4},                  /* BININT */
    ['K'] = {new_int, 1},                  /* BININT1 */
    ['M'] = {new_int, 2},                  /* BININT2 */
    [0x8a] = {new_long, 1},                /* LONG1 */
    [0x8b] = {new_long, 4},                /* LONG4 */
    ['G'] = {new_real, 0},                 /* BINFLOAT */
    ['X'] = {new_text, 4},                 /* BINUNICODE */
    [0x8c] = {new_text, 1},                /* SHORT_BINUNICODE */
    [0x8d] = {new_text, 8},                /* BINUNICODE8 */
    ['U'] = {new_text, 1},                 /* SHORT_BINSTRING, a text of Python 2 */
    ['T'] = {new_text, 4},                 /* BINSTRING */
    ['C'] = {new_bytes, 1},                /* SHORT_BINBYTES */
    ['B'] = {new_bytes, 4},                /* BINBYTES */
    [0x8e] = {new_bytes, 8},               /* BINBYTES8 */
    [0x96] = {new_bytes, 8},               /* BYTEARRAY8 */
    [0x85] = {new_tuple, 1},               /* TUPLE1 */
    [0x86] = {new_tuple, 2},               /* TUPLE2 */
    [0x87] = {new_tuple, 3},               /* TUPLE3 */
    ['t'] = {new_tuple, -1},               /* TUPLE */
    ['a'] = {add_one, 1},                  /* APPEND */
    ['s'] = {add_one, 2},                  /* SETITEM */
    ['e'] = {add_items, LVN_PICKLE_LIST},  /* APPENDS */
    ['u'] = {add_items, LVN_PICKLE_DICT},  /* SETITEMS */
    ['q'] = {memo_put, 1},                 /* BINPUT */
    ['r'] = {memo_put, 4},                 /* LONG_BINPUT */
    [0x94] = {memo_add, 0},                /* MEMOIZE */
    ['h'] = {memo_get, 1},                 /* BINGET */
    ['j'] = {memo_get, 4},                 /* LONG_BINGET */
    ['0'] = {drop, 0},                     /* POP */
    ['1'] = {drop, 1},                     /* POP_MARK */
    ['.'] = {stop, 0},                     /* STOP */
    ['c'] = {name_by_lines, 0},            /* GLOBAL */
    [0x93] = {name_by_texts, 0},           /* STACK_GLOBAL */
    ['R'] = {call, 0},                     /* REDUCE */
    ['Q'] = {persistent_load, 0},          /* BINPERSID */
    ['b'] = {set_attributes, 0},           /* BUILD */
    ['i'] = {refuse, 0},                   /* INST */
    ['o'] = {refuse, 0},                   /* OBJ */
    [0x81] = {refuse, 0},                  /* NEWOBJ */
    [0x92] = {refuse, 0},                  /* NEWOBJ_EX */
    [0x82] = {refuse, 0},                  /* EXT1 */
    [0x83] = {refuse, 0},                  /* EXT2 */
    [0x84] = {refuse, 0},                  /* EXT4 */
};

enum lvn_status lvn_pickle_read(struct lvn_arena *a, const char *name, const unsigned char *data, int64_t bytes,
                                const struct lvn_pickle_functions *functions, struct lvn_pickle **out, int64_t *used)
{
    struct machine machine = {
        .a = a, .name = name, .data = data, .p = data, .end = data + bytes, .functions = functions};
    while (!machine.stopped) {
        const unsigned char *code;
        LVN_TRY(read_bytes(&machine, 1, &code));
        LVN_CHECK(instructions[*code].run, FORMAT, "'%s': byte %lld of its pickle is 0x%02x, an unknown instruction",
                  name, (long long)(code - data), *code);
        LVN_TRY(instructions[*code].run(&machine, instructions[*code].argument));
    }
    if (machine.depth != 1 || machine.stack[0]->kind == LVN_PICKLE_MARK)
        DAMAGED(&machine, "it does not end with exactly one value");
    *out = machine.stack[0];
    *used = machine.p - data;
    return LVN_OK;
}
