/* json.h - strict JSON files, over jansson.
 *
 * Reading: UTF-8 only, duplicate keys refused, at most 64 levels, nothing after the value; a failure is LVN_FORMAT and
 * "FILE:LINE: ...". Values are jansson's json_t (json_decref() those you own). Errors of the getters below are "FILE:
 * ..." with the key, what was found and what was expected. Writing is deterministic: keys in the order of insertion. */
#ifndef LVN_JSON_H
#define LVN_JSON_H

#include <jansson.h>

#include "base/status.h"
#include "base/text.h"

/* jansson's functions that build values do not report when memory runs out: the value lacks a member or a letter. So
 * jansson allocates through base/arena.h, and the failed allocations of each thread are counted. Code that builds a
 * value calls lvn_json_begin() before the first part of it and passes the result to the function that writes the value,
 * in the same thread: that function fails with LVN_MEMORY if an allocation failed in between. lvn_json_check() is the
 * same check for a value that is not written. */
long lvn_json_begin(void);
enum lvn_status lvn_json_check(long begun) LVN_CHECKED;

/* json_loadb() with that check. *out NULL and LVN_OK: the text is invalid; *error has the reason. An integer beyond 64
 * bits is a real, as in other readers; a real beyond DBL_MAX is DBL_MAX. With the flag LVN_JSON_ROW, for rows of data,
 * such an integer is a string with all its digits, and the words NaN, Infinity and -Infinity, which Python writes, are
 * null. */
enum { LVN_JSON_ROW = 1 << 20 };
enum lvn_status lvn_json_load(const char *text, int64_t bytes, size_t flags, json_t **out,
                              json_error_t *error) LVN_CHECKED;
/* `name` is the text's name in messages. */
enum lvn_status lvn_json_parse(const char *name, const char *text, int64_t bytes, json_t **out) LVN_CHECKED;
enum lvn_status lvn_json_read(const char *path, json_t **out) LVN_CHECKED;
/* Add the value: on one line if indent is 0 or LVN_JSON_COMPACT (no spaces); otherwise one member per line (lists of
 * scalars stay on one line). Numbers have the fewest digits that read back as the same double. Values nest at most 64
 * levels. An incomplete value makes the text fail (lvn_text_status()). */
enum { LVN_JSON_COMPACT = -1 };
void lvn_json_add(struct lvn_text *t, long begun, const json_t *value, int indent);
/* Replace `path` atomically (see lvn_target_write()): indented by 2, a newline at the end. */
enum lvn_status lvn_json_write(const char *path, long begun, const json_t *value) LVN_CHECKED;
/* A real number; null if x is not finite. */
json_t *lvn_json_number(double x);
/* A string of any bytes, truncated to `max` bytes and "..."; bytes that are not UTF-8 become U+FFFD. */
json_t *lvn_json_text(const char *s, int64_t max);
/* json_dumps() of a complete value; the caller frees *text, which is NULL after a failure. */
enum lvn_status lvn_json_dump(long begun, const json_t *value, size_t flags, char **text) LVN_CHECKED;

/* Members of an object. If a member is missing or null, *out is unchanged, which is an error only if `required`.
 * LVN_FORMAT for the wrong type or a number outside [low, high]. Whole numbers written as 12.0 count as integers. */
enum lvn_status lvn_json_int(const char *name, const json_t *object, const char *key, bool required, int64_t low,
                             int64_t high, int64_t *out) LVN_CHECKED;
/* An integer or a list of integers; *out is malloc'd, NULL if there are none. */
enum lvn_status lvn_json_ints(const char *name, const json_t *object, const char *key, int64_t low, int64_t high,
                              int64_t **out, int *n) LVN_CHECKED;
enum lvn_status lvn_json_real(const char *name, const json_t *object, const char *key, bool required,
                              double *out) LVN_CHECKED;
enum lvn_status lvn_json_bool(const char *name, const json_t *object, const char *key, bool required,
                              bool *out) LVN_CHECKED;
/* A list, owned by the object; *out is NULL if there is none. */
enum lvn_status lvn_json_list(const char *name, const json_t *object, const char *key, bool required,
                              const json_t **out) LVN_CHECKED;
/* The member "type" of the object; "(none)" if it has none. */
const char *lvn_json_type(const json_t *object);
/* *out is owned by the object. */
enum lvn_status lvn_json_string(const char *name, const json_t *object, const char *key, bool required,
                                const char **out) LVN_CHECKED;

#endif
