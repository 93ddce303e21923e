/* weight_files.c - see weight_files.h: pattern matching of names, then the permutation of elements. */
#include "models/weight_files.h"

#include "models/keys.h"

/* --- names --- */

enum { MAX_STARS = 4 };
struct stars {
    const char *at[MAX_STARS];
    int length[MAX_STARS];
};

/* Does the pattern match the whole text? Records the text of each star, the shortest possible. */
static bool matches(const char *pattern, const char *text, int n, struct stars *s)
{
    for (; *pattern && *pattern != '*'; pattern++, text++)
        if (*pattern != *text) return false;
    if (!*pattern) return !*text;
    if (n == MAX_STARS) return false;
    s->at[n] = text;
    for (s->length[n] = 0;; s->length[n]++) {
        if (matches(pattern + 1, text + s->length[n], n + 1, s)) return true;
        if (!text[s->length[n]]) return false;
    }
}

static void substitute(const char *pattern, const struct stars *s, char name[LVN_FILE_NAME])
{
    size_t used = 0;
    int n = 0;
    for (; *pattern && used < LVN_FILE_NAME - 1; pattern++) {
        bool star = *pattern == '*';
        snprintf(name + used, LVN_FILE_NAME - used, "%.*s", star ? s->length[n] : 1, star ? s->at[n] : pattern);
        n += star;
        used += strlen(name + used);
    }
    name[used] = '\0';
}

static bool translate(const char *from, const char *to, const char *name, char out[LVN_FILE_NAME])
{
    struct stars s;
    if (!matches(from, name, 0, &s)) return false;
    substitute(to, &s, out);
    return true;
}

static const struct lvn_file *rows_of(const struct lvn_model *variant)
{
    static const struct lvn_file none = {0};
    return variant->files ? variant->files : &none;
}

/* Does the row describe a tensor that files have in addition to the parameters? */
static bool adds(const struct lvn_file *r)
{
    return (r->flags & (LVN_FILE_ZERO_FILL | LVN_FILE_DUPLICATE)) != 0;
}

static const char *param_pattern(const struct lvn_file *r)
{
    return r->param ? r->param : r->name;
}

void lvn_file_param_name(const struct lvn_model *variant, const char *name, char out[LVN_FILE_NAME])
{
    for (const struct lvn_file *r = rows_of(variant); r->name; r++)
        if (!adds(r) && translate(r->name, param_pattern(r), name, out)) return;
    snprintf(out, LVN_FILE_NAME, "%s", name);
}

static const struct lvn_param *param_of(const struct lvn_model *variant, const struct lvn_params *params,
                                        const char *name)
{
    char in_memory[LVN_FILE_NAME];
    lvn_file_param_name(variant, name, in_memory);
    return lvn_params_find(params, in_memory);
}

/* Does a row of the table match this name (with its prefix) of a tensor that is no parameter? */
static bool is_extra(const struct lvn_model *variant, const struct lvn_params *params, const char *name)
{
    char source[LVN_FILE_NAME];
    for (const struct lvn_file *r = rows_of(variant); r->name; r++) {
        if (!adds(r) && !(r->flags & LVN_FILE_IGNORED)) continue;
        if (!translate(r->name, param_pattern(r), name, source)) continue;
        if (!adds(r) || lvn_params_find(params, source)) return true;
    }
    return false;
}

/* Does the name belong to a part of the file's model that levin does not have? */
static bool is_other_part(const struct lvn_model *variant, const char *name)
{
    struct stars s;
    for (const struct lvn_file *r = rows_of(variant); r->name; r++)
        if (r->flags & LVN_FILE_OTHER_PART && matches(r->name, name, 0, &s)) return true;
    return false;
}

enum lvn_file_role lvn_file_role(const struct lvn_model *variant, const struct lvn_params *params, const char *name,
                                 const struct lvn_param **param)
{
    char full[LVN_FILE_NAME];
    const char *const both[] = {name, full};
    snprintf(full, sizeof full, "%s%s", variant->prefix ? variant->prefix : "", name);
    for (int i = 0; i < 2; i++) {
        *param = param_of(variant, params, both[i]);
        if (*param) return LVN_FILE_PARAMETER;
    }
    if (is_other_part(variant, name)) return LVN_FILE_PART;
    return is_extra(variant, params, name) || is_extra(variant, params, full) ? LVN_FILE_EXTRA : LVN_FILE_UNKNOWN;
}

bool lvn_file_legacy_name(const struct lvn_model *variant, const char *name, int n, char old[LVN_FILE_NAME])
{
    for (const struct lvn_file *r = rows_of(variant); r->name; r++)
        if (r->flags & LVN_FILE_LEGACY && translate(param_pattern(r), r->name, name, old) && n-- == 0) return true;
    return false;
}

unsigned lvn_file_next_extra(const struct lvn_model *variant, const struct lvn_params *params,
                             const struct lvn_param *p, int *row, char name[LVN_FILE_NAME])
{
    for (const struct lvn_file *r = rows_of(variant) + *row; r->name; r++) {
        ++*row;
        if (adds(r) && translate(r->param, r->name, p->name, name) && !param_of(variant, params, name)) return r->flags;
    }
    return 0;
}

/* --- layouts --- */

enum lvn_status lvn_file_layout(const struct lvn_model *variant, const struct lvn_model_config *c,
                                const struct lvn_param *p, struct lvn_layout *out)
{
    *out = (struct lvn_layout){.desc = lvn_desc_make(LVN_F32, p->desc.rank, p->desc.dim)};
    const struct lvn_file *r = rows_of(variant);
    while (r->name &&
           (adds(r) || r->flags & LVN_FILE_LEGACY || !translate(param_pattern(r), r->name, p->name, out->name)))
        r++;
    if (!r->name) snprintf(out->name, sizeof out->name, "%s", p->name);
    out->flags = r->flags | (p->kind == LVN_EMBEDDING ? LVN_FILE_ROWS : 0U);
    if (out->flags & LVN_FILE_TRANSPOSED) {
        LVN_CHECK(p->desc.rank == 2, INTERNAL, "'%s' has %d dimensions and cannot be transposed", p->name,
                  p->desc.rank);
        out->desc = LVN_DESC(LVN_F32, p->desc.dim[1], p->desc.dim[0]);
    }
    if (out->flags & LVN_FILE_INTERLEAVED) {
        int64_t heads = lvn_model_value(c, LVN_ROLE_HEADS);
        LVN_CHECK(heads > 0 && out->desc.dim[0] % (3 * heads) == 0, INTERNAL,
                  "'%s' has %lld rows, which %lld heads cannot share", p->name, (long long)out->desc.dim[0],
                  (long long)heads);
        out->head_size = out->desc.dim[0] / (3 * heads);
    }
    if (out->flags & LVN_FILE_PAIRED) {
        const struct lvn_model_config resolved = lvn_model_resolved(c);
        out->head_size = lvn_model_value(&resolved, LVN_ROLE_HEAD_SIZE);
        LVN_CHECK(out->head_size > 0 && out->head_size % 2 == 0 && out->desc.dim[0] % out->head_size == 0, INTERNAL,
                  "'%s' has %lld rows, which heads of %lld channels cannot share", p->name, (long long)out->desc.dim[0],
                  (long long)out->head_size);
    }
    return LVN_OK;
}

bool lvn_layout_moves(const struct lvn_layout *l)
{
    return (l->flags & (LVN_FILE_TRANSPOSED | LVN_FILE_INTERLEAVED | LVN_FILE_PAIRED | LVN_FILE_PLUS_ONE)) != 0;
}

/* The row in memory of a row of the file. INTERLEAVED: all q, all k, all v in memory; q, k, v head by head in the file.
 * PAIRED: the two halves of a head in memory; alternately a row of each half in the file. */
static inline int64_t row_in_memory(int64_t row, int64_t rows, int64_t head_size, bool paired)
{
    if (!head_size) return row;
    if (paired) return row - row % head_size + row % 2 * (head_size / 2) + row % head_size / 2;
    int64_t head = row / (3 * head_size), which = row / head_size % 3;
    return which * (rows / 3) + head * head_size + row % head_size;
}

void lvn_layout_rows(const struct lvn_layout *l, int32_t *row_of)
{
    const int64_t rows = l->desc.dim[0];
    for (int64_t row = 0; row < rows; row++)
        row_of[row_in_memory(row, rows, l->head_size, (l->flags & LVN_FILE_PAIRED) != 0)] = (int32_t)row;
}

/* In tiles, so that a transposition does not touch another page for each element. Inlining makes `bytes` a constant,
 * which halves the time. */
static inline void permute(const struct lvn_layout *l, size_t bytes, const char *from, char *to, bool to_file)
{
    enum { TILE = 16 };
    const bool transposed = (l->flags & LVN_FILE_TRANSPOSED) != 0, paired = (l->flags & LVN_FILE_PAIRED) != 0;
    int64_t rows = l->desc.dim[0], columns = l->desc.rank > 1 ? lvn_desc_count(&l->desc) / rows : 1;
    for (int64_t i = 0; i < rows; i += TILE)
        for (int64_t j = 0; j < columns; j += TILE)
            for (int64_t r = i; r < rows && r < i + TILE; r++) {
                int64_t row = row_in_memory(r, rows, l->head_size, paired);
                for (int64_t c = j; c < columns && c < j + TILE; c++) {
                    int64_t file = r * columns + c, memory = transposed ? c * rows + row : row * columns + c;
                    memcpy(to + (size_t)(to_file ? file : memory) * bytes,
                           from + (size_t)(to_file ? memory : file) * bytes, bytes);
                }
            }
}

static void add(const struct lvn_layout *l, float x, float *to)
{
    const int64_t n = lvn_desc_count(&l->desc);
    for (int64_t i = 0; i < n && l->flags & LVN_FILE_PLUS_ONE; i++) to[i] += x;
}

void lvn_layout_to_file(const struct lvn_layout *l, int64_t bytes, const void *from, void *to)
{
    if (bytes == 4)
        permute(l, 4, from, to, true);
    else
        permute(l, (size_t)bytes, from, to, true);
    add(l, 1, to);
}

void lvn_layout_to_memory(const struct lvn_layout *l, int64_t bytes, const void *from, void *to)
{
    if (bytes == 4)
        permute(l, 4, from, to, false);
    else
        permute(l, (size_t)bytes, from, to, false);
    add(l, -1, to);
}
