/* cli.h - what the commands share: parsed arguments, results and messages. Each command is a file NAME.c or a folder
 * NAME, and a line of commands.def; main.c calls it. launch and ranks are in src/app/launch, bench is in plan/, report
 * in runs/. args.h parses a command line.
 *
 * Only src/app/cli and src/app/launch print. Results go to stdout, progress and messages to stderr. With --json a
 * command prints exactly one JSON object on stdout, also when it fails ({"error": ...}). Exit codes: 0 done; 1 failed;
 * 2 wrong usage or recipe; 75 stopped on request, nothing lost; 76 a fault that resuming from the last checkpoint can
 * cure (a rank, a link, a launcher or a node is lost or hangs). */
#ifndef LVN_CLI_H
#define LVN_CLI_H

#include "base/log.h"
#include "engine/ranks.h"
#include "formats/json.h"
#include "settings/settings.h"

enum { LVN_EXIT_DONE, LVN_EXIT_FAILED, LVN_EXIT_USAGE, LVN_EXIT_STOPPED = 75, LVN_EXIT_FAULT = 76 };
/* Under levin launch (LEVIN_LAUNCH is set) the last line of a process on stderr is LVN_EXIT_MARK, its exit code, and
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
    const char *help;    /* one sentence */
    const char *group;   /* of the overview: "train"; NULL: the command is not in the overview */
    const char *summary; /* in the overview: at most 60 columns */
    enum lvn_status (*run)(struct lvn_cli *c);
    bool runs_others; /* the command line of another command follows `--` */
    bool collective;  /* ranks run it together */
    const char *keys; /* parts and keys of recipes that it uses, "data, trainer.seed"; NULL: all */
};
extern const struct lvn_command lvn_commands[]; /* terminated by a NULL name */
/* NULL: there is no such command. */
const struct lvn_command *lvn_command_find(const char *name);

enum { LVN_OPERANDS = 40 };
struct lvn_cli {
    const struct lvn_command *command;
    const char *operand[LVN_OPERANDS];
    int n_operands;
    char **rest; /* of a command that runs others: the arguments after `--`; NULL: none */
    int n_rest;
    int code;                       /* not 0: the exit code of a command that has printed its reason itself */
    struct levin_settings settings; /* of recipe, environment and keys: see lvn_cli_settings() */
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
    bool from_data;             /* the operand was data: `levin train my.txt` */
    json_t *json;               /* the object of --json, to which commands add members; NULL: no --json */
    struct lvn_ranks *ranks;    /* of collective commands, from lvn_cli_join(); NULL: not joined */
};

/* The commands. Each prints its results (lvn_cli_print()) or adds them to c->json (lvn_cli_add()). ARG becomes exit
 * code 2, STOPPED 75, COMM 76, any other failure 1. */
#define LVN_COMMAND(name, ...) enum lvn_status lvn_command_##name(struct lvn_cli *c) LVN_CHECKED;
#include "cli/commands.def"

/* A flag's value. */
static inline bool lvn_cli_on(const struct lvn_cli *c, enum lvn_flag_id id)
{
    return c->flag[id].b;
}
/* With --json: add a member. Takes ownership of the value; NULL (no memory) adds none. */
void lvn_cli_add(struct lvn_cli *c, const char *name, json_t *value);
/* Call before the command writes a file of results to `path`. If that is standard output, lvn_cli_print() prints
 * nothing from now on, and --json is refused (ARG). */
enum lvn_status lvn_cli_check_output(const struct lvn_cli *c, const char *path) LVN_CHECKED;
/* Without --json, and on rank 0 alone: print to stdout. */
void lvn_cli_print(const struct lvn_cli *c, const char *format, ...) LVN_PRINTF(2, 3);
/* Was something not printed, for lack of memory? */
bool lvn_cli_print_failed(void);

/* The log's sink: one line on stderr, above the live line of `context` (struct lvn_progress, or NULL). */
void lvn_cli_log(void *context, enum lvn_log_level level, const char *text);
enum lvn_log_level lvn_cli_log_level(const struct lvn_cli *c);

#endif
