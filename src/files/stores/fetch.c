/* fetch.c - see fetch.h; store.h does the transfer. */
#include "stores/fetch.h"

#include "base/files.h"
#include "base/work.h"
#include "stores/digest.h"
#include "stores/store_private.h"

static enum lvn_status check_sha256(const char *sha256)
{
    LVN_CHECK(strlen(sha256) == 64 && strspn(sha256, "0123456789abcdefABCDEF") == 64, ARG,
              "'%.80s' is not a SHA-256 checksum: expected 64 hexadecimal digits", sha256);
    return LVN_OK;
}

static enum lvn_status verify(const char *path, const char *sha256)
{
    char found[LVN_DIGEST_TEXT], *digits = found + strlen("sha256:");
    LVN_TRY(check_sha256(sha256));
    LVN_TRY(lvn_digest_file(path, "sha256:", found));
    LVN_CHECK(strcasecmp(digits, sha256) == 0, FORMAT, "'%s' is not the expected file: its SHA-256 is %s, expected %s",
              path, digits, sha256);
    return LVN_OK;
}

enum lvn_status lvn_download(const char *url, const char *sha256, const char *path, lvn_store_progress *progress,
                             void *context)
{
    LVN_CHECK(lvn_store_is_url(url), ARG, "'%s' is not a URL: expected https://, s3://, gs://, hf:// or file://", url);
    if (sha256) LVN_TRY(check_sha256(sha256));
    if (lvn_path_exists(path)) return sha256 ? verify(path, sha256) : LVN_OK;
    const char *before = lvn_work_begin("a download");
    enum lvn_status status = lvn_store_get_durable(url, path, sha256, progress, context);
    lvn_work_end(before);
    LVN_TRY_WHILE(status, "fetching '%s'; you can also copy the file to '%s' yourself", url, path);
    return LVN_OK;
}
