/* process.c - see process.h. No shell is involved. */
#include "cli/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/files.h"
#include "base/list.h"
#include "base/text.h"
#include "cli/cli.h"

void lvn_words_add(struct lvn_words *w, const char *format, ...)
{
    char *word = NULL;
    va_list args;
    va_start(args, format);
    int n = vasprintf(&word, format, args);
    va_end(args);
    const bool fits = lvn_arena_list_reserve(w->arena, &w->word, w->n, &w->capacity, w->n + 2, sizeof *w->word);
    char *copy = n >= 0 && fits ? lvn_arena_strdup(w->arena, word) : NULL;
    if (n >= 0) free(word);
    if (copy)
        w->word[w->n++] = copy;
    else
        w->failed = true;
}

enum lvn_status lvn_words_status(const struct lvn_words *w)
{
    LVN_CHECK(!w->failed, MEMORY, "no memory for a command line");
    return LVN_OK;
}

void lvn_words_text(const struct lvn_words *w, struct lvn_text *t)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+=./,:@%^";
    for (int i = 0; i < w->n; i++) {
        const char *word = w->word[i];
        if (i) lvn_text_add(t, " ");
        if (*word && !word[strspn(word, plain)]) {
            lvn_text_add(t, word);
            continue;
        }
        lvn_text_add(t, "'");
        for (; *word; word++) lvn_text_add_bytes(t, *word == '\'' ? "'\\''" : word, *word == '\'' ? 4 : 1);
        lvn_text_add(t, "'");
    }
}

const char *lvn_word_quoted(struct lvn_arena *a, const char *word)
{
    LVN_LOCAL_TEXT(t);
    char *words[] = {(char *)word, NULL};
    lvn_words_text(&(struct lvn_words){.word = words, .n = 1}, &t);
    const char *text = lvn_text_string(&t);
    return text ? lvn_arena_strdup(a, text) : NULL;
}

char *lvn_process_find(struct lvn_arena *a, const char *name)
{
    const char *path = getenv("PATH");
    char full[PATH_MAX];
    if (strchr(name, '/')) return access(name, X_OK) || lvn_path_is_dir(name) ? NULL : lvn_arena_strdup(a, name);
    for (const char *p = path ? path : "/usr/bin:/bin"; *p;) {
        int n = (int)strcspn(p, ":");
        bool whole = lvn_fit(full, sizeof full, "%.*s/%s", n, p, name);
        if (whole && n > 0 && !access(full, X_OK) && lvn_path_is_file(full)) return lvn_arena_strdup(a, full);
        p += n + (p[n] == ':');
    }
    return NULL;
}

enum lvn_status lvn_process_pipes(int pipes[][2], int n)
{
    for (int i = 0; i < n; i++) {
        if (!pipe2(pipes[i], O_CLOEXEC)) continue;
        const int reason = errno;
        while (i-- > 0) close(pipes[i][0]), close(pipes[i][1]);
        LVN_FAIL(IO, "cannot create a pipe: %s", strerror(reason));
    }
    return LVN_OK;
}

static void run_child(char *const *words, int out)
{
    int null = open("/dev/null", O_RDONLY);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (null >= 0) dup2(null, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    setpgid(0, 0); /* so that its children are killed with it when it takes too long */
    execv(words[0], words);
    _exit(127);
}

/* Read what the child prints until it closes the pipe. False: it has not until `end`. */
static bool read_output(int fd, double end, struct lvn_text *output)
{
    char text[4096];
    for (;;) {
        double left = end - lvn_seconds();
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int ready = left > 0 ? poll(&p, 1, (int)(left * 1e3) + 1) : 0;
        if (ready == 0) return false;
        ssize_t n = ready > 0 ? read(fd, text, sizeof text) : -1;
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return true;
        if (output) lvn_text_add_bytes(output, text, n);
    }
}

/* Wait until the child ends. False: it has not until `end`, even if it has closed its output. */
static bool wait_until(pid_t pid, double end, int *status)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    for (;;) {
        pid_t ended = waitpid(pid, status, WNOHANG);
        if (ended != 0 && !(ended < 0 && errno == EINTR)) return true;
        if (lvn_seconds() > end) return false;
        nanosleep(&pause, NULL);
    }
}

int lvn_process_run(char *const *words, double seconds, struct lvn_text *output)
{
    int pipes[2], status = 0;
    double end = lvn_seconds() + seconds;
    if (pipe2(pipes, O_CLOEXEC)) return -1;
    pid_t pid = fork();
    if (pid == 0) run_child(words, pipes[1]);
    close(pipes[1]);
    bool late = pid > 0 && (!read_output(pipes[0], end, output) || !wait_until(pid, end, &status));
    close(pipes[0]);
    if (pid < 0) return -1;
    if (late) {
        if (kill(-pid, SIGKILL)) kill(pid, SIGKILL); /* it may not have its process group yet */
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
        return -2;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* --- process 1 of a container: what its init (as tini) does, without another program in the image ---
 *
 * The kernel treats process 1 of a process namespace differently: a signal for which it has no handler is dropped, so
 * that `levin prepare` in a container could not be stopped, and orphans of the whole namespace become its children,
 * which stay zombies until it waits for them. So process 1 only passes signals on and reaps; the command runs in its
 * child. When the child has ended, process 1 ends, and the kernel kills what is left of the namespace. */

/* Signals of a fault of this process itself, which must not wait. */
static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT};

/* The child is in this process's group, so it has got what a terminal sends (^C) already; a second SIGINT would kill
 * it. SIGHUP is passed on: when a terminal is closed, only its first process is sure to get one. */
static bool child_has_it(const siginfo_t *info)
{
    return info->si_code == SI_KERNEL && info->si_signo != SIGHUP;
}

/* Wait for all children that have ended. Has `child`? Then *status is its status. */
static bool reap(pid_t child, int *status)
{
    bool ended = false;
    int other;
    for (pid_t pid; (pid = waitpid(-1, &other, WNOHANG)) > 0;) {
        if (pid != child) continue;
        *status = other;
        ended = true;
    }
    return ended;
}

static int exit_code(int status)
{
    if (WIFEXITED(status)) return WEXITSTATUS(status);
    int number = WTERMSIG(status);
    fprintf(stderr, "error: levin was killed by signal %d (%s)%s\n", number, strsignal(number),
            number == SIGKILL ? ", as it is when the memory of a container runs out: give it more, or see what `levin "
                                "plan` says of the recipe"
                              : "");
    return 128 + number;
}

bool lvn_process_as_init(int *code)
{
    sigset_t passed_on, before;
    siginfo_t info;
    int status = 0;
    if (getpid() != 1) return false;
    sigfillset(&passed_on);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) sigdelset(&passed_on, faults[i]);
    signal(SIGCHLD, SIG_DFL); /* where it is ignored, the kernel reaps, and no exit code remains */
    sigprocmask(SIG_BLOCK, &passed_on, &before);
    pid_t child = fork();
    if (child == 0) {
        sigprocmask(SIG_SETMASK, &before, NULL);
        return false;
    }
    if (child < 0) {
        fprintf(stderr,
                "error: levin is process 1 here and runs its commands in a child, which cannot be started: %s\n",
                strerror(errno));
        *code = LVN_EXIT_FAILED;
        return true;
    }
    for (;;) {
        int number = sigwaitinfo(&passed_on, &info);
        if (number == SIGCHLD && reap(child, &status)) break;
        if (number > 0 && number != SIGCHLD && !child_has_it(&info)) kill(child, number);
    }
    *code = exit_code(status);
    return true;
}
