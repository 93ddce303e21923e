/* chart.h - the chart of deploy/helm/levin inside of the program: its files, its values, its rendering. Private to
 * launch_kubernetes.c and the files chart*.c. */
#ifndef LVN_CHART_H
#define LVN_CHART_H

#include "cli/cli.h"
#include "formats/embedded.h"
#include "formats/template/template.h"
#include "formats/variant.h"

/* Chart.yaml, values.yaml and templates/NAME; ended by a NULL name. */
extern const struct lvn_embedded_file lvn_chart_files[];
/* NULL: there is no such file. */
const char *lvn_chart_file(const char *name);

enum lvn_chart_kind {
    LVN_CHART_TEXT,
    LVN_CHART_WORD,
    LVN_CHART_INT,
    LVN_CHART_SWITCH,
    LVN_CHART_CHOICE,
    LVN_CHART_MODEL,
    LVN_CHART_TEXTS,
    LVN_CHART_NAMES,
    LVN_CHART_OBJECT,
    LVN_CHART_OBJECTS
};
/* A row of chart_values.def. */
struct lvn_chart_value {
    const char *section; /* "cluster"; "": at the top */
    const char *name;
    enum lvn_chart_kind kind;
    const char *pattern; /* TEXT, WORD; NULL: any text */
    const char *wanted;  /* TEXT, WORD: what the pattern stands for; CHOICE: the words */
    int64_t min;         /* INT */
    int64_t max;         /* INT */
};
extern const struct lvn_chart_value lvn_chart_values[]; /* ended by a NULL name */
/* The sizes that workload.modelName may name. NULL: there are no more. */
const char *lvn_chart_model(int i);

/* chart_values.c: the defaults of the chart. */
enum lvn_status lvn_chart_defaults(struct lvn_arena *a, struct lvn_variant **out) LVN_CHECKED;
/* The values of a user's file. */
enum lvn_status lvn_chart_read(struct lvn_arena *a, const char *path, struct lvn_variant **out) LVN_CHECKED;
/* Set values.SECTION.NAME. */
enum lvn_status lvn_chart_set(struct lvn_arena *a, struct lvn_variant *values, const char *section, const char *name,
                              const struct lvn_variant *value) LVN_CHECKED;
/* values.SECTION.NAME; NULL: not there, or null. */
const struct lvn_variant *lvn_chart_get(const struct lvn_variant *values, const char *section, const char *name);
/* Refuse values that chart_values.def does not have or of another kind, and keys that recipes do not have; all of them
 * in one message. */
enum lvn_status lvn_chart_check(const struct lvn_variant *values) LVN_CHECKED;

/* chart_recipe.c: the keys of a recipe that are given, into values.recipe; its numbers of nodes and devices become
 * cluster.nNodes and the ranks of a node, where *nodes and *ranks are 0. ARG: a secret, or a file of this machine. */
enum lvn_status lvn_chart_add_recipe(struct lvn_arena *a, struct lvn_variant *values, const struct lvn_settings *s,
                                     long *nodes, long *ranks) LVN_CHECKED;

/* Refuse a value with a secret: a recipe goes into a ConfigMap. */
enum lvn_status lvn_chart_check_secret(const struct lvn_settings *s, const struct lvn_option *o) LVN_CHECKED;

/* chart_resources.c: check the recipe that pods will read, as train does, and plan what a pod takes. */
struct lvn_chart_resources {
    int64_t memory;            /* bytes; 0: not known */
    int64_t shm;               /* bytes of /dev/shm */
    int64_t ephemeral_storage; /* bytes; 0: the size of the data is not known */
    int64_t checkpoints;       /* bytes of it for checkpoints */
};
enum lvn_status lvn_chart_plan(const char *recipe, int64_t nodes, int64_t ranks, bool gpus, int64_t data_size,
                               struct lvn_chart_resources *out) LVN_CHECKED;

#endif
