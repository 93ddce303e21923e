/* weight_files.h - the parameters of a model as tensors of its family's files.
 *
 * Which tensor is which parameter, and how its elements lie, is decided by names alone, by the family's table (struct
 * lvn_file): a square weight shows nothing by its shape. The file's first dimension counts what a linear map puts out,
 * except where file and memory are the same and nobody looks. */
#ifndef LVN_WEIGHT_FILES_H
#define LVN_WEIGHT_FILES_H

#include "models/model.h"

enum { LVN_FILE_NAME = 512 };

/* How one parameter lies in files. */
struct lvn_layout {
    char name[LVN_FILE_NAME]; /* with the prefix */
    unsigned how;             /* LVN_FILE_... */
    int64_t head_size;        /* INTERLEAVED: channels of a head; else 0 */
    struct lvn_desc desc;     /* fp32, of the file */
};
/* `form` is the variant whose files they are. ARG where the table does not fit the parameter's shape. */
enum lvn_status lvn_file_layout(const struct lvn_model *form, const struct lvn_model_config *c,
                                const struct lvn_param *p, struct lvn_layout *out) LVN_CHECKED;
/* Do the elements lie in another order than in memory? */
bool lvn_layout_moves(const struct lvn_layout *l);
/* All elements of a parameter, `bytes` each (2, 4 or 8), from memory's order to the file's, or back. */
void lvn_layout_to_file(const struct lvn_layout *l, int64_t bytes, const void *from, void *to);
void lvn_layout_to_memory(const struct lvn_layout *l, int64_t bytes, const void *from, void *to);

/* What older files call the tensor of this name; false: nothing else. */
bool lvn_file_legacy_name(const struct lvn_model *form, const char *name, char old[LVN_FILE_NAME]);

/* What a name in a file is. */
enum lvn_file_role {
    LVN_FILE_UNKNOWN,   /* nothing that the model wants */
    LVN_FILE_PARAMETER, /* of the model: `param` */
    LVN_FILE_SPARE,     /* may be there, and is not looked at */
};
enum lvn_file_role lvn_file_role(const struct lvn_model *form, const struct lvn_params *params, const char *name,
                                 const struct lvn_param **param);
/* What files have besides a parameter: row `*row` of the table and those behind it, until one adds something. Returns
 * its `how` (FILLED: zeros, one for each column of p; AGAIN: p once more) and the name, and steps behind it; 0: no
 * more.
 */
unsigned lvn_file_beside(const struct lvn_model *form, const struct lvn_params *params, const struct lvn_param *p,
                         int *row, char name[LVN_FILE_NAME]);

#endif
