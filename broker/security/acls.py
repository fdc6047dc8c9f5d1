"""ACLs as data: the operations on resources that they allow or deny, and filters of ACLs.

An ACL (`AclBinding`) is a pattern of resources and an entry: a principal, a host, an operation and
whether it is allowed or denied. Nothing here decides anything, see `acl_authorizer`.

Mirrors `ResourcePattern`, `AccessControlEntry`, `AclBinding` and their filters of Kafka's clients.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ...protocol.acls import WILDCARD, AclOperation, AclPermission, PatternType, ResourceType

ANY_USER: Final = "User:*"


class ResourcePattern(NamedTuple):
    """LITERAL is the resource of this name, or all of the type by the name `*`; PREFIXED are all
    with names that begin with it.
    """

    type: ResourceType
    pattern: PatternType
    name: str


class AccessControlEntry(NamedTuple):
    principal: str
    """As `User:alice`; `User:*` is everyone."""
    host: str
    """An address as text, or `*`; other text matches no client."""
    operation: AclOperation
    permission: AclPermission


NO_ENTRIES: Final[frozenset[AccessControlEntry]] = frozenset()


class AclBinding(NamedTuple):
    pattern: ResourcePattern
    entry: AccessControlEntry


class AclFilter(NamedTuple):
    """A filter that matches ACLs by all of its fields; ANY and None match everything."""

    type: ResourceType
    pattern: PatternType
    name: str | None
    principal: str | None
    host: str | None
    operation: AclOperation
    permission: AclPermission

    def matches_pattern(self, resource: ResourcePattern) -> bool:
        if self.type not in (ResourceType.ANY, resource.type):
            return False
        name, pattern = self.name, self.pattern
        if pattern is PatternType.ANY or pattern is resource.pattern:
            return name is None or name == resource.name
        if pattern is not PatternType.MATCH:
            return False
        if name is None:
            return True
        if resource.pattern is PatternType.PREFIXED:
            return name.startswith(resource.name)
        return resource.name in (name, WILDCARD)

    def matches_entry(self, entry: AccessControlEntry) -> bool:
        return (
            (self.principal is None or self.principal == entry.principal)
            and (self.host is None or self.host == entry.host)
            and self.operation in (AclOperation.ANY, entry.operation)
            and self.permission in (AclPermission.ANY, entry.permission)
        )

    def named_patterns(self) -> tuple[ResourcePattern, ...] | None:
        """The only patterns that it can match, known without a look at the stored ones."""
        name = self.name
        if name is None or self.type in (ResourceType.ANY, ResourceType.UNKNOWN):
            return None
        match self.pattern:
            case PatternType.LITERAL | PatternType.PREFIXED:
                return (ResourcePattern(self.type, self.pattern, name),)
            case PatternType.ANY:
                return (
                    ResourcePattern(self.type, PatternType.LITERAL, name),
                    ResourcePattern(self.type, PatternType.PREFIXED, name),
                )
        return None
