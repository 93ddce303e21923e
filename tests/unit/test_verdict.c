/* test_verdict.c - what is said of runs that ended worse than they began, and of no others. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "train/verdict.h"

/* The published fine-tuning job: 6e-4 on trained weights. */
static struct lvn_course course(void)
{
    return (struct lvn_course){.start_val_loss = 3.1,
                               .val_loss = 3.21,
                               .best_val_loss = 3.21,
                               .first_loss = 3.1,
                               .last_loss = 3.2,
                               .lr = 6e-4,
                               .epochs = 0.01,
                               .loaded = true};
}

static void says(const struct lvn_course *c, const char *words)
{
    char text[LVN_VERDICT_TEXT];
    lvn_verdict(c, text);
    if (words ? !strstr(text, words) : *text != '\0') fail_msg("'%s', wanted '%s'", text, words ? words : "");
}

static void causes(void **state)
{
    (void)state;
    struct lvn_course c = course();
    says(&c, "the run ended worse than it began: validation 3.2100, and 3.1000 before the first step; likely because "
             "optimizer.lr, 0.0006, is too high for weights that are trained already");
    c.lr = 3e-5;
    says(&c, "training loss did not fall either");
    c.last_loss = 2.5;
    says(&c, "of another kind than the validation data");
    c.epochs = 5.0, c.lr = 6e-4; /* learnt by heart, whatever the rate */
    says(&c, "over several passes: likely because the training data are too few");
    c.best_val_loss = 3.0;
    says(&c, "it was 3.0000 in between, and `best` is that");
    c = course();
    c.loaded = false;
    says(&c, "training loss did not fall either");
    c.first_loss = c.last_loss = NAN; /* a run that went on */
    says(&c, "before the first step; likely because optimizer.lr");
}

static void silence(void **state)
{
    (void)state;
    struct lvn_course c = course();
    c.val_loss = 3.1;
    says(&c, NULL);
    c.val_loss = NAN;
    says(&c, NULL);
    c = course();
    c.start_val_loss = NAN;
    says(&c, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(causes), cmocka_unit_test(silence)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
