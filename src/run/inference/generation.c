/* generation.c - see generation.h. */
#include "inference/generation.h"

#include "base/files.h"
#include "base/log.h"
#include "base/text.h"
#include "engine/ranks.h"
#include "formats/json.h"
#include "inference/model_shards.h"
#include "models/keys.h"

/* Read the end tokens from the file `path`, whose text is `text`, or is read if that is NULL. */
static enum lvn_status read_ends(struct lvn_generator *g, const char *path, const char *text)
{
    json_t *root;
    LVN_TRY(text ? lvn_json_parse(path, text, (int64_t)strlen(text), &root) : lvn_json_read(path, &root));
    enum lvn_status status = lvn_json_ints(path, root, "eos_token_id", INT32_MIN, INT32_MAX, &g->ends, &g->n_ends);
    json_decref(root);
    return status;
}

/* Find the end tokens in the first file that has some. A nanoGPT checkpoint is a single file without end tokens. */
static enum lvn_status find_ends(struct lvn_generator *g, const char *model)
{
    const char *kept = g->setup.pretrained.config.kept; /* of a model in a single file: a part of its configuration */
    if (!lvn_path_is_dir(model)) return kept ? read_ends(g, model, kept) : LVN_OK;
    static const char *const files[] = {"generation_config.json", "config.json"};
    LVN_LOCAL_ARENA(a);
    enum lvn_status status = LVN_OK;
    for (int i = 0; i < 2 && status == LVN_OK && !g->n_ends; i++) {
        const char *path = lvn_path_join(&a, model, files[i]);
        if (!path)
            status = LVN_MEMORY;
        else if (lvn_path_is_file(path))
            status = read_ends(g, path, NULL);
    }
    return status;
}

enum lvn_status lvn_generator_open(struct lvn_generator *g, const struct lvn_model_setup *setup,
                                   const struct lvn_values *v, struct lvn_ranks *ranks, bool with_ends,
                                   bool must_generate)
{
    *g = (struct lvn_generator){.values = v, .setup = *setup, .ranks = ranks};
    enum lvn_status status = must_generate ? lvn_sampling_possible(&g->setup.config) : LVN_OK;
    if (status == LVN_OK && with_ends) status = find_ends(g, g->setup.pretrained.path);
    if (status != LVN_OK) lvn_generator_close(g);
    return status;
}

/* Make a model state without sessions, or drop the sessions of the existing one and keep its parameters. */
static enum lvn_status reset_state(struct lvn_generator *g)
{
    lvn_sampler_free(g->sampler);
    g->sampler = NULL;
    g->kept_length = 0;
    if (g->model_state) {
        lvn_model_state_drop_sessions(g->model_state);
        return LVN_OK;
    }
    return lvn_model_shards_new(&g->model_state, &g->setup, g->values, g->ranks, false);
}

/* Allocate what the sessions need, and load the weights if that was not done. */
static enum lvn_status allocate(struct lvn_generator *g)
{
    const bool loaded = lvn_parameters_allocated(g->model_state);
    enum lvn_status status = lvn_model_shards_load(g->model_state, g->ranks, g->values, &g->setup.pretrained);
    if (status != LVN_OK && !loaded) { /* the next call starts from scratch */
        lvn_model_shards_free(g->model_state, g->ranks);
        g->model_state = NULL;
    }
    return status;
}

enum lvn_status lvn_generator_load(struct lvn_generator *g)
{
    LVN_TRY(reset_state(g));
    return allocate(g);
}

/* The sizes of a generation. rows: one per sample; length: tokens in the caches. */
struct plan {
    struct lvn_generator *g;
    int64_t rows, length;
};

static enum lvn_status make_sampler(void *context)
{
    const struct plan *p = context;
    struct lvn_generator *g = p->g;
    lvn_sampler_free(g->sampler);
    g->sampler = NULL;
    return lvn_sampler_new(&g->sampler, g->model_state, g->setup.block_size, p->rows, p->length);
}

/* Check the samples, and set p->length to the tokens that the caches must hold. */
static enum lvn_status check_samples(struct lvn_generator *g, const struct lvn_sample *samples,
                                     const struct lvn_choice *choice, struct plan *p)
{
    struct lvn_model_setup *m = &g->setup;
    LVN_TRY(lvn_sampling_possible(&m->config));
    LVN_TRY(lvn_choice_check(choice));
    for (int64_t i = 0; i < p->rows; i++) {
        LVN_TRY(lvn_sampling_check(m->config.model, m->block_size, &samples[i]));
        if (samples[i].n + samples[i].max - 1 > p->length) p->length = samples[i].n + samples[i].max - 1;
    }
    return LVN_OK;
}

static enum lvn_status check_and_reset(struct lvn_generator *g, const struct lvn_sample *samples,
                                       const struct lvn_choice *choice, struct plan *p)
{
    LVN_TRY(check_samples(g, samples, choice, p));
    return reset_state(g);
}

/* Refuse ranks that would all generate the same text. The result is the same on all ranks, but must be agreed on,
 * because each rank would wait to see whether another reports it. */
static enum lvn_status check_strategy(const struct lvn_generator *g)
{
    char word[LVN_VALUE_TEXT];
    LVN_CHECK(
        !g->ranks || g->ranks->size == 1 || lvn_parameters_sharded(g->model_state, LVN_PARAMETER_VALUES), ARG,
        "with trainer.strategy %s each of %d ranks has the whole model here, and all would generate the same text; "
        "start one rank%s",
        lvn_value_text(g->values, LVN_OPT_trainer_strategy, word), g->ranks->size,
        g->model_state->params->packed_bytes ? "" : ", or use fsdp, which shards the parameters");
    return LVN_OK;
}

enum lvn_status lvn_generator_run(struct lvn_generator *g, struct lvn_sample *samples, int64_t n,
                                  struct lvn_sampling_options *o)
{
    struct plan p = {g, n, 1};
    o->ends = g->ends;
    o->n_ends = g->n_ends;
    o->ranks = g->ranks;
    LVN_TRY(lvn_ranks_agree(g->ranks, check_and_reset(g, samples, &o->choice, &p)));
    LVN_TRY(lvn_model_shards_plan(g->model_state, g->ranks, g->values, make_sampler, &p));
    LVN_TRY(lvn_ranks_agree(g->ranks, check_strategy(g)));
    LVN_TRY(allocate(g));
    return lvn_sampler_run(g->sampler, samples, n, o);
}

/* Make a sampler of one row with caches of p->length tokens. */
static enum lvn_status make_longer(struct lvn_generator *g, struct plan *p)
{
    LVN_TRY(reset_state(g));
    LVN_TRY(lvn_model_shards_plan(g->model_state, NULL, g->values, make_sampler, p));
    return allocate(g);
}

enum lvn_status lvn_generator_continue(struct lvn_generator *g, struct lvn_sample *sample,
                                       struct lvn_sampling_options *o)
{
    enum { SHORTEST = 2048 }; /* tokens for which caches are allocated first; then twice what is needed */
    const int64_t need = sample->n + sample->max - 1, context = g->setup.block_size;
    struct plan p = {g, 1, need < SHORTEST ? SHORTEST : 2 * need};
    o->ends = g->ends;
    o->n_ends = g->n_ends;
    o->continues = true;
    if (p.length > context) p.length = context;
    if (!g->kept_length || (need > g->kept_length && g->kept_length < context)) {
        struct lvn_kept_text text = {0};
        LVN_TRY(check_samples(g, sample, &o->choice, &p));
        if (g->kept_length) lvn_sampler_take_text(g->sampler, &text);
        enum lvn_status status = make_longer(g, &p);
        if (status == LVN_MEMORY && text.n) { /* there is no room beside the old caches: their text is run again */
            lvn_error_clear();
            lvn_kept_text_release(&text);
            status = make_longer(g, &p);
        }
        if (status == LVN_OK && text.n) status = lvn_sampler_give_text(g->sampler, &text);
        lvn_kept_text_release(&text);
        LVN_TRY(status);
        g->kept_length = p.length;
    }
    return lvn_sampler_run(g->sampler, sample, 1, o);
}

/* Warn of members of generation_config.json that change what transformers generates and that levin ignores, with the
 * values that have no effect. */
static void report_unread(const char *path, const json_t *root)
{
    static const struct {
        const char *name;
        double neutral;
    } members[] = {{"min_p", 0},
                   {"typical_p", 1},
                   {"epsilon_cutoff", 0},
                   {"eta_cutoff", 0},
                   {"no_repeat_ngram_size", 0},
                   {"min_length", 0},
                   {"min_new_tokens", 0},
                   {"num_beams", 1},
                   {"guidance_scale", 1},
                   {"penalty_alpha", 0},
                   {"bad_words_ids", 0},
                   {"suppress_tokens", 0},
                   {"begin_suppress_tokens", 0},
                   {"forced_bos_token_id", -1},
                   {"forced_eos_token_id", -1},
                   {"sequence_bias", 0},
                   {"exponential_decay_length_penalty", 0},
                   {"stop_strings", 0}};
    char list[512] = "";
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        const json_t *one = json_object_get(root, members[i].name);
        const bool given = json_is_number(one) ? json_number_value(one) != members[i].neutral
                                               : json_is_string(one) || json_array_size(one) || json_object_size(one);
        if (given) lvn_print_append(list, sizeof list, "%s%s", *list ? ", " : "", members[i].name);
    }
    if (*list) lvn_log_once(LVN_LOG_WARN, "'%s': levin ignores %s; transformers would choose other tokens", path, list);
}

enum lvn_status lvn_generator_choice(const struct lvn_generator *g, struct lvn_choice *out, const char **why_greedy)
{
    static const char *const sampled[] = {"temperature", "top_p", "top_k"};
    LVN_LOCAL_ARENA(a);
    const char *path = lvn_path_join(&a, g->setup.pretrained.path, "generation_config.json");
    bool samples = false;
    json_t *root;
    *why_greedy = "; the model has no generation_config.json";
    *out = (struct lvn_choice){.temperature = 1, .top_k = 50, .top_p = 1, .repetition_penalty = 1};
    if (!path) return LVN_MEMORY;
    if (lvn_path_is_file(path)) {
        LVN_TRY(lvn_json_read(path, &root));
        const bool given = json_is_boolean(json_object_get(root, "do_sample"));
        *why_greedy = given ? ", as generation_config.json says" : "; generation_config.json has no do_sample";
        for (int i = 0; i < 3 && !given; i++)
            if (json_is_number(json_object_get(root, sampled[i])))
                *why_greedy =
                    "; temperature, top_k and top_p in generation_config.json are not used, because it has no "
                    "do_sample";
        enum lvn_status status = lvn_json_bool(path, root, "do_sample", false, &samples);
        if (status == LVN_OK) status = lvn_json_real(path, root, "temperature", false, &out->temperature);
        if (status == LVN_OK) status = lvn_json_int(path, root, "top_k", false, 0, 1 << 30, &out->top_k);
        if (status == LVN_OK) status = lvn_json_real(path, root, "top_p", false, &out->top_p);
        if (status == LVN_OK) status = lvn_json_real(path, root, "repetition_penalty", false, &out->repetition_penalty);
        if (status == LVN_OK) report_unread(path, root);
        if (samples && out->top_p == 0) { /* keeps one token in transformers */
            samples = false;
            *why_greedy = ", as top_p 0 of generation_config.json says";
        }
        json_decref(root);
        LVN_TRY(status);
        LVN_TRY_WHILE(lvn_choice_check(out), "reading '%s'", path);
    }
    if (!samples) out->temperature = 0;
    return LVN_OK;
}

enum lvn_status lvn_generator_add_end(struct lvn_generator *g, int64_t id)
{
    for (int i = 0; i < g->n_ends; i++)
        if (g->ends[i] == id) return LVN_OK;
    if (id < 0) return LVN_OK;
    int64_t *more = lvn_realloc(g->ends, ((size_t)g->n_ends + 1) * sizeof *more);
    if (!more) return LVN_MEMORY;
    g->ends = more;
    g->ends[g->n_ends++] = id;
    return LVN_OK;
}

/* Describe the model's inputs for rows of T tokens. */
static enum lvn_status fields_of(const struct lvn_generator *g, int64_t T, struct lvn_fields *out)
{
    const struct lvn_model_config *c = &g->setup.config;
    const int64_t V = lvn_model_value(c, LVN_ROLE_VOCABULARY);
    bool ids = false;
    *out = (struct lvn_fields){0};
    for (const struct lvn_field *f = lvn_model_inputs(c); f->name; f++) {
        const bool is_ids = !strcmp(f->name, "ids"), is_length = !strcmp(f->name, "length");
        LVN_CHECK(is_ids || is_length || !strcmp(f->name, "types"), UNSUPPORTED,
                  "a %s reads '%s', but logits are only supported for token ids", c->model->name, f->name);
        struct lvn_field *to = &out->field[out->n++];
        *to = *f;
        to->below = is_ids ? V : is_length ? T + 1 : 2;
        if (to->rank) to->dim[0] = T;
        to->tokens = is_ids;
        ids |= is_ids;
    }
    LVN_CHECK(ids, UNSUPPORTED, "a %s reads no token ids", c->model->name);
    return LVN_OK;
}

static enum lvn_status check_ids(const struct lvn_generator *g, const int32_t *ids, int64_t B, int64_t T)
{
    const int64_t V = lvn_model_value(&g->setup.config, LVN_ROLE_VOCABULARY);
    LVN_CHECK(B >= 1 && T >= 1 && T <= g->setup.block_size, ARG,
              "ids have shape (%lld, %lld); expected at least one row of 1 to %lld tokens (model.block_size)",
              (long long)B, (long long)T, (long long)g->setup.block_size);
    for (int64_t i = 0; i < B * T; i++)
        LVN_CHECK(ids[i] >= 0 && ids[i] < V, ARG,
                  "ids: token %lld of row %lld is %d, but the vocabulary has the ids 0 to %lld", (long long)(i % T),
                  (long long)(i / T), (int)ids[i], (long long)V - 1);
    return LVN_OK;
}

enum lvn_status lvn_generator_logits(struct lvn_generator *g, const int32_t *ids, int64_t B, int64_t T,
                                     const float **prediction, struct lvn_desc *shape)
{
    struct lvn_fields fields;
    struct lvn_session *session;
    struct lvn_samples batch;
    LVN_TRY(fields_of(g, T, &fields));
    LVN_TRY(check_ids(g, ids, B, T));
    LVN_TRY(reset_state(g));
    const struct lvn_session_options options = {.fields = &fields, .B = B, .n_micro_batches = 1, .prediction = true};
    LVN_TRY(lvn_session_new(&session, g->model_state, &options));
    LVN_TRY(allocate(g));
    LVN_TRY(lvn_samples_init(&batch, &fields, B));
    batch.n_valid = B;
    for (int k = 0; k < fields.n; k++) {
        int32_t *to = batch.p[k];
        const bool is_ids = !strcmp(fields.field[k].name, "ids");
        for (int64_t i = 0; i < B * lvn_field_count(&fields.field[k]); i++)
            to[i] = is_ids ? ids[i] : fields.field[k].rank ? 0 : (int32_t)T;
    }
    enum lvn_status status = lvn_session_feed(session, 0, &batch);
    lvn_samples_release(&batch);
    LVN_TRY(status);
    session->step_args = (struct lvn_step){.grad_scale = 1.0, .end_row = B};
    lvn_session_run(session, 1);
    LVN_TRY(session->status);
    *prediction = lvn_session_prediction(session);
    *shape = session->outputs.prediction->desc;
    return LVN_OK;
}

int64_t lvn_generator_capacity(const struct lvn_generator *g, int64_t n)
{
    return lvn_sampling_capacity(g->setup.config.model, g->setup.block_size, n);
}

void lvn_generator_close(struct lvn_generator *g)
{
    lvn_sampler_free(g->sampler);
    lvn_model_shards_free(g->model_state, g->ranks);
    lvn_model_setup_close(&g->setup);
    free(g->ends);
    *g = (struct lvn_generator){0};
}
