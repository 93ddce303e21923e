/* prediction.h - predicts class probabilities, or numbers, for new texts with a model that was trained for them.
 *
 * `levin predict` and the C API call it. Texts are evaluated as rows of data without labels (data/texts/labelled.c),
 * cleaned and truncated as in training. */
#ifndef LVN_PREDICTION_H
#define LVN_PREDICTION_H

#include "setup/setup.h"

struct lvn_ranks;
struct lvn_values;

struct lvn_prediction {
    int64_t n;                      /* texts */
    bool is_number;                 /* the model predicts a number for each text instead of a class */
    int64_t columns;                /* the model's classes; 1 if is_number */
    double *values;                 /* (n, columns), in the order of the texts: probabilities, or numbers */
    struct lvn_model_config config; /* for names of classes: lvn_class_name() */
};

/* Predict the classes or numbers of the new texts in setup, which lvn_model_setup_prediction() opened. All ranks have
 * the same texts and get the whole result. Always release it. */
enum lvn_status lvn_predict(struct lvn_model_setup *setup, const struct lvn_values *v, struct lvn_ranks *ranks,
                            struct lvn_prediction *out) LVN_CHECKED;
void lvn_prediction_release(struct lvn_prediction *p);

#endif
