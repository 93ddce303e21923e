/* ranks_order.c - the order as bytes: words, each followed by a NUL. First the numbers, then the folder, the variables,
 * an empty word, and the words of the command without the program. */
#include "launch/ranks_order.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/files.h"
#include "base/text.h"
#include "launch/launch.h"

enum { ORDER_BYTES = 16 << 20 }; /* maximum size of an order */

extern char **environ;

static void add_word(struct lvn_text *t, const char *word)
{
    lvn_text_add_bytes(t, word, (int64_t)strlen(word) + 1);
}

enum lvn_status lvn_ranks_order_send(int fd, const struct lvn_ranks_order *order)
{
    LVN_LOCAL_TEXT(t);
    char numbers[100], folder[4096];
    if (!getcwd(folder, sizeof folder)) snprintf(folder, sizeof folder, "/");
    snprintf(numbers, sizeof numbers, "%d %d %d %d %d %d", order->first, order->n, order->size, order->node,
             order->nodes, order->command.n - 1);
    add_word(&t, numbers);
    add_word(&t, folder);
    for (int i = 0; i < order->variables.n; i++)
        if (lvn_launch_exports(order->variables.word[i])) add_word(&t, order->variables.word[i]);
    add_word(&t, "");
    for (int i = 1; i < order->command.n; i++) add_word(&t, order->command.word[i]);
    bool sent = lvn_text_string(&t) && lvn_fd_write(fd, t.p, t.n);
    LVN_CHECK(sent || errno == EPIPE, IO, "cannot send its part of the run to a host: %s", strerror(errno));
    return LVN_OK;
}

void lvn_ranks_order_add_environment(struct lvn_ranks_order *order)
{
    for (char **e = environ; *e; e++) lvn_words_add(&order->variables, "%s", *e);
}

const char *lvn_ranks_order_variable(const struct lvn_ranks_order *order, const char *name)
{
    const size_t n = strlen(name);
    for (int i = 0; i < order->variables.n; i++)
        if (!strncmp(order->variables.word[i], name, n)) return order->variables.word[i] + n;
    return NULL;
}

/* The next word of standard input. Read byte by byte, because the bytes after the order are signals. */
static enum lvn_status next_word(struct lvn_arena *a, int64_t *bytes_left, char **word)
{
    LVN_LOCAL_TEXT(t);
    char c = 0;
    ssize_t n;
    while ((n = read(STDIN_FILENO, &c, 1)) > 0 && c && --*bytes_left > 0) lvn_text_add_bytes(&t, &c, 1);
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

enum lvn_status lvn_ranks_order_read(struct lvn_arena *a, struct lvn_ranks_order *order)
{
    int64_t bytes_left = ORDER_BYTES;
    int words;
    const bool own = order->command.n > 1;
    char *word;
    LVN_TRY(next_word(a, &bytes_left, &word));
    LVN_CHECK(sscanf(word, "%d %d %d %d %d %d", &order->first, &order->n, &order->size, &order->node, &order->nodes,
                     &words) == 6 &&
                  order->n > 0 && order->first >= 0 && order->size <= 1 << 20 &&
                  order->n <= order->size - order->first && words > 0,
              ARG, "`levin ranks --part` read '%.80s' from standard input, which does not describe a part of a run",
              word);
    LVN_TRY(next_word(a, &bytes_left, &word));
    LVN_CHECK(own || !chdir(word), ARG, "cannot change to the folder '%s' on this host (%s): share it, or create it",
              word, strerror(errno));
    for (;;) {
        LVN_TRY(next_word(a, &bytes_left, &word));
        if (!*word) break;
        if (!own || is_of_launcher(word)) lvn_words_add(&order->variables, "%s", word);
    }
    lvn_ranks_order_add_environment(order);
    for (int i = 0; i < words; i++) {
        LVN_TRY(next_word(a, &bytes_left, &word));
        if (!own) lvn_words_add(&order->command, "%s", word);
    }
    return lvn_words_status(&order->command);
}
