/* pretrained_weights.c - the weights of a model directory: held against the model of its config, and copied from the
 * file's names, types and layouts into flat fp32 values; see pretrained.h. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "train/dialect.h"

/* What torch.compile and data parallelism put before all names. */
static const char *const prefixes[] = {"", "_orig_mod.", "module.", "module._orig_mod.", "_orig_mod.module."};
enum { N_PREFIXES = sizeof prefixes / sizeof prefixes[0] };
static const char base[] = "transformer.";

/* A name of the file without such a prefix. */
static const char *bare_name(const char *name)
{
    for (int i = N_PREFIXES - 1; i > 0; i--)
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0) return name + strlen(prefixes[i]);
    return name;
}

/* A tensor by levin's name, with or without `transformer.`. */
static const struct lvn_weight *find(const struct lvn_pretrained *p, const char *name)
{
    const char *without = strncmp(name, base, strlen(base)) == 0 ? name + strlen(base) : NULL;
    const struct lvn_weight *t = NULL;
    char full[600];
    for (int i = 0; i < N_PREFIXES && !t; i++) {
        snprintf(full, sizeof full, "%s%s", prefixes[i], name);
        t = lvn_weights_find(&p->weights, full);
        snprintf(full, sizeof full, "%s%s", prefixes[i], without ? without : name);
        if (!t) t = lvn_weights_find(&p->weights, full);
    }
    return t;
}

const char *lvn_pretrained_name(const struct lvn_pretrained *p, const char *name)
{
    const struct lvn_weight *t = find(p, name);
    return t ? t->name : name;
}

/* Tensors of files that are no parameters: causal masks, and a tied head stored twice. */
static bool passed_over(const struct lvn_pretrained *p, const char *name)
{
    size_t n = strlen(name);
    const char *const tails[] = {".attn.bias", ".attn.masked_bias"};
    for (int i = 0; i < 2; i++)
        if (n > strlen(tails[i]) && strcmp(name + n - strlen(tails[i]), tails[i]) == 0) return true;
    return p->config.tied && n >= 14 && strcmp(name + n - 14, "lm_head.weight") == 0;
}

struct findings {
    struct lvn_text list;
    int n;
};
enum { LISTED = 10 };

static void found(struct findings *f, const char *format, const char *name)
{
    if (f->n++ < LISTED) {
        lvn_text_add(&f->list, f->n > 1 ? ", " : "");
        lvn_text_printf(&f->list, format, name);
    }
}

static bool fits(const struct lvn_pretrained *p, const struct lvn_param *q, const struct lvn_weight *t)
{
    struct lvn_desc want = lvn_dialect_desc(p->dialect, q);
    return lvn_desc_same_shape(&want, &t->desc);
}

static bool is_real(enum lvn_dtype t)
{
    return t == LVN_F32 || t == LVN_F16 || t == LVN_BF16 || t == LVN_F64;
}

static enum lvn_status compare(struct lvn_pretrained *p, const struct lvn_params *params, struct findings *f)
{
    int64_t wanted = 0, seen = 0;
    for (int i = 0; i < params->n; i++) {
        const struct lvn_param *q = params->list[i];
        const struct lvn_weight *t = find(p, q->name);
        char have[LVN_SHAPE_TEXT], want[LVN_SHAPE_TEXT], line[400];
        struct lvn_desc d = lvn_dialect_desc(p->dialect, q);
        wanted++;
        seen += t != NULL;
        if (t && (!fits(p, q, t) || !is_real(t->desc.dtype))) {
            snprintf(line, sizeof line, "'%.120s' is %s of %s, wanted %s", t->name, lvn_shape_text(&t->desc, have),
                     lvn_dtype_name(t->desc.dtype), lvn_shape_text(&d, want));
            found(f, "%s", line);
        }
        if (!t) found(f, "'%s' is missing", q->name);
    }
    for (int i = 0; i < p->weights.n; i++) {
        const char *name = p->weights.tensor[i].name, *bare = bare_name(name);
        char full[600];
        if (passed_over(p, name)) continue;
        snprintf(full, sizeof full, "%s%s", base, bare);
        /* Hugging Face files of models without biases carry zeros. */
        bool zero_bias = p->dialect == LVN_DIALECT_HUGGINGFACE && !p->config.bias && strlen(bare) > 5 &&
                         strcmp(bare + strlen(bare) - 5, ".bias") == 0;
        if (!zero_bias && !lvn_params_find(params, bare) && !lvn_params_find(params, full))
            found(f, "'%.120s' is not wanted", name);
    }
    if (!f->n) return LVN_OK;
    const char *list = lvn_text_string(&f->list);
    if (!list) return LVN_MEMORY;
    char more[40] = "";
    if (f->n > LISTED) snprintf(more, sizeof more, ", and %d more", f->n - LISTED);
    LVN_FAIL(FORMAT, "'%s' does not hold the model of its %s: of %lld tensors %lld are there; %s%s", p->path,
             p->weights.args ? "model_args" : "config.json", (long long)wanted, (long long)seen, list, more);
}

/* The parameters that a config wants, to hold the file against. */
enum lvn_status lvn_pretrained_check(struct lvn_pretrained *p)
{
    struct lvn_params *params = lvn_params_new();
    struct lvn_graph *g = params ? lvn_graph_new(params, LVN_F32) : NULL;
    enum lvn_status status = g ? LVN_OK : LVN_MEMORY;
    if (g) {
        lvn_model_build(g, &p->config, 1, 1, false);
        status = lvn_graph_status(g);
    }
    struct findings f = {0};
    if (status == LVN_OK) status = compare(p, params, &f);
    lvn_text_release(&f.list);
    lvn_graph_free(g);
    lvn_params_free(params);
    return status;
}

/* --- loading --- */

enum lvn_status lvn_pretrained_set_vocab(struct lvn_pretrained *p, int64_t vocab_size, int64_t used)
{
    LVN_CHECK(vocab_size >= used, ARG,
              "a vocabulary of %lld would cut tokens that '%s' has: its tokenizer knows %lld; give at least that",
              (long long)vocab_size, p->path, (long long)used);
    p->config.vocab_size = vocab_size;
    return lvn_model_check(&p->config);
}

/* Does this parameter have a row for each token, or each position? Those alone may be more or fewer than the file's. */
static bool has_rows(const struct lvn_param *q)
{
    return q->kind == LVN_EMBEDDING || strcmp(q->name, "lm_head.weight") == 0;
}

/* New rows are the mean of all others: by Jensen's inequality no logit of theirs exceeds the mean of the exponentials
 * of the old ones, so n of them beside V raise no loss by more than log(1 + n / V). Rows of zeros would have the logit
 * 0, and trained models' logits lie far below that. */
static void fill_rows(float *rows, int64_t have, int64_t want, int64_t C)
{
    for (int64_t c = 0; c < C; c++) {
        double sum = 0.0;
        for (int64_t r = 0; r < have; r++) sum += rows[r * C + c];
        for (int64_t r = have; r < want; r++) rows[r * C + c] = (float)(sum / (double)have);
    }
}

/* x (columns, rows) as the file has it, to (rows, columns); in tiles, so that neither side walks from page to page. */
static void turn(const float *x, float *to, int64_t rows, int64_t columns)
{
    enum { TILE = 16 };
    for (int64_t i = 0; i < rows; i += TILE)
        for (int64_t j = 0; j < columns; j += TILE)
            for (int64_t r = i; r < rows && r < i + TILE; r++)
                for (int64_t c = j; c < columns && c < j + TILE; c++) to[r * columns + c] = x[c * rows + r];
}

static enum lvn_status check_finite(const struct lvn_weight *t, const float *x, int64_t n)
{
    const uint32_t exponent = 0x7f800000u; /* all ones: infinity or NaN */
    uint32_t any = 0;
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        any |= (bits & exponent) == exponent;
    }
    for (int64_t i = 0; any && i < n; i++)
        LVN_CHECK(isfinite(x[i]), NONFINITE, "'%s': '%.120s' holds a number that is not finite, at %lld", t->file,
                  t->name, (long long)i);
    return LVN_OK;
}

/* To `to` (count), fp32; room: for what must be turned. */
static enum lvn_status load_one(const struct lvn_pretrained *p, const struct lvn_param *q, float *to, float *room)
{
    const struct lvn_weight *t = find(p, q->name);
    bool turned = lvn_dialect_transposes(p->dialect, q);
    int64_t rows = q->desc.dim[0], columns = q->desc.rank > 1 ? q->desc.dim[1] : 1, count = q->count;
    if (has_rows(q) && t->desc.dim[0] < rows) count = t->desc.dim[0] * columns;
    lvn_weight_read(t, 0, count, turned ? room : to);
    LVN_TRY(check_finite(t, turned ? room : to, count));
    if (turned) turn(room, to, rows, columns);
    if (count < q->count) fill_rows(to, count / columns, rows, columns);
    return LVN_OK;
}

enum lvn_status lvn_pretrained_load(const struct lvn_pretrained *p, const struct lvn_params *params, void *values,
                                    enum lvn_dtype type)
{
    int64_t turned = 1, rounded = 1;
    for (int i = 0; i < params->n; i++) {
        const struct lvn_param *q = params->list[i];
        if (q->count > turned && lvn_dialect_transposes(p->dialect, q)) turned = q->count;
        if (q->count > rounded && type != LVN_F32) rounded = q->count;
    }
    float *room = lvn_malloc(sizeof *room * (size_t)turned), *wide = lvn_malloc(sizeof *wide * (size_t)rounded);
    enum lvn_status status = room && wide ? LVN_OK : LVN_MEMORY;
    for (int i = 0; i < params->n && status == LVN_OK; i++) {
        const struct lvn_param *q = params->list[i];
        char *to = (char *)values + q->offset * lvn_dtype_bytes(type);
        if (q->adapter) continue;
        status = load_one(p, q, type == LVN_F32 ? (float *)to : wide, room);
        if (status == LVN_OK && type != LVN_F32) lvn_tensor_from_f32(type, wide, to, q->count);
    }
    free(room);
    free(wide);
    return status;
}
