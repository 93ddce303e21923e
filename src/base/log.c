/* log.c - see log.h. One sink; lines are cut to a fixed length, so that logging needs no memory. */
#include "base/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/redact.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects all of the following, also while the sink runs */
static lvn_log_sink *log_sink;
static void *log_context;
static enum lvn_log_level log_level = LVN_LOG_INFO;

void lvn_log_set(lvn_log_sink *sink, void *context, enum lvn_log_level level)
{
    pthread_mutex_lock(&lock);
    log_sink = sink;
    log_context = context;
    log_level = level;
    pthread_mutex_unlock(&lock);
}

void lvn_log(enum lvn_log_level level, const char *format, ...)
{
    char text[2048], redacted[2048];
    pthread_mutex_lock(&lock);
    if (log_sink && level <= log_level) {
        va_list args;
        va_start(args, format);
        vsnprintf(text, sizeof text, format, args);
        va_end(args);
        log_sink(log_context, level, lvn_redacted(redacted, sizeof redacted, text));
    }
    pthread_mutex_unlock(&lock);
}
