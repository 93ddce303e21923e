/* model_find.h - finds the files of a model or tokenizer that a user names as MODEL, model.init or --tokenizer.
 *
 * Commands and model_setup.c call it. It looks in one order: a path (~/ is the home folder), a run runs/NAME, a
 * published model (models/model.h), ORG/NAME of the Hugging Face hub; the last two in the hub's cache on this machine,
 * else they are downloaded. It opens nothing. */
#ifndef LVN_MODEL_FIND_H
#define LVN_MODEL_FIND_H

#include "base/arena.h"
#include "models/model.h"

/* The path of a directory with config.json, or of a checkpoint (a .pt file) of torch.save(), in the arena:
 *
 *   a run, a checkpoint, `best` or `last`    see lvn_checkpoint_locate(); prefer: "best" or "last"
 *   a directory with config.json             itself
 *   a directory with a checkpoint            the file of the table of models (ckpt.pt)
 *   a .pt file of torch.save()               itself
 *   a weights file next to a config.json     its directory
 *   a folder with PEFT's adapters            itself, if it has no config.json
 *   any of these as a path of a store        downloaded to this machine (stores/store.h)
 *
 * IO with a sentence that lists where it was looked for, if nothing was found. */
enum lvn_status lvn_model_find_files(struct lvn_arena *a, const char *model, const char *prefer,
                                     const char **out) LVN_CHECKED;
/* A name that finds the MODEL from any folder and, if it is not a path on this machine, in other programs: its
 * repository on the hub, its URL, or the absolute path of `found`, where its files are. */
enum lvn_status lvn_model_find_name(struct lvn_arena *a, const char *model, const char *found,
                                    const char **out) LVN_CHECKED;
/* The path of a tokenizer's file, or of a folder with one, such as a model's. A path of a store is returned as it is.
 */
enum lvn_status lvn_tokenizer_find_files(struct lvn_arena *a, const char *name, const char **out) LVN_CHECKED;
/* The size of a published model that is not on this machine, and *model; NULL: it is on this machine, or no published
 * model has that name. */
const struct lvn_size *lvn_model_find_size(struct lvn_arena *a, const char *name, const struct lvn_model **model);

/* ARG if the MODEL is a word that names no model: no path, no run, no published model. Nothing is downloaded. */
enum lvn_status lvn_model_check_name(struct lvn_arena *a, const char *model) LVN_CHECKED;
/* Is the MODEL one of levin's on this machine whose tokens are characters? Nothing is downloaded. */
bool lvn_model_has_characters(struct lvn_arena *a, const char *model);
/* "there is no run 'NAME', nor 'runs/NAME'; did you mean ...?" */
const char *lvn_run_missing(struct lvn_arena *a, const char *name);

#endif
