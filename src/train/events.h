/* events.h - what a training run tells while it runs.
 *
 * Between steps the trainer hands events to its callbacks (train/callback.h), on all ranks, and then, on rank
 * 0, to the listeners of the program: the live line of the command line, or a user's own. Nothing is printed here.
 * Whoever listens must be quick, for the next step waits; what an event points to is valid during the call only.
 *
 * An event carries facts about the run, and scalars: numbers with names, of which those of its own kind are new. The
 * trainer declares them all before the first step, so whoever writes or watches them knows no name by itself. */
#ifndef LVN_EVENTS_H
#define LVN_EVENTS_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum lvn_event_kind {
    LVN_EVENT_START,      /* planned and loaded, before the first step: the fields under "the run" are set */
    LVN_EVENT_STEP,       /* a step is done */
    LVN_EVENT_VALIDATION, /* a validation is done; step 0: before the first; `best`: see there */
    LVN_EVENT_CHECKPOINT, /* one is saved, that of `step`; text: its folder */
    LVN_EVENT_SAMPLE,     /* text: prompt and continuation */
    LVN_EVENT_EPOCH,      /* an epoch is done: epoch_s, peak_bytes */
    LVN_EVENT_NOTE,       /* text: something the user should know; the run goes on */
    LVN_EVENT_END,        /* the loop is over; text: why ("all steps are done", "stopped on request") */
};

enum lvn_better { LVN_BETTER_UNKNOWN, LVN_BETTER_LOWER, LVN_BETTER_HIGHER };

struct lvn_scalar {
    const char *name;
    enum lvn_event_kind kind; /* STEP, VALIDATION or EPOCH: which events bring a new value */
    enum lvn_better better;   /* which way is progress */
    bool computed;            /* by this run, and something to watch: without validation val_loss is but a name */
    bool implied;             /* by another one: watched, but not written */
    double value;             /* the last one, the same on all ranks but for rates; NaN: none yet */
};
enum { LVN_SCALARS = 32 };

/* Fields that do not belong to the kind keep their last value, so that a listener can draw a whole line at any event;
 * before there is a value, numbers are NaN. */
struct lvn_event {
    enum lvn_event_kind kind;
    /* the run */
    const char *name; /* settings: name */
    const char *run_dir;
    int64_t parameters; /* values in the model, adapters included */
    int64_t trained;    /* those among them that are not frozen */
    int64_t max_steps;  /* 0: not known (a run by epochs says what it will take) */
    int64_t batch_size; /* sequences of a step */
    int64_t micro_batch_size;
    int64_t accumulation;               /* micro-batches of a step, on all ranks */
    int64_t block_size;                 /* what a sample counts for: its tokens; or 1 */
    const char *unit;                   /* what rates count: "tokens", "samples" */
    int64_t steps_per_epoch;            /* 0: not known */
    int64_t train_tokens, val_tokens;   /* in the data; 0: they are no stream of tokens */
    int64_t train_samples, val_samples; /* in the data; 0: they are a stream of tokens */
    double flops_per_token;             /* of a training step */
    int ranks, hosts;
    int threads;     /* of this rank */
    const char *isa; /* "avx512" */
    /* where it is; `step` counts finished steps from 1 (a validation before the first has 0) */
    int64_t step;
    int64_t epoch; /* finished epochs */
    struct lvn_scalar scalar[LVN_SCALARS];
    int n_scalars;
    double utilisation;    /* of this machine's measured matmul rate, 0..1; NaN: not measured */
    double elapsed_s;      /* since the loop began in this process */
    double eta_s;          /* until the end; NaN: not known */
    int64_t memory_bytes;  /* resident now, mean over ranks */
    int64_t peak_bytes;    /* resident at most, mean over ranks */
    double best_val_loss;  /* after a step */
    double start_val_loss; /* before the first step; NaN: not known */
    bool best;             /* checkpoint.monitor, when last looked at, had never been better after a step */
    double epoch_s;        /* EPOCH: how long it took */
    const char *text;
};

/* The place of a scalar by its name; -1: there is none. */
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

/* Is it new with this event? */
static inline bool lvn_event_brings(const struct lvn_event *e, int scalar)
{
    return e->scalar[scalar].kind == e->kind && !e->scalar[scalar].implied;
}

/* Is any? */
static inline bool lvn_event_brings_some(const struct lvn_event *e)
{
    for (int i = 0; i < e->n_scalars; i++) {
        if (lvn_event_brings(e, i)) return true;
    }
    return false;
}

struct lvn_listener {
    void (*handle)(void *context, const struct lvn_event *event);
    void *context;
};

/* Tell all of them. */
static inline void lvn_event_send(const struct lvn_listener *list, int n, const struct lvn_event *event)
{
    for (int i = 0; i < n; i++) list[i].handle(list[i].context, event);
}

#endif
