/* ranks_request.c - a request as bytes: words, each followed by a NUL. First the numbers, then the folder, the
 * variables, an empty word, and the words of the command without the program. */
#include "launch/ranks_request.h"

#include <unistd.h>

#include "base/files.h"
#include "base/text.h"
#include "launch/launch.h"

enum { REQUEST_BYTES = 16 << 20 }; /* maximum size of a request */

extern char **environ;

static void add_word(struct lvn_text *t, const char *word)
{
    lvn_text_add_bytes(t, word, (int64_t)strlen(word) + 1);
}

enum lvn_status lvn_ranks_request_send(int fd, const struct lvn_ranks_request *request)
{
    LVN_LOCAL_TEXT(t);
    char numbers[100], folder[4096];
    if (!getcwd(folder, sizeof folder)) snprintf(folder, sizeof folder, "/");
    snprintf(numbers, sizeof numbers, "%d %d %d %d %d %d", request->first, request->n, request->size, request->node,
             request->nodes, request->command.n - 1);
    add_word(&t, numbers);
    add_word(&t, folder);
    for (int i = 0; i < request->variables.n; i++)
        if (lvn_launch_exports(request->variables.word[i])) add_word(&t, request->variables.word[i]);
    add_word(&t, "");
    for (int i = 1; i < request->command.n; i++) add_word(&t, request->command.word[i]);
    bool sent = lvn_text_string(&t) && lvn_fd_write(fd, t.p, t.n);
    LVN_CHECK(sent || errno == EPIPE, IO, "cannot send its part of the run to a host: %s", strerror(errno));
    return LVN_OK;
}

void lvn_ranks_request_add_environment(struct lvn_ranks_request *request)
{
    for (char **e = environ; *e; e++) lvn_words_add(&request->variables, "%s", *e);
}

const char *lvn_ranks_request_variable(const struct lvn_ranks_request *request, const char *name)
{
    const size_t n = strlen(name);
    for (int i = 0; i < request->variables.n; i++)
        if (!strncmp(request->variables.word[i], name, n)) return request->variables.word[i] + n;
    return NULL;
}

/* The next word of standard input. Read byte by byte, because the bytes after the request are signals. */
static enum lvn_status next_word(struct lvn_arena *a, int64_t *bytes_left, char **word)
{
    LVN_LOCAL_TEXT(t);
    char c = 0;
    ssize_t n;
    while ((n = read(STDIN_FILENO, &c, 1)) > 0 && c && --*bytes_left > 0) lvn_text_add_bytes(&t, &c, 1);
    LVN_TRY(lvn_text_status(&t));
    *word = n > 0 && !c ? lvn_arena_strdup(a, t.p ? t.p : "") : NULL;
    LVN_CHECK(*word, ARG,
              "`levin ranks --part` reads its part of the run from standard input, which is empty; `levin ranks` on "
              "another host sends it");
    return LVN_OK;
}

/* The variables that a launcher may set for ranks that another one starts. None of them is a key of a recipe. */
static bool is_of_launcher(const char *variable)
{
    static const char *const prefixes[] = {
        "LEVIN_RENDEZVOUS=", "LEVIN_RENDEZVOUS_TOKEN=", "LEVIN_LAUNCH=",  "LEVIN_LAUNCH_ID=",
        "LEVIN_RESTART=",    "LEVIN_RUN_BEGUN=",        "LEVIN_TERMINAL="};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (!strncmp(variable, prefixes[i], strlen(prefixes[i]))) return true;
    return false;
}

enum lvn_status lvn_ranks_request_read(struct lvn_arena *a, struct lvn_ranks_request *request)
{
    int64_t bytes_left = REQUEST_BYTES;
    int words;
    const bool own = request->command.n > 1;
    char *word;
    LVN_TRY(next_word(a, &bytes_left, &word));
    LVN_CHECK(sscanf(word, "%d %d %d %d %d %d", &request->first, &request->n, &request->size, &request->node,
                     &request->nodes, &words) == 6 &&
                  request->n > 0 && request->first >= 0 && request->size <= 1 << 20 &&
                  request->n <= request->size - request->first && words > 0,
              ARG, "`levin ranks --part` read '%.80s' from standard input, which does not describe a part of a run",
              word);
    LVN_TRY(next_word(a, &bytes_left, &word));
    LVN_CHECK(own || !chdir(word), ARG, "cannot change to the folder '%s' on this host (%s): share it, or create it",
              word, strerror(errno));
    for (;;) {
        LVN_TRY(next_word(a, &bytes_left, &word));
        if (!*word) break;
        if (!own || is_of_launcher(word)) lvn_words_add(&request->variables, "%s", word);
    }
    lvn_ranks_request_add_environment(request);
    for (int i = 0; i < words; i++) {
        LVN_TRY(next_word(a, &bytes_left, &word));
        if (!own) lvn_words_add(&request->command, "%s", word);
    }
    return lvn_words_status(&request->command);
}
