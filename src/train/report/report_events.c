/* report_events.c - see report_events.h. */
#include "train/report/report_events.h"

#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "formats/json.h"

/* What a page shows of each kind; the first and the last ones, if there are more. */
static const struct kind {
    const char *event; /* in the file */
    const char *list;  /* in the result */
    int max;
    int64_t text; /* bytes of its text */
} kinds[] = {
    {"start", "starts", 100, 1000},        {"resume", "starts", 100, 1000}, {"resumed", "resumed", 100, 1000},
    {"note", "notes", 200, 600},           {"sample", "samples", 24, 4000}, {"checkpoint", "checkpoints", 400, 200},
    {"validation", "validations", 2, 100}, {"end", "ends", 100, 600},
};

/* Only what the page needs of a validation: the last one, and the best one with its matrix. */
static void keep_validation(json_t *all, json_t *row)
{
    json_object_set(all, "validation", row);
    if (json_is_true(json_object_get(row, "best"))) json_object_set(all, "best", row);
}

/* Settings stay with the last start alone, each with the origin from when its value was first so. */
static void hand_on_settings(json_t *list, json_t *row)
{
    json_t *before = json_array_get(list, json_array_size(list) - 1), *one, *then;
    json_t *old = json_object_get(before, "settings"), *new = json_object_get(row, "settings");
    size_t i, k;
    json_array_foreach(new, i, one)
    {
        json_array_foreach(old, k, then)
        {
            if (json_equal(json_array_get(one, 0), json_array_get(then, 0)) &&
                json_equal(json_array_get(one, 1), json_array_get(then, 1)) && json_array_size(then) == 4)
                json_array_set(one, 3, json_array_get(then, 3));
        }
    }
    if (new) json_object_del(before, "settings");
}

static void keep(json_t *all, const struct kind *k, json_t *row)
{
    json_t *list = json_object_get(all, k->list), *text = json_object_get(row, "text");
    if (json_is_string(text) && (int64_t)json_string_length(text) > k->text)
        json_object_set_new(row, "text", lvn_json_text(json_string_value(text), k->text));
    if (!strcmp(k->event, "validation")) {
        keep_validation(all, row);
        return;
    }
    if (!list) json_object_set_new(all, k->list, list = json_array());
    if (!strcmp(k->list, "starts") && json_array_size(list)) hand_on_settings(list, row);
    json_array_append(list, row);
    if (json_array_size(list) > (size_t)k->max) json_array_remove(list, (size_t)k->max / 2);
}

static bool is_step(const json_t *row)
{
    return json_is_number(json_object_get(row, "step")) && json_is_string(json_object_get(row, "event"));
}

static enum lvn_status read_lines(char *text, json_t *all, int64_t *broken)
{
    char *rest = text, *line;
    while ((line = strsep(&rest, "\n")) && rest) { /* without the last line, which may be incomplete */
        json_error_t error;
        json_t *row;
        if (!*line) continue;
        LVN_TRY(lvn_json_load(line, (int64_t)strlen(line), 0, &row, &error));
        *broken += !row || !is_step(row);
        const char *event = row && is_step(row) ? json_string_value(json_object_get(row, "event")) : "";
        for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
            if (!strcmp(kinds[i].event, event)) keep(all, &kinds[i], row);
        }
        json_decref(row);
    }
    return LVN_OK;
}

enum lvn_status lvn_report_events(const char *path, json_t **out, int64_t *broken)
{
    char *text = NULL;
    int64_t bytes;
    long begun = lvn_json_begin();
    *broken = 0;
    *out = json_object();
    enum lvn_status status = lvn_path_is_file(path) ? lvn_file_read(path, 0, &text, &bytes) : LVN_OK;
    if (status == LVN_OK && text) status = read_lines(text, *out, broken);
    if (status == LVN_OK) status = lvn_json_check(begun);
    free(text);
    if (status == LVN_OK) return LVN_OK;
    json_decref(*out);
    *out = NULL;
    return status;
}
