/* watch_read.c - see watch.h: finds a run and reads its files.
 *
 * On this machine status.json is replaced about once a second. Of a run in a store, what the run has sent there is
 * read: the status every ten seconds, the metrics at checkpoints. */
#include <fcntl.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/input.h"
#include "cli/watch/watch.h"
#include "formats/json.h"
#include "model_io/model_find.h"
#include "settings/settings.h"
#include "stores/store.h"
#include "train/run_dir.h"

enum { TAIL = 1 << 16, MAX_STATUS = 64 << 20, MAX_SETTINGS = 1 << 20 };

/* Refuse a folder without the files that a run writes first, unless it is empty: an empty one may become a run. */
static enum lvn_status refuse_other(const char *folder)
{
    static const char *const run_files[] = {".lock", "settings.yaml", "status.json", "logs"};
    LVN_LOCAL_ARENA(a);
    const char *const *names;
    int n;
    LVN_TRY(lvn_dir_list(&a, folder, &names, &n));
    for (int i = 0; i < n; i++)
        for (size_t k = 0; k < sizeof run_files / sizeof run_files[0]; k++)
            if (!strcmp(names[i], run_files[k])) return LVN_OK;
    LVN_CHECK(!n, ARG, "'%.300s' is not a run: it has no settings.yaml and no status.json; give the folder of a run",
              folder);
    return LVN_OK;
}

static enum lvn_status find_folder(struct lvn_watch *w, const char *name)
{
    LVN_LOCAL_ARENA(a);
    const char *folder = lvn_run_dir_find(&a, name);
    LVN_CHECK(folder, ARG, "%s", lvn_run_missing(&a, name));
    LVN_TRY(lvn_copy_bytes(w->run, sizeof w->run, "the path of the run", folder, strlen(folder)));
    return refuse_other(w->run);
}

/* The content of a file of the run; "" if there is none. The caller frees it. */
static enum lvn_status read_stored(const char *path, int64_t limit, char **text)
{
    enum lvn_store_kind kind;
    int64_t bytes;
    *text = NULL;
    LVN_TRY(lvn_store_stat(path, &kind, &bytes));
    if (kind == LVN_STORE_FILE) return lvn_store_read_tail(path, limit, text, &bytes);
    *text = lvn_strdup("");
    return *text ? LVN_OK : LVN_MEMORY;
}

static enum lvn_status read_limits(struct lvn_watch *w, const char *path)
{
    struct levin_settings s;
    char *text;
    LVN_TRY(read_stored(path, MAX_SETTINGS, &text));
    enum lvn_status status = lvn_settings_init(&s);
    if (status == LVN_OK && *text && lvn_settings_read(&s, text, strlen(text), path) == LVN_OK) {
        w->max_steps = s.values.trainer.max_steps > 0 ? s.values.trainer.max_steps : 0;
        w->max_epochs = s.values.trainer.max_epochs > 0 ? s.values.trainer.max_epochs : 0;
        bool none = !w->max_steps && !w->max_epochs && s.values.trainer.max_time <= 0;
        if (none) w->max_epochs = 1; /* the default without any limit; it is not in the file */
    }
    free(text);
    if (status != LVN_OK) return status;
    lvn_error_clear(); /* settings of a newer version that cannot be read do not keep one from watching */
    lvn_settings_release(&s);
    return LVN_OK;
}

enum lvn_status lvn_watch_find(struct lvn_watch *w, const char *name)
{
    w->stored = lvn_store_is_remote(name);
    if (w->stored)
        LVN_TRY(lvn_copy_bytes(w->run, sizeof w->run, "the path of the run", name, strlen(name)));
    else
        LVN_TRY(find_folder(w, name));
    char path[1100];
    snprintf(w->status_path, sizeof w->status_path, "%s/" LVN_RUN_DIR_STATUS, w->run);
    snprintf(w->metrics_path, sizeof w->metrics_path, "%s/metrics.jsonl", w->run);
    snprintf(path, sizeof path, "%s/settings.yaml", w->run);
    return read_limits(w, path);
}

/* --- reading --- */

const char *lvn_watch_text(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

double lvn_watch_number(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

/* The last TAIL bytes of a file on this machine, "" if there is none; NULL: no memory. */
static char *read_end(const char *path)
{
    char *text = lvn_malloc(TAIL + 1);
    if (!text) return NULL;
    text[0] = '\0';
    int fd;
    if (lvn_input_open(path, LVN_INPUT_REGULAR, &fd) != LVN_OK) {
        lvn_error_clear();
        return text;
    }
    off_t size = lseek(fd, 0, SEEK_END), offset = size > TAIL ? size - TAIL : 0;
    ssize_t n = pread(fd, text, TAIL, offset);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    return text;
}

/* The last rows of the metrics, whole ones; "" if there are none. The caller frees them. */
static enum lvn_status read_rows(const struct lvn_watch *w, char **text)
{
    if (w->stored)
        LVN_TRY(read_stored(w->metrics_path, TAIL, text));
    else if (!(*text = read_end(w->metrics_path)))
        return LVN_MEMORY;
    char *line = strlen(*text) == TAIL ? strchr(*text, '\n') : NULL;
    if (line) memmove(*text, line + 1, strlen(line + 1) + 1);
    return LVN_OK;
}

/* Rates from the first row read (first: its step and time) to this one. */
static void read_pace(struct lvn_watch *w, const json_t *row, double first[2])
{
    const json_t *step = json_object_get(row, "step"), *at = json_object_get(row, "time"),
                 *epoch = json_object_get(row, "epoch");
    if (!json_is_number(step) || !json_is_number(at)) return;
    double now[2] = {json_number_value(step), json_number_value(at)};
    if (isnan(first[0])) memcpy(first, now, sizeof now);
    if (now[0] > first[0] && now[1] > first[1]) w->steps_per_s = (now[0] - first[0]) / (now[1] - first[1]);
    if (json_number_value(epoch) > 0) w->steps_per_epoch = now[0] / json_number_value(epoch);
}

enum lvn_status lvn_watch_read_metrics(struct lvn_watch *w)
{
    char *text = NULL, *line;
    enum lvn_status status = read_rows(w, &text);
    char *rest = text;
    double first[2] = {NAN, NAN};
    w->loss = w->val_loss = w->best = w->lr = w->rate = w->steps_per_s = w->steps_per_epoch = NAN;
    w->n_losses = 0;
    while (text && (line = strsep(&rest, "\n")) && rest) { /* without the last line, which may be incomplete */
        json_error_t error;
        json_t *row, *one;
        status = lvn_json_load(line, (int64_t)strlen(line), 0, &row, &error);
        if (status != LVN_OK) break;
        if ((one = json_object_get(row, "val_loss")) && json_is_number(one)) {
            w->val_loss = json_number_value(one);
            if (!(w->best < w->val_loss)) w->best = w->val_loss;
        }
        if ((one = json_object_get(row, "loss")) && json_is_number(one)) {
            w->loss = json_number_value(one);
            if (w->n_losses == 5) memmove(w->losses, w->losses + 1, 4 * sizeof *w->losses);
            w->losses[w->n_losses < 5 ? w->n_losses++ : 4] = w->loss;
        }
        read_pace(w, row, first);
        if ((one = json_object_get(row, "lr"))) w->lr = json_number_value(one);
        if ((one = json_object_get(row, "tokens_per_s")) && json_is_number(one)) w->rate = json_number_value(one);
        json_decref(row);
    }
    free(text);
    return status;
}

/* Read again if the run replaced the file meanwhile. */
static enum lvn_status read_stored_status(const struct lvn_watch *w, json_t **out)
{
    enum lvn_status status = LVN_IO;
    for (int i = 0; i < 3 && status != LVN_OK; i++) {
        char *text;
        lvn_error_clear();
        status = read_stored(w->status_path, MAX_STATUS, &text);
        if (status != LVN_OK) continue;
        if (*text) status = lvn_json_parse(w->status_path, text, (int64_t)strlen(text), out);
        free(text);
    }
    return status;
}

enum lvn_status lvn_watch_read_status(struct lvn_watch *w)
{
    json_t *fresh = NULL;
    if (w->stored)
        LVN_TRY(read_stored_status(w, &fresh));
    else if (lvn_path_is_file(w->status_path))
        LVN_TRY(lvn_json_read(w->status_path, &fresh));
    if (!fresh) return LVN_OK;
    if (!json_is_object(fresh) || !json_is_array(json_object_get(fresh, "ranks")) || !*lvn_watch_text(fresh, "state")) {
        json_decref(fresh);
        LVN_FAIL(FORMAT, "%s is not the status of a run: it lacks 'state' or 'ranks'", w->status_path);
    }
    json_decref(w->status);
    w->status = fresh;
    if (lvn_watch_number(fresh, "time") != w->written || !w->changed) w->changed = lvn_seconds();
    w->written = lvn_watch_number(fresh, "time");
    w->step = (int64_t)lvn_watch_number(fresh, "step");
    w->age = lvn_wall_seconds() - w->written;
    return LVN_OK;
}
