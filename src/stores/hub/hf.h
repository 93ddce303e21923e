/* hf.h - what hf.c and hf_download.c share. */
#ifndef LVN_HF_H
#define LVN_HF_H

#include "stores/store_kind.h"

struct lvn_hf {
    const char *kind;     /* "models" or "datasets" */
    const char *repo;     /* "org/name" */
    const char *revision; /* branch, tag or commit; "main" unless one is given */
    const char *endpoint; /* HF_ENDPOINT, "https://huggingface.co" */
    const char *token;    /* HF_TOKEN or the file that huggingface-cli login writes; "": none */
};

/* A file of a repository. */
struct lvn_hf_file {
    const char *name, *blob; /* blob: what the hub's cache calls its content */
    const char *sha256;      /* NULL: the hub does not say (small files) */
    int64_t bytes;           /* -1: not said */
};
struct lvn_hf_files {
    const char *commit;
    struct lvn_hf_file *file;
    int n;
};
/* All files of the repository at the place's revision. *reached false: the hub could not be asked at all. */
LVN_CHECKED enum lvn_status lvn_hf_stat(struct lvn_location *p, struct lvn_http *h, struct lvn_hf_files *out,
                                        bool *reached);

/* HF_HUB_OFFLINE: nothing is asked. */
bool lvn_hf_offline(void);
LVN_CHECKED enum lvn_status lvn_hf_download(struct lvn_location *p, struct lvn_http *h, enum lvn_store_want want,
                                            struct lvn_arena *a, const char **local);

#endif
