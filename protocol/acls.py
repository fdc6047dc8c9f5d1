"""The vocabulary of ACLs: operations, kinds of resources, patterns and permissions.

Job: the numbers on the wire and in bitmaps, for requests about ACLs and for the rules of each API.
Mirrors: AclOperation, ResourceType, PatternType and AclPermissionType of
org.apache.kafka.common.acl and org.apache.kafka.common.resource.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class _Code(IntEnum):
    """Found in dictionaries as the number that it is, without a call of Enum's own hash."""

    __hash__ = int.__hash__


class AclOperation(_Code):
    """UNKNOWN is for values that a newer broker may have written, ANY for filters, ALL for ACLs."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14


class ResourceType(_Code):
    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(_Code):
    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclPermission(_Code):
    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


CLUSTER_NAME: Final = "kafka-cluster"  # of the only resource of type CLUSTER
WILDCARD: Final = "*"
