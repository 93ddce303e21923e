/* loss_curve.c - see loss_curve.h.
 *
 * Long runs are reduced to screen resolution: the pale line keeps the lowest and highest loss of each column, so no
 * spike is lost; the smoothed line is a centered mean whose window shrinks at both ends, so it neither lags nor ends
 * early. Ticks are at 1, 2 or 5 times a power of ten. */
#include "train/loss_curve.h"

#include "base/arena.h"
#include "base/files.h"
#include "base/list.h"

/* The sheet, and the plot on it. */
enum { WIDTH = 960, HEIGHT = 540, LEFT = 84, RIGHT = 36, TOP = 92, BOTTOM = 70, COLUMNS = 420 };

struct plot {
    const struct lvn_points *train, *val;
    double x0, x1, y0, y1; /* data at the plot's edges */
    double x_step, y_step; /* between ticks */
    struct lvn_text *out;
};

/* --- points --- */

void lvn_points_add(struct lvn_points *s, double x, double y)
{
    if (!isfinite(y) || s->failed) return;
    s->failed = !lvn_list_reserve(&s->p, &s->capacity, s->n + 1, sizeof *s->p);
    if (!s->failed) s->p[s->n++] = (struct lvn_point){x, y};
}

void lvn_points_release(struct lvn_points *s)
{
    free(s->p);
    *s = (struct lvn_points){0};
}

/* --- reading --- */

/* The k-th field of a row, from 0; NaN: empty or missing. */
static double field(const char *row, const char *end, int k)
{
    for (; k > 0 && row < end; row++) k -= *row == ',';
    return k == 0 && row < end && *row != ',' ? strtod(row, NULL) : (double)NAN;
}

/* The index of the column with that name; -1: none. */
static int column_of(const char *header, const char *end, const char *name)
{
    size_t n = strlen(name);
    for (int k = 0; header && header < end; k++) {
        const char *comma = memchr(header, ',', (size_t)(end - header)), *stop = comma ? comma : end;
        if ((size_t)(stop - header) == n && !memcmp(header, name, n)) return k;
        header = comma ? comma + 1 : NULL;
    }
    return -1;
}

static enum lvn_status read_rows(const char *csv, const char *text, int64_t bytes, const char *const names[2],
                                 int64_t last_step, struct lvn_points *const series[2])
{
    const char *end = text + bytes, *row = bytes ? memchr(text, '\n', (size_t)bytes) : NULL;
    LVN_CHECK(row && !strncmp(text, "step,", 5), FORMAT, "'%s' is not a metrics.csv: its first column is not step",
              csv);
    int column[2] = {column_of(text, row, names[0]), column_of(text, row, names[1])};
    const char *next;
    for (row++; (next = memchr(row, '\n', (size_t)(end - row))); row = next + 1) { /* an incomplete row is the end */
        double step = strtod(row, NULL);
        for (int i = 0; i < 2 && step <= (double)last_step; i++)
            if (column[i] >= 0) lvn_points_add(series[i], step, field(row, next, column[i]));
    }
    return LVN_OK;
}

enum lvn_status lvn_curve_read(const char *csv, const char *train_name, const char *val_name, int64_t last_step,
                               struct lvn_points *train, struct lvn_points *val)
{
    char *text = NULL;
    int64_t bytes = 0;
    const char *const names[2] = {train_name, val_name};
    struct lvn_points *const series[2] = {train, val};
    LVN_TRY(lvn_file_read(csv, 0, &text, &bytes));
    enum lvn_status status = read_rows(csv, text, bytes, names, last_step, series);
    free(text);
    return status;
}

/* --- axes --- */

static double nice_step(double span, int max)
{
    double rough = span / max, power = pow(10, floor(log10(rough)));
    double x = rough / power;
    return (x <= 1 ? 1 : x <= 2 ? 2 : x <= 5 ? 5 : 10) * power;
}

/* The loss that all but one in 500 points do not exceed, so that one spike does not flatten the picture; the first
 * steps, with their high losses, are always included. */
static double upper(struct plot *p)
{
    const struct lvn_points *s = p->train;
    double *sorted = s->n > 500 ? lvn_malloc((size_t)s->n * sizeof *sorted) : NULL, top = -INFINITY;
    if (s->n > 500 && !sorted) p->out->failed = true; /* the axis would differ */
    for (int64_t i = 0; i < s->n && (!sorted || i < 3); i++) top = fmax(top, s->p[i].y);
    if (sorted) {
        for (int64_t i = 0; i < s->n; i++) sorted[i] = s->p[i].y;
        qsort(sorted, (size_t)s->n, sizeof *sorted, lvn_by_number);
        top = fmax(top, sorted[s->n - 1 - s->n / 500]);
        free(sorted);
    }
    for (int64_t i = 0; i < p->val->n; i++) top = fmax(top, p->val->p[i].y);
    return top;
}

static void fit_axes(struct plot *p)
{
    const struct lvn_points *all[] = {p->train, p->val};
    double low = INFINITY, last = 1;
    for (int k = 0; k < 2; k++) {
        for (int64_t i = 0; i < all[k]->n; i++) {
            low = fmin(low, all[k]->p[i].y);
            last = fmax(last, all[k]->p[i].x);
        }
    }
    double high = upper(p), margin = high > low ? fmax(0.02 * (high - low), 1e-9 * fmax(fabs(low), fabs(high)))
                                                : 0.05 * fmax(fabs(high), 1e-3);
    p->y_step = nice_step(high - low + 2 * margin, 7);
    p->y0 = floor((low - margin) / p->y_step) * p->y_step;
    if (low >= 0 && p->y0 < 0) p->y0 = 0;
    p->y1 = ceil((high + margin) / p->y_step) * p->y_step;
    p->x_step = fmax(1, nice_step(last, 8));
    p->x0 = 0;
    p->x1 = last;
}

static double px(const struct plot *p, double x)
{
    return LEFT + (x - p->x0) / (p->x1 - p->x0) * (WIDTH - LEFT - RIGHT);
}

static double py(const struct plot *p, double y)
{
    return HEIGHT - BOTTOM - (y - p->y0) / (p->y1 - p->y0) * (HEIGHT - TOP - BOTTOM);
}

static void axes(struct plot *p)
{
    struct lvn_text *t = p->out;
    char label[LVN_NUMBER_TEXT];
    int decimals = (int)fmax(0, -floor(log10(p->y_step) + 1e-9));
    for (double y = p->y0; y < p->y1 + p->y_step / 2; y += p->y_step) {
        lvn_text_printf(t, "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" stroke=\"#e3e6ea\"/>\n", LEFT, py(p, y),
                        WIDTH - RIGHT, py(p, y));
        lvn_text_printf(t, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.*f</text>\n", LEFT - 10, py(p, y) + 5,
                        decimals, fabs(y) < p->y_step / 100 ? 0 : y);
    }
    for (double x = 0; x <= p->x1 * 1.0001; x += p->x_step) {
        lvn_count_text(llround(x), label);
        lvn_text_printf(t, "<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\" stroke=\"#8b949e\"/>\n", px(p, x),
                        HEIGHT - BOTTOM, px(p, x), HEIGHT - BOTTOM + 5);
        lvn_text_printf(t, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", px(p, x),
                        HEIGHT - BOTTOM + 23, label);
    }
    lvn_text_printf(t, "<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" stroke=\"#8b949e\" stroke-width=\"1.2\"/>\n",
                    LEFT, HEIGHT - BOTTOM, WIDTH - RIGHT, HEIGHT - BOTTOM);
    lvn_text_printf(t, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\" font-size=\"16\">step</text>\n",
                    (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 18);
    lvn_text_printf(t,
                    "<text transform=\"translate(26 %d) rotate(-90)\" text-anchor=\"middle\" font-size=\"16\">loss"
                    "</text>\n",
                    (TOP + HEIGHT - BOTTOM) / 2);
}

/* --- lines --- */

static void open_line(struct plot *p, const char *style)
{
    lvn_text_printf(p->out, "<polyline clip-path=\"url(#plot)\" fill=\"none\" stroke-linejoin=\"round\" %s points=\"",
                    style);
}

static void line_to(struct plot *p, double x, double y)
{
    lvn_text_printf(p->out, "%.1f,%.1f ", px(p, x), py(p, y));
}

/* Every point, or the lowest and the highest of each column, in their order. */
static void raw_line(struct plot *p)
{
    const struct lvn_points *s = p->train;
    open_line(p, "stroke=\"#9cc3ea\" stroke-width=\"1\"");
    int64_t columns = s->n > (int64_t)2 * COLUMNS ? COLUMNS : s->n;
    for (int64_t c = 0; c < columns; c++) {
        int64_t first = s->n * c / columns, end = s->n * (c + 1) / columns, low = first, high = first;
        for (int64_t i = first; i < end; i++) {
            if (s->p[i].y < s->p[low].y) low = i;
            if (s->p[i].y > s->p[high].y) high = i;
        }
        int64_t one = low < high ? low : high, two = low < high ? high : low;
        line_to(p, s->p[one].x, s->p[one].y);
        if (two != one) line_to(p, s->p[two].x, s->p[two].y);
    }
    lvn_text_add(p->out, "\"/>\n");
}

static enum lvn_status smooth_line(struct plot *p)
{
    const struct lvn_points *s = p->train;
    int64_t half = s->n / 100;
    double *sum = lvn_malloc((size_t)(s->n + 1) * sizeof *sum);
    if (!sum) return LVN_MEMORY;
    sum[0] = 0;
    for (int64_t i = 0; i < s->n; i++) sum[i + 1] = sum[i] + s->p[i].y;
    open_line(p, "stroke=\"#1f5fa8\" stroke-width=\"2\"");
    int64_t columns = s->n > COLUMNS ? COLUMNS : s->n;
    for (int64_t c = 0; c < columns; c++) {
        int64_t i = columns > 1 ? (s->n - 1) * c / (columns - 1) : 0, w = half;
        if (w > i) w = i;
        if (w > s->n - 1 - i) w = s->n - 1 - i;
        line_to(p, s->p[i].x, (sum[i + w + 1] - sum[i - w]) / (double)(2 * w + 1));
    }
    lvn_text_add(p->out, "\"/>\n");
    free(sum);
    return LVN_OK;
}

static int64_t best_of(const struct lvn_points *s)
{
    int64_t best = 0;
    for (int64_t i = 1; i < s->n; i++) {
        if (s->p[i].y < s->p[best].y) best = i;
    }
    return best;
}

static void val_points(struct plot *p)
{
    const struct lvn_points *s = p->val;
    if (!s->n) return;
    open_line(p, "stroke=\"#d9660a\" stroke-width=\"1.5\" stroke-opacity=\"0.7\"");
    for (int64_t i = 0; i < s->n; i++) line_to(p, s->p[i].x, s->p[i].y);
    lvn_text_add(p->out, "\"/>\n");
    for (int64_t i = 0; i < s->n; i += 1 + s->n / 100) {
        lvn_text_printf(p->out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%s\" fill=\"#d9660a\"/>\n", px(p, s->p[i].x),
                        py(p, s->p[i].y), s->n > 40 ? "2.5" : "4");
    }
    const struct lvn_point *best = &s->p[best_of(s)];
    double x = px(p, best->x), y = py(p, best->y);
    bool right = x > WIDTH - RIGHT - 60;
    lvn_text_printf(p->out,
                    "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"7.5\" fill=\"none\" stroke=\"#d9660a\" "
                    "stroke-width=\"2\"/>\n",
                    x, y);
    lvn_text_printf(p->out,
                    "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" font-size=\"16\" font-weight=\"600\" "
                    "fill=\"#b4530a\" paint-order=\"stroke\" stroke=\"#ffffff\" stroke-width=\"4\">%.4g</text>\n",
                    right ? x + 4 : x, y - 15, right ? "end" : "middle", best->y);
}

/* --- words --- */

static void escaped(struct lvn_text *t, const char *s)
{
    for (; *s; s++) {
        const char *word = *s == '&' ? "&amp;" : *s == '<' ? "&lt;" : *s == '>' ? "&gt;" : NULL;
        if (word) {
            lvn_text_add(t, word);
        } else if ((unsigned char)*s >= ' ') {
            lvn_text_add_bytes(t, s, 1);
        }
    }
}

static void words(struct plot *p, const char *title)
{
    struct lvn_text *t = p->out;
    char steps[LVN_NUMBER_TEXT];
    lvn_count_text(llround(p->x1), steps);
    lvn_text_printf(t, "<text x=\"%d\" y=\"40\" font-size=\"24\" font-weight=\"600\" fill=\"#1c2128\">", LEFT);
    escaped(t, title);
    lvn_text_printf(t, "</text>\n<text x=\"%d\" y=\"66\" font-size=\"15\">%s steps", LEFT, steps);
    if (p->val->n) {
        const struct lvn_point *best = &p->val->p[best_of(p->val)];
        lvn_count_text(llround(best->x), steps);
        lvn_text_printf(t, ", best validation loss %.4f at step %s", best->y, steps);
    } else if (p->train->n) {
        lvn_text_printf(t, ", last training loss %.4f", p->train->p[p->train->n - 1].y);
    }
    lvn_text_add(t, "</text>\n");
    int x = WIDTH - RIGHT - 132, y = TOP + 18;
    lvn_text_printf(t, "<rect x=\"%d\" y=\"%d\" width=\"142\" height=\"%d\" fill=\"#ffffff\" fill-opacity=\"0.85\"/>\n",
                    x - 10, TOP + 2, p->val->n ? 54 : 30);
    lvn_text_printf(t, "<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" stroke=\"#9cc3ea\" stroke-width=\"7\"/>\n", x, y,
                    x + 28, y);
    lvn_text_printf(t, "<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" stroke=\"#1f5fa8\" stroke-width=\"2\"/>\n", x, y,
                    x + 28, y);
    lvn_text_printf(t, "<text x=\"%d\" y=\"%d\" font-size=\"15\">training</text>\n", x + 38, y + 5);
    if (!p->val->n) return;
    y += 24;
    lvn_text_printf(t, "<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" stroke=\"#d9660a\" stroke-width=\"1.5\"/>\n", x,
                    y, x + 28, y);
    lvn_text_printf(t, "<circle cx=\"%d\" cy=\"%d\" r=\"4\" fill=\"#d9660a\"/>\n", x + 14, y);
    lvn_text_printf(t, "<text x=\"%d\" y=\"%d\" font-size=\"15\">validation</text>\n", x + 38, y + 5);
}

static enum lvn_status draw(struct plot *p, const char *title)
{
    struct lvn_text *t = p->out;
    fit_axes(p);
    lvn_text_printf(t,
                    "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" "
                    "font-family=\"Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif\" font-size=\"14\" "
                    "fill=\"#444c56\">\n",
                    WIDTH, HEIGHT, WIDTH, HEIGHT);
    lvn_text_printf(t, "<rect width=\"%d\" height=\"%d\" fill=\"#ffffff\"/>\n", WIDTH, HEIGHT);
    lvn_text_printf(t, "<clipPath id=\"plot\"><rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/></clipPath>\n",
                    LEFT - 2, TOP - 2, WIDTH - LEFT - RIGHT + 4, HEIGHT - TOP - BOTTOM + 4);
    axes(p);
    if (p->train->n) raw_line(p);
    if (p->train->n) LVN_TRY(smooth_line(p));
    val_points(p);
    words(p, title);
    lvn_text_add(t, "</svg>\n");
    return lvn_text_status(t);
}

enum lvn_status lvn_curve_draw(struct lvn_text *svg, const char *title, const struct lvn_points *train,
                               const struct lvn_points *val)
{
    struct plot p = {.train = train, .val = val, .out = svg};
    LVN_CHECK(!train->failed && !val->failed, MEMORY, "not enough memory for the points of '%s'", title);
    return train->n + val->n > 0 ? draw(&p, title) : LVN_OK;
}

enum lvn_status lvn_curve_write(const char *svg, const char *title, const struct lvn_points *train,
                                const struct lvn_points *val)
{
    LVN_LOCAL_TEXT(text);
    enum lvn_status status = lvn_curve_draw(&text, title, train, val);
    if (status == LVN_OK && text.n) status = lvn_file_write(svg, text.p, text.n);
    return status ? lvn_while_at(status, "drawing the loss curve '%s'", svg) : LVN_OK;
}
