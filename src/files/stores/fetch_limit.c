/* fetch_limit.c - see fetch_limit.h. */
#include "stores/fetch_limit.h"

#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "base/getenv.h"
#include "base/text.h"

static const char variable[] = "LEVIN_FETCH_MAX_SIZE";
static const int64_t UNKNOWN_BYTES = (int64_t)16 << 30;
enum { RESERVE_SHARE = 100, UNKNOWN_SHARE = 2 };

int64_t lvn_size_variable(const char *name)
{
    static const char units[] = "kMGTP";
    const char *text = lvn_getenv(name);
    if (!text) return INT64_MAX;
    char *end = NULL;
    double n = strtod(text, &end);
    const char *unit = *end ? strchr(units, *end == 'K' ? 'k' : *end) : NULL;
    for (; unit && unit >= units; unit--) n *= 1024;
    return n > 0 && n < 9e18 ? (int64_t)n : INT64_MAX;
}

/* Available bytes on the disk of `dir`; INT64_MAX: unknown. */
static int64_t free_bytes(const char *dir)
{
    struct statvfs s;
    if (statvfs(dir, &s) != 0 || s.f_frsize == 0 || s.f_blocks == 0) return INT64_MAX;
    const double unit = (double)s.f_frsize, left = unit * ((double)s.f_bavail - (double)s.f_blocks / RESERVE_SHARE);
    return left <= 0 ? 0 : left < 9e18 ? (int64_t)left : INT64_MAX;
}

enum lvn_status lvn_fetch_limit_find(const char *url, const char *dir, int64_t bytes, int64_t present, int64_t *max)
{
    const int64_t configured = lvn_size_variable(variable), left = free_bytes(dir);
    char size[LVN_NUMBER_TEXT], limit[LVN_NUMBER_TEXT];
    *max = configured;
    LVN_CHECK(bytes <= configured, IO, "'%s' has %s, more than the %s that %s allows: increase it", url,
              lvn_bytes_text(bytes, size), lvn_bytes_text(configured, limit), variable);
    LVN_CHECK(
        bytes < 0 || left == INT64_MAX || bytes - present <= left, IO,
        "'%s' has %s, but the disk of '%s' has only %s available for it: free some space, or choose another folder",
        url, lvn_bytes_text(bytes - present, size), dir, lvn_bytes_text(left, limit));
    if (bytes >= 0) return LVN_OK;
    if (configured == INT64_MAX) *max = UNKNOWN_BYTES;
    if (left != INT64_MAX && *max > left / UNKNOWN_SHARE) *max = left / UNKNOWN_SHARE;
    return LVN_OK;
}

enum lvn_status lvn_fetch_limit_reached(const char *url, int64_t max)
{
    char limit[LVN_NUMBER_TEXT];
    LVN_FAIL(
        IO,
        "'%s' has no Content-Length and exceeded the limit of %s for such downloads: check that it ends, free some "
        "disk space, or increase %s",
        url, lvn_bytes_text(max, limit), variable);
}
