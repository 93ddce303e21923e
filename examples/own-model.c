/* own-model.c - a custom model with levin.h, without attention: each token depends on itself and its position alone.
 *
 *     cc own-model.c -o own-model $(pkg-config --cflags --libs levin)
 *     own-model TEXT STEPS        trains on the characters of a file, into runs/own-model */
#include <levin.h>
#include <math.h>
#include <stdio.h>

/* ids (B,T) -> logits (B,T,V): embedding, then x += mlp(norm(x)), then the head */
static struct lvn_tensor *logits(struct lvn_graph *g, const struct lvn_sizes *n, struct lvn_tensor *ids, void *context)
{
    int64_t C = n->n_embd;
    (void)context;
    struct lvn_tensor *table = lvn_table(g, "wte", n->vocab_size, C, 0.1);
    struct lvn_tensor *x = lvn_embedding(g, ids, table, lvn_table(g, "wpe", n->block_size, C, 0.02));
    struct lvn_tensor *h = lvn_layernorm(g, x, lvn_vector(g, "norm", C, 1.0), NULL, 1e-5);
    h = lvn_gelu(g, lvn_linear(g, h, lvn_weight(g, "up", C, 4 * C, 0.05), NULL, true));
    x = lvn_add(g, x, lvn_linear(g, h, lvn_weight(g, "down", 4 * C, C, 0.05), NULL, true));
    return lvn_linear(g, x, table, NULL, false); /* the head shares the table's weights */
}

static void on_step(void *context, int64_t step, double loss, double val_loss)
{
    (void)context;
    if (!isnan(val_loss)) printf("step %lld: loss %.4f, validation %.4f\n", (long long)step, loss, val_loss);
}

int main(int argc, char **argv)
{
    const char *keys[][2] = {{"name", "own-model"},      {"data.path", argc > 1 ? argv[1] : "input.txt"},
                             {"model.n_embd", "64"},     {"trainer.max_steps", argc > 2 ? argv[2] : "300"},
                             {"model.block_size", "32"}, {"trainer.val_check_interval", "100"},
                             {"optimizer.lr", "3e-3"},   {"model.n_head", "1"}};
    struct lvn_own_model model = {.name = "own-model", .logits = logits};
    struct lvn_settings *s = lvn_settings_new();
    int failed = s == NULL;
    for (int i = 0; i < 8 && !failed; i++) failed = lvn_settings_put(s, keys[i][0], keys[i][1]);
    if (!failed) failed = lvn_train_model(s, &model, on_step, NULL);
    if (failed) fprintf(stderr, "error: %s\n", lvn_error_text());
    lvn_settings_free(s);
    return failed;
}
