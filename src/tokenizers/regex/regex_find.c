/* regex_find.c - matching: see regex.h. The places where another way was open stand in a stack; a loop over
 * one set is one place, which gives back a character at a time. */
#include <stdlib.h>

#include "base/text.h"
#include "tokenizers/regex/regex_steps.h"
#include "tokenizers/unicode/unicode.h"

enum { MAX_PLACES = 1 << 24, MAX_RETURNS = 20000000 };

struct lvn_regex_place {
    int step;
    int64_t at, min; /* least >= 0: a loop that can give characters back, down to there */
};

struct match {
    const struct lvn_regex *e;
    struct lvn_regex_scratch *s;
    const uint8_t *p;
    int64_t n, returns;
    enum lvn_status status;
};

void lvn_regex_scratch_release(struct lvn_regex_scratch *s)
{
    free(s->place);
    *s = (struct lvn_regex_scratch){0};
}

/* \w as Oniguruma has it: without the joiners of width zero; outside of a class with those numbers of Latin 1 that are
 * no digits. */
static bool is_wordly(uint32_t c, bool alone)
{
    bool number = c == 0xb2 || c == 0xb3 || c == 0xb9 || (c >= 0xbc && c <= 0xbe);
    return (number && alone) || (lvn_is_wordly(c) && c != 0x200c && c != 0x200d);
}

static bool item_has(const struct set *sets, const struct item *items, const struct item *i, int32_t code)
{
    bool in = false;
    uint32_t c = (uint32_t)code;
    if (i->kind == ITEM_SET) return lvn_set_has(sets, items, &sets[i->first], code);
    if (code < 0) return i->negated;
    if (i->kind == ITEM_RANGE) in = c >= i->first && c <= i->last;
    if (i->kind == ITEM_CATEGORIES) in = i->first >> lvn_category(c) & 1;
    if (i->kind == ITEM_SPACE) in = lvn_char_classes[c] == LVN_CHAR_SPACE;
    if (i->kind == ITEM_WORDLY || i->kind == ITEM_WORDLY_ALONE) in = is_wordly(c, i->kind == ITEM_WORDLY_ALONE);
    return in != i->negated;
}

bool lvn_set_has(const struct set *sets, const struct item *items, const struct set *s, int32_t code)
{
    bool in = false;
    for (int i = s->first; i < s->first + s->n && !in; i++) in = item_has(sets, items, &items[i], code);
    return in != s->negated;
}

/* Bytes of the character at `at` if it is in the set; else 0. */
static int one(const struct match *m, int set, int64_t at)
{
    const struct set *s = &m->e->set[set];
    int bytes;
    if (at >= m->n) return 0;
    if (m->p[at] < 0x80) return s->ascii[m->p[at] / 64] >> m->p[at] % 64 & 1;
    int32_t code = lvn_utf8_decode(m->p + at, m->n - at, &bytes);
    return lvn_set_has(m->e->set, m->e->item, s, code) ? bytes : 0;
}

/* Where the character before `at` begins. */
static int64_t one_back(const struct match *m, int64_t at)
{
    int bytes;
    for (int64_t i = at - 1; i >= 0 && at - i <= 4; i--)
        if (lvn_utf8_decode(m->p + i, m->n - i, &bytes) >= 0) return i + bytes == at ? i : at - 1;
    return at - 1;
}

static bool push(struct match *m, int step, int64_t at, int64_t min)
{
    struct lvn_regex_scratch *s = m->s;
    if (s->n == s->capacity) {
        int64_t capacity = s->capacity ? 2 * s->capacity : 1024;
        struct lvn_regex_place *more =
            capacity <= MAX_PLACES ? lvn_realloc(s->place, (size_t)capacity * sizeof *more) : NULL;
        if (!more) {
            m->status = capacity <= MAX_PLACES
                            ? LVN_MEMORY
                            : lvn_fail(LVN_FORMAT,
                                       "an expression of the tokenizer has more than %d ways to go on "
                                       "in one text",
                                       MAX_PLACES);
            return false;
        }
        s->place = more;
        s->capacity = capacity;
    }
    s->place[s->n++] = (struct lvn_regex_place){.step = step, .at = at, .min = min};
    return true;
}

/* As many characters of the loop's set as there are. False: too few, or no memory. */
static bool loop(struct match *m, int step, int64_t *at)
{
    const struct step *s = &m->e->step[step];
    int64_t min = -1, end = *at;
    for (int i = 0, bytes = 1; bytes; i++) {
        if (i == s->min) min = end;
        if (i == s->max) break;
        bytes = one(m, s->set, end);
        end += bytes;
    }
    if (min < 0) return false;
    *at = end;
    return s->greed == POSSESSIVE || end == min || push(m, step + 1, end, min);
}

/* The last place where another way was open, above `floor`. */
static bool come_back(struct match *m, int64_t floor, int *step, int64_t *at)
{
    struct lvn_regex_scratch *s = m->s;
    if (s->n == floor) return false;
    if (++m->returns > MAX_RETURNS) {
        m->status = lvn_fail(LVN_FORMAT, "an expression of the tokenizer takes more than %d tries to match one text",
                             MAX_RETURNS);
        return false;
    }
    struct lvn_regex_place *top = &s->place[s->n - 1];
    *step = top->step;
    *at = top->at;
    if (top->min < 0) {
        s->n--;
        return true;
    }
    *at = top->at = one_back(m, top->at);
    if (top->at <= top->min) s->n--;
    return true;
}

/* Walk from a step to the DONE that belongs to it. */
static bool walk(struct match *m, int step, int64_t *at)
{
    const struct step *steps = m->e->step;
    int64_t floor = m->s->n, here = *at, inner;
    for (bool good;;) {
        const struct step *s = &steps[step];
        int bytes;
        good = true;
        switch (s->kind) {
        case STEP_SET:
            bytes = one(m, s->set, here);
            good = bytes > 0;
            here += bytes;
            step++;
            break;
        case STEP_LOOP:
            good = loop(m, step, &here);
            step++;
            break;
        case STEP_EITHER:
            good = push(m, s->b, here, -1);
            step = s->a;
            break;
        case STEP_JUMP:
            step = s->a;
            break;
        case STEP_AHEAD:
        case STEP_ONCE:
            inner = here;
            good = walk(m, step + 1, &inner) != s->negated;
            if (s->kind == STEP_ONCE) here = inner;
            step = s->a;
            break;
        case STEP_BEGIN:
            good = here == 0 || m->p[here - 1] == '\n';
            step++;
            break;
        case STEP_END:
            good = here == m->n || m->p[here] == '\n';
            step++;
            break;
        case STEP_DONE:
            m->s->n = floor;
            *at = here;
            return true;
        }
        if (m->status != LVN_OK || (!good && !come_back(m, floor, &step, &here))) return false;
    }
}

enum lvn_status lvn_regex_find(const struct lvn_regex *e, struct lvn_regex_scratch *s, const uint8_t *p, int64_t n,
                               int64_t from, bool *found, int64_t *begin, int64_t *end)
{
    struct match m = {.e = e, .s = s, .p = p, .n = n};
    *found = false;
    for (int64_t at = from < 0 ? 0 : from; at <= n && m.status == LVN_OK && !*found;) {
        int bytes = 1;
        s->n = 0;
        *begin = *end = at;
        *found = walk(&m, 0, end) && (*end > at || at != from);
        if (at < n) (void)lvn_utf8_decode(p + at, n - at, &bytes);
        at += bytes;
    }
    return m.status;
}
