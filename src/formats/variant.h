/* variant.h - a tree of typed values: what a chart's values.yaml holds, and what templates
 * (formats/template/template.h) compute with. Used by levin launch --kubernetes.
 *
 * Plain scalars become null, booleans and numbers by the rules of Helm's YAML reader, so that a file means the same to
 * both. Values never change once they are in a tree; all memory is the arena's. Left out: numbers that are written in
 * octal, hexadecimal or with `_` (refused), dates (text). */
#ifndef LVN_VARIANT_H
#define LVN_VARIANT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/text.h"
#include "formats/yaml.h"

enum lvn_variant_kind {
    LVN_VARIANT_NULL,
    LVN_VARIANT_BOOL,
    LVN_VARIANT_INT,
    LVN_VARIANT_REAL,
    LVN_VARIANT_TEXT,
    LVN_VARIANT_MAP,
    LVN_VARIANT_LIST
};

struct lvn_variant {
    enum lvn_variant_kind kind;
    bool b;                    /* BOOL */
    int64_t i;                 /* INT */
    double r;                  /* REAL */
    const char *text;          /* TEXT; REAL: as it was written, NULL: it was computed */
    const char *where;         /* file that it comes from; NULL: none */
    int line;                  /* of that file, counted from 1 */
    const char *key;           /* of a map's entry; NULL elsewhere */
    int n;                     /* children of a map or a list */
    struct lvn_variant *child; /* the first one */
    struct lvn_variant *next;  /* the next child of the same parent */
};

/* A value of its kind without content; NULL: out of memory, as for all functions that return a value. */
struct lvn_variant *lvn_variant_new(struct lvn_arena *a, enum lvn_variant_kind kind);
struct lvn_variant *lvn_variant_text(struct lvn_arena *a, const char *text);
struct lvn_variant *lvn_variant_int(struct lvn_arena *a, int64_t i);
struct lvn_variant *lvn_variant_bool(struct lvn_arena *a, bool b);
/* A plain scalar of YAML. ARG: a number in a spelling that readers of YAML do not agree on. */
LVN_CHECKED enum lvn_status lvn_variant_plain(struct lvn_arena *a, const char *text, struct lvn_variant **out);
/* The tree of a YAML file; `name` is the file's name in messages, and lives as long as the tree. */
LVN_CHECKED enum lvn_status lvn_variant_from_yaml(struct lvn_arena *a, const struct lvn_yaml *y, const char *name,
                                                  struct lvn_variant **out);

/* The entry of a map; NULL: there is none, or v is not a map. */
const struct lvn_variant *lvn_variant_get(const struct lvn_variant *v, const char *key);
/* Put a copy of `value` under `key` into a map, in place of one that is there. The copy shares the children. */
LVN_CHECKED enum lvn_status lvn_variant_set(struct lvn_arena *a, struct lvn_variant *map, const char *key,
                                            const struct lvn_variant *value);
/* Append a copy to a list. */
LVN_CHECKED enum lvn_status lvn_variant_append(struct lvn_arena *a, struct lvn_variant *list,
                                               const struct lvn_variant *value);
/* `over` on top of `base`, as Helm does it: maps are merged entry by entry, all else is replaced, and null removes. */
LVN_CHECKED enum lvn_status lvn_variant_merge(struct lvn_arena *a, const struct lvn_variant *base,
                                              const struct lvn_variant *over, struct lvn_variant **out);
/* The entries of a map or list by their keys in the order of bytes (a list: in its order): an array of v->n. */
const struct lvn_variant **lvn_variant_sorted(struct lvn_arena *a, const struct lvn_variant *v);

/* False for null, false, 0, "" and what is empty. v NULL is null. */
bool lvn_variant_is_true(const struct lvn_variant *v);
/* The word of its kind, for messages: "text", "whole number". */
const char *lvn_variant_kind_text(const struct lvn_variant *v);
/* As YAML, keys sorted, a newline between lines and none at the end. Texts that would read as something else are in
 * quotes. */
LVN_CHECKED enum lvn_status lvn_variant_yaml(struct lvn_arena *a, struct lvn_text *t, const struct lvn_variant *v);
/* A text in double quotes, with the escapes of YAML. */
void lvn_variant_quote(struct lvn_text *t, const char *text);
/* A scalar without quotes; a map or a list: nothing. */
void lvn_variant_print(struct lvn_text *t, const struct lvn_variant *v);

#endif
