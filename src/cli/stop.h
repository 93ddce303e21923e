/* stop.h - signals that ask a command to end well: SIGINT, SIGTERM, and SIGHUP of a terminal that goes away, unless it
 * is ignored from the start (nohup). */
#ifndef LVN_STOP_H
#define LVN_STOP_H

#include <signal.h>
#include <stdbool.h>

/* Not 0: one of them has come, after lvn_stop_catch(). A second one of its kind ends the program at once. */
extern volatile sig_atomic_t lvn_stop_asked;
void lvn_stop_catch(void);
/* Give them to a handler of one's own; may be called again. */
void lvn_stop_give(void (*handler)(int number));
/* Was SIGHUP ignored when this was first asked, at the start? Then children are to ignore it, too. */
bool lvn_stop_outlives_terminal(void);

#endif
