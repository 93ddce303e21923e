/* launch_logs.c - the output of each rank in a separate file, DIR/rank-N.log. launch_output.c adds the lines,
 * launch_attempt.c opens and closes the files.
 *
 * DIR is RUN/logs or --log-dir. The next attempt and the next launch append. Rank 0 creates RUN after all checks have
 * passed; earlier lines are buffered here, and dropped if no run begins. A file is opened for each line, because ranks
 * print little and there may be thousands of ranks. */
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include "base/files.h"
#include "base/target.h"
#include "base/text.h"
#include "launch/launch.h"

enum { EARLY_BYTES = 1 << 20 }; /* maximum bytes of buffered lines; later ones are dropped */

struct lvn_launch_logs {
    const struct lvn_launch *l;
    const char *folder;    /* NULL: the files are not open */
    struct lvn_text early; /* lines from before the files were open, each "RANK LINE\n" */
    bool failed;           /* a file could not be written, and a warning was printed: write nothing more */
};

enum lvn_status lvn_launch_logs_new(struct lvn_launch_logs **out, const struct lvn_launch *l)
{
    const char *given = l->c->flag[LVN_FLAG_launch_log_dir].t;
    struct lvn_launch_logs *logs = *out = lvn_calloc(1, sizeof *logs);
    if (!logs) return LVN_MEMORY;
    logs->l = l;
    if (*given) LVN_TRY_WHILE(lvn_dir_make(given), "creating the folder of --log-dir");
    if (!*given && !*l->request.run_dir) logs->failed = true; /* no folder to write into */
    return LVN_OK;
}

void lvn_launch_logs_free(struct lvn_launch_logs *logs)
{
    if (logs) lvn_text_release(&logs->early);
    free(logs);
}

static void give_up(struct lvn_launch_logs *logs, const char *path, const char *reason)
{
    lvn_log(LVN_LOG_WARN, "cannot write '%s' (%s): the output of ranks is printed, but no longer saved", path, reason);
    logs->failed = true;
}

static void append(struct lvn_launch_logs *logs, int rank, const char *line, size_t n)
{
    LVN_LOCAL_TEXT(text);
    LVN_LOCAL_TEXT(path);
    lvn_text_printf(&text, "%.*s\n", (int)n, line);
    lvn_text_printf(&path, "%s/rank-%d.log", logs->folder, rank);
    if (text.p && path.p && !logs->failed) {
        int fd;
        if (lvn_file_open_nofollow(path.p, O_WRONLY | O_APPEND | O_CREAT, &fd) != LVN_OK) {
            give_up(logs, path.p, levin_error_text());
            lvn_error_clear();
        } else {
            if (!lvn_fd_write(fd, text.p, text.n)) give_up(logs, path.p, strerror(errno));
            close(fd);
        }
    }
}

static enum lvn_status make_folder(struct lvn_launch_logs *logs)
{
    const char *given = logs->l->c->flag[LVN_FLAG_launch_log_dir].t;
    logs->folder = *given ? given : lvn_path_join(logs->l->arena, logs->l->request.run_dir, "logs");
    return logs->folder ? lvn_dir_make(logs->folder) : LVN_MEMORY;
}

/* One line in each rank's file marks the start of this attempt. */
static void write_heads(struct lvn_launch_logs *logs, const struct lvn_peer *peer)
{
    char when[40] = "", line[400];
    time_t now = time(NULL);
    struct tm t;
    if (localtime_r(&now, &t)) strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &t);
    for (int i = 0; i < logs->l->attempt.ranks && !logs->failed; i++) {
        snprintf(line, sizeof line, "--- %s rank %d of %d", when, i, logs->l->attempt.ranks);
        if (peer && *peer[i].host)
            lvn_print_append(line, sizeof line, " on %s, pid %lld", peer[i].host, (long long)peer[i].pid);
        append(logs, i, line, strlen(line));
    }
}

void lvn_launch_logs_open(struct lvn_launch_logs *logs, const struct lvn_peer *peer)
{
    if (logs->folder || logs->failed) return;
    if (make_folder(logs)) {
        give_up(logs, logs->folder ? logs->folder : logs->l->request.run_dir, levin_error_text());
        lvn_error_clear();
    }
    if (!logs->failed) write_heads(logs, peer);
    for (char *line = logs->early.p, *end; line && (end = strchr(line, '\n')); line = end + 1) {
        char *text;
        long rank = strtol(line, &text, 10);
        append(logs, (int)rank, text + 1, (size_t)(end - text - 1));
    }
    lvn_text_clear(&logs->early);
}

void lvn_launch_logs_close(struct lvn_launch_logs *logs)
{
    lvn_text_clear(&logs->early);
    logs->folder = NULL;
}

void lvn_launch_logs_add(struct lvn_launch_logs *logs, int rank, const char *line)
{
    if (logs->failed) return;
    if (logs->folder)
        append(logs, rank, line, strlen(line));
    else if (logs->early.n < EARLY_BYTES)
        lvn_text_printf(&logs->early, "%d %s\n", rank, line);
}
