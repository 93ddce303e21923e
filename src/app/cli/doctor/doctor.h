/* doctor.h - levin doctor: reports what levin sees of this machine and, under a launcher, of all ranks. Used by the
 * files of this folder alone. */
#ifndef LVN_DOCTOR_H
#define LVN_DOCTOR_H

#include "cli/cli.h"
#include "cluster/rendezvous/member.h"
#include "comm/comm.h"
#include "host/isa.h"
#include "host/machine.h"

enum { LVN_FINDINGS = 24 }; /* printed at most */

struct lvn_doctor {
    struct lvn_cli *c;
    struct lvn_machine m;
    enum lvn_isa isa;    /* that kernels use */
    bool train;          /* --train: compare a tiny training on one rank and on all */
    const char *library; /* trainer.mpi_library */
    json_t *findings;    /* for --json */
    json_t *libraries;   /* for --json */
    int n_findings;
    char found[LVN_FINDINGS][1400]; /* the findings as text, printed at the end */
};

/* Print "name     value" on stdout. */
void lvn_doctor_line(const struct lvn_doctor *r, const char *name, const char *format, ...) LVN_PRINTF(3, 4);
/* Add a finding, a sentence (printf-like), and its cure. */
void lvn_doctor_finding(struct lvn_doctor *r, const char *cure, const char *format, ...) LVN_PRINTF(3, 4);

/* doctor_ranks.c: report which launcher started this process, and variables of others that are ignored. */
void lvn_doctor_launch(struct lvn_doctor *r, const struct lvn_identity *identity);
/* All ranks call it: they join, measure their links, and rank 0 adds the results to the report. */
enum lvn_status lvn_doctor_ranks(struct lvn_doctor *r, const struct lvn_identity *identity) LVN_CHECKED;

/* doctor_train.c: all ranks call it; rank 0 reports whether training on all ranks gives the same losses and weights as
 * on one. */
enum lvn_status lvn_doctor_train(struct lvn_doctor *r, struct lvn_ranks *ranks) LVN_CHECKED;
/* The same for threads of a process that no launcher started. */
enum lvn_status lvn_doctor_train_alone(struct lvn_doctor *r, const struct lvn_identity *identity) LVN_CHECKED;

#endif
