/* regex_find.c - see regex.h: matching by backtracking. Alternatives not tried yet are on a stack; a loop over one set
 * is one entry, which gives back a character at a time; a group's place is one, which gives back what it was before. */

#include "base/list.h"
#include "base/text.h"
#include "tokenizers/regex/regex_private.h"
#include "tokenizers/unicode/unicode.h"

enum { MAX_STACK = 1 << 24, MAX_BACKTRACKS = 20000000 };

struct lvn_regex_state {
    int step;    /* at which to continue; -1 - i: place i of a group was `at` before */
    int64_t at;  /* position in the text */
    int64_t min; /* >= 0: a loop, which can give back characters down to this position */
};

struct match {
    const struct lvn_regex *e;
    struct lvn_regex_scratch *s;
    const uint8_t *p;
    int64_t n;
    int64_t backtracks;
    int64_t max_work; /* of s->work */
    enum lvn_status status;
};

void lvn_regex_scratch_release(struct lvn_regex_scratch *s)
{
    free(s->stack);
    *s = (struct lvn_regex_scratch){0};
}

/* \w of Oniguruma: without zero-width joiners; outside of a class also the numbers of Latin 1 that are no digits. */
static bool is_word_char(uint32_t c, bool outside_class)
{
    bool number = c == 0xb2 || c == 0xb3 || c == 0xb9 || (c >= 0xbc && c <= 0xbe);
    return (number && outside_class) || (lvn_char(c)->is_word_char && c != 0x200c && c != 0x200d);
}

static bool item_has(const struct set *sets, const struct item *items, const struct item *i, int32_t code)
{
    bool in = false;
    uint32_t c = (uint32_t)code;
    if (i->kind == ITEM_SET) return lvn_set_has(sets, items, &sets[i->first], code);
    if (code < 0) return i->negated;
    if (i->kind == ITEM_RANGE) in = c >= i->first && c <= i->last;
    if (i->kind == ITEM_CATEGORIES) in = i->first >> lvn_char(c)->category & 1;
    if (i->kind == ITEM_SPACE) in = lvn_char(c)->char_class == LVN_CHAR_SPACE;
    if (i->kind == ITEM_WORD || i->kind == ITEM_WORD_OUTSIDE_CLASS)
        in = is_word_char(c, i->kind == ITEM_WORD_OUTSIDE_CLASS);
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

/* The position of the character before `at`. */
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
    if (s->n == MAX_STACK)
        m->status = lvn_fail(LVN_FORMAT, "a regular expression has more than %d states to try in one text", MAX_STACK);
    else if (!lvn_list_reserve(&s->stack, &s->capacity, s->n + 1, sizeof *s->stack))
        m->status = LVN_MEMORY;
    if (m->status != LVN_OK) return false;
    s->stack[s->n++] = (struct lvn_regex_state){.step = step, .at = at, .min = min};
    return true;
}

/* Match as many characters of the loop's set as possible. False: too few, or out of memory. */
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
    m->s->work += end - *at;
    if (min < 0) return false;
    *at = end;
    return s->greed == POSSESSIVE || end == min || push(m, step + 1, end, min);
}

/* Continue at the last alternative on the stack above `base`. False: none, or too many backtracking steps. */
static bool backtrack(struct match *m, int64_t base, int *step, int64_t *at)
{
    struct lvn_regex_scratch *s = m->s;
    for (; s->n > base && s->stack[s->n - 1].step < 0; s->n--)
        s->place[-1 - s->stack[s->n - 1].step] = s->stack[s->n - 1].at;
    if (s->n == base) return false;
    if (++m->backtracks > MAX_BACKTRACKS) {
        m->status =
            lvn_fail(LVN_FORMAT, "a regular expression needs more than %d attempts to match one text", MAX_BACKTRACKS);
        return false;
    }
    struct lvn_regex_state *top = &s->stack[s->n - 1];
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

/* Drop the alternatives above `base`; what places were before stays, for the alternatives below. */
static void commit(struct lvn_regex_scratch *s, int64_t base, bool has_groups)
{
    int64_t kept = base;
    for (int64_t i = base; has_groups && i < s->n; i++)
        if (s->stack[i].step < 0) s->stack[kept++] = s->stack[i];
    s->n = kept;
}

/* Bytes of what a group has matched, if they are also at `at`; -1: they do not, or it has matched nothing. */
static int64_t again(const struct match *m, int group, int64_t at)
{
    const int64_t *place = m->s->place + 2 * group - 2, bytes = place[1] - place[0];
    if (place[1] >= 0) m->s->work += bytes;
    return place[1] >= 0 && bytes <= m->n - at && !memcmp(m->p + place[0], m->p + at, (size_t)bytes) ? bytes : -1;
}

/* Run the program from a step to its DONE. False: no match. */
static bool run(struct match *m, int step, int64_t *at)
{
    const struct step *steps = m->e->step;
    int64_t base = m->s->n, position = *at, inner;
    for (bool good;;) {
        const struct step *s = &steps[step];
        int bytes;
        good = true;
        switch (s->kind) {
        case STEP_SET:
            bytes = one(m, s->set, position);
            good = bytes > 0;
            position += bytes;
            step++;
            break;
        case STEP_LOOP:
            good = loop(m, step, &position);
            step++;
            break;
        case STEP_SPLIT:
            good = push(m, s->b, position, -1);
            step = s->a;
            break;
        case STEP_JUMP:
            step = s->a;
            break;
        case STEP_LOOKAHEAD:
        case STEP_ATOMIC:
            inner = position;
            good = run(m, step + 1, &inner) != s->negated;
            if (s->kind == STEP_ATOMIC) position = inner;
            step = s->a;
            break;
        case STEP_BEGIN:
            good = position == 0 || (position < m->n && m->p[position - 1] == '\n'); /* no line follows the last \n */
            step++;
            break;
        case STEP_END:
            good = position == m->n || m->p[position] == '\n';
            step++;
            break;
        case STEP_PLACE:
            good = push(m, -1 - s->a, m->s->place[s->a], -1);
            m->s->place[s->a] = position;
            step++;
            break;
        case STEP_REFERENCE:
            inner = again(m, s->a, position);
            good = inner >= 0;
            position += inner;
            step++;
            break;
        case STEP_DONE:
            commit(m->s, base, m->e->n_groups > 0);
            *at = position;
            return true;
        }
        if (++m->s->work > m->max_work && m->status == LVN_OK)
            m->status = lvn_fail(LVN_FORMAT,
                                 "a regular expression compares a text of %lld bytes again and again, more than 1,000 "
                                 "times",
                                 (long long)m->n);
        if (m->status != LVN_OK || (!good && !backtrack(m, base, &step, &position))) return false;
    }
}

int64_t lvn_regex_max_work(int64_t n)
{
    return 8 * (int64_t)MAX_BACKTRACKS + 1000 * n;
}

enum lvn_status lvn_regex_find(const struct lvn_regex *e, struct lvn_regex_scratch *s, const uint8_t *p, int64_t n,
                               int64_t from, bool *found, int64_t *begin, int64_t *end)
{
    struct match m = {.e = e, .s = s, .p = p, .n = n, .max_work = s->work + lvn_regex_max_work(n)};
    *found = false;
    for (int64_t at = from < 0 ? 0 : from; at <= n && m.status == LVN_OK && !*found;) {
        int bytes = 1;
        s->n = 0;
        for (int k = 0; k < 2 * e->n_groups; k++) s->place[k] = -1;
        *begin = *end = at;
        *found = run(&m, 0, end) && (*end > at || at != from);
        if (at < n) (void)lvn_utf8_decode(p + at, n - at, &bytes);
        at += bytes;
    }
    return m.status;
}
