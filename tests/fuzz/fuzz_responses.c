/* fuzz_responses.c - arbitrary responses of S3, Google Cloud Storage, the Hugging Face Hub and a web server to list,
 * stat and read requests.
 *
 * First byte: which store and which request. Then responses, separated by lines of "%": a code, header lines, an empty
 * line, a body. After the last response every request fails. No network is used. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "stores/http.h"

/* All of http.c except the functions that use the network. */
enum lvn_status real_open(struct lvn_http **out);
void real_close(struct lvn_http *h);
enum lvn_status real_send(struct lvn_http *h, const struct lvn_http_request *r, struct lvn_http_response *response);
#define lvn_http_open real_open
#define lvn_http_close real_close
#define lvn_http_send real_send
#include "stores/http.c"
#undef lvn_http_open
#undef lvn_http_close
#undef lvn_http_send

#include "stores/store.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *next, *end; /* responses not yet sent */

enum lvn_status lvn_http_open(struct lvn_http **out)
{
    static struct lvn_http only;
    *out = &only;
    return LVN_OK;
}

void lvn_http_close(struct lvn_http *h)
{
    (void)h;
}

enum lvn_status lvn_http_send(struct lvn_http *h, const struct lvn_http_request *r, struct lvn_http_response *response)
{
    lvn_text_clear(&response->headers);
    lvn_text_clear(&response->body);
    response->delivered = 0;
    response->code = 0;
    response->outcome = LVN_HTTP_FAILED;
    snprintf(response->reason, sizeof response->reason, "connection refused");
    if (!r->url || !*r->url) abort();
    if (next >= end) return LVN_OK;
    const char *stop = memmem(next, (size_t)(end - next), "\n%\n", 3), *from = next;
    if (!stop) stop = end;
    next = stop < end ? stop + 3 : end;
    for (; from < stop && *from >= '0' && *from <= '9'; from++)
        response->code = response->code < 100 ? 10 * response->code + *from - '0' : response->code;
    const char *blank = memmem(from, (size_t)(stop - from), "\n\n", 2), *body = blank ? blank + 2 : stop;
    lvn_text_add_bytes(&response->headers, from, (blank ? blank + 1 : stop) - from);
    response->outcome = LVN_HTTP_COMPLETE;
    if (r->on_data && (response->code == 200 || response->code == 206)) {
        if (r->on_data(r->context, body, stop - body))
            response->delivered = stop - body;
        else
            response->outcome = LVN_HTTP_REFUSED;
    } else {
        lvn_text_add_bytes(&response->body, body, stop - body);
    }
    (void)h;
    return LVN_OK;
}

static void set_environment(void)
{
    static const char *const values[][2] = {{"AWS_ACCESS_KEY_ID", "id"},
                                            {"AWS_SECRET_ACCESS_KEY", "secret"},
                                            {"AWS_REGION", "eu-west-1"},
                                            {"GOOGLE_OAUTH_ACCESS_TOKEN", "token"},
                                            {"HF_TOKEN", "token"},
                                            {"LEVIN_STORE_TRIES", "1"},
                                            {"AWS_EC2_METADATA_DISABLED", "1"}};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) setenv(values[i][0], values[i][1], 1);
    unsetenv("HF_HUB_OFFLINE");
    unsetenv("AWS_ENDPOINT_URL");
    unsetenv("STORAGE_EMULATOR_HOST");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const urls[] = {"s3://bucket/a/b", "gs://bucket/a/b", "hf://org/name/a", "https://host/a/b"};
    struct lvn_arena arena;
    struct lvn_store_entries entries;
    enum lvn_store_kind kind;
    char *text = NULL;
    int64_t bytes;
    if (size < 1) return 0;
    set_environment();
    const char *url = urls[data[0] & 3];
    next = (const char *)data + 1;
    end = (const char *)data + size;
    lvn_arena_init(&arena);
    enum lvn_status status = LVN_OK;
    switch (data[0] >> 2 & 3) {
    case 0:
    case 1:
        status = lvn_store_list(&arena, url, data[0] >> 2 & 1, &entries);
        for (int i = 0; status == LVN_OK && i < entries.n; i++)
            if (!entries.entry[i].name || (i && strcmp(entries.entry[i - 1].name, entries.entry[i].name) > 0)) abort();
        break;
    case 2:
        status = lvn_store_stat(url, &kind, &bytes);
        break;
    case 3:
        status = lvn_store_read(url, 1 << 16, &text, &bytes);
        if (status == LVN_OK && (bytes > 1 << 16 || text[bytes])) abort();
        if (status == LVN_OK) free(text);
        break;
    }
    if (status != LVN_OK && !*levin_error_text()) abort();
    lvn_error_clear();
    lvn_arena_release(&arena);
    return 0;
}
