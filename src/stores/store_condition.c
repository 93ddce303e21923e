/* store_condition.c - see store_condition.h. Left out: conditions of uploads in parts. */
#include "stores/store_condition.h"

#include <string.h>

/* Servers that do not implement the condition say so with 501, some with 400 and that word. */
static bool is_not_implemented(const struct lvn_http_response *a)
{
    return a->code == 501 || (a->code == 400 && a->body.p && strstr(a->body.p, "NotImplemented"));
}

static enum lvn_status judge(enum lvn_status status, const struct lvn_http_response *a, enum lvn_store_written *written)
{
    *written = LVN_STORE_WRITTEN;
    if (status != LVN_OK && (a->outcome != LVN_HTTP_COMPLETE || !is_not_implemented(a))) return status;
    if (status != LVN_OK) lvn_error_clear();
    if (is_not_implemented(a))
        *written = LVN_STORE_UNCONDITIONAL;
    else if (a->code == 404 || a->code == 409 || a->code == 412)
        *written = LVN_STORE_CHANGED;
    return LVN_OK;
}

enum lvn_status lvn_store_put_if(struct lvn_location *p, struct lvn_http *h, const void *data, int64_t bytes,
                                 char version[LVN_STORE_VERSION], enum lvn_store_written *written)
{
    const struct lvn_condition_ops *ops = p->store->conditions;
    struct lvn_http_response a = {0};
    LVN_CHECK(ops, UNSUPPORTED, "'%s' cannot be written: levin only reads there (%s)", p->url, p->store->url_format);
    enum lvn_status status = judge(ops->put(p, h, data, bytes, version, &a), &a, written);
    if (status == LVN_OK && *written == LVN_STORE_WRITTEN) ops->written(&a, version);
    lvn_http_response_release(&a);
    return status;
}

enum lvn_status lvn_store_remove_if(struct lvn_location *p, struct lvn_http *h, const char *version,
                                    enum lvn_store_written *written)
{
    const struct lvn_condition_ops *ops = p->store->conditions;
    struct lvn_http_response a = {0};
    LVN_CHECK(ops, UNSUPPORTED, "'%s' cannot be removed: levin only reads there (%s)", p->url, p->store->url_format);
    enum lvn_status status = judge(ops->remove(p, h, version, &a), &a, written);
    lvn_http_response_release(&a);
    return status;
}
