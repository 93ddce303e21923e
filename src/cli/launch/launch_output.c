/* launch_output.c - forwards what ranks print through a launcher, line by line; called by launch_attempt.c.
 *
 * Launchers prefix lines with the rank: Open MPI "[1,0]<stdout>:text", Hydra (MPICH, Intel MPI) "[0]<rank>:text",
 * levin ranks "[0] text", srun "0: text". Here each becomes "[0] text". A line of rank 0 that begins with a carriage
 * return is its live line (progress.h): it is drawn over the last one, and rank 0 sends it again after other lines.
 * Lines that begin with LVN_EXIT_MARK are exit codes and are not printed. Launchers' banners about an exit code are
 * dropped: they often name the wrong rank, and levin prints what happened. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/files.h"
#include "cli/launch/launch.h"
#include "cli/launch/ranks_relay.h"

enum { BLOCK = 8192, ERRORS = 16 };

struct stream {
    struct lvn_text line; /* so far */
    char block[BLOCK];    /* the banner that is being read */
    int64_t n_block;
    bool in_block;
};

struct lvn_launch_output {
    const struct lvn_launch *l;
    struct stream stream[2];
    bool prefix;         /* --prefix: print "[RANK] " before each line */
    bool plain_stdout;   /* not on stdout: the launched command has --json */
    bool verbose;        /* print banners and noise of launchers, too */
    bool terminal;       /* stderr is one */
    bool live_displayed; /* a live line stands on the terminal */
    bool started;        /* rank 0 has printed a line */
    bool explained;      /* a rank or the launcher has printed an error, or a rank reported that it printed one */
    struct {
        int rank;
        char text[512];
    } error[ERRORS]; /* errors and warnings that ranks printed, a ring of the latest */
    int n_errors;    /* so far */
    bool failed;     /* a rank exited with 1 or any other code */
    bool usage;      /* with 2 */
    bool fault;      /* with 76 */
    bool stopped;    /* with 75 */
    bool stops;      /* the launcher of another node is asked to stop */
    bool unread;     /* whoever read the output has closed it */
};

enum lvn_status lvn_launch_output_new(struct lvn_launch_output **out, const struct lvn_launch *l)
{
    struct lvn_launch_output *o = *out = lvn_calloc(1, sizeof *o);
    if (!o) return LVN_MEMORY;
    o->l = l;
    o->prefix = lvn_cli_on(l->c, LVN_FLAG_launch_prefix) && l->launcher.kind != LVN_LAUNCHER_DIRECT;
    o->verbose = lvn_cli_on(l->c, LVN_FLAG_any_verbose);
    o->terminal = isatty(STDERR_FILENO);
    for (int i = 0; i < l->c->n_rest; i++) o->plain_stdout |= !strncmp(l->c->rest[i], "--json", 6);
    return LVN_OK;
}

void lvn_launch_output_free(struct lvn_launch_output *o)
{
    for (int i = 0; o && i < 2; i++) lvn_text_release(&o->stream[i].line);
    free(o);
}

bool lvn_launch_output_started(const struct lvn_launch_output *o)
{
    return o->started;
}

int lvn_launch_output_exit_code(const struct lvn_launch_output *o)
{
    return o->failed    ? LVN_EXIT_FAILED
           : o->usage   ? LVN_EXIT_USAGE
           : o->fault   ? LVN_EXIT_FAULT
           : o->stopped ? LVN_EXIT_STOPPED
                        : LVN_EXIT_DONE;
}

bool lvn_launch_output_stops(const struct lvn_launch_output *o)
{
    return o->stops;
}

bool lvn_launch_output_unread(const struct lvn_launch_output *o)
{
    return o->unread;
}

bool lvn_launch_output_explained(const struct lvn_launch_output *o)
{
    return o->explained;
}

/* "75 said": a rank's exit code, and whether it has printed why. */
static void record_exit(struct lvn_launch_output *o, const char *text)
{
    char *rest;
    long code = strtol(text, &rest, 10);
    o->explained |= code != LVN_EXIT_DONE && strstr(rest, LVN_EXIT_EXPLAINED);
    bool *seen = code == LVN_EXIT_USAGE     ? &o->usage
                 : code == LVN_EXIT_FAULT   ? &o->fault
                 : code == LVN_EXIT_STOPPED ? &o->stopped
                                            : &o->failed;
    if (code != LVN_EXIT_DONE) *seen = true;
}

void lvn_launch_output_clear(struct lvn_launch_output *o)
{
    if (o->live_displayed) (void)lvn_fd_write(STDERR_FILENO, "\r\033[K", 4);
    o->live_displayed = false;
}

/* The rank in the launcher's prefix, and the text behind the prefix; -1: no prefix, a line of the launcher itself. */
static int parse_rank(const struct lvn_launch_output *o, const char *line, const char **text)
{
    char *end;
    const char *p = line;
    *text = line;
    switch (o->l->launcher.kind) {
    case LVN_LAUNCHER_DIRECT:
        return 0;
    case LVN_LAUNCHER_SRUN:
        p += strspn(p, " ");
        break;
    case LVN_LAUNCHER_OPENMPI:
        if (*p++ != '[') return -1;
        p += strspn(p, "0123456789");
        if (*p++ != ',') return -1;
        break;
    case LVN_LAUNCHER_MPICH:
    case LVN_LAUNCHER_INTEL:
    case LVN_LAUNCHER_LEVIN:
        if (*p++ != '[') return -1;
        break;
    }
    long rank = strtol(p, &end, 10);
    if (end == p || rank < 0 || rank >= o->l->attempt.ranks) return -1;
    if (*end != (o->l->launcher.kind == LVN_LAUNCHER_SRUN ? ':' : ']')) return -1;
    end++;
    if (o->l->launcher.kind == LVN_LAUNCHER_OPENMPI) {
        if (strncmp(end, "<std", 4) || !(end = strstr(end, ">:"))) return -1;
        end += 2;
        if (o->l->launcher.major >= 5 && *end == ' ') end++;
    } else if (o->l->launcher.kind == LVN_LAUNCHER_MPICH || o->l->launcher.kind == LVN_LAUNCHER_INTEL) {
        if (strncmp(end, LVN_HYDRA_PREFIX_END, sizeof LVN_HYDRA_PREFIX_END - 1)) return -1;
        end += sizeof LVN_HYDRA_PREFIX_END - 1;
    } else if (*end == ' ') {
        end++;
    }
    *text = end;
    return (int)rank;
}

/* Open MPI and Hydra put their prefix before whatever they read at once of a rank, within lines too: remove what stands
 * before the text from the rest of the line. */
static void drop_prefixes(const struct lvn_launch_output *o, const char *line, char *text)
{
    const enum lvn_launcher kind = o->l->launcher.kind;
    if (kind != LVN_LAUNCHER_OPENMPI && kind != LVN_LAUNCHER_MPICH && kind != LVN_LAUNCHER_INTEL) return;
    const size_t n = (size_t)(text - line);
    const char *from = text, *end = text + strlen(text), *at;
    for (char *to = text; n; to += at - from, from = at + n) {
        at = memmem(from, (size_t)(end - from), line, n);
        memmove(to, from, (size_t)((at ? at : end + 1) - from)); /* the last piece with its 0 */
        if (!at) return;
    }
}

static void draw_live(struct lvn_launch_output *o, const char *text)
{
    struct winsize size;
    char line[512];
    int columns = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
    if (!o->terminal) return;
    int n = snprintf(line, sizeof line, "\r%.*s\033[K", columns - 1 < 480 ? columns - 1 : 480, text);
    (void)lvn_fd_write(STDERR_FILENO, line, n);
    o->live_displayed = true;
}

static void print_line(struct lvn_launch_output *o, int pipe, int rank, const char *text)
{
    char prefix[24] = "";
    int fd = pipe == 0 && !o->l->c->json ? STDOUT_FILENO : STDERR_FILENO;
    if (rank >= 0 && o->prefix && !(pipe == 0 && o->plain_stdout)) snprintf(prefix, sizeof prefix, "[%d] ", rank);
    lvn_launch_output_clear(o);
    /* in one write: other programs write to the same terminal */
    LVN_LOCAL_TEXT(t);
    lvn_text_printf(&t, "%s%s\n", prefix, text);
    o->unread |= t.p && !lvn_fd_write(fd, t.p, t.n) && errno == EPIPE;
}

/* Collect a banner, which stands between two rules of dashes (Open MPI) or of = (Hydra), and print it at its end unless
 * it is about an exit code. True: the line belongs to a banner. */
static bool add_to_banner(struct lvn_launch_output *o, struct stream *s, int pipe, const char *line)
{
    static const char *const dropped[] = {"non-zero", "BAD TERMINATION", "APPLICATION TERMINATED",
                                          "Per user-direction"};
    bool dashes = strspn(line, "-") >= 60, equals = strspn(line, "=") >= 60;
    if (!s->in_block && !dashes && !equals) return false;
    if (!s->in_block) s->n_block = 0;
    size_t n = strlen(line);
    if (s->n_block + (int64_t)n + 2 < BLOCK) {
        memcpy(s->block + s->n_block, line, n);
        s->n_block += (int64_t)n;
        s->block[s->n_block++] = '\n';
        s->block[s->n_block] = '\0';
    }
    bool ends = s->in_block && (dashes || equals);
    s->in_block = !ends;
    if (!ends) return true;
    bool drop = false;
    for (size_t i = 0; i < sizeof dropped / sizeof *dropped; i++) drop |= strstr(s->block, dropped[i]) != NULL;
    if (s->n_block) s->block[s->n_block - 1] = '\0';
    if (!drop || o->verbose) print_line(o, pipe, -1, s->block);
    return true;
}

/* Single lines of launchers about an exit code. */
static bool is_noise(const char *line)
{
    static const char *const noise[] = {"Forwarding signal",
                                        "YOUR APPLICATION TERMINATED WITH",
                                        "This typically refers",
                                        "Please see the FAQ page",
                                        "srun: Job step aborted",
                                        "Exited with exit code",
                                        "lacks support for cpu binding",
                                        "srun: launch/slurm",
                                        "slurmstepd: error: *** STEP"};
    for (size_t i = 0; i < sizeof noise / sizeof *noise; i++) {
        if (strstr(line, noise[i])) return true;
    }
    return false;
}

/* Has another rank printed the same error or warning? Then remember nothing; else remember it. A recipe that no rank
 * can read is reported once so. */
static bool is_repeated(struct lvn_launch_output *o, int rank, const char *text)
{
    if (strncmp(text, "error: ", 7) && strncmp(text, "  ", 2) && strncmp(text, "warning: ", 9)) return false;
    for (int i = 0; i < o->n_errors && i < ERRORS; i++) {
        if (o->error[i].rank != rank && !strncmp(o->error[i].text, text, sizeof o->error[i].text - 1)) return true;
    }
    o->error[o->n_errors % ERRORS].rank = rank;
    snprintf(o->error[o->n_errors++ % ERRORS].text, sizeof o->error[0].text, "%s", text);
    return false;
}

static void take_line(struct lvn_launch_output *o, int pipe, char *line)
{
    const char *text;
    int rank = parse_rank(o, line, &text);
    drop_prefixes(o, line, line + (text - line));
    if (rank < 0 && pipe == 1 && !strcmp(text, LVN_RELAY_STOP)) {
        o->stops = true;
        return;
    }
    if (rank == 0) o->started = true;
    o->explained |= !strncmp(text, "error: ", 7);
    if (rank < 0 && add_to_banner(o, &o->stream[pipe], pipe, line)) return;
    if (rank < 0 && !o->verbose && is_noise(line)) return;
    bool exit_line = rank >= 0 && pipe == 1 && text[0] == LVN_EXIT_MARK;
    if (rank >= 0 && !exit_line && text[0] != '\r') lvn_launch_logs_add(o->l->history.logs, rank, text);
    if (exit_line) {
        record_exit(o, text + 1);
    } else if (rank >= 0 && text[0] == '\r') {
        draw_live(o, text + 1);
    } else if (pipe == 0 || rank < 0 || !is_repeated(o, rank, text)) {
        print_line(o, pipe, rank, text);
    }
}

static void end_line(struct lvn_launch_output *o, int pipe)
{
    struct lvn_text *line = &o->stream[pipe].line;
    lvn_text_add(line, "");
    if (lvn_text_status(line) == LVN_OK) {
        take_line(o, pipe, line->p);
        lvn_text_clear(line);
    } else {
        lvn_error_clear();
        lvn_text_release(line);
        print_line(o, 1, -1, "warning: a line of a rank is left out: not enough memory for it");
    }
}

void lvn_launch_output_add(struct lvn_launch_output *o, int pipe, const char *text, int64_t n)
{
    struct stream *s = &o->stream[pipe];
    for (int64_t at = 0, bytes; at < n; at += bytes) {
        const char *stop = memchr(text + at, '\n', (size_t)(n - at));
        bytes = stop ? stop + 1 - (text + at) : n - at;
        lvn_text_add_bytes(&s->line, text + at, bytes - (stop != NULL));
        if (stop || s->line.n > LVN_LAUNCH_MAX_LINE) end_line(o, pipe);
    }
    if (n > 0) return;
    if (s->line.n) end_line(o, pipe);
    if (s->in_block && s->n_block) { /* a banner without its end */
        s->in_block = false;
        s->block[s->n_block - 1] = '\0';
        print_line(o, pipe, -1, s->block);
    }
}
