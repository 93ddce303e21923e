/* program_data.h - data.kind=program: samples supplied by the program that uses the library (levin.h, Python).
 *
 * The C API sets a struct lvn_program_data before it opens a run, and removes it when the run is closed. A process has
 * one run at a time, so one pointer per process is enough. */
#ifndef LVN_PROGRAM_DATA_H
#define LVN_PROGRAM_DATA_H

#include "data/dataset.h"

struct lvn_program_data {
    struct lvn_fields fields;
    int64_t samples[LVN_SPLIT_ALL]; /* of train, val and test */
    int64_t vocab_size;             /* of the fields with tokens; 0: no field has tokens */
    const char *const *class_names; /* [`below` of the field `label`]; NULL: the classes have no names */
    bool is_iterable; /* each sample is read once, in order, and none is read in advance (for a fingerprint) */
    /* Write sample i of a split, field by field. Called by several threads concurrently. False: it failed, and `error`
     * has the message, which ends with a NUL. */
    bool (*sample)(void *context, enum lvn_split_id split, int64_t i, void *const *out, char error[400]);
    void *context;
};

/* d is borrowed; NULL removes it. */
void lvn_program_data_set(const struct lvn_program_data *d);

#endif
