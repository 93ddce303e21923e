/* xml.c - see xml.h. */
#include "stores/s3/xml.h"

const char *lvn_xml_find(const char *from, const char *to, const char *tag, const char **end)
{
    char close[64];
    size_t n = strlen(tag);
    if (!from) return NULL;
    if (!to) to = from + strlen(from);
    snprintf(close, sizeof close, "</%s>", tag);
    for (const char *p = from; p < to && (p = memchr(p, '<', (size_t)(to - p))); p++) {
        if ((size_t)(to - p) < n + 2 || strncmp(p + 1, tag, n) != 0 || !strchr("> ", p[n + 1])) continue;
        const char *content = memchr(p, '>', (size_t)(to - p));
        const char *last = content ? strstr(content, close) : NULL;
        if (!last || last >= to) return NULL;
        *end = last;
        return content + 1;
    }
    return NULL;
}

static const struct {
    const char *code, *text;
} entities[] = {{"&amp;", "&"}, {"&lt;", "<"}, {"&gt;", ">"}, {"&quot;", "\""}, {"&apos;", "'"}};

/* Decode one entity "&...;" at p; returns its length; 0: not an entity. */
static int decode_one(struct lvn_text *t, const char *p, const char *to)
{
    for (size_t i = 0; i < sizeof entities / sizeof *entities; i++) {
        size_t n = strlen(entities[i].code);
        if ((size_t)(to - p) < n || strncmp(p, entities[i].code, n) != 0) continue;
        lvn_text_add(t, entities[i].text);
        return (int)n;
    }
    if (to - p < 4 || p[1] != '#') return 0;
    bool hex = p[2] == 'x';
    char *end, bytes[4];
    long code = strtol(p + 2 + hex, &end, hex ? 16 : 10);
    if (end >= to || *end != ';' || code <= 0 || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return 0;
    lvn_text_add_bytes(t, bytes, lvn_utf8_encode((int32_t)code, bytes));
    return (int)(end + 1 - p);
}

bool lvn_xml_text(const char *from, const char *to, const char *tag, struct lvn_text *t)
{
    const char *end, *p = lvn_xml_find(from, to, tag, &end);
    if (!p) return false;
    for (int n; p < end; p += n ? n : 1) {
        n = *p == '&' ? decode_one(t, p, end) : 0;
        if (!n) lvn_text_add_bytes(t, p, 1);
    }
    return true;
}

void lvn_xml_encode(struct lvn_text *t, const char *text)
{
    for (; *text; text++) {
        size_t i = 0;
        while (i < sizeof entities / sizeof *entities && entities[i].text[0] != *text) i++;
        if (i < sizeof entities / sizeof *entities)
            lvn_text_add(t, entities[i].code);
        else
            lvn_text_add_bytes(t, text, 1);
    }
}
