/* levin.h - the library's public header: write a model of your own and train it with levin.
 *
 * A model is a function from token ids to logits, written with the operations below. Calling them records a graph and
 * computes nothing; levin derives the gradients, plans the memory and runs the training loop with everything that the
 * command line offers: data, optimizer, schedule, validation, checkpoints. examples/own-model.c is a complete program.
 *
 * The library never prints and never exits. Functions that can fail return 0 or a positive number; lvn_error_text()
 * then explains the failure. Operations return NULL after a failure and accept NULL operands, so a model needs no
 * checks. (B: samples, T: tokens of a sample, C: channels, V: vocabulary.) */
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

/* --- settings: the keys of recipes (`levin help options`) --- */
struct lvn_settings *lvn_settings_new(void); /* NULL: no memory */
void lvn_settings_free(struct lvn_settings *s);
int lvn_settings_put(struct lvn_settings *s, const char *key, const char *value); /* ("optimizer.lr", "1e-3") */
int lvn_settings_recipe(struct lvn_settings *s, const char *path);                /* all keys of a YAML file */

/* --- parameters: created on first use; the name is the one in checkpoints --- */
struct lvn_tensor *lvn_weight(struct lvn_graph *g, const char *name, int64_t in, int64_t out,
                              double std);                                                                /* (in,out) */
struct lvn_tensor *lvn_table(struct lvn_graph *g, const char *name, int64_t rows, int64_t C, double std); /* (rows,C) */
struct lvn_tensor *lvn_vector(struct lvn_graph *g, const char *name, int64_t n, double value);            /* (n) */

/* --- operations --- */
/* ids (B,T) -> (B,T,C): rows of the table (V,C), plus rows 0..T-1 of positions (P,C) or NULL */
struct lvn_tensor *lvn_embedding(struct lvn_graph *g, struct lvn_tensor *ids, struct lvn_tensor *table,
                                 struct lvn_tensor *positions);
/* x (...,K) -> (...,N): w is (K,N) where in_out, else (N,K); b (N) or NULL */
struct lvn_tensor *lvn_linear(struct lvn_graph *g, struct lvn_tensor *x, struct lvn_tensor *w, struct lvn_tensor *b,
                              bool in_out);
/* over the last dimension; gamma (C), beta (C) or NULL */
struct lvn_tensor *lvn_layernorm(struct lvn_graph *g, struct lvn_tensor *x, struct lvn_tensor *gamma,
                                 struct lvn_tensor *beta, double eps);
struct lvn_tensor *lvn_gelu(struct lvn_graph *g, struct lvn_tensor *x);      /* exact, with erf */
struct lvn_tensor *lvn_gelu_tanh(struct lvn_graph *g, struct lvn_tensor *x); /* tanh approximation, as in GPT-2 */
struct lvn_tensor *lvn_dropout(struct lvn_graph *g, struct lvn_tensor *x, double p);
struct lvn_tensor *lvn_add(struct lvn_graph *g, struct lvn_tensor *a, struct lvn_tensor *b); /* or b: a's last dims */
/* the heads in a (B,T,...) projection: n_head x head_size channels starting at first_channel, as
 * (B,T,n_head,head_size) */
struct lvn_tensor *lvn_heads(struct lvn_graph *g, struct lvn_tensor *x, int64_t first_channel, int64_t n_head,
                             int64_t head_size);
/* q (B,T,H,S), k and v (B,T,Hkv,S) -> (B,T,H*S); lengths (B) or NULL; p: dropout of the probabilities */
struct lvn_tensor *lvn_attention(struct lvn_graph *g, struct lvn_tensor *q, struct lvn_tensor *k, struct lvn_tensor *v,
                                 struct lvn_tensor *lengths, bool causal, double scale, double p);

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
 * All ranks make the same calls in the same order. A process has one run at a time; its calls may come from any thread,
 * but not from two at once. Numbers are read and written with a decimal point, whatever the program's locale. A call
 * that fails during computation invalidates the run: close it, and resume from its last checkpoint. To evaluate or to
 * generate with a trained model of your own, open its run with LVN_OPEN_RESUME and make no step. */
struct lvn_run;
enum lvn_open { LVN_OPEN_NEW, LVN_OPEN_RESUME, LVN_OPEN_OVERWRITE }; /* as levin train, --resume and --overwrite */
/* m: NULL means model.kind of the settings. The run owns `s` until it is closed. *r is NULL after a failure. */
int lvn_run_open(struct lvn_run **r, struct lvn_settings *s, const struct lvn_own_model *m, enum lvn_open mode);
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
/* Rank 0: the prompt (NULL: sample.prompt) and its continuation, generated as the keys of `sample` say; free() it. */
int lvn_run_generate(struct lvn_run *r, const char *prompt, char **text);
int lvn_run_save(struct lvn_run *r); /* writes a checkpoint; it is on the disk when the call returns */
/* Saves unsaved steps and releases the run. NULL: nothing. Returns the failure that invalidated the run, if any. */
int lvn_run_close(struct lvn_run *r);

/* The last failure in this thread: a sentence, and "while ..." lines. */
const char *lvn_error_text(void);
const char *lvn_error_trace(void);

#ifdef __cplusplus
}
#endif
#endif
