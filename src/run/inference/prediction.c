/* prediction.c - see prediction.h. */
#include "inference/prediction.h"

#include "engine/ranks.h"
#include "inference/evaluation.h"

struct collector {
    struct lvn_prediction *out;
    bool out_of_memory;
};

static void softmax(const float *x, int64_t K, double *p)
{
    double top = -INFINITY, sum = 0.0;
    for (int64_t k = 0; k < K; k++) top = fmax(top, (double)x[k]);
    for (int64_t k = 0; k < K; k++) sum += p[k] = exp((double)x[k] - top);
    for (int64_t k = 0; k < K; k++) p[k] /= sum;
}

static void collect(void *context, const struct lvn_evaluated *e)
{
    struct collector *c = context;
    struct lvn_prediction *f = c->out;
    const int64_t K = e->shape->dim[e->shape->rank - 1];
    const bool is_number = lvn_model_predicts(e->config, LVN_LABEL_NUMBER);
    if (!f->values) f->values = lvn_calloc((size_t)(f->n * K), sizeof *f->values);
    c->out_of_memory = !f->values;
    for (int64_t i = 0; i < e->samples && !c->out_of_memory; i++) {
        const float *x = e->prediction + i * K;
        double *out = f->values + e->number[i] * K;
        if (is_number)
            *out = (double)*x;
        else
            softmax(x, K, out);
    }
}

/* Give all ranks the values of all. Values that a rank has not computed are 0, so their sum is exact. */
static enum lvn_status share_values(struct lvn_prediction *f, struct lvn_ranks *ranks)
{
    if (!f->values) f->values = lvn_calloc((size_t)(f->n * f->columns), sizeof *f->values);
    LVN_TRY(lvn_ranks_agree(ranks, f->values ? LVN_OK : LVN_MEMORY));
    if (ranks->size == 1) return LVN_OK;
    return lvn_comm_all_reduce_now(ranks->comm, f->values, f->n * f->columns, LVN_I64, LVN_SUM);
}

enum lvn_status lvn_predict(struct lvn_model_setup *setup, const struct lvn_values *v, struct lvn_ranks *ranks,
                            struct lvn_prediction *out)
{
    *out = (struct lvn_prediction){.n = setup->new_texts.n};
    struct collector c = {.out = out};
    const struct lvn_evaluate_options o = {
        .ranks = ranks, .split = LVN_SPLIT_ALL, .prediction = true, .batch = collect, .each_rank = true, .context = &c};
    struct lvn_evaluate_result r;
    enum lvn_status status = lvn_evaluate(setup, v, &o, &r);
    out->config = r.config;
    out->is_number = status == LVN_OK && lvn_model_predicts(&r.config, LVN_LABEL_NUMBER);
    out->columns = r.columns;
    lvn_evaluate_result_release(&r);
    if (status == LVN_OK) status = lvn_ranks_agree(ranks, c.out_of_memory ? LVN_MEMORY : LVN_OK);
    return status == LVN_OK ? share_values(out, ranks) : status;
}

void lvn_prediction_release(struct lvn_prediction *p)
{
    free(p->values);
    *p = (struct lvn_prediction){0};
}
