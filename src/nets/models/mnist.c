/* mnist.c - three small networks for images of handwritten digits.
 *
 *   mnist-cnn          conv 1-32-3, ReLU, conv 32-64-3, ReLU, max-pool 2, dropout, 9216-128, ReLU, dropout, 128-10:
 *                      PyTorch's example; 1,199,882 parameters
 *   mnist-mlp          784-64-64-10 with ReLU and dropout: Lightning's example
 *   mnist-autoencoder  784-128-3-128-784 with ReLU: the first example of Lightning's documentation
 *
 * Inputs are bytes, normalized with mean and std of the configuration. Names, layouts and initial values are PyTorch's:
 * weights (out, in) or (O, C, KH, KW), and weights and biases uniform within +-1 / sqrt(fan_in). */

#include "models/model.h"

enum { SIDE = 28, PIXELS = SIDE * SIDE, CLASSES = 10 };

struct mnist {
    double mean;          /* of pixels between 0 and 1 */
    double std;           /* the same */
    double dropout_early; /* after the convolutions */
    double dropout;
};
_Static_assert(sizeof(struct mnist) <= LVN_FIELDS_BYTES, "a configuration is a plain value");

static const struct mnist *fields(const struct lvn_model_config *c)
{
    return (const struct mnist *)(const void *)c->fields;
}

/* The bias (n) of a layer with fan_in inputs to each output. */
static struct levin_tensor *bias(struct levin_graph *g, int64_t n, int64_t fan_in)
{
    return lvn_param(g, "bias", LVN_VECTOR, LVN_UNIFORM(1 / sqrt((double)fan_in)), LVN_DESC(LVN_F32, n));
}

/* x (B,in) -> (B,out) */
static struct levin_tensor *linear(struct levin_graph *g, const char *name, struct levin_tensor *x, int64_t in,
                                   int64_t out)
{
    levin_scope(g, "%s", name);
    struct levin_tensor *w =
        lvn_param(g, "weight", LVN_WEIGHT, LVN_UNIFORM(1 / sqrt((double)in)), LVN_DESC(LVN_F32, out, in));
    return levin_linear(g, x, w, bias(g, out, in), false);
}

/* x (B,in,H,W) -> (B,out,H-2,W-2) */
static struct levin_tensor *conv(struct levin_graph *g, const char *name, struct levin_tensor *x, int64_t in,
                                 int64_t out)
{
    enum { SIZE = 3 };
    int64_t fan_in = in * SIZE * SIZE;
    levin_scope(g, "%s", name);
    struct levin_tensor *w = lvn_param(g, "weight", LVN_WEIGHT, LVN_UNIFORM(1 / sqrt((double)fan_in)),
                                       LVN_DESC(LVN_F32, out, in, SIZE, SIZE));
    return levin_conv2d(g, x, w, bias(g, out, fan_in));
}

static struct levin_tensor *dropout(struct levin_graph *g, struct levin_tensor *x, double p)
{
    return p > 0.0 ? levin_dropout(g, x, p) : x;
}

/* pixels (B,1,28,28), bytes -> the same as normalized floats */
static struct levin_tensor *normalized(struct levin_graph *g, const struct lvn_model_config *c,
                                       struct levin_tensor *pixels)
{
    return levin_normalize(g, pixels, fields(c)->mean, fields(c)->std);
}

/* x (B,...) -> (B,n) */
static struct levin_tensor *flat(struct levin_graph *g, struct levin_tensor *x, int64_t n)
{
    return x ? levin_reshape(g, x, 2, (const int64_t[]){x->desc.dim[0], n}) : NULL;
}

static struct levin_tensor *build_cnn(struct levin_graph *g, const struct lvn_model_config *c,
                                      struct levin_tensor *const *inputs)
{
    enum { POOLED = 12, FEATURES = 64 * POOLED * POOLED };
    struct levin_tensor *x = normalized(g, c, inputs[0]);
    x = levin_relu(g, conv(g, "conv1", x, 1, 32));  /* (B,32,26,26) */
    x = levin_relu(g, conv(g, "conv2", x, 32, 64)); /* (B,64,24,24) */
    x = levin_max_pool2d(g, x);                     /* (B,64,12,12) */
    x = dropout(g, flat(g, x, FEATURES), fields(c)->dropout_early);
    x = levin_relu(g, linear(g, "fc1", x, FEATURES, 128));
    return linear(g, "fc2", dropout(g, x, fields(c)->dropout), 128, CLASSES);
}

static struct levin_tensor *build_mlp(struct levin_graph *g, const struct lvn_model_config *c,
                                      struct levin_tensor *const *inputs)
{
    enum { HIDDEN = 64 };
    struct levin_tensor *x = flat(g, normalized(g, c, inputs[0]), PIXELS);
    x = dropout(g, levin_relu(g, linear(g, "fc1", x, PIXELS, HIDDEN)), fields(c)->dropout);
    x = dropout(g, levin_relu(g, linear(g, "fc2", x, HIDDEN, HIDDEN)), fields(c)->dropout);
    return linear(g, "fc3", x, HIDDEN, CLASSES);
}

static struct levin_tensor *build_autoencoder(struct levin_graph *g, const struct lvn_model_config *c,
                                              struct levin_tensor *const *inputs)
{
    enum { HIDDEN = 128, CODE = 3 };
    struct levin_tensor *x = flat(g, normalized(g, c, inputs[0]), PIXELS);
    x = levin_relu(g, linear(g, "encoder.0", x, PIXELS, HIDDEN));
    x = linear(g, "encoder.2", x, HIDDEN, CODE);
    x = levin_relu(g, linear(g, "decoder.0", x, CODE, HIDDEN));
    return linear(g, "decoder.2", x, HIDDEN, PIXELS);
}

/* The autoencoder's target: its normalized input, flattened. */
static struct levin_tensor *target(struct levin_graph *g, const struct lvn_model_config *c,
                                   struct levin_tensor *const *inputs)
{
    return flat(g, normalized(g, c, inputs[0]), PIXELS);
}

/* --- the keys --- */

// clang-format off
#define X(field) LVN_KEY_REAL_OF(struct mnist, field)
#define NORMALIZATION(mean_, std_)                                                                                     \
    {X(mean), .json = "mean", .default_value = mean_, .min = -1e6, .max = 1e6},                                        \
    {X(std), .json = "std", .default_value = std_, .min = 1e-6, .max = 1e6}
#define DROPOUT(field, key, rate, where)                                                                               \
    {X(field), .json = key, .recipe = key, .default_value = rate, .min = 0, .max = 0.999, .any_time = true,            \
     .help = "fraction of values that dropout sets to zero in training" where}

static const struct lvn_key cnn_keys[] = {
    NORMALIZATION(0.1307, 0.3081),
    DROPOUT(dropout_early, "conv_dropout", 0.25, ", after the convolutions"),
    DROPOUT(dropout, "dropout", 0.5, ""),
    {.kind = LVN_KEY_END},
};
static const struct lvn_key mlp_keys[] = {
    NORMALIZATION(0.1307, 0.3081),
    DROPOUT(dropout, "dropout", 0.1, ""),
    {.kind = LVN_KEY_END},
};
static const struct lvn_key autoencoder_keys[] = {
    NORMALIZATION(0, 1),
    {.kind = LVN_KEY_END},
};
// clang-format on

/* --- the models --- */

static const struct lvn_key_value tiny[] = {{NULL, 0}}; /* they are small enough for tests */
static const struct lvn_field inputs[] = {{.name = "pixels", .dtype = LVN_U8, .rank = 3, .dim = {1, SIDE, SIDE}},
                                          {.name = NULL}};
static const char *const classify[] = {"classify", NULL}, *const reconstruct[] = {"reconstruct", NULL};

extern const struct lvn_model lvn_model_mnist_cnn, lvn_model_mnist_mlp, lvn_model_mnist_autoencoder;
const struct lvn_model lvn_model_mnist_cnn = {
    .name = "mnist-cnn",
    .help = "two convolutions and two linear layers for 28 x 28 pixels",
    .keys = cnn_keys,
    .tiny = tiny,
    .freeze_example = "[conv1, conv2]",
    .classes = CLASSES,
    .inputs = inputs,
    .tasks = classify,
    .build = build_cnn,
};
const struct lvn_model lvn_model_mnist_mlp = {
    .name = "mnist-mlp",
    .help = "three linear layers for 28 x 28 pixels",
    .keys = mlp_keys,
    .tiny = tiny,
    .freeze_example = "[fc1]",
    .classes = CLASSES,
    .inputs = inputs,
    .tasks = classify,
    .build = build_mlp,
};
const struct lvn_model lvn_model_mnist_autoencoder = {
    .name = "mnist-autoencoder",
    .help = "autoencoder of 28 x 28 pixels with a bottleneck of three values",
    .keys = autoencoder_keys,
    .tiny = tiny,
    .freeze_example = "[encoder]",
    .inputs = inputs,
    .tasks = reconstruct,
    .build = build_autoencoder,
    .target = target,
};
