/* doctor_train.c - levin doctor --train: does training on all ranks give the same losses and weights as on one?
 *
 * A few steps of a tiny model run on rank 0 alone and then on all ranks: in fixed order (trainer.deterministic) losses
 * and weights must be bitwise equal, without it equal up to rounding. Without a launcher one thread and all threads are
 * compared instead. */

#include "cli/doctor/doctor.h"
#include "engine/synthetic_step.h"
#include "settings/settings.h"

struct pair {
    struct lvn_synthetic_step one; /* on rank 0 alone */
    struct lvn_synthetic_step all; /* on all ranks */
};

/* Train the tiny model on the ranks of r. threads 0: this rank's part of the cores. */
static enum lvn_status run_on(struct lvn_synthetic_step *out, struct lvn_ranks *r, int threads, bool fixed_order)
{
    const enum lvn_source by = LVN_SOURCE_PROGRAM;
    struct levin_settings s;
    char batch[16];
    snprintf(batch, sizeof batch, "%d", r->size > 16 ? r->size : 16);
    enum lvn_status status = lvn_settings_init(&s);
    if (status == LVN_OK) status = lvn_settings_set(&s, "trainer.batch_size", batch, by);
    if (status == LVN_OK && fixed_order) status = lvn_settings_set(&s, "trainer.micro_batch_size", "1", by);
    if (status == LVN_OK) status = lvn_settings_set(&s, "trainer.deterministic", fixed_order ? "true" : "false", by);
    if (status == LVN_OK) status = lvn_settings_set(&s, "optimizer.lr", "1e-3", by);
    s.values.trainer.threads = threads;
    s.values.ranks = r->size;
    if (status == LVN_OK) status = lvn_settings_finish(&s, LVN_USES_TRAINER);
    if (status == LVN_OK) status = lvn_synthetic_step_run(out, r, &s.values);
    lvn_settings_release(&s);
    return status;
}

/* Rank 0 by itself; the others do nothing. */
static enum lvn_status run_alone(struct lvn_synthetic_step *out, struct lvn_ranks *r, bool fixed_order)
{
    struct lvn_comm *comm;
    struct lvn_ranks *alone = NULL;
    if (r->rank) return LVN_OK;
    LVN_TRY(lvn_comm_open(&comm, &(struct lvn_comm_options){.size = 1}));
    enum lvn_status status = lvn_ranks_over(&alone, &r->identity, comm, NULL);
    if (status == LVN_OK) status = run_on(out, alone, 1, fixed_order);
    lvn_ranks_close(alone);
    lvn_comm_close(comm);
    return status;
}

static enum lvn_status run_both(struct pair *p, struct lvn_ranks *r, bool fixed_order)
{
    LVN_TRY(lvn_ranks_agree(r, run_alone(&p->one, r, fixed_order)));
    LVN_TRY(run_on(&p->all, r, 0, fixed_order));
    return LVN_OK;
}

/* The largest relative difference of losses; NaN if one is NaN. */
static double max_difference(const struct pair *p)
{
    double max = 0;
    for (int i = 0; i < LVN_SYNTHETIC_STEPS; i++) {
        double difference = fabs(p->all.loss[i] - p->one.loss[i]) / fabs(p->one.loss[i]);
        if (isnan(difference)) return difference;
        if (difference > max) max = difference;
    }
    return max;
}

static void report(struct lvn_doctor *r, const struct lvn_ranks *ranks, const struct pair *exact,
                   const struct pair *plain)
{
    const double rounding = 1e-4;
    char compared[64];
    bool equal =
        !memcmp(exact->one.loss, exact->all.loss, sizeof exact->one.loss) && exact->one.weights == exact->all.weights;
    bool close = max_difference(plain) <= rounding;
    if (ranks->size > 1)
        snprintf(compared, sizeof compared, "1 rank and on %d", ranks->size);
    else
        snprintf(compared, sizeof compared, "1 thread and on %d", r->m.threads);
    lvn_doctor_line(r, "training",
                    "%d steps of a tiny model: %s on %s in fixed order, %.1g apart without it (loss %.4f to %.4f)",
                    LVN_SYNTHETIC_STEPS, equal ? "the same bits" : "OTHER losses or weights", compared,
                    max_difference(plain), exact->all.loss[0], exact->all.loss[LVN_SYNTHETIC_STEPS - 1]);
    lvn_cli_add(r->c, "training_equal", json_boolean(equal));
    lvn_cli_add(r->c, "training_apart", lvn_json_number(max_difference(plain)));
    if (equal && close) return;
    lvn_doctor_finding(
        r,
        "install the same levin on all hosts; if they are the same, a host or its MPI computes wrongly: leave "
        "hosts out one by one until the losses are equal",
        "training a tiny model gives other losses or weights on %s: losses are %.2g apart", compared,
        max_difference(equal ? plain : exact));
}

enum lvn_status lvn_doctor_train(struct lvn_doctor *r, struct lvn_ranks *ranks)
{
    struct pair exact = {0}, plain = {0};
    LVN_TRY_WHILE(run_both(&exact, ranks, true), "training a tiny model in fixed order");
    LVN_TRY_WHILE(run_both(&plain, ranks, false), "training a tiny model");
    if (ranks->rank == 0) report(r, ranks, &exact, &plain);
    return LVN_OK;
}

enum lvn_status lvn_doctor_train_alone(struct lvn_doctor *r, const struct lvn_identity *identity)
{
    struct lvn_comm *comm;
    struct lvn_ranks *alone = NULL;
    LVN_TRY(lvn_comm_open(&comm, &(struct lvn_comm_options){.size = 1}));
    enum lvn_status status = lvn_ranks_over(&alone, identity, comm, NULL);
    if (status == LVN_OK) status = lvn_doctor_train(r, alone);
    lvn_ranks_close(alone);
    lvn_comm_close(comm);
    return status;
}
