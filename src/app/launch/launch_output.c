/* launch_output.c - forwards the output of ranks from a launcher, line by line; called by launch_attempt.c.
 *
 * Launchers prefix lines with the rank: Open MPI "[1,0]<stdout>:text", Hydra (MPICH, Intel MPI) "[0]<rank>:text",
 * levin ranks "[0] text", srun "0: text". Here each becomes "[0] text". A line of rank 0 that begins with a carriage
 * return is its live line (progress.h): it replaces the previous one, and rank 0 sends it again after other lines.
 * Lines that begin with LVN_EXIT_MARK are exit codes and are not printed. Launchers' banners about an exit code are
 * dropped, because they often name the wrong rank, and levin prints what happened. */
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/files.h"
#include "launch/launch.h"
#include "launch/ranks_relay.h"

enum { BLOCK = 8192, ERRORS = 16 };

struct stream {
    struct lvn_text line; /* the current line so far */
    char block[BLOCK];    /* the current banner so far */
    int64_t n_block;
    bool in_block;
};

struct lvn_launch_output {
    const struct lvn_launch *l;
    struct stream stream[2];
    bool prefix;         /* --prefix: print "[RANK] " before each line */
    bool plain_stdout;   /* no prefix on stdout: the launched command has --json */
    bool verbose;        /* also print launchers' banners and other messages */
    bool terminal;       /* stderr is a terminal */
    bool live_displayed; /* the terminal shows a live line */
    bool started;        /* rank 0 has printed a line */
    bool explained;      /* a rank or the launcher has printed an error, or a rank reported that it printed one */
    struct {
        int rank;
        char text[512];
    } error[ERRORS]; /* ring of the latest errors and warnings that ranks printed */
    int n_errors;    /* so far */
    bool failed;     /* a rank exited with 1 or another code */
    bool usage;      /* with 2 */
    bool fault;      /* with 76 */
    bool stopped;    /* with 75 */
    bool stops;      /* the launcher of another node was requested to stop */
    bool unread;     /* the reader of the output has closed it */
};

enum lvn_status lvn_launch_output_new(struct lvn_launch_output **out, const struct lvn_launch *l)
{
    struct lvn_launch_output *output = *out = lvn_calloc(1, sizeof *output);
    if (!output) return LVN_MEMORY;
    output->l = l;
    output->prefix = lvn_cli_on(l->c, LVN_FLAG_launch_prefix) && l->launcher.kind != LVN_LAUNCHER_DIRECT;
    output->verbose = lvn_cli_on(l->c, LVN_FLAG_any_verbose);
    output->terminal = isatty(STDERR_FILENO);
    for (int i = 0; i < l->c->n_rest; i++) output->plain_stdout |= !strncmp(l->c->rest[i], "--json", 6);
    return LVN_OK;
}

void lvn_launch_output_free(struct lvn_launch_output *output)
{
    for (int i = 0; output && i < 2; i++) lvn_text_release(&output->stream[i].line);
    free(output);
}

bool lvn_launch_output_started(const struct lvn_launch_output *output)
{
    return output->started;
}

int lvn_launch_output_exit_code(const struct lvn_launch_output *output)
{
    return output->failed    ? LVN_EXIT_FAILED
           : output->usage   ? LVN_EXIT_USAGE
           : output->fault   ? LVN_EXIT_FAULT
           : output->stopped ? LVN_EXIT_STOPPED
                             : LVN_EXIT_DONE;
}

bool lvn_launch_output_stops(const struct lvn_launch_output *output)
{
    return output->stops;
}

bool lvn_launch_output_unread(const struct lvn_launch_output *output)
{
    return output->unread;
}

bool lvn_launch_output_explained(const struct lvn_launch_output *output)
{
    return output->explained;
}

/* "75 said": a rank's exit code, and whether it has printed the reason. */
static void record_exit(struct lvn_launch_output *output, const char *text)
{
    char *rest;
    long code = strtol(text, &rest, 10);
    output->explained |= code != LVN_EXIT_DONE && strstr(rest, LVN_EXIT_EXPLAINED);
    bool *seen = code == LVN_EXIT_USAGE     ? &output->usage
                 : code == LVN_EXIT_FAULT   ? &output->fault
                 : code == LVN_EXIT_STOPPED ? &output->stopped
                                            : &output->failed;
    if (code != LVN_EXIT_DONE) *seen = true;
}

void lvn_launch_output_clear(struct lvn_launch_output *output)
{
    if (output->live_displayed) (void)lvn_fd_write(STDERR_FILENO, "\r\033[K", 4);
    output->live_displayed = false;
}

/* The rank in the launcher's prefix, and the text after the prefix; -1: no prefix, a line of the launcher itself. */
static int parse_rank(const struct lvn_launch_output *output, const char *line, const char **text)
{
    char *end;
    const char *p = line;
    *text = line;
    switch (output->l->launcher.kind) {
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
    if (end == p || rank < 0 || rank >= output->l->attempt.ranks) return -1;
    if (*end != (output->l->launcher.kind == LVN_LAUNCHER_SRUN ? ':' : ']')) return -1;
    end++;
    if (output->l->launcher.kind == LVN_LAUNCHER_OPENMPI) {
        if (strncmp(end, "<std", 4) || !(end = strstr(end, ">:"))) return -1;
        end += 2;
        if (output->l->launcher.major >= 5 && *end == ' ') end++;
    } else if (output->l->launcher.kind == LVN_LAUNCHER_MPICH || output->l->launcher.kind == LVN_LAUNCHER_INTEL) {
        if (strncmp(end, LVN_HYDRA_PREFIX_END, sizeof LVN_HYDRA_PREFIX_END - 1)) return -1;
        end += sizeof LVN_HYDRA_PREFIX_END - 1;
    } else if (*end == ' ') {
        end++;
    }
    *text = end;
    return (int)rank;
}

/* Open MPI and Hydra add their prefix to each piece of output that they read, also within lines: remove occurrences of
 * the prefix from the rest of the line. */
static void drop_prefixes(const struct lvn_launch_output *output, const char *line, char *text)
{
    const enum lvn_launcher kind = output->l->launcher.kind;
    if (kind != LVN_LAUNCHER_OPENMPI && kind != LVN_LAUNCHER_MPICH && kind != LVN_LAUNCHER_INTEL) return;
    const size_t n = (size_t)(text - line);
    const char *from = text, *end = text + strlen(text), *at;
    for (char *to = text; n; to += at - from, from = at + n) {
        at = memmem(from, (size_t)(end - from), line, n);
        memmove(to, from, (size_t)((at ? at : end + 1) - from)); /* the last piece with its NUL */
        if (!at) return;
    }
}

static void draw_live(struct lvn_launch_output *output, const char *text)
{
    struct winsize size;
    char line[512];
    int columns = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
    if (!output->terminal) return;
    int n = snprintf(line, sizeof line, "\r%.*s\033[K", columns - 1 < 480 ? columns - 1 : 480, text);
    (void)lvn_fd_write(STDERR_FILENO, line, n);
    output->live_displayed = true;
}

static void print_line(struct lvn_launch_output *output, int pipe, int rank, const char *text)
{
    char prefix[24] = "";
    int fd = pipe == 0 && !output->l->c->json ? STDOUT_FILENO : STDERR_FILENO;
    if (rank >= 0 && output->prefix && !(pipe == 0 && output->plain_stdout))
        snprintf(prefix, sizeof prefix, "[%d] ", rank);
    lvn_launch_output_clear(output);
    /* in one write, because other programs write to the same terminal */
    LVN_LOCAL_TEXT(t);
    lvn_text_printf(&t, "%s%s\n", prefix, text);
    output->unread |= t.p && !lvn_fd_write(fd, t.p, t.n) && errno == EPIPE;
}

/* Collect a banner, which is enclosed in lines of dashes (Open MPI) or of = (Hydra), and print it at its end unless it
 * is about an exit code. True: the line belongs to a banner. */
static bool add_to_banner(struct lvn_launch_output *output, struct stream *stream, int pipe, const char *line)
{
    static const char *const dropped[] = {"non-zero", "BAD TERMINATION", "APPLICATION TERMINATED",
                                          "Per user-direction"};
    bool dashes = strspn(line, "-") >= 60, equals = strspn(line, "=") >= 60;
    if (!stream->in_block && !dashes && !equals) return false;
    if (!stream->in_block) stream->n_block = 0;
    size_t n = strlen(line);
    if (stream->n_block + (int64_t)n + 2 < BLOCK) {
        memcpy(stream->block + stream->n_block, line, n);
        stream->n_block += (int64_t)n;
        stream->block[stream->n_block++] = '\n';
        stream->block[stream->n_block] = '\0';
    }
    bool ends = stream->in_block && (dashes || equals);
    stream->in_block = !ends;
    if (!ends) return true;
    bool drop = false;
    for (size_t i = 0; i < sizeof dropped / sizeof *dropped; i++) drop |= strstr(stream->block, dropped[i]) != NULL;
    if (stream->n_block) stream->block[stream->n_block - 1] = '\0';
    if (!drop || output->verbose) print_line(output, pipe, -1, stream->block);
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

/* Return true if another rank has printed the same error or warning; else remember it. So an error that all ranks
 * have is reported once. */
static bool is_repeated(struct lvn_launch_output *output, int rank, const char *text)
{
    if (strncmp(text, "error: ", 7) && strncmp(text, "  ", 2) && strncmp(text, "warning: ", 9)) return false;
    for (int i = 0; i < output->n_errors && i < ERRORS; i++) {
        if (output->error[i].rank != rank && !strncmp(output->error[i].text, text, sizeof output->error[i].text - 1))
            return true;
    }
    output->error[output->n_errors % ERRORS].rank = rank;
    snprintf(output->error[output->n_errors++ % ERRORS].text, sizeof output->error[0].text, "%s", text);
    return false;
}

static void handle_line(struct lvn_launch_output *output, int pipe, char *line)
{
    const char *text;
    int rank = parse_rank(output, line, &text);
    drop_prefixes(output, line, line + (text - line));
    if (rank < 0 && pipe == 1 && !strcmp(text, LVN_RELAY_STOP)) {
        output->stops = true;
        return;
    }
    if (rank == 0) output->started = true;
    output->explained |= !strncmp(text, "error: ", 7);
    if (rank < 0 && add_to_banner(output, &output->stream[pipe], pipe, line)) return;
    if (rank < 0 && !output->verbose && is_noise(line)) return;
    bool exit_line = rank >= 0 && pipe == 1 && text[0] == LVN_EXIT_MARK;
    if (rank >= 0 && !exit_line && text[0] != '\r') lvn_launch_logs_add(output->l->history.logs, rank, text);
    if (exit_line) {
        record_exit(output, text + 1);
    } else if (rank >= 0 && text[0] == '\r') {
        draw_live(output, text + 1);
    } else if (pipe == 0 || rank < 0 || !is_repeated(output, rank, text)) {
        print_line(output, pipe, rank, text);
    }
}

static void end_line(struct lvn_launch_output *output, int pipe)
{
    struct lvn_text *line = &output->stream[pipe].line;
    lvn_text_add(line, "");
    if (lvn_text_status(line) == LVN_OK) {
        handle_line(output, pipe, line->p);
        lvn_text_clear(line);
    } else {
        lvn_error_clear();
        lvn_text_release(line);
        print_line(output, 1, -1, "warning: a line of a rank was dropped: not enough memory");
    }
}

void lvn_launch_output_add(struct lvn_launch_output *output, int pipe, const char *text, int64_t n)
{
    struct stream *stream = &output->stream[pipe];
    for (int64_t at = 0, bytes; at < n; at += bytes) {
        const char *stop = memchr(text + at, '\n', (size_t)(n - at));
        bytes = stop ? stop + 1 - (text + at) : n - at;
        lvn_text_add_bytes(&stream->line, text + at, bytes - (stop != NULL));
        if (stop || stream->line.n > LVN_LAUNCH_MAX_LINE) end_line(output, pipe);
    }
    if (n > 0) return;
    if (stream->line.n) end_line(output, pipe);
    if (stream->in_block && stream->n_block) { /* a banner without its end */
        stream->in_block = false;
        stream->block[stream->n_block - 1] = '\0';
        print_line(output, pipe, -1, stream->block);
    }
}
