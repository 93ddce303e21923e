/* fetch_limit.c - see fetch_limit.h. */
#include "stores/fetch_limit.h"

#include <sys/statvfs.h>

#include "base/getenv.h"
#include "base/text.h"

static const char variable[] = "LEVIN_FETCH_MAX_SIZE";
static const int64_t MAX_BYTES_OF_UNKNOWN_SIZE = (int64_t)16 << 30;
enum {
    RESERVE_DIVISOR = 100,   /* 1 % of the disk stays free */
    UNKNOWN_SIZE_DIVISOR = 2 /* a file of unknown size may use half of the free space */
};

enum lvn_status lvn_size_variable(const char *name, int64_t *bytes)
{
    static const char units[] = "kMGTP";
    const char *text = lvn_getenv(name);
    *bytes = INT64_MAX;
    if (!text) return LVN_OK;
    char *end = NULL;
    double n = strtod(text, &end);
    const char *unit = *end ? strchr(units, *end == 'K' ? 'k' : *end) : NULL;
    const bool complete = end != text && (!*end || (unit && !end[1]));
    for (ptrdiff_t k = unit ? unit - units : -1; k >= 0; k--) n *= 1024;
    LVN_CHECK(complete && n >= 1 && n < 9e18, ARG,
              "the variable %s is '%.40s', expected a number of bytes above 0, with a unit of k, M, G, T or P: set it, "
              "for example, to 50G",
              name, text);
    *bytes = (int64_t)n;
    return LVN_OK;
}

/* Available bytes on the disk of `dir`; INT64_MAX: unknown. */
static int64_t free_bytes(const char *dir)
{
    struct statvfs s;
    if (statvfs(dir, &s) != 0 || s.f_frsize == 0 || s.f_blocks == 0) return INT64_MAX;
    const double unit = (double)s.f_frsize, left = unit * ((double)s.f_bavail - (double)s.f_blocks / RESERVE_DIVISOR);
    return left <= 0 ? 0 : left < 9e18 ? (int64_t)left : INT64_MAX;
}

enum lvn_status lvn_fetch_limit_find(const char *url, const char *dir, int64_t bytes, int64_t present, int64_t *max)
{
    const int64_t left = free_bytes(dir);
    char size[LVN_NUMBER_TEXT], limit[LVN_NUMBER_TEXT];
    LVN_TRY(lvn_size_variable(variable, max));
    LVN_CHECK(bytes <= *max, IO, "'%s' has %s, more than the limit of %s; increase %s to allow it", url,
              lvn_bytes_text(bytes, size), lvn_bytes_text(*max, limit), variable);
    LVN_CHECK(bytes < 0 || left == INT64_MAX || bytes - present <= left, IO,
              "'%s' needs %s more on the disk of '%s', which has only %s available; free some space, or choose another "
              "folder",
              url, lvn_bytes_text(bytes - present, size), dir, lvn_bytes_text(left, limit));
    if (bytes >= 0) return LVN_OK;
    if (*max == INT64_MAX) *max = MAX_BYTES_OF_UNKNOWN_SIZE;
    if (left != INT64_MAX && *max > left / UNKNOWN_SIZE_DIVISOR) *max = left / UNKNOWN_SIZE_DIVISOR;
    return LVN_OK;
}

enum lvn_status lvn_fetch_limit_reached(const char *url, int64_t max)
{
    char limit[LVN_NUMBER_TEXT];
    LVN_FAIL(
        IO,
        "'%s' has no Content-Length and exceeded the limit of %s for such downloads: check that the server ends the "
        "response, free some disk space, or increase %s",
        url, lvn_bytes_text(max, limit), variable);
}
