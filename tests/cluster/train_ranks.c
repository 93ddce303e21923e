/* train_ranks.c - levin train, observed: train_ranks FOLDER [key=value...], started as ranks by samples.sh and
 * replicas.sh.
 *
 * Functions of the library are wrapped by the linker. Each sample that rank R reads becomes a line "SPLIT START" in
 * FOLDER/samples.R; and with ODD_RANK and ODD_STEP set, that rank behaves as a broken machine might. It takes a
 * learning rate of its own from that step on, or, with ODD_BIT set, has a flipped bit: in byte ODD_BYTE (below 0: from
 * the end) of its `parameters` or first `moment`, once, before that step; or in the first parameter of whatever it has
 * `gathered` from that step on. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm/comm.h"
#include "data/dataset.h"
#include "engine/ranks.h"
#include "engine/train_programs.h"
#include "schedules/schedule.h"
#include "train/trainer.h"

static FILE *samples;
static int rank, odd_rank = -1, odd_step;
static const char *odd_bit = "";
static int64_t step_now;

enum lvn_status __real_lvn_dataset_sample(const struct lvn_dataset *d, enum lvn_split_id split, int64_t at,
                                          struct lvn_draw how, void *const *out);
enum lvn_status __wrap_lvn_dataset_sample(const struct lvn_dataset *d, enum lvn_split_id split, int64_t at,
                                          struct lvn_draw how, void *const *out);
enum lvn_status __wrap_lvn_dataset_sample(const struct lvn_dataset *d, enum lvn_split_id split, int64_t at,
                                          struct lvn_draw how, void *const *out)
{
    fprintf(samples, "%d %" PRId64 "\n", (int)split, at);
    return __real_lvn_dataset_sample(d, split, at, how, out);
}

double __real_lvn_schedule_lr(const struct lvn_schedule *s, int64_t step);
double __wrap_lvn_schedule_lr(const struct lvn_schedule *s, int64_t step);
double __wrap_lvn_schedule_lr(const struct lvn_schedule *s, int64_t step)
{
    double lr = __real_lvn_schedule_lr(s, step);
    return rank == odd_rank && step >= odd_step && !*odd_bit ? lr * 1.5 : lr;
}

void __real_lvn_train_programs_launch(struct lvn_train_programs *programs, int64_t step, double lr, int64_t labels);
void __wrap_lvn_train_programs_launch(struct lvn_train_programs *programs, int64_t step, double lr, int64_t labels);
void __wrap_lvn_train_programs_launch(struct lvn_train_programs *programs, int64_t step, double lr, int64_t labels)
{
    static const char *const names[] = {"parameters", "moment"};
    static const enum lvn_buffer buffers[] = {LVN_BUFFER_PARAM, LVN_BUFFER_STATE0};
    const char *byte = getenv("ODD_BYTE");
    step_now = step;
    for (int k = 0; k < 2; k++) {
        if (rank != odd_rank || step != odd_step || strcmp(odd_bit, names[k])) continue;
        struct lvn_memory *m = programs->model_state->memory[buffers[k]];
        const int64_t at = byte ? strtol(byte, NULL, 10) : 0;
        ((unsigned char *)m->host)[at < 0 ? m->bytes + at : at] ^= 0x10;
    }
    __real_lvn_train_programs_launch(programs, step, lr, labels);
}

/* The gather that was begun last, and its memory. */
static struct lvn_request *gather;
static unsigned char *gathered;

void __real_lvn_comm_all_gather(struct lvn_comm *c, struct lvn_request *r, void *x, const int64_t *first,
                                enum lvn_dtype dtype);
void __wrap_lvn_comm_all_gather(struct lvn_comm *c, struct lvn_request *r, void *x, const int64_t *first,
                                enum lvn_dtype dtype);
void __wrap_lvn_comm_all_gather(struct lvn_comm *c, struct lvn_request *r, void *x, const int64_t *first,
                                enum lvn_dtype dtype)
{
    gather = r;
    gathered = x;
    __real_lvn_comm_all_gather(c, r, x, first, dtype);
}

enum lvn_status __real_lvn_comm_wait(struct lvn_comm *c, struct lvn_request *r);
enum lvn_status __wrap_lvn_comm_wait(struct lvn_comm *c, struct lvn_request *r);
enum lvn_status __wrap_lvn_comm_wait(struct lvn_comm *c, struct lvn_request *r)
{
    const enum lvn_status status = __real_lvn_comm_wait(c, r);
    if (r == gather && rank == odd_rank && step_now >= odd_step && !strcmp(odd_bit, "gathered")) *gathered ^= 1;
    return status;
}

static enum lvn_status settings(struct levin_settings *s, int argc, char **argv)
{
    struct lvn_identity who;
    LVN_TRY(lvn_identity_find(&who));
    LVN_TRY(lvn_settings_init(s));
    s->values.ranks = who.size;
    for (int i = 2; i < argc; i++) {
        char key[128], *equal = strchr(argv[i], '=');
        LVN_CHECK(equal, ARG, "%s is no key=value", argv[i]);
        snprintf(key, sizeof key, "%.*s", (int)(equal - argv[i]), argv[i]);
        LVN_TRY(lvn_settings_set(s, key, equal + 1, LVN_SOURCE_PROGRAM));
    }
    return lvn_settings_finish(s, LVN_USES_ALL);
}

static enum lvn_status train(const char *folder, struct levin_settings *s, struct lvn_ranks *ranks)
{
    char path[1024];
    struct lvn_train_options o = {.ranks = ranks};
    const char *odd = getenv("ODD_RANK"), *step = getenv("ODD_STEP");
    rank = ranks->rank;
    if (odd) odd_rank = (int)strtol(odd, NULL, 10);
    if (getenv("ODD_BIT")) odd_bit = getenv("ODD_BIT");
    if (step) odd_step = (int)strtol(step, NULL, 10);
    snprintf(path, sizeof path, "%s/samples.%d", folder, rank);
    samples = fopen(path, "w");
    LVN_CHECK(samples, IO, "cannot write '%s'", path);
    enum lvn_status status = lvn_train(s, &o, NULL);
    fclose(samples);
    return status;
}

int main(int argc, char **argv)
{
    struct levin_settings s;
    struct lvn_ranks *ranks = NULL;
    if (argc < 2) return 2;
    enum lvn_status status = settings(&s, argc, argv);
    status = lvn_ranks_open(&ranks, &s.values, NULL, status);
    if (status == LVN_OK) status = train(argv[1], &s, ranks);
    if (status != LVN_OK && lvn_ranks_report_end(ranks, status)) fprintf(stderr, "error: %s\n", levin_error_text());
    lvn_ranks_close(ranks);
    lvn_settings_release(&s);
    return status == LVN_OK ? 0 : 1;
}
