/* shares.c - see shares.h. */
#include "engine/shares.h"

#include "base/text.h"

int64_t lvn_shares_units(const struct lvn_values *v)
{
    return v->trainer.batch_size / (v->trainer.micro_batch_size ? v->trainer.micro_batch_size : 1);
}

int lvn_shares_count(const char *text)
{
    int n = *text ? 1 : 0;
    for (; *text; text++) n += *text == ',';
    return n;
}

enum lvn_status lvn_shares_read(const char *text, int64_t units, int size, int64_t *first)
{
    const int n = lvn_shares_count(text);
    int64_t sum = 0;
    int rank = 0;
    for (const char *at = text;; at++) {
        char *end;
        long long x = strtoll(at, &end, 10);
        LVN_CHECK(end != at && (*end == ',' || !*end) && x >= 1 && x <= units, ARG,
                  "trainer.shares is '%.60s'; expected integers from 1 to %" PRId64
                  " separated by commas, the units that each rank computes of a step",
                  text, units);
        sum += x;
        if (rank++ < size) first[rank] = sum;
        at = end;
        if (!*at) break;
    }
    LVN_CHECK(n == size, ARG,
              "trainer.shares is '%.60s', for %d rank%s, but %d %s started; give one number per rank, or omit it for "
              "equal parts",
              text, n, lvn_plural(n), size, size == 1 ? "is" : "are");
    LVN_CHECK(sum == units, ARG,
              "trainer.shares is '%.60s', %" PRId64 " in total, but a step has %" PRId64 " to share out (its batch, in "
              "micro-batches if trainer.micro_batch_size is given); make their sum equal",
              text, sum, units);
    return LVN_OK;
}
