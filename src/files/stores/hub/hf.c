/* hf.c - the store of hf://ORG/NAME/PATH, models of the Hugging Face hub (also hf://models/ORG/NAME/PATH), and
 * hf://datasets/ORG/NAME/PATH, its datasets. @REVISION after NAME selects a branch, tag or commit.
 *
 * A file is at ENDPOINT/ORG/NAME/resolve/REVISION/PATH; large files are redirected to another host, and the hub's
 * response has their SHA-256. HF_TOKEN (or the file that huggingface-cli login writes) is sent only to the hub. Writing
 * is not supported. */

#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"
#include "base/getenv.h"
#include "base/list.h"
#include "base/log.h"
#include "formats/json.h"
#include "stores/hub/hub_cache.h"
#include "stores/store_private.h"
#include "stores/store_request.h"

enum { MAX_TOKEN = 4096 };

struct hf {
    const char *kind;     /* "models" or "datasets" */
    const char *repo;     /* "org/name" */
    const char *revision; /* branch, tag or commit; default "main" */
    const char *endpoint; /* HF_ENDPOINT, "https://huggingface.co" */
    const char *token;    /* HF_TOKEN or the content of the file that huggingface-cli login writes; "": none */
};

/* A file of a repository. */
struct hf_file {
    const char *name;
    const char *blob;   /* name of its content in the hub's cache */
    const char *sha256; /* NULL: unknown (small files) */
    int64_t bytes;      /* -1: unknown */
};
struct hf_files {
    const char *commit;
    struct hf_file *file;
    int n;
    int64_t capacity; /* of file */
};
/* HF_HUB_OFFLINE is set: no requests are made. */
static bool is_offline(void)
{
    static const char *const yes[] = {"1", "true", "yes", "on"};
    const char *value = lvn_getenv("HF_HUB_OFFLINE");
    for (size_t i = 0; value && i < sizeof yes / sizeof *yes; i++)
        if (strcasecmp(value, yes[i]) == 0) return true;
    return false;
}

/* HF_TOKEN, or the file HF_TOKEN_PATH, or `token` in lvn_hub_home(). */
static enum lvn_status find_token(struct lvn_arena *a, const char **out)
{
    const char *path = lvn_getenv("HF_TOKEN_PATH"), *home = path ? NULL : lvn_hub_home(a);
    char *text;
    int64_t bytes;
    const char *given = lvn_getenv("HF_TOKEN");
    if (given) {
        given += strspn(given, " \t\r\n");
        *out = lvn_arena_printf(a, "%.*s", (int)strcspn(given, " \t\r\n"), given);
        return *out ? LVN_OK : LVN_MEMORY;
    }
    *out = "";
    if (home) path = lvn_path_join(a, home, "token");
    if (!path) return LVN_MEMORY;
    if (!lvn_path_is_file(path)) return LVN_OK;
    LVN_TRY_WHILE(lvn_file_read(path, MAX_TOKEN, &text, &bytes), "reading the token of the Hugging Face hub");
    *out = lvn_arena_printf(a, "%.*s", (int)strcspn(text, " \t\r\n"), text);
    free(text);
    return *out ? LVN_OK : LVN_MEMORY;
}

/* The length of the revision at the beginning of the text. It ends at a slash, except in the hub's own branches
 * refs/pr/N and refs/convert/NAME. */
static size_t revision_length(const char *text)
{
    size_t n = strncmp(text, "refs/pr/", 8) == 0 ? 8 : strncmp(text, "refs/convert/", 13) == 0 ? 13 : 0;
    return n + strcspn(text + n, "/");
}

/* The revision with each %2F, which stands for a slash in the name of a branch, decoded. */
static const char *decode_revision(struct lvn_arena *a, const char *text, size_t n)
{
    char *revision = lvn_arena_printf(a, "%.*s", (int)n, text);
    for (char *p = revision; p && (p = strcasestr(p, "%2f")); p++) {
        *p = '/';
        memmove(p + 1, p + 3, strlen(p + 3) + 1);
    }
    return revision;
}

static enum lvn_status open_location(struct lvn_location *location)
{
    struct hf *hf = location->private_data = lvn_arena_alloc(&location->arena, sizeof *hf);
    struct lvn_arena *a = &location->arena;
    if (!hf) return LVN_MEMORY;
    const char *from = location->url + strlen("hf://");
    const bool dataset = strncmp(from, "datasets/", 9) == 0;
    hf->kind = dataset ? "datasets" : "models";
    from += dataset ? 9 : strncmp(from, "models/", 7) == 0 ? 7 : 0;
    size_t org = strcspn(from, "/"), name = from[org] ? strcspn(from + org + 1, "/@") : 0;
    LVN_CHECK(org > 0 && name > 0, ARG,
              "'%s' contains no repository: expected hf://ORG/NAME, such as hf://EleutherAI/pythia-70m", location->url);
    const char *rest = from + org + 1 + name;
    hf->repo = lvn_arena_printf(a, "%.*s", (int)(org + 1 + name), from);
    hf->revision = "main";
    if (*rest == '@') {
        const size_t n = revision_length(rest + 1);
        LVN_CHECK(n > 0, ARG, "'%s' contains no revision after the @", location->url);
        hf->revision = decode_revision(a, rest + 1, n);
        rest += n + 1;
    }
    LVN_CHECK(!hf->revision || lvn_store_name_is_safe(hf->revision), ARG, "'%s': '%s' is not a valid revision",
              location->url, hf->revision);
    location->bucket = hf->repo;
    location->key = rest + (*rest == '/');
    hf->endpoint = lvn_getenv("HF_ENDPOINT");
    if (!hf->endpoint) hf->endpoint = "https://huggingface.co";
    return hf->repo && hf->revision ? find_token(a, &hf->token) : LVN_MEMORY;
}

/* The URL of a request; a key that begins with a slash is a path of the hub itself. */
static enum lvn_status address(struct lvn_location *location, const struct lvn_store_request *request,
                               struct lvn_arena *a, struct lvn_http_request *http_request)
{
    const struct hf *hf = location->private_data;
    const char *key = request->key ? request->key : location->key;
    LVN_LOCAL_TEXT(t);
    size_t n = strlen(hf->endpoint);
    LVN_CHECK(!is_offline(), IO,
              "'%s' cannot be fetched: HF_HUB_OFFLINE is set; unset it, or download the files before", location->url);
    while (n > 0 && hf->endpoint[n - 1] == '/') n--;
    lvn_text_printf(&t, "%.*s", (int)n, hf->endpoint);
    if (*key == '/') {
        lvn_text_add(&t, key);
    } else {
        lvn_text_printf(&t, "/%s%s/resolve/", strcmp(hf->kind, "models") == 0 ? "" : "datasets/", hf->repo);
        lvn_http_encode(&t, hf->revision, false);
        lvn_text_add(&t, "/");
        lvn_http_encode(&t, key, true);
    }
    if (request->query) lvn_text_printf(&t, "?%s", request->query);
    http_request->url = lvn_text_status(&t) == LVN_OK ? lvn_arena_strdup(a, t.p) : NULL;
    http_request->headers = lvn_arena_printf(a, "%s%s%s%s", *hf->token ? "Authorization: Bearer " : "", hf->token,
                                             *hf->token ? "\n" : "", request->headers ? request->headers : "");
    return http_request->url && http_request->headers ? LVN_OK : LVN_MEMORY;
}

static bool is_missing_file(const struct lvn_http_response *response)
{
    char code[64];
    return !lvn_http_header(response, "X-Error-Code", code, sizeof code) || strcmp(code, "EntryNotFound") == 0;
}

static void explain(const struct lvn_location *location, const struct lvn_http_response *response, struct lvn_text *t)
{
    const struct hf *hf = location->private_data;
    char text[512];
    if (lvn_http_header(response, "X-Error-Message", text, sizeof text)) lvn_text_printf(t, ": %.300s", text);
    if (response->code == 404)
        lvn_text_printf(t, "; check the name '%s' and the revision '%s'", hf->repo, hf->revision);
    if (response->code == 401 || response->code == 403)
        lvn_text_add(
            t, *hf->token ? "; the token (HF_TOKEN) has no access to this repository, or the repository's name is wrong"
                          : "; the repository does not exist or requires authentication; set HF_TOKEN");
}

static void parse_headers(const struct lvn_http_response *response, struct lvn_object *object)
{
    char text[160];
    const char *sum = lvn_http_header_of_hops(response, "X-Linked-ETag", text, sizeof text);
    if (sum && *sum == '"') sum++;
    if (sum && strspn(sum, "0123456789abcdef") == 64)
        snprintf(object->checksum, sizeof object->checksum, "sha256:%.64s", sum);
}

/* --- files of a repository --- */

/* The keys of a file in the two lists of the hub. */
struct file_keys {
    const char *name, *blob, *sha256;
};

static enum lvn_status add_files(const char *name, const json_t *list, const struct file_keys *keys,
                                 struct lvn_arena *a, struct hf_files *out)
{
    LVN_CHECK(json_is_array(list), FORMAT, "%s: the hub's list of files is not a list", name);
    if (!lvn_arena_list_reserve(a, &out->file, out->n, &out->capacity, out->n + (int64_t)json_array_size(list) + 1,
                                sizeof *out->file))
        return LVN_MEMORY;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *row = json_array_get(list, i), *lfs = json_object_get(row, "lfs");
        struct hf_file *f = &out->file[out->n];
        const char *sum = NULL, *blob = NULL, *type = NULL;
        *f = (struct hf_file){.bytes = -1};
        LVN_TRY(lvn_json_string(name, row, "type", false, &type));
        if (type && strcmp(type, "file") != 0) continue;
        LVN_TRY(lvn_json_string(name, row, keys->name, true, &f->name));
        LVN_TRY(lvn_json_int(name, row, "size", false, 0, INT64_MAX, &f->bytes));
        LVN_TRY(lvn_json_string(name, row, keys->blob, false, &blob));
        if (json_is_object(lfs)) LVN_TRY(lvn_json_string(name, lfs, keys->sha256, false, &sum));
        if (sum) blob = sum;
        LVN_CHECK(!blob || (*blob && strspn(blob, "0123456789abcdefABCDEF-") == strlen(blob)), FORMAT,
                  "%s: '%.100s' is not the name of a blob", name, blob);
        LVN_CHECK(lvn_store_name_is_safe(f->name), FORMAT, "%s: the name '%.200s' leads out of its folder", name,
                  f->name);
        f->name = lvn_arena_strdup(a, f->name);
        f->blob = blob ? lvn_arena_strdup(a, blob) : NULL;
        f->sha256 = sum ? f->blob : NULL;
        if (!f->name || (blob && !f->blob)) return LVN_MEMORY;
        out->n++;
    }
    return LVN_OK;
}

/* Read the commit and the first part of its list of files. */
static enum lvn_status add_siblings(const char *name, const json_t *root, struct lvn_arena *a, struct hf_files *out)
{
    static const struct file_keys keys = {.name = "rfilename", .blob = "blobId", .sha256 = "sha256"};
    const json_t *list = json_object_get(root, "siblings");
    LVN_TRY(lvn_json_string(name, root, "sha", true, &out->commit));
    out->commit = lvn_arena_strdup(a, out->commit);
    if (!out->commit) return LVN_MEMORY;
    LVN_CHECK(strspn(out->commit, "0123456789abcdefABCDEF") == strlen(out->commit), FORMAT, "%s: 'sha' is not a commit",
              name);
    return list ? add_files(name, list, &keys, a, out) : LVN_OK;
}

static enum lvn_status add_page(const char *name, const json_t *root, struct lvn_arena *a, struct hf_files *out)
{
    static const struct file_keys keys = {.name = "path", .blob = "oid", .sha256 = "oid"};
    return add_files(name, root, &keys, a, out);
}

/* Send a request to the hub and pass the JSON of its response to `add`. */
static enum lvn_status
query(struct lvn_location *location, struct lvn_http *http, const struct lvn_store_request *request,
      struct lvn_http_response *response,
      enum lvn_status (*add)(const char *, const json_t *, struct lvn_arena *, struct hf_files *), struct hf_files *out)
{
    json_t *root = NULL;
    enum lvn_status status = lvn_store_request(location, http, request, response);
    if (status == LVN_OK)
        status = lvn_json_parse(location->url, response->body.p ? response->body.p : "", response->body.n, &root);
    if (status == LVN_OK) status = add(location->url, root, &location->arena, out);
    json_decref(root);
    return status;
}

/* Read the list of the commit's files page by page. The header Link of a page has the query of the next one, and may
 * name the hub's host instead of that of HF_ENDPOINT. The query of pages 1, 2, 4, 8, ... is compared with all later
 * ones, so that pages that repeat in any order are found. */
static enum lvn_status read_pages(struct lvn_location *location, struct lvn_http *http, struct hf_files *out)
{
    const struct hf *hf = location->private_data;
    struct lvn_http_response response = {0};
    const char *key = lvn_arena_printf(&location->arena, "/api/%s/%s/tree/%s", hf->kind, hf->repo, out->commit);
    char before[2048] = "", next[2048] = "recursive=true", link[4096];
    enum lvn_status status = key ? LVN_OK : LVN_MEMORY;
    out->n = 0;
    for (int64_t page = 1; status == LVN_OK && *next; page++) {
        struct lvn_store_request request = {.method = "GET", .key = key, .query = next, .action = "read"};
        status = query(location, http, &request, &response, add_page, out);
        if (status != LVN_OK) break;
        if (!(page & (page - 1))) snprintf(before, sizeof before, "%s", next);
        *next = '\0';
        const char *more = lvn_http_header(&response, "Link", link, sizeof link) && strstr(link, "rel=\"next\"")
                               ? strchr(link, '?')
                               : NULL;
        if (more &&
            (!lvn_fit(next, sizeof next, "%.*s", (int)strcspn(more + 1, ">"), more + 1) || !strcmp(before, next)))
            status =
                lvn_fail(LVN_IO,
                         "cannot list '%s': the hub sends no usable address of the next page, or pages that it has "
                         "sent before",
                         location->url);
    }
    lvn_http_response_release(&response);
    return status;
}

enum { CUT_FILES = 1000 }; /* a first response with this number of files may be truncated */

/* All files of the repository at the location's revision. *reached false: the hub did not respond, or is overloaded. */
static enum lvn_status stat_all(struct lvn_location *location, struct lvn_http *http, struct hf_files *out,
                                bool *reached)
{
    const struct hf *hf = location->private_data;
    struct lvn_http_response response = {0};
    LVN_LOCAL_TEXT(key);
    *out = (struct hf_files){0};
    *reached = true;
    lvn_text_printf(&key, "/api/%s/%s/revision/", hf->kind, hf->repo);
    lvn_http_encode(&key, hf->revision, false);
    LVN_TRY(lvn_text_status(&key));
    struct lvn_store_request request = {.method = "GET", .key = key.p, .query = "blobs=true", .action = "read"};
    enum lvn_status status = query(location, http, &request, &response, add_siblings, out);
    *reached = response.code != 0 && !lvn_store_request_is_transient(&response);
    lvn_http_response_release(&response);
    return status == LVN_OK && (!out->n || out->n >= CUT_FILES) ? read_pages(location, http, out) : status;
}

/* --- downloads into the hub's own cache (stores/hub/hub_cache.h), which levin and Python's tools then share ---
 *
 *     models--ORG--NAME/blobs/HASH                   the content of a file
 *     models--ORG--NAME/snapshots/COMMIT/PATH        a link to it
 *     models--ORG--NAME/refs/main                    the commit of `main` at the time of the download
 *
 * With HF_HUB_OFFLINE, or if the hub cannot be reached or is overloaded, the cached files are used. */

struct hub_download {
    struct lvn_location *location;
    const struct hf *hf;
    struct lvn_arena *a; /* that of the location */
    const char *folder;  /* models--ORG--NAME */
    const char *snapshot;
    struct hf_files all;
};

/* "../../blobs/HASH" relative to snapshots/COMMIT/a/b. */
static char *link_target(struct lvn_arena *a, const char *name, const char *blob)
{
    char *up = lvn_arena_strdup(a, "");
    for (const char *p = name; up && (p = strchr(p, '/')); p++) up = lvn_arena_printf(a, "%s../", up);
    return up ? lvn_arena_printf(a, "%s../../blobs/%s", up, blob) : NULL;
}

static enum lvn_status link_blob(const char *target, const char *path, const char *blob)
{
    if (lvn_path_exists(path)) return LVN_OK;
    unlink(path); /* a dangling link */
    if (symlink(target, path) == 0 || errno == EEXIST) return LVN_OK;
    return lvn_file_rename(blob, path); /* without links the file itself is stored there, as in Python */
}

static enum lvn_status download_one(struct hub_download *download, const struct hf_file *file)
{
    const char *path = lvn_path_join(download->a, download->snapshot, file->name);
    char *dir = path ? lvn_path_dir(download->a, path) : NULL;
    char *url = lvn_arena_printf(download->a, "hf://%s/%s@%s/%s", download->hf->kind, download->hf->repo,
                                 download->all.commit, file->name);
    if (!dir || !url) return LVN_MEMORY;
    if (lvn_path_is_file(path)) return LVN_OK;
    LVN_TRY_WHILE(lvn_dir_make(dir), "creating a folder of Hugging Face's cache; HF_HOME selects another one");
    if (!file->blob) return lvn_store_get_durable(url, path, NULL, NULL, NULL);
    char *blob = lvn_arena_printf(download->a, "%s/blobs/%s", download->folder, file->blob);
    char *target = link_target(download->a, file->name, file->blob);
    if (!blob || !target) return LVN_MEMORY;
    if (!lvn_path_is_file(blob)) LVN_TRY(lvn_store_get_durable(url, blob, file->sha256, NULL, NULL));
    return link_blob(target, path, blob);
}

/* Download the needed files below the key, or the single file `key`; *n: their number. */
static enum lvn_status download_wanted(struct hub_download *download, enum lvn_store_want want, int *n)
{
    const char *key = download->location->key;
    size_t skip = strlen(key);
    struct lvn_store_entries chosen = {0};
    while (skip && key[skip - 1] == '/') skip--;
    *n = 0;
    for (int i = 0; i < download->all.n; i++) {
        const struct hf_file *file = &download->all.file[i];
        if (skip && strcmp(file->name, key) == 0) {
            *n = 1;
            return download_one(download, file);
        }
        if (skip && (strncmp(file->name, key, skip) != 0 || file->name[skip] != '/')) continue;
        const char *name = file->name + (skip ? skip + 1 : 0);
        LVN_TRY(lvn_entries_add(download->a, &chosen, name, (int64_t)strlen(name), LVN_STORE_FILE, file->bytes));
    }
    lvn_store_choose(&chosen, want);
    for (int i = 0, k = 0; i < download->all.n && k < chosen.n; i++) { /* both lists are in the same order */
        const char *name = download->all.file[i].name + (skip ? skip + 1 : 0);
        if (strlen(download->all.file[i].name) <= skip || strcmp(name, chosen.entry[k].name) != 0) continue;
        LVN_TRY(download_one(download, &download->all.file[i]));
        k++;
    }
    *n = chosen.n;
    return LVN_OK;
}

/* Record the commit of the branch. The cache of another user may be read-only; then the next use asks the hub again. */
static enum lvn_status write_ref(struct hub_download *download)
{
    const char *snapshot;
    if (strcmp(download->hf->revision, download->all.commit) == 0) return LVN_OK;
    LVN_TRY(lvn_hub_cache_snapshot(download->a, download->folder, download->hf->revision, &snapshot));
    if (snapshot && strcmp(snapshot, download->snapshot) == 0) return LVN_OK;
    char *path = lvn_arena_printf(download->a, "%s/refs/%s", download->folder, download->hf->revision),
         *dir = path ? lvn_path_dir(download->a, path) : NULL;
    if (!dir) return LVN_MEMORY;
    enum lvn_status status = lvn_dir_make(dir);
    if (status == LVN_OK) status = lvn_file_write(path, download->all.commit, (int64_t)strlen(download->all.commit));
    if (status != LVN_IO) return status;
    lvn_log(LVN_LOG_DEBUG, "the branch is not recorded: %s", levin_error_text());
    lvn_error_clear();
    return LVN_OK;
}

/* Warn of a folder of data, of which the cache may have a part alone. Models name their parts in files, and other tools
 * leave out those that nobody needs. */
static enum lvn_status warn_of_part(const struct hub_download *download, enum lvn_store_want want, const char *path)
{
    struct lvn_store_entries cached;
    if ((want != LVN_WANT_ALL && want != LVN_WANT_TOKENS) || !lvn_path_is_dir(path)) return LVN_OK;
    LVN_TRY(lvn_store_list(download->a, path, true, &cached));
    lvn_store_choose(&cached, want);
    lvn_log_once(LVN_LOG_WARN,
                 "'%s': the %d file%s in Hugging Face's cache on this machine %s used; the hub's list of files was not "
                 "read, so others may be missing; they are downloaded when the hub can be queried",
                 download->location->url, cached.n, lvn_plural(cached.n), cached.n == 1 ? "is" : "are");
    return LVN_OK;
}

/* The path in the snapshot; LVN_IO if it is missing. */
static enum lvn_status find_in_cache(struct hub_download *download, enum lvn_store_want want, struct lvn_arena *a,
                                     const char **local)
{
    const char *snapshot, *hub = lvn_hub_cache(download->a);
    LVN_TRY(lvn_hub_cache_snapshot(download->a, download->folder, download->hf->revision, &snapshot));
    const char *path = snapshot ? lvn_path_join(download->a, snapshot, download->location->key) : "";
    if (!path || !hub) return LVN_MEMORY;
    LVN_CHECK(snapshot && lvn_path_exists(path), IO,
              "'%s' is not in Hugging Face's cache on this machine ('%s'), and %s", download->location->url, hub,
              is_offline() ? "HF_HUB_OFFLINE disables fetching" : "the hub cannot be reached");
    *local = lvn_arena_strdup(a, path);
    return *local ? warn_of_part(download, want, path) : LVN_MEMORY;
}

/* find_in_cache() after the hub did not respond, which the error record describes. */
static enum lvn_status find_without_hub(struct hub_download *download, enum lvn_store_want want, struct lvn_arena *a,
                                        const char **local)
{
    char *reason = lvn_arena_strdup(download->a, levin_error_text());
    LVN_TRY_WHILE(find_in_cache(download, want, a, local), "querying the hub: %s", reason ? reason : "");
    lvn_log_once(LVN_LOG_WARN, "the hub cannot be reached; using '%s' from the cache: %s", download->location->url,
                 *local);
    return LVN_OK;
}

/* From the cache: the file or folder at the location. LVN_IO if the cache does not have it. */
static enum lvn_status stat_cached(struct lvn_location *location, struct lvn_object *object)
{
    const struct hf *hf = location->private_data;
    struct lvn_arena *a = &location->arena;
    const char *folder = lvn_hub_cache_folder(a, hf->kind, hf->repo), *snapshot;
    struct stat s;
    *object = (struct lvn_object){.bytes = -1};
    if (!folder) return LVN_MEMORY;
    LVN_TRY(lvn_hub_cache_snapshot(a, folder, hf->revision, &snapshot));
    const char *path = snapshot ? lvn_path_join(a, snapshot, location->key) : "";
    if (!path) return LVN_MEMORY;
    if (!snapshot || stat(path, &s) != 0) return LVN_OK;
    object->kind = S_ISDIR(s.st_mode) ? LVN_STORE_FOLDER : LVN_STORE_FILE;
    if (object->kind == LVN_STORE_FILE) object->bytes = s.st_size;
    return LVN_OK;
}

static enum lvn_status list_cached(struct lvn_location *location, bool deep, struct lvn_arena *a,
                                   struct lvn_store_entries *out)
{
    struct hub_download download = {.location = location, .hf = location->private_data, .a = &location->arena};
    const char *local;
    download.folder = lvn_hub_cache_folder(download.a, download.hf->kind, download.hf->repo);
    if (!download.folder) return LVN_MEMORY;
    LVN_TRY(is_offline() ? find_in_cache(&download, LVN_WANT_MODEL, a, &local)
                         : find_without_hub(&download, LVN_WANT_MODEL, a, &local));
    return lvn_path_is_dir(local) ? lvn_store_list(a, local, deep, out) : LVN_OK;
}

static enum lvn_status download_from_hub(struct hub_download *download, enum lvn_store_want want, struct lvn_arena *a,
                                         const char **local)
{
    int n;
    download->snapshot = lvn_arena_printf(download->a, "%s/snapshots/%s", download->folder, download->all.commit);
    if (!download->snapshot) return LVN_MEMORY;
    LVN_TRY(download_wanted(download, want, &n));
    LVN_CHECK(n > 0, IO, "'%s' contains no file that levin needs", download->location->url);
    LVN_TRY(write_ref(download));
    size_t length = strlen(download->location->key);
    while (length && download->location->key[length - 1] == '/') length--;
    *local =
        lvn_arena_printf(a, "%s%s%.*s", download->snapshot, length ? "/" : "", (int)length, download->location->key);
    return *local ? LVN_OK : LVN_MEMORY;
}

static enum lvn_status download_files(struct lvn_location *location, struct lvn_http *http, enum lvn_store_want want,
                                      struct lvn_arena *a, const char **local)
{
    struct hub_download download = {.location = location, .hf = location->private_data, .a = &location->arena};
    bool reached = false;
    download.folder = lvn_hub_cache_folder(download.a, download.hf->kind, download.hf->repo);
    if (!download.folder) return LVN_MEMORY;
    if (is_offline()) return find_in_cache(&download, want, a, local);
    enum lvn_status status = stat_all(location, http, &download.all, &reached);
    if (status == LVN_OK) return download_from_hub(&download, want, a, local);
    return status == LVN_IO && !reached ? find_without_hub(&download, want, a, local) : status;
}

static enum lvn_status list(struct lvn_location *location, struct lvn_http *http, bool deep, struct lvn_arena *a,
                            struct lvn_store_entries *out)
{
    struct hf_files all;
    bool reached;
    size_t skip = strlen(location->key);
    if (is_offline()) return list_cached(location, deep, a, out);
    enum lvn_status status = stat_all(location, http, &all, &reached);
    if (status == LVN_IO && !reached) return list_cached(location, deep, a, out);
    if (status != LVN_OK) return status;
    while (skip && location->key[skip - 1] == '/') skip--;
    for (int i = 0; i < all.n; i++) {
        const char *name = all.file[i].name;
        if (skip && (strncmp(name, location->key, skip) != 0 || name[skip] != '/')) continue;
        name += skip ? skip + 1 : 0;
        size_t n = deep ? strlen(name) : strcspn(name, "/");
        bool folder = name[n] == '/', seen = false;
        for (int k = 0; k < out->n && folder && !seen; k++)
            seen = strlen(out->entry[k].name) == n && strncmp(out->entry[k].name, name, n) == 0;
        if (!seen)
            LVN_TRY(lvn_entries_add(a, out, name, (int64_t)n, folder ? LVN_STORE_FOLDER : LVN_STORE_FILE,
                                    folder ? -1 : all.file[i].bytes));
    }
    return LVN_OK;
}

static enum lvn_status stat_file(struct lvn_location *location, struct lvn_http *http, struct lvn_object *object)
{
    if (is_offline()) return stat_cached(location, object);
    enum lvn_status status = lvn_store_request_stat(location, http, object);
    if (status != LVN_IO || !object->unreached) return status;
    LVN_TRY(stat_cached(location, object));
    return object->kind == LVN_STORE_NOTHING ? status : LVN_OK; /* keep the error message of the failed request */
}

const struct lvn_store lvn_store_hf = {.url_format = "hf://ORG/NAME/PATH",
                                       .network = true,
                                       .follows = true,
                                       .version_header = "X-Linked-ETag",
                                       .open = open_location,
                                       .stat = stat_file,
                                       .read = lvn_store_request_read,
                                       .list = list,
                                       .download = download_files,
                                       .address = address,
                                       .is_missing_file = is_missing_file,
                                       .parse_headers = parse_headers,
                                       .explain = explain};
