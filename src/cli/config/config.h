/* config.h - what levin config gathers before it writes a recipe.
 *
 * The recipe is a struct lvn_settings: presets of a job first, then the file that is read (--from-...), then keys of
 * the command line, then answers; the later wins. What is no key of a recipe (machines, hosts) stands here. */
#ifndef LVN_CONFIG_H
#define LVN_CONFIG_H

#include "cli/cli.h"

enum lvn_job { LVN_JOB_FINETUNE, LVN_JOB_SCRATCH, LVN_JOB_CHARS, LVN_JOB_COUNT };
enum lvn_job_location { LVN_JOB_AT_HERE, LVN_JOB_AT_HOSTS, LVN_JOB_AT_SLURM, LVN_JOB_AT_COUNT };
extern const char *const lvn_job_words[LVN_JOB_COUNT + 1], *const lvn_job_location_words[LVN_JOB_AT_COUNT + 1];

/* Something of the file that was read and has no counterpart, or another one than its reader expects. */
struct lvn_config_note {
    const char *key, *text;
};

struct lvn_config {
    struct lvn_cli *c;
    struct lvn_settings *s;
    bool ask; /* what is not known, on the terminal; else it takes its default */
    enum lvn_job job;
    enum lvn_job_location place;
    bool has_place, has_machines, has_per_machine;
    int64_t machines, per_machine; /* per_machine: ranks of each */
    const char *hosts;             /* names with commas between them; "": not known */
    const char *hostfile;          /* of the file that was read: to be used as it is; NULL: none */
    int64_t memory;                /* bytes of each machine */
    const char *from;              /* the file that is being read */
    const char *sources;           /* all that were read, for people; NULL: none */
    struct lvn_config_note *note;
    int n_notes, note_capacity;

    /* config_plan.c */
    bool planned;
    int64_t parameters, rank_bytes, micro, accumulation;
    bool fits;
};

/* printf-like; the key as in the file. */
enum lvn_status lvn_config_note(struct lvn_config *cf, const char *key, const char *format, ...)
    LVN_PRINTF(3, 4) LVN_CHECKED;
/* Set a key of the recipe, from a line of the file (0: what the other program takes without one). */
enum lvn_status lvn_config_set(struct lvn_config *cf, const char *key, const char *value, int line) LVN_CHECKED;
bool lvn_config_names_gpu(const struct lvn_config *cf); /* the recipe, in trainer.accelerator */
/* Mixed precision in fp16, of the file's key: as it is where the recipe names a GPU; else bf16-mixed, with a note. */
enum lvn_status lvn_config_fp16(struct lvn_config *cf, const char *key, int line) LVN_CHECKED;

/* config_nanogpt.c, config_accelerate.c: read a file of another program into the recipe. */
enum lvn_status lvn_config_nanogpt_job(struct lvn_config *cf, const char *path) LVN_CHECKED; /* which job it is */
enum lvn_status lvn_config_nanogpt(struct lvn_config *cf, const char *path) LVN_CHECKED;
enum lvn_status lvn_config_accelerate(struct lvn_config *cf, const char *path) LVN_CHECKED;

/* config_questions.c: the questions. */
enum lvn_status lvn_config_ask_job(struct lvn_config *cf) LVN_CHECKED;
enum lvn_status lvn_config_ask(struct lvn_config *cf) LVN_CHECKED;
/* One sentence: what this machine's processor does with 16-bit numbers. */
const char *lvn_config_precision_text(void);

/* config_plan.c: parameters and memory of a rank, and the micro-batch where the memory wants one. */
enum lvn_status lvn_config_plan(struct lvn_config *cf) LVN_CHECKED;

/* config_write.c: the recipe as text, and the hosts file; config.c prints the rest. */
struct lvn_config_paths {
    const char *recipe, *hosts, *launch; /* hosts: NULL, none is written; launch: the line */
};
enum lvn_status lvn_config_paths(struct lvn_config *cf, struct lvn_config_paths *p) LVN_CHECKED;
enum lvn_status lvn_config_recipe(const struct lvn_config *cf, const struct lvn_config_paths *p,
                                  struct lvn_text *t) LVN_CHECKED;
void lvn_config_hosts(const struct lvn_config *cf, struct lvn_text *t);

#endif
