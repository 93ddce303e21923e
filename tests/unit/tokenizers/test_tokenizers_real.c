/* test_tokenizers_real.c - covers: src/text/tokenizers/load.c src/text/tokenizers/encoder.c
 * src/text/tokenizers/decoder.c
 *
 * Published tokenizers against Hugging Face's tokenizers: ids, decoded texts, and the post-processor's tokens, for
 * 1,000 difficult texts (tools/make_real_tokens.py).
 *
 * tools/setup.sh --dev puts the files into parts/real; tests of missing files, or without Python's tokenizers, are
 * skipped with their names. LEVIN_TOKEN_SEED: other random texts. */
#include <stdlib.h>
#include <sys/wait.h>

#include "unit/io_test.h"
#include "unit/token_cases.h"

static int compared;

/* Run tools/make_real_tokens.py for this tokenizer, which writes files into the folder; returns its exit status. */
static int make_cases(const char *source, const char *folder)
{
    const char *seed = getenv("LEVIN_TOKEN_SEED");
    pid_t child = fork();
    if (child == 0) {
        execlp("python3", "python3", "tools/make_real_tokens.py", "1000", seed ? seed : "1", source, folder, NULL);
        fprintf(stderr, "skipped: there is no python3\n");
        _exit(77);
    }
    int status = -1;
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status)) return -1;
    return WEXITSTATUS(status);
}

static void agrees(void **state)
{
    char source[100], tokenizer[600], cases[600];
    const char *folder = test_path(*state);
    assert_true(lvn_fit(source, sizeof source, "parts/real/%s", (const char *)*state));
    assert_true(lvn_fit(tokenizer, sizeof tokenizer, "%s/tokenizer.json", folder));
    assert_true(lvn_fit(cases, sizeof cases, "%s/cases.json", folder));
    int status = make_cases(source, folder);
    if (status == 77) skip(); /* the script printed the reason */
    assert_int_equal(status, 0);
    assert_int_equal(check_cases(tokenizer, cases), 1000);
    compared++;
}

#define PUBLISHED(folder)                                                                                              \
    {                                                                                                                  \
#folder, agrees, test_dir_make, test_dir_drop, (void *)(uintptr_t) #folder                                     \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        PUBLISHED(claude), PUBLISHED(deepseek_v3), PUBLISHED(gemma),   PUBLISHED(gpt4o), PUBLISHED(llama2),
        PUBLISHED(llama3), PUBLISHED(llama3_1),    PUBLISHED(qwen2_5), PUBLISHED(qwen3), PUBLISHED(smollm2),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return failed || compared ? failed : 77;
}
