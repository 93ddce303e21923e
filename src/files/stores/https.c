/* https.c - the store of https:// and http://: files of web servers, read-only. User and password may be part of the
 * URL, as in curl. Listing and writing are not supported. */
#include "stores/store_private.h"
#include "stores/store_request.h"

static enum lvn_status open_location(struct lvn_location *location)
{
    return lvn_location_split(location);
}

static enum lvn_status address(struct lvn_location *location, const struct lvn_store_request *request,
                               struct lvn_arena *a, struct lvn_http_request *http_request)
{
    LVN_LOCAL_TEXT(t);
    /* The URL is used unchanged: it is already encoded, or libcurl reports the error. Only spaces are encoded. */
    for (const char *c = location->url; *c && *c != '#'; c++) lvn_text_printf(&t, *c == ' ' ? "%%20" : "%c", *c);
    http_request->url = lvn_text_status(&t) == LVN_OK ? lvn_arena_strdup(a, t.p) : NULL;
    http_request->headers = request->headers;
    return http_request->url ? LVN_OK : LVN_MEMORY;
}

const struct lvn_store lvn_store_https = {.url_format = "https://HOST/PATH",
                                          .network = true,
                                          .follows = true,
                                          .open = open_location,
                                          .stat = lvn_store_request_stat,
                                          .read = lvn_store_request_read,
                                          .address = address};
