/* harness_fields.h - the fields of a task of lm-evaluation-harness: what doc_to_text, doc_to_target, doc_to_choice and
 * description give for a document. A field is a column of the data, a number, a list, or a template of Jinja over the
 * columns. Called by benchmark_harness.c. */
#ifndef LVN_HARNESS_FIELDS_H
#define LVN_HARNESS_FIELDS_H

#include "benchmarks/benchmark_rows.h"
#include "formats/yaml.h"
#include "templates/chat_template.h"

struct lvn_harness_field {
    const struct lvn_yaml *node;            /* NULL: the task has no such field */
    const struct lvn_chat_template *parsed; /* NULL: it is no template */
};

struct lvn_harness_function;
enum { LVN_HARNESS_TEMPLATES = 24 };

struct lvn_harness_run {
    const char *path, *task; /* of the task, for messages */
    struct lvn_arena *arena; /* of the fields */
    struct lvn_chat_template *parsed[LVN_HARNESS_TEMPLATES];
    int n_parsed;
    const struct lvn_harness_function *process; /* process_docs; NULL: none */
    struct lvn_harness_field made[3];           /* columns that it adds */
    /* The current document. */
    const struct lvn_rows *rows;
    json_t *document;
    int64_t line;
    struct lvn_arena scratch;
};
void lvn_harness_run_init(struct lvn_harness_run *run, const char *path, struct lvn_arena *a);
void lvn_harness_run_release(struct lvn_harness_run *run);

/* Is the value null or omitted? */
bool lvn_harness_is_null(const struct lvn_yaml *node);
/* Read a field. UNSUPPORTED for a function in Python that levin does not know. */
enum lvn_status lvn_harness_field(struct lvn_harness_run *run, const struct lvn_yaml *node,
                                  struct lvn_harness_field *out) LVN_CHECKED;
/* Read process_docs (NULL: none); lvn_harness_document() then adds its columns to each document of a data
 * file. */
enum lvn_status lvn_harness_process(struct lvn_harness_run *run, const struct lvn_yaml *node) LVN_CHECKED;
/* The documents of a list in the task's file. */
enum lvn_status lvn_harness_samples(struct lvn_harness_run *run, const struct lvn_yaml *list,
                                    struct lvn_rows *out) LVN_CHECKED;
/* Make row i the current document. */
enum lvn_status lvn_harness_document(struct lvn_harness_run *run, struct lvn_rows *rows, int64_t i) LVN_CHECKED;

/* How the text of a template is converted. NUMBER: digits become a number; LIST: it is a list as Python writes it;
 * TARGET: a text in brackets is a list if it can be one. */
enum lvn_harness_use { LVN_HARNESS_TEXT = 0, LVN_HARNESS_NUMBER = 1, LVN_HARNESS_LIST = 2, LVN_HARNESS_TARGET = 4 };
/* The value for the current document; the caller owns it. */
enum lvn_status lvn_harness_value(struct lvn_harness_run *run, const struct lvn_harness_field *field, unsigned use,
                                  json_t **out) LVN_CHECKED;

#endif
