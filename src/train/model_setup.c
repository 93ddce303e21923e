/* model_setup.c - see model_setup.h. */
#include "train/model_setup.h"

#include <string.h>

#include "base/files.h"
#include "stores/fetch.h"
#include "stores/store.h"
#include "train/model_find.h"

enum { GPT2_POSITIONS = 1024, GPT2_VOCABULARY = 50257, PADDED_GPT2_VOCABULARY = 50304, USUAL_CHARACTERS = 65 };

/* A loaded model rules its sizes; a smaller model.block_size is the length of the windows only, and another
 * model.vocab_size pads the vocabulary or cuts the padding. */
static enum lvn_status sizes_of_pretrained(struct lvn_model_setup *m, const struct lvn_settings *s)
{
    LVN_TRY(lvn_pretrained_open(&m->pretrained, s->model.init, "best"));
    m->has_pretrained = true;
    LVN_TRY(lvn_codec_beside(&m->codec, m->pretrained.dir));
    if (s->model.vocab_size)
        LVN_TRY(lvn_pretrained_set_vocab(&m->pretrained, s->model.vocab_size, lvn_codec_size(&m->codec)));
    m->config = m->pretrained.config;
    int64_t block = lvn_settings_given(s, LVN_OPT_model_block_size) ? s->model.block_size : m->config.n_positions;
    LVN_CHECK(block <= m->config.n_positions, ARG,
              "model.block_size is %lld, but the model in '%s' has %lld positions; choose at most that",
              (long long)block, m->pretrained.path, (long long)m->config.n_positions);
    m->block_size = block;
    if (lvn_settings_given(s, LVN_OPT_model_dropout))
        m->config.dropout_embedding = m->config.dropout_residual = m->config.dropout_attention = s->model.dropout;
    return LVN_OK;
}

/* GPT-2 as it was published, of the named size. */
static enum lvn_status sizes_of_name(struct lvn_model_setup *m, const struct lvn_settings *s, const char *name)
{
    const struct lvn_model_size *size = lvn_model_size_find(name);
    struct lvn_model_config *c = &m->config;
    LVN_CHECK(size, INTERNAL, "the size of '%s' is not known", name);
    c->model = lvn_model_find("gpt2");
    c->eps = 1e-5;
    if (c->model->defaults) c->model->defaults(c);
    c->n_layer = size->n_layer;
    c->n_head = size->n_head;
    c->n_embd = size->n_embd;
    c->n_positions = GPT2_POSITIONS;
    c->vocab_size = s->model.vocab_size ? s->model.vocab_size : GPT2_VOCABULARY;
    c->bias = true;
    c->dropout_embedding = c->dropout_residual = c->dropout_attention =
        lvn_settings_given(s, LVN_OPT_model_dropout) ? s->model.dropout : 0.1;
    m->block_size = lvn_settings_given(s, LVN_OPT_model_block_size) ? s->model.block_size : c->n_positions;
    LVN_CHECK(m->block_size <= c->n_positions, ARG,
              "model.block_size is %lld, but the model '%s' has %lld positions; choose at most that",
              (long long)m->block_size, name, (long long)c->n_positions);
    return LVN_OK;
}

static enum lvn_status sizes_of_settings(struct lvn_model_setup *m, const struct lvn_settings *s,
                                         const struct lvn_model *model)
{
    struct lvn_model_config *c = &m->config;
    c->model = model ? model : lvn_model_find(s->model.kind);
    LVN_CHECK(c->model, ARG, "model.kind '%s' is not known", s->model.kind);
    c->eps = 1e-5;
    if (c->model->defaults) c->model->defaults(c);
    c->n_layer = s->model.n_layer;
    c->n_head = s->model.n_head;
    c->n_embd = s->model.n_embd;
    c->n_positions = m->block_size = s->model.block_size;
    c->vocab_size = s->model.vocab_size;
    c->bias = model || s->model.bias; /* a program's own model writes down its parameters itself */
    c->dropout_embedding = c->dropout_residual = c->dropout_attention = s->model.dropout;
    return LVN_OK;
}

static enum lvn_status fetch_data(const struct lvn_settings *s)
{
    if (!*s->data.url || !*s->data.path || lvn_store_is_url(s->data.path) || lvn_path_exists(s->data.path))
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

static enum lvn_status open_data(struct lvn_model_setup *m, const struct lvn_settings *s)
{
    struct lvn_data_options data = {.kind = s->data.kind,
                                    .path = s->data.path,
                                    .val_path = s->data.val_path,
                                    .digits = s->data.digits,
                                    .stream = s->data.stream,
                                    .block_size = m->block_size,
                                    .vocab_size = m->config.vocab_size,
                                    .vocabulary = m->codec.vocabulary};
    LVN_TRY(lvn_dataset_open(&m->data, &data));
    struct lvn_codec of_data = lvn_dataset_codec(m->data);
    LVN_CHECK(
        lvn_codec_agree(&of_data, &m->codec), ARG,
        "the data ('%s') and the model ('%s') have different vocabularies: the same ids mean other words; prepare "
        "the data with the model's tokenizer",
        s->data.path, m->pretrained.path);
    if (!m->config.vocab_size) m->config.vocab_size = m->data->vocab_size;
    return LVN_OK;
}

enum lvn_status lvn_model_setup_sizes(struct lvn_model_setup *m, const struct lvn_settings *s,
                                      const struct lvn_model *model)
{
    struct lvn_arena a;
    lvn_arena_init(&a);
    const char *name = *s->model.init ? lvn_model_find_size(&a, s->model.init) : NULL;
    *m = (struct lvn_model_setup){0};
    enum lvn_status status = name ? sizes_of_name(m, s, name) : open_sizes(m, s, model);
    lvn_arena_release(&a);
    LVN_TRY(status);
    bool there = strcmp(s->data.kind, "adder") == 0 || (*s->data.path && lvn_path_exists(s->data.path));
    if (there && open_data(m, s) != LVN_OK) {
        lvn_error_clear();
        m->data = NULL;
    }
    if (!m->config.vocab_size)
        m->config.vocab_size = strcmp(s->data.kind, "chars") == 0 ? USUAL_CHARACTERS : PADDED_GPT2_VOCABULARY;
    return lvn_model_check(&m->config);
}

enum lvn_status lvn_model_setup_open(struct lvn_model_setup *m, const struct lvn_settings *s,
                                     const struct lvn_model *model)
{
    LVN_TRY(open_sizes(m, s, model));
    LVN_TRY(fetch_data(s));
    LVN_TRY(open_data(m, s));
    return lvn_model_check(&m->config);
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
