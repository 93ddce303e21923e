/* class_labels.h - labels of a table as classes: words, or whole numbers.
 *
 * labelled.c calls it. The classes come from a model, or from the labels of a file: lvn_class_labels_add() collects
 * them, lvn_class_labels_end() determines the classes, lvn_class_labels_find() gives the class of a label.
 *
 *   numbers that a file names  the names are the classes, in their order (lvn_class_labels_of_features())
 *   whole numbers from 0       each number up to the largest is a class; the classes have no names
 *   other whole numbers        each different number is a class, in their order; its name is the number
 *   words, codes (007, 1e3)    each different word is a class, sorted by the bytes of UTF-8
 *
 * Spaces around a label do not count, composed and decomposed characters are equal (NFC), and a whole number may be
 * written as 1, 1.0 or 1e+00. If at least half of a file's labels are whole numbers, its words are wrong labels. */
#ifndef LVN_CLASS_LABELS_H
#define LVN_CLASS_LABELS_H

#include "base/arena.h"
#include "base/index.h"
#include "base/text.h"

enum { LVN_CLASSES_MAX = 1 << 16 };

struct lvn_class_label {
    const char *name;
    bool is_number;
    double number; /* if is_number */
    int64_t rows;  /* with this label */
};

/* A zeroed struct is empty. */
struct lvn_class_labels {
    struct lvn_arena arena;
    struct lvn_class_label *label; /* [n_labels], in the order of the file; after the end in that of the classes */
    int64_t n_labels, capacity;
    struct lvn_index index; /* name -> index in `label`; after the end: name -> class */
    int64_t n;              /* classes; 0: not determined yet */
    const char **names;     /* [n] names of the classes; NULL: they are counted from 0 */
    bool names_are_numbers; /* at least one is: then a number is a name, and never the index of a class */
    bool numbered;          /* lvn_class_labels_find() found a class by its index, although classes have names */
    bool codes;             /* some label is a code, as 007: then all numbers are words */
    bool counted;           /* `source` has numbers, which count the classes */
    int *of_number; /* [n_numbers] the class of each number in the current file; NULL: it does not name its numbers */
    int64_t n_numbers;
    const char *source;  /* the file that determined the classes; NULL: a model; borrowed */
    struct lvn_text key; /* of the last label */
};

void lvn_class_labels_release(struct lvn_class_labels *c);
/* The n classes of a model. names: each ended by a NUL; NULL: they have no names. */
enum lvn_status lvn_class_labels_of_model(struct lvn_class_labels *c, int64_t n, const char *names) LVN_CHECKED;
/* Read the names of a column's classes that `features` gives (formats/parquet/parquet.h; NULL: none), for the numbers
 * in this file. If the classes are not determined, these names determine them. A model's names may differ in case. */
enum lvn_status lvn_class_labels_of_features(struct lvn_class_labels *c, const char *path, const char *features,
                                             const char *column) LVN_CHECKED;
/* Count a row's label of p[0..n). Labels that can be no class are ignored. */
enum lvn_status lvn_class_labels_add(struct lvn_class_labels *c, const char *p, int64_t n) LVN_CHECKED;
/* Determine the classes after the last row of a file. FORMAT, if its labels cannot be classes: all are equal, or each
 * row has a different one. Log what is unusual. */
enum lvn_status lvn_class_labels_end(struct lvn_class_labels *c, const char *path) LVN_CHECKED;
/* The class of a label; -1, with the reason in `why`, if it has none. */
enum lvn_status lvn_class_labels_find(struct lvn_class_labels *c, const char *p, int64_t n, int64_t *found, char *why,
                                      size_t capacity) LVN_CHECKED;
/* A finite number, as "-1.5" or "2e3", with spaces around it; false: the text is none. */
bool lvn_class_labels_number(const char *p, int64_t n, double *out);

#endif
