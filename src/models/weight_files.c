/* weight_files.c - see weight_files.h. */
#include "models/weight_files.h"

#include <stdio.h>
#include <string.h>

#include "models/keys.h"

/* --- names --- */

enum { MAX_STARS = 4 };
struct stars {
    const char *at[MAX_STARS];
    int length[MAX_STARS];
};

/* Does the pattern fit the whole text? What its stars stand for is kept; the shortest that will do. */
static bool fits(const char *pattern, const char *text, int n, struct stars *s)
{
    for (; *pattern && *pattern != '*'; pattern++, text++)
        if (*pattern != *text) return false;
    if (!*pattern) return !*text;
    if (n == MAX_STARS) return false;
    s->at[n] = text;
    for (s->length[n] = 0;; s->length[n]++) {
        if (fits(pattern + 1, text + s->length[n], n + 1, s)) return true;
        if (!text[s->length[n]]) return false;
    }
}

static void fill_in(const char *pattern, const struct stars *s, char name[LVN_FILE_NAME])
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
    if (!fits(from, name, 0, &s)) return false;
    fill_in(to, &s, out);
    return true;
}

static const struct lvn_file *rows_of(const struct lvn_model *form)
{
    static const struct lvn_file none = {0};
    return form->files ? form->files : &none;
}

static bool adds(const struct lvn_file *r)
{
    return (r->how & (LVN_FILE_ZERO_FILL | LVN_FILE_DUPLICATE)) != 0;
}

static const char *param_pattern(const struct lvn_file *r)
{
    return r->param ? r->param : r->name;
}

static void name_in_memory(const struct lvn_model *form, const char *name, char out[LVN_FILE_NAME])
{
    for (const struct lvn_file *r = rows_of(form); r->name; r++)
        if (!adds(r) && translate(r->name, param_pattern(r), name, out)) return;
    snprintf(out, LVN_FILE_NAME, "%s", name);
}

static const struct lvn_param *param_of(const struct lvn_model *form, const struct lvn_params *params, const char *name)
{
    char own[LVN_FILE_NAME];
    name_in_memory(form, name, own);
    return lvn_params_find(params, own);
}

/* A name with its prefix: something that the table knows, though no parameter. */
static bool is_spare(const struct lvn_model *form, const struct lvn_params *params, const char *name)
{
    char beside[LVN_FILE_NAME];
    for (const struct lvn_file *r = rows_of(form); r->name; r++) {
        if (!adds(r) && !(r->how & LVN_FILE_PASSED_OVER)) continue;
        if (!translate(r->name, param_pattern(r), name, beside)) continue;
        if (!adds(r) || lvn_params_find(params, beside)) return true;
    }
    return false;
}

enum lvn_file_role lvn_file_role(const struct lvn_model *form, const struct lvn_params *params, const char *name,
                                 const struct lvn_param **param)
{
    char full[LVN_FILE_NAME];
    const char *const both[] = {name, full};
    snprintf(full, sizeof full, "%s%s", form->prefix ? form->prefix : "", name);
    for (int i = 0; i < 2; i++) {
        *param = param_of(form, params, both[i]);
        if (*param) return LVN_FILE_PARAMETER;
    }
    return is_spare(form, params, name) || is_spare(form, params, full) ? LVN_FILE_SPARE : LVN_FILE_UNKNOWN;
}

bool lvn_file_legacy_name(const struct lvn_model *form, const char *name, char old[LVN_FILE_NAME])
{
    for (const struct lvn_file *r = rows_of(form); r->name; r++)
        if (r->how & LVN_FILE_LEGACY && translate(param_pattern(r), r->name, name, old)) return true;
    return false;
}

unsigned lvn_file_beside(const struct lvn_model *form, const struct lvn_params *params, const struct lvn_param *p,
                         int *row, char name[LVN_FILE_NAME])
{
    for (const struct lvn_file *r = rows_of(form) + *row; r->name; r++) {
        ++*row;
        if (adds(r) && translate(r->param, r->name, p->name, name) && !param_of(form, params, name)) return r->how;
    }
    return 0;
}

/* --- layouts --- */

enum lvn_status lvn_file_layout(const struct lvn_model *form, const struct lvn_model_config *c,
                                const struct lvn_param *p, struct lvn_layout *out)
{
    *out = (struct lvn_layout){.desc = lvn_desc_make(LVN_F32, p->desc.rank, p->desc.dim)};
    const struct lvn_file *r = rows_of(form);
    while (r->name &&
           (adds(r) || r->how & LVN_FILE_LEGACY || !translate(param_pattern(r), r->name, p->name, out->name)))
        r++;
    if (!r->name) snprintf(out->name, sizeof out->name, "%s", p->name);
    out->how = r->how | (p->kind == LVN_EMBEDDING ? LVN_FILE_ROWS : 0U);
    if (out->how & LVN_FILE_TRANSPOSED) {
        LVN_CHECK(p->desc.rank == 2, INTERNAL, "'%s' has %d dimensions and cannot be transposed", p->name,
                  p->desc.rank);
        out->desc = LVN_DESC(LVN_F32, p->desc.dim[1], p->desc.dim[0]);
    }
    if (out->how & LVN_FILE_INTERLEAVED) {
        int64_t heads = lvn_model_value(c, LVN_ROLE_HEADS);
        LVN_CHECK(heads > 0 && out->desc.dim[0] % (3 * heads) == 0, INTERNAL,
                  "'%s' has %lld rows, which %lld heads cannot share", p->name, (long long)out->desc.dim[0],
                  (long long)heads);
        out->head_size = out->desc.dim[0] / (3 * heads);
    }
    return LVN_OK;
}

bool lvn_layout_moves(const struct lvn_layout *l)
{
    return (l->how & (LVN_FILE_TRANSPOSED | LVN_FILE_INTERLEAVED)) != 0;
}

/* The file's row in memory: all q before all k before all v. */
static inline int64_t row_in_memory(int64_t row, int64_t rows, int64_t head_size)
{
    if (!head_size) return row;
    int64_t head = row / (3 * head_size), which = row / head_size % 3;
    return which * (rows / 3) + head * head_size + row % head_size;
}

/* In tiles, so that neither side walks from page to page. `bytes` is a constant where it is inlined: half the time. */
static inline void move(const struct lvn_layout *l, size_t bytes, const char *from, char *to, bool to_file)
{
    enum { TILE = 16 };
    bool transposed = (l->how & LVN_FILE_TRANSPOSED) != 0;
    int64_t rows = l->desc.dim[0], columns = l->desc.rank > 1 ? lvn_desc_count(&l->desc) / rows : 1;
    for (int64_t i = 0; i < rows; i += TILE)
        for (int64_t j = 0; j < columns; j += TILE)
            for (int64_t r = i; r < rows && r < i + TILE; r++) {
                int64_t own = row_in_memory(r, rows, l->head_size);
                for (int64_t c = j; c < columns && c < j + TILE; c++) {
                    int64_t file = r * columns + c, memory = transposed ? c * rows + own : own * columns + c;
                    memcpy(to + (size_t)(to_file ? file : memory) * bytes,
                           from + (size_t)(to_file ? memory : file) * bytes, bytes);
                }
            }
}

void lvn_layout_to_file(const struct lvn_layout *l, int64_t bytes, const void *from, void *to)
{
    if (bytes == 4)
        move(l, 4, from, to, true);
    else
        move(l, (size_t)bytes, from, to, true);
}

void lvn_layout_to_memory(const struct lvn_layout *l, int64_t bytes, const void *from, void *to)
{
    if (bytes == 4)
        move(l, 4, from, to, false);
    else
        move(l, (size_t)bytes, from, to, false);
}
