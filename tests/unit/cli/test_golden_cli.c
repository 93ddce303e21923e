/* test_golden_cli.c - covers: src/app/cli/evaluate/evaluate.c src/app/cli/export.c src/run/inference/evaluation.c
 *
 * The program against PyTorch: what test_golden.c compares within the library, through `levin evaluate` and `levin
 * train` as a user would. Tolerances and what is left out are explained there. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/files.h"
#include "formats/json.h"
#include "formats/weights.h"
#include "golden_dialects.h"

enum { HEADS = 4 };

static char levin[4096], folder[64];

static void check(enum lvn_status status)
{
    if (status != LVN_OK) fail_msg("%s", levin_error_text());
}

/* Run levin; its standard output lies in folder/out afterwards. */
static void run_levin(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void run_levin(const char *format, ...)
{
    char arguments[2048], command[8192];
    va_list list;
    va_start(list, format);
    vsnprintf(arguments, sizeof arguments, format, list);
    va_end(list);
    snprintf(command, sizeof command, "'%s' %s >%s/out 2>%s/err", levin, arguments, folder, folder);
    if (system(command) == 0) return;
    char *text = NULL;
    int64_t bytes;
    char path[96];
    snprintf(path, sizeof path, "%s/err", folder);
    if (lvn_file_read(path, 0, &text, &bytes) != LVN_OK) text = NULL;
    fail_msg("%s\n%s", command, text ? text : "");
}

static json_t *read_json(const char *format, const char *name)
{
    char path[128];
    snprintf(path, sizeof path, format, name);
    json_t *value;
    check(lvn_json_read(path, &value));
    return value;
}

static double number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_number(value)) fail_msg("no number '%s'", key);
    return json_number_value(value);
}

static void open_tensors(struct lvn_safetensors *s, const char *format, const char *name)
{
    char path[300];
    snprintf(path, sizeof path, format, name);
    check(lvn_safetensors_open(s, path));
}

static double value_of(const struct lvn_safetensor *t, int64_t i)
{
    double x;
    float y;
    if (t->desc.dtype == LVN_F64) {
        memcpy(&x, (const char *)t->data + 8 * i, 8);
        return x;
    }
    memcpy(&y, (const char *)t->data + 4 * i, 4);
    return (double)y;
}

static void open_weights(struct lvn_weights *w, const char *format, const char *name)
{
    char path[300];
    snprintf(path, sizeof path, format, name);
    check(lvn_weights_open(w, path));
}

/* All elements, malloc'd; NULL: there is none of this name. */
static float *read_weight(const struct lvn_weights *w, const char *name, int64_t n)
{
    const struct lvn_weight *t = lvn_weights_find(w, name);
    if (!t || lvn_desc_count(&t->desc) != n) return NULL;
    float *all = malloc(sizeof *all * (size_t)n);
    if (all) lvn_weight_read(t, 0, n, all);
    return all;
}

static const struct lvn_safetensor *find(const struct lvn_safetensors *s, const char *prefix, const char *name)
{
    char full[128];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    return lvn_safetensors_find(s, full);
}

/* A list of windows, each a list of numbers, against a tensor (windows,numbers) of the reference. */
static void compare_rows(const char *name, const json_t *rows, const struct lvn_safetensor *want, double tolerance)
{
    const size_t windows = (size_t)want->desc.dim[0], width = (size_t)want->desc.dim[1];
    if (json_array_size(rows) != windows) fail_msg("%s: %d windows", name, (int)json_array_size(rows));
    for (size_t r = 0; r < windows; r++) {
        const json_t *row = json_array_get(rows, r);
        if (json_array_size(row) != width) fail_msg("%s: window of %d numbers", name, (int)json_array_size(row));
        for (size_t i = 0; i < width; i++) {
            double x = json_number_value(json_array_get(row, i)), y = value_of(want, (int64_t)(r * width + i));
            if (!(fabs(x - y) <= tolerance * fmax(1.0, fabs(y))))
                fail_msg("%s: window %d, %d: %.9g, PyTorch says %.9g", name, (int)r, (int)i, x, y);
        }
    }
}

static bool is_key_bias(const char *name, int64_t i, int64_t n)
{
    if (strstr(name, "query_key_value.bias")) return i / (n / (3 * HEADS)) % 3 == 1; /* head by head */
    return strstr(name, "c_attn.bias") && i >= n / 3 && i < n / 3 * 2;
}

/* Losses, logits and gradients of all tokens. */
static void evaluate(void **state)
{
    (void)state;
    for (int d = 0; d < N_DIALECTS; d++) {
        const char *name = dialects[d].name;
        struct lvn_safetensors reference, gradients;
        open_tensors(&reference, "tests/golden/%s/reference.safetensors", name);
        const struct lvn_safetensor *losses = find(&reference, "", "token_losses");
        run_levin("evaluate tests/golden/%s --data.kind=tokens --data.path=tests/golden/%s/tokens.bin "
                  "--model.block_size=%d --trainer.batch_size=5 --logits --token-losses --json "
                  "--gradients=%s/gradients.safetensors",
                  name, name, (int)losses->desc.dim[1], folder);
        open_tensors(&gradients, "%s/gradients.safetensors", folder);
        json_t *result = read_json("%s/out", folder), *meta = read_json("tests/golden/%s/meta.json", name);
        assert_true(fabs(number(result, "loss") - number(meta, "loss")) <= 1e-5);
        assert_int_equal(json_integer_value(json_object_get(result, "tokens")), lvn_desc_count(&losses->desc));
        compare_rows(name, json_object_get(result, "token_losses"), losses, 1e-5);
        compare_rows(name, json_object_get(result, "logits"), find(&reference, "", "last_logits"), 1e-4);
        int n_gradients = 0;
        for (int i = 0; i < reference.n; i++) {
            const struct lvn_safetensor *want = &reference.tensor[i];
            if (strncmp(want->name, "gradient.", 9) != 0) continue;
            const struct lvn_safetensor *got = lvn_safetensors_find(&gradients, want->name + 9);
            if (!got || !lvn_desc_same_shape(&got->desc, &want->desc))
                fail_msg("%s: gradient of '%s' is missing or of another shape", name, want->name + 9);
            double norm = 0.0, distance = 0.0;
            int64_t n = lvn_desc_count(&want->desc);
            for (int64_t k = 0; k < n; k++) {
                if (is_key_bias(want->name, k, n)) continue;
                norm += pow(value_of(want, k), 2.0);
                distance += pow(value_of(got, k) - value_of(want, k), 2.0);
            }
            if (!(sqrt(distance) <= 1e-4 * sqrt(norm)))
                fail_msg("%s: %s is %.3g of its norm off", name, want->name, sqrt(distance / norm));
            n_gradients++;
        }
        assert_int_equal(gradients.n, n_gradients); /* a tied matrix once, no masks */
        json_decref(result);
        json_decref(meta);
        lvn_safetensors_close(&reference);
        lvn_safetensors_close(&gradients);
    }
}

/* Rows of metrics.jsonl against the steps of the reference. */
static void compare_metrics(const char *run, const json_t *meta)
{
    char path[128];
    snprintf(path, sizeof path, "%s/metrics.jsonl", run);
    char *text;
    int64_t bytes;
    check(lvn_file_read(path, 0, &text, &bytes));
    size_t step = 0;
    char *rest = text;
    for (char *line; (line = strtok_r(rest, "\n", &rest));) {
        json_t *row;
        check(lvn_json_parse(path, line, (int64_t)strlen(line), &row));
        if (json_object_get(row, "loss")) {
            double loss = json_number_value(json_array_get(json_object_get(meta, "step_losses"), step));
            double norm = json_number_value(json_array_get(json_object_get(meta, "step_grad_norms"), step));
            assert_int_equal(json_integer_value(json_object_get(row, "step")), ++step);
            if (!(fabs(number(row, "loss") - loss) <= 2e-5)) fail_msg("%s: loss of step %d", run, (int)step);
            if (!(fabs(number(row, "grad_norm") - norm) <= 1e-4 * norm))
                fail_msg("%s: norm of step %d", run, (int)step);
        }
        json_decref(row);
    }
    assert_int_equal(step, 5);
    free(text);
}

/* What five steps add to the weights. Checkpoints are in the Hugging Face dialect: linear weights of
 * GPT-2 are (in, out); nanochat has no such dialect. */
static void compare_updates(const char *name, const char *run)
{
    struct lvn_safetensors reference;
    struct lvn_weights before, after;
    open_weights(&before, "tests/golden/%s", name);
    open_weights(&after, "%s/checkpoints/last", run);
    open_tensors(&reference, "tests/golden/%s/reference.safetensors", name);
    for (int i = 0; i < reference.n; i++) {
        const struct lvn_safetensor *want = &reference.tensor[i];
        if (strncmp(want->name, "update.", 7) != 0) continue;
        const char *parameter = want->name + 7;
        int64_t n = lvn_desc_count(&want->desc), columns = want->desc.dim[want->desc.rank - 1];
        float *old = read_weight(&before, parameter, n), *new = read_weight(&after, parameter, n);
        if (!old || !new) fail_msg("%s: '%s' is missing", name, parameter);
        bool transposed = strcmp(name, "gpt2") != 0 && strcmp(name, "nanochat") != 0 && want->desc.rank == 2 &&
                          strstr(parameter, ".c_");
        double norm = 0.0, distance = 0.0;
        for (int64_t k = 0; k < n; k++) {
            if (is_key_bias(parameter, k, n)) continue;
            int64_t there = transposed ? k % columns * (n / columns) + k / columns : k;
            norm += pow(value_of(want, k), 2.0);
            distance += pow((double)new[there] - (double)old[k] - value_of(want, k), 2.0);
        }
        if (!(sqrt(distance) <= 1e-3 * sqrt(norm)))
            fail_msg("%s: the update of %s is %.3g of its norm off", name, parameter, sqrt(distance / norm));
        free(old);
        free(new);
    }
    lvn_weights_close(&before);
    lvn_weights_close(&after);
    lvn_safetensors_close(&reference);
}

static void train(void **state)
{
    (void)state;
    for (int d = 0; d < N_DIALECTS; d++) {
        const char *name = dialects[d].name;
        json_t *meta = read_json("tests/golden/%s/meta.json", name);
        const json_t *betas = json_object_get(meta, "betas");
        char run[96];
        snprintf(run, sizeof run, "%s/run-%s", folder, name);
        run_levin("train --model.init=tests/golden/%s --model.dropout=0 --data.kind=tokens "
                  "--data.path=tests/golden/%s/tokens.bin --data.sampling=sequential --optimizer.lr=%g "
                  "--optimizer.betas=%g,%g --optimizer.eps=%g --optimizer.weight_decay=%g --optimizer.decay=%s "
                  "--trainer.gradient_clip_val=%g --trainer.batch_size=%d --trainer.max_steps=5 --run_dir=%s",
                  name, name, number(meta, "lr"), json_number_value(json_array_get(betas, 0)),
                  json_number_value(json_array_get(betas, 1)), number(meta, "eps"), number(meta, "weight_decay"),
                  json_string_value(json_object_get(meta, "decay")), number(meta, "gradient_clip_val"),
                  (int)number(meta, "batch_size"), run);
        compare_metrics(run, meta);
        compare_updates(name, run);
        json_decref(meta);
    }
}

/* Greedy continuation, with the key/value cache and, past the context, without. */
static void generate(void **state)
{
    (void)state;
    for (int d = 0; d < N_DIALECTS; d++) {
        const char *name = dialects[d].name;
        json_t *meta = read_json("tests/golden/%s/meta.json", name);
        const json_t *want = json_object_get(meta, "greedy"), *prompt = json_object_get(meta, "prompt");
        run_levin("generate tests/golden/%s --prompt-ids=%d,%d,%d --max-new-tokens=%d --temperature=0 --json", name,
                  (int)json_integer_value(json_array_get(prompt, 0)),
                  (int)json_integer_value(json_array_get(prompt, 1)),
                  (int)json_integer_value(json_array_get(prompt, 2)), (int)json_array_size(want));
        json_t *result = read_json("%s/out", folder);
        const json_t *sample = json_array_get(json_object_get(result, "samples"), 0);
        char *got = json_dumps(json_object_get(sample, "ids"), JSON_COMPACT), *ids = json_dumps(want, JSON_COMPACT);
        assert_string_equal(got, ids);
        assert_null(json_object_get(sample, "text")); /* there is no tokenizer */
        free(got);
        free(ids);
        json_decref(result);
        json_decref(meta);
    }
}

static bool is_no_weight(const char *name)
{
    static const char *const others[] = {".attn.bias", ".attention.bias", ".masked_bias", ".inv_freq"};
    bool found = false;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) found |= strstr(name, others[i]) != NULL;
    return found;
}

/* To Hugging Face's dialect and back: every weight is what it was. */
static void export(void **state)
{
    (void)state;
    for (int d = 0; d < N_DIALECTS; d++) {
        const char *name = dialects[d].name, *format = dialects[d].format;
        run_levin("export tests/golden/%s %s/%s-there --format=huggingface", name, folder, name);
        run_levin("export %s/%s-there %s/%s-back --format=%s", folder, name, folder, name, format);
        struct lvn_weights before, after;
        char back[96];
        snprintf(back, sizeof back, "%s/%s-back", folder, name);
        open_weights(&before, "tests/golden/%s", name);
        open_weights(&after, "%s", back);
        for (int i = 0; i < before.n; i++) {
            const struct lvn_weight *want = &before.tensor[i];
            if (is_no_weight(want->name)) continue;
            int64_t n = lvn_desc_count(&want->desc);
            float *x = read_weight(&before, want->name, n), *y = read_weight(&after, want->name, n);
            if (!x || !y || memcmp(x, y, sizeof *x * (size_t)n))
                fail_msg("%s: '%s' came back otherwise", name, want->name);
            free(x);
            free(y);
        }
        lvn_weights_close(&before);
        lvn_weights_close(&after);
    }
}

/* The program lies beside the folder of the tests. */
static int set_up(void **state)
{
    (void)state;
    ssize_t n = readlink("/proc/self/exe", levin, sizeof levin - 16);
    for (int slashes = 0; n > 0 && slashes < 2;) slashes += levin[--n] == '/';
    if (n <= 0) return -1;
    strcpy(levin + n, "/levin");
    strcpy(folder, "/tmp/levin-test-golden-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    return lvn_tree_remove(folder) == LVN_OK ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(evaluate), cmocka_unit_test(train), cmocka_unit_test(export),
                                       cmocka_unit_test(generate)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
