/* setup.c - see setup.h. */
#include "setup/setup.h"

#include <unistd.h>

#include "base/files.h"
#include "base/list.h"
#include "base/log.h"
#include "formats/json.h"
#include "formats/sha256.h"
#include "host/cache_dir.h"
#include "model_io/model_config.h"
#include "model_io/model_find.h"
#include "options/choices.h"
#include "settings/settings_model.h"
#include "stores/fetch.h"
#include "stores/store.h"
#include "tokenizers/decoder.h"
#include "tokenizers/tokenizer_config.h"

/* A model without an end token in config.json gets that of its tokenizer. */
static void end_of_codec(struct lvn_model_config *c, const struct lvn_codec *codec)
{
    if (c->end_known || !lvn_codec_is_text(codec)) return;
    c->end_known = true;
    c->end_id = codec->tokenizer ? codec->tokenizer->end_id : -1;
}

/* Make the token that ends an answer an end token of the model. Programs that do not read the chat template need it to
 * stop. */
static enum lvn_status end_of_answers(struct lvn_model_setup *m, const struct lvn_tokenizer *t)
{
    const int64_t id = m->data->answer_end;
    int64_t n;
    bool added;
    if (id < 0 || id >= lvn_model_value(&m->config, LVN_ROLE_VOCABULARY)) return LVN_OK;
    LVN_TRY(lvn_model_add_end(&m->config, id, &added));
    const char *text = lvn_token_bytes(t, id, &n);
    if (added && text)
        lvn_log_once(LVN_LOG_INFO,
                     "answers end with '%.*s', which is added to eos_token_id of the model's config.json, and of "
                     "generation_config.json if there is one",
                     (int)n, text);
    return LVN_OK;
}

/* Apply the settings that may be changed for an existing model, which messages call `in` and `name`; windows may be
 * shorter than its positions. */
static enum lvn_status settings_of_loaded(struct lvn_model_setup *m, const struct levin_settings *s, const char *in,
                                          const char *name)
{
    int64_t positions = lvn_model_value(&m->config, LVN_ROLE_POSITIONS);
    int64_t block = lvn_settings_role(s, m->config.model, LVN_ROLE_POSITIONS);
    LVN_CHECK(block <= positions, ARG,
              "model.block_size is %lld, but the model %s'%s' has %lld positions; choose at most that many",
              (long long)block, in, name, (long long)positions);
    m->block_size = block ? block : positions;
    return lvn_settings_adjust(s, &m->config);
}

/* Add data.add_tokens to the tokenizer of a loaded model, whose vocabulary must have rows for them; *vocab: its size,
 * 0: unchanged. */
static enum lvn_status add_tokens(struct lvn_model_setup *m, const struct levin_settings *s, int64_t *vocab)
{
    const int64_t rows = lvn_model_value(&m->pretrained.config, LVN_ROLE_VOCABULARY);
    if (!*s->values.data.add_tokens) return LVN_OK;
    LVN_CHECK(
        m->codec.tokenizer, ARG,
        "data.add_tokens (%s) adds tokens to the tokenizer of the model '%s', which has none: add the files of its "
        "tokenizer to its folder",
        s->values.data.add_tokens, m->pretrained.path);
    LVN_TRY(lvn_tokenizer_config_add(m->codec.tokenizer, s->values.data.add_tokens));
    if (s->values.lora.rank && !*s->values.lora.trainable_tokens)
        lvn_log_once(
            LVN_LOG_WARN,
            "the embeddings of data.add_tokens (%s) are not trained: with lora.rank only adapters are, and the "
            "tokens that lora.trainable_tokens names",
            s->values.data.add_tokens);
    if (!*vocab && lvn_codec_size(&m->codec) > rows) *vocab = lvn_codec_size(&m->codec);
    return LVN_OK;
}

/* The sizes of a loaded model are fixed; a smaller model.block_size is the length of the windows only, and another
 * model.vocab_size pads the vocabulary or removes its padding. */
static enum lvn_status sizes_of_pretrained(struct lvn_model_setup *m, const struct levin_settings *s)
{
    enum lvn_status status = lvn_pretrained_open_on(&m->pretrained, s->values.model.init, "best", s->values.lora.base);
    /* if only the base model of its adapters is missing, model.init exists, and the error already names lora.base */
    const bool adapters = s->values.lora.rank, of_run = s->origin[LVN_OPT_model_init].source == LVN_SOURCE_RUN;
    if (status != LVN_OK && (adapters || of_run) && !lvn_path_exists(s->values.model.init))
        (void)lvn_while_at(status, "opening model.init, '%s'%s; if it is elsewhere now, name it: --model.init=PATH%s",
                           s->values.model.init, adapters ? ", the base model of the adapters" : "",
                           adapters ? "" : "; or name the run itself, whose checkpoints have all weights");
    LVN_TRY(status);
    m->has_pretrained = true;
    LVN_TRY(lvn_codec_load(&m->codec, m->pretrained.dir));
    int64_t vocab = lvn_settings_role(s, m->pretrained.config.model, LVN_ROLE_VOCABULARY);
    LVN_TRY(add_tokens(m, s, &vocab));
    if (vocab) LVN_TRY(lvn_pretrained_set_vocab(&m->pretrained, vocab, lvn_codec_size(&m->codec)));
    m->config = m->pretrained.config;
    return settings_of_loaded(m, s, "in ", m->pretrained.path);
}

/* Linear layers that the files have in packed blocks stay in them, unless something needs their values. */
static enum lvn_status keep_blocks(struct lvn_model_setup *m, const struct levin_settings *s, bool trains)
{
    const struct lvn_backend *backend = lvn_backend_find(s->values.trainer.accelerator);
    const char *why = trains && !s->values.lora.rank ? "all weights are trained; lora.rank=16 trains adapters alone"
                      : trains && s->values.lora.merge_checkpoints ? "lora.merge_checkpoints=true adds adapters to them"
                      : trains && m->pretrained.base ? "their own adapters are added to them before the training"
                      : s->values.trainer.strategy == LVN_TRAINER_STRATEGY_FSDP ? "trainer.strategy fsdp shards them"
                      : backend && !backend->packed ? "trainer.accelerator has no kernels for packed blocks"
                                                    : NULL;
    if (!m->has_pretrained) return LVN_OK;
    return lvn_pretrained_keep_blocks(&m->pretrained, lvn_quantize_of(s->values.model.quantize), why, &m->config);
}

/* Set the vocabulary size of a model without weights: that of the settings, else its own with rows for data.add_tokens.
 * tokens: size of its tokenizer; 0: the vocabulary size of the model. */
static void set_vocabulary(struct lvn_model_setup *m, const struct levin_settings *s, int64_t tokens)
{
    const int64_t vocab = lvn_settings_role(s, m->config.model, LVN_ROLE_VOCABULARY);
    int64_t rows = lvn_model_value(&m->config, LVN_ROLE_VOCABULARY);
    if (!tokens) tokens = rows;
    for (const char *p = s->values.data.add_tokens; *p; p += strcspn(p, ","), p += strspn(p, ", ")) tokens++;
    if (*s->values.data.add_tokens && tokens > rows) rows = tokens;
    lvn_model_set(&m->config, LVN_ROLE_VOCABULARY, vocab ? vocab : rows);
}

/* A published model with its published sizes. */
static enum lvn_status sizes_of_name(struct lvn_model_setup *m, const struct levin_settings *s,
                                     const struct lvn_model *model, const struct lvn_size *size)
{
    lvn_model_config_init(&m->config, model);
    LVN_TRY(lvn_model_put_size(&m->config, size));
    set_vocabulary(m, s, model->published_tokens);
    return settings_of_loaded(m, s, "", size->name);
}

/* Is model.init a folder with a config.json, but without weights and adapters? */
static bool has_config_only(struct lvn_arena *a, const char *init)
{
    const char *config = lvn_path_is_dir(init) ? lvn_path_join(a, init, "config.json") : NULL;
    return config && lvn_path_exists(config) && !lvn_weights_exist(init) && !lvn_adapter_files_find(a, init);
}

static enum lvn_status sizes_of_config(struct lvn_model_setup *m, const struct levin_settings *s)
{
    struct lvn_pretrained p = {.path = s->values.model.init};
    lvn_arena_init(&p.arena);
    const enum lvn_status status = lvn_pretrained_config(&p);
    lvn_arena_release(&p.arena);
    LVN_TRY(status);
    m->config = p.config;
    struct lvn_codec codec;
    LVN_TRY(lvn_codec_load(&codec, s->values.model.init));
    set_vocabulary(m, s, codec.tokenizer ? lvn_codec_size(&codec) : 0);
    lvn_codec_release(&codec);
    lvn_log(LVN_LOG_INFO, "'%s' has no weights; its config.json describes the model", s->values.model.init);
    return settings_of_loaded(m, s, "in ", s->values.model.init);
}

static enum lvn_status sizes_of_settings(struct lvn_model_setup *m, const struct levin_settings *s,
                                         const struct lvn_model *model)
{
    if (!model) model = lvn_model_find(s->values.model.kind);
    LVN_CHECK(model, ARG, "model.kind '%s' is not known", s->values.model.kind);
    LVN_TRY(lvn_settings_config(s, model, &m->config));
    m->block_size = lvn_model_value(&m->config, LVN_ROLE_POSITIONS);
    return LVN_OK;
}

/* --- data.url --- */

/* Where an evaluation keeps the data that a run's settings name: CACHE/data/HASH/NAME. HASH is that of data.url. */
static enum lvn_status find_cached(struct lvn_arena *a, const struct levin_settings *s, char **cached)
{
    const char *folder, *plain = lvn_path_plain(a, s->values.data.path), *name = plain ? lvn_path_name(plain) : NULL;
    char sum[LVN_SHA256_TEXT];
    if (!name) return LVN_MEMORY;
    lvn_sha256_text(s->values.data.url, strlen(s->values.data.url), sum);
    LVN_TRY(lvn_cache_folder(a, "data", &folder));
    const char *path = lvn_arena_printf(a, "%s/%.16s/%s", folder, sum, *name == '.' || !*name ? "data" : name);
    *cached = path ? lvn_strdup(path) : NULL;
    return *cached ? LVN_OK : LVN_MEMORY;
}

/* May a run's settings create data.path? */
static enum lvn_status check_place(const struct levin_settings *s)
{
    char origin[LVN_VALUE_TEXT];
    LVN_CHECK(
        lvn_path_is_below(s->values.data.path, ".") ||
            (*s->values.run_dir && lvn_path_is_below(s->values.data.path, s->values.run_dir)),
        ARG,
        "data.path, '%s', does not exist, and data.url, '%s', would be downloaded there; but it is neither in the "
        "run's "
        "folder nor in the current one, and the settings of a run (%s), which may be another user's, create files "
        "nowhere else: give the path again, --data.path=%s",
        s->values.data.path, s->values.data.url, lvn_settings_origin(s, LVN_OPT_data_path, origin),
        s->values.data.path);
    return LVN_OK;
}

enum lvn_status lvn_model_setup_download(const struct levin_settings *s, bool evaluates, char **cached)
{
    LVN_LOCAL_ARENA(a);
    const struct lvn_dataset_kind *kind = lvn_dataset_kind_find(s->values.data.kind);
    *cached = NULL;
    if (!kind) return LVN_ARG;
    if (!*s->values.data.url || !*s->values.data.path || lvn_store_is_url(s->values.data.path) ||
        lvn_path_exists(lvn_data_path_of(&s->values)))
        return LVN_OK;
    const bool of_run = s->origin[LVN_OPT_data_path].source == LVN_SOURCE_RUN;
    if (of_run) LVN_TRY(evaluates ? find_cached(&a, s, cached) : check_place(s));
    const char *path = *cached ? *cached : s->values.data.path,
               *sum = *s->values.data.sha256 ? s->values.data.sha256 : NULL;
    lvn_log(LVN_LOG_INFO, "data.path, '%s', does not exist: '%s' is %s '%s'", s->values.data.path, s->values.data.url,
            lvn_path_exists(path) ? "in the cache," : "downloaded to", path);
    if (kind->fetches) return LVN_OK;
    LVN_TRY_WHILE(lvn_download(s->values.data.url, sum, path, NULL, NULL), "fetching data.path, '%s', from data.url",
                  path);
    return LVN_OK;
}

/* Log that an address, or the file of a prompt, is read because the settings of a run name it. */
static void log_address(const struct levin_settings *s, enum lvn_option_id id, const char *value)
{
    if (s->origin[id].source == LVN_SOURCE_RUN && value && (lvn_store_is_remote(value) || !strncmp(value, "FILE:", 5)))
        lvn_log(LVN_LOG_INFO, "reading %s, '%s', which the run's settings name", lvn_option_by_id(id)->key, value);
}

static enum lvn_status fetch_data(struct lvn_model_setup *m, const struct levin_settings *s, bool evaluates)
{
    /* A kind that fetches by itself must not put files into any folder that a run's settings name. */
    m->no_download = s->origin[LVN_OPT_data_path].source == LVN_SOURCE_RUN && lvn_path_exists(s->values.data.path) &&
                     !lvn_path_is_below(s->values.data.path, ".") &&
                     !(*s->values.run_dir && lvn_path_is_below(s->values.data.path, s->values.run_dir));
    return lvn_model_setup_download(s, evaluates, &m->downloaded);
}

static void log_data(const struct lvn_data_options *o, const struct levin_settings *s)
{
    log_address(s, LVN_OPT_data_path, o->path);
    log_address(s, LVN_OPT_data_val_path, o->val_path);
    log_address(s, LVN_OPT_data_tokenizer, o->tokenizer);
    if (o->for_evaluation) log_address(s, LVN_OPT_data_test_path, o->test_path);
}

static enum lvn_status open_sizes(struct lvn_model_setup *m, const struct levin_settings *s,
                                  const struct lvn_model *model)
{
    *m = (struct lvn_model_setup){.data_kind = s->values.data.kind};
    LVN_TRY(*s->values.model.init ? sizes_of_pretrained(m, s) : sizes_of_settings(m, s, model));
    const bool derived = s->origin[LVN_OPT_data_kind].source <= LVN_SOURCE_DERIVED;
    if (!derived || !m->codec.tokenizer) return LVN_OK; /* as lvn_model_has_characters() */
    const struct lvn_dataset_kind *kind = lvn_dataset_kind_find(s->values.data.kind);
    if (!kind || !kind->tokenized_kind) return LVN_OK;
    m->data_kind = kind->tokenized_kind;
    lvn_log(LVN_LOG_INFO, "'%s' is read as data.kind=%s, with the tokenizer of the model '%s'",
            *s->values.data.mix ? "data.mix" : s->values.data.path, m->data_kind, m->pretrained.path);
    return LVN_OK;
}

/* The model whose classes labels must have; NULL: the data determine them. */
static const struct lvn_model_config *model_of_classes(const struct lvn_model_setup *m, const struct levin_settings *s)
{
    const struct lvn_model_config *c = m->trained                                        ? m->trained
                                       : m->has_pretrained && !s->values.task.fresh_head ? &m->config
                                                                                         : NULL;
    const bool classifies = m->task && m->task->label.label == LVN_LABEL_CLASS;
    return c && classifies && lvn_model_predicts(c, LVN_LABEL_CLASS) ? c : NULL;
}

/* Is data.test_path the only data that the command line, or the program, names? */
static bool names_test(const struct levin_settings *s)
{
    return *s->values.data.test_path && s->origin[LVN_OPT_data_test_path].source >= LVN_SOURCE_COMMAND &&
           s->origin[LVN_OPT_data_path].source < LVN_SOURCE_COMMAND &&
           s->origin[LVN_OPT_data_val_path].source < LVN_SOURCE_COMMAND;
}

static struct lvn_data_options data_options(const struct lvn_model_setup *m, const struct levin_settings *s,
                                            bool evaluates)
{
    /* A recipe's validation data belong to its own data, not to data that are given instead. */
    bool others = evaluates && s->origin[LVN_OPT_data_val_path].source < s->origin[LVN_OPT_data_path].source;
    struct lvn_data_options o = lvn_data_options_of(&s->values);
    if (others) o.val_path = "";
    if (m->downloaded) o.path = m->downloaded;
    if (m->no_download) o.url = "";
    /* The model of a run has a copy of the tokenizer that the run's settings name. */
    if (evaluates && m->codec.tokenizer && s->origin[LVN_OPT_data_tokenizer].source == LVN_SOURCE_RUN) o.tokenizer = "";
    o.kind = m->data_kind;
    o.trains_tokenizer = !evaluates && !m->has_pretrained;
    o.seed = (uint64_t)s->values.trainer.seed;
    o.label = m->task ? m->task->label.label : LVN_LABEL_NONE;
    o.for_evaluation = evaluates;
    o.needs_test = s->values.data.split == LVN_DATA_SPLIT_TEST || s->values.data.split == LVN_DATA_SPLIT_ALL ||
                   (s->values.data.split == LVN_DATA_SPLIT_AUTO && names_test(s));
    o.block_size = m->block_size;
    o.vocab_size = lvn_model_value(&m->config, LVN_ROLE_VOCABULARY);
    const struct lvn_model_config *known = model_of_classes(m, s);
    o.classes = known ? known->classes : 0;
    o.class_names = known ? known->class_names : NULL;
    if (known && !m->trained && !evaluates)
        o.class_advice = "to learn other classes, start with a new head (task.fresh_head=true)";
    o.vocabulary = m->codec.vocabulary;
    o.model_tokenizer = m->codec.tokenizer;
    o.tokenizer_error = m->codec.tokenizer_error;
    o.unlabeled = m->new_texts.n > 0;
    o.texts = m->new_texts.text;
    o.pairs = m->new_texts.pair;
    o.n_texts = m->new_texts.n;
    o.masks = m->task && m->task->masks;
    o.whole_words = s->values.task.whole_words;
    o.mask_fraction = s->values.task.mask_fraction;
    return o;
}

/* A loaded head that is not replaced must be one of the task; one for classes is replaced by one for numbers, or the
 * reverse, only where settings say so: both have the same parameters. */
static enum lvn_status check_problem(const struct lvn_model_setup *m, const struct levin_settings *s, bool evaluates)
{
    const struct lvn_model_config *c = &m->config;
    const enum lvn_label_kind label = m->task->label.label;
    const bool numbers = label == LVN_LABEL_NUMBER;
    if (!m->has_pretrained || !lvn_model_predicts_samples(c) || (!numbers && label != LVN_LABEL_CLASS) ||
        (s->values.task.fresh_head && !evaluates))
        return LVN_OK;
    LVN_CHECK(lvn_model_predicts(c, label) && c->problem == (numbers ? LVN_REGRESSION : LVN_SINGLE_LABEL), UNSUPPORTED,
              "the head of the model '%s' %s, and task.kind=%s is %s%s", m->pretrained.path,
              c->problem == LVN_REGRESSION ? "gives numbers (regression: problem_type, or one class, in config.json)"
              : c->problem == LVN_SINGLE_LABEL ? "chooses one of its classes"
                                               : "says yes or no to each class (problem_type in config.json)",
              m->task->name, numbers ? "one number for each sample" : "the choice of one class",
              evaluates ? "" : "; set task.fresh_head=true to start with a new head");
    return LVN_OK;
}

/* ARG unless model, task and data match, by their fields alone: nothing is opened yet. */
static enum lvn_status choose_task(struct lvn_model_setup *m, const struct levin_settings *s, bool evaluates)
{
    char has[80];
    struct lvn_data_options data = data_options(m, s, false);
    LVN_TRY(lvn_dataset_fields(&data, &m->fields));
    LVN_TRY(lvn_task_choose(&m->task, s->values.task.kind, &m->config, &m->fields));
    LVN_CHECK(evaluates || m->task->masks || !lvn_settings_differs(s, LVN_OPT_task_mask_fraction), ARG,
              "task.mask_fraction (%g) is a key of task.kind=mlm, and the task is %s: leave it out",
              s->values.task.mask_fraction, m->task->name);
    LVN_CHECK(evaluates || m->task->masks || !s->values.task.whole_words, ARG,
              "task.whole_words is a key of task.kind=mlm, and the task is %s: leave it out", m->task->name);
    LVN_TRY(check_problem(m, s, evaluates));
    data = data_options(m, s, false); /* a task may hide tokens */
    LVN_TRY(lvn_dataset_fields(&data, &m->fields));
    snprintf(has, sizeof has, "data.kind=%.40s has", m->data_kind);
    return lvn_task_check(m->task, m->config.model, &m->fields, has);
}

/* To predict classes or numbers of new texts, the model must have been trained for that. */
static enum lvn_status check_predicts(const struct lvn_model_setup *m)
{
    const struct lvn_head *head = m->config.head;
    LVN_CHECK(!head || lvn_model_predicts_samples(&m->config), ARG,
              "the model '%s' has no classes to predict: it is a %s; train it on labelled texts first: `levin train "
              "TABLE.tsv --model.init=%s`",
              m->pretrained.path, head->architecture, m->pretrained.path);
    return LVN_OK;
}

/* A new head has the names that the data give to the classes. */
static enum lvn_status set_head(struct lvn_model_setup *m, const struct lvn_head *head, int64_t classes, bool fresh)
{
    lvn_model_set_head(&m->config, head, classes);
    m->config.fresh_head = fresh;
    const bool named = m->data && m->data->class_names && lvn_model_predicts(&m->config, LVN_LABEL_CLASS);
    return named ? lvn_model_name_classes(&m->config, m->data->class_names) : LVN_OK;
}

/* Set the head of the task, with the number of classes in the data. A loaded head keeps its classes, unless it may be
 * replaced; a model that was loaded without one gets a new one, but not for evaluation. */
static enum lvn_status choose_head(struct lvn_model_setup *m, const struct levin_settings *s, bool evaluates)
{
    struct lvn_model_config *c = &m->config;
    const struct lvn_head *head = lvn_model_head(c->model, m->task->name);
    int k = m->task->label.label == LVN_LABEL_CLASS ? lvn_fields_find(&m->fields, m->task->label.name) : -1;
    const int64_t known = head ? c->classes : c->model->classes;
    int64_t classes = k >= 0 && m->fields.field[k].below ? m->fields.field[k].below : known;
    if (k >= 0) m->fields.field[k].below = classes; /* of data that do not exist yet, or whose program does not say */
    if (!head) return LVN_OK;
    if (m->trained && evaluates) {
        *c = *m->trained;
        return LVN_OK;
    }
    const bool other = c->head != head, fresh = other || (s->values.task.fresh_head && !evaluates);
    if (!m->has_pretrained) return set_head(m, head, classes, fresh);
    const bool fewer = !other && k >= 0 && classes > c->classes;
    LVN_CHECK(!other || !evaluates, ARG,
              "the model '%s' is a %s, which has no head for task.kind=%s: train it for that first", m->pretrained.path,
              c->head->architecture, m->task->name);
    LVN_CHECK(!fewer || fresh, ARG,
              "the data have %lld classes in '%s', and the head of the model '%s' supports %lld%s", (long long)classes,
              m->task->label.name, m->pretrained.path, (long long)c->classes,
              evaluates ? ": use another model or other data" : "; set task.fresh_head=true to start with a new head");
    if (!fresh) return lvn_pretrained_check_head(&m->pretrained);
    const char *former = c->head->architecture;
    LVN_TRY(lvn_pretrained_set_head(&m->pretrained, head, classes, (uint64_t)s->values.trainer.seed));
    lvn_log(LVN_LOG_INFO, "the head of '%s' (%s) is replaced by a new one, %s", m->pretrained.path, former,
            head->architecture);
    return set_head(m, head, classes, true);
}

/* Narrow the ranges of the data's integers to what the model and the task accept, so that reading a sample can check
 * them. A program may have described its fields without a range, or with a wider one. ARG if its samples have a field
 * that nothing reads. */
static enum lvn_status limit_fields(struct lvn_model_setup *m, const struct levin_settings *s)
{
    const struct lvn_model_config *c = &m->config;
    const struct lvn_dataset_kind *kind = lvn_dataset_kind_find(s->values.data.kind);
    const int ids = lvn_fields_find(&m->fields, "ids");
    for (int k = 0; k < m->fields.n; k++) {
        struct lvn_field *f = &m->fields.field[k];
        int64_t most = f->tokens ? lvn_model_value(c, LVN_ROLE_VOCABULARY) : 0;
        if (f->label == LVN_LABEL_CLASS) most = c->head ? c->classes : c->model->classes;
        if (!strcmp(f->name, "length") && ids >= 0) most = m->fields.field[ids].dim[0] + 1;
        const struct lvn_field *read = lvn_model_inputs(c);
        while (read->name && strcmp(f->name, read->name) != 0) read++;
        f->min = read->name ? read->min : 0;
        if (read->below) most = read->below;
        if (most && (!f->below || f->below > most)) f->below = most;
        const bool used = read->name || f->label || strcmp(f->name, LVN_SEGMENTS) == 0;
        LVN_CHECK(used || !kind || !kind->refuses_unread, ARG,
                  "the samples have a field '%s', which neither the model '%s' nor task.kind=%s reads: leave it out",
                  f->name, c->model->name, m->task->name);
    }
    m->data->fields = m->fields;
    return LVN_OK;
}

/* A family whose positions depend on which token is padding. */
static void compare_padding(const struct lvn_model_config *c)
{
    for (const struct lvn_key *k = c->model->keys; k->kind; k++)
        if (k->kind == LVN_KEY_MUST && strcmp(k->json, "pad_token_id") == 0 && c->pad_id != (int64_t)k->default_value)
            lvn_log_once(
                LVN_LOG_WARN,
                "padding is not token %d of the tokenizer, as a %s has it: transformers will compute other values "
                "than levin for texts that contain this token; for use with transformers, give a tokenizer whose "
                "padding it is, as that of roberta-base",
                (int)k->default_value, c->model->name);
}

/* Report if tokenizer and model have different vocabulary sizes. */
static void compare_sizes(const struct lvn_model_setup *m, const struct lvn_codec *codec)
{
    const int64_t rows = lvn_model_value(&m->config, LVN_ROLE_VOCABULARY), tokens = lvn_codec_size(codec);
    if (tokens && rows > tokens)
        lvn_log_once(LVN_LOG_INFO,
                     "the tokenizer has %lld tokens, and the model '%s' %lld rows: no text has the other rows",
                     (long long)tokens, m->pretrained.path, (long long)rows);
    if (rows && rows < tokens)
        lvn_log_once(
            LVN_LOG_WARN,
            "the tokenizer has %lld tokens, and the model '%s' only %lld rows: text with the tokens from %lld on "
            "is refused",
            (long long)tokens, m->pretrained.path, (long long)rows, (long long)rows);
}

/* Name both folders if a run's relative path of data is in neither. */
static enum lvn_status explain_missing(enum lvn_status status, const struct levin_settings *s)
{
    char here[PATH_MAX];
    const char *path = lvn_data_path_of(&s->values);
    if (status == LVN_OK || !*s->values.data.folder || !*path || *path == '/' || lvn_store_is_url(path) ||
        lvn_path_exists(path) || !getcwd(here, sizeof here))
        return status;
    return lvn_while_at(status,
                        "looking for data.path, '%s', in the current folder, '%s', and in data.folder, '%s', where the "
                        "run was started; "
                        "--data.path names another one",
                        path, here, s->values.data.folder);
}

static enum lvn_status open_data(struct lvn_model_setup *m, const struct levin_settings *s, bool evaluates)
{
    struct lvn_data_options data = data_options(m, s, evaluates);
    log_data(&data, s);
    LVN_TRY(explain_missing(lvn_dataset_open(&m->data, &data), s));
    struct lvn_codec of_data = lvn_dataset_codec(m->data);
    const int64_t model_size = data.vocab_size, size = of_data.vocabulary ? of_data.vocabulary->n : 0;
    LVN_CHECK(
        !m->has_pretrained || !size || size == model_size || lvn_codec_is_text(&m->codec), ARG,
        "the tokens of the data ('%s') are %lld characters, and the model '%s' has %lld tokens and no tokenizer: the "
        "same ids mean other words. Add the files of its tokenizer to its folder, and make token files with `levin "
        "prepare %s --tokenizer=%s`; or train a new model, without model.init",
        s->values.data.path, (long long)size, m->pretrained.path, (long long)model_size, s->values.data.path,
        m->pretrained.path);
    LVN_CHECK(
        lvn_codec_agree(&of_data, &m->codec), ARG,
        "the data ('%s') and the model ('%s') have different vocabularies: the same ids mean other words; prepare "
        "the data with the model's tokenizer",
        s->values.data.path, m->pretrained.path);
    if (!data.vocab_size) lvn_model_set(&m->config, LVN_ROLE_VOCABULARY, m->data->vocab_size);
    if (m->has_pretrained && !evaluates) compare_sizes(m, lvn_codec_is_text(&of_data) ? &of_data : &m->codec);
    m->fields = m->data->fields;
    struct lvn_codec codec = lvn_model_setup_codec(m);
    LVN_TRY(lvn_codec_token_bytes(&codec, &m->token_bytes));
    for (int k = 0; k < m->fields.n; k++)
        if (m->fields.field[k].label == LVN_LABEL_TOKEN) m->fields.field[k].text = m->token_bytes;
    LVN_TRY(choose_head(m, s, evaluates));
    LVN_TRY(limit_fields(m, s));
    if (m->data->chat_template && !evaluates) /* a part of the model that is trained with it */
        LVN_TRY(lvn_tokenizer_put_template(codec.tokenizer, m->data->chat_template));
    end_of_codec(&m->config, &codec);
    if (!evaluates) LVN_TRY(end_of_answers(m, codec.tokenizer));
    LVN_TRY(lvn_model_padding(&m->config, &codec));
    if (!m->has_pretrained && !evaluates && codec.tokenizer) compare_padding(&m->config);
    return LVN_OK;
}

/* The id of one name or id of lora.trainable_tokens. */
static enum lvn_status token_id(const struct lvn_model_setup *m, const char *name, int n, int32_t *id)
{
    const struct lvn_codec codec = lvn_model_setup_codec(m);
    const int64_t rows = lvn_model_value(&m->config, LVN_ROLE_VOCABULARY);
    const bool number = (int)strspn(name, "0123456789") >= n && n < 10;
    *id = number            ? (int32_t)strtol(name, NULL, 10)
          : codec.tokenizer ? lvn_tokenizer_find(codec.tokenizer, name, n)
                            : -1;
    LVN_CHECK(*id >= 0, ARG,
              "lora.trainable_tokens: '%.*s' is not a token of the model '%s'; data.add_tokens adds tokens", n, name,
              m->pretrained.path);
    LVN_CHECK(*id < rows, ARG, "lora.trainable_tokens: the model '%s' has %lld tokens, and no token %d",
              m->pretrained.path, (long long)rows, *id);
    return LVN_OK;
}

/* The ids of lora.trainable_tokens, in rising order. */
static enum lvn_status find_trainable(struct lvn_model_setup *m, const struct levin_settings *s)
{
    LVN_LOCAL_ARENA(a);
    const char *list = s->values.lora.trainable_tokens;
    int32_t *ids = lvn_arena_alloc(&a, sizeof *ids * (strlen(list) + 1));
    int n = 0;
    if (!ids) return LVN_MEMORY;
    for (size_t k; s->values.lora.rank && *list; list += k, list += strspn(list, ", ")) {
        k = strcspn(list, ",");
        LVN_TRY(token_id(m, list, (int)k, &ids[n]));
        for (int i = 0; i < n; i++)
            LVN_CHECK(ids[i] != ids[n], ARG, "lora.trainable_tokens names '%.*s' twice", (int)k, list);
        n++;
    }
    qsort(ids, (size_t)n, sizeof *ids, lvn_by_id);
    m->config.lora.n_tokens = n;
    m->config.lora.tokens = n ? lvn_intern(ids, sizeof *ids * (size_t)n) : NULL;
    return m->config.lora.tokens || !n ? LVN_OK : LVN_MEMORY;
}

bool lvn_model_setup_has_data(const struct levin_settings *s)
{
    if (*s->values.data.mix) return lvn_mix_is_here(s->values.data.mix, s->values.data.folder);
    return *s->values.data.path && lvn_path_exists(lvn_data_path_of(&s->values));
}

enum lvn_status lvn_model_setup_sizes(struct lvn_model_setup *m, const struct levin_settings *s,
                                      const struct lvn_model *model)
{
    LVN_LOCAL_ARENA(a);
    const struct lvn_model *known;
    const struct lvn_size *size = *s->values.model.init ? lvn_model_find_size(&a, s->values.model.init, &known) : NULL;
    *m = (struct lvn_model_setup){.data_kind = s->values.data.kind};
    enum lvn_status status = size                                        ? sizes_of_name(m, s, known, size)
                             : has_config_only(&a, s->values.model.init) ? sizes_of_config(m, s)
                                                                         : open_sizes(m, s, model);
    LVN_TRY(status);
    LVN_TRY(keep_blocks(m, s, true));
    m->no_download = true;
    LVN_TRY(choose_task(m, s, false));
    status = lvn_model_setup_has_data(s) ? open_data(m, s, false) : LVN_OK;
    if (status == LVN_MEMORY) return status;
    if (status != LVN_OK) {
        lvn_error_clear();
        lvn_dataset_close(m->data);
        m->data = NULL;
    }
    if (!m->data) LVN_TRY(choose_head(m, s, false));
    m->vocabulary_assumed =
        lvn_key_by_role(m->config.model, LVN_ROLE_VOCABULARY) && !lvn_model_value(&m->config, LVN_ROLE_VOCABULARY);
    if (m->vocabulary_assumed)
        lvn_model_set(&m->config, LVN_ROLE_VOCABULARY, lvn_dataset_kind_find(m->data_kind)->typical_vocab);
    LVN_TRY(find_trainable(m, s));
    return lvn_model_check(&m->config, false);
}

static enum lvn_status open_all(struct lvn_model_setup *m, const struct levin_settings *s,
                                const struct lvn_model *model, const struct lvn_new_texts *texts,
                                const struct lvn_model_config *trained, bool evaluates)
{
    if (!evaluates && s->values.sample.every_n_steps) log_address(s, LVN_OPT_sample_prompt, s->values.sample.prompt);
    log_address(s, LVN_OPT_model_init, s->values.model.init);
    log_address(s, LVN_OPT_lora_init, s->values.lora.init);
    log_address(s, LVN_OPT_lora_base, s->values.lora.base);
    LVN_TRY(open_sizes(m, s, model));
    LVN_TRY(keep_blocks(m, s, !evaluates));
    m->trained = trained;
    if (texts) m->new_texts = *texts;
    if (texts) LVN_TRY(check_predicts(m));
    LVN_TRY(choose_task(m, s, evaluates));
    LVN_TRY(fetch_data(m, s, evaluates));
    LVN_TRY(open_data(m, s, evaluates));
    struct lvn_codec codec = lvn_model_setup_codec(m);
    if (!lvn_codec_is_text(&codec))
        lvn_tokenizer_warn(m->data->tokenizer_error ? m->data->tokenizer_error : m->codec.tokenizer_error);
    if (!evaluates) LVN_TRY(find_trainable(m, s));
    return lvn_model_check(&m->config, false);
}

enum lvn_status lvn_model_setup_open(struct lvn_model_setup *m, const struct levin_settings *s,
                                     const struct lvn_model *model, const struct lvn_model_config *trained)
{
    return open_all(m, s, model, NULL, trained, false);
}

enum lvn_status lvn_model_setup_evaluation(struct lvn_model_setup *m, const struct levin_settings *s,
                                           const struct lvn_model *model, const struct lvn_new_texts *texts,
                                           const struct lvn_model_config *trained)
{
    return open_all(m, s, model, texts, trained, true);
}

enum lvn_status lvn_model_setup_loaded(struct lvn_model_setup *m, const struct levin_settings *s)
{
    *m = (struct lvn_model_setup){0};
    LVN_CHECK(*s->values.model.init, ARG, "generating requires a model; give a run, a checkpoint or a model directory");
    LVN_TRY(sizes_of_pretrained(m, s));
    return keep_blocks(m, s, false);
}

enum lvn_status lvn_model_setup_prediction(struct lvn_model_setup *m, struct levin_settings *s,
                                           const struct lvn_new_texts *texts)
{
    s->values.data.kind = "labelled";
    s->values.task.kind = "auto"; /* the task of the model's head */
    s->values.data.path = s->values.data.val_path = s->values.data.test_path = s->values.data.url = "";
    s->values.data.split = LVN_DATA_SPLIT_ALL;
    return lvn_model_setup_evaluation(m, s, NULL, texts, NULL);
}

/* auto: everything in a file given on the command line, otherwise the validation split of training. */
enum lvn_split_id lvn_model_setup_split(const struct lvn_model_setup *m, const struct levin_settings *s)
{
    if (s->values.data.split != LVN_DATA_SPLIT_AUTO) return lvn_split_of(s->values.data.split);
    if (names_test(s)) return LVN_SPLIT_TEST;
    bool named = s->origin[LVN_OPT_data_path].source >= LVN_SOURCE_COMMAND && m->data->is_file;
    bool val_named = s->origin[LVN_OPT_data_val_path].source >= LVN_SOURCE_COMMAND;
    return named && !val_named ? LVN_SPLIT_ALL : LVN_SPLIT_VAL;
}

/* trainer.limit_test_batches limits an evaluation. For gradients the limit of a run's settings does not count.
 * trainer.limit_val_batches of a run was meant for its validation, so it counts only if a recipe that is evaluated, the
 * command line or the program gives it. */
struct lvn_amount lvn_model_setup_limit(const struct levin_settings *s, bool gradients)
{
    const struct lvn_amount *test = &s->values.trainer.limit_test_batches;
    const bool counts = !gradients || s->origin[LVN_OPT_trainer_limit_test_batches].source >= LVN_SOURCE_RECIPE;
    if (s->values.trainer.fast_dev_run) return (struct lvn_amount){.count = s->values.trainer.fast_dev_run};
    if (counts && (test->count || test->fraction < 1)) return *test;
    if (s->origin[LVN_OPT_trainer_limit_val_batches].source < LVN_SOURCE_RECIPE) return (struct lvn_amount){0};
    return s->values.trainer.limit_val_batches;
}
