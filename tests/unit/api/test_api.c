/* test_api.c - covers: src/api/api.c src/api/api_run.c src/api/api_settings.c src/api/api_own_model.c
 * src/api/api_events.c include/levin.h
 *
 * The public functions of levin.h: a run in the program's hands is the run of lvn_train_model(). */
#include "io_test.h"

#include <locale.h>
#include <math.h>

#include "levin.h"

static const char verse[] = "the owl and the pussycat went to sea in a beautiful pea-green boat\n"
                            "they took some honey and plenty of money wrapped up in a five-pound note\n";

/* ids (B,T) -> logits (B,T,V): each token sees itself and its position only */
static struct lvn_tensor *logits(struct lvn_graph *g, const struct lvn_sizes *n, struct lvn_tensor *ids, void *context)
{
    (void)context;
    struct lvn_tensor *table = lvn_table(g, "wte", n->vocab_size, n->n_embd, 0.1);
    struct lvn_tensor *x = lvn_embedding(g, ids, table, lvn_table(g, "wpe", n->block_size, n->n_embd, 0.02));
    x = lvn_dropout(g, x, 0.1);
    return lvn_linear(g, lvn_layernorm(g, x, lvn_vector(g, "norm", n->n_embd, 1.0), NULL, 1e-5), table, NULL, false);
}

static const struct lvn_own_model own = {.name = "own", .logits = logits};

/* A run `name` of 20 steps on 40 copies of the verse, with further keys. */
static struct lvn_settings *settings(const char *name, const char *const (*more)[2])
{
    const char *keys[][2] = {{"name", name},
                             {"run_dir", test_path(name)},
                             {"data.path", test_path("verse.txt")},
                             {"model.n_layer", "1"},
                             {"model.n_head", "2"},
                             {"model.n_embd", "16"},
                             {"model.block_size", "16"},
                             {"trainer.batch_size", "4"},
                             {"trainer.max_steps", "20"},
                             {"trainer.val_check_interval", "10"},
                             {"checkpoint.every_n_steps", "0"},
                             {"optimizer.lr", "1e-2"},
                             {"sample.max_new_tokens", "30"}};
    struct lvn_settings *s = lvn_settings_new();
    assert_non_null(s);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (lvn_settings_put(s, keys[i][0], keys[i][1])) fail_msg("%s", lvn_error_text());
    for (; more && (*more)[0]; more++)
        if (lvn_settings_put(s, (*more)[0], (*more)[1])) fail_msg("%s", lvn_error_text());
    return s;
}

static int put_verse(void **state)
{
    char text[40 * sizeof verse] = "";
    for (int i = 0; i < 40; i++) memcpy(text + (size_t)i * (sizeof verse - 1), verse, sizeof verse);
    if (test_dir_make(state)) return -1;
    test_put("verse.txt", text, (int64_t)strlen(text));
    return 0;
}

static char *read_all(const char *run, const char *name, int64_t *bytes)
{
    char path[512], *text;
    snprintf(path, sizeof path, "%s/%s", test_path(run), name);
    ASSERT_OK(lvn_file_read(path, 0, &text, bytes));
    return text;
}

static void same_weights(const char *a, const char *b)
{
    static const char file[] = "checkpoints/last/model.safetensors";
    int64_t n[2];
    char *p[2] = {read_all(a, file, &n[0]), read_all(b, file, &n[1])};
    assert_int_equal(n[0], n[1]);
    assert_memory_equal(p[0], p[1], (size_t)n[0]);
    free(p[0]);
    free(p[1]);
}

static struct lvn_run *run_of(struct lvn_settings *s, const struct lvn_own_model *m, enum lvn_open mode)
{
    struct lvn_run *r;
    if (lvn_run_open(&r, s, m, mode)) fail_msg("%s", lvn_error_text());
    return r;
}

static void make_steps(struct lvn_run *r, int64_t steps)
{
    bool over = false;
    while (!over && lvn_run_steps(r) < steps)
        if (lvn_run_step(r, &over)) fail_msg("step %lld: %s", (long long)lvn_run_steps(r), lvn_error_text());
    assert_int_equal(lvn_run_steps(r), steps);
}

static double last_loss;

static void remember(void *context, int64_t step, double loss, double val_loss)
{
    (void)context, (void)step, (void)val_loss;
    last_loss = loss;
}

static void steps_are_the_run(void **state)
{
    (void)state;
    bool over = false;
    struct lvn_settings *a = settings("whole", NULL), *b = settings("steps", NULL);
    if (lvn_train_model(a, &own, remember, NULL)) fail_msg("%s", lvn_error_text());
    struct lvn_run *r = run_of(b, &own, LVN_OPEN_NEW);
    assert_true(isnan(lvn_run_value(r, "val_loss")));
    make_steps(r, 10);
    double val = lvn_run_value(r, "val_loss");
    assert_true(val > 0.0 && val < 4.0);
    if (lvn_run_validate(r)) fail_msg("%s", lvn_error_text());
    assert_float_equal(lvn_run_value(r, "val_loss"), val, 0);
    make_steps(r, 20);
    assert_float_equal(lvn_run_value(r, "loss"), last_loss, 0);
    ASSERT_FAILS(ARG, "the run is over: all steps are done", (enum lvn_status)lvn_run_step(r, &over));
    assert_true(over);
    assert_int_equal(lvn_run_close(r), 0);
    same_weights("whole", "steps");
    lvn_settings_free(a);
    lvn_settings_free(b);
}

static void resumes_from_its_checkpoint(void **state)
{
    (void)state;
    struct lvn_settings *a = settings("uncut", NULL), *b = settings("cut", NULL), *c = settings("cut", NULL);
    struct lvn_run *r = run_of(a, NULL, LVN_OPEN_NEW), *none;
    make_steps(r, 20);
    assert_int_equal(lvn_run_close(r), 0);
    r = run_of(b, NULL, LVN_OPEN_NEW);
    make_steps(r, 7);
    assert_int_equal(lvn_run_save(r), 0);
    free(read_all("cut", "checkpoints/step-7/model.safetensors", &(int64_t){0}));
    make_steps(r, 9);
    assert_int_equal(lvn_run_close(r), 0); /* which saves step 9 */
    ASSERT_FAILS(ARG, "holds a run already", (enum lvn_status)lvn_run_open(&none, c, NULL, LVN_OPEN_NEW));
    assert_null(none);
    r = run_of(c, NULL, LVN_OPEN_RESUME);
    assert_int_equal(lvn_run_steps(r), 9);
    make_steps(r, 20);
    assert_int_equal(lvn_run_close(r), 0);
    same_weights("uncut", "cut");
    lvn_settings_free(a);
    lvn_settings_free(b);
    lvn_settings_free(c);
}

static void evaluates_and_generates(void **state)
{
    (void)state;
    char *text;
    double val;
    struct lvn_settings *s = settings("scored", NULL), *t = settings("own", NULL);
    struct lvn_run *r = run_of(s, NULL, LVN_OPEN_NEW);
    make_steps(r, 10);
    double loss = lvn_run_value(r, "loss");
    if (lvn_run_evaluate(r, "train")) fail_msg("%s", lvn_error_text());
    double train = lvn_run_value(r, "train_loss");
    assert_true(train > 0.0 && fabs(train - loss) < 0.5);
    assert_float_equal(lvn_run_value(r, "train_perplexity"), exp(train), 1e-9);
    if (lvn_run_evaluate(r, "val")) fail_msg("%s", lvn_error_text());
    assert_true(fabs(lvn_run_value(r, "val_loss") - train) < 0.2);
    ASSERT_FAILS(ARG, "the data have no part 'test'", (enum lvn_status)lvn_run_evaluate(r, "test"));
    ASSERT_FAILS(ARG, "'best' is no part of data: train, val and test are",
                 (enum lvn_status)lvn_run_evaluate(r, "best"));
    if (lvn_run_generate(r, "the owl", &text)) fail_msg("%s", lvn_error_text());
    assert_memory_equal(text, "the owl", 7);
    assert_int_equal(strlen(text), 37);
    free(text);
    ASSERT_FAILS(ARG, "'Z'", (enum lvn_status)lvn_run_generate(r, "Z", &text)); /* no letter of the verse */
    val = lvn_run_value(r, "val_loss");
    make_steps(r, 20); /* nothing of that broke the run, and its own validation counts again */
    assert_true(lvn_run_value(r, "val_loss") < val);
    assert_int_equal(lvn_run_close(r), 0);
    r = run_of(t, &own, LVN_OPEN_NEW);
    make_steps(r, 20);
    if (lvn_run_evaluate(r, "val")) fail_msg("%s", lvn_error_text());
    val = lvn_run_value(r, "val_loss");
    assert_int_equal(lvn_run_close(r), 0);
    r = run_of(t, &own, LVN_OPEN_RESUME); /* which has no step left to make */
    if (lvn_run_generate(r, "the", &text)) fail_msg("%s", lvn_error_text());
    assert_memory_equal(text, "the", 3);
    free(text);
    if (lvn_run_evaluate(r, "val")) fail_msg("%s", lvn_error_text());
    assert_float_equal(lvn_run_value(r, "val_loss"), val, 0);
    ASSERT_FAILS(ARG, "all of its steps were done before", (enum lvn_status)lvn_run_step(r, &(bool){false}));
    assert_int_equal(lvn_run_close(r), 0);
    lvn_settings_free(s);
    lvn_settings_free(t);
    assert_int_equal(lvn_run_close(NULL), 0);
}

/* In line `line` of the text, from 0. */
static int commas(const char *text, int line)
{
    int n = 0;
    for (; *text && line >= 0; text++) {
        line -= *text == '\n';
        n += line == 0 && *text == ',';
    }
    return n;
}

/* In a program that writes 0,5, levin goes on to write 0.5, from its threads too. */
static void numbers_have_points(void **state)
{
    (void)state;
    char command[600], text[40];
    int64_t bytes;
    snprintf(command, sizeof command, "localedef -c -i de_DE -f UTF-8 '%s' >/dev/null 2>&1", test_path("de_DE.UTF-8"));
    setenv("LOCPATH", test_path(""), 1);
    if (system(command) < 0 || !setlocale(LC_ALL, "de_DE.UTF-8")) skip(); /* no locales can be made here */
    snprintf(text, sizeof text, "%.1f", 0.5);
    assert_string_equal(text, "0,5");
    const char *const keys[][2] = {{"optimizer.lr", "0.0105"}, {"logger.jsonl", "true"}, {NULL, NULL}};
    struct lvn_settings *s = settings("german", keys);
    struct lvn_run *r = run_of(s, NULL, LVN_OPEN_NEW);
    make_steps(r, 20);
    assert_int_equal(lvn_run_close(r), 0);
    snprintf(text, sizeof text, "%.1f", 0.5); /* the program's own locale is back */
    assert_string_equal(text, "0,5");
    setlocale(LC_ALL, "C");
    char *rows = read_all("german", "metrics.csv", &bytes), *kept = read_all("german", "settings.yaml", &bytes);
    assert_int_equal(commas(rows, 1), commas(rows, 0)); /* one within a number would be one more */
    assert_non_null(strstr(kept, "lr: 0.0105"));
    free(rows);
    free(kept);
    s = (lvn_settings_free(s), settings("german", keys));
    r = run_of(s, NULL, LVN_OPEN_RESUME); /* what was written can be read */
    assert_int_equal(lvn_run_steps(r), 20);
    assert_int_equal(lvn_run_close(r), 0);
    lvn_settings_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_are_the_run),
        cmocka_unit_test(resumes_from_its_checkpoint),
        cmocka_unit_test(evaluates_and_generates),
        cmocka_unit_test(numbers_have_points),
    };
    return cmocka_run_group_tests(tests, put_verse, test_dir_drop);
}
