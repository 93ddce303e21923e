/* store_condition.c - see store_condition.h. Uploads in parts have no conditions. */
#include "stores/store_condition.h"

/* Servers that do not implement the condition respond with 501, some with 400 and "NotImplemented". */
static bool is_not_implemented(const struct lvn_http_response *response)
{
    return response->code == 501 ||
           (response->code == 400 && response->body.p && strstr(response->body.p, "NotImplemented"));
}

static enum lvn_status evaluate(enum lvn_status status, const struct lvn_http_response *response,
                                enum lvn_store_written *written)
{
    *written = LVN_STORE_WRITTEN;
    if (status != LVN_OK && (response->outcome != LVN_HTTP_COMPLETE || !is_not_implemented(response))) return status;
    if (status != LVN_OK) lvn_error_clear();
    if (is_not_implemented(response))
        *written = LVN_STORE_UNCONDITIONAL;
    else if (response->code == 404 || response->code == 409 || response->code == 412)
        *written = LVN_STORE_CHANGED;
    return LVN_OK;
}

enum lvn_status lvn_store_put_if(struct lvn_location *location, struct lvn_http *http, const void *data, int64_t bytes,
                                 char version[LVN_STORE_VERSION], enum lvn_store_written *written)
{
    const struct lvn_condition_ops *ops = location->store->conditions;
    struct lvn_http_response response = {0};
    LVN_CHECK(ops, UNSUPPORTED, "'%s' cannot be written: levin only reads there (%s)", location->url,
              location->store->url_format);
    enum lvn_status status = evaluate(ops->put(location, http, data, bytes, version, &response), &response, written);
    if (status == LVN_OK && *written == LVN_STORE_WRITTEN) ops->written(&response, version);
    lvn_http_response_release(&response);
    return status;
}

enum lvn_status lvn_store_remove_if(struct lvn_location *location, struct lvn_http *http, const char *version,
                                    enum lvn_store_written *written)
{
    const struct lvn_condition_ops *ops = location->store->conditions;
    struct lvn_http_response response = {0};
    LVN_CHECK(ops, UNSUPPORTED, "'%s' cannot be removed: levin only reads there (%s)", location->url,
              location->store->url_format);
    enum lvn_status status = evaluate(ops->remove(location, http, version, &response), &response, written);
    lvn_http_response_release(&response);
    return status;
}
