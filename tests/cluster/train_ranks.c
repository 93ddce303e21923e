/* train_ranks.c - levin train, observed: train_ranks FOLDER [key=value...], started as ranks by samples.sh and
 * replicas.sh.
 *
 * Two functions of the library are wrapped by the linker. Each sample that rank R reads becomes a line "SPLIT START" in
 * FOLDER/samples.R; and with ODD_RANK and ODD_STEP set, that rank takes a learning rate of its own from that step on,
 * as a broken machine might. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/dataset.h"
#include "engine/ranks.h"
#include "schedules/schedule.h"
#include "train/trainer.h"

static FILE *samples;
static int rank, odd_rank = -1, odd_step;

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
    return rank == odd_rank && step >= odd_step ? lr * 1.5 : lr;
}

static enum lvn_status settings(struct lvn_settings *s, int argc, char **argv)
{
    struct lvn_identity who;
    LVN_TRY(lvn_identity_find(&who));
    LVN_TRY(lvn_settings_init(s));
    s->ranks = who.size;
    for (int i = 2; i < argc; i++) {
        char key[128], *equal = strchr(argv[i], '=');
        LVN_CHECK(equal, ARG, "%s is no key=value", argv[i]);
        snprintf(key, sizeof key, "%.*s", (int)(equal - argv[i]), argv[i]);
        LVN_TRY(lvn_settings_set(s, key, equal + 1, LVN_SOURCE_PROGRAM));
    }
    return lvn_settings_finish(s, LVN_USES_ALL);
}

static enum lvn_status train(const char *folder, struct lvn_settings *s, struct lvn_ranks *ranks)
{
    char path[1024];
    struct lvn_train_options o = {.ranks = ranks};
    const char *odd = getenv("ODD_RANK"), *step = getenv("ODD_STEP");
    rank = ranks->rank;
    if (odd) odd_rank = (int)strtol(odd, NULL, 10);
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
    struct lvn_settings s;
    struct lvn_ranks *ranks = NULL;
    if (argc < 2) return 2;
    enum lvn_status status = settings(&s, argc, argv);
    status = lvn_ranks_open(&ranks, &s, NULL, status);
    if (status == LVN_OK) status = train(argv[1], &s, ranks);
    if (status != LVN_OK && lvn_ranks_is_reporter(ranks, status)) fprintf(stderr, "error: %s\n", lvn_error_text());
    lvn_ranks_close(ranks);
    lvn_settings_release(&s);
    return status == LVN_OK ? 0 : 1;
}
