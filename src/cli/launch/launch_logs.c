/* launch_logs.c - the output of each rank in a file of its own, DIR/rank-N.log. launch_output.c adds the lines,
 * launch_attempt.c opens and closes the files.
 *
 * DIR is RUN/logs or --log-dir. The next attempt and the next launch append. Rank 0 makes RUN after every check has
 * passed; earlier lines are buffered here, and dropped if no run begins. A file is opened for each line: ranks print
 * little, and there may be thousands of ranks. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/files.h"
#include "base/target.h"
#include "base/text.h"
#include "cli/launch/launch.h"

enum { EARLY_BYTES = 1 << 20 }; /* of lines from before the files are open; later ones are dropped */

struct lvn_launch_logs {
    const struct lvn_launch *l;
    const char *folder;    /* NULL: the files are not open */
    struct lvn_text early; /* lines from before, each "RANK LINE\n" */
    bool failed;           /* a file could not be written, and a warning was printed: write nothing more */
};

enum lvn_status lvn_launch_logs_new(struct lvn_launch_logs **out, const struct lvn_launch *l)
{
    const char *given = l->c->flag[LVN_FLAG_launch_log_dir].t;
    struct lvn_launch_logs *g = *out = lvn_calloc(1, sizeof *g);
    if (!g) return LVN_MEMORY;
    g->l = l;
    if (*given) LVN_TRY_WHILE(lvn_dir_make(given), "making the folder of --log-dir");
    if (!*given && !*l->request.run_dir) g->failed = true; /* there is no folder, and --log-dir was not given */
    return LVN_OK;
}

void lvn_launch_logs_free(struct lvn_launch_logs *g)
{
    if (g) lvn_text_release(&g->early);
    free(g);
}

static void give_up(struct lvn_launch_logs *g, const char *path, const char *reason)
{
    lvn_log(LVN_LOG_WARN, "'%s' cannot be written (%s): the output of ranks is shown, but no longer saved", path,
            reason);
    g->failed = true;
}

static void append(struct lvn_launch_logs *g, int rank, const char *line, size_t n)
{
    LVN_LOCAL_TEXT(text);
    LVN_LOCAL_TEXT(path);
    lvn_text_printf(&text, "%.*s\n", (int)n, line);
    lvn_text_printf(&path, "%s/rank-%d.log", g->folder, rank);
    if (text.p && path.p && !g->failed) {
        int fd;
        if (lvn_file_open_nofollow(path.p, O_WRONLY | O_APPEND | O_CREAT, &fd) != LVN_OK) {
            give_up(g, path.p, lvn_error_text());
            lvn_error_clear();
        } else {
            if (!lvn_fd_write(fd, text.p, text.n)) give_up(g, path.p, strerror(errno));
            close(fd);
        }
    }
}

static enum lvn_status make_folder(struct lvn_launch_logs *g)
{
    const char *given = g->l->c->flag[LVN_FLAG_launch_log_dir].t;
    g->folder = *given ? given : lvn_path_join(g->l->arena, g->l->request.run_dir, "logs");
    return g->folder ? lvn_dir_make(g->folder) : LVN_MEMORY;
}

/* One line in each rank's file marks where this attempt begins. */
static void write_heads(struct lvn_launch_logs *g, const struct lvn_peer *peer)
{
    char when[40] = "", line[400];
    time_t now = time(NULL);
    struct tm t;
    if (localtime_r(&now, &t)) strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &t);
    for (int i = 0; i < g->l->attempt.ranks && !g->failed; i++) {
        snprintf(line, sizeof line, "--- %s rank %d of %d", when, i, g->l->attempt.ranks);
        if (peer && *peer[i].host)
            lvn_print_append(line, sizeof line, " on %s, pid %lld", peer[i].host, (long long)peer[i].pid);
        append(g, i, line, strlen(line));
    }
}

void lvn_launch_logs_open(struct lvn_launch_logs *g, const struct lvn_peer *peer)
{
    if (g->folder || g->failed) return;
    if (make_folder(g)) {
        give_up(g, g->folder ? g->folder : g->l->request.run_dir, lvn_error_text());
        lvn_error_clear();
    }
    if (!g->failed) write_heads(g, peer);
    for (char *line = g->early.p, *end; line && (end = strchr(line, '\n')); line = end + 1) {
        char *text;
        long rank = strtol(line, &text, 10);
        append(g, (int)rank, text + 1, (size_t)(end - text - 1));
    }
    lvn_text_clear(&g->early);
}

void lvn_launch_logs_close(struct lvn_launch_logs *g)
{
    lvn_text_clear(&g->early);
    g->folder = NULL;
}

void lvn_launch_logs_add(struct lvn_launch_logs *g, int rank, const char *line)
{
    if (g->failed) return;
    if (g->folder)
        append(g, rank, line, strlen(line));
    else if (g->early.n < EARLY_BYTES)
        lvn_text_printf(&g->early, "%d %s\n", rank, line);
}
