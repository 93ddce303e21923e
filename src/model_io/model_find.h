/* model_find.h - what people give as MODEL, model.init or --tokenizer, to the place of its files.
 *
 * A name is looked for in one order: a path (~/ is the home folder), a run runs/NAME, a published model
 * (models/model.h), ORG/NAME of the Hugging Face hub; each of the last two in the hub's cache on this machine, else
 * fetched. */
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
 *   a folder with PEFT's adapters            itself, where it has no config.json
 *   any of these as a path of a store        brought to this machine (stores/store.h)
 *
 * LVN_IO with a sentence that says what was looked for when there is nothing of it. */
enum lvn_status lvn_model_find_files(struct lvn_arena *a, const char *model, const char *prefer,
                                     const char **out) LVN_CHECKED;
/* A name by which the MODEL can be found from another folder, and, where it is no path of this machine, by other
 * programs: the hub's name of its repository, the URL, or the path from the root of `found`, where its files are. */
enum lvn_status lvn_model_find_name(struct lvn_arena *a, const char *model, const char *found,
                                    const char **out) LVN_CHECKED;
/* The path of a tokenizer's file, or of a folder with one: a model brings its own. A path of a store is given back. */
enum lvn_status lvn_tokenizer_find_files(struct lvn_arena *a, const char *name, const char **out) LVN_CHECKED;
/* The size of a published model that is not on this machine, and which model that is; NULL: it is here, or no such
 * name. */
const struct lvn_size *lvn_model_find_size(struct lvn_arena *a, const char *name, const struct lvn_model **model);

#endif
