/* report.c - see report.h: the page, and the data in it.
 *
 * The data is one JSON object, described at the top of src/run/report/page/main.js, which reads it. `<` is written as
 * \u003c, so no text of a run ends the script element that contains the data. If the page is too long, it is rebuilt
 * with half as many points, notes, samples and checkpoints. */
#include "report/report.h"

#include "base/arena.h"
#include "base/clock.h"
#include "base/files.h"
#include "formats/embedded.h"
#include "formats/json.h"
#include "formats/sha256.h"
#include "settings/settings.h"
#include "train/loss_curve.h"

extern const struct lvn_embedded_file lvn_report_page[];

enum { POINTS = 1024, LEVELS = 8, RANKS = 64, SETTINGS_TEXT = 32000 };

/* --- the data --- */

static void add_json(struct lvn_text *t, const char *name, long begun, json_t *value)
{
    lvn_text_printf(t, ", \"%s\": ", name);
    lvn_json_add(t, begun, value, 0);
    json_decref(value);
}

/* Halve the lists of events `level` times: the first and last ones of each are kept. */
static void shorten(json_t *events, int level)
{
    static const char *const lists[] = {"notes", "samples", "checkpoints"};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        json_t *list = json_object_get(events, lists[i]);
        for (size_t left = json_array_size(list) >> level; json_array_size(list) > left;)
            json_array_remove(list, json_array_size(list) / 2);
    }
}

/* The part of the status that the page shows. */
static json_t *status_of(const struct lvn_report_run *r)
{
    json_t *status = json_object(), *ranks = json_array();
    const json_t *all = json_object_get(r->status, "ranks");
    static const char *const displayed[] = {"step", "time", "fault", "goodput"};
    for (size_t i = 0; i < sizeof displayed / sizeof displayed[0]; i++) {
        json_t *one = json_object_get(r->status, displayed[i]);
        if (one) json_object_set(status, displayed[i], one);
    }
    for (size_t i = 0; i < json_array_size(all) && i < RANKS; i++) json_array_append(ranks, json_array_get(all, i));
    json_object_set_new(status, "ranks", ranks);
    json_object_set_new(status, "n_ranks", json_integer((json_int_t)json_array_size(all)));
    return status;
}

static bool is_number(enum lvn_option_kind kind)
{
    return kind == LVN_KIND_INT || kind == LVN_KIND_REAL || kind == LVN_KIND_PAIR || kind == LVN_KIND_TIME ||
           kind == LVN_KIND_AMOUNT;
}

/* A setting is [key, value, default, origin]. Write the value and the default of each number in the same format, so
 * that equal ones have equal texts: the table of options has 1e-8 and 1.0 where lvn_option_text() gives 1e-08 and 1. */
static void normalize_settings(json_t *settings)
{
    json_t *one;
    size_t i;
    json_array_foreach(settings, i, one)
    {
        const char *key = json_string_value(json_array_get(one, 0));
        const struct lvn_option *o = key ? lvn_option_find(key) : NULL;
        for (size_t k = 1; o && k <= 2; k++) {
            LVN_LOCAL_ARENA(a);
            union lvn_option_value value = {0};
            char text[LVN_VALUE_TEXT];
            const char *written = json_string_value(json_array_get(one, k));
            if (!written || !*written || !is_number(o->kind)) continue;
            if (lvn_option_parse(o, written, &value, &a) != LVN_OK)
                lvn_error_clear(); /* from another version; unchanged */
            else
                json_array_set_new(one, k, json_string(lvn_option_text(o, &value, text)));
        }
    }
}

/* For a run without events: the keys of its settings.yaml that differ from their defaults. */
static json_t *settings_of(const struct lvn_report_run *r)
{
    struct levin_settings s;
    char value[LVN_VALUE_TEXT], origin[LVN_VALUE_TEXT];
    json_t *all = json_array();
    if (json_object_get(r->events, "starts") || !r->settings) return all;
    if (lvn_settings_init(&s)) return all;
    if (lvn_settings_read(&s, r->settings, strlen(r->settings), "settings.yaml")) lvn_error_clear();
    for (int i = 0; i < lvn_option_count(); i++) {
        const struct lvn_option *o = lvn_option_at(i);
        if (!lvn_settings_given(&s, o->id) || !lvn_settings_differs(&s, o->id)) continue;
        json_t *one = json_array();
        json_array_append_new(one, json_string(o->key));
        json_array_append_new(one, lvn_json_text(lvn_settings_value(&s, o->id, value), LVN_VALUE_TEXT));
        json_array_append_new(one, json_string(o->default_text));
        json_array_append_new(one, lvn_json_text(lvn_settings_origin(&s, o->id, origin), LVN_VALUE_TEXT));
        json_array_append_new(all, one);
    }
    lvn_settings_release(&s);
    normalize_settings(all);
    return all;
}

/* Series by name. `time` becomes seconds since its first value. */
static void add_series(struct lvn_text *t, long begun, const struct lvn_series_list *l, int max)
{
    const struct lvn_series *time = lvn_series_find(l, "time");
    const double base = time && time->n ? time->bucket[0].low : 0;
    char text[LVN_NUMBER_TEXT];
    snprintf(text, sizeof text, "%.3f", base);
    lvn_text_printf(t, ", \"time_base\": %s, \"series\": {", text);
    for (int i = 0; i < l->n; i++) {
        json_t *name = lvn_json_text(l->series[i].name, LVN_SERIES_NAME);
        if (i) lvn_text_add(t, ", ");
        lvn_json_add(t, begun, name, 0);
        lvn_text_add(t, ": ");
        lvn_series_json(t, &l->series[i], max, &l->series[i] == time ? base : 0);
        json_decref(name);
    }
    lvn_text_add(t, "}");
}

static const char *file(const char *name)
{
    for (const struct lvn_embedded_file *f = lvn_report_page; f->name; f++) {
        if (!strcmp(f->name, name)) return f->text;
    }
    return NULL;
}

static void add_points(struct lvn_points *points, const struct lvn_series *s)
{
    for (int i = 0; s && i < s->n; i++)
        lvn_points_add(points, s->bucket[i].x, s->bucket[i].sum / (double)s->bucket[i].n);
}

/* In a build without uPlot: the drawing of the loss. */
static void add_curve(struct lvn_text *t, long begun, const struct lvn_report_run *r)
{
    LVN_LOCAL_TEXT(svg);
    struct lvn_points train = {0}, val = {0};
    if (file("uPlot.iife.min.js")) return;
    add_points(&train, lvn_series_find(&r->metrics.list, "loss"));
    add_points(&val, lvn_series_find(&r->metrics.list, "val_loss"));
    t->failed |= lvn_curve_draw(&svg, r->name, &train, &val) != LVN_OK;
    add_json(t, "curve", begun, lvn_json_text(svg.p ? svg.p : "", svg.n));
    lvn_points_release(&train);
    lvn_points_release(&val);
}

static void add_run(struct lvn_text *t, const struct lvn_report_run *r, int level, int max)
{
    long begun = lvn_json_begin();
    json_t *events = r->events ? json_deep_copy(r->events) : json_object();
    const json_t *starts = json_object_get(events, "starts");
    shorten(events, level);
    normalize_settings(json_object_get(json_array_get(starts, json_array_size(starts) - 1), "settings"));
    lvn_text_add(t, "{\"name\": ");
    json_t *name = lvn_json_text(r->name, 200);
    lvn_json_add(t, begun, name, 0);
    json_decref(name);
    add_json(t, "path", begun, lvn_json_text(r->path, sizeof r->path));
    add_json(t, "state", begun, lvn_json_text(r->state, sizeof r->state));
    add_json(t, "written", begun, json_real(r->written));
    add_json(t, "last_step", begun, json_integer(r->metrics.last_step));
    add_json(t, "problems", begun, lvn_json_text(r->problems.p ? r->problems.p : "", 8000));
    add_json(t, "status", begun, status_of(r));
    add_json(t, "settings", begun, settings_of(r));
    add_json(t, "settings_text", begun, lvn_json_text(r->settings ? r->settings : "", SETTINGS_TEXT >> level));
    add_json(t, "events", begun, events);
    add_series(t, begun, &r->metrics.list, max);
    add_curve(t, begun, r);
    lvn_text_add(t, "}");
}

static void add_data(struct lvn_text *t, const struct lvn_report_run *runs, int n, const char *notes, int level)
{
    LVN_LOCAL_TEXT(json);
    int max = POINTS >> level;
    lvn_text_printf(&json, "{\"generated\": %.3f, \"version\": \"%s\"", lvn_wall_seconds(), LVN_VERSION);
    if (notes) add_json(&json, "notes", lvn_json_begin(), lvn_json_text(notes, (int64_t)strlen(notes)));
    lvn_text_add(&json, ", \"runs\": [");
    for (int i = 0; i < n; i++) {
        if (i) lvn_text_add(&json, ",\n");
        add_run(&json, &runs[i], level, max > 8 ? max : 8);
    }
    lvn_text_add(&json, "]}");
    t->failed |= json.failed;
    for (const char *p = json.p; p && *p && !json.failed;) {
        const size_t plain = strcspn(p, "<");
        lvn_text_add_bytes(t, p, (int64_t)plain);
        p += plain;
        if (*p) lvn_text_add(t, "\\u003c");
        p += *p != '\0';
    }
}

/* --- the page --- */

/* A script's source in a policy: the base64 of its SHA-256. */
static void add_hash(struct lvn_text *t, const char *text, int64_t bytes)
{
    char hex[LVN_SHA256_TEXT];
    unsigned char byte[LVN_SHA256_BYTES];
    lvn_sha256_text(text, (size_t)bytes, hex);
    (void)lvn_hex_bytes(hex, sizeof byte, byte);
    lvn_text_add_base64(t, byte, sizeof byte, false);
}

/* All files with this extension, in the order of the table. */
static void add_files(struct lvn_text *t, const char *extension)
{
    for (const struct lvn_embedded_file *f = lvn_report_page; f->name; f++) {
        if (lvn_ends_with(f->name, extension)) lvn_text_add(t, f->text);
    }
}

/* page.html, with its {{words}} replaced. */
static void add_page(struct lvn_text *t, const struct lvn_report_run *runs, int n, const char *notes, int level)
{
    LVN_LOCAL_TEXT(script);
    if (file("LICENSE")) lvn_text_printf(&script, "/* uPlot, which draws the curves:\n\n%s*/\n", file("LICENSE"));
    add_files(&script, ".js");
    for (const char *p = file("page.html"), *word; *p; p = strstr(word, "}}") + 2) {
        word = strstr(p, "{{");
        lvn_text_add_bytes(t, p, word ? word - p : (int64_t)strlen(p));
        if (!word) break;
        if (!strncmp(word, "{{policy", 8)) add_hash(t, script.p ? script.p : "", script.n);
        if (!strncmp(word, "{{version", 9)) lvn_text_add(t, LVN_VERSION);
        if (!strncmp(word, "{{style", 7)) add_files(t, ".css");
        if (!strncmp(word, "{{data", 6)) add_data(t, runs, n, notes, level);
        if (!strncmp(word, "{{script", 8) && script.n) lvn_text_add_bytes(t, script.p, script.n);
    }
    t->failed |= script.failed;
}

enum lvn_status lvn_report_draw(const struct lvn_report_run *runs, int n, const char *notes, struct lvn_text *page)
{
    for (int level = 0; level < LEVELS; level++) {
        lvn_text_clear(page);
        add_page(page, runs, n, notes, level);
        LVN_TRY(lvn_text_status(page));
        if (page->n <= LVN_REPORT_BYTES) return LVN_OK;
    }
    LVN_FAIL(ARG, "a report of these %d runs is longer than %d bytes; give fewer runs", n, (int)LVN_REPORT_BYTES);
}
