/* predict.c - levin predict MODEL: the classes of new texts, from the command line, a file or a pipe.
 *
 * Texts are evaluated as rows of data without labels (data/labelled.c), cleaned and cut as the model was trained. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "cli/cli.h"
#include "cli/model.h"
#include "data/table.h"
#include "train/evaluate.h"
#include "train/model_config.h"

struct texts {
    const char **text, **pair; /* pair: NULL where there are none */
    int64_t n, room;
    struct lvn_arena arena; /* of the texts */
};

/* What came of them: classes numbers each, in the order of the texts. */
struct found {
    double *probability;
    int64_t n, classes;
    struct lvn_model_config config;
    bool lacks; /* memory */
};

/* --- reading --- */

static enum lvn_status add(struct texts *x, const char *text, const char *pair)
{
    if (x->n == x->room) {
        int64_t room = x->room ? 2 * x->room : 64;
        const char **more = lvn_realloc(x->text, sizeof *more * (size_t)room);
        if (more) x->text = more;
        const char **pairs = more ? lvn_realloc(x->pair, sizeof *pairs * (size_t)room) : NULL;
        if (!pairs) return LVN_MEMORY;
        x->pair = pairs;
        x->room = room;
    }
    x->text[x->n] = text;
    x->pair[x->n++] = pair;
    return text ? LVN_OK : LVN_MEMORY;
}

static const char *copy(struct texts *x, const char *p, int64_t n)
{
    return p ? lvn_arena_printf(&x->arena, "%.*s", (int)n, p) : NULL;
}

static enum lvn_status read_table(struct texts *x, const struct lvn_settings *s, struct lvn_table *t)
{
    struct lvn_table_row row;
    const char *usual = "document|text|sentence", *column = s->data.text_column;
    bool pair = *s->data.pair_column && t->form != LVN_TABLE_LINES;
    LVN_TRY(lvn_table_column(t, *column && t->form != LVN_TABLE_LINES ? column : usual, true));
    LVN_TRY(lvn_table_column(t, pair ? s->data.pair_column : "", pair));
    while (lvn_table_next(t, &row)) {
        LVN_CHECK(!*row.bad || s->data.skip_bad_rows, FORMAT,
                  "%s; mend it, or pass over such rows with data.skip_bad_rows=true", row.bad);
        if (!*row.bad) LVN_TRY(add(x, copy(x, row.cell[0].p, row.cell[0].n), copy(x, row.cell[1].p, row.cell[1].n)));
    }
    return LVN_OK;
}

static enum lvn_status read_texts(struct texts *x, const struct lvn_cli *c)
{
    const struct lvn_texts *given = &c->flag[LVN_FLAG_predict_text].texts;
    const char *input = c->flag[LVN_FLAG_predict_input].t;
    struct lvn_table t;
    LVN_CHECK(!given->n != !*input, ARG,
              "say which texts: either --text=\"...\", or --input=FILE (- is standard input)");
    for (int i = 0; i < given->n; i++) LVN_TRY(add(x, given->text[i], NULL));
    if (!*input) return LVN_OK;
    enum lvn_status status = lvn_table_open(&t, strcmp(input, "-") ? input : "/dev/stdin");
    if (status == LVN_OK) status = read_table(x, &c->settings, &t);
    lvn_table_close(&t);
    return status;
}

/* --- what came of it --- */

static void collect(void *context, const struct lvn_evaluated *e)
{
    struct found *f = context;
    const int64_t K = e->shape->dim[e->shape->rank - 1];
    if (!f->probability) f->probability = lvn_calloc((size_t)(f->n * K), sizeof *f->probability);
    f->lacks = !f->probability;
    f->classes = K;
    f->config = *e->config;
    for (int64_t i = 0; i < e->samples && !f->lacks; i++) {
        const float *x = e->prediction + i * K;
        double *p = f->probability + e->number[i] * K, top = -INFINITY, sum = 0.0;
        for (int64_t k = 0; k < K; k++) top = fmax(top, (double)x[k]);
        for (int64_t k = 0; k < K; k++) sum += p[k] = exp((double)x[k] - top);
        for (int64_t k = 0; k < K; k++) p[k] /= sum;
    }
}

static void show(struct lvn_cli *c, const struct texts *x, const struct found *f)
{
    json_t *list = json_array();
    char name[LVN_CLASS_NAMES];
    for (int64_t i = 0; i < x->n; i++) {
        const double *p = f->probability + i * f->classes;
        json_t *all = json_array();
        int64_t best = 0;
        for (int64_t k = 0; k < f->classes; k++) {
            if (p[k] > p[best]) best = k;
            json_array_append_new(all, lvn_cli_number(p[k]));
        }
        lvn_class_name(&f->config, best, name);
        json_array_append_new(
            list, json_pack("{s:I,s:s,s:o}", "label", (json_int_t)best, "name", name, "probabilities", all));
        if (c->json) continue;
        printf("%lld\t%.4f\t", (long long)best, p[best]);
        lvn_cli_put(stdout, x->text[i]);
        putchar('\n');
    }
    lvn_cli_add(c, "predictions", list);
}

static enum lvn_status predict(struct lvn_cli *c, struct texts *x)
{
    LVN_TRY(read_texts(x, c));
    LVN_CHECK(x->n, FORMAT, "'%s' holds no text", c->flag[LVN_FLAG_predict_input].t);
    if (*c->settings.data.pair_column && !x->pair[0])
        lvn_log(LVN_LOG_WARN,
                "the model learnt from pairs (data.pair_column is '%s'), and these are single texts: give a table with "
                "both columns",
                c->settings.data.pair_column);
    struct found found = {.n = x->n};
    const struct lvn_new_texts texts = {.text = x->text, .pair = x->pair, .n = x->n};
    struct lvn_settings *s = &c->settings;
    s->data.kind = "labelled";
    s->task.kind = "classify";
    s->data.path = s->data.val_path = s->data.test_path = s->data.url = "";
    s->data.split = LVN_DATA_SPLIT_ALL;
    struct lvn_evaluate_options o = {
        .ranks = c->ranks, .prediction = true, .batch = collect, .context = &found, .texts = &texts};
    struct lvn_evaluate_result r;
    enum lvn_status status = lvn_evaluate(s, &o, &r);
    if (status == LVN_OK && found.lacks) status = LVN_MEMORY;
    if (status == LVN_OK) show(c, x, &found);
    lvn_evaluate_result_release(&r);
    free(found.probability);
    return status;
}

enum lvn_status lvn_command_predict(struct lvn_cli *c)
{
    unsigned parts = LVN_USES_MODEL | LVN_USES_TRAINER | LVN_USES_DEVICE;
    LVN_TRY(lvn_cli_meet(c, lvn_cli_model_settings(c, c->operand[0], parts)));
    if (lvn_cli_shows_settings(c)) return LVN_OK;
    struct texts x = {0};
    lvn_arena_init(&x.arena);
    enum lvn_status status = predict(c, &x);
    free(x.text);
    free(x.pair);
    lvn_arena_release(&x.arena);
    return status;
}
