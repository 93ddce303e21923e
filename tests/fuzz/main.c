/* main.c - runs a fuzz target over files, without libFuzzer, so that every compiler can test the stored corpus.
 *
 * Each argument is a file or a folder of files; each file is given to LLVMFuzzerTestOneInput() once, after the empty
 * input. A target that finds a fault crashes or aborts. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The whole file in memory of exactly its size, so that sanitizers detect a read past its end. */
static int run_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END) != 0) {
        fprintf(stderr, "cannot read %s\n", path);
        if (f) fclose(f);
        return 1;
    }
    size_t size = (size_t)ftell(f);
    rewind(f);
    uint8_t *data = malloc(size ? size : 1);
    int bad = !data || fread(data, 1, size, f) != size;
    fclose(f);
    if (!bad) LLVMFuzzerTestOneInput(data, size);
    free(data);
    return bad;
}

static int run_folder(DIR *folder, const char *path, int *count)
{
    int bad = 0;
    for (struct dirent *e; (e = readdir(folder));) {
        char name[4096];
        if (e->d_name[0] == '.') continue;
        if (snprintf(name, sizeof name, "%s/%s", path, e->d_name) >= (int)sizeof name) return 1;
        bad |= run_file(name);
        ++*count;
    }
    return bad;
}

int main(int argc, char **argv)
{
    int bad = 0, count = 1;
    LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
    for (int i = 1; i < argc; i++) {
        DIR *folder = opendir(argv[i]);
        if (folder) {
            bad |= run_folder(folder, argv[i], &count);
            closedir(folder);
        } else {
            bad |= run_file(argv[i]);
            count++;
        }
    }
    printf("%d inputs\n", count);
    return bad;
}
