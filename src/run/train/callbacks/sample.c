/* sample.c - the callback that generates text during training, sends it to listeners and appends it to samples.txt,
 * each sample under a line `--- step N ---`. */
#include <fcntl.h>
#include <unistd.h>

#include "base/files.h"
#include "base/target.h"
#include "base/work.h"
#include "engine/parameters.h"
#include "inference/sampler.h"
#include "train/callback.h"

static const char name[] = "samples.txt";

struct state {
    struct lvn_sampler *sampler; /* on rank 0; if parameters are sharded, on all ranks, which gather them together */
    bool sharded;
};

static bool enabled(const struct levin_settings *s)
{
    return s->values.sample.every_n_steps > 0;
}

static enum lvn_status check(const struct levin_settings *s)
{
    LVN_CHECK(!enabled(s) || *s->values.sample.prompt, ARG,
              "sample.prompt is empty, and samples continue at least one token: give a prompt, or leave it out");
    return LVN_OK;
}

static enum lvn_status plan(void *state, struct lvn_model_state *n, int64_t block_size, int rank)
{
    struct state *o = state;
    o->sharded = lvn_parameters_sharded(n, LVN_PARAMETER_VALUES);
    return rank && !o->sharded ? LVN_OK : lvn_sampler_new(&o->sampler, n, block_size, 1, block_size);
}

/* A prompt that was given must be text that the model has tokens for; else every sample would fail. A run that
 * continues with its own settings warns. */
static enum lvn_status open_prompt(void *state, struct lvn_callback_context *context)
{
    (void)state;
    const struct levin_settings *s = context->settings;
    int32_t *ids = NULL;
    int64_t n;
    enum lvn_status status = LVN_OK;
    if (!context->ranks->rank && s->origin[LVN_OPT_sample_prompt].source >= LVN_SOURCE_RECIPE &&
        lvn_codec_is_text(&context->codec))
        status = lvn_prompt_encode(s->values.sample.prompt, &context->codec, &ids, &n);
    free(ids);
    if (status != LVN_OK) status = lvn_while_at(status, "encoding sample.prompt");
    return lvn_ranks_agree(context->ranks, status);
}

static void forget(void *state)
{
    struct state *o = state;
    lvn_sampler_free(o->sampler);
    o->sampler = NULL;
}

/* --- the file --- */

static enum lvn_status append(const char *path, int64_t step, const char *text)
{
    LVN_LOCAL_TEXT(block);
    int fd;
    lvn_text_printf(&block, "--- step %lld ---\n%s\n", (long long)step, text);
    LVN_TRY(lvn_text_status(&block));
    LVN_TRY(lvn_file_open_nofollow(path, O_WRONLY | O_APPEND | O_CREAT, &fd));
    int error = lvn_fd_write(fd, block.p, block.n) ? 0 : errno;
    if (close(fd) != 0 && !error) error = errno;
    LVN_CHECK(!error, IO, "cannot write '%s': %s", path, strerror(error));
    return LVN_OK;
}

/* The step of a line `--- step N ---`; -1: another line. */
static int64_t step_of(const char *line)
{
    long long step;
    int n = 0;
    return sscanf(line, "--- step %lld ---%n", &step, &n) == 1 && n && (line[n] == '\n' || !line[n]) ? step : -1;
}

/* Remove samples after `last_step`, which a resumed run will write again. */
static enum lvn_status cut(const char *path, int64_t last_step)
{
    char *text;
    int64_t bytes;
    if (!lvn_path_exists(path)) return LVN_OK;
    LVN_TRY(lvn_file_read(path, 0, &text, &bytes));
    const char *at = text;
    while (at && *at && step_of(at) <= last_step) {
        at = strchr(at, '\n');
        if (at) at++;
    }
    enum lvn_status status = at && *at ? lvn_file_write(path, text, at - text) : LVN_OK;
    free(text);
    return status;
}

/* --- the events --- */

static void sample(struct state *o, struct lvn_callback_context *context)
{
    char path[LVN_CALLBACK_PATH_TEXT];
    LVN_LOCAL_TEXT(text);
    int64_t step = context->event.step;
    const char *before = lvn_work_begin("a sample");
    enum lvn_status status = lvn_sampler_text(o->sampler, &context->settings->values, &context->codec,
                                              o->sharded ? context->ranks : NULL, NULL, step, &text);
    if (status == LVN_OK && context->ranks->rank == 0) {
        lvn_callback_notify(context, LVN_EVENT_SAMPLE, text.p);
        if (context->dir) status = append(lvn_callback_path(context, name, path), step, text.p);
    }
    if (status != LVN_OK) lvn_callback_warn(context, "a sample could not be generated or saved");
    lvn_work_end(before);
}

static enum lvn_status call(void *state, struct lvn_callback_context *context)
{
    struct state *o = state;
    char path[LVN_CALLBACK_PATH_TEXT];
    if (context->event.kind == LVN_EVENT_START)
        return lvn_ranks_agree(
            context->ranks, context->dir ? cut(lvn_callback_path(context, name, path), context->resumed_step) : LVN_OK);
    if (context->event.kind == LVN_EVENT_STEP && o->sampler &&
        context->event.step % context->settings->values.sample.every_n_steps == 0)
        sample(o, context);
    return LVN_OK;
}

const struct lvn_callback lvn_callback_sample = {.name = "sample",
                                                 .bytes = sizeof(struct state),
                                                 .output = name,
                                                 .in_fast_dev_run = true,
                                                 .enabled = enabled,
                                                 .check = check,
                                                 .plan = plan,
                                                 .open = open_prompt,
                                                 .forget = forget,
                                                 .call = call};
