/* config.c - levin config: asks questions, writes a commented recipe and, if needed, a hosts file, and prints the
 * command that starts the run.
 *
 * Every question has a key of recipes (--optimizer.lr=1e-4) or a flag that answers it. Without a terminal nothing is
 * asked, and settings that are not given have their defaults. */
#include "cli/config/config.h"

#include <unistd.h>

#include "base/files.h"
#include "base/list.h"
#include "base/redact.h"
#include "base/target.h"
#include "base/text.h"
#include "cli/args.h"
#include "cli/humanize.h"
#include "cli/plan/plan.h"
#include "cli/process.h"
#include "data/dataset.h"
#include "engine/train_programs.h"
#include "formats/json.h"
#include "host/machine.h"
#include "model_io/model_find.h"
#include "models/keys.h"
#include "options/choices.h"
#include "setup/setup.h"
#include "stores/store.h"
#include "train/callback.h"
#include "train/limits.h"

const char *const lvn_recipe_kind_words[] = {"finetune", "scratch", "chars", "classifier", "chat", NULL};
enum { ASK_AUTO, ASK_ALWAYS };
static const char *const ask_words[] = {"auto", "always", "never", NULL};
const char *const lvn_config_location_words[] = {"here", "hosts", "slurm", NULL};

/* --- templates --- */

// clang-format off
#define ADAMW(lr, betas, decay) {"optimizer.kind", "adamw"}, {"optimizer.lr", lr}, {"optimizer.betas", betas}, \
    {"optimizer.weight_decay", decay}, {"trainer.gradient_clip_val", "1.0"}
#define SCHEDULE(kind, warmup) {"schedule.kind", kind}, {"schedule.warmup_steps", warmup}
// clang-format on

static const struct lvn_recipe_key finetune[] = {{"model.init", "gpt2"},
                                                 {"data.kind", "tokens"},
                                                 {"data.path", "data/openwebtext"},
                                                 ADAMW("3e-5", "[0.9, 0.95]", "0.1"),
                                                 SCHEDULE("cosine", "10"),
                                                 {"schedule.min_lr", "3e-6"},
                                                 {"trainer.max_steps", "100"},
                                                 {"trainer.batch_size", "64"},
                                                 {"trainer.precision", "bf16-mixed"},
                                                 {"trainer.val_check_interval", "5"},
                                                 {"trainer.limit_val_batches", "1"},
                                                 {"trainer.log_every_n_steps", "1"},
                                                 {"checkpoint.every_n_steps", "20"},
                                                 {NULL, NULL}};
static const struct lvn_recipe_key scratch[] = {{"model.kind", "nanogpt"},
                                                {"model.size", "gpt2"},
                                                {"model.block_size", "1024"},
                                                {"data.kind", "tokens"},
                                                {"data.path", "data/openwebtext"},
                                                ADAMW("6e-4", "[0.9, 0.95]", "0.1"),
                                                SCHEDULE("cosine", "2000"),
                                                {"schedule.min_lr", "6e-5"},
                                                {"trainer.max_steps", "600000"},
                                                {"trainer.batch_size", "480"},
                                                {"trainer.precision", "bf16-mixed"},
                                                {"trainer.val_check_interval", "1000"},
                                                {"trainer.limit_val_batches", "5"},
                                                {"checkpoint.every_n_steps", "1000"},
                                                {NULL, NULL}};
static const struct lvn_recipe_key chars[] = {
    {"model.kind", "nanogpt"},
    {"model.n_layer", "4"},
    {"model.n_head", "4"},
    {"model.n_embd", "128"},
    {"model.block_size", "64"},
    {"data.kind", "chars"},
    {"data.path", "data/tinyshakespeare.txt"},
    {"data.url", "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/"
                 "tinyshakespeare/input.txt"},
    {"data.sha256", "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"},
    ADAMW("1e-3", "[0.9, 0.99]", "0.1"),
    SCHEDULE("cosine", "100"),
    {"schedule.min_lr", "1e-4"},
    {"trainer.max_steps", "2000"},
    {"trainer.batch_size", "12"},
    {"trainer.val_check_interval", "250"},
    {NULL, NULL}};

static const struct lvn_recipe_key classify[] = {
    {"model.init", "bert-base"},           {"data.kind", "labelled"},           {"data.path", "reviews.csv"},
    ADAMW("3e-5", "[0.9, 0.999]", "0.01"), SCHEDULE("linear", "0.1"),           {"trainer.max_epochs", "3"},
    {"trainer.batch_size", "32"},          {"trainer.precision", "bf16-mixed"}, {NULL, NULL}};

static const struct lvn_recipe_key chat[] = {{"model.init", "HuggingFaceTB/SmolLM2-135M-Instruct"},
                                             {"lora.rank", "16"},
                                             {"lora.targets", "all-linear"},
                                             {"data.kind", "chat"},
                                             {"data.path", "conversations.jsonl"},
                                             {"data.max_length", "1024"},
                                             ADAMW("2e-4", "[0.9, 0.999]", "0"),
                                             SCHEDULE("linear", "0.03"),
                                             {"trainer.max_epochs", "3"},
                                             {"trainer.batch_size", "16"},
                                             {"trainer.precision", "bf16-mixed"},
                                             {NULL, NULL}};

const struct lvn_recipe_template lvn_recipe_templates[LVN_RECIPE_COUNT] = {
    [LVN_RECIPE_FINETUNE] = {.keys = finetune,
                             .help = "fine-tune a published model, or a local one, on plain text",
                             .title = "Fine-tuning a model on text",
                             .data = "Where are the tokens? A folder with train.bin and val.bin, from `levin prepare`.",
                             .use = "generate",
                             .use_option = " --prompt \"...\"",
                             .tunes = true},
    [LVN_RECIPE_SCRATCH] = {.keys = scratch,
                            .help = "train a GPT from scratch on a large tokenized corpus",
                            .title = "A GPT trained from scratch on tokens",
                            .data = "Where are the tokens? A folder with train.bin and val.bin, from `levin prepare`.",
                            .use = "generate",
                            .use_option = " --prompt \"...\""},
    [LVN_RECIPE_CHARS] = {.keys = chars,
                          .help = "train a small GPT from scratch on one text, character by character",
                          .title = "A small GPT on one text, character by character",
                          .data = "Which text? (This one is downloaded if it does not exist.)",
                          .form = "text",
                          .use = "generate",
                          .use_option = " --prompt \"...\""},
    [LVN_RECIPE_CLASSIFY] =
        {.keys = classify,
         .help = "fine-tune a published BERT on labelled rows, a table of texts and labels",
         .title = "A classifier of texts",
         .data = "Which table? A .csv, .tsv, .jsonl or .parquet file with a text and a label in each row.",
         .form = "table",
         .use = "predict",
         .use_option = " --text=\"...\"",
         .tunes = true,
         .by_epochs = true},
    [LVN_RECIPE_CHAT] = {.keys = chat,
                         .help = "fine-tune a published model, or a local one, on conversations",
                         .title = "Fine-tuning a model on conversations",
                         .data = "Which conversations? A .jsonl or .json file, or a folder of these.",
                         .form = "file of conversations",
                         .use = "chat",
                         .use_option = "",
                         .tunes = true,
                         .by_epochs = true},
};

enum lvn_status lvn_config_set(struct lvn_config *cf, const char *key, const char *value, int line)
{
    struct lvn_origin origin = {.source = LVN_SOURCE_RECIPE,
                                .where = line         ? cf->source
                                         : cf->source ? "the other program's defaults"
                                                      : "levin config",
                                .line = line};
    return lvn_settings_set_at(cf->s, key, value, origin);
}

static enum lvn_status set_template_keys(struct lvn_config *cf)
{
    for (const struct lvn_recipe_key *k = lvn_recipe_templates[cf->kind].keys; k->key; k++)
        LVN_TRY(lvn_config_set(cf, k->key, k->value, 0));
    return LVN_OK;
}

/* Replace data.kind of a fine-tuning template, which expects token files, by the kind of the given data. */
static void fit_kind(struct lvn_config *cf)
{
    const struct lvn_dataset_kind *kind = NULL;
    const struct lvn_origin *origin = &cf->s->origin[LVN_OPT_data_kind];
    if (cf->kind != LVN_RECIPE_FINETUNE || origin->source != LVN_SOURCE_RECIPE || origin->line) return;
    if (lvn_path_exists(cf->s->values.data.path) && lvn_dataset_guess(cf->s->values.data.path, &kind) != LVN_OK)
        lvn_error_clear(); /* reported when the data are opened */
    if (!kind || !kind->is_text) return;
    const bool same = !kind->tokenized_kind || lvn_model_has_characters(&cf->s->arena, cf->s->values.model.init);
    cf->s->values.data.kind = same ? kind->name : kind->tokenized_kind;
}

/* --- the command line --- */

enum lvn_status lvn_config_note(struct lvn_config *cf, const char *key, const char *format, ...)
{
    struct lvn_arena *a = &cf->s->arena;
    if (!lvn_arena_list_reserve(a, &cf->note, cf->n_notes, &cf->note_capacity, cf->n_notes + 1, sizeof *cf->note))
        return LVN_MEMORY;
    char text[600];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    struct lvn_config_note *n = &cf->note[cf->n_notes++];
    n->key = lvn_arena_strdup(a, key);
    n->text = lvn_arena_strdup(a, text);
    return n->key && n->text ? LVN_OK : LVN_MEMORY;
}

/* *out: the index of the flag's value among the words. */
static enum lvn_status parse_word(const struct lvn_cli *c, enum lvn_flag_id id, const char *const *words, int *out)
{
    char name[LVN_FLAG_TEXT], list[100] = "";
    for (int i = 0; words[i]; i++) {
        if (!strcmp(words[i], c->flag[id].t)) {
            *out = i;
            return LVN_OK;
        }
        lvn_print_append(list, sizeof list, "%s%s", i == 0 ? "" : words[i + 1] ? ", " : " or ", words[i]);
    }
    LVN_FAIL(ARG, "%s must be %s, got '%.40s'", lvn_flag_text(&lvn_flags[id].option, name), list, c->flag[id].t);
}

/* ARG for a name that is twice in a list such as node1,node2. */
static enum lvn_status check_twice(const char *names)
{
    for (const char *p = names; *p; p += strcspn(p, ","), p += *p == ',') {
        const int n = (int)strcspn(p, ",");
        for (const char *q = strchr(p, ','); q; q = strchr(q + 1, ','))
            LVN_CHECK(strncmp(p, q + 1, (size_t)n) != 0 || (q[1 + n] && q[1 + n] != ','), ARG,
                      "--hosts names '%.*s' twice: give it once; --ranks-per-machine starts several ranks there", n, p);
    }
    return LVN_OK;
}

/* "64G", "500M" or bytes; 0: the memory of this machine. */
static enum lvn_status parse_memory(const struct lvn_cli *c, int64_t *out)
{
    const char *text = c->flag[LVN_FLAG_config_memory].t, *units = "KMGT";
    double amount = 0;
    char unit = 0, more = 0;
    int n = sscanf(text, "%lf%c%c", &amount, &unit, &more);
    const char *found = n > 1 && isalpha((unsigned char)unit) ? strchr(units, unit & ~32) : NULL;
    for (int i = 0; found && i <= found - units; i++) amount *= 1024;
    LVN_CHECK(n >= 1 && n <= 2 && amount >= 0 && amount < 1e18 && (n == 1 || found), ARG,
              "--memory expects the memory of a machine, such as 64G; got '%.40s'", text);
    *out = amount > 0 ? (int64_t)amount : lvn_memory_available();
    return LVN_OK;
}

static enum lvn_status read_flags(struct lvn_config *cf)
{
    const struct lvn_cli *c = cf->c;
    int n = 0;
    LVN_TRY(parse_word(c, LVN_FLAG_config_ask, ask_words, &n));
    cf->ask = n == ASK_AUTO ? isatty(STDIN_FILENO) && isatty(STDERR_FILENO) : n == ASK_ALWAYS;
    if (c->given[LVN_FLAG_config_where]) {
        LVN_TRY(parse_word(c, LVN_FLAG_config_where, lvn_config_location_words, &n));
        cf->location = (enum lvn_config_location)n;
        cf->has_location = true;
    }
    cf->hosts = c->flag[LVN_FLAG_config_hosts].t;
    cf->has_machines = c->given[LVN_FLAG_config_machines];
    cf->machines = c->flag[LVN_FLAG_config_machines].i;
    cf->has_per_machine = c->given[LVN_FLAG_config_ranks_per_machine];
    cf->per_machine = c->flag[LVN_FLAG_config_ranks_per_machine].i;
    if (*cf->hosts) {
        int64_t names = 1;
        for (const char *p = cf->hosts; *p; p++) names += *p == ',';
        LVN_CHECK(*cf->hosts != ',' && !strstr(cf->hosts, ",,") && !lvn_ends_with(cf->hosts, ","), ARG,
                  "--hosts has a machine without a name: '%.100s'", cf->hosts);
        LVN_TRY(check_twice(cf->hosts));
        LVN_CHECK(!cf->has_machines || cf->machines == names, ARG,
                  "--machines (%" PRId64 ") and the names in --hosts (%" PRId64 ") differ; leave --machines out",
                  cf->machines, names);
        LVN_CHECK(!cf->has_location || cf->location == LVN_CONFIG_HOSTS, ARG,
                  "--hosts names machines, but --where=%s was given; use --where=hosts, or leave it out",
                  lvn_config_location_words[cf->location]);
        cf->machines = names;
        cf->has_machines = cf->has_location = true;
        cf->location = LVN_CONFIG_HOSTS;
    } else if (cf->has_machines && !cf->has_location) {
        cf->location = cf->machines > 1 ? LVN_CONFIG_HOSTS : LVN_CONFIG_LOCAL;
        cf->has_location = true;
    }
    LVN_CHECK(cf->machines == 1 || cf->location != LVN_CONFIG_LOCAL, ARG,
              "--where=here uses one machine, but --machines is %" PRId64, cf->machines);
    return parse_memory(c, &cf->memory);
}

/* --- memory and micro-batch of a rank, from the same plan that training runs (plan.c prints it in full) ---
 *
 * A rank's sequences are split into as few micro-batches as fit into its share of a machine's memory, as training does
 * at its start. */

/* Copy the recipe's settings, finished, so that planning may change them. */
static enum lvn_status copy_settings(struct lvn_config *cf, struct levin_settings *copy)
{
    char *text = lvn_settings_yaml(cf->s);
    if (!text) return LVN_MEMORY;
    enum lvn_status status = lvn_settings_read(copy, text, strlen(text), "the recipe");
    free(text);
    LVN_TRY(status);
    for (int id = 0; id < LVN_OPT_ALL; id++) /* values that were not given keep their origin, as model.kind */
        if (!lvn_settings_given(cf->s, (enum lvn_option_id)id)) copy->origin[id] = cf->s->origin[id];
    copy->values.ranks = cf->machines * cf->per_machine;
    if (lvn_config_names_gpu(cf)) /* the GPU need not be in this machine */
        LVN_TRY(lvn_settings_set(copy, "trainer.accelerator", "trace", LVN_SOURCE_PROGRAM));
    LVN_TRY(lvn_settings_set(copy, "data.path", "", LVN_SOURCE_PROGRAM)); /* sizes do not depend on it */
    LVN_TRY(lvn_settings_set(copy, "data.url", "", LVN_SOURCE_PROGRAM));
    return lvn_settings_finish(copy, LVN_USES_ALL & ~LVN_USES_DEVICE);
}

/* Estimate the time of a step, if the device is in this machine. */
static enum lvn_status find_time(struct lvn_config *cf, const struct levin_settings *s, const struct lvn_model_setup *m,
                                 const struct lvn_train_programs *programs)
{
    struct lvn_compute compute;
    if (!programs->model_state->device->backend->rate || !programs->model_state->device->backend->computes)
        return LVN_OK;
    LVN_TRY(lvn_plan_compute(&compute, cf->c, s, programs, &m->config, (int)(cf->machines * cf->per_machine)));
    cf->measured = compute.method != LVN_COMPUTED_BY_RATES;
    cf->step_seconds =
        (compute.parts.forward + compute.parts.backward) * (double)programs->accumulation + compute.parts.update;
    return LVN_OK;
}

/* Count the training samples, if the data are on this machine; a problem with them is a warning. */
static enum lvn_status count_samples(struct lvn_config *cf, const struct levin_settings *s,
                                     const struct lvn_model_setup *m)
{
    struct lvn_dataset *d;
    struct lvn_data_options o = lvn_data_options_of(&s->values);
    o.path = cf->s->values.data.path;
    o.block_size = m->block_size;
    o.label = m->task->label.label;
    o.trains_tokenizer = true;
    if (!*o.path || lvn_store_is_url(o.path) || !lvn_path_exists(o.path)) return LVN_OK;
    const struct lvn_dataset_kind *kind = lvn_dataset_kind_find(o.kind);
    if (*s->values.model.init && kind && kind->needs_tokenizer) return LVN_OK; /* the model's own is not opened here */
    lvn_log_set(lvn_cli_log, NULL, LVN_LOG_WARN); /* what training reports about the data is not repeated here */
    const enum lvn_status status = lvn_dataset_open(&d, &o);
    lvn_log_set(lvn_cli_log, NULL, lvn_cli_log_level(cf->c));
    if (status == LVN_MEMORY) return status;
    if (status != LVN_OK) {
        lvn_log(LVN_LOG_WARN, "the data cannot be trained on as they are: %s", levin_error_text());
        lvn_error_clear();
        return LVN_OK;
    }
    cf->samples = lvn_dataset_samples(d, LVN_SPLIT_TRAIN);
    lvn_dataset_close(d);
    return LVN_OK;
}

/* Plan rank 0 with at least this number of micro-batches. */
static enum lvn_status plan_once(struct lvn_config *cf, const struct levin_settings *s, const struct lvn_model_setup *m,
                                 int64_t min_micro_batches)
{
    struct lvn_train_programs programs = {0};
    struct lvn_callbacks callbacks;
    struct lvn_train_programs_options o = {.size = (int)(cf->machines * cf->per_machine),
                                           .fields = &m->fields,
                                           .task = m->task,
                                           .validate = true,
                                           .planner = lvn_callbacks_planner(&callbacks),
                                           .min_micro_batches = min_micro_batches};
    enum lvn_status status = lvn_callbacks_init(&callbacks, s, NULL);
    if (status == LVN_OK) status = lvn_train_programs_plan(&programs, &s->values, &m->config, &o);
    if (status == LVN_OK) {
        cf->parameters = lvn_params_total(programs.model_state->params);
        cf->rank_bytes = lvn_model_state_bytes(programs.model_state);
        cf->fits = cf->memory <= 0 || (double)cf->rank_bytes <= 0.9 * (double)cf->memory / (double)cf->per_machine;
        cf->micro = programs.micro_batch;
        cf->accumulation = programs.accumulation;
    }
    if (status == LVN_OK && cf->fits) status = find_time(cf, s, m, &programs);
    lvn_train_programs_release(&programs);
    lvn_callbacks_release(&callbacks);
    return status;
}

static enum lvn_status plan(struct lvn_config *cf, const struct levin_settings *s, const struct lvn_model_setup *m)
{
    int64_t ranks = cf->machines * cf->per_machine, batch = s->values.trainer.batch_size;
    LVN_CHECK(batch >= ranks, ARG,
              "%lld ranks cannot share the %lld sequence%s of a step: use fewer machines or a larger "
              "trainer.batch_size",
              (long long)ranks, (long long)batch, lvn_plural(batch));
    for (int64_t min_micro_batches = 1;; min_micro_batches = cf->accumulation + 1) {
        LVN_TRY(plan_once(cf, s, m, min_micro_batches));
        if (cf->fits || cf->micro == 1 || s->values.trainer.micro_batch_size) return LVN_OK;
    }
}

/* Does levin know a published model of that name? */
static bool is_published(const char *name)
{
    const struct lvn_model *model;
    return lvn_published_find(name, &model) != NULL;
}

/* Reduce data.max_length to the context length of the model, if the template chose it and not the user. */
static void fit_length(struct lvn_config *cf, struct levin_settings *s, const struct lvn_model_setup *m)
{
    const struct lvn_origin *origin = &cf->s->origin[LVN_OPT_data_max_length];
    const int64_t positions = lvn_model_value(&m->config, LVN_ROLE_POSITIONS);
    if (origin->source != LVN_SOURCE_RECIPE || origin->line) return;
    if (positions > 0 && cf->s->values.data.max_length > positions)
        cf->s->values.data.max_length = s->values.data.max_length = positions;
}

/* Compute parameters, memory, micro-batch and step time of a rank and, if the data exist, their size. */
static enum lvn_status plan_recipe(struct lvn_config *cf)
{
    struct levin_settings s;
    struct lvn_model_setup m = {0};
    enum lvn_status status = lvn_settings_init(&s);
    if (status == LVN_OK) status = copy_settings(cf, &s);
    /* A model that is not on this machine (an address, a folder of the cluster) is not planned. */
    bool elsewhere = status == LVN_OK && *s.values.model.init && !lvn_path_exists(s.values.model.init) &&
                     !is_published(s.values.model.init);
    if (status == LVN_OK && !elsewhere) {
        status = lvn_model_setup_sizes(&m, &s, NULL);
        if (status == LVN_OK) fit_length(cf, &s, &m);
        if (status == LVN_OK) status = plan(cf, &s, &m);
        cf->planned = status == LVN_OK;
        if (status == LVN_OK) status = count_samples(cf, &s, &m);
        const int64_t steps = lvn_limits_steps(&s, cf->samples / s.values.trainer.batch_size);
        cf->steps = steps == INT64_MAX ? 0 : steps;
    }
    lvn_model_setup_close(&m);
    lvn_settings_release(&s);
    return status;
}

/* --- paths, the hosts file, and the command that starts the run --- */

/* The files that are written. */
struct paths {
    const char *recipe;
    const char *hosts;  /* NULL: no hosts file is written */
    const char *launch; /* the command that starts the run */
};

enum { WIDTH = 110 };

/* Add a comment in lines of at most WIDTH letters, each after `prefix`. */
static void add_comment(struct lvn_text *t, const char *prefix, const char *text)
{
    while (*text) {
        size_t n = strlen(text), capacity = WIDTH - strlen(prefix);
        if (n > capacity) {
            n = capacity;
            while (n && text[n] != ' ') n--;
            if (!n) n = strcspn(text, " ");
        }
        lvn_text_printf(t, "%s%.*s\n", prefix, (int)n, text);
        text += n + strspn(text + n, " ");
    }
}

/* x.yaml -> x.hosts */
static const char *with_extension(struct lvn_config *cf, const char *recipe, const char *extension)
{
    return lvn_arena_printf(&cf->s->arena, "%.*s.%s", (int)lvn_path_stem(recipe), recipe, extension);
}

/* Choose the recipe's file: the operand, else by the run's name, nanoGPT's file, or the kind of recipe. Without a name,
 * the run is named after the file. */
static enum lvn_status name_recipe(struct lvn_config *cf, struct paths *p)
{
    struct lvn_arena *a = &cf->s->arena;
    const char *nanogpt = lvn_path_name(cf->c->flag[LVN_FLAG_config_from_nanogpt].t);
    bool named = lvn_settings_given(cf->s, LVN_OPT_name);
    const char *name = named      ? cf->s->values.name
                       : *nanogpt ? lvn_arena_printf(a, "%.*s", (int)lvn_path_stem(nanogpt), nanogpt)
                                  : lvn_recipe_kind_words[cf->kind];
    if (!name) return LVN_MEMORY;
    p->recipe = cf->c->n_operands ? cf->c->operand[0] : lvn_arena_printf(a, "%s.yaml", name);
    if (!p->recipe) return LVN_MEMORY;
    LVN_CHECK(!lvn_path_is_dir(p->recipe), ARG, "'%s' is a folder: give the name of the recipe's file", p->recipe);
    if (named) return LVN_OK;
    const char *file = lvn_path_name(p->recipe);
    cf->s->values.name = lvn_arena_printf(a, "%.*s", (int)lvn_path_stem(file), file);
    return cf->s->values.name ? LVN_OK : LVN_MEMORY;
}

static enum lvn_status find_paths(struct lvn_config *cf, struct paths *p)
{
    struct lvn_arena *a = &cf->s->arena;
    int64_t ranks = cf->machines * cf->per_machine;
    *p = (struct paths){0};
    LVN_TRY(name_recipe(cf, p));
    const char *recipe = lvn_word_quoted(a, p->recipe); /* a shell reads p->launch */
    if (!recipe) return LVN_MEMORY;
    if (cf->location == LVN_CONFIG_HOSTS) {
        const char *hosts = cf->hostfile;
        if (!hosts) hosts = p->hosts = with_extension(cf, p->recipe, "hosts");
        if (hosts) hosts = lvn_word_quoted(a, hosts);
        if (!hosts) return LVN_MEMORY;
        p->launch = lvn_arena_printf(a, "levin launch --hostfile %s -n %" PRId64 " -- train %s", hosts, ranks, recipe);
    } else if (cf->location == LVN_CONFIG_SLURM) {
        const char *script = with_extension(cf, p->recipe, "sbatch");
        if (script) script = lvn_word_quoted(a, script);
        if (!script) return LVN_MEMORY;
        p->launch = lvn_arena_printf(
            a, "levin launch --slurm %s --nodes %" PRId64 " --ntasks-per-node %" PRId64 " --out %s && sbatch %s",
            recipe, cf->machines, cf->per_machine, script, script);
    } else if (ranks > 1) {
        p->launch = lvn_arena_printf(a, "levin launch -n %" PRId64 " -- train %s", ranks, recipe);
    } else {
        p->launch = lvn_arena_printf(a, "levin train %s", recipe);
    }
    return p->launch ? LVN_OK : LVN_MEMORY;
}

static void write_hosts(const struct lvn_config *cf, struct lvn_text *t)
{
    lvn_text_printf(t,
                    "# The machines of %s: a name per line, with its number of ranks. Each must be reached by\n"
                    "# `ssh NAME true` without a password, and have levin under the same path.\n",
                    cf->s->values.name);
    if (!*cf->hosts) lvn_text_add(t, "# Replace these names by those of your machines.\n");
    const char *p = cf->hosts;
    for (int64_t i = 0; i < cf->machines; i++) {
        size_t n = strcspn(p, ",");
        if (*cf->hosts)
            lvn_text_printf(t, "%.*s slots=%" PRId64 "\n", (int)n, p, cf->per_machine);
        else
            lvn_text_printf(t, "node%" PRId64 " slots=%" PRId64 "\n", i + 1, cf->per_machine);
        p += n + (p[n] == ',');
    }
}

/* --- the recipe --- */

static void add_head(const struct lvn_config *cf, const struct paths *p, struct lvn_text *t)
{
    const struct lvn_recipe_template *template = &lvn_recipe_templates[cf->kind];
    char bytes[LVN_NUMBER_TEXT], count[LVN_NUMBER_TEXT];
    char launch[3000], generate[3000], sources[1000]; /* a newline would end the comment */
    lvn_text_printf(t, "# %s%s%s. Written by levin config; change what you like.\n#\n", template->title,
                    *cf->sources ? ", from " : "", lvn_redacted(sources, sizeof sources, cf->sources));
    const char *run =
        *cf->s->values.run_dir ? cf->s->values.run_dir : lvn_arena_printf(&cf->s->arena, "runs/%s", cf->s->values.name);
    if (run) run = lvn_word_quoted(&cf->s->arena, run);
    t->failed |= !run;
    lvn_text_printf(t, "#     %s\n#     levin %s %s%s\n#\n", lvn_redacted(launch, sizeof launch, p->launch),
                    template->use, lvn_redacted(generate, sizeof generate, run ? run : ""), template->use_option);
    lvn_text_add(t,
                 "# `levin help KEY` explains a key, `levin plan` shows memory and arithmetic before anything runs.\n");
    if (cf->planned)
        lvn_text_printf(t,
                        "# %s parameters; each rank runs micro-batches of %" PRId64 " sequences, %" PRId64
                        " per step, and needs %s.\n",
                        lvn_count_text(cf->parameters, count), cf->micro, cf->accumulation,
                        lvn_bytes_text(cf->rank_bytes, bytes));
    if (cf->n_notes)
        lvn_text_printf(t, "#\n# These settings of %s have no equivalent in levin, or a different one:\n", sources);
    for (int i = 0; i < cf->n_notes; i++) {
        char text[700], line[700];
        snprintf(text, sizeof text, "%s: %s", cf->note[i].key, cf->note[i].text);
        add_comment(t, "#   ", lvn_redacted(line, sizeof line, text));
    }
}

/* Add a comment on the value that a user chose or will choose, below the key's help. */
static void add_remark(const struct lvn_config *cf, int id, struct lvn_text *t)
{
    const struct lvn_origin *origin = &cf->s->origin[id];
    char text[300] = "";
    int64_t ranks = cf->machines * cf->per_machine;
    if (id == LVN_OPT_trainer_precision) snprintf(text, sizeof text, "%s", lvn_config_precision_text());
    if (id == LVN_OPT_trainer_batch_size && ranks > 1)
        snprintf(text, sizeof text, "%" PRId64 " ranks: about %" PRId64 " on each", ranks,
                 cf->s->values.trainer.batch_size / ranks);
    if (id == LVN_OPT_optimizer_lr && !origin->line &&
        (cf->kind == LVN_RECIPE_FINETUNE || cf->kind == LVN_RECIPE_CLASSIFY))
        snprintf(text, sizeof text, "rates for training from scratch (6e-4) destroy what the model knows");
    if (id == LVN_OPT_data_path && cf->kind != LVN_RECIPE_CHARS && !lvn_path_exists(cf->s->values.data.path))
        snprintf(text, sizeof text, "%s",
                 lvn_recipe_templates[cf->kind].form ? "does not exist yet"
                                                     : "not there yet: see `levin help prepare`");
    if (*text) add_comment(t, "  # ", text);
    if (origin->source == LVN_SOURCE_RECIPE && origin->line)
        lvn_text_printf(t, "  # from %s:%d\n", lvn_redacted(text, sizeof text, origin->where), origin->line);
    if (origin->source == LVN_SOURCE_RECIPE && !origin->line && *cf->c->flag[LVN_FLAG_config_from_nanogpt].t)
        lvn_text_add(t, "  # nanoGPT's default\n");
}

static void add_key(const struct lvn_config *cf, int id, struct lvn_text *t)
{
    const struct lvn_option *o = lvn_option_by_id((enum lvn_option_id)id);
    char text[LVN_VALUE_TEXT], help[LVN_HELP_TEXT];
    const char *dot = strchr(o->key, '.');
    add_comment(t, *o->part ? "  # " : "# ", lvn_option_help(o, help));
    if (*o->part) add_remark(cf, id, t);
    lvn_text_printf(t, "%s%s: ", *o->part ? "  " : "", dot ? dot + 1 : o->key);
    lvn_option_yaml(t, o, lvn_settings_value(cf->s, (enum lvn_option_id)id, text));
    lvn_text_add(t, "\n");
}

static enum lvn_status write_recipe(const struct lvn_config *cf, const struct paths *p, struct lvn_text *t)
{
    const char *part = "";
    add_head(cf, p, t);
    if (lvn_settings_given(cf->s, LVN_OPT_name) || lvn_settings_given(cf->s, LVN_OPT_run_dir)) lvn_text_add(t, "\n");
    for (int i = 0; i < lvn_option_count(); i++) {
        const struct lvn_option *o = lvn_option_at(i);
        if (!lvn_settings_given(cf->s, o->id)) continue;
        if (strcmp(part, o->part) != 0) lvn_text_printf(t, "\n%s: # %s\n", o->part, lvn_part_help(o->part));
        part = o->part;
        add_key(cf, (int)o->id, t);
    }
    return lvn_text_status(t);
}

/* --- other programs' files, questions and the finished recipe --- */

static enum lvn_status find_kind(struct lvn_config *cf, const char *nanogpt)
{
    const struct lvn_cli *c = cf->c;
    int n = 0;
    if (c->given[LVN_FLAG_config_job]) {
        LVN_TRY(parse_word(c, LVN_FLAG_config_job, lvn_recipe_kind_words, &n));
        cf->kind = (enum lvn_recipe_kind)n;
        if (!*nanogpt) return LVN_OK;
        LVN_TRY(lvn_config_nanogpt_kind(cf, nanogpt));
        LVN_CHECK(cf->kind == (enum lvn_recipe_kind)n, ARG,
                  "--job is %s, and the file of --from-nanogpt, '%s', describes %s: leave --job out",
                  lvn_recipe_kind_words[n], nanogpt, lvn_recipe_kind_words[cf->kind]);
        return LVN_OK;
    }
    return *nanogpt ? lvn_config_nanogpt_kind(cf, nanogpt) : lvn_config_ask_kind(cf);
}

static enum lvn_status refuse_replacing(struct lvn_config *cf, const char *path)
{
    struct lvn_target t;
    if (!path || lvn_cli_on(cf->c, LVN_FLAG_config_overwrite)) return LVN_OK;
    LVN_TRY(lvn_target_find(&cf->s->arena, path, &t));
    LVN_CHECK(t.stream || !lvn_path_exists(path), ARG, "'%s' exists already: give another name, or --overwrite", path);
    return LVN_OK;
}

static enum lvn_status gather(struct lvn_config *cf)
{
    const struct lvn_cli *c = cf->c;
    const char *accelerate = c->flag[LVN_FLAG_config_from_accelerate].t,
               *nanogpt = c->flag[LVN_FLAG_config_from_nanogpt].t;
    struct paths p;
    for (int i = 0; i < c->n_keys; i++)
        LVN_TRY(lvn_settings_set(cf->s, c->keys[i].key, c->keys[i].value, LVN_SOURCE_COMMAND));
    LVN_TRY(read_flags(cf));
    if (c->n_operands) LVN_TRY(refuse_replacing(cf, c->operand[0])); /* before the user answers questions */
    LVN_TRY(find_kind(cf, nanogpt));
    if (cf->ask) LVN_TRY(find_paths(cf, &p));
    if (cf->ask) LVN_TRY(refuse_replacing(cf, p.recipe));
    if (!*nanogpt) LVN_TRY(set_template_keys(cf)); /* config_nanogpt.c has nanoGPT's own defaults */
    cf->sources = !*accelerate ? nanogpt : !*nanogpt ? accelerate : NULL;
    if (!cf->sources) cf->sources = lvn_arena_printf(&cf->s->arena, "%s and %s", nanogpt, accelerate);
    if (!cf->sources) return LVN_MEMORY;
    if (*nanogpt) LVN_TRY_WHILE(lvn_config_nanogpt(cf, nanogpt), "reading nanoGPT's '%s'", nanogpt);
    if (*accelerate) LVN_TRY_WHILE(lvn_config_accelerate(cf, accelerate), "reading accelerate's '%s'", accelerate);
    LVN_TRY(lvn_config_ask(cf));
    fit_kind(cf);
    return *cf->s->values.model.init ? lvn_model_check_name(&cf->s->arena, cf->s->values.model.init) : LVN_OK;
}

/* Check that the recipe loads. Uses a copy, so that derived values are not written. */
static enum lvn_status check_loads(struct lvn_config *cf, const struct lvn_text *recipe, const char *name)
{
    struct levin_settings copy;
    enum lvn_status status = lvn_settings_init(&copy);
    copy.values.ranks = cf->machines * cf->per_machine;
    if (status == LVN_OK) status = lvn_settings_read(&copy, recipe->p, (size_t)recipe->n, name);
    if (status == LVN_OK) status = lvn_settings_finish(&copy, LVN_USES_ALL);
    lvn_settings_release(&copy);
    return status;
}

static json_t *notes_json(const struct lvn_config *cf)
{
    json_t *list = json_array();
    for (int i = 0; i < cf->n_notes; i++)
        json_array_append_new(list, json_pack("{s:o, s:o}", "key", lvn_json_text(cf->note[i].key, INT64_MAX), "note",
                                              lvn_json_text(cf->note[i].text, INT64_MAX)));
    return list;
}

/* Report how long the run takes and how often it reads the data, and warn of a batch that is larger than the data. */
static void report_time(const struct lvn_config *cf)
{
    struct lvn_cli *c = cf->c;
    char step[LVN_NUMBER_TEXT], all[LVN_NUMBER_TEXT], samples[LVN_NUMBER_TEXT];
    const int64_t batch = cf->s->values.trainer.batch_size;
    if (cf->step_seconds > 0)
        lvn_cli_print(c, "a step takes %s %s%s%s%s%s (%s%s)\n", cf->measured ? "about" : "at least",
                      lvn_seconds_text(cf->step_seconds, step), cf->steps ? ", all " : "",
                      cf->steps ? lvn_count_text(cf->steps, samples) : "", cf->steps ? " steps " : "",
                      cf->steps ? lvn_seconds_text(cf->step_seconds * (double)cf->steps, all) : "",
                      cf->measured ? "measured on this machine" : "by the measured rates of this machine",
                      cf->machines * cf->per_machine > 1 ? ", without communication" : "");
    if (cf->samples) lvn_cli_print(c, "the data have %s training samples", lvn_count_text(cf->samples, samples));
    if (cf->samples && cf->steps)
        lvn_cli_print(c, ", which the run reads %.3g times", (double)(cf->steps * batch) / (double)cf->samples);
    if (cf->samples) lvn_cli_print(c, "\n");
    if (cf->samples && batch > cf->samples)
        lvn_log(LVN_LOG_WARN,
                "a batch of %" PRId64 " repeats samples, because there are only %" PRId64
                "; set trainer.batch_size to at "
                "most %" PRId64 ", or use more data",
                batch, cf->samples, cf->samples);
    lvn_cli_add(c, "step_seconds", cf->step_seconds > 0 ? json_real(cf->step_seconds) : json_null());
    lvn_cli_add(c, "samples", cf->samples ? json_integer(cf->samples) : json_null());
}

static void report(struct lvn_config *cf, const struct paths *p)
{
    struct lvn_cli *c = cf->c;
    char a[LVN_NUMBER_TEXT], b[LVN_NUMBER_TEXT];
    if (cf->n_notes)
        lvn_cli_print(c, "these settings of %s have no equivalent in levin, or a different one:\n", cf->sources);
    for (int i = 0; i < cf->n_notes; i++) lvn_cli_print(c, "  %s: %s\n", cf->note[i].key, cf->note[i].text);
    if (cf->planned)
        lvn_cli_print(c,
                      "%s parameters; each rank runs micro-batches of %" PRId64 " sequences, %" PRId64
                      " per step, and needs %s%s\n",
                      lvn_count_text(cf->parameters, a), cf->micro, cf->accumulation, lvn_bytes_text(cf->rank_bytes, b),
                      cf->fits ? "" : ", MORE than is available; use a smaller model, or machines with more memory");
    report_time(cf);
    lvn_cli_print(c, "wrote %s%s%s\nstart it with\n    %s\n", p->recipe, p->hosts ? " and " : "",
                  p->hosts ? p->hosts : "", p->launch);
    lvn_cli_add(c, "recipe", lvn_json_text(p->recipe, INT64_MAX));
    lvn_cli_add(c, "hosts_file", p->hosts ? lvn_json_text(p->hosts, INT64_MAX) : json_null());
    lvn_cli_add(c, "launch", lvn_json_text(p->launch, INT64_MAX));
    lvn_cli_add(c, "job", json_string(lvn_recipe_kind_words[cf->kind]));
    lvn_cli_add(c, "machines", json_integer(cf->machines));
    lvn_cli_add(c, "ranks", json_integer(cf->machines * cf->per_machine));
    lvn_cli_add(c, "parameters", cf->planned ? json_integer(cf->parameters) : json_null());
    lvn_cli_add(c, "micro_batch_size", cf->planned ? json_integer(cf->micro) : json_null());
    lvn_cli_add(c, "rank_bytes", cf->planned ? json_integer(cf->rank_bytes) : json_null());
    lvn_cli_add(c, "fits", cf->planned ? json_boolean(cf->fits) : json_null());
    lvn_cli_add(c, "notes", notes_json(cf));
}

static enum lvn_status write_all(struct lvn_config *cf, const struct paths *p, const struct lvn_text *recipe)
{
    LVN_LOCAL_TEXT(hosts);
    LVN_TRY(refuse_replacing(cf, p->recipe));
    LVN_TRY(refuse_replacing(cf, p->hosts));
    LVN_TRY(lvn_cli_check_output(cf->c, p->recipe));
    if (p->hosts) write_hosts(cf, &hosts);
    enum lvn_status status = lvn_text_status(&hosts);
    if (status == LVN_OK && p->hosts) status = lvn_target_write(p->hosts, hosts.p, hosts.n);
    return status == LVN_OK ? lvn_target_write(p->recipe, recipe->p, recipe->n) : status;
}

enum lvn_status lvn_command_config(struct lvn_cli *c)
{
    struct lvn_config cf = {.c = c, .s = &c->settings};
    struct paths p;
    LVN_LOCAL_TEXT(recipe);
    LVN_TRY(gather(&cf));
    LVN_TRY(plan_recipe(&cf));
    LVN_TRY(find_paths(&cf, &p));
    enum lvn_status status = write_recipe(&cf, &p, &recipe);
    if (status == LVN_OK) status = check_loads(&cf, &recipe, p.recipe);
    if (status == LVN_OK) status = write_all(&cf, &p, &recipe);
    if (status == LVN_OK) report(&cf, &p);
    return status;
}
