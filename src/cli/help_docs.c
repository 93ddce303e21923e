/* help_docs.c - the tables of options and commands as docs/options.md and as completion scripts; called by help.c. */
#include <string.h>

#include "cli/args.h"
#include "cli/cli.h"
#include "cli/help.h"

/* --- docs/options.md --- */

/* `|` ends a cell in a table. */
static void cell(struct lvn_text *t, const char *s)
{
    for (; *s; s++) {
        if (*s == '|') lvn_text_add(t, "\\");
        lvn_text_add_bytes(t, *s == '\n' ? "\\n" : s, *s == '\n' ? 2 : 1);
    }
}

static void values(struct lvn_text *t, const struct lvn_option *o)
{
    static const char *const words[] = {
        [LVN_KIND_INT] = "whole number",
        [LVN_KIND_REAL] = "number",
        [LVN_KIND_PAIR] = "two numbers",
        [LVN_KIND_BOOL] = "true or false",
        [LVN_KIND_TEXT] = "text",
        [LVN_KIND_PATH] = "text",
        [LVN_KIND_LIST] = "list of names",
        [LVN_KIND_MAPS] = "list of maps",
        [LVN_KIND_TIME] = "time",
        [LVN_KIND_AMOUNT] = "count or fraction",
        [LVN_KIND_TEXTS] = "text, may be given again",
    };
    if (o->choices) {
        for (int i = 0; o->choices[i]; i++) lvn_text_printf(t, "%s`%s`", i ? ", " : "", o->choices[i]);
        return;
    }
    lvn_text_add(t, words[o->kind]);
    if (o->kind > LVN_KIND_PAIR) return;
    if (o->max >= 1e9) {
        lvn_text_printf(t, " from %.10g", o->min);
    } else {
        lvn_text_printf(t, ", %.10g to %.10g", o->min, o->max);
    }
}

static void table_head(struct lvn_text *t)
{
    lvn_text_add(t, "| key | values | default | what it does |\n|---|---|---|---|\n");
}

static void table_row(struct lvn_text *t, const struct lvn_option *o)
{
    char help[LVN_HELP_TEXT];
    lvn_text_printf(t, "| `%s` | ", o->key);
    values(t, o);
    const char *default_text = o->family_default ? o->family_default : o->default_text;
    lvn_text_add(t, *default_text ? " | `" : " | ");
    cell(t, default_text);
    lvn_text_add(t, *default_text ? "` | " : " | ");
    cell(t, lvn_option_help(o, help));
    lvn_text_add(t, " |\n");
}

static void flag_table(struct lvn_text *t, const char *command)
{
    bool any = false;
    for (int i = 0; i < LVN_FLAG_COUNT; i++) {
        const struct lvn_option *o = &lvn_flags[i].option;
        if (strcmp(lvn_flags[i].command, command)) continue;
        if (!any) lvn_text_add(t, "\n| option | values | default | what it does |\n|---|---|---|---|\n");
        any = true;
        char word[LVN_FLAG_TEXT];
        lvn_text_printf(t, "| `%s` | ", lvn_flag_text(o, word));
        values(t, o);
        lvn_text_printf(t, *o->default_text ? " | `" : " | ");
        cell(t, o->default_text);
        lvn_text_printf(t, *o->default_text ? "` | %s |\n" : " | %s |\n", o->help);
    }
}

void lvn_help_markdown(struct lvn_text *t)
{
    lvn_text_add(t, "# Options\n\nWritten by `levin help --options-markdown` from the tables "
                    "`src/settings/options.def` and `src/cli/commands.def`; edit those.\n\nA key can be set in a "
                    "recipe (`optimizer: {lr: 1e-3}`), in the environment (`LEVIN_OPTIMIZER_LR=1e-3`) and on the "
                    "command line\n(`--optimizer.lr=1e-3` or `--optimizer.lr 1e-3`). The command line wins over the "
                    "environment, the environment over the recipe. A\n`kind` that wins drops the recipe's "
                    "keys of other kinds. `--show-settings` prints each value and where it "
                    "came from. `off`, `none` and `0` are the same where 0 is allowed.\n\n## The run\n\n");
    table_head(t);
    const char *part = "";
    for (int i = 0; i < lvn_option_count(); i++) {
        const struct lvn_option *o = lvn_option_at(i);
        if (strcmp(part, o->part)) {
            part = o->part;
            lvn_text_printf(t, "\n## %s\n\nThe part `%s`: %s.\n\n", part, part, lvn_part_help(part));
            table_head(t);
        }
        table_row(t, o);
    }
    lvn_text_add(t, "\n# Commands\n\nOptions of every command:\n");
    flag_table(t, "any");
    for (const struct lvn_command *k = lvn_commands; k->name; k++) {
        lvn_text_printf(t, "\n## levin %s%s%s\n\n%s.\n", k->name, *k->operands ? " " : "", k->operands, k->help);
        flag_table(t, k->name);
        lvn_text_add(t, "\nFor example:\n\n");
        lvn_help_examples(t, k);
    }
    lvn_text_add(t, "\nExit codes: 0 done, 1 failed, 2 wrong usage or recipe, 75 stopped on request, nothing lost, 76 "
                    "a fault\nthat a restart from the last checkpoint can cure (docs/clusters.md).\n");
}

/* --- completion --- */

static void command_words(struct lvn_text *t)
{
    for (const struct lvn_command *k = lvn_commands; k->name; k++)
        lvn_text_printf(t, "%s%s", k == lvn_commands ? "" : " ", k->name);
}

static void flag_words(struct lvn_text *t, const char *command)
{
    for (int i = 0; i < LVN_FLAG_COUNT; i++) {
        const struct lvn_option *o = &lvn_flags[i].option;
        char word[LVN_FLAG_TEXT];
        if (strcmp(lvn_flags[i].command, command)) continue;
        lvn_text_printf(t, " %s%s", lvn_flag_text(o, word), o->kind != LVN_KIND_BOOL && o->key[1] ? "=" : "");
    }
}

static void key_words(struct lvn_text *t)
{
    for (int i = 0; i < lvn_option_count(); i++) lvn_text_printf(t, " --%s=", lvn_option_at(i)->key);
}

static void bash(struct lvn_text *t)
{
    lvn_text_add(t, "# levin: completion for bash. Put into ~/.bashrc:  eval \"$(levin help --completion bash)\"\n"
                    "_levin() {\n"
                    "    local word=${COMP_WORDS[COMP_CWORD]} line=${COMP_LINE:0:COMP_POINT} words choices key\n"
                    "    line=${line##*[[:space:]]}\n    COMPREPLY=()\n"
                    "    if ((COMP_CWORD == 1)); then\n        mapfile -t COMPREPLY < <(compgen -W '");
    command_words(t);
    lvn_text_add(t, " --help --version' -- \"$word\")\n        return\n    fi\n"
                    "    case $line in\n    --*=*)\n        key=${line%%=*}\n        case $key in\n");
    for (int i = 0; i < lvn_option_count(); i++) {
        const struct lvn_option *o = lvn_option_at(i);
        if (!o->choices && o->kind != LVN_KIND_BOOL) continue;
        lvn_text_printf(t, "        --%s) choices='", o->key);
        for (int k = 0; o->choices && o->choices[k]; k++) lvn_text_printf(t, "%s%s", k ? " " : "", o->choices[k]);
        lvn_text_printf(t, "%s' ;;\n", o->choices ? "" : "true false");
    }
    lvn_text_add(t, "        *) mapfile -t COMPREPLY < <(compgen -f -- \"${line#*=}\"); return ;;\n        esac\n"
                    "        mapfile -t COMPREPLY < <(compgen -W \"$choices\" -- \"${line#*=}\")\n        return ;;\n"
                    "    --*)\n        words='");
    flag_words(t, "any");
    lvn_text_add(t, "'\n        case ${COMP_WORDS[1]} in\n");
    for (const struct lvn_command *k = lvn_commands; k->name; k++) {
        lvn_text_printf(t, "        %s) words+='", k->name);
        flag_words(t, k->name);
        lvn_text_add(t, "' ;;\n");
    }
    lvn_text_add(t, "        esac\n        words+='");
    key_words(t);
    lvn_text_add(t, "'\n        mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$word\")\n"
                    "        [[ ${COMPREPLY[0]-} == *= ]] && compopt -o nospace\n        return ;;\n    esac\n"
                    "    mapfile -t COMPREPLY < <(compgen -f -- \"$word\")\n}\n"
                    "complete -o filenames -F _levin levin\n");
}

static void zsh(struct lvn_text *t)
{
    lvn_text_add(
        t, "# levin: completion for zsh. Put into ~/.zshrc, after compinit:  eval \"$(levin help --completion zsh)\"\n"
           "autoload -U +X bashcompinit && bashcompinit\n");
    bash(t);
}

static void fish_text(struct lvn_text *t, const char *s)
{
    for (; *s; s++) {
        if (*s == '\'' || *s == '\\') lvn_text_add(t, "\\");
        lvn_text_add_bytes(t, s, 1);
    }
}

static void fish(struct lvn_text *t)
{
    lvn_text_add(t, "# levin: completion for fish. Put into ~/.config/fish/completions/levin.fish\n");
    for (const struct lvn_command *k = lvn_commands; k->name; k++) {
        lvn_text_printf(t, "complete -c levin -n __fish_use_subcommand -a %s -d '", k->name);
        fish_text(t, k->help);
        lvn_text_add(t, "'\n");
    }
    for (int i = 0; i < LVN_FLAG_COUNT; i++) {
        const struct lvn_flag *f = &lvn_flags[i];
        lvn_text_add(t, "complete -c levin ");
        if (strcmp(f->command, "any")) lvn_text_printf(t, "-n '__fish_seen_subcommand_from %s' ", f->command);
        lvn_text_add(t, f->option.key[1] ? "-l " : "-s ");
        for (const char *key = f->option.key; *key; key++) lvn_text_add_bytes(t, *key == '_' ? "-" : key, 1);
        lvn_text_add(t, f->option.kind == LVN_KIND_BOOL ? " -d '" : " -r -d '");
        fish_text(t, f->option.help);
        lvn_text_add(t, "'\n");
    }
    for (int i = 0; i < lvn_option_count(); i++) {
        const struct lvn_option *o = lvn_option_at(i);
        char help[LVN_HELP_TEXT];
        lvn_text_printf(t, "complete -c levin -l %s -r -d '", o->key);
        fish_text(t, lvn_option_help(o, help));
        lvn_text_add(t, "'");
        if (o->choices) {
            lvn_text_add(t, " -f -a '");
            for (int k = 0; o->choices[k]; k++) lvn_text_printf(t, "%s%s", k ? " " : "", o->choices[k]);
            lvn_text_add(t, "'");
        }
        lvn_text_add(t, "\n");
    }
}

enum lvn_status lvn_help_completion(struct lvn_text *t, const char *shell)
{
    if (!strcmp(shell, "bash")) {
        bash(t);
    } else if (!strcmp(shell, "zsh")) {
        zsh(t);
    } else if (!strcmp(shell, "fish")) {
        fish(t);
    } else {
        LVN_FAIL(ARG, "--completion supports bash, zsh and fish, not '%.40s'", shell);
    }
    return LVN_OK;
}
