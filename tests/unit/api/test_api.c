/* test_api.c - covers: src/app/api/api.c src/app/api/api_run.c src/app/api/api_settings.c src/app/api/api_own_model.c
 * include/levin.h
 *
 * The public functions of levin.h: a run in the program's hands is the run of levin_train_model(). */
#include "io_test.h"

#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <unistd.h>

#include "levin.h"

static const char verse[] = "the owl and the pussycat went to sea in a beautiful pea-green boat\n"
                            "they took some honey and plenty of money wrapped up in a five-pound note\n";

/* ids (B,T) -> logits (B,T,V): each token sees itself and its position only */
static struct levin_tensor *logits(struct levin_graph *g, const struct levin_sizes *n, struct levin_tensor *ids,
                                   void *context)
{
    (void)context;
    struct levin_tensor *table = levin_table(g, "wte", n->vocab_size, n->n_embd, 0.1);
    struct levin_tensor *x = levin_embedding(g, ids, table, levin_table(g, "wpe", n->block_size, n->n_embd, 0.02));
    x = levin_dropout(g, x, 0.1);
    return levin_linear(g, levin_layernorm(g, x, levin_vector(g, "norm", n->n_embd, 1.0), NULL, 1e-5), table, NULL,
                        false);
}

static const struct levin_own_model own = {.size = sizeof own, .name = "own", .logits = logits};

/* A run `name` of 20 steps on 40 copies of the verse, with further keys. */
static struct levin_settings *settings(const char *name, const char *const (*more)[2])
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
    struct levin_settings *s = levin_settings_new();
    assert_non_null(s);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (levin_settings_put(s, keys[i][0], keys[i][1])) fail_msg("%s", levin_error_text());
    for (; more && (*more)[0]; more++)
        if (levin_settings_put(s, (*more)[0], (*more)[1])) fail_msg("%s", levin_error_text());
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

static struct levin_run *run_of(struct levin_settings *s, const struct levin_own_model *m, enum levin_open mode)
{
    struct levin_run *r;
    if (levin_run_open(&r, s, m, mode)) fail_msg("%s", levin_error_text());
    return r;
}

static void make_steps(struct levin_run *r, int64_t steps)
{
    bool over = false;
    while (!over && levin_run_steps(r) < steps)
        if (levin_run_step(r, &over)) fail_msg("step %lld: %s", (long long)levin_run_steps(r), levin_error_text());
    assert_int_equal(levin_run_steps(r), steps);
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
    struct levin_settings *a = settings("whole", NULL), *b = settings("steps", NULL);
    if (levin_train_model(a, &own, remember, NULL)) fail_msg("%s", levin_error_text());
    struct levin_run *r = run_of(b, &own, LEVIN_OPEN_NEW);
    assert_true(isnan(levin_run_value(r, "val_loss")));
    make_steps(r, 10);
    double val = levin_run_value(r, "val_loss");
    assert_true(val > 0.0 && val < 4.0);
    if (levin_run_validate(r)) fail_msg("%s", levin_error_text());
    assert_float_equal(levin_run_value(r, "val_loss"), val, 0);
    assert_null(levin_run_end_reason(r));
    make_steps(r, 20);
    assert_string_equal(levin_run_end_reason(r), "all steps are done");
    assert_float_equal(levin_run_value(r, "loss"), last_loss, 0);
    ASSERT_FAILS(ARG, "the run is over: all steps are done", (enum lvn_status)levin_run_step(r, &over));
    assert_true(over);
    assert_int_equal(levin_run_close(r), 0);
    same_weights("whole", "steps");
    levin_settings_free(a);
    levin_settings_free(b);
}

static void resumes_from_its_checkpoint(void **state)
{
    (void)state;
    struct levin_settings *a = settings("uncut", NULL), *b = settings("cut", NULL), *c = settings("cut", NULL);
    struct levin_run *r = run_of(a, NULL, LEVIN_OPEN_NEW), *none;
    make_steps(r, 20);
    assert_int_equal(levin_run_close(r), 0);
    r = run_of(b, NULL, LEVIN_OPEN_NEW);
    make_steps(r, 5); /* validated without a word: the best value is saved at once, also if the step is saved already */
    assert_int_equal(levin_run_save(r), 0);
    if (levin_run_validate(r)) fail_msg("%s", levin_error_text());
    free(read_all("cut", "checkpoints/best/model.safetensors", &(int64_t){0}));
    make_steps(r, 7);
    assert_int_equal(levin_run_save(r), 0);
    free(read_all("cut", "checkpoints/step-7/model.safetensors", &(int64_t){0}));
    make_steps(r, 9);
    assert_int_equal(levin_run_close(r), 0); /* which saves step 9 */
    ASSERT_FAILS(ARG, "already contains a run", (enum lvn_status)levin_run_open(&none, c, NULL, LEVIN_OPEN_NEW));
    assert_null(none);
    r = run_of(c, NULL, LEVIN_OPEN_RESUME);
    assert_int_equal(levin_run_steps(r), 9);
    make_steps(r, 20);
    assert_int_equal(levin_run_close(r), 0);
    same_weights("uncut", "cut");
    levin_settings_free(a);
    levin_settings_free(b);
    levin_settings_free(c);
}

static void evaluates_and_generates(void **state)
{
    (void)state;
    char *text;
    double val;
    struct levin_settings *s = settings("scored", NULL), *t = settings("own", NULL);
    struct levin_run *r = run_of(s, NULL, LEVIN_OPEN_NEW);
    make_steps(r, 10);
    double loss = levin_run_value(r, "loss");
    if (levin_run_evaluate(r, "train")) fail_msg("%s", levin_error_text());
    double train = levin_run_value(r, "train_loss");
    assert_true(train > 0.0 && fabs(train - loss) < 0.5);
    assert_float_equal(levin_run_value(r, "train_perplexity"), exp(train), 1e-9);
    if (levin_run_evaluate(r, "val")) fail_msg("%s", levin_error_text());
    assert_true(fabs(levin_run_value(r, "val_loss") - train) < 0.2);
    ASSERT_FAILS(ARG, "the data has no split 'test'", (enum lvn_status)levin_run_evaluate(r, "test"));
    ASSERT_FAILS(ARG, "'best' is not a split; use train, val or test", (enum lvn_status)levin_run_evaluate(r, "best"));
    if (levin_run_generate(r, "the owl", &text)) fail_msg("%s", levin_error_text());
    assert_memory_equal(text, "the owl", 7);
    assert_int_equal(strlen(text), 37);
    free(text);
    ASSERT_FAILS(ARG, "'Z'", (enum lvn_status)levin_run_generate(r, "Z", &text)); /* no letter of the verse */
    val = levin_run_value(r, "val_loss");
    make_steps(r, 20); /* nothing of that broke the run, and its own validation counts again */
    assert_true(levin_run_value(r, "val_loss") < val);
    assert_int_equal(levin_run_close(r), 0);
    r = run_of(t, &own, LEVIN_OPEN_NEW);
    make_steps(r, 20);
    if (levin_run_evaluate(r, "val")) fail_msg("%s", levin_error_text());
    val = levin_run_value(r, "val_loss");
    assert_int_equal(levin_run_close(r), 0);
    r = run_of(t, &own, LEVIN_OPEN_RESUME); /* which has no step left to make */
    if (levin_run_generate(r, "the", &text)) fail_msg("%s", levin_error_text());
    assert_memory_equal(text, "the", 3);
    free(text);
    if (levin_run_evaluate(r, "val")) fail_msg("%s", levin_error_text());
    assert_float_equal(levin_run_value(r, "val_loss"), val, 0);
    make_steps(r, 20);
    bool over = false;
    const char *const name = "mine";
    assert_int_equal(levin_run_step(r, &over), 0);
    assert_true(over);
    ASSERT_FAILS(ARG, "the run is over: all of its steps", (enum lvn_status)levin_run_validate(r));
    ASSERT_FAILS(ARG, "has not begun, or has ended", (enum lvn_status)levin_run_log(r, 1, &name, &(double){1}));
    assert_int_equal(levin_run_save(r), 0);
    assert_int_equal(levin_run_close(r), 0);
    levin_settings_free(s);
    levin_settings_free(t);
    assert_int_equal(levin_run_close(NULL), 0);
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

/* In a program whose locale writes 0,5, levin still writes 0.5, also in its threads. */
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
    struct levin_settings *s = settings("german", keys);
    struct levin_run *r = run_of(s, NULL, LEVIN_OPEN_NEW);
    make_steps(r, 20);
    assert_int_equal(levin_run_close(r), 0);
    snprintf(text, sizeof text, "%.1f", 0.5); /* the program's own locale is back */
    assert_string_equal(text, "0,5");
    setlocale(LC_ALL, "C");
    char *rows = read_all("german", "metrics.csv", &bytes), *kept = read_all("german", "settings.yaml", &bytes);
    assert_int_equal(commas(rows, 1), commas(rows, 0)); /* one within a number would be one more */
    assert_non_null(strstr(kept, "lr: 0.0105"));
    free(rows);
    free(kept);
    s = (levin_settings_free(s), settings("german", keys));
    r = run_of(s, NULL, LEVIN_OPEN_RESUME); /* what was written can be read */
    assert_int_equal(levin_run_steps(r), 20);
    assert_int_equal(levin_run_close(r), 0);
    levin_settings_free(s);
}

/* --- calls that are not possible now: levin.h says which are --- */

static struct levin_run *guarded;
static int refused; /* calls that were refused with the expected sentence */

static void expect_refusal(int status, const char *sentence)
{
    if (levin_outcome(status) != LEVIN_OUTCOME_INPUT || !strstr(levin_error_text(), sentence))
        fail_msg("status %d: %s", status, levin_error_text());
    refused++;
}

static void refuse_all(const char *sentence)
{
    char *text;
    struct levin_run *other;
    struct levin_settings *s = settings("other", NULL);
    expect_refusal(levin_run_step(guarded, &(bool){false}), sentence);
    expect_refusal(levin_run_validate(guarded), sentence);
    expect_refusal(levin_run_evaluate(guarded, "val"), sentence);
    expect_refusal(levin_run_generate(guarded, "the", &text), sentence);
    expect_refusal(levin_run_save(guarded), sentence);
    expect_refusal(levin_run_end(guarded), sentence);
    expect_refusal(levin_run_close(guarded), sentence);
    expect_refusal(levin_run_open(&other, s, NULL, LEVIN_OPEN_NEW), "has one run at a time");
    assert_null(other);
    expect_refusal(levin_train_model(s, &own, NULL, NULL), "has one run at a time");
    assert_int_equal(levin_run_steps(guarded), 3);
    assert_false(isnan(levin_run_value(guarded, "loss")));
    levin_settings_free(s);
}

static void *from_a_thread(void *unused)
{
    const char *const name = "mine";
    refuse_all("another thread is in its call to step");
    expect_refusal(levin_run_log(guarded, 1, &name, &(double){1}), "another thread is in its call to step");
    return unused;
}

static int disturb(void *context, const struct levin_run_event *e)
{
    (void)context;
    pthread_t thread;
    const char *const name = "mine", *const more = "more", *const step = "step";
    if (e->kind == LEVIN_ON_LOG)
        expect_refusal(levin_run_log(guarded, 1, &more, &(double){1}), "cannot log more of them on the event LOG");
    if (e->kind != LEVIN_ON_STEP || e->step != 3) return 0;
    refuse_all("within the program's function on_event()");
    assert_int_equal(levin_run_log(guarded, 1, &name, &(double){1}), 0);
    expect_refusal(levin_run_log(guarded, 1, &step, &(double){1}), "'step' is reserved");
    assert_int_equal(pthread_create(&thread, NULL, from_a_thread, NULL), 0);
    pthread_join(thread, NULL);
    return 0;
}

static void one_call_at_a_time(void **state)
{
    (void)state;
    struct levin_settings *s = settings("disturbed", NULL), *t = settings("alone", NULL);
    const struct levin_run_options o = {.size = sizeof o, .on_event = disturb};
    if (levin_run_open_with(&guarded, s, &o)) fail_msg("%s", levin_error_text());
    make_steps(guarded, 20);
    assert_int_equal(refused, 9 + 10 + 2);
    assert_int_equal(levin_run_close(guarded), 0);
    struct levin_run *r = run_of(t, NULL, LEVIN_OPEN_NEW);
    make_steps(r, 20);
    assert_int_equal(levin_run_close(r), 0);
    same_weights("disturbed", "alone"); /* nothing of that changed the run */
    expect_refusal(levin_run_step(guarded, &(bool){false}), "the run is closed");
    expect_refusal(levin_run_close(guarded), "the run is closed");
    expect_refusal(levin_run_save(NULL), "the run is closed");
    assert_int_equal(levin_run_steps(guarded), -1);
    assert_null(levin_run_end_reason(guarded));
    assert_true(isnan(levin_run_value(guarded, "loss")));
    assert_int_equal(levin_run_results(guarded, NULL, 0), 0);
    levin_run_stop(guarded);
    levin_settings_free(s);
    levin_settings_free(t);
}

static struct levin_inference *model;
static int asked;

static int on_token(void *context, int32_t id, const char *text)
{
    (void)context, (void)text;
    char *decoded;
    const float *logits;
    int64_t shape[4], rank, n;
    struct levin_generation g = {.size = sizeof g, .prompt = &id, .n_prompt = 1, .max_new_tokens = 1};
    expect_refusal(levin_inference_generate(model, &g), "within the program's function on_token()");
    expect_refusal(levin_inference_logits(model, &id, 1, 1, &logits, shape, &rank), "within");
    expect_refusal(levin_inference_parameters(model, &n), "within");
    expect_refusal(levin_inference_close(model), "within");
    assert_int_equal(levin_inference_decode(model, &id, 1, &decoded), 0); /* reads alone */
    levin_free(decoded);
    return 1;
}

static int ask(void *context)
{
    (void)context;
    return ++asked == 5;
}

static void generation_is_checked_and_interrupted(void **state)
{
    (void)state;
    struct levin_settings *s = settings("generates", NULL), *t = levin_settings_new();
    struct levin_run *r = run_of(s, NULL, LEVIN_OPEN_NEW);
    char *text;
    make_steps(r, 2);
    assert_int_equal(levin_run_close(r), 0);
    assert_int_equal(levin_settings_model(t, test_path("generates")), 0);
    if (levin_inference_open(&model, t)) fail_msg("%s", levin_error_text());
    const int32_t prompt = 1;
    const struct levin_generation plain = {.size = sizeof plain, .prompt = &prompt, .n_prompt = 1, .max_new_tokens = 3},
                                  wrong[] = {{.temperature = NAN},
                                             {.temperature = -1},
                                             {.temperature = HUGE_VAL},
                                             {.top_k = -1},
                                             {.top_p = 2},
                                             {.max_new_tokens = -1},
                                             {.number = -1},
                                             {.max_new_tokens = INT64_MAX}};
    const char *const says[] = {"temperature is nan", "temperature is -1",   "temperature is inf",
                                "top_k is -1",        "top_p is 2",          "-1 new tokens are asked",
                                "sample is -1",       "new tokens are asked"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct levin_generation g = wrong[i];
        g.size = sizeof g, g.prompt = &prompt, g.n_prompt = 1;
        if (!g.max_new_tokens) g.max_new_tokens = 3;
        ASSERT_FAILS(ARG, says[i], (enum lvn_status)levin_inference_generate(model, &g));
    }
    struct levin_generation g = {.prompt = &prompt, .n_prompt = 1};
    ASSERT_FAILS(ARG, "levin_generation.size is 0", (enum lvn_status)levin_inference_generate(model, &g));
    g.size = sizeof g, g.n_prompt = 0;
    ASSERT_FAILS(ARG, "the prompt is empty", (enum lvn_status)levin_inference_generate(model, &g));
    struct levin_evaluated_model e = {.size = sizeof e};
    struct levin_classified c = {.size = sizeof c};
    ASSERT_FAILS(ARG, "limit is -1", (enum lvn_status)levin_evaluate_model(t, -1, NULL, &e));
    ASSERT_FAILS(ARG, "there are no texts", (enum lvn_status)levin_classify(t, NULL, NULL, 0, &c));
    g = plain;
    refused = 0;
    g.on_token = on_token;
    if (levin_inference_generate(model, &g)) fail_msg("%s", levin_error_text());
    assert_int_equal(refused, 4 * 3);
    levin_free(g.ids);
    levin_free(g.text);
    g = plain;
    g.max_new_tokens = 1000000;
    levin_on_interrupt(ask, NULL);
    ASSERT_FAILS(STOPPED, "interrupted", (enum lvn_status)levin_inference_generate(model, &g));
    levin_on_interrupt(NULL, NULL);
    g = plain;
    assert_int_equal(levin_inference_generate(model, &g), 0); /* the model is whole */
    assert_int_equal(g.n_ids, 3);
    levin_free(g.ids);
    levin_free(g.text);
    ASSERT_FAILS(ARG, "is not a token", (enum lvn_status)levin_inference_decode(model, &(int32_t){-1}, 1, &text));
    assert_int_equal(levin_inference_close(model), 0);
    expect_refusal(levin_inference_close(model), "the model is closed");
    assert_int_equal(levin_inference_vocab_size(model), 0);
    levin_settings_free(s);
    levin_settings_free(t);
}

/* --- samples of a program --- */

static int bad_sample(void *context, int64_t split, int64_t i, void *const *out, char error[400])
{
    (void)split, (void)error;
    const int32_t value = *(const int32_t *)context;
    for (int t = 0; t < 8; t++) ((int32_t *)out[0])[t] = (int32_t)(i + t) % 10, ((int32_t *)out[1])[t] = value;
    return 0;
}

static void samples_are_checked(void **state)
{
    (void)state;
    static const char *const keys[][2] = {{"data.path", ""}, {"model.block_size", "8"}, {NULL, NULL}};
    enum { FIELD = sizeof(struct levin_run_field) };
    struct levin_run_field fields[] = {{.size = FIELD, .name = "ids", .rank = 1, .dim = {8}},
                                       {.size = FIELD, .name = "labels", .rank = 1, .dim = {8}}};
    int32_t value = 10;
    struct levin_run_data d = {.size = sizeof d,
                               .n_fields = 2,
                               .field = fields,
                               .samples = {40},
                               .vocab_size = 10,
                               .sample = bad_sample,
                               .context = &value};
    const struct levin_run_options o = {.size = sizeof o, .data = &d};
    struct levin_run *r;
    struct levin_settings *s = settings("samples", keys);
    guarded = NULL;
    ASSERT_FAILS(ARG, "'labels' holds 10, and it may hold 0 to 9, or -1 for no label",
                 (enum lvn_status)levin_run_open_with(&r, s, &o));
    fields[1].below = (int64_t)1 << 40;
    ASSERT_FAILS(ARG, "has integers below 1099511627776", (enum lvn_status)levin_run_open_with(&r, s, &o));
    fields[1].below = 0;
    fields[1].name = "ids";
    ASSERT_FAILS(ARG, "have two fields 'ids'", (enum lvn_status)levin_run_open_with(&r, s, &o));
    fields[1].name = "labels";
    d.samples[1] = -1;
    ASSERT_FAILS(ARG, "-1 samples of val", (enum lvn_status)levin_run_open_with(&r, s, &o));
    d.samples[1] = 0;
    d.sample = NULL;
    ASSERT_FAILS(ARG, "levin_run_data.sample is NULL; set it", (enum lvn_status)levin_run_open_with(&r, s, &o));
    d.sample = bad_sample;
    fields[0].size = FIELD + 8;
    ASSERT_FAILS(ARG, "levin_run_field.size is", (enum lvn_status)levin_run_open_with(&r, s, &o));
    fields[0].size = FIELD;
    d.size = 8;
    ASSERT_FAILS(ARG, "levin_run_data.size is 8", (enum lvn_status)levin_run_open_with(&r, s, &o));
    levin_settings_free(s);
}

/* A struct whose size the library does not know is neither read nor written. */
static void sizes_are_checked(void **state)
{
    (void)state;
    struct levin_settings *s = settings("sizes", NULL);
    struct levin_setting row = {.min = -7};
    struct levin_own_model mine = {.name = "own", .logits = logits};
    struct levin_evaluated_model e = {.size = sizeof e + 8, .labels = -7};
    struct levin_run_options o = {.size = sizeof o, .model = &mine};
    struct levin_run *r;
    ASSERT_FAILS(ARG, "levin_setting.size is 0", (enum lvn_status)levin_settings_describe(0, &row));
    assert_true(row.min == -7.0);
    ASSERT_FAILS(ARG, "levin_evaluated_model.size is", (enum lvn_status)levin_evaluate_model(s, 0, NULL, &e));
    assert_int_equal(e.labels, -7);
    ASSERT_FAILS(ARG, "levin_own_model.size is 0", (enum lvn_status)levin_run_open_with(&r, s, &o));
    ASSERT_FAILS(ARG, "levin_own_model.size is 0", (enum lvn_status)levin_train_model(s, &mine, NULL, NULL));
    mine.size = sizeof mine;
    static const char *const names[] = {"", "a\xff", "gpt2", "nanogpt"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        mine.name = names[i];
        ASSERT_FAILS(ARG, "levin_own_model.name is '", (enum lvn_status)levin_run_open_with(&r, s, &o));
    }
    mine.name = "own";
    mine.logits = NULL;
    ASSERT_FAILS(ARG, "levin_own_model.logits is NULL; set it",
                 (enum lvn_status)levin_train_model(s, &mine, NULL, NULL));
    o.size = 0;
    ASSERT_FAILS(ARG, "levin_run_options.size is 0", (enum lvn_status)levin_run_open_with(&r, s, &o));
    levin_settings_free(s);
}

/* What a model in a program may do wrong, by `context`. */
static struct levin_tensor *wrong_logits(struct levin_graph *g, const struct levin_sizes *n, struct levin_tensor *ids,
                                         void *context)
{
    static const char *const names[] = {"", NULL, "a\xff", "__metadata__"};
    const struct levin_attention_options o = {.size = sizeof o, .scale = NAN};
    const int kind = *(const int *)context;
    struct levin_tensor *x = levin_embedding(g, ids, levin_table(g, "wte", n->vocab_size, n->n_embd, 0.1), NULL);
    struct levin_tensor *heads = levin_heads(g, x, 0, n->n_head, n->n_embd / n->n_head);
    if (kind < 4) return levin_linear(g, x, levin_weight(g, names[kind], n->n_embd, n->vocab_size, 0.1), NULL, true);
    if (kind == 4) return levin_attention(g, heads, heads, heads, NULL);
    if (kind == 5) return levin_attention(g, heads, heads, heads, &o);
    if (kind == 6) return levin_reshape(g, x, 2, NULL);
    if (kind == 7) return levin_kv_cache(g, NULL, heads, 0);
    if (kind == 8) return levin_linear(g, x, levin_weight(g, "w", n->n_embd, n->vocab_size, HUGE_VAL), NULL, true);
    return NULL;
}

static void wrong_models_are_refused(void **state)
{
    (void)state;
    static const char *const says[] = {"a parameter has no name",
                                       "a parameter has no name",
                                       "cannot be the name of a parameter",
                                       "'__metadata__' cannot be the name of a parameter",
                                       "levin_attention_options is NULL",
                                       "the scale is nan",
                                       "dim is NULL",
                                       "levin_kv_cache: the name is NULL",
                                       "parameter 'w' is initialized with inf",
                                       "levin_own_model.logits returned NULL"};
    struct levin_settings *s = settings("wrong", NULL);
    struct levin_run *r;
    for (int i = 0; i < (int)(sizeof says / sizeof *says); i++) {
        const struct levin_own_model mine = {.size = sizeof mine, .name = "own", .logits = wrong_logits, .context = &i};
        ASSERT_FAILS(ARG, says[i], (enum lvn_status)levin_run_open(&r, s, &mine, LEVIN_OPEN_NEW));
    }
    levin_settings_free(s);
}

static void missing_texts_are_refused(void **state)
{
    (void)state;
    struct levin_settings *s = settings("missing", NULL);
    struct levin_inference *m;
    ASSERT_FAILS(ARG, "data.path is NULL", (enum lvn_status)levin_settings_put(s, "data.path", NULL));
    ASSERT_FAILS(ARG, "the key is NULL", (enum lvn_status)levin_settings_put(s, NULL, "x"));
    ASSERT_FAILS(ARG, "the path of the recipe is NULL", (enum lvn_status)levin_settings_recipe(s, NULL));
    ASSERT_FAILS(ARG, "the model is NULL", (enum lvn_status)levin_settings_model(s, NULL));
    ASSERT_FAILS(ARG, "the settings are NULL", (enum lvn_status)levin_inference_open(&m, NULL));
    assert_null(levin_settings_get(s, NULL));
    struct levin_run *r = run_of(s, NULL, LEVIN_OPEN_NEW);
    make_steps(r, 1);
    ASSERT_FAILS(ARG, "the split is NULL", (enum lvn_status)levin_run_evaluate(r, NULL));
    assert_true(isnan(levin_run_value(r, NULL)));
    /* nothing of a call that is refused is declared */
    ASSERT_FAILS(ARG, "'bad name' is not a valid name",
                 (enum lvn_status)levin_run_log(r, 2, (const char *const[]){"okay", "bad name"}, (double[]){1, 2}));
    assert_int_equal(levin_run_log(r, 1, (const char *const[]){"fine"}, (double[]){1}), 0);
    assert_int_equal(levin_run_close(r), 0);
    int64_t bytes;
    char *csv = read_all("missing", "metrics.csv", &bytes);
    assert_non_null(strstr(csv, ",fine"));
    assert_null(strstr(csv, "okay"));
    free(csv);
    levin_settings_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_are_the_run),        cmocka_unit_test(resumes_from_its_checkpoint),
        cmocka_unit_test(evaluates_and_generates),  cmocka_unit_test(numbers_have_points),
        cmocka_unit_test(one_call_at_a_time),       cmocka_unit_test(generation_is_checked_and_interrupted),
        cmocka_unit_test(samples_are_checked),      cmocka_unit_test(sizes_are_checked),
        cmocka_unit_test(wrong_models_are_refused), cmocka_unit_test(missing_texts_are_refused),
    };
    return cmocka_run_group_tests(tests, put_verse, test_dir_drop);
}
