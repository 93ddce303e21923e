/* levin.h - the library's public header: define a custom model and train it with levin.
 *
 * A model is a function from token ids to logits, written with the operations below. Calling them records a graph and
 * computes nothing; levin derives the gradients, plans the memory and runs the training loop with everything that the
 * command line offers: data, optimizer, schedule, validation, checkpoints. examples/own-model.c is a complete program,
 * examples/adder.c provides its own data.
 *
 * The library never prints and never exits. Functions that can fail return 0 or a positive number (levin_outcome());
 * levin_error_text() then explains the failure. Operations return NULL after a failure and accept NULL operands, so a
 * model needs no checks. (B: samples, T: tokens of a sample, C: channels, V: vocabulary.) */
#ifndef LEVIN_H
#define LEVIN_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct levin_graph;
struct levin_tensor;
struct levin_settings;

/* --- the interface between library and program ---
 *
 * Within an ABI version, functions and fields are added and none is changed. Every struct begins with `size`, its
 * sizeof, so that it can grow: the program sets it, also in structs that the library fills, and the library reads and
 * writes no further. The library refuses a size that it does not know. Elements of an array of structs are `size` bytes
 * apart, the size of the first element. A binding made for another version refuses the library. */
enum { LEVIN_ABI_VERSION = 2 };
int levin_abi_version(void);     /* LEVIN_ABI_VERSION of the library that is loaded */
const char *levin_version(void); /* version of the program: "0.1.0" */
/* The meaning of a failed function's positive return value: the exit code of the command line. */
enum levin_outcome {
    LEVIN_OUTCOME_DONE = 0,
    LEVIN_OUTCOME_FAULT = 1,    /* files, memory, values that are not finite */
    LEVIN_OUTCOME_INPUT = 2,    /* a wrong argument, key or value */
    LEVIN_OUTCOME_STOPPED = 75, /* stopped on request; a checkpoint was saved */
    LEVIN_OUTCOME_LOST = 76,    /* another rank was lost; resume from the last checkpoint */
};
enum levin_outcome levin_outcome(int status);
void levin_free(void *p); /* frees results that the program owns; does nothing if p is NULL */
/* Concurrency. Any thread may make any call, but a run and a loaded model accept one call at a time. A second call,
 * from another thread or from a callback (on_event, sample, on_token, logits), fails with LEVIN_OUTCOME_INPUT and
 * changes nothing. Exceptions: levin_run_stop() is allowed at any time, also in signal handlers; levin_run_steps(),
 * levin_run_value(), levin_run_results(), levin_run_end_reason() and levin_inference_encode(), _decode(), _vocab_size()
 * and _block_size() are allowed during any call but a close; levin_run_log() is allowed in on_event. Calls with a run
 * or a model that was closed, or that was opened before this process was forked, fail too. */
/* Set a function that this thread's long calls invoke between batches, tokens and files. If it returns a value other
 * than 0, the call ends with LEVIN_OUTCOME_STOPPED; the run or model remains usable. levin_run_step() does not invoke
 * it: see levin_run_stop(). With several ranks, interrupt all of them. NULL removes the function. */
void levin_on_interrupt(int (*on_interrupt)(void *context), void *context);

/* --- settings: the keys of recipes (`levin help options`) --- */
struct levin_settings *levin_settings_new(void); /* NULL: out of memory */
void levin_settings_free(struct levin_settings *s);
int levin_settings_put(struct levin_settings *s, const char *key, const char *value); /* ("optimizer.lr", "1e-3") */
int levin_settings_recipe(struct levin_settings *s, const char *path);                /* set all keys of a YAML file */
int levin_settings_variables(struct levin_settings *s); /* set keys from the environment: LEVIN_OPTIMIZER_LR */
/* Derive values from others and refuse contradictions, as opening a run does. Keys may still be put afterwards. */
int levin_settings_check(struct levin_settings *s);
/* The value of a key, as written in a recipe, and its origin ("default", "program", "FILE:7"). NULL: unknown key. Valid
 * until the next call of this thread. */
const char *levin_settings_get(const struct levin_settings *s, const char *key);
const char *levin_settings_source(const struct levin_settings *s, const char *key);
/* All keys have the indices 0 to levin_settings_count() - 1. */
struct levin_setting {
    int64_t size; /* sizeof(struct levin_setting) */
    const char *key;
    const char *type;           /* int, float, pair, bool, choice, str, path, list, maps, time or amount */
    const char *default_value;  /* as written in a recipe; "": none */
    const char *help;           /* valid until the next call of this thread */
    const char *const *choices; /* terminated by NULL; NULL: any value of the type */
    double min, max;            /* range of int and float */
    int64_t fixed;              /* 1: a resumed run must have the same value */
};
int64_t levin_settings_count(void);
int levin_settings_describe(int64_t i, struct levin_setting *out);

/* --- parameters: created on first use, under their names in checkpoints --- */
struct levin_tensor *levin_weight(struct levin_graph *g, const char *name, int64_t in, int64_t out,
                                  double std); /* (in,out) */
struct levin_tensor *levin_table(struct levin_graph *g, const char *name, int64_t rows, int64_t C,
                                 double std);                                                        /* (rows,C) */
struct levin_tensor *levin_vector(struct levin_graph *g, const char *name, int64_t n, double value); /* (n) */

/* Names declared after this call begin with this scope ("layers.%d"); "" ends the scope. */
void levin_scope(struct levin_graph *g, const char *format, ...);
/* Everything declared until the next levin_block() or levin_block_end() is one of the model's equal layers, whose
 * activations trainer.recompute can recompute for the backward pass. Everything declared after levin_block_end() is the
 * head. fsdp gathers the head separately from the parameters declared before the blocks, unless it reads one of those.
 */
void levin_block(struct levin_graph *g);
void levin_block_end(struct levin_graph *g);

/* --- views share the memory of x. They may overlap; elements of x that no view covers get a zero gradient --- */
/* The heads of a (B,T,...) projection: n_head x head_size channels starting at first_channel, with shape
 * (B,T,n_head,head_size) */
struct levin_tensor *levin_heads(struct levin_graph *g, struct levin_tensor *x, int64_t first_channel, int64_t n_head,
                                 int64_t head_size);
/* Elements first to first + count - 1 along dimension dim */
struct levin_tensor *levin_slice(struct levin_graph *g, struct levin_tensor *x, int dim, int64_t first, int64_t count);
/* The same elements with another shape, in which one dimension may be -1: it is inferred. x must be contiguous */
struct levin_tensor *levin_reshape(struct levin_graph *g, struct levin_tensor *x, int rank, const int64_t *dim);
/* Two dimensions exchanged */
struct levin_tensor *levin_transpose(struct levin_graph *g, struct levin_tensor *x, int dim, int other);

/* Cosines and sines for levin_rotary(): position t rotates pair i of channels by t theta^(-2 i / dims), i < dims / 2
 * (RoFormer; Llama: theta 1e4). Only the shape of ids (B,T) is used. dims: even, at most the channels of a head. */
struct levin_tensor *levin_rotary_angles(struct levin_graph *g, struct levin_tensor *ids, int64_t dims, double theta);

/* The keys that a query of levin_attention() can attend to, and how its scores become probabilities. */
struct levin_attention_options {
    int64_t size;                  /* sizeof(struct levin_attention_options) */
    double scale;                  /* factor of the scores q k^T, usually 1 / sqrt(channels of a head) */
    double softcap;                /* a score s becomes softcap * tanh(s / softcap); 0: no soft cap */
    double dropout;                /* in training, set each attention probability to zero with this probability; the
                                    * first dimension of the queries must then be the samples (no folded windows) */
    bool causal;                   /* mask later keys */
    int64_t window;                /* with causal: attend only to the last `window` keys, including its own; 0: all */
    struct levin_tensor *lengths;  /* int32 (B): keys of sample b from lengths[b] on are padding; NULL: no padding */
    struct levin_tensor *segments; /* int32 (B,T), with causal: the position at which the document of each token starts,
                                      which never decreases; earlier keys are masked; NULL: one document, or, with
                                      data.pack, those of the samples */
};

/* --- operations: written by `make docs` from src/core/ops/ops.def --- */
/* ids (...,T) int32 -> (...,T,C): rows of the table (V,C), plus rows 0 to T-1 of positions (P,C) or NULL */
struct levin_tensor *levin_embedding(struct levin_graph *g, struct levin_tensor *ids, struct levin_tensor *table,
                                     struct levin_tensor *positions);
/* x (...,K) -> (...,N): w is (K,N) where in_out, else (N,K); b (N) or NULL */
struct levin_tensor *levin_linear(struct levin_graph *g, struct levin_tensor *x, struct levin_tensor *w,
                                  struct levin_tensor *b, bool in_out);
/* layer norm over the last dimension C; gamma (C); beta (C), NULL: none */
struct levin_tensor *levin_layernorm(struct levin_graph *g, struct levin_tensor *x, struct levin_tensor *gamma,
                                     struct levin_tensor *beta, double eps);
/* exact GELU: x * Phi(x), with erf; any shape */
struct levin_tensor *levin_gelu(struct levin_graph *g, struct levin_tensor *x);
/* tanh approximation, as in GPT-2; any shape */
struct levin_tensor *levin_gelu_tanh(struct levin_graph *g, struct levin_tensor *x);
/* in training, set each element of x (B,...,C) or (B*T,C) to zero with probability p; divide the others by 1 - p */
struct levin_tensor *levin_dropout(struct levin_graph *g, struct levin_tensor *x, double p);
/* x * factor; any shape */
struct levin_tensor *levin_scale(struct levin_graph *g, struct levin_tensor *x, double factor);
/* a + b; of equal shape, or b has the shape of a's last dimensions */
struct levin_tensor *levin_add(struct levin_graph *g, struct levin_tensor *a, struct levin_tensor *b);
/* q (B,T,H,S), k and v (B,T,Hkv,S) -> (B,T,H*S): softmax(scale q k^T) v over the keys that `options` select */
struct levin_tensor *levin_attention(struct levin_graph *g, struct levin_tensor *q, struct levin_tensor *k,
                                     struct levin_tensor *v, const struct levin_attention_options *options);
/* k or v of an attention with this window, cached under a unique name while generating; in training returns x */
struct levin_tensor *levin_kv_cache(struct levin_graph *g, const char *name, struct levin_tensor *x, int64_t window);
/* max(x, 0); any shape */
struct levin_tensor *levin_relu(struct levin_graph *g, struct levin_tensor *x);
/* a contiguous copy of a view; most operations require contiguous inputs */
struct levin_tensor *levin_pack(struct levin_graph *g, struct levin_tensor *x);
/* x / sqrt(mean(x^2) + eps) * (gamma + offset), over the last dimension; gamma (C) or NULL; offset: 1 in Gemma, or 0 */
struct levin_tensor *levin_rmsnorm(struct levin_graph *g, struct levin_tensor *x, struct levin_tensor *gamma,
                                   double eps, double offset);
/* rotary position embedding of x (B,T,H,S); table: levin_rotary_angles() */
struct levin_tensor *levin_rotary(struct levin_graph *g, struct levin_tensor *x, struct levin_tensor *table);
/* a * b; of equal shape, or b has the shape of a's last dimensions */
struct levin_tensor *levin_mul(struct levin_graph *g, struct levin_tensor *a, struct levin_tensor *b);
/* x * sigmoid(x); any shape. Chains such as mul(silu(gate), up), a gated MLP, are fused into one operation */
struct levin_tensor *levin_silu(struct levin_graph *g, struct levin_tensor *x);
/* max(x, 0)^2, the squared ReLU; any shape */
struct levin_tensor *levin_relu2(struct levin_graph *g, struct levin_tensor *x);
/* tanh(x); any shape */
struct levin_tensor *levin_tanh(struct levin_graph *g, struct levin_tensor *x);
/* exp(x) / sum(exp(x)) over the last dimension */
struct levin_tensor *levin_softmax(struct levin_graph *g, struct levin_tensor *x);
/* the elements of a, then those of b, along dimension `dim`, in which alone they may differ */
struct levin_tensor *levin_concat(struct levin_graph *g, struct levin_tensor *a, struct levin_tensor *b, int dim);
/* the mean over dimension `dim`, which the result does not have: (B,T,C) with 1 -> (B,C) */
struct levin_tensor *levin_mean(struct levin_graph *g, struct levin_tensor *x, int dim);
/* a * x + factor * b * z, of x and z of one shape and learned scalars a and b (1); NULL for a: 1 */
struct levin_tensor *levin_weighted_sum(struct levin_graph *g, struct levin_tensor *x, struct levin_tensor *z,
                                        struct levin_tensor *a, struct levin_tensor *b, double factor);
/* x + factor * w * sigmoid(gate) * u: x, u (...,K*S), gate (...,K), one for S channels; w (1), or NULL: 1 */
struct levin_tensor *levin_gated_add(struct levin_graph *g, struct levin_tensor *x, struct levin_tensor *u,
                                     struct levin_tensor *gate, struct levin_tensor *w, double factor);
/* x (B,T,C) -> (B,T,C): the row before each row, zeros where a document begins */
struct levin_tensor *levin_previous(struct levin_graph *g, struct levin_tensor *x);

/* --- training --- */
/* The model's sizes, from settings and data. */
struct levin_sizes {
    int64_t size; /* of this struct */
    int64_t n_layer, n_head, n_embd, block_size, vocab_size;
    double dropout;
};
struct levin_own_model {
    int64_t size;     /* sizeof(struct levin_own_model) */
    const char *name; /* model_type in config.json */
    /* logits (B,T,V) from ids (B,T); called for every plan, so it must build the same graph each time */
    struct levin_tensor *(*logits)(struct levin_graph *g, const struct levin_sizes *n, struct levin_tensor *ids,
                                   void *context);
    void *context;
};
/* Train up to the limits in the settings. on_step (or NULL) is called after each step with the mean loss of its batch
 * and, after a validation, with val_loss (otherwise NaN). */
int levin_train_model(struct levin_settings *s, const struct levin_own_model *m,
                      void (*on_step)(void *context, int64_t step, double loss, double val_loss), void *context);

/* --- a run under your control: what levin_train_model() does in one call, step by step ---
 *
 * All ranks make the same calls in the same order. A process has at most one run at a time, and may open another one
 * after closing it. Numbers are read and written with a decimal point in every locale. A step or a save that fails
 * invalidates the run, and so does any call that loses another rank: close it, and resume from its last checkpoint. To
 * evaluate a trained custom model or generate with it, open its run with LEVIN_OPEN_RESUME and make no step. */
struct levin_run;
enum levin_open {
    LEVIN_OPEN_NEW,
    LEVIN_OPEN_RESUME,
    LEVIN_OPEN_OVERWRITE
}; /* as levin train, --resume and --overwrite */
/* m: the model; NULL: model.kind of the settings. The run owns `s` until it is closed. *r is NULL after a failure. */
int levin_run_open(struct levin_run **r, struct levin_settings *s, const struct levin_own_model *m,
                   enum levin_open mode);

/* Events of a run: START in levin_run_open_with(), END in levin_run_end(), the others in between. */
enum levin_on {
    LEVIN_ON_START,      /* planned and loaded, before the first step; text: the checkpoint it resumes, or NULL */
    LEVIN_ON_STEP,       /* a step has ended */
    LEVIN_ON_VALIDATION, /* a validation has ended; step 0: before the first step */
    LEVIN_ON_CHECKPOINT, /* the checkpoint of `step` was saved; text: its folder */
    LEVIN_ON_SAMPLE,     /* text: prompt and continuation (rank 0) */
    LEVIN_ON_EPOCH,      /* an epoch has ended: epoch_s */
    LEVIN_ON_NOTE,       /* text: a warning for the user; the run continues (rank 0) */
    LEVIN_ON_END,        /* text: the reason */
    LEVIN_ON_LOG,        /* levin_run_log() was called */
};
struct levin_run_scalar {
    int64_t size;     /* sizeof(struct levin_run_scalar) */
    const char *name; /* loss, lr, grad_norm, val_accuracy ... */
    double value;     /* the latest one; NaN: none yet */
    int64_t is_new;   /* 1: set by this event */
};
/* Pointers are valid during the call. Unknown values are NaN, unknown counts 0. */
struct levin_run_event {
    int64_t size;      /* sizeof(struct levin_run_event) in the library */
    int64_t kind;      /* enum levin_on */
    int64_t step;      /* finished steps */
    int64_t max_steps; /* last step of the run; 0: unknown */
    int64_t epoch;     /* finished epochs */
    const char *text;  /* meaning depends on kind; NULL: none */
    int64_t n_scalars;
    const struct levin_run_scalar *scalar; /* [n_scalars] */
    int64_t is_best;                       /* 1: checkpoint.monitor had its best value at the last check */
    double elapsed_s;                      /* since the training loop started in this process */
    double eta_s;                          /* estimated time to the end */
    double epoch_s;                        /* EPOCH: its duration */
    double best_val_loss;
    double start_val_loss; /* before the first step */
    int64_t memory_bytes;  /* resident memory, mean over ranks */
    int64_t peak_bytes;    /* peak of resident memory, mean over ranks */
    /* the run */
    const char *name;
    const char *run_dir; /* NULL: a trainer.fast_dev_run has none */
    const char *unit;    /* unit of rates: "tokens" or "samples" */
    const char *isa;     /* instruction set: "avx512" */
    int64_t parameters;  /* number of parameters in the model */
    int64_t trained;     /* number of trainable parameters */
    int64_t batch_size;  /* samples per step */
    int64_t micro_batch_size;
    int64_t accumulation; /* micro-batches per step, on all ranks */
    int64_t block_size;   /* tokens per sample, if rates count tokens; else 1 */
    int64_t steps_per_epoch;
    int64_t train_tokens;
    int64_t val_tokens;
    int64_t train_samples;
    int64_t val_samples;
    int64_t rank;
    int64_t ranks;
    int64_t hosts;
    int64_t threads;
};
/* on_event returns 0 or a bitwise OR of these. All ranks carry out a request of any rank: immediately after a
 * validation or an epoch, otherwise with the next step. Requests on SAMPLE and NOTE are ignored. */
enum levin_run_request { LEVIN_REQUEST_STOP = 1, LEVIN_REQUEST_SAVE = 2, LEVIN_REQUEST_VALIDATE = 4 };

/* Samples provided by the program instead of the data of the settings: either a list, which is shuffled, divided among
 * ranks and resumed like other data, or an iterable, whose samples are each read once, in order (data.sampling
 * sequential). */
struct levin_run_field {
    int64_t size;     /* sizeof(struct levin_run_field) */
    const char *name; /* a field of the model and the task: ids, labels; ids, length, label; pixels, label */
    int64_t dtype;    /* 0: int32, 1: float32, 2: uint8 */
    int64_t rank;     /* dimensions of one sample: at most 3 */
    int64_t dim[3];
    int64_t below; /* integers are in [0, below); label -1: no label. 0: the range the model accepts */
};
struct levin_run_data {
    int64_t size;                        /* sizeof(struct levin_run_data) */
    int64_t n_fields;                    /* at most 5 */
    const struct levin_run_field *field; /* [n_fields], each with its size */
    int64_t samples[3];                  /* number in train, val and test */
    int64_t vocab_size;                  /* of ids; 0: no field has ids */
    int64_t is_stream;                   /* 1: an iterable */
    /* Write sample i of split 0 (train), 1 or 2, field by field; called by any thread. Return 0; or another value and a
     * message in `error`, which ends the run after the current step with a checkpoint. A value outside of the range
     * that model and task accept ends the run in the same way. */
    int (*sample)(void *context, int64_t split, int64_t i, void *const *out, char error[400]);
    void *context;
    int64_t n_classes;          /* of the field `label`; 0: `classes` is not given */
    const char *const *classes; /* [n_classes] names */
};

struct levin_run_options {
    int64_t size;                        /* sizeof(struct levin_run_options) */
    int64_t mode;                        /* enum levin_open */
    const struct levin_own_model *model; /* NULL: model.kind of the settings */
    /* Called on all ranks between steps, by the thread that runs them; levin_run_stop(), levin_run_log(),
     * levin_run_steps() and levin_run_value() are allowed there. NULL: nothing is called. */
    int (*on_event)(void *context, const struct levin_run_event *event);
    void *context;
    const struct levin_run_data *data; /* valid until the run is closed; NULL: the data of the settings */
};
int levin_run_open_with(struct levin_run **r, struct levin_settings *s, const struct levin_run_options *options);
/* End the run after the current step, or before its first one; levin_run_close() saves it. Allowed in signal handlers
 * and in any thread, also while another call still opens *r. Does nothing if r is NULL. */
void levin_run_stop(struct levin_run *r);
/* Run one step, and validation, checkpoint and logs if due. *over: the limits of the settings are reached, or a stop
 * was requested; no further step is allowed. Of a resumed run that was complete, the call only sends a note. */
int levin_run_step(struct levin_run *r, bool *over);
/* completed steps, including those before a resume; -1: the run is closed */
int64_t levin_run_steps(const struct levin_run *r);
/* Why no further step is allowed, valid until the run is closed; NULL: steps are left, or the run is closed. */
const char *levin_run_end_reason(const struct levin_run *r);
/* A scalar by name: loss, lr, grad_norm, val_loss, val_accuracy ...; NaN: not available (yet). */
double levin_run_value(const struct levin_run *r, const char *name);
/* Update val_loss and the validation metrics. Saves a checkpoint if the result is one of the checkpoint.top_k best. */
int levin_run_validate(struct levin_run *r);
/* Compute loss and metrics over a whole split: "train", "val" or "test". Read them with levin_run_value(r, "test_loss")
 * before the next step. */
int levin_run_evaluate(struct levin_run *r, const char *split);
/* The results of the last levin_run_evaluate(): test_loss, test_accuracy ... Returns their number and writes at most
 * `capacity`, into elements of out[0].size bytes (-1: that size is refused). The names are valid until the run is
 * closed. */
int64_t levin_run_results(const struct levin_run *r, struct levin_run_scalar *out, int64_t capacity);
/* Rank 0: the prompt (NULL: sample.prompt) and its continuation, generated with the settings `sample.*`. The
 * continuation has fewer than sample.max_new_tokens tokens if the context is full. Free *text with levin_free(). Fails
 * with trainer.strategy fsdp, where no rank has all parameters. */
int levin_run_generate(struct levin_run *r, const char *prompt, char **text);
/* Log custom scalars. Loggers write them in a separate row with the number of the last finished step. Allowed in
 * on_event. All ranks must make the same call. LEVIN_OUTCOME_INPUT: a name is in use already, or has characters other
 * than A-Z a-z 0-9 _ . / - */
int levin_run_log(struct levin_run *r, int64_t n, const char *const *names, const double *values);
int levin_run_save(struct levin_run *r); /* write a checkpoint; it is on disk when the call returns */
/* End the run: write its last checkpoint and send the event END. It may still evaluate and generate until it is closed,
 * but make no further step. Returns LEVIN_OUTCOME_STOPPED with a message about the saved checkpoint if levin_run_stop()
 * stopped the run. */
int levin_run_end(struct levin_run *r);
/* Call levin_run_end() if it was not called, and free the run. Does nothing if r is NULL. Returns the failure that
 * invalidated the run, if any. */
int levin_run_close(struct levin_run *r);

/* --- models: load once, use any number of times --- */

/* Set model.init to a MODEL (a run, a checkpoint, a Hugging Face folder, a published name), and all keys of the run
 * that it comes from. Call this first, and put other keys afterwards. */
int levin_settings_model(struct levin_settings *s, const char *model);
struct levin_inference;
/* Open model.init; weights are loaded on first use. s must outlive the model. *m is NULL after a failure. */
int levin_inference_open(struct levin_inference **m, struct levin_settings *s);
int levin_inference_close(struct levin_inference *m); /* does nothing if m is NULL; fails while a call uses the model */
/* The vocabulary size, and the maximum context length in tokens. */
int64_t levin_inference_vocab_size(const struct levin_inference *m);
int64_t levin_inference_block_size(const struct levin_inference *m);
/* The names of the classes, each terminated by a newline (a newline within a name becomes a space); free them with
 * levin_free(). "": the model is no classifier. */
int levin_inference_classes(const struct levin_inference *m, char **names);
/* Text to ids, including special tokens, and back; free the results with levin_free(). */
int levin_inference_encode(const struct levin_inference *m, const char *text, int64_t bytes, int32_t **ids, int64_t *n);
int levin_inference_decode(const struct levin_inference *m, const int32_t *ids, int64_t n, char **text);
/* Continue a prompt, with the same bits as `levin generate`. */
struct levin_generation {
    int64_t size;          /* sizeof(struct levin_generation) */
    const int32_t *prompt; /* [n_prompt] ids, at least 1; with `conversation` NULL */
    int64_t n_prompt;
    int64_t max_new_tokens; /* 0 to 1e9 */
    double temperature;     /* 0: greedy; at most 1e6 */
    int64_t top_k;          /* 0: off; at most 2^30 */
    double top_p;           /* 0 or 1: off */
    int64_t seed;
    int64_t number;     /* index of the sample, below 2^32; selects its random numbers */
    int64_t ignore_eos; /* 1: do not stop at an end token */
    /* Called with each new token and the text that it completes (valid during the call; "" within a character), and at
     * the end with id -1 and text that was held back, if any. Return 0 to end the sample. NULL: nothing is called. */
    int (*on_token)(void *context, int32_t id, const char *text);
    void *context;
    int32_t *ids; /* [n_ids] result: the new tokens; free with levin_free() */
    int64_t n_ids;
    char *text; /* result: the continuation without the prompt; free with levin_free() */
    /* A conversation to answer, as JSON: {"messages": [{"role": "user", "content": "..."}]}, also with `tools`. The
     * answer ends where the template ends it, and where the context is full. Negative temperature, top_k, top_p and
     * repetition_penalty are those of the model's generation_config.json. NULL: `prompt` is continued. */
    const char *conversation;
    const char *chat_template; /* for the conversation: a built-in name or a file; NULL: the model's */
    double repetition_penalty; /* 0 or 1: off */
};
int levin_inference_generate(struct levin_inference *m, struct levin_generation *g);
/* The prediction for token ids (B,T), in fp32, valid until the next call: (B,T,V) for language models, (B,classes) for
 * classifiers. shape: [4], of which *rank are set. */
int levin_inference_logits(struct levin_inference *m, const int32_t *ids, int64_t B, int64_t T, const float **logits,
                           int64_t shape[4], int64_t *rank);
/* A parameter by its Hugging Face name. data: the model's own memory, in the layout of the file, valid until the model
 * is closed. NULL: it is in another layout or not in host memory; levin_inference_copy() copies its values. */
struct levin_parameter {
    int64_t size; /* sizeof(struct levin_parameter) */
    const char *name;
    int64_t dtype; /* 0: fp32, 1: bf16 */
    int64_t rank;
    int64_t shape[4];
    void *data; /* row-major */
};
int levin_inference_parameters(struct levin_inference *m, int64_t *n);
int levin_inference_parameter(struct levin_inference *m, int64_t i, struct levin_parameter *out);
int levin_inference_copy(struct levin_inference *m, int64_t i, void *to, int64_t bytes);

/* Class probabilities for new texts, with model.init of the settings; same bits as `levin predict`. A regression model
 * (task.kind=regress) returns one number per text: classes is 1, and names is "". */
struct levin_classified {
    int64_t size; /* sizeof(struct levin_classified) */
    int64_t n, classes;
    double *probability; /* (n, classes), or (n, 1) numbers; free with levin_free() */
    char *names; /* of the classes, each terminated by a newline (a newline within a name becomes a space); free with
                    levin_free() */
};
/* pairs: the second text of each pair, or NULL. */
int levin_classify(struct levin_settings *s, const char *const *texts, const char *const *pairs, int64_t n,
                   struct levin_classified *out);
/* Loss and metrics of model.init on data.split; same bits as `levin evaluate`. */
struct levin_evaluated_model {
    int64_t size; /* sizeof(struct levin_evaluated_model) */
    double loss;  /* mean over labels */
    int64_t labels, samples, skipped;
    const char *split;
    int64_t n_metrics;
    struct levin_run_scalar *metric; /* [n_metrics]; free with levin_free() */
    int64_t classes;                 /* of the confusion matrix; 0: none */
    double *confusion;               /* (true class, predicted class): counts; free with levin_free() */
};
/* limit: number of batches, evenly spaced; 0: trainer.limit_test_batches, by default all. gradients: safetensors file
 * for the gradient of the mean loss, by Hugging Face name; NULL: none. With it, the limit of a run does not count. */
int levin_evaluate_model(struct levin_settings *s, int64_t limit, const char *gradients,
                         struct levin_evaluated_model *out);
/* Scores of model.init in benchmark tasks; same values as `levin evaluate --tasks`. */
struct levin_task_scores {
    int64_t size; /* sizeof(struct levin_task_scores) */
    int64_t n_tasks;
    const char *const *task; /* [n_tasks] .yaml files of tasks, or folders of CORE bundles */
    int64_t limit;           /* the first items of each task; 0: all */
    int64_t num_fewshot;     /* examples before each item; -1: the number in the task's file */
    int64_t items;           /* 1: the result has the items, too */
    char
        *result; /* JSON: "tasks" and "core" of `--json`, and "items", the lines of `--items`; free with levin_free() */
};
int levin_evaluate_tasks(struct levin_settings *s, struct levin_task_scores *t);

/* The last failure in this thread: its message, and its "while ..." lines. */
const char *levin_error_text(void);
const char *levin_error_trace(void);

#ifdef __cplusplus
}
#endif
#endif
