/* mnist.c - data.kind=mnist: images of handwritten digits in the four IDX files of the MNIST database.
 *
 *   train-images-idx3-ubyte, train-labels-idx1-ubyte    60,000: 55,000 for training and 5,000 for validation
 *   t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte      10,000 for testing
 *
 * The files are in one folder, plain or compressed (NAME.gz). Validation is the last twelfth, at most 5,000, of a
 * permutation by the seed, the same on every rank. Missing files are downloaded from data.url, a folder of the
 * compressed ones; they must have the checksums of the published files, or those of data.sha256 (for other images in
 * the same format). Only evaluation opens the test files, if they exist or data.split needs them. (LeCun, Cortes,
 * Burges: "The MNIST database of handwritten digits".) */

#include "base/files.h"
#include "base/random.h"
#include "data/dataset.h"
#include "formats/idx.h"
#include "stores/fetch.h"

enum { SIDE = 28, CLASSES = 10, VALIDATION = 5000, TRAIN_TO_VALIDATION = 12 };
enum { TRAIN, TEST, FILE_SETS };

/* The published files: their names, and the SHA-256 of each when compressed. */
static const struct {
    const char *images, *images_sha256, *labels, *labels_sha256;
} published[FILE_SETS] = {
    [TRAIN] = {"train-images-idx3-ubyte", "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
               "train-labels-idx1-ubyte", "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"},
    [TEST] = {"t10k-images-idx3-ubyte", "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
              "t10k-labels-idx1-ubyte", "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"},
};

struct mnist {
    struct lvn_idx images[FILE_SETS], labels[FILE_SETS]; /* (n,28,28), (n) */
    uint64_t seed;
};

/* --- the files --- */

/* The checksum of the compressed file i (in the order of the table) in data.sha256. If that is not set, *sha256 stays
 * unchanged. */
static enum lvn_status checksum(struct lvn_arena *a, const struct lvn_data_options *o, int i, const char **sha256)
{
    enum { DIGITS = 64, FILES = 2 * FILE_SETS };
    const char *all = o->sha256 ? o->sha256 : "";
    if (!*all) return LVN_OK;
    LVN_CHECK(strlen(all) == FILES * (DIGITS + 1) - 1, ARG,
              "data.sha256 holds %zu characters; data.kind=mnist needs the checksums of four files, of 64 digits each, "
              "separated by commas: %s.gz, %s.gz, %s.gz, %s.gz",
              strlen(all), published[TRAIN].images, published[TRAIN].labels, published[TEST].images,
              published[TEST].labels);
    *sha256 = lvn_arena_printf(a, "%.*s", DIGITS, all + i * (DIGITS + 1));
    return *sha256 ? LVN_OK : LVN_MEMORY;
}

/* *out: the path of NAME, or of NAME.gz, which may be missing. False: neither exists, or out of memory (NULL). Other
 * copies have a dot before `idx`, or are in the folder MNIST/raw of torchvision. */
static bool exists(struct lvn_arena *a, const char *folder, const char *name, const char **out)
{
    static const char *const suffixes[] = {"", ".gz"};
    const char *const folders[] = {folder, lvn_path_join(a, folder, "MNIST/raw")};
    const int dash = (int)(strstr(name, "-idx") - name);
    for (int i = 0; i < 2; i++)
        for (const char *separator = "-."; *separator; separator++)
            for (int k = 0; k < 2; k++) {
                const char *file =
                    lvn_arena_printf(a, "%.*s%c%s%s", dash, name, *separator, name + dash + 1, suffixes[k]);
                *out = folders[i] && file ? lvn_path_join(a, folders[i], file) : NULL;
                if (!*out || lvn_path_is_file(*out)) return *out != NULL;
            }
    *out = lvn_path_join(a, folder, name);
    if (*out && !lvn_path_exists(*out)) *out = lvn_arena_printf(a, "%s.gz", *out);
    return *out && lvn_path_exists(*out);
}

/* The path of file number i: NAME, or NAME.gz, which is downloaded if neither exists. */
static enum lvn_status find(struct lvn_arena *a, const struct lvn_data_options *o, int i, const char *name,
                            const char *sha256, const char **out)
{
    if (exists(a, o->path, name, out)) return LVN_OK;
    if (!*out) return LVN_MEMORY;
    LVN_CHECK(o->url && *o->url, IO,
              "neither '%.*s' nor '%s' exists: put the files of MNIST into data.path, or give data.url, the folder of "
              "a web server or store that has them",
              (int)strlen(*out) - 3, *out, *out);
    LVN_TRY(checksum(a, o, i, &sha256));
    const char *file = lvn_arena_printf(a, "%s.gz", name), *url = file ? lvn_store_join(a, o->url, file) : NULL;
    if (!url) return LVN_MEMORY;
    LVN_TRY_WHILE(lvn_download(url, sha256, *out, NULL, NULL), "fetching '%s' from data.url", *out);
    return LVN_OK;
}

static enum lvn_status check(const struct lvn_idx *images, const char *images_path, const struct lvn_idx *labels,
                             const char *labels_path)
{
    const int64_t *d = images->dim;
    LVN_CHECK(images->rank == 3, FORMAT, "'%s' has %d dimensions; pictures have 3", images_path, images->rank);
    LVN_CHECK(d[1] == SIDE && d[2] == SIDE, FORMAT, "'%s' holds pictures of %lld x %lld pixels; expected %d x %d",
              images_path, (long long)d[1], (long long)d[2], SIDE, SIDE);
    LVN_CHECK(labels->rank == 1, FORMAT, "'%s' has %d dimensions; labels have 1", labels_path, labels->rank);
    LVN_CHECK(d[0] == labels->dim[0] && d[0] > 0, FORMAT,
              "'%s' holds %lld pictures and '%s' %lld labels: there must be one for each, and at least one",
              images_path, (long long)d[0], labels_path, (long long)labels->dim[0]);
    for (int64_t i = 0; i < d[0]; i++)
        LVN_CHECK(labels->data[i] < CLASSES, FORMAT, "'%s': label %lld is %d; expected 0 to %d", labels_path,
                  (long long)i, labels->data[i], CLASSES - 1);
    return LVN_OK;
}

static enum lvn_status open_files(struct lvn_arena *a, struct mnist *m, const struct lvn_data_options *o, int set,
                                  const char **path)
{
    const char *labels;
    LVN_TRY(find(a, o, 2 * set, published[set].images, published[set].images_sha256, path));
    LVN_TRY(find(a, o, 2 * set + 1, published[set].labels, published[set].labels_sha256, &labels));
    LVN_TRY(lvn_idx_read(&m->images[set], *path));
    LVN_TRY(lvn_idx_read(&m->labels[set], labels));
    return check(&m->images[set], *path, &m->labels[set], labels);
}

/* --- the data set --- */

static void fields(const struct lvn_data_options *o, struct lvn_fields *out)
{
    (void)o;
    *out = (struct lvn_fields){
        .field = {{.name = "pixels", .dtype = LVN_U8, .rank = 3, .dim = {1, SIDE, SIDE}, .below = 256},
                  {.name = "label", .dtype = LVN_I32, .below = CLASSES, .label = LVN_LABEL_CLASS}},
        .n = 2};
}

static enum lvn_status set_split(struct lvn_split *p, const char *path, int64_t n)
{
    p->path = lvn_strdup(path);
    p->n_samples = n;
    return p->path ? LVN_OK : LVN_MEMORY;
}

static enum lvn_status open_splits(struct lvn_arena *a, struct lvn_dataset *d, const struct lvn_data_options *o)
{
    struct mnist *m = d->state;
    const char *path;
    LVN_TRY(open_files(a, m, o, TRAIN, &path));
    int64_t n = m->images[TRAIN].dim[0], held_out = n / TRAIN_TO_VALIDATION;
    if (held_out > VALIDATION) held_out = VALIDATION;
    LVN_TRY(set_split(&d->split[LVN_SPLIT_TRAIN], path, n - held_out));
    if (held_out) LVN_TRY(set_split(&d->split[LVN_SPLIT_VAL], path, held_out));
    const bool there =
        exists(a, o->path, published[TEST].images, &path) && exists(a, o->path, published[TEST].labels, &path);
    if (!o->for_evaluation || (!there && !o->needs_test)) return LVN_OK;
    LVN_TRY(open_files(a, m, o, TEST, &path));
    return set_split(&d->split[LVN_SPLIT_TEST], path, m->images[TEST].dim[0]);
}

static enum lvn_status open_mnist(struct lvn_dataset *d, const struct lvn_data_options *o)
{
    LVN_CHECK(o->path && *o->path, ARG, "data.kind=mnist needs data.path: the folder of its four files");
    LVN_CHECK(!o->val_path || !*o->val_path, ARG,
              "data.kind=mnist holds back its own validation data: data.val_path ('%s') is not used, leave it out",
              o->val_path);
    struct mnist *m = d->state = lvn_calloc(1, sizeof *m);
    LVN_LOCAL_ARENA(a);
    if (!m) return LVN_MEMORY;
    m->seed = o->seed ^ lvn_name_hash("data.mnist");
    return open_splits(&a, d, o);
}

static bool matches(const char *path)
{
    LVN_LOCAL_ARENA(a);
    const char *images;
    return exists(&a, path, published[TRAIN].images, &images) && lvn_path_is_file(images);
}

static void close_mnist(struct lvn_dataset *d)
{
    struct mnist *m = d->state;
    if (!m) return;
    for (int set = 0; set < FILE_SETS; set++) {
        lvn_idx_release(&m->images[set]);
        lvn_idx_release(&m->labels[set]);
    }
    free(m);
}

static enum lvn_status sample(const struct lvn_dataset *d, enum lvn_split_id split, int64_t i, struct lvn_draw draw,
                              void *const *out)
{
    (void)draw;
    const struct mnist *m = d->state;
    int set = split == LVN_SPLIT_TEST ? TEST : TRAIN;
    if (set == TRAIN) {
        int64_t index = split == LVN_SPLIT_VAL ? d->split[LVN_SPLIT_TRAIN].n_samples + i : i;
        i = lvn_random_permute(m->seed, 0, m->images[TRAIN].dim[0], index);
    }
    memcpy(out[0], m->images[set].data + i * SIDE * SIDE, SIDE * SIDE);
    *(int32_t *)out[1] = m->labels[set].data[i];
    return LVN_OK;
}

extern const struct lvn_dataset_kind lvn_dataset_mnist;
const struct lvn_dataset_kind lvn_dataset_mnist = {
    .name = "mnist",
    .help = "images of digits, the four IDX files of MNIST",
    .fetches = true,
    .matches = matches,
    .fields = fields,
    .open = open_mnist,
    .close = close_mnist,
    .sample = sample,
};
