/* levin.h - the library's public header: write a model of your own and train it with levin.
 *
 * A model is a function from token ids to logits, written with the operations below. Calling them records a graph and
 * computes nothing; levin derives the gradients, plans the memory and runs the training loop with everything that the
 * command line offers: data, optimizer, schedule, validation, checkpoints. examples/own-model.c is a complete program,
 * examples/adder.c one with data of its own.
 *
 * The library never prints and never exits. Functions that can fail return 0 or a positive number (lvn_outcome());
 * lvn_error_text() then explains the failure. Operations return NULL after a failure and accept NULL operands, so a
 * model needs no checks. (B: samples, T: tokens of a sample, C: channels, V: vocabulary.) */
#ifndef LEVIN_H
#define LEVIN_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct lvn_graph;
struct lvn_tensor;
struct lvn_settings;

/* --- the interface between library and program ---
 *
 * Within an ABI version, functions and fields are added and none is changed; a struct that grows begins with its size,
 * and the library reads no further. A binding that was made for another version refuses the library. */
enum { LVN_ABI_VERSION = 1 };
int lvn_abi_version(void);     /* LVN_ABI_VERSION of the library that is loaded */
const char *lvn_version(void); /* of the program: "0.1.0" */
/* What the positive number of a failed function means: the exit code of the command line. */
enum lvn_outcome {
    LVN_OUTCOME_DONE = 0,
    LVN_OUTCOME_FAULT = 1,    /* files, memory, numbers that are not finite */
    LVN_OUTCOME_INPUT = 2,    /* a wrong argument, key or value */
    LVN_OUTCOME_STOPPED = 75, /* stopped on request, and saved */
    LVN_OUTCOME_LOST = 76,    /* another rank was lost: resume from the last checkpoint */
};
enum lvn_outcome lvn_outcome(int status);
void lvn_free(void *p); /* what the program is to free; NULL: nothing */

/* --- settings: the keys of recipes (`levin help options`) --- */
struct lvn_settings *lvn_settings_new(void); /* NULL: no memory */
void lvn_settings_free(struct lvn_settings *s);
int lvn_settings_put(struct lvn_settings *s, const char *key, const char *value); /* ("optimizer.lr", "1e-3") */
int lvn_settings_recipe(struct lvn_settings *s, const char *path);                /* all keys of a YAML file */
int lvn_settings_variables(struct lvn_settings *s); /* all keys whose variables are set: LEVIN_OPTIMIZER_LR */
/* Derive values from others, and refuse contradictions, as opening a run does. Further keys may be put afterwards. */
int lvn_settings_check(struct lvn_settings *s);
/* The value of a key as a recipe would have it, and where it came from ("default", "program", "FILE:7"). NULL: no such
 * key. Valid until the next call of this thread. */
const char *lvn_settings_get(const struct lvn_settings *s, const char *key);
const char *lvn_settings_source(const struct lvn_settings *s, const char *key);
/* All keys, from 0 to lvn_settings_count() - 1. */
struct lvn_setting {
    const char *key;
    const char *type;           /* int, float, pair, bool, choice, str, path, list, maps, time or amount */
    const char *default_value;  /* as a recipe would have it; "": not given */
    const char *help;           /* valid until the next call of this thread */
    const char *const *choices; /* ended by NULL; NULL: any value of the type */
    double min, max;            /* of numbers */
    int64_t fixed;              /* 1: a run that continues must have the same value */
};
int64_t lvn_settings_count(void);
int lvn_settings_describe(int64_t i, struct lvn_setting *out);

/* --- parameters: created on first use; the name is the one in checkpoints --- */
struct lvn_tensor *lvn_weight(struct lvn_graph *g, const char *name, int64_t in, int64_t out,
                              double std);                                                                /* (in,out) */
struct lvn_tensor *lvn_table(struct lvn_graph *g, const char *name, int64_t rows, int64_t C, double std); /* (rows,C) */
struct lvn_tensor *lvn_vector(struct lvn_graph *g, const char *name, int64_t n, double value);            /* (n) */

/* Names declared from here on begin with this scope ("layers.%d"); "" ends it. */
void lvn_scope(struct lvn_graph *g, const char *format, ...);
/* What is declared from here on, until the next call or lvn_block_end(), is one of the model's equal layers, which
 * trainer.recompute computes anew for the backward pass. What is declared after lvn_block_end() is the head: with fsdp
 * it is gathered apart from what is declared before the blocks, unless it reads a parameter of that. */
void lvn_block(struct lvn_graph *g);
void lvn_block_end(struct lvn_graph *g);

/* --- views of the same elements. They may overlap; elements of x that no view covers get a zero gradient --- */
/* The heads in a (B,T,...) projection: n_head x head_size channels starting at first_channel, as
 * (B,T,n_head,head_size) */
struct lvn_tensor *lvn_heads(struct lvn_graph *g, struct lvn_tensor *x, int64_t first_channel, int64_t n_head,
                             int64_t head_size);
/* Elements first to first + count - 1 along dimension dim */
struct lvn_tensor *lvn_slice(struct lvn_graph *g, struct lvn_tensor *x, int dim, int64_t first, int64_t count);

/* Cosines and sines for lvn_rotary(): position t turns pair i of channels by t theta^(-2 i / dims), i < dims / 2
 * (RoFormer; Llama: theta 1e4). ids (B,T): the shape alone is used. dims: even, at most the channels of a head. */
struct lvn_tensor *lvn_rotary_angles(struct lvn_graph *g, struct lvn_tensor *ids, int64_t dims, double theta);

/* --- operations: written by `make docs` from src/ops/ops.def --- */
/* ids (...,T) int32 -> (...,T,C): rows of the table (V,C), plus rows 0 to T-1 of positions (P,C) or NULL */
struct lvn_tensor *lvn_embedding(struct lvn_graph *g, struct lvn_tensor *ids, struct lvn_tensor *table,
                                 struct lvn_tensor *positions);
/* x (...,K) -> (...,N): w is (K,N) where in_out, else (N,K); b (N) or NULL */
struct lvn_tensor *lvn_linear(struct lvn_graph *g, struct lvn_tensor *x, struct lvn_tensor *w, struct lvn_tensor *b,
                              bool in_out);
/* over the last dimension C; gamma (C), beta (C) or NULL */
struct lvn_tensor *lvn_layernorm(struct lvn_graph *g, struct lvn_tensor *x, struct lvn_tensor *gamma,
                                 struct lvn_tensor *beta, double eps);
/* x * Phi(x), exact, with erf; any shape */
struct lvn_tensor *lvn_gelu(struct lvn_graph *g, struct lvn_tensor *x);
/* the approximation by tanh, as in GPT-2; any shape */
struct lvn_tensor *lvn_gelu_tanh(struct lvn_graph *g, struct lvn_tensor *x);
/* in training, each element is zero with probability p, and the others are divided by 1 - p */
struct lvn_tensor *lvn_dropout(struct lvn_graph *g, struct lvn_tensor *x, double p);
/* x * factor; any shape */
struct lvn_tensor *lvn_scale(struct lvn_graph *g, struct lvn_tensor *x, double factor);
/* a + b; of one shape, or b of a's last dimensions */
struct lvn_tensor *lvn_add(struct lvn_graph *g, struct lvn_tensor *a, struct lvn_tensor *b);
/* q (B,T,H,S), k and v (B,T,Hkv,S) -> (B,T,H*S): softmax(scale q k^T) v, with dropout p; lengths (B) int32 or NULL */
struct lvn_tensor *lvn_attention(struct lvn_graph *g, struct lvn_tensor *q, struct lvn_tensor *k, struct lvn_tensor *v,
                                 struct lvn_tensor *lengths, bool causal, double scale, double p);
/* k or v of an attention: kept under a name of its own for the next tokens of a generated text; x itself in training */
struct lvn_tensor *lvn_kv_cache(struct lvn_graph *g, const char *name, struct lvn_tensor *x);
/* max(x, 0); any shape */
struct lvn_tensor *lvn_relu(struct lvn_graph *g, struct lvn_tensor *x);
/* the elements of a view, contiguous: most operations want that */
struct lvn_tensor *lvn_pack(struct lvn_graph *g, struct lvn_tensor *x);
/* x / sqrt(mean(x^2) + eps) * gamma, over the last dimension C; gamma (C) */
struct lvn_tensor *lvn_rmsnorm(struct lvn_graph *g, struct lvn_tensor *x, struct lvn_tensor *gamma, double eps);
/* x (B,T,H,S), turned by the angles of its positions; table: lvn_rotary_angles() */
struct lvn_tensor *lvn_rotary(struct lvn_graph *g, struct lvn_tensor *x, struct lvn_tensor *table);
/* gate * sigmoid(gate) * up, of one shape */
struct lvn_tensor *lvn_swiglu(struct lvn_graph *g, struct lvn_tensor *gate, struct lvn_tensor *up);
/* any shape */
struct lvn_tensor *lvn_tanh(struct lvn_graph *g, struct lvn_tensor *x);

/* --- training --- */
/* The sizes, resolved from settings and data. */
struct lvn_sizes {
    int64_t n_layer, n_head, n_embd, block_size, vocab_size;
    double dropout;
};
struct lvn_own_model {
    const char *name; /* model_type in config.json */
    /* logits (B,T,V) from ids (B,T); called for every plan, so it must build the same graph each time */
    struct lvn_tensor *(*logits)(struct lvn_graph *g, const struct lvn_sizes *n, struct lvn_tensor *ids, void *context);
    void *context;
};
/* Trains until the settings' limits. on_step (or NULL) is called after each step with the mean loss of its batch and,
 * after a validation, with val_loss (otherwise NaN). */
int lvn_train_model(struct lvn_settings *s, const struct lvn_own_model *m,
                    void (*on_step)(void *context, int64_t step, double loss, double val_loss), void *context);

/* --- a run under your control: what lvn_train_model() does in one call, step by step ---
 *
 * All ranks make the same calls in the same order. A process has one run at a time, and one after the other as many as
 * it likes; the calls may come from any thread, but not from two at once, and not from a process that was forked after
 * the run was opened. Numbers are read and written with a decimal point, whatever the program's locale. A call
 * that fails during computation invalidates the run: close it, and resume from its last checkpoint. To evaluate or to
 * generate with a trained model of your own, open its run with LVN_OPEN_RESUME and make no step. */
struct lvn_run;
enum lvn_open { LVN_OPEN_NEW, LVN_OPEN_RESUME, LVN_OPEN_OVERWRITE }; /* as levin train, --resume and --overwrite */
/* m: NULL means model.kind of the settings. The run owns `s` until it is closed. *r is NULL after a failure. */
int lvn_run_open(struct lvn_run **r, struct lvn_settings *s, const struct lvn_own_model *m, enum lvn_open mode);

/* What happens in a run: START in lvn_run_open_with(), END in lvn_run_close(), the others in between. */
enum lvn_on {
    LVN_ON_START,      /* planned and loaded, before the first step; text: the checkpoint that it continues, or NULL */
    LVN_ON_STEP,       /* a step has ended */
    LVN_ON_VALIDATION, /* a validation has ended; step 0: before the first step */
    LVN_ON_CHECKPOINT, /* the checkpoint of `step` was saved; text: its folder */
    LVN_ON_SAMPLE,     /* text: prompt and continuation (rank 0) */
    LVN_ON_EPOCH,      /* an epoch has ended: epoch_s */
    LVN_ON_NOTE,       /* text: something that the user should know; the run continues (rank 0) */
    LVN_ON_END,        /* text: the reason */
    LVN_ON_LOG,        /* lvn_run_log() was called */
};
struct lvn_run_scalar {
    const char *name; /* loss, lr, grad_norm, val_accuracy ... */
    double value;     /* the last one; NaN: none yet */
    int64_t is_new;   /* 1: of this event */
};
/* Pointers are valid during the call. Numbers that are not known are NaN, counts 0. */
struct lvn_run_event {
    int64_t size;      /* of this struct */
    int64_t kind;      /* enum lvn_on */
    int64_t step;      /* finished steps */
    int64_t max_steps; /* at which the run ends; 0: not known */
    int64_t epoch;     /* finished epochs */
    const char *text;  /* by kind; NULL: none */
    int64_t n_scalars;
    const struct lvn_run_scalar *scalar; /* [n_scalars] */
    int64_t is_best;                     /* 1: at its last check checkpoint.monitor was better than ever before */
    double elapsed_s;                    /* since the loop began in this process */
    double eta_s;                        /* until the end */
    double epoch_s;                      /* EPOCH: its duration */
    double best_val_loss;
    double start_val_loss; /* before the first step */
    int64_t memory_bytes;  /* resident, mean over ranks */
    int64_t peak_bytes;    /* highest so far, mean over ranks */
    /* the run */
    const char *name;
    const char *run_dir; /* NULL: a trainer.fast_dev_run has none */
    const char *unit;    /* of rates: "tokens", "samples" */
    const char *isa;     /* of the processor: "avx512" */
    int64_t parameters;  /* values in the model */
    int64_t trained;     /* those that are not frozen */
    int64_t batch_size;  /* samples of a step */
    int64_t micro_batch_size;
    int64_t accumulation; /* micro-batches of a step, on all ranks */
    int64_t block_size;   /* tokens of a sample, where rates count tokens; else 1 */
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
/* What on_event returns: 0, or these or-ed. One rank's request is carried out by all: after a validation or an epoch at
 * once, otherwise with the next step. On the events SAMPLE and NOTE it is ignored. */
enum lvn_run_request { LVN_REQUEST_STOP = 1, LVN_REQUEST_SAVE = 2, LVN_REQUEST_VALIDATE = 4 };

/* Samples that the program gives, instead of the data of the settings: a list, which is shuffled, divided over ranks
 * and resumed as any other, or a stream, whose samples are taken once, in their order (data.sampling sequential). */
struct lvn_run_field {
    const char *name; /* as model and task read it: ids, labels; ids, length, label; pixels, label */
    int64_t dtype;    /* 0: int32, 1: float32, 2: uint8 */
    int64_t rank;     /* of one sample: at most 3 */
    int64_t dim[3];
    int64_t below; /* integers lie in [0, below); a label may be -1: none. 0: not known */
};
struct lvn_run_data {
    int64_t size;                      /* sizeof(struct lvn_run_data) */
    int64_t n_fields;                  /* at most 4 */
    const struct lvn_run_field *field; /* [n_fields] */
    int64_t samples[3];                /* of train, val and test; 0: there are none */
    int64_t vocab_size;                /* of ids; 0: there are none */
    int64_t is_stream;                 /* 1: a stream */
    /* Write sample i of split 0 (train), 1 or 2, field by field; called by any thread. 0, or another number with a
     * sentence in `error`: the run then ends with the step that is finished, saved. */
    int (*sample)(void *context, int64_t split, int64_t i, void *const *out, char error[400]);
    void *context;
};

struct lvn_run_options {
    int64_t size;                      /* sizeof(struct lvn_run_options) */
    int64_t mode;                      /* enum lvn_open */
    const struct lvn_own_model *model; /* NULL: model.kind of the settings */
    /* Called on all ranks between the steps, by the thread that makes them; it must make no call with the run but
     * lvn_run_stop(), lvn_run_log(), lvn_run_steps() and lvn_run_value(). NULL: nothing is called. */
    int (*on_event)(void *context, const struct lvn_run_event *event);
    void *context;
    const struct lvn_run_data *data; /* valid until the run is closed; NULL: those of the settings */
};
int lvn_run_open_with(struct lvn_run **r, struct lvn_settings *s, const struct lvn_run_options *options);
/* The run ends after the step that is being made, or before its first one; lvn_run_close() saves it. For a signal
 * handler and for any thread. *r may still be opened by another call. NULL: nothing. */
void lvn_run_stop(struct lvn_run *r);
/* One step, and what is due after it (validation, checkpoint, logs). *over: the settings' limits are reached, or a stop
 * was requested; no step may follow. */
int lvn_run_step(struct lvn_run *r, bool *over);
int64_t lvn_run_steps(const struct lvn_run *r); /* completed steps, those before a resumption included */
/* A scalar by its name: loss, lr, grad_norm, val_loss, val_accuracy ...; NaN: not available (yet). */
double lvn_run_value(const struct lvn_run *r, const char *name);
int lvn_run_validate(struct lvn_run *r); /* updates val_loss and the validation metrics */
/* Loss and metrics over a whole split, "train", "val" or "test": lvn_run_value(r, "test_loss"), valid until the next
 * step. */
int lvn_run_evaluate(struct lvn_run *r, const char *part);
/* The results of the last lvn_run_evaluate(): test_loss, test_accuracy ... Returns how many there are; writes at most
 * `capacity`. The names live as long as the run. */
int64_t lvn_run_results(const struct lvn_run *r, struct lvn_run_scalar *out, int64_t capacity);
/* Rank 0: the prompt (NULL: sample.prompt) and its continuation, generated as the keys of `sample` say; lvn_free() it.
 * Fails with trainer.strategy fsdp, where no rank has all parameters. */
int lvn_run_generate(struct lvn_run *r, const char *prompt, char **text);
/* Log scalars of the program's own, which loggers write in a row of their own with the number of the last finished
 * step. Also within on_event. All ranks call it alike. ARG for a name that is taken or has other characters than A-Z
 * a-z 0-9 _ . / - */
int lvn_run_log(struct lvn_run *r, int64_t n, const char *const *names, const double *values);
int lvn_run_save(struct lvn_run *r); /* writes a checkpoint; it is on the disk when the call returns */
/* The end of the run: its last checkpoint, and END. It may be evaluated and may generate until it is closed; no step
 * may follow. Of a run that lvn_run_stop() stopped LVN_OUTCOME_STOPPED, with the sentence that says what was saved. */
int lvn_run_end(struct lvn_run *r);
/* lvn_run_end(), if that was not called, and releases the run. NULL: nothing. Returns the failure that invalidated the
 * run, if any. */
int lvn_run_close(struct lvn_run *r);

/* --- models: loaded, and used as often as one likes --- */

/* Set model.init to a MODEL (a run, a checkpoint, a folder of Hugging Face, a published name) and all keys of the run
 * that it comes from; call it first, and put further keys afterwards. */
int lvn_settings_model(struct lvn_settings *s, const char *model);
struct lvn_inference;
/* Open model.init; the weights are loaded when they are first needed. s must outlive it. *m is NULL after a failure. */
int lvn_inference_open(struct lvn_inference **m, struct lvn_settings *s);
void lvn_inference_close(struct lvn_inference *m); /* NULL: nothing */
/* The size of the vocabulary, and the longest window in tokens. */
int64_t lvn_inference_vocab_size(const struct lvn_inference *m);
int64_t lvn_inference_block_size(const struct lvn_inference *m);
/* Text to ids, with the tokens that the tokenizer adds, and back; lvn_free() the results. */
int lvn_inference_encode(const struct lvn_inference *m, const char *text, int64_t bytes, int32_t **ids, int64_t *n);
int lvn_inference_decode(const struct lvn_inference *m, const int32_t *ids, int64_t n, char **text);
/* Continue a prompt, as `levin generate` does: the same bits. */
struct lvn_generation {
    int64_t size;          /* sizeof(struct lvn_generation) */
    const int32_t *prompt; /* [n_prompt] ids, at least 1 */
    int64_t n_prompt;
    int64_t max_new_tokens;
    double temperature; /* 0: greedy */
    int64_t top_k;      /* 0: off */
    double top_p;       /* 0 or 1: off */
    int64_t seed;
    int64_t number;     /* of the sample: each has its own random numbers */
    int64_t ignore_eos; /* 1: an end token ends nothing */
    /* Called with each new token and the text that is complete with it (valid during the call; "" within a character);
     * 0: the sample ends. NULL: nothing is called. */
    int (*on_token)(void *context, int32_t id, const char *text);
    void *context;
    int32_t *ids; /* [n_ids] set by the call: the new tokens; lvn_free() them */
    int64_t n_ids;
    char *text; /* set by the call: the continuation without the prompt; lvn_free() it */
};
int lvn_inference_generate(struct lvn_inference *m, struct lvn_generation *g);
/* The prediction for token ids (B,T), in fp32, valid until the next call: of language models (B,T,V), of classifiers
 * (B,classes). shape: [4], *rank of which are set. */
int lvn_inference_logits(struct lvn_inference *m, const int32_t *ids, int64_t B, int64_t T, const float **logits,
                         int64_t shape[4], int64_t *rank);
/* A parameter by its Hugging Face name. data: the model's own memory, in the layout of the file; valid until the model
 * is closed. NULL: it lies there in another layout, or not in host memory: lvn_inference_copy() gives its values. */
struct lvn_parameter {
    const char *name;
    int64_t dtype; /* 0: fp32, 1: bf16 */
    int64_t rank;
    int64_t shape[4];
    void *data; /* row-major */
};
int lvn_inference_parameters(struct lvn_inference *m, int64_t *n);
int lvn_inference_parameter(struct lvn_inference *m, int64_t i, struct lvn_parameter *out);
int lvn_inference_copy(struct lvn_inference *m, int64_t i, void *to, int64_t bytes);

/* The probabilities of classes for new texts, with settings' model.init, as `levin predict`: the same bits. A model
 * that was trained on numbers (task.kind=regress) gives a number for each text: classes is 1, and names is "". */
struct lvn_classified {
    int64_t size; /* sizeof(struct lvn_classified) */
    int64_t n, classes;
    double *probability; /* (n, classes), or (n, 1) numbers; lvn_free() it */
    char *names;         /* of the classes, each ended by a newline; lvn_free() it */
};
/* pairs: the second text of each, or NULL. */
int lvn_classify(struct lvn_settings *s, const char *const *texts, const char *const *pairs, int64_t n,
                 struct lvn_classified *out);
/* Loss and metrics of settings' model.init on data.split, as `levin evaluate`: the same bits. */
struct lvn_evaluated_model {
    int64_t size; /* sizeof(struct lvn_evaluated_model) */
    double loss;  /* mean over labels */
    int64_t labels, samples, skipped;
    const char *split;
    int64_t n_metrics;
    struct lvn_run_scalar metric[16];
    int64_t classes;   /* of the confusion matrix; 0: there is none */
    double *confusion; /* (true class, predicted class): counts; lvn_free() it */
};
/* limit: so many batches, evenly spaced; 0: all. gradients: a file for the gradient of the mean loss (safetensors, by
 * Hugging Face name); NULL: none. */
int lvn_evaluate_model(struct lvn_settings *s, int64_t limit, const char *gradients, struct lvn_evaluated_model *out);

/* The last failure in this thread: a sentence, and "while ..." lines. */
const char *lvn_error_text(void);
const char *lvn_error_trace(void);

#ifdef __cplusplus
}
#endif
#endif
