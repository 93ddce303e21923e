/* store.h - files wherever they lie: on this machine, in a bucket, on a web server, on the Hugging Face hub.
 *
 *     /home/me/text.txt, file:///home/me/text.txt
 *     s3://BUCKET/KEY            Amazon S3, and whatever speaks its protocol (AWS_ENDPOINT_URL)
 *     gs://BUCKET/KEY            Google Cloud Storage
 *     https://HOST/PATH, http:// a web server
 *     hf://ORG/NAME/PATH         the Hugging Face hub: models, hf://datasets/ORG/NAME/PATH; @REVISION behind NAME
 *
 * All of these are "paths" here; a path without a scheme is an ordinary one. A scheme is one file and one line in
 * stores.def. Everything that goes over a network is tried again, with growing pauses, when a server is overloaded or a
 * connection breaks (LEVIN_STORE_TRIES, 8). Errors name the path, what the server said and what to do; they are LVN_IO
 * unless said otherwise, LVN_ARG for a path that is none, LVN_UNSUPPORTED without libcurl. */
#ifndef LVN_STORE_H
#define LVN_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/text.h"

/* Has it a scheme, as s3://? file:// counts. */
bool lvn_store_is_url(const char *path);
/* The same of another place than this machine: file:// does not count. */
bool lvn_store_is_remote(const char *path);

/* Called now and then from the thread that asked; total is 0 while unknown. Non-zero stops: LVN_STOPPED. */
typedef int lvn_store_progress(void *context, int64_t done, int64_t total);

enum lvn_store_kind { LVN_STORE_NOTHING, LVN_STORE_FILE, LVN_STORE_FOLDER };
struct lvn_store_entry {
    const char *name; /* relative to the folder that was listed */
    enum lvn_store_kind kind;
    int64_t bytes; /* -1: the store does not say */
};
struct lvn_store_entries {
    struct lvn_store_entry *entry; /* sorted by name */
    int n;
};
/* What is there. Nothing there is no error. */
LVN_CHECKED enum lvn_status lvn_store_stat(const char *path, enum lvn_store_kind *kind, int64_t *bytes);
/* The files in a folder, with `deep` all below it, otherwise its folders too; of a file, itself. An error when there is
 * neither. LVN_UNSUPPORTED where a store cannot list (https). */
LVN_CHECKED enum lvn_status lvn_store_list(struct lvn_arena *a, const char *path, bool deep,
                                           struct lvn_store_entries *out);

/* A file of the store as the file `local`, whose folder is made: fetched in parallel pieces into LOCAL.part, verified
 * against the checksum that the store keeps, then renamed. What is there already is replaced (a link stays, and the
 * file that it leads to is replaced); an interrupted transfer goes on where it ended when the file in the store is
 * still the same. A pipe or a device gets the bytes in order, see base/target.h. Two processes may ask for the same
 * file: one waits for the other. sha256: 64 hexadecimal digits that it must have (LVN_FORMAT otherwise), or NULL.
 * progress may be NULL. */
LVN_CHECKED enum lvn_status lvn_store_get(const char *path, const char *local, const char *sha256,
                                          lvn_store_progress *progress, void *context);
/* The local file as a file of the store, which is replaced in one move, in parallel parts where it is large; an
 * interrupted transfer goes on where it ended when the local file is still the same. */
LVN_CHECKED enum lvn_status lvn_store_put(const char *local, const char *path, lvn_store_progress *progress,
                                          void *context);
/* From anywhere to anywhere. */
LVN_CHECKED enum lvn_status lvn_store_copy(const char *from, const char *to, lvn_store_progress *progress,
                                           void *context);
/* A small file's content in memory (free() it), a NUL behind; more than `limit` bytes are LVN_FORMAT. */
LVN_CHECKED enum lvn_status lvn_store_read(const char *path, int64_t limit, char **text, int64_t *bytes);

/* Removes a file; one that is not there is no error. LVN_UNSUPPORTED where levin only reads. */
LVN_CHECKED enum lvn_status lvn_store_remove(const char *path);

/* What of a folder is needed. */
extern const char *const lvn_store_tokenizer_files[]; /* names that a tokenizer's files may have, ended by NULL */
enum lvn_store_want { LVN_WANT_ALL, LVN_WANT_MODEL, LVN_WANT_TOKENIZER, LVN_WANT_TOKENS };
/* The path on this machine, in the arena: an ordinary path is given back as it is; a file, or what is wanted of a
 * folder, is brought into the local cache (stores/cache.h) unless it is there as the store has it. */
LVN_CHECKED enum lvn_status lvn_store_download(struct lvn_arena *a, const char *path, enum lvn_store_want want,
                                               const char **local);

/* Where lvn_store_download() puts a file, in the arena; LVN_UNSUPPORTED for stores with a cache of their own. */
LVN_CHECKED enum lvn_status lvn_store_cached_path(struct lvn_arena *a, const char *path, const char **local);

/* Does a name from a store stay in the folder that it is put into? Not "../x", "/x", "a//b". */
bool lvn_store_name_is_safe(const char *name);
/* DIR/NAME for any path; in the arena. */
char *lvn_store_join(struct lvn_arena *a, const char *dir, const char *name);

#endif
