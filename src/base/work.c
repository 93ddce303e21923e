/* work.c - see work.h. One process is one rank: the count is the process's. */
#include "base/work.h"

#include <stdatomic.h>

static _Atomic int64_t count;
static _Atomic(const char *) name;
static _Atomic int awaited = -1;

const char *lvn_work_begin(const char *what)
{
    return atomic_exchange_explicit(&name, what, memory_order_acq_rel);
}

void lvn_work_end(const char *interrupted)
{
    lvn_work_done(1);
    atomic_store_explicit(&name, interrupted, memory_order_release);
}

const char *lvn_work_name(void)
{
    return atomic_load_explicit(&name, memory_order_acquire);
}

void lvn_work_done(int64_t n)
{
    atomic_fetch_add_explicit(&count, n, memory_order_relaxed);
}

int64_t lvn_work_count(void)
{
    return atomic_load_explicit(&count, memory_order_relaxed);
}

void lvn_work_await(int rank)
{
    atomic_store_explicit(&awaited, rank, memory_order_relaxed);
}

int lvn_work_awaited(void)
{
    return atomic_load_explicit(&awaited, memory_order_relaxed);
}
