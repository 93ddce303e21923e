/* settings.h - the settings of a run, and the source of each value.
 *
 * Commands and the C API fill one; everything from data to the loop reads it. Its values (options/values.h) come from
 * defaults, a recipe (YAML), the environment (LEVIN_OPTIMIZER_LR=1e-3), and the command line or a program; later
 * sources override earlier ones. lvn_settings_set() checks a value by its row; lvn_settings_finish() derives values
 * from others and refuses contradictions. After it the rest of levin sees const settings, the engine and inference only
 * their values, and nothing sees a key as text. */
#ifndef LVN_SETTINGS_H
#define LVN_SETTINGS_H

#include "base/arena.h"
#include "base/text.h"
#include "options/values.h"

/* The source of a value, in order of precedence: a later one overrides an earlier one. */
enum lvn_source {
    LVN_SOURCE_DEFAULT,     /* the table */
    LVN_SOURCE_DERIVED,     /* computed from other values */
    LVN_SOURCE_SUGGESTED,   /* chosen for the data or by model.depth: counts as given */
    LVN_SOURCE_RUN,         /* settings.yaml, which a run wrote: perhaps that of another user */
    LVN_SOURCE_RECIPE,      /* another file */
    LVN_SOURCE_ENVIRONMENT, /* LEVIN_... */
    LVN_SOURCE_COMMAND,     /* the command line */
    LVN_SOURCE_PROGRAM,     /* a program that uses the library; may set a key several times */
};
struct lvn_origin {
    enum lvn_source source;
    const char *where;    /* RUN, RECIPE: the file; DERIVED: the other values */
    int line;             /* RUN, RECIPE: counted from 1 */
    int count;            /* COMMAND: how many times it was given */
    const char *redacted; /* the value with its secret hidden; NULL: it has no secret */
};

/* Parts of the settings that a command uses, as bits, for lvn_settings_finish(). */
enum lvn_uses {
    LVN_USES_MODEL = 1,
    LVN_USES_DATA = 2,
    LVN_USES_OPTIMIZER = 4,
    LVN_USES_SCHEDULE = 8,
    LVN_USES_TRAINER = 16,
    LVN_USES_CALLBACKS = 32, /* and loggers */
    LVN_USES_DEVICE = 128,   /* computes on trainer.accelerator, which must be here; without it: only planned */
    LVN_USES_ALL = 63 | LVN_USES_DEVICE,
    LVN_USES_SPLIT = 64, /* data.split: only if a model is evaluated */
};

struct levin_settings {
    struct lvn_values values;
    struct lvn_origin origin[LVN_OPT_ALL]; /* [id] */
    struct lvn_arena arena;                /* of texts */
};

enum { LVN_RUN_DIR_TEXT = 900 }; /* bytes of run_dir, with its final 0: paths below it fit into buffers of 1 KiB */

/* All defaults. */
enum lvn_status lvn_settings_init(struct levin_settings *s) LVN_CHECKED;
void lvn_settings_release(struct levin_settings *s);
/* Set one key from text, which is copied. ARG: unknown key (the nearest is named), wrong type, out of range, or given
 * twice by the same recipe. A value of an earlier source does not override one of a later source. Setting data.path by
 * another source than a recipe resets the recipe's data.url and data.sha256. */
enum lvn_status lvn_settings_set(struct levin_settings *s, const char *key, const char *value,
                                 enum lvn_source source) LVN_CHECKED;
/* The same with file and line. */
enum lvn_status lvn_settings_set_at(struct levin_settings *s, const char *key, const char *value,
                                    struct lvn_origin origin) LVN_CHECKED;
/* Set all keys of a recipe, or of a file that lvn_settings_write() wrote. The source of the values is LVN_SOURCE_RUN if
 * the file's name is settings.yaml, else LVN_SOURCE_RECIPE. */
enum lvn_status lvn_settings_load(struct levin_settings *s, const char *path) LVN_CHECKED;
/* A recipe in memory; `path` is its name in messages. */
enum lvn_status lvn_settings_read(struct levin_settings *s, const char *text, size_t length,
                                  const char *path) LVN_CHECKED;
/* Derive the name of the run, unless it was given: `dawn` from data/dawn.yaml, data/dawn.txt and data/dawn/. `origin`
 * describes the path in messages: "the recipe's file name". */
enum lvn_status lvn_settings_name_by(struct levin_settings *s, const char *path, const char *origin) LVN_CHECKED;
/* The environment variable of a key, "LEVIN_OPTIMIZER_LR". Returns `text`. */
const char *lvn_settings_variable(const char *key, char text[LVN_VALUE_TEXT]);
/* Set the keys whose variables LEVIN_PART_FIELD are set. */
enum lvn_status lvn_settings_environment(struct levin_settings *s) LVN_CHECKED;
/* Derive values from others, and refuse contradictions and what this version cannot do, within these parts
 * (LVN_USES_... or-ed); values of other parts are not touched. May be called again after further values were set. */
enum lvn_status lvn_settings_finish(struct levin_settings *s, unsigned parts) LVN_CHECKED;
/* For `levin train my.txt`: choose what is not given of the model's sizes, the batch, the optimizer, the schedule, the
 * number of steps and the samples, so that a text of a megabyte gives readable words in about two minutes on two
 * cores; with model.init, of the batch, the optimizer, the schedule and the epochs. Does nothing unless data.path is a
 * text, or a folder of texts, that is not given another kind. Before lvn_settings_finish(). */
enum lvn_status lvn_settings_fit_text(struct levin_settings *s) LVN_CHECKED;
/* Drop what the run's recipe says about the model that the run began with: model.init is the trained one. */
void lvn_settings_begun(struct levin_settings *s);
/* The settings as a recipe, which lvn_settings_load() reads back to equal values: malloc'd, to be freed; NULL: no
 * memory. */
char *lvn_settings_yaml(const struct levin_settings *s);
/* Write the same to a file, atomically. `comment`: a last line "# ..."; NULL: none. */
enum lvn_status lvn_settings_write(const struct levin_settings *s, const char *path, const char *comment) LVN_CHECKED;

/* Load and finish the settings that lvn_settings_write() wrote for a run of this many ranks. Release them. */
enum lvn_status lvn_settings_of_run(struct levin_settings *s, const char *path, int64_t ranks) LVN_CHECKED;
/* Append "optimizer.lr: 0.1 -> 0.2; ..." for each key, except run_dir, with another value in `now` than in the file.
 * *explicit_only: all of these were given on the command line or by a program. */
enum lvn_status lvn_settings_differences(const char *path, const struct levin_settings *now, struct lvn_text *out,
                                         bool *explicit_only) LVN_CHECKED;
/* ARG if a text that was given, except run_dir, is not UTF-8: lvn_settings_write() could not record it. */
enum lvn_status lvn_settings_check_utf8(const struct levin_settings *s) LVN_CHECKED;
/* Set a key to its default. */
enum lvn_status lvn_settings_default(struct levin_settings *s, enum lvn_option_id id) LVN_CHECKED;
/* Was this key given, by a recipe, the environment, the command line or a program? */
bool lvn_settings_given(const struct levin_settings *s, enum lvn_option_id id);
/* Does its value differ from its default? */
bool lvn_settings_differs(const struct levin_settings *s, enum lvn_option_id id);
/* The value as a user would write it. */
const char *lvn_settings_value(const struct levin_settings *s, enum lvn_option_id id, char text[LVN_VALUE_TEXT]);
/* "default", "recipes/x.yaml:7", "LEVIN_OPTIMIZER_LR", "command line", ... */
const char *lvn_settings_origin(const struct levin_settings *s, enum lvn_option_id id, char text[LVN_VALUE_TEXT]);

#endif
