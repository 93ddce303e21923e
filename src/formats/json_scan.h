/* json_scan.h - JSON read value by value, for lists and objects too long to be built in memory.
 *
 * Strings without escapes point into the text itself, which must outlive them; others lie in the arena. They may hold
 * NUL, so their length counts. A failure is LVN_FORMAT and "FILE:LINE: ..."; a repeated key is the caller's matter. */
#ifndef LVN_JSON_SCAN_H
#define LVN_JSON_SCAN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"

struct lvn_json_scan {
    const char *name;        /* what messages call the text */
    const char *text;        /* the whole text */
    const char *at;          /* what is read next */
    const char *end;         /* of the text */
    struct lvn_arena *arena; /* of strings with escapes */
};

/* At the first value of a text. */
struct lvn_json_scan lvn_json_scan_begin(const char *name, const char *text, int64_t bytes, struct lvn_arena *arena);
/* The first character of the next value; 0: the text is at its end. */
char lvn_json_scan_peek(struct lvn_json_scan *s);
/* Go into a list or an object: `bracket` is [ or {. */
enum lvn_status lvn_json_scan_enter(struct lvn_json_scan *s, char bracket) LVN_CHECKED;
/* Go to entry i = 0, 1, ... of the list or object that ends with `bracket`, ] or }. *more false: it ended. */
enum lvn_status lvn_json_scan_next(struct lvn_json_scan *s, char bracket, int64_t i, bool *more) LVN_CHECKED;
/* The key of an entry of an object; its value is next. */
enum lvn_status lvn_json_scan_key(struct lvn_json_scan *s, const char **key, int64_t *bytes) LVN_CHECKED;
enum lvn_status lvn_json_scan_string(struct lvn_json_scan *s, const char **text, int64_t *bytes) LVN_CHECKED;
/* A whole number from 0 to 10^15; -1: the value is something else. */
enum lvn_status lvn_json_scan_index(struct lvn_json_scan *s, int64_t *value) LVN_CHECKED;
/* A number; *is false: the value is something else. */
enum lvn_status lvn_json_scan_real(struct lvn_json_scan *s, double *value, bool *is) LVN_CHECKED;
/* Pass over a value. Only its brackets and strings are looked at. *entries (or NULL): of a list or object, how many. */
enum lvn_status lvn_json_scan_skip(struct lvn_json_scan *s, int64_t *entries) LVN_CHECKED;
/* Nothing may stand behind the value that was read. */
enum lvn_status lvn_json_scan_end(struct lvn_json_scan *s) LVN_CHECKED;

#endif
