/* regex_private.h - the program that a regular expression is compiled to, and the parser's tree; for regex*.c alone. */
#ifndef LVN_REGEX_PRIVATE_H
#define LVN_REGEX_PRIVATE_H

#include "tokenizers/regex/regex.h"

enum item_kind { ITEM_RANGE, ITEM_CATEGORIES, ITEM_SPACE, ITEM_WORD, ITEM_WORD_OUTSIDE_CLASS, ITEM_SET };

struct item {
    enum item_kind kind;
    bool negated;
    uint32_t first; /* of a range; else categories as bits, or the number of a set */
    uint32_t last;  /* of a range */
};

/* A character class: item[first, first + n). */
struct set {
    int first;
    int n;
    bool negated;
    uint64_t ascii[2]; /* bit set: this character of 0..127 is in the set */
};

/* Is the character (-1: a byte that is not UTF-8) in the set? */
bool lvn_set_has(const struct set *sets, const struct item *items, const struct set *s, int32_t code);

enum step_kind {
    STEP_SET,       /* one character of a set */
    STEP_LOOP,      /* min to max (-1: no limit) characters of a set */
    STEP_SPLIT,     /* continue at a; if that fails, at b */
    STEP_JUMP,      /* to a */
    STEP_LOOKAHEAD, /* the steps up to a must match here (negated: must not); continue at a, at the same position */
    STEP_ATOMIC,    /* the steps up to a match without backtracking into them; continue at a, after the match */
    STEP_BEGIN,     /* of a line */
    STEP_END,       /* of a line */
    STEP_PLACE,     /* note the position as place a of a group */
    STEP_REFERENCE, /* a backreference: the text that group a matched */
    STEP_DONE,
};
enum greed { GREEDY, LAZY, POSSESSIVE };

struct step {
    enum step_kind kind;
    enum greed greed;
    bool negated;
    int set; /* number of a set */
    int a;   /* number of a step */
    int b;   /* number of a step */
    int min;
    int max;
};

struct lvn_regex {
    struct step *step;
    struct set *set;
    struct item *item;
    int n_groups;
};

/* --- the parser --- */

enum { MAX_STEPS = 4096, MAX_NODES = 2048, MAX_ITEMS = 4096, MAX_SETS = 1024 };
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
enum lvn_status lvn_regex_refuse(const struct parser *r, const char *syntax);
#define REFUSE(r, syntax)                                                                                              \
    do {                                                                                                               \
        (void)lvn_regex_refuse(r, syntax);                                                                             \
        return LVN_UNSUPPORTED;                                                                                        \
    } while (0)
/* Write the steps of a tree, ended by DONE. */
enum lvn_status lvn_regex_write(struct parser *r, int root) LVN_CHECKED;

#endif
