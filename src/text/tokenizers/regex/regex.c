/* regex.c - see regex.h: the parser, from an expression to a tree and to a program, which regex_find.c runs. */
#include "tokenizers/regex/regex.h"

#include "base/text.h"
#include "tokenizers/regex/regex_private.h"
#include "tokenizers/unicode/unicode.h"

enum { MAX_REPEATS = 1000, MAX_DEPTH = 32, MAX_STEPS = 4096, MAX_NODES = 2048, MAX_ITEMS = 4096, MAX_SETS = 1024 };
enum node_kind {
    NODE_SET,
    NODE_SEQUENCE,
    NODE_ALTERNATIVES,
    NODE_REPEAT,
    NODE_LOOKAHEAD,
    NODE_ATOMIC,
    NODE_GROUP,
    NODE_REFERENCE,
    NODE_BEGIN,
    NODE_END
};
struct node {
    enum node_kind kind;
    enum greed greed;
    bool negated;
    int set; /* number of a set; of a group, from 1 */
    int min;
    int max;
    int child; /* number of the first child; 0: none */
    int next;  /* number of the next sibling; 0: none */
};

struct parser {
    const char *at;   /* the rest of the expression */
    const char *text; /* the whole expression */
    const char *name; /* of the file */
    struct step step[MAX_STEPS];
    struct node node[MAX_NODES]; /* from 1 */
    struct set set[MAX_SETS];
    struct item item[MAX_ITEMS];
    int n_steps;
    int n_nodes;
    int n_sets;
    int n_items;
    int n_groups;
    int group[1 + LVN_REGEX_GROUPS]; /* number of its node; 0: it has no end yet */
    int depth;                       /* of groups and brackets */
    bool ignore_case;                /* within (?i:..) */
};

/* LVN_UNSUPPORTED with a message that names the syntax. */
static enum lvn_status refuse(const struct parser *r, const char *syntax)
{
    LVN_FAIL(UNSUPPORTED, "'%s': the expression '%.200s' has %s, at '%.20s', which is not supported", r->name, r->text,
             syntax, r->at);
}

#define REFUSE(r, syntax)                                                                                              \
    do {                                                                                                               \
        (void)refuse(r, syntax);                                                                                       \
        return LVN_UNSUPPORTED;                                                                                        \
    } while (0)

static enum lvn_status add_node(struct parser *r, struct node node, int *number)
{
    if (r->n_nodes + 1 == MAX_NODES) REFUSE(r, "too many parts");
    *number = ++r->n_nodes;
    r->node[*number] = node;
    return LVN_OK;
}

/* Items of a set must be adjacent, so they are collected here first. */
struct class_items {
    struct item item[256];
    int n;
};

static enum lvn_status add_item(struct parser *r, struct class_items *g, struct item item)
{
    if (g->n == 256) REFUSE(r, "a class of too many parts");
    g->item[g->n++] = item;
    return LVN_OK;
}

static enum lvn_status add_range(struct parser *r, struct class_items *g, uint32_t first, uint32_t last)
{
    LVN_TRY(add_item(r, g, (struct item){.kind = ITEM_RANGE, .first = first, .last = last}));
    for (uint32_t c = 'a'; r->ignore_case && c <= 'z'; c++) {
        uint32_t other = c - 32;
        bool small = c >= first && c <= last, large = other >= first && other <= last;
        if (small) LVN_TRY(add_item(r, g, (struct item){.kind = ITEM_RANGE, .first = other, .last = other}));
        if (large) LVN_TRY(add_item(r, g, (struct item){.kind = ITEM_RANGE, .first = c, .last = c}));
        uint32_t odd = c == 's' ? 0x17f : c == 'k' ? 0x212a : 0; /* long s, Kelvin */
        if (odd && (small || large))
            LVN_TRY(add_item(r, g, (struct item){.kind = ITEM_RANGE, .first = odd, .last = odd}));
    }
    return LVN_OK;
}

static enum lvn_status end_set(struct parser *r, const struct class_items *g, bool negated, int *number)
{
    if (r->n_sets == MAX_SETS || r->n_items + g->n > MAX_ITEMS) REFUSE(r, "too many classes");
    struct set *s = &r->set[ *number = r->n_sets];
    *s = (struct set){.first = r->n_items, .n = g->n, .negated = negated};
    memcpy(r->item + r->n_items, g->item, (size_t)g->n * sizeof *g->item);
    r->n_items += g->n;
    r->n_sets++;
    for (int c = 0; c < 128; c++)
        if (lvn_set_has(r->set, r->item, s, c)) s->ascii[c / 64] |= (uint64_t)1 << c % 64;
    return LVN_OK;
}

/* The bytes of a character written as \x41, \u0041 or \x{1F600}; 0: it is none. */
static int number_of(const char *at, uint32_t *code)
{
    const int braced = at[1] == 'x' && at[2] == '{' ? (int)strcspn(at + 3, "}") : 0;
    const int digits = braced ? braced : at[1] == 'x' ? 2 : at[1] == 'u' ? 4 : 0;
    const int64_t number = digits >= 1 && digits <= 6 ? lvn_hex_number(at + (braced ? 3 : 2), digits) : -1;
    if (number < 0 || number >= 0x110000 || (braced && at[3 + braced] != '}')) return 0;
    *code = (uint32_t)number;
    return digits + (braced ? 4 : 2);
}

/* Parse an escape, inside or outside of a class. *single: it is one character. */
static enum lvn_status escape(struct parser *r, struct item *item, bool *single)
{
    static const char named[] = "nrtfv", values[] = "\n\r\t\f\v";
    char c = r->at[1];
    const char *at = c ? strchr(named, c) : NULL;
    *single = true;
    *item = (struct item){.kind = ITEM_RANGE};
    if ((c | 32) == 'p' && r->at[2] == '{') {
        const char *name = r->at + 3, *end = strchr(name, '}');
        bool not = end && *name == '^';
        item->kind = ITEM_CATEGORIES;
        item->negated = (c == 'P') != not ;
        item->first = end ? lvn_category_set(name + not, end - name - not ) : 0;
        if (!item->first) REFUSE(r, "a property");
        r->at = end + 1;
        *single = false;
    } else if (c && strchr("sSwWdD", c)) {
        item->kind = (c | 32) == 's' ? ITEM_SPACE : (c | 32) == 'w' ? ITEM_WORD : ITEM_CATEGORIES;
        item->first = lvn_category_set("Nd", 2);
        item->negated = c < 'a';
        r->at += 2;
        *single = false;
    } else if (at || (c > 0 && !(((c | 32) >= 'a' && (c | 32) <= 'z') || (c >= '0' && c <= '9')))) {
        item->first = item->last = (unsigned char)(at ? values[at - named] : c);
        r->at += 2;
    } else {
        const int bytes = number_of(r->at, &item->first);
        if (!bytes) REFUSE(r, "an escape");
        item->last = item->first;
        r->at += bytes;
    }
    return LVN_OK;
}

static uint32_t next_code(struct parser *r)
{
    int used;
    int32_t code = lvn_utf8_decode(r->at, (int64_t)strlen(r->at), &used);
    r->at += used;
    return code < 0 ? 0xfffd : (uint32_t)code;
}

static enum lvn_status brackets(struct parser *r, int *number);

/* Parse a part of a class: a character, a range, a named class or a nested class. */
static enum lvn_status class_part(struct parser *r, struct class_items *g)
{
    struct item item = {.kind = ITEM_RANGE}, last;
    bool single = true;
    if (!*r->at) REFUSE(r, "a class without an end");
    if (!strncmp(r->at, "&&", 2) || !strncmp(r->at, "[:", 2)) REFUSE(r, "a class of classes");
    if (*r->at == '[') {
        int inner = 0;
        LVN_TRY(brackets(r, &inner));
        return add_item(r, g, (struct item){.kind = ITEM_SET, .first = (uint32_t)inner});
    }
    if (*r->at == '\\')
        LVN_TRY(escape(r, &item, &single));
    else
        item.first = item.last = next_code(r);
    if (!single) return add_item(r, g, item);
    if (r->at[0] == '-' && r->at[1] && r->at[1] != ']') {
        r->at++;
        last = item;
        if (*r->at == '\\')
            LVN_TRY(escape(r, &last, &single));
        else
            last.last = next_code(r);
        if (!single || last.last < item.first) REFUSE(r, "a range without an end");
        item.last = last.last;
    }
    return add_range(r, g, item.first, item.last);
}

/* [...] */
static enum lvn_status brackets(struct parser *r, int *number)
{
    struct class_items g = {.n = 0};
    if (++r->depth > MAX_DEPTH) REFUSE(r, "too many brackets");
    r->at++;
    bool negated = *r->at == '^';
    if (negated) r->at++;
    for (bool first = true; *r->at != ']' || first; first = false) LVN_TRY(class_part(r, &g));
    r->at++;
    r->depth--;
    return end_set(r, &g, negated, number);
}

static enum lvn_status alternatives(struct parser *r, int *number);

static enum lvn_status group(struct parser *r, int *number)
{
    static const struct {
        const char *text;
        struct node node;
        bool ignore_case;
    } kinds[] = {{"?:", {.kind = NODE_SEQUENCE}, false},
                 {"?i:", {.kind = NODE_SEQUENCE}, true},
                 {"?>", {.kind = NODE_ATOMIC}, false},
                 {"?=", {.kind = NODE_LOOKAHEAD}, false},
                 {"?!", {.kind = NODE_LOOKAHEAD, .negated = true}, false}};
    bool before = r->ignore_case;
    struct node enclosing = {.kind = NODE_SEQUENCE};
    if (++r->depth > MAX_DEPTH) REFUSE(r, "too many groups");
    r->at++;
    bool known = *r->at != '?';
    const int place = known && r->n_groups < LVN_REGEX_GROUPS ? ++r->n_groups : 0;
    if (place) enclosing = (struct node){.kind = NODE_GROUP, .set = place};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0] && !known; i++) {
        known = !strncmp(r->at, kinds[i].text, strlen(kinds[i].text));
        if (!known) continue;
        enclosing = kinds[i].node;
        r->ignore_case = r->ignore_case || kinds[i].ignore_case;
        r->at += strlen(kinds[i].text);
    }
    if (!known) REFUSE(r, "a group");
    LVN_TRY(alternatives(r, &enclosing.child));
    if (*r->at != ')') REFUSE(r, "a group without an end");
    r->at++;
    r->depth--;
    r->ignore_case = before;
    LVN_TRY(add_node(r, enclosing, number));
    if (place) r->group[place] = *number;
    return LVN_OK;
}

/* \1 to \9 */
static enum lvn_status reference(struct parser *r, int *number)
{
    const int place = r->at[1] - '0';
    if (r->at[2] >= '0' && r->at[2] <= '9') REFUSE(r, "a reference of two digits");
    if (place > LVN_REGEX_GROUPS || !r->group[place]) REFUSE(r, "a reference to a group that has not ended before it");
    if (r->ignore_case) REFUSE(r, "a reference in (?i:..)");
    r->at += 2;
    return add_node(r, (struct node){.kind = NODE_REFERENCE, .set = place}, number);
}

static enum lvn_status add_set(struct parser *r, const struct class_items *g, bool negated, int *number)
{
    struct node node = {.kind = NODE_SET};
    LVN_TRY(end_set(r, g, negated, &node.set));
    return add_node(r, node, number);
}

static enum lvn_status atom(struct parser *r, int *number)
{
    struct class_items g = {.n = 0};
    struct node node = {.kind = NODE_SET};
    struct item item;
    bool single;
    switch (*r->at) {
    case '(':
        return group(r, number);
    case '[':
        LVN_TRY(brackets(r, &node.set));
        return add_node(r, node, number);
    case '^':
    case '$':
        node.kind = *r->at++ == '^' ? NODE_BEGIN : NODE_END;
        return add_node(r, node, number);
    case '.':
        r->at++;
        LVN_TRY(add_range(r, &g, '\n', '\n'));
        return add_set(r, &g, true, number);
    case '\\':
        if (r->at[1] >= '1' && r->at[1] <= '9') return reference(r, number);
        LVN_TRY(escape(r, &item, &single));
        if (item.kind == ITEM_WORD) item.kind = ITEM_WORD_OUTSIDE_CLASS;
        LVN_TRY(single ? add_range(r, &g, item.first, item.last) : add_item(r, &g, item));
        return add_set(r, &g, false, number);
    case '*':
    case '+':
    case '?':
        REFUSE(r, "a repetition of nothing");
    default:
        item.first = next_code(r);
        LVN_TRY(add_range(r, &g, item.first, item.first));
        return add_set(r, &g, false, number);
    }
}

/* Parse *, +, ?, {m}, {m,}, {m,n}, {,n}; false: there is none. */
static bool quantity(struct parser *r, struct node *node)
{
    const char *p = r->at;
    char *end;
    if (*p == '*' || *p == '+' || *p == '?') {
        node->min = *p == '+';
        node->max = *p == '?' ? 1 : -1;
        r->at++;
        node->greed = *r->at == '?' ? LAZY : *r->at == '+' ? POSSESSIVE : GREEDY;
        if (node->greed != GREEDY) r->at++;
        return true;
    }
    if (*p != '{') return false;
    long low = strtol(++p, &end, 10), high = low;
    bool no_low = end == p;
    p = end;
    if (*p == ',') {
        high = strtol(++p, &end, 10);
        if (end == p) high = -1;
        p = end;
    }
    if (*p != '}' || (no_low && high < 0) || low < 0 || low > MAX_REPEATS || high > MAX_REPEATS ||
        (high >= 0 && high < low))
        return false;
    node->min = (int)low;
    node->max = (int)high;
    node->greed = p[1] == '?' ? LAZY : GREEDY; /* a following + repeats the whole */
    r->at = p + 1 + (node->greed == LAZY);
    return true;
}

static enum lvn_status sequence(struct parser *r, int *number)
{
    int before = 0;
    LVN_TRY(add_node(r, (struct node){.kind = NODE_SEQUENCE}, number));
    while (*r->at && *r->at != '|' && *r->at != ')') {
        int one;
        LVN_TRY(atom(r, &one));
        for (struct node loop = {.kind = NODE_REPEAT}; quantity(r, &loop);) {
            loop.child = one;
            LVN_TRY(add_node(r, loop, &one));
        }
        *(before ? &r->node[before].next : &r->node[*number].child) = one;
        before = one;
    }
    return LVN_OK;
}

static enum lvn_status alternatives(struct parser *r, int *number)
{
    int before = 0, one;
    LVN_TRY(add_node(r, (struct node){.kind = NODE_ALTERNATIVES}, number));
    for (;; r->at++) {
        LVN_TRY(sequence(r, &one));
        *(before ? &r->node[before].next : &r->node[*number].child) = one;
        before = one;
        if (*r->at != '|') return LVN_OK;
    }
}

static void *copy(struct lvn_arena *a, const void *p, size_t bytes)
{
    void *copy = lvn_arena_alloc(a, bytes + 1);
    return copy ? memcpy(copy, p, bytes) : NULL;
}

/* --- from the tree to a program: a repeated part is written once for each required repetition, and once for each
 * optional or unbounded one --- */

static enum lvn_status add_step(struct parser *r, struct step step, int *number)
{
    if (r->n_steps == MAX_STEPS) REFUSE(r, "too many repetitions");
    if (number) *number = r->n_steps;
    r->step[r->n_steps++] = step;
    return LVN_OK;
}

static enum lvn_status write_node(struct parser *r, int number);

/* Write an enclosing step (lookahead, atomic group), the steps of a node, and DONE. */
static enum lvn_status write_enclosed(struct parser *r, struct step enclosing,
                                      enum lvn_status (*write)(struct parser *, int), int number)
{
    int at;
    LVN_TRY(add_step(r, enclosing, &at));
    LVN_TRY(write(r, number));
    LVN_TRY(add_step(r, (struct step){.kind = STEP_DONE}, NULL));
    r->step[at].a = r->n_steps;
    return LVN_OK;
}

static bool may_be_empty(const struct parser *r, int number)
{
    const struct node *n = &r->node[number];
    bool all = true, any = false;
    for (int child = n->child; child; child = r->node[child].next) {
        bool empty = may_be_empty(r, child);
        all = all && empty;
        any = any || empty;
        if (n->kind == NODE_REPEAT) break;
    }
    switch (n->kind) {
    case NODE_SET:
        return false;
    case NODE_ALTERNATIVES:
        return any;
    case NODE_REPEAT:
        return all || !n->min;
    case NODE_LOOKAHEAD:
        return true;
    case NODE_REFERENCE:
        return may_be_empty(r, r->group[n->set]);
    default:
        return all;
    }
}

static enum lvn_status write_loop(struct parser *r, int number)
{
    const struct node *n = &r->node[number];
    bool lazy = n->greed == LAZY;
    int split, last = -1;
    if (n->max < 0 && may_be_empty(r, n->child)) REFUSE(r, "an endless repetition of what may be empty");
    for (int i = 0; i < n->min; i++) LVN_TRY(write_node(r, n->child));
    for (int i = n->min; i < n->max || (n->max < 0 && i == n->min); i++) {
        LVN_TRY(add_step(r, (struct step){.kind = STEP_SPLIT, .b = last}, &split));
        LVN_TRY(write_node(r, n->child));
        if (n->max < 0) LVN_TRY(add_step(r, (struct step){.kind = STEP_JUMP, .a = split}, NULL));
        last = split;
    }
    /* Until the end is known, the SPLIT steps of the loop are a linked list, by b. */
    for (int next; last >= 0; last = next) {
        next = r->step[last].b;
        r->step[last].a = lazy ? r->n_steps : last + 1;
        r->step[last].b = lazy ? last + 1 : r->n_steps;
    }
    return LVN_OK;
}

static enum lvn_status write_alternatives(struct parser *r, int child)
{
    int split = 0, jump, last = -1;
    for (; child; child = r->node[child].next) {
        bool more = r->node[child].next;
        if (more) LVN_TRY(add_step(r, (struct step){.kind = STEP_SPLIT, .a = r->n_steps + 1}, &split));
        LVN_TRY(write_node(r, child));
        if (!more) break;
        LVN_TRY(add_step(r, (struct step){.kind = STEP_JUMP, .a = last}, &jump));
        last = jump;
        r->step[split].b = r->n_steps;
    }
    for (int next; last >= 0; last = next) {
        next = r->step[last].a;
        r->step[last].a = r->n_steps;
    }
    return LVN_OK;
}

static enum lvn_status write_node(struct parser *r, int number)
{
    const struct node *n = &r->node[number];
    switch (n->kind) {
    case NODE_SET:
        return add_step(r, (struct step){.kind = STEP_SET, .set = n->set}, NULL);
    case NODE_BEGIN:
    case NODE_END:
        return add_step(r, (struct step){.kind = n->kind == NODE_BEGIN ? STEP_BEGIN : STEP_END}, NULL);
    case NODE_ALTERNATIVES:
        return write_alternatives(r, n->child);
    case NODE_SEQUENCE:
        for (int child = n->child; child; child = r->node[child].next) LVN_TRY(write_node(r, child));
        return LVN_OK;
    case NODE_GROUP:
        LVN_TRY(add_step(r, (struct step){.kind = STEP_PLACE, .a = 2 * n->set - 2}, NULL));
        LVN_TRY(write_node(r, n->child));
        return add_step(r, (struct step){.kind = STEP_PLACE, .a = 2 * n->set - 1}, NULL);
    case NODE_REFERENCE:
        return add_step(r, (struct step){.kind = STEP_REFERENCE, .a = n->set}, NULL);
    case NODE_LOOKAHEAD:
        return write_enclosed(r, (struct step){.kind = STEP_LOOKAHEAD, .negated = n->negated}, write_node, n->child);
    case NODE_ATOMIC:
        return write_enclosed(r, (struct step){.kind = STEP_ATOMIC}, write_node, n->child);
    case NODE_REPEAT:
        break;
    }
    if (r->node[n->child].kind == NODE_SET && n->greed != LAZY)
        return add_step(
            r,
            (struct step){
                .kind = STEP_LOOP, .set = r->node[n->child].set, .min = n->min, .max = n->max, .greed = n->greed},
            NULL);
    if (n->greed == POSSESSIVE) return write_enclosed(r, (struct step){.kind = STEP_ATOMIC}, write_loop, number);
    return write_loop(r, number);
}

/* Write the steps of a tree, ended by DONE. */
static enum lvn_status write_program(struct parser *r, int root)
{
    LVN_TRY(write_node(r, root));
    return add_step(r, (struct step){.kind = STEP_DONE}, NULL);
}

enum lvn_status lvn_regex_new(struct lvn_regex **out, struct lvn_arena *a, const char *name, const char *text)
{
    struct parser *r = lvn_calloc(1, sizeof *r);
    int root = 0;
    *out = NULL;
    if (!r) return LVN_MEMORY;
    r->at = r->text = text;
    r->name = name;
    enum lvn_status status = alternatives(r, &root);
    if (status == LVN_OK && *r->at) status = refuse(r, "a bracket that nothing opens");
    if (status == LVN_OK) status = write_program(r, root);
    struct lvn_regex *e = status == LVN_OK ? lvn_arena_alloc(a, sizeof *e) : NULL;
    if (e) {
        e->step = copy(a, r->step, (size_t)r->n_steps * sizeof *r->step);
        e->set = copy(a, r->set, (size_t)r->n_sets * sizeof *r->set);
        e->item = copy(a, r->item, (size_t)r->n_items * sizeof *r->item);
        e->n_groups = r->n_groups;
        *out = e;
    }
    free(r);
    if (status == LVN_OK && (!e || !e->step || !e->set || !e->item)) status = LVN_MEMORY;
    return status;
}

int lvn_regex_groups(const struct lvn_regex *e)
{
    return e->n_groups;
}
