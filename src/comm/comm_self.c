/* comm_self.c - the communicator of one rank: every operation is done, or needs nothing, before the call returns. */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "comm/comm_kind.h"
#include "comm/comm_private.h"

static void submit(struct lvn_comm *c, struct lvn_request *r)
{
    (void)c;
    if (r->kind == LVN_REQUEST_TREE_REDUCE && r->partial[0] != r->x)
        memcpy(r->x, r->partial[0], (size_t)(r->count * lvn_dtype_bytes((enum lvn_dtype)r->type)));
    if (r->kind == LVN_REQUEST_CALL) r->call(NULL, r->x);
    __atomic_store_n(&r->done, 1, __ATOMIC_RELEASE);
}

static void wait(struct lvn_comm *c, struct lvn_request *r, const struct timespec *until)
{
    (void)c, (void)r, (void)until;
}

static void close_self(struct lvn_comm *c)
{
    free(c);
}

static enum lvn_status open_self(struct lvn_comm **out, const struct lvn_comm_options *o);

static enum lvn_status split(struct lvn_comm *c, struct lvn_comm **out, int colour, int key)
{
    (void)c, (void)key;
    return colour < 0 ? LVN_OK : open_self(out, NULL);
}

static enum lvn_status open_self(struct lvn_comm **out, const struct lvn_comm_options *o)
{
    static const struct lvn_comm_ops ops = {.submit = submit, .wait = wait, .split = split, .close = close_self};
    (void)o;
    struct lvn_comm *c = *out = lvn_calloc(1, sizeof *c);
    if (!c) return LVN_MEMORY;
    lvn_comm_init(c, &ops, 0, 1);
    return LVN_OK;
}

const struct lvn_comm_kind lvn_comm_kind_self = {
    .name = "self", .description = "one rank alone", .meeting = LVN_MEETS_NOBODY, .open = open_self};
