/* chart_resources.c - checks the recipe that pods will read, as train does, and plans what a pod takes. Called by
 * launch_kubernetes.c. Nothing is opened: neither data nor devices need to be here. */
#include <string.h>

#include "base/files.h"
#include "cli/launch/chart.h"
#include "engine/memory.h"
#include "engine/train_programs.h"
#include "model_io/model_setup.h"
#include "models/model.h"
#include "train/callback.h"

/* What a process takes besides its plan: program, libraries, stacks, partly used pages; with a GPU its driver's share
 * of the machine's memory. Of /dev/shm what NCCL takes of it for each rank. */
static const int64_t process_bytes = (int64_t)512 << 20, driver_bytes = (int64_t)4 << 30, nccl_shm = (int64_t)128 << 20,
                     min_shm = (int64_t)64 << 20, files_bytes = (int64_t)1 << 30;

static enum lvn_status read_settings(struct lvn_settings *s, const char *recipe, int64_t ranks)
{
    LVN_TRY(lvn_settings_read(s, recipe, strlen(recipe), "the recipe"));
    for (int i = 0; i < lvn_option_count(); i++) LVN_TRY(lvn_chart_check_secret(s, lvn_option_at(i)));
    s->ranks = ranks;
    return lvn_settings_finish(s, LVN_USES_ALL & ~LVN_USES_DEVICE);
}

/* Is the model's size known here? */
static bool is_known(const struct lvn_settings *s)
{
    const struct lvn_model *model;
    return !*s->model.init || lvn_published_find(s->model.init, &model);
}

/* Bytes of a rank: `part` as in engine/memory.h. */
static enum lvn_status plan_rank(const struct lvn_settings *s, int64_t ranks, int64_t per_node,
                                 int64_t part[LVN_MEMORY_PART_COUNT], int64_t *total, int64_t *parameters)
{
    struct lvn_model_setup m = {0};
    struct lvn_train_programs t = {0};
    struct lvn_callbacks callbacks;
    struct lvn_train_programs_options o = {.size = (int)ranks, .local_size = (int)per_node, .validate = true};
    LVN_TRY(lvn_callbacks_init(&callbacks, s, NULL));
    o.planner = lvn_callbacks_planner(&callbacks);
    enum lvn_status status = lvn_model_setup_sizes(&m, s, NULL);
    o.fields = &m.fields;
    o.task = m.task;
    if (status == LVN_OK) status = lvn_train_programs_plan(&t, s, &m.config, &o);
    if (status == LVN_OK) {
        *total = lvn_train_programs_memory(&t, part);
        *parameters = lvn_params_total(t.model_state->params);
    }
    lvn_train_programs_release(&t);
    lvn_model_setup_close(&m);
    lvn_callbacks_release(&callbacks);
    return status;
}

static enum lvn_status plan(struct lvn_settings *s, int64_t nodes, int64_t ranks, bool gpus, int64_t data_size,
                            struct lvn_chart_resources *out)
{
    int64_t part[LVN_MEMORY_PART_COUNT], total = 0, parameters = 0;
    if (gpus) LVN_TRY(lvn_settings_set(s, "trainer.accelerator", "trace", LVN_SOURCE_PROGRAM));
    LVN_TRY(lvn_settings_set(s, "data.path", "", LVN_SOURCE_PROGRAM)); /* sizes do not depend on it */
    LVN_TRY(lvn_settings_set(s, "data.url", "", LVN_SOURCE_PROGRAM));
    LVN_TRY(lvn_settings_finish(s, LVN_USES_ALL & ~LVN_USES_DEVICE));
    LVN_TRY(plan_rank(s, nodes * ranks, ranks, part, &total, &parameters));
    /* A GPU's rank keeps a copy of its parameters and moments while these are saved. */
    int64_t rank =
        gpus ? part[LVN_MEMORY_PARAMETERS] + part[LVN_MEMORY_OPTIMIZER] + part[LVN_MEMORY_BATCHES] + driver_bytes
             : total;
    out->shm = gpus ? ranks * nccl_shm : min_shm;
    out->memory = ranks * (rank + rank / 20 + process_bytes) + out->shm;
    /* Parameters and two moments in fp32, of the newest checkpoint and of the one that is uploaded meanwhile. */
    out->checkpoints = 2 * 12 * parameters + files_bytes;
    out->ephemeral_storage = data_size > 0 ? out->checkpoints + data_size : 0;
    return LVN_OK;
}

enum lvn_status lvn_chart_plan(const char *recipe, int64_t nodes, int64_t ranks, bool gpus, int64_t data_size,
                               struct lvn_chart_resources *out)
{
    struct lvn_settings s;
    enum lvn_status status = lvn_settings_init(&s);
    memset(out, 0, sizeof *out);
    if (status == LVN_OK) status = read_settings(&s, recipe, nodes * ranks);
    if (status == LVN_OK && is_known(&s)) status = plan(&s, nodes, ranks, gpus, data_size, out);
    lvn_settings_release(&s);
    return status;
}
