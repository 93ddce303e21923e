/* consistency.c - see consistency.h.
 *
 * Each property becomes an integer. One minimum over ranks, of all integers and their complements, finds those that
 * differ; only then do ranks exchange the values of the first of these. */
#include "engine/consistency.h"

#include "backend/backend.h"
#include "base/arena.h"
#include "base/files.h"
#include "base/random.h"
#include "engine/parameter_sums.h"
#include "engine/rank_groups.h"
#include "formats/checksum.h"

/* --- comparing integers over ranks --- */

/* The index of the first of n integers that differs between ranks; -1: none. x: [2 n]; this sets the second half. */
static enum lvn_status first_difference(struct lvn_comm *c, int64_t *x, int64_t n, int64_t *which)
{
    *which = -1;
    if (lvn_comm_size(c) == 1) return LVN_OK;
    for (int64_t i = 0; i < n; i++) x[n + i] = ~x[i];
    LVN_TRY(lvn_comm_all_reduce_now(c, x, 2 * n, LVN_I64, LVN_MIN));
    for (int64_t i = 0; i < n && *which < 0; i++)
        if (x[i] != ~x[n + i]) *which = i;
    return LVN_OK;
}

/* *other: the lowest rank with the most frequent integer (of equally frequent ones, that of the lowest rank). *odd: the
 * lowest rank whose integer differs from it. */
static enum lvn_status odd_one(struct lvn_comm *c, int64_t mine, int *odd, int *other)
{
    const int size = lvn_comm_size(c);
    int64_t *all = lvn_calloc((size_t)size, sizeof *all);
    if (!all) return LVN_MEMORY;
    all[lvn_comm_rank(c)] = mine;
    enum lvn_status status = lvn_comm_all_reduce_now(c, all, size, LVN_I64, LVN_SUM);
    int max = 0;
    *other = 0;
    for (int i = 0; i < size; i++) {
        int equal = 0;
        for (int j = 0; j < size; j++) equal += all[i] == all[j];
        if (equal > max) max = equal, *other = i;
    }
    for (*odd = 0; *odd < size - 1 && all[*odd] == all[*other]; ++*odd) continue;
    free(all);
    return status;
}

/* --- before the first step --- */

enum { TEXT = 512, VERSION = LVN_OPT_ALL, BUILD, N_PROPERTIES };

static const char UNREADABLE[] = "build unknown";

uint64_t lvn_consistency_program(void)
{
    char *bytes = NULL;
    int64_t n = 0;
    uint64_t hash = 0;
    if (lvn_file_read("/proc/self/exe", (int64_t)1 << 30, &bytes, &n) == LVN_OK)
        hash = lvn_checksum(bytes, n);
    else
        lvn_error_clear();
    free(bytes);
    return hash;
}

/* A path of a run without the folder in which this host found it (data.folder): other hosts may lack it. */
static const char *as_recorded(const struct lvn_values *v, int id, const char *text)
{
    const size_t n = strlen(v->data.folder);
    if (!n || (id != LVN_OPT_sample_prompt && id != LVN_OPT_lora_init && id != LVN_OPT_lora_base)) return text;
    if (id == LVN_OPT_sample_prompt && strncmp(text, "FILE:", 5) == 0) text += 5;
    return strncmp(text, v->data.folder, n) == 0 && text[n] == '/' ? text + n + 1 : text;
}

/* The text of property `id`, in `text` or in other memory; its length is not limited. */
static const char *property(int id, const struct lvn_values *v, const char **name, char text[LVN_VALUE_TEXT])
{
    const struct lvn_option *o = id < VERSION ? lvn_option_by_id((enum lvn_option_id)id) : NULL;
    *name = o ? o->key : "";
    if (id < VERSION) return !o || o->per_rank ? "" : as_recorded(v, id, lvn_value_text(v, o->id, text));
    if (id == VERSION) return LVN_VERSION;
    const uint64_t program = lvn_consistency_program();
    if (!program) return UNREADABLE;
    snprintf(text, LVN_VALUE_TEXT, "build %016" PRIx64, program);
    return text;
}

/* Report how property `id` differs. */
static enum lvn_status report_difference(struct lvn_ranks *r, const struct lvn_values *v, int id, char *note,
                                         size_t note_capacity)
{
    char text[LVN_VALUE_TEXT], odds[TEXT], others[TEXT], a[LVN_RANK_TEXT], b[LVN_RANK_TEXT];
    const char *name, *mine = property(id, v, &name, text);
    int odd, other;
    LVN_TRY(odd_one(r->comm, (int64_t)lvn_name_hash(mine), &odd, &other));
    snprintf(odds, TEXT, "%s", mine);
    memcpy(others, odds, TEXT);
    LVN_TRY(lvn_comm_broadcast_now(r->comm, odds, TEXT, odd));
    LVN_TRY(lvn_comm_broadcast_now(r->comm, others, TEXT, other));
    lvn_ranks_name(r, odd, a);
    lvn_ranks_name(r, other, b);
    r->agreed = true;
    LVN_CHECK(id >= VERSION, ARG, "%s was started with %s %s, but %s with %s; give all ranks the same recipe and keys",
              a, name, *odds ? odds : "\"\"", b, *others ? others : "\"\"");
    LVN_CHECK(id != VERSION, ARG, "%s runs levin %s, but %s runs levin %s; install the same version on all hosts", a,
              odds, b, others);
    r->agreed = false;
    const bool unreadable = !strcmp(odds, UNREADABLE);
    if (unreadable || !strcmp(others, UNREADABLE))
        snprintf(note, note_capacity,
                 "%s cannot read its own program file, so whether all ranks run the same program is not known; install "
                 "it readable",
                 unreadable ? a : b);
    else
        snprintf(note, note_capacity,
                 "%s runs another program than %s (%s, %s); install the same program on all hosts, or ranks may drift "
                 "apart",
                 a, b, odds, others);
    return LVN_OK;
}

enum lvn_status lvn_consistency_start(struct lvn_ranks *r, const struct lvn_values *v, char *note, size_t capacity)
{
    int64_t x[2 * N_PROPERTIES], which;
    char text[LVN_VALUE_TEXT];
    const char *name;
    *note = '\0';
    if (r->size == 1) return LVN_OK;
    for (int id = 0; id < N_PROPERTIES; id++) {
        x[id] = (int64_t)lvn_name_hash(property(id, v, &name, text));
    }
    int64_t soft[2] = {x[BUILD]};
    x[BUILD] = 0; /* a different build is only noted, below */
    LVN_TRY(first_difference(r->comm, x, N_PROPERTIES, &which));
    if (which >= 0) return report_difference(r, v, (int)which, note, capacity);
    LVN_TRY(first_difference(r->comm, soft, 1, &which));
    return which < 0 ? LVN_OK : report_difference(r, v, BUILD, note, capacity);
}

enum lvn_status lvn_consistency_data(struct lvn_ranks *r, uint64_t fingerprint)
{
    int64_t x[2] = {(int64_t)fingerprint}, which;
    int odd, other;
    char a[LVN_RANK_TEXT], b[LVN_RANK_TEXT];
    LVN_TRY(first_difference(r->comm, x, 1, &which));
    if (which < 0) return LVN_OK;
    LVN_TRY(odd_one(r->comm, (int64_t)fingerprint, &odd, &other));
    r->agreed = true;
    LVN_FAIL(ARG, "%s reads other data than %s; give all hosts the same files (data.path, data.val_path)",
             lvn_ranks_name(r, odd, a), lvn_ranks_name(r, other, b));
}

/* --- parameters --- */

/* Compare the parameters' checksums x over c: ranks with replicas of the same parameters, or of the same parts of them.
 * These are ranks first, first + step_of_ranks, ... */
static enum lvn_status compare(struct lvn_ranks *r, struct lvn_comm *c, int first, int step_of_ranks,
                               const struct lvn_model_state *n, int64_t step, int64_t *x)
{
    int64_t which;
    int odd, other;
    char a[LVN_RANK_TEXT], b[LVN_RANK_TEXT];
    int64_t *mine = x + 2 * n->params->n;
    memcpy(mine, x, sizeof *x * (size_t)n->params->n);
    LVN_TRY(first_difference(c, x, n->params->n, &which));
    if (which < 0) return LVN_OK;
    LVN_TRY(odd_one(c, mine[which], &odd, &other));
    LVN_FAIL(
        COMM,
        "after step %lld the parameters of %s differ from those of %s, first in '%s': its memory, its processor or "
        "its build is at fault; start again without that host, from an earlier checkpoint",
        (long long)step, lvn_ranks_name(r, first + odd * step_of_ranks, a),
        lvn_ranks_name(r, first + other * step_of_ranks, b), n->params->list[which]->name);
}

/* Fail if a block that this rank gathered differs from its owners' parameters. copies: the checksum of each gathered
 * block; parts: the sum of the checksums of its owners' parts. */
static enum lvn_status compare_gathered(const struct lvn_model_state *n, int64_t step, const uint32_t *copies,
                                        const int64_t *parts)
{
    char block[LVN_BLOCK_TEXT];
    for (int b = 0; b < n->params->n_blocks; b++)
        LVN_CHECK(copies[b] == (uint32_t)parts[b], COMM,
                  "by step %lld bits of the parameters of %s that were gathered here are not those of their owners: "
                  "this host's memory or a link to it is at fault; start again without it, from an earlier checkpoint",
                  (long long)step, lvn_block_text(b + LVN_BLOCK_OUTSIDE, block));
    return LVN_OK;
}

/* Compare this rank's shards with the values that its updates wrote, and gathered parameters with the owners'. */
static enum lvn_status check_shards(struct lvn_ranks *r, const struct lvn_model_state *n, int64_t step)
{
    if (!lvn_parameter_sums_of_shards(n)) return LVN_OK;
    const int blocks = n->params->n_blocks;
    const struct lvn_instr *changed = NULL;
    char block[LVN_BLOCK_TEXT];
    uint32_t *gathered = lvn_calloc((size_t)blocks * 2, sizeof *gathered);
    int64_t *parts = lvn_calloc((size_t)blocks, sizeof *parts);
    enum lvn_status status = gathered && parts ? lvn_parameter_sums_compare(n, &changed, gathered) : LVN_MEMORY;
    if (changed)
        status = lvn_fail(LVN_COMM,
                          "by step %lld bits of this rank's shard of %s (parameters or optimizer state, from '%s' on) "
                          "are not those that its updates wrote: this host's memory or processor is at fault; start "
                          "again without it, from an earlier checkpoint",
                          (long long)step, lvn_block_text(changed->block, block), changed->name);
    status = lvn_ranks_agree(r, status);
    for (int b = 0; status == LVN_OK && b < blocks; b++) parts[b] = gathered[blocks + b];
    if (status == LVN_OK)
        status = lvn_comm_all_reduce_now(lvn_ranks_comm(r, LVN_SCOPE_GROUP, false), parts, blocks, LVN_I64, LVN_SUM);
    if (status == LVN_OK) status = lvn_ranks_agree(r, compare_gathered(n, step, gathered, parts));
    free(parts);
    free(gathered);
    return status;
}

enum lvn_status lvn_consistency_replicas(struct lvn_ranks *r, const struct lvn_model_state *n, int64_t step)
{
    const int group = n->sharding.group;
    if (r->size == 1) return LVN_OK;
    LVN_TRY(check_shards(r, n, step));
    if (!lvn_parameter_sums_of_replicas(n)) return LVN_OK;
    int64_t *x = lvn_calloc((size_t)n->params->n * 3 + 1, sizeof *x);
    enum lvn_status status = x ? lvn_parameter_sums_run(n, (uint64_t *)x) : LVN_MEMORY;
    if (status == LVN_OK && !group) {
        status = compare(r, r->comm, 0, 1, n, step, x);
        r->agreed |= status != LVN_OK;
    } else if (group) {
        struct lvn_comm *c = lvn_ranks_comm(r, LVN_SCOPE_REPLICAS, false);
        if (status == LVN_OK) status = compare(r, c, r->rank % group, group, n, step, x);
        status = lvn_ranks_agree(r, status);
    }
    free(x);
    return status;
}
