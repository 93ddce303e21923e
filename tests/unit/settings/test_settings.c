/* test_settings.c - covers: src/run/settings/settings.c src/run/options/options.c src/run/settings/settings_check.c
 * src/run/options/device_list.c
 *
 * Options, recipes and contradictions: each refusal with its exact sentence. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/text.h"
#include "comm/comm_kind.h"
#include "data/dataset.h"
#include "faults.h"
#include "models/model.h"
#include "optimizers/optimizer.h"
#include "options/device_list.h"
#include "schedules/schedule.h"
#include "settings/settings.h"
#include "tasks/task.h"

/* Settings from a recipe, called `path`, and a row of "key=value" of the command line; finished. */
static enum lvn_status make_at(struct levin_settings *s, const char *path, const char *recipe, const char *const *keys)
{
    enum lvn_status status = lvn_settings_init(s);
    if (!status && recipe) status = lvn_settings_read(s, recipe, strlen(recipe), path);
    for (int i = 0; !status && keys && keys[i]; i++) {
        char key[256];
        snprintf(key, sizeof key, "%s", keys[i]);
        char *value = strchr(key, '=');
        assert_non_null(value);
        *value++ = '\0';
        status = lvn_settings_set(s, key, value, LVN_SOURCE_COMMAND);
    }
    return status ? status : lvn_settings_finish(s, LVN_USES_ALL);
}

static enum lvn_status make(struct levin_settings *s, const char *recipe, const char *const *keys)
{
    return make_at(s, "r.yaml", recipe, keys);
}

static const struct {
    const char *recipe;
    const char *keys[5];
    const char *sentence;
} refusals[] = {
    /* unknown keys */
    {NULL, {"optimizer.lrr=1"}, "unknown key 'optimizer.lrr'; did you mean 'optimizer.lr'?"},
    {NULL, {"optimiser.lr=1"}, "unknown key 'optimiser.lr'; did you mean 'optimizer.lr'?"},
    {NULL, {"lr=1"}, "unknown key 'lr'; did you mean 'optimizer.lr'?"},
    {NULL, {"train.max_steps=1"}, "unknown key 'train.max_steps'; did you mean 'trainer.max_steps'?"},
    {NULL, {"trainer.max-steps=1"}, "unknown key 'trainer.max-steps'; did you mean 'trainer.max_steps'?"},
    {NULL, {"model.n_layers=1"}, "unknown key 'model.n_layers'; did you mean 'model.n_layer'?"},
    {NULL, {"xyzzy=1"}, "unknown key 'xyzzy'; `levin help options` lists all keys"},
    {NULL,
     {"optimizer=adamw"},
     "'optimizer' is a part, not a key: set its keys, as in optimizer.kind (`levin help optimizer` lists them)"},
    {"model: {n_layr: 3}", {0}, "r.yaml:1: unknown key 'model.n_layr'; did you mean 'model.n_layer'?"},
    {"model:\n  n_layer: {a: 3}", {0}, "r.yaml:2: model.n_layer must be one value, got a map"},
    {"model:\n  n_layer: [3]", {0}, "r.yaml:2: model.n_layer must be one value, got a list"},
    {"a:\n  b:\n    c: 1", {0}, "r.yaml:2: unknown key 'a.b'; keys have one part and one name, as optimizer.lr"},
    {"model: gpt2",
     {0},
     "r.yaml:1: 'model' is a part, not a key: set its keys, as in model.init (`levin help model` lists them)"},
    /* twice */
    {"optimizer.lr: 1\noptimizer: {lr: 2}", {0}, "r.yaml:2: optimizer.lr is given twice, at lines 1 and 2"},
    /* types */
    {NULL, {"trainer.max_steps=ten"}, "trainer.max_steps must be a whole number, got 'ten'"},
    {NULL, {"trainer.max_steps=1.5"}, "trainer.max_steps must be a whole number, got '1.5'"},
    {NULL, {"trainer.max_steps=0x10"}, "trainer.max_steps must be a whole number, got '0x10'"},
    {NULL, {"trainer.max_steps="}, "trainer.max_steps must be a whole number, got ''"},
    {NULL, {"optimizer.lr=fast"}, "optimizer.lr must be a number, got 'fast'"},
    {NULL, {"optimizer.lr=auto"}, "optimizer.lr has no automatic value: give a number, or leave it out for 3e-4"},
    {NULL, {"optimizer.lr=none"}, "optimizer.lr none is not supported: give a number"},
    {NULL,
     {"optimizer.weight_decay=auto"},
     "optimizer.weight_decay has no automatic value: give a number, or leave it out for 0.1"},
    {NULL,
     {"trainer.gradient_clip_val=auto"},
     "trainer.gradient_clip_val has no automatic value: give a number, or leave it out for 1.0"},
    {NULL,
     {"trainer.val_check_interval=auto"},
     "trainer.val_check_interval has no automatic value: give a number, or leave it out for 1.0"},
    {NULL,
     {"trainer.stall_timeout=auto"},
     "trainer.stall_timeout has no automatic value: give a number, or leave it out for 600"},
    {NULL, {"optimizer.lr=nan"}, "optimizer.lr must be a number, got 'nan'"},
    {NULL, {"optimizer.lr=inf"}, "optimizer.lr must be a number, got 'inf'"},
    {NULL, {"optimizer.lr=1e999"}, "optimizer.lr must be a number, got '1e999'"},
    {NULL, {"optimizer.lr=1e-400"}, "optimizer.lr must be a number, got '1e-400'"},
    {NULL, {"optimizer.betas=0.9"}, "optimizer.betas must be two numbers like [0.9, 0.95], got '0.9'"},
    {NULL, {"optimizer.betas=.9,.9,.9"}, "optimizer.betas must be two numbers like [0.9, 0.95], got '.9,.9,.9'"},
    {NULL, {"optimizer.betas=.9,x"}, "optimizer.betas must be two numbers like [0.9, 0.95], got '.9,x'"},
    {NULL, {"model.bias=perhaps"}, "model.bias must be true or false, got 'perhaps'"},
    {NULL, {"optimizer.groups=wte"}, "optimizer.groups must be a list of maps, as [{match: wte, lr: 1e-4}]"},
    {NULL,
     {"optimizer.groups=[{match: wte}]"},
     "optimizer.groups, entry 1 (wte): give lr, weight_decay, betas or kind"},
    {NULL,
     {"optimizer.groups=[{match: wte, lr: 1}, {lr: 1}]"},
     "optimizer.groups, entry 2: match is missing; give patterns of names, as {match: 'wte, h.0', lr: 1e-4}"},
    {NULL,
     {"optimizer.groups=[{match: wte, lr: nan}]"},
     "optimizer.groups, entry 1: lr must be a number between 0 and 1000000, got 'nan'"},
    {NULL,
     {"optimizer.groups=[{match: wte, rate: 1}]"},
     "optimizer.groups, entry 1: unknown key 'rate'; there are match, lr, weight_decay, betas and kind"},
    {NULL, {"optimizer.kind=tiger"}, "optimizer.kind must be adamw, adam, sgd, lion or muon, got 'tiger'"},
    {NULL,
     {"optimizer.kind=lion", "optimizer.eps=1e-6"},
     "optimizer.eps (1e-06) is a key of optimizer.kind=adamw, adam or muon, and optimizer.kind is lion: leave it out"},
    {NULL, {"trainer.max_time=soon"}, "trainer.max_time must be a time like 90s, 10m, 2h or 00:12:00:00, got 'soon'"},
    {NULL, {"trainer.max_time=-5"}, "trainer.max_time must be a time like 90s, 10m, 2h or 00:12:00:00, got '-5'"},
    {NULL, {"trainer.rank_timeout=off"}, "trainer.rank_timeout must be at least 1 s, got off"},
    {NULL, {"trainer.rank_timeout=0.5s"}, "trainer.rank_timeout must be at least 1 s, got 0.5s"},
    {NULL, {"trainer.start_timeout=0"}, "trainer.start_timeout must be at least 1 s, got 0"},
    {NULL,
     {"trainer.val_check_interval=-1"},
     "trainer.val_check_interval must be a count (250) or a fraction (1.0, 0.25), got '-1'"},
    {"trainer: {seed: x}", {0}, "r.yaml:1: trainer.seed must be a whole number, got 'x'"},
    /* range */
    {NULL, {"model.n_head=0"}, "model.n_head must be between 1 and 100000, got 0"},
    {NULL, {"model.n_layer=-3"}, "model.n_layer must be between 1 and 10000, got -3"},
    {NULL, {"model.n_embd=99999999999"}, "model.n_embd must be at most 1048576, got 99999999999"},
    {NULL, {"trainer.seed=99999999999999999999"}, "trainer.seed is too large: 99999999999999999999"},
    {NULL, {"model.dropout=1.5"}, "model.dropout must be between 0 and 0.999, got 1.5"},
    {NULL, {"optimizer.betas=0.9,1"}, "optimizer.betas must be between 0 and 0.9999999, got 1"},
    {NULL, {"optimizer.lr=-1"}, "optimizer.lr must be between 0 and 1000000, got -1"},
    {NULL, {"data.max_length=-1"}, "data.max_length must be between 0 and 16777216, got -1"},
    /* contradictions */
    {NULL,
     {"model.n_embd=130", "model.n_head=4"},
     "model.n_embd (130) is not a multiple of model.n_head (4), but each head gets an equal share; use 128 or another "
     "multiple"},
    {NULL,
     {"trainer.batch_size=12", "trainer.batch_size_per_device=4"},
     "trainer.batch_size (12, command line) and trainer.batch_size_per_device (4, command line) set the same thing; "
     "leave one out or set it to 0"},
    {"trainer: {batch_size: 12}",
     {"trainer.batch_size_per_device=4"},
     "trainer.batch_size (12, r.yaml:1) and trainer.batch_size_per_device (4, command line) set the same thing; leave "
     "one out or set it to 0"},
    {NULL,
     {"trainer.batch_size=12", "trainer.micro_batch_size=5"},
     "the batch of 12 is not a multiple of trainer.micro_batch_size (5); use 1, 2, 3, 4, 6 or 12"},
    {NULL, {"model.size=gpt-mni"}, "model.size 'gpt-mni' is not known; did you mean 'gpt-mini'?"},
    {NULL,
     {"model.kind=mingpt", "model.bias=false"},
     "model.bias: false contradicts model.kind: mingpt, which has biases; leave it out or use nanogpt"},
    {NULL,
     {"model.n_layer=10000", "model.n_embd=1048576", "model.n_head=1"},
     "the model would have about 1.3e+17 values (model.n_layer 10000, model.n_embd 1048576), more than any machine "
     "can store; use smaller sizes"},
    {NULL, {"data.sha256=abc"}, "data.sha256 must be 64 hexadecimal digits, got 3 characters ('abc...')"},
    {NULL, {"data.url=http://x/y"}, "data.url needs data.path too: the file to keep the download in"},
    {NULL,
     {"schedule.kind=cosine", "trainer.max_time=1h"},
     "schedule.kind: cosine needs a step at which it ends; give schedule.decay_steps, trainer.max_steps or "
     "trainer.max_epochs"},
    {NULL,
     {"schedule.kind=linear", "schedule.warmup_steps=9", "schedule.decay_steps=8"},
     "schedule.warmup_steps (9) ends after schedule.decay_steps (8); use fewer, or decay for longer"},
    {NULL,
     {"schedule.kind=linear", "schedule.min_lr=1", "trainer.max_steps=8"},
     "schedule.min_lr (1) is above optimizer.lr (0.0003), but the rate falls from optimizer.lr to schedule.min_lr; "
     "exchange them or use schedule.kind: constant"},
    {NULL,
     {"schedule.kind=exponential", "trainer.max_steps=8"},
     "schedule.kind: exponential falls to schedule.min_lr, which must be above 0; give for example a tenth of "
     "optimizer.lr"},
    {NULL,
     {"schedule.kind=stepwise"},
     "schedule.kind must be constant, linear, cosine, exponential or wsd, got 'stepwise'"},
    {NULL,
     {"schedule.warmup_steps=2.5", "trainer.max_steps=8"},
     "schedule.warmup_steps (2.5) must be a whole number of steps, or a share of them below 1"},
    {NULL,
     {"schedule.warmup_steps=0.1", "trainer.max_time=1h"},
     "schedule.warmup_steps (0.1) is a share of the run's steps, and their number is not known: give trainer.max_steps "
     "or trainer.max_epochs, or a whole number of steps"},
    {NULL,
     {"schedule.kind=linear", "schedule.warmup_steps=0.9", "schedule.decay_steps=6", "trainer.max_steps=10"},
     "schedule.warmup_steps (0.9, so 9 steps) ends after schedule.decay_steps (6); use fewer, or decay for longer"},
    {NULL,
     {"schedule.kind=cosine", "schedule.wsd_decay_steps=5", "trainer.max_steps=10"},
     "schedule.wsd_decay_steps (5) is a key of schedule.kind=wsd, and schedule.kind is cosine: leave it out"},
    {NULL,
     {"schedule.kind=wsd", "schedule.wsd_decay_steps=0", "trainer.max_steps=10"},
     "schedule.wsd_decay_steps is 0, and schedule.kind: wsd falls in these steps; give a number of them, or a share "
     "below 1"},
    {NULL,
     {"schedule.kind=wsd", "schedule.wsd_decay_steps=1.5", "trainer.max_steps=10"},
     "schedule.wsd_decay_steps (1.5) must be a whole number of steps, or a share of them below 1"},
    {NULL,
     {"schedule.kind=wsd", "schedule.wsd_decay_steps=8", "schedule.warmup_steps=3", "trainer.max_steps=10"},
     "schedule.warmup_steps (3 steps) and schedule.wsd_decay_steps (8) are more than schedule.decay_steps (10); use "
     "fewer, or train for longer"},
    {NULL,
     {"trainer.precision=16-true"},
     "trainer.precision 16-true is not supported: this version computes in 32-true, bf16-mixed, bf16-true and, on "
     "GPUs, 16-mixed; set one of them"},
    {NULL,
     {"trainer.accelerator=abacus"},
     "trainer.accelerator must be auto, gpu, xpu, cpu, cuda, opencl, reference or trace, got 'abacus'"},
    {NULL,
     {"trainer.accelerator=trace"},
     "trainer.accelerator trace computes nothing (for levin plan: shows what would be launched on a device that "
     "this machine lacks); set cpu or auto to run"},
    {NULL,
     {"trainer.strategy=fsdp", "trainer.shares=1,2"},
     "trainer.strategy fsdp requires the same number of micro-batches on every rank, but trainer.shares gives each "
     "its own; leave that out, or set trainer.strategy=zero1"},
    {NULL,
     {"trainer.limit_val_batches=1.5"},
     "trainer.limit_val_batches (1.5) is a share of the validation set: at most 1.0; write a whole number for a number "
     "of batches"},
    {NULL,
     {"optimizer.kind=sgd", "optimizer.state=bf16"},
     "optimizer.state: bf16 is for adamw, adam, lion and muon, and optimizer.kind is sgd; leave it out"},
    {NULL,
     {"optimizer.kind=sgd", "optimizer.state=bf16", "schedule.kind=linear", "trainer.max_steps=8"},
     "optimizer.state: bf16 is for adamw, adam, lion and muon, and optimizer.kind is sgd; leave it out"},
    {NULL,
     {"trainer.devices=0,,1"},
     "trainer.devices must be the number of ranks on a node (2), or a list of devices (0,3), got '0,,1'"},
    {NULL,
     {"trainer.devices=-1"},
     "trainer.devices must be the number of ranks on a node (2), or a list of devices (0,3), got '-1'"},
    {NULL,
     {"trainer.devices=[1"},
     "trainer.devices must be the number of ranks on a node (2), or a list of devices (0,3), got '[1'"},
    {NULL,
     {"data.path=a.txt", "data.sha256=0000000000000000000000000000000000000000000000000000000000000000"},
     "data.sha256 checks the download of data.url, which is not given: leave data.sha256 out (`levin cp --sha256` "
     "checks a file that it copies from an address)"},
    {NULL,
     {"data.path=http://x/a.txt", "data.url=http://y/a.txt"},
     "data.path, 'http://x/a.txt', is an address itself, so nothing is downloaded from data.url: leave data.url out, "
     "or set data.path to the file in which the download is kept"},
    {NULL,
     {"name=../x"},
     "name '../x' becomes a folder in runs/: it must have no slash, must not start with a dot, and must be shorter "
     "than 200 characters"},
};

static void refused_with_a_sentence(void **state)
{
    (void)state;
    int wrong = 0;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        struct levin_settings s;
        enum lvn_status status = make(&s, refusals[i].recipe, refusals[i].keys);
        if (status != LVN_ARG || strcmp(levin_error_text(), refusals[i].sentence)) {
            print_error("case %zu: status %d\n  got    %s\n  expected %s\n", i, status, levin_error_text(),
                        refusals[i].sentence);
            wrong++;
        }
        lvn_error_clear();
        lvn_settings_release(&s);
    }
    assert_int_equal(wrong, 0);
}

/* The message for an unknown family lists all families of models.def. */
static void unknown_family(void **state)
{
    (void)state;
    const struct lvn_model *const *m = lvn_models();
    struct levin_settings s;
    char expected[1000] = "model.kind must be ";
    for (int i = 0; m[i]; i++)
        lvn_print_append(expected, sizeof expected, "%s%s", !i ? "" : m[i + 1] ? ", " : " or ", m[i]->name);
    lvn_print_append(expected, sizeof expected, ", got 'vgg'");
    assert_int_equal(make(&s, NULL, (const char *const[]){"model.kind=vgg", NULL}), LVN_ARG);
    assert_string_equal(levin_error_text(), expected);
    lvn_error_clear();
    lvn_settings_release(&s);
}

/* Neutral values, and other ways to write a thing. */
static const char *const accepted[] = {
    "trainer.max_steps=-1",
    "trainer.max_epochs=-1",
    "trainer.max_epochs=0",
    "trainer.max_time=off",
    "trainer.gradient_clip_val=none",
    "trainer.gradient_clip_val=0",
    "trainer.precision=32",
    "trainer.precision=32-true",
    "trainer.accelerator=auto",
    "trainer.strategy=ddp",
    "trainer.strategy=single_device",
    "trainer.devices=auto",
    "trainer.devices=1",
    "trainer.devices=none",
    "trainer.devices=0,3",
    "trainer.devices=[0, 3]",
    "trainer.devices=3,",
    "trainer.num_nodes=1",
    "trainer.devices=4",
    "trainer.num_nodes=2",
    "trainer.strategy=zero1",
    "trainer.batch_size_per_device=0",
    "trainer.micro_batch_size=0",
    "trainer.batch_size=0",
    "trainer.val_check_interval=0",
    "trainer.limit_val_batches=0",
    "trainer.limit_val_batches=all",
    "schedule.kind=none",
    "schedule.kind=constant",
    "schedule.warmup_steps=0",
    "model.vocab_size=auto",
    "schedule.warmup_steps=auto",
    "trainer.batch_size=auto",
    "trainer.max_time=auto",
    "optimizer.lr=0",
    "schedule.warmup_steps=1e3",
    "schedule.wsd_decay_steps=0.1",
    "schedule.decay_steps=none",
    "optimizer.weight_decay=off",
    "optimizer.kind=AdamW",
    "checkpoint.every_n_steps=0",
    "checkpoint.top_k=0",
    "sample.every_n_steps=off",
    "sample.top_k=none",
    "sample.top_p=0",
    "model.init=none",
    "model.init=scratch",
    "model.size=none",
    "model.dropout=none",
    "model.vocab_size=0",
    "trainer.threads=auto",
    "trainer.deterministic=no",
    "trainer.recompute=none",
    "trainer.log_every_n_steps=0",
    "trainer.log_every_n_steps=auto",
    "trainer.max_steps=1e3",
    "trainer.max_time=01:02:03:04",
    "trainer.val_check_interval=2 epochs",
};

static void neutral_values_pass(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof accepted / sizeof *accepted; i++) {
        struct levin_settings s;
        const char *keys[] = {accepted[i], NULL};
        if (make(&s, NULL, keys)) fail_msg("%s: %s", accepted[i], levin_error_text());
        lvn_settings_release(&s);
    }
}

static const char *value_of(const struct levin_settings *s, const char *key)
{
    static char text[LVN_VALUE_TEXT];
    return lvn_settings_value(s, lvn_option_find(key)->id, text);
}

static void values_arrive(void **state)
{
    (void)state;
    struct levin_settings s;
    const char *recipe = "name: demo\n"
                         "model:     {kind: nanogpt, n_layer: 4, n_head: 4, n_embd: 128, block_size: 64, bias: false}\n"
                         "data:      {kind: chars, path: a.txt, url: 'http://x/a.txt', sha256: }\n"
                         "optimizer: {kind: adamw, lr: 1e-3, betas: [0.9, 0.99], decay: linear}\n"
                         "trainer:   {max_time: 1h30m, val_check_interval: 250, limit_val_batches: 0.5}\n";
    const char *keys[] = {"model.n_layer=8", "trainer.max_steps=2000", "trainer.max_steps_=", NULL};
    keys[2] = NULL;
    assert_int_equal(make(&s, recipe, keys), LVN_OK);
    assert_string_equal(s.values.name, "demo");
    assert_string_equal(s.values.run_dir, "runs/demo");
    assert_string_equal(value_of(&s, "model.n_layer"), "8");
    assert_string_equal(s.values.model.kind, "nanogpt");
    assert_string_equal(s.values.data.kind, "chars");
    assert_string_equal(s.values.data.url, "http://x/a.txt");
    assert_true(s.values.optimizer.lr == 1e-3 && s.values.optimizer.betas[0] == 0.9 &&
                s.values.optimizer.betas[1] == 0.99);
    assert_int_equal(s.values.optimizer.decay, LVN_OPTIMIZER_DECAY_LINEAR);
    assert_true(s.values.trainer.max_time == 5400);
    assert_int_equal(s.values.trainer.val_check_interval.count, 250);
    assert_true(s.values.trainer.limit_val_batches.fraction == 0.5 && s.values.trainer.limit_val_batches.count == 0);
    assert_int_equal(s.values.trainer.batch_size, 12);
    assert_int_equal(s.values.trainer.max_epochs, 0);
    char text[LVN_VALUE_TEXT];
    assert_string_equal(lvn_settings_origin(&s, lvn_option_find("model.n_layer")->id, text), "command line");
    assert_string_equal(lvn_settings_origin(&s, lvn_option_find("model.n_head")->id, text), "r.yaml:2");
    assert_string_equal(lvn_settings_origin(&s, LVN_OPT_optimizer_eps, text), "default");
    assert_string_equal(lvn_settings_origin(&s, LVN_OPT_run_dir, text), "from name");
    lvn_settings_release(&s);
}

/* Times that are refused elsewhere: a run that an earlier levin wrote may have them. */
static void short_times_of_a_run_are_raised(void **state)
{
    (void)state;
    static const char yaml[] = "trainer:\n  rank_timeout: off\n  start_timeout: 0.5\n  stall_timeout: 0\n";
    struct levin_settings s;
    assert_int_equal(lvn_settings_init(&s), LVN_OK);
    assert_int_equal(lvn_settings_read(&s, yaml, strlen(yaml), "run/settings.yaml"), LVN_OK);
    assert_true(s.values.trainer.rank_timeout == 1 && s.values.trainer.start_timeout == 1);
    assert_true(s.values.trainer.stall_timeout == 0);
    lvn_settings_release(&s);
    assert_int_equal(lvn_settings_init(&s), LVN_OK); /* also if the command line replaces it */
    assert_int_equal(lvn_settings_set(&s, "trainer.rank_timeout", "5", LVN_SOURCE_COMMAND), LVN_OK);
    assert_int_equal(lvn_settings_read(&s, yaml, strlen(yaml), "run/settings.yaml"), LVN_OK);
    assert_true(s.values.trainer.rank_timeout == 5);
    lvn_settings_release(&s);
    assert_int_equal(make(&s, yaml, NULL), LVN_ARG); /* a recipe */
    assert_non_null(strstr(levin_error_text(), "r.yaml:2: trainer.rank_timeout must be at least 1 s, got off"));
    lvn_error_clear();
    lvn_settings_release(&s);
}

/* auto is the default, no number stands for it, and the words for off are 0; each reads back as it was written. */
static void log_lines_by_time_or_steps(void **state)
{
    (void)state;
    static const struct {
        const char *key, *text;
        int64_t value;
    } cases[] = {{NULL, "auto", LVN_LOG_BY_TIME},
                 {"trainer.log_every_n_steps=auto", "auto", LVN_LOG_BY_TIME},
                 {"trainer.log_every_n_steps=none", "0", 0},
                 {"trainer.log_every_n_steps=0", "0", 0},
                 {"trainer.log_every_n_steps=25", "25", 25}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct levin_settings s, again;
        const char *keys[] = {cases[i].key, NULL};
        assert_int_equal(make(&s, NULL, keys), LVN_OK);
        assert_int_equal(s.values.trainer.log_every_n_steps, cases[i].value);
        assert_string_equal(value_of(&s, "trainer.log_every_n_steps"), cases[i].text);
        char *yaml = lvn_settings_yaml(&s);
        assert_non_null(yaml);
        assert_int_equal(lvn_settings_init(&again), LVN_OK);
        assert_int_equal(lvn_settings_read(&again, yaml, strlen(yaml), "again.yaml"), LVN_OK);
        assert_int_equal(again.values.trainer.log_every_n_steps, cases[i].value);
        free(yaml);
        lvn_settings_release(&again);
        lvn_settings_release(&s);
    }
    struct levin_settings s;
    const char *keys[] = {"trainer.log_every_n_steps=-1", NULL};
    assert_int_equal(make(&s, NULL, keys), LVN_ARG);
    assert_string_equal(levin_error_text(), "trainer.log_every_n_steps must be at least 0, got -1");
    lvn_error_clear();
    lvn_settings_release(&s);
}

static void devices_are_counted_or_listed(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int n, last; /* last: its number; -1: they are not listed */
    } cases[] = {{"auto", 0, -1}, {"2", 2, -1}, {"0,3", 2, 3}, {"[5, 1, 4]", 3, 4}, {"3,", 1, 3}, {"[3]", 1, 3}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct levin_settings s = {.values.trainer.devices = cases[i].text};
        struct lvn_devices d;
        assert_int_equal(lvn_devices_read(&d, &s.values), LVN_OK);
        assert_int_equal(d.n, cases[i].n);
        assert_int_equal(d.listed, cases[i].last >= 0);
        if (d.listed) assert_int_equal(d.number[d.n - 1], cases[i].last);
        assert_int_equal(lvn_devices_count(&s.values), cases[i].n);
    }
}

/* Of a recipe all at once, each with its line. */
static void all_mistakes_are_reported(void **state)
{
    (void)state;
    struct levin_settings s;
    assert_int_equal(make(&s,
                          "model:\n  n_layr: 3\n  n_head: none\nxyzzy: 1\ntrainer: {seed: x, max_steps: 5}\n"
                          "optimizer:\n  lr: [1, 2]\n",
                          NULL),
                     LVN_ARG);
    assert_string_equal(levin_error_text(),
                        "r.yaml:2: unknown key 'model.n_layr'; did you mean 'model.n_layer'?; and r.yaml:3: "
                        "model.n_head must be a whole number, got 'none'; and r.yaml:4: unknown key 'xyzzy'; `levin "
                        "help options` lists all keys; and r.yaml:5: trainer.seed must be a whole number, got 'x'; and "
                        "r.yaml:7: optimizer.lr must be one value, got a list");
    lvn_settings_release(&s);
}

/* On the command line the last one wins, and that is said. */
static void the_last_key_wins(void **state)
{
    (void)state;
    struct levin_settings s;
    char text[LVN_VALUE_TEXT];
    const char *keys[] = {"optimizer.lr=1", "trainer.seed=3", "optimizer.lr=2", "optimizer.lr=4", NULL};
    assert_int_equal(make(&s, "optimizer: {lr: 7}", keys), LVN_OK);
    assert_true(s.values.optimizer.lr == 4);
    assert_string_equal(lvn_settings_origin(&s, LVN_OPT_optimizer_lr, text), "command line, the last of 3");
    assert_string_equal(lvn_settings_origin(&s, LVN_OPT_trainer_seed, text), "command line");
    lvn_settings_release(&s);
    const char *wrong[] = {"optimizer.lr=fast", "optimizer.lr=2", NULL};
    assert_int_equal(make(&s, NULL, wrong), LVN_ARG); /* what is given is looked at */
    lvn_settings_release(&s);
}

static void a_mark_before_the_text_is_no_key(void **state)
{
    (void)state;
    struct levin_settings s;
    assert_int_equal(make(&s, "\xef\xbb\xbfname: marked\r\noptimizer: {lr: 2}\r\n", NULL), LVN_OK);
    assert_string_equal(s.values.name, "marked");
    assert_true(s.values.optimizer.lr == 2);
    lvn_settings_release(&s);
    assert_int_equal(make(&s, "\xef\xbb\xbf", NULL), LVN_OK);
    lvn_settings_release(&s);
    assert_int_equal(make(&s, "\xef\xbb\xbfoptimizer:\n  lrr: 2", NULL), LVN_ARG);
    assert_string_equal(levin_error_text(), "r.yaml:2: unknown key 'optimizer.lrr'; did you mean 'optimizer.lr'?");
    lvn_settings_release(&s);
}

static void another_path_drops_the_download(void **state)
{
    (void)state;
    const char *recipe = "data: {path: a.txt, url: 'http://x/a.txt', sha256: "
                         "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef}";
    struct levin_settings s;
    const char *other[] = {"data.path=b.txt", NULL}, *same[] = {"data.path=a.txt", NULL};
    const char *both[] = {"data.url=http://y/b", "data.path=b.txt", NULL};
    assert_int_equal(make(&s, recipe, other), LVN_OK);
    assert_string_equal(s.values.data.url, "");
    assert_string_equal(s.values.data.sha256, "");
    lvn_settings_release(&s);
    assert_int_equal(make(&s, recipe, same), LVN_OK);
    assert_string_equal(s.values.data.url, "http://x/a.txt");
    lvn_settings_release(&s);
    assert_int_equal(make(&s, recipe, both), LVN_OK);
    assert_string_equal(s.values.data.url, "http://y/b");
    assert_string_equal(s.values.data.sha256, "");
    lvn_settings_release(&s);
}

static void environment_lies_between(void **state)
{
    (void)state;
    struct levin_settings s;
    const char *recipe = "optimizer: {lr: 1, eps: 1e-6}\ntrainer: {seed: 5}";
    setenv("LEVIN_OPTIMIZER_LR", "2", 1);
    setenv("LEVIN_TRAINER_SEED", "6", 1);
    assert_int_equal(lvn_settings_init(&s), LVN_OK);
    assert_int_equal(lvn_settings_set(&s, "trainer.seed", "7", LVN_SOURCE_COMMAND), LVN_OK);
    assert_int_equal(lvn_settings_read(&s, recipe, strlen(recipe), "r.yaml"), LVN_OK);
    assert_int_equal(lvn_settings_environment(&s), LVN_OK);
    assert_true(s.values.optimizer.lr == 2 && s.values.optimizer.eps == 1e-6 && s.values.trainer.seed == 7);
    char text[LVN_VALUE_TEXT];
    assert_string_equal(lvn_settings_origin(&s, LVN_OPT_optimizer_lr, text), "LEVIN_OPTIMIZER_LR");
    lvn_settings_release(&s);
    setenv("LEVIN_OPTIMIZER_LR", "x", 1);
    assert_int_equal(lvn_settings_init(&s), LVN_OK);
    assert_int_equal(lvn_settings_environment(&s), LVN_ARG);
    assert_string_equal(levin_error_text(), "LEVIN_OPTIMIZER_LR: optimizer.lr must be a number, got 'x'");
    lvn_settings_release(&s);
    unsetenv("LEVIN_OPTIMIZER_LR");
    unsetenv("LEVIN_TRAINER_SEED");
}

/* Every value as text; the parts that differ in origin only are equal. */
static void assert_same(const struct levin_settings *a, const struct levin_settings *b)
{
    char one[LVN_VALUE_TEXT], two[LVN_VALUE_TEXT];
    for (int i = 0; i < lvn_option_count(); i++) {
        enum lvn_option_id id = lvn_option_at(i)->id;
        assert_string_equal(lvn_settings_value(a, id, one), lvn_settings_value(b, id, two));
    }
    assert_memory_equal(&a->values.optimizer.betas, &b->values.optimizer.betas, sizeof a->values.optimizer.betas);
    assert_memory_equal(&a->values.optimizer.lr, &b->values.optimizer.lr, sizeof a->values.optimizer.lr);
}

static void written_settings_load_back(void **state)
{
    (void)state;
    static const char *const rows[][6] = {
        {NULL},
        {"optimizer.lr=0.1234567890123456789", "optimizer.betas=0.1,0.3333333333333333", "trainer.max_steps=77", NULL},
        {"trainer.batch_size_per_device=4", "trainer.deterministic=true", "trainer.val_check_interval=1.0", NULL},
        {"sample.prompt=true: 'x' \"y\" #\n\t- \\ \xc3\xa9", "data.path= leading: colon ", "trainer.max_time=61.5",
         NULL},
        {"model.kind=gpt2", "model.size=gpt-nano", "data.kind=tokens", "trainer.seed=9223372036854775807", NULL},
        {"model.freeze=[wte, '*.mlp', h.0:, true]", "lora.targets=none", NULL},
        {"data.kind=labelled",
         "data.replace=[{pattern: '[\\x00-\xf0\x9f\x98\x80\"'']+', with: \"\\t\"}, {pattern: '-', with: -}]", NULL},
        {"model.init=runs/x", "schedule.kind=cosine", "trainer.max_steps=9", "trainer.limit_val_batches=0.25", NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct levin_settings s, t;
        if (make(&s, NULL, rows[i])) fail_msg("row %zu: %s", i, levin_error_text());
        char *yaml = lvn_settings_yaml(&s);
        assert_non_null(yaml);
        if (make(&t, yaml, NULL)) fail_msg("row %zu: %s\n%s", i, levin_error_text(), yaml);
        assert_same(&s, &t);
        assert_int_equal(lvn_settings_finish(&t, LVN_USES_ALL), LVN_OK); /* twice changes nothing */
        assert_same(&s, &t);
        free(yaml);
        lvn_settings_release(&s);
        lvn_settings_release(&t);
    }
}

/* However a list is written, in a recipe or elsewhere, it is the same one. */
static void lists_in_all_formats(void **state)
{
    (void)state;
    static const char *const formats[] = {
        "[wte, h.0, 'h.*.mlp']", "wte,h.0,h.*.mlp",         "wte h.0\th.*.mlp",       " [ wte , h.0 , \"h.*.mlp\" ] ",
        "'wte', 'h.0', h.*.mlp", "[wte, h.0, 'h.*.mlp', ]", "[ 'wte' h.0 'h.*.mlp']", "wte, h.0, h.*.mlp,",
    };
    static const char *const recipes[] = {
        "model: {freeze: [wte, h.0, 'h.*.mlp']}",
        "model:\n  freeze:\n    - wte\n    - h.0\n    - 'h.*.mlp'\n",
        "model: {freeze: 'wte, h.0, h.*.mlp'}",
        "model: {freeze: \"[wte, h.0, 'h.*.mlp']\"}",
    };
    static const char *const wrong[] = {"[wte",     "wte]",       "[wte]]",     "[[wte]]",     "[wte] h.0", "'wte",
                                        "wte'",     "h.[01]",     "wte,,h.0",   ",wte",        "''",        "'wte\"",
                                        "wte(h.0)", "['wte'h.0]", "{wte, h.0}", "['wte, h.0']"};
    static const char *const nothing[] = {"", "[]", " [ ] ", "none", "off"};
    struct levin_settings s;
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        assert_int_equal(lvn_settings_init(&s), LVN_OK);
        if (lvn_settings_set(&s, "model.freeze", formats[i], LVN_SOURCE_COMMAND)) fail_msg("%s", levin_error_text());
        assert_string_equal(s.values.model.freeze, "wte, h.0, h.*.mlp");
        if (lvn_settings_set(&s, "lora.targets", formats[i], LVN_SOURCE_ENVIRONMENT))
            fail_msg("%s", levin_error_text());
        assert_string_equal(s.values.lora.targets, "wte, h.0, h.*.mlp");
        lvn_settings_release(&s);
    }
    for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++) {
        if (make(&s, recipes[i], NULL)) fail_msg("%s: %s", recipes[i], levin_error_text());
        assert_string_equal(s.values.model.freeze, "wte, h.0, h.*.mlp");
        lvn_settings_release(&s);
    }
    /* brackets in quotes are part of a name */
    static const char *const tokens[] = {"data: {kind: chat, add_tokens: ['[E1]', '<x>']}",
                                         "data: {kind: chat, add_tokens: \"['[E1]', '<x>']\"}",
                                         "data: {kind: chat, add_tokens: \"'[E1]', <x>\"}"};
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++) {
        if (make(&s, tokens[i], NULL)) fail_msg("%s: %s", tokens[i], levin_error_text());
        assert_string_equal(s.values.data.add_tokens, "[E1], <x>");
        lvn_settings_release(&s);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong + sizeof nothing / sizeof *nothing; i++) {
        bool good = i >= sizeof wrong / sizeof *wrong;
        const char *text = good ? nothing[i - sizeof wrong / sizeof *wrong] : wrong[i];
        assert_int_equal(lvn_settings_init(&s), LVN_OK);
        enum lvn_status status = lvn_settings_set(&s, "model.freeze", text, LVN_SOURCE_COMMAND);
        if (good ? status || *s.values.model.freeze : status != LVN_ARG)
            fail_msg("'%s': %d, '%s'", text, status, s.values.model.freeze);
        if (!good)
            assert_non_null(
                strstr(levin_error_text(), "model.freeze must be names separated by commas, as [a, b], got '"));
        lvn_settings_release(&s);
    }
}

/* "wte, h.0, ..., h.N-1" and the recipe that says so, in YAML's lists. */
static void list_of_blocks(int n, char *list, char *recipe)
{
    int used = sprintf(list, "wte"), written = sprintf(recipe, "model:\n  freeze: [wte");
    for (int i = 0; i < n; i++) {
        used += sprintf(list + used, ", h.%d", i);
        written += sprintf(recipe + written, ", h.%d", i);
    }
    sprintf(recipe + written, "]\n");
}

/* A run without a given limit has one epoch, also when it is resumed; but that does not count as a given limit. */
static void no_limit_stays_none(void **state)
{
    (void)state;
    struct levin_settings s, t, u;
    const char *more[] = {"trainer.max_steps=5", NULL};
    assert_int_equal(make(&s, NULL, NULL), LVN_OK);
    char *yaml = lvn_settings_yaml(&s);
    assert_int_equal(make(&t, yaml, NULL), LVN_OK);
    assert_true(t.values.trainer.max_epochs == 1 && t.values.trainer.max_steps == 0);
    assert_int_equal(make(&u, yaml, more), LVN_OK);
    assert_true(u.values.trainer.max_epochs == 0 && u.values.trainer.max_steps == 5);
    free(yaml);
    lvn_settings_release(&s);
    lvn_settings_release(&t);
    lvn_settings_release(&u);
}

/* Every length around the limits of any buffer: nothing is cut, by reading, writing or reading again. */
static void long_lists_arrive_whole(void **state)
{
    (void)state;
    static char list[20000], recipe[20000], line[20000];
    for (int n = 0; n < 1500; n += n < 60 ? 1 : 97) {
        struct levin_settings s, t, u;
        char text[LVN_VALUE_TEXT];
        list_of_blocks(n, list, recipe);
        snprintf(line, sizeof line, "%s", list);
        if (make(&s, recipe, NULL)) fail_msg("%d blocks: %s", n, levin_error_text());
        assert_string_equal(s.values.model.freeze, list);
        assert_string_equal(lvn_settings_value(&s, LVN_OPT_model_freeze, text), list);
        char *yaml = lvn_settings_yaml(&s);
        assert_int_equal(make(&t, yaml, NULL), LVN_OK);
        assert_string_equal(t.values.model.freeze, list);
        assert_int_equal(lvn_settings_init(&u), LVN_OK);
        assert_int_equal(lvn_settings_set(&u, "model.freeze", line, LVN_SOURCE_COMMAND), LVN_OK);
        assert_string_equal(u.values.model.freeze, list);
        free(yaml);
        lvn_settings_release(&s);
        lvn_settings_release(&t);
        lvn_settings_release(&u);
    }
}

/* A value that is not a list, or is too long, is refused, not cut to something else. */
static void long_values_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *key, *begin, fill, *end, *sentence;
    } rows[] = {
        {"optimizer.betas", "0.9, 0.95", ' ', "and more", "optimizer.betas must be two numbers like [0.9, 0.95], got"},
        {"trainer.val_check_interval", "250", ' ', "and more", "trainer.val_check_interval must be a count"},
        {"run_dir", "/", 'x', "", "run_dir '/xxx"},
        {"name", "", 'x', "", "name 'xxx"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int n = 900; n < 2000; n += 100) {
            char value[3000];
            struct levin_settings s;
            int used = sprintf(value, "%s", rows[i].begin);
            memset(value + used, rows[i].fill, (size_t)n);
            sprintf(value + used + n, "%s", rows[i].end);
            assert_int_equal(lvn_settings_init(&s), LVN_OK);
            enum lvn_status status = lvn_settings_set(&s, rows[i].key, value, LVN_SOURCE_COMMAND);
            if (!status) status = lvn_settings_finish(&s, LVN_USES_ALL);
            if (status != LVN_ARG || strncmp(levin_error_text(), rows[i].sentence, strlen(rows[i].sentence)) != 0)
                fail_msg("%s of %d bytes: %d, %s", rows[i].key, n, status, levin_error_text());
            lvn_settings_release(&s);
        }
    struct levin_settings s;
    char recipe[3000] = "optimizer: {lr";
    memset(recipe + 14, 'x', 900);
    sprintf(recipe + 914, ": 1}");
    assert_int_equal(make(&s, recipe, NULL), LVN_ARG);
    assert_non_null(strstr(levin_error_text(), "unknown key 'optimizer.lrxxx"));
    lvn_settings_release(&s);
}

static void deterministic_micro_batch(void **state)
{
    (void)state;
    static const struct {
        const char *batch;
        int micro;
    } rows[] = {{"trainer.batch_size=12", 1},  {"trainer.batch_size=16", 2}, {"trainer.batch_size=64", 8},
                {"trainer.batch_size=7", 1},   {"trainer.batch_size=1", 1},  {"trainer.batch_size=125", 5},
                {"trainer.batch_size=100", 10}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct levin_settings s;
        const char *keys[] = {rows[i].batch, "trainer.deterministic=true", NULL};
        assert_int_equal(make(&s, NULL, keys), LVN_OK);
        assert_int_equal(s.values.trainer.micro_batch_size, rows[i].micro);
        lvn_settings_release(&s);
    }
}

/* A program may set keys after a check: what follows from them follows from the new values. */
static void derived_again(void **state)
{
    (void)state;
    static const struct {
        const char *keys[4], *later[2];
    } rows[] = {
        {{NULL}, {"trainer.max_steps", "100000"}},
        {{"trainer.accumulate_grad_batches=4"}, {"trainer.accumulate_grad_batches", "1"}},
        {{"trainer.deterministic=true"}, {"trainer.deterministic", "false"}},
        {{"schedule.kind=cosine", "trainer.max_steps=9"}, {"schedule.kind", "constant"}},
        {{"model.kind=nanochat", "model.depth=4"}, {"model.depth", "12"}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct levin_settings s, t;
        const char *keys[5] = {rows[i].keys[0], rows[i].keys[1]};
        char last[100];
        snprintf(last, sizeof last, "%s=%s", rows[i].later[0], rows[i].later[1]);
        assert_int_equal(make(&s, NULL, rows[i].keys), LVN_OK);
        assert_int_equal(lvn_settings_set(&s, rows[i].later[0], rows[i].later[1], LVN_SOURCE_PROGRAM), LVN_OK);
        assert_int_equal(lvn_settings_finish(&s, LVN_USES_ALL), LVN_OK);
        keys[!keys[0] ? 0 : !keys[1] ? 1 : 2] = last;
        assert_int_equal(make(&t, NULL, keys), LVN_OK);
        assert_same(&s, &t);
        lvn_settings_release(&s);
        lvn_settings_release(&t);
    }
}

/* The settings.yaml of a run has nearly all keys, and none of them restricts what a resumed run may change. */
static void a_run_continues(void **state)
{
    (void)state;
    static const struct {
        const char *keys[3], *later, *error, *key, *value;
    } rows[] = {
        {{"model.kind=nanochat", "model.n_layer=2", "optimizer.kind=muon"}, NULL, NULL, "optimizer.groups", ""},
        {{"trainer.accumulate_grad_batches=4"},
         "trainer.accumulate_grad_batches=2",
         NULL,
         "trainer.micro_batch_size",
         "6"},
        {{"trainer.accumulate_grad_batches=4"},
         "trainer.accumulate_grad_batches=1",
         NULL,
         "trainer.micro_batch_size",
         "0"},
        {{"early_stopping.monitor=loss", "early_stopping.patience=1"},
         "early_stopping.monitor=",
         NULL,
         "early_stopping.patience",
         "1"},
        {{NULL}, "lora.alpha=16", "lora.alpha (16) has no effect while lora.rank is 0: ", NULL, NULL},
        {{NULL},
         "early_stopping.patience=3",
         "early_stopping.patience (3) has no effect while early_stopping.monitor",
         NULL,
         NULL},
        {{NULL}, "lora.dropout=0", NULL, "lora.dropout", "0"},
        {{NULL}, "lora.dropout=0.5", "lora.dropout (0.5) has no effect while lora.rank is 0: ", NULL, NULL},
        {{NULL},
         "schedule.min_lr=1e-5",
         "schedule.min_lr (1e-05) has no effect while schedule.kind is constant: ",
         NULL,
         NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct levin_settings s, t;
        const char *keys[4] = {rows[i].keys[0], rows[i].keys[1], rows[i].keys[2]}, *later[2] = {rows[i].later};
        assert_int_equal(make(&s, NULL, keys), LVN_OK);
        char *yaml = lvn_settings_yaml(&s);
        assert_int_equal(make_at(&t, "settings.yaml", yaml, later), rows[i].error ? LVN_ARG : LVN_OK);
        if (rows[i].error) assert_int_equal(strncmp(levin_error_text(), rows[i].error, strlen(rows[i].error)), 0);
        if (rows[i].key) assert_string_equal(value_of(&t, rows[i].key), rows[i].value);
        lvn_error_clear();
        free(yaml);
        lvn_settings_release(&s);
        lvn_settings_release(&t);
    }
}

/* Parts that a command does not use are checked by their rows only. */
static void other_parts_are_left_alone(void **state)
{
    (void)state;
    struct levin_settings s;
    assert_int_equal(lvn_settings_init(&s), LVN_OK);
    assert_int_equal(lvn_settings_set(&s, "schedule.kind", "exponential", LVN_SOURCE_COMMAND), LVN_OK);
    assert_int_equal(lvn_settings_set(&s, "model.n_head", "7", LVN_SOURCE_COMMAND), LVN_OK);
    assert_int_equal(lvn_settings_finish(&s, LVN_USES_DATA | LVN_USES_TRAINER), LVN_OK);
    assert_string_equal(value_of(&s, "model.n_layer"), "0");
    lvn_settings_release(&s);
}

/* The key that is meant; none rather than a wrong one. */
static void suggestions(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"optimizer.lrr", "optimizer.lr"},
        {"optimiser.lr", "optimizer.lr"},
        {"optimiser.lrr", "optimizer.lr"},
        {"lr", "optimizer.lr"},
        {"trainer.lr", "optimizer.lr"},
        {"train.max_steps", "trainer.max_steps"},
        {"trainer.max-steps", "trainer.max_steps"},
        {"trainer.max_step", "trainer.max_steps"},
        {"max_step", "trainer.max_steps"},
        {"model.n_layers", "model.n_layer"},
        {"n_layers", "model.n_layer"},
        {"data.pth", "data.path"},
        {"trainer.sed", "trainer.seed"},
        {"lora.r", "lora.rank"},
        {"lora.target", "lora.targets"},
        {"lora.target_modules", NULL},
        {"lora.drop_out", "lora.dropout"},
        {"trainer.batch", NULL}, /* two go on so */
        {"eval_steps", NULL},
        {"device", NULL},
        {"r", NULL},
        {"dtype", NULL},
        {"epochs", NULL},
        {"model.d_model", NULL},
        {"data.", NULL},
        {".", NULL},
        {"", NULL},
        {"xyzzy", NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *found = lvn_option_nearest(rows[i][0]);
        if (!found != !rows[i][1] || (found && strcmp(found, rows[i][1]) != 0))
            fail_msg("'%s': '%s', expected '%s'", rows[i][0], found ? found : "none", rows[i][1] ? rows[i][1] : "none");
    }
}

static void has_help(const char *table, const char *name, const char *help)
{
    if (!help || strlen(help) < 5 || strstr(help, "(null)"))
        fail_msg("%s, row %s: the help is '%s'", table, name, help ? help : "missing");
}

/* Help, completion and docs/options.md are made from these tables. */
static void every_row_has_help(void **state)
{
    (void)state;
    for (int i = 0; i < lvn_option_count(); i++) {
        const struct lvn_option *o = lvn_option_at(i);
        has_help("options", o->key, o->help);
        if (o->more) has_help("options, more", o->key, o->more);
    }
    for (const struct lvn_model *const *m = lvn_models(); *m; m++) {
        has_help("models", (*m)->name, (*m)->help);
        for (const struct lvn_key *k = (*m)->keys; k->kind; k++)
            if (k->recipe) has_help("keys of models", k->recipe, k->help);
    }
    for (const struct lvn_optimizer_kind *k = lvn_optimizers; k->name; k++) has_help("optimizers", k->name, k->help);
    for (const struct lvn_schedule_kind *k = lvn_schedules; k->name; k++) has_help("schedules", k->name, k->help);
    for (const struct lvn_task *t = lvn_tasks; t->name; t++) has_help("tasks", t->name, t->help);
    const struct lvn_comm_kind *kind;
    for (int i = 0; (kind = lvn_comm_kind_at(i)); i++) has_help("libraries", kind->name, kind->description);
#define LVN_DATASET(id)                                                                                                \
    {                                                                                                                  \
        extern const struct lvn_dataset_kind lvn_dataset_##id;                                                         \
        has_help("data kinds", lvn_dataset_##id.name, lvn_dataset_##id.help);                                          \
    }
#include "data/datasets_each.h"
}

/* Every default must be a value of its own option, and every row have a sentence. */
static void table_is_sound(void **state)
{
    (void)state;
    for (int i = 0; i < lvn_option_count(); i++) {
        const struct lvn_option *o = lvn_option_at(i);
        assert_ptr_equal(lvn_option_by_id(o->id), o);
        assert_true(strlen(o->help) > 10);
        if (strlen(o->help) > 240) fail_msg("the help of %s has more than three lines: move details to .more", o->key);
        assert_ptr_equal(lvn_option_find(o->key), o);
        if (*o->part) assert_non_null(lvn_part_help(o->part));
    }
}

static void memory_runs_out(void **state)
{
    (void)state;
    const char *recipe = "name: x\ntrainer: {seed: 5}\nsample: {prompt: hello}";
    for (long k = 1; k < 200; k++) {
        struct levin_settings s;
        fault_memory_at(k);
        enum lvn_status status = make(&s, recipe, NULL);
        char *yaml = status ? NULL : lvn_settings_yaml(&s);
        fault_memory_at(0);
        lvn_settings_release(&s);
        free(yaml);
        if (yaml) {
            assert_true(k > 5);
            return;
        }
        assert_true(status == LVN_OK || status == LVN_MEMORY);
    }
    fail_msg("never got through");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refused_with_a_sentence),
        cmocka_unit_test(unknown_family),
        cmocka_unit_test(neutral_values_pass),
        cmocka_unit_test(log_lines_by_time_or_steps),
        cmocka_unit_test(short_times_of_a_run_are_raised),
        cmocka_unit_test(devices_are_counted_or_listed),
        cmocka_unit_test(values_arrive),
        cmocka_unit_test(all_mistakes_are_reported),
        cmocka_unit_test(the_last_key_wins),
        cmocka_unit_test(a_mark_before_the_text_is_no_key),
        cmocka_unit_test(another_path_drops_the_download),
        cmocka_unit_test(environment_lies_between),
        cmocka_unit_test(written_settings_load_back),
        cmocka_unit_test(no_limit_stays_none),
        cmocka_unit_test(lists_in_all_formats),
        cmocka_unit_test(long_lists_arrive_whole),
        cmocka_unit_test(long_values_are_refused),
        cmocka_unit_test(deterministic_micro_batch),
        cmocka_unit_test(derived_again),
        cmocka_unit_test(a_run_continues),
        cmocka_unit_test(other_parts_are_left_alone),
        cmocka_unit_test(suggestions),
        cmocka_unit_test(table_is_sound),
        cmocka_unit_test(every_row_has_help),
        cmocka_unit_test(memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
