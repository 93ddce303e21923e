/* store_kind.h - the interface that a kind of store implements; private to src/files/stores.
 *
 * Stores on a network speak HTTP and differ in how a path and credentials become a request, how a folder is listed, and
 * how an upload is assembled. store_request.h sends, retries and explains errors; store_get.c
 * and store_put.c transfer files in chunks. */
#ifndef LVN_STORE_KIND_H
#define LVN_STORE_KIND_H

#include "base/target.h"
#include "stores/http.h"
#include "stores/store.h"

struct lvn_location;

enum { LVN_STORE_VERSION = 160 };
/* Metadata of a file in a store. */
struct lvn_object {
    enum lvn_store_kind kind;
    int64_t bytes;  /* -1: unknown */
    bool ranges;    /* the store supports range requests */
    bool unreached; /* stat() failed because the store did not respond or is overloaded */
    bool forbidden; /* stat() failed because the store forbids access (403), or, without a list, by any 4xx */
    bool is_page;   /* a page of HTML, which some web servers send in place of a missing file */
    char version[LVN_STORE_VERSION]; /* changes whenever the content does; "": unknown */
    char checksum[80];               /* in the notation of digest.h; "": unknown */
};

enum { LVN_STORE_ACCEPTS = 4 };
/* One request about a key of a location. */
struct lvn_store_request {
    const char *method;
    const char *key;     /* NULL: the location's */
    const char *query;   /* percent-encoded, sorted by name, no '?'; NULL: none */
    const char *headers; /* additional ones, "Name: value\n" */
    const void *body;
    int64_t bytes;
    bool (*on_data)(void *context, const void *data, int64_t bytes);
    void *context;
    const char *action;            /* for messages: "read", "write", "list" */
    int accept[LVN_STORE_ACCEPTS]; /* status codes besides 200..299 that count as success */
    bool no_retry;                 /* and a transient error counts as success */
    bool fresh;                    /* see http.h */
};

/* An upload of a local file of `bytes` bytes. Parts are numbered from 1. */
struct lvn_upload {
    struct lvn_location *location;
    int64_t bytes, part_bytes;
    int n_parts;
    char id[2048];     /* the store's upload ID; "": not begun */
    int64_t sent;      /* for stores with sequential parts: bytes that the store has */
    char (*etags)[80]; /* [n_parts] the store's ETag of each part; "": not uploaded */
};
struct lvn_upload_ops {
    int64_t min_part;  /* bytes of a part: this times a power of two; the last part may be smaller */
    int64_t max_parts; /* of one upload */
    bool sequential;   /* parts must be uploaded in order */
    /* Upload a small file in one request. */
    enum lvn_status (*put_object)(struct lvn_location *location, struct lvn_http *http, const void *data,
                                  int64_t bytes) LVN_CHECKED;
    enum lvn_status (*begin)(struct lvn_upload *upload, struct lvn_http *http) LVN_CHECKED;
    /* Get the ETags of the parts that the store has, for an `id` from an earlier run; *alive false: the store has no
     * such upload. */
    enum lvn_status (*resume)(struct lvn_upload *upload, struct lvn_http *http, bool *alive) LVN_CHECKED;
    enum lvn_status (*part)(struct lvn_upload *upload, struct lvn_http *http, int number, const void *data,
                            int64_t bytes) LVN_CHECKED;
    enum lvn_status (*finish)(struct lvn_upload *upload, struct lvn_http *http) LVN_CHECKED;
    /* Remove the parts of an upload that will not be finished. */
    enum lvn_status (*abandon)(struct lvn_upload *upload, struct lvn_http *http) LVN_CHECKED;
};

/* Conditional writes and removals: only if the file's version (lvn_object) is `version`; "": if the file does not
 * exist. Codes 404, 409 and 412: the version differs and nothing was done; 501: the store does not support the
 * condition. */
struct lvn_condition_ops {
    enum lvn_status (*put)(struct lvn_location *location, struct lvn_http *http, const void *data, int64_t bytes,
                           const char *version, struct lvn_http_response *response) LVN_CHECKED;
    enum lvn_status (*remove)(struct lvn_location *location, struct lvn_http *http, const char *version,
                              struct lvn_http_response *response) LVN_CHECKED;
    /* The version that put() has written, from its response; "": it is not in the response. */
    void (*written)(const struct lvn_http_response *response, char version[LVN_STORE_VERSION]);
};

struct lvn_store {
    const char *url_format;     /* form of its URLs, "s3://BUCKET/KEY", for messages */
    bool network;               /* uses struct lvn_http */
    bool follows;               /* follow redirections; requests are unsigned */
    const char *version_header; /* header that identifies a version better than ETag; NULL: none */
    /* Given location->url, fills in the rest. */
    enum lvn_status (*open)(struct lvn_location *location) LVN_CHECKED;
    /* Release what is not in the arena; called also after open() failed. NULL: nothing to do. */
    void (*close)(struct lvn_location *location);
    enum lvn_status (*stat)(struct lvn_location *location, struct lvn_http *http,
                            struct lvn_object *object) LVN_CHECKED;
    /* Deliver exactly n bytes from `offset`, in order; object: the result of stat(). */
    enum lvn_status (*read)(struct lvn_location *location, struct lvn_http *http, const struct lvn_object *object,
                            int64_t offset, int64_t n, bool (*on_data)(void *, const void *, int64_t),
                            void *context) LVN_CHECKED;
    /* List below the location's key, names in `a`. NULL: not supported. */
    enum lvn_status (*list)(struct lvn_location *location, struct lvn_http *http, bool deep, struct lvn_arena *a,
                            struct lvn_store_entries *out) LVN_CHECKED;
    /* Remove the file. NULL: not supported. */
    enum lvn_status (*remove)(struct lvn_location *location, struct lvn_http *http) LVN_CHECKED;
    /* Download to the store's own cache. NULL: to the cache of cache.h. */
    enum lvn_status (*download)(struct lvn_location *location, struct lvn_http *http, enum lvn_store_want want,
                                struct lvn_arena *a, const char **local) LVN_CHECKED;
    /* --- network stores only --- */
    /* The endpoint configured by the user; "": the default one. NULL: there is only one. */
    const char *(*endpoint)(const struct lvn_location *location);
    /* Set URL and headers of a request, in the arena; called for each attempt. */
    enum lvn_status (*address)(struct lvn_location *location, const struct lvn_store_request *request,
                               struct lvn_arena *a, struct lvn_http_request *http_request) LVN_CHECKED;
    /* After a refusal (401, 403, ...): true if a retry may succeed because the credentials or the region have changed.
     * NULL: never. */
    bool (*refresh_credentials)(struct lvn_location *location, const struct lvn_http_response *response);
    /* True if a 404 means that the file is missing, rather than, for example, its bucket. NULL: always. */
    bool (*is_missing_file)(const struct lvn_http_response *response);
    /* Extract further metadata of the file from the response to stat's request. NULL: there is none. */
    void (*parse_headers)(const struct lvn_http_response *response, struct lvn_object *object);
    /* Get a checksum of the whole file that stat does not deliver, or one that is faster to compute, into
     * object->checksum; costs a request. Best effort: if there is none, object is unchanged. NULL: stat delivers
     * everything. */
    void (*fetch_checksum)(struct lvn_location *location, struct lvn_http *http, struct lvn_object *object);
    /* Add the server's error message and what to do. NULL: the status code is sufficient. */
    void (*explain)(const struct lvn_location *location, const struct lvn_http_response *response, struct lvn_text *t);
    const struct lvn_upload_ops *upload;        /* NULL: read only */
    const struct lvn_condition_ops *conditions; /* NULL: none */
};
#define LVN_STORE(name, scheme) extern const struct lvn_store lvn_store_##name;
#include "stores/stores.def"

/* A parsed path. The threads of a transfer share it. */
struct lvn_location {
    struct lvn_arena arena;
    const struct lvn_store *store;
    const char *url;
    const char *bucket; /* the first component: a bucket, a host, a repository */
    const char *key;    /* the rest without a leading slash; "": the root */
    void *private_data; /* state of the store's implementation */
};

#endif
