/* model_find.h - what people give as MODEL, or as model.init, to the place of its files. */
#ifndef LVN_MODEL_FIND_H
#define LVN_MODEL_FIND_H

#include "base/arena.h"
#include "models/model.h"

/* The path of a directory with config.json, or of a checkpoint (a .pt file) of torch.save(), in the arena:
 *
 *   a run, a checkpoint, `best` or `last`    see lvn_checkpoint_locate(); prefer: "best" or "last"
 *   a directory with config.json             itself
 *   a directory with a checkpoint            the file that the table of models says (ckpt.pt)
 *   a .pt file of torch.save()               itself
 *   a weights file beside a config.json      its directory
 *   the name or repository of a published    the model: in Hugging Face's cache on this machine, else fetched
 *   model (models/model.h)
 *   any of these as a path of a store        brought to this machine (stores/store.h)
 *
 * A model that lies on this machine goes before a name. LVN_IO with a sentence when there is nothing of it. */
enum lvn_status lvn_model_find_files(struct lvn_arena *a, const char *model, const char *prefer,
                                     const char **out) LVN_CHECKED;
/* The size of a published model that is not on this machine, and which model that is; NULL: it is here, or no such
 * name. */
const struct lvn_size *lvn_model_find_size(struct lvn_arena *a, const char *name, const struct lvn_model **model);

#endif
