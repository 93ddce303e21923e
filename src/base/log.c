/* log.c - see log.h. One sink; lines are truncated to a fixed length, so that logging allocates no memory. */
#include "base/log.h"

#include <pthread.h>

#include "base/random.h"
#include "base/redact.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the following, also while the sink runs */
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

/* The caller holds the lock. */
static void log_line(enum lvn_log_level level, const char *format, va_list args, bool once)
{
    static uint64_t lines[64]; /* hashes of lines that were logged once */
    static unsigned next;
    char text[2048], redacted[2048];
    if (!log_sink || level > log_level) return;
    vsnprintf(text, sizeof text, format, args);
    const uint64_t hash = once ? lvn_name_hash(text) : 0;
    for (int i = 0; i < 64 && once; i++)
        if (lines[i] == hash) return;
    if (once) lines[next++ % 64] = hash;
    log_sink(log_context, level, lvn_redacted(redacted, sizeof redacted, text));
}

void lvn_log(enum lvn_log_level level, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    pthread_mutex_lock(&lock);
    log_line(level, format, args, false);
    pthread_mutex_unlock(&lock);
    va_end(args);
}

void lvn_log_once(enum lvn_log_level level, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    pthread_mutex_lock(&lock);
    log_line(level, format, args, true);
    pthread_mutex_unlock(&lock);
    va_end(args);
}
