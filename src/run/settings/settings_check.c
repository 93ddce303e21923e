/* settings_check.c - lvn_settings_finish() of settings.h: derives values from others, and refuses contradictions.
 *
 * Each sentence names both keys, their values, and what to do. Neutral values are never refused. */
#include <sys/stat.h>

#include "backend/backend.h"
#include "base/files.h"
#include "base/redact.h"
#include "base/text.h"
#include "chat/chat.h"
#include "data/dataset.h"
#include "data/parquet_texts.h"
#include "data/replace.h"
#include "data/sources/mix.h"
#include "data/table.h"
#include "data/texts/text_files.h"
#include "formats/json.h"
#include "graph/graph.h"
#include "models/adapter_files.h"
#include "models/model_folder.h"
#include "options/choices.h"
#include "options/device_list.h"
#include "schedules/schedule.h"
#include "settings/callbacks_check.h"
#include "settings/settings_model.h"
#include "stores/store.h"
#include "tasks/task.h"

/* True if neither a recipe nor the user gives the value, so that it may be derived. */
static bool is_open(const struct levin_settings *s, enum lvn_option_id id)
{
    return s->origin[id].source <= LVN_SOURCE_DERIVED;
}
/* Mark a value as derived; lvn_settings_finish() may run again and derive it again. */
static void derived(struct levin_settings *s, enum lvn_option_id id, const char *source)
{
    s->origin[id] = (struct lvn_origin){.source = LVN_SOURCE_DERIVED, .where = source};
}

/* Reset a value that an earlier call derived, because the settings that it was derived from may have changed. */
static enum lvn_status derive_again(struct levin_settings *s, enum lvn_option_id id)
{
    return s->origin[id].source == LVN_SOURCE_DERIVED ? lvn_settings_default(s, id) : LVN_OK;
}

/* ARG if lora.init is given to a command that trains nothing. */
static enum lvn_status refuse_init(const struct levin_settings *s)
{
    LVN_CHECK(!*s->values.lora.init || s->origin[LVN_OPT_lora_init].source <= LVN_SOURCE_RUN, ARG,
              "lora.init, '%s', are adapters from which training starts, and this command trains nothing: name these "
              "adapters as the model, and the model of model.init as lora.base; or leave lora.init out",
              s->values.lora.init);
    return LVN_OK;
}

static enum lvn_status take_tokens(struct levin_settings *s, const struct lvn_lora *loaded)
{
    LVN_LOCAL_TEXT(list);
    if (!is_open(s, LVN_OPT_lora_trainable_tokens) || !loaded->n_tokens) return LVN_OK;
    for (int i = 0; i < loaded->n_tokens; i++) lvn_text_printf(&list, "%s%d", i ? ", " : "", loaded->tokens[i]);
    LVN_TRY(lvn_text_status(&list));
    derived(s, LVN_OPT_lora_trainable_tokens, "lora.init");
    s->values.lora.trainable_tokens = lvn_arena_strdup(&s->arena, list.p);
    return s->values.lora.trainable_tokens ? LVN_OK : LVN_MEMORY;
}

/* Take rank, alpha, use_rslora, dropout and targets from lora.init. Ranks that do not see the folder use the settings.
 */
static enum lvn_status take_scale(struct levin_settings *s)
{
    static const enum lvn_option_id taken[] = {LVN_OPT_lora_rank, LVN_OPT_lora_alpha, LVN_OPT_lora_use_rslora,
                                               LVN_OPT_lora_dropout};
    struct lvn_lora loaded, expected;
    const char *config = lvn_path_join(&s->arena, s->values.lora.init, LVN_ADAPTERS_CONFIG);
    if (!config) return LVN_MEMORY;
    if (!*s->values.lora.init) return LVN_OK;
    if (!lvn_path_is_file(config)) {
        LVN_CHECK(s->values.lora.rank, ARG,
                  "lora.init is '%s', which contains no %s: give a folder with adapters that PEFT or levin has "
                  "written, for example RUN/checkpoints/best/adapter",
                  s->values.lora.init, LVN_ADAPTERS_CONFIG);
        return LVN_OK;
    }
    LVN_TRY(lvn_adapter_files_scale(s->values.lora.init, &loaded));
    expected =
        (struct lvn_lora){.rank = is_open(s, LVN_OPT_lora_rank) ? loaded.rank : s->values.lora.rank,
                          .alpha = is_open(s, LVN_OPT_lora_alpha) ? loaded.alpha : s->values.lora.alpha,
                          .rslora = is_open(s, LVN_OPT_lora_use_rslora) ? loaded.rslora : s->values.lora.use_rslora};
    LVN_TRY(lvn_adapter_check_scale(s->values.lora.init, &loaded, &expected));
    if (is_open(s, LVN_OPT_lora_dropout)) s->values.lora.dropout = loaded.dropout;
    s->values.lora.rank = loaded.rank;
    s->values.lora.alpha = loaded.alpha;
    s->values.lora.use_rslora = loaded.rslora;
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        if (is_open(s, taken[i])) derived(s, taken[i], "lora.init");
    LVN_TRY(take_tokens(s, &loaded));
    if (!is_open(s, LVN_OPT_lora_targets)) return LVN_OK;
    derived(s, LVN_OPT_lora_targets, "lora.init");
    return lvn_adapter_files_targets(&s->arena, s->values.lora.init, &s->values.lora.targets);
}

/* model.quantize stores weights that no step changes. */
static enum lvn_status check_quantize(const struct levin_settings *s, bool trains)
{
    char text[LVN_VALUE_TEXT];
    if (s->values.model.quantize == LVN_MODEL_QUANTIZE_NONE) return LVN_OK;
    const char *word = lvn_settings_value(s, LVN_OPT_model_quantize, text);
    LVN_CHECK(!trains || s->values.lora.rank, ARG,
              "model.quantize %s is for weights that are not trained, and without lora.rank all are; set lora.rank=16 "
              "to train adapters, or leave model.quantize out",
              word);
    LVN_CHECK(!s->values.lora.merge_checkpoints, ARG,
              "lora.merge_checkpoints=true would merge adapters into weights that model.quantize %s has rounded; leave "
              "it out, and use `levin export RUN DIR`, which merges them into those of the base model's files",
              word);
    LVN_CHECK(s->values.trainer.strategy != LVN_TRAINER_STRATEGY_FSDP, ARG,
              "trainer.strategy fsdp shards parameters, and those of model.quantize %s are whole on each rank; set "
              "trainer.strategy to %s",
              word, trains ? "ddp, zero1, zero2 or auto" : "ddp or auto");
    return LVN_OK;
}

static enum lvn_status finish_model(struct levin_settings *s, bool trains)
{
    static const char *const nothing[] = {"none", "scratch", "random", "off"};
    for (int i = 0; i < 4; i++) {
        if (!strcasecmp(s->values.model.init, nothing[i])) s->values.model.init = "";
    }
    LVN_TRY(trains ? take_scale(s) : refuse_init(s));
    LVN_CHECK(*s->values.model.init || !s->values.lora.rank, ARG,
              "lora.rank %" PRId64 " adapts a model that is trained already: say which, with model.init, or leave "
              "lora.rank out",
              s->values.lora.rank);
    LVN_CHECK(*s->values.model.init || !*s->values.lora.base, ARG,
              "lora.base ('%s') is the base model of loaded adapters, and model.init names none: leave it out",
              s->values.lora.base);
    LVN_TRY(check_quantize(s, trains));
    return *s->values.model.init ? LVN_OK : lvn_settings_finish_family(s); /* a loaded model determines it */
}

/* Set *kind to the kind of the data at a path; NULL: the path does not exist. */
static enum lvn_status guess_kind(const struct levin_settings *s, const char *path,
                                  const struct lvn_dataset_kind **kind)
{
    LVN_TRY(lvn_dataset_guess(path, kind));
    if (*kind && *s->values.data.tokenizer && (*kind)->tokenized_kind)
        *kind = lvn_dataset_kind_find((*kind)->tokenized_kind);
    return LVN_OK;
}

/* Can the files of `kind` also be read as `other`, with a tokenizer? */
static bool is_tokenized(const struct lvn_dataset_kind *kind, const struct lvn_dataset_kind *other)
{
    return kind->tokenized_kind && !strcmp(kind->tokenized_kind, other->name);
}

/* Derive data.kind from the sources of data.mix. */
static enum lvn_status find_kind_of_mix(struct levin_settings *s)
{
    LVN_LOCAL_ARENA(a);
    struct lvn_mix *m;
    const struct lvn_dataset_kind *first = NULL, *kind;
    LVN_TRY(lvn_mix_new(&m, s->values.data.mix));
    enum lvn_status status = LVN_OK;
    for (int k = 0; k < m->n && status == LVN_OK && is_open(s, LVN_OPT_data_kind); k++) {
        const char *path = lvn_mix_path(&a, m, k, s->values.data.folder);
        status = path ? guess_kind(s, path, &kind) : LVN_MEMORY;
        if (status != LVN_OK || !kind) continue;
        if (!first || is_tokenized(first, kind)) first = kind;
        if (kind != first && !is_tokenized(kind, first))
            status = lvn_fail(LVN_ARG,
                              "data.mix: '%s' is read as data.kind=%s, and '%s' as %s: use sources of one kind, or set "
                              "data.kind to one that all of them have",
                              m->path[0], first->name, path, kind->name);
    }
    lvn_mix_free(m);
    if (status != LVN_OK || !first) return status;
    s->values.data.kind = first->name;
    derived(s, LVN_OPT_data_kind, "data.mix");
    return LVN_OK;
}

/* If data.path and data.mix are given, keep the one whose source has priority (the command line over a recipe). */
static enum lvn_status choose_path(struct levin_settings *s)
{
    const enum lvn_option_id path = LVN_OPT_data_path, mix = LVN_OPT_data_mix;
    if (!*s->values.data.mix || !*s->values.data.path) return LVN_OK;
    LVN_CHECK(s->origin[path].source != s->origin[mix].source, ARG,
              "data.mix names the sources, and data.path is '%s': leave one of them out", s->values.data.path);
    const bool mixes = s->origin[mix].source > s->origin[path].source;
    const enum lvn_option_id kept = mixes ? mix : path, dropped = mixes ? path : mix;
    derived(s, dropped, lvn_option_by_id(kept)->key);
    return lvn_settings_default(s, dropped);
}

/* Derive data.kind from data.path, or from columns that are named. */
static enum lvn_status find_kind(struct levin_settings *s)
{
    const struct lvn_dataset_kind *kind = NULL;
    LVN_TRY(choose_path(s));
    if (*s->values.data.mix) return find_kind_of_mix(s);
    if (!is_open(s, LVN_OPT_data_kind) || !*s->values.data.path) return LVN_OK;
    const bool label = *s->values.data.label_column || *s->values.data.pair_column,
               parquet = lvn_is_parquet(s->values.data.path);
    const bool columns =
        ((label || *s->values.data.text_column) && lvn_table_is_named(s->values.data.path)) || (label && parquet);
    if (columns)
        kind = lvn_dataset_kind_find("labelled");
    else
        LVN_TRY(guess_kind(s, s->values.data.path, &kind));
    if (!kind) return LVN_OK;
    s->values.data.kind = kind->name;
    derived(s, LVN_OPT_data_kind, columns ? "data.text_column and data.label_column" : "data.path");
    return LVN_OK;
}

/* Derive model.kind: a family that reads the fields of the data; the default one, if it does. */
static enum lvn_status find_model(struct levin_settings *s)
{
    const struct lvn_data_options data = lvn_data_options_of(&s->values);
    struct lvn_fields fields;
    if (!is_open(s, LVN_OPT_model_kind)) return LVN_OK;
    LVN_TRY(lvn_dataset_fields(&data, &fields));
    for (const struct lvn_model *const *m = lvn_models(); *m; m++) {
        const struct lvn_task *t = lvn_task_find((*m)->tasks[0]);
        bool reads = t && (!t->label.name || lvn_fields_find(&fields, t->label.name) >= 0);
        for (int i = 0; (*m)->inputs[i].name; i++) reads &= lvn_fields_find(&fields, (*m)->inputs[i].name) >= 0;
        if (!reads) continue;
        if (!strcmp((*m)->name, s->values.model.kind)) return LVN_OK;
        s->values.model.kind = (*m)->name;
        derived(s, LVN_OPT_model_kind, "data.kind");
        return LVN_OK;
    }
    return LVN_OK;
}

/* ARG for a tokenizer with data that have their own tokens. */
static enum lvn_status check_tokenizer(const struct levin_settings *s)
{
    const struct lvn_dataset_kind *kind = *s->values.data.tokenizer ? lvn_dataset_kind_find(s->values.data.kind) : NULL;
    LVN_CHECK(!kind || !kind->own_tokens, ARG, "%s, and data.tokenizer is '%s': leave it out, or %s", kind->own_tokens,
              s->values.data.tokenizer, kind->instead_of_tokenizer);
    return LVN_OK;
}

/* True if the source of `owner`, without which `key` has no effect, has priority over the source of `key`: the command
 * line over a recipe, or over the settings of a run that continues. The caller then resets the key. */
static bool overrules(struct levin_settings *s, enum lvn_option_id owner, enum lvn_option_id key)
{
    if (s->origin[owner].source <= s->origin[key].source) return false;
    derived(s, key, lvn_option_by_id(owner)->key);
    return true;
}

/* Handle the keys of `part` that apply only to other kinds (o->for_kind) and differ from their default. If the source
 * of `owner`, which chose the kind, has priority over theirs, reset them; else ARG. is: clause of the message, such as
 * "optimizer.kind is". */
static enum lvn_status check_owners_of(struct levin_settings *s, const char *part, enum lvn_option_id owner,
                                       const char *kind, const char *is)
{
    char text[LVN_VALUE_TEXT];
    for (int id = 0; id < LVN_OPT_COUNT; id++) {
        const struct lvn_option *o = lvn_option_by_id((enum lvn_option_id)id);
        if (strcmp(o->part, part) != 0 || lvn_option_is_for(o, kind)) continue;
        if (is_open(s, o->id) || !lvn_settings_differs(s, o->id)) continue;
        const char *last = strrchr(o->for_kind, ','); /* "labelled or chat" */
        LVN_CHECK(overrules(s, owner, o->id), ARG, "%s (%.60s) is a key of %s.kind=%.*s%s%s, and %s %s: leave it out",
                  o->key, lvn_settings_value(s, o->id, text), part,
                  last ? (int)(last - o->for_kind) : (int)strlen(o->for_kind), o->for_kind, last ? " or" : "",
                  last ? last + 1 : "", is, kind);
        LVN_TRY(lvn_settings_default(s, o->id));
    }
    return LVN_OK;
}

/* The same for keys of another kind of data. */
static enum lvn_status check_owners(struct levin_settings *s)
{
    const enum lvn_option_id kind = LVN_OPT_data_kind, tokenizer = LVN_OPT_data_tokenizer;
    if (!is_open(s, tokenizer) && s->origin[kind].source <= s->origin[tokenizer].source) LVN_TRY(check_tokenizer(s));
    LVN_TRY(check_owners_of(s, "data", kind, s->values.data.kind, "the data are of the kind"));
    LVN_CHECK(
        !*s->values.data.val_path || is_open(s, LVN_OPT_data_val_fraction) ||
            !lvn_settings_differs(s, LVN_OPT_data_val_fraction),
        ARG,
        "data.val_fraction (%g) holds back rows of data.path, and data.val_path ('%s') validates already: leave one "
        "of them out",
        s->values.data.val_fraction, s->values.data.val_path);
    return LVN_OK;
}

static enum lvn_status finish_data(struct levin_settings *s)
{
    for (const char *sum = s->values.data.sha256; *sum; sum += strcspn(sum, ",") + (strchr(sum, ',') != NULL)) {
        size_t n = strcspn(sum, ",");
        LVN_CHECK(n == 64 && strspn(sum, "0123456789abcdefABCDEF") == 64, ARG,
                  "data.sha256 must be 64 hexadecimal digits, got %zu characters ('%.20s...')", n, sum);
    }
    const bool data = *s->values.data.path || *s->values.data.mix;
    LVN_CHECK(
        !*s->values.data.sha256 || *s->values.data.url || !data ||
            s->origin[LVN_OPT_data_sha256].source <= LVN_SOURCE_RUN,
        ARG,
        "data.sha256 checks the download of data.url, which is not given: leave data.sha256 out (`levin cp --sha256` "
        "checks a file that it copies from an address)");
    LVN_CHECK(!*s->values.data.url || !lvn_store_is_url(s->values.data.path) ||
                  s->origin[LVN_OPT_data_url].source <= LVN_SOURCE_RUN,
              ARG,
              "data.path, '%s', is an address itself, so nothing is downloaded from data.url: leave data.url out, or "
              "set data.path to the file in which the download is kept",
              s->values.data.path);
    struct lvn_replace *replace;
    LVN_TRY(lvn_replace_new(&replace, s->values.data.replace));
    lvn_replace_free(replace);
    LVN_CHECK(!*s->values.data.url || *s->values.data.path || *s->values.data.mix, ARG,
              "data.url needs data.path too: the file to keep the download in");
    return LVN_OK;
}

/* ARG for keys that have no effect, because the key on which they depend is not given. A default in settings.yaml,
 * which has all keys, counts as not given if the dependent key was given later. */
static enum lvn_status check_needs(const struct levin_settings *s)
{
    static const struct {
        enum lvn_option_id key, owner;
        const char *data; /* with this data.kind; NULL: with any */
    } needs[] = {
        {LVN_OPT_data_end_token, LVN_OPT_data_pack, NULL},
        {LVN_OPT_data_overlong, LVN_OPT_data_pack, "tokens"},
        {LVN_OPT_data_add_tokens, LVN_OPT_data_allow_special, "documents"},
        {LVN_OPT_data_add_tokens, LVN_OPT_data_allow_special, "labelled"},
        {LVN_OPT_task_fresh_head, LVN_OPT_model_init, NULL},
        {LVN_OPT_lora_alpha, LVN_OPT_lora_rank, NULL},
        {LVN_OPT_lora_use_rslora, LVN_OPT_lora_rank, NULL},
        {LVN_OPT_lora_dropout, LVN_OPT_lora_rank, NULL},
        {LVN_OPT_lora_trainable_tokens, LVN_OPT_lora_rank, NULL},
        {LVN_OPT_lora_targets, LVN_OPT_lora_rank, NULL},
        {LVN_OPT_lora_merge_checkpoints, LVN_OPT_lora_rank, NULL},
        {LVN_OPT_schedule_decay_steps, LVN_OPT_schedule_kind, NULL},
        {LVN_OPT_schedule_min_lr, LVN_OPT_schedule_kind, NULL},
        {LVN_OPT_early_stopping_patience, LVN_OPT_early_stopping_monitor, NULL},
        {LVN_OPT_early_stopping_min_delta, LVN_OPT_early_stopping_monitor, NULL},
        {LVN_OPT_early_stopping_mode, LVN_OPT_early_stopping_monitor, NULL},
    };
    char one[LVN_VALUE_TEXT], two[LVN_VALUE_TEXT];
    for (size_t i = 0; i < sizeof needs / sizeof *needs; i++) {
        const enum lvn_option_id key = needs[i].key, owner = needs[i].owner;
        if (needs[i].data && strcmp(needs[i].data, s->values.data.kind) != 0) continue;
        /* the settings.yaml of a run has every owner, also one that nobody gave */
        const bool chosen = !is_open(s, owner) && (s->origin[owner].source != LVN_SOURCE_RUN ||
                                                   s->origin[owner].source >= s->origin[key].source);
        const char *is = lvn_settings_value(s, owner, two);
        const char *value = lvn_settings_value(s, key, one);
        /* A user who gives --lora.alpha=16, even though it is the default, expects adapters; --lora.dropout=0 may mean
         * none. Files that levin wrote have all keys, so only values that differ from the default count. */
        const bool neutral = !*value || !strcmp(value, "0") || !strcmp(value, "false") || !strcmp(value, "auto"),
                   meant =
                       s->origin[key].source < LVN_SOURCE_ENVIRONMENT || neutral ? lvn_settings_differs(s, key) : true;
        LVN_CHECK(is_open(s, key) || !meant || chosen || lvn_settings_differs(s, owner), ARG,
                  "%s (%.60s) has no effect while %s is %s: set that too, or leave it out", lvn_option_by_id(key)->key,
                  value, lvn_option_by_id(owner)->key, *is ? is : "\"\"");
    }
    return LVN_OK;
}

static bool computes_on_cpu(const struct levin_settings *s)
{
    return lvn_backend_find(s->values.trainer.accelerator) == lvn_backend_at(0);
}

static enum lvn_status check_optimizer(struct levin_settings *s)
{
    LVN_TRY(check_owners_of(s, "optimizer", LVN_OPT_optimizer_kind, s->values.optimizer.kind, "optimizer.kind is"));
    const struct lvn_optimizer_options o = lvn_optimizer_options_of(&s->values);
    LVN_CHECK(strcmp(s->values.trainer.accelerator, "reference") != 0 ||
                  s->values.trainer.precision == LVN_TRAINER_PRECISION_32_TRUE,
              ARG,
              "trainer.accelerator reference trains in 32-true: set trainer.precision=32-true, or another accelerator");
    LVN_CHECK(!lvn_optimizer_only_on_cpus(&o) || computes_on_cpu(s), ARG,
              "optimizer.variant nanochat has kernels for CPUs only, and trainer.accelerator is %s: set "
              "optimizer.variant=torch, or trainer.accelerator=cpu",
              s->values.trainer.accelerator);
    LVN_CHECK(!lvn_optimizer_only_on_cpus(&o) || s->values.schedule.decay_steps ||
                  (o.end && s->values.trainer.max_epochs <= 0),
              ARG,
              "optimizer.variant nanochat changes momentum and weight decay until the last step, which is not known: "
              "give trainer.max_steps without trainer.max_epochs, or schedule.decay_steps");
    return lvn_optimizer_check(&o);
}

/* Derive the step at which a schedule that falls ends, and check all of it. With trainer.max_epochs that step is known
 * once the data are open. */
static enum lvn_status finish_schedule(struct levin_settings *s)
{
    const bool falls = lvn_schedule_find(s->values.schedule.kind)->falls;
    LVN_TRY(derive_again(s, LVN_OPT_schedule_decay_steps));
    if (falls && !s->values.schedule.decay_steps) {
        const int64_t max = s->values.trainer.max_epochs > 0 ? 0 : s->values.trainer.max_steps,
                      warmup = (int64_t)s->values.schedule.warmup_steps;
        s->values.schedule.decay_steps = max <= 0 ? 0 : max > warmup ? max : warmup;
        if (s->values.schedule.decay_steps) derived(s, LVN_OPT_schedule_decay_steps, "trainer.max_steps");
    }
    const struct lvn_schedule_options o = lvn_schedule_options_of(&s->values);
    return lvn_schedule_check(&o, s->values.trainer.max_steps, s->values.trainer.max_epochs > 0);
}

static bool is_fsdp_or_auto(const struct levin_settings *s)
{
    return s->values.trainer.strategy == LVN_TRAINER_STRATEGY_FSDP ||
           s->values.trainer.strategy == LVN_TRAINER_STRATEGY_AUTO;
}

/* "1, 2, 3, 4, 6 or 12"; if there are many, the largest. */
static void divisors(int64_t n, char *text, size_t capacity)
{
    int64_t list[8];
    int count = 0;
    for (int64_t d = n; d >= 1 && count < 8 && n - d < 1000000; d--) {
        if (n % d == 0) list[count++] = d;
    }
    text[0] = '\0';
    for (int i = count - 1; i >= 0; i--)
        lvn_print_append(text, capacity, "%" PRId64 "%s", list[i], i > 1 ? ", " : i == 1 ? " or " : "");
}

/* Derive the micro-batch from trainer.accumulate_grad_batches. */
static enum lvn_status divide_batch(struct levin_settings *s)
{
    int64_t n = s->values.trainer.accumulate_grad_batches, batch = s->values.trainer.batch_size,
            micro = s->values.trainer.micro_batch_size;
    if (n <= 1) return LVN_OK;
    if (batch % n) {
        char list[LVN_VALUE_TEXT];
        divisors(batch, list, sizeof list);
        LVN_FAIL(ARG,
                 "the batch of %" PRId64 " cannot be cut into trainer.accumulate_grad_batches (%" PRId64
                 ") equal micro-batches; use %s",
                 batch, n, list);
    }
    LVN_CHECK(is_open(s, LVN_OPT_trainer_micro_batch_size) || !micro || micro == batch / n, ARG,
              "trainer.micro_batch_size (%" PRId64 ") and trainer.accumulate_grad_batches (%" PRId64
              ", so micro-batches of %" PRId64 ") set the same thing; leave one out",
              micro, n, batch / n);
    if (micro == batch / n) return LVN_OK;
    s->values.trainer.micro_batch_size = batch / n;
    derived(s, LVN_OPT_trainer_micro_batch_size, "trainer.accumulate_grad_batches");
    return LVN_OK;
}

static void drop_fsdp_keys(struct levin_settings *s)
{
    const enum lvn_option_id strategy = LVN_OPT_trainer_strategy;
    if (is_fsdp_or_auto(s)) return;
    if (s->values.trainer.fsdp_size && overrules(s, strategy, LVN_OPT_trainer_fsdp_size))
        s->values.trainer.fsdp_size = 0;
    if (!s->values.trainer.fsdp_reshard && overrules(s, strategy, LVN_OPT_trainer_fsdp_reshard))
        s->values.trainer.fsdp_reshard = true;
}

enum { DEFAULT_BATCH = 12 };

/* Sequences of a step; 0: none are given. */
static int64_t given_batch(const struct levin_settings *s)
{
    const int64_t devices = lvn_devices_count(&s->values), nodes = s->values.trainer.num_nodes;
    const int64_t ranks = s->values.ranks ? s->values.ranks : (devices ? devices : 1) * (nodes ? nodes : 1);
    const bool whole = !is_open(s, LVN_OPT_trainer_batch_size) && s->values.trainer.batch_size;
    return whole ? s->values.trainer.batch_size : s->values.trainer.batch_size_per_device * ranks;
}

static enum lvn_status finish_batch(struct levin_settings *s)
{
    char one[LVN_VALUE_TEXT], two[LVN_VALUE_TEXT];
    int64_t each = s->values.trainer.batch_size_per_device;
    bool batch_given = !is_open(s, LVN_OPT_trainer_batch_size) && s->values.trainer.batch_size;
    LVN_CHECK(!each || !batch_given, ARG,
              "trainer.batch_size (%" PRId64 ", %s) and trainer.batch_size_per_device (%" PRId64
              ", %s) set the same thing; leave one out or set it to 0",
              s->values.trainer.batch_size, lvn_settings_origin(s, LVN_OPT_trainer_batch_size, one), each,
              lvn_settings_origin(s, LVN_OPT_trainer_batch_size_per_device, two));
    if (!batch_given) {
        s->values.trainer.batch_size = each ? given_batch(s) : DEFAULT_BATCH;
        derived(s, LVN_OPT_trainer_batch_size, each ? "trainer.batch_size_per_device" : "a built-in default");
    }
    LVN_TRY(derive_again(s, LVN_OPT_trainer_micro_batch_size));
    LVN_TRY(divide_batch(s));
    int64_t batch = s->values.trainer.batch_size, micro = s->values.trainer.micro_batch_size;
    bool divided = s->values.trainer.accumulate_grad_batches > 1;
    if (s->values.trainer.deterministic && !divided && !micro) {
        /* The largest divisor with at least min(8, batch) micro-batches: independent of this machine. */
        int64_t min = batch < 8 ? batch : 8;
        for (micro = batch / min; batch % micro; micro--) continue;
        s->values.trainer.micro_batch_size = micro;
        derived(s, LVN_OPT_trainer_micro_batch_size, "trainer.batch_size");
    }
    if (micro && batch % micro) {
        char list[LVN_VALUE_TEXT];
        divisors(batch, list, sizeof list);
        LVN_FAIL(ARG, "the batch of %" PRId64 " is not a multiple of trainer.micro_batch_size (%" PRId64 "); use %s",
                 batch, micro, list);
    }
    return LVN_OK;
}

/* --- how much of the data --- */

static enum lvn_status check_share(const char *key, const struct lvn_amount *a, const char *whole)
{
    LVN_CHECK(a->fraction <= 1, ARG,
              "trainer.%s (%g) is a share of the %s: at most 1.0; write a whole number for a number of batches", key,
              a->fraction, whole);
    return LVN_OK;
}

static bool is_none(const struct lvn_amount *a)
{
    return !a->count && a->fraction <= 0;
}

static enum lvn_status check_limits(const struct levin_settings *s)
{
    const struct lvn_amount *train = &s->values.trainer.limit_train_batches,
                            *test = &s->values.trainer.limit_test_batches;
    const struct lvn_amount *overfit = &s->values.trainer.overfit_batches;
    char one[LVN_VALUE_TEXT], two[LVN_VALUE_TEXT];
    LVN_TRY(check_share("limit_val_batches", &s->values.trainer.limit_val_batches, "validation set"));
    LVN_TRY(check_share("limit_train_batches", train, "training set"));
    LVN_TRY(check_share("limit_test_batches", test, "data"));
    LVN_TRY(check_share("overfit_batches", overfit, "training set"));
    LVN_CHECK(!is_none(train), ARG,
              "trainer.limit_train_batches 0 leaves nothing to train on; leave it out, or write 1.0 for all");
    LVN_CHECK(!is_none(test), ARG,
              "trainer.limit_test_batches 0 leaves nothing to evaluate; leave it out, or write 1.0 for all");
    LVN_CHECK(s->values.trainer.gradient_clip_val > 0 ||
                  s->values.trainer.gradient_clip_algorithm == LVN_TRAINER_CLIP_NORM ||
                  s->origin[LVN_OPT_trainer_gradient_clip_val].source >
                      s->origin[LVN_OPT_trainer_gradient_clip_algorithm].source,
              ARG,
              "trainer.gradient_clip_algorithm value limits entries to trainer.gradient_clip_val, which is 0 and "
              "disables clipping: set trainer.gradient_clip_val too, or leave the algorithm out");
    LVN_CHECK(is_none(overfit) || (!train->count && train->fraction == 1), ARG,
              "trainer.overfit_batches (%s) and trainer.limit_train_batches (%s) both set the length of an epoch; "
              "leave one of them out",
              lvn_settings_value(s, LVN_OPT_trainer_overfit_batches, one),
              lvn_settings_value(s, LVN_OPT_trainer_limit_train_batches, two));
    return LVN_OK;
}

static enum lvn_status finish_trainer(struct levin_settings *s)
{
    struct lvn_devices devices;
    LVN_TRY(lvn_devices_read(&devices, &s->values));
    drop_fsdp_keys(s);
    LVN_TRY(lvn_values_check_strategy(&s->values));
    LVN_CHECK(!s->values.trainer.deterministic || s->values.trainer.reduce_dtype == LVN_TRAINER_REDUCE_FP32, ARG,
              "trainer.reduce_dtype bf16 rounds between ranks, but trainer.deterministic requires the same bits on any "
              "number of them; leave one of them out");
    if (s->values.trainer.max_steps < 0) s->values.trainer.max_steps = 0; /* Lightning's -1 */
    if (s->values.trainer.max_epochs < 0) s->values.trainer.max_epochs = 0;
    LVN_TRY(derive_again(s, LVN_OPT_trainer_max_epochs));
    if (is_open(s, LVN_OPT_trainer_max_steps) && is_open(s, LVN_OPT_trainer_max_epochs) &&
        !s->values.trainer.max_time) {
        s->values.trainer.max_epochs = 1;
        derived(s, LVN_OPT_trainer_max_epochs, "no limit being given");
    }
    LVN_TRY(check_limits(s));
    return finish_batch(s);
}

static enum lvn_status finish_run(struct levin_settings *s)
{
    /* the name of a recipe or of the data is not that of a run in a folder which is given */
    const bool other = s->origin[LVN_OPT_run_dir].source > LVN_SOURCE_RECIPE &&
                       s->origin[LVN_OPT_name].source <= LVN_SOURCE_RECIPE &&
                       s->origin[LVN_OPT_name].source != LVN_SOURCE_RUN && *lvn_path_name(s->values.run_dir);
    const char *folder = lvn_path_name(s->values.run_dir);
    if (other && *folder != '.' && strlen(folder) < 200 && !lvn_control_find(folder)) {
        s->values.name = folder;
        derived(s, LVN_OPT_name, "run_dir");
    }
    if (!*s->values.name) {
        s->values.name = "run";
        derived(s, LVN_OPT_name, "no name being given");
    }
    LVN_CHECK(!strchr(s->values.name, '/') && *s->values.name != '.' && strlen(s->values.name) < 200, ARG,
              "name '%.60s' becomes a folder in runs/: it must have no slash, must not start with a dot, and must be "
              "shorter than 200 characters",
              s->values.name);
    LVN_CHECK(!lvn_control_find(s->values.name), ARG,
              "name '%s' has a control character, as a newline; write it in letters, digits and signs", s->values.name);
    LVN_CHECK(strlen(s->values.run_dir) < LVN_RUN_DIR_TEXT, ARG,
              "run_dir '%.60s...' has %zu bytes; at most %d are allowed", s->values.run_dir, strlen(s->values.run_dir),
              LVN_RUN_DIR_TEXT - 1);
    if (!is_open(s, LVN_OPT_run_dir) && *s->values.run_dir) return LVN_OK;
    s->values.run_dir = lvn_arena_printf(&s->arena, "runs/%s", s->values.name);
    if (!s->values.run_dir) return LVN_MEMORY;
    derived(s, LVN_OPT_run_dir, "name");
    return LVN_OK;
}

static const char depth_key[] = "model.depth";

/* The family for which model.depth chooses the settings that its authors chose; NULL: model.depth is not given. The
 * choices of a run are already in its settings.yaml. */
static const struct lvn_model *model_of_depth(const struct levin_settings *s)
{
    const struct lvn_model *m = lvn_model_find(s->values.model.kind);
    const struct lvn_option *depth = lvn_option_find(depth_key);
    const bool chooses = m && m->train_by_depth && !*s->values.model.init && depth;
    return chooses && lvn_settings_given(s, depth->id) && s->origin[depth->id].source != LVN_SOURCE_RUN ? m : NULL;
}

/* --- a text and nothing else --- */

/* Settings for texts, of a new model and of one that is fine-tuned. A group of rows is skipped if a key that begins
 * with one of its words is given. */
struct text_group {
    const char *words[4];
    const char *keys[5][2];
    const char *timed[4][2]; /* instead of keys if only time ends the run: no schedule can fall to its last step */
};
static const struct text_group text_settings[] = {
    {{"model."},
     .keys = {{"model.n_layer", "4"}, {"model.n_head", "4"}, {"model.n_embd", "128"}, {"model.block_size", "64"}}},
    {{"trainer.batch_size", "trainer.micro_batch_size"}, .keys = {{"trainer.batch_size", "16"}}},
    {{"optimizer.", "schedule."},
     .keys = {{"optimizer.lr", "2e-3"},
              {"optimizer.betas", "[0.9, 0.99]"},
              {"schedule.kind", "cosine"},
              {"schedule.warmup_steps", "0.04"},
              {"schedule.min_lr", "2e-4"}},
     .timed = {{"optimizer.lr", "1e-3"},
               {"optimizer.betas", "[0.9, 0.99]"},
               {"schedule.kind", "constant"},
               {"schedule.warmup_steps", "100"}}},
};
static const struct text_group tuning_settings[] = {
    /* a model that can write already: small rates keep what it knows */
    {{"trainer.batch_size", "trainer.micro_batch_size"}, .keys = {{"trainer.batch_size", "8"}}},
    {{"trainer.max_"}, .keys = {{"trainer.max_epochs", "3"}}},
    {{"optimizer.", "schedule."},
     .keys = {{"optimizer.lr", "5e-5"},
              {"schedule.kind", "cosine"},
              {"schedule.warmup_steps", "0.1"},
              {"schedule.min_lr", "5e-6"}},
     .timed = {{"optimizer.lr", "2e-5"}, {"schedule.kind", "constant"}, {"schedule.warmup_steps", "20"}}},
};
/* Instead of these rates, if only adapters are trained. Adapters start at zero, so their rates are larger. */
static const struct text_group adapter_rates = {
    .keys = {{"optimizer.lr", "2e-4"}, {"schedule.min_lr", "2e-5"}},
    .timed = {{"optimizer.lr", "1e-4"}},
};
enum { TEXT_EPOCHS = 20, TEXT_MIN_STEPS = 200, TEXT_MAX_STEPS = 2600 };

/* Is any key given that begins with one of the words? */
static bool any_given(const struct levin_settings *s, const char *const words[4])
{
    for (int i = 0; i < lvn_option_count(); i++) {
        const struct lvn_option *o = lvn_option_at(i);
        for (int w = 0; w < 4 && words[w]; w++)
            if (!strncmp(o->key, words[w], strlen(words[w])) && lvn_settings_given(s, o->id)) return true;
    }
    return false;
}

static enum lvn_status suggest(struct levin_settings *s, const char *key, const char *value, const char *where)
{
    return lvn_settings_set_at(s, key, value, (struct lvn_origin){.source = LVN_SOURCE_SUGGESTED, .where = where});
}

static enum lvn_status set_for_text(struct levin_settings *s, const char *key, const char *value)
{
    return suggest(s, key, value, "the size of the text");
}

/* Bytes of a text, or of the files of a folder of texts; 0: the path is in a store. */
static enum lvn_status count_bytes(const char *path, int64_t *bytes)
{
    LVN_LOCAL_ARENA(a);
    const char *const *name;
    struct stat file;
    int64_t n = 0;
    *bytes = 0;
    if (lvn_path_exists(path)) LVN_TRY(lvn_text_files_quietly(&a, path, &name, &n));
    for (int64_t i = 0; i < n; i++)
        if (stat(name[i], &file) == 0 && S_ISREG(file.st_mode)) *bytes += file.st_size;
    return LVN_OK;
}

/* TEXT_EPOCHS epochs of the text, at most TEXT_MAX_STEPS steps, which take about two minutes on two cores with the
 * batch and the context of text_settings. */
static enum lvn_status set_text_steps(struct levin_settings *s, int64_t tokens)
{
    static const char *const limits[4] = {"trainer.max_", "trainer.fast_dev_run", "trainer.overfit_batches",
                                          "trainer.limit_train_batches"};
    char text[32];
    struct lvn_model_config c;
    if (any_given(s, limits)) return LVN_OK;
    LVN_TRY(find_model(s));
    LVN_TRY(lvn_settings_finish_family(s));
    LVN_TRY(lvn_settings_config(s, lvn_model_find(s->values.model.kind), &c));
    const int64_t context = lvn_model_value(&c, LVN_ROLE_POSITIONS), rows = given_batch(s);
    int64_t steps = TEXT_EPOCHS * tokens / (rows ? rows : DEFAULT_BATCH) / (context > 1 ? context : 1);
    steps = steps < TEXT_MIN_STEPS ? TEXT_MIN_STEPS : steps > TEXT_MAX_STEPS ? TEXT_MAX_STEPS : steps;
    snprintf(text, sizeof text, "%" PRId64, steps);
    LVN_TRY(set_for_text(s, "trainer.max_steps", text));
    if (any_given(s, (const char *const[4]){"sample."})) return LVN_OK;
    LVN_TRY(set_for_text(s, "sample.max_new_tokens", "400"));
    return set_for_text(s, "sample.every_n_steps", text);
}

static enum lvn_status set_groups(struct levin_settings *s, const struct text_group *group, size_t n)
{
    const bool timed =
        s->values.trainer.max_time > 0 && s->values.trainer.max_steps <= 0 && s->values.trainer.max_epochs <= 0;
    for (size_t i = 0; i < n; i++) {
        if (any_given(s, group[i].words)) continue;
        const bool other = timed && group[i].timed[0][0];
        for (int k = 0; k < (other ? 4 : 5); k++) {
            const char *const *row = other ? group[i].timed[k] : group[i].keys[k];
            if (row[0]) LVN_TRY(set_for_text(s, row[0], row[1]));
        }
    }
    return LVN_OK;
}

enum lvn_status lvn_settings_fit_text(struct levin_settings *s)
{
    enum { BYTES_A_TOKEN = 4 }; /* of byte-level BPE, about */
    int64_t bytes;
    LVN_TRY(find_kind(s));
    const struct lvn_dataset_kind *kind = lvn_dataset_kind_find(s->values.data.kind);
    const bool tunes = kind && *s->values.model.init && !strcmp(kind->name, "labelled");
    if (!is_open(s, LVN_OPT_data_kind) || !kind || !(kind->is_text || tunes) || model_of_depth(s)) return LVN_OK;
    if (*s->values.model.init) {
        const bool adapters = s->values.lora.rank > 0 || *s->values.lora.init;
        LVN_TRY(set_groups(s, tuning_settings, sizeof tuning_settings / sizeof *tuning_settings));
        return adapters && s->origin[LVN_OPT_optimizer_lr].source == LVN_SOURCE_SUGGESTED
                   ? set_groups(s, &adapter_rates, 1)
                   : LVN_OK;
    }
    if (kind->needs_model) return LVN_OK; /* refused when the data are opened */
    LVN_TRY(count_bytes(s->values.data.path, &bytes));
    if (!bytes) return LVN_OK;
    LVN_TRY(set_groups(s, text_settings, sizeof text_settings / sizeof *text_settings));
    return set_text_steps(s, kind->needs_tokenizer ? bytes / BYTES_A_TOKEN : bytes);
}

/* --- model.depth --- */

enum { DEPTH_CONTEXT = 2048, DEPTH_VOCABULARY = 32768 }; /* of nanochat */

static enum lvn_status suggest_count(struct levin_settings *s, const char *key, int64_t n)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRId64, n);
    return suggest(s, key, text, depth_key);
}

/* The vocabulary of the token files of data.path; 0: it is not known before the data are opened. */
static int64_t vocabulary_of_tokens(const char *path)
{
    LVN_LOCAL_ARENA(a);
    const char *file =
        lvn_path_is_dir(path) ? lvn_path_join(&a, path, "train.bin.json") : lvn_arena_printf(&a, "%s.json", path);
    json_t *root = NULL;
    if (!file || !*path || lvn_store_is_url(path) || !lvn_path_is_file(file)) return 0;
    if (lvn_json_read(file, &root) != LVN_OK) return 0; /* reported when the data are opened */
    const int64_t n = json_integer_value(json_object_get(root, "vocab_size"));
    json_decref(root);
    return n;
}

/* Does the choice of model.depth for an option suit the kinds of optimizer and schedule that are given? Its rates are
 * those of one optimizer, and another schedule has other keys. Both kinds precede their other keys in the plan. */
static bool suits_depth(const struct levin_settings *s, const struct lvn_depth_plan *plan, const struct lvn_option *o)
{
    if (o->id == LVN_OPT_optimizer_kind || o->id == LVN_OPT_schedule_kind) return true;
    if (o->id == LVN_OPT_optimizer_variant && !computes_on_cpu(s)) return false;
    if (!strcmp(o->part, "optimizer")) return !strcmp(s->values.optimizer.kind, plan->set[0].value);
    return strcmp(o->part, "schedule") != 0 || lvn_option_is_for(o, s->values.schedule.kind);
}

static enum lvn_status set_by_depth(struct levin_settings *s, const struct lvn_depth_plan *plan, int64_t context)
{
    static const char *const limits[4] = {"trainer.max_", "trainer.fast_dev_run", "trainer.overfit_batches"};
    static const char *const batch[4] = {"trainer.batch_size"};
    const int64_t rows = plan->batch / context;
    const bool has_warmup = lvn_settings_given(s, LVN_OPT_schedule_warmup_steps);
    if (!any_given(s, batch)) LVN_TRY(suggest_count(s, "trainer.batch_size", rows > 1 ? rows : 1));
    if (!any_given(s, limits)) LVN_TRY(suggest_count(s, "trainer.max_steps", plan->steps));
    for (int i = 0; plan->set[i].key; i++) {
        const struct lvn_option *o = lvn_option_find(plan->set[i].key);
        if (lvn_settings_given(s, o->id) || !suits_depth(s, plan, o)) continue;
        LVN_TRY(suggest(s, plan->set[i].key, plan->set[i].value, depth_key));
    }
    if (!lvn_settings_given(s, LVN_OPT_schedule_min_lr) && strcmp(s->values.schedule.kind, "constant") != 0) {
        char text[LVN_VALUE_TEXT];
        snprintf(text, sizeof text, "%.8g", plan->min_lr * s->values.optimizer.lr);
        LVN_TRY(suggest(s, "schedule.min_lr", text, depth_key));
    }
    /* a short run has no room for the whole warm-up */
    const int64_t steps = s->values.trainer.max_steps;
    if (steps > 0 && !has_warmup && steps / 4 < (int64_t)s->values.schedule.warmup_steps)
        return suggest_count(s, "schedule.warmup_steps", steps / 4);
    return LVN_OK;
}

/* Where model.depth is given, choose what is not given of the context, the batch, the steps, the optimizer and the
 * schedule as the model's authors do. */
static enum lvn_status fit_depth(struct levin_settings *s)
{
    const struct lvn_model *m = model_of_depth(s);
    const struct lvn_option *context = lvn_option_find("model.block_size");
    struct lvn_model_config c;
    struct lvn_depth_plan plan;
    for (int i = 0; i < lvn_option_count(); i++) { /* choices of an earlier call */
        const enum lvn_option_id id = lvn_option_at(i)->id;
        if (s->origin[id].source == LVN_SOURCE_SUGGESTED && !strcmp(s->origin[id].where, depth_key))
            LVN_TRY(lvn_settings_default(s, id));
    }
    if (!m) return LVN_OK;
    if (context && !lvn_settings_given(s, context->id)) LVN_TRY(suggest_count(s, context->key, DEPTH_CONTEXT));
    LVN_TRY(lvn_settings_finish_family(s));
    LVN_TRY(lvn_settings_config(s, m, &c));
    int64_t vocabulary = lvn_model_value(&c, LVN_ROLE_VOCABULARY);
    if (!vocabulary) vocabulary = vocabulary_of_tokens(s->values.data.path);
    LVN_TRY(lvn_model_put(&c, "vocab_size", (double)(vocabulary ? vocabulary : DEPTH_VOCABULARY)));
    const int64_t positions = lvn_model_value(&c, LVN_ROLE_POSITIONS);
    m->train_by_depth(c.fields, given_batch(s) * positions, &plan);
    return set_by_depth(s, &plan, positions);
}

void lvn_settings_begun(struct levin_settings *s)
{
    if (s->origin[LVN_OPT_lora_base].source <= LVN_SOURCE_RECIPE) s->values.lora.base = "";
    if (s->origin[LVN_OPT_data_add_tokens].source <= LVN_SOURCE_RECIPE) s->values.data.add_tokens = "";
}

static enum lvn_status check_computes(const struct levin_settings *s)
{
    const struct lvn_backend *b = lvn_backend_find(s->values.trainer.accelerator);
    LVN_CHECK(b->computes, ARG, "trainer.accelerator %s computes nothing (%s); set cpu or auto to run", b->name,
              b->description);
    return LVN_OK;
}

/* --- paths of a run that continues in another folder --- */

enum place { DATA, TEMPLATE, TOKENIZER, MODEL }; /* the last two may also be the name of a run */

static bool is_here(struct lvn_arena *a, enum place place, const char *path)
{
    return place == MODEL ? lvn_model_is_here(a, path) : lvn_path_exists(path);
}

static enum lvn_status find_in_folder(struct lvn_arena *a, const char *folder, enum place place, const char *path,
                                      const char **found)
{
    const char *own = lvn_path_join(a, folder, path), *run = lvn_arena_printf(a, "%s/runs/%s", folder, path);
    if (!own || !run) return LVN_MEMORY;
    *found = is_here(a, place, own) ? own : place >= TOKENIZER && is_here(a, place, run) ? run : NULL;
    return LVN_OK;
}

/* *found: the path within data.folder, where the run was started, if a relative path exists only there; else NULL. */
static enum lvn_status find_path(struct levin_settings *s, enum place place, const char *path, const char **found)
{
    *found = NULL;
    if (!*s->values.data.folder || !*path || *path == '/' || lvn_store_is_url(path)) return LVN_OK;
    if (place == TEMPLATE && lvn_chat_template_is_builtin(path)) return LVN_OK;
    LVN_TRY(find_in_folder(&s->arena, ".", place, path, found));
    if (!*found) return find_in_folder(&s->arena, s->values.data.folder, place, path, found);
    *found = NULL;
    return LVN_OK;
}

/* Find all paths. Paths of data that were found are stored in v->found; other paths are replaced if a run recorded
 * them. */
static enum lvn_status find_paths(struct levin_settings *s, unsigned parts)
{
    static const char file[] = "FILE:";
    struct lvn_values *v = &s->values;
    const struct {
        enum lvn_option_id id;
        enum place place;
        const char **path, **found;
    } table[] = {{LVN_OPT_data_path, DATA, &v->data.path, &v->found.path},
                 {LVN_OPT_data_val_path, DATA, &v->data.val_path, &v->found.val_path},
                 {LVN_OPT_data_test_path, DATA, &v->data.test_path, &v->found.test_path},
                 {LVN_OPT_data_chat_template, TEMPLATE, &v->data.chat_template, &v->found.chat_template},
                 {LVN_OPT_data_tokenizer, TOKENIZER, &v->data.tokenizer, &v->found.tokenizer},
                 {LVN_OPT_model_init, MODEL, &v->model.init, NULL},
                 {LVN_OPT_lora_init, MODEL, &v->lora.init, NULL},
                 {LVN_OPT_lora_base, MODEL, &v->lora.base, NULL}};
    const char *found;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const bool reads = table[i].found ? parts & LVN_USES_DATA : s->origin[table[i].id].source == LVN_SOURCE_RUN;
        if (!reads) continue;
        LVN_TRY(find_path(s, table[i].place, *table[i].path, &found));
        if (table[i].found)
            *table[i].found = found;
        else if (found)
            *table[i].path = found;
    }
    const size_t n = sizeof file - 1;
    if (s->origin[LVN_OPT_sample_prompt].source != LVN_SOURCE_RUN || strncmp(v->sample.prompt, file, n) != 0)
        return LVN_OK;
    LVN_TRY(find_path(s, DATA, v->sample.prompt + n, &found));
    if (found) v->sample.prompt = lvn_arena_printf(&s->arena, "%s%s", file, found);
    return v->sample.prompt ? LVN_OK : LVN_MEMORY;
}

enum lvn_status lvn_settings_finish(struct levin_settings *s, unsigned parts)
{
    char word[LVN_VALUE_TEXT];
    LVN_TRY(finish_run(s));
    LVN_TRY(find_paths(s, parts));
    LVN_CHECK(
        (parts & LVN_USES_SPLIT) || s->values.data.split == LVN_DATA_SPLIT_AUTO, ARG,
        "data.split (%s) chooses the part that `levin evaluate` scores, and this command scores none: leave it out",
        lvn_settings_value(s, LVN_OPT_data_split, word));
    LVN_CHECK((parts & LVN_USES_OPTIMIZER) || s->origin[LVN_OPT_data_add_tokens].source <= LVN_SOURCE_RECIPE, ARG,
              "data.add_tokens (%s) adds tokens to a model that is trained, and this command trains none: leave it out",
              s->values.data.add_tokens);
    if (parts & LVN_USES_OPTIMIZER) LVN_TRY(fit_depth(s));
    if (parts & LVN_USES_TRAINER) LVN_TRY(finish_trainer(s));
    if (parts & LVN_USES_DEVICE) LVN_TRY(check_computes(s));
    if (parts & LVN_USES_DATA && parts & LVN_USES_MODEL) LVN_TRY(find_kind(s));
    if (parts & LVN_USES_DATA && parts & LVN_USES_MODEL) LVN_TRY(find_model(s));
    if (parts & LVN_USES_MODEL) LVN_TRY(finish_model(s, parts & LVN_USES_OPTIMIZER));
    if (parts & LVN_USES_DATA) LVN_TRY(finish_data(s));
    if (parts & LVN_USES_OPTIMIZER) LVN_TRY(check_owners(s));
    if (parts & LVN_USES_OPTIMIZER) LVN_TRY(check_needs(s));
    if (parts & LVN_USES_OPTIMIZER) LVN_TRY(check_optimizer(s));
    if (parts & LVN_USES_SCHEDULE)
        LVN_TRY(check_owners_of(s, "schedule", LVN_OPT_schedule_kind, s->values.schedule.kind, "schedule.kind is"));
    if (parts & LVN_USES_SCHEDULE) LVN_TRY(finish_schedule(s));
    return parts & LVN_USES_CALLBACKS ? lvn_callbacks_check(s) : LVN_OK;
}
