/* cache_dir.c - see cache_dir.h. */
#include "host/cache_dir.h"
#include "base/system.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"
#include "base/getenv.h"

/* Files in the cache are trusted, so no other user may be able to write them. `below`: in levin's folder. */
static enum lvn_status check_owner(const char *path, bool below)
{
    struct stat s, link;
    bool known = stat(path, &s) == 0 && lstat(path, &link) == 0;
    LVN_CHECK(known, IO, "cannot read the cache folder '%s': %s", path, strerror(errno));
    bool is_ours = s.st_uid == geteuid() && link.st_uid == geteuid(),
         shared = s.st_mode & 022 && !(s.st_mode & S_ISVTX);
    LVN_CHECK(is_ours || (!below && !s.st_uid && !link.st_uid), IO,
              "the cache folder '%s' belongs to another user, who could put any file there; set LEVIN_CACHE to one of "
              "your folders",
              path);
    LVN_CHECK(below || !shared, IO,
              "other users can write into the cache folder '%s', and could put any file there; remove that permission "
              "(chmod go-w), or set LEVIN_CACHE to another folder",
              path);
    if (below && s.st_mode & 077)
        LVN_CHECK(chmod(path, 0700) == 0, IO, "cannot set the permissions of the cache folder '%s' to 0700: %s", path,
                  strerror(errno));
    return LVN_OK;
}

static enum lvn_status make_private(struct lvn_arena *a, const char *path, bool below)
{
    const char *dir = lvn_path_dir(a, path);
    if (!dir) return LVN_MEMORY;
    LVN_TRY(lvn_dir_make(dir));
    if (lvn_system.mkdir(path, 0700) != 0)
        LVN_TRY(lvn_dir_make(path)); /* succeeds if it exists, or records the reason */
    return check_owner(path, below);
}

enum lvn_status lvn_cache_folder(struct lvn_arena *a, const char *name, const char **out)
{
    const char *folder = lvn_getenv("LEVIN_CACHE"), *xdg = lvn_getenv("XDG_CACHE_HOME"), *home = lvn_getenv("HOME"),
               *top;
    if (folder)
        top = lvn_arena_printf(a, "%s", folder);
    else if (xdg)
        top = lvn_arena_printf(a, "%s/levin", xdg);
    else if (home)
        top = lvn_arena_printf(a, "%s/.cache/levin", home);
    else
        top = lvn_arena_printf(a, "/tmp/levin-%u", (unsigned)geteuid());
    *out = top ? lvn_path_join(a, top, name) : NULL;
    if (!*out) return LVN_MEMORY;
    enum lvn_status status = make_private(a, top, false);
    if (status == LVN_OK) status = make_private(a, *out, true);
    LVN_TRY_WHILE(status, "creating the cache folder; LEVIN_CACHE selects another one");
    return LVN_OK;
}
