/* own-model.c - a custom model with levin.h, without attention: each token depends on itself and its position alone.
 *
 *     cc own-model.c -o own-model $(pkg-config --cflags --libs levin)
 *     own-model TEXT STEPS        trains on the characters of a file, into runs/own-model */
#include <levin.h>
#include <math.h>
#include <stdio.h>

/* ids (B,T) -> logits (B,T,V): embedding, then x += mlp(norm(x)), then the head */
static struct levin_tensor *logits(struct levin_graph *g, const struct levin_sizes *n, struct levin_tensor *ids,
                                   void *context)
{
    int64_t C = n->n_embd;
    (void)context;
    struct levin_tensor *table = levin_table(g, "wte", n->vocab_size, C, 0.1);
    struct levin_tensor *x = levin_embedding(g, ids, table, levin_table(g, "wpe", n->block_size, C, 0.02));
    struct levin_tensor *h = levin_layernorm(g, x, levin_vector(g, "norm", C, 1.0), NULL, 1e-5);
    h = levin_gelu(g, levin_linear(g, h, levin_weight(g, "up", C, 4 * C, 0.05), NULL, true));
    x = levin_add(g, x, levin_linear(g, h, levin_weight(g, "down", 4 * C, C, 0.05), NULL, true));
    return levin_linear(g, x, table, NULL, false); /* the head shares the table's weights */
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
    struct levin_own_model model = {.size = sizeof model, .name = "own-model", .logits = logits};
    struct levin_settings *s = levin_settings_new();
    int failed = s == NULL;
    for (int i = 0; i < 8 && !failed; i++) failed = levin_settings_put(s, keys[i][0], keys[i][1]);
    if (!failed) failed = levin_train_model(s, &model, on_step, NULL);
    if (failed) fprintf(stderr, "error: %s\n", levin_error_text());
    levin_settings_free(s);
    return failed;
}
