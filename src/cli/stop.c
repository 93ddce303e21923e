/* stop.c - see stop.h. */
#include "cli/stop.h"

#include <stddef.h>

volatile sig_atomic_t lvn_stop_asked;

static void ask(int number)
{
    (void)number;
    lvn_stop_asked = 1;
}

bool lvn_stop_outlives_terminal(void)
{
    static int ignored = -1;
    struct sigaction now;
    if (ignored < 0) ignored = sigaction(SIGHUP, NULL, &now) == 0 && now.sa_handler == SIG_IGN;
    return ignored == 1;
}

static void install(void (*handler)(int number), int flags)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    bool stays = lvn_stop_outlives_terminal();
    sigemptyset(&action.sa_mask);
    for (int i = 0; i < 3; i++) {
        if (numbers[i] != SIGHUP || !stays) sigaction(numbers[i], &action, NULL);
    }
}

void lvn_stop_catch(void)
{
    install(ask, SA_RESTART | SA_RESETHAND);
}

void lvn_stop_give(void (*handler)(int number))
{
    install(handler, SA_RESTART);
}
