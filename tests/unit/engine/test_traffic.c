/* test_traffic.c - covers: src/run/engine/traffic.c src/ranks/comm/sum_algorithm.c
 *
 * label: computes
 * The bytes and messages of a step that are predicted, beside those that the ranks send: ddp, zero1, zero2, fsdp and
 * sums in order, on 2 to 8 ranks of one host and of several. Ranks are threads with the transport of comm_threads.h,
 * whose sends are counted. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/gemm.h"
#include "engine/parameters.h"
#include "engine/synthetic_step.h"
#include "engine/traffic.h"
#include "models/keys.h"
#include "setup/setup.h"
#include "unit/comm_threads.h"

static struct counted {
    struct lvn_traffic sent; /* messages of the engine's own */
    int64_t sums;            /* that the transport was asked for */
} counted[THREADS_MAX];      /* by each rank's communication thread */
static int per_host;
static const char *optimizer = "adamw";   /* optimizer.kind */
static const char *precision = "32-true"; /* value of a key */
static int64_t gathered;                  /* bytes of parameters that the ranks of the last scene should send */

static int send_counted(void *state, const void *x, int64_t bytes, int to, int tag, void *handle)
{
    const struct threads_rank *r = state;
    struct lvn_traffic *t = &counted[r->in_world].sent;
    const int host = r->in_world / per_host, other = r->world->ranks[to].in_world / per_host;
    struct lvn_traffic_part *p = host == other ? &t->within : &t->between;
    p->messages++;
    p->bytes += bytes;
    return threads_send(state, x, bytes, to, tag, handle);
}

static int sum_counted(void *state, void *x, int64_t count, enum lvn_dtype type, enum lvn_reduce op, void *handle)
{
    counted[((struct threads_rank *)state)->in_world].sums++;
    return threads_all_reduce(state, x, count, type, op, handle);
}

struct scene {
    struct threads_world world;
    struct lvn_transport transport;
    const char *strategy, *deterministic, *micro, *group; /* values of keys */
    int hosts;
};

struct actor {
    struct scene *scene;
    int rank;
    struct counted step;               /* what it sent */
    struct lvn_step_traffic predicted; /* by its plan */
    int sums;                          /* collectives of its program, without accumulation */
    enum lvn_status status;
    char error[400];
};

static enum lvn_status make_settings(struct levin_settings *s, const struct scene *scene)
{
    char batch[16];
    snprintf(batch, sizeof batch, "%d", 4 * scene->world.size);
    const char *const keys[][2] = {{"model.kind", "nanogpt"},
                                   {"model.n_layer", "2"},
                                   {"model.n_head", "2"},
                                   {"model.n_embd", "64"},
                                   {"model.block_size", "16"},
                                   {"model.vocab_size", "1024"},
                                   {"data.path", "nothing.txt"},
                                   {"trainer.batch_size", batch},
                                   {"trainer.micro_batch_size", scene->micro},
                                   {"trainer.strategy", scene->strategy},
                                   {"trainer.deterministic", scene->deterministic},
                                   {"trainer.fsdp_size", scene->group},
                                   {"optimizer.kind", optimizer},
                                   {"trainer.precision", precision},
                                   {"trainer.threads", "1"}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        LVN_TRY(lvn_settings_set(s, keys[i][0], keys[i][1], LVN_SOURCE_PROGRAM));
    s->values.ranks = scene->world.size;
    return lvn_settings_finish(s, LVN_USES_MODEL | LVN_USES_DATA | LVN_USES_OPTIMIZER | LVN_USES_TRAINER);
}

static enum lvn_status make_step(struct actor *a, struct lvn_ranks *r, const struct levin_settings *s,
                                 struct lvn_model_setup *setup, struct lvn_train_programs *programs)
{
    int64_t labels;
    LVN_TRY(lvn_model_setup_sizes(setup, s, NULL));
    struct lvn_train_programs_options o = {.ranks = r, .fields = &setup->fields, .task = setup->task};
    LVN_TRY(lvn_train_programs_plan(programs, &s->values, &setup->config, &o));
    LVN_TRY(lvn_model_state_allocate(programs->model_state));
    LVN_TRY(lvn_parameters_init_values(programs->model_state, 1, false));
    LVN_TRY(lvn_synthetic_step_fill(programs, lvn_model_value(&setup->config, LVN_ROLE_VOCABULARY), &labels));
    counted[a->rank] = (struct counted){0};
    LVN_TRY(lvn_train_programs_step(programs, 0, 1e-3, labels));
    a->step = counted[a->rank];
    lvn_train_programs_traffic(programs, a->scene->hosts, &a->predicted);
    a->sums = programs->step_session->program->n_handles;
    return LVN_OK;
}

static void *act(void *argument)
{
    struct actor *a = argument;
    struct scene *s = a->scene;
    struct lvn_comm *comm = NULL;
    struct lvn_ranks *ranks = NULL;
    struct levin_settings settings = {0};
    struct lvn_train_programs programs = {0};
    struct lvn_model_setup setup = {0};
    struct lvn_identity who = {.launcher = "test", .title = "a test", .rank = a->rank, .size = s->world.size};
    snprintf(who.host, sizeof who.host, "host%d", a->rank / per_host);
    struct lvn_comm_options o = {.rank = a->rank, .size = s->world.size};
    a->status = lvn_engine_open(&comm, &o, &s->transport, &s->world.ranks[a->rank]);
    if (a->status == LVN_OK) a->status = lvn_settings_init(&settings);
    if (a->status == LVN_OK) a->status = make_settings(&settings, s);
    if (a->status == LVN_OK) a->status = lvn_ranks_over(&ranks, &who, comm, NULL);
    if (a->status == LVN_OK) a->status = make_step(a, ranks, &settings, &setup, &programs);
    snprintf(a->error, sizeof a->error, "%s", a->status == LVN_OK ? "" : levin_error_text());
    lvn_train_programs_release(&programs);
    lvn_model_setup_close(&setup);
    lvn_settings_release(&settings);
    lvn_ranks_close(ranks);
    lvn_comm_close(comm);
    return NULL;
}

static void add(struct lvn_traffic_part *sum, const struct lvn_traffic_part *p)
{
    sum->messages += p->messages;
    sum->bytes += p->bytes;
}

/* All ranks send what is predicted of each. A prediction rounds shards up to whole bytes. */
static void compare(const struct lvn_traffic_part *sent, const struct lvn_traffic_part *predicted, uintmax_t most)
{
    assert_int_equal(sent->messages, predicted->messages);
    assert_in_range(predicted->bytes - sent->bytes, 0, most);
}

static void play(int size, int hosts, const char *strategy, const char *deterministic, const char *micro,
                 const char *group)
{
    struct scene s = {.transport = threads_transport,
                      .strategy = strategy,
                      .deterministic = deterministic,
                      .micro = micro,
                      .group = group,
                      .hosts = hosts};
    struct actor actors[THREADS_MAX] = {0};
    pthread_t threads[THREADS_MAX];
    struct lvn_traffic sent = {0}, predicted = {0};
    per_host = size / hosts;
    s.transport.send = send_counted;
    s.transport.all_reduce = sum_counted;
    world_init(&s.world, size);
    for (int i = 0; i < size; i++) {
        actors[i] = (struct actor){.scene = &s, .rank = i};
        assert_int_equal(pthread_create(&threads[i], NULL, act, &actors[i]), 0);
    }
    for (int i = 0; i < size; i++) pthread_join(threads[i], NULL);
    world_release(&s.world);
    gathered = 0;
    for (int i = 0; i < size; i++) {
        const struct lvn_step_traffic *p = &actors[i].predicted;
        const struct lvn_traffic *const parts[] = {&p->gradients, &p->parameters, &p->matrices};
        for (int k = 0; k < 3; k++) {
            add(&predicted.within, &parts[k]->within);
            add(&predicted.between, &parts[k]->between);
        }
        gathered += p->parameters.within.bytes + p->parameters.between.bytes;
        if (actors[i].status) fail_msg("rank %d: %s", i, actors[i].error);
        add(&sent.within, &actors[i].step.sent.within);
        add(&sent.between, &actors[i].step.sent.between);
        /* The norm is so short that the transport sums it. */
        assert_int_equal(actors[i].step.sums, p->norm.within.messages + p->norm.between.messages > 0);
    }
    assert_true(sent.within.bytes + sent.between.bytes > 0);
    const uintmax_t most = (uintmax_t)(4 * actors[0].sums * size * size);
    compare(&sent.within, &predicted.within, most);
    compare(&sent.between, &predicted.between, most);
}

static void test_strategies(void **state)
{
    (void)state;
    static const char *const strategies[] = {"ddp", "zero1", "zero2", "fsdp"};
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 2; k++) { /* one micro-batch a rank, and four */
            const char *micro = k ? "1" : "4";
            play(2, 1, strategies[i], "false", micro, "0");
            play(3, 1, strategies[i], "false", micro, "0");
            play(4, 2, strategies[i], "false", micro, "0");
            play(4, 4, strategies[i], "false", micro, "0");
            play(8, 2, strategies[i], "false", micro, "0");
        }
}

/* One subtree a rank. */
static void test_in_order(void **state)
{
    (void)state;
    play(2, 1, "ddp", "true", "4", "0");
    play(4, 1, "ddp", "true", "1", "0");
    play(8, 2, "ddp", "true", "1", "0");
}

/* The model is divided within groups of two or four ranks: on a host, or over hosts. */
static void test_in_groups(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        const char *micro = k ? "1" : "4";
        play(4, 1, "fsdp", "false", micro, "2");
        play(4, 2, "fsdp", "false", micro, "2");
        play(4, 4, "fsdp", "false", micro, "2");
        play(8, 4, "fsdp", "false", micro, "4");
        play(8, 2, "fsdp", "false", micro, "2");
    }
}

/* An optimizer on whole matrices exchanges directions and steps besides. */
static void test_matrices(void **state)
{
    optimizer = "muon";
    test_strategies(state);
    play(4, 2, "fsdp", "false", "4", "2");
    optimizer = "adamw";
}

/* Matrices of blocks travel in bf16 where products round them, not the table of tokens, which is looked up. */
static void test_rounded(void **state)
{
    (void)state;
    const struct lvn_gemm any = {.m = 64, .n = 64, .k = 64, .a_col = 1, .b_col = 1, .bf16 = true};
    const bool rounds = lvn_gemm_kernel(lvn_isa_best())->rounds(&any);
    for (int hosts = 1; hosts <= 2; hosts++) {
        play(4, hosts, "fsdp", "false", "1", "0");
        const int64_t exact = gathered;
        precision = "bf16-mixed";
        play(4, hosts, "fsdp", "false", "1", "0");
        precision = "32-true";
        assert_true(rounds ? gathered < 4 * exact / 5 : gathered == exact);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_strategies), cmocka_unit_test(test_in_order),
                                       cmocka_unit_test(test_in_groups), cmocka_unit_test(test_matrices),
                                       cmocka_unit_test(test_rounded)};
    return cmocka_run_group_tests_name("traffic", tests, NULL, NULL);
}
