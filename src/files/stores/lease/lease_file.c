/* lease_file.c - see lease_file.h: a lease in a folder that other machines may reach is the file RUN/.lease-N.
 *
 * File systems have no conditional writes, but they create a name for only one process. So the file's version is the
 * number N in its name: a new owner creates .lease-(N+1) by a link, which fails if the name exists, and removes
 * .lease-N; the owner renews only its own file, never a missing one, and checks for its successor. Each access reopens
 * the file because network file systems check the server when a file is opened. */
#include "stores/lease/lease_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"
#include "base/output.h"
#include "stores/lease/lease_place.h"

/* On a local file system, locks apply to all processes that can reach it; on others, perhaps only within one machine.
 */
bool lvn_lease_is_needed(const char *folder)
{
    return !lvn_path_is_local(folder);
}

static enum lvn_status open_file(struct lvn_lease_place *place)
{
    (void)place;
    return LVN_OK;
}

static void close_file(struct lvn_lease_place *place)
{
    (void)place;
}

/* RUN/.lease-N. */
static enum lvn_status make_name(const struct lvn_lease_place *place, long long n, char name[PATH_MAX])
{
    LVN_CHECK(lvn_fit(name, PATH_MAX, "%s/" LVN_LEASE_NAME "-%lld", place->path, n), IO,
              "the path '%.60s...' is too long", place->path);
    return LVN_OK;
}

/* The N of a file name; 0: another file. */
static long long number_of(const char *name)
{
    static const char before[] = LVN_LEASE_NAME "-";
    const char *digits = name + sizeof before - 1;
    if (strncmp(name, before, sizeof before - 1) != 0 || !*digits || strlen(digits) > 15) return 0;
    return digits[strspn(digits, "0123456789")] ? 0 : strtoll(digits, NULL, 10);
}

static enum lvn_status find_newest(const struct lvn_lease_place *place, long long *newest)
{
    LVN_LOCAL_ARENA(a);
    const char *const *names;
    int n;
    *newest = 0;
    LVN_TRY(lvn_dir_list(&a, place->path, &names, &n));
    for (int i = 0; i < n; i++)
        if (number_of(names[i]) > *newest) *newest = number_of(names[i]);
    return LVN_OK;
}

/* The content of .lease-N; *text NULL: it does not exist. */
static enum lvn_status read_number(const struct lvn_lease_place *place, long long n, char **text)
{
    char name[PATH_MAX];
    int64_t bytes;
    *text = NULL;
    LVN_TRY(make_name(place, n, name));
    enum lvn_status status = lvn_file_read(name, LVN_LEASE_MAX_BYTES, text, &bytes);
    if (status == LVN_OK || lvn_path_exists(name)) return status;
    lvn_error_clear();
    return LVN_OK;
}

static enum lvn_status read_file(struct lvn_lease_place *place)
{
    for (int tries = 0; tries < 100; tries++) { /* search again if the file was replaced meanwhile */
        long long n;
        char *text = NULL;
        LVN_TRY(find_newest(place, &n));
        if (n) LVN_TRY(read_number(place, n, &text));
        if (n && !text) continue;
        free(place->last);
        place->last = text;
        if (!lvn_fit(place->version, sizeof place->version, "%lld", n) || !n) place->version[0] = '\0';
        return LVN_OK;
    }
    LVN_FAIL(IO, "the lease in '%s' was replaced during each attempt to read it", place->path);
}

static long long version(const struct lvn_lease_place *place)
{
    return strtoll(place->version, NULL, 10);
}

/* Overwrite this process's own file. It never becomes shorter, and readers see each write as a whole. */
static enum lvn_status renew(struct lvn_lease_place *place, const char *text, enum lvn_store_written *written)
{
    char name[PATH_MAX], next[PATH_MAX];
    struct stat s;
    *written = LVN_STORE_CHANGED;
    LVN_TRY(make_name(place, version(place), name));
    LVN_TRY(make_name(place, version(place) + 1, next));
    if (stat(next, &s) == 0) return LVN_OK;
    int fd = open(name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 && (errno == ENOENT || errno == ESTALE)) return LVN_OK;
    LVN_CHECK(fd >= 0, IO, "cannot write '%s': %s", name, strerror(errno));
    bool whole = lvn_fd_write(fd, text, (int64_t)strlen(text)) && fsync(fd) == 0;
    int reason = errno;
    whole &= close(fd) == 0;
    LVN_CHECK(whole, IO, "cannot write '%s': %s", name, strerror(reason));
    *written = LVN_STORE_WRITTEN;
    return lvn_lease_place_set(place, text);
}

/* Only this process knows the name, so no other process reads the file before it is complete. */
static enum lvn_status write_whole(const char *path, const char *text)
{
    struct lvn_output output;
    LVN_TRY(lvn_output_open(&output, path));
    (void)!lvn_output_write(&output, text, (int64_t)strlen(text)); /* closing reports errors */
    const enum lvn_status status = lvn_output_close(&output);
    if (status != LVN_OK) unlink(path);
    return status;
}

/* Create a file with this content unless the name exists. *exists: it does, or the new owner has removed the files
 * that others prepared (train/run_dir.c). */
static enum lvn_status create(const char *name, const char *text, bool *exists)
{
    char new[PATH_MAX];
    struct stat s;
    *exists = false;
    LVN_CHECK(lvn_fit(new, sizeof new, "%s.new-%ld", name, (long)getpid()), IO, "the path '%.60s...' is too long",
              name);
    LVN_TRY(write_whole(new, text));
    bool linked = link(new, name) == 0;
    int reason = errno;
    if (!linked && stat(new, &s) == 0 && s.st_nlink == 2) linked = true; /* NFS: the response was lost */
    unlink(new);
    *exists = !linked && (reason == EEXIST || reason == ENOENT);
    if (linked || *exists) return LVN_OK;
    /* a file system without hard links */
    int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
    *exists = fd < 0 && errno == EEXIST;
    if (*exists) return LVN_OK;
    bool whole = fd >= 0 && lvn_fd_write(fd, text, (int64_t)strlen(text)) && fsync(fd) == 0;
    reason = errno;
    if (fd >= 0) close(fd);
    LVN_CHECK(whole, IO, "cannot write '%s': %s", name, strerror(reason));
    return LVN_OK;
}

/* Take over the version that was read only if it is unchanged, also after the new file was created. */
static enum lvn_status claim(struct lvn_lease_place *place, const char *text, enum lvn_store_written *written)
{
    char old[PATH_MAX], name[PATH_MAX], *now = NULL;
    bool exists;
    *written = LVN_STORE_CHANGED;
    LVN_TRY(make_name(place, version(place), old));
    LVN_TRY(make_name(place, version(place) + 1, name));
    LVN_TRY(create(name, text, &exists));
    if (exists) return LVN_OK;
    enum lvn_status status = *place->version ? read_number(place, version(place), &now) : LVN_OK;
    bool same = status == LVN_OK && (!*place->version || (now && place->last && strcmp(now, place->last) == 0));
    free(now);
    if (!same) unlink(name);
    if (!same) return status;
    if (*place->version) unlink(old);
    *written = LVN_STORE_WRITTEN;
    snprintf(place->version, sizeof place->version, "%lld", version(place) + 1);
    LVN_TRY(lvn_dir_sync(place->path));
    return lvn_lease_place_set(place, text);
}

static enum lvn_status write_file(struct lvn_lease_place *place, const char *text, bool own,
                                  enum lvn_store_written *written)
{
    return own && *place->version ? renew(place, text, written) : claim(place, text, written);
}

static enum lvn_status remove_file(struct lvn_lease_place *place)
{
    char name[PATH_MAX];
    LVN_TRY(make_name(place, version(place), name));
    LVN_CHECK(unlink(name) == 0 || errno == ENOENT, IO, "cannot remove '%s': %s", name, strerror(errno));
    return LVN_OK;
}

const struct lvn_lease_place_ops lvn_lease_file = {
    .open = open_file, .close = close_file, .read = read_file, .write = write_file, .remove = remove_file};
