"""ACLs in words for people, for the command line and the console."""

from __future__ import annotations

from ...client.admin.acls import Acl
from ...protocol.acls import AclOperation, AclPermission, PatternType, ResourceType


def acl_words(acl: Acl) -> dict[str, str]:
    """`{"permission": "allow", "principal": "User:alice", "operation": "read", ...}`."""
    return {
        "permission": AclPermission(acl.permission).name.lower(),
        "principal": acl.principal,
        "operation": AclOperation(acl.operation).name.lower(),
        "resource": ResourceType(acl.resource_type).name.lower().replace("_", "-"),
        "name": acl.resource_name,
        "pattern": PatternType(acl.pattern_type).name.lower(),
        "host": acl.host,
    }
