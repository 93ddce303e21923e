/* regex_steps.h - the program that a regular expression becomes; for regex*.c alone. */
#ifndef LVN_REGEX_STEPS_H
#define LVN_REGEX_STEPS_H

#include "tokenizers/regex/regex.h"

enum item_kind { ITEM_RANGE, ITEM_CATEGORIES, ITEM_SPACE, ITEM_WORDLY, ITEM_WORDLY_ALONE, ITEM_SET };

struct item {
    enum item_kind kind;
    bool negated;
    uint32_t first, last; /* range; first: categories as bits, or the number of a set */
};

struct set {
    int first, n; /* item[first .. first + n) */
    bool negated;
    uint64_t ascii[2]; /* bits: which of 0..127 are in it */
};

/* Is the character (-1: a byte that is not UTF-8) in the set? */
bool lvn_set_has(const struct set *sets, const struct item *items, const struct set *s, int32_t code);

enum step_kind {
    STEP_SET,    /* one character of a set */
    STEP_LOOP,   /* least to most (-1: no end) characters of a set */
    STEP_EITHER, /* go on at a; if that fails, at b */
    STEP_JUMP,   /* to a */
    STEP_AHEAD,  /* the steps up to a must match here (negated: must not); go on at a where they began */
    STEP_ONCE,   /* the steps up to a match in one way only; go on at a where they ended */
    STEP_BEGIN,  /* of a line */
    STEP_END,    /* of a line */
    STEP_DONE,
};
enum greed { GREEDY, LAZY, POSSESSIVE };

struct step {
    enum step_kind kind;
    enum greed greed;
    bool negated;
    int set, a, b, min, max;
};

struct lvn_regex {
    struct step *step;
    struct set *set;
    struct item *item;
};

/* --- on the way there --- */

enum { MAX_STEPS = 4096, MAX_NODES = 2048, MAX_ITEMS = 4096, MAX_SETS = 1024 };
enum node_kind { NODE_SET, NODE_SEQUENCE, NODE_EITHER, NODE_REPEAT, NODE_AHEAD, NODE_ONCE, NODE_BEGIN, NODE_END };
struct node {
    enum node_kind kind;
    enum greed greed;
    bool negated;
    int set, min, max, child, next; /* numbers of nodes; 0: there is none */
};

struct parser {
    const char *at, *whole, *name;
    struct step step[MAX_STEPS];
    struct node node[MAX_NODES]; /* number 0 is none */
    struct set set[MAX_SETS];
    struct item item[MAX_ITEMS];
    int n_steps, n_nodes, n_sets, n_items, depth;
    bool any_case;
};

/* The sentence that says what is not there; LVN_UNSUPPORTED. */
enum lvn_status lvn_regex_refuse(const struct parser *r, const char *what);
#define REFUSE(r, what) return (void)lvn_regex_refuse(r, what), LVN_UNSUPPORTED
/* The steps of a tree, which end in DONE. */
enum lvn_status lvn_regex_write(struct parser *r, int root) LVN_CHECKED;

#endif
