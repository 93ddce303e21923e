/* settings.h - what a run is asked to do, and where each answer came from.
 *
 * struct lvn_settings has one typed field for each row of options.def. Values come from the defaults, a recipe (YAML),
 * the environment (LEVIN_OPTIMIZER_LR=1e-3), and the command line or a program; the later wins. lvn_settings_set()
 * checks a value by its row; lvn_settings_finish() fills what follows from other values and refuses contradictions.
 * After it the rest of levin sees a const struct lvn_settings and never a key as text. */
#ifndef LVN_SETTINGS_H
#define LVN_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/text.h"

/* --- words that options choose from: X(name in C, word) --- */

#define LVN_CHOICES_data_clean(X)                                                                                      \
    X(DATA_CLEAN_NONE, "none")                                                                                         \
    X(DATA_CLEAN_NSMC, "nsmc")
#define LVN_CHOICES_data_sampling(X)                                                                                   \
    X(DATA_SAMPLING_PERMUTATION, "permutation")                                                                        \
    X(DATA_SAMPLING_RANDOM, "random")                                                                                  \
    X(DATA_SAMPLING_SEQUENTIAL, "sequential")
#define LVN_CHOICES_data_split(X)                                                                                      \
    X(DATA_SPLIT_AUTO, "auto")                                                                                         \
    X(DATA_SPLIT_TRAIN, "train")                                                                                       \
    X(DATA_SPLIT_VAL, "val")                                                                                           \
    X(DATA_SPLIT_TEST, "test")                                                                                         \
    X(DATA_SPLIT_ALL, "all")
#define LVN_CHOICES_optimizer_kind(X)                                                                                  \
    X(OPTIMIZER_KIND_ADAMW, "adamw")                                                                                   \
    X(OPTIMIZER_KIND_ADAM, "adam")                                                                                     \
    X(OPTIMIZER_KIND_SGD, "sgd")
#define LVN_CHOICES_optimizer_decay(X)                                                                                 \
    X(OPTIMIZER_DECAY_LINEAR, "linear")                                                                                \
    X(OPTIMIZER_DECAY_MATRICES, "matrices")                                                                            \
    X(OPTIMIZER_DECAY_ALL, "all")
#define LVN_CHOICES_optimizer_state(X) X(OPTIMIZER_STATE_FP32, "fp32") X(OPTIMIZER_STATE_BF16, "bf16")
#define LVN_CHOICES_schedule_kind(X)                                                                                   \
    X(SCHEDULE_KIND_CONSTANT, "constant")                                                                              \
    X(SCHEDULE_KIND_LINEAR, "linear")                                                                                  \
    X(SCHEDULE_KIND_COSINE, "cosine")                                                                                  \
    X(SCHEDULE_KIND_EXPONENTIAL, "exponential")
#define LVN_CHOICES_trainer_gradient_clip_algorithm(X)                                                                 \
    X(TRAINER_CLIP_NORM, "norm")                                                                                       \
    X(TRAINER_CLIP_VALUE, "value")
#define LVN_CHOICES_trainer_recompute(X)                                                                               \
    X(TRAINER_RECOMPUTE_AUTO, "auto")                                                                                  \
    X(TRAINER_RECOMPUTE_NONE, "none") X(TRAINER_RECOMPUTE_CHEAP, "cheap") X(TRAINER_RECOMPUTE_BLOCKS, "blocks")
#define LVN_CHOICES_trainer_precision(X)                                                                               \
    X(TRAINER_PRECISION_32_TRUE, "32-true")                                                                            \
    X(TRAINER_PRECISION_BF16_MIXED, "bf16-mixed")                                                                      \
    X(TRAINER_PRECISION_BF16_TRUE, "bf16-true")                                                                        \
    X(TRAINER_PRECISION_16_MIXED, "16-mixed")                                                                          \
    X(TRAINER_PRECISION_16_TRUE, "16-true")                                                                            \
    X(TRAINER_PRECISION_64_TRUE, "64-true")
#define LVN_CHOICES_trainer_float32_matmul_precision(X)                                                                \
    X(TRAINER_FLOAT32_HIGHEST, "highest")                                                                              \
    X(TRAINER_FLOAT32_HIGH, "high")
#define LVN_CHOICES_trainer_strategy(X)                                                                                \
    X(TRAINER_STRATEGY_AUTO, "auto")                                                                                   \
    X(TRAINER_STRATEGY_SINGLE_DEVICE, "single_device")                                                                 \
    X(TRAINER_STRATEGY_DDP, "ddp")                                                                                     \
    X(TRAINER_STRATEGY_ZERO1, "zero1")                                                                                 \
    X(TRAINER_STRATEGY_ZERO2, "zero2")                                                                                 \
    X(TRAINER_STRATEGY_FSDP, "fsdp")
#define LVN_CHOICES_trainer_transport(X)                                                                               \
    X(TRAINER_TRANSPORT_AUTO, "auto") X(TRAINER_TRANSPORT_MPI, "mpi") X(TRAINER_TRANSPORT_TCP, "tcp")
#define LVN_CHOICES_trainer_share(X) X(TRAINER_SHARE_EQUAL, "equal") X(TRAINER_SHARE_MEASURED, "measured")
#define LVN_CHOICES_trainer_reduce_dtype(X) X(TRAINER_REDUCE_FP32, "fp32") X(TRAINER_REDUCE_BF16, "bf16")

/* Define the rows that are wanted, then walk over options.def. */
#define LVN_X(name, word) LVN_##name,
#define LVN_CHOICE(part, field, ...) enum lvn_##part##_##field{LVN_CHOICES_##part##_##field(LVN_X)};
#include "settings/options_each.h"
#undef LVN_X

/* An absolute number (count), or a fraction of a whole that is known later; the other one is 0. Both 0: off. */
struct lvn_amount {
    int64_t count;
    double fraction;
};

/* Texts of an option that may be given again and again. */
struct lvn_texts {
    const char *const *text; /* (n) */
    int n;
};

/* Where a value came from; a later one wins over an earlier one. */
enum lvn_source {
    LVN_SOURCE_DEFAULT,     /* the table */
    LVN_SOURCE_DERIVED,     /* follows from other values */
    LVN_SOURCE_RECIPE,      /* a file */
    LVN_SOURCE_ENVIRONMENT, /* LEVIN_... */
    LVN_SOURCE_COMMAND,     /* the command line */
    LVN_SOURCE_PROGRAM,     /* a program that uses the library; may set a key again */
};
struct lvn_origin {
    enum lvn_source source;
    const char *where; /* RECIPE: the file; DERIVED: from what */
    int line;          /* RECIPE: counted from 1 */
    int times;         /* COMMAND: so often it was given */
    const char *shown; /* the value with its secret hidden; NULL: it has none */
};

/* The options as numbers: LVN_OPT_optimizer_lr, LVN_OPT_name. */
enum lvn_option_id {
#define LVN_TOP(field, ...) LVN_OPT_##field,
#define LVN_INT(part, field, ...) LVN_OPT_##part##_##field,
#define LVN_REAL(part, field, ...) LVN_OPT_##part##_##field,
#define LVN_PAIR(part, field, ...) LVN_OPT_##part##_##field,
#define LVN_BOOL(part, field, ...) LVN_OPT_##part##_##field,
#define LVN_CHOICE(part, field, ...) LVN_OPT_##part##_##field,
#define LVN_WORD(part, field, ...) LVN_OPT_##part##_##field,
#define LVN_TEXT(part, field, ...) LVN_OPT_##part##_##field,
#define LVN_TIME(part, field, ...) LVN_OPT_##part##_##field,
#define LVN_AMOUNT(part, field, ...) LVN_OPT_##part##_##field,
#include "settings/options_each.h"
    LVN_OPT_COUNT
};

/* The parts as bits, for lvn_settings_finish(). */
enum lvn_uses {
    LVN_USES_MODEL = 1,
    LVN_USES_DATA = 2,
    LVN_USES_OPTIMIZER = 4,
    LVN_USES_SCHEDULE = 8,
    LVN_USES_TRAINER = 16,
    LVN_USES_CALLBACKS = 32, /* and loggers */
    LVN_USES_DEVICE = 128,   /* computes on trainer.accelerator; a plan only names it */
    LVN_USES_ALL = 63 | LVN_USES_DEVICE,
    LVN_USES_SPLIT = 64, /* data.split is heeded: only where a model is evaluated */
};

/* The keys of all families of models, behind those of options.def; see lvn_option_at(). */
enum { LVN_FAMILY_KEYS = 64, LVN_OPT_ALL = LVN_OPT_COUNT + LVN_FAMILY_KEYS };
union lvn_option_value {
    int64_t i;
    double r[2];
    bool b;
    const char *t;
    struct lvn_amount a;
};

struct lvn_settings {
#define LVN_TOP(field, ...) const char *field;
#define LVN_PART(name, ...) struct {
#define LVN_PART_END(name)                                                                                             \
    }                                                                                                                  \
    name;
#define LVN_INT(part, field, ...) int64_t field;
#define LVN_REAL(part, field, ...) double field;
#define LVN_PAIR(part, field, ...) double field[2];
#define LVN_BOOL(part, field, ...) bool field;
#define LVN_CHOICE(part, field, ...) enum lvn_##part##_##field field;
#define LVN_WORD(part, field, ...) const char *field;
#define LVN_TEXT(part, field, ...) const char *field;
#define LVN_TIME(part, field, ...) double field;
#define LVN_AMOUNT(part, field, ...) struct lvn_amount field;
#include "settings/options_each.h"

    int64_t ranks; /* that take part; 0: not known. Set by the program before lvn_settings_finish() */
    union lvn_option_value family[LVN_FAMILY_KEYS]; /* by lvn_option_at(): see settings/settings_model.h */
    struct lvn_origin origin[LVN_OPT_ALL];
    struct lvn_arena arena; /* texts */
};

enum { LVN_RUN_DIR_TEXT = 900 }; /* bytes of run_dir, with its end: files below it have room in buffers of 1 KiB */

/* --- the table as data, for help, documents and completion --- */

enum lvn_option_kind {
    LVN_KIND_INT,
    LVN_KIND_REAL,
    LVN_KIND_PAIR,
    LVN_KIND_BOOL,
    LVN_KIND_CHOICE,
    LVN_KIND_WORD,
    LVN_KIND_TEXT,
    LVN_KIND_PATH, /* TEXT whose ~/ is the home folder */
    LVN_KIND_LIST,
    LVN_KIND_TIME,
    LVN_KIND_AMOUNT,
    LVN_KIND_TEXTS, /* of flags alone */
};
/* trainer.log_every_n_steps: auto, lines after seconds and not after steps. */
enum { LVN_LOG_BY_TIME = -1 };

struct lvn_option {
    const char *key;  /* "optimizer.lr" */
    const char *part; /* "optimizer"; "" for name and run_dir */
    enum lvn_option_kind kind;
    const char *initial;        /* the default as text; "" not given */
    const char *usual;          /* what holds then, for help, where it hangs on the family; NULL: initial */
    double min, max;            /* INT, REAL, PAIR */
    int64_t automatic;          /* INT whose default is "auto": the value of that word */
    const char *const *choices; /* CHOICE, WORD: ended by NULL */
    const char *also;           /* other words that people know for them, "off=constant none=constant"; NULL: none */
    bool fixed;                 /* decides on the model or the order of the data: as it was, when a run goes on */
    bool own;                   /* each rank's own business: may differ */
    const char *of;             /* the one value of the part's `kind` that heeds it, "labelled"; NULL: all do */
    const char *help;
    size_t offset; /* of the field */
    enum lvn_option_id id;
};
/* All options in the order in which they are shown: i from 0 below lvn_option_count(). Their ids are those of the rows
 * of options.def, and for the keys of families numbers behind them. */
int lvn_option_count(void);
const struct lvn_option *lvn_option_at(int i);
/* The key of a family, 0 to LVN_FAMILY_KEYS - 1; NULL: there are not so many. */
const struct lvn_option *lvn_option_of_family(int i);
/* By id; NULL: there is none. */
const struct lvn_option *lvn_option_of(enum lvn_option_id id);
/* NULL: there is none of this name. */
const struct lvn_option *lvn_option_find(const char *key);
/* What it does, as help shows it: "labelled: column of the text". In text, or where the row has it. */
enum { LVN_HELP_TEXT = 400 };
const char *lvn_option_help(const struct lvn_option *o, char text[LVN_HELP_TEXT]);
/* The known key that is most like this one; NULL when none is like it. */
const char *lvn_option_nearest(const char *key);
/* Read a value by its row into the field (TEXTS: behind those that it has); texts are copied to the arena. ARG with a
 * sentence that names the key. */
enum lvn_status lvn_option_parse(const struct lvn_option *o, const char *text, void *field,
                                 struct lvn_arena *a) LVN_CHECKED;
/* Yes or no, or a number that may be said as true or false: on the command line the option alone means true. */
bool lvn_option_is_switch(const struct lvn_option *o);
/* The value as a user would write it, into text or elsewhere; returns it. Reads back as the same value. */
enum { LVN_VALUE_TEXT = 128 };
const char *lvn_option_text(const struct lvn_option *o, const void *field, char text[LVN_VALUE_TEXT]);
/* The value (of lvn_option_text()) as YAML. */
void lvn_option_yaml(struct lvn_text *t, const struct lvn_option *o, const char *value);
/* One sentence on a part; NULL: there is none of this name. */
const char *lvn_part_help(const char *part);

/* --- settings --- */

/* All defaults. */
enum lvn_status lvn_settings_init(struct lvn_settings *s) LVN_CHECKED;
void lvn_settings_release(struct lvn_settings *s);
/* Set one key from text. ARG: unknown key (the nearest is named), wrong type, out of range, or given twice by the same
 * recipe. Text is copied. A value of an earlier source does not replace one of a later. Setting
 * data.path from elsewhere than a recipe drops the recipe's data.url and data.sha256. */
enum lvn_status lvn_settings_set(struct lvn_settings *s, const char *key, const char *value,
                                 enum lvn_source source) LVN_CHECKED;
/* The same with the place in a file. */
enum lvn_status lvn_settings_set_at(struct lvn_settings *s, const char *key, const char *value,
                                    struct lvn_origin origin) LVN_CHECKED;
/* Everything in a recipe; also the file that lvn_settings_write() wrote. */
enum lvn_status lvn_settings_load(struct lvn_settings *s, const char *path) LVN_CHECKED;
/* A recipe in memory; `path` is its name in messages. */
enum lvn_status lvn_settings_read(struct lvn_settings *s, const char *text, size_t length,
                                  const char *path) LVN_CHECKED;
/* The name of the run, where nobody gave one: data/dawn.yaml, data/dawn.txt and data/dawn/ make it `dawn`. `from` says
 * what that is, as "the recipe's file name". */
enum lvn_status lvn_settings_name_by(struct lvn_settings *s, const char *path, const char *from) LVN_CHECKED;
/* The variable of a key, "LEVIN_OPTIMIZER_LR", into text; returns it. */
const char *lvn_settings_variable(const char *key, char text[LVN_VALUE_TEXT]);
/* The variables LEVIN_PART_FIELD that are set. */
enum lvn_status lvn_settings_environment(struct lvn_settings *s) LVN_CHECKED;
/* Fill what follows from other values, and refuse contradictions and what this version cannot do, within these parts
 * (LVN_USES_... or-ed); values of other parts are left alone. May be called again after further values were set. */
enum lvn_status lvn_settings_finish(struct lvn_settings *s, unsigned parts) LVN_CHECKED;
/* The settings as a recipe that lvn_settings_load() reads back to equal values: malloc'd, to be freed; NULL: no memory.
 */
char *lvn_settings_yaml(const struct lvn_settings *s);
/* The same into a file, replaced in one go. `comment`: a last line "# ..."; NULL: none. */
enum lvn_status lvn_settings_write(const struct lvn_settings *s, const char *path, const char *comment) LVN_CHECKED;

/* What lvn_settings_write() wrote for a run of so many ranks, with what follows from it; to be released. */
enum lvn_status lvn_settings_of_run(struct lvn_settings *s, const char *path, int64_t ranks) LVN_CHECKED;
/* Adds "optimizer.lr: 0.1 -> 0.2; ..." for all that has another value in `now` than in a file of settings, run_dir
 * left out; *asked: somebody gave all these on the command line or in a program. */
enum lvn_status lvn_settings_differences(const char *path, const struct lvn_settings *now, struct lvn_text *out,
                                         bool *asked) LVN_CHECKED;
/* Whether somebody gave this key (recipe, environment, command line or program). */
bool lvn_settings_given(const struct lvn_settings *s, enum lvn_option_id id);
/* Is it another value than the one it has without being given? */
bool lvn_settings_differs(const struct lvn_settings *s, enum lvn_option_id id);
/* The value as a user would write it. */
const char *lvn_settings_value(const struct lvn_settings *s, enum lvn_option_id id, char text[LVN_VALUE_TEXT]);
/* "default", "recipes/x.yaml:7", "LEVIN_OPTIMIZER_LR", "command line", ... */
const char *lvn_settings_origin(const struct lvn_settings *s, enum lvn_option_id id, char text[LVN_VALUE_TEXT]);

#endif
