/* text_number.c - numbers as printf's %g writes them, to the character.
 *
 * A double times a power of ten fits a long double but for its last bit, where that power is exact. So its digits are
 * those of an integer, unless it lies so near to half of the last digit that this bit decides: printf is asked then. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/text.h"

enum { MOST_DIGITS = 15, MOST_POWER = 27 }; /* 5^27 is the last one in 64 bits */

static const long double ten[MOST_POWER + 1] = {1e0L,  1e1L,  1e2L,  1e3L,  1e4L,  1e5L,  1e6L,  1e7L,  1e8L,  1e9L,
                                                1e10L, 1e11L, 1e12L, 1e13L, 1e14L, 1e15L, 1e16L, 1e17L, 1e18L, 1e19L,
                                                1e20L, 1e21L, 1e22L, 1e23L, 1e24L, 1e25L, 1e26L, 1e27L};

/* x * 10^power; NaN where the table ends. */
static long double shifted(double x, int power)
{
    if (power > MOST_POWER || power < -MOST_POWER) return NAN;
    return power < 0 ? x / ten[-power] : x * ten[power];
}

/* magnitude = 0.dddd... * 10^*point, rounded to `digits` digits, which are *number. False: printf must be asked. */
static bool decimal(double magnitude, int digits, uint64_t *number, int *point)
{
    *point = (ilogb(magnitude) * 1233 >> 12) + 1; /* 1233 / 4096 is log10(2): right, or one too small */
    long double x = shifted(magnitude, digits - *point);
    if (x >= ten[digits]) x = shifted(magnitude, digits - ++*point);
    if (isnan(x)) return false;
    *number = (uint64_t)x;
    const long double above = x - (long double)*number - 0.5L;
    if (fabsl(above) <= 2 * LDBL_EPSILON * x) return false;
    *number += above > 0;
    if ((long double)*number < ten[digits]) return true;
    *number /= 10; /* 9.99.. became 10 */
    ++*point;
    return true;
}

void lvn_text_number(struct lvn_text *t, double value, int digits)
{
    char text[40], *p = text, *d = text + sizeof text; /* digits are made from their end */
    uint64_t number;
    int point, n = digits;
    const bool plain = isfinite(value) && value != 0 && digits > 0 && digits <= MOST_DIGITS;
    if (!plain || !decimal(fabs(value), digits, &number, &point)) {
        lvn_text_printf(t, "%.*g", digits, value);
        return;
    }
    const bool power = point < -3 || point > digits;
    const int whole = power ? 1 : point; /* digits before the point */
    for (; n > 1 && n > whole && number % 10 == 0; n--) number /= 10;
    for (int i = 0; i < n; i++, number /= 10) *--d = (char)('0' + number % 10);
    if (value < 0) *p++ = '-';
    if (whole <= 0) p = memcpy(p, "0.000", (size_t)(2 - whole)), p += 2 - whole;
    for (int i = 0; i < n; i++) {
        if (i && i == whole) *p++ = '.';
        *p++ = d[i];
    }
    lvn_text_add_bytes(t, text, p - text);
    if (power) lvn_text_printf(t, "e%+03d", point - 1);
}
