/* yaml.c - see yaml.h: builds the tree from libyaml's events.
 *
 * One loop over events with a stack of open maps and lists: nothing recurses, and each limit is checked immediately. */
#include "formats/yaml.h"

#include <yaml.h>

#include "base/files.h"
#include "base/random.h"

enum { DEPTH = 32, LARGEST = 1 << 20, MAX_VALUES = 10000 };

struct reader {
    struct lvn_arena *arena;
    const char *name;
    struct lvn_yaml *open[DEPTH]; /* unfinished maps and lists, outermost first */
    int depth;
    const char *key; /* key of the innermost map whose value has not been read; NULL: none */
    int key_line;
    int values, documents;
    struct lvn_yaml *top;
    bool tagged; /* scalars may have tags */
};

/* Attach a new value to the innermost open map or list. */
static enum lvn_status attach(struct reader *reader, struct lvn_yaml *node)
{
    struct lvn_yaml *parent = reader->depth ? reader->open[reader->depth - 1] : NULL;
    if (!parent) {
        reader->top = node;
        return LVN_OK;
    }
    if (parent->kind == LVN_YAML_MAP) {
        node->key = reader->key;
        node->line = reader->key_line;
        node->hash = lvn_name_hash(reader->key);
        reader->key = NULL;
        for (const struct lvn_yaml *c = parent->child; c; c = c->next)
            LVN_CHECK(c->hash != node->hash || strcmp(c->key, node->key) != 0, ARG,
                      "%s:%d: duplicate key '%s', first on line %d; remove one", reader->name, node->line, node->key,
                      c->line);
    }
    if (parent->last)
        parent->last->next = node;
    else
        parent->child = node;
    parent->last = node;
    parent->n++;
    return LVN_OK;
}

static enum lvn_status new_node(struct reader *reader, enum lvn_yaml_kind kind, int line, struct lvn_yaml **out)
{
    LVN_CHECK(++reader->values <= MAX_VALUES, ARG, "%s:%d: more than %d values", reader->name, line, MAX_VALUES);
    struct lvn_yaml *node = lvn_arena_alloc(reader->arena, sizeof *node);
    if (!node) return LVN_MEMORY;
    node->kind = kind;
    node->line = line;
    *out = node;
    return LVN_OK;
}

static bool is_key_next(const struct reader *reader)
{
    return reader->depth && reader->open[reader->depth - 1]->kind == LVN_YAML_MAP && !reader->key;
}

static enum lvn_status add_scalar(struct reader *reader, const yaml_event_t *e, int line)
{
    const char *value = (const char *)e->data.scalar.value;
    size_t n = e->data.scalar.length;
    const char *tag = (const char *)e->data.scalar.tag;
    LVN_CHECK(!tag || (reader->tagged && !is_key_next(reader)), ARG, "%s:%d: the tag '%s' is not supported; remove it",
              reader->name, line, tag);
    LVN_CHECK(!memchr(value, '\0', n), ARG, "%s:%d: a value contains a NUL character", reader->name, line);
    char *text = lvn_arena_strdup(reader->arena, value);
    if (!text) return LVN_MEMORY;
    if (is_key_next(reader)) {
        reader->key = text;
        reader->key_line = line;
        return LVN_OK;
    }
    LVN_CHECK(reader->depth, ARG,
              "%s:%d: found the text '%.40s', expected keys and values, for example 'model: {n_layer: 4}'",
              reader->name, line, text);
    struct lvn_yaml *node = NULL;
    LVN_TRY(new_node(reader, LVN_YAML_SCALAR, line, &node));
    node->text = text;
    if (tag && !(node->tag = lvn_arena_strdup(reader->arena, tag))) return LVN_MEMORY;
    node->quoted = e->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    return attach(reader, node);
}

static enum lvn_status open_container(struct reader *reader, enum lvn_yaml_kind kind, const yaml_char_t *tag, int line)
{
    LVN_CHECK(!tag, ARG, "%s:%d: the tag '%s' is not supported; remove it", reader->name, line, (const char *)tag);
    LVN_CHECK(!is_key_next(reader), ARG, "%s:%d: found a %s, expected a key", reader->name, line,
              kind == LVN_YAML_MAP ? "map" : "list");
    LVN_CHECK(reader->depth || kind == LVN_YAML_MAP, ARG,
              "%s:%d: found a list, expected keys and values, for example 'model: {n_layer: 4}'", reader->name, line);
    LVN_CHECK(reader->depth < DEPTH, ARG, "%s:%d: more than %d levels", reader->name, line, DEPTH);
    struct lvn_yaml *node = NULL;
    LVN_TRY(new_node(reader, kind, line, &node));
    LVN_TRY(attach(reader, node));
    reader->open[reader->depth++] = node;
    return LVN_OK;
}

static enum lvn_status handle_event(struct reader *reader, const yaml_event_t *e)
{
    int line = (int)e->start_mark.line + 1;
    const yaml_char_t *anchor = e->type == YAML_SCALAR_EVENT           ? e->data.scalar.anchor
                                : e->type == YAML_MAPPING_START_EVENT  ? e->data.mapping_start.anchor
                                : e->type == YAML_SEQUENCE_START_EVENT ? e->data.sequence_start.anchor
                                : e->type == YAML_ALIAS_EVENT          ? e->data.alias.anchor
                                                                       : NULL;
    LVN_CHECK(!anchor, ARG, "%s:%d: anchors and aliases ('%s') are not supported; write the value out", reader->name,
              line, (const char *)anchor);
    switch (e->type) {
    case YAML_DOCUMENT_START_EVENT:
        LVN_CHECK(++reader->documents == 1, ARG, "%s:%d: a second document begins; only one is supported", reader->name,
                  line);
        return LVN_OK;
    case YAML_SCALAR_EVENT:
        /* A document with only comments yields one empty scalar. */
        if (!reader->depth && e->data.scalar.length == 0 && e->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
            !e->data.scalar.tag)
            return LVN_OK;
        return add_scalar(reader, e, line);
    case YAML_MAPPING_START_EVENT:
        return open_container(reader, LVN_YAML_MAP, e->data.mapping_start.tag, line);
    case YAML_SEQUENCE_START_EVENT:
        return open_container(reader, LVN_YAML_LIST, e->data.sequence_start.tag, line);
    case YAML_MAPPING_END_EVENT:
    case YAML_SEQUENCE_END_EVENT:
        reader->depth--;
        return LVN_OK;
    default:
        return LVN_OK;
    }
}

/* True if line `line` (from 0) of the text is indented by a tab. YAML allows only spaces there. */
static bool is_indented_by_tab(const char *text, int64_t bytes, size_t line)
{
    const char *p = text, *end = text + bytes;
    for (; line && p < end; line--) {
        p = memchr(p, '\n', (size_t)(end - p));
        if (!p) return false;
        p++;
    }
    while (p < end && *p == ' ') p++;
    return p < end && *p == '\t';
}

static enum lvn_status read_events(struct reader *reader, yaml_parser_t *parser, const char *text, int64_t bytes)
{
    for (bool more = true; more;) {
        yaml_event_t event;
        if (!yaml_parser_parse(parser, &event)) {
            LVN_CHECK(parser->error != YAML_MEMORY_ERROR, MEMORY, "not enough memory to read '%s'", reader->name);
            LVN_CHECK(!is_indented_by_tab(text, bytes, parser->problem_mark.line), ARG,
                      "%s:%d: this line is indented by a tab, but YAML only allows spaces; replace the tab by spaces",
                      reader->name, (int)parser->problem_mark.line + 1);
            LVN_FAIL(ARG, "%s:%d: invalid YAML: %s%s%s", reader->name, (int)parser->problem_mark.line + 1,
                     parser->context ? parser->context : "", parser->context ? ", " : "",
                     parser->problem ? parser->problem : "unreadable");
        }
        more = event.type != YAML_STREAM_END_EVENT;
        enum lvn_status status = handle_event(reader, &event);
        yaml_event_delete(&event);
        if (status != LVN_OK) return status;
    }
    return LVN_OK;
}

static enum lvn_status parse(struct lvn_arena *a, const char *name, const char *text, int64_t bytes, bool tagged,
                             const struct lvn_yaml **out)
{
    *out = NULL;
    LVN_CHECK(bytes <= LARGEST, ARG, "%s: more than 1 MiB", name);
    int64_t bad = lvn_utf8_check(text, bytes);
    if (bad >= 0) {
        int line = 1;
        for (int64_t i = 0; i < bad; i++) line += text[i] == '\n';
        LVN_FAIL(ARG, "%s:%d: byte %lld is not UTF-8 text", name, line, (long long)bad);
    }
    yaml_parser_t parser;
    LVN_CHECK(yaml_parser_initialize(&parser), MEMORY, "not enough memory to read '%s'", name);
    yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
    int64_t bom = lvn_utf8_bom(text, bytes);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text + bom, (size_t)(bytes - bom));
    struct reader reader = {.arena = a, .name = name, .tagged = tagged};
    enum lvn_status status = read_events(&reader, &parser, text + bom, bytes - bom);
    yaml_parser_delete(&parser);
    if (status == LVN_OK && !reader.top) status = new_node(&reader, LVN_YAML_MAP, 1, &reader.top);
    if (status == LVN_OK) *out = reader.top;
    return status;
}

enum lvn_status lvn_yaml_parse(struct lvn_arena *a, const char *name, const char *text, int64_t bytes,
                               const struct lvn_yaml **out)
{
    return parse(a, name, text, bytes, false, out);
}

enum lvn_status lvn_yaml_value(struct lvn_arena *a, const char *name, const char *text, const struct lvn_yaml **out)
{
    LVN_LOCAL_TEXT(yaml);
    const struct lvn_yaml *top;
    lvn_text_printf(&yaml, "value: %s", text);
    LVN_TRY(lvn_text_status(&yaml));
    LVN_TRY(lvn_yaml_parse(a, name, yaml.p, yaml.n, &top));
    LVN_CHECK(top->n == 1, ARG, "%s must be one value, got '%.60s'", name, text);
    *out = top->child;
    return LVN_OK;
}

static enum lvn_status read_file(struct lvn_arena *a, const char *path, bool tagged, const struct lvn_yaml **out)
{
    char *text;
    int64_t bytes;
    *out = NULL;
    enum lvn_status status = lvn_file_read(path, LARGEST, &text, &bytes);
    LVN_CHECK(status != LVN_FORMAT, ARG, "%s: more than 1 MiB", path);
    if (status != LVN_OK) return status;
    const char *name = lvn_arena_strdup(a, path);
    status = name ? parse(a, name, text, bytes, tagged, out) : LVN_MEMORY;
    free(text);
    return status;
}

enum lvn_status lvn_yaml_read(struct lvn_arena *a, const char *path, const struct lvn_yaml **out)
{
    return read_file(a, path, false, out);
}

enum lvn_status lvn_yaml_read_tagged(struct lvn_arena *a, const char *path, const struct lvn_yaml **out)
{
    return read_file(a, path, true, out);
}

const struct lvn_yaml *lvn_yaml_get(const struct lvn_yaml *map, const char *key)
{
    if (!map || map->kind != LVN_YAML_MAP) return NULL;
    for (const struct lvn_yaml *c = map->child; c; c = c->next)
        if (strcmp(c->key, key) == 0) return c;
    return NULL;
}

static bool is_plain_safe(const char *s)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    static const char inside[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+-:";
    size_t n = strlen(s);
    if (n == 0 || s[strspn(s, inside)] != '\0' || s[n - 1] == ':' || !strcmp(s, "null")) return false;
    if (s[0] == '-' || s[0] == '+') return s[1] != '\0' && strchr("0123456789.", s[1]);
    return strchr(letters, s[0]) || strchr("_./", s[0]);
}

void lvn_yaml_add_scalar(struct lvn_text *t, const char *s)
{
    if (is_plain_safe(s)) {
        lvn_text_add(t, s);
        return;
    }
    lvn_text_add(t, "\"");
    int used;
    for (size_t left = strlen(s); left > 0; s += used, left -= (size_t)used) {
        int32_t code = lvn_utf8_decode(s, (int64_t)left, &used);
        bool unprintable = (code >= 0x7f && code < 0xa0) || code == 0x2028 || code == 0x2029 || code == 0xfeff ||
                           (code >= 0xfff0 && code <= 0xffff);
        if (code == '"' || code == '\\')
            lvn_text_printf(t, "\\%c", code);
        else if (code == '\n')
            lvn_text_add(t, "\\n");
        else if (code == '\t')
            lvn_text_add(t, "\\t");
        else if (code < 0x20)
            lvn_text_printf(t, "\\x%02x", (unsigned char)*s);
        else if (unprintable)
            lvn_text_printf(t, "\\u%04x", code);
        else
            lvn_text_add_bytes(t, s, used);
    }
    lvn_text_add(t, "\"");
}
