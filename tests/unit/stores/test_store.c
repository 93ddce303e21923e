/* test_store.c - covers: src/files/stores/store.c src/files/stores/digest.c src/files/stores/s3/xml.c
 * src/files/stores/s3/sigv4.c src/files/stores/store_copy.c
 *
 * Stores without servers: signatures and checksums against published ones, paths, XML. */
#include "io_test.h"

#include "formats/crc.h"
#include "formats/sha256.h"
#include "stores/digest.h"
#include "stores/s3/sigv4.h"
#include "stores/s3/xml.h"
#include "stores/store.h"

static void assert_digest(const char *text, const char *sum)
{
    char found[LVN_DIGEST_TEXT];
    if (!lvn_digest_is_supported(sum)) {
        print_message("left out: %.*s requires libcrypto\n", (int)strcspn(sum, ":"), sum);
        return;
    }
    test_put("digest", text, (int)strlen(text));
    ASSERT_OK(lvn_digest_file(test_path("digest"), sum, found));
    assert_string_equal(found, sum);
}

/* The checksum does not depend on how the bytes are split. */
static void assert_pieces(const unsigned char *bytes, int n, const char *sum)
{
    for (int cut = 0; cut <= n && lvn_digest_is_supported(sum); cut++) {
        char found[LVN_DIGEST_TEXT];
        struct lvn_digest d;
        lvn_digest_init(&d, sum);
        lvn_digest_add(&d, bytes, cut);
        lvn_digest_add(&d, bytes + cut, n - cut);
        lvn_digest_finish(&d, found);
        assert_string_equal(found, sum);
    }
}

/* Every length, in one call and byte by byte: the CPU's instruction, and the tables. */
static void assert_lengths(const char *like)
{
    unsigned char bytes[400];
    for (int i = 0; i < 400; i++) bytes[i] = (unsigned char)(i * i >> 3 ^ i * 11);
    for (int n = 0; n <= 400; n++) {
        char whole[LVN_DIGEST_TEXT], single[LVN_DIGEST_TEXT];
        struct lvn_digest d;
        lvn_digest_init(&d, like);
        lvn_digest_add(&d, bytes, n);
        lvn_digest_finish(&d, whole);
        lvn_digest_init(&d, like);
        for (int i = 0; i < n; i++) lvn_digest_add(&d, bytes + i, 1);
        lvn_digest_finish(&d, single);
        assert_string_equal(whole, single);
    }
}

static void joined(void **state)
{
    (void)state;
    unsigned char bytes[300];
    for (int i = 0; i < 300; i++) bytes[i] = (unsigned char)(i * 37 ^ i >> 2);
    for (int cut = 0; cut <= 300; cut++) {
        uint64_t a = lvn_crc64nvme(0, bytes, cut), b = lvn_crc64nvme(0, bytes + cut, 300 - cut);
        assert_true(lvn_crc64nvme_combine(a, b, 300 - cut) == lvn_crc64nvme(0, bytes, 300));
    }
}

static void assert_decoded(const char *prefix, const char *text, const char *expected)
{
    char found[LVN_DIGEST_TEXT] = "as it was";
    assert_int_equal(lvn_digest_decode(prefix, text, found), expected != NULL);
    assert_string_equal(found, expected ? expected : "as it was");
}

/* From RFC 1321, RFC 3720 and FIPS 180-4. */
static void digests(void **state)
{
    (void)state;
    unsigned char bytes[32], letters[120], hmac[LVN_SHA256_BYTES];
    assert_digest("", "md5:d41d8cd98f00b204e9800998ecf8427e");
    assert_digest("abc", "md5:900150983cd24fb0d6963f7d28e17f72");
    assert_digest("12345678901234567890123456789012345678901234567890123456789012345678901234567890",
                  "md5:57edf4a22be3c955ac49da2e2107b67a");
    assert_digest("abc", "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_digest("123456789", "crc32c:e3069283");
    assert_digest("123456789", "crc64nvme:ae8b14860a799888"); /* "Check" of the catalogue of CRCs */
    memset(bytes, 0, sizeof bytes);
    assert_pieces(bytes, 32, "crc32c:8a9136aa");
    for (int i = 0; i < 32; i++) bytes[i] = (unsigned char)i;
    assert_pieces(bytes, 32, "crc32c:46dd794e");
    assert_int_equal(lvn_crc32(lvn_crc32(0, "1234", 4), "56789", 5), 0xcbf43926);
    assert_lengths("crc32c:");
    assert_lengths("crc64nvme:");
    assert_decoded("crc32c:", "n03x6A==", "crc32c:9f4df1e8");
    assert_decoded("crc64nvme:", "rosUhgp5mIg=", "crc64nvme:ae8b14860a799888");
    assert_decoded("crc64nvme:", "rosUhgp5mI", NULL);
    assert_decoded("crc32c:", "n03*6A==", NULL);
    memset(letters, 'a', sizeof letters);
    assert_pieces(letters, 120, "md5:5f61c0ccad4cac44c75ff505e1f1e537");
    assert_pieces(letters, 119, "md5:8a7bd0732ed6a28ce75f6dabc90e1613");
    assert_pieces(letters, 64, "md5:014842d480b571495a4a0363793f7367");
    lvn_sha256_hmac("Jefe", 4, "what do ya want for nothing?", 28, hmac); /* RFC 4231 */
    assert_int_equal(hmac[0], 0x5b);
    assert_int_equal(hmac[31], 0x43);
}

/* Amazon's own examples, "Signature Calculations for the Authorization Header". */
static void signatures(void **state)
{
    (void)state;
    struct lvn_text t = {0};
    struct lvn_sigv4 s = {.id = "AKIAIOSFODNN7EXAMPLE",
                          .secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
                          .region = "us-east-1",
                          .service = "s3",
                          .method = "GET",
                          .host = "examplebucket.s3.amazonaws.com",
                          .path = "/",
                          .query = "lifecycle=",
                          .payload = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
                          .now = 1369353600};
    ASSERT_OK(lvn_sigv4_sign(&s, &t));
    assert_non_null(strstr(t.p, "Signature=fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543\n"));
    lvn_text_clear(&t);
    s.query = "max-keys=2&prefix=J";
    ASSERT_OK(lvn_sigv4_sign(&s, &t));
    assert_non_null(strstr(t.p, "Signature=34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7\n"));
    assert_non_null(strstr(t.p, "SignedHeaders=host;x-amz-content-sha256;x-amz-date,"));
    lvn_text_clear(&t);
    s.token = "token";
    s.headers = "x-amz-meta-a: b\nx-amz-acl: private\n";
    ASSERT_OK(lvn_sigv4_sign(&s, &t));
    assert_non_null(strstr(t.p, "SignedHeaders=host;x-amz-acl;x-amz-content-sha256;x-amz-date;x-amz-meta-a;x-amz-"
                                "security-token,"));
    assert_non_null(strstr(t.p, "x-amz-acl: private\n"));
    lvn_text_release(&t);
}

static void xml(void **state)
{
    (void)state;
    static const char text[] = "<A><Key>a&amp;b&#x41;&#228;&lt;&bogus;</Key><Keys/><Key>two</Key></A>";
    struct lvn_text t = {0};
    const char *end;
    assert_true(lvn_xml_text(text, NULL, "Key", &t));
    assert_string_equal(t.p, "a&bA\xc3\xa4<&bogus;");
    lvn_text_clear(&t);
    lvn_xml_find(text, NULL, "Key", &end);
    assert_true(lvn_xml_text(end, NULL, "Key", &t));
    assert_string_equal(t.p, "two");
    assert_false(lvn_xml_text(text, NULL, "Ke", &t));
    assert_false(lvn_xml_text("<Key>cut", NULL, "Key", &t));
    lvn_text_clear(&t);
    lvn_xml_encode(&t, "\"a\"<&");
    assert_string_equal(t.p, "&quot;a&quot;&lt;&amp;");
    lvn_text_release(&t);
}

static void local_files(void **state)
{
    (void)state;
    enum lvn_store_kind kind;
    int64_t bytes;
    char *text, url[600];
    struct lvn_arena a;
    struct lvn_store_entries list;
    ASSERT_OK(lvn_dir_make(test_path("top/sub")));
    test_put("top/b", "bb", 2);
    test_put("top/sub/c", "ccc", 3);
    lvn_arena_init(&a);
    ASSERT_OK(lvn_store_list(&a, test_path("top"), false, &list));
    assert_int_equal(list.n, 2);
    assert_string_equal(list.entry[0].name, "b");
    assert_int_equal(list.entry[0].bytes, 2);
    assert_int_equal(list.entry[1].kind, LVN_STORE_FOLDER);
    snprintf(url, sizeof url, "file://%s/top", test_dir);
    ASSERT_OK(lvn_store_list(&a, url, true, &list));
    assert_int_equal(list.n, 2);
    assert_string_equal(list.entry[1].name, "sub/c");
    /* a link to a folder is followed, but not one to a folder that contains it */
    assert_int_equal(symlink("..", test_path("top/sub/up")), 0);
    assert_int_equal(symlink("sub", test_path("top/too")), 0);
    ASSERT_OK(lvn_store_list(&a, url, true, &list));
    assert_int_equal(list.n, 3);
    assert_string_equal(list.entry[2].name, "too/c");
    assert_int_equal(unlink(test_path("top/sub/up")) + unlink(test_path("top/too")), 0);
    /* what cannot be read is not taken to be missing, unlike a dangling link */
    char unreadable[300];
    memset(unreadable, 'x', sizeof unreadable - 1);
    unreadable[sizeof unreadable - 1] = '\0';
    assert_int_equal(symlink("nothing", test_path("top/dangling")), 0);
    ASSERT_OK(lvn_store_list(&a, url, true, &list));
    assert_int_equal(list.n, 2);
    assert_int_equal(symlink(unreadable, test_path("top/far")), 0); /* the name is too long */
    ASSERT_FAILS(IO, "top/far': File name too long", lvn_store_list(&a, url, true, &list));
    assert_int_equal(unlink(test_path("top/dangling")) + unlink(test_path("top/far")), 0);
    assert_string_equal(lvn_store_join(&a, "s3://b/", "c"), "s3://b/c");
    ASSERT_OK(lvn_store_stat(test_path("nothing"), &kind, &bytes));
    assert_int_equal(kind, LVN_STORE_NOTHING);
    ASSERT_OK(lvn_store_read(test_path("top/sub/c"), 3, &text, &bytes));
    assert_string_equal(text, "ccc");
    free(text);
    ASSERT_FAILS(FORMAT, "more than 2 bytes", lvn_store_read(test_path("top/sub/c"), 2, &text, &bytes));
    ASSERT_FAILS(IO, "does not exist", lvn_store_list(&a, test_path("nothing"), true, &list));
    ASSERT_OK(lvn_store_copy(test_path("top/b"), test_path("new/b"), NULL, NULL));
    ASSERT_OK(lvn_store_read(test_path("new/b"), 10, &text, &bytes));
    assert_string_equal(text, "bb");
    free(text);
    lvn_arena_release(&a);
}

static void bad_paths(void **state)
{
    (void)state;
    enum lvn_store_kind kind;
    int64_t bytes;
    assert_true(lvn_store_is_url("s3://x"));
    assert_false(lvn_store_is_url("/a/b://c"));
    assert_false(lvn_store_is_url("C:/a"));
    ASSERT_FAILS(ARG, "did you mean 's3://'", lvn_store_stat("s4://bucket/x", &kind, &bytes));
    ASSERT_FAILS(ARG, "unknown scheme 'azure://'", lvn_store_stat("azure://bucket/x", &kind, &bytes));
    ASSERT_FAILS(ARG, "contains no bucket", lvn_store_stat("s3:///x", &kind, &bytes));
    ASSERT_FAILS(ARG, "path is empty", lvn_store_stat("", &kind, &bytes));
    setenv("AWS_ENDPOINT_URL", "localhost:9000", 1);
    ASSERT_FAILS(ARG, "is not a valid address", lvn_store_stat("s3://bucket/x", &kind, &bytes));
    unsetenv("AWS_ENDPOINT_URL");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(digests),     cmocka_unit_test(joined),
                                       cmocka_unit_test(signatures),  cmocka_unit_test(xml),
                                       cmocka_unit_test(local_files), cmocka_unit_test(bad_paths)};
    return cmocka_run_group_tests(tests, test_dir_make, test_dir_drop);
}
