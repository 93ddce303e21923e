/* program_data.h - data.kind=program: samples that the program gives which uses the library (levin.h, Python).
 *
 * The C API sets them before it opens a run, and takes them away when the run is closed; the kind reads them. A process
 * has one run at a time, so they are one for the process. */
#ifndef LVN_PROGRAM_DATA_H
#define LVN_PROGRAM_DATA_H

#include "data/dataset.h"

struct lvn_program_data {
    struct lvn_fields fields;
    int64_t samples[LVN_SPLIT_ALL]; /* of train, val and test */
    int64_t vocab_size;             /* of the fields with tokens; 0: they have none */
    const char *const *class_names; /* of the classes of the field `label`, as many as its `below`; NULL: none */
    bool is_stream;                 /* samples come once, in their order, and are not read in advance to compare them */
    /* Write sample i of a split, field by field. Called by any thread, by several at once. A failure has its sentence
     * in `error` (ended by 0). */
    bool (*sample)(void *context, enum lvn_split_id split, int64_t i, void *const *out, char error[400]);
    void *context;
};

/* Borrowed; NULL: none. */
void lvn_program_data_set(const struct lvn_program_data *d);

#endif
