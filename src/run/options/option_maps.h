/* option_maps.h - values that are lists of maps, as [{match: wte, lr: 1e-4}, {match: [ln_f, "h.*.bias"], lr: 0}].
 *
 * They are stored as a text in YAML, so that recipes, the command line and settings.yaml write them in the same way.
 * The module that owns the key parses it. */
#ifndef LVN_OPTION_MAPS_H
#define LVN_OPTION_MAPS_H

#include "formats/yaml.h"
#include "options/options.h"

/* Append a list of maps whose values are scalars or, where the option takes them, lists of scalars (which become "a,
 * b"). ARG: it is another value. */
enum lvn_status lvn_maps_text(const struct lvn_option *o, const struct lvn_yaml *list,
                              struct lvn_text *text) LVN_CHECKED;
/* The same of a value in YAML, as given on the command line; words for nothing and "" give "". */
enum lvn_status lvn_maps_parse(const struct lvn_option *o, const char *value, struct lvn_text *text) LVN_CHECKED;

#endif
