/* model_setup.c - see model_setup.h. */
#include "model_io/model_setup.h"

#include <stdio.h>
#include <string.h>

#include "base/files.h"
#include "base/log.h"
#include "model_io/model_find.h"
#include "settings/choices.h"
#include "settings/settings_model.h"
#include "stores/fetch.h"
#include "stores/store.h"

/* A model without an end token in config.json gets that of its tokenizer. */
static void end_of_codec(struct lvn_model_config *c, const struct lvn_codec *codec)
{
    if (c->end_known || !lvn_codec_is_text(codec)) return;
    c->end_known = true;
    c->end_id = codec->tokenizer ? codec->tokenizer->end_id : -1;
}

/* Apply the settings that may be changed for an existing model, which messages call `in` and `name`; windows may be
 * shorter than its positions. */
static enum lvn_status settings_of_loaded(struct lvn_model_setup *m, const struct lvn_settings *s, const char *in,
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

/* The sizes of a loaded model are fixed; a smaller model.block_size is the length of the windows only, and another
 * model.vocab_size pads the vocabulary or removes its padding. */
static enum lvn_status sizes_of_pretrained(struct lvn_model_setup *m, const struct lvn_settings *s)
{
    enum lvn_status status = lvn_pretrained_open_on(&m->pretrained, s->model.init, "best", s->lora.base);
    if (status != LVN_OK && s->lora.rank)
        (void)lvn_while_at(status,
                           "opening model.init, '%s', the base model of the adapters; if it is elsewhere now, name it: "
                           "--model.init=PATH",
                           s->model.init);
    LVN_TRY(status);
    m->has_pretrained = true;
    LVN_CHECK(!*s->lora.base || m->pretrained.base, ARG,
              "lora.base ('%s') is the base model of loaded adapters, and '%s' has none: leave it out", s->lora.base,
              m->pretrained.path);
    LVN_TRY(lvn_codec_load(&m->codec, m->pretrained.dir));
    int64_t vocab = lvn_settings_role(s, m->pretrained.config.model, LVN_ROLE_VOCABULARY);
    if (vocab) LVN_TRY(lvn_pretrained_set_vocab(&m->pretrained, vocab, lvn_codec_size(&m->codec)));
    m->config = m->pretrained.config;
    return settings_of_loaded(m, s, "in ", m->pretrained.path);
}

/* A published model with its published sizes. */
static enum lvn_status sizes_of_name(struct lvn_model_setup *m, const struct lvn_settings *s,
                                     const struct lvn_model *model, const struct lvn_size *size)
{
    lvn_model_config_init(&m->config, model);
    LVN_TRY(lvn_model_put_size(&m->config, size));
    int64_t vocab = lvn_settings_role(s, model, LVN_ROLE_VOCABULARY);
    if (vocab) lvn_model_set(&m->config, LVN_ROLE_VOCABULARY, vocab);
    return settings_of_loaded(m, s, "", size->name);
}

static enum lvn_status sizes_of_settings(struct lvn_model_setup *m, const struct lvn_settings *s,
                                         const struct lvn_model *model)
{
    if (!model) model = lvn_model_find(s->model.kind);
    LVN_CHECK(model, ARG, "model.kind '%s' is not known", s->model.kind);
    LVN_TRY(lvn_settings_config(s, model, &m->config));
    m->block_size = lvn_model_value(&m->config, LVN_ROLE_POSITIONS);
    return LVN_OK;
}

static enum lvn_status fetch_data(const struct lvn_settings *s)
{
    const struct lvn_dataset_kind *kind = lvn_dataset_kind_find(s->data.kind);
    if (!kind) return LVN_ARG;
    if (kind->fetches || !*s->data.url || !*s->data.path || lvn_store_is_url(s->data.path) ||
        lvn_path_exists(s->data.path))
        return LVN_OK;
    const char *sum = *s->data.sha256 ? s->data.sha256 : NULL;
    LVN_TRY_WHILE(lvn_download(s->data.url, sum, s->data.path, NULL, NULL), "fetching data.path, '%s', from data.url",
                  s->data.path);
    return LVN_OK;
}

static enum lvn_status open_sizes(struct lvn_model_setup *m, const struct lvn_settings *s,
                                  const struct lvn_model *model)
{
    *m = (struct lvn_model_setup){0};
    return *s->model.init ? sizes_of_pretrained(m, s) : sizes_of_settings(m, s, model);
}

/* The number of classes that labels may have; 0: the data decide. */
static int64_t known_classes(const struct lvn_model_setup *m, const struct lvn_settings *s)
{
    bool has = m->has_pretrained && m->task && lvn_model_predicts(&m->config, LVN_LABEL_CLASS) &&
               m->task->label.label == LVN_LABEL_CLASS;
    return has && !s->task.fresh_head ? m->config.classes : 0;
}

static struct lvn_data_options data_options(const struct lvn_model_setup *m, const struct lvn_settings *s,
                                            bool evaluates)
{
    /* A recipe's validation data belong to its own data, not to data that are given instead. */
    bool others = evaluates && s->origin[LVN_OPT_data_val_path].source < s->origin[LVN_OPT_data_path].source;
    struct lvn_data_options o = lvn_data_options_of(s);
    if (others) o.val_path = "";
    o.seed = (uint64_t)s->trainer.seed;
    o.label = m->task ? m->task->label.label : LVN_LABEL_NONE;
    o.for_evaluation = evaluates;
    o.block_size = m->block_size;
    o.vocab_size = lvn_model_value(&m->config, LVN_ROLE_VOCABULARY);
    o.classes = known_classes(m, s);
    o.vocabulary = m->codec.vocabulary;
    o.model_tokenizer = m->codec.tokenizer;
    o.tokenizer_error = m->codec.tokenizer_error;
    o.unlabelled = m->new_texts.n > 0;
    o.texts = m->new_texts.text;
    o.pairs = m->new_texts.pair;
    o.n_texts = m->new_texts.n;
    o.masks = m->task && m->task->masks;
    o.whole_words = s->task.whole_words;
    o.mask_fraction = s->task.mask_fraction;
    return o;
}

/* A loaded head that is not replaced must be one of the task; one for classes is replaced by one for numbers, or the
 * reverse, only where settings say so: both have the same parameters. */
static enum lvn_status check_problem(const struct lvn_model_setup *m, const struct lvn_settings *s, bool evaluates)
{
    const struct lvn_model_config *c = &m->config;
    const enum lvn_label_kind label = m->task->label.label;
    const bool numbers = label == LVN_LABEL_NUMBER;
    if (!m->has_pretrained || !lvn_model_predicts_samples(c) || (!numbers && label != LVN_LABEL_CLASS) ||
        (s->task.fresh_head && !evaluates))
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
static enum lvn_status choose_task(struct lvn_model_setup *m, const struct lvn_settings *s, bool evaluates)
{
    char has[80];
    struct lvn_data_options data = data_options(m, s, false);
    LVN_TRY(lvn_dataset_fields(&data, &m->fields));
    LVN_TRY(lvn_task_choose(&m->task, s->task.kind, &m->config, &m->fields));
    LVN_CHECK(evaluates || m->task->masks || !lvn_settings_differs(s, LVN_OPT_task_mask_fraction), ARG,
              "task.mask_fraction (%g) is a key of task.kind=mlm, and the task is %s: leave it out",
              s->task.mask_fraction, m->task->name);
    LVN_CHECK(evaluates || m->task->masks || !s->task.whole_words, ARG,
              "task.whole_words is a key of task.kind=mlm, and the task is %s: leave it out", m->task->name);
    LVN_TRY(check_problem(m, s, evaluates));
    data = data_options(m, s, false); /* a task may hide tokens */
    LVN_TRY(lvn_dataset_fields(&data, &m->fields));
    snprintf(has, sizeof has, "data.kind=%.40s has", s->data.kind);
    return lvn_task_check(m->task, m->config.model, &m->fields, has);
}

/* To predict classes or numbers of new texts, the model must have been trained for that. */
static enum lvn_status check_predicts(const struct lvn_model_setup *m)
{
    const struct lvn_head *head = m->config.head;
    LVN_CHECK(!head || lvn_model_predicts_samples(&m->config), ARG,
              "the model '%s' has no classes to predict: it is a %s; train it on labelled texts first (levin train "
              "TABLE.tsv --model.init=%s)",
              m->pretrained.path, head->architecture, m->pretrained.path);
    return LVN_OK;
}

/* Set the head of the task, with as many classes as the data have. A loaded head keeps its classes, unless it may be
 * replaced; a model that was loaded without one gets a new one, but not for evaluation. */
static enum lvn_status choose_head(struct lvn_model_setup *m, const struct lvn_settings *s, bool evaluates)
{
    struct lvn_model_config *c = &m->config;
    const struct lvn_head *head = lvn_model_head(c->model, m->task->name);
    int k = m->task->label.label == LVN_LABEL_CLASS ? lvn_fields_find(&m->fields, m->task->label.name) : -1;
    int64_t classes = k >= 0 && m->fields.field[k].below ? m->fields.field[k].below : c->classes;
    if (k >= 0 && !m->fields.field[k].below) m->fields.field[k].below = classes; /* the data do not exist yet */
    if (!head) return LVN_OK;
    if (!m->has_pretrained) {
        lvn_model_set_head(c, head, classes);
        return LVN_OK;
    }
    bool other = c->head != head, fewer = !other && k >= 0 && classes > c->classes;
    LVN_CHECK(!other || !evaluates, ARG,
              "the model '%s' is a %s, which has no head for task.kind=%s: train it for that first", m->pretrained.path,
              c->head->architecture, m->task->name);
    LVN_CHECK(!fewer || (s->task.fresh_head && !evaluates), ARG,
              "the data have %lld classes in '%s', and the head of the model '%s' knows %lld%s", (long long)classes,
              m->task->label.name, m->pretrained.path, (long long)c->classes,
              evaluates ? ": take another model or other data" : "; set task.fresh_head=true to start with a new head");
    if (!other && !(s->task.fresh_head && !evaluates)) return LVN_OK;
    lvn_log(LVN_LOG_INFO, "the head of '%s' (%s) is replaced by a new one, %s", m->pretrained.path,
            c->head->architecture, head->architecture);
    LVN_TRY(lvn_pretrained_set_head(&m->pretrained, head, classes, (uint64_t)s->trainer.seed));
    lvn_model_set_head(c, head, classes);
    return LVN_OK;
}

static enum lvn_status open_data(struct lvn_model_setup *m, const struct lvn_settings *s, bool evaluates)
{
    struct lvn_data_options data = data_options(m, s, evaluates);
    LVN_TRY(lvn_dataset_open(&m->data, &data));
    struct lvn_codec of_data = lvn_dataset_codec(m->data);
    LVN_CHECK(
        lvn_codec_agree(&of_data, &m->codec), ARG,
        "the data ('%s') and the model ('%s') have different vocabularies: the same ids mean other words; prepare "
        "the data with the model's tokenizer",
        s->data.path, m->pretrained.path);
    if (!data.vocab_size) lvn_model_set(&m->config, LVN_ROLE_VOCABULARY, m->data->vocab_size);
    m->fields = m->data->fields;
    LVN_TRY(choose_head(m, s, evaluates));
    struct lvn_codec codec = lvn_model_setup_codec(m);
    end_of_codec(&m->config, &codec);
    return LVN_OK;
}

bool lvn_model_setup_data_is_there(const struct lvn_settings *s)
{
    return *s->data.path && lvn_path_exists(s->data.path);
}

enum lvn_status lvn_model_setup_sizes(struct lvn_model_setup *m, const struct lvn_settings *s,
                                      const struct lvn_model *model)
{
    LVN_LOCAL_ARENA(a);
    const struct lvn_model *known;
    const struct lvn_size *size = *s->model.init ? lvn_model_find_size(&a, s->model.init, &known) : NULL;
    *m = (struct lvn_model_setup){0};
    enum lvn_status status = size ? sizes_of_name(m, s, known, size) : open_sizes(m, s, model);
    LVN_TRY(status);
    LVN_TRY(choose_task(m, s, false));
    status = lvn_model_setup_data_is_there(s) ? open_data(m, s, false) : LVN_OK;
    if (status == LVN_MEMORY) return status;
    if (status != LVN_OK) {
        lvn_error_clear();
        m->data = NULL;
    }
    if (!m->data) LVN_TRY(choose_head(m, s, false));
    m->vocabulary_assumed =
        lvn_key_by_role(m->config.model, LVN_ROLE_VOCABULARY) && !lvn_model_value(&m->config, LVN_ROLE_VOCABULARY);
    if (m->vocabulary_assumed)
        lvn_model_set(&m->config, LVN_ROLE_VOCABULARY, lvn_dataset_kind_find(s->data.kind)->typical_vocab);
    return lvn_model_check(&m->config, false);
}

static enum lvn_status open_all(struct lvn_model_setup *m, const struct lvn_settings *s, const struct lvn_model *model,
                                const struct lvn_new_texts *texts, bool evaluates)
{
    LVN_TRY(open_sizes(m, s, model));
    if (texts) m->new_texts = *texts;
    if (texts) LVN_TRY(check_predicts(m));
    LVN_TRY(choose_task(m, s, evaluates));
    LVN_TRY(fetch_data(s));
    LVN_TRY(open_data(m, s, evaluates));
    struct lvn_codec codec = lvn_model_setup_codec(m);
    if (!lvn_codec_is_text(&codec))
        lvn_tokenizer_warn(m->data->tokenizer_error ? m->data->tokenizer_error : m->codec.tokenizer_error);
    return lvn_model_check(&m->config, false);
}

enum lvn_status lvn_model_setup_open(struct lvn_model_setup *m, const struct lvn_settings *s,
                                     const struct lvn_model *model)
{
    return open_all(m, s, model, NULL, false);
}

enum lvn_status lvn_model_setup_evaluation(struct lvn_model_setup *m, const struct lvn_settings *s,
                                           const struct lvn_model *model, const struct lvn_new_texts *texts)
{
    return open_all(m, s, model, texts, true);
}

enum lvn_status lvn_model_setup_loaded(struct lvn_model_setup *m, const struct lvn_settings *s)
{
    *m = (struct lvn_model_setup){0};
    return sizes_of_pretrained(m, s);
}

struct lvn_codec lvn_model_setup_codec(const struct lvn_model_setup *m)
{
    struct lvn_codec of_data = m->data ? lvn_dataset_codec(m->data) : m->codec;
    return lvn_codec_is_text(&of_data) ? of_data : m->codec;
}

void lvn_model_setup_close(struct lvn_model_setup *m)
{
    lvn_dataset_close(m->data);
    if (m->has_pretrained) lvn_pretrained_close(&m->pretrained);
    lvn_codec_release(&m->codec);
    *m = (struct lvn_model_setup){0};
}
