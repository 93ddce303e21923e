/* mix.c - see mix.h. The rule is that of R. Tijdeman, The chairman assignment problem (1980), for n sources. Candidates
 * are the sources whose lag behind their share is at least 1/(2n-2) of a row. The one whose lag would be the first to
 * reach 1 - 1/(2n-2) of a row is drawn. Drawing the source with the largest lag instead would not keep the error below
 * one row. */
#include "data/sources/mix.h"

#include "base/files.h"
#include "base/text.h"
#include "formats/yaml.h"
#include "stores/store.h"

static const char key[] = "data.mix";
enum { DIGITS_FACTOR = 1000000, WEIGHT_MAX = 1000000000 };

/* The weight in millionths. */
static enum lvn_status parse_weight(const char *text, int n, int64_t *out)
{
    char *end = NULL;
    const double weight = text ? strtod(text, &end) : 0, millionths = weight * DIGITS_FACTOR;
    LVN_CHECK(text, ARG, "%s, entry %d: weight is missing; give a positive number", key, n);
    LVN_CHECK(end != text && !*end && isfinite(weight) && weight > 0 && weight <= WEIGHT_MAX, ARG,
              "%s, entry %d: weight must be a positive number up to %d, got '%.40s'; to leave a source out, remove its "
              "entry",
              key, n, WEIGHT_MAX, text);
    *out = llround(millionths);
    LVN_CHECK(*out > 0 && fabs(millionths - (double)*out) < 1e-3, ARG,
              "%s, entry %d: weight has at most six digits after the decimal point, so that proportions are exact; got "
              "'%.40s'",
              key, n, text);
    return LVN_OK;
}

static enum lvn_status read_entry(struct lvn_mix *m, const struct lvn_yaml *map)
{
    const char *path = NULL, *weight = NULL;
    for (const struct lvn_yaml *y = map->child; y; y = y->next) {
        if (!strcmp(y->key, "path"))
            path = y->text;
        else if (!strcmp(y->key, "weight"))
            weight = y->text;
        else
            LVN_FAIL(ARG, "%s, entry %d: unknown key '%.60s'; expected path or weight", key, m->n + 1, y->key);
    }
    LVN_CHECK(path && *path, ARG, "%s, entry %d: path is %s; give the path of a data set", key, m->n + 1,
              path ? "empty" : "missing");
    m->path[m->n] = path;
    LVN_TRY(parse_weight(weight, m->n + 1, &m->weight[m->n]));
    m->n++;
    return LVN_OK;
}

static enum lvn_status read_all(struct lvn_mix *m, const char *text)
{
    const struct lvn_yaml *list;
    LVN_TRY(lvn_yaml_value(&m->arena, key, text, &list));
    LVN_CHECK(list->kind == LVN_YAML_LIST && list->n, ARG, "%s must be a list of maps, got '%.60s'", key, text);
    LVN_CHECK(list->n <= LVN_MIX_SOURCES, ARG, "%s has %d entries; at most %d are supported", key, list->n,
              LVN_MIX_SOURCES);
    for (const struct lvn_yaml *y = list->child; y; y = y->next) LVN_TRY(read_entry(m, y));
    return LVN_OK;
}

static int64_t greatest_common_divisor(int64_t a, int64_t b)
{
    while (b) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static enum lvn_status shorten(struct lvn_mix *m)
{
    int64_t divisor = 0;
    for (int k = 0; k < m->n; k++) divisor = greatest_common_divisor(m->weight[k], divisor);
    for (int k = 0; k < m->n; k++) m->period += m->weight[k] /= divisor;
    LVN_CHECK(m->period <= LVN_MIX_PERIOD, ARG,
              "%s: as whole numbers without a common divisor the weights add up to %lld, but at most %d is supported: "
              "write them with fewer digits",
              key, (long long)m->period, LVN_MIX_PERIOD);
    return LVN_OK;
}

/* The source of the next row, after `rows` rows of which count[k] came from source k. Lags are in rows times period. */
static int next_source(const struct lvn_mix *m, int64_t rows, const int64_t *count)
{
    const int64_t n = 2 * m->n - 2, W = m->period;
    int64_t best_time = 0;
    int best = -1;
    for (int k = 0; k < m->n; k++) {
        const int64_t lag = m->weight[k] * (rows + 1) - count[k] * W;
        const int64_t time = (n - 1) * W - n * lag; /* rows until the lag is 1 - 1/n of a row, times n and the weight */
        if (n * lag < W) continue;
        if (best >= 0 && time * m->weight[best] >= best_time * m->weight[k]) continue;
        best = k;
        best_time = time;
    }
    return best < 0 ? 0 : best; /* a single source has no other */
}

static enum lvn_status fill_period(struct lvn_mix *m)
{
    int64_t count[LVN_MIX_SOURCES] = {0};
    m->source = lvn_arena_alloc(&m->arena, sizeof *m->source * (size_t)m->period);
    m->before = lvn_arena_alloc(&m->arena, sizeof *m->before * (size_t)m->period);
    if (!m->source || !m->before) return LVN_MEMORY;
    for (int64_t row = 0; row < m->period; row++) {
        const int k = next_source(m, row, count);
        m->source[row] = (uint8_t)k;
        m->before[row] = (uint32_t)count[k]++;
    }
    for (int k = 0; k < m->n; k++)
        LVN_CHECK(count[k] == m->weight[k], INTERNAL, "%s: source %d has %lld of %lld rows", key, k,
                  (long long)count[k], (long long)m->weight[k]);
    return LVN_OK;
}

enum lvn_status lvn_mix_new(struct lvn_mix **out, const char *text)
{
    *out = NULL;
    struct lvn_mix *m = lvn_calloc(1, sizeof *m);
    if (!m) return LVN_MEMORY;
    lvn_arena_init(&m->arena);
    enum lvn_status status = read_all(m, text);
    if (status == LVN_OK) status = shorten(m);
    if (status == LVN_OK) status = fill_period(m);
    if (status == LVN_OK)
        *out = m;
    else
        lvn_mix_free(m);
    return status;
}

void lvn_mix_free(struct lvn_mix *m)
{
    if (!m) return;
    lvn_arena_release(&m->arena);
    free(m);
}

void lvn_mix_row(const struct lvn_mix *m, int64_t row, int *source, int64_t *before)
{
    const int64_t at = row % m->period;
    *source = m->source[at];
    *before = row / m->period * m->weight[*source] + m->before[at];
}

int64_t lvn_mix_rows(const struct lvn_mix *m, int source, int64_t rows)
{
    int64_t n = rows / m->period * m->weight[source];
    for (int64_t i = 0; i < rows % m->period; i++) n += m->source[i] == source;
    return n;
}

const char *lvn_mix_path(struct lvn_arena *a, const struct lvn_mix *m, int source, const char *folder)
{
    const char *path = m->path[source];
    if (!folder || !*folder || *path == '/' || lvn_store_is_url(path) || lvn_path_exists(path))
        return lvn_arena_strdup(a, path);
    const char *there = lvn_path_join(a, folder, path);
    return !there || lvn_path_exists(there) ? there : lvn_arena_strdup(a, path);
}

bool lvn_mix_is_here(const char *text, const char *folder)
{
    LVN_LOCAL_ARENA(a);
    struct lvn_mix *m;
    bool here = lvn_mix_new(&m, text) == LVN_OK;
    for (int k = 0; here && k < m->n; k++) {
        const char *path = lvn_mix_path(&a, m, k, folder);
        here = path && lvn_path_exists(path);
    }
    lvn_mix_free(m);
    lvn_error_clear();
    return here;
}
