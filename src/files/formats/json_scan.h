/* json_scan.h - an incremental JSON parser for lists and objects that are too long to be built in memory (vocabularies
 * of tokenizers).
 *
 * Strings without escapes point into the text, which must outlive them; others are in the arena. They may contain NUL,
 * so use their length. A failure is LVN_FORMAT and "FILE:LINE: ...". The caller must check for duplicate keys. */
#ifndef LVN_JSON_SCAN_H
#define LVN_JSON_SCAN_H

#include <jansson.h>

#include "base/arena.h"

struct lvn_json_scan {
    const char *name;        /* of the text in messages */
    const char *text;        /* the whole text */
    const char *at;          /* the next character to read */
    const char *end;         /* of the text */
    struct lvn_arena *arena; /* for strings with escapes */
};

/* A scanner at the first value of a text. */
struct lvn_json_scan lvn_json_scan_begin(const char *name, const char *text, int64_t bytes, struct lvn_arena *arena);
/* The first character of the next value; 0: the end of the text. */
char lvn_json_scan_peek(struct lvn_json_scan *scan);
/* Enter a list or an object: `bracket` is [ or {. */
enum lvn_status lvn_json_scan_enter(struct lvn_json_scan *scan, char bracket) LVN_CHECKED;
/* Advance to entry i = 0, 1, ... of the list or object that `bracket` (] or }) closes. *more false: no more entries.
 */
enum lvn_status lvn_json_scan_next(struct lvn_json_scan *scan, char bracket, int64_t i, bool *more) LVN_CHECKED;
/* The key of an object's entry; its value is next. */
enum lvn_status lvn_json_scan_key(struct lvn_json_scan *scan, const char **key, int64_t *bytes) LVN_CHECKED;
enum lvn_status lvn_json_scan_string(struct lvn_json_scan *scan, const char **text, int64_t *bytes) LVN_CHECKED;
/* An integer from 0 to 10^15; -1: another value, which was skipped. */
enum lvn_status lvn_json_scan_index(struct lvn_json_scan *scan, int64_t *value) LVN_CHECKED;
/* A number; *is false: another value, which was skipped. */
enum lvn_status lvn_json_scan_real(struct lvn_json_scan *scan, double *value, bool *is) LVN_CHECKED;
/* Skip a value. Only its brackets and strings are checked. *entries (or NULL): number of entries if it is a list or an
 * object. */
enum lvn_status lvn_json_scan_skip(struct lvn_json_scan *scan, int64_t *entries) LVN_CHECKED;
/* Like lvn_json_load() with JSON_REJECT_DUPLICATES and LVN_JSON_ROW, but several times faster for long strings. */
enum lvn_status lvn_json_scan_load(const char *text, int64_t bytes, json_t **out, json_error_t *error) LVN_CHECKED;
/* Check that nothing follows the value that was read. */
enum lvn_status lvn_json_scan_end(struct lvn_json_scan *scan) LVN_CHECKED;

#endif
