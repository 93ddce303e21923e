/* crypto.h - functions of libcrypto (OpenSSL), which is loaded on first use: RSA signatures for Google's service
 * accounts, MD5 and SHA-256 for digest.h. */
#ifndef LVN_CRYPTO_H
#define LVN_CRYPTO_H

#include "base/status.h"

/* RSA signature with SHA-256 (PKCS #1 1.5) of the text by a private key in PEM format; *bytes: its length. LVN_FORMAT
 * if the key cannot be used, LVN_UNSUPPORTED without libcrypto. */
enum { LVN_SIGNATURE_BYTES = 1024 };
enum lvn_status lvn_rsa_sign(const char *pem, const char *text, unsigned char signature[LVN_SIGNATURE_BYTES],
                             size_t *bytes) LVN_CHECKED;

/* Incremental MD5 or SHA-256 with the processor's instructions; NULL: libcrypto is missing or refuses the algorithm. */
enum { LVN_CRYPTO_BYTES = 64 };
void *lvn_crypto_digest_new(bool md5);
void lvn_crypto_digest_add(void *digest, const void *data, size_t bytes);
void lvn_crypto_digest_end(void *digest, unsigned char out[LVN_CRYPTO_BYTES]);
void lvn_crypto_digest_free(void *digest);

#endif
