/* plan.h - levin plan: what a run will compute and allocate, and how long a step will take; levin bench (bench.c)
 * prints the same table of operations. levin config (config.c) plans with engine/train_programs.h directly, and
 * predicts the time with plan_compute.c. */
#ifndef LVN_PLAN_H
#define LVN_PLAN_H

#include "cli/cli.h"
#include "engine/synthetic_step.h"

/* plan_time.c: the rates of this machine, measured on operands of a fixed size and cached. */
enum { LVN_N_RATES = LVN_RATE_READING + 1 };
struct lvn_rates {
    double per_s[LVN_N_RATES]; /* by enum lvn_rate */
    bool cached;               /* measured by an earlier command */
    double others;             /* share of the CPUs that other programs took meanwhile */
    int64_t at;                /* when they were measured: seconds since 1970 */
};
enum lvn_status lvn_plan_rates(struct lvn_cli *c, struct lvn_device *d, struct lvn_rates *r) LVN_CHECKED;
/* Seconds at these rates, a lower bound, without communication: forward and backward of one micro-batch, and the
 * update. */
void lvn_plan_parts(const struct lvn_train_programs *programs, const struct lvn_rates *r, struct lvn_parts *parts);
/* Print how long a step and all `steps` steps (0: not known) take at least on one rank of this machine. Prints nothing
 * for a backend that measures no rates. */
enum lvn_status lvn_plan_time(struct lvn_cli *c, const struct lvn_train_programs *programs, int64_t steps) LVN_CHECKED;

/* plan_compute.c: the time of one micro-batch on one rank, measured if that is quick, otherwise computed from rates. */
enum lvn_computed {
    LVN_COMPUTED_BY_RATES, /* nothing ran */
    LVN_COMPUTED_WHOLE,    /* the whole model ran */
    LVN_COMPUTED_LAYERS,   /* models of one and two layers ran; each further layer adds the difference */
};
struct lvn_compute {
    enum lvn_computed method;
    struct lvn_rates rates; /* of this machine */
    struct lvn_parts parts; /* seconds of one micro-batch, and of the update */
};
/* `programs` were planned as rank 0 of `ranks`, for the model m and the settings s. */
enum lvn_status lvn_plan_compute(struct lvn_compute *out, struct lvn_cli *c, const struct levin_settings *s,
                                 const struct lvn_train_programs *programs, const struct lvn_model_config *m,
                                 int ranks) LVN_CHECKED;

/* plan_ranks.c: --ranks. Set trainer.threads as levin launch would divide a host's cores. Call it before planning. */
void lvn_plan_threads(struct lvn_cli *c);
/* Number of threads for a measurement on this machine. */
int lvn_plan_threads_here(const struct lvn_cli *c);
/* Predict and print the time of a step. `programs` were planned as rank 0 of all, for the model m. */
enum lvn_status lvn_plan_ranks(struct lvn_cli *c, const struct lvn_train_programs *programs,
                               const struct lvn_model_config *m) LVN_CHECKED;

/* Ranks on each host. */
int lvn_plan_per_host(const struct lvn_cli *c);
/* Seconds of a step at these rates, without saving; prints and measures nothing. */
double lvn_plan_ranks_seconds(struct lvn_cli *c, const struct lvn_train_programs *programs, const struct lvn_rates *r);

/* plan_fit.c: --fit. ARG: another option contradicts it. */
enum lvn_status lvn_plan_fit_check(const struct lvn_cli *c) LVN_CHECKED;
/* Search settings for a run that is planned with o for the model m, print them, and set them in c->settings.
 * *base: lvn_plan_base_bytes of the first plan; 0: the memory of a device was searched. MEMORY: none fits. */
enum lvn_status lvn_plan_fit(struct lvn_cli *c, const struct lvn_model_config *m,
                             const struct lvn_train_programs_options *o, int64_t *base) LVN_CHECKED;
/* plan.c: bytes of this process without the programs that were planned in it: tokenizer, data, libraries. */
int64_t lvn_plan_base_bytes(const struct lvn_train_programs *programs);
/* Approximate bytes of the whole process that trains. base: lvn_plan_base_bytes() of the first plan in this process,
 * because memory that later plans free does not always return to the system. */
int64_t lvn_plan_process_bytes(const struct lvn_train_programs *programs, int64_t base);

/* plan_operations.c: the rates that a device does not exceed. */
struct lvn_limits {
    const char *title;
    double flops_per_s; /* of matrix multiplications, in the precision of the run */
    double bytes_per_s; /* of its memory; 0: unknown */
};
/* text: of --limits, a device of devices.def or FLOP/s and bytes/s; "": unknown limits. */
enum lvn_status lvn_plan_limits(const struct lvn_cli *c, const char *text, struct lvn_limits *limits) LVN_CHECKED;
/* Count the operations of a planned step. */
void lvn_plan_count(const struct lvn_train_programs *programs, struct lvn_parts *parts);
/* Print a line for each operation of a step that needs a hundredth of it. Returns the least seconds of a step at the
 * limits, without communication; 0: the limits are unknown. */
double lvn_plan_operations(struct lvn_cli *c, const struct lvn_parts *p, const struct lvn_limits *limits);

/* plan_device.c: a device that levin knows (devices.def). */
struct lvn_plan_device {
    const char *name; /* as --device has it */
    const char *backend;
    const char *title; /* "NVIDIA A100, 40 GB" */
    double bytes;      /* of its memory */
    double flops_per_s, bf16_flops_per_s, bytes_per_s;
};
const struct lvn_plan_device *lvn_plan_device_named(const char *name); /* NULL: unknown */
/* Print settings that would reduce the memory of a rank that needs `needed` bytes where `available` are.
 * With --json: returns them as a list; else NULL. */
json_t *lvn_plan_advice(const struct lvn_cli *c, const struct lvn_train_programs *programs, int64_t needed,
                        int64_t available);
/* ARG: the device of --device is not in devices.def. */
enum lvn_status lvn_plan_device_check(const struct lvn_cli *c) LVN_CHECKED;
/* With --device: print whether the run fits into the device's memory and whether there are kernels for it. ARG: no such
 * device in devices.def. */
enum lvn_status lvn_plan_device(struct lvn_cli *c, const struct lvn_train_programs *programs) LVN_CHECKED;
/* With --device: bytes that the run needs there, and those that are available. ARG: as above. */
enum lvn_status lvn_plan_device_memory(const struct lvn_cli *c, const struct lvn_train_programs *programs,
                                       int64_t *needed, int64_t *available) LVN_CHECKED;

#endif
