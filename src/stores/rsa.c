/* rsa.c - the one signature that Google's service accounts need, by libcrypto (OpenSSL), which is opened when it is
 * first wanted; the functions used are the same in its versions 1.1 and 3. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "stores/google.h"

static struct {
    void *library;
    void *(*buffer)(const void *, int);
    int (*buffer_free)(void *);
    void *(*read_key)(void *, void **, void *, void *);
    void (*key_free)(void *);
    void *(*context)(void);
    void (*context_free)(void *);
    const void *(*sha256)(void);
    int (*begin)(void *, void **, const void *, void *, void *);
    int (*sign)(void *, unsigned char *, size_t *, const unsigned char *, size_t);
    bool good;
} crypto;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static bool load_symbol(const char *name, void *function)
{
    void *p = dlsym(crypto.library, name);
    memcpy(function, &p, sizeof p); /* POSIX: a function pointer is a pointer */
    return p != NULL;
}

static void load(void)
{
    static const char *const names[] = {"libcrypto.so.3", "libcrypto.so.1.1", "libcrypto.3.dylib"};
    for (size_t i = 0; i < sizeof names / sizeof *names && !crypto.library; i++)
        crypto.library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    crypto.good = crypto.library && load_symbol("BIO_new_mem_buf", &crypto.buffer) &&
                  load_symbol("BIO_free", &crypto.buffer_free) &&
                  load_symbol("PEM_read_bio_PrivateKey", &crypto.read_key) &&
                  load_symbol("EVP_PKEY_free", &crypto.key_free) && load_symbol("EVP_MD_CTX_new", &crypto.context) &&
                  load_symbol("EVP_MD_CTX_free", &crypto.context_free) && load_symbol("EVP_sha256", &crypto.sha256) &&
                  load_symbol("EVP_DigestSignInit", &crypto.begin) && load_symbol("EVP_DigestSign", &crypto.sign);
}

enum lvn_status lvn_rsa_sign(const char *pem, const char *text, unsigned char signature[LVN_SIGNATURE_BYTES],
                             size_t *bytes)
{
    pthread_once(&once, load);
    LVN_CHECK(crypto.good, UNSUPPORTED,
              "the key of a Google service account needs libcrypto (OpenSSL 1.1 or 3), which is "
              "not on this machine; give an access token in GOOGLE_OAUTH_ACCESS_TOKEN instead");
    void *buffer = crypto.buffer(pem, -1), *key = buffer ? crypto.read_key(buffer, NULL, NULL, NULL) : NULL;
    void *context = crypto.context();
    *bytes = LVN_SIGNATURE_BYTES;
    bool good = key && context && crypto.begin(context, NULL, crypto.sha256(), NULL, key) == 1 &&
                crypto.sign(context, signature, bytes, (const unsigned char *)text, strlen(text)) == 1;
    crypto.context_free(context);
    if (key) crypto.key_free(key);
    if (buffer) crypto.buffer_free(buffer);
    LVN_CHECK(good, FORMAT,
              "the private key of the Google service account cannot be used: it is no RSA key in PEM form");
    return LVN_OK;
}
