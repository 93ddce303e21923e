/* checkpoint_files.h - shared by the tests of checkpoints: writing folders of checkpoints, and looking at them. */
#ifndef LVN_CHECKPOINT_FILES_H
#define LVN_CHECKPOINT_FILES_H

#include "io_test.h"

#include "checkpoints/checkpoint.h"
#include "formats/weights.h"

enum { ELEMENTS = 5000 };
static float values[ELEMENTS];

/* A checkpoint whose tensor depends on its step. */
static inline enum lvn_status save(const char *dir, int64_t step, double val_loss)
{
    for (int i = 0; i < ELEMENTS; i++) values[i] = (float)(step * 3 + i);
    const struct lvn_safetensors_item item[2] = {{.name = "a", .desc = LVN_DESC(LVN_F32, 50, 100), .data = values},
                                                 {.name = "b", .desc = LVN_DESC(LVN_F32, 10), .data = values}};
    const struct lvn_safetensors_source source = {.item = item, .n = 2};
    struct lvn_checkpoint_writer *w;
    enum lvn_status status = lvn_checkpoint_begin(&w, dir, step);
    if (status != LVN_OK) return status;
    lvn_checkpoint_add_text(w, "config.json", "{}\n", 3);
    lvn_checkpoint_add_tensors(w, "model.safetensors", &source);
    lvn_checkpoint_add_tensors(w, "state/optimizer.safetensors", &source);
    lvn_checkpoint_add_text(w, "state/deep/er.txt", "", 0);
    return lvn_checkpoint_commit(w, val_loss, NULL);
}

static inline void check_values(const char *path, int64_t step)
{
    struct lvn_weights w;
    float last;
    ASSERT_OK(lvn_weights_open(&w, path));
    lvn_weight_read(lvn_weights_find(&w, "a"), ELEMENTS - 1, 1, &last);
    assert_true(last == (float)(step * 3 + ELEMENTS - 1));
    lvn_weights_close(&w);
}

/* -1: none. *skipped: the number of skipped checkpoints; text: the sentence about the last of these. */
static inline int64_t newest(const char *dir, int *skipped, char text[1024])
{
    struct lvn_checkpoint c;
    ASSERT_OK(lvn_checkpoint_open_newest(&c, dir));
    int64_t step = c.path ? c.step : -1;
    if (c.path) check_values(c.path, step);
    if (skipped) *skipped = c.n_skipped;
    if (text) snprintf(text, 1024, "%s", c.n_skipped ? c.skipped[c.n_skipped - 1] : "");
    lvn_checkpoint_close(&c);
    return step;
}

static inline int64_t linked(const char *dir, const char *name)
{
    struct lvn_arena a;
    lvn_arena_init(&a);
    const char *path;
    ASSERT_OK(lvn_checkpoint_link(&a, dir, name, &path));
    int64_t step = path ? strtoll(lvn_path_name(path) + 5, NULL, 10) : -1;
    if (path && !lvn_path_is_dir(path)) step = -2;
    lvn_arena_release(&a);
    return step;
}

static inline int hidden(const char *dir)
{
    struct lvn_arena a;
    lvn_arena_init(&a);
    const char *const *names;
    int n, count = 0;
    ASSERT_OK(lvn_dir_list(&a, dir, &names, &n));
    for (int i = 0; i < n; i++) count += names[i][0] == '.';
    lvn_arena_release(&a);
    return count;
}

/* A file that levin did not write, in the checkpoint step-N. */
static inline void note(const char *dir, int64_t step)
{
    char path[400];
    snprintf(path, sizeof path, "%s/step-%lld/notes.txt", dir, (long long)step);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fclose(f), 0);
}

/* How many folders of `dir` that no later run removes have a file notes.txt. */
static inline int with_notes(const char *dir)
{
    struct lvn_arena a;
    lvn_arena_init(&a);
    const char *const *names;
    int n, count = 0;
    ASSERT_OK(lvn_checkpoint_clean(dir));
    ASSERT_OK(lvn_dir_list(&a, dir, &names, &n));
    for (int i = 0; i < n; i++) {
        char path[900];
        snprintf(path, sizeof path, "%s/%s/notes.txt", dir, names[i]);
        count += strncmp(names[i], "last", 4) && strncmp(names[i], "best", 4) && lvn_path_exists(path);
    }
    lvn_arena_release(&a);
    return count;
}

/* Each test has a separate directory. */
static inline const char *fresh(void)
{
    static char dir[300];
    static int count;
    snprintf(dir, sizeof dir, "%s/run%d/checkpoints", test_dir, count++);
    return dir;
}

#endif
