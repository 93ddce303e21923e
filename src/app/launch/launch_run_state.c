/* launch_run_state.c - whether a launch has begun or ended its run, and from which step a restart would resume. Called
 * before a restart, during an attempt and at the end.
 *
 * Rank 0 reports to the server when the run has begun, but it may be killed before it reports, or the server may be
 * stopped meanwhile. So the run's folder, or its store, is read too. Ranks check again when they are restarted
 * (train.c), because rank 0 may write to a folder that this machine cannot read. */
#include "base/files.h"
#include "checkpoints/checkpoint.h"
#include "checkpoints/model_fetch.h"
#include "cli/requeue.h"
#include "formats/sha256.h"
#include "launch/launch.h"
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

/* A digest of the values that must be identical on all nodes; it identifies the purpose of the launch. */
static enum lvn_status digest_keys(const struct lvn_launch *l, char digest[LVN_SHA256_TEXT])
{
    LVN_LOCAL_TEXT(t);
    for (int i = 0; i < l->request.keys.n; i++) lvn_text_printf(&t, "%s\n", l->request.keys.word[i]);
    LVN_TRY(lvn_text_status(&t));
    lvn_sha256_text(t.p ? t.p : "", (size_t)t.n, digest);
    return LVN_OK;
}

/* True if another launcher of this job may query the end of the run. */
static bool end_is_shared(const struct lvn_launch *l)
{
    return l->history.job && *l->request.run && l->place.on && l->place.nodes > 1;
}

bool lvn_launch_run_ended(const struct lvn_launch *l)
{
    char digest[LVN_SHA256_TEXT];
    bool ended = false;
    if (!end_is_shared(l)) return false;
    enum lvn_status status = digest_keys(l, digest);
    if (!status) status = lvn_run_dir_ended(l->request.run, l->history.id, digest, &ended);
    if (status) lvn_error_clear(); /* ranks will report it, or it is queried again */
    return ended && !status;
}

void lvn_launch_run_write_end(const struct lvn_launch *l)
{
    char digest[LVN_SHA256_TEXT];
    if (!end_is_shared(l)) return;
    enum lvn_status status = digest_keys(l, digest);
    if (!status) status = lvn_run_dir_write_end(l->request.run, l->history.id, digest);
    if (status)
        lvn_log(
            LVN_LOG_WARN,
            "the run has ended, but this could not be recorded in '%s', where a node that restarts would read it: %s",
            l->request.run, levin_error_text());
    if (status) lvn_error_clear();
}
