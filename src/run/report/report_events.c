/* report_events.c - see report_events.h. */
#include "report/report_events.h"

#include "base/files.h"
#include "formats/json.h"

/* Limits of a page for each kind; if there are more, it shows the first and last ones. */
static const struct kind {
    const char *event; /* in the file */
    const char *list;  /* in the result */
    int max;
    int64_t text; /* bytes of its text; longer ones lose their end, or their middle if they are samples */
} kinds[] = {
    {"start", "starts", 100, 1000},        {"resume", "starts", 100, 1000}, {"resumed", "resumed", 100, 1000},
    {"note", "notes", 200, 600},           {"sample", "samples", 24, 4000}, {"checkpoint", "checkpoints", 400, 200},
    {"validation", "validations", 2, 100}, {"end", "ends", 100, 600},
};

/* The page only needs the last validation, and the best one with its matrix. */
static void keep_validation(json_t *all, json_t *row)
{
    json_object_set(all, "validation", row);
    if (json_is_true(json_object_get(row, "best"))) json_object_set(all, "best", row);
}

/* Keep settings only in the last start, each with the origin from when its value was first set. A setting is [key,
 * value, default, origin]. */
static void move_settings(json_t *list, json_t *row)
{
    json_t *before = json_array_get(list, json_array_size(list) - 1), *one, *by_key = json_object();
    json_t *old = json_object_get(before, "settings"), *new = json_object_get(row, "settings");
    size_t i;
    json_array_foreach(old, i, one)
    {
        const char *key = json_string_value(json_array_get(one, 0));
        if (key) json_object_set(by_key, key, one);
    }
    json_array_foreach(new, i, one)
    {
        const char *key = json_string_value(json_array_get(one, 0));
        json_t *then = key ? json_object_get(by_key, key) : NULL;
        if (json_equal(json_array_get(one, 1), json_array_get(then, 1)) && json_array_size(then) == 4)
            json_array_set(one, 3, json_array_get(then, 3));
    }
    json_decref(by_key);
    if (new) json_object_del(before, "settings");
}

/* The text, or its beginning and its end with a mark between them. It is UTF-8, like every string of a JSON file. */
static json_t *cut_middle(const char *text, int64_t n, int64_t max)
{
    LVN_LOCAL_TEXT(t);
    int64_t head = max / 4, tail = n - (max - head);
    if (n <= max) return json_stringn(text, (size_t)n);
    while (head > 0 && ((unsigned char)text[head] & 0xc0) == 0x80) head--;
    while (tail < n && ((unsigned char)text[tail] & 0xc0) == 0x80) tail++;
    lvn_text_add_bytes(&t, text, head);
    lvn_text_printf(&t, "\n[... %lld bytes are omitted here; events.jsonl has them ...]\n", (long long)(tail - head));
    lvn_text_add_bytes(&t, text + tail, n - tail);
    return t.failed ? NULL : json_string(t.p);
}

/* A sample is its prompt and the model's continuation: two texts, each of which keeps its beginning and end. The prompt
 * is known from the settings of the last start; without it (a file, or changed settings) `text` contains both. */
static enum lvn_status split_sample(const json_t *all, json_t *row, int64_t max)
{
    const char *text = json_string_value(json_object_get(row, "text")), *prompt = NULL;
    const json_t *starts = json_object_get(all, "starts"), *one;
    size_t i, n = 0;
    if (!text) return LVN_OK;
    json_array_foreach(json_object_get(json_array_get(starts, json_array_size(starts) - 1), "settings"), i, one)
    {
        const char *key = json_string_value(json_array_get(one, 0));
        if (key && !strcmp(key, "sample.prompt")) prompt = json_string_value(json_array_get(one, 1));
    }
    if (prompt && !strncmp(text, prompt, strlen(prompt))) n = strlen(prompt);
    json_t *before = cut_middle(text, (int64_t)n, max / 4);
    json_t *after = cut_middle(text + n, (int64_t)strlen(text + n), max);
    const bool failed = !before || !after;
    if (after) json_object_set_new(row, "text", after);
    if (before && n) json_object_set(row, "prompt", before);
    json_decref(before);
    LVN_CHECK(!failed, MEMORY, "not enough memory to read the samples of a run");
    return LVN_OK;
}

static enum lvn_status keep(json_t *all, const struct kind *k, json_t *row)
{
    json_t *list = json_object_get(all, k->list), *text = json_object_get(row, "text");
    if (!strcmp(k->event, "sample"))
        LVN_TRY(split_sample(all, row, k->text));
    else if (json_is_string(text) && (int64_t)json_string_length(text) > k->text)
        json_object_set_new(row, "text", lvn_json_text(json_string_value(text), k->text));
    if (!strcmp(k->event, "validation")) {
        keep_validation(all, row);
        return LVN_OK;
    }
    if (!list) json_object_set_new(all, k->list, list = json_array());
    if (!strcmp(k->list, "starts") && json_array_size(list)) move_settings(list, row);
    json_array_append(list, row);
    if (json_array_size(list) > (size_t)k->max) json_array_remove(list, (size_t)k->max / 2);
    return LVN_OK;
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
        enum lvn_status status = LVN_OK;
        for (size_t i = 0; i < sizeof kinds / sizeof kinds[0] && status == LVN_OK; i++) {
            if (!strcmp(kinds[i].event, event)) status = keep(all, &kinds[i], row);
        }
        json_decref(row);
        LVN_TRY(status);
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
