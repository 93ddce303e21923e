/* bench_tokenizer.c - speed of encoding text and decoding ids.
 *
 *     build/bench_tokenizer TOKENIZER TEXT [SECONDS each] [THREADS]
 *
 * Prints MB/s of text, best of several rounds: encoding by one thread with an empty cache of words (cold) and with a
 * filled one (warm), by all threads, and decoding by one. tools/bench_tokens.py compares it with tiktoken, in turns. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/files.h"
#include "base/threads.h"
#include "host/machine.h"
#include "tokenizers/decoder.h"
#include "tokenizers/encoder.h"
#include "tokenizers/encoders.h"

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

struct bench {
    const struct lvn_tokenizer *t;
    const char *text;
    int64_t bytes;
    struct lvn_encoder *warm;
    struct lvn_encoders many;
    struct lvn_ids ids;
    struct lvn_text back;
};

static enum lvn_status cold(struct bench *b)
{
    struct lvn_encoder *e = lvn_encoder_new(b->t);
    if (!e) return LVN_MEMORY;
    b->ids.n = 0;
    enum lvn_status status = lvn_encode(e, b->text, b->bytes, LVN_ENCODE_ORDINARY, &b->ids);
    lvn_encoder_free(e);
    return status;
}

static enum lvn_status warm(struct bench *b)
{
    b->ids.n = 0;
    return lvn_encode(b->warm, b->text, b->bytes, LVN_ENCODE_ORDINARY, &b->ids);
}

static enum lvn_status many(struct bench *b)
{
    int64_t used;
    return lvn_encoders_run(&b->many, b->text, b->bytes, false, LVN_ENCODE_ORDINARY, &used);
}

static enum lvn_status decode(struct bench *b)
{
    lvn_text_clear(&b->back);
    return lvn_decode(b->t, b->ids.p, b->ids.n, &b->back);
}

static enum lvn_status time_it(struct bench *b, const char *name, double seconds,
                               enum lvn_status (*run)(struct bench *b))
{
    double best = 1e30;
    for (double end = now() + seconds; now() < end;) {
        double began = now();
        LVN_TRY(run(b));
        double took = now() - began;
        if (took < best) best = took;
    }
    printf("%-22s %8.1f MB/s\n", name, (double)b->bytes / best * 1e-6);
    return LVN_OK;
}

static enum lvn_status run(struct bench *b, double seconds, int threads)
{
    char name[40];
    b->warm = lvn_encoder_new(b->t);
    if (!b->warm) return LVN_MEMORY;
    LVN_TRY(lvn_encoders_open(&b->many, b->t, threads));
    LVN_TRY(time_it(b, "encode, cold", seconds, cold));
    LVN_TRY(time_it(b, "encode, warm", seconds, warm));
    snprintf(name, sizeof name, "encode, %d threads", threads);
    LVN_TRY(time_it(b, name, seconds, many));
    LVN_TRY(time_it(b, "decode", seconds, decode));
    printf("%lld bytes, %lld ids\n", (long long)b->bytes, (long long)b->ids.n);
    return LVN_OK;
}

int main(int argc, char **argv)
{
    struct bench b = {0};
    struct lvn_tokenizer *t = NULL;
    char *text = NULL;
    if (argc < 3) {
        fprintf(stderr, "usage: bench_tokenizer TOKENIZER TEXT [SECONDS] [THREADS]\n");
        return 2;
    }
    enum lvn_status status = lvn_tokenizer_open(&t, argv[1]);
    if (status == LVN_OK) status = lvn_file_read(argv[2], 0, &text, &b.bytes);
    b.t = t;
    b.text = text;
    if (status == LVN_OK)
        status = run(&b, argc > 3 ? strtod(argv[3], NULL) : 1,
                     argc > 4 ? (int)strtol(argv[4], NULL, 10) : lvn_threads_default());
    if (status != LVN_OK) fprintf(stderr, "error: %s\n", levin_error_text());
    lvn_encoders_close(&b.many);
    lvn_encoder_free(b.warm);
    lvn_ids_release(&b.ids);
    lvn_text_release(&b.back);
    lvn_tokenizer_close(t);
    free(text);
    return status != LVN_OK;
}
