/* test_credentials.c - covers: src/files/stores/s3/aws.c src/files/stores/gcs/google.c
 *
 * Keys, tokens and places from the environment and files: whole, or refused by name without being shown. */
#include "io_test.h"

#include "stores/gcs/google.h"
#include "stores/s3/aws.h"

static char text[10000];

/* n letters. */
static const char *letters(int n)
{
    memset(text, 'k', (size_t)n);
    text[n] = '\0';
    return text;
}

static void fresh(void)
{
    static const char *const names[] = {"AWS_ACCESS_KEY_ID",
                                        "AWS_SECRET_ACCESS_KEY",
                                        "AWS_SESSION_TOKEN",
                                        "AWS_PROFILE",
                                        "AWS_REGION",
                                        "AWS_DEFAULT_REGION",
                                        "AWS_ENDPOINT_URL_S3",
                                        "AWS_ENDPOINT_URL",
                                        "AWS_CONFIG_FILE",
                                        "HOME",
                                        "AWS_SHARED_CREDENTIALS_FILE",
                                        "AWS_WEB_IDENTITY_TOKEN_FILE",
                                        "GCE_METADATA_HOST",
                                        "CLOUDSDK_CONFIG",
                                        "GOOGLE_OAUTH_ACCESS_TOKEN",
                                        "CLOUDSDK_AUTH_ACCESS_TOKEN",
                                        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
                                        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
                                        "GOOGLE_APPLICATION_CREDENTIALS"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) unsetenv(names[i]);
    setenv("AWS_EC2_METADATA_DISABLED", "true", 1);
    setenv("NO_GCE_CHECK", "true", 1);
    setenv("HOME", test_path("home"), 1);
}

static void assert_refused(enum lvn_status status, const char *name)
{
    if (status != LVN_ARG || !strstr(levin_error_text(), name))
        fail_msg("%s: %d, %s", name, status, levin_error_text());
    assert_null(strstr(levin_error_text(), "kkkk")); /* and the message does not show it */
}

static void variables(void **state)
{
    (void)state;
    struct lvn_aws_credentials k;
    struct lvn_google_token t;
    fresh();
    setenv("AWS_ACCESS_KEY_ID", "me", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "mine", 1);
    setenv("AWS_SESSION_TOKEN", letters((int)sizeof k.token - 1), 1);
    ASSERT_OK(lvn_aws_find_credentials(&k));
    assert_string_equal(k.token, text);
    setenv("AWS_SESSION_TOKEN", letters((int)sizeof k.token), 1);
    assert_refused(lvn_aws_find_credentials(&k), "AWS_SESSION_TOKEN has 4096 bytes");
    setenv("AWS_ACCESS_KEY_ID", " me\n", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "mine\r\n", 1);
    setenv("AWS_SESSION_TOKEN", "t\n", 1);
    ASSERT_OK(lvn_aws_find_credentials(&k));
    assert_string_equal(k.id, "me");
    assert_string_equal(k.secret, "mine");
    assert_string_equal(k.token, "t");
    setenv("AWS_SECRET_ACCESS_KEY", letters(200), 1);
    assert_refused(lvn_aws_find_credentials(&k), "AWS_SECRET_ACCESS_KEY");
    setenv("AWS_ACCESS_KEY_ID", letters(200), 1);
    assert_refused(lvn_aws_find_credentials(&k), "AWS_ACCESS_KEY_ID");
    setenv("GOOGLE_OAUTH_ACCESS_TOKEN", letters((int)sizeof t.text - 1), 1);
    ASSERT_OK(lvn_google_find_token(&t));
    setenv("GOOGLE_OAUTH_ACCESS_TOKEN", letters((int)sizeof t.text), 1);
    assert_refused(lvn_google_find_token(&t), "GOOGLE_OAUTH_ACCESS_TOKEN");
}

static void profiles(void **state)
{
    (void)state;
    struct lvn_aws_credentials k;
    struct lvn_aws_location p;
    static char file[20000];
    fresh();
    setenv("AWS_SHARED_CREDENTIALS_FILE", test_path("keys"), 1);
    setenv("AWS_CONFIG_FILE", test_path("config"), 1);
    char profile[301] = "";
    memset(profile, 'p', 300);
    setenv("AWS_PROFILE", profile, 1);
    int n = sprintf(file, "[%.299sq]\naws_access_key_id = wrong\naws_secret_access_key = x\n", profile);
    n += sprintf(file + n, "[%s]\n%s = 1\n\taws_access_key_id = nested\n aws_access_key_id = nested\n", profile,
                 letters(200));
    n += sprintf(file + n, "  # no = comment\naws_access_key_id  =  me \r\naws_secret_access_key=mine");
    test_put("keys", file, n);
    ASSERT_OK(lvn_aws_find_credentials(&k)); /* the whole name of the profile decides */
    assert_string_equal(k.id, "me");
    assert_string_equal(k.secret, "mine");
    n += sprintf(file + n, "\naws_session_token = %s\n", letters(5000));
    test_put("keys", file, n);
    assert_refused(lvn_aws_find_credentials(&k), "aws_session_token has 5000 bytes");
    n = sprintf(file, "[profile %s]\nregion = eu-north-1\nendpoint_url = https://host/\n", profile);
    test_put("config", file, n);
    ASSERT_OK(lvn_aws_find_location(&p));
    assert_string_equal(p.region, "eu-north-1");
    assert_string_equal(p.endpoint, "https://host");
    n += sprintf(file + n, "endpoint_url = https://%s\n", letters(300));
    test_put("config", file, n);
    assert_refused(lvn_aws_find_location(&p), "endpoint_url has 308 bytes");
    n = sprintf(file, "[default]\nsso_session = a\n[profile work]\nsso_session = a\n[profile here]\nregion = a\n");
    test_put("config", file, n);
    setenv("AWS_PROFILE", "work", 1);
    ASSERT_FAILS(UNSUPPORTED, "has no keys but sso_session", lvn_aws_find_credentials(&k));
    setenv("AWS_PROFILE", "wrok", 1);
    ASSERT_FAILS(ARG, "AWS_PROFILE is 'wrok', but neither", lvn_aws_find_credentials(&k));
    setenv("AWS_PROFILE", "here", 1); /* keys may come from the machine */
    ASSERT_OK(lvn_aws_find_credentials(&k));
    unsetenv("AWS_PROFILE");
    ASSERT_OK(lvn_aws_find_credentials(&k));
    fresh();
    setenv("AWS_DEFAULT_REGION", letters(64), 1);
    assert_refused(lvn_aws_find_location(&p), "AWS_DEFAULT_REGION");
    setenv("AWS_REGION", "here", 1); /* takes precedence */
    setenv("AWS_ENDPOINT_URL", "http://there/", 1);
    ASSERT_OK(lvn_aws_find_location(&p));
    assert_string_equal(p.region, "here");
    assert_string_equal(p.endpoint, "http://there");
    setenv("HOME", letters(5000), 1);
    assert_refused(lvn_aws_find_location(&p), "HOME");
    assert_refused(lvn_google_find_token(&(struct lvn_google_token){0}), "HOME");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(variables), cmocka_unit_test(profiles)};
    return cmocka_run_group_tests(tests, test_dir_make, test_dir_drop);
}
