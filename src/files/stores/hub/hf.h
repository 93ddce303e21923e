/* hf.h - shared by hf.c and hf_download.c. */
#ifndef LVN_HF_H
#define LVN_HF_H

#include "stores/store_kind.h"

struct lvn_hf {
    const char *kind;     /* "models" or "datasets" */
    const char *repo;     /* "org/name" */
    const char *revision; /* branch, tag or commit; default "main" */
    const char *endpoint; /* HF_ENDPOINT, "https://huggingface.co" */
    const char *token;    /* HF_TOKEN or the content of the file that huggingface-cli login writes; "": none */
};

/* A file of a repository. */
struct lvn_hf_file {
    const char *name;
    const char *blob;   /* name of its content in the hub's cache */
    const char *sha256; /* NULL: unknown (small files) */
    int64_t bytes;      /* -1: unknown */
};
struct lvn_hf_files {
    const char *commit;
    struct lvn_hf_file *file;
    int n;
    int64_t capacity; /* of file */
};
/* All files of the repository at the location's revision. *reached false: the hub did not respond, or is overloaded. */
enum lvn_status lvn_hf_stat(struct lvn_location *location, struct lvn_http *http, struct lvn_hf_files *out,
                            bool *reached) LVN_CHECKED;

/* HF_HUB_OFFLINE is set: no requests are made. */
bool lvn_hf_offline(void);
/* The same from the cache, for HF_HUB_OFFLINE and after the hub did not respond: the file or folder at the location,
 * and the entries of a folder. LVN_IO if the cache does not have it. */
enum lvn_status lvn_hf_stat_cached(struct lvn_location *location, struct lvn_object *object) LVN_CHECKED;
enum lvn_status lvn_hf_list_cached(struct lvn_location *location, bool deep, struct lvn_arena *a,
                                   struct lvn_store_entries *out) LVN_CHECKED;
enum lvn_status lvn_hf_download(struct lvn_location *location, struct lvn_http *http, enum lvn_store_want want,
                                struct lvn_arena *a, const char **local) LVN_CHECKED;

#endif
