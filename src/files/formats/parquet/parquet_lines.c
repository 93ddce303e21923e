/* parquet_lines.c - rows of Parquet files as lines of JSON; see parquet.h.
 *
 * The columns of texts and numbers are read side by side. A value has a definition level, which says how many of the
 * optional and repeated parts of its path exist, and a repetition level, which says which list continues. A row is
 * written along the schema, and each list or struct looks at the levels of the first column in it. */

#include "formats/parquet/parquet_private.h"

/* A column, with the place in its batch. */
struct cursor {
    struct lvn_parquet_reader reader;
    int64_t at, value;
    bool ended;
};

struct assembly {
    struct lvn_parquet *file;
    bool lists;             /* numbers in lists are read, too */
    struct cursor **column; /* [leaves]; NULL: not read */
    int *first;             /* [nodes] the first column in the node that is read; -1: none */
    struct lvn_text line;
};

static enum lvn_status fill(struct cursor *c)
{
    if (c->at < c->reader.n) return LVN_OK;
    LVN_TRY(lvn_parquet_reader_next(&c->reader));
    c->at = c->value = 0;
    c->ended = !c->reader.n;
    return lvn_parquet_deliver(&c->reader);
}

/* Is it a column of numbers or booleans that is read? */
static bool is_number(const struct lvn_parquet_node *node, bool lists)
{
    return node->leaf >= 0 && (lists || !node->max_rep) && (!node->is_annotated || node->is_integer) &&
           node->type < LVN_PARQUET_BYTE_ARRAY && node->type != LVN_PARQUET_INT96;
}

static bool is_read(const struct lvn_parquet *p, const struct lvn_parquet_node *leaf, bool lists)
{
    for (const struct lvn_parquet_node *n = p->node; n < leaf; n++)
        if (n->is_map && n->end > leaf - p->node) return false;
    return leaf->first_text >= 0 || is_number(leaf, lists);
}

const char *lvn_parquet_unread(const struct lvn_parquet *p, int *column)
{
    while (*column < p->n_leaves) {
        const struct lvn_parquet_node *leaf = p->leaf[(*column)++];
        if (!is_read(p, leaf, true)) return leaf->path;
    }
    return NULL;
}

static int first_in(const struct assembly *a, const struct lvn_parquet_node *node)
{
    return a->first[node - a->file->node];
}

/* The levels of the next value of a column. */
static enum lvn_status peek(struct cursor *c, int *rep, int *def)
{
    LVN_TRY(fill(c));
    if (c->ended) return lvn_parquet_damaged(&c->reader, "it has fewer values than rows");
    *rep = c->reader.rep_level[c->at];
    *def = c->reader.def_level[c->at];
    return LVN_OK;
}

/* Drop a level of every column below a node that does not exist. */
static enum lvn_status skip(struct assembly *a, const struct lvn_parquet_node *node)
{
    for (const struct lvn_parquet_node *n = node; n < a->file->node + node->end; n++) {
        struct cursor *c = n->leaf >= 0 ? a->column[n->leaf] : NULL;
        int rep = 0, def = 0;
        if (!c) continue;
        LVN_TRY(peek(c, &rep, &def));
        if (def >= node->max_def) return lvn_parquet_damaged(&c->reader, "its levels differ from those of its struct");
        c->at++;
    }
    return LVN_OK;
}

static void add_string(struct lvn_text *t, const unsigned char *p, int64_t n)
{
    char code[8];
    lvn_text_add(t, "\"");
    for (int64_t from = 0, i = 0; i <= n; i++) {
        if (i < n && p[i] >= ' ' && p[i] != '"' && p[i] != '\\') continue;
        if (i > from) lvn_text_add_bytes(t, p + from, i - from);
        if (i == n) break;
        from = i + 1;
        const char letter = p[i] == '\n' ? 'n' : p[i] == '\t' ? 't' : p[i] == '\r' ? 'r' : (char)p[i];
        snprintf(code, sizeof code, letter < ' ' ? "\\u%04x" : "\\%c", letter);
        lvn_text_add(t, code);
    }
    lvn_text_add(t, "\"");
}

/* Add a JSON text, without its line ends: they are white space, or the text is invalid. */
static void add_json(struct lvn_text *t, const unsigned char *p, int64_t n)
{
    for (int64_t i = 0, from = 0; i <= n; i++) {
        if (i < n && p[i] != '\n' && p[i] != '\r') continue;
        lvn_text_add_bytes(t, p + from, i - from);
        from = i + 1;
    }
    if (!n) lvn_text_add(t, "null");
}

/* Add a real number; null if it is not finite. It has a decimal point or an exponent, so that readers of JSON do not
 * take it for an integer. */
static void add_real(struct lvn_text *t, double x)
{
    char text[40];
    snprintf(text, sizeof text, isfinite(x) ? "%.17g" : "null", x);
    lvn_text_printf(t, "%s%s", text, strpbrk(text, ".en") ? "" : ".0");
}

static void add_number(struct lvn_text *t, const struct lvn_parquet_node *column, const unsigned char *p)
{
    union {
        int32_t i32;
        uint32_t u32;
        int64_t i64;
        uint64_t u64;
        float f32;
        double f64;
    } x = {.u64 = 0};
    switch (column->type) {
    case LVN_PARQUET_BOOLEAN:
        lvn_text_add(t, *p ? "true" : "false");
        return;
    case LVN_PARQUET_INT32:
        memcpy(&x.i32, p, sizeof x.i32);
        lvn_text_printf(t, "%" PRId64, column->is_unsigned ? (int64_t)x.u32 : (int64_t)x.i32);
        return;
    case LVN_PARQUET_INT64:
        memcpy(&x.i64, p, sizeof x.i64);
        if (column->is_unsigned)
            lvn_text_printf(t, "%" PRIu64, x.u64);
        else
            lvn_text_printf(t, "%" PRId64, x.i64);
        return;
    case LVN_PARQUET_FLOAT:
        memcpy(&x.f32, p, sizeof x.f32);
        add_real(t, (double)x.f32);
        return;
    default:
        memcpy(&x.f64, p, sizeof x.f64);
        add_real(t, x.f64);
    }
}

static enum lvn_status add_leaf(struct assembly *a, const struct lvn_parquet_node *node)
{
    struct cursor *c = a->column[node->leaf];
    int rep = 0, def = 0;
    LVN_TRY(peek(c, &rep, &def));
    c->at++;
    if (def != node->max_def) return lvn_parquet_damaged(&c->reader, "its levels differ from those of its struct");
    const struct lvn_parquet_value *value = &c->reader.value[c->value++];
    if (is_number(node, a->lists))
        add_number(&a->line, node, value->p);
    else if (a->lists && node->is_json)
        add_json(&a->line, value->p, value->n);
    else
        add_string(&a->line, value->p, value->n);
    return LVN_OK;
}

static enum lvn_status add_node(struct assembly *a, const struct lvn_parquet_node *node);

/* Skip a member of a struct if it is null, because the structs of a column have the members of all rows: for example
 * the arguments of all tool calls. */
static enum lvn_status skip_null(struct assembly *a, const struct lvn_parquet_node *node, bool *skipped)
{
    int rep = 0, def = 0;
    LVN_TRY(peek(a->column[first_in(a, node)], &rep, &def));
    *skipped = node->repetition != LVN_PARQUET_REPEATED && def < node->max_def;
    return *skipped ? skip(a, node) : LVN_OK;
}

static enum lvn_status add_members(struct assembly *a, const struct lvn_parquet_node *node)
{
    const char *comma = "";
    bool skipped = false;
    lvn_text_add(&a->line, "{");
    for (const struct lvn_parquet_node *n = node + 1; n < a->file->node + node->end; n = a->file->node + n->end) {
        if (first_in(a, n) < 0) continue;
        if (a->lists && node != a->file->node) LVN_TRY(skip_null(a, n, &skipped));
        if (skipped) continue;
        lvn_text_add(&a->line, comma);
        add_string(&a->line, (const unsigned char *)n->name, (int64_t)strlen(n->name));
        lvn_text_add(&a->line, ":");
        LVN_TRY(add_node(a, n));
        comma = ",";
    }
    lvn_text_add(&a->line, "}");
    return LVN_OK;
}

/* The value of a node that exists; of a list, of an element. The repeated part of an annotated list is a struct around
 * its only member, unless older writers left this struct out. */
static enum lvn_status add_value(struct assembly *a, const struct lvn_parquet_node *node,
                                 const struct lvn_parquet_node *list)
{
    if (node->leaf >= 0) return add_leaf(a, node);
    const struct lvn_parquet_node *member = node + 1;
    const bool around = list && list->is_list && member->end == node->end && strcmp(node->name, "array") != 0;
    if (around) return add_node(a, member);
    if (node->is_list && member->repetition == LVN_PARQUET_REPEATED && member->end == node->end)
        return add_node(a, member);
    return add_members(a, node);
}

static enum lvn_status add_node(struct assembly *a, const struct lvn_parquet_node *node)
{
    struct cursor *c = a->column[first_in(a, node)];
    int rep = 0, def = 0;
    LVN_TRY(peek(c, &rep, &def));
    if (node->repetition != LVN_PARQUET_REPEATED) {
        if (def >= node->max_def) return add_value(a, node, NULL);
        lvn_text_add(&a->line, "null");
        return skip(a, node);
    }
    lvn_text_add(&a->line, "[");
    if (def < node->max_def) {
        lvn_text_add(&a->line, "]");
        return skip(a, node);
    }
    const struct lvn_parquet_node *list = node - 1; /* the group of a list precedes its only member */
    for (const char *comma = "";; comma = ",") {
        lvn_text_add(&a->line, comma);
        LVN_TRY(add_value(a, node, list->end == node->end ? list : NULL));
        LVN_TRY(lvn_text_status(&a->line));
        LVN_TRY(fill(c));
        if (c->ended || c->reader.rep_level[c->at] != node->max_rep) break;
    }
    lvn_text_add(&a->line, "]");
    return LVN_OK;
}

/* All columns begin a new row, or have ended. */
static enum lvn_status check_row(struct assembly *a, bool more)
{
    for (int i = 0; i < a->file->n_leaves; i++) {
        struct cursor *c = a->column[i];
        if (!c) continue;
        LVN_TRY(fill(c));
        if (c->ended == more || (more && c->reader.rep_level[c->at]))
            return lvn_parquet_damaged(&c->reader, "its lists do not fit its rows");
    }
    return LVN_OK;
}

static enum lvn_status open_columns(struct assembly *a, int64_t group)
{
    bool some = false;
    for (int i = 0; i < a->file->n_leaves; i++) {
        const struct lvn_parquet_node *leaf = a->file->leaf[i];
        if (!is_read(a->file, leaf, a->lists)) continue;
        a->column[i] = lvn_calloc(1, sizeof *a->column[i]);
        if (!a->column[i]) return LVN_MEMORY;
        LVN_TRY(lvn_parquet_reader_open(&a->column[i]->reader, a->file, group, i));
        some |= a->lists || leaf->first_text >= 0;
    }
    LVN_CHECK(some, FORMAT, "'%s' has no column of texts", a->file->name);
    for (int i = a->file->n_nodes - 1; i >= 0; i--) {
        const struct lvn_parquet_node *node = &a->file->node[i];
        a->first[i] = node->leaf >= 0 && a->column[node->leaf] ? node->leaf : -1;
        for (int k = i + 1; k < node->end && a->first[i] < 0; k = a->file->node[k].end) a->first[i] = a->first[k];
    }
    return LVN_OK;
}

static enum lvn_status write_rows(struct assembly *a, int64_t group,
                                  enum lvn_status (*each)(void *context, const char *line, int64_t bytes),
                                  void *context)
{
    LVN_TRY(open_columns(a, group));
    for (int64_t i = 0; i < a->file->rows[group]; i++) {
        LVN_TRY(check_row(a, true));
        lvn_text_clear(&a->line);
        LVN_TRY(add_members(a, a->file->node));
        lvn_text_add(&a->line, "\n");
        LVN_TRY(lvn_text_status(&a->line));
        LVN_TRY(each(context, a->line.p, a->line.n));
    }
    return check_row(a, false);
}

enum lvn_status lvn_parquet_read_lines(struct lvn_parquet *p, int64_t group, bool lists,
                                       enum lvn_status (*each)(void *context, const char *line, int64_t bytes),
                                       void *context)
{
    struct assembly a = {.file = p,
                         .lists = lists,
                         .column = lvn_calloc((size_t)p->n_leaves, sizeof *a.column),
                         .first = lvn_calloc((size_t)p->n_nodes, sizeof *a.first)};
    enum lvn_status status = a.column && a.first ? write_rows(&a, group, each, context) : LVN_MEMORY;
    for (int i = 0; a.column && i < p->n_leaves; i++) {
        if (a.column[i]) lvn_parquet_reader_close(&a.column[i]->reader);
        free(a.column[i]);
    }
    free(a.column);
    free(a.first);
    lvn_text_release(&a.line);
    return status;
}
