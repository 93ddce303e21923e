/* carried_files.h - files of a model's folder that levin does not read, for its checkpoints and exports: other programs
 * need generation_config.json, tokenizer.model or chat templates.
 *
 * Training and `levin export` call it. Their names are listed by stores/store.h. Files of a tokenizer that was opened
 * are written by whoever opened it, as it may be another one than the folder's (tokenizers/tokenizer.h). All
 * other files (weights in other formats, README.md, programs) are not copied. */
#ifndef LVN_CARRIED_FILES_H
#define LVN_CARRIED_FILES_H

#include "data/codec.h"
#include "model_io/pretrained.h"

struct lvn_carried_file {
    const char *name; /* relative to the folder */
    char *text;       /* any bytes */
    int64_t bytes;
};
/* A zeroed struct has none. */
enum { LVN_CARRIED_FILES = 64 };
struct lvn_carried_files {
    struct lvn_arena arena;
    struct lvn_carried_file file[LVN_CARRIED_FILES];
    int n;
};
/* Read the files of p's folder; of adapters also those of the base model's folder that theirs lacks, if with_base. One
 * that is too large, or a link to a place outside the folder, is left out with a warning. */
enum lvn_status lvn_carried_files_read(struct lvn_carried_files *f, const struct lvn_pretrained *p,
                                       bool with_base) LVN_CHECKED;
/* Put a token that ends answers into generation_config.json, if that is one of the files. */
enum lvn_status lvn_carried_files_add_end(struct lvn_carried_files *f, int64_t id) LVN_CHECKED;
void lvn_carried_files_release(struct lvn_carried_files *f);
/* Is a file of this name written for the codec? A vocabulary of characters has a tokenizer_config.json. */
bool lvn_carried_is_written(const struct lvn_codec *codec, const struct lvn_carried_file *file);

#endif
