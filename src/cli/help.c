/* help.c - levin help: explains commands, options, parts and keys, from commands.def and settings/options.def. Pages
 * for docs and completion scripts are help_docs.c's. */
#include "cli/help.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/args.h"
#include "cli/cli.h"
#include "models/model.h"
#include "settings/synonyms.h"

enum { COLUMN = 30 }; /* where explanations start */

static int width(void)
{
    struct winsize size;
    int columns = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
    return columns < 60 ? 100 : columns > 120 ? 120 : columns;
}

/* `left`, and `right` wrapped in a column of its own. */
static void row(struct lvn_text *t, const char *left, const char *right)
{
    int capacity = width() - COLUMN - 1;
    lvn_text_printf(t, "  %-*s", COLUMN - 2, left);
    if ((int)strlen(left) > COLUMN - 4) lvn_text_printf(t, "\n%*s", COLUMN, "");
    while (*right) {
        int n = (int)strlen(right);
        if (n > capacity) {
            for (n = capacity; n > 0 && right[n] != ' ';) n--;
            if (n == 0) n = capacity;
        }
        lvn_text_printf(t, "%.*s\n", n, right);
        right += n;
        while (*right == ' ') right++;
        if (*right) lvn_text_printf(t, "%*s", COLUMN, "");
    }
}

/* The placeholder for a value: N, X, WORD, ... */
static const char *value_word(const struct lvn_option *o)
{
    switch (o->kind) {
    case LVN_KIND_INT:
        return "N";
    case LVN_KIND_REAL:
        return "X";
    case LVN_KIND_PAIR:
        return "A,B";
    case LVN_KIND_TIME:
        return "TIME";
    case LVN_KIND_AMOUNT:
        return "N|X.X";
    case LVN_KIND_LIST:
        return "A,B,...";
    case LVN_KIND_MAPS:
        return "[{...},...]";
    case LVN_KIND_CHOICE:
    case LVN_KIND_WORD:
        return "WORD";
    case LVN_KIND_BOOL:
    case LVN_KIND_TEXT:
    case LVN_KIND_PATH:
    case LVN_KIND_TEXTS:
        break;
    }
    return "TEXT";
}

static void flag_row(struct lvn_text *t, const struct lvn_option *o)
{
    char left[96], help[400];
    lvn_flag_text(o, left);
    if (o->kind != LVN_KIND_BOOL) lvn_print_append(left, sizeof left, "%c%s", o->key[1] ? '=' : ' ', value_word(o));
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

/* The linear maps that may get LoRA adapters. */
static void target_rows(struct lvn_text *t)
{
    for (const struct lvn_model *const *m = lvn_models(); *m; m++) {
        char left[96], help[400];
        if (!(*m)->linear_maps || *m != lvn_model_file_variant(*m)) continue;
        snprintf(left, sizeof left, "targets of %s", (*m)->name);
        snprintf(help, sizeof help, "%s [%s]", (*m)->linear_maps, (*m)->lora_targets);
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

static void overview(struct lvn_text *t)
{
    lvn_text_printf(t, "levin %s trains transformers and small vision nets.\n\nusage: levin COMMAND ...\n\n",
                    LVN_VERSION);
    for (const struct lvn_command *k = lvn_commands; k->name; k++) {
        char left[96];
        snprintf(left, sizeof left, "%s %s", k->name, k->operands);
        row(t, left, k->help);
    }
    lvn_text_add(t, "\nlevin help COMMAND explains one, levin help options lists all keys of recipes.\n");
}

void lvn_help_examples(struct lvn_text *t, const struct lvn_command *k)
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

static void command_text(struct lvn_text *t, const struct lvn_command *k)
{
    const char *keys = strcmp(k->name, "help") && strcmp(k->name, "doctor") ? " [--key=value ...]" : "";
    if (k->runs_others) {
        lvn_text_printf(t, "usage: levin %s [--option ...] %s\n\n%s\n\n", k->name, k->operands, k->help);
    } else {
        lvn_text_printf(t, "usage: levin %s%s%s [--option ...]%s\n\n%s\n\n", k->name, *k->operands ? " " : "",
                        k->operands, keys, k->help);
    }
    for (int common = 0; common < 2; common++) { /* the command's own flags first */
        for (int i = 0; i < LVN_FLAG_COUNT; i++) {
            bool any = !strcmp(lvn_flags[i].command, "any");
            if (any == common && lvn_flag_fits(&lvn_flags[i], k)) flag_row(t, &lvn_flags[i].option);
        }
    }
    lvn_text_add(t, "\nFor example:\n");
    lvn_help_examples(t, k);
    lvn_text_add(t, "\nKeys of recipes, as --optimizer.lr=1e-3, are listed by `levin help options`.\n");
}

static void key_text(struct lvn_text *t, const struct lvn_option *o)
{
    char text[LVN_HELP_TEXT];
    lvn_text_printf(t, "%s: %s\n", o->key, lvn_option_help(o, text));
    if (*o->default_text && strcmp(o->default_text, "\n")) lvn_text_printf(t, "  default  %s\n", o->default_text);
    if (o->choices) {
        lvn_text_add(t, "  one of   ");
        for (int i = 0; o->choices[i]; i++) lvn_text_printf(t, "%s%s", i ? ", " : "", o->choices[i]);
        lvn_text_add(t, "\n");
    } else if (o->kind == LVN_KIND_INT || o->kind == LVN_KIND_REAL || o->kind == LVN_KIND_PAIR) {
        lvn_text_printf(t, "  range    %.10g to %.10g\n", o->min, o->max);
    }
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

/* `levin help tokenizer train`: the second word must be one that the command takes as an operand. */
static enum lvn_status check_second(const char *word, const char *second)
{
    const struct lvn_command *command = lvn_command_find(word);
    const size_t n = strlen(second);
    const char *at = command && n ? strstr(command->operands, second) : NULL;
    bool whole = at && !strchr("abcdefghijklmnopqrstuvwxyz", at[n] ? at[n] : '-') &&
                 (at == command->operands || at[-1] == ' ' || at[-1] == '[');
    LVN_CHECK(whole, ARG,
              "levin help explains one thing at a time, and '%.60s' is no part of '%.60s': levin help %.60s", second,
              word, word);
    return LVN_OK;
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
    if (lvn_cli_on(c, LVN_FLAG_help_options_markdown)) {
        lvn_help_markdown(&t);
    } else if (lvn_cli_on(c, LVN_FLAG_help_values_schema)) {
        status = lvn_chart_schema(&t);
    } else if (*shell) {
        status = lvn_help_completion(&t, shell);
    } else if (c->n_operands) {
        if (c->n_operands == 2) status = check_second(c->operand[0], c->operand[1]);
        if (status == LVN_OK) status = topic(&t, c->operand[0]);
    } else {
        overview(&t);
    }
    return status ? status : print_text(c, &t);
}
