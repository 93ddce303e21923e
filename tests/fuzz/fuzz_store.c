/* fuzz_store.c - responses of a server: headers, and the XML of object stores.
 *
 * The input is parsed twice: as an XML body, and as the header lines of a response. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "stores/http.h"
#include "stores/s3/xml.h"
#include "stores/store.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void search_elements(const char *text)
{
    static const char *const tags[] = {"Contents", "Key", "Size", "Part", "ETag", "Code", "Message"};
    const char *end;
    struct lvn_text t = {0};
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++) {
        lvn_text_clear(&t);
        lvn_xml_text(text, NULL, tags[i], &t);
        if (t.p) (void)lvn_store_name_is_safe(t.p);
    }
    for (const char *p = text; (p = lvn_xml_find(p, NULL, "Contents", &end)); p = end) {
        if (end < p) abort();
        lvn_xml_text(p, end, "Key", &t);
    }
    lvn_text_release(&t);
}

static void search_headers(char *text)
{
    static const char *const names[] = {"ETag", "Content-Range", "Retry-After", "x-goog-hash"};
    struct lvn_http_response a = {.headers = {.p = text, .n = (int64_t)strlen(text)}};
    char value[40];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *found = lvn_http_header(&a, names[i], value, sizeof value);
        if (found && strlen(found) >= sizeof value) abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    if (!text) return 0;
    if (size) memcpy(text, data, size);
    text[size] = '\0';
    search_elements(text);
    search_headers(text);
    free(text);
    return 0;
}
