/* stop.c - see stop.h. */
#include "cli/stop.h"

#include <stddef.h>

volatile sig_atomic_t lvn_stop_requested;

static void on_signal(int number)
{
    (void)number;
    lvn_stop_requested = 1;
}

bool lvn_stop_outlives_terminal(void)
{
    static int ignored = -1; /* not known yet */
    struct sigaction now;
    if (ignored < 0) ignored = sigaction(SIGHUP, NULL, &now) == 0 && now.sa_handler == SIG_IGN;
    return ignored == 1;
}

static void install(void (*handler)(int number), int flags)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    const bool ignore_hup = lvn_stop_outlives_terminal();
    sigemptyset(&action.sa_mask);
    for (int i = 0; i < 3; i++) {
        if (numbers[i] != SIGHUP || !ignore_hup) sigaction(numbers[i], &action, NULL);
    }
}

void lvn_stop_catch(void)
{
    install(on_signal, SA_RESTART | SA_RESETHAND);
}

void lvn_stop_catch_with(void (*handler)(int number))
{
    install(handler, SA_RESTART);
}
