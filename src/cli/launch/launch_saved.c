/* launch_saved.c - what is there of a launch's run: has it begun, and which step would a restart go on from?
 *
 * Rank 0 tells the server when the run has begun, but it may be killed between beginning and telling, and the server
 * may stand still meanwhile. So the run's folder, or its store, is asked as well. Ranks ask once more when they are
 * started again (train.c): rank 0 may write where this machine does not see it. */
#include "base/files.h"
#include "checkpoints/checkpoint.h"
#include "checkpoints/model_fetch.h"
#include "cli/launch/launch.h"
#include "cli/requeue.h"
#include "train/run_dir.h"

bool lvn_launch_begun(const struct lvn_launch *l, bool store)
{
    bool begun = false;
    if (!*l->run) return false;
    if (lvn_run_dir_begun(l->run, l->id, store, &begun)) lvn_error_clear(); /* the ranks will say it */
    return begun;
}

static enum lvn_status find_step(const struct lvn_launch *l, int64_t *step)
{
    LVN_LOCAL_ARENA(arena);
    const char *folder = lvn_path_join(&arena, l->run_dir, "checkpoints");
    if (!folder) return LVN_MEMORY;
    LVN_TRY(lvn_checkpoint_newest_step(folder, step));
    return *step < 0 && lvn_store_is_remote(l->run) ? lvn_checkpoints_last_uploaded(l->run, step) : LVN_OK;
}

struct lvn_saved lvn_launch_saved(const struct lvn_launch *l)
{
    struct lvn_saved saved = {.step = -1};
    if (!*l->run) return saved;
    saved.seen = !find_step(l, &saved.step);
    if (!saved.seen) lvn_error_clear();
    return saved;
}

bool lvn_launch_resumes(const struct lvn_launch *l)
{
    return l->goes_on || l->resumes || lvn_requeue_count();
}
