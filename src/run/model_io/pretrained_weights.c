/* pretrained_weights.c - the weights of a model directory; see pretrained.h. They are compared with the model of its
 * config.json, and copied from the file's names, types and layouts to flat fp32 values. */
#include <stdatomic.h>

#include "base/arena.h"
#include "base/files.h"
#include "base/log.h"
#include "base/threads.h"
#include "engine/ranks.h"
#include "graph/names.h"
#include "model_io/adapters.h"
#include "model_io/pretrained_private.h"
#include "model_io/shared_files.h"
#include "models/keys.h"
#include "models/weight_files.h"

/* Prefixes that torch.compile and data parallelism add to all names. */
static const char *const prefixes[] = {"", "_orig_mod.", "module.", "module._orig_mod.", "_orig_mod.module."};
enum { N_PREFIXES = sizeof prefixes / sizeof prefixes[0] };

/* A name without such a prefix. */
static const char *bare_name(const char *name)
{
    for (int i = N_PREFIXES - 1; i > 0; i--)
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0) return name + strlen(prefixes[i]);
    return name;
}

/* The tensor of this name, with or without the optional prefix. */
static const struct lvn_weight *find_as(const struct lvn_pretrained *p, const char *name)
{
    const char *prefix = p->files->prefix ? p->files->prefix : "";
    const char *without = strncmp(name, prefix, strlen(prefix)) == 0 ? name + strlen(prefix) : NULL;
    const struct lvn_weight *t = NULL;
    char full[LVN_NAME_TEXT + 64];
    for (int i = 0; i < N_PREFIXES && !t; i++) {
        snprintf(full, sizeof full, "%s%s", prefixes[i], name);
        t = lvn_weights_find(&p->weights, full);
        snprintf(full, sizeof full, "%s%s", prefixes[i], without ? without : name);
        if (!t) t = lvn_weights_find(&p->weights, full);
    }
    return t;
}

static const struct lvn_weight *find(const struct lvn_pretrained *p, const char *name)
{
    char old[LVN_FILE_NAME];
    const struct lvn_weight *t = find_as(p, name);
    for (int i = 0; !t && lvn_file_legacy_name(p->files, name, i, old); i++) t = find_as(p, old);
    return t;
}

const char *lvn_pretrained_name(const struct lvn_pretrained *p, const char *name)
{
    if (p->base) return lvn_pretrained_name(p->base, name);
    const struct lvn_weight *t = find(p, name);
    return t ? t->name : name;
}

struct findings {
    struct lvn_text list;
    int n;
    int n_other;          /* tensors of parts that levin does not have */
    const char *other[2]; /* the first and the last of them */
};
enum { LISTED = 10 };

static void found(struct findings *f, const char *format, const char *name)
{
    if (f->n++ < LISTED) {
        lvn_text_add(&f->list, f->n > 1 ? ", " : "");
        lvn_text_printf(&f->list, format, name);
    }
}

/* Is it a parameter of the head that starts with initial values? */
static bool is_fresh(const struct lvn_pretrained *p, const char *name)
{
    const struct lvn_head *h = p->config.head;
    return p->config.fresh_head && h && h->params && lvn_names_match(h->params, name);
}

/* Is it a parameter of a head of the family that this model does not have? */
static bool is_of_other_head(const struct lvn_pretrained *p, const char *name)
{
    char full[LVN_FILE_NAME + 64], param[LVN_FILE_NAME];
    lvn_file_param_name(p->files, name, param);
    name = param;
    snprintf(full, sizeof full, "%s%s", p->files->prefix ? p->files->prefix : "", name);
    for (const struct lvn_head *h = p->variant->heads; h && h->architecture; h++)
        if (h != p->config.head && h->params && (lvn_names_match(h->params, name) || lvn_names_match(h->params, full)))
            return true;
    return false;
}

/* Is it a tensor of a head that levin does not have? All tensors outside of heads begin with the family's prefix. */
static bool is_of_unknown_head(const struct lvn_pretrained *p, const char *name)
{
    const char *prefix = p->files->prefix;
    return p->config.other_head && prefix && strncmp(name, prefix, strlen(prefix)) != 0;
}

static bool is_real(enum lvn_dtype t)
{
    return t == LVN_F32 || t == LVN_F16 || t == LVN_BF16 || t == LVN_F64;
}

/* Does the file's tensor have the parameter's shape, without rows that pad a vocabulary? With a new head, the rows of
 * the vocabulary were compared before, and may have changed since (lvn_pretrained_set_vocab()). */
static bool fits(const struct lvn_pretrained *p, const struct lvn_layout *l, const struct lvn_desc *file)
{
    struct lvn_desc cut = *file;
    if ((l->flags & LVN_FILE_ROWS) && p->config.fresh_head && file->rank > 0) cut.dim[0] = l->desc.dim[0];
    if ((l->flags & LVN_FILE_PADDED) && file->rank == 2 && file->dim[0] == (l->desc.dim[0] + 63) / 64 * 64)
        cut.dim[0] = l->desc.dim[0];
    return lvn_desc_same_shape(&l->desc, &cut);
}

/* Compare one parameter with its tensor in the file. A head for tokens may be missing until it is used. */
static enum lvn_status compare_one(struct lvn_pretrained *p, const struct lvn_params *params, const struct lvn_param *q,
                                   struct findings *f, int64_t *seen)
{
    struct lvn_layout l;
    char have[LVN_SHAPE_TEXT], want[LVN_SHAPE_TEXT], line[400];
    LVN_TRY(lvn_file_layout(p->files, &p->config, q, &l));
    const struct lvn_weight *t = find(p, l.name);
    const struct lvn_param *of; /* another one: the head, which is not tied, is no embedding */
    if (is_fresh(p, q->name)) return LVN_OK;
    if (t && lvn_file_role(p->files, params, bare_name(t->name), &of) == LVN_FILE_PARAMETER && of != q) t = NULL;
    *seen += t != NULL;
    const bool missing = !t && !(l.flags & LVN_FILE_ZEROS_IF_MISSING);
    const struct lvn_head *h = lvn_model_predicts(&p->config, LVN_LABEL_TOKEN) ? p->config.head : NULL;
    if (missing && h && h->params && lvn_names_match(h->params, q->name)) {
        p->lacks = lvn_arena_strdup(&p->arena, l.name);
        return p->lacks ? LVN_OK : LVN_MEMORY;
    }
    if (missing) found(f, "'%s' is missing", l.name);
    if (!t || (fits(p, &l, &t->desc) && is_real(t->desc.dtype))) return LVN_OK;
    snprintf(line, sizeof line, "'%.120s' has shape %s and type %s, expected %s", t->name,
             lvn_shape_text(&t->desc, have), lvn_dtype_name(t->desc.dtype), lvn_shape_text(&l.desc, want));
    found(f, "%s", line);
    return LVN_OK;
}

static bool same_values(const struct lvn_weight *a, const struct lvn_weight *b)
{
    enum { STEP = 4096 };
    float x[STEP], y[STEP];
    const int64_t count = lvn_desc_count(&a->desc);
    for (int64_t i = 0; i < count; i += STEP) {
        const int64_t n = count - i < STEP ? count - i : STEP;
        lvn_weight_read(a, i, n, x);
        lvn_weight_read(b, i, n, y);
        if (memcmp(x, y, (size_t)n * sizeof *x) != 0) return false;
    }
    return true;
}

/* A tensor under two names, with and without a prefix: nothing says which one counts. */
static enum lvn_status compare_twice(const struct lvn_pretrained *p, const struct lvn_param *q,
                                     const struct lvn_weight *t, struct findings *f)
{
    struct lvn_layout l;
    LVN_TRY(lvn_file_layout(p->files, &p->config, q, &l));
    const struct lvn_weight *taken = find(p, l.name);
    if (!taken || taken == t || !is_real(t->desc.dtype) || !is_real(taken->desc.dtype)) return LVN_OK;
    if (!lvn_desc_same_shape(&t->desc, &taken->desc) || !same_values(t, taken))
        found(f, "'%.120s' is there under two names, with different values", t->name);
    return LVN_OK;
}

/* A head that is tied to the embedding and stored as well: its values must be equal, else the model is another one. */
static enum lvn_status compare_duplicate(const struct lvn_pretrained *p, const struct lvn_params *params,
                                         const struct lvn_weight *t, struct findings *f)
{
    struct lvn_layout l;
    bool found_same_shape = false, same = false;
    if (t->desc.rank < 1 || t->desc.rank > 2 || !is_real(t->desc.dtype)) return LVN_OK;
    for (int i = 0; i < params->n && !same; i++) {
        LVN_TRY(lvn_file_layout(p->files, &p->config, params->list[i], &l));
        const struct lvn_weight *e = l.flags & LVN_FILE_ROWS ? find(p, l.name) : NULL;
        if (!e || !is_real(e->desc.dtype) || !lvn_desc_same_shape(&e->desc, &t->desc)) continue;
        found_same_shape = true;
        same = same_values(e, t);
    }
    if (found_same_shape && !same)
        found(f,
              t->desc.rank == 2 ? "'%.120s' differs from the embedding that levin ties it to (tie_word_embeddings)"
                                : "'%.120s' differs from the bias that it should be a second time",
              t->name);
    return LVN_OK;
}

static enum lvn_status compare(struct lvn_pretrained *p, const struct lvn_params *params, struct findings *f)
{
    int64_t seen = 0;
    const struct lvn_param *q;
    for (int i = 0; i < params->n; i++) LVN_TRY(compare_one(p, params, params->list[i], f, &seen));
    for (int i = 0; i < p->weights.n; i++) {
        const char *name = p->weights.tensor[i].name;
        const enum lvn_file_role role = lvn_file_role(p->files, params, bare_name(name), &q);
        if (is_of_other_head(p, bare_name(name)) || (role == LVN_FILE_UNKNOWN && is_of_unknown_head(p, name))) continue;
        if (role == LVN_FILE_PARAMETER) LVN_TRY(compare_twice(p, q, &p->weights.tensor[i], f));
        if (role == LVN_FILE_EXTRA) LVN_TRY(compare_duplicate(p, params, &p->weights.tensor[i], f));
        if (role == LVN_FILE_PART) f->other[f->n_other++ ? 1 : 0] = name;
        if (role == LVN_FILE_UNKNOWN) found(f, "'%.120s' is unexpected", name);
    }
    if (!f->n && f->n_other)
        lvn_log_once(LVN_LOG_INFO,
                     "'%s': skipped %d tensors that do not belong to the text model ('%.80s' to '%.80s'); the text "
                     "model is loaded, and saved as %s",
                     p->path, f->n_other, f->other[0], f->other[f->n_other > 1], p->config.head->architecture);
    if (!f->n) return LVN_OK;
    const char *list = lvn_text_string(&f->list);
    if (!list) return LVN_MEMORY;
    char more[40] = "";
    if (f->n > LISTED) snprintf(more, sizeof more, ", and %d more", f->n - LISTED);
    LVN_FAIL(FORMAT, "'%s' does not match its %s: of %lld tensors %lld were found; %s%s", p->path,
             lvn_pretrained_source(p), (long long)params->n, (long long)seen, list, more);
}

enum lvn_status lvn_pretrained_check(struct lvn_pretrained *p)
{
    struct lvn_params *params;
    struct findings f = {0};
    LVN_TRY(lvn_model_params_new(&params, &p->config));
    enum lvn_status status = p->base ? lvn_pretrained_check_adapters(p, params) : compare(p, params, &f);
    lvn_text_release(&f.list);
    lvn_params_free(params);
    return status;
}

enum lvn_status lvn_pretrained_check_head(const struct lvn_pretrained *p)
{
    const bool uses = lvn_model_predicts(&p->config, LVN_LABEL_TOKEN) && !p->config.fresh_head;
    for (const struct lvn_pretrained *q = p; q && uses; q = q->base)
        LVN_CHECK(!q->lacks, FORMAT,
                  "'%s' has no tensor '%s', the head that predicts tokens: this model can be trained on texts with "
                  "labels, which need another head, or with a new head (task.fresh_head=true)",
                  q->path, q->lacks);
    return LVN_OK;
}

/* --- loading --- */

enum lvn_status lvn_pretrained_set_vocab(struct lvn_pretrained *p, int64_t vocab_size, int64_t used)
{
    LVN_CHECK(vocab_size >= used, ARG,
              "a vocabulary of %lld would cut tokens that '%s' has: its tokenizer knows %lld; give at least that",
              (long long)vocab_size, p->path, (long long)used);
    lvn_model_set(&p->config, LVN_ROLE_VOCABULARY, vocab_size);
    LVN_TRY(lvn_pretrained_fit_tokens(p, true));
    return lvn_model_check(&p->config, false);
}

enum lvn_status lvn_pretrained_set_head(struct lvn_pretrained *p, const struct lvn_head *head, int64_t classes,
                                        uint64_t seed)
{
    const bool same = p->config.head == head;
    struct lvn_params *params;
    bool replaces = false;
    lvn_model_set_head(&p->config, head, classes);
    p->config.fresh_head = true;
    p->seed = seed;
    LVN_TRY(lvn_pretrained_check(p));
    LVN_TRY(lvn_model_params_new(&params, &p->config));
    for (int i = 0; i < params->n; i++) replaces |= is_fresh(p, params->list[i]->name);
    lvn_params_free(params);
    LVN_CHECK(
        replaces || !same, ARG,
        "task.fresh_head: the head of the model '%s' is its embedding (tie_word_embeddings), which is kept: leave "
        "task.fresh_head out",
        p->path);
    return LVN_OK;
}

/* New rows are the mean of all others: by Jensen's inequality the exponential of their logit is at most the mean of the
 * exponentials of the old logits, so n new rows with V old ones raise no loss by more than log(1 + n / V). Rows of
 * zeros would have the logit 0, and logits of trained models are far below that. */
static void fill_rows(float *rows, int64_t have, int64_t want, int64_t C)
{
    for (int64_t c = 0; c < C; c++) {
        double sum = 0.0;
        for (int64_t r = 0; r < have; r++) sum += rows[r * C + c];
        for (int64_t r = have; r < want; r++) rows[r * C + c] = (float)(sum / (double)have);
    }
}

static bool has_nonfinite(const float *x, int64_t n)
{
    const uint32_t exponent = 0x7f800000u; /* all ones: infinity or NaN */
    uint32_t any = 0;
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        any |= (bits & exponent) == exponent;
    }
    return any;
}

/* x: elements [first, first + n) of the tensor */
static enum lvn_status check_finite(const struct lvn_weight *t, const float *x, int64_t first, int64_t n)
{
    const bool any = has_nonfinite(x, n);
    for (int64_t i = 0; any && i < n; i++)
        LVN_CHECK(isfinite(x[i]), NONFINITE, "'%s': '%.120s' holds a number that is not finite, at %lld", t->file,
                  t->name, (long long)(first + i));
    return LVN_OK;
}

enum lvn_status lvn_pretrained_holds(const struct lvn_pretrained *p, const struct lvn_param *q, bool *there)
{
    struct lvn_layout l;
    *there = is_fresh(p, q->name);
    if (*there) return LVN_OK;
    if (p->base) return lvn_pretrained_holds_adapters(p, q, there);
    LVN_TRY(lvn_file_layout(p->files, &p->config, q, &l));
    *there = find(p, l.name) || (l.flags & LVN_FILE_ZEROS_IF_MISSING);
    return LVN_OK;
}

enum lvn_status lvn_pretrained_tensor(const struct lvn_pretrained *p, const struct lvn_param *q, struct lvn_layout *l,
                                      const struct lvn_weight **out)
{
    LVN_TRY(lvn_file_layout(p->files, &p->config, q, l));
    *out = find(p, l->name);
    return LVN_OK;
}

/* Read one parameter to `to`, [count] in fp32; scratch: for other layouts. With a row for each token or position, the
 * file may have more or fewer rows. */
static enum lvn_status load_one(const struct lvn_pretrained *p, const struct lvn_param *q, const struct lvn_layout *l,
                                float *to, float *scratch)
{
    const struct lvn_weight *t = find(p, l->name);
    bool moves = lvn_layout_moves(l);
    int64_t rows = q->desc.dim[0], columns = q->count / rows, count = q->count;
    if (!t) {
        memset(to, 0, sizeof *to * (size_t)count);
        return LVN_OK;
    }
    if ((l->flags & LVN_FILE_ROWS) && t->desc.dim[0] < rows) count = t->desc.dim[0] * columns;
    lvn_weight_read(t, 0, count, moves ? scratch : to);
    LVN_TRY(check_finite(t, moves ? scratch : to, 0, count));
    if (moves) lvn_layout_to_memory(l, sizeof *to, scratch, to);
    if (count < q->count) fill_rows(to, count / columns, rows, columns);
    return LVN_OK;
}

enum lvn_status lvn_pretrained_values(const struct lvn_pretrained *p, const struct lvn_param *q, float *to,
                                      float *scratch)
{
    struct lvn_layout l;
    if (is_fresh(p, q->name)) {
        lvn_param_init(q, p->seed, 0, q->count, to);
        return LVN_OK;
    }
    if (p->base) return lvn_pretrained_adapted(p, q, to, scratch);
    LVN_TRY(lvn_file_layout(p->files, &p->config, q, &l));
    return load_one(p, q, &l, to, scratch);
}

/* The tensor whose elements are the parameter's, in its order; NULL: there is none. */
static const struct lvn_weight *plain_tensor(const struct lvn_pretrained *p, const struct lvn_param *q,
                                             const struct lvn_layout *l)
{
    if (p->base && p->apart && !p->was_tied && !lvn_pretrained_adapts_whole(p, q)) return plain_tensor(p->base, q, l);
    const struct lvn_weight *t = p->base || is_fresh(p, q->name) || lvn_layout_moves(l) ? NULL : find(p, l->name);
    return t && t->desc.dim[0] >= q->desc.dim[0] ? t : NULL;
}

/* Load the elements of the window to `to`, in fp32. */
static enum lvn_status load_window(const struct lvn_pretrained *p, const struct lvn_parameter_window *w,
                                   const struct lvn_weight *plain, float *to, float *scratch)
{
    if (!plain) return lvn_pretrained_values(p, w->param, to, scratch);
    lvn_weight_read(plain, w->first, w->count, to);
    return check_finite(plain, to, w->first, w->count);
}

/* The rows of a weight of a linear layer, (outputs,inputs) as in the file, in the order of the outputs in memory. */
struct weight_rows {
    const struct lvn_weight *t;
    const int32_t *row_of; /* of each output: its row in the file */
    int64_t rows, columns;
    float *to;
    atomic_bool nonfinite; /* a number is infinite or NaN */
};

static void read_rows(void *argument, int thread, int n_threads)
{
    struct weight_rows *w = argument;
    int64_t row, end;
    bool any = false;
    lvn_thread_range(w->rows, 1, thread, n_threads, &row, &end);
    for (; row < end; row++) {
        float *to = w->to + row * w->columns;
        lvn_weight_read(w->t, w->row_of[row] * w->columns, w->columns, to);
        any |= has_nonfinite(to, w->columns);
    }
    if (any) atomic_store(&w->nonfinite, true);
}

/* The tensor whose rows are the outputs of a linear layer that is stored in packed blocks; NULL: there is none. */
static const struct lvn_weight *tensor_of_rows(const struct lvn_pretrained *p, const struct lvn_param *q,
                                               struct lvn_layout *l)
{
    if (p->base && p->apart && !p->was_tied && !lvn_pretrained_adapts_whole(p, q)) return tensor_of_rows(p->base, q, l);
    if (p->base || is_fresh(p, q->name) || lvn_file_layout(p->files, &p->config, q, l) != LVN_OK) return NULL;
    const struct lvn_weight *t = find(p, l->name);
    const unsigned others = LVN_FILE_PLUS_ONE | LVN_FILE_ROWS | LVN_FILE_ZEROS_IF_MISSING;
    const bool rows = (l->flags & LVN_FILE_TRANSPOSED) && !(l->flags & others) && q->desc.rank == 2 && t &&
                      t->desc.rank == 2 && t->desc.dim[0] == q->desc.dim[1] && t->desc.dim[1] == q->desc.dim[0];
    return rows ? t : NULL;
}

/* Quantize a parameter from the rows of its file, by all threads, without its transposed copy in memory. False in
 * `done`: it has another layout, or a number that is not finite, which load_window() reports. */
static enum lvn_status quantize_rows(const struct lvn_pretrained *p, const struct lvn_model_state *n,
                                     const struct lvn_parameter_window *w, void *to, float *wide, bool *done)
{
    struct lvn_layout l;
    struct weight_rows rows = {.t = tensor_of_rows(p, w->param, &l), .to = wide};
    const struct lvn_blocks b = lvn_param_blocks(w->param);
    if (!rows.t || w->first || w->count != w->param->count) return LVN_OK;
    int32_t *row_of = lvn_malloc(sizeof *row_of * (size_t)b.rows);
    if (!row_of) return LVN_MEMORY;
    lvn_layout_rows(&l, row_of);
    rows.row_of = row_of, rows.rows = b.rows, rows.columns = b.columns;
    lvn_team_run(n->device->threads, read_rows, &rows);
    free(row_of);
    *done = !atomic_load(&rows.nonfinite);
    return *done ? lvn_blocks_write(&b, wide, to, n->device->threads) : LVN_OK;
}

/* Which parameters are loaded. SHARDS: parameters whose elements have one order in the file and in memory; each rank
 * reads the elements that it holds. OTHERS: the remaining parameters; rank 0 reads them for all ranks. ALL: both. */
enum part { PART_SHARDS, PART_OTHERS, PART_ALL };

enum { CHUNK = 1 << 20 }; /* elements that are converted at a time, if their order is that of the file */

/* Load one parameter to its opened memory `to`. `wide` and `scratch` are those of load_part(). */
static enum lvn_status load_parameter(const struct lvn_pretrained *p, const struct lvn_model_state *n,
                                      const struct lvn_parameter_window *w, const struct lvn_weight *plain, void *to,
                                      float *wide, float *scratch)
{
    const enum lvn_dtype type = w->desc.dtype;
    if (lvn_dtype_is_packed(type)) {
        const struct lvn_weight *blocks;
        struct lvn_layout l;
        LVN_TRY(lvn_pretrained_blocks(p, w->param, &l, &blocks));
        if (blocks && blocks->packed == type) return lvn_pretrained_copy_blocks(blocks, &l, to);
        bool done = false;
        const enum lvn_status status = quantize_rows(p, n, w, to, wide, &done);
        if (done || status != LVN_OK) return status;
    }
    if (type == LVN_F32) return load_window(p, w, plain, to, scratch);
    if (!plain || lvn_dtype_is_packed(type)) {
        LVN_TRY(load_window(p, w, plain, wide, scratch));
        return lvn_parameter_store(n, w, wide, to);
    }
    for (int64_t i = 0, count; i < w->count; i += count) {
        struct lvn_parameter_window part = *w;
        count = part.count = w->count - i < CHUNK ? w->count - i : CHUNK;
        part.first += i;
        LVN_TRY(load_window(p, &part, plain, wide, scratch));
        lvn_tensor_from_f32(type, wide, (char *)to + i * lvn_dtype_bytes(type), count);
    }
    return LVN_OK;
}

static enum lvn_status load_part(const struct lvn_pretrained *p, const struct lvn_model_state *n, enum part part)
{
    int64_t moved = 1, rounded = 1;
    struct lvn_layout l;
    LVN_TRY(lvn_pretrained_check_head(p));
    for (int i = 0; i < n->params->n; i++) {
        const struct lvn_param *q = n->params->list[i];
        const struct lvn_weight *blocks = NULL;
        if (lvn_param_is_packed(q)) LVN_TRY(lvn_pretrained_blocks(p, q, &l, &blocks));
        if (blocks && blocks->packed == q->packed) continue; /* copied as they are */
        LVN_TRY(lvn_file_layout(p->files, &p->config, q, &l));
        const bool whole = lvn_param_is_packed(q) || !plain_tensor(p, q, &l);
        const int64_t at_once = whole || q->count < CHUNK ? q->count : CHUNK;
        if (q->count > moved && (p->base || lvn_layout_moves(&l))) moved = q->count;
        if (at_once > rounded && (n->weights != LVN_F32 || lvn_param_is_packed(q))) rounded = at_once;
    }
    float *scratch = lvn_malloc(sizeof *scratch * (size_t)moved), *wide = lvn_malloc(sizeof *wide * (size_t)rounded);
    enum lvn_status status = scratch && wide ? LVN_OK : LVN_MEMORY;
    struct lvn_parameters i = {n, LVN_PARAMETER_VALUES, 0};
    struct lvn_parameter_window w;
    while (status == LVN_OK && lvn_parameters_next(&i, &w)) {
        struct lvn_window to;
        if (w.param->adapter) continue;
        status = lvn_file_layout(p->files, &p->config, w.param, &l);
        const struct lvn_weight *plain = plain_tensor(p, w.param, &l);
        if (status != LVN_OK || !w.count || (part == PART_SHARDS && !plain) || (part == PART_OTHERS && plain)) continue;
        status = lvn_parameter_open(&w, &to, false);
        if (status == LVN_OK) status = load_parameter(p, n, &w, plain, to.p, wide, scratch);
        enum lvn_status closed = lvn_parameter_close(&w, &to, status == LVN_OK);
        if (status == LVN_OK) status = closed;
        for (const struct lvn_pretrained *file = p; file; file = file->base) lvn_weights_evict(&file->weights);
    }
    free(scratch);
    free(wide);
    return status;
}

enum lvn_status lvn_pretrained_load(const struct lvn_pretrained *p, const struct lvn_model_state *n)
{
    LVN_TRY(load_part(p, n, PART_ALL));
    return p->apart ? lvn_adapters_load(&p->adapters, n, true) : LVN_OK;
}

enum lvn_status lvn_pretrained_load_on_ranks(const struct lvn_pretrained *p, const struct lvn_model_state *n,
                                             struct lvn_ranks *ranks)
{
    LVN_LOCAL_ARENA(a);
    const bool is_folder = lvn_path_is_dir(p->path); /* or a file */
    const char *shared = NULL;
    enum lvn_status status = LVN_OK;
    if (lvn_parameters_sharded(n, LVN_PARAMETER_VALUES))
        LVN_TRY(lvn_ranks_share_files(ranks, &a, is_folder ? p->dir : "", &shared));
    if (shared) status = load_part(p, n, PART_SHARDS);
    lvn_parameters_begin_collecting(n);
    if (ranks->rank == 0 && status == LVN_OK) status = load_part(p, n, shared ? PART_OTHERS : PART_ALL);
    const enum lvn_status ended = lvn_parameters_end_collecting(n);
    return lvn_ranks_agree(ranks, status == LVN_OK ? ended : status);
}
