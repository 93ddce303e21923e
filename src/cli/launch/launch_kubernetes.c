/* launch_kubernetes.c - levin launch --kubernetes: prints the manifests of a job, for people without Helm. Called by
 * launch.c; nothing is launched here.
 *
 * The chart in deploy/helm/levin is the one source: its templates and values are part of the program. A recipe becomes
 * the values' part `recipe`, options and the file of --values lie on top; what a pod takes is planned where the values
 * do not say it. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/files.h"
#include "base/target.h"
#include "cli/args.h"
#include "cli/launch/chart.h"
#include "cli/launch/launch.h"
#include "cli/process.h"

static const char *const manifests[] = {"templates/configmap.yaml", "templates/service.yaml", "templates/job.yaml",
                                        "templates/jobset.yaml"};

struct kubernetes {
    struct lvn_cli *c;
    struct lvn_arena *arena;
    struct lvn_templates templates;
    struct lvn_variant *values;
    struct lvn_variant *root; /* of the templates: .Values, .Release, .Chart */
    const char *name;         /* of the release */
    long nodes;               /* --nodes, or the recipe's; 0: neither */
    long ranks;               /* of a node: --nproc-per-node, or the recipe's; 0: neither */
    struct lvn_chart_resources resources;
    struct lvn_text t; /* the manifests */
};

static const char *text_flag(const struct kubernetes *k, enum lvn_flag_id id)
{
    return k->c->flag[id].t;
}

static enum lvn_status set(struct kubernetes *k, const char *section, const char *name, struct lvn_variant *value)
{
    return lvn_chart_set(k->arena, k->values, section, name, value);
}

/* --- values --- */

/* Does the recipe compute on processors? Without a word about it a node has GPUs, as the chart's values say. */
static bool on_processors(const struct lvn_settings *s)
{
    return !strcmp(s->trainer.accelerator, "cpu") || !strcmp(s->trainer.accelerator, "reference");
}

static enum lvn_status read_recipe(struct kubernetes *k)
{
    struct lvn_cli *c = k->c, one = {.command = lvn_command_find("train")};
    struct lvn_words words = {.arena = k->arena};
    lvn_words_add(&words, "%s", c->operand[0]);
    for (int i = 0; i < c->n_keys; i++) lvn_words_add(&words, "--%s=%s", c->keys[i].key, c->keys[i].value);
    LVN_TRY(lvn_words_status(&words));
    enum lvn_status status = lvn_cli_parse(&one, words.n, words.word);
    if (!status) status = lvn_cli_settings(&one, one.operand[0], LVN_USES_ALL & ~LVN_USES_DEVICE);
    if (!status) {
        k->name = lvn_arena_strdup(k->arena, one.settings.name);
        status = lvn_chart_add_recipe(k->arena, k->values, &one.settings, &k->nodes, &k->ranks);
        if (!status && lvn_settings_given(&one.settings, LVN_OPT_trainer_accelerator) && on_processors(&one.settings))
            status = set(k, "cluster", "gpusPerNode", lvn_variant_int(k->arena, 0));
    }
    lvn_cli_release(&one);
    return status ? status : k->name ? LVN_OK : LVN_MEMORY;
}

static enum lvn_status read_values(struct kubernetes *k)
{
    struct lvn_variant *given;
    const char *path = text_flag(k, LVN_FLAG_launch_values);
    if (!*path) return LVN_OK;
    LVN_TRY(lvn_chart_read(k->arena, path, &given));
    LVN_TRY(lvn_chart_check(given));
    return lvn_variant_merge(k->arena, k->values, given, &k->values);
}

static int64_t number_of(const struct kubernetes *k, const char *name, int64_t otherwise)
{
    const struct lvn_variant *v = lvn_chart_get(k->values, "cluster", name);
    return v && v->kind == LVN_VARIANT_INT ? v->i : otherwise;
}

/* Options lie on top of all values. */
static enum lvn_status read_options(struct kubernetes *k)
{
    const char *image = text_flag(k, LVN_FLAG_launch_image);
    if (*image) LVN_TRY(set(k, "workload", "image", lvn_variant_text(k->arena, image)));
    if (k->c->given[LVN_FLAG_launch_max_restarts])
        LVN_TRY(
            set(k, "cluster", "maxRestarts", lvn_variant_int(k->arena, k->c->flag[LVN_FLAG_launch_max_restarts].i)));
    if (k->nodes) LVN_TRY(set(k, "cluster", "nNodes", lvn_variant_int(k->arena, k->nodes)));
    if (!k->ranks) return LVN_OK;
    const char *name = number_of(k, "gpusPerNode", 0) > 0 ? "gpusPerNode" : "ranksPerNode";
    return set(k, "cluster", name, lvn_variant_int(k->arena, k->ranks));
}

/* The name of the release: small letters, digits and dashes. */
static enum lvn_status find_name(struct kubernetes *k)
{
    const char *given = text_flag(k, LVN_FLAG_launch_job_name);
    char *name = lvn_arena_strdup(k->arena, *given ? given : k->name ? k->name : "levin");
    if (!name) return LVN_MEMORY;
    for (char *p = name; *p && !*given; p++) *p = (char)(isalnum((unsigned char)*p) ? tolower(*p) : '-');
    while (*name == '-' && !*given) name++;
    size_t n = strlen(name);
    while (!*given && n && name[n - 1] == '-') name[--n] = '\0';
    LVN_CHECK(n && name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-")] == '\0' &&
                  isalnum((unsigned char)*name) && name[n - 1] != '-',
              ARG, "the job's name '%.60s' is not small letters, digits and - between them: give --job-name",
              *given    ? given
              : k->name ? k->name
                        : "");
    k->name = name;
    return LVN_OK;
}

/* --- templates --- */

static enum lvn_status parse_templates(struct kubernetes *k)
{
    k->templates.arena = k->arena;
    for (const struct lvn_embedded_file *f = lvn_chart_files; f->name; f++)
        if (!strncmp(f->name, "templates/", 10)) LVN_TRY(lvn_template_parse(&k->templates, f->name, f->text));
    return LVN_OK;
}

/* What templates see besides the values. */
static enum lvn_status make_root(struct kubernetes *k)
{
    struct lvn_arena *a = k->arena;
    const char *text = lvn_chart_file("Chart.yaml");
    struct lvn_variant *root = lvn_variant_new(a, LVN_VARIANT_MAP), *release = lvn_variant_new(a, LVN_VARIANT_MAP),
                       *chart, *copy = lvn_variant_new(a, LVN_VARIANT_MAP), *name = lvn_variant_text(a, k->name);
    const struct lvn_yaml *top;
    if (!root || !release || !copy || !name) return LVN_MEMORY;
    LVN_TRY(lvn_yaml_parse(a, "the chart's Chart.yaml", text, (int64_t)strlen(text), &top));
    LVN_TRY(lvn_variant_from_yaml(a, top, "the chart's Chart.yaml", &chart));
    /* Helm's names of its fields */
    LVN_TRY(lvn_variant_set(a, copy, "AppVersion", lvn_variant_get(chart, "appVersion")));
    LVN_TRY(lvn_variant_set(a, copy, "Version", lvn_variant_get(chart, "version")));
    LVN_TRY(lvn_variant_set(a, release, "Name", name));
    LVN_TRY(lvn_variant_set(a, root, "Chart", copy));
    LVN_TRY(lvn_variant_set(a, root, "Release", release));
    LVN_TRY(lvn_variant_set(a, root, "Values", k->values));
    k->root = root;
    return LVN_OK;
}

static enum lvn_status render(struct kubernetes *k, const char *name, struct lvn_text *t)
{
    return lvn_template_render(&k->templates, name, k->root, t, NULL);
}

/* --- what a pod takes --- */

/* "20Gi", "500M", or a number of bytes; 0: none. */
static int64_t bytes_of(const struct lvn_variant *v)
{
    static const char units[] = "kKMGTPE";
    if (!v || v->kind == LVN_VARIANT_INT) return v ? v->i : 0;
    if (v->kind != LVN_VARIANT_TEXT) return 0;
    char *end;
    double bytes = strtod(v->text, &end);
    const char *unit = *end ? strchr(units, *end) : NULL;
    for (long n = unit ? (unit - units < 2 ? 1 : (long)(unit - units)) : 0; n > 0; n--)
        bytes *= end[1] == 'i' ? 1024 : 1000;
    return bytes < 9e18 ? (int64_t)bytes : INT64_MAX;
}

/* Set an amount that the values leave open, in whole units of Mi or Gi. */
static enum lvn_status set_bytes(struct kubernetes *k, const char *name, int64_t bytes)
{
    const int64_t unit = bytes >= (int64_t)1 << 30 ? (int64_t)1 << 30 : (int64_t)1 << 20;
    const struct lvn_variant *there = lvn_chart_get(k->values, "resources", name);
    if (bytes <= 0 || lvn_variant_is_true(there)) return LVN_OK;
    const char *text = lvn_arena_printf(k->arena, "%lld%s", (long long)((bytes + unit - 1) / unit),
                                        unit == (int64_t)1 << 30 ? "Gi" : "Mi");
    return text ? set(k, "resources", name, lvn_variant_text(k->arena, text)) : LVN_MEMORY;
}

static enum lvn_status find_resources(struct kubernetes *k)
{
    LVN_LOCAL_TEXT(recipe);
    const int64_t gpus = number_of(k, "gpusPerNode", 0), ranks = gpus ? gpus : number_of(k, "ranksPerNode", 1);
    LVN_TRY(render(k, "levin.recipe", &recipe));
    LVN_TRY(lvn_chart_plan(recipe.p, number_of(k, "nNodes", 1), ranks, gpus > 0,
                           bytes_of(lvn_chart_get(k->values, "resources", "dataSize")), &k->resources));
    LVN_TRY(set_bytes(k, "memory", k->resources.memory));
    LVN_TRY(set_bytes(k, "shm", k->resources.shm));
    LVN_TRY(set_bytes(k, "ephemeralStorage", k->resources.ephemeral_storage));
    return make_root(k);
}

/* --- output --- */

static void add_head(struct kubernetes *k)
{
    char text[LVN_NUMBER_TEXT];
    const char *out = text_flag(k, LVN_FLAG_launch_out);
    const int64_t gpus = number_of(k, "gpusPerNode", 0), nodes = number_of(k, "nNodes", 1),
                  ranks = gpus ? gpus : number_of(k, "ranksPerNode", 1);
    lvn_text_printf(&k->t,
                    "# Trains on %lld node%s with %lld %s%s each:\n#\n"
                    "#     kubectl apply -f %s\n"
                    "#     kubectl logs -f -l app.kubernetes.io/name=levin\n#\n",
                    (long long)nodes, lvn_plural(nodes), (long long)ranks, gpus ? "GPU" : "rank", lvn_plural(ranks),
                    *out ? out : "FILE");
    if (k->resources.checkpoints && !k->resources.ephemeral_storage)
        lvn_text_printf(
            &k->t,
            "# The disk of a pod is not limited: its checkpoints take up to %s, and how much the data take\n"
            "# is not known here. With resources.dataSize in the file of --values both are counted.\n",
            lvn_bytes_text(k->resources.checkpoints, text));
}

/* One manifest, which must be YAML. */
static enum lvn_status add_manifest(struct kubernetes *k, const char *name)
{
    LVN_LOCAL_TEXT(one);
    const struct lvn_yaml *top;
    LVN_TRY(render(k, name, &one));
    const char *text = lvn_text_string(&one);
    if (!text) return LVN_MEMORY;
    if (!text[strspn(text, " \t\n")]) return LVN_OK;
    LVN_TRY(lvn_yaml_parse(k->arena, name, text, one.n, &top));
    lvn_text_printf(&k->t, "---\n%s%s", text, text[one.n - 1] == '\n' ? "" : "\n");
    return LVN_OK;
}

static json_t *resources_json(const struct kubernetes *k)
{
    static const char *const names[] = {"memory", "shm", "ephemeralStorage"};
    json_t *o = json_object();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const struct lvn_variant *v = lvn_chart_get(k->values, "resources", names[i]);
        if (v && v->kind == LVN_VARIANT_TEXT && *v->text) json_object_set_new(o, names[i], json_string(v->text));
        if (v && v->kind == LVN_VARIANT_INT) json_object_set_new(o, names[i], json_integer(v->i));
    }
    return o;
}

static enum lvn_status write_manifests(struct kubernetes *k)
{
    const char *text = lvn_text_string(&k->t), *out = text_flag(k, LVN_FLAG_launch_out);
    if (!text) return LVN_MEMORY;
    lvn_cli_add(k->c, "resources", resources_json(k));
    lvn_cli_add(k->c, "manifests", json_string(text));
    if (!*out) {
        lvn_cli_print(k->c, "%s", text);
        return LVN_OK;
    }
    LVN_TRY(lvn_cli_check_output(k->c, out));
    LVN_TRY(lvn_target_write(out, text, (int64_t)strlen(text)));
    lvn_cli_print(k->c, "%s is written; submit it with: kubectl apply -f %s\n", out, out);
    return LVN_OK;
}

static enum lvn_status run(struct kubernetes *k)
{
    struct lvn_cli *c = k->c;
    LVN_CHECK(!c->n_rest, ARG,
              "--kubernetes takes the recipe and its keys: levin launch --kubernetes RECIPE --nodes 2");
    LVN_CHECK(c->n_operands || *text_flag(k, LVN_FLAG_launch_values), ARG,
              "say what to train: levin launch --kubernetes recipes/pythia-70m.yaml --nodes 2, or give values of the "
              "chart by --values FILE");
    LVN_CHECK(c->n_operands || !c->n_keys, ARG,
              "without a recipe its keys stand in the part recipe of the values: put %s there",
              c->n_keys ? c->keys[0].key : "");
    LVN_TRY(lvn_chart_defaults(k->arena, &k->values));
    if (c->n_operands) LVN_TRY(read_recipe(k));
    LVN_TRY(read_values(k));
    LVN_TRY(read_options(k));
    LVN_TRY(find_name(k));
    LVN_TRY(parse_templates(k));
    LVN_TRY(make_root(k));
    LVN_LOCAL_TEXT(nothing);
    LVN_TRY(render(k, "levin.check", &nothing));
    LVN_TRY(find_resources(k));
    add_head(k);
    for (size_t i = 0; i < sizeof manifests / sizeof *manifests; i++) LVN_TRY(add_manifest(k, manifests[i]));
    return write_manifests(k);
}

enum lvn_status lvn_launch_kubernetes(struct lvn_cli *c)
{
    struct kubernetes k = {.c = c, .arena = &c->settings.arena};
    k.nodes = (long)c->flag[LVN_FLAG_launch_nodes].i;
    k.ranks = (long)c->flag[LVN_FLAG_launch_nproc_per_node].i;
    enum lvn_status status = run(&k);
    lvn_text_release(&k.t);
    return status;
}
