/* parquet.c - see parquet.h: opening a file, its schema and row groups. */
#include "formats/parquet/parquet.h"

#include <unistd.h>

#include "base/files.h"
#include "base/input.h"
#include "formats/parquet/parquet_private.h"

enum { FOOTER = 256 << 20, DEPTH = 64 };

enum lvn_status lvn_parquet_bytes_at(const struct lvn_parquet *p, int64_t at, void *to, int64_t bytes)
{
    if (!p->memory) return lvn_fd_read_at(p->fd, p->name, to, at, bytes);
    if (bytes) memcpy(to, p->memory + at, (size_t)bytes);
    return LVN_OK;
}

static enum lvn_status damaged(const struct lvn_parquet *p, const char *reason)
{
    if (p->out_of_memory) return LVN_MEMORY;
    LVN_FAIL(FORMAT, "'%s' cannot be read as a Parquet file: %s; it is damaged or cut", p->name, reason);
}

/* --- the schema --- */

/* A string of the footer as a name of one line. */
static const char *name_of(struct lvn_parquet *p, struct lvn_thrift *t, int type)
{
    int64_t n;
    const char *text = lvn_thrift_string(t, type, &n);
    char *name = text ? lvn_arena_printf(&p->arena, "%.*s", (int)(n < 1 << 16 ? n : 1 << 16), text) : NULL;
    p->out_of_memory |= text && !name;
    for (char *c = name; c && *c; c++)
        if ((unsigned char)*c < ' ') *c = ' ';
    return name;
}

/* A union: the id of its member; 0: none. */
static int member_of(struct lvn_thrift *t, int type)
{
    int id = 0, inner, found = 0;
    if (type != LVN_THRIFT_STRUCT) t->bad = true;
    while (!t->bad && lvn_thrift_next(t, &id, &inner)) {
        found = id;
        lvn_thrift_skip(t, inner);
    }
    return found;
}

static void read_node(struct lvn_parquet *p, struct lvn_thrift *t, struct lvn_parquet_node *node, int64_t *children)
{
    enum { UTF8 = 0, MAP = 1, MAP_KEY_VALUE = 2, LIST = 3, ENUM = 4, JSON = 19 }; /* converted types */
    enum { UINT_8 = 11, UINT_64 = 14, INT_64 = 18 };
    enum { LOGICAL_STRING = 1, LOGICAL_MAP = 2, LOGICAL_LIST = 3, LOGICAL_ENUM = 4 };
    enum { LOGICAL_NULL = 11, LOGICAL_JSON = 12 };
    static const char *const unread[16] = {[5] = "decimal", [6] = "date",  [7] = "time",    [8] = "timestamp",
                                           [13] = "BSON",   [14] = "UUID", [15] = "float16"}; /* logical types */
    bool nulls = false;
    int id = 0, type;
    *node = (struct lvn_parquet_node){.type = LVN_PARQUET_GROUP, .leaf = -1, .first_text = -1};
    *children = 0;
    while (lvn_thrift_next(t, &id, &type)) {
        int64_t x = 0;
        if (id == 4)
            node->name = name_of(p, t, type);
        else if (id == 10)
            x = member_of(t, type);
        else if (id == 1 || id == 3 || id == 5 || id == 6)
            x = lvn_thrift_int(t, type);
        else
            lvn_thrift_skip(t, type);
        if (id == 1) node->type = (int)(x & 0xff);
        if (id == 3) node->repetition = (enum lvn_parquet_repetition)(x & 3);
        if (id == 5) *children = x;
        if (id == 10 && x >= 0 && x < 16) node->annotation = unread[x];
        nulls |= id == 10 && x == LOGICAL_NULL;
        node->is_annotated |= id == 6 || id == 10;
        node->is_text |= (id == 6 && (x == UTF8 || x == ENUM || x == JSON)) ||
                         (id == 10 && (x == LOGICAL_STRING || x == LOGICAL_ENUM || x == LOGICAL_JSON));
        node->is_json |= (id == 6 && x == JSON) || (id == 10 && x == LOGICAL_JSON);
        node->is_integer |= id == 6 && x >= UINT_8 && x <= INT_64;
        node->is_unsigned |= id == 6 && x >= UINT_8 && x <= UINT_64;
        node->is_list |= (id == 6 && x == LIST) || (id == 10 && x == LOGICAL_LIST);
        node->is_map |= (id == 6 && (x == MAP || x == MAP_KEY_VALUE)) || (id == 10 && x == LOGICAL_MAP);
    }
    if (node->repetition > LVN_PARQUET_REPEATED || !node->name || *children < 0) t->bad = true;
    if (nulls) node->type = LVN_PARQUET_BYTE_ARRAY, node->is_text = true; /* all values are null: read as text */
    if (*children) node->type = LVN_PARQUET_GROUP;
}

/* Node i and its members; the levels of its parent are known. `all`: elements of the footer's list. */
static void read_tree(struct lvn_parquet *p, struct lvn_thrift *t, const struct lvn_parquet_node *parent, int64_t all,
                      int depth)
{
    int64_t children;
    if (p->n_nodes >= all || depth > DEPTH) t->bad = true;
    if (t->bad) return;
    struct lvn_parquet_node *node = &p->node[p->n_nodes++];
    read_node(p, t, node, &children);
    if (t->bad) return;
    if (parent) {
        node->path = parent->path ? lvn_arena_printf(&p->arena, "%s.%s", parent->path, node->name) : node->name;
        node->max_def = parent->max_def + (node->repetition != LVN_PARQUET_REQUIRED);
        node->max_rep = parent->max_rep + (node->repetition == LVN_PARQUET_REPEATED);
        if (!node->path) p->out_of_memory = t->bad = true;
    }
    if (children) {
        for (int64_t i = 0; i < children && !t->bad; i++) read_tree(p, t, node, all, depth + 1);
    } else if (parent && node->type == LVN_PARQUET_GROUP) {
        node->leaf = -1; /* a struct without members */
    } else if (parent) {
        node->leaf = p->n_leaves;
        p->leaf[p->n_leaves++] = node;
        if (node->type == LVN_PARQUET_BYTE_ARRAY && node->is_text) node->first_text = (int)(node - p->node);
    }
    if (t->bad) return; /* nodes are not complete */
    node->end = p->n_nodes;
    for (int i = (int)(node - p->node) + 1; i < node->end && node->first_text < 0 && !node->is_map; i = p->node[i].end)
        node->first_text = p->node[i].first_text;
}

static enum lvn_status read_schema(struct lvn_parquet *p, struct lvn_thrift *t, int type)
{
    int element;
    const int64_t n = lvn_thrift_list(t, type, &element);
    if (t->bad || !n || p->node) return damaged(p, "its schema is not readable");
    p->node = lvn_arena_alloc(&p->arena, sizeof *p->node * (size_t)n);
    p->leaf = lvn_arena_alloc(&p->arena, sizeof *p->leaf * (size_t)n);
    if (!p->node || !p->leaf) return LVN_MEMORY;
    read_tree(p, t, NULL, n, 0);
    if (t->bad || p->n_nodes != n || !p->n_leaves) return damaged(p, "its schema is not readable");
    return LVN_OK;
}

/* --- row groups --- */

static void read_column_data(struct lvn_thrift *t, struct lvn_parquet_chunk *chunk)
{
    int64_t data = -1, dictionary = -1;
    for (int id = 0, type; lvn_thrift_next(t, &id, &type);) {
        if (id == 4)
            chunk->codec = (int)(lvn_thrift_int(t, type) & 0xff);
        else if (id == 5)
            chunk->values = lvn_thrift_int(t, type);
        else if (id == 7)
            chunk->bytes = lvn_thrift_int(t, type);
        else if (id == 9)
            data = lvn_thrift_int(t, type);
        else if (id == 11)
            dictionary = lvn_thrift_int(t, type);
        else
            lvn_thrift_skip(t, type);
    }
    chunk->at = dictionary > 0 && dictionary < data ? dictionary : data;
}

static void read_chunk(struct lvn_thrift *t, struct lvn_parquet_chunk *chunk)
{
    *chunk = (struct lvn_parquet_chunk){.at = -1};
    for (int id = 0, type; lvn_thrift_next(t, &id, &type);) {
        if (id == 3 && type == LVN_THRIFT_STRUCT) {
            read_column_data(t, chunk);
            continue;
        }
        int64_t n = 0;
        if (id == 1)
            lvn_thrift_string(t, type, &n);
        else
            lvn_thrift_skip(t, type);
        chunk->elsewhere |= n > 0;
        chunk->encrypted |= id == 8;
    }
}

static enum lvn_status read_group(struct lvn_parquet *p, struct lvn_thrift *t, int64_t group)
{
    int element;
    int64_t n = -1;
    struct lvn_parquet_chunk *chunk = p->chunk + group * p->n_leaves;
    for (int id = 0, type; lvn_thrift_next(t, &id, &type);) {
        if (id == 1) {
            n = lvn_thrift_list(t, type, &element);
            if (n != p->n_leaves || element != LVN_THRIFT_STRUCT) t->bad = true;
            for (int64_t i = 0; i < n && !t->bad; i++) read_chunk(t, &chunk[i]);
        } else if (id == 3) {
            p->rows[group] = lvn_thrift_int(t, type);
        } else {
            lvn_thrift_skip(t, type);
        }
    }
    if (t->bad || n < 0 || p->rows[group] < 0) return damaged(p, "its row groups are not readable");
    return LVN_OK;
}

static enum lvn_status read_groups(struct lvn_parquet *p, struct lvn_thrift *t, int type)
{
    int element;
    const int64_t n = lvn_thrift_list(t, type, &element);
    if (t->bad || !p->node || p->chunk || (n && element != LVN_THRIFT_STRUCT))
        return damaged(p, "its row groups are not readable");
    /* A column of a row group has at least two bytes in the footer. */
    if (n * p->n_leaves > t->end - t->p) return damaged(p, "its row groups are not readable");
    p->chunk = lvn_arena_alloc(&p->arena, sizeof *p->chunk * (size_t)(n * p->n_leaves + 1));
    p->rows = lvn_arena_alloc(&p->arena, sizeof *p->rows * (size_t)(n + 1));
    if (!p->chunk || !p->rows) return LVN_MEMORY;
    for (; p->n_groups < n; p->n_groups++) LVN_TRY(read_group(p, t, p->n_groups));
    return LVN_OK;
}

/* --- the file --- */

/* Read key_value_metadata, the texts that programs add to the schema; keep that of the package `datasets`. */
static void read_pairs(struct lvn_parquet *p, struct lvn_thrift *t, int type)
{
    int element, inner;
    int64_t n = lvn_thrift_list(t, type, &element), bytes[3] = {0};
    if (n && element != LVN_THRIFT_STRUCT) t->bad = true;
    for (; n > 0 && !t->bad; n--) {
        const char *text[3] = {NULL}; /* [1] the key, [2] the value */
        for (int id = 0; lvn_thrift_next(t, &id, &inner);) {
            if (id == 1 || id == 2)
                text[id] = lvn_thrift_string(t, inner, &bytes[id]);
            else
                lvn_thrift_skip(t, inner);
        }
        if (!text[1] || !text[2] || bytes[1] != 11 || memcmp(text[1], "huggingface", 11) != 0) continue;
        p->features = lvn_arena_printf(&p->arena, "%.*s", (int)bytes[2], text[2]);
        p->out_of_memory |= !p->features;
    }
}

static enum lvn_status read_metadata(struct lvn_parquet *p, const unsigned char *footer, int64_t n)
{
    struct lvn_thrift t = {.p = footer, .end = footer + n};
    for (int id = 0, type; lvn_thrift_next(&t, &id, &type);) {
        if (id == 2)
            LVN_TRY(read_schema(p, &t, type));
        else if (id == 4)
            LVN_TRY(read_groups(p, &t, type));
        else if (id == 5)
            read_pairs(p, &t, type);
        else
            lvn_thrift_skip(&t, type);
    }
    if (t.bad || p->out_of_memory || !p->node || !p->chunk) return damaged(p, "its footer is not readable");
    return LVN_OK;
}

static enum lvn_status read_footer(struct lvn_parquet *p)
{
    unsigned char tail[8], head[4];
    if (p->bytes < 12) return damaged(p, "it has fewer than 12 bytes");
    LVN_TRY(lvn_parquet_bytes_at(p, 0, head, 4));
    LVN_TRY(lvn_parquet_bytes_at(p, p->bytes - 8, tail, 8));
    LVN_CHECK(memcmp(tail + 4, "PARE", 4) != 0, UNSUPPORTED,
              "'%s' is an encrypted Parquet file, which levin does not read: write it without encryption", p->name);
    if (memcmp(head, "PAR1", 4) != 0) return damaged(p, "it does not begin with PAR1");
    if (memcmp(tail + 4, "PAR1", 4) != 0) return damaged(p, "it does not end with PAR1");
    const int64_t n = tail[0] | tail[1] << 8 | tail[2] << 16 | (int64_t)tail[3] << 24;
    if (n > p->bytes - 12 || n > FOOTER) return damaged(p, "the size of its footer is wrong");
    unsigned char *footer = lvn_malloc((size_t)n + 1);
    if (!footer) return LVN_MEMORY;
    enum lvn_status status = lvn_parquet_bytes_at(p, p->bytes - 8 - n, footer, n);
    if (status == LVN_OK) status = read_metadata(p, footer, n);
    free(footer);
    return status;
}

static struct lvn_parquet *new_file(const char *name)
{
    struct lvn_parquet *p = lvn_calloc(1, sizeof *p);
    if (!p) return NULL;
    lvn_arena_init(&p->arena);
    p->fd = -1;
    p->name = lvn_arena_strdup(&p->arena, name);
    if (p->name) return p;
    lvn_parquet_close(p);
    return NULL;
}

static enum lvn_status finish(struct lvn_parquet **out, struct lvn_parquet *p, enum lvn_status status)
{
    if (status == LVN_OK) status = read_footer(p);
    *out = status == LVN_OK ? p : NULL;
    if (status != LVN_OK) lvn_parquet_close(p);
    return status;
}

enum lvn_status lvn_parquet_open(struct lvn_parquet **out, const char *path)
{
    struct lvn_parquet *p = new_file(path);
    *out = NULL;
    if (!p) return LVN_MEMORY;
    enum lvn_status status = lvn_input_open(path, LVN_INPUT_REGULAR, &p->fd);
    if (status == LVN_OK) p->bytes = lseek(p->fd, 0, SEEK_END);
    return finish(out, p, status);
}

enum lvn_status lvn_parquet_open_memory(struct lvn_parquet **out, const char *name, const void *bytes, int64_t n)
{
    struct lvn_parquet *p = new_file(name);
    *out = NULL;
    if (!p) return LVN_MEMORY;
    p->memory = bytes;
    p->bytes = n;
    return finish(out, p, LVN_OK);
}

void lvn_parquet_close(struct lvn_parquet *p)
{
    if (!p) return;
    if (p->fd >= 0) close(p->fd);
    lvn_arena_release(&p->arena);
    free(p);
}

int64_t lvn_parquet_groups(const struct lvn_parquet *p)
{
    return p->n_groups;
}

int64_t lvn_parquet_group_end(const struct lvn_parquet *p, int64_t group)
{
    const struct lvn_parquet_chunk *chunk = p->chunk + group * p->n_leaves;
    int64_t end = 0;
    for (int i = 0; i < p->n_leaves; i++)
        if (chunk[i].at >= 0 && chunk[i].bytes >= 0 && chunk[i].at <= p->bytes - chunk[i].bytes &&
            chunk[i].at + chunk[i].bytes > end)
            end = chunk[i].at + chunk[i].bytes;
    return end;
}

/* The columns of the file, as far as they fit. */
static const char *list_columns(const struct lvn_parquet *p, char *list, size_t capacity)
{
    *list = '\0';
    for (int i = 1; i < p->n_nodes; i = p->node[i].end) {
        const bool fits = strlen(list) + strlen(p->node[i].name) + 8 < capacity;
        lvn_print_append(list, capacity, "%s%s", i > 1 ? ", " : "", fits ? p->node[i].name : "...");
        if (!fits) break;
    }
    return list;
}

static const struct lvn_parquet_node *find(const struct lvn_parquet *p, const char *name)
{
    for (int i = 1; i < p->n_nodes; i++)
        if (strcmp(p->node[i].path, name) == 0) return &p->node[i];
    return NULL;
}

bool lvn_parquet_has(const struct lvn_parquet *p, const char *name)
{
    return find(p, name) != NULL;
}

const char *lvn_parquet_type(const struct lvn_parquet *p, const char *name)
{
    static const char *const types[] = {"BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE"};
    const struct lvn_parquet_node *node = find(p, name);
    if (!node || node->annotation) return node ? node->annotation : NULL;
    if (node->leaf >= 0) return node->type < LVN_PARQUET_BYTE_ARRAY ? types[node->type] : "binary";
    return node->is_list ? "list" : node->is_map ? "map" : "struct";
}

const char *lvn_parquet_features(const struct lvn_parquet *p)
{
    return p->features;
}

enum lvn_status lvn_parquet_column(const struct lvn_parquet *p, const char *name, int *column)
{
    char list[240];
    const struct lvn_parquet_node *node = find(p, name);
    LVN_CHECK(node, FORMAT, "'%s' has no column '%s'; it has %s: choose the one with the text", p->name, name,
              list_columns(p, list, sizeof list));
    LVN_CHECK(node->leaf >= 0, FORMAT, "'%s': the column '%s' is a %s, not text: choose a column of texts", p->name,
              name, lvn_parquet_type(p, name));
    LVN_CHECK(!node->max_rep, FORMAT, "'%s': the column '%s' is a list, not text: choose a column of texts", p->name,
              name);
    LVN_CHECK(node->type == LVN_PARQUET_BYTE_ARRAY && (node->is_text || !node->is_annotated), FORMAT,
              "'%s': the column '%s' has the type %s, not text: choose a column of texts", p->name, name,
              lvn_parquet_type(p, name));
    *column = node->leaf;
    return LVN_OK;
}

enum lvn_status lvn_parquet_deliver(const struct lvn_parquet_reader *r)
{
    enum { GROWTH = 1000, BYTES_FROM = 64 << 20, VALUES_FROM = 1 << 20 };
    struct lvn_parquet *p = r->file;
    p->values += r->n;
    for (int64_t i = 0; i < r->n_values; i++) p->delivered += r->value[i].n;
    LVN_CHECK((p->delivered < BYTES_FROM || p->delivered / GROWTH < p->bytes) &&
                  (p->values < VALUES_FROM || p->values / GROWTH < p->bytes),
              FORMAT,
              "'%s' expands more than %d-fold when it is read (row group %lld, column '%s'): it may be a decompression "
              "bomb; if not, write it as lines of JSON",
              p->name, GROWTH, (long long)r->group, r->column->path);
    return LVN_OK;
}

/* The texts of a batch; *row: of its first level. */
static enum lvn_status deliver_batch(struct lvn_parquet_reader *r, int64_t row, lvn_parquet_text *each, void *context)
{
    const struct lvn_parquet_value *value = r->value;
    LVN_TRY(lvn_parquet_deliver(r));
    for (int64_t i = 0; i < r->n; i++) {
        const bool there = r->def_level[i] == r->column->max_def;
        LVN_TRY(each(context, row + i, there ? value->p : NULL, there ? value->n : 0));
        value += there;
    }
    return LVN_OK;
}

enum lvn_status lvn_parquet_read(struct lvn_parquet *p, int64_t group, int column, lvn_parquet_text *each,
                                 void *context)
{
    struct lvn_parquet_reader *r = lvn_calloc(1, sizeof *r);
    int64_t row = 0;
    if (!r) return LVN_MEMORY;
    enum lvn_status status = lvn_parquet_reader_open(r, p, group, column);
    while (status == LVN_OK) {
        status = lvn_parquet_reader_next(r);
        if (status != LVN_OK || !r->n) break;
        status = deliver_batch(r, row, each, context);
        row += r->n;
    }
    if (status == LVN_OK && row != p->rows[group])
        status = lvn_parquet_damaged(r, "%lld values for %lld rows", (long long)row, (long long)p->rows[group]);
    lvn_parquet_reader_close(r);
    free(r);
    return status;
}
