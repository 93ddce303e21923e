/* config_accelerate.c - reads the YAML that `accelerate config` writes: where to run, and in which precision. Called by
 * config.c.
 *
 * accelerate configures how a program is started, not what it trains. Many of its keys exist for TPUs and clouds; each
 * of these that the file has and that is not off becomes a note. */

#include "base/files.h"
#include "cli/config/config.h"
#include "formats/yaml.h"

/* All known keys, also those within fsdp_config and deepspeed_config. Keys with a note have no counterpart in levin. */
static const struct row {
    const char *keys; /* separated by spaces */
    const char *note; /* what levin does instead; NULL: the functions of this file read them */
} rows[] = {
    {"compute_environment num_machines num_processes mpirun_config distributed_type mixed_precision gpu_ids use_cpu "
     "fsdp_config fsdp_sharding_strategy fsdp_reshard_after_forward fsdp_activation_checkpointing deepspeed_config "
     "zero_stage gradient_clipping gradient_accumulation_steps",
     NULL},
    {"machine_rank", "not needed: one file serves all machines, and `levin launch` numbers the ranks"},
    {"main_process_ip", "not needed: ranks meet at the machine where `levin launch` runs"},
    {"main_process_port", "not needed: a free port is chosen"},
    {"main_training_function", "not needed: there is no Python function to call"},
    {"rdzv_backend", "not needed: `levin launch` opens the rendezvous"},
    {"debug", "levin always checks at the start that ranks agree; --verbose says more"},
    {"tpu_name tpu_zone tpu_env tpu_use_cluster tpu_use_sudo", "TPUs are not supported"},
    {"downcast_bf16", "TPUs are not supported; trainer.precision: bf16-true keeps weights in bf16"},
    {"enable_cpu_affinity", "`levin launch` keeps each rank on its own cores, unless --bind=false"},
    {"ipex_config", "not needed: levin's own kernels use AVX-512 and AMX where the CPU has them"},
    {"dynamo_config dynamo_backend", "not needed: every program is planned before the first step"},
    {"megatron_lm_config parallelism_config", "tensor and pipeline parallelism are not supported"},
    {"fp8_config", "fp8 is not supported"},
    {"commands command_file", "levin runs no commands on cloud machines"},
    {"deepspeed_config_file", "is not read: set trainer.strategy and trainer.precision to its choices"},
    {"offload_optimizer_device offload_param_device offload_optimizer_nvme_path offload_param_nvme_path "
     "fsdp_offload_params",
     "is not supported: levin shards or recomputes what does not fit into the memory of a GPU"},
    {"same_network aot_config zero3_init_flag zero3_save_16bit_model deepspeed_multinode_launcher fsdp_version "
     "fsdp_auto_wrap_policy fsdp_transformer_layer_cls_to_wrap fsdp_min_num_params fsdp_state_dict_type "
     "fsdp_backward_prefetch fsdp_forward_prefetch fsdp_use_orig_params fsdp_sync_module_states "
     "fsdp_cpu_ram_efficient_loading",
     "not needed"},
};

/* The row of a key; NULL: it is not known. */
static const struct row *find_row(const char *key)
{
    const size_t n = strlen(key);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (const char *p = rows[i].keys; n && (p = strstr(p, key)); p += n)
            if ((p == rows[i].keys || p[-1] == ' ') && (!p[n] || p[n] == ' ')) return &rows[i];
    return NULL;
}

static bool is_off(const struct lvn_yaml *y)
{
    static const char *const words[] = {"", "no", "false", "null", "~", "none", "NO", "False", "No", "None"};
    if (y->kind != LVN_YAML_SCALAR) return !y->n;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcmp(y->text, words[i])) return true;
    return false;
}

static const char *get_text(const struct lvn_yaml *map, const char *key)
{
    const struct lvn_yaml *y = lvn_yaml_get(map, key);
    return y && y->kind == LVN_YAML_SCALAR && !is_off(y) ? y->text : NULL;
}

static enum lvn_status read_count(const struct lvn_config *cf, const struct lvn_yaml *map, const char *key,
                                  int64_t *out)
{
    const struct lvn_yaml *y = lvn_yaml_get(map, key);
    if (!y || is_off(y)) return LVN_OK;
    char *end = NULL;
    long long n = y->kind == LVN_YAML_SCALAR ? strtoll(y->text, &end, 10) : 0;
    LVN_CHECK(end && !*end && n >= 1 && n <= 1000000, ARG, "%s:%d: %s must be a whole number from 1, got '%.40s'",
              cf->source, y->line, key, y->kind == LVN_YAML_SCALAR ? y->text : "a list or map");
    *out = n;
    return LVN_OK;
}

/* --- machines and ranks --- */

static enum lvn_status read_machines(struct lvn_config *cf, const struct lvn_yaml *top)
{
    int64_t n = 1, ranks = 0;
    LVN_TRY(read_count(cf, top, "num_machines", &n));
    LVN_TRY(read_count(cf, top, "num_processes", &ranks));
    if (ranks && ranks % n) {
        LVN_FAIL(ARG,
                 "%s: num_processes (%" PRId64 ") is the number of ranks on all machines, and not a multiple of "
                 "num_machines (%" PRId64 "); correct one of them",
                 cf->source, ranks, n);
    }
    const struct lvn_yaml *mpirun = lvn_yaml_get(top, "mpirun_config");
    const char *hostfile = get_text(mpirun, "mpirun_hostfile");
    if (!cf->has_location) cf->location = n > 1 ? LVN_CONFIG_HOSTS : LVN_CONFIG_LOCAL;
    if (!cf->has_machines) cf->machines = n;
    if (!cf->has_per_machine && ranks) cf->per_machine = ranks / n;
    cf->has_location = cf->has_machines = cf->has_per_machine = true;
    bool needs_hosts = hostfile && cf->location == LVN_CONFIG_HOSTS && !*cf->hosts;
    if (needs_hosts && lvn_path_is_file(hostfile)) {
        cf->hostfile = hostfile;
    } else if (needs_hosts) {
        LVN_TRY(lvn_config_note(cf, "mpirun_hostfile", "'%s' does not exist: put the names into the new hosts file",
                                hostfile));
    }
    if (get_text(mpirun, "mpirun_ccl"))
        LVN_TRY(lvn_config_note(cf, "mpirun_ccl", "levin has no oneCCL workers: MPI itself sums the gradients"));
    return LVN_OK;
}

/* --- how ranks share the work --- */

/* Find the accelerator of a distributed_type; NULL: the type has none. */
static const char *find_accelerator(const char *type)
{
    static const char *const words[][2] = {{"MULTI_CPU", "cpu"}, {"MULTI_GPU", "cuda"}, {"MULTI_XPU", "xpu"}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcmp(type, words[i][0])) return words[i][1];
    return NULL;
}

/* Set the devices. Without a key trainer.accelerator stays `auto`, which uses a GPU if there is one, as accelerate
 * does. */
static enum lvn_status read_devices(struct lvn_config *cf, const struct lvn_yaml *top)
{
    const char *type = get_text(top, "distributed_type"), *ids = get_text(top, "gpu_ids"),
               *cpu = get_text(top, "use_cpu");
    const char *accelerator = cpu ? "cpu" : type ? find_accelerator(type) : NULL;
    const struct lvn_yaml *y = lvn_yaml_get(top, cpu ? "use_cpu" : "distributed_type");
    if (accelerator) LVN_TRY(lvn_config_set(cf, "trainer.accelerator", accelerator, y->line));
    y = lvn_yaml_get(top, "gpu_ids");
    if (!cpu && y && !is_off(y) && !ids)
        return lvn_config_note(cf, "gpu_ids", "expected numbers separated by commas (0,2), not a list or map");
    if (!ids || !strcmp(ids, "all") || cpu) return LVN_OK;
    const char *comma = strchr(ids, ',') ? "" : ","; /* "3," is device 3, and 3 three devices */
    const char *list = lvn_arena_printf(&cf->s->arena, "%s%s", ids, comma);
    return list ? lvn_config_set(cf, "trainer.devices", list, y->line) : LVN_MEMORY;
}

/* words: a value of fsdp_sharding_strategy, or a stage of ZeRO. */
static enum lvn_status set_sharding(struct lvn_config *cf, const struct lvn_yaml *y, const char *words)
{
    static const struct {
        const char *words, *strategy;
    } all[] = {{"0", "ddp"},       {"1", "zero1"}, {"2", "zero2"}, {"3", "fsdp"}, {"SHARD_GRAD_OP", "zero2"},
               {"NO_SHARD", "ddp"}};
    const char *strategy = "fsdp"; /* FULL_SHARD, HYBRID_SHARD and what is not known */
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!strcasecmp(all[i].words, words)) strategy = all[i].strategy;
    LVN_TRY(lvn_config_set(cf, "trainer.strategy", strategy, y->line));
    if (strncasecmp(words, "HYBRID", 6) != 0) return LVN_OK;
    return lvn_config_note(cf, "distributed_type",
                           "'%s' (%.40s) becomes trainer.strategy: fsdp over all ranks; set trainer.fsdp_size to the "
                           "ranks of a node to shard within each",
                           y->text, words);
}

static enum lvn_status read_distributed(struct lvn_config *cf, const struct lvn_yaml *top)
{
    const struct lvn_yaml *y = lvn_yaml_get(top, "distributed_type");
    const char *type = get_text(top, "distributed_type");
    if (!type || find_accelerator(type)) return LVN_OK;
    if (!strcmp(type, "FSDP")) {
        static const char *const numbers[] = {"FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD", "HYBRID_SHARD",
                                              "HYBRID_SHARD_ZERO2"}; /* from 1 */
        const struct lvn_yaml *config = lvn_yaml_get(top, "fsdp_config");
        const char *words = get_text(config, "fsdp_sharding_strategy");
        if (!words) words = get_text(config, "fsdp_reshard_after_forward"); /* of FSDP 1; of FSDP 2 true or false */
        if (words && *words >= '1' && *words <= '5' && !words[1]) words = numbers[*words - '1'];
        return set_sharding(cf, y, words ? words : "FULL_SHARD");
    }
    if (!strcmp(type, "DEEPSPEED")) {
        const struct lvn_yaml *config = lvn_yaml_get(top, "deepspeed_config");
        const char *stage = get_text(config, "zero_stage");
        if (!stage && get_text(config, "deepspeed_config_file")) return LVN_OK; /* noted */
        return set_sharding(cf, y, stage ? stage : "2");                        /* accelerate's default */
    }
    return lvn_config_note(
        cf, "distributed_type",
        "'%.40s' is not supported: num_processes is the number of ranks, and trainer.accelerator is their device",
        type);
}

/* Note the keys of the file, or of one of its maps, that are on and have no counterpart. */
static enum lvn_status note_unsupported(struct lvn_config *cf, const struct lvn_yaml *map)
{
    for (const struct lvn_yaml *y = map->child; y; y = y->next) {
        const struct row *row = find_row(y->key);
        if (!is_off(y) && (!row || row->note))
            LVN_TRY(lvn_config_note(cf, y->key, "%s", row ? row->note : "not known to levin; ignored"));
    }
    return LVN_OK;
}

static enum lvn_status read_deepspeed(struct lvn_config *cf, const struct lvn_yaml *map)
{
    const struct lvn_yaml *clip = lvn_yaml_get(map, "gradient_clipping");
    for (const struct lvn_yaml *y = map->child; y; y = y->next) {
        if (y->kind != LVN_YAML_SCALAR) {
            const struct row *row = find_row(y->key);
            if (row && !row->note)
                LVN_TRY(lvn_config_note(cf, y->key, "expected one value, not a list or map; ignored"));
        } else if (y == clip && !strcasecmp(y->text, "auto")) {
            LVN_TRY(lvn_config_note(cf, y->key, "'auto' is not supported; trainer.gradient_clip_val stays unchanged"));
        } else if (y == clip && !is_off(y)) {
            LVN_TRY(lvn_config_set(cf, "trainer.gradient_clip_val", y->text, y->line));
        } else if (!strcmp(y->key, "gradient_accumulation_steps") && !is_off(y) && strcmp(y->text, "1") != 0) {
            LVN_TRY(lvn_config_note(cf, "gradient_accumulation_steps",
                                    "%.20s: trainer.batch_size is the whole step here; how it is cut follows from the "
                                    "memory, or trainer.micro_batch_size",
                                    y->text));
        }
    }
    return note_unsupported(cf, map);
}

static enum lvn_status read_fsdp(struct lvn_config *cf, const struct lvn_yaml *map)
{
    const struct lvn_yaml *recompute = lvn_yaml_get(map, "fsdp_activation_checkpointing");
    const struct lvn_yaml *reshard = lvn_yaml_get(map, "fsdp_reshard_after_forward"); /* of FSDP 2: true or false */
    if (reshard && is_off(reshard)) LVN_TRY(lvn_config_set(cf, "trainer.fsdp_reshard", "false", reshard->line));
    if (recompute && !is_off(recompute)) LVN_TRY(lvn_config_set(cf, "trainer.recompute", "blocks", recompute->line));
    return note_unsupported(cf, map);
}

static enum lvn_status read_precision(struct lvn_config *cf, const struct lvn_yaml *top)
{
    const struct lvn_yaml *y = lvn_yaml_get(top, "mixed_precision");
    if (!y || y->kind != LVN_YAML_SCALAR) return LVN_OK;
    bool bf16 = !strcasecmp(y->text, "bf16"), off = is_off(y), fp16 = !strcasecmp(y->text, "fp16");
    if (fp16) return lvn_config_fp16(cf, "mixed_precision", y->line);
    if (!off && !bf16) {
        return lvn_config_note(cf, "mixed_precision", "'%.20s' is not supported; trainer.precision stays unchanged",
                               y->text);
    }
    return lvn_config_set(cf, "trainer.precision", off ? "32-true" : "bf16-mixed", y->line);
}

/* --- the whole file --- */

enum lvn_status lvn_config_accelerate(struct lvn_config *cf, const char *path)
{
    const struct lvn_yaml *top;
    cf->source = path;
    LVN_TRY(lvn_yaml_read(&cf->s->arena, path, &top));
    bool is_accelerate = lvn_yaml_get(top, "compute_environment") || lvn_yaml_get(top, "num_processes") ||
                         lvn_yaml_get(top, "distributed_type");
    LVN_CHECK(
        is_accelerate, ARG,
        "'%s' is not a file of accelerate: it has none of compute_environment, distributed_type and num_processes",
        path);
    const char *where = get_text(top, "compute_environment");
    if (where && strcmp(where, "LOCAL_MACHINE") != 0)
        LVN_TRY(lvn_config_note(cf, "compute_environment",
                                "'%.40s' is not supported: levin runs on machines of your own", where));
    LVN_TRY(read_machines(cf, top));
    LVN_TRY(read_devices(cf, top));
    LVN_TRY(read_distributed(cf, top));
    LVN_TRY(read_precision(cf, top));
    const struct lvn_yaml *more = lvn_yaml_get(top, "deepspeed_config");
    if (more && more->kind == LVN_YAML_MAP) LVN_TRY(read_deepspeed(cf, more));
    more = lvn_yaml_get(top, "fsdp_config");
    if (more && more->kind == LVN_YAML_MAP) LVN_TRY(read_fsdp(cf, more));
    return note_unsupported(cf, top);
}
