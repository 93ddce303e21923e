/* clean.h - what is done to a text before it is cut into tokens. */
#ifndef LVN_CLEAN_H
#define LVN_CLEAN_H

#include "base/text.h"

/* The rule by which KcBERT's texts, and NSMC's, are cleaned. Kept are ASCII, U+FF05, U+00B7 and U+223C (a percent sign,
 * a dot, a tilde), what lies between U+3131 and U+D7A3 (Hangul, and Chinese characters), and emoji; each run of
 * anything else becomes a blank. Then addresses of web pages go, a letter, digit or underscore that stands three times
 * or more in a row is cut to two, white space becomes one blank, and none is left at the ends. The text must be UTF-8;
 * `out` is cleared first. */
void lvn_clean_nsmc(const char *text, int64_t bytes, struct lvn_text *out);

#endif
