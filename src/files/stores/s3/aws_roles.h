/* aws_roles.h - temporary credentials that a service issues; private to aws.c. Each function leaves *credentials
 * unchanged if its source is not configured. */
#ifndef LVN_AWS_ROLES_H
#define LVN_AWS_ROLES_H

#include "stores/s3/aws.h"

enum lvn_status lvn_aws_web_identity_credentials(struct lvn_aws_credentials *credentials) LVN_CHECKED;
enum lvn_status lvn_aws_container_credentials(struct lvn_aws_credentials *credentials) LVN_CHECKED;
enum lvn_status lvn_aws_instance_credentials(struct lvn_aws_credentials *credentials) LVN_CHECKED;

#endif
