/* yaml.h - parses a file, such as a recipe, into a tree of maps, lists and scalars with line numbers.
 *
 * Scalars stay text: the option table interprets them. Refused with a message "FILE:LINE: ...": duplicate keys, keys
 * that are not scalars, more than 32 levels, anchors and aliases, tags, several documents, a top level that is not a
 * map, more than 1 MiB or 10,000 values, text that is not UTF-8, NUL in a scalar. An empty file is an empty map. */
#ifndef LVN_YAML_H
#define LVN_YAML_H

#include "base/arena.h"
#include "base/status.h"
#include "base/text.h"

enum lvn_yaml_kind { LVN_YAML_SCALAR, LVN_YAML_MAP, LVN_YAML_LIST };

struct lvn_yaml {
    enum lvn_yaml_kind kind;
    int line;                     /* from 1; in a map, the line of the key */
    const char *key;              /* key of a map's entry; NULL elsewhere */
    const char *text;             /* scalar: its text, "" for an omitted value */
    const char *tag;              /* scalar read by lvn_yaml_read_tagged(): its tag, "!function"; NULL: none */
    bool quoted;                  /* scalar: 'x', "x" or a block: a string even if it reads like a number or null */
    int n;                        /* number of children of a map or list */
    const struct lvn_yaml *child; /* the first child, in the order of the file */
    const struct lvn_yaml *next;  /* the next child of the same parent */
    struct lvn_yaml *last;        /* used while reading */
    uint64_t hash;                /* of the key, used while reading */
};

/* Parse a text; the tree is in the arena, `name` is the file's name in messages. LVN_ARG if the text is refused. */
enum lvn_status lvn_yaml_parse(struct lvn_arena *a, const char *name, const char *text, int64_t bytes,
                               const struct lvn_yaml **out) LVN_CHECKED;
enum lvn_status lvn_yaml_read(struct lvn_arena *a, const char *path, const struct lvn_yaml **out) LVN_CHECKED;
/* The same for a file of another program, whose scalars may have tags. */
enum lvn_status lvn_yaml_read_tagged(struct lvn_arena *a, const char *path, const struct lvn_yaml **out) LVN_CHECKED;
/* The same for one value in flow style, for example [{a: b}, {a: c}]. */
enum lvn_status lvn_yaml_value(struct lvn_arena *a, const char *name, const char *text,
                               const struct lvn_yaml **out) LVN_CHECKED;
/* The value of `key` in a map; NULL if it is missing or `map` is not a map. */
const struct lvn_yaml *lvn_yaml_get(const struct lvn_yaml *map, const char *key);

/* Add `s` as a scalar that reads back as the same text: plain if that is safe, otherwise in double quotes. */
void lvn_yaml_add_scalar(struct lvn_text *t, const char *s);

#endif
