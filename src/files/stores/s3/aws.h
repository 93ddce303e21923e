/* aws.h - credentials, region and endpoint of Amazon's services, from the same sources in the same order as the AWS
 * tools; used by s3.c.
 *
 *     1. AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN
 *     2. a web identity token (set in Kubernetes pods): AWS_WEB_IDENTITY_TOKEN_FILE, AWS_ROLE_ARN
 *     3. AWS_PROFILE ("default") of ~/.aws/credentials (AWS_SHARED_CREDENTIALS_FILE),
 *        then of ~/.aws/config (AWS_CONFIG_FILE)
 *     4. the container: AWS_CONTAINER_CREDENTIALS_RELATIVE_URI or _FULL_URI, set by ECS and EKS
 *     5. the instance: the metadata service of EC2, unless AWS_EC2_METADATA_DISABLED
 *
 * The region is AWS_REGION, AWS_DEFAULT_REGION, the profile's, or us-east-1; the endpoint of S3 is AWS_ENDPOINT_URL_S3,
 * AWS_ENDPOINT_URL, the profile's endpoint_url, or Amazon's. Not supported: single sign-on, credential processes, roles
 * assumed by a profile; AWS_PROFILE with such a profile is an error. */
#ifndef LVN_AWS_H
#define LVN_AWS_H

#include <time.h>

#include "base/status.h"

struct lvn_aws_credentials {
    char id[160], secret[160], token[4096];
    time_t expires;   /* 0: never, or unknown */
    char source[256]; /* where they were found, for messages; "": no credentials (then id is "" too) */
};
struct lvn_aws_location {
    char region[64];
    char endpoint[256]; /* "": Amazon's */
};

/* Missing credentials are not an error: some buckets are public. LVN_FORMAT, LVN_IO: a configured source cannot be
 * used. */
enum lvn_status lvn_aws_find_credentials(struct lvn_aws_credentials *credentials) LVN_CHECKED;
enum lvn_status lvn_aws_find_location(struct lvn_aws_location *location) LVN_CHECKED;

/* The domain of Amazon's services in this region; "": any. */
static inline const char *lvn_aws_domain(const char *region)
{
    return strncmp(region, "cn-", 3) == 0 ? "amazonaws.com.cn" : "amazonaws.com";
}

#endif
