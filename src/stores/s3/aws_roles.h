/* aws_roles.h - keys that live for some hours and are asked for; private to aws.c. Each leaves the keys alone when its
 * source is not there. */
#ifndef LVN_AWS_ROLES_H
#define LVN_AWS_ROLES_H

#include "stores/s3/aws.h"

LVN_CHECKED enum lvn_status lvn_aws_web_identity_credentials(struct lvn_aws_credentials *k);
LVN_CHECKED enum lvn_status lvn_aws_container_credentials(struct lvn_aws_credentials *k);
LVN_CHECKED enum lvn_status lvn_aws_instance_credentials(struct lvn_aws_credentials *k);

#endif
