/* help.c - levin help: explains commands, options, parts and keys, from commands.def and options/options.def,
 * and writes docs/options.md and the completion scripts from the same tables. */
#include "cli/help.h"

#include <unistd.h>

#include "base/text.h"
#include "cli/args.h"
#include "cli/cli.h"
#include "cli/humanize.h"
#include "models/model.h"
#include "settings/synonyms.h"

/* Append the examples of commands.def for the command, each indented by four spaces. */
static void add_examples(struct lvn_text *t, const struct lvn_command *k)
{
    static const struct {
        const char *command;
        const char *line;
    } examples[] = {
#define LVN_EXAMPLE(command_, line_) {#command_, line_},
#include "cli/commands.def"
    };
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++)
        if (!strcmp(examples[i].command, k->name)) lvn_text_printf(t, "    %s\n", examples[i].line);
}

/* --- docs/options.md --- */

/* A newline is written as \n. */
static void escaped(struct lvn_text *t, const char *s)
{
    for (; *s; s++) lvn_text_add_bytes(t, *s == '\n' ? "\\n" : s, *s == '\n' ? 2 : 1);
}

/* The values of an option: in sentences, and as a placeholder. */
static const struct {
    const char *words, *placeholder;
} kinds[] = {
    [LVN_KIND_INT] = {"whole number", "N"},
    [LVN_KIND_REAL] = {"number", "X"},
    [LVN_KIND_PAIR] = {"two numbers", "A,B"},
    [LVN_KIND_BOOL] = {"true or false", "TEXT"},
    [LVN_KIND_TEXT] = {"text", "TEXT"},
    [LVN_KIND_PATH] = {"text", "TEXT"},
    [LVN_KIND_LIST] = {"list of names", "A,B,..."},
    [LVN_KIND_MAPS] = {"list of maps", "[{...},...]"},
    [LVN_KIND_TIME] = {"time", "TIME"},
    [LVN_KIND_AMOUNT] = {"count or fraction", "N|X.X"},
    [LVN_KIND_TEXTS] = {"text, may be given again", "TEXT"},
    [LVN_KIND_CHOICE] = {"", "WORD"},
    [LVN_KIND_WORD] = {"", "WORD"},
};

static void values(struct lvn_text *t, const struct lvn_option *o)
{
    if (o->choices) {
        for (int i = 0; o->choices[i]; i++) lvn_text_printf(t, "%s`%s`", i ? ", " : "", o->choices[i]);
        return;
    }
    lvn_text_add(t, kinds[o->kind].words);
    if (o->kind == LVN_KIND_TIME && o->min > 0) lvn_text_printf(t, " from %.10g s", o->min);
    if (o->kind > LVN_KIND_PAIR) return;
    if (o->max >= 1e9) {
        lvn_text_printf(t, " from %.10g", o->min);
    } else {
        lvn_text_printf(t, ", %.10g to %.10g", o->min, o->max);
    }
}

/* The anchor of an option's heading in docs/options.md, as GitHub makes it: trainermax_steps. */
static const char *anchor_of(const struct lvn_option *o, char text[64])
{
    size_t n = 0;
    for (const char *c = o->key; *c && n < 63; c++)
        if (*c != '.') text[n++] = *c;
    text[n] = '\0';
    return text;
}

/* "Values: ...; default `...`." */
static void facts(struct lvn_text *t, const struct lvn_option *o)
{
    const char *default_text = o->family_default ? o->family_default : o->default_text;
    values(t, o);
    if (*default_text) {
        lvn_text_add(t, "; default `");
        escaped(t, default_text);
        lvn_text_add(t, "`");
    }
}

/* A help text as a sentence: with a capital, unless it begins with a name or a value, and a full stop. */
static void sentence(struct lvn_text *t, const char *text)
{
    const size_t n = strlen(text), word = strspn(text, "abcdefghijklmnopqrstuvwxyz-");
    const bool plain = word && strchr(" ;", text[word]);
    if (plain) lvn_text_printf(t, "%c", text[0] - 'a' + 'A');
    escaped(t, text + plain);
    if (n && text[n - 1] != '.') lvn_text_add(t, ".");
    lvn_text_add(t, "\n");
}

static void key_section(struct lvn_text *t, const struct lvn_option *o)
{
    lvn_text_printf(t, "\n### %s\n\n", o->key);
    sentence(t, o->help);
    lvn_text_add(t, "\nValues: ");
    facts(t, o);
    if (o->for_kind) lvn_text_printf(t, "; only with %s.kind %s", o->part, o->for_kind);
    lvn_text_add(t, ".\n");
    bool was_choice = false; /* a list is a separate block in Markdown */
    for (const char *line = o->more; line && *line;) {
        const size_t n = strcspn(line, "\n"), word = strcspn(line, ": ");
        const bool choice = word < n && line[word] == ':';
        if (line == o->more || was_choice != choice) lvn_text_add(t, "\n");
        was_choice = choice;
        if (choice) {
            lvn_text_printf(t, "- `%.*s`%.*s\n", (int)word, line, (int)(n - word), line + word);
        } else {
            lvn_text_printf(t, "%.*s\n", (int)n, line);
        }
        line += n + (line[n] == '\n');
    }
}

static void flag_list(struct lvn_text *t, const char *command)
{
    bool any = false;
    for (int i = 0; i < LVN_FLAG_COUNT; i++) {
        const struct lvn_option *o = &lvn_flags[i].option;
        char word[LVN_FLAG_TEXT];
        if (strcmp(lvn_flags[i].command, command)) continue;
        if (!any) lvn_text_add(t, "\n");
        any = true;
        lvn_text_printf(t, "- `%s` (", lvn_flag_text(o, word));
        facts(t, o);
        lvn_text_add(t, "): ");
        sentence(t, o->help);
    }
}

static void markdown(struct lvn_text *t)
{
    lvn_text_add(t,
                 "# Options\n\nThis page is written by `levin help --options-markdown` from the tables "
                 "`src/run/options/options.def` and `src/app/cli/commands.def`; edit those.\n\nA key can be set in a "
                 "recipe (`optimizer: {lr: 1e-3}`), in the environment (`LEVIN_OPTIMIZER_LR=1e-3`) and on the "
                 "command line\n(`--optimizer.lr=1e-3` or `--optimizer.lr 1e-3`). The command line overrides the "
                 "environment, the environment the recipe. If `kind`\nis overridden, keys of the recipe that belong to "
                 "other kinds are ignored. `--show-settings` prints each value and where it "
                 "came from. `off`, `none` and `0` are the same where 0 is allowed.\n\n## The run\n");
    const char *part = "";
    for (int i = 0; i < lvn_option_count(); i++) {
        const struct lvn_option *o = lvn_option_at(i);
        if (strcmp(part, o->part)) {
            part = o->part;
            lvn_text_printf(t, "\n## %s\n\nThe part `%s`: %s.\n", part, part, lvn_part_help(part));
        }
        key_section(t, o);
    }
    lvn_text_add(t, "\n# Commands\n\nOptions of every command:\n");
    flag_list(t, "any");
    for (const struct lvn_command *k = lvn_commands; k->name; k++) {
        lvn_text_printf(t, "\n## levin %s%s%s\n\n", k->name, *k->operands ? " " : "", k->operands);
        sentence(t, k->help);
        flag_list(t, k->name);
        lvn_text_add(t, "\nFor example:\n\n");
        add_examples(t, k);
    }
    lvn_text_add(t, "\nExit codes: 0 done, 1 failed, 2 wrong usage or recipe, 75 stopped on request, nothing lost, 76 "
                    "a fault\nthat a restart from the last checkpoint can cure (docs/cluster-messages.md).\n");
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
    lvn_text_add(t, "        *)\n            compopt -o filenames 2>/dev/null\n"
                    "            mapfile -t COMPREPLY < <(compgen -f -- \"${line#*=}\")\n            return ;;\n"
                    "        esac\n"
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
                    "    case ${COMP_WORDS[1]} in\n"
                    "    train | generate | evaluate | predict | export | watch | report | runs)\n"
                    "        mapfile -t words < <(compgen -G 'runs/*/settings.yaml')\n"
                    "        words=(\"${words[@]#runs/}\")\n"
                    "        mapfile -t COMPREPLY < <(compgen -W \"${words[*]%/settings.yaml}\" -- \"$word\") ;;\n"
                    "    esac\n"
                    "    compopt -o filenames 2>/dev/null\n"
                    "    mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -f -- \"$word\")\n}\n"
                    "complete -F _levin levin\n");
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

static enum lvn_status completion(struct lvn_text *t, const char *shell)
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

enum { COLUMN = 30 }; /* where explanations start */

static int width(void)
{
    int columns = lvn_terminal_columns(STDOUT_FILENO);
    if (!columns) columns = lvn_terminal_columns(STDERR_FILENO); /* `levin help train | less` */
    return columns < 60 ? 100 : columns > 120 ? 120 : columns;
}

/* Append text, wrapped to the terminal; lines after the first are indented by `indent` columns. */
static void wrapped(struct lvn_text *t, int indent, const char *text)
{
    int capacity = width() - indent - 1;
    while (*text) {
        int n = (int)strlen(text);
        if (n > capacity) {
            for (n = capacity; n > 0 && text[n] != ' ';) n--;
            if (n == 0) n = capacity;
        }
        lvn_text_printf(t, "%.*s\n", n, text);
        text += n;
        while (*text == ' ') text++;
        if (*text) lvn_text_printf(t, "%*s", indent, "");
    }
}

/* `left`, and `right` wrapped in the second column. */
static void row(struct lvn_text *t, const char *left, const char *right)
{
    lvn_text_printf(t, "  %-*s", COLUMN - 2, left);
    if ((int)strlen(left) > COLUMN - 4) lvn_text_printf(t, "\n%*s", COLUMN, "");
    wrapped(t, COLUMN, right);
}

static void flag_row(struct lvn_text *t, const struct lvn_option *o)
{
    char left[96], help[400];
    lvn_flag_text(o, left);
    if (o->kind != LVN_KIND_BOOL)
        lvn_print_append(left, sizeof left, "%c%s", o->key[1] ? '=' : ' ', kinds[o->kind].placeholder);
    bool plain = !*o->default_text || !strcmp(o->default_text, "0") || !strcmp(o->default_text, "false") ||
                 !strcmp(o->default_text, "\n");
    snprintf(help, sizeof help, plain ? "%s" : "%s [%s]", o->help, o->default_text);
    row(t, left, help);
}

static void key_row(struct lvn_text *t, const struct lvn_option *o)
{
    char left[96], help[700], text[LVN_HELP_TEXT];
    const char *default_text = o->family_default ? o->family_default : o->default_text;
    bool plain = !*default_text || !strcmp(default_text, "\n");
    snprintf(left, sizeof left, "%s", o->key);
    snprintf(help, sizeof help, plain ? "%s" : "%s [%s]", lvn_option_help(o, text), default_text);
    row(t, left, help);
}

/* Has a model before m the same table of sizes? Variants of one family do. */
static bool is_repeated(const struct lvn_model *const *m)
{
    for (const struct lvn_model *const *before = lvn_models(); before < m; before++)
        if ((*before)->sizes == (*m)->sizes) return true;
    return false;
}

static void size_rows(struct lvn_text *t)
{
    for (const struct lvn_model *const *m = lvn_models(); *m; m++) {
        struct lvn_text names = {0}, published = {0};
        if (!(*m)->sizes || is_repeated(m)) continue;
        for (const struct lvn_size *s = (*m)->sizes; s->name; s++) {
            lvn_text_printf(&names, "%s%s", names.n ? ", " : "", s->name);
            if (s->repository) lvn_text_printf(&published, "%s%s", published.n ? ", " : "", s->name);
        }
        char left[96];
        snprintf(left, sizeof left, "sizes of %s", lvn_model_file_variant(*m)->name);
        row(t, left, lvn_text_string(&names) ? names.p : "");
        snprintf(left, sizeof left, "published (%s)", lvn_model_file_variant(*m)->name);
        if (published.n) row(t, left, lvn_text_string(&published) ? published.p : "");
        snprintf(left, sizeof left, "to freeze (%s)", lvn_model_file_variant(*m)->name);
        if ((*m)->freeze_example) row(t, left, (*m)->freeze_example);
        t->failed = t->failed || names.failed || published.failed;
        lvn_text_release(&names);
        lvn_text_release(&published);
    }
}

/* The linear layers that may get LoRA adapters. */
static void target_rows(struct lvn_text *t)
{
    for (const struct lvn_model *const *m = lvn_models(); *m; m++) {
        char left[96], help[400];
        if (!(*m)->linear_layers || *m != lvn_model_file_variant(*m)) continue;
        snprintf(left, sizeof left, "targets of %s", (*m)->name);
        snprintf(help, sizeof help, "%s [%s]", (*m)->linear_layers, (*m)->lora_targets);
        row(t, left, help);
    }
}

static void part_rows(struct lvn_text *t, const char *part)
{
    if (*part) lvn_text_printf(t, "\n%s: %s\n", part, lvn_part_help(part));
    for (int i = 0; i < lvn_option_count(); i++) {
        if (!strcmp(lvn_option_at(i)->part, part)) key_row(t, lvn_option_at(i));
    }
    if (!strcmp(part, "model")) size_rows(t);
    if (!strcmp(part, "lora")) target_rows(t);
}

static void all_options(struct lvn_text *t)
{
    lvn_text_add(t, "Keys of recipes (defaults in brackets): in a recipe as optimizer: {lr: 1e-3},\non the command "
                    "line as --optimizer.lr=1e-3, in the environment as LEVIN_OPTIMIZER_LR=1e-3.\nThe command line "
                    "wins over the environment, and that over the recipe.\n\n");
    const char *part = "";
    part_rows(t, part);
    for (int i = 0; i < lvn_option_count(); i++) {
        if (!strcmp(lvn_option_at(i)->part, part)) continue;
        part = lvn_option_at(i)->part;
        part_rows(t, part);
    }
}

/* At most 25 lines, so that it fits a terminal: one for each command, by groups. */
static void overview(struct lvn_text *t)
{
    static const char *const groups[] = {"train", "data", "models", "clusters", "look"};
    lvn_text_printf(t,
                    "levin %s trains and fine-tunes transformers and small vision nets.\n"
                    "usage: levin COMMAND [OPERANDS] [--key=value ...]\n\n",
                    LVN_VERSION);
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        const char *title = groups[i];
        for (const struct lvn_command *k = lvn_commands; k->name; k++) {
            if (!k->group || strcmp(k->group, groups[i]) != 0) continue;
            lvn_text_printf(t, "  %-9s %-10s %s\n", title, k->name, k->summary);
            title = "";
        }
    }
    lvn_text_add(t, "\n`levin help COMMAND` explains a command, `levin help options` lists the keys of recipes.\n");
}

static void command_text(struct lvn_text *t, const struct lvn_command *k)
{
    const char *keys = k->keys && !*k->keys ? "" : " [--key=value ...]";
    if (k->runs_others) {
        lvn_text_printf(t, "usage: levin %s [--option ...] %s\n\n", k->name, k->operands);
    } else {
        lvn_text_printf(t, "usage: levin %s%s%s [--option ...]%s\n\n", k->name, *k->operands ? " " : "", k->operands,
                        keys);
    }
    wrapped(t, 0, k->help);
    lvn_text_add(t, "\n");
    for (int common = 0; common < 2; common++) { /* the command's own flags first */
        for (int i = 0; i < LVN_FLAG_COUNT; i++) {
            bool any = !strcmp(lvn_flags[i].command, "any");
            if (any == common && lvn_flag_fits(&lvn_flags[i], k)) flag_row(t, &lvn_flags[i].option);
        }
    }
    lvn_text_add(t, "\nFor example:\n");
    add_examples(t, k);
    if (!k->keys) lvn_text_add(t, "\nKeys of recipes, as --optimizer.lr=1e-3, are listed by `levin help options`.\n");
    if (!k->keys || !*k->keys) return;
    lvn_text_add(t, "\nKeys of recipes that this command uses (`levin help KEY` explains each):\n  ");
    wrapped(t, 2, k->keys);
}

/* The meanings of choices as rows; sentences as a paragraph. */
static void more_text(struct lvn_text *t, const struct lvn_option *o)
{
    for (const char *line = o->more; line && *line;) {
        const size_t n = strcspn(line, "\n");
        char text[600];
        snprintf(text, sizeof text, "%.*s", (int)n, line);
        lvn_text_add(t, "  ");
        wrapped(t, 4, text);
        line += n + (line[n] == '\n');
    }
}

static void key_text(struct lvn_text *t, const struct lvn_option *o)
{
    char anchor[64];
    lvn_text_printf(t, "%s: %s%s", o->key, o->for_kind ? o->for_kind : "", o->for_kind ? ": " : "");
    wrapped(t, 2, o->help);
    more_text(t, o);
    if (*o->default_text && strcmp(o->default_text, "\n")) lvn_text_printf(t, "  default  %s\n", o->default_text);
    if (o->choices) {
        lvn_text_add(t, "  one of   ");
        for (int i = 0; o->choices[i]; i++) lvn_text_printf(t, "%s%s", i ? ", " : "", o->choices[i]);
        lvn_text_add(t, "\n");
    } else if (o->kind == LVN_KIND_INT || o->kind == LVN_KIND_REAL || o->kind == LVN_KIND_PAIR) {
        lvn_text_printf(t, "  range    %.10g to %.10g\n", o->min, o->max);
    }
    lvn_text_printf(t, "  page     docs/options.md#%s\n", anchor_of(o, anchor));
}

/* Print the text, or add it to the object of --json. */
static enum lvn_status print_text(struct lvn_cli *c, struct lvn_text *t)
{
    const char *text = lvn_text_string(t);
    if (text) {
        lvn_cli_print(c, "%s", text);
        lvn_cli_add(c, "text", json_string(text));
    }
    return text ? LVN_OK : LVN_MEMORY;
}

enum lvn_status lvn_help_command(struct lvn_cli *c, const struct lvn_command *command)
{
    LVN_LOCAL_TEXT(t);
    command_text(&t, command);
    return print_text(c, &t);
}

/* `levin help tokenizer train`: the second word must be one that the command accepts as an operand. */
static enum lvn_status check_second(const char *word, const char *second)
{
    const struct lvn_command *command = lvn_command_find(word);
    const size_t n = strlen(second);
    const char *at = command && n ? strstr(command->operands, second) : NULL;
    bool whole = at && !strchr("abcdefghijklmnopqrstuvwxyz", at[n] ? at[n] : '-') &&
                 (at == command->operands || at[-1] == ' ' || at[-1] == '[');
    LVN_CHECK(whole, ARG,
              "levin help explains one thing at a time, and '%.60s' is not a part of '%.60s': levin help %.60s", second,
              word, word);
    return LVN_OK;
}

/* Does the text contain the word, not only as a part of another one? */
static bool mentions(const char *text, const char *word)
{
    const size_t n = strlen(word);
    for (const char *at = text; n && (at = strcasestr(at, word)); at++)
        if ((at == text || !isalnum((unsigned char)at[-1])) && !isalnum((unsigned char)at[n])) return true;
    return false;
}

/* Append the options of commands and the keys of recipes that are named `word` (lr: optimizer.lr) or, if there are
 * none, whose help mentions it. */
static void matches(struct lvn_text *t, const char *word)
{
    for (int by_help = 0; by_help < 2 && !t->n; by_help++) {
        for (int i = 0; i < LVN_FLAG_COUNT; i++) {
            const struct lvn_flag *f = &lvn_flags[i];
            if (by_help ? !mentions(f->option.help, word) : strcmp(f->option.key, word) != 0) continue;
            char left[LVN_FLAG_TEXT + 40], name[LVN_FLAG_TEXT];
            snprintf(left, sizeof left, "levin %s %s", strcmp(f->command, "any") != 0 ? f->command : "COMMAND",
                     lvn_flag_text(&f->option, name));
            row(t, left, f->option.help);
        }
        for (int i = 0; i < lvn_option_count(); i++) {
            const struct lvn_option *o = lvn_option_at(i);
            const char *dot = strchr(o->key, '.');
            if (by_help ? !mentions(o->help, word) : !dot || strcmp(dot + 1, word) != 0) continue;
            row(t, o->key, o->help);
        }
    }
}

static enum lvn_status topic(struct lvn_text *t, const char *word)
{
    const struct lvn_command *command = lvn_command_find(word);
    const struct lvn_option *o = lvn_option_find(word);
    if (command) {
        command_text(t, command);
    } else if (!strcmp(word, "options")) {
        all_options(t);
    } else if (o) {
        key_text(t, o);
    } else if (lvn_part_help(word)) {
        part_rows(t, word);
    } else {
        const struct lvn_synonym *synonym = lvn_synonym_find(word, NULL, NULL);
        char text[LVN_SYNONYM_TEXT];
        const char *near = lvn_option_nearest(word);
        if (synonym) LVN_FAIL(ARG, "there is no help on '%.60s'; %s", word, lvn_synonym_text(synonym, false, text));
        matches(t, word);
        if (t->n) return LVN_OK;
        LVN_FAIL(ARG, "there is no help on '%.60s'%s%s%s", word,
                 near ? "; did you mean '" : "; `levin help` lists the commands", near ? near : "", near ? "'?" : "");
    }
    return LVN_OK;
}

enum lvn_status lvn_command_help(struct lvn_cli *c)
{
    LVN_LOCAL_TEXT(t);
    enum lvn_status status = LVN_OK;
    const char *shell = c->flag[LVN_FLAG_help_completion].t;
    LVN_CHECK(!c->n_operands || (!*shell && !lvn_cli_on(c, LVN_FLAG_help_options_markdown)), ARG,
              "--completion and --options-markdown are for all commands: leave '%.60s' out", c->operand[0]);
    if (lvn_cli_on(c, LVN_FLAG_help_options_markdown)) {
        markdown(&t);
    } else if (*shell) {
        status = completion(&t, shell);
    } else if (c->n_operands) {
        if (c->n_operands == 2) status = check_second(c->operand[0], c->operand[1]);
        if (status == LVN_OK) status = topic(&t, c->operand[0]);
    } else {
        overview(&t);
    }
    return status ? status : print_text(c, &t);
}
