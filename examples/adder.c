/* adder.c - data of one's own with levin.h: a small GPT learns to add numbers of two digits, as minGPT's adder does.
 *
 *     cc adder.c -o adder $(pkg-config --cflags --libs levin)
 *     adder [STEPS]      trains into runs/adder, 3000 steps by default; then adds 500 pairs that it never saw
 *
 * 85 + 50 = 135 is the sequence 8 5 5 0 5 3 1: the digits of both numbers, then those of the sum from the last one to
 * the first, so that a carry is known before it is needed. Only the digits of the sum are to be learnt. */
#include <levin.h>
#include <stdio.h>
#include <string.h>

enum { PAIRS = 10000, HELD_OUT = 500, ASKED = 4, ANSWER = 3, LENGTH = ASKED + ANSWER - 1 };

/* The sequence of pair number i. The pairs are shuffled by a prime, so that the first ones can be held out. */
static void write_pair(int64_t i, int32_t out[ASKED + ANSWER])
{
    int32_t pair = (int32_t)(i * 7919 % PAIRS), a = pair / 100, b = pair % 100, c = a + b;
    const int32_t digits[] = {a / 10, a % 10, b / 10, b % 10, c % 10, c / 10 % 10, c / 100};
    memcpy(out, digits, sizeof digits);
}

/* The model predicts each next token; the label -1 says that it does not count. */
static int sample(void *context, int64_t split, int64_t i, void *const *out, char error[400])
{
    int32_t text[ASKED + ANSWER], *ids = out[0], *labels = out[1];
    (void)context, (void)error;
    write_pair(split == 0 ? HELD_OUT + i : i, text);
    for (int t = 0; t < LENGTH; t++) {
        ids[t] = text[t];
        labels[t] = t < ASKED - 1 ? -1 : text[t + 1];
    }
    return 0;
}

static int on_event(void *context, const struct levin_run_event *e)
{
    (void)context;
    for (int64_t k = 0; e->kind == LEVIN_ON_VALIDATION && k < e->n_scalars; k++)
        if (!strcmp(e->scalar[k].name, "val_loss")) printf("step %d: %.4f\n", (int)e->step, e->scalar[k].value);
    return 0;
}

static int train(const char *steps)
{
    const char *keys[][2] = {{"name", "adder"},
                             {"model.kind", "mingpt"},
                             {"model.size", "gpt-nano"},
                             {"optimizer.lr", "5e-4"},
                             {"trainer.batch_size", "64"},
                             {"trainer.max_steps", steps},
                             {"trainer.val_check_interval", "500"},
                             {"trainer.seed", "3407"}};
    const struct levin_run_field fields[] = {
        {.size = sizeof *fields, .name = "ids", .rank = 1, .dim = {LENGTH}, .below = 10},
        {.size = sizeof *fields, .name = "labels", .rank = 1, .dim = {LENGTH}, .below = 10}};
    const struct levin_run_data data = {.size = sizeof data,
                                        .n_fields = 2,
                                        .field = fields,
                                        .samples = {PAIRS - HELD_OUT, HELD_OUT},
                                        .vocab_size = 10,
                                        .sample = sample};
    const struct levin_run_options options = {.size = sizeof options, .on_event = on_event, .data = &data};
    struct levin_settings *s = levin_settings_new();
    struct levin_run *r = NULL;
    int failed = s == NULL;
    for (int i = 0; i < 8 && !failed; i++) failed = levin_settings_put(s, keys[i][0], keys[i][1]);
    if (!failed) failed = levin_run_open_with(&r, s, &options);
    for (bool over = false; !failed && !over;) failed = levin_run_step(r, &over);
    const int closed = levin_run_close(r);
    levin_settings_free(s);
    return failed ? failed : closed;
}

/* Ask the trained model for the sums of the pairs that were held out. */
static int count(int *right)
{
    struct levin_settings *s = levin_settings_new();
    struct levin_inference *m = NULL;
    int failed = !s || levin_settings_model(s, "runs/adder") || levin_inference_open(&m, s);
    *right = 0;
    for (int64_t i = 0; i < HELD_OUT && !failed; i++) {
        int32_t text[ASKED + ANSWER];
        write_pair(i, text);
        struct levin_generation g = {.size = sizeof g, .prompt = text, .n_prompt = ASKED, .max_new_tokens = ANSWER};
        failed = levin_inference_generate(m, &g);
        *right += !failed && g.n_ids == ANSWER && !memcmp(g.ids, text + ASKED, sizeof(int32_t[ANSWER]));
        levin_free(g.ids);
        levin_free(g.text);
    }
    levin_inference_close(m);
    levin_settings_free(s);
    return failed;
}

int main(int argc, char **argv)
{
    int right, failed = train(argc > 1 ? argv[1] : "3000") || count(&right);
    if (failed) fprintf(stderr, "error: %s\n", levin_error_text());
    if (!failed) printf("%d of %d sums of pairs that were held out are right\n", right, HELD_OUT);
    return failed;
}
