/* predict.c - levin predict MODEL: the classes or numbers of new texts from the command line, a file or a pipe.
 *
 * Rank 0 reads the texts, all ranks call lvn_predict() with them, and rank 0 shows the results. */

#include "base/files.h"
#include "base/input.h"
#include "base/list.h"
#include "base/log.h"
#include "base/text.h"
#include "cli/args.h"
#include "cli/cli.h"
#include "cli/cli_ranks.h"
#include "cli/humanize.h"
#include "cli/model_arg.h"
#include "data/table.h"
#include "formats/json.h"
#include "inference/prediction.h"
#include "models/model.h"
#include "setup/setup.h"

/* A row of the input. Each has a line in the output. */
struct row {
    int64_t line;    /* of the file; 0: the text was given on the command line */
    int64_t text;    /* index among the texts; -1: the row cannot be used */
    const char *bad; /* why not; NULL: it can be used */
};

struct texts {
    const char **text; /* (n) */
    const char **pair; /* (n): the second texts of pairs; an entry is NULL for a single text */
    int64_t n;
    int64_t capacity, pair_capacity;
    struct row *row; /* (n_rows) */
    int64_t n_rows;
    int64_t row_capacity;
    struct lvn_arena arena; /* of the texts */
};

/* --- reading --- */

static enum lvn_status add(struct texts *x, const char *text, const char *pair)
{
    if (!lvn_list_reserve(&x->text, &x->capacity, x->n + 1, sizeof *x->text) ||
        !lvn_list_reserve(&x->pair, &x->pair_capacity, x->n + 1, sizeof *x->pair))
        return LVN_MEMORY;
    x->text[x->n] = text;
    x->pair[x->n++] = pair;
    return text ? LVN_OK : LVN_MEMORY;
}

/* p NULL (an optional column that the table lacks): *out is NULL. */
static enum lvn_status copy(struct texts *x, const char *p, int64_t n, const char **out)
{
    *out = p ? lvn_arena_printf(&x->arena, "%.*s", (int)n, p) : NULL;
    return p && !*out ? LVN_MEMORY : LVN_OK;
}

/* A row with a text, or, if `bad` says why, without one. */
static enum lvn_status add_row(struct texts *x, const struct levin_settings *s, int64_t line, const char *text,
                               const char *pair, const char *bad)
{
    LVN_CHECK(!bad || s->values.data.skip_bad_rows, FORMAT,
              "%s; correct it, or give such rows no prediction with data.skip_bad_rows=true", bad);
    if (!lvn_list_reserve(&x->row, &x->row_capacity, x->n_rows + 1, sizeof *x->row)) return LVN_MEMORY;
    x->row[x->n_rows++] = (struct row){.line = line, .text = bad ? -1 : x->n, .bad = bad};
    return bad ? LVN_OK : add(x, text, pair);
}

static enum lvn_status read_table(struct texts *x, const struct levin_settings *s, struct lvn_table *t)
{
    struct lvn_table_row row;
    const char *common = "document|text|sentence", *column = s->values.data.text_column;
    bool pair = *s->values.data.pair_column && t->format != LVN_TABLE_LINES;
    t->keep_empty = true;
    LVN_TRY(lvn_table_column(t, *column && t->format != LVN_TABLE_LINES ? column : common, true));
    LVN_TRY(lvn_table_column(t, pair ? s->values.data.pair_column : "", pair));
    for (bool more = true;;) {
        const char *bad = NULL, *text = NULL, *second = NULL;
        LVN_TRY(lvn_table_next(t, &row, &more));
        if (!more) return LVN_OK;
        if (*row.bad) {
            LVN_TRY(copy(x, row.bad, (int64_t)strlen(row.bad), &bad));
        } else {
            LVN_TRY(copy(x, row.cell[0].p, row.cell[0].n, &text));
            LVN_TRY(copy(x, row.cell[1].p, row.cell[1].n, &second));
        }
        LVN_TRY(add_row(x, s, row.line, text, second, bad));
    }
}

static enum lvn_status read_given(struct texts *x, const struct levin_settings *s, const struct lvn_texts *given)
{
    for (int i = 0; i < given->n; i++) {
        const char *bad = NULL, *text = given->text[i];
        int64_t wrong = lvn_utf8_check(text, (int64_t)strlen(text));
        if (wrong >= 0) {
            bad = lvn_arena_printf(&x->arena, "--text %d: byte %lld is not UTF-8", i + 1, (long long)wrong + 1);
            if (!bad) return LVN_MEMORY;
        }
        LVN_TRY(add_row(x, s, 0, text, NULL, bad));
    }
    return LVN_OK;
}

static enum lvn_status read_texts(struct texts *x, const struct lvn_cli *c)
{
    const struct lvn_texts *given = &c->flag[LVN_FLAG_predict_text].texts;
    const char *input = c->flag[LVN_FLAG_predict_input].t;
    struct lvn_table t;
    LVN_CHECK(!given->n != !*input, ARG, "give texts: either --text=\"...\", or --input=FILE (- is standard input)");
    if (!*input) return read_given(x, &c->settings, given);
    char *text = NULL;
    int64_t bytes = 0;
    LVN_CHECK(
        strcmp(input, "-") || c->ranks->size == 1, ARG,
        "--input=- is standard input, which not every launcher passes on, and %d ranks were started: give a file, "
        "which rank 0 reads",
        c->ranks->size);
    if (!strcmp(input, "-")) input = "/dev/stdin";
    LVN_TRY(lvn_ranks_agree(c->ranks, c->ranks->rank ? LVN_OK : lvn_input_read(input, 0, &text, &bytes)));
    LVN_TRY(lvn_ranks_broadcast_text(c->ranks, &text, &bytes));
    enum lvn_status status = lvn_table_open_text(&t, input, text, bytes);
    if (status == LVN_OK) status = read_table(x, &c->settings, &t);
    lvn_table_close(&t);
    free(text);
    return status;
}

/* --- showing --- */

/* A cell of a table may hold newlines, and a class of another program tabs; in the output a row is one line. */
static void print_one_line(const char *text, char end)
{
    LVN_LOCAL_TEXT(line);
    lvn_text_add(&line, text);
    for (int64_t i = 0; i < line.n; i++)
        if (line.p[i] == '\n' || line.p[i] == '\r' || line.p[i] == end) line.p[i] = ' ';
    lvn_cli_put(stdout, line.n ? line.p : "");
    putchar(end);
}

static json_t *show_number(const struct lvn_cli *c, const char *text, double x)
{
    if (!c->json) {
        printf("%.6g\t", x);
        print_one_line(text, '\n');
    }
    return json_pack("{s:o}", "number", lvn_json_number(x));
}

static json_t *show_class(const struct lvn_cli *c, const struct lvn_prediction *f, const char *text, const double *p)
{
    json_t *all = json_array();
    char text_of_name[LVN_CLASS_NAME];
    int64_t best = 0;
    for (int64_t k = 0; k < f->columns; k++) {
        if (p[k] > p[best]) best = k;
        json_array_append_new(all, lvn_json_number(p[k]));
    }
    const char *name = lvn_class_name(&f->config, best, text_of_name);
    if (!c->json) {
        if (f->config.class_names)
            print_one_line(name, '\t');
        else
            printf("%lld\t", (long long)best);
        printf("%.4f\t", p[best]);
        print_one_line(text, '\n');
    }
    return json_pack("{s:I,s:o,s:o}", "label", (json_int_t)best, "name", lvn_json_text(name, INT64_MAX),
                     "probabilities", all);
}

/* A row without a prediction also gets a line. */
static json_t *show_bad(const struct lvn_cli *c, const struct lvn_prediction *f, const char *bad)
{
    if (!c->json) {
        fputs(f->is_number ? "-\t" : "-\t-\t", stdout);
        print_one_line(bad, '\n');
    }
    json_t *error = lvn_json_text(bad, INT64_MAX); /* with the path, which may not be UTF-8 */
    if (f->is_number) return json_pack("{s:n,s:o}", "number", "error", error);
    return json_pack("{s:n,s:n,s:n,s:o}", "label", "name", "probabilities", "error", error);
}

static void show(struct lvn_cli *c, const struct texts *x, const struct lvn_prediction *f)
{
    json_t *list = json_array();
    const char *first = NULL;
    for (int64_t i = 0; i < x->n_rows; i++) {
        const struct row *r = &x->row[i];
        const double *p = r->bad ? NULL : f->values + r->text * f->columns;
        json_t *one = r->bad         ? show_bad(c, f, r->bad)
                      : f->is_number ? show_number(c, x->text[r->text], *p)
                                     : show_class(c, f, x->text[r->text], p);
        if (r->line) json_object_set_new(one, "line", json_integer(r->line));
        json_array_append_new(list, one);
        if (r->bad && !first) first = r->bad;
    }
    lvn_cli_add(c, "predictions", list);
    lvn_cli_add(c, "skipped", json_integer(x->n_rows - x->n));
    if (first)
        lvn_log(LVN_LOG_WARN, "%lld of %lld rows have no prediction; the first: %s", (long long)(x->n_rows - x->n),
                (long long)x->n_rows, first);
}

static enum lvn_status predict(struct lvn_cli *c, struct texts *x)
{
    LVN_TRY(lvn_ranks_agree(c->ranks, read_texts(x, c)));
    const char *input = c->flag[LVN_FLAG_predict_input].t;
    LVN_CHECK(x->n || !x->n_rows, FORMAT, "'%s' has no row that can be used; the first one: %s",
              *input ? input : "--text", x->row[0].bad);
    LVN_CHECK(x->n, FORMAT, "'%s' contains no text", input);
    if (*c->settings.values.data.pair_column && !x->pair[0] && !c->ranks->rank)
        lvn_log(
            LVN_LOG_WARN,
            "the model learned from pairs (data.pair_column is '%s'), and these are single texts: give a table with "
            "both columns",
            c->settings.values.data.pair_column);
    struct lvn_prediction prediction = {0};
    const struct lvn_new_texts texts = {.text = x->text, .pair = x->pair, .n = x->n};
    struct lvn_model_setup setup = {0};
    enum lvn_status status = lvn_ranks_agree(c->ranks, lvn_model_setup_prediction(&setup, &c->settings, &texts));
    if (status == LVN_OK) status = lvn_predict(&setup, &c->settings.values, c->ranks, &prediction);
    if (status == LVN_OK && !c->ranks->rank) show(c, x, &prediction);
    lvn_prediction_release(&prediction);
    lvn_model_setup_close(&setup);
    return status;
}

enum lvn_status lvn_command_predict(struct lvn_cli *c)
{
    unsigned parts = LVN_USES_MODEL | LVN_USES_TRAINER | LVN_USES_DEVICE;
    LVN_TRY(lvn_cli_join_ranks(c, lvn_cli_model_settings(c, c->operand[0], parts)));
    if (lvn_cli_shows_settings(c)) return LVN_OK;
    struct texts x = {0};
    lvn_arena_init(&x.arena);
    enum lvn_status status = predict(c, &x);
    free(x.text);
    free(x.pair);
    free(x.row);
    lvn_arena_release(&x.arena);
    return status;
}
