/* fuzz_tar.c - members of tar archives. The target computes their checksums, which a fuzzer would not guess.
 *
 * A line describes a member: its type (a byte), its mode and size in octal, unchanged, its name, its link's name,
 * separated by tabs; the content follows, 0 to 511 bytes. No visited name may lead out of the archive. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "formats/archive_reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { BLOCK = 512 };

static enum lvn_status begin(void *context, const char *name, bool named, bool *expected)
{
    (void)context, (void)named;
    const char *member = name + strlen("input.tar");
    if (strncmp(name, "input.tar", strlen("input.tar")) != 0) abort();
    int depth = 0; /* "a/../b" stays inside */
    for (const char *part = member; *part && depth >= 0; part += strspn(part, "/")) {
        size_t n = strcspn(part, "/");
        bool up = n == 2 && !strncmp(part, "..", 2), here = n == 0 || (n == 1 && *part == '.');
        depth += up ? -1 : here ? 0 : 1;
        part += n;
    }
    if (depth < 0) abort();
    *expected = true;
    return LVN_OK;
}

static enum lvn_status take(void *context, const void *p, int64_t n)
{
    const char *bytes = p;
    for (int64_t i = 0; i < n; i++) *(unsigned *)context += (unsigned char)bytes[i];
    return LVN_OK;
}

static enum lvn_status end(void *context)
{
    (void)context;
    return LVN_OK;
}

static void field(char *header, int at, int capacity, const char *text)
{
    memcpy(header + at, text, strnlen(text, (size_t)capacity));
}

static void add_member(struct lvn_text *tar, char *line, const char *content, size_t n)
{
    char header[BLOCK] = {0}, sum[9], *rest = line, *word;
    static const int at[] = {156, 100, 124, 0, 157}, capacity[] = {1, 8, 12, 100, 100};
    for (int i = 0; i < 5 && (word = strsep(&rest, "\t")); i++) field(header, at[i], capacity[i], word);
    field(header, 257, 8, "ustar  ");
    memset(header + 148, ' ', 8);
    unsigned total = 0;
    for (int i = 0; i < BLOCK; i++) total += (unsigned char)header[i];
    snprintf(sum, sizeof sum, "%06o", total);
    field(header, 148, 8, sum);
    lvn_text_add_bytes(tar, header, BLOCK);
    if (!n) return;
    char block[BLOCK] = {0};
    memcpy(block, content, n);
    lvn_text_add_bytes(tar, block, BLOCK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char nothing[2 * BLOCK];
    unsigned seen = 0;
    struct lvn_text tar = {0};
    const struct lvn_archive_visitor visitor = {.context = &seen, .begin = begin, .data = take, .end = end};
    char line[400];
    for (size_t i = 0; i < size;) {
        const uint8_t *stop = memchr(data + i, '\n', size - i);
        size_t n = (stop ? (size_t)(stop - data) : size) - i;
        snprintf(line, sizeof line, "%.*s", (int)n, (const char *)data + i);
        i += n + 1;
        const uint8_t *next = i < size ? memchr(data + i, '\n', size - i) : NULL;
        size_t content = i >= size ? 0 : (next ? (size_t)(next - data) : size) - i;
        add_member(&tar, line, (const char *)data + (i < size ? i : 0), content < BLOCK ? content : BLOCK - 1);
        i += content + 1;
    }
    lvn_text_add_bytes(&tar, nothing, sizeof nothing);
    if (!tar.failed &&
        lvn_archive_read_memory("input.tar", tar.p, tar.n, (struct lvn_archive_position){.growth = 1}, &visitor) !=
            LVN_OK &&
        !*levin_error_text())
        abort();
    lvn_text_release(&tar);
    return 0;
}
