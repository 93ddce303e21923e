/* log.h - log lines of the library.
 *
 * The library never prints. It passes each line to the one sink that the program has set, as main() does. Without a
 * sink, lines are dropped. One line is one event. Any thread may log; the sink is called by one thread at a time and
 * must not log. The text is valid during the call only. */
#ifndef LVN_LOG_H
#define LVN_LOG_H

#include "base/status.h"

enum lvn_log_level { LVN_LOG_ERROR, LVN_LOG_WARN, LVN_LOG_INFO, LVN_LOG_DEBUG };

typedef void lvn_log_sink(void *context, enum lvn_log_level level, const char *text);

/* Lines above `level` (DEBUG is the highest) are dropped before they are formatted. NULL: no sink. After this returns
 * the previous sink and its context are no longer used. */
void lvn_log_set(lvn_log_sink *sink, void *context, enum lvn_log_level level);
void lvn_log(enum lvn_log_level level, const char *format, ...) LVN_PRINTF(2, 3);
/* Drop the line if this process has already logged it with this function (the last 64 lines are remembered): for
 * properties of a file that is opened several times. */
void lvn_log_once(enum lvn_log_level level, const char *format, ...) LVN_PRINTF(2, 3);

#endif
