/* encoders.c - see encoders.h. Threads take slices from a shared counter. */
#include "tokenizers/encoders.h"

#include <stdatomic.h>

#include "base/list.h"
#include "base/threads.h"

enum { ERROR_TEXT = 1024 };

struct job {
    struct lvn_encoders *e;
    const uint8_t *text;
    int64_t *boundary; /* [n_slices + 1] */
    enum lvn_encoding mode;
    atomic_int_fast64_t next;
    atomic_int failed;
    enum lvn_status status;
    char error[ERROR_TEXT];
};

enum lvn_status lvn_encoders_open(struct lvn_encoders *e, const struct lvn_tokenizer *t, int n_threads)
{
    *e = (struct lvn_encoders){.t = t, .n_threads = n_threads};
    e->encoder = lvn_calloc((size_t)n_threads, sizeof *e->encoder);
    enum lvn_status status = e->encoder ? LVN_OK : LVN_MEMORY;
    for (int i = 0; i < n_threads && status == LVN_OK; i++) {
        e->encoder[i] = lvn_encoder_new(t);
        if (!e->encoder[i]) status = LVN_MEMORY;
    }
    if (status != LVN_OK) lvn_encoders_close(e);
    return status;
}

void lvn_encoders_close(struct lvn_encoders *e)
{
    for (int i = 0; e->encoder && i < e->n_threads; i++) lvn_encoder_free(e->encoder[i]);
    for (int64_t i = 0; i < e->capacity; i++) lvn_ids_release(&e->slice[i]);
    free(e->encoder);
    free(e->slice);
    *e = (struct lvn_encoders){0};
}

struct lvn_encoder_notes lvn_encoders_take_notes(struct lvn_encoders *e)
{
    struct lvn_encoder_notes sum = {0};
    for (int i = 0; i < e->n_threads; i++) {
        const struct lvn_encoder_notes one = lvn_encoder_take_notes(e->encoder[i]);
        const bool lower = one.special && one.special_id < sum.special_id;
        lvn_encoder_notes_add(&sum, one);
        if (lower) sum.special_id = one.special_id;
    }
    return sum;
}

static void work(void *argument, int thread, int n_threads)
{
    struct job *j = argument;
    (void)n_threads;
    for (;;) {
        int64_t i = atomic_fetch_add(&j->next, 1);
        if (i >= j->e->n_slices || atomic_load(&j->failed)) return;
        j->e->slice[i].n = 0;
        enum lvn_status status = lvn_encode(j->e->encoder[thread], j->text + j->boundary[i],
                                            j->boundary[i + 1] - j->boundary[i], j->mode, &j->e->slice[i]);
        if (status == LVN_OK || atomic_exchange(&j->failed, 1)) continue;
        j->status = status; /* of the first failure; the message is in this thread's error record */
        snprintf(j->error, sizeof j->error, "%s", levin_error_text());
    }
}

static enum lvn_status slice_text(struct lvn_encoders *e, const uint8_t *p, int64_t n, int64_t **boundaries)
{
    int64_t max = n / LVN_SLICE_BYTES + 2, k = 0;
    int64_t *boundary = *boundaries = lvn_malloc(sizeof *boundary * (size_t)(max + 1));
    if (!boundary) return LVN_MEMORY;
    bool whole = !lvn_tokenizer_can_cut(e->t);
    for (boundary[0] = 0; boundary[k] < n; k++)
        boundary[k + 1] =
            whole || n - boundary[k] <= LVN_SLICE_BYTES ? n : lvn_split_safe(p, n, boundary[k] + LVN_SLICE_BYTES);
    e->n_slices = k;
    const int64_t before = e->capacity;
    if (!lvn_list_reserve(&e->slice, &e->capacity, k, sizeof *e->slice)) return LVN_MEMORY;
    memset(e->slice + before, 0, sizeof *e->slice * (size_t)(e->capacity - before));
    return LVN_OK;
}

enum lvn_status lvn_encoders_run(struct lvn_encoders *e, const void *text, int64_t bytes, bool more,
                                 enum lvn_encoding mode, int64_t *used)
{
    struct job j = {.e = e, .text = text, .mode = mode};
    e->n_slices = 0;
    *used = !more ? bytes : lvn_tokenizer_can_cut(e->t) ? lvn_split_safe_last(text, bytes) : 0;
    if (*used == 0) return LVN_OK;
    enum lvn_status status = slice_text(e, text, *used, &j.boundary);
    if (status == LVN_OK) {
        int threads = e->n_slices < e->n_threads ? (int)e->n_slices : e->n_threads;
        if (threads == 1)
            work(&j, 0, 1);
        else
            lvn_team_run(threads, work, &j);
        if (j.failed) status = lvn_fail(j.status, "%s", j.error);
    }
    free(j.boundary);
    return status;
}
