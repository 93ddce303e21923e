/* store.h - files on this machine, in a bucket, on a web server, or on the Hugging Face hub; used by all code that
 * reads or writes paths given by the user.
 *
 *     /home/me/text.txt, file:///home/me/text.txt
 *     s3://BUCKET/KEY            Amazon S3 and compatible servers (AWS_ENDPOINT_URL)
 *     gs://BUCKET/KEY            Google Cloud Storage
 *     https://HOST/PATH, http:// a web server
 *     hf://ORG/NAME/PATH         the Hugging Face hub: models, hf://datasets/ORG/NAME/PATH; @REVISION after NAME
 *
 * All of these are "paths" here; a path without a scheme is a local one. Each scheme has a file and a line in
 * stores.def. Requests are retried with exponential backoff if a server is overloaded or a connection breaks
 * (LEVIN_STORE_TRIES, 8). Messages contain the path, the server's response and what to do; the status is LVN_IO unless
 * stated otherwise, LVN_ARG for an invalid path, LVN_UNSUPPORTED without libcurl. */
#ifndef LVN_STORE_H
#define LVN_STORE_H

#include "base/arena.h"
#include "base/text.h"

/* True if the path has a scheme (s3://), including file://. */
bool lvn_store_is_url(const char *path);
/* True if the path is not on this machine: the same without file://. */
bool lvn_store_is_remote(const char *path);

/* Called repeatedly from the calling thread; total is 0 while unknown. Non-zero stops the transfer: LVN_STOPPED. */
typedef int lvn_store_progress(void *context, int64_t done, int64_t total);

enum lvn_store_kind { LVN_STORE_NOTHING, LVN_STORE_FILE, LVN_STORE_FOLDER };
struct lvn_store_entry {
    const char *name; /* relative to the listed folder */
    enum lvn_store_kind kind;
    int64_t bytes; /* -1: unknown */
};
struct lvn_store_entries {
    struct lvn_store_entry *entry; /* sorted by name */
    int n;
    int64_t capacity; /* of entry */
};
/* Kind and size of a path. A missing file is LVN_STORE_NOTHING, not an error. */
enum lvn_status lvn_store_stat(const char *path, enum lvn_store_kind *kind, int64_t *bytes) LVN_CHECKED;
/* Prefix of the files with the owner of a run (lease/lease.h); listings omit them. */
#define LVN_LEASE_NAME ".lease"
/* The files in a folder: with `deep` all files in its subfolders too, otherwise the names of its subfolders; for a
 * file, the file itself. LVN_IO if the path does not exist. LVN_UNSUPPORTED if the store cannot list (https). */
enum lvn_status lvn_store_list(struct lvn_arena *a, const char *path, bool deep,
                               struct lvn_store_entries *out) LVN_CHECKED;

/* Download a file of the store to `local`, whose folder is created. Chunks are fetched in parallel into LOCAL.part,
 * verified against the store's checksum, then renamed. An existing file is replaced (for a link,
 * its target); an interrupted transfer resumes if the file in the store is unchanged. A pipe or device receives the
 * bytes in order, see base/target.h. If two processes fetch the same file, one waits for the other. sha256: 64
 * hexadecimal digits that must match (else LVN_FORMAT), or NULL. progress may be NULL. */
enum lvn_status lvn_store_get(const char *path, const char *local, const char *sha256, lvn_store_progress *progress,
                              void *context) LVN_CHECKED;
/* Upload a local file; the file in the store is replaced atomically. Large files go in parallel parts; an interrupted
 * transfer resumes if the local file is unchanged. */
enum lvn_status lvn_store_put(const char *local, const char *path, lvn_store_progress *progress,
                              void *context) LVN_CHECKED;
/* The same; LVN_STOPPED as soon as may_continue(context) is false. Any thread calls it before and during each request.
 */
enum lvn_status lvn_store_put_while(const char *local, const char *path, bool (*may_continue)(void *context),
                                    void *context) LVN_CHECKED;
/* Copy between any two paths. */
enum lvn_status lvn_store_copy(const char *from, const char *to, lvn_store_progress *progress,
                               void *context) LVN_CHECKED;
/* Read a small file into memory (free() it), with a NUL after the last byte; LVN_FORMAT if it has more than `limit`
 * bytes. */
enum lvn_status lvn_store_read(const char *path, int64_t limit, char **text, int64_t *bytes) LVN_CHECKED;
/* The same, but only the last `limit` bytes if the file has more. */
enum lvn_status lvn_store_read_tail(const char *path, int64_t limit, char **text, int64_t *bytes) LVN_CHECKED;

/* Remove a file; a missing one is not an error. LVN_UNSUPPORTED if the store is read-only. */
enum lvn_status lvn_store_remove(const char *path) LVN_CHECKED;

/* File names in a model's folder, ending with NULL: the files of the tokenizers that levin implements; other files of
 * tokenizers and of models, which levin copies to checkpoints and exports. */
extern const char *const lvn_store_tokenizer_files[], *const lvn_store_tokenizer_companions[],
                                                          *const lvn_store_model_companions[];
/* True if the name, relative to the model's folder, is an additional chat template: any .jinja file in this folder. The
 * one for conversations with tools is a companion of the tokenizer. */
#define LVN_CHAT_TEMPLATES "additional_chat_templates"
#define LVN_TOOL_TEMPLATE LVN_CHAT_TEMPLATES "/tool_use.jinja"
bool lvn_store_is_chat_template(const char *name);
/* LVN_WANT_RUNS: what reports read of a run, or of each run in a folder; no checkpoints. */
enum lvn_store_want { LVN_WANT_ALL, LVN_WANT_MODEL, LVN_WANT_TOKENIZER, LVN_WANT_TOKENS, LVN_WANT_RUNS };
/* The path on this machine, in the arena. A local path is returned unchanged; a file, or the wanted files of a folder,
 * are downloaded to the cache (stores/cache.h) unless it has their current version. */
enum lvn_status lvn_store_download(struct lvn_arena *a, const char *path, enum lvn_store_want want,
                                   const char **local) LVN_CHECKED;

/* The wanted files of a folder in a store. Removes cached files from the cache that the folder no longer has. */
enum lvn_status lvn_store_list_wanted(struct lvn_arena *a, const char *path, enum lvn_store_want want,
                                      struct lvn_store_entries *out) LVN_CHECKED;
/* Download a file of a store to the cache if it exists; otherwise remove its cached copy. A server that forbids access
 * to a file (403) does not say whether it exists; it counts as missing. */
enum lvn_status lvn_store_download_optional(const char *path) LVN_CHECKED;
/* Download the files of a tokenizer, and config.json, that exist in the folder of `path`, a token file or a file of a
 * tokenizer. Tries each name, because a web server cannot list a folder. */
enum lvn_status lvn_store_download_companions(struct lvn_arena *a, const char *path) LVN_CHECKED;

/* The path to which lvn_store_download() writes a file, in the arena; LVN_UNSUPPORTED for stores with their own
 * cache. */
enum lvn_status lvn_store_cached_path(struct lvn_arena *a, const char *path, const char **local) LVN_CHECKED;

/* True if a name from a store stays within its folder; false for "../x", "/x", "a//b". */
bool lvn_store_name_is_safe(const char *name);
/* DIR/NAME for any path, in the arena. */
char *lvn_store_join(struct lvn_arena *a, const char *dir, const char *name);

#endif
