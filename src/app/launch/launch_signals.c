/* launch_signals.c - the signals that levin launch catches: counted, and delivered only while it waits in
 * lvn_launch_poll() or lvn_launch_pause(). launch_attempt.c, launch_nodes.c and node_agent.c react to them. */
#include <signal.h>
#include <time.h>

#include "base/clock.h"
#include "cli/stop.h"
#include "launch/launch.h"

struct lvn_launch_signal_counts lvn_launch_signals_seen;
static sigset_t signals_open; /* the mask with which ppoll() waits */

static void on_signal(int number)
{
    if (number == SIGINT) lvn_launch_signals_seen.interrupts++;
    if (number == SIGTERM || number == SIGHUP) lvn_launch_signals_seen.stops++;
    if (number == SIGUSR1) lvn_launch_signals_seen.timeups++;
}

void lvn_launch_signals(bool begin)
{
    static const int caught[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGCHLD};
    struct sigaction action = {.sa_handler = on_signal};
    sigset_t block;
    if (!begin) {
        sigprocmask(SIG_SETMASK, &signals_open, NULL);
        return;
    }
    sigemptyset(&action.sa_mask);
    sigemptyset(&block);
    for (size_t i = 0; i < sizeof caught / sizeof *caught; i++) {
        if (caught[i] == SIGHUP && lvn_stop_outlives_terminal()) continue;
        sigaddset(&block, caught[i]);
        sigaction(caught[i], &action, NULL);
    }
    signal(SIGPIPE, SIG_IGN);
    sigprocmask(SIG_BLOCK, &block, &signals_open); /* delivered only while ppoll() waits */
}

int lvn_launch_poll(struct pollfd *p, int n, double seconds)
{
    if (seconds < 0) seconds = 0;
    const struct timespec t = {.tv_sec = (time_t)seconds, .tv_nsec = (long)(1e9 * (seconds - (double)(time_t)seconds))};
    return ppoll(p, (nfds_t)n, &t, &signals_open);
}

bool lvn_launch_stop_requested(void)
{
    const struct lvn_launch_signal_counts *seen = &lvn_launch_signals_seen;
    return seen->interrupts || seen->stops || seen->timeups;
}

bool lvn_launch_pause(double seconds)
{
    for (double end = lvn_seconds() + seconds, left = seconds; left >= 0 && !lvn_launch_stop_requested();
         left = end - lvn_seconds())
        lvn_launch_poll(NULL, 0, left);
    return !lvn_launch_stop_requested();
}
