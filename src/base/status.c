/* status.c - see status.h: the thread-local error record.
 *
 * The buffers are fixed, because recording an error must work when memory is exhausted. Longer texts are truncated. */
#include "base/status.h"

#include "base/redact.h"

static _Thread_local struct {
    char text[2048];
    char trace[2048];
    char location[128];
} record, saved;

enum lvn_status lvn_fail_at(const char *file, int line, enum lvn_status status, const char *format, ...)
{
    /* The arguments may point into the old record ("...: %s", levin_error_text()), so the new text is built
     * separately. */
    char text[sizeof record.text];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    lvn_redacted(record.text, sizeof record.text, text);
    record.trace[0] = '\0';
    const char *base = strrchr(file, '/');
    snprintf(record.location, sizeof record.location, "%s:%d", base ? base + 1 : file, line);
    return status;
}

enum lvn_status lvn_while_at(enum lvn_status status, const char *format, ...)
{
    size_t used = strlen(record.trace);
    char line[512], redacted[512];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    snprintf(record.trace + used, sizeof record.trace - used, "while %s\n",
             lvn_redacted(redacted, sizeof redacted, line));
    return status;
}

const char *levin_error_text(void)
{
    return record.text;
}

const char *levin_error_trace(void)
{
    return record.trace;
}

const char *lvn_error_location(void)
{
    return record.location;
}

void lvn_error_clear(void)
{
    record.text[0] = record.trace[0] = record.location[0] = '\0';
}

void lvn_error_save(void)
{
    memcpy(&saved, &record, sizeof saved);
}

void lvn_error_restore(void)
{
    memcpy(&record, &saved, sizeof record);
}

const char *lvn_status_text(enum lvn_status status)
{
    switch (status) {
#define LVN_X(name, text)                                                                                              \
    case LVN_##name:                                                                                                   \
        return text;
        LVN_STATUS_MAP(LVN_X)
#undef LVN_X
    }
    return "unknown status";
}
