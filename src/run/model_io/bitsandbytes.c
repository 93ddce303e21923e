/* bitsandbytes.c - see bitsandbytes.h. */
#include "model_io/bitsandbytes.h"

#include "base/list.h"
#include "formats/json.h"

static const char state_suffix[] = ".quant_state.bitsandbytes__", rows_suffix[] = ".SCB",
                  order_suffix[] = ".weight_format";
enum { LONGEST_STATE = 1 << 16, NAME_BYTES = 600 };

struct matrix {
    struct lvn_weight *list; /* sorted by name */
    int n;
    struct lvn_weight *values; /* NAME */
    struct lvn_arena *arena;
    struct lvn_nf4 *nf4;
    enum lvn_dtype dtype;
    int64_t rows, columns;
};

static struct lvn_weight *find(struct lvn_weight *list, int n, const char *name, int bytes, const char *suffix)
{
    char full[NAME_BYTES];
    const struct lvn_weight wanted = {.name = full};
    if (!lvn_fit(full, sizeof full, "%.*s%s", bytes, name, suffix)) return NULL;
    return bsearch(&wanted, list, (size_t)n, sizeof wanted, lvn_by_text);
}

/* The first element. */
static const void *begin(const struct lvn_weight *t)
{
    return (const char *)t->data + t->desc.offset * lvn_dtype_bytes(t->desc.dtype);
}

static enum lvn_status check_part(const struct matrix *m, const struct lvn_weight *t, enum lvn_dtype dtype,
                                  int64_t count)
{
    LVN_CHECK(
        t->desc.dtype == dtype && lvn_desc_count(&t->desc) == count && lvn_desc_contiguous(&t->desc), FORMAT,
        "'%s', tensor '%.120s' has %lld elements of type %s, and the %lld x %lld values of the matrix need %lld of "
        "type %s, one after another",
        t->file, t->name, (long long)lvn_desc_count(&t->desc), lvn_dtype_name(t->desc.dtype), (long long)m->rows,
        (long long)m->columns, (long long)count, lvn_dtype_name(dtype));
    return LVN_OK;
}

/* NAME + suffix, which must have this type and this number of elements. */
static enum lvn_status part(const struct matrix *m, const char *suffix, enum lvn_dtype dtype, int64_t count,
                            const struct lvn_weight **out)
{
    const char *name = m->values->name;
    *out = find(m->list, m->n, name, (int)strlen(name), suffix);
    LVN_CHECK(*out, FORMAT, "'%s', tensor '%.120s': its part '%s' is missing", m->values->file, name, suffix + 1);
    return check_part(m, *out, dtype, count);
}

/* Numbers in fp32, which are copied, since files need not align them. */
static enum lvn_status numbers(const struct matrix *m, const struct lvn_weight *t, int64_t count, float **out)
{
    LVN_TRY(check_part(m, t, LVN_F32, count));
    *out = lvn_arena_alloc(m->arena, sizeof **out * (size_t)count);
    if (!*out) return LVN_MEMORY;
    memcpy(*out, begin(t), sizeof **out * (size_t)count);
    for (int64_t i = 0; i < count; i++)
        LVN_CHECK(isfinite((*out)[i]), NONFINITE, "'%s', tensor '%.120s' holds a number that is not finite, at %lld",
                  t->file, t->name, (long long)i);
    return LVN_OK;
}

static enum lvn_status table(const struct matrix *m, const char *suffix, int64_t count, float **out)
{
    const struct lvn_weight *t;
    LVN_TRY(part(m, suffix, LVN_F32, count, &t));
    return numbers(m, t, count, out);
}

static enum lvn_status read_shape(struct matrix *m, const char *name, const json_t *state)
{
    const json_t *shape;
    LVN_TRY(lvn_json_list(name, state, "shape", true, &shape));
    const json_int_t rows = json_integer_value(json_array_get(shape, 0)),
                     columns = json_integer_value(json_array_get(shape, 1));
    int64_t count;
    LVN_CHECK(json_array_size(shape) == 2 && rows > 0 && columns > 0, FORMAT,
              "%s: 'shape' must be two whole numbers above zero", name);
    LVN_CHECK(!__builtin_mul_overflow((int64_t)rows, (int64_t)columns, &count) && count < INT64_MAX - LVN_NF4_BLOCK,
              FORMAT, "%s: a shape of %lld x %lld has more values than can be counted", name, (long long)rows,
              (long long)columns);
    m->rows = rows;
    m->columns = columns;
    return LVN_OK;
}

/* JSON with the state of a matrix; name: for messages. */
static enum lvn_status read_state(struct matrix *m, const char *name, const json_t *state)
{
    int64_t block = 0, nested = 0;
    double offset = 0;
    const char *type;
    LVN_TRY(lvn_json_string(name, state, "quant_type", true, &type));
    const bool fp4 = strcmp(type, "fp4") == 0;
    LVN_CHECK(fp4 || strcmp(type, "nf4") == 0, UNSUPPORTED,
              "%s: the values are stored as '%.20s', and levin reads nf4 and fp4", name, type);
    LVN_TRY(lvn_json_int(name, state, "blocksize", true, 1, INT32_MAX, &block));
    LVN_CHECK(block == LVN_NF4_BLOCK, UNSUPPORTED, "%s: a block has %lld values, and levin supports blocks of %d", name,
              (long long)block, LVN_NF4_BLOCK);
    LVN_TRY(lvn_json_int(name, state, "nested_blocksize", false, 1, INT32_MAX, &nested));
    m->dtype = nested ? fp4 ? LVN_FP4 : LVN_NF4 : fp4 ? LVN_FP4_F32 : LVN_NF4_F32;
    LVN_TRY(read_shape(m, name, state));
    if (!nested) return LVN_OK;
    LVN_CHECK(nested == LVN_NF4_GROUP, UNSUPPORTED,
              "%s: a block of factors has %lld of them (nested_blocksize), and levin supports %d", name,
              (long long)nested, LVN_NF4_GROUP);
    LVN_TRY(lvn_json_real(name, state, "nested_offset", true, &offset));
    LVN_CHECK(fabs(offset) < (double)INFINITY && isfinite((float)offset), FORMAT, "%s: nested_offset is %g", name,
              offset);
    m->nf4->offset = lvn_arena_alloc(m->arena, sizeof *m->nf4->offset);
    if (!m->nf4->offset) return LVN_MEMORY;
    m->nf4->offset[0] = (float)offset;
    return LVN_OK;
}

static enum lvn_status read_parts(struct matrix *m)
{
    const int64_t count = m->rows * m->columns, blocks = (count + LVN_NF4_BLOCK - 1) / LVN_NF4_BLOCK;
    const struct lvn_weight *value, *factor;
    LVN_TRY(part(m, "", LVN_U8, (count + 1) / 2, &value));
    m->nf4->value = (uint8_t *)(uintptr_t)begin(value);
    LVN_TRY(table(m, ".quant_map", LVN_NF4_CODES, &m->nf4->code));
    if ((m->dtype == LVN_FP4 || m->dtype == LVN_FP4_F32) && m->nf4->code[8] == 0)
        m->nf4->code[8] = -0.0F; /* the upper bit is the sign, which the table lacks here */
    if (!m->nf4->offset) return table(m, ".absmax", blocks, &m->nf4->scale);
    LVN_TRY(part(m, ".absmax", LVN_U8, blocks, &factor));
    LVN_TRY(table(m, ".nested_quant_map", LVN_NF4_FACTORS, &m->nf4->map));
    LVN_TRY(table(m, ".nested_absmax", (blocks + LVN_NF4_GROUP - 1) / LVN_NF4_GROUP, &m->nf4->group));
    m->nf4->factor = (uint8_t *)(uintptr_t)begin(factor);
    return LVN_OK;
}

static enum lvn_status join(struct matrix *m, const struct lvn_weight *state)
{
    json_t *root = NULL;
    const int64_t bytes = lvn_desc_count(&state->desc);
    const char *name = lvn_arena_printf(m->arena, "'%s', tensor '%.120s'", state->file, state->name);
    m->nf4 = lvn_arena_alloc(m->arena, sizeof *m->nf4);
    if (!name || !m->nf4) return LVN_MEMORY;
    LVN_CHECK(state->desc.dtype == LVN_U8 && bytes <= LONGEST_STATE && lvn_desc_contiguous(&state->desc), FORMAT,
              "%s has %lld elements of type %s; expected JSON as at most %d of type uint8", name, (long long)bytes,
              lvn_dtype_name(state->desc.dtype), LONGEST_STATE);
    LVN_TRY(lvn_json_parse(name, begin(state), bytes, &root));
    enum lvn_status status =
        json_is_object(root) ? read_state(m, name, root) : lvn_fail(LVN_FORMAT, "%s: expected a JSON object", name);
    json_decref(root);
    LVN_TRY(status);
    return read_parts(m);
}

/* The matrix of LLM.int8() with these factors of rows, NAME.SCB. */
static enum lvn_status join_int8(struct matrix *m, const struct lvn_weight *factors)
{
    struct lvn_weight *t = m->values;
    const int bytes = (int)strlen(factors->name) - (int)strlen(rows_suffix);
    const struct lvn_weight *order = find(m->list, m->n, factors->name, bytes, order_suffix);
    float *row;
    LVN_CHECK(t->desc.rank == 2 && t->desc.dim[0] > 0 && t->desc.dim[1] > 0, FORMAT,
              "'%s', tensor '%.120s' has factors of rows ('%.120s'), and it is not a matrix", t->file, t->name,
              factors->name);
    LVN_CHECK(!order || (order->desc.dtype == LVN_U8 && lvn_desc_count(&order->desc) == 1 &&
                         *(const uint8_t *)begin(order) == 0),
              UNSUPPORTED, "'%s', tensor '%.120s': the values of '%.120s' are not in the order of rows (0)",
              order->file, order->name, t->name);
    m->rows = t->desc.dim[0], m->columns = t->desc.dim[1];
    LVN_TRY(check_part(m, t, LVN_I8, m->rows * m->columns));
    t->data = begin(t);
    LVN_TRY(numbers(m, factors, m->rows, &row));
    t->row_factor = row;
    return LVN_OK;
}

/* Is it a part of a tensor that has become a matrix? */
static bool is_part(struct lvn_weight *list, int n, const struct lvn_weight *t)
{
    static const struct {
        const char *part, *whole;
    } names[] = {{".absmax", ""},           {".quant_map", ""},       {".nested_absmax", ""},
                 {".nested_quant_map", ""}, {rows_suffix, ".weight"}, {order_suffix, ".weight"}};
    const char *state = strstr(t->name, state_suffix);
    const struct lvn_weight *whole = state ? find(list, n, t->name, (int)(state - t->name), "") : NULL;
    for (int i = 0; i < 6 && !whole; i++)
        if (lvn_ends_with(t->name, names[i].part))
            whole = find(list, n, t->name, (int)(strlen(t->name) - strlen(names[i].part)), names[i].whole);
    return whole && whole->packed;
}

/* Parts without the state that describes them. */
static enum lvn_status check_rest(struct lvn_weight *list, int n)
{
    for (int i = 0; i < n; i++) {
        const char *name = list[i].name;
        const struct lvn_weight *whole = lvn_ends_with(name, ".weight.absmax")
                                             ? find(list, n, name, (int)(strlen(name) - strlen(".absmax")), "")
                                             : NULL;
        LVN_CHECK(!whole || whole->packed || whole->desc.dtype != LVN_U8, FORMAT,
                  "'%s', tensor '%.120s' has a part '%.120s', and none that describes it (%s)", whole->file,
                  whole->name, name, state_suffix + 1);
    }
    return LVN_OK;
}

enum lvn_status lvn_bitsandbytes_join(struct lvn_arena *a, struct lvn_weight *tensor, int *n)
{
    int kept = 0;
    for (int i = 0; i < *n; i++) {
        struct matrix m = {.list = tensor, .n = *n, .arena = a};
        const char *name = tensor[i].name, *at = strstr(name, state_suffix);
        if (lvn_ends_with(name, rows_suffix)) {
            m.values = find(tensor, *n, name, (int)(strlen(name) - strlen(rows_suffix)), ".weight");
            if (!m.values || m.values->desc.dtype != LVN_I8) continue;
            LVN_TRY(join_int8(&m, &tensor[i]));
            m.values->desc = LVN_DESC(LVN_F32, m.rows, m.columns);
            m.values->packed = LVN_INT8_ROWS;
        }
        if (!at) continue;
        m.values = find(tensor, *n, name, (int)(at - name), "");
        LVN_CHECK(m.values, FORMAT, "'%s', tensor '%.120s' describes a matrix that the file does not have",
                  tensor[i].file, tensor[i].name);
        LVN_CHECK(!m.values->nf4, FORMAT, "'%s', tensor '%.120s' describes a matrix that another tensor describes, too",
                  tensor[i].file, tensor[i].name);
        LVN_TRY(join(&m, &tensor[i]));
        m.values->desc = LVN_DESC(LVN_F32, m.rows, m.columns);
        m.values->packed = m.dtype;
        m.values->nf4 = m.nf4;
    }
    LVN_TRY(check_rest(tensor, *n));
    /* in two passes, since is_part() searches the whole list */
    bool *drop = lvn_arena_alloc(a, (size_t)*n + 1);
    if (!drop) return LVN_MEMORY;
    for (int i = 0; i < *n; i++) drop[i] = is_part(tensor, *n, &tensor[i]);
    for (int i = 0; i < *n; i++)
        if (!drop[i]) tensor[kept++] = tensor[i];
    *n = kept;
    return LVN_OK;
}
