/* store_kind.h - what a kind of store must be able to do; private to src/stores.
 *
 * Stores on a network speak HTTP and differ in few things: how a path and credentials become a request, how a folder is
 * listed, how an upload is put together. Everything else is shared: store_request.c sends, tries again and explains,
 * store_get.c and store_put.c move files in pieces. */
#ifndef LVN_STORE_KIND_H
#define LVN_STORE_KIND_H

#include "base/target.h"
#include "stores/http.h"
#include "stores/store.h"

struct lvn_location;

/* A file in a store, as it is now. */
struct lvn_object {
    enum lvn_store_kind kind;
    int64_t bytes;     /* -1: not said */
    bool ranges;       /* any piece of it can be asked for */
    char version[160]; /* differs whenever the content does; "": not known */
    char checksum[80]; /* as in digest.h; "": not known */
};

/* One request about a key of a place. */
struct lvn_store_request {
    const char *method;
    const char *key;     /* NULL: the place's own */
    const char *query;   /* encoded, its names in order, no '?'; NULL: none */
    const char *headers; /* more of them, "Name: value\n" */
    const void *body;
    int64_t bytes;
    bool (*on_data)(void *context, const void *data, int64_t bytes);
    void *context;
    const char *action; /* for messages: "read", "write", "list" */
    int accept[3];      /* codes besides 200..299 that are no failure */
    bool no_retry;      /* not tried again: what may pass is no failure either */
};

/* An upload, from the local file `bytes` long. `parts` are numbered from 1. */
struct lvn_upload {
    struct lvn_location *location;
    int64_t bytes, part_bytes;
    int n_parts;
    char id[2048];     /* what the store calls it; "": not begun */
    int64_t sent;      /* of stores that take parts one by one: bytes that are there */
    char (*etags)[80]; /* [n_parts] what the store said about each part; "": not there yet */
};
struct lvn_upload_ops {
    int64_t min_part, max_parts; /* parts are of least_part bytes times a power of two, the last one of less */
    bool sequential;             /* parts must come in their order */
    /* A small file in one request. */
    enum lvn_status (*put_object)(struct lvn_location *p, struct lvn_http *h, const void *data,
                                  int64_t bytes) LVN_CHECKED;
    enum lvn_status (*begin)(struct lvn_upload *u, struct lvn_http *h) LVN_CHECKED;
    /* The tags of parts that are there already, for an `id` from before; *alive false: the store has forgotten it. */
    enum lvn_status (*resume)(struct lvn_upload *u, struct lvn_http *h, bool *alive) LVN_CHECKED;
    enum lvn_status (*part)(struct lvn_upload *u, struct lvn_http *h, int number, const void *data,
                            int64_t bytes) LVN_CHECKED;
    enum lvn_status (*finish)(struct lvn_upload *u, struct lvn_http *h) LVN_CHECKED;
};

struct lvn_store {
    const char *url_format;     /* "s3://BUCKET/KEY", for messages */
    bool network;               /* needs struct lvn_http */
    bool follows;               /* redirections: its requests are not signed */
    const char *version_header; /* what names a version better than ETag; NULL: nothing */
    /* p->url is there; fills in the rest. */
    enum lvn_status (*open)(struct lvn_location *p) LVN_CHECKED;
    void (*close)(struct lvn_location *p); /* what is not in the arena; also after open() failed. NULL: nothing */
    enum lvn_status (*stat)(struct lvn_location *p, struct lvn_http *h, struct lvn_object *o) LVN_CHECKED;
    /* Exactly n bytes from `from`, in order; of what stat found. */
    enum lvn_status (*read)(struct lvn_location *p, struct lvn_http *h, const struct lvn_object *o, int64_t offset,
                            int64_t n, bool (*on_data)(void *, const void *, int64_t), void *context) LVN_CHECKED;
    /* Below the place's key; the names in `a`. NULL: this store cannot. */
    enum lvn_status (*list)(struct lvn_location *p, struct lvn_http *h, bool deep, struct lvn_arena *a,
                            struct lvn_store_entries *out) LVN_CHECKED;
    /* Removes the file. NULL: this store cannot. */
    enum lvn_status (*remove)(struct lvn_location *p, struct lvn_http *h) LVN_CHECKED;
    /* Brings it to this machine into a cache of the store's own. NULL: as cache.h does it. */
    enum lvn_status (*download)(struct lvn_location *p, struct lvn_http *h, enum lvn_store_want want,
                                struct lvn_arena *a, const char **local) LVN_CHECKED;
    /* --- of stores on a network --- */
    /* The address that the user has set; "": the usual one. NULL: there is only one. */
    const char *(*endpoint)(const struct lvn_location *p);
    /* Address and headers for a request, in the arena; called for each try. */
    enum lvn_status (*address)(struct lvn_location *p, const struct lvn_store_request *request, struct lvn_arena *a,
                               struct lvn_http_request *r) LVN_CHECKED;
    /* After an answer that refuses (401, 403, ...): true when trying again with what has changed now (credentials, the
     * region) may help. NULL: never. */
    bool (*refresh_credentials)(struct lvn_location *p, const struct lvn_http_response *response);
    /* Does a 404 mean that this file is missing, and not, say, its bucket? NULL: always. */
    bool (*is_missing_file)(const struct lvn_http_response *response);
    /* What else the answer to stat's reading tells about the file. NULL: nothing. */
    void (*parse_headers)(const struct lvn_http_response *response, struct lvn_object *o);
    /* A checksum of the whole that stat does not tell, or one that is made faster, into o->checksum; costs a request.
     * Best effort: without one o stays as it was. NULL: stat tells all. */
    void (*fetch_checksum)(struct lvn_location *p, struct lvn_http *h, struct lvn_object *o);
    /* What the answer says, and what to do about it, for people. NULL: the code says all. */
    void (*explain)(const struct lvn_location *p, const struct lvn_http_response *response, struct lvn_text *t);
    const struct lvn_upload_ops *upload; /* NULL: read only */
};
#define LVN_STORE(name, scheme) extern const struct lvn_store lvn_store_##name;
#include "stores/stores.def"

/* A path, taken apart. Shared by the threads of a transfer. */
struct lvn_location {
    struct lvn_arena arena;
    const struct lvn_store *store;
    const char *url;
    const char *bucket; /* what stands first: a bucket, a host, a repository */
    const char *key;    /* the rest without a leading slash; "": the top */
    void *private_data; /* the store's */
};
LVN_CHECKED enum lvn_status lvn_location_open(struct lvn_location *p, const char *path);
void lvn_location_close(struct lvn_location *p);
/* "s3://bucket/a/b" into bucket "bucket" and key "a/b"; LVN_ARG without a bucket. */
LVN_CHECKED enum lvn_status lvn_location_split(struct lvn_location *p);

/* stat, and the best checksum that the store has, where the file is large enough for that to matter. */
LVN_CHECKED enum lvn_status lvn_location_stat(struct lvn_location *p, struct lvn_http *h, struct lvn_object *o);

/* lvn_store_get() into a stream. */
LVN_CHECKED enum lvn_status lvn_get_stream(const char *path, const struct lvn_target *to, const char *sha256,
                                           lvn_store_progress *progress, void *context);

/* Leaves the files that are wanted. */
void lvn_store_choose(struct lvn_store_entries *all, enum lvn_store_want want);

/* --- store_request.c --- */

/* Sends, again and again if need be; LVN_OK for codes 200 to 299 and the accepted ones, and for an answer that broke
 * off after some of it was taken (a->end). Otherwise the sentence says all. */
LVN_CHECKED enum lvn_status lvn_store_request(struct lvn_location *p, struct lvn_http *h,
                                              const struct lvn_store_request *request, struct lvn_http_response *a);
/* For asks with `once`: may another try help? Waits before the one after `tries` vain ones; false when that was the
 * last one, or h was stopped. */
bool lvn_store_request_is_transient(const struct lvn_http_response *a);
bool lvn_store_request_pause(const struct lvn_http *h, int tries, const struct lvn_http_response *a);
/* Records the sentence for an answer that is no good; returns LVN_IO. */
enum lvn_status lvn_store_request_failed(const struct lvn_location *p, const struct lvn_store_request *request,
                                         const struct lvn_http_response *a);
/* stat and read by GET with a range, as all but a few stores do it. */
LVN_CHECKED enum lvn_status lvn_store_request_stat(struct lvn_location *p, struct lvn_http *h, struct lvn_object *o);
LVN_CHECKED enum lvn_status lvn_store_request_read(struct lvn_location *p, struct lvn_http *h,
                                                   const struct lvn_object *o, int64_t offset, int64_t n,
                                                   bool (*on_data)(void *, const void *, int64_t), void *context);
/* list as stores with pages have it: GET of `key` with what is wanted and, behind the first page, the token that `add`
 * found in the one before ("": that was the last). */
struct lvn_pages {
    const char *key, *query, *token; /* query: what else is asked, "" or ending in '&'; token: its name there */
    enum lvn_status (*add)(struct lvn_location *p, const struct lvn_http_response *response, const char *prefix,
                           struct lvn_arena *a, int *capacity, struct lvn_store_entries *out, struct lvn_text *token);
};
LVN_CHECKED enum lvn_status lvn_store_request_list(struct lvn_location *p, struct lvn_http *h, bool deep,
                                                   struct lvn_arena *a, struct lvn_store_entries *out,
                                                   const struct lvn_pages *pages);
/* An ask of whose answer nothing is wanted. */
LVN_CHECKED enum lvn_status lvn_store_request_once(struct lvn_location *p, struct lvn_http *h,
                                                   const struct lvn_store_request *request);
/* Adds an entry; *room is the list's, kept by the caller, 0 at first. */
LVN_CHECKED enum lvn_status lvn_entries_add(struct lvn_arena *a, struct lvn_store_entries *list, int *capacity,
                                            const char *name, int64_t length, enum lvn_store_kind kind, int64_t bytes);

#endif
