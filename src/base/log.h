/* log.h - sentences from the library to whoever listens.
 *
 * The library never prints: it hands each line to the one sink that the program has set. Without a sink, lines are
 * lost. One line is one event. The sink is called by whichever thread has something to say, by one at a time; it must
 * not log itself. The text is valid during the call only. */
#ifndef LVN_LOG_H
#define LVN_LOG_H

#include "base/status.h"

enum lvn_log_level { LVN_LOG_ERROR, LVN_LOG_WARN, LVN_LOG_INFO, LVN_LOG_DEBUG };

typedef void lvn_log_sink(void *context, enum lvn_log_level level, const char *text);

/* Lines above `level` (DEBUG is the highest) are dropped before they are made. NULL: no sink. When
 * it returns, nobody uses the sink and the context that were set before. */
void lvn_log_set(lvn_log_sink *sink, void *context, enum lvn_log_level level);
void lvn_log(enum lvn_log_level level, const char *format, ...) LVN_PRINTF(2, 3);

#endif
