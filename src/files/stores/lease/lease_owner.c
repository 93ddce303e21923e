/* lease_owner.c - see lease_owner.h. */
#include "stores/lease/lease_owner.h"

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

/* The user's name without a query to a directory service, which may be slow. */
static const char *user_name(void)
{
    const char *name = lvn_getenv("USER");
    return name ? name : lvn_getenv("LOGNAME");
}

enum lvn_status lvn_lease_owner_init(struct lvn_lease_owner *owner, const struct lvn_lease_options *options)
{
    unsigned char bytes[(sizeof owner->instance - 1) / 2];
    const char *user = user_name();
    struct tm day;
    time_t now = time(NULL);
    *owner = (struct lvn_lease_owner){.pid = getpid(), .seconds = options->seconds};
    LVN_TRY(lvn_random_secret(bytes, sizeof bytes, "a lease"));
    lvn_hex_text(bytes, sizeof bytes, owner->instance);
    LVN_TRY(lvn_copy_bytes(owner->job, sizeof owner->job, "the job's name", options->job ? options->job : "",
                           options->job ? strlen(options->job) : 0));
    if (gethostname(owner->host, sizeof owner->host - 1) != 0) owner->host[0] = '\0';
    if (user)
        snprintf(owner->user, sizeof owner->user, "%s", user);
    else
        snprintf(owner->user, sizeof owner->user, "%lld", (long long)getuid());
    snprintf(owner->lock, sizeof owner->lock, "%s", options->lock);
    if (gmtime_r(&now, &day)) strftime(owner->since, sizeof owner->since, "%Y-%m-%dT%H:%M:%SZ", &day);
    return LVN_OK;
}

enum lvn_status lvn_lease_owner_write(const struct lvn_lease_owner *owner, struct lvn_text *t)
{
    long begun = lvn_json_begin();
    json_t *root = json_object();
    json_object_set_new(root, "instance", json_string(owner->instance));
    json_object_set_new(root, "job", json_string(owner->job));
    json_object_set_new(root, "host", json_string(owner->host));
    json_object_set_new(root, "pid", json_integer(owner->pid));
    json_object_set_new(root, "user", json_string(owner->user));
    json_object_set_new(root, "since", json_string(owner->since));
    json_object_set_new(root, "lock", json_string(owner->lock));
    json_object_set_new(root, "seconds", json_real(owner->seconds));
    json_object_set_new(root, "renewals", json_integer(owner->renewals));
    lvn_text_clear(t);
    lvn_json_add(t, begun, root, 0);
    lvn_text_add(t, "\n");
    json_decref(root);
    return lvn_text_status(t);
}

static void get(const json_t *root, const char *key, char *to, size_t capacity)
{
    const char *text = json_string_value(json_object_get(root, key));
    snprintf(to, capacity, "%s", text ? text : "");
}

bool lvn_lease_owner_read(struct lvn_lease_owner *owner, const char *text)
{
    json_error_t error;
    json_t *root = NULL;
    *owner = (struct lvn_lease_owner){0};
    if (!text || lvn_json_load(text, (int64_t)strlen(text), 0, &root, &error) != LVN_OK) lvn_error_clear();
    get(root, "instance", owner->instance, sizeof owner->instance);
    get(root, "job", owner->job, sizeof owner->job);
    get(root, "host", owner->host, sizeof owner->host);
    get(root, "user", owner->user, sizeof owner->user);
    get(root, "since", owner->since, sizeof owner->since);
    get(root, "lock", owner->lock, sizeof owner->lock);
    owner->pid = json_integer_value(json_object_get(root, "pid"));
    owner->renewals = json_integer_value(json_object_get(root, "renewals"));
    owner->seconds = json_number_value(json_object_get(root, "seconds"));
    json_decref(root);
    return *owner->instance && *owner->host;
}

const char *lvn_lease_owner_name(const struct lvn_lease_owner *owner, char text[LVN_LEASE_TEXT])
{
    if (!*owner->instance)
        snprintf(text, LVN_LEASE_TEXT, "another program");
    else
        snprintf(text, LVN_LEASE_TEXT, "%s%s of user %s on host %s (pid %lld), since %s",
                 *owner->job ? "job " : "a run", owner->job, owner->user, owner->host, owner->pid, owner->since);
    return text;
}

void lvn_lease_owner_text(const struct lvn_lease_options *options, char text[LVN_LEASE_TEXT])
{
    struct lvn_lease_owner owner;
    LVN_LOCAL_TEXT(t);
    if (lvn_lease_owner_init(&owner, options) != LVN_OK || lvn_lease_owner_write(&owner, &t) != LVN_OK ||
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
