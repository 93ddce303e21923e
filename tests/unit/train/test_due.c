/* test_due.c - covers: src/run/train/due.c
 *
 * What is due after a step, in which order, and what an interrupted run leaves to the resumed one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "train/due.h"

enum { V = LVN_DUE_VALIDATION, E = LVN_DUE_EPOCH_END, S = LVN_DUE_SAVE };

static void intervals(void **state)
{
    (void)state;
    const struct lvn_due_intervals every = {.validation = 4, .epoch = 6, .save = 3, .last_step = 13, .validates = true};
    static const unsigned due[] = {[3] = S, [4] = V, [6] = E | S, [8] = V, [9] = S, [12] = V | E | S, [13] = V};
    for (int64_t step = 1; step <= 13; step++) assert_int_equal(lvn_due_after(&every, step), due[step]);
    const struct lvn_due_intervals no_validation = {.validation = 4, .epoch = 6, .last_step = 12};
    assert_int_equal(lvn_due_after(&no_validation, 12), E);
    const struct lvn_due_intervals only_last = {.last_step = 12, .validates = true};
    assert_int_equal(lvn_due_after(&only_last, 11), 0);
    assert_int_equal(lvn_due_after(&only_last, 12), V);
}

/* F: SAVE_FIRST, V: VALIDATION, E: EPOCH_END, S: SAVE, as they are executed; then what is left, in parentheses. */
static const char *sequence(struct lvn_due_state s)
{
    static char text[20];
    char *end = text;
    enum lvn_due next;
    for (int k = 0; k < 8 && (next = lvn_due_next(&s)) != LVN_DUE_NOTHING; k++) {
        *end++ = next == LVN_DUE_SAVE_FIRST   ? 'F'
                 : next == LVN_DUE_VALIDATION ? 'V'
                 : next == LVN_DUE_EPOCH_END  ? 'E'
                                              : 'S';
        s.saved_first |= next == LVN_DUE_SAVE_FIRST;
        s.due &= ~(unsigned)next;
    }
    if (s.due) *end++ = '(';
    if (s.due & V) *end++ = 'V';
    if (s.due & E) *end++ = 'E';
    if (s.due & S) *end++ = 'S';
    if (s.due) *end++ = ')';
    *end = '\0';
    return text;
}

static void sequences(void **state)
{
    (void)state;
    static const struct {
        struct lvn_due_state state;
        const char *sequence;
    } table[] = {
        {{.due = 0}, ""},
        {{.due = V | E | S}, "VES"},
        {{.due = V | E | S, .in_store = true}, "VES"},
        {{.due = E | S}, "ES"},
        /* a step is saved before a validation that may outlast a kill */
        {{.due = V | E | S, .interrupted = true}, "FVES"},
        {{.due = V, .interrupted = true}, "FV"},
        {{.due = V, .interrupted = true, .last = true}, "FV"},
        /* in a store the resumed run makes it, and everything after it */
        {{.due = V | E | S, .interrupted = true, .in_store = true}, "F(VES)"},
        {{.due = V, .interrupted = true, .in_store = true}, "F(V)"},
        {{.due = V | E, .interrupted = true, .in_store = true, .last = true}, "FVE"},
        /* nothing is validated: the end of the epoch comes before the save */
        {{.due = E | S, .interrupted = true}, "ES"},
        {{.due = E | S, .interrupted = true, .in_store = true}, "ES"},
        {{.due = 0, .interrupted = true, .in_store = true}, ""},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        assert_string_equal(sequence(table[i].state), table[i].sequence);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(intervals), cmocka_unit_test(sequences)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
