/* scoring.c - see scoring.h. */
#include "inference/scoring.h"

#include <stdlib.h>
#include <string.h>

#include "base/work.h"
#include "engine/devices.h"
#include "engine/ranks.h"
#include "engine/session.h"
#include "inference/model_shards.h"
#include "inference/sampler.h"
#include "models/keys.h"
#include "options/choices.h"

/* PIECE: tokens of a row that are run at a time. SHORT: a shorter prefix is run with each sequence, because a run of
 * its own would take longer. */
enum { PIECE = 512, SHORT = 16 };

struct work {
    struct lvn_benchmark_item *item;
    int *order;   /* [item->n] its sequences, the longest first */
    int64_t base; /* tokens that are run once: n_prefix, or 0 */
    int64_t tail; /* tokens of the longest sequence after them */
    int64_t number;
};

/* One run: of each row some tokens, of the prefix or of a sequence. */
struct round {
    struct work *work; /* [rows] of the batch */
    int64_t rows;
    int turn;                        /* index in `order`; -1: the prefixes */
    int64_t from[LVN_DECODE_ROWS];   /* position of the first token */
    int64_t tokens[LVN_DECODE_ROWS]; /* 0: this row has none */
    int length;                      /* index of the planned length */
    bool greedy;
};

struct scorer {
    const struct lvn_scoring_options *o;
    struct lvn_arena arena;
    struct work *work; /* [n] sorted: items of a batch are neighbors */
    int64_t n, n_rows, context;
    struct lvn_model_state *model_state;
    struct lvn_fields fields; /* of the longest rows */
    int64_t length[LVN_LENGTHS];
    int n_lengths;
    bool planned[2][LVN_LENGTHS];
    struct lvn_session *session[2][LVN_LENGTHS]; /* [1]: with logits */
    struct lvn_samples samples[LVN_LENGTHS];
    int64_t runs;   /* of this rank, and those to which sharded parameters force it */
    int64_t tokens; /* of these runs, without padding */
    int64_t cache_length;
};

/* --- items to batches --- */

static int64_t sequence_length(const struct work *w, const struct lvn_benchmark_sequence *sequence)
{
    return w->item->n_prefix - w->base + sequence->n - 1; /* the last token is only predicted */
}

/* Stable: qsort() is not, and lists are short. */
static void sort_sequences(const struct lvn_benchmark_item *item, int *order)
{
    for (int i = 0; i < item->n; i++) {
        int at = i;
        for (; at && item->sequence[order[at - 1]].n < item->sequence[i].n; at--) order[at] = order[at - 1];
        order[at] = i;
    }
}

/* Prefixes of equal planned lengths first, then similar sequences; `number` makes the order total. */
static int by_length(const void *a, const void *b)
{
    const struct work *x = a, *y = b;
    const int64_t keys[][2] = {{x->item->needs_greedy, y->item->needs_greedy},
                               {(x->base + 15) / 16, (y->base + 15) / 16},
                               {x->tail, y->tail},
                               {x->item->n, y->item->n},
                               {x->number, y->number}};
    for (int i = 0; i < 5; i++)
        if (keys[i][0] != keys[i][1]) return keys[i][0] < keys[i][1] ? -1 : 1;
    return 0;
}

static enum lvn_status collect_items(struct scorer *s, struct lvn_benchmarks *b, struct lvn_scoring_counts *counts)
{
    int64_t longest = 1;
    for (int64_t k = 0; k < b->n; k++) counts->items += b->list[k].n;
    s->work = lvn_arena_alloc(&s->arena, sizeof *s->work * (size_t)(counts->items + 1));
    if (!s->work) return LVN_MEMORY;
    for (int64_t k = 0; k < b->n; k++)
        for (int64_t i = 0; i < b->list[k].n; i++) {
            struct lvn_benchmark_item *item = &b->list[k].item[i];
            struct work *w = &s->work[s->n];
            const bool shares = item->n_prefix >= SHORT && (item->n > 1 || item->needs_greedy);
            *w = (struct work){.item = item, .base = shares ? item->n_prefix : 0, .number = s->n++};
            w->order = lvn_arena_alloc(&s->arena, sizeof *w->order * (size_t)(item->n + 1));
            if (!w->order) return LVN_MEMORY;
            sort_sequences(item, w->order);
            if (item->n) w->tail = sequence_length(w, &item->sequence[w->order[0]]);
            if (w->base + w->tail > longest) longest = w->base + w->tail;
            counts->sequences += item->n;
            for (int j = 0; j < item->n; j++) counts->tokens += item->n_prefix + item->sequence[j].n;
        }
    qsort(s->work, (size_t)s->n, sizeof *s->work, by_length);
    s->n_rows = s->n < LVN_DECODE_ROWS ? s->n : LVN_DECODE_ROWS;
    s->cache_length = (longest + 63) / 64 * 64;
    if (s->cache_length > s->context) s->cache_length = s->context;
    return LVN_OK;
}

static bool is_scored(const struct lvn_benchmark_sequence *sequence, int64_t at)
{
    return at >= sequence->n - sequence->scored;
}

/* Completes a round from its rows, and visits it. */
static enum lvn_status visit(struct scorer *s, struct round *round,
                             enum lvn_status (*run)(struct scorer *s, const struct round *round))
{
    int64_t most = 0;
    round->greedy = false;
    for (int64_t r = 0; r < round->rows; r++) {
        if (round->tokens[r] > most) most = round->tokens[r];
        if (round->tokens[r] && round->turn >= 0) round->greedy |= round->work[r].item->needs_greedy;
    }
    round->length = lvn_length_find(s->length, s->n_lengths, most);
    return most ? run(s, round) : LVN_OK;
}

/* The runs of batch i: the prefixes, then one sequence of each item after the other. */
static enum lvn_status walk(struct scorer *s, int64_t i,
                            enum lvn_status (*run)(struct scorer *s, const struct round *round))
{
    struct round round = {.work = s->work + i * s->n_rows, .rows = s->n - i * s->n_rows};
    int64_t turns = 0;
    if (round.rows > s->n_rows) round.rows = s->n_rows;
    for (int64_t r = 0; r < round.rows; r++)
        if (round.work[r].item->n > turns) turns = round.work[r].item->n;
    for (round.turn = -1; round.turn < turns; round.turn++)
        for (int64_t done = 0, left = 1; left > 0; done += PIECE) {
            left = 0;
            for (int64_t r = 0; r < round.rows; r++) {
                const struct work *w = &round.work[r];
                const bool has = round.turn < w->item->n;
                const int64_t all = round.turn < 0 ? w->base
                                    : !has         ? 0
                                                   : sequence_length(w, &w->item->sequence[w->order[round.turn]]);
                const int64_t rest = all > done ? all - done : 0;
                round.from[r] = rest > 0 ? (round.turn < 0 ? 0 : w->base) + done : w->base; /* the caches stay */
                round.tokens[r] = rest < PIECE ? rest : PIECE;
                if (rest - PIECE > left) left = rest - PIECE;
            }
            LVN_TRY(visit(s, &round, run));
        }
    return LVN_OK;
}

static enum lvn_status plan_round(struct scorer *s, const struct round *round)
{
    s->planned[round->greedy][round->length] = true;
    return LVN_OK;
}

static enum lvn_status count_round(struct scorer *s, const struct round *round)
{
    s->runs++;
    for (int64_t r = 0; r < round->rows; r++) s->tokens += round->tokens[r];
    return LVN_OK;
}

static int64_t n_batches(const struct scorer *s)
{
    return s->n ? (s->n + s->n_rows - 1) / s->n_rows : 0;
}

/* --- sessions --- */

static struct lvn_fields fields_of(int64_t T, int64_t V)
{
    const struct lvn_field ids = {
        .name = "ids", .dtype = LVN_I32, .rank = 1, .dim = {T}, .below = V, .tokens = true, .ragged = true};
    struct lvn_field labels = ids;
    labels.name = "labels";
    labels.label = LVN_LABEL_TOKEN;
    labels.tokens = false;
    return (struct lvn_fields){.field = {ids, labels}, .n = 2};
}

static enum lvn_status new_sessions(void *context)
{
    struct scorer *s = context;
    struct lvn_session *first = NULL;
    memset(s->session, 0, sizeof s->session);
    for (int greedy = 0; greedy < 2; greedy++) {
        struct lvn_session *longest = NULL;
        for (int k = s->n_lengths - 1; k >= 0; k--) {
            struct lvn_fields fields = s->fields;
            lvn_fields_set_length(&fields, s->length[k]);
            const struct lvn_session_options o = {.fields = &fields,
                                                  .B = s->n_rows,
                                                  .task = lvn_task_of(LVN_LABEL_TOKEN),
                                                  .prediction = greedy,
                                                  .cache_length = s->cache_length,
                                                  .cache_tokens = s->cache_length,
                                                  .caches = first,
                                                  .longer = longest};
            if (!s->planned[greedy][k]) continue;
            LVN_TRY(lvn_session_new(&s->session[greedy][k], s->model_state, &o));
            if (!first) first = s->session[greedy][k];
            if (!longest) longest = s->session[greedy][k];
        }
    }
    return LVN_OK;
}

static enum lvn_status new_model_state(struct scorer *s)
{
    const struct lvn_values *v = s->o->values;
    const bool fp16 = v->trainer.precision == LVN_TRAINER_PRECISION_16_MIXED;
    int device;
    LVN_TRY(lvn_ranks_device(s->o->ranks, v, &device));
    const struct lvn_model_state_options options = {
        .backend = lvn_backend_find(v->trainer.accelerator),
        .device = device,
        .tf32 = v->trainer.float32_matmul_precision == LVN_TRAINER_FLOAT32_HIGH,
        .real = LVN_F32,
        .precision = fp16 ? LVN_PRECISION_TRUE : lvn_precision_of(v->trainer.precision),
        .quantize = lvn_quantize_of(v->model.quantize),
        .threads = lvn_ranks_threads(s->o->ranks, v->trainer.threads),
        .processes = s->o->ranks->local_size};
    return lvn_model_state_new(&s->model_state, &s->o->setup->config, &options);
}

static enum lvn_status set_up(struct scorer *s, struct lvn_benchmarks *b, struct lvn_scoring_counts *counts)
{
    const struct lvn_model_setup *setup = s->o->setup;
    LVN_TRY(lvn_sampling_possible(&setup->config));
    s->context = setup->block_size;
    s->fields =
        fields_of(s->context < PIECE ? s->context : PIECE, lvn_model_value(&setup->config, LVN_ROLE_VOCABULARY));
    s->n_lengths = lvn_fields_lengths(&s->fields, s->length);
    LVN_TRY(collect_items(s, b, counts));
    for (int64_t i = 0; i < n_batches(s); i++) LVN_TRY(walk(s, i, plan_round));
    for (int64_t i = s->o->ranks->rank; i < n_batches(s); i += s->o->ranks->size) LVN_TRY(walk(s, i, count_round));
    return new_model_state(s);
}

static enum lvn_status allocate(struct scorer *s)
{
    for (int k = 0; k < s->n_lengths; k++) {
        struct lvn_fields fields = s->fields;
        lvn_fields_set_length(&fields, s->length[k]);
        if (s->planned[0][k] || s->planned[1][k]) LVN_TRY(lvn_samples_init(&s->samples[k], &fields, s->n_rows));
    }
    return LVN_OK;
}

/* --- running --- */

static int32_t token_at(const struct lvn_benchmark_item *item, const struct lvn_benchmark_sequence *sequence,
                        int64_t at)
{
    return at < item->n_prefix ? item->prefix[at] : sequence->token[at - item->n_prefix];
}

/* Writes the ids and labels of row r; returns the position of the row's first token. A row that would reach beyond the
 * context begins earlier, with tokens that were run before. */
static int64_t fill_row(const struct scorer *s, const struct round *round, struct lvn_samples *to, int64_t r)
{
    const struct work *w = &round->work[r];
    const struct lvn_benchmark_item *item = w->item;
    const int64_t T = s->length[round->length], end = round->from[r] + round->tokens[r];
    int32_t *ids = (int32_t *)to->p[0] + r * T, *labels = (int32_t *)to->p[1] + r * T;
    const int64_t first = round->from[r] + T > s->context ? s->context - T : round->from[r];
    const bool has = round->turn >= 0 && round->turn < item->n;
    const struct lvn_benchmark_sequence *sequence = has ? &item->sequence[w->order[round->turn]] : NULL;
    lvn_samples_pad(to, r);
    for (int64_t at = first; at < end; at++) {
        const int64_t next = at + 1 - item->n_prefix;
        ids[at - first] = token_at(item, sequence, at);
        if (sequence && at >= round->from[r] && next >= 0 && is_scored(sequence, next))
            labels[at - first] = sequence->token[next];
    }
    return first;
}

static bool is_largest(const float *logits, int64_t n, int32_t id)
{
    for (int64_t v = 0; v < n; v++)
        if (logits[v] > logits[id] || (logits[v] == logits[id] && v < id)) return false;
    return true;
}

static void take_losses(const struct scorer *s, const struct round *round, struct lvn_session *session)
{
    const struct lvn_samples *samples = &s->samples[round->length];
    const int64_t T = s->length[round->length], V = s->fields.field[0].below;
    const float *losses = lvn_session_losses(session), *logits = round->greedy ? lvn_session_prediction(session) : NULL;
    for (int64_t r = 0; r < round->rows && round->turn >= 0; r++) {
        const struct work *w = &round->work[r];
        if (!round->tokens[r]) continue;
        struct lvn_benchmark_sequence *sequence = &w->item->sequence[w->order[round->turn]];
        for (int64_t i = r * T; i < (r + 1) * T; i++) {
            const int32_t label = ((const int32_t *)samples->p[1])[i];
            if (label < 0) continue;
            sequence->log_likelihood -= (double)losses[i];
            if (logits && !is_largest(logits + i * V, V, label)) sequence->greedy = false;
        }
    }
}

static enum lvn_status run_round(struct scorer *s, const struct round *round)
{
    struct lvn_session *session = s->session[round->greedy][round->length];
    struct lvn_samples *samples = &s->samples[round->length];
    LVN_TRY(lvn_interrupt_check());
    session->step_args = (struct lvn_step){.grad_scale = 1.0, .end_row = s->n_rows};
    for (int64_t r = 0; r < s->n_rows; r++)
        if (r < round->rows)
            session->step_args.position[r] = (int32_t)fill_row(s, round, samples, r);
        else
            lvn_samples_pad(samples, r);
    samples->n_valid = s->n_rows;
    s->runs--;
    LVN_TRY(lvn_session_feed(session, 0, samples));
    lvn_session_run(session, 1);
    LVN_TRY(session->status);
    take_losses(s, round, session);
    return LVN_OK;
}

/* Ranks that gather parameters run equally often: one with fewer runs, or whose run failed, runs padding. */
static enum lvn_status run_padding(struct scorer *s)
{
    int k = 0;
    while (!s->session[0][k] && !s->session[1][k]) k++;
    struct lvn_session *session = s->session[0][k] ? s->session[0][k] : s->session[1][k];
    for (int64_t r = 0; r < s->n_rows; r++) lvn_samples_pad(&s->samples[k], r);
    session->step_args = (struct lvn_step){.grad_scale = 1.0};
    LVN_TRY(lvn_session_feed(session, 0, &s->samples[k]));
    for (; s->runs > 0; s->runs--) {
        lvn_session_run(session, 1);
        LVN_TRY(session->status);
    }
    return LVN_OK;
}

static enum lvn_status run_batches(struct scorer *s)
{
    const struct lvn_ranks *ranks = s->o->ranks;
    const int64_t all = n_batches(s);
    enum lvn_status status = LVN_OK;
    for (int64_t i = ranks->rank; i < all && status == LVN_OK; i += ranks->size) {
        for (int64_t r = i * s->n_rows; r < s->n && r < (i + 1) * s->n_rows; r++)
            for (int j = 0; j < s->work[r].item->n; j++) s->work[r].item->sequence[j].greedy = true;
        status = walk(s, i, run_round);
        if (s->o->progress)
            s->o->progress(s->o->context, (i + 1) * s->n_rows < s->n ? (i + 1) * s->n_rows : s->n, s->n);
    }
    if (lvn_parameters_sharded(s->model_state, LVN_PARAMETER_VALUES) && s->runs > 0) {
        lvn_error_save();
        const enum lvn_status padding = run_padding(s);
        if (status != LVN_OK) lvn_error_restore();
        if (status == LVN_OK) status = padding;
    }
    return status;
}

/* --- ranks --- */

/* Of sharded parameters: all ranks run as often as the one with most runs. */
static enum lvn_status level_runs(struct scorer *s)
{
    struct lvn_ranks *ranks = s->o->ranks;
    double *runs = lvn_calloc((size_t)ranks->size, sizeof *runs);
    LVN_TRY(lvn_ranks_agree(ranks, runs ? LVN_OK : LVN_MEMORY));
    runs[ranks->rank] = (double)s->runs;
    enum lvn_status status = lvn_ranks_sum(ranks, runs, ranks->size);
    for (int i = 0; i < ranks->size; i++)
        if (runs[i] > (double)s->runs) s->runs = (int64_t)runs[i];
    free(runs);
    return status;
}

/* Values that a rank has not computed are 0, so the sum is exact. */
static enum lvn_status share_values(struct scorer *s, int64_t n_sequences)
{
    struct lvn_ranks *ranks = s->o->ranks;
    if (ranks->size == 1) return LVN_OK;
    double *x = lvn_malloc(sizeof *x * 2 * (size_t)(n_sequences + 1));
    LVN_TRY(lvn_ranks_agree(ranks, x ? LVN_OK : LVN_MEMORY));
    enum lvn_status status = LVN_OK;
    for (int reads = 0; reads < 2 && status == LVN_OK; reads++) {
        double *at = x;
        for (int64_t i = 0; i < s->n; i++)
            for (int j = 0; j < s->work[i].item->n; j++, at += 2) {
                struct lvn_benchmark_sequence *sequence = &s->work[i].item->sequence[j];
                if (!reads) at[0] = sequence->log_likelihood, at[1] = sequence->greedy;
                if (reads) sequence->log_likelihood = at[0], sequence->greedy = at[1] != 0;
            }
        if (!reads) status = lvn_ranks_sum(ranks, x, at - x);
    }
    free(x);
    return status;
}

static enum lvn_status score(struct scorer *s, struct lvn_benchmarks *b, struct lvn_scoring_counts *counts)
{
    struct lvn_ranks *ranks = s->o->ranks;
    double run;
    LVN_TRY(lvn_ranks_agree(ranks, set_up(s, b, counts)));
    if (!s->n) return LVN_OK;
    LVN_TRY(lvn_model_shards_plan(s->model_state, ranks, s->o->values, new_sessions, s));
    LVN_TRY(lvn_ranks_agree(ranks, allocate(s)));
    LVN_TRY(lvn_model_shards_load(s->model_state, ranks, s->o->values, &s->o->setup->pretrained));
    if (lvn_parameters_sharded(s->model_state, LVN_PARAMETER_VALUES)) LVN_TRY(level_runs(s));
    LVN_TRY(lvn_ranks_agree(ranks, run_batches(s)));
    run = (double)s->tokens;
    LVN_TRY(lvn_ranks_sum(ranks, &run, 1));
    counts->run = (int64_t)run;
    return share_values(s, counts->sequences);
}

enum lvn_status lvn_score(const struct lvn_scoring_options *o, struct lvn_benchmarks *b,
                          struct lvn_scoring_counts *counts)
{
    struct scorer *s = lvn_calloc(1, sizeof *s);
    *counts = (struct lvn_scoring_counts){0};
    LVN_TRY(lvn_ranks_agree(o->ranks, s ? LVN_OK : LVN_MEMORY));
    s->o = o;
    lvn_arena_init(&s->arena);
    enum lvn_status status = score(s, b, counts);
    for (int k = 0; k < LVN_LENGTHS; k++) lvn_samples_release(&s->samples[k]);
    lvn_model_shards_free(s->model_state, o->ranks);
    lvn_arena_release(&s->arena);
    free(s);
    return status;
}
