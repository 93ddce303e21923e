/* api_inference.c - models that a program loads and uses repeatedly: generation, logits, parameters.
 *
 * struct levin_inference is a generator of inference/generation.h, which keeps its weights between calls. See
 * api_evaluation.c for evaluation on data and classification of texts. */

#include "api/api.h"
#include "base/files.h"
#include "inference/chat_generation.h"
#include "inference/continuation.h"
#include "inference/generation.h"
#include "model_io/model_files.h"
#include "model_io/model_find.h"
#include "models/keys.h"
#include "setup/setup.h"

static const char kind[] = "model";

struct levin_inference {
    struct lvn_api_handle handle;
    struct lvn_generator generator;
    struct lvn_model_files files; /* its parameters by their names in files */
    bool has_files;
};

static enum lvn_status settings_of_model(struct levin_settings *s, const char *model)
{
    LVN_LOCAL_ARENA(a);
    const char *dir, *recipe;
    LVN_TRY(lvn_model_find_files(&a, model, "best", &dir));
    if (!(recipe = lvn_path_join(&a, dir, "state/settings.yaml"))) return LVN_MEMORY;
    if (lvn_path_is_file(recipe)) LVN_TRY(lvn_settings_load(s, recipe));
    LVN_TRY(lvn_settings_environment(s));
    LVN_TRY(lvn_settings_set(s, "model.init", dir, LVN_SOURCE_PROGRAM));
    lvn_settings_begun(s);
    return LVN_OK;
}

int levin_settings_model(struct levin_settings *s, const char *model)
{
    LVN_CHECK(model, ARG, "the model is NULL: give a run, a checkpoint, a model directory or a name");
    locale_t before = lvn_api_begin();
    return lvn_api_return(before, settings_of_model(s, model));
}

int levin_inference_open(struct levin_inference **out, struct levin_settings *s)
{
    locale_t before = lvn_api_begin();
    struct levin_inference *m = *out = lvn_calloc(1, sizeof *m);
    struct lvn_model_setup setup = {0};
    if (!m) return lvn_api_return(before, LVN_MEMORY);
    enum lvn_status status = s ? LVN_OK : lvn_fail(LVN_ARG, "the settings are NULL: give those of the model");
    if (status == LVN_OK) status = lvn_settings_finish(s, LVN_USES_MODEL | LVN_USES_DEVICE);
    if (status == LVN_OK) status = lvn_model_setup_loaded(&setup, s);
    if (status == LVN_OK)
        status = lvn_generator_open(&m->generator, &setup, &s->values, NULL, true, false);
    else
        lvn_model_setup_close(&setup);
    if (status == LVN_OK && (status = lvn_api_add(&m->handle, kind, "")) != LVN_OK) lvn_generator_close(&m->generator);
    if (status == LVN_OK) {
        lvn_api_leave(&m->handle);
    } else {
        free(m);
        *out = NULL;
    }
    return lvn_api_return(before, status);
}

int levin_inference_close(struct levin_inference *m)
{
    if (!m) return 0;
    locale_t before = lvn_api_begin();
    enum lvn_status status = lvn_api_enter(lvn_api_handle_of(m), kind, "close");
    if (status != LVN_OK) return lvn_api_return(before, status);
    if (m->has_files) lvn_model_files_release(&m->files);
    lvn_generator_close(&m->generator);
    lvn_api_remove(&m->handle);
    free(m);
    return lvn_api_return(before, LVN_OK);
}

/* Begin a call that reads only constant data; it may run concurrently with other calls. NULL: the handle is closed. */
static struct levin_inference *begin_reading(const struct levin_inference *m)
{
    struct levin_inference *open = (struct levin_inference *)(uintptr_t)m;
    return lvn_api_enter_reader(lvn_api_handle_of(open), kind) == LVN_OK ? open : NULL;
}

int64_t levin_inference_vocab_size(const struct levin_inference *model)
{
    struct levin_inference *m = begin_reading(model);
    const int64_t size = m ? lvn_model_value(&m->generator.setup.config, LVN_ROLE_VOCABULARY) : 0;
    if (m) lvn_api_leave_reader(&m->handle);
    return size;
}

int64_t levin_inference_block_size(const struct levin_inference *model)
{
    struct levin_inference *m = begin_reading(model);
    const int64_t size = m ? m->generator.setup.block_size : 0;
    if (m) lvn_api_leave_reader(&m->handle);
    return size;
}

int levin_inference_classes(const struct levin_inference *model, char **names)
{
    locale_t before = lvn_api_begin();
    struct levin_inference *m = begin_reading(model);
    *names = NULL;
    if (!m) return lvn_api_return(before, LVN_ARG);
    const struct lvn_model_config *c = &m->generator.setup.config;
    enum lvn_status status = lvn_api_class_names(c, lvn_model_predicts(c, LVN_LABEL_CLASS) ? c->classes : 0, names);
    lvn_api_leave_reader(&m->handle);
    return lvn_api_return(before, status);
}

int levin_inference_encode(const struct levin_inference *model, const char *text, int64_t bytes, int32_t **ids,
                           int64_t *n)
{
    locale_t before = lvn_api_begin();
    struct levin_inference *m = begin_reading(model);
    *ids = NULL;
    *n = 0;
    if (!m) return lvn_api_return(before, LVN_ARG);
    enum lvn_status status = lvn_codec_encode(&m->generator.setup.codec, "the text", text, bytes, ids, n);
    lvn_api_leave_reader(&m->handle);
    return lvn_api_return(before, status);
}

static enum lvn_status decode(const struct levin_inference *m, const int32_t *ids, int64_t n, char **text)
{
    const struct lvn_codec *codec = &m->generator.setup.codec;
    const int64_t V = lvn_model_value(&m->generator.setup.config, LVN_ROLE_VOCABULARY);
    struct lvn_codec_stream stream = {0};
    struct lvn_text out = {0};
    for (int64_t i = 0; i < n; i++)
        LVN_CHECK(ids[i] >= 0 && ids[i] < V, ARG, "id %lld, %d, is not a token: the vocabulary has the ids 0 to %lld",
                  (long long)i, (int)ids[i], (long long)V - 1);
    for (int64_t i = 0; i < n; i++) lvn_codec_decode(codec, &stream, ids[i], &out);
    lvn_codec_decode_end(&stream, &out);
    lvn_text_add(&out, "");
    enum lvn_status status = lvn_text_status(&out);
    *text = status == LVN_OK ? lvn_strdup(out.n ? out.p : "") : NULL;
    lvn_text_release(&out);
    return status == LVN_OK && !*text ? LVN_MEMORY : status;
}

int levin_inference_decode(const struct levin_inference *model, const int32_t *ids, int64_t n, char **text)
{
    locale_t before = lvn_api_begin();
    struct levin_inference *m = begin_reading(model);
    *text = NULL;
    if (!m) return lvn_api_return(before, LVN_ARG);
    enum lvn_status status = decode(m, ids, n, text);
    lvn_api_leave_reader(&m->handle);
    return lvn_api_return(before, status);
}

/* --- generation --- */

struct stream {
    struct levin_generation *generation;
    struct lvn_continuation text;
    int64_t displayed; /* bytes of `text` that on_token() has received */
};

/* Pass the text that has become complete since the last call to the program's on_token(). False: end the sample. */
static bool send(struct stream *s, int32_t id)
{
    LVN_LOCAL_TEXT(part);
    lvn_text_add_bytes(&part, s->text.text.p ? s->text.text.p + s->displayed : "", s->text.ready - s->displayed);
    s->displayed = s->text.ready;
    const char *text = lvn_text_string(&part), *before = lvn_api_call_back("on_token");
    const bool more = !text || s->generation->on_token(s->generation->context, id, text) != 0;
    lvn_api_call_back(before);
    return more;
}

static bool on_token(void *context, int32_t id)
{
    struct stream *s = context;
    bool more = lvn_continuation_add(&s->text, id);
    return (!s->generation->on_token || send(s, id)) && more;
}

/* A conversation whose next answer is generated. */
struct conversation {
    struct lvn_arena arena;
    struct lvn_chat *chat;
    struct lvn_chat_encoder *encoder;
    int32_t *ids; /* [n] prompt for the answer */
    int64_t n;
    const char *stop; /* text that ends the answer; "": none */
};

static enum lvn_status open_conversation(struct conversation *t, struct lvn_generator *g,
                                         const struct levin_generation *generation)
{
    const struct lvn_chat_options o = {.chat_template = generation->chat_template, .now = true};
    const int64_t context = g->setup.block_size;
    json_t *row;
    int64_t end;
    LVN_CHECK(!generation->prompt, ARG, "both a prompt and a conversation are given: give one of them");
    LVN_TRY(lvn_generator_open_chat(g, &o, &t->chat, &t->encoder));
    LVN_TRY(lvn_chat_end(t->encoder, &t->arena, &end, &t->stop));
    LVN_TRY(lvn_generator_add_end(g, end));
    LVN_TRY(
        lvn_json_parse("the conversation", generation->conversation, (int64_t)strlen(generation->conversation), &row));
    const enum lvn_status status = lvn_chat_prompt(t->encoder, &t->arena, row, &t->ids, &t->n);
    json_decref(row);
    if (status == LVN_FORMAT) LVN_FAIL(ARG, "the conversation: %s", levin_error_text());
    LVN_TRY(status);
    LVN_CHECK(t->n < context, ARG,
              "the conversation has %lld tokens with the template, and the model's context has %lld: leave out its "
              "first messages",
              (long long)t->n, (long long)context);
    return LVN_OK;
}

static void close_conversation(struct conversation *t)
{
    lvn_chat_encoder_free(t->encoder);
    lvn_chat_close(t->chat);
    lvn_arena_release(&t->arena);
}

/* Run the sample and copy the results. */
static enum lvn_status run_sample(struct levin_inference *m, struct levin_generation *g, struct stream *s,
                                  struct lvn_sample *sample, const struct lvn_choice *choice)
{
    struct lvn_sampling_options o = {.choice = *choice, .seed = (uint64_t)g->seed};
    s->displayed = s->text.prompt_bytes;
    if (g->ignore_eos) m->generator.n_ends = 0;
    enum lvn_status status = lvn_generator_run(&m->generator, sample, 1, &o);
    lvn_continuation_end(&s->text);
    if (status == LVN_OK) status = lvn_text_status(&s->text.text);
    if (status == LVN_OK) {
        g->text = lvn_calloc((size_t)(s->text.ready - s->text.prompt_bytes) + 1, 1);
        g->ids = lvn_malloc(sizeof *g->ids * (size_t)(sample->n_generated + 1));
        if (!g->text || !g->ids) {
            free(g->text);
            free(g->ids);
            g->text = NULL, g->ids = NULL;
            status = LVN_MEMORY;
        }
    }
    if (status == LVN_OK && s->text.ready > s->text.prompt_bytes)
        memcpy(g->text, s->text.text.p + s->text.prompt_bytes, (size_t)(s->text.ready - s->text.prompt_bytes));
    if (status == LVN_OK && sample->n_generated)
        memcpy(g->ids, sample->generated, sizeof *g->ids * (size_t)sample->n_generated);
    g->n_ids = sample->n_generated;
    if (status == LVN_OK && g->on_token && s->text.ready > s->displayed)
        (void)send(s, -1); /* text that on_token() has not received yet */
    return status;
}

/* Set the prompt and the text that ends the answer, from the conversation. */
static enum lvn_status prepare_conversation(struct levin_inference *m, struct levin_generation *g,
                                            struct conversation *conversation, struct stream *s,
                                            struct lvn_sample *sample, struct lvn_choice *choice)
{
    const struct lvn_choice given = *choice;
    LVN_TRY(open_conversation(conversation, &m->generator, g));
    LVN_TRY(lvn_generator_chat_choice(&m->generator, &given, choice));
    const int64_t max_new = lvn_generator_capacity(&m->generator, conversation->n);
    sample->prompt = conversation->ids;
    sample->n = conversation->n;
    if (sample->max > max_new) sample->max = max_new;
    s->text.stops = &conversation->stop;
    s->text.n_stops = *conversation->stop != 0;
    s->text.decoding.started = true;
    return LVN_OK;
}

static enum lvn_status generate(struct levin_inference *m, struct levin_generation *g)
{
    struct stream s = {.generation = g, .text = {.codec = &m->generator.setup.codec}};
    struct lvn_choice choice = {.temperature = g->temperature,
                                .top_k = g->top_k,
                                .top_p = g->top_p,
                                .repetition_penalty = g->repetition_penalty};
    struct lvn_sample sample = {.prompt = g->prompt,
                                .n = g->n_prompt,
                                .number = g->number,
                                .max = g->max_new_tokens,
                                .on_token = on_token,
                                .context = &s};
    struct conversation conversation = {0};
    const int n_ends = m->generator.n_ends;
    enum lvn_status status = LVN_OK;
    lvn_arena_init(&conversation.arena);
    if (g->conversation) {
        status = prepare_conversation(m, g, &conversation, &s, &sample, &choice);
    } else if (!g->prompt || g->n_prompt <= 0) {
        status = lvn_fail(LVN_ARG, "the prompt is empty: give at least one token to continue");
    } else if (g->chat_template) {
        status = lvn_fail(LVN_ARG, "chat_template has an effect only with a conversation");
    } else {
        lvn_continuation_prompt(&s.text, g->prompt, g->n_prompt);
    }
    if (status == LVN_OK) status = run_sample(m, g, &s, &sample, &choice);
    m->generator.n_ends = n_ends;
    lvn_continuation_release(&s.text);
    lvn_sample_release(&sample);
    close_conversation(&conversation);
    return status;
}

int levin_inference_generate(struct levin_inference *m, struct levin_generation *given)
{
    locale_t before = lvn_api_begin();
    struct levin_generation g;
    enum lvn_status status = LVN_API_READ(&g, given, text, levin_generation);
    if (status != LVN_OK) return lvn_api_return(before, status);
    g.ids = NULL;
    g.text = NULL;
    g.n_ids = 0;
    status = lvn_api_enter(lvn_api_handle_of(m), kind, "generate");
    const bool entered = status == LVN_OK;
    if (entered) status = generate(m, &g);
    const enum lvn_status written = LVN_API_WRITE(given, &g, text, levin_generation);
    if (entered) lvn_api_leave(&m->handle);
    return lvn_api_return(before, status == LVN_OK ? written : status);
}

int levin_inference_logits(struct levin_inference *m, const int32_t *ids, int64_t B, int64_t T, const float **logits,
                           int64_t shape[4], int64_t *rank)
{
    locale_t before = lvn_api_begin();
    struct lvn_desc desc = {0};
    enum lvn_status status = lvn_api_enter(lvn_api_handle_of(m), kind, "compute logits");
    if (status != LVN_OK) return lvn_api_return(before, status);
    status = lvn_generator_logits(&m->generator, ids, B, T, logits, &desc);
    *rank = desc.rank;
    for (int i = 0; i < desc.rank && i < 4; i++) shape[i] = desc.dim[i];
    lvn_api_leave(&m->handle);
    return lvn_api_return(before, status);
}

/* --- parameters --- */

static const char reads[] = "read parameters";

static enum lvn_status list_parameters(struct levin_inference *m)
{
    struct lvn_generator *g = &m->generator;
    if (m->has_files) return LVN_OK;
    if (!g->model_state) LVN_TRY(lvn_generator_load(g));
    LVN_TRY(lvn_model_files_make(&m->files, g->setup.pretrained.variant, g->model_state, LVN_PARAMETER_VALUES, true));
    m->has_files = true;
    return LVN_OK;
}

int levin_inference_parameters(struct levin_inference *m, int64_t *n)
{
    locale_t before = lvn_api_begin();
    enum lvn_status status = lvn_api_enter(lvn_api_handle_of(m), kind, reads);
    *n = 0;
    if (status != LVN_OK) return lvn_api_return(before, status);
    status = list_parameters(m);
    if (status == LVN_OK) *n = m->files.source.n;
    lvn_api_leave(&m->handle);
    return lvn_api_return(before, status);
}

static enum lvn_status item_at(struct levin_inference *m, int64_t i, const struct lvn_safetensors_item **item)
{
    LVN_TRY(list_parameters(m));
    LVN_CHECK(i >= 0 && i < m->files.source.n, ARG, "parameter %lld does not exist: indices are 0 to %d", (long long)i,
              m->files.source.n - 1);
    *item = &m->files.source.item[i];
    return LVN_OK;
}

int levin_inference_parameter(struct levin_inference *m, int64_t i, struct levin_parameter *out)
{
    locale_t before = lvn_api_begin();
    const struct lvn_safetensors_item *item;
    enum lvn_status status = lvn_api_enter(lvn_api_handle_of(m), kind, reads);
    if (status != LVN_OK) return lvn_api_return(before, status);
    status = item_at(m, i, &item);
    if (status == LVN_OK) {
        struct levin_parameter filled = {.name = lvn_pretrained_name(&m->generator.setup.pretrained, item->name),
                                         .dtype = item->desc.dtype == LVN_BF16,
                                         .rank = item->desc.rank,
                                         .data = (void *)(uintptr_t)item->data};
        for (int k = 0; k < item->desc.rank; k++) filled.shape[k] = item->desc.dim[k];
        status = LVN_API_WRITE(out, &filled, data, levin_parameter);
    }
    lvn_api_leave(&m->handle);
    return lvn_api_return(before, status);
}

static enum lvn_status copy(struct levin_inference *m, int64_t i, void *to, int64_t bytes)
{
    const struct lvn_safetensors_item *item;
    const void *data;
    LVN_TRY(item_at(m, i, &item));
    const int64_t all = lvn_desc_count(&item->desc) * lvn_dtype_bytes(item->desc.dtype);
    LVN_CHECK(bytes == all, ARG, "'%s' has %lld bytes, but the buffer has %lld; give a buffer of the tensor's size",
              item->name, (long long)all, (long long)bytes);
    data = item->data;
    if (!data) LVN_TRY(m->files.source.fetch(m->files.source.context, (int)i, &data));
    memcpy(to, data, (size_t)bytes);
    return LVN_OK;
}

int levin_inference_copy(struct levin_inference *m, int64_t i, void *to, int64_t bytes)
{
    locale_t before = lvn_api_begin();
    enum lvn_status status = lvn_api_enter(lvn_api_handle_of(m), kind, reads);
    if (status != LVN_OK) return lvn_api_return(before, status);
    status = copy(m, i, to, bytes);
    lvn_api_leave(&m->handle);
    return lvn_api_return(before, status);
}
