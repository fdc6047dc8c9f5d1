"""Keys that Kafka's AclAuthorizer reads.

They are not among the definitions of KafkaConfig, so DescribeConfigs shows them as it shows the
keys of any plug-in: only where they are set, and without their values.
"""

from __future__ import annotations

from typing import Any

from ....storage.config_def import InvalidValue
from ...security.principal import parse_principals
from ..keys import BOOLEAN, LOW, STRING, key


def _principals(value: Any) -> None:
    try:
        parse_principals(value or "")
    except ValueError as error:
        raise InvalidValue(str(error)) from None


DEFINITIONS = (
    key(
        "super.users",
        STRING,
        None,
        LOW,
        valid=_principals,
        doc="With an authorizer: the principals that may do everything, as User:alice;User:bob. "
        "Brokers must be among them, or be allowed ClusterAction on the cluster.",
    ),
    key(
        "allow.everyone.if.no.acl.found",
        BOOLEAN,
        "false",
        LOW,
        doc="With an authorizer: whether every client may use a resource without ACLs.",
    ),
)
