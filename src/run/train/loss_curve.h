/* loss_curve.h - draws the loss curve of a run for a slide (SVG).
 *
 * The logger curve calls it, and report.c in a build without uPlot. Training loss is a pale line with a smoothed one
 * over it, validation loss is points with their values. */
#ifndef LVN_LOSS_CURVE_H
#define LVN_LOSS_CURVE_H

#include "base/status.h"
#include "base/text.h"

/* A series; all zero is an empty one. */
struct lvn_points {
    struct lvn_point {
        double x; /* step */
        double y; /* loss */
    } * p;
    int64_t n;
    int64_t capacity;
    bool failed; /* out of memory */
};

/* Non-finite values are ignored. */
void lvn_points_add(struct lvn_points *s, double x, double y);
void lvn_points_release(struct lvn_points *s);

/* Add the columns with these names of a metrics.csv, up to a step. FORMAT: not one of levin's files; IO: it cannot be
 * read.
 */
enum lvn_status lvn_curve_read(const char *csv, const char *train_name, const char *val_name, int64_t last_step,
                               struct lvn_points *train, struct lvn_points *val) LVN_CHECKED;
/* Append the drawing to `svg`; without points nothing is appended. */
enum lvn_status lvn_curve_draw(struct lvn_text *svg, const char *title, const struct lvn_points *train,
                               const struct lvn_points *val) LVN_CHECKED;
/* Replace the file `svg`. Without points nothing is written, and OK is returned. */
enum lvn_status lvn_curve_write(const char *svg, const char *title, const struct lvn_points *train,
                                const struct lvn_points *val) LVN_CHECKED;

#endif
