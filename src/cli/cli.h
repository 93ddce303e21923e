/* cli.h - what the commands share: parsed arguments, results and messages. Each command is a file NAME.c of this folder
 * (launch, config, plan and doctor: a folder) and a line of commands.def; main.c calls it.
 *
 * Only src/cli prints. Results go to stdout, progress and messages to stderr. With --json a command prints exactly one
 * JSON object on stdout, also when it fails ({"error": ...}). Exit codes: 0 done; 1 failed; 2 wrong usage or recipe; 75
 * stopped on request, nothing lost; 76 a fault that resuming from the last checkpoint can cure (a rank, a link, a
 * launcher or a node is lost or hangs). */
#ifndef LVN_CLI_H
#define LVN_CLI_H

#include <jansson.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/log.h"
#include "base/text.h"
#include "engine/ranks.h"
#include "settings/settings.h"

enum { LVN_EXIT_DONE, LVN_EXIT_FAILED, LVN_EXIT_USAGE, LVN_EXIT_STOPPED = 75, LVN_EXIT_FAULT = 76 };
/* Below levin launch (LEVIN_LAUNCH is set) the last line of a process on stderr is LVN_EXIT_MARK, its exit code, and
 * LVN_EXIT_EXPLAINED if it has printed why it failed. */
enum { LVN_EXIT_MARK = 0x1e };
#define LVN_EXIT_EXPLAINED "said"

enum lvn_flag_id {
#define LVN_FLAG(command, field, ...) LVN_FLAG_##command##_##field,
#include "cli/commands.def"
    LVN_FLAG_COUNT
};

struct lvn_cli;
struct lvn_command {
    const char *name;
    const char *operands; /* as help shows them: "[RECIPE]" */
    int min;              /* number of operands */
    int max;
    const char *help; /* one sentence */
    enum lvn_status (*run)(struct lvn_cli *c);
    bool runs_others; /* the command line of another command follows `--` */
    bool collective;  /* ranks run it together */
};
extern const struct lvn_command lvn_commands[]; /* ended by a NULL name */
/* NULL: there is no such command. */
const struct lvn_command *lvn_command_find(const char *name);

struct lvn_flag {
    const char *command;      /* "any": of all commands */
    struct lvn_option option; /* key: the word without leading dashes, with _ for - */
};
extern const struct lvn_flag lvn_flags[LVN_FLAG_COUNT];
/* Does the flag belong to the command? */
bool lvn_flag_fits(const struct lvn_flag *f, const struct lvn_command *command);
/* The flag as users write it: --nproc-per-node, -n. Returns text. */
enum { LVN_FLAG_TEXT = 64 };
char *lvn_flag_text(const struct lvn_option *o, char text[LVN_FLAG_TEXT]);

enum { LVN_OPERANDS = 8 };
struct lvn_cli {
    const struct lvn_command *command;
    const char *operand[LVN_OPERANDS];
    int n_operands;
    char **rest; /* of a command that runs others: the words behind `--`; NULL: there are none */
    int n_rest;
    int code;                     /* not 0: the exit code of a command that has printed its reason itself */
    struct lvn_settings settings; /* of recipe, environment and keys: see lvn_cli_settings() */
    struct {
        const char *key;
        const char *value;
    } * keys; /* of recipes, on the command line, in their order */
    int n_keys;
    union {
        int64_t i;
        double r;
        bool b;
        const char *t;
        struct lvn_amount a;
        struct lvn_texts texts;
    } flag[LVN_FLAG_COUNT];     /* by enum lvn_flag_id: the value or the default, by option.kind */
    bool given[LVN_FLAG_COUNT]; /* on the command line */
    bool resuming;              /* the operand was a run: its own settings are used */
    json_t *json;               /* the object of --json, to which commands add members; NULL: no --json */
    struct lvn_ranks *ranks;    /* of collective commands, from lvn_cli_join(); NULL: not joined */
};

/* The commands. Each prints its results (lvn_cli_print()) or adds them to c->json (lvn_cli_add()). ARG becomes exit
 * code 2, STOPPED 75, COMM 76, any other failure 1. */
#define LVN_COMMAND(name, ...) enum lvn_status lvn_command_##name(struct lvn_cli *c) LVN_CHECKED;
#include "cli/commands.def"

/* Split the arguments after the command's name, and check them. `c->command` is set by the caller. */
enum lvn_status lvn_cli_parse(struct lvn_cli *c, int argc, char **argv) LVN_CHECKED;
void lvn_cli_release(struct lvn_cli *c);
/* Read recipe (NULL: none), environment and keys into c->settings, and derive the rest of these parts (LVN_USES_...).
 * `recipe` may also be data to train on. With --resume it may be a run, by its path, its name below runs/ or its
 * address in a store: then only the run's own settings and the keys count. */
enum lvn_status lvn_cli_settings(struct lvn_cli *c, const char *recipe, unsigned parts) LVN_CHECKED;

/* Warn of environment variables that are ignored because a run resumes with its own settings. */
void lvn_cli_warn_ignored_variables(const struct lvn_cli *c);

/* For collective commands: lvn_cli_settings(), then join the other ranks (c->ranks). If reading fails on any rank, all
 * ranks get the status of the lowest one that failed, and rank 0 alone prints. */
enum lvn_status lvn_cli_join(struct lvn_cli *c, const char *recipe, unsigned parts) LVN_CHECKED;
/* The second half alone; status: how reading the settings went on this rank. */
enum lvn_status lvn_cli_join_ranks(struct lvn_cli *c, enum lvn_status status) LVN_CHECKED;
/* This rank's arguments could not be parsed (status). A collective command joins the other ranks, which may wait for
 * it, so that all of them return the same status. */
enum lvn_status lvn_cli_exit_collectively(struct lvn_cli *c, enum lvn_status status) LVN_CHECKED;

/* A flag's value. */
static inline bool lvn_cli_on(const struct lvn_cli *c, enum lvn_flag_id id)
{
    return c->flag[id].b;
}
/* With --json: add a member. Takes ownership of the value; NULL (no memory) adds none. */
void lvn_cli_add(struct lvn_cli *c, const char *name, json_t *value);
/* A number for JSON: null when it is not finite. */
json_t *lvn_cli_number(double x);
/* Call before the command writes a file of results to `path`. If that is standard output, lvn_cli_print() prints
 * nothing from now on, and --json is refused (ARG). */
enum lvn_status lvn_cli_check_output(const struct lvn_cli *c, const char *path) LVN_CHECKED;
/* Without --json, and on rank 0 alone: print to stdout. */
void lvn_cli_print(const struct lvn_cli *c, const char *format, ...) LVN_PRINTF(2, 3);

/* Print untrusted text: control characters other than newline and tab are escaped, as "\x1b". */
void lvn_cli_put(FILE *out, const char *text);
/* The same for printf-like arguments; false: no memory for a long text, and nothing was printed. */
bool lvn_cli_vput(FILE *out, const char *format, va_list arguments) LVN_CHECKED;

/* The log's sink: one line on stderr, above the live line of `context` (struct lvn_progress, or NULL). */
void lvn_cli_log(void *context, enum lvn_log_level level, const char *text);
enum lvn_log_level lvn_cli_log_level(const struct lvn_cli *c);

/* variables.c: warn of environment variables LEVIN_... that levin does not know. */
void lvn_cli_warn_unknown_variables(void);

/* help.c: print what COMMAND --help prints. */
enum lvn_status lvn_help_command(struct lvn_cli *c, const struct lvn_command *command) LVN_CHECKED;
/* Append the examples of commands.def for the command, each indented by four spaces. */
void lvn_help_examples(struct lvn_text *t, const struct lvn_command *command);
/* docs.c: docs/options.md. */
void lvn_help_markdown(struct lvn_text *t);
/* The completion script for bash, zsh or fish. */
enum lvn_status lvn_help_completion(struct lvn_text *t, const char *shell) LVN_CHECKED;
/* launch/chart_schema.c: deploy/helm/levin/values.schema.json. */
enum lvn_status lvn_chart_schema(struct lvn_text *t) LVN_CHECKED;
/* show.c: with --show-settings print the settings; true: the command is done then. */
bool lvn_cli_shows_settings(struct lvn_cli *c);

/* humanize.c: "1 h 02 min". Returns text. */
char *lvn_seconds_text(double seconds, char text[LVN_NUMBER_TEXT]);
/* "12 sequences of 64 tokens", or "64 samples". */
enum { LVN_BATCH_TEXT = 100 };
char *lvn_batch_text(const char *unit, int64_t samples, int64_t length, char text[LVN_BATCH_TEXT]);

#endif
