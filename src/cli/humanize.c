/* humanize.c - numbers and texts for people. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/redact.h"
#include "cli/cli.h"

void lvn_cli_put(FILE *out, const char *text)
{
    char capacity[4096]; /* lines in one piece: some MPIs turn buffers off, and launchers mark each piece */
    size_t n = 0;
    while (*text) {
        if (n > sizeof capacity - LVN_REDACTED_ONE) {
            fwrite(capacity, 1, n, out);
            n = 0;
        }
        if (*text == '\n' || *text == '\t')
            capacity[n++] = *text++;
        else
            n += strlen(lvn_redacted_next(&text, capacity + n));
    }
    fwrite(capacity, 1, n, out);
}

bool lvn_cli_vput(FILE *out, const char *format, va_list arguments)
{
    char capacity[1024], *text = capacity;
    va_list again;
    va_copy(again, arguments);
    int n = vsnprintf(capacity, sizeof capacity, format, arguments);
    if (n >= (int)sizeof capacity) n = vasprintf(&text, format, again);
    va_end(again);
    if (n < 0) return false;
    lvn_cli_put(out, text);
    if (text != capacity) free(text);
    return true;
}

char *lvn_seconds_text(double seconds, char text[LVN_NUMBER_TEXT])
{
    int64_t s = isfinite(seconds) && seconds < 1e15 ? (int64_t)(seconds + 0.5) : 0;
    if (!isfinite(seconds)) {
        snprintf(text, LVN_NUMBER_TEXT, "?");
    } else if (seconds < 10) {
        snprintf(text, LVN_NUMBER_TEXT, "%.1f s", seconds);
    } else if (s < 60) {
        snprintf(text, LVN_NUMBER_TEXT, "%" PRId64 " s", s);
    } else if (s < 3600) {
        snprintf(text, LVN_NUMBER_TEXT, "%" PRId64 " min %02" PRId64 " s", s / 60, s % 60);
    } else if (s < 86400) {
        snprintf(text, LVN_NUMBER_TEXT, "%" PRId64 " h %02" PRId64 " min", s / 3600, s % 3600 / 60);
    } else {
        snprintf(text, LVN_NUMBER_TEXT, "%" PRId64 " d %" PRId64 " h", s / 86400, s % 86400 / 3600);
    }
    return text;
}

char *lvn_batch_text(const char *unit, int64_t samples, int64_t length, char text[LVN_BATCH_TEXT])
{
    if (length > 1)
        snprintf(text, LVN_BATCH_TEXT, "%" PRId64 " sequences of %" PRId64 " %s", samples, length, unit);
    else
        snprintf(text, LVN_BATCH_TEXT, "%" PRId64 " %s", samples, unit);
    return text;
}
