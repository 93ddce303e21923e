/* api.h - declarations that the files of this folder share. Each file implements the functions of include/levin.h for
 * one subject:
 *
 *   api.c            version, meaning of a status, locale, texts
 *   api_settings.c   settings by key
 *   api_own_model.c  a program's own model as a family, and its training in one call
 *   api_run.c        a run whose steps the program makes, and the callback that hands its events to the program
 *   api_data.c       samples that the program provides
 *   api_inference.c  a loaded model: generation, logits, parameters
 *   api_evaluation.c a model on data, the classes of new texts, and scores in benchmark tasks
 *
 * Programs and bindings (python/) call them. Each function that may read or write numbers runs in the locale "C", which
 * the threads that it starts inherit (lvn_thread_start()): in a program with a German locale, metrics still have
 * decimal points. */
#ifndef LVN_API_H
#define LVN_API_H

#include <locale.h>
#include <pthread.h>
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

/* Copy a struct of the program to `out` [known bytes]. Its first member is its size, which must be from `least` (that
 * of ABI 2) to `known`; missing fields are 0. ARG names the struct. */
enum lvn_status lvn_api_read(void *out, size_t known, const void *given, size_t least, const char *name) LVN_CHECKED;
#define LVN_API_READ(out, given, last, name)                                                                           \
    lvn_api_read(out, sizeof *(out), given, offsetof(struct name, last) + sizeof(out)->last, #name)
/* Copy `filled` to the program's struct *out: the fields that the program knows, all but the size. */
enum lvn_status lvn_api_write(void *out, const void *filled, size_t known, size_t least, const char *name) LVN_CHECKED;
#define LVN_API_WRITE(out, filled, last, name)                                                                         \
    lvn_api_write(out, filled, sizeof *(out), offsetof(struct name, last) + sizeof(out)->last, #name)

/* The handle of a run or a loaded model, which accepts one call at a time; it is the first member of their structs. All
 * open handles are in a list, so that a closed one is detected without reading it. */
struct lvn_api_handle {
    struct lvn_api_handle *next;
    const char *kind; /* "run", "model" */
    const char *call; /* the call in progress, a verb; NULL: none */
    pthread_t thread; /* the thread in that call */
    pid_t process;    /* the process that opened the handle; threads do not survive a fork */
    int readers;      /* number of concurrent read-only calls */
    char name[200];   /* of a run: its folder */
};
/* Add a handle, with the call "open" in progress. ARG: a run is already open. */
enum lvn_status lvn_api_add(struct lvn_api_handle *h, const char *kind, const char *name) LVN_CHECKED;
void lvn_api_remove(struct lvn_api_handle *h); /* in the call "open" or "close" */
/* Return the handle of a run or a model, its first member. NULL stays NULL, which the functions below refuse. */
static inline struct lvn_api_handle *lvn_api_handle_of(const void *object)
{
    return (struct lvn_api_handle *)(uintptr_t)object;
}
/* Begin a call; ARG if the handle is closed, of another process, or in a call. Ended by lvn_api_leave(). */
enum lvn_status lvn_api_enter(struct lvn_api_handle *h, const char *kind, const char *call) LVN_CHECKED;
void lvn_api_leave(struct lvn_api_handle *h);
/* Begin a read-only call, which may run concurrently with any call but "close". */
enum lvn_status lvn_api_enter_reader(struct lvn_api_handle *h, const char *kind) LVN_CHECKED;
void lvn_api_leave_reader(struct lvn_api_handle *h);
/* Record that this thread calls the program's function `name` ("on_event"); NULL: the function has returned. Returns
 * the previous name. */
const char *lvn_api_call_back(const char *name);
/* Return true if this thread is in on_event() of this run, where levin_run_log() is allowed. */
bool lvn_api_in_event(const struct lvn_api_handle *h);

/* --- api_own_model.c --- */

/* A program's model as a struct lvn_model, which must be the first member. */
struct lvn_api_model {
    struct lvn_model model;
    struct levin_own_model source;
};
enum lvn_status lvn_api_own_model(struct lvn_api_model *out, const struct levin_own_model *source) LVN_CHECKED;
/* Open the ranks that the environment describes, and complete these parts of the settings (LVN_USES_...). */
enum lvn_status lvn_api_ranks(struct lvn_ranks **ranks, struct levin_settings *s, unsigned parts) LVN_CHECKED;

/* --- api_run.c --- */

struct levin_run {
    struct lvn_api_handle handle;
    struct lvn_trainer trainer;
    struct levin_run_options given_options; /* the program's, completed */
    struct lvn_train_options options;
    struct lvn_api_model own_model;
    struct lvn_program_data data; /* if the program gives samples */
    const char *end_reason;       /* reason of the end; NULL: it has not ended */
    char folder[PATH_MAX];        /* the current one when it was opened; "": unknown */
    enum lvn_status status;       /* of the call that failed */
    char evaluated_split[16];     /* of the last evaluation, "test"; "": none. Its results: */
    const struct lvn_task_graph *task;
    double loss, value[LVN_TASK_METRICS];
    char result_name[1 + LVN_TASK_METRICS][48]; /* "test_loss", and those of the metrics */
    char *logged[LVN_SCALARS];                  /* [n_logged] names of the program's scalars */
    int n_logged;
    bool ended;   /* the last checkpoint is saved, and the event END was sent */
    bool stopped; /* ended because of levin_run_stop() */
    bool logging; /* in levin_run_log(), whose event LOG the program receives, too */
};

/* --- api_data.c --- */

/* Make the program's samples a kind of data, and set it in the settings. ARG if they are described wrongly. */
enum lvn_status lvn_api_data(struct lvn_program_data *out, const struct levin_run_data *given,
                             struct levin_settings *s) LVN_CHECKED;

/* --- api_evaluation.c --- */

/* Return the names of the classes, each ended by a newline. A newline within a name becomes a space. */
enum lvn_status lvn_api_class_names(const struct lvn_model_config *c, int64_t classes, char **out) LVN_CHECKED;

#endif
