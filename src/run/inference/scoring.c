/* scoring.c - see scoring.h. */
#include "inference/scoring.h"

#include "base/work.h"
#include "engine/ranks.h"
#include "engine/session.h"
#include "inference/model_shards.h"
#include "models/keys.h"

/* ROW: tokens of a run, unless a single sequence is longer. SHARED: tokens that items must have in common to share
 * them. SELECTED: tokens of a run whose logits are stored, because the most probable token is needed. OPEN: rows that
 * may get further items. STEPS: lengths of rows. */
enum { ROW = 2048, SHARED = 32, SELECTED = 256, OPEN = 64, STEPS = 8 };

/* Sequences of an item in one row: its prefix, then the other tokens of each sequence. */
struct unit {
    const struct lvn_benchmark_item *item;
    int first, n;   /* its sequences [first, first + n) */
    int64_t prefix; /* tokens with which all sequences of the item begin */
    int64_t tails;  /* tokens after them, of all sequences of the unit; the last token of each is only predicted */
    int64_t scored; /* tokens */
    int64_t number;
};

/* Neighboring units that share their first tokens. */
struct cluster {
    int64_t first, n; /* units [first, first + n) */
    int64_t shared;   /* tokens that are run once; 0 for a single unit */
    int64_t tokens;   /* that are run, with the shared ones */
    int64_t scored;
    int64_t next; /* in the same row; -1: none */
};

/* The tokens of one run. */
struct row {
    int64_t first, last; /* list of clusters */
    int64_t tokens, scored;
    bool greedy;
};

struct scorer {
    const struct lvn_scoring_options *o;
    struct lvn_arena arena;
    struct unit *unit; /* [n_units] sorted: units that share tokens are neighbors */
    struct cluster *cluster;
    struct row *row;
    int64_t n_units, n_clusters, n_rows;
    bool shares;     /* the device supports hidden ranges */
    int64_t length;  /* tokens of the longest row */
    int64_t step;    /* lengths are multiples of it */
    int64_t most[2]; /* maximum number of selected tokens of a row, without and with logits */
    struct lvn_model_state *model_state;
    bool planned[2][STEPS];
    struct lvn_session *session[2][STEPS]; /* [1]: with logits */
    struct lvn_samples samples[2][STEPS];
    int64_t runs;   /* left; with sharded parameters every rank starts with the maximum over ranks */
    int64_t tokens; /* of this rank's rows, without padding */
};

/* --- items to units --- */

static int64_t at_least(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t round_up(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

/* Return the number of tokens (0 or 1) with which all sequences of the item begin, and which are therefore run as part
 * of the prefix. The first token of a sequence is never scored (benchmark.h). */
static int shared_first(const struct lvn_benchmark_item *item)
{
    for (int i = 1; i < item->n; i++)
        if (item->sequence[i].token[0] != item->sequence[0].token[0]) return 0;
    return 1;
}

static int32_t prefix_token(const struct unit *u, int64_t at)
{
    const struct lvn_benchmark_item *item = u->item;
    return at < item->n_prefix ? item->prefix[at] : item->sequence[u->first].token[0];
}

/* Number of tokens of a sequence that are run after the prefix: 0 for a sequence with which all others of the item
 * begin. */
static int64_t tail_of(const struct unit *u, const struct lvn_benchmark_sequence *sequence)
{
    return at_least(u->item->n_prefix + sequence->n - 1 - u->prefix, 0);
}

static int64_t common(const struct unit *a, const struct unit *b)
{
    int64_t n = 0;
    while (n < a->prefix && n < b->prefix && prefix_token(a, n) == prefix_token(b, n)) n++;
    return n;
}

/* By their tokens; `number` makes the order total. */
static int by_tokens(const void *a, const void *b)
{
    const struct unit *x = a, *y = b;
    if (x->item->needs_greedy != y->item->needs_greedy) return x->item->needs_greedy ? 1 : -1;
    const int64_t n = common(x, y);
    if (n < x->prefix && n < y->prefix) return prefix_token(x, n) < prefix_token(y, n) ? -1 : 1;
    if (x->prefix != y->prefix) return x->prefix < y->prefix ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

static int64_t longest_of(const struct lvn_benchmarks *b)
{
    int64_t longest = ROW;
    for (int64_t k = 0; k < b->n; k++)
        for (int64_t i = 0; i < b->list[k].n; i++)
            for (int j = 0; j < b->list[k].item[i].n; j++)
                longest = at_least(longest, b->list[k].item[i].n_prefix + b->list[k].item[i].sequence[j].n);
    return longest;
}

/* Units of an item: its sequences, as many as fit into a row. */
static void add_units(struct scorer *s, struct lvn_benchmark_item *item)
{
    struct unit *u = NULL;
    const int n_shared = item->n ? shared_first(item) : 0;
    for (int j = 0; j < item->n; j++) {
        const struct lvn_benchmark_sequence *sequence = &item->sequence[j];
        if (!u || !s->shares || u->prefix + u->tails + tail_of(u, sequence) > s->length) {
            u = &s->unit[s->n_units];
            *u = (struct unit){.item = item, .first = j, .prefix = item->n_prefix + n_shared, .number = s->n_units++};
        }
        u->n++;
        u->tails += tail_of(u, sequence);
        u->scored += sequence->scored;
    }
}

static enum lvn_status collect_units(struct scorer *s, struct lvn_benchmarks *b, struct lvn_scoring_counts *counts)
{
    for (int64_t k = 0; k < b->n; k++)
        for (int64_t i = 0; i < b->list[k].n; i++) {
            const struct lvn_benchmark_item *item = &b->list[k].item[i];
            counts->items++;
            counts->sequences += item->n;
            for (int j = 0; j < item->n; j++) counts->tokens += item->n_prefix + item->sequence[j].n;
        }
    s->unit = lvn_arena_alloc(&s->arena, sizeof *s->unit * (size_t)(counts->sequences + 1));
    s->cluster = lvn_arena_alloc(&s->arena, sizeof *s->cluster * (size_t)(counts->sequences + 1));
    s->row = lvn_arena_alloc(&s->arena, sizeof *s->row * (size_t)(counts->sequences + 1));
    if (!s->unit || !s->cluster || !s->row) return LVN_MEMORY;
    s->length = longest_of(b);
    for (int64_t k = 0; k < b->n; k++)
        for (int64_t i = 0; i < b->list[k].n; i++) add_units(s, &b->list[k].item[i]);
    qsort(s->unit, (size_t)s->n_units, sizeof *s->unit, by_tokens);
    return LVN_OK;
}

/* --- units to rows --- */

/* Add unit i to the cluster of the unit before it, if this saves tokens and the row has room. */
static bool try_join(const struct scorer *s, struct cluster *c, int64_t i)
{
    const struct unit *u = &s->unit[i], *before = &s->unit[i - 1];
    const int64_t n = common(before, u), shared = c->n == 1 ? n : c->shared;
    if (!s->shares || shared < SHARED || n < shared || u->item->needs_greedy != before->item->needs_greedy)
        return false;
    if (c->tokens + u->prefix - shared + u->tails > s->length) return false;
    if (u->item->needs_greedy && c->scored + u->scored > SELECTED) return false;
    c->n++;
    c->shared = shared;
    c->tokens += u->prefix - shared + u->tails;
    c->scored += u->scored;
    return true;
}

static void make_clusters(struct scorer *s)
{
    for (int64_t i = 0; i < s->n_units; i++) {
        const struct unit *u = &s->unit[i];
        if (i && try_join(s, &s->cluster[s->n_clusters - 1], i)) continue;
        s->cluster[s->n_clusters++] =
            (struct cluster){.first = i, .n = 1, .tokens = u->prefix + u->tails, .scored = u->scored, .next = -1};
    }
}

static bool is_greedy(const struct scorer *s, const struct cluster *c)
{
    return s->unit[c->first].item->needs_greedy;
}

/* Add a cluster to the first of the last rows with room for it, or else to a new row. */
static void place(struct scorer *s, int64_t i)
{
    const struct cluster *c = &s->cluster[i];
    const bool greedy = is_greedy(s, c);
    int64_t r = s->n_rows > OPEN ? s->n_rows - OPEN : 0;
    for (; r < s->n_rows; r++) {
        const struct row *row = &s->row[r];
        if (row->greedy == greedy && row->tokens + c->tokens <= s->length &&
            (!greedy || row->scored + c->scored <= SELECTED))
            break;
    }
    struct row *row = &s->row[r];
    if (r == s->n_rows)
        s->row[s->n_rows++] = (struct row){.first = i, .greedy = greedy};
    else
        s->cluster[row->last].next = i;
    row->last = i;
    row->tokens += c->tokens;
    row->scored += c->scored;
}

/* The longest clusters first, so that short ones fill the rows. */
static int by_size(const void *a, const void *b)
{
    const struct cluster *x = a, *y = b;
    if (x->tokens != y->tokens) return x->tokens > y->tokens ? -1 : 1;
    return x->first < y->first ? -1 : x->first > y->first;
}

static int length_index(const struct scorer *s, const struct row *row)
{
    return (int)((row->tokens - 1) / s->step);
}

static void make_rows(struct scorer *s)
{
    int64_t longest = 1;
    qsort(s->cluster, (size_t)s->n_clusters, sizeof *s->cluster, by_size);
    for (int64_t i = 0; i < s->n_clusters; i++) place(s, i);
    for (int64_t r = 0; r < s->n_rows; r++) {
        longest = at_least(longest, s->row[r].tokens);
        s->most[s->row[r].greedy] = at_least(s->most[s->row[r].greedy], s->row[r].scored);
    }
    s->step = round_up(longest, 16 * STEPS) / STEPS;
    for (int64_t r = 0; r < s->n_rows; r++) s->planned[s->row[r].greedy][length_index(s, &s->row[r])] = true;
    for (int64_t r = s->o->ranks->rank; r < s->n_rows; r += s->o->ranks->size) {
        s->runs++;
        s->tokens += s->row[r].tokens;
    }
}

/* --- sessions --- */

enum { IDS, LABELS, ROW_SEGMENTS, ROW_SELECTED, ROW_HIDDEN };

/* Return the fields of a row with length index k. */
static struct lvn_fields fields_of(const struct scorer *s, bool greedy, int k)
{
    const int64_t V = lvn_model_value(&s->o->setup->config, LVN_ROLE_VOCABULARY), T = (k + 1) * s->step;
    const int64_t N = round_up(s->most[greedy], 16) + 1; /* odd, so it is not the number of tokens of a row */
    struct lvn_fields f = {
        .field = {{.name = "ids", .dtype = LVN_I32, .rank = 1, .dim = {T}, .below = V, .tokens = true},
                  {.name = "labels", .dtype = LVN_I32, .rank = 1, .dim = {N}, .below = V, .label = LVN_LABEL_TOKEN},
                  {.name = LVN_SEGMENTS, .dtype = LVN_I32, .rank = 1, .dim = {T}},
                  {.name = LVN_SELECTED, .dtype = LVN_I32, .rank = 1, .dim = {N}, .below = T},
                  {.name = LVN_HIDDEN, .dtype = LVN_I32, .rank = 2, .dim = {T, 2 * LVN_HIDDEN_RANGES}}},
        .n = s->shares ? 5 : 4};
    return f;
}

static enum lvn_status new_sessions(void *context)
{
    struct scorer *s = context;
    memset(s->session, 0, sizeof s->session);
    for (int greedy = 0; greedy < 2; greedy++) {
        struct lvn_session *longest = NULL;
        for (int k = STEPS - 1; k >= 0; k--) {
            const struct lvn_fields fields = fields_of(s, greedy, k);
            const struct lvn_session_options o = {.fields = &fields,
                                                  .B = 1,
                                                  .task = lvn_task_of(LVN_LABEL_TOKEN),
                                                  .prediction = greedy,
                                                  .longer = longest};
            if (!s->planned[greedy][k]) continue;
            LVN_TRY(lvn_session_new(&s->session[greedy][k], s->model_state, &o));
            if (!longest) longest = s->session[greedy][k];
        }
    }
    return LVN_OK;
}

static enum lvn_status read_tasks(struct scorer *s, struct lvn_benchmarks *b)
{
    const struct lvn_scoring_options *o = s->o;
    const struct lvn_codec codec = lvn_model_setup_codec(o->setup);
    const struct lvn_benchmark_options options = {.codec = &codec,
                                                  .model = o->values->model.init,
                                                  .context = s->o->setup->block_size,
                                                  .limit = o->limit,
                                                  .n_fewshot = o->n_fewshot};
    for (int i = 0; i < o->tasks->n; i++) LVN_TRY(lvn_benchmarks_read(b, &options, o->tasks->text[i]));
    return LVN_OK;
}

static enum lvn_status set_up(struct scorer *s, struct lvn_benchmarks *b, struct lvn_scoring_counts *counts)
{
    const struct lvn_model_config *config = &s->o->setup->config;
    LVN_CHECK(config->model->generates && !lvn_model_predicts_samples(config), UNSUPPORTED,
              "tasks are scored by the probabilities of tokens, which this %s does not predict; give a language model",
              config->model->name);
    LVN_TRY(read_tasks(s, b));
    s->shares = lvn_backend_find(s->o->values->trainer.accelerator)->hides;
    LVN_TRY(collect_units(s, b, counts));
    make_clusters(s);
    make_rows(s);
    return lvn_model_shards_new(&s->model_state, s->o->setup, s->o->values, s->o->ranks, true);
}

static enum lvn_status allocate(struct scorer *s)
{
    for (int greedy = 0; greedy < 2; greedy++)
        for (int k = 0; k < STEPS; k++) {
            const struct lvn_fields fields = fields_of(s, greedy, k);
            if (s->planned[greedy][k]) LVN_TRY(lvn_samples_init(&s->samples[greedy][k], &fields, 1));
        }
    return LVN_OK;
}

/* --- running --- */

/* A row while its samples are written, or its results are read. */
struct cursor {
    int32_t *p[LVN_MAX_FIELDS];
    int64_t at;       /* tokens so far */
    int64_t selected; /* tokens so far that are selected */
};

/* Add a token at `position` of its document. Ranges of earlier tokens that are hidden from it: [a, a_end), and
 * [b, b_end). */
static void add_token(struct cursor *c, int32_t id, int64_t position, int64_t a, int64_t a_end, int64_t b,
                      int64_t b_end)
{
    c->p[IDS][c->at] = id;
    c->p[ROW_SEGMENTS][c->at] = (int32_t)(c->at - position);
    if (c->p[ROW_HIDDEN]) {
        const int32_t hidden[2 * LVN_HIDDEN_RANGES] = {a < a_end ? (int32_t)a : 0, a < a_end ? (int32_t)a_end : 0,
                                                       b < b_end ? (int32_t)b : 0, b < b_end ? (int32_t)b_end : 0};
        memcpy(c->p[ROW_HIDDEN] + c->at * 2 * LVN_HIDDEN_RANGES, hidden, sizeof hidden);
    }
    c->at++;
}

/* Add a sequence's scored tokens as labels of the tokens before them: `tail` is the first token after the prefix,
 * whose last token is `last`. */
static void add_labels(struct cursor *c, const struct unit *u, const struct lvn_benchmark_sequence *sequence,
                       int64_t last, int64_t tail)
{
    const int64_t n_shared = u->prefix - u->item->n_prefix;
    for (int64_t i = sequence->n - sequence->scored; i < sequence->n; i++, c->selected++) {
        c->p[LABELS][c->selected] = sequence->token[i];
        c->p[ROW_SELECTED][c->selected] = (int32_t)(i - 1 < n_shared ? last : tail + i - 1 - n_shared);
    }
}

/* Add a unit after the `shared` tokens at `begin`. */
static void add_unit(struct cursor *c, const struct unit *u, int64_t begin, int64_t shared)
{
    const int64_t own = c->at, after = begin + shared, n_shared = u->prefix - u->item->n_prefix;
    for (int64_t at = shared; at < u->prefix; at++) add_token(c, prefix_token(u, at), at, after, own, 0, 0);
    const int64_t tails = c->at, last = tails > own ? tails - 1 : after - 1;
    for (int j = u->first; j < u->first + u->n; j++) {
        const struct lvn_benchmark_sequence *sequence = &u->item->sequence[j];
        const int64_t tail = c->at;
        for (int64_t i = n_shared; i < sequence->n - 1; i++)
            add_token(c, sequence->token[i], u->prefix + i - n_shared, after, own, tails, tail);
        add_labels(c, u, sequence, last, tail);
    }
}

static void fill(const struct scorer *s, const struct row *row, struct lvn_samples *to)
{
    struct cursor c = {0};
    for (int k = 0; k < to->fields.n; k++) c.p[k] = to->p[k];
    lvn_samples_pad(to, 0);
    for (int64_t i = row->first; i >= 0; i = s->cluster[i].next) {
        const struct cluster *cluster = &s->cluster[i];
        const int64_t begin = c.at;
        for (int64_t at = 0; at < cluster->shared; at++)
            add_token(&c, prefix_token(&s->unit[cluster->first], at), at, 0, 0, 0, 0);
        for (int64_t k = 0; k < cluster->n; k++) add_unit(&c, &s->unit[cluster->first + k], begin, cluster->shared);
    }
    for (const int64_t T = lvn_field_count(&to->fields.field[IDS]); c.at < T;) add_token(&c, 0, 0, 0, 0, 0, 0);
}

static bool is_largest(const float *logits, int64_t n, int32_t id)
{
    for (int64_t v = 0; v < n; v++)
        if (logits[v] > logits[id] || (logits[v] == logits[id] && v < id)) return false;
    return true;
}

static void add_losses(const struct scorer *s, const struct row *row, struct lvn_session *session)
{
    const int64_t V = lvn_model_value(&s->o->setup->config, LVN_ROLE_VOCABULARY);
    const float *loss = lvn_session_losses(session), *logits = row->greedy ? lvn_session_prediction(session) : NULL;
    for (int64_t i = row->first; i >= 0; i = s->cluster[i].next)
        for (int64_t k = 0; k < s->cluster[i].n; k++) {
            const struct unit *u = &s->unit[s->cluster[i].first + k];
            for (int j = u->first; j < u->first + u->n; j++) {
                struct lvn_benchmark_sequence *sequence = &u->item->sequence[j];
                sequence->greedy = true;
                for (int64_t t = sequence->n - sequence->scored; t < sequence->n; t++, loss++) {
                    sequence->log_likelihood -= (double)*loss;
                    if (logits && !is_largest(logits, V, sequence->token[t])) sequence->greedy = false;
                    if (logits) logits += V;
                }
            }
        }
}

static enum lvn_status run_row(struct scorer *s, const struct row *row)
{
    const int k = length_index(s, row);
    struct lvn_session *session = s->session[row->greedy][k];
    struct lvn_samples *samples = &s->samples[row->greedy][k];
    LVN_TRY(lvn_interrupt_check());
    session->step_args = (struct lvn_step){.grad_scale = 1.0};
    fill(s, row, samples);
    samples->n_valid = 1;
    LVN_TRY(lvn_session_feed(session, 0, samples));
    s->runs--;
    lvn_session_run(session, 1);
    LVN_TRY(session->status);
    add_losses(s, row, session);
    return LVN_OK;
}

/* Run padding. Ranks that gather parameters must make the same number of runs, even if a rank has fewer rows, or its
 * run failed. */
static enum lvn_status run_padding(struct scorer *s)
{
    int k = 0;
    while (!s->session[0][k] && !s->session[1][k]) k++;
    const bool greedy = !s->session[0][k];
    struct lvn_session *session = s->session[greedy][k];
    const struct row none = {.first = -1};
    fill(s, &none, &s->samples[greedy][k]);
    session->step_args = (struct lvn_step){.grad_scale = 1.0};
    LVN_TRY(lvn_session_feed(session, 0, &s->samples[greedy][k]));
    for (; s->runs > 0; s->runs--) {
        lvn_session_run(session, 1);
        LVN_TRY(session->status);
    }
    return LVN_OK;
}

static enum lvn_status run_rows(struct scorer *s)
{
    const struct lvn_ranks *ranks = s->o->ranks;
    enum lvn_status status = LVN_OK;
    for (int64_t r = ranks->rank; r < s->n_rows && status == LVN_OK; r += ranks->size) status = run_row(s, &s->row[r]);
    if (lvn_parameters_sharded(s->model_state, LVN_PARAMETER_VALUES) && s->runs > 0) {
        lvn_error_save();
        const enum lvn_status padding = run_padding(s);
        if (status != LVN_OK) lvn_error_restore();
        if (status == LVN_OK) status = padding;
    }
    return status;
}

/* --- ranks --- */

/* With sharded parameters: set the number of runs to the maximum over ranks. */
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

/* Give all ranks the values of all sequences. Those that a rank has not computed are 0, so the sum is exact. */
static enum lvn_status share_values(struct scorer *s, int64_t n_sequences)
{
    struct lvn_ranks *ranks = s->o->ranks;
    if (ranks->size == 1) return LVN_OK;
    double *x = lvn_malloc(sizeof *x * 2 * (size_t)(n_sequences + 1));
    LVN_TRY(lvn_ranks_agree(ranks, x ? LVN_OK : LVN_MEMORY));
    enum lvn_status status = LVN_OK;
    for (int reads = 0; reads < 2 && status == LVN_OK; reads++) {
        double *at = x;
        for (int64_t i = 0; i < s->n_units; i++)
            for (int j = 0; j < s->unit[i].n; j++, at += 2) {
                struct lvn_benchmark_sequence *sequence = &s->unit[i].item->sequence[s->unit[i].first + j];
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
    if (!s->n_rows) return LVN_OK;
    LVN_TRY(lvn_model_shards_plan(s->model_state, ranks, s->o->values, new_sessions, s));
    LVN_TRY(lvn_ranks_agree(ranks, allocate(s)));
    LVN_TRY(lvn_model_shards_load(s->model_state, ranks, s->o->values, &s->o->setup->pretrained));
    if (lvn_parameters_sharded(s->model_state, LVN_PARAMETER_VALUES)) LVN_TRY(level_runs(s));
    LVN_TRY(lvn_ranks_agree(ranks, run_rows(s)));
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
    for (int64_t i = 0; i < b->n && status == LVN_OK; i++) lvn_benchmark_score(&b->list[i]);
    for (int k = 0; k < 2 * STEPS; k++) lvn_samples_release(&s->samples[k / STEPS][k % STEPS]);
    lvn_model_shards_free(s->model_state, o->ranks);
    lvn_arena_release(&s->arena);
    free(s);
    return status;
}
