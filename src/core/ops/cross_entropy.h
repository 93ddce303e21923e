/* cross_entropy.h - the loss of one row of logits, for the plain kernels of cross_entropy and linear_cross_entropy. */
#ifndef LVN_CROSS_ENTROPY_H
#define LVN_CROSS_ENTROPY_H

#include "ops/real.h"

/* log(sum(exp(z))) of z (V). */
static inline double lvn_logsumexp(const real *z, int64_t V)
{
    double top = z[0], sum = 0;
    for (int64_t v = 1; v < V; v++) top = z[v] > top ? z[v] : top;
    for (int64_t v = 0; v < V; v++) sum += exp((double)z[v] - top);
    return top + log(sum);
}

/* Derivative of the loss with respect to logit v: (softmax - one hot) * scale. */
static inline double lvn_cross_entropy_gradient(const real *z, double logsumexp, int32_t label, int64_t v, double scale)
{
    return (exp((double)z[v] - logsumexp) - (v == label)) * scale;
}

#endif
