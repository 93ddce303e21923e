/* devices.c - see devices.h. */
#include "engine/devices.h"

#include "base/arena.h"
#include "base/log.h"
#include "base/random.h"
#include "base/threads.h"
#include "engine/rank_groups.h"
#include "options/device_list.h"

/* --- which device --- */

/* Number of devices of the accelerator on this host; 0: it is the CPU, or there is none, and opening reports the
 * reason.
 */
static int count_here(const struct lvn_values *v)
{
    const struct lvn_backend *b = lvn_backend_find(v->trainer.accelerator);
    return b->describe ? lvn_backend_devices(b) : 0;
}

enum lvn_status lvn_ranks_device(const struct lvn_ranks *r, const struct lvn_values *v, int *number)
{
    struct lvn_devices requested;
    const int n = count_here(v), mine = r ? r->local_rank : 0;
    *number = 0;
    LVN_TRY(lvn_devices_read(&requested, v));
    if (n == 0) return LVN_OK;
    *number = requested.listed ? requested.number[mine % requested.n] : mine % n;
    LVN_CHECK(*number < n, ARG, "trainer.devices (%s) names device %d, and %s has %d here%s", v->trainer.devices,
              *number, lvn_backend_find(v->trainer.accelerator)->name, n, n == 1 ? ", number 0" : ", numbered from 0");
    return LVN_OK;
}

static enum lvn_status check_counts(const struct lvn_ranks *r, const struct lvn_values *v)
{
    const struct lvn_backend *b = lvn_backend_find(v->trainer.accelerator);
    const int64_t nodes = v->trainer.num_nodes;
    struct lvn_devices requested;
    LVN_TRY(lvn_devices_read(&requested, v));
    const int64_t each = requested.n;
    LVN_CHECK(!requested.listed || b->describe, ARG,
              "trainer.devices lists devices (%s), but trainer.accelerator %s is the CPU; give the number of ranks on "
              "a node (%lld), or omit it",
              v->trainer.devices, b->name, (long long)each);
    LVN_CHECK(
        !nodes || nodes == r->hosts, ARG,
        "trainer.num_nodes is %lld, but the %d rank%s of this run (%s) %s on %d: start it on that many nodes, set "
        "%d, or omit it",
        (long long)nodes, r->size, lvn_plural(r->size), r->identity.title, r->size == 1 ? "is" : "are", r->hosts,
        r->hosts);
    LVN_CHECK(!each || each == r->local_size, ARG,
              "trainer.devices is %s, but %d rank%s run%s on %s (%s): start as many on each node, as `levin launch -n "
              "%lld -- train ...` does, set %d, or omit it",
              v->trainer.devices, r->local_size, lvn_plural(r->local_size), r->local_size == 1 ? "s" : "",
              r->host[r->rank], r->identity.title, (long long)(each * (nodes ? nodes : 1)), r->local_size);
    return LVN_OK;
}

/* A number that two ranks of a run share only if they share the device or card of this name; 0: unknown. */
static int64_t id_on_host(const struct lvn_ranks *r, const char *name)
{
    char text[128 + LVN_HOST_TEXT + 2];
    snprintf(text, sizeof text, "%s %s", r->host[r->rank], name);
    return *name ? (int64_t)lvn_name_hash(text) : 0;
}

/* ids: [size] of devices, then [size] of cards; this rank's are set. */
static enum lvn_status find_ids(const struct lvn_ranks *r, const struct lvn_values *v, int64_t *ids)
{
    const struct lvn_backend *b = lvn_backend_find(v->trainer.accelerator);
    struct lvn_device_facts f;
    int number;
    LVN_TRY(check_counts(r, v));
    LVN_TRY(lvn_ranks_device(r, v, &number));
    if (!b->describe || !b->describe(number, &f)) return LVN_OK;
    ids[r->rank] = id_on_host(r, f.id);
    ids[r->size + r->rank] = id_on_host(r, f.card);
    return LVN_OK;
}

/* Find the first rank that uses the same device as a lower rank, and that lower rank. */
static bool find_shared(const int64_t *device_ids, int size, int pair[2])
{
    for (int i = 1; i < size; i++)
        for (int k = 0; k < i && device_ids[i]; k++)
            if (device_ids[i] == device_ids[k]) {
                pair[0] = k;
                pair[1] = i;
                return true;
            }
    return false;
}

static enum lvn_status check_devices(struct lvn_ranks *r, const struct lvn_values *v, int64_t *device_ids)
{
    const struct lvn_backend *b = lvn_backend_find(v->trainer.accelerator);
    int pair[2];
    LVN_TRY(
        lvn_ranks_agree(r, find_ids(r, v, device_ids))); /* the entries of other ranks are 0, so the sum is a gather */
    LVN_TRY(lvn_comm_all_reduce_now(r->comm, device_ids, 2 * (int64_t)r->size, LVN_I64, LVN_SUM));
    r->shared_cards = find_shared(device_ids + r->size, r->size, pair);
    const bool shared = find_shared(device_ids, r->size, pair);
    r->exclusive_devices = !shared;
    r->device_sharers = 0;
    for (int i = 0; i < r->size; i++) {
        r->exclusive_devices = r->exclusive_devices && device_ids[i];
        r->device_sharers += device_ids[r->rank] && device_ids[i] == device_ids[r->rank];
    }
    LVN_CHECK(!shared || v->trainer.share_devices, ARG,
              "ranks %d and %d run on %s, and %s has one device for both: start as many on each node as there are "
              "devices (trainer.devices), or set trainer.share_devices to true, so that several use one",
              pair[0], pair[1], r->host[pair[1]], b->name);
    return LVN_OK;
}

/* Do all ranks use the same kind of device? auto and gpu choose by the devices of a host. kind: the entries of other
 * ranks are 0, as above. */
static enum lvn_status check_kinds(struct lvn_ranks *r, const struct lvn_values *v, int64_t *kind)
{
    const struct lvn_backend *b = lvn_backend_find(v->trainer.accelerator);
    int other = 1;
    for (int i = 0; lvn_backend_at(i); i++)
        if (lvn_backend_at(i) == b) kind[r->rank] = i + 1;
    LVN_TRY(lvn_comm_all_reduce_now(r->comm, kind, r->size, LVN_I64, LVN_SUM));
    while (other < r->size && kind[other] == kind[0]) other++;
    if (other == r->size) return LVN_OK;
    const struct lvn_backend *first = lvn_backend_at((int)kind[0] - 1), *second = lvn_backend_at((int)kind[other] - 1);
    LVN_FAIL(ARG,
             "rank 0 on %s computes on %s, and rank %d on %s on %s: set trainer.accelerator to what all hosts have",
             r->host[0], first ? first->name : "no device", other, r->host[other], second ? second->name : "no device");
}

enum lvn_status lvn_ranks_check(struct lvn_ranks *r, const struct lvn_values *v)
{
    if (r->size == 1) return lvn_ranks_agree(r, check_counts(r, v));
    int64_t *device_ids = lvn_calloc(2 * (size_t)r->size, sizeof *device_ids);
    LVN_TRY(lvn_ranks_agree(r, device_ids ? LVN_OK : LVN_MEMORY));
    enum lvn_status status = check_kinds(r, v, device_ids);
    if (device_ids) memset(device_ids, 0, sizeof *device_ids * (size_t)r->size);
    if (status == LVN_OK && lvn_backend_find(v->trainer.accelerator)->describe)
        status = check_devices(r, v, device_ids);
    else if (status == LVN_OK)
        status = lvn_ranks_agree(r, check_counts(r, v));
    free(device_ids);
    return status;
}

/* --- the communicator between devices --- */

/* Row i of the kinds of communicators that work on the memory of this backend's devices; NULL: no more. */
static const struct lvn_comm_kind *kind_at(const struct lvn_backend *b, int i)
{
    const struct lvn_comm_kind *k;
    for (int row = 0; (k = lvn_comm_kind_at(row)); row++)
        if (k->memory && !strcmp(k->memory, b->name) && !i--) return k;
    return NULL;
}

/* The reason why gradient sums are staged through host memory; NULL: they are not. */
static const char *staging_reason(const struct lvn_ranks *r, const struct lvn_values *v)
{
    if (!r->exclusive_devices) return "several ranks compute on one device";
    if (r->shared_cards) return "several ranks compute on parts of one GPU (MIG), between which no library transfers";
    if (strcmp(v->trainer.transport, "auto") != 0) return "trainer.transport is set";
    if (v->trainer.deterministic) return "trainer.deterministic requires sums in a fixed order";
    return NULL;
}

/* The library file of this kind in the settings, trainer.NAME_library; "": none, or no such option. */
static const char *library_of(const struct lvn_comm_kind *k, const struct lvn_values *v)
{
    char key[64];
    snprintf(key, sizeof key, "trainer.%s_library", k->name);
    const struct lvn_option *o = lvn_option_find(key);
    return o ? *(const char *const *)((const char *)v + o->offset) : "";
}

/* *all: every rank has the library. If not, collectives are staged through host memory; but a library named in the
 * settings must exist. */
static enum lvn_status load(struct lvn_ranks *r, const struct lvn_comm_kind *k, const struct lvn_values *v,
                            char describe[400], bool *all)
{
    const char *named = library_of(k, v);
    int32_t here = 0;
    char reason[400];
    enum lvn_status status = k->load(named, describe);
    snprintf(reason, sizeof reason, "%s", status == LVN_OK ? "" : levin_error_text());
    if (named && *named) LVN_TRY(lvn_ranks_agree(r, status));
    here = status == LVN_OK;
    if (!here) lvn_error_clear();
    LVN_TRY(lvn_comm_all_reduce_now(r->comm, &here, 1, LVN_I32, LVN_MIN));
    *all = here;
    if (!here) snprintf(describe, 400, "%s", *reason ? reason : "another rank does not have the library");
    return LVN_OK;
}

static enum lvn_status join(struct lvn_ranks *r, struct lvn_device *d, const struct lvn_comm_kind *k, double timeout)
{
    struct lvn_comm *comm = NULL;
    char name[LVN_RANK_TEXT];
    const struct lvn_comm_options o = {.rank = r->rank,
                                       .size = r->size,
                                       .kind = k,
                                       .timeout = timeout,
                                       .device = d,
                                       .host_comm = r->comm,
                                       .where = lvn_ranks_name(r, r->rank, name)};
    lvn_member_set_operation(r->member, "joining the devices");
    enum lvn_status status = lvn_comm_open(&comm, &o);
    lvn_member_set_operation(r->member, NULL);
    pthread_mutex_lock(&r->close_lock);
    r->device_comm = comm;
    pthread_mutex_unlock(&r->close_lock);
    return lvn_ranks_agree(r, status);
}

enum lvn_status lvn_ranks_group(struct lvn_ranks *r, struct lvn_device *d, const struct lvn_values *v)
{
    const struct lvn_backend *b = d->backend;
    const struct lvn_comm_kind *k = NULL;
    char describe[400];
    bool all = true;
    if (!r || r->size == 1 || !b->describe || (r->device_comm && lvn_comm_device(r->device_comm) == d)) return LVN_OK;
    const char *reason =
        kind_at(b, 0) ? staging_reason(r, v) : "this backend does not support transfers between devices";
    for (int i = 0; !reason && (i == 0 || !all) && kind_at(b, i); i++) {
        k = kind_at(b, i);
        LVN_TRY(load(r, k, v, describe, &all));
    }
    if (!reason && !all) reason = describe;
    if (reason && !r->rank)
        lvn_log(all ? LVN_LOG_INFO : LVN_LOG_WARN, "collectives are staged through host memory: %s", reason);
    if (!reason && !r->rank) lvn_log(LVN_LOG_INFO, "collectives run between devices with %s", describe);
    if (reason) return LVN_OK;
    lvn_ranks_ungroup(r);
    return join(r, d, k, v->trainer.start_timeout);
}

void lvn_ranks_ungroup(struct lvn_ranks *r)
{
    if (!r) return;
    lvn_ranks_undivide(r);
    pthread_mutex_lock(&r->close_lock);
    struct lvn_comm *comm = r->device_comm;
    r->device_comm = NULL;
    pthread_mutex_unlock(&r->close_lock);
    lvn_comm_close(comm);
}

static void give_up(void *ranks)
{
    struct lvn_ranks *r = ranks;
    pthread_mutex_lock(&r->close_lock);
    if (r->device_comm) lvn_comm_cancel(r->device_comm);
    if (r->groups) lvn_rank_groups_cancel(r->groups);
    pthread_mutex_unlock(&r->close_lock);
}

void lvn_ranks_give_up(struct lvn_ranks *r)
{
    const double patience = 2;
    if (r && r->device_comm) (void)lvn_thread_with_timeout(patience, give_up, r);
}
