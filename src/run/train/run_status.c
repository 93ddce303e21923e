/* run_status.c - see run_status.h. */
#include "train/run_status.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

static const double SILENT_SECONDS = 15; /* status.json is written every second; a busy file system may delay it */

static bool has_text(const json_t *object, const char *key, const char *text)
{
    const char *value = json_string_value(json_object_get(object, key));
    return value && strcmp(value, text) == 0;
}

/* Has the process of rank 0, on this host, ended? */
static bool is_gone(const json_t *status)
{
    char host[256] = "";
    const json_t *first = json_array_get(json_object_get(status, "ranks"), 0);
    const pid_t pid = (pid_t)json_number_value(json_object_get(first, "pid"));
    gethostname(host, sizeof host - 1);
    return has_text(first, "host", host) && pid > 0 && kill(pid, 0) && errno == ESRCH;
}

enum lvn_staleness lvn_run_staleness(const json_t *status, double silent)
{
    if (!has_text(status, "state", "running")) return LVN_STALE_NOT;
    if (is_gone(status)) return LVN_STALE_KILLED;
    return silent > SILENT_SECONDS ? LVN_STALE_SILENT : LVN_STALE_NOT;
}
