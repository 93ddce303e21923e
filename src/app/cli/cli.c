/* cli.c - the table of commands, and how commands print results and messages; see cli.h. */
#include "cli/cli.h"

#include "base/target.h"
#include "cli/humanize.h"
#include "cli/progress.h"
#include "stores/store.h"

const struct lvn_command lvn_commands[] = {
#define ROW(name_, group_, summary_, operands_, min_, max_, help_, ...)                                                \
    {.name = #name_,                                                                                                   \
     .group = group_,                                                                                                  \
     .summary = summary_,                                                                                              \
     .operands = operands_,                                                                                            \
     .min = min_,                                                                                                      \
     .max = max_,                                                                                                      \
     .help = help_,                                                                                                    \
     .run = lvn_command_##name_,                                                                                       \
     __VA_ARGS__},
#define LVN_COMMAND(...) ROW(__VA_ARGS__, .collective = false)
#define LVN_COMMAND_WRAPPER(...) ROW(__VA_ARGS__, .runs_others = true)
#define LVN_COMMAND_COLLECTIVE(...) ROW(__VA_ARGS__, .collective = true)
#include "cli/commands.def"
#undef ROW
    {.name = NULL},
};

const struct lvn_command *lvn_command_find(const char *name)
{
    for (const struct lvn_command *k = lvn_commands; k->name; k++) {
        if (!strcmp(k->name, name)) return k;
    }
    return NULL;
}

void lvn_cli_add(struct lvn_cli *c, const char *name, json_t *value)
{
    if (c->json && value) {
        json_object_set_new(c->json, name, value);
    } else {
        json_decref(value);
    }
}

static bool lost_line;      /* a line of the results was not printed, for lack of memory */
static bool stdout_is_file; /* the command writes its file of results to standard output */

enum lvn_status lvn_cli_check_output(const struct lvn_cli *c, const char *path)
{
    LVN_LOCAL_ARENA(a);
    struct lvn_target t;
    if (lvn_store_is_remote(path)) return LVN_OK;
    LVN_TRY(lvn_target_find(&a, path, &t));
    stdout_is_file = t.stream && t.is_stdout;
    LVN_CHECK(!stdout_is_file || !c->json, ARG,
              "'%s' is standard output, where --json prints its object: name another file, or leave out --json", path);
    return LVN_OK;
}

void lvn_cli_print(const struct lvn_cli *c, const char *format, ...)
{
    if (stdout_is_file || c->json || (c->ranks && c->ranks->rank)) return;
    va_list args;
    va_start(args, format);
    if (!lvn_cli_vput(stdout, format, args)) lost_line = true;
    va_end(args);
}

bool lvn_cli_print_failed(void)
{
    return lost_line;
}

void lvn_cli_log(void *context, enum lvn_log_level level, const char *text)
{
    static const char *const names[] = {"error: ", "warning: ", "", "debug: "};
    flockfile(stderr); /* another thread draws the live line */
    if (context) lvn_progress_clear(context);
    fprintf(stderr, "%s%s\n", names[level], text);
    funlockfile(stderr);
}

enum lvn_log_level lvn_cli_log_level(const struct lvn_cli *c)
{
    if (lvn_cli_on(c, LVN_FLAG_any_verbose)) return LVN_LOG_DEBUG;
    return lvn_cli_on(c, LVN_FLAG_any_quiet) ? LVN_LOG_WARN : LVN_LOG_INFO;
}
