/* https.c - the store of https:// and http://: files of web servers, read-only. User and password may be part of the
 * URL, as in curl. Left out: listing, writing. */
#include "stores/store_private.h"
#include "stores/store_request.h"

static enum lvn_status open_location(struct lvn_location *p)
{
    return lvn_location_split(p);
}

static enum lvn_status address(struct lvn_location *p, const struct lvn_store_request *request, struct lvn_arena *a,
                               struct lvn_http_request *r)
{
    LVN_LOCAL_TEXT(t);
    /* Unchanged: it is encoded already, or libcurl reports the error. Only spaces are encoded. */
    for (const char *c = p->url; *c && *c != '#'; c++) lvn_text_printf(&t, *c == ' ' ? "%%20" : "%c", *c);
    r->url = lvn_text_status(&t) == LVN_OK ? lvn_arena_strdup(a, t.p) : NULL;
    r->headers = request->headers;
    return r->url ? LVN_OK : LVN_MEMORY;
}

const struct lvn_store lvn_store_https = {.url_format = "https://HOST/PATH",
                                          .network = true,
                                          .follows = true,
                                          .open = open_location,
                                          .stat = lvn_store_request_stat,
                                          .read = lvn_store_request_read,
                                          .address = address};
