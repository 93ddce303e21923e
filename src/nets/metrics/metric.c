/* metric.c - every metric, and their table; see metric.h.
 *
 * A new metric is a function and a row of the table. */
#include "metrics/metric.h"

#include "graph/regression_sums.h"

/* --- of the loss --- */

static double mean_loss(const struct lvn_metric_sums *s)
{
    return s->labels ? s->loss / (double)s->labels : NAN;
}

/* The exponential of the mean loss in nats for each token. */
static double perplexity(const struct lvn_metric_sums *s)
{
    return exp(mean_loss(s));
}

/* The loss in bits for each byte of text: comparable between tokenizers. */
static double bits_per_byte(const struct lvn_metric_sums *s)
{
    return s->text.bytes ? s->text.loss / (log(2.0) * (double)s->text.bytes) : NAN;
}

/* --- of classes, from the confusion matrix --- */

static double accuracy(const struct lvn_metric_sums *s)
{
    double correct = 0.0, all = 0.0;
    int64_t K = s->shape->dim[0];
    for (int64_t i = 0; i < K * K; i++) {
        all += s->counts[i];
        if (i / K == i % K) correct += s->counts[i];
    }
    return all > 0.0 ? correct / all : NAN;
}

/* A score from a confusion matrix (K,K; rows: actual class): score(true positives, predicted, actual) of class 1 if K
 * is 2, otherwise the mean over classes ("macro"). Classes neither present nor predicted are skipped; if all are, the
 * score is NaN, or 0 if K is 2. */
static double score_classes(const struct lvn_metric_sums *s,
                            double (*score)(double correct, double predicted, double actual))
{
    int64_t K = s->shape->dim[0];
    double sum = 0.0, classes = 0.0;
    for (int64_t k = K == 2; k < K; k++) {
        double predicted = 0.0, actual = 0.0;
        for (int64_t i = 0; i < K; i++) {
            predicted += s->counts[i * K + k];
            actual += s->counts[k * K + i];
        }
        if (predicted + actual == 0.0) continue;
        sum += score(s->counts[k * K + k], predicted, actual);
        classes++;
    }
    const double none = K == 2 ? 0.0 : NAN; /* class 1 neither present nor predicted: 0, as in scikit-learn */
    return classes > 0.0 ? sum / classes : none;
}

static double precision_of(double correct, double predicted, double actual)
{
    (void)actual;
    return predicted > 0.0 ? correct / predicted : 0.0;
}

static double recall_of(double correct, double predicted, double actual)
{
    (void)predicted;
    return actual > 0.0 ? correct / actual : 0.0;
}

/* The harmonic mean of precision and recall. */
static double f1_of(double correct, double predicted, double actual)
{
    return 2.0 * correct / (predicted + actual);
}

static double precision(const struct lvn_metric_sums *s)
{
    return score_classes(s, precision_of);
}

static double recall(const struct lvn_metric_sums *s)
{
    return score_classes(s, recall_of);
}

static double f1(const struct lvn_metric_sums *s)
{
    return score_classes(s, f1_of);
}

/* --- regression metrics --- */

struct regression {
    double n;                       /* samples */
    long double sum[LVN_SUM_COUNT]; /* see enum lvn_regression_sum */
    long double ss_residual;        /* sum of (p - t)^2 */
    long double ss_total;           /* sum of (t - mean t)^2; 0: all are equal up to rounding */
    long double ss_predictions;     /* sum of (p - mean p)^2; 0: all are equal up to rounding */
    long double covariance;         /* sum of (p - mean p)(t - mean t) */
};

/* Convert an exact sum from its limbs (levin_regression_sums()). */
static long double value_of(const double *limb)
{
    long double x = 0;
    for (int k = LVN_LIMBS - 1; k >= 0; k--) x += ldexpl((long double)limb[k], LVN_LIMB_LOWEST + k * LVN_LIMB_BITS);
    return x;
}

/* The sum of (x - mean x)^2 from the sums of x^2 and of x. Both terms are rounded before the subtraction, so the
 * difference of equal values is noise: it counts as 0 where the standard deviation is below an fp32 rounding of the
 * mean. */
static long double sum_of_squares(long double squares, long double sum, long double n)
{
    const long double of_mean = sum * sum / n, difference = squares - of_mean;
    return difference > ldexpl(of_mean, -48) ? difference : 0;
}

static struct regression regression_of(const struct lvn_metric_sums *s)
{
    struct regression m = {.n = s->counts[0]};
    for (int i = 0; i < LVN_SUM_COUNT; i++) m.sum[i] = value_of(s->counts + 1 + i * LVN_LIMBS);
    const long double t = m.sum[LVN_SUM_T], p = m.sum[LVN_SUM_P], n = m.n;
    m.ss_residual = m.sum[LVN_SUM_PP] - 2 * m.sum[LVN_SUM_PT] + m.sum[LVN_SUM_TT];
    m.ss_total = sum_of_squares(m.sum[LVN_SUM_TT], t, n);
    m.ss_predictions = sum_of_squares(m.sum[LVN_SUM_PP], p, n);
    m.covariance = m.sum[LVN_SUM_PT] - p * t / n;
    return m;
}

static double mae(const struct lvn_metric_sums *s)
{
    const struct regression m = regression_of(s);
    return m.n > 0 ? (double)(m.sum[LVN_SUM_ABS] / m.n) : NAN;
}

/* The coefficient of determination: 1 - ss_residual / ss_total. 1 is a perfect prediction, 0 that of the mean; NaN if
 * all numbers are equal. */
static double r2(const struct lvn_metric_sums *s)
{
    const struct regression m = regression_of(s);
    return m.n > 0 && m.ss_total > 0 ? (double)(1 - m.ss_residual / m.ss_total) : NAN;
}

/* Pearson's correlation of predictions and numbers; NaN if either are all equal. */
static double pearson(const struct lvn_metric_sums *s)
{
    const struct regression m = regression_of(s);
    const bool varies = m.ss_total > 0 && m.ss_predictions > 0;
    return m.n > 0 && varies ? (double)(m.covariance / sqrtl(m.ss_total * m.ss_predictions)) : NAN;
}

/* --- the table --- */

enum { TOKEN = 1U << LVN_LABEL_TOKEN, CLASS = 1U << LVN_LABEL_CLASS, NUMBER = 1U << LVN_LABEL_NUMBER };
enum { VECTOR = 1U << LVN_LABEL_VECTOR };

const struct lvn_metric lvn_metrics[] = {
    {.name = "perplexity", .labels = TOKEN, .value = perplexity},
    {.name = "bpb", .labels = TOKEN, .of_text = true, .value = bits_per_byte},
    {.name = "accuracy", .labels = CLASS, .higher_is_better = true, .counts = levin_confusion, .value = accuracy},
    {.name = "precision", .labels = CLASS, .higher_is_better = true, .counts = levin_confusion, .value = precision},
    {.name = "recall", .labels = CLASS, .higher_is_better = true, .counts = levin_confusion, .value = recall},
    {.name = "f1", .labels = CLASS, .higher_is_better = true, .counts = levin_confusion, .value = f1},
    {.name = "mse", .labels = NUMBER | VECTOR, .value = mean_loss},
    {.name = "mae", .labels = NUMBER, .counts = levin_regression_sums, .value = mae},
    {.name = "r2", .labels = NUMBER, .higher_is_better = true, .counts = levin_regression_sums, .value = r2},
    {.name = "pearson", .labels = NUMBER, .higher_is_better = true, .counts = levin_regression_sums, .value = pearson},
    {0}};

bool lvn_metric_is_for(const struct lvn_metric *m, enum lvn_label_kind label)
{
    return m->labels >> label & 1;
}
