/* doctor.h - what the files of levin doctor share: one report, and the ranks of a launch. */
#ifndef LVN_DOCTOR_H
#define LVN_DOCTOR_H

#include "cli/cli.h"
#include "cluster/rendezvous/member.h"
#include "comm/comm.h"
#include "host/isa.h"
#include "host/machine.h"

enum { LVN_FINDINGS = 24 };

struct lvn_doctor {
    struct lvn_cli *c;
    struct lvn_machine m;
    enum lvn_isa isa;
    bool train;          /* compare a tiny training on one rank and on all */
    const char *library; /* trainer.mpi_library */
    json_t *findings, *libraries;
    int n_findings;
    char found[LVN_FINDINGS][1400]; /* printed at the end */
};

/* "name     value", on stdout. */
void lvn_doctor_line(const struct lvn_doctor *r, const char *name, const char *format, ...) LVN_PRINTF(3, 4);
/* One thing that is wrong: what to do, and the sentence that says what it is. */
void lvn_doctor_finding(struct lvn_doctor *r, const char *cure, const char *format, ...) LVN_PRINTF(3, 4);

/* doctor_ranks.c: who started this process; which of its variables count and which do not. */
void lvn_doctor_launch(struct lvn_doctor *r, const struct lvn_identity *who);
/* All ranks call it: they meet, measure, and rank 0 adds what it finds to the report. */
enum lvn_status lvn_doctor_ranks(struct lvn_doctor *r, const struct lvn_identity *who) LVN_CHECKED;

/* doctor_train.c: all ranks call it; rank 0 adds to the report whether training on all ranks is training on one. The
 * second for a process that no launcher started. */
enum lvn_status lvn_doctor_train(struct lvn_doctor *r, struct lvn_ranks *ranks) LVN_CHECKED;
enum lvn_status lvn_doctor_train_alone(struct lvn_doctor *r, const struct lvn_identity *who) LVN_CHECKED;

/* doctor_network.c: what lies between ranks. Seconds there (half a round trip), bytes/s, of some pairs. */
struct lvn_tcp_connection {
    int a, b;
    double seconds, rate;
};
/* All ranks call it; *links (to be freed) is filled on rank 0 alone. clock[i]: how far rank i's clock is ahead of that
 * of rank 0, seconds. reduce_s: one all-reduce of *reduce_bytes. */
enum lvn_status lvn_doctor_links(struct lvn_comm *comm, struct lvn_tcp_connection **links, int *n_links, double *clock,
                                 double *reduce_s, int64_t *reduce_bytes) LVN_CHECKED;

#endif
