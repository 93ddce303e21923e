/* bitsandbytes.c - see bitsandbytes.h. */
#include "model_io/bitsandbytes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "formats/json.h"

static const char state_suffix[] = ".quant_state.bitsandbytes__";
enum { LONGEST_STATE = 1 << 16, NAME_BYTES = 600 };

struct matrix {
    struct lvn_weight *list; /* sorted by name */
    int n;
    struct lvn_weight *values; /* NAME */
    struct lvn_arena *arena;
    struct lvn_nf4 *nf4;
    int64_t rows, columns;
};

static struct lvn_weight *find(struct lvn_weight *list, int n, const char *name, int bytes, const char *suffix)
{
    char full[NAME_BYTES];
    const struct lvn_weight wanted = {.name = full};
    if (!lvn_fit(full, sizeof full, "%.*s%s", bytes, name, suffix)) return NULL;
    return bsearch(&wanted, list, (size_t)n, sizeof wanted, lvn_by_text);
}

/* NAME + suffix, which must have this type and this number of elements. */
static enum lvn_status part(const struct matrix *m, const char *suffix, enum lvn_dtype dtype, int64_t count,
                            const void **out)
{
    const char *name = m->values->name;
    const struct lvn_weight *t = find(m->list, m->n, name, (int)strlen(name), suffix);
    LVN_CHECK(t, FORMAT, "'%s', tensor '%.120s': its part '%s' is missing", m->values->file, name, suffix + 1);
    LVN_CHECK(
        t->desc.dtype == dtype && lvn_desc_count(&t->desc) == count, FORMAT,
        "'%s', tensor '%.120s' has %lld elements of type %s, and the %lld x %lld values of the matrix need %lld of "
        "type %s",
        t->file, t->name, (long long)lvn_desc_count(&t->desc), lvn_dtype_name(t->desc.dtype), (long long)m->rows,
        (long long)m->columns, (long long)count, lvn_dtype_name(dtype));
    *out = t->data;
    return LVN_OK;
}

/* The same for a table of fp32 numbers, which are copied, since files need not align them. */
static enum lvn_status table(const struct matrix *m, const char *suffix, int64_t count, float **out)
{
    const void *from;
    LVN_TRY(part(m, suffix, LVN_F32, count, &from));
    *out = lvn_arena_alloc(m->arena, sizeof **out * (size_t)count);
    if (!*out) return LVN_MEMORY;
    memcpy(*out, from, sizeof **out * (size_t)count);
    for (int64_t i = 0; i < count; i++)
        LVN_CHECK(isfinite((*out)[i]), NONFINITE, "'%s', tensor '%.120s%s' holds a number that is not finite, at %lld",
                  m->values->file, m->values->name, suffix, (long long)i);
    return LVN_OK;
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
    LVN_CHECK(strcmp(type, "nf4") == 0, UNSUPPORTED, "%s: the values are stored as '%.20s', and levin reads nf4", name,
              type);
    LVN_TRY(lvn_json_int(name, state, "blocksize", true, 1, INT32_MAX, &block));
    LVN_CHECK(block == LVN_NF4_BLOCK, UNSUPPORTED, "%s: a block has %lld values, and levin supports blocks of %d", name,
              (long long)block, LVN_NF4_BLOCK);
    LVN_TRY(lvn_json_int(name, state, "nested_blocksize", false, 1, INT32_MAX, &nested));
    LVN_CHECK(nested, UNSUPPORTED,
              "%s: the factors of its blocks are not quantized; levin reads double quantization: save the model with "
              "bnb_4bit_use_double_quant=True",
              name);
    LVN_CHECK(nested == LVN_NF4_GROUP, UNSUPPORTED,
              "%s: a block of factors has %lld of them (nested_blocksize), and levin supports %d", name,
              (long long)nested, LVN_NF4_GROUP);
    LVN_TRY(lvn_json_real(name, state, "nested_offset", true, &offset));
    LVN_CHECK(fabs(offset) < (double)INFINITY && isfinite((float)offset), FORMAT, "%s: nested_offset is %g", name,
              offset);
    m->nf4->offset = lvn_arena_alloc(m->arena, sizeof *m->nf4->offset);
    if (!m->nf4->offset) return LVN_MEMORY;
    m->nf4->offset[0] = (float)offset;
    return read_shape(m, name, state);
}

static enum lvn_status read_parts(struct matrix *m)
{
    const int64_t count = m->rows * m->columns, blocks = (count + LVN_NF4_BLOCK - 1) / LVN_NF4_BLOCK;
    const void *value, *factor;
    LVN_TRY(part(m, "", LVN_U8, (count + 1) / 2, &value));
    LVN_TRY(part(m, ".absmax", LVN_U8, blocks, &factor));
    LVN_TRY(table(m, ".quant_map", LVN_NF4_CODES, &m->nf4->code));
    LVN_TRY(table(m, ".nested_quant_map", LVN_NF4_FACTORS, &m->nf4->map));
    LVN_TRY(table(m, ".nested_absmax", (blocks + LVN_NF4_GROUP - 1) / LVN_NF4_GROUP, &m->nf4->group));
    m->nf4->value = (uint8_t *)(uintptr_t)value;
    m->nf4->factor = (uint8_t *)(uintptr_t)factor;
    return LVN_OK;
}

static enum lvn_status join(struct matrix *m, const struct lvn_weight *state)
{
    json_t *root = NULL;
    const int64_t bytes = lvn_desc_count(&state->desc);
    const char *name = lvn_arena_printf(m->arena, "'%s', tensor '%.120s'", state->file, state->name);
    m->nf4 = lvn_arena_alloc(m->arena, sizeof *m->nf4);
    if (!name || !m->nf4) return LVN_MEMORY;
    LVN_CHECK(state->desc.dtype == LVN_U8 && bytes <= LONGEST_STATE, FORMAT,
              "%s has %lld elements of type %s; expected JSON as at most %d of type uint8", name, (long long)bytes,
              lvn_dtype_name(state->desc.dtype), LONGEST_STATE);
    LVN_TRY(lvn_json_parse(name, state->data, bytes, &root));
    enum lvn_status status =
        json_is_object(root) ? read_state(m, name, root) : lvn_fail(LVN_FORMAT, "%s: expected a JSON object", name);
    json_decref(root);
    LVN_TRY(status);
    LVN_TRY(read_parts(m));
    return LVN_OK;
}

/* Is it a part of a tensor that has become a matrix? */
static bool is_part(struct lvn_weight *list, int n, const struct lvn_weight *t)
{
    static const char *const suffixes[] = {".absmax", ".quant_map", ".nested_absmax", ".nested_quant_map"};
    const char *state = strstr(t->name, state_suffix);
    int bytes = state ? (int)(state - t->name) : 0;
    for (int i = 0; i < 4 && !bytes; i++)
        if (lvn_ends_with(t->name, suffixes[i])) bytes = (int)(strlen(t->name) - strlen(suffixes[i]));
    const struct lvn_weight *whole = bytes ? find(list, n, t->name, bytes, "") : NULL;
    return whole && whole->nf4;
}

/* Parts without the state that describes them, and matrices of LLM.int8(). */
static enum lvn_status check_rest(struct lvn_weight *list, int n)
{
    for (int i = 0; i < n; i++) {
        const char *name = list[i].name;
        const int bytes = (int)strlen(name);
        const struct lvn_weight *whole =
            lvn_ends_with(name, ".weight.absmax") ? find(list, n, name, bytes - (int)strlen(".absmax"), "")
            : lvn_ends_with(name, ".SCB")         ? find(list, n, name, bytes - (int)strlen(".SCB"), ".weight")
                                                  : NULL;
        if (!whole || whole->nf4 || (whole->desc.dtype != LVN_U8 && whole->desc.dtype != LVN_I8)) continue;
        LVN_CHECK(!lvn_ends_with(name, ".SCB"), UNSUPPORTED,
                  "'%s', tensor '%.120s' is stored in 8 bits by bitsandbytes (LLM.int8()), which levin does not read; "
                  "load the 16-bit model with model.quantize=int8",
                  whole->file, whole->name);
        LVN_FAIL(FORMAT, "'%s', tensor '%.120s' has a part '%.120s', and none that describes it (%s)", whole->file,
                 whole->name, name, state_suffix + 1);
    }
    return LVN_OK;
}

enum lvn_status lvn_bitsandbytes_join(struct lvn_arena *a, struct lvn_weight *tensor, int *n)
{
    int kept = 0;
    for (int i = 0; i < *n; i++) {
        struct matrix m = {.list = tensor, .n = *n, .arena = a};
        const char *at = strstr(tensor[i].name, state_suffix);
        if (!at) continue;
        m.values = find(tensor, *n, tensor[i].name, (int)(at - tensor[i].name), "");
        LVN_CHECK(m.values, FORMAT, "'%s', tensor '%.120s' describes a matrix that the file does not have",
                  tensor[i].file, tensor[i].name);
        LVN_CHECK(!m.values->nf4, FORMAT, "'%s', tensor '%.120s' describes a matrix that another tensor describes, too",
                  tensor[i].file, tensor[i].name);
        LVN_TRY(join(&m, &tensor[i]));
        m.values->desc = LVN_DESC(LVN_F32, m.rows, m.columns);
        m.values->packed = LVN_NF4;
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
