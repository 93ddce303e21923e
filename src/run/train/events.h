/* events.h - events of a training run, with facts about the run and scalars.
 *
 * Between steps the trainer passes events to its callbacks (train/callback.h), on all ranks, and then, on rank 0, to
 * the program's listeners: the live line of the command line, or a user's. Nothing is printed here. Listeners must be
 * quick, because the next step waits; pointers in an event are only valid during the call.
 *
 * A scalar is a named number; an event has new values of the scalars of its kind. The trainer declares all scalars
 * before the first step, so that loggers and monitors need not know names; those of LOG are added when they are first
 * logged. */
#ifndef LVN_EVENTS_H
#define LVN_EVENTS_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum lvn_event_kind {
    LVN_EVENT_START,      /* planned and loaded, before the first step: the fields of "the run" are set */
    LVN_EVENT_STEP,       /* a step has ended */
    LVN_EVENT_VALIDATION, /* a validation has ended; step 0: before the first step */
    LVN_EVENT_CHECKPOINT, /* the checkpoint of `step` was saved; text: its folder */
    LVN_EVENT_SAMPLE,     /* text: prompt and continuation */
    LVN_EVENT_EPOCH,      /* an epoch has ended: epoch_s, peak_bytes */
    LVN_EVENT_NOTE,       /* text: a warning for the user; the run continues */
    LVN_EVENT_END,        /* the loop has ended; text: the reason ("all steps are done", "stopped on request") */
    LVN_EVENT_LOG,        /* the user program logs custom scalars (api/api_run.c) */
    LVN_EVENT_VALIDATING, /* to listeners only: val_batch of val_batches are done */
};

enum lvn_better { LVN_BETTER_UNKNOWN, LVN_BETTER_LOWER, LVN_BETTER_HIGHER };

struct lvn_scalar {
    const char *name;
    enum lvn_event_kind kind; /* STEP, VALIDATION, EPOCH or LOG: the events with a new value */
    enum lvn_better better;   /* which direction is progress */
    bool computed;            /* by this run, and useful to monitor; without validation val_loss is only declared */
    bool implied;             /* by another scalar: can be monitored, but is not logged */
    double value;             /* latest value, equal on all ranks except for rates; NaN: none yet */
};
enum { LVN_SCALARS = 48 };

/* Fields that do not belong to the kind keep their last value, so that a listener can print a complete line at any
 * event; values that are not known yet are NaN. */
struct lvn_event {
    enum lvn_event_kind kind;
    /* the run */
    const char *name;         /* settings: name */
    const char *run_dir;      /* settings: run_dir */
    int64_t parameters;       /* number of parameters, including adapters */
    int64_t trained;          /* number of trainable parameters */
    int64_t max_steps;        /* 0: unknown; set also if the run is limited by epochs */
    int64_t batch_size;       /* sequences per step */
    int64_t micro_batch_size; /* sequences */
    int64_t accumulation;     /* micro-batches per step, on all ranks */
    int64_t block_size;       /* weight of a sample in rates: its tokens, or 1 */
    double fill;              /* share of these tokens that are not padding, if known (packed rows); else 1 */
    const char *unit;         /* unit of rates: "tokens", "samples" */
    int64_t steps_per_epoch;  /* 0: unknown */
    int64_t train_tokens;     /* in the data; 0: the data is no stream of tokens */
    int64_t val_tokens;       /* the same */
    int64_t train_samples;    /* in the data; 0: the data is a stream of tokens */
    int64_t val_samples;      /* the same */
    double flops_per_token;   /* FLOPs per token of a training step */
    int ranks;                /* number of ranks */
    int hosts;                /* number of hosts */
    int threads;              /* of this rank */
    const char *isa;          /* "avx512" */
    /* progress */
    int64_t step;  /* finished steps; 0 in a validation before the first step */
    int64_t epoch; /* finished epochs */
    struct lvn_scalar scalar[LVN_SCALARS];
    int n_scalars;
    int64_t val_batch;     /* VALIDATING: batches of the validation that are done */
    int64_t val_batches;   /* VALIDATING: all batches of it */
    double utilization;    /* fraction of this machine's measured matmul rate, 0..1; NaN: not measured */
    double elapsed_s;      /* since the loop began in this process */
    double eta_s;          /* estimated time to the end; NaN: unknown */
    int64_t memory_bytes;  /* resident memory, mean over ranks */
    int64_t peak_bytes;    /* peak of resident memory, mean over ranks */
    double best_val_loss;  /* after a step */
    double start_val_loss; /* before the first step; NaN: unknown */
    bool best;             /* checkpoint.monitor had its best value at the last check */
    double epoch_s;        /* EPOCH: its duration */
    const char *text;      /* see enum lvn_event_kind; NULL: none */
};

/* The index of a scalar by its name; -1: no such scalar. */
static inline int lvn_event_find(const struct lvn_event *e, const char *name)
{
    for (int i = 0; i < e->n_scalars; i++) {
        if (!strcmp(e->scalar[i].name, name)) return i;
    }
    return -1;
}

/* Its last value; NaN: none. */
static inline double lvn_event_value(const struct lvn_event *e, const char *name)
{
    int i = lvn_event_find(e, name);
    return i < 0 ? (double)NAN : e->scalar[i].value;
}

/* Does the event have a new value of this scalar to log? */
static inline bool lvn_event_updates(const struct lvn_event *e, int scalar)
{
    return e->scalar[scalar].kind == e->kind && !e->scalar[scalar].implied;
}

/* Does it have a new value of any scalar? */
static inline bool lvn_event_updates_any(const struct lvn_event *e)
{
    for (int i = 0; i < e->n_scalars; i++) {
        if (lvn_event_updates(e, i)) return true;
    }
    return false;
}

struct lvn_listener {
    void (*handle)(void *context, const struct lvn_event *event);
    void *context;
};

/* Pass the event to all listeners. */
static inline void lvn_event_send(const struct lvn_listener *list, int n, const struct lvn_event *event)
{
    for (int i = 0; i < n; i++) list[i].handle(list[i].context, event);
}

#endif
