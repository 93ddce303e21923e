/* config_nanogpt.c - reads nanoGPT's config/NAME.py as a recipe; called by config.c. Settings that the file lacks take
 * the defaults of nanoGPT's train.py.
 *
 * The file is parsed (formats/assignments.h), never executed. Steps, batches and rates mean the same in both programs,
 * except that nanoGPT counts its evaluation in batches of batch_size sequences and makes one step more than max_iters.
 */

#include "cli/config/config.h"
#include "formats/assignments.h"

struct reading {
    struct lvn_config *cf;
    const struct lvn_assigned *list;
    int n;
};

/* Settings of nanoGPT's scripts. */
static const struct row {
    const char *name;
    const char *default_text; /* default in train.py; "": none */
    const char *key;  /* of levin, which gets the value unchanged; NULL: there is none, or a function below sets it */
    const char *note; /* for the user, if the file has the setting; NULL: none */
} rows[] = {
    {"out_dir", "", "run_dir", NULL},
    {"eval_interval", "2000", "trainer.val_check_interval", NULL},
    {"log_interval", "1", "trainer.log_every_n_steps", NULL},
    {"eval_iters", "200", NULL, NULL},
    {"eval_only", "", NULL, NULL},
    {"always_save_checkpoint", "true", NULL, NULL},
    {"init_from", "scratch", NULL, NULL},
    {"wandb_log", "", NULL, "not in levin; metrics.csv and metrics.jsonl in the run's folder have every step"},
    {"wandb_project", "", NULL, "not in levin, see wandb_log"},
    {"wandb_run_name", "", NULL, "not in levin; the run is called by `name`"},
    {"dataset", "openwebtext", NULL, NULL},
    {"gradient_accumulation_steps", "40", NULL, NULL},
    {"batch_size", "12", NULL, NULL},
    {"block_size", "1024", "model.block_size", NULL},
    {"n_layer", "12", "model.n_layer", NULL},
    {"n_head", "12", "model.n_head", NULL},
    {"n_embd", "768", "model.n_embd", NULL},
    {"dropout", "0", "model.dropout", NULL},
    {"bias", "false", "model.bias", NULL},
    {"learning_rate", "6e-4", "optimizer.lr", NULL},
    {"max_iters", "600000", "trainer.max_steps", NULL},
    {"weight_decay", "0.1", "optimizer.weight_decay", NULL},
    {"beta1", "0.9", NULL, NULL},
    {"beta2", "0.95", NULL, NULL},
    {"grad_clip", "1", "trainer.gradient_clip_val", NULL},
    {"decay_lr", "true", NULL, NULL},
    {"warmup_iters", "2000", NULL, NULL},
    {"lr_decay_iters", "600000", NULL, NULL},
    {"min_lr", "6e-5", NULL, NULL},
    {"backend", "", NULL, "not in levin; ranks communicate over the MPI that starts them"},
    {"device", "", NULL, NULL},
    {"dtype", "", NULL, NULL},
    {"compile", "", NULL, "not in levin; every program is planned before the first step"},
    {"seed", "", "trainer.seed", NULL},
    {"start", "", "sample.prompt", NULL},
    {"max_new_tokens", "", "sample.max_new_tokens", NULL},
    {"temperature", "", "sample.temperature", NULL},
    {"top_k", "", "sample.top_k", NULL},
    {"num_samples", "", NULL, "not a key of levin; give `levin generate --num-samples=N`"},
};

static const struct row *find_row(const char *name)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!strcmp(rows[i].name, name)) return &rows[i];
    return NULL;
}

/* Find the setting in the file; NULL: the file does not have it in a form that can be read. */
static const struct lvn_assigned *given(const struct reading *r, const char *name)
{
    return lvn_assignments_find(r->list, r->n, name);
}

static const char *value(const struct reading *r, const char *name)
{
    const struct lvn_assigned *a = given(r, name);
    return a ? a->text : find_row(name)->default_text;
}

static int line_of(const struct reading *r, const char *name)
{
    const struct lvn_assigned *a = given(r, name);
    return a ? a->line : 0;
}

static enum lvn_status number(const struct reading *r, const char *name, double min, double *out)
{
    const struct lvn_assigned *a = given(r, name);
    bool fine = !a || a->kind == LVN_ASSIGNED_NUMBER || a->kind == LVN_ASSIGNED_BOOL;
    *out = a ? a->number : 0;
    if (!a) LVN_CHECK(sscanf(find_row(name)->default_text, "%lf", out) == 1, INTERNAL, "%s has no default", name);
    LVN_CHECK(fine && *out >= min && *out < 1e15, ARG, "%s:%d: %s must be a number from %g, got %s", r->cf->source,
              a ? a->line : 0, name, min, a ? a->text : "");
    return LVN_OK;
}

static bool is_true(const struct reading *r, const char *name)
{
    return !strcmp(value(r, name), "true") || !strcmp(value(r, name), "1");
}

static enum lvn_status set_number(const struct reading *r, const char *key, double x, const char *setting)
{
    char text[40];
    snprintf(text, sizeof text, "%.15g", x);
    return lvn_config_set(r->cf, key, text, line_of(r, setting));
}

/* --- settings that are not one key with the same value --- */

static enum lvn_status set_batches(const struct reading *r)
{
    double each, accumulated, evaluated;
    LVN_TRY(number(r, "batch_size", 1, &each));
    LVN_TRY(number(r, "gradient_accumulation_steps", 1, &accumulated));
    LVN_TRY(number(r, "eval_iters", 1, &evaluated));
    LVN_TRY(set_number(r, "trainer.batch_size", each * accumulated,
                       given(r, "batch_size") ? "batch_size" : "gradient_accumulation_steps"));
    if (accumulated > 1)
        LVN_TRY(lvn_config_note(r->cf, "gradient_accumulation_steps",
                                "a step has %g x %g = %g sequences here, too; how many run at once follows from the "
                                "memory, or trainer.micro_batch_size",
                                accumulated, each, accumulated * each));
    if (given(r, "eval_iters"))
        LVN_TRY(
            lvn_config_note(r->cf, "eval_iters",
                            "%g batches of %g sequences, in batches of a step here: evenly spaced ones, the same each "
                            "time, of validation data alone",
                            evaluated, each));
    return set_number(r, "trainer.limit_val_batches", ceil(evaluated / accumulated), "eval_iters");
}

static enum lvn_status set_optimizer(const struct reading *r)
{
    double beta1, beta2, warmup, end;
    char betas[80];
    LVN_TRY(number(r, "beta1", 0, &beta1));
    LVN_TRY(number(r, "beta2", 0, &beta2));
    snprintf(betas, sizeof betas, "[%.15g, %.15g]", beta1, beta2);
    LVN_TRY(lvn_config_set(r->cf, "optimizer.betas", betas, line_of(r, given(r, "beta2") ? "beta2" : "beta1")));
    LVN_TRY(lvn_config_set(r->cf, "optimizer.kind", "adamw", 0));
    LVN_TRY(lvn_config_set(r->cf, "optimizer.decay", "matrices", 0));
    if (!is_true(r, "decay_lr")) {
        LVN_TRY(lvn_config_set(r->cf, "schedule.kind", "constant", line_of(r, "decay_lr")));
        LVN_TRY(lvn_config_set(r->cf, "schedule.min_lr", "0", 0));
        return lvn_config_set(r->cf, "schedule.warmup_steps", "0", 0); /* nanoGPT warms up with decay alone */
    }
    LVN_TRY(number(r, "warmup_iters", 0, &warmup));
    LVN_TRY(number(r, "lr_decay_iters", 1, &end));
    LVN_TRY(lvn_config_set(r->cf, "schedule.kind", "cosine", line_of(r, "decay_lr")));
    LVN_TRY(set_number(r, "schedule.warmup_steps", warmup, "warmup_iters"));
    LVN_TRY(set_number(r, "schedule.decay_steps", end, "lr_decay_iters"));
    return lvn_config_set(r->cf, "schedule.min_lr", value(r, "min_lr"), line_of(r, "min_lr"));
}

static enum lvn_status set_data(const struct reading *r)
{
    const char *name = value(r, "dataset");
    int line = line_of(r, "dataset");
    bool letters = !strcmp(name, "shakespeare_char");
    char *path = lvn_arena_printf(&r->cf->s->arena, letters ? "data/tinyshakespeare.txt" : "data/%s", name);
    if (!path) return LVN_MEMORY;
    LVN_TRY(lvn_config_set(r->cf, "data.kind", letters ? "chars" : "tokens", line));
    LVN_TRY(lvn_config_set(r->cf, "data.path", path, line));
    LVN_TRY(lvn_config_set(r->cf, "data.sampling", "random", 0));
    if (letters)
        LVN_TRY(lvn_config_set(
            r->cf, "data.url",
            "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt", 0));
    return lvn_config_note(r->cf, "dataset",
                           letters ? "the text itself is read, no prepare.py is needed"
                                   : "'%s' holds the train.bin and val.bin of nanoGPT's prepare.py, or those of "
                                     "`levin prepare`",
                           path);
}

static enum lvn_status set_model(const struct reading *r)
{
    const char *init = value(r, "init_from");
    int line = line_of(r, "init_from");
    if (!strncmp(init, "gpt2", 4)) {
        LVN_TRY(lvn_config_set(r->cf, "model.init", init, line));
    } else {
        LVN_CHECK(!strcmp(init, "scratch") || !strcmp(init, "resume"), ARG,
                  "%s:%d: init_from is scratch, resume or one of gpt2, gpt2-medium, gpt2-large, gpt2-xl; got '%.40s'",
                  r->cf->source, line, init);
        LVN_TRY(lvn_config_set(r->cf, "model.kind", "nanogpt", line));
    }
    if (!strcmp(init, "resume"))
        LVN_TRY(lvn_config_note(r->cf, "init_from",
                                "'resume' is `levin train --resume` here; model.init accepts a ckpt.pt of nanoGPT"));
    return LVN_OK;
}

/* "cuda:1" is device 1. */
static enum lvn_status set_device(const struct reading *r)
{
    const char *name = value(r, "device");
    const bool cuda = !strncmp(name, "cuda", 4) && (!name[4] || name[4] == ':'), cpu = !strcmp(name, "cpu");
    const int line = line_of(r, "device");
    if (!*name) return LVN_OK;
    if (!cuda && !cpu)
        return lvn_config_note(r->cf, "device", "'%.40s' is not supported: trainer.accelerator stays unchanged", name);
    LVN_TRY(lvn_config_set(r->cf, "trainer.accelerator", cuda ? "cuda" : "cpu", line));
    if (cpu || !name[4]) return LVN_OK;
    const char *list = lvn_arena_printf(&r->cf->s->arena, "%s,", name + 5);
    return list ? lvn_config_set(r->cf, "trainer.devices", list, line) : LVN_MEMORY;
}

static enum lvn_status set_precision(const struct reading *r)
{
    const char *dtype = value(r, "dtype");
    const int line = line_of(r, "dtype");
    if (!*dtype) return LVN_OK;
    if (!strcmp(dtype, "float16")) return lvn_config_fp16(r->cf, "dtype", line);
    return lvn_config_set(r->cf, "trainer.precision", !strcmp(dtype, "bfloat16") ? "bf16-mixed" : "32-true", line);
}

static enum lvn_status set_checkpoints(const struct reading *r)
{
    bool always = is_true(r, "always_save_checkpoint");
    LVN_TRY(lvn_config_set(r->cf, "checkpoint.every_n_steps", always ? value(r, "eval_interval") : "0",
                           line_of(r, always ? "eval_interval" : "always_save_checkpoint")));
    if (is_true(r, "eval_only"))
        LVN_TRY(lvn_config_note(r->cf, "eval_only", "`levin evaluate %s` reports the loss without training",
                                value(r, "init_from")));
    return LVN_OK;
}

/* Settings that become keys unchanged; notes about those without a key, and about statements that were not read. */
static enum lvn_status set_plain(const struct reading *r)
{
    bool loaded = !strncmp(value(r, "init_from"), "gpt2", 4);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *name = rows[i].name, *text = value(r, name);
        bool by_model = loaded && (!strncmp(name, "n_", 2) || !strcmp(name, "bias") ||
                                   (!strcmp(name, "block_size") && !given(r, name)));
        if (rows[i].key && *text && !by_model) LVN_TRY(lvn_config_set(r->cf, rows[i].key, text, line_of(r, name)));
        if (rows[i].key && given(r, name) && by_model)
            LVN_TRY(lvn_config_note(r->cf, name, "the loaded model determines its sizes"));
        if (rows[i].note && given(r, name)) LVN_TRY(lvn_config_note(r->cf, name, "%s", rows[i].note));
    }
    for (int i = 0; i < r->n; i++) {
        const struct lvn_assigned *a = &r->list[i];
        const struct row *row = a->name ? find_row(a->name) : NULL;
        char where[40];
        snprintf(where, sizeof where, "line %d", a->line);
        bool is_read = a->kind != LVN_ASSIGNED_UNREAD, has_note = row && row->note;
        if (!is_read && has_note && !given(r, a->name))
            LVN_TRY(lvn_config_note(r->cf, a->name, "%s", row->note));
        else if (!is_read && !has_note)
            LVN_TRY(lvn_config_note(r->cf, where, "not read, since nothing is executed: %s", a->text));
        else if (is_read && !row && given(r, a->name) == a)
            LVN_TRY(lvn_config_note(r->cf, a->name, "not a setting of nanoGPT's train.py or sample.py"));
    }
    return LVN_OK;
}

enum lvn_status lvn_config_nanogpt_kind(struct lvn_config *cf, const char *path)
{
    struct reading r = {.cf = cf};
    LVN_TRY(lvn_assignments_read(&cf->s->arena, path, &r.list, &r.n));
    cf->kind = !strncmp(value(&r, "init_from"), "gpt2", 4)         ? LVN_RECIPE_FINETUNE
               : !strcmp(value(&r, "dataset"), "shakespeare_char") ? LVN_RECIPE_CHARS
                                                                   : LVN_RECIPE_SCRATCH;
    return LVN_OK;
}

enum lvn_status lvn_config_nanogpt(struct lvn_config *cf, const char *path)
{
    struct reading r = {.cf = cf};
    cf->source = path;
    LVN_TRY(lvn_assignments_read(&cf->s->arena, path, &r.list, &r.n));
    LVN_TRY(set_plain(&r));
    LVN_TRY(set_model(&r));
    LVN_TRY(set_data(&r));
    LVN_TRY(set_batches(&r));
    LVN_TRY(set_optimizer(&r));
    LVN_TRY(set_device(&r));
    LVN_TRY(set_precision(&r));
    return set_checkpoints(&r);
}
