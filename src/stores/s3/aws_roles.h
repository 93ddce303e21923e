/* aws_roles.h - keys that live for some hours and are asked for; private to aws.c. Each leaves the keys alone when its
 * source is not there. */
#ifndef LVN_AWS_ROLES_H
#define LVN_AWS_ROLES_H

#include "stores/s3/aws.h"

LVN_CHECKED enum lvn_status lvn_aws_keys_of_web_identity(struct lvn_aws_keys *k);
LVN_CHECKED enum lvn_status lvn_aws_keys_of_container(struct lvn_aws_keys *k);
LVN_CHECKED enum lvn_status lvn_aws_keys_of_instance(struct lvn_aws_keys *k);

#endif
