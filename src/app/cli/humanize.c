/* humanize.c - numbers and untrusted texts as people read them; see humanize.h. */
#include "cli/humanize.h"

#include <sys/ioctl.h>

#include "base/redact.h"
#include "cli/cli.h"

void lvn_cli_put(FILE *out, const char *text)
{
    char buffer[4096]; /* lines in one write: some MPIs turn buffering off, and launchers prefix each write */
    size_t n = 0;
    while (*text) {
        if (n > sizeof buffer - LVN_REDACTED_ONE) {
            fwrite(buffer, 1, n, out);
            n = 0;
        }
        if (*text == '\n' || *text == '\t')
            buffer[n++] = *text++;
        else
            n += strlen(lvn_redacted_next(&text, buffer + n));
    }
    fwrite(buffer, 1, n, out);
}

bool lvn_cli_vput(FILE *out, const char *format, va_list arguments)
{
    char buffer[1024], *text = buffer;
    va_list second;
    va_copy(second, arguments);
    int n = vsnprintf(buffer, sizeof buffer, format, arguments);
    if (n >= (int)sizeof buffer) n = vasprintf(&text, format, second);
    va_end(second);
    if (n < 0) return false;
    lvn_cli_put(out, text);
    if (text != buffer) free(text);
    return true;
}

int lvn_terminal_columns(int fd)
{
    struct winsize size;
    return ioctl(fd, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

int lvn_text_columns(const char *text)
{
    int n = 0;
    for (; *text; text++) n += (*text & 0xc0) != 0x80; /* not the bytes of UTF-8 after the first */
    return n;
}

char *lvn_seconds_text(double seconds, char text[LVN_NUMBER_TEXT])
{
    const bool known = fabs(seconds) < 1e15;
    int64_t s = known ? (int64_t)(seconds + 0.5) : 0;
    if (!known) {
        snprintf(text, LVN_NUMBER_TEXT, "?");
    } else if (seconds > 0 && seconds < 0.1) {
        snprintf(text, LVN_NUMBER_TEXT, seconds < 0.01 ? "%.1f ms" : "%.0f ms", seconds * 1e3);
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

char *lvn_batch_text(const char *unit, int64_t samples, int64_t length, double fill, char text[LVN_BATCH_TEXT])
{
    char count[LVN_NUMBER_TEXT];
    if (length > 1)
        snprintf(text, LVN_BATCH_TEXT, "%" PRId64 " sequence%s of %" PRId64 " %s", samples, lvn_plural(samples), length,
                 unit);
    else
        snprintf(text, LVN_BATCH_TEXT, "%" PRId64 " %.*s", samples, (int)strlen(unit) - (samples == 1), unit);
    if (fill > 0 && fill < 1)
        lvn_print_append(text, LVN_BATCH_TEXT, " (%s %s without padding)",
                         lvn_count_text((int64_t)((double)(samples * length) * fill), count), unit);
    return text;
}
