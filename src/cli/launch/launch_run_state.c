/* launch_run_state.c - has a launch begun its run, and from which step would a restart resume? Called before a restart
 * and during an attempt.
 *
 * Rank 0 reports to the server when the run has begun, but it may be killed before it reports, or the server may be
 * stopped meanwhile. So the run's folder, or its store, is read as well. Ranks check again when they are restarted
 * (train.c), since rank 0 may write where this machine cannot see it; that is not done here. */
#include "base/files.h"
#include "checkpoints/checkpoint.h"
#include "checkpoints/model_fetch.h"
#include "cli/launch/launch.h"
#include "cli/requeue.h"
#include "train/run_dir.h"

bool lvn_launch_run_begun(const struct lvn_launch *l, bool store)
{
    bool begun = false;
    if (!*l->request.run) return false;
    if (lvn_run_dir_begun(l->request.run, l->history.id, store, &begun)) lvn_error_clear(); /* ranks will report it */
    return begun;
}

static enum lvn_status newest_step(const struct lvn_launch *l, int64_t *step)
{
    LVN_LOCAL_ARENA(arena);
    const char *folder = lvn_path_join(&arena, l->request.run_dir, "checkpoints");
    if (!folder) return LVN_MEMORY;
    LVN_TRY(lvn_checkpoint_newest_step(folder, step));
    return *step < 0 && lvn_store_is_remote(l->request.run) ? lvn_checkpoints_last_uploaded(l->request.run, step)
                                                            : LVN_OK;
}

struct lvn_run_saved lvn_launch_run_saved(const struct lvn_launch *l)
{
    struct lvn_run_saved saved = {.step = -1};
    if (!*l->request.run) return saved;
    saved.seen = !newest_step(l, &saved.step);
    if (!saved.seen) lvn_error_clear();
    return saved;
}

bool lvn_launch_resumes(const struct lvn_launch *l)
{
    return l->history.run_begun || l->request.resume || lvn_requeue_count();
}
