/* config.h - levin config: what is gathered before a recipe is written. Used by the files of this folder alone.
 *
 * The recipe is a struct levin_settings, set by the keys of a template, then the file of another program (--from-...),
 * then keys of the command line, then answers; later ones win. Machines and hosts, which are not keys of a recipe, are
 * here. */
#ifndef LVN_CONFIG_H
#define LVN_CONFIG_H

#include "cli/cli.h"

enum lvn_recipe_kind {
    LVN_RECIPE_FINETUNE,
    LVN_RECIPE_SCRATCH,
    LVN_RECIPE_CHARS,
    LVN_RECIPE_CLASSIFY,
    LVN_RECIPE_CHAT,
    LVN_RECIPE_COUNT,
};
/* What is asked and written for a kind of recipe (--job). */
struct lvn_recipe_template {
    const char *help;                  /* answer to "What do you want to do?" */
    const char *title;                 /* of the recipe */
    const char *data;                  /* question for data.path */
    const char *form;                  /* what must exist at that path; NULL: nothing */
    const char *use, *use_option;      /* command for the trained model, and the option that precedes its text */
    bool tunes;                        /* model.init is asked for */
    bool by_epochs;                    /* epochs are asked for, not steps */
    const struct lvn_recipe_key *keys; /* the recipe's first keys; the last has no name */
};
struct lvn_recipe_key {
    const char *key, *value;
};
extern const struct lvn_recipe_template lvn_recipe_templates[LVN_RECIPE_COUNT];
enum lvn_config_location { LVN_CONFIG_LOCAL, LVN_CONFIG_HOSTS, LVN_CONFIG_SLURM, LVN_CONFIG_LOCATION_COUNT };
extern const char *const lvn_recipe_kind_words[LVN_RECIPE_COUNT + 1],
    *const lvn_config_location_words[LVN_CONFIG_LOCATION_COUNT + 1];

/* A setting of another program's file that levin lacks, or has in another form than its reader expects. */
struct lvn_config_note {
    const char *key; /* as in the file */
    const char *text;
};

struct lvn_config {
    struct lvn_cli *c;
    struct levin_settings *s; /* the recipe */
    bool ask;                 /* ask on the terminal for settings that are not given; otherwise defaults are used */
    enum lvn_recipe_kind kind;
    enum lvn_config_location location;
    bool has_location;    /* given */
    bool has_machines;    /* given */
    bool has_per_machine; /* given */
    int64_t machines;
    int64_t per_machine;  /* ranks of each machine */
    const char *hosts;    /* names, separated by commas; "": not known */
    const char *hostfile; /* that another program's file names and that is used unchanged; NULL: none */
    int64_t memory;       /* bytes of each machine */
    const char *source;   /* the file that is being read; NULL: none */
    const char *sources;  /* all files that were read, as messages name them; "": none */
    struct lvn_config_note *note;
    int n_notes;
    int64_t note_capacity;

    /* Set by config.c from the plan of a rank. */
    bool planned;         /* the rest is known */
    int64_t parameters;   /* of the model */
    int64_t rank_bytes;   /* memory of a rank */
    int64_t micro;        /* sequences of a micro-batch */
    int64_t accumulation; /* micro-batches of a step, on a rank */
    bool fits;            /* into the memory of a machine */
    double step_seconds;  /* of a step on machines like this one, without communication; 0: not known */
    bool measured;        /* a micro-batch ran; else step_seconds is a lower bound, from the rates of this machine */
    int64_t steps;        /* of the run; 0: not known */
    int64_t samples;      /* of the training data; 0: not known */
};

/* Add a note; printf-like. */
enum lvn_status lvn_config_note(struct lvn_config *cf, const char *key, const char *format, ...)
    LVN_PRINTF(3, 4) LVN_CHECKED;
/* Set a key of the recipe. line: its line in the file; 0: a default of the other program, or a key of the
 * template. */
enum lvn_status lvn_config_set(struct lvn_config *cf, const char *key, const char *value, int line) LVN_CHECKED;
/* config_fp16.c: does trainer.accelerator of the recipe name a GPU? */
bool lvn_config_names_gpu(const struct lvn_config *cf);
/* Set trainer.precision for fp16 in the other program's file (its `key`): 16-mixed if the recipe names a GPU, else
 * bf16-mixed, with a note. */
enum lvn_status lvn_config_fp16(struct lvn_config *cf, const char *key, int line) LVN_CHECKED;

/* config_nanogpt.c: set cf->kind from nanoGPT's file `path`. */
enum lvn_status lvn_config_nanogpt_kind(struct lvn_config *cf, const char *path) LVN_CHECKED;
/* Set the recipe's keys from that file. */
enum lvn_status lvn_config_nanogpt(struct lvn_config *cf, const char *path) LVN_CHECKED;
/* config_accelerate.c: set the recipe's keys, machines and ranks from accelerate's file `path`. */
enum lvn_status lvn_config_accelerate(struct lvn_config *cf, const char *path) LVN_CHECKED;

/* config_questions.c: ask for the kind of recipe, or use its default; then ask for all settings that are not given. */
enum lvn_status lvn_config_ask_kind(struct lvn_config *cf) LVN_CHECKED;
enum lvn_status lvn_config_ask(struct lvn_config *cf) LVN_CHECKED;
/* One sentence about 16-bit arithmetic on this machine's CPU. */
const char *lvn_config_precision_text(void);

#endif
