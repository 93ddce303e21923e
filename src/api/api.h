/* api.h - what the files of this folder share: the functions of include/levin.h, a file for each subject.
 *
 *   api.c            version, meaning of a status, locale, texts
 *   api_settings.c   settings by key
 *   api_own_model.c  a program's own model as a family, and its training in one call
 *   api_run.c        a run whose steps the program makes
 *   api_data.c       samples that the program gives
 *   api_inference.c  a loaded model: generation, logits, parameters
 *   api_evaluation.c a model on data, and the classes of new texts
 *   api_events.c     the callback that hands events of a run to its program
 *
 * Programs and bindings (python/) call them. Each function that may read or write numbers runs in the locale "C", which
 * the threads that it starts inherit (lvn_thread_start()): in a program with a German locale, metrics still have
 * decimal points. */
#ifndef LVN_API_H
#define LVN_API_H

#include <locale.h>
#include <sys/types.h>

#include "levin.h"

#include "data/program/program_data.h"
#include "engine/ranks.h"
#include "inference/sampler.h"
#include "train/trainer_private.h"

/* Set the locale "C"; the result is for lvn_api_return(). */
locale_t lvn_api_begin(void);
/* Restore the locale. Returns `status`. */
int lvn_api_return(locale_t before, enum lvn_status status);

/* --- api_own_model.c --- */

/* A program's model as a struct lvn_model, which must be the first member. */
struct lvn_api_model {
    struct lvn_model model;
    const struct lvn_own_model *source;
};
void lvn_api_own_model(struct lvn_api_model *out, const struct lvn_own_model *source);
/* Open the ranks that the environment describes, and complete the settings. */
enum lvn_status lvn_api_ranks(struct lvn_ranks **ranks, struct lvn_settings *s) LVN_CHECKED;

/* --- api_run.c --- */

struct lvn_run {
    struct trainer trainer;
    struct lvn_run_options asked; /* the program's, completed */
    struct lvn_train_options options;
    struct lvn_api_model own;
    struct lvn_program_data data; /* if the program gives samples */
    volatile sig_atomic_t stop;   /* enum lvn_stop */
    pid_t process;                /* that opened it */
    const char *end_reason;       /* reason of the end; NULL: it has not ended */
    enum lvn_status status;       /* of the call that failed */
    char part[16];                /* split of the last evaluation, "test"; "": none. Its results: */
    const struct lvn_task_graph *task;
    double loss, value[LVN_TASK_METRICS];
    char result_name[1 + LVN_TASK_METRICS][48]; /* "test_loss", and those of the metrics */
    char *logged[LVN_SCALARS];                  /* [n_logged] names of the program's scalars */
    int n_logged;
    bool ended;   /* its last checkpoint and END are made */
    bool stopped; /* ended because of lvn_run_stop() */
};
/* The run of this process; NULL: none is open. */
struct lvn_run *lvn_api_open_run(void);

/* --- api_data.c --- */

/* The program's samples as a kind of data, which is set in the settings. ARG if they are described wrongly. */
enum lvn_status lvn_api_data(struct lvn_program_data *out, const struct lvn_run_data *d,
                             struct lvn_settings *s) LVN_CHECKED;

/* --- api_events.c --- */

/* The state of lvn_api_callback, which is the last callback of every run of a program. */
struct lvn_api_callback {
    struct lvn_sampler *sampler; /* rank 0's, planned with the training; NULL: the model does not generate */
};
extern const struct lvn_callback lvn_api_callback;
/* Log scalars of the program: the event LOG, on all ranks. */
enum lvn_status lvn_api_log(struct lvn_run *r, int64_t n, const char *const *names, const double *values) LVN_CHECKED;

#endif
