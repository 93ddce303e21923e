/* lease_owner.c - see lease_owner.h. */
#include "stores/lease/lease_owner.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "base/files.h"
#include "base/getenv.h"
#include "base/random.h"
#include "formats/json.h"

void lvn_lease_lock(int fd, char text[LVN_LEASE_LOCK_TEXT])
{
    struct stat s;
    char *boot = NULL;
    int64_t bytes;
    text[0] = '\0';
    if (fstat(fd, &s) != 0) return;
    if (lvn_file_read("/proc/sys/kernel/random/boot_id", 200, &boot, &bytes) != LVN_OK) {
        lvn_error_clear();
        return;
    }
    boot[strcspn(boot, "\n")] = '\0';
    if (!lvn_fit(text, LVN_LEASE_LOCK_TEXT, "%s/%u:%u/%llu", boot, major(s.st_dev), minor(s.st_dev),
                 (unsigned long long)s.st_ino))
        text[0] = '\0';
    free(boot);
}

/* The user's name without a look at a directory service, which may take long. */
static const char *user_name(void)
{
    const char *name = lvn_getenv("USER");
    return name ? name : lvn_getenv("LOGNAME");
}

enum lvn_status lvn_lease_owner_init(struct lvn_lease_owner *o, const struct lvn_lease_options *options)
{
    unsigned char bytes[(sizeof o->instance - 1) / 2];
    const char *user = user_name();
    struct tm day;
    time_t now = time(NULL);
    *o = (struct lvn_lease_owner){.pid = getpid(), .seconds = options->seconds};
    LVN_TRY(lvn_random_secret(bytes, sizeof bytes, "a lease"));
    lvn_hex_text(bytes, sizeof bytes, o->instance);
    LVN_TRY(lvn_copy_bytes(o->job, sizeof o->job, "the job's name", options->job ? options->job : "",
                           options->job ? strlen(options->job) : 0));
    if (gethostname(o->host, sizeof o->host - 1) != 0) o->host[0] = '\0';
    if (user)
        snprintf(o->user, sizeof o->user, "%s", user);
    else
        snprintf(o->user, sizeof o->user, "%lld", (long long)getuid());
    snprintf(o->lock, sizeof o->lock, "%s", options->lock);
    if (gmtime_r(&now, &day)) strftime(o->since, sizeof o->since, "%Y-%m-%dT%H:%M:%SZ", &day);
    return LVN_OK;
}

enum lvn_status lvn_lease_owner_write(const struct lvn_lease_owner *o, struct lvn_text *t)
{
    long begun = lvn_json_begin();
    json_t *root = json_object();
    json_object_set_new(root, "instance", json_string(o->instance));
    json_object_set_new(root, "job", json_string(o->job));
    json_object_set_new(root, "host", json_string(o->host));
    json_object_set_new(root, "pid", json_integer(o->pid));
    json_object_set_new(root, "user", json_string(o->user));
    json_object_set_new(root, "since", json_string(o->since));
    json_object_set_new(root, "lock", json_string(o->lock));
    json_object_set_new(root, "seconds", json_real(o->seconds));
    json_object_set_new(root, "renewals", json_integer(o->renewals));
    lvn_text_clear(t);
    lvn_json_add(t, begun, root, 0);
    lvn_text_add(t, "\n");
    json_decref(root);
    return lvn_text_status(t);
}

static void take(const json_t *root, const char *key, char *to, size_t capacity)
{
    const char *text = json_string_value(json_object_get(root, key));
    snprintf(to, capacity, "%s", text ? text : "");
}

bool lvn_lease_owner_read(struct lvn_lease_owner *o, const char *text)
{
    json_error_t error;
    json_t *root = NULL;
    *o = (struct lvn_lease_owner){0};
    if (!text || lvn_json_load(text, (int64_t)strlen(text), 0, &root, &error) != LVN_OK) lvn_error_clear();
    take(root, "instance", o->instance, sizeof o->instance);
    take(root, "job", o->job, sizeof o->job);
    take(root, "host", o->host, sizeof o->host);
    take(root, "user", o->user, sizeof o->user);
    take(root, "since", o->since, sizeof o->since);
    take(root, "lock", o->lock, sizeof o->lock);
    o->pid = json_integer_value(json_object_get(root, "pid"));
    o->renewals = json_integer_value(json_object_get(root, "renewals"));
    o->seconds = json_number_value(json_object_get(root, "seconds"));
    json_decref(root);
    return *o->instance && *o->host;
}

const char *lvn_lease_owner_name(const struct lvn_lease_owner *o, char text[LVN_LEASE_TEXT])
{
    if (!*o->instance)
        snprintf(text, LVN_LEASE_TEXT, "another program");
    else
        snprintf(text, LVN_LEASE_TEXT, "%s%s of user %s on host %s (pid %lld), since %s", *o->job ? "job " : "a run",
                 o->job, o->user, o->host, o->pid, o->since);
    return text;
}

void lvn_lease_owner_text(const struct lvn_lease_options *options, char text[LVN_LEASE_TEXT])
{
    struct lvn_lease_owner o;
    LVN_LOCAL_TEXT(t);
    if (lvn_lease_owner_init(&o, options) != LVN_OK || lvn_lease_owner_write(&o, &t) != LVN_OK ||
        !lvn_fit(text, LVN_LEASE_TEXT, "%s", t.p)) {
        text[0] = '\0';
        lvn_error_clear();
    }
}

bool lvn_lease_owner_describe(const char *owner, char text[LVN_LEASE_TEXT])
{
    struct lvn_lease_owner o;
    if (!lvn_lease_owner_read(&o, owner)) return false;
    lvn_lease_owner_name(&o, text);
    return true;
}
