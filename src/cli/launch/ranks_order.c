/* ranks_order.c - the order as bytes: words, each with a zero byte behind it. First the numbers, then the folder, the
 * variables, an empty word, and the words of the command without the program. */
#include "cli/launch/ranks_order.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/files.h"
#include "base/text.h"
#include "cli/launch/launch.h"

enum { ORDER_BYTES = 16 << 20 }; /* of an order at most */

extern char **environ;

static void add_word(struct lvn_text *t, const char *word)
{
    lvn_text_add_bytes(t, word, (int64_t)strlen(word) + 1);
}

enum lvn_status lvn_ranks_order_send(int fd, const struct lvn_ranks_order *o)
{
    LVN_LOCAL_TEXT(t);
    char numbers[100], folder[4096];
    if (!getcwd(folder, sizeof folder)) snprintf(folder, sizeof folder, "/");
    snprintf(numbers, sizeof numbers, "%d %d %d %d %d %d", o->first, o->n, o->size, o->node, o->nodes,
             o->command.n - 1);
    add_word(&t, numbers);
    add_word(&t, folder);
    for (int i = 0; i < o->variables.n; i++)
        if (lvn_launch_exports(o->variables.word[i])) add_word(&t, o->variables.word[i]);
    add_word(&t, "");
    for (int i = 1; i < o->command.n; i++) add_word(&t, o->command.word[i]);
    bool sent = lvn_text_string(&t) && lvn_fd_write(fd, t.p, t.n);
    LVN_CHECK(sent || errno == EPIPE, IO, "cannot send a host its part of the run: %s", strerror(errno));
    return LVN_OK;
}

void lvn_ranks_order_add_environment(struct lvn_ranks_order *o)
{
    for (char **e = environ; *e; e++) lvn_words_add(&o->variables, "%s", *e);
}

const char *lvn_ranks_order_variable(const struct lvn_ranks_order *o, const char *name)
{
    const size_t n = strlen(name);
    for (int i = 0; i < o->variables.n; i++)
        if (!strncmp(o->variables.word[i], name, n)) return o->variables.word[i] + n;
    return NULL;
}

/* The next word of standard input. Read byte by byte: the bytes behind the order are signals. */
static enum lvn_status next_word(struct lvn_arena *a, int64_t *capacity, char **word)
{
    LVN_LOCAL_TEXT(t);
    char c = 0;
    ssize_t n;
    while ((n = read(STDIN_FILENO, &c, 1)) > 0 && c && --*capacity > 0) lvn_text_add_bytes(&t, &c, 1);
    *word = n > 0 && !c ? lvn_arena_strdup(a, t.p ? t.p : "") : NULL;
    LVN_CHECK(*word, ARG,
              "`levin ranks --part` reads its part of the run from standard input, and nothing came; `levin ranks` on "
              "another host sends it");
    return LVN_OK;
}

/* The variables that a launcher may set for ranks which another one starts. No key of recipes is among them. */
static bool is_of_launcher(const char *variable)
{
    static const char *const begin[] = {
        "LEVIN_RENDEZVOUS=", "LEVIN_RENDEZVOUS_TOKEN=", "LEVIN_LAUNCH=",  "LEVIN_LAUNCH_ID=",
        "LEVIN_RESTART=",    "LEVIN_RUN_BEGUN=",        "LEVIN_TERMINAL="};
    for (size_t i = 0; i < sizeof begin / sizeof *begin; i++)
        if (!strncmp(variable, begin[i], strlen(begin[i]))) return true;
    return false;
}

enum lvn_status lvn_ranks_order_read(struct lvn_arena *a, struct lvn_ranks_order *o)
{
    int64_t capacity = ORDER_BYTES;
    int words;
    const bool own = o->command.n > 1;
    char *word;
    LVN_TRY(next_word(a, &capacity, &word));
    LVN_CHECK(sscanf(word, "%d %d %d %d %d %d", &o->first, &o->n, &o->size, &o->node, &o->nodes, &words) == 6 &&
                  o->n > 0 && o->first >= 0 && o->size <= 1 << 20 && o->n <= o->size - o->first && words > 0,
              ARG, "`levin ranks --part` read '%.80s' from standard input, which describes no part of a run", word);
    LVN_TRY(next_word(a, &capacity, &word));
    LVN_CHECK(own || !chdir(word), ARG, "there is no folder '%s' on this host (%s): share it, or make it", word,
              strerror(errno));
    for (;;) {
        LVN_TRY(next_word(a, &capacity, &word));
        if (!*word) break;
        if (!own || is_of_launcher(word)) lvn_words_add(&o->variables, "%s", word);
    }
    lvn_ranks_order_add_environment(o);
    for (int i = 0; i < words; i++) {
        LVN_TRY(next_word(a, &capacity, &word));
        if (!own) lvn_words_add(&o->command, "%s", word);
    }
    return lvn_words_status(&o->command);
}
