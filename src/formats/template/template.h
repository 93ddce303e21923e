/* template.h - renders text templates in a small part of Go's template language, the one of Helm charts. Used by levin
 * launch --kubernetes for the chart in deploy/helm/levin.
 *
 * What there is: {{ pipelines }}, {{- and -}}, comments, if / else if / else, range over lists and maps (with one or
 * two variables), define, variables ($x := ...), fields (.a.b, $.a, $x.a, (...).a), texts, whole numbers, true, false,
 * nil, parentheses, and the functions of template_functions.c. All else is refused with "FILE:LINE: ...". Results are
 * those of Helm, except that a number keeps its spelling. Nesting, the number of executed nodes and the length of the
 * output are limited. */
#ifndef LVN_TEMPLATE_H
#define LVN_TEMPLATE_H

#include "base/text.h"
#include "formats/variant.h"

struct lvn_template_define;
struct lvn_templates {
    struct lvn_arena *arena;             /* of all that is parsed and computed; set by the caller, the rest is zero */
    struct lvn_template_define *defines; /* by name; the last one first */
};
/* Parse a file: it becomes the template of this name, and each {{ define }} in it another one. `file` and `text` live
 * as long as the templates. ARG: "FILE:LINE: ...". */
LVN_CHECKED enum lvn_status lvn_template_parse(struct lvn_templates *t, const char *file, const char *text);
/* Append what the template gives for `dot`, which is also $. ARG: "FILE:LINE: ...", or the sentence that the template
 * itself passes to `fail`; *failed (NULL: not wanted) says which of the two. */
LVN_CHECKED enum lvn_status lvn_template_render(const struct lvn_templates *t, const char *name,
                                                const struct lvn_variant *dot, struct lvn_text *out, bool *failed);

#endif
