/* stop.h - the signals that ask a command to save and exit: SIGINT, SIGTERM, and SIGHUP of a closed terminal, unless it
 * was ignored from the start (nohup). Used by long-running commands. train.c and levin launch handle SIGUSR1. */
#ifndef LVN_STOP_H
#define LVN_STOP_H

#include <signal.h>
#include <stdbool.h>

/* Not 0: one of the signals has arrived since lvn_stop_catch(). A second one of the same number kills the program. */
extern volatile sig_atomic_t lvn_stop_requested;
void lvn_stop_catch(void);
/* Install another handler; may be called again. */
void lvn_stop_catch_with(void (*handler)(int number));
/* Was SIGHUP ignored at the first call of this function, at the program's start? Then children must ignore it, too. */
bool lvn_stop_outlives_terminal(void);

#endif
