/* weight_files.h - maps the parameters of a model to tensors of its family's files: names and layouts.
 *
 * Called by model_io and by adapter_files. The family's table (struct lvn_file) maps a tensor's name to
 * its parameter and to the order of its elements: the shape of a square weight does not show whether it is transposed.
 * The first dimension of a linear layer's weight in a file is its outputs, unless file and memory have the same layout.
 * Reading and writing files is not done here. */
#ifndef LVN_WEIGHT_FILES_H
#define LVN_WEIGHT_FILES_H

#include "models/model.h"

enum { LVN_FILE_NAME = 512 };

/* The layout of one parameter in files. */
struct lvn_layout {
    char name[LVN_FILE_NAME]; /* with the prefix */
    unsigned flags;           /* LVN_FILE_... */
    int64_t head_size;        /* INTERLEAVED, PAIRED: channels of a head; else 0 */
    struct lvn_desc desc;     /* fp32, of the file */
};
/* `variant`: the one whose files they are. INTERNAL if the table does not match the parameter's shape. */
enum lvn_status lvn_file_layout(const struct lvn_model *variant, const struct lvn_model_config *c,
                                const struct lvn_param *p, struct lvn_layout *out) LVN_CHECKED;
/* Does the order of elements in the file differ from that in memory? */
bool lvn_layout_moves(const struct lvn_layout *l);
/* Copy all elements of a parameter, `bytes` each (2, 4 or 8), from the order in memory to that in the file, or back.
 * With LVN_FILE_PLUS_ONE elements are fp32. */
void lvn_layout_to_file(const struct lvn_layout *l, int64_t bytes, const void *from, void *to);
void lvn_layout_to_memory(const struct lvn_layout *l, int64_t bytes, const void *from, void *to);

/* Row i in memory, output i of a linear layer, is row row_of[i] of the file. */
void lvn_layout_rows(const struct lvn_layout *l, int32_t *row_of);

/* The n-th other name of this tensor, in older files or in those of a multimodal model; false: it has no more. */
bool lvn_file_legacy_name(const struct lvn_model *variant, const char *name, int n, char old[LVN_FILE_NAME]);

/* The name of the parameter that a tensor of a file is, whether the model has it or not. */
void lvn_file_param_name(const struct lvn_model *variant, const char *name, char out[LVN_FILE_NAME]);

/* What a tensor of a file is to the model, by its name, with or without the prefix. */
enum lvn_file_role {
    LVN_FILE_UNKNOWN,   /* the model has no use for it */
    LVN_FILE_PARAMETER, /* a parameter of the model, returned in `param` */
    LVN_FILE_EXTRA,     /* no parameter, but allowed: ignored, or derived from a parameter */
    LVN_FILE_PART,      /* LVN_FILE_OTHER_PART */
};
enum lvn_file_role lvn_file_role(const struct lvn_model *variant, const struct lvn_params *params, const char *name,
                                 const struct lvn_param **param);
/* Iterate over the tensors that files have in addition to parameter p. Starts at row `*row` of the table (0 at first)
 * and advances it. Returns the row's flags (ZERO_FILL: zeros, one for each column of p; DUPLICATE: a copy of p) and the
 * tensor's name; 0: no more. */
unsigned lvn_file_next_extra(const struct lvn_model *variant, const struct lvn_params *params,
                             const struct lvn_param *p, int *row, char name[LVN_FILE_NAME]);

#endif
