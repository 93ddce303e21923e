/* adder.c - learn to add: a test that a transformer computes.
 *
 * A sample is a + b = c with `digits` digits each, written without signs as the digits of a, of b, and of c from the
 * last to the first (so that a carry is known before it is needed), padded with zeros: 85 + 50 = 135 is 8 5 5 0 5 3 1.
 * Labels are the following digits; those inside a and b are not to be learnt and ignored.
 *
 * All 10^(2 digits) sums are split by one fixed permutation, the same for every seed of a run: a fifth of them, at most
 * 500, is held out. Nothing is read from files. */
#include "base/random.h"
#include "data/dataset.h"

enum { SPLIT_SEED = 1337, MAX_DIGITS = 9, MAX_TEST = 500 };

static int64_t power_of_ten(int64_t n)
{
    int64_t p = 1;
    while (n-- > 0) p *= 10;
    return p;
}

/* The digits of sample i: 2*digits of the problem, digits+1 of the answer. */
static void write_sum(const struct lvn_dataset *d, enum lvn_split_id split, int64_t i, int32_t *out)
{
    int64_t digits = d->block_size / 3, range = power_of_ten(digits);
    int64_t place = split == LVN_SPLIT_TRAIN ? d->split[LVN_SPLIT_VAL].n_samples + i : i;
    int64_t problem = lvn_random_permute(SPLIT_SEED, 0, range * range, place);
    int64_t a = problem / range, b = problem % range, c = a + b;
    for (int64_t k = digits - 1; k >= 0; k--, a /= 10, b /= 10) {
        out[k] = (int32_t)(a % 10);
        out[digits + k] = (int32_t)(b % 10);
    }
    for (int64_t k = 0; k <= digits; k++, c /= 10) out[2 * digits + k] = (int32_t)(c % 10);
}

static enum lvn_status sample(const struct lvn_dataset *d, enum lvn_split_id split, int64_t i, struct lvn_draw draw,
                              void *const *out)
{
    (void)draw;
    int32_t text[3 * MAX_DIGITS + 1], *ids = out[0], *labels = out[1];
    int64_t problem = d->block_size / 3 * 2;
    write_sum(d, split, i, text);
    for (int64_t t = 0; t < d->fields.field[0].dim[0]; t++) {
        bool inside = t < d->block_size;
        ids[t] = inside ? text[t] : 0;
        labels[t] = inside && t >= problem - 1 ? text[t + 1] : -1;
    }
    return LVN_OK;
}

/* Of a sample: the digits of a and b, and all but the last of those of c, which nothing follows. */
static int64_t tokens_of(int64_t digits)
{
    return 3 * digits;
}

static int64_t digits_of(const struct lvn_data_options *o)
{
    return o->digits ? o->digits : 2;
}

static void fields(const struct lvn_data_options *o, struct lvn_fields *out)
{
    *out = lvn_stream_fields(o->block_size ? o->block_size : tokens_of(digits_of(o)), 10);
}

static enum lvn_status open_adder(struct lvn_dataset *d, const struct lvn_data_options *o)
{
    int64_t digits = digits_of(o);
    LVN_CHECK(digits >= 1 && digits <= MAX_DIGITS, ARG, "data.digits is %lld; the adder takes 1 to %d",
              (long long)digits, MAX_DIGITS);
    LVN_CHECK(!o->path || !*o->path, ARG,
              "data.kind=adder makes its own sums: data.path ('%s') is not used, leave it out", o->path);
    LVN_TRY(lvn_vocab_from_text(&d->vocabulary, "the adder", "0123456789", 10));
    int64_t problems = power_of_ten(2 * digits), held_out = problems / 5 < MAX_TEST ? problems / 5 : MAX_TEST;
    d->vocab_size = 10;
    d->answers = true;
    d->block_size = tokens_of(digits);
    d->split[LVN_SPLIT_TRAIN].n_samples = problems - held_out;
    d->split[LVN_SPLIT_VAL].n_samples = held_out;
    d->split[LVN_SPLIT_ALL].n_samples = problems;
    return LVN_OK;
}

extern const struct lvn_dataset_kind lvn_dataset_adder;
const struct lvn_dataset_kind lvn_dataset_adder = {
    .name = "adder",
    .help = "sums of two numbers of data.digits digits, made on the spot",
    .typical_vocab = 10,
    .generated_tokens = tokens_of,
    .fields = fields,
    .open = open_adder,
    .sample = sample,
};
