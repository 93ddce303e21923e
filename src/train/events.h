/* events.h - what a training run tells while it runs.
 *
 * The trainer never prints: it hands events to listeners. The live line of the command line, the metric files and the
 * loss curve are listeners; a user's program may add its own. Listeners are called between steps, by the thread that
 * called the trainer, in the order of the list; what an event points to is valid during the call only. A listener must
 * be quick: the next step waits. */
#ifndef LVN_EVENTS_H
#define LVN_EVENTS_H

#include <stdint.h>

enum lvn_event_kind {
    LVN_EVENT_START,      /* planned and loaded, before the first step: the fields under "the run" are set */
    LVN_EVENT_STEP,       /* a step is done */
    LVN_EVENT_VALIDATION, /* val_loss is set; step 0: before the first; `best` when it is the lowest after a step */
    LVN_EVENT_CHECKPOINT, /* text: its folder */
    LVN_EVENT_SAMPLE,     /* text: prompt and continuation */
    LVN_EVENT_EPOCH,      /* an epoch is done: epoch_s, peak_bytes */
    LVN_EVENT_NOTE,       /* text: something the user should know; the run goes on */
    LVN_EVENT_END,        /* the loop is over; text: why ("max_steps reached", "stopped on request") */
};

/* Fields that do not belong to the kind keep their last value, so that a listener can draw a whole line at any event;
 * before there is a value, numbers of loss and rate are NaN. */
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
    int64_t accumulation;             /* micro-batches of a step, on all ranks */
    int64_t block_size;               /* tokens of a sequence */
    int64_t steps_per_epoch;          /* 0: not known */
    int64_t train_tokens, val_tokens; /* in the data; 0: made up as it goes */
    double flops_per_token;           /* of a training step */
    int ranks, hosts;
    int threads;     /* of this rank */
    const char *isa; /* "avx512" */
    /* the step; `step` counts finished steps from 1 (a validation before the first has 0) */
    int64_t step;
    int64_t epoch;    /* finished epochs */
    double loss;      /* mean over the global batch, before the update */
    double grad_norm; /* before clipping */
    double lr;
    double tokens_per_s;  /* of the last interval */
    double utilisation;   /* of this machine's measured matmul rate, 0..1; NaN: not measured */
    double elapsed_s;     /* since the loop began in this process */
    double eta_s;         /* until the end; NaN: not known */
    int64_t memory_bytes; /* resident now, of all ranks */
    int64_t peak_bytes;   /* resident at most, mean over ranks */
    /* the rest */
    double val_loss, best_val_loss; /* best: after a step */
    double start_val_loss;          /* before the first step; NaN: not known */
    int best;                       /* VALIDATION: this one is the lowest */
    double epoch_s;                 /* EPOCH: how long it took */
    const char *text;
};

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
