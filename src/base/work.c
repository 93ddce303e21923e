/* work.c - see work.h. The state is global: one process is one rank. */
#include "base/work.h"

#include <stdatomic.h>

static _Atomic int64_t count;
static _Atomic(const char *) name;
static _Atomic int blocking_rank = -1;
static _Atomic int64_t parts_done, parts;

const char *lvn_work_begin(const char *activity)
{
    lvn_work_set_parts(0, 0);
    return atomic_exchange_explicit(&name, activity, memory_order_acq_rel);
}

void lvn_work_end(const char *interrupted)
{
    lvn_work_done(1);
    lvn_work_set_parts(0, 0);
    atomic_store_explicit(&name, interrupted, memory_order_release);
}

const char *lvn_work_name(void)
{
    return atomic_load_explicit(&name, memory_order_acquire);
}

void lvn_work_set_parts(int64_t done, int64_t all)
{
    atomic_store_explicit(&parts_done, done, memory_order_relaxed);
    atomic_store_explicit(&parts, all, memory_order_relaxed);
}

void lvn_work_parts(int64_t *done, int64_t *all)
{
    *done = atomic_load_explicit(&parts_done, memory_order_relaxed);
    *all = atomic_load_explicit(&parts, memory_order_relaxed);
}

void lvn_work_done(int64_t n)
{
    atomic_fetch_add_explicit(&count, n, memory_order_relaxed);
}

int64_t lvn_work_count(void)
{
    return atomic_load_explicit(&count, memory_order_relaxed);
}

void lvn_work_set_blocking_rank(int rank)
{
    atomic_store_explicit(&blocking_rank, rank, memory_order_relaxed);
}

int lvn_work_blocking_rank(void)
{
    return atomic_load_explicit(&blocking_rank, memory_order_relaxed);
}

static _Thread_local struct {
    int (*ask)(void *context);
    void *context;
} interrupt;

void lvn_interrupt_set(int (*ask)(void *context), void *context)
{
    interrupt.ask = ask;
    interrupt.context = context;
}

enum lvn_status lvn_interrupt_check(void)
{
    LVN_CHECK(!interrupt.ask || !interrupt.ask(interrupt.context), STOPPED, "interrupted");
    return LVN_OK;
}
