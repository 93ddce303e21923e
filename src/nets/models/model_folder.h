/* model_folder.h - does a folder contain a model? The names of its files decide; no file is opened.
 *
 * Called by the settings, for paths that a run has recorded, and by model_find.h, for names that users give. */
#ifndef LVN_MODEL_FOLDER_H
#define LVN_MODEL_FOLDER_H

#include "base/arena.h"
#include "models/model.h"

/* Is there a model at this path? A folder with the name of a published model that holds only a tokenizer is not that
 * model. */
bool lvn_model_is_here(struct lvn_arena *a, const char *path);
/* The file in a folder with a checkpoint of another program; NULL: none. */
const char *lvn_model_folder_checkpoint(struct lvn_arena *a, const char *path);
/* The JSON file that describes the checkpoint `path` of m (lvn_model.metadata), in the arena; NULL: its name is not one
 * of such checkpoints. It may not exist. */
const char *lvn_model_metadata_file(struct lvn_arena *a, const struct lvn_model *m, const char *path);

#endif
