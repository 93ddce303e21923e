/* cli.h - what the commands share: parsed arguments, results and messages.
 *
 * Only this room prints. Results go to stdout; progress and messages to stderr. With --json a command prints exactly
 * one JSON object on stdout, also when it fails ({"error": ...}). Exit codes: 0 done, 1 failed, 2 wrong usage or
 * recipe, 75 stopped on request, nothing lost, 76 a fault that going on from the last checkpoint can cure (a rank, a
 * link, a launcher or a node is lost, or stands still). */
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
/* Below levin launch (LEVIN_LAUNCH is set) a process ends with a line on stderr that begins so: its exit code, and this
 * word where it has said why. */
enum { LVN_EXIT_MARK = 0x1e };
#define LVN_EXIT_SAID "said"

enum lvn_flag_id {
#define LVN_FLAG(command, field, ...) LVN_FLAG_##command##_##field,
#include "cli/commands.def"
    LVN_FLAG_COUNT
};

struct lvn_cli;
struct lvn_command {
    const char *name, *operands;
    int min, max; /* operands */
    const char *help;
    enum lvn_status (*run)(struct lvn_cli *c);
    bool runs_others; /* what follows `--` is another command's line */
    bool together;    /* ranks run it as one */
};
extern const struct lvn_command lvn_commands[]; /* ended by a NULL name */
const struct lvn_command *lvn_command_find(const char *name);

struct lvn_flag {
    const char *command;      /* "any": of all */
    struct lvn_option option; /* key: the word without dashes, with _ for - */
};
extern const struct lvn_flag lvn_flags[LVN_FLAG_COUNT];
/* Does the flag belong to the command? */
bool lvn_flag_fits(const struct lvn_flag *f, const struct lvn_command *command);
/* As users write it: --nproc-per-node, -n. */
enum { LVN_FLAG_TEXT = 64 };
char *lvn_flag_text(const struct lvn_option *o, char text[LVN_FLAG_TEXT]);

enum { LVN_OPERANDS = 8 };
struct lvn_cli {
    const struct lvn_command *command;
    const char *operand[LVN_OPERANDS];
    int n_operands;
    char **rest; /* of a command that runs others: what follows `--`; NULL: there is none */
    int n_rest;
    int code;                     /* not 0: the exit code, said already; no error is printed */
    struct lvn_settings settings; /* of recipe (lvn_cli_settings), environment and keys; not yet finished */
    struct {
        const char *key, *value;
    } * keys; /* of the command line, in their order */
    int n_keys;
    union {
        int64_t i;
        double r;
        bool b;
        const char *t;
        struct lvn_amount a;
        struct lvn_texts texts;
    } flag[LVN_FLAG_COUNT];
    bool given[LVN_FLAG_COUNT];
    bool goes_on;            /* with a run's own settings: the operand was a run, not a recipe */
    json_t *json;            /* what --json will print; commands add members */
    struct lvn_ranks *ranks; /* of commands that run over many: lvn_cli_join() */
};

/* One file each: print results, or add them to c->json; ARG, STOPPED and failures become exit codes. */
#define LVN_COMMAND(name, ...) enum lvn_status lvn_command_##name(struct lvn_cli *c) LVN_CHECKED;
#include "cli/commands.def"

/* Split the arguments after the command's name, and check them. `c->command` is set by the caller. */
enum lvn_status lvn_cli_parse(struct lvn_cli *c, int argc, char **argv) LVN_CHECKED;
void lvn_cli_release(struct lvn_cli *c);
/* Recipe (NULL: none), environment and keys into c->settings, and what follows from them in these parts
 * (LVN_USES_...). With --resume the recipe may be a run, by its path, its name below runs/ or its address in a store:
 * then its own settings and keys, nothing else. */
enum lvn_status lvn_cli_settings(struct lvn_cli *c, const char *recipe, unsigned parts) LVN_CHECKED;

/* Warn of variables that were set and passed over, because a run goes on with its own settings. */
void lvn_cli_unheeded(const struct lvn_cli *c);

/* The same for a command that runs over ranks: settings, then c->ranks. One that fails on any rank fails on all, and
 * rank 0 alone prints. */
enum lvn_status lvn_cli_join(struct lvn_cli *c, const char *recipe, unsigned parts) LVN_CHECKED;

/* c->ranks for settings that are there already, or failed. */
enum lvn_status lvn_cli_join_ranks(struct lvn_cli *c, enum lvn_status status) LVN_CHECKED;
/* For arguments that could not be read (status): the same status, on all ranks. */
enum lvn_status lvn_cli_leave(struct lvn_cli *c, enum lvn_status status) LVN_CHECKED;

/* A flag's value. */
static inline bool lvn_cli_on(const struct lvn_cli *c, enum lvn_flag_id id)
{
    return c->flag[id].b;
}
/* With --json: add a member (takes the value over; NULL: no memory or not a number, left out). Else nothing. */
void lvn_cli_add(struct lvn_cli *c, const char *name, json_t *value);
/* A number for JSON: null when it is not finite. */
json_t *lvn_cli_number(double x);
/* The command writes its result to `path`. Where that is standard output, lvn_cli_print() prints nothing from now on,
 * and --json is refused. */
enum lvn_status lvn_cli_writes_to(const struct lvn_cli *c, const char *path) LVN_CHECKED;
/* Without --json: print to stdout. */
void lvn_cli_print(const struct lvn_cli *c, const char *format, ...) LVN_PRINTF(2, 3);

/* Print what may hold texts from anywhere: control characters but line ends and tabs come out as "\x1b". */
void lvn_cli_put(FILE *out, const char *text);
/* The same of printf-like arguments; false: no memory for a long one, and nothing was printed. */
bool lvn_cli_vput(FILE *out, const char *format, va_list arguments) LVN_CHECKED;

/* The log's sink: one line on stderr, above the live line of `context` (struct lvn_progress, or NULL). */
void lvn_cli_log(void *context, enum lvn_log_level level, const char *text);
enum lvn_log_level lvn_cli_log_level(const struct lvn_cli *c);

/* variables.c: warn of variables LEVIN_... that mean nothing. */
void lvn_cli_variables(void);

/* help.c: what `levin help` and --help print. */
enum lvn_status lvn_help_command(struct lvn_cli *c, const struct lvn_command *command) LVN_CHECKED;
/* docs.c */
void lvn_help_markdown(struct lvn_text *t);
/* Append the lines of commands.def that show how the command is used, each indented by four spaces. */
void lvn_help_examples(struct lvn_text *t, const struct lvn_command *command);
enum lvn_status lvn_help_completion(struct lvn_text *t, const char *shell) LVN_CHECKED;
/* show.c: does --show-settings ask for the settings and nothing else? They are printed then. */
bool lvn_cli_shows_settings(struct lvn_cli *c);

/* "1 h 02 min", as lvn_count_text(): for people. Returns text. */
char *lvn_seconds_text(double seconds, char text[LVN_NUMBER_TEXT]);
/* "12 sequences of 64 tokens", or "64 samples". */
enum { LVN_BATCH_TEXT = 100 };
char *lvn_batch_text(const char *unit, int64_t samples, int64_t length, char text[LVN_BATCH_TEXT]);

#endif
