/* model_find.h - what people give as MODEL, or as model.init, to the place of its files. */
#ifndef LVN_MODEL_FIND_H
#define LVN_MODEL_FIND_H

#include "base/arena.h"

/* The path of a directory with config.json, or of a nanoGPT checkpoint (a .pt file), in the arena:
 *
 *   a run, a checkpoint, `best` or `last`    see lvn_checkpoint_locate(); prefer: "best" or "last"
 *   a directory with config.json             itself
 *   a directory with ckpt.pt                 that file
 *   a .pt file of torch.save()               itself
 *   a weights file beside a config.json      its directory
 *   gpt2, gpt2-medium, gpt2-large, gpt2-xl   the published model: in Hugging Face's cache on this machine, else fetched
 *   any of these as a path of a store        brought to this machine (stores/store.h)
 *
 * A model that lies on this machine goes before a name. LVN_IO with a sentence when there is nothing of it. */
enum lvn_status lvn_model_find_files(struct lvn_arena *a, const char *model, const char *prefer,
                                     const char **out) LVN_CHECKED;
/* The size (models/model.h) of a published model that is not on this machine; NULL: it is here, or no such name. */
const char *lvn_model_find_size(struct lvn_arena *a, const char *model);

#endif
