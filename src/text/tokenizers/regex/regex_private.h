/* regex_private.h - the program that a regular expression is compiled to; for regex.c and regex_find.c. */
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

#endif
