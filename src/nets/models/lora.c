/* lora.c - see lora.h. levin_linear() calls adapt(), as g->adapter, for each linear layer that a model adds. */
#include "models/lora.h"

#include "graph/names.h"

static const char tail[] = ".weight", suffix_a[] = ".lora_A.weight", suffix_b[] = ".lora_B.weight";

enum { ADAPTER_TEXT = LVN_NAME_TEXT + 48 };

/* "h.0.attn.c_attn.weight" -> "h.0.attn.c_attn.lora_A.weight", PEFT's name; "" if the name does not end in ".weight".
 */
static void adapter_name(const char *weight, const char *suffix, char name[ADAPTER_TEXT])
{
    size_t n = strlen(weight), k = strlen(tail);
    name[0] = '\0';
    if (n > k && strcmp(weight + n - k, tail) == 0)
        snprintf(name, ADAPTER_TEXT, "%.*s%s", (int)(n - k), weight, suffix);
}

static struct levin_tensor *adapter(struct levin_graph *g, const char *weight, const char *suffix,
                                    enum lvn_param_kind kind, struct lvn_init init, struct lvn_desc desc)
{
    char name[ADAPTER_TEXT], scope[sizeof g->scope];
    adapter_name(weight, suffix, name);
    memcpy(scope, g->scope, sizeof scope);
    g->scope[0] = '\0';
    struct levin_tensor *t = lvn_param(g, name, kind, init, desc);
    if (t) t->param->adapter = true;
    memcpy(g->scope, scope, sizeof scope);
    return t;
}

/* The factor of A B. */
static double scale_of(const struct lvn_lora *lora)
{
    return lora->alpha / (lora->rslora ? sqrt((double)lora->rank) : (double)lora->rank);
}

/* Called after y = x W + b was added; returns y, or y plus the adapter's output. */
static struct levin_tensor *adapt(struct levin_graph *g, struct levin_tensor *x, struct levin_tensor *w,
                                  struct levin_tensor *y)
{
    const struct lvn_model_config *c = g->adapter_context;
    const struct lvn_lora *lora = &c->lora;
    const struct lvn_node *node = y ? y->node : NULL;
    if (!node || !w->param || !lvn_names_match(lora->targets, w->param->name)) return y;
    /* A decoder's head is stored as (outputs, inputs), and so are its adapters. A head that is tied to the embedding
     * has no adapters, and a new head or one of a classifier is trained in full. */
    const bool in_out = node->attr.linear.in_out;
    if (!in_out && (w->param->kind != LVN_WEIGHT || lvn_model_predicts_samples(c) || c->fresh_head)) return y;
    g->adapter = NULL; /* the adapter's own linear layers have none */
    int64_t C = w->desc.dim[!in_out], N = w->desc.dim[in_out], r = lora->rank;
    double std = 1.0 / sqrt(3.0 * (double)C); /* that of PyTorch's Linear: uniform in +-1/sqrt(C) */
    struct levin_tensor *a = adapter(g, w->param->name, suffix_a, LVN_WEIGHT, LVN_NORMAL(std),
                                     in_out ? LVN_DESC(LVN_F32, C, r) : LVN_DESC(LVN_F32, r, C));
    struct levin_tensor *b = adapter(g, w->param->name, suffix_b, LVN_WEIGHT, LVN_CONSTANT(0.0),
                                     in_out ? LVN_DESC(LVN_F32, r, N) : LVN_DESC(LVN_F32, N, r));
    struct levin_tensor *kept = levin_dropout(g, x, lora->dropout);
    struct levin_tensor *low = levin_scale(g, levin_linear(g, kept, a, NULL, in_out), scale_of(lora));
    y = levin_add(g, y, levin_linear(g, low, b, NULL, in_out));
    g->adapter = adapt;
    return y;
}

/* The table with trained rows in place of those of lora->tokens: its other rows, in ranges, and the trained ones. */
static struct levin_tensor *replace_rows(struct levin_graph *g, struct levin_tensor *table)
{
    const struct lvn_lora *lora = &((const struct lvn_model_config *)g->adapter_context)->lora;
    const int64_t V = table->desc.dim[0], C = table->desc.dim[1];
    struct levin_tensor *rows = adapter(g, table->param->name, LVN_LORA_ROWS, LVN_EMBEDDING, LVN_CONSTANT(0.0),
                                        LVN_DESC(LVN_F32, lora->n_tokens, C)),
                        *all = NULL;
    g->table_adapter = NULL; /* other tables have none */
    for (int64_t i = 0, done = 0, n; done < V; i += n, done = i ? lora->tokens[i - 1] + 1 : 0) {
        const int64_t first = i < lora->n_tokens ? lora->tokens[i] : V;
        for (n = 0; i + n < lora->n_tokens && lora->tokens[i + n] == first + n;) n++;
        struct levin_tensor *kept = first > done ? levin_slice(g, table, 0, done, first - done) : NULL;
        if (kept) all = all ? levin_concat(g, all, kept, 0) : kept;
        struct levin_tensor *trained = n ? levin_slice(g, rows, 0, i, n) : NULL;
        if (trained) all = all ? levin_concat(g, all, trained, 0) : trained;
        if (!n) break;
    }
    return all;
}

const char *lvn_lora_targets(const struct lvn_model *m, const char *given)
{
    if (m->linear_layers && strcmp(given, "all-linear") == 0) return m->linear_layers;
    return *given || !m->lora_targets ? given : m->lora_targets;
}

void lvn_lora_attach(struct levin_graph *g, const struct lvn_model_config *c)
{
    if (c->lora.rank <= 0) return;
    g->adapter = adapt;
    g->table_adapter = c->lora.n_tokens ? replace_rows : NULL;
    g->adapter_context = c;
}

bool lvn_lora_find(const struct lvn_params *p, const struct lvn_param *weight, struct lvn_lora_pair *out)
{
    char a[ADAPTER_TEXT], b[ADAPTER_TEXT], rows[ADAPTER_TEXT];
    adapter_name(weight->name, suffix_a, a);
    adapter_name(weight->name, suffix_b, b);
    adapter_name(weight->name, LVN_LORA_ROWS, rows);
    *out = (struct lvn_lora_pair){lvn_params_find(p, a), lvn_params_find(p, b), lvn_params_find(p, rows)};
    return !weight->adapter && (out->rows || (out->a && out->b));
}

/* Does any linear layer that the pattern matches have an adapter? */
static bool adapts(const struct lvn_pattern *pattern, const struct lvn_params *p)
{
    struct lvn_lora_pair pair;
    for (int i = 0; i < p->n; i++)
        if (lvn_pattern_fits(pattern, p->list[i]->name) && lvn_lora_find(p, p->list[i], &pair) && pair.a) return true;
    return false;
}

enum lvn_status lvn_lora_freeze(struct lvn_params *p, const struct lvn_model_config *c)
{
    const char *rest = c->lora.targets;
    struct lvn_pattern one;
    char near[LVN_WORD_TEXT];
    if (c->lora.rank <= 0) return LVN_OK;
    LVN_CHECK(c->model->linear_layers, ARG, "lora.rank: a %s has no linear layers that adapters can be added to",
              c->model->name);
    LVN_CHECK(rest && *rest, ARG,
              "lora.rank is %lld and lora.targets names no linear layer: name some of those that a %s has, %s",
              (long long)c->lora.rank, c->model->name, c->model->linear_layers);
    while (lvn_pattern_next(&rest, &one)) {
        if (adapts(&one, p)) continue;
        lvn_pattern_nearest(&one, p, near);
        if (!strncmp(one.text, "all", 3)) snprintf(near, sizeof near, "all-linear");
        bool no_hint = !*near || ((int)strlen(near) == one.n && !strncmp(near, one.text, strlen(near)));
        LVN_FAIL(ARG, "lora.targets: '%.*s' names no linear layer; a %s has %s, and its head if it is not tied%s%s%s",
                 one.n, one.text, c->model->name, c->model->linear_layers, no_hint ? "" : "; did you mean '",
                 no_hint ? "" : near, no_hint ? "" : "'?");
    }
    /* A new head is trained with the adapters, and so is any classification head, because base models seldom have a
     * trained one. */
    const char *head = c->fresh_head || lvn_model_predicts_samples(c) ? c->head->params : NULL;
    for (int i = 0; i < p->n; i++)
        p->list[i]->trainable = p->list[i]->adapter || (head && lvn_names_match(head, p->list[i]->name));
    return LVN_OK;
}

void lvn_lora_merge(const struct lvn_lora *lora, const struct lvn_param *weight, const float *a, const float *b,
                    float *w)
{
    int64_t C = weight->desc.dim[0], N = weight->desc.dim[1], r = lora->rank;
    float scale = (float)scale_of(lora);
    for (int64_t i = 0; i < C; i++) {
        float *row = w + i * N;
        for (int64_t k = 0; k < r; k++) {
            float x = a[i * r + k] * scale;
            for (int64_t j = 0; j < N; j++) row[j] += x * b[k * N + j];
        }
    }
}

void lvn_lora_put_rows(const struct lvn_lora *lora, int64_t C, const float *rows, float *w)
{
    for (int i = 0; i < lora->n_tokens; i++) memcpy(w + lora->tokens[i] * C, rows + i * C, sizeof *w * (size_t)C);
}

bool lvn_lora_is_whole(const struct lvn_model_config *c, const struct lvn_param *p)
{
    const char *head = c->fresh_head && c->head ? c->head->params : NULL;
    return !p->adapter && (p->trainable || (head && lvn_names_match(head, p->name)));
}
