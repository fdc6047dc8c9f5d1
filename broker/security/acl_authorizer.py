"""Decides by the ACLs that `zk.acl_store` last gave it.

A principal may do an operation to a resource if it is a super user, or if an ACL that matches it
allows the operation and none denies it, or if no ACL matches the resource at all and
`allow.everyone.if.no.acl.found` is set. Literal ACLs of the name, those of the wildcard `*`, and
prefixed ones match; READ, WRITE, DELETE and ALTER allow DESCRIBE as well, ALTER_CONFIGS allows
DESCRIBE_CONFIGS; to deny implies nothing.

Invariants: `update` replaces all ACLs of one resource at once, empties the caches and moves
`version`; a cached decision is the one that `_decide` would make now. No question scans all ACLs:
prefixes are looked up by the lengths there are.

Mirrors kafka.security.authorizer.AclAuthorizer (authorize, authorizeByResourceType, updateCache).
Leaves out its log of decisions (kafka.authorizer.logger).
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import Counter
from collections.abc import Iterable, Mapping
from ipaddress import IPv6Address
from itertools import product
from typing import Final

from ...protocol.acls import WILDCARD, AclOperation, AclPermission, PatternType, ResourceType
from .acls import ANY_USER, NO_ENTRIES, AccessControlEntry, ResourcePattern
from .principal import KafkaPrincipal

MAX_DECISIONS = 10_000
MAX_CACHED_NAME = 255  # longer than any topic's; other names have hardly a limit

_IMPLIED_BY: Final[Mapping[AclOperation, tuple[AclOperation, ...]]] = {
    AclOperation.DESCRIBE: (
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.DELETE,
        AclOperation.ALTER,
    ),
    AclOperation.DESCRIBE_CONFIGS: (AclOperation.ALTER_CONFIGS,),
}

_Question = tuple[KafkaPrincipal, str, AclOperation, ResourceType, str]
_TypeQuestion = tuple[KafkaPrincipal, str, AclOperation, ResourceType]
_NamesKey = tuple[AccessControlEntry, ResourceType, PatternType]


class _Prefixes:
    """The prefixes of one resource type, found by a name that begins with them."""

    __slots__ = ("_counts", "_lengths")

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self._lengths: list[int] = []

    def add(self, prefix: str) -> None:
        length = len(prefix)
        if not self._counts[length]:
            insort(self._lengths, length)
        self._counts[length] += 1

    def discard(self, prefix: str) -> None:
        length = len(prefix)
        self._counts[length] -= 1
        if not self._counts[length]:
            del self._counts[length]
            self._lengths.remove(length)

    def of(self, name: str) -> list[str]:
        """The possible prefixes of a name: one for each length that prefixed ACLs have."""
        return [name[:length] for length in self._lengths[: bisect_right(self._lengths, len(name))]]


class AclAuthorizer:
    """Knows all ACLs and answers by them."""

    __slots__ = (
        "_allows_without_acl",
        "_by_type",
        "_decisions",
        "_entries",
        "_names",
        "_prefixes",
        "_super_users",
        "version",
    )

    def __init__(
        self, super_users: Iterable[KafkaPrincipal] = (), *, allow_if_no_acl_found: bool = False
    ) -> None:
        self.version = 0
        self._super_users = frozenset((user.type, user.name) for user in super_users)
        self._allows_without_acl = allow_if_no_acl_found
        self._entries: dict[ResourcePattern, frozenset[AccessControlEntry]] = {}
        self._prefixes = {kind: _Prefixes() for kind in ResourceType}
        # The names of resources with this entry (KIP-679).
        self._names: dict[_NamesKey, set[str]] = {}
        self._decisions: dict[_Question, bool] = {}
        self._by_type: dict[_TypeQuestion, bool] = {}

    # Stored ACLs

    def entries(self, pattern: ResourcePattern) -> frozenset[AccessControlEntry]:
        return self._entries.get(pattern, NO_ENTRIES)

    def patterns(self) -> list[ResourcePattern]:
        """The patterns that have entries."""
        return list(self._entries)

    def update(self, pattern: ResourcePattern, entries: Iterable[AccessControlEntry]) -> bool:
        """Replace all entries of this pattern; returns whether that is a change."""
        new, old = frozenset(entries), self.entries(pattern)
        if new == old:
            return False
        if pattern.pattern is PatternType.PREFIXED and bool(new) is not bool(old):
            prefixes = self._prefixes[pattern.type]
            (prefixes.add if new else prefixes.discard)(pattern.name)
        if new:
            self._entries[pattern] = new
        else:
            del self._entries[pattern]
        for entry in new - old:
            self._names.setdefault((entry, pattern.type, pattern.pattern), set()).add(pattern.name)
        for entry in old - new:
            key = (entry, pattern.type, pattern.pattern)
            names = self._names[key]
            names.discard(pattern.name)
            if not names:
                del self._names[key]
        self.version += 1
        self._decisions = {}
        self._by_type = {}
        return True

    # Decisions

    def allows(
        self,
        principal: KafkaPrincipal,
        host: str,
        operation: AclOperation,
        resource_type: ResourceType,
        name: str,
    ) -> bool:
        """Whether `principal`, connected from `host`, may do this to the resource `name`."""
        question = (principal, host, operation, resource_type, name)
        decision = self._decisions.get(question)
        if decision is None:
            decision = self._decide(principal, host, operation, resource_type, name)
            if len(name) <= MAX_CACHED_NAME:
                if len(self._decisions) >= MAX_DECISIONS:
                    self._decisions = {}
                self._decisions[question] = decision
        return decision

    def _decide(
        self,
        principal: KafkaPrincipal,
        host: str,
        operation: AclOperation,
        resource_type: ResourceType,
        name: str,
    ) -> bool:
        if (principal.type, principal.name) in self._super_users:
            return True
        matching = self._matching(resource_type, name)
        if not matching:
            return self._allows_without_acl
        text = str(principal)
        denied = _entries_for(text, host, (operation,), AclPermission.DENY)
        if any(not entries.isdisjoint(denied) for entries in matching):
            return False
        operations = (operation, *_IMPLIED_BY.get(operation, ()))
        allowed = _entries_for(text, host, operations, AclPermission.ALLOW)
        return any(not entries.isdisjoint(allowed) for entries in matching)

    def _matching(self, kind: ResourceType, name: str) -> list[frozenset[AccessControlEntry]]:
        """The entries of all patterns that match this resource."""
        patterns = [
            ResourcePattern(kind, PatternType.LITERAL, name),
            ResourcePattern(kind, PatternType.LITERAL, WILDCARD),
        ]
        patterns += [
            ResourcePattern(kind, PatternType.PREFIXED, prefix)
            for prefix in self._prefixes[kind].of(name)
        ]
        return [entries for pattern in patterns if (entries := self._entries.get(pattern))]

    def allows_by_type(
        self,
        principal: KafkaPrincipal,
        host: str,
        operation: AclOperation,
        resource_type: ResourceType,
    ) -> bool:
        """Whether a principal may do an operation to any resource of a type (KIP-679).

        As in Kafka, operations that imply this one are not considered.
        """
        question = (principal, host, operation, resource_type)
        decision = self._by_type.get(question)
        if decision is None:
            decision = self._decide_by_type(principal, host, operation, resource_type)
            if len(self._by_type) >= MAX_DECISIONS:
                self._by_type = {}
            self._by_type[question] = decision
        return decision

    def _decide_by_type(
        self,
        principal: KafkaPrincipal,
        host: str,
        operation: AclOperation,
        resource_type: ResourceType,
    ) -> bool:
        if (principal.type, principal.name) in self._super_users:
            return True

        def named(permission: AclPermission, pattern: PatternType) -> list[set[str]]:
            entries = _entries_for(str(principal), host, (operation,), permission)
            keys = ((entry, resource_type, pattern) for entry in entries)
            return [names for key in keys if (names := self._names.get(key))]

        deny_literals = named(AclPermission.DENY, PatternType.LITERAL)
        if any(WILDCARD in names for names in deny_literals):
            return False
        if self._allows_without_acl:
            return True
        literals = named(AclPermission.ALLOW, PatternType.LITERAL)
        prefixes = named(AclPermission.ALLOW, PatternType.PREFIXED)
        deny_prefixes = named(AclPermission.DENY, PatternType.PREFIXED)
        if not deny_literals and not deny_prefixes:
            return bool(literals or prefixes)
        denied = frozenset[str]().union(*deny_prefixes)
        lengths = sorted(set(map(len, denied)))

        def is_denied(name: str) -> bool:
            """Whether a prefix is denied: itself, or a shorter one."""
            upto = bisect_right(lengths, len(name))
            return any(name[:length] in denied for length in lengths[:upto])

        if any(not is_denied(prefix) for names in prefixes for prefix in names):
            return True
        return any(
            name == WILDCARD
            or not (any(name in names for names in deny_literals) or is_denied(name))
            for names in literals
            for name in names
        )


def _entries_for(
    principal: str, host: str, operations: tuple[AclOperation, ...], permission: AclPermission
) -> list[AccessControlEntry]:
    """All entries with this permission for any of the operations."""
    return [
        AccessControlEntry(who, where, what, permission)
        for who, where, what in product(
            {principal, ANY_USER}, {_written(host), WILDCARD}, {*operations, AclOperation.ALL}
        )
    ]


def _written(host: str) -> str:
    """An address as Java writes it and as ACLs are compared with: ::1 is 0:0:0:0:0:0:0:1."""
    if ":" not in host:
        return host
    address, percent, zone = host.partition("%")
    try:
        groups = IPv6Address(address).exploded.split(":")
    except ValueError:
        return host
    return ":".join(f"{int(group, 16):x}" for group in groups) + percent + zone
