/* test_tokenizers_real.c - covers: src/tokenizers/load.c src/tokenizers/encode.c src/tokenizers/decoder.c
 *
 * Published tokenizers against Hugging Face's tokenizers: ids, texts that these give back, and what stands around a
 * text, of 1,000 texts that are hard to get right (tools/make_real_tokens.py).
 *
 * tools/setup.sh --dev puts the files into parts/real; what is missing there, or Python's tokenizers, is skipped by
 * name. LEVIN_TOKEN_SEED: other random texts. */
#include <stdlib.h>
#include <sys/wait.h>

#include "unit/io_test.h"
#include "unit/token_cases.h"

static int compared;

/* The exit status of tools/make_real_tokens.py for this tokenizer, which leaves its files in the folder. */
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
    if (status == 77) skip(); /* the script has said why */
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
