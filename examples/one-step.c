/* one-step.c - one training step from end to end, with levin's internal headers: the smallest program that shows how
 * levin works. Built and run by the tests.
 *
 * A GPT of two layers is written as expressions, which build a graph. The passes compile the graph into a program: a
 * list of instructions for forward, backward and the optimizer, with an offset in memory for each value. The CPU
 * backend binds the program to memory and runs it. `levin train` does the same and adds data, checkpoints and ranks.
 *
 *     build/examples/example-one-step
 *
 * Left out: loading and saving, other backends, more than one micro-batch. For models with the public header:
 * examples/own-model.c. */
#include <math.h>
#include <stdio.h>

#include "backend/backend.h"
#include "levin.h"

enum { B = 2, T = 8, V = 16, C = 32, HEADS = 4, LAYERS = 2 }; /* samples, tokens of each, vocabulary, channels */

/* y (...,out) = x (...,in) W + b, named as the weight and the bias of one linear map */
static struct levin_tensor *linear(struct levin_graph *g, const char *w, const char *b, struct levin_tensor *x,
                                   int64_t in, int64_t out)
{
    return levin_linear(g, x, levin_weight(g, w, in, out, 0.1), levin_vector(g, b, out, 0), true);
}

static struct levin_tensor *norm(struct levin_graph *g, const char *gain, const char *bias, struct levin_tensor *x)
{
    return levin_layernorm(g, x, levin_vector(g, gain, C, 1), levin_vector(g, bias, C, 0), 1e-5);
}

/* x (B,T,C) -> (B,T,C) */
static struct levin_tensor *attention(struct levin_graph *g, struct levin_tensor *x)
{
    struct levin_tensor *qkv = linear(g, "attn.qkv.weight", "attn.qkv.bias", x, C, 3 * C); /* (B,T,3C) */
    struct levin_tensor *q = levin_heads(g, qkv, 0, HEADS, C / HEADS);                     /* (B,T,H,C/H) each */
    struct levin_tensor *k = levin_heads(g, qkv, C, HEADS, C / HEADS);
    struct levin_tensor *v = levin_heads(g, qkv, 2 * C, HEADS, C / HEADS);
    const struct levin_attention_options how = {
        .size = sizeof how, .causal = true, .scale = 1 / sqrt((double)C / HEADS)};
    struct levin_tensor *y = levin_attention(g, q, k, v, &how);
    return linear(g, "attn.out.weight", "attn.out.bias", y, C, C);
}

/* ids (B,T), labels (B,T) -> the sum of the losses of all labels */
static struct levin_tensor *model(struct levin_graph *g, struct levin_tensor *ids, struct levin_tensor *labels)
{
    struct levin_tensor *table = levin_table(g, "wte.weight", V, C, 0.1);
    struct levin_tensor *x = levin_embedding(g, ids, table, levin_table(g, "wpe.weight", T, C, 0.1)); /* (B,T,C) */
    for (int i = 0; i < LAYERS; i++) {
        levin_scope(g, "h.%d", i);
        levin_block(g);
        x = levin_add(g, x, attention(g, norm(g, "ln_1.weight", "ln_1.bias", x)));
        struct levin_tensor *h = norm(g, "ln_2.weight", "ln_2.bias", x);
        h = levin_gelu(g, linear(g, "mlp.up.weight", "mlp.up.bias", h, C, 4 * C)); /* (B,T,4C) */
        x = levin_add(g, x, linear(g, "mlp.down.weight", "mlp.down.bias", h, 4 * C, C));
    }
    levin_block_end(g);
    levin_scope(g, "%s", "");
    x = norm(g, "ln_f.weight", "ln_f.bias", x);
    return levin_cross_entropy(g, levin_linear(g, x, table, NULL, false), labels); /* the head shares the table */
}

struct one {
    struct lvn_device *device;
    struct lvn_params *params;
    struct levin_graph *graph;
    struct lvn_program *program;
    struct lvn_memory *input[2]; /* ids, labels */
    struct lvn_binding binding;
    struct lvn_bound *bound;
};

/* Compile the expressions to a program for this device. */
static enum lvn_status plan(struct one *s)
{
    if (!(s->params = lvn_params_new()) || !(s->graph = lvn_graph_new(s->params, LVN_F32))) return LVN_MEMORY;
    struct levin_tensor *ids = lvn_input(s->graph, "ids", LVN_DESC(LVN_I32, B, T));
    struct levin_tensor *loss = model(s->graph, ids, lvn_input(s->graph, "labels", LVN_DESC(LVN_I32, B, T)));
    LVN_TRY(lvn_graph_status(s->graph)); /* the first expression that failed, if one did */
    LVN_TRY(lvn_params_layout(s->params, LVN_DECAY_MATRICES));
    struct lvn_optimizer adamw = {.op = LVN_OP_adamw,
                                  .attr.adamw = {.update.weight_decay = 0.1, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8}};
    return lvn_program_new(
        &s->program, s->graph, &loss, 1,
        &(struct lvn_plan_options){.n_sums = 1, .train = true, .fuse = true, .optimizer = &adamw, .device = s->device});
}

/* Memory for each buffer, initial values, and a batch made by hand: labels are the next tokens of the vocabulary. */
static enum lvn_status fill(struct one *s)
{
    const struct lvn_program *p = s->program;
    int32_t tokens[2][B * T];
    float values[4 * C * C];
    const int64_t real = sizeof *values, flat = s->params->flat_count * real;
    const int64_t bytes[LVN_BUFFER_COUNT] = {[LVN_BUFFER_ARENA] = p->arena_bytes,
                                             [LVN_BUFFER_PARAM] = flat,
                                             [LVN_BUFFER_GRAD] = p->grad_buffer_bytes * p->n_grad_buffers,
                                             [LVN_BUFFER_STATE0] = flat,
                                             [LVN_BUFFER_STATE1] = flat,
                                             [LVN_BUFFER_RESULT] = lvn_program_sums_at(p, 1)};
    for (int k = 0; k < LVN_BUFFER_COUNT; k++) LVN_TRY(lvn_memory_new(&s->binding.buffer[k], s->device, bytes[k]));
    for (int i = 0; i < s->params->n; i++) {
        const struct lvn_param *q = s->params->list[i];
        lvn_param_init(q, 1337, 0, q->count, values);
        LVN_TRY(lvn_memory_write(s->binding.buffer[LVN_BUFFER_PARAM], q->offset * real, values, q->count * real));
    }
    for (int i = 0; i < B * T; i++) {
        tokens[0][i] = i * 5 % V;
        tokens[1][i] = (i * 5 + 1) % V;
    }
    for (int k = 0; k < 2; k++) {
        LVN_TRY(lvn_memory_new(&s->input[k], s->device, sizeof tokens[k]));
        LVN_TRY(lvn_memory_write(s->input[k], 0, tokens[k], sizeof tokens[k]));
    }
    return LVN_OK;
}

/* Run the program twice: the forward pass of the second run uses the parameters that the first run has updated. */
static enum lvn_status run(struct one *s)
{
    double sum;
    struct lvn_step step = {.seed = 1337, .lr = 1e-2, .grad_scale = 1.0 / (B * T), .training = 1};
    LVN_TRY(lvn_backend_find("cpu")->open(&s->device, &(struct lvn_device_options){.real = LVN_F32, .threads = 1}));
    LVN_TRY(plan(s));
    LVN_TRY(fill(s));
    s->binding.inputs = s->input;
    s->binding.step = &step;
    s->binding.micro_batch_rows = B;
    LVN_TRY(s->device->backend->bind(&s->bound, s->program, &s->binding));
    printf("%d instructions, %lld bytes within a step\n", s->program->n_instrs, (long long)s->program->arena_bytes);
    for (; step.step < 2; step.step++) {
        LVN_TRY(s->device->backend->run(s->bound, &(struct lvn_execution){.n_micro_batches = 1}));
        LVN_TRY(lvn_memory_read(s->binding.buffer[LVN_BUFFER_RESULT], lvn_program_sums_at(s->program, 0), &sum, 8));
        printf("loss %s the step: %.4f\n", step.step ? "after" : "before", sum * step.grad_scale);
    }
    return LVN_OK;
}

int main(void)
{
    struct one s = {0};
    enum lvn_status status = run(&s);
    if (status != LVN_OK) fprintf(stderr, "error: %s\n", levin_error_text());
    if (s.bound) s.device->backend->unbind(s.bound);
    for (int k = 0; k < LVN_BUFFER_COUNT; k++) lvn_memory_free(s.binding.buffer[k]);
    for (int k = 0; k < 2; k++) lvn_memory_free(s.input[k]);
    lvn_program_free(s.program);
    lvn_graph_free(s.graph);
    lvn_params_free(s.params);
    if (s.device) s.device->backend->close(s.device);
    return status != LVN_OK;
}
