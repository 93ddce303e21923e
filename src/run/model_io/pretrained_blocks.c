/* pretrained_blocks.c - weights that files have in packed blocks (packed/packed.h): which of them stay in their blocks,
 * and the copy from the file to memory. */

#include "base/arena.h"
#include "base/log.h"
#include "graph/names.h"
#include "model_io/pretrained_private.h"
#include "packed/ggml_blocks.h"

static const struct lvn_pretrained *with_weights(const struct lvn_pretrained *p)
{
    while (p->base) p = p->base;
    return p;
}

enum lvn_status lvn_pretrained_blocks(const struct lvn_pretrained *p, const struct lvn_param *q, struct lvn_layout *l,
                                      const struct lvn_weight **out)
{
    const struct lvn_weight *t;
    *out = NULL;
    if (p->base)
        return p->apart && !lvn_pretrained_adapts_whole(p, q) ? lvn_pretrained_blocks(p->base, q, l, out) : LVN_OK;
    LVN_TRY(lvn_pretrained_tensor(p, q, l, &t));
    /* rows are outputs; those of nf4 share factors, so they cannot change their order */
    const bool rows = t && l->flags & LVN_FILE_TRANSPOSED && !(l->flags & LVN_FILE_PLUS_ONE) &&
                      lvn_desc_same_shape(&l->desc, &t->desc);
    if (rows && lvn_dtype_is_packed(t->packed) && (!t->nf4 || !l->head_size)) *out = t;
    return LVN_OK;
}

enum lvn_status lvn_pretrained_copy_blocks(const struct lvn_weight *t, const struct lvn_layout *l, void *to)
{
    const int64_t rows = t->desc.dim[0], columns = t->desc.dim[1];
    int32_t *row_of = lvn_malloc(sizeof *row_of * (size_t)rows);
    float *row = lvn_malloc(sizeof *row * (size_t)columns);
    enum lvn_status status = row_of && row ? LVN_OK : LVN_MEMORY;
    for (int64_t r = 0; r < rows && status == LVN_OK; r++) {
        float sum = 0; /* x - x is 0 for finite numbers, else NaN */
        lvn_weight_read(t, r * columns, columns, row);
        for (int64_t i = 0; i < columns; i++) sum += row[i] - row[i];
        if (sum != 0 || isnan(sum))
            status = lvn_fail(LVN_NONFINITE, "'%s': '%.120s' holds a number that is not finite, in row %lld", t->file,
                              t->name, (long long)r);
    }
    if (status == LVN_OK) {
        lvn_layout_rows(l, row_of);
        lvn_weight_copy_blocks(t, row_of, to);
    }
    free(row_of);
    free(row);
    return status;
}

/* --- which weights stay in their blocks --- */

struct choice {
    struct lvn_pretrained *p;
    struct lvn_stored_type *list;
    int n;
    int64_t bytes, values; /* of these */
};

static enum lvn_status add(struct choice *c, const struct lvn_param *q, enum lvn_dtype quantize)
{
    const struct lvn_model *m = c->p->config.model;
    const struct lvn_weight *t;
    struct lvn_layout l;
    if (!m->linear_layers || !lvn_param_is_block_matrix(q) || !lvn_names_match(m->linear_layers, q->name))
        return LVN_OK;
    c->p->apart = c->p->base != NULL; /* adapters will be, if anything stays in its blocks */
    enum lvn_status status = lvn_pretrained_blocks(c->p, q, &l, &t);
    c->p->apart = false;
    LVN_TRY(status);
    if (!t) return LVN_OK;
    LVN_CHECK(!lvn_dtype_is_packed(quantize) || quantize == t->packed, ARG,
              "model.quantize is %s, and '%.120s' in '%s' is quantized already, to %s: leave model.quantize out",
              lvn_dtype_name(quantize), t->name, t->file, lvn_dtype_name(t->packed));
    const struct lvn_blocks b = {t->packed, t->desc.dim[0], t->desc.dim[1]};
    c->list[c->n] = (struct lvn_stored_type){lvn_intern(q->name, strlen(q->name) + 1), t->packed};
    c->bytes += lvn_blocks_bytes(&b);
    c->values += b.rows * b.columns;
    return c->list[c->n++].name ? LVN_OK : LVN_MEMORY;
}

static enum lvn_status choose(struct choice *c, enum lvn_dtype quantize)
{
    struct lvn_params *params;
    LVN_TRY(lvn_model_params_new(&params, &c->p->config));
    c->list = lvn_arena_alloc(&c->p->arena, sizeof *c->list * (size_t)(params->n + 1));
    enum lvn_status status = c->list ? LVN_OK : LVN_MEMORY;
    for (int i = 0; status == LVN_OK && i < params->n; i++) status = add(c, params->list[i], quantize);
    lvn_params_free(params);
    return status;
}

/* "9 of type Q4_1, 2 of type Q6_K"; returns the number of tensors. */
static int list_types(const struct lvn_weights *w, struct lvn_text *list, int64_t *bytes, int64_t *values)
{
    int all = 0;
    *bytes = *values = 0;
    for (int type = LVN_DTYPE_COUNT + 1; type < LVN_DTYPE_END; type++) {
        int n = 0;
        for (int i = 0; i < w->n; i++) {
            const struct lvn_weight *t = &w->tensor[i];
            if ((int)t->packed != type || !type) continue;
            const int64_t count = lvn_desc_count(&t->desc), last = t->desc.dim[t->desc.rank - 1];
            const struct lvn_blocks b = {t->packed, count / last, last};
            *bytes += lvn_blocks_bytes(&b);
            *values += count;
            n++;
        }
        if (n) lvn_text_printf(list, "%s%d of type %s", all ? ", " : "", n, lvn_dtype_name((enum lvn_dtype)type));
        all += n;
    }
    return all;
}

enum lvn_status lvn_pretrained_keep_blocks(struct lvn_pretrained *p, enum lvn_dtype quantize, const char *why,
                                           struct lvn_model_config *c)
{
    LVN_LOCAL_TEXT(list);
    struct choice choice = {.p = p};
    int64_t bytes, values;
    char from[LVN_NUMBER_TEXT], to[LVN_NUMBER_TEXT];
    const struct lvn_pretrained *files = with_weights(p);
    const int n = list_types(&files->weights, &list, &bytes, &values);
    c->stored = NULL;
    c->n_stored = 0;
    LVN_TRY(lvn_text_status(&list));
    if (!n) return LVN_OK;
    LVN_TRY(choose(&choice, quantize));
    if (why || !choice.n) {
        lvn_log_once(LVN_LOG_INFO, "'%s' has packed tensors (%s), which are widened to fp32: from %s to %s%s%s",
                     files->path, list.p, lvn_bytes_text(bytes, from), lvn_bytes_text(values * 4, to),
                     why && *why ? "; " : "", why ? why : "");
        return LVN_OK;
    }
    c->stored = choice.list;
    c->n_stored = choice.n;
    lvn_log_once(LVN_LOG_INFO,
                 "'%s' has packed tensors (%s); %d linear layers stay in their blocks, %s instead of %s in fp32%s",
                 files->path, list.p, choice.n, lvn_bytes_text(choice.bytes, from),
                 lvn_bytes_text(choice.values * 4, to), n > choice.n ? ", and the other tensors are widened" : "");
    return LVN_OK;
}
