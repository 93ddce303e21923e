/* modules.c - see modules.h. */
#include "backend/cuda/modules.h"

#include "backend/cuda/nvrtc.h"
#include "backend/gpu/kernel_cache.h"
#include "backend/gpu/kernel_sources.h"
#include "base/arena.h"
#include "base/threads.h"
#include "base/work.h"

struct lvn_cuda_loaded_module {
    char *key; /* key of the image in the cache; it contains the source text */
    struct lvn_cuda_module *module;
    struct lvn_cuda_loaded_module *next;
};

const char *const lvn_cuda_compile_options[] = {"-DLVN_DEVICE",    "-DLVN_CUDA",   "--std=c++17",
                                                "-default-device", "--fmad=false", NULL};

const char *lvn_cuda_module_source(struct lvn_arena *a, const struct lvn_gpu_module *m)
{
    return lvn_arena_printf(a, "%s%s%s", m->definition, lvn_gpu_language_source(), lvn_gpu_kernel_source(m->source));
}

/* --- compiling in parallel --- */

struct job {
    const struct lvn_gpu_module *module;
    const char *key, *text;
    void *image; /* ends with a NUL byte */
    bool failed;
    char sentence[400];
};

struct jobs {
    struct job *list;  /* modules to compile */
    const char **keys; /* keys of all modules */
    int n, next;
    const char *architecture;
    pthread_mutex_t lock;
};

/* Load an image from the cache, and append a NUL byte, which PTX requires. */
static bool find(struct job *j)
{
    int64_t n;
    void *image;
    if (!lvn_kernel_cache_find(j->key, &image, &n)) return false;
    char *longer = lvn_realloc(image, (size_t)n + 1);
    if (longer) longer[n] = '\0';
    if (!longer) free(image);
    j->image = longer;
    return longer != NULL;
}

static void compile(struct job *j, const char *architecture)
{
    struct lvn_nvrtc_image image;
    if (find(j)) return;
    if (lvn_nvrtc_compile(&image, j->module->source, j->text, architecture, lvn_cuda_compile_options, NULL) == LVN_OK) {
        j->image = image.bytes;
        if (lvn_kernel_cache_store(j->key, image.bytes, (int64_t)image.n) != LVN_OK) lvn_error_clear();
        return;
    }
    j->failed = true;
    snprintf(j->sentence, sizeof j->sentence, "%s", levin_error_text());
    lvn_error_clear(); /* the caller's thread reports it */
}

static void *work(void *argument)
{
    struct jobs *all = argument;
    for (;;) {
        pthread_mutex_lock(&all->lock);
        int k = all->next++;
        pthread_mutex_unlock(&all->lock);
        if (k >= all->n) return NULL;
        compile(&all->list[k], all->architecture);
        lvn_work_done(1);
    }
}

static void compile_all(struct jobs *all, int n_threads)
{
    enum { MAX = 32 };
    pthread_t thread[MAX];
    int n = 0;
    if (n_threads > all->n) n_threads = all->n;
    pthread_mutex_init(&all->lock, NULL);
    while (n < n_threads - 1 && n < MAX && lvn_thread_start(&thread[n], work, all) == 0) n++;
    (void)work(all);
    while (n > 0) (void)pthread_join(thread[--n], NULL);
    pthread_mutex_destroy(&all->lock);
}

/* --- loading on the device --- */

static struct lvn_cuda_module *find_loaded(const struct lvn_cuda_device *d, const char *key)
{
    for (const struct lvn_cuda_loaded_module *k = d->modules; k; k = k->next)
        if (!strcmp(k->key, key)) return k->module;
    return NULL;
}

static enum lvn_status load(struct lvn_cuda_device *d, const struct job *j)
{
    LVN_CHECK(!j->failed, UNSUPPORTED, "%s", j->sentence);
    struct lvn_cuda_loaded_module *k = lvn_calloc(1, sizeof *k);
    if (k) k->key = lvn_malloc(strlen(j->key) + 1);
    if (!k || !k->key || !j->image) {
        free(k ? k->key : NULL);
        free(k);
        return LVN_MEMORY;
    }
    memcpy(k->key, j->key, strlen(j->key) + 1);
    k->next = d->modules;
    d->modules = k;
    int result = lvn_cuda.module_load(&k->module, j->image);
    if (result) k->module = NULL;
    LVN_CHECK(
        result != LVN_CUDA_UNSUPPORTED_PTX, UNSUPPORTED,
        "%s: device %d (%s) is newer than NVRTC, and the driver is too old for the PTX that NVRTC compiles for it; "
        "install a newer nvidia-cuda-nvrtc or a newer driver",
        j->module->source, d->facts.number, d->facts.name);
    LVN_TRY_WHILE(lvn_cuda_answer(result, "loading kernels", d->facts.number), "loading the kernels of '%s'",
                  j->module->source);
    return LVN_OK;
}

static enum lvn_status describe(struct lvn_cuda_device *d, struct lvn_arena *a, struct jobs *all,
                                const struct lvn_gpu_module *list, int n)
{
    char version[32];
    int major;
    LVN_TRY(lvn_nvrtc_version(version, sizeof version, &major));
    char *architecture = lvn_arena_alloc(a, LVN_NVRTC_ARCHITECTURE);
    all->list = lvn_arena_alloc(a, sizeof *all->list * (size_t)(n + 1));
    all->keys = lvn_arena_alloc(a, sizeof *all->keys * (size_t)(n + 1));
    if (!architecture || !all->list || !all->keys) return LVN_MEMORY;
    LVN_TRY(lvn_nvrtc_architecture(architecture, d->facts.capability));
    all->architecture = architecture;
    const char *options = "";
    for (int k = 0; options && lvn_cuda_compile_options[k]; k++)
        options = lvn_arena_printf(a, "%s %s", options, lvn_cuda_compile_options[k]);
    for (int k = 0; k < n; k++) {
        const char *text = lvn_cuda_module_source(a, &list[k]);
        if (text && d->wgmma && strstr(text, "LVN_USE_WGMMA"))
            text = lvn_arena_printf(a, "#define LVN_USE_WGMMA\n%s", text);
        const char *key = text ? lvn_arena_printf(a, "cuda %s %s%s\n%s", version, architecture, options, text) : NULL;
        if (!key) return LVN_MEMORY;
        all->keys[k] = key;
        if (find_loaded(d, key)) continue;
        all->list[all->n++] = (struct job){.module = &list[k], .key = key, .text = text};
    }
    return LVN_OK;
}

static enum lvn_status make(struct lvn_cuda_device *d, struct jobs *all, struct lvn_gpu_module *list, int n)
{
    enum lvn_status status = LVN_OK;
    compile_all(all, d->base.threads);
    for (int k = 0; k < all->n; k++) {
        if (status == LVN_OK) status = load(d, &all->list[k]);
        free(all->list[k].image);
    }
    for (int k = 0; k < n && status == LVN_OK; k++) list[k].backend_data = find_loaded(d, all->keys[k]);
    return status;
}

enum lvn_status lvn_cuda_modules(struct lvn_cuda_device *d, struct lvn_gpu_module *list, int n)
{
    struct jobs all = {0};
    LVN_LOCAL_ARENA(a);
    enum lvn_status status = describe(d, &a, &all, list, n);
    if (status == LVN_OK) status = make(d, &all, list, n);
    return status;
}

void lvn_cuda_modules_free(struct lvn_cuda_device *d)
{
    for (struct lvn_cuda_loaded_module *k = d->modules, *next; k; k = next) {
        next = k->next;
        if (k->module) (void)lvn_cuda.module_free(k->module);
        free(k->key);
        free(k);
    }
    d->modules = NULL;
}
