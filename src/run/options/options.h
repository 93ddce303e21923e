/* options.h - the table of options as data: one struct lvn_option for each row of options.def and for each key of the
 * families of models.
 *
 * Help, documents, completion, levin config and settings.c use it. The values of a run are in values.h. */
#ifndef LVN_OPTIONS_H
#define LVN_OPTIONS_H

#include "base/arena.h"
#include "base/text.h"

/* Ids of the options: LVN_OPT_optimizer_lr, LVN_OPT_name. */
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
#include "options/options_each.h"
    LVN_OPT_COUNT
};

/* Keys of the families of models; their ids follow those of options.def (lvn_option_at()). */
enum { LVN_FAMILY_KEYS = 64, LVN_OPT_ALL = LVN_OPT_COUNT + LVN_FAMILY_KEYS };

enum lvn_option_kind {
    LVN_KIND_INT,
    LVN_KIND_REAL,
    LVN_KIND_PAIR,
    LVN_KIND_BOOL,
    LVN_KIND_CHOICE,
    LVN_KIND_WORD,
    LVN_KIND_TEXT,
    LVN_KIND_PATH, /* TEXT in which ~/ is the home folder */
    LVN_KIND_LIST,
    LVN_KIND_MAPS, /* a text in YAML */
    LVN_KIND_TIME,
    LVN_KIND_AMOUNT,
    LVN_KIND_TEXTS, /* only of commands' flags */
};
/* trainer.log_every_n_steps: auto. Lines are logged by seconds, not by steps. */
enum { LVN_LOG_BY_TIME = -1 };

/* Values of an option that may be given several times. */
struct lvn_texts {
    const char *const *text; /* [n] */
    int n;
};

struct lvn_option {
    const char *key;  /* "optimizer.lr" */
    const char *part; /* "optimizer"; "" for name and run_dir */
    enum lvn_option_kind kind;
    enum lvn_option_id id;
    const char *default_text;   /* as a user would write it; "": not given */
    const char *family_default; /* for help, if the default depends on the family; NULL: default_text */
    double min;                 /* INT, REAL, PAIR, TIME */
    double max;                 /* INT, REAL, PAIR */
    int64_t automatic;          /* INT with default "auto": the value of that word */
    const char *const *choices; /* CHOICE, WORD: ended by NULL */
    const char *aliases;        /* other programs' words for choices, "off=constant none=constant"; NULL: none */
    const char *refused; /* words for what levin does not do, and why: "16-true 64: this version has ..."; NULL: none */
    const char *example; /* MAPS: for messages */
    bool lists;          /* MAPS: values may be lists */
    bool fixed;          /* decides on the model or the order of the data: must not change when a run continues */
    bool per_rank;       /* may differ between ranks */
    uint32_t offset;     /* of the member of struct lvn_values */
    const char *for_kind; /* the values of the part's `kind` that use it, separated by ", "; NULL: all do */
    const char *help;     /* at most three lines */
    const char *more;     /* further text for docs/options.md: lines "choice: meaning", or sentences; NULL: none */
};
/* All options in the order of help: i from 0 to lvn_option_count() - 1. Ids are those of the rows of options.def, then
 * those of the families' keys. */
int lvn_option_count(void);
const struct lvn_option *lvn_option_at(int i);
/* A key of families, i from 0 to LVN_FAMILY_KEYS - 1; NULL: there are fewer. */
const struct lvn_option *lvn_option_family_key(int i);
/* The option with this id; NULL: none. */
const struct lvn_option *lvn_option_by_id(enum lvn_option_id id);
/* The option with this key; NULL: none. */
const struct lvn_option *lvn_option_find(const char *key);
/* Does this value of the part's `kind` use it? */
bool lvn_option_is_for(const struct lvn_option *o, const char *kind);
/* The help text of an option in a list, with the kinds that use it and choices that it does not name: "labelled: column
 * of the text". */
enum { LVN_HELP_TEXT = 400 };
const char *lvn_option_help(const struct lvn_option *o, char text[LVN_HELP_TEXT]);
/* The known key that is most similar to this one; NULL: none is similar. */
const char *lvn_option_nearest(const char *key);
/* Parse a value by its row into the field (TEXTS: append it); texts are copied to the arena. ARG with a sentence that
 * names the key. */
enum lvn_status lvn_option_parse(const struct lvn_option *o, const char *text, void *field,
                                 struct lvn_arena *a) LVN_CHECKED;
/* Is it a BOOL, or a number that may be written as true or false? On the command line the option alone means true. */
bool lvn_option_is_switch(const struct lvn_option *o);
/* The value as a user would write it, which parses to the same value. Returns `text`, or a text that lives longer. */
enum { LVN_VALUE_TEXT = 128 };
const char *lvn_option_text(const struct lvn_option *o, const void *field, char text[LVN_VALUE_TEXT]);
/* The value (of lvn_option_text()) as YAML. */
void lvn_option_yaml(struct lvn_text *t, const struct lvn_option *o, const char *value);
/* The sentence of a part; NULL: no such part. */
const char *lvn_part_help(const char *part);

#endif
