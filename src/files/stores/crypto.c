/* crypto.c - see crypto.h. Uses only functions that exist in both OpenSSL 1.1 and 3. */
#include "stores/crypto.h"

#include "host/library.h"

#define FUNCTIONS(F)                                                                                                   \
    F(void *, buffer, (const void *, int), "BIO_new_mem_buf")                                                          \
    F(int, buffer_free, (void *), "BIO_free")                                                                          \
    F(void *, read_key, (void *, void **, void *, void *), "PEM_read_bio_PrivateKey")                                  \
    F(void, key_free, (void *), "EVP_PKEY_free")                                                                       \
    F(void *, context, (void), "EVP_MD_CTX_new")                                                                       \
    F(void, context_free, (void *), "EVP_MD_CTX_free")                                                                 \
    F(const void *, sha256, (void), "EVP_sha256")                                                                      \
    F(int, begin, (void *, void **, const void *, void *, void *), "EVP_DigestSignInit")                               \
    F(int, sign, (void *, unsigned char *, size_t *, const unsigned char *, size_t), "EVP_DigestSign")                 \
    F(const void *, md5, (void), "EVP_md5")                                                                            \
    F(int, digest_begin, (void *, const void *, void *), "EVP_DigestInit_ex")                                          \
    F(int, digest_add, (void *, const void *, size_t), "EVP_DigestUpdate")                                             \
    F(int, digest_end, (void *, unsigned char *, unsigned *), "EVP_DigestFinal_ex")                                    \
    F(const char *, version, (int), "OpenSSL_version")

static struct {
    FUNCTIONS(LVN_LIBRARY_POINTER)
} crypto;

static const char *version(void)
{
    return crypto.version(0);
}

struct lvn_library lvn_library_crypto = {
    .name = "libcrypto",
    .files = {"libcrypto.so.3", "libcrypto.so.1.1", "libcrypto.3.dylib"},
    .use = "the key of a Google service account, and MD5",
    .hint = "install OpenSSL 1.1 or 3, or give an access token in GOOGLE_OAUTH_ACCESS_TOKEN instead",
    .symbols = (const char *const[]){FUNCTIONS(LVN_LIBRARY_SYMBOL) NULL},
    .functions = &crypto,
    .version = version};

enum lvn_status lvn_rsa_sign(const char *pem, const char *text, unsigned char signature[LVN_SIGNATURE_BYTES],
                             size_t *bytes)
{
    LVN_TRY(lvn_library_open(&lvn_library_crypto));
    void *buffer = crypto.buffer(pem, -1), *key = buffer ? crypto.read_key(buffer, NULL, NULL, NULL) : NULL;
    void *context = crypto.context();
    *bytes = LVN_SIGNATURE_BYTES;
    bool good = key && context && crypto.begin(context, NULL, crypto.sha256(), NULL, key) == 1 &&
                crypto.sign(context, signature, bytes, (const unsigned char *)text, strlen(text)) == 1;
    crypto.context_free(context);
    if (key) crypto.key_free(key);
    if (buffer) crypto.buffer_free(buffer);
    LVN_CHECK(good, FORMAT, "the private key of the Google service account is not an RSA key in PEM format");
    return LVN_OK;
}

void *lvn_crypto_digest_new(bool md5)
{
    if (lvn_library_open(&lvn_library_crypto) != LVN_OK) {
        lvn_error_clear();
        return NULL;
    }
    void *context = crypto.context();
    if (context && crypto.digest_begin(context, md5 ? crypto.md5() : crypto.sha256(), NULL) == 1) return context;
    crypto.context_free(context); /* some installations forbid MD5 */
    return NULL;
}

void lvn_crypto_digest_add(void *digest, const void *data, size_t bytes)
{
    crypto.digest_add(digest, data, bytes);
}

void lvn_crypto_digest_end(void *digest, unsigned char out[LVN_CRYPTO_BYTES])
{
    crypto.digest_end(digest, out, NULL);
}

void lvn_crypto_digest_free(void *digest)
{
    if (digest) crypto.context_free(digest);
}
