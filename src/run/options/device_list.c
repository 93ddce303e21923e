/* device_list.c - see device_list.h. */
#include "options/device_list.h"

/* Parse the next number of a list with commas; false: it is not a number. */
static bool next_number(const char **at, int64_t *x)
{
    char *end;
    *at += strspn(*at, " ");
    *x = strtoll(*at, &end, 10);
    bool good = **at >= '0' && **at <= '9' && *x <= 1000000;
    *at = end + strspn(end, " ");
    return good && (!**at || **at == ',' || **at == ']');
}

enum lvn_status lvn_devices_read(struct lvn_devices *out, const struct lvn_values *v)
{
    const char *text = v->trainer.devices ? v->trainer.devices : "", *at = text;
    bool good = true;
    *out = (struct lvn_devices){0};
    if (!*text || !strcasecmp(text, "auto") || !strcasecmp(text, "none")) return LVN_OK;
    const bool open = *at == '[';
    out->listed = open || strchr(text, ',');
    at += open;
    for (int64_t x; good && *at && *at != ']' && out->n < LVN_MAX_DEVICES; at += *at == ',') {
        good = next_number(&at, &x);
        if (out->listed && good) out->number[out->n++] = (int)x;
        if (!out->listed) out->n = x;
    }
    if (open) good = good && *at++ == ']';
    LVN_CHECK(good && !*at && (out->n || !out->listed), ARG,
              "trainer.devices must be the number of ranks on a node (2), or a list of devices (0,3), got '%.60s'",
              text);
    return LVN_OK;
}

int64_t lvn_devices_count(const struct lvn_values *v)
{
    struct lvn_devices devices;
    return lvn_devices_read(&devices, v) == LVN_OK ? devices.n : 0;
}
