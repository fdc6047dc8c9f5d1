"""AclAuthorizer decides as a twin does that looks at every ACL there is."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from pybroker_kafka.broker.security.acl_authorizer import AclAuthorizer
from pybroker_kafka.broker.security.acls import (
    AccessControlEntry,
    AclBinding,
    AclFilter,
    ResourcePattern,
)
from pybroker_kafka.broker.security.principal import KafkaPrincipal
from pybroker_kafka.protocol.acls import AclOperation, AclPermission, PatternType, ResourceType

TYPES = (ResourceType.TOPIC, ResourceType.GROUP)
OPERATIONS = [operation for operation in AclOperation if operation > AclOperation.ALL]
SUPER = KafkaPrincipal("User", "root")

names = st.text("ab*", min_size=1, max_size=4)
principals = st.builds(KafkaPrincipal, st.sampled_from(("User", "Group")), st.sampled_from("xy*"))
# Addresses of clients, and what ACLs call them.
HOSTS = {"10.0.0.1": "10.0.0.1", "::1": "0:0:0:0:0:0:0:1", "fe80::a%2": "fe80:0:0:0:0:0:0:a%2"}
hosts = st.sampled_from((*HOSTS, *HOSTS.values(), "*"))
patterns = st.builds(
    ResourcePattern,
    st.sampled_from(TYPES),
    st.sampled_from((PatternType.LITERAL, PatternType.PREFIXED)),
    names,
)
entries = st.builds(
    AccessControlEntry,
    principals.map(str),
    hosts,
    st.sampled_from(AclOperation),
    st.sampled_from((AclPermission.ALLOW, AclPermission.DENY)),
)
acls = st.lists(st.builds(AclBinding, patterns, entries), max_size=12)
operations = st.sampled_from(OPERATIONS)


def matches_name(pattern: ResourcePattern, name: str) -> bool:
    if pattern.pattern is PatternType.PREFIXED:
        return name.startswith(pattern.name)
    return pattern.name in ("*", name)


def says(
    entry: AccessControlEntry, permission: AclPermission, who: KafkaPrincipal, host: str,
    operation: AclOperation,
) -> bool:  # fmt: skip
    return (
        entry.permission is permission
        and entry.principal in (f"{who.type}:{who.name}", "User:*")
        and entry.host in (HOSTS[host], "*")
        and entry.operation in (operation, AclOperation.ALL)
    )


def implying(operation: AclOperation) -> set[AclOperation]:
    if operation is AclOperation.DESCRIBE:
        named = ("DESCRIBE", "READ", "WRITE", "DELETE", "ALTER")
        return {AclOperation[name] for name in named}
    if operation is AclOperation.DESCRIBE_CONFIGS:
        return {operation, AclOperation.ALTER_CONFIGS}
    return {operation}


def decide(
    bindings: set[AclBinding], who: KafkaPrincipal, host: str, operation: AclOperation,
    kind: ResourceType, name: str, *, by_default: bool, implied: bool = True,
) -> bool:  # fmt: skip
    found = [
        entry
        for pattern, entry in bindings
        if pattern.type is kind and matches_name(pattern, name)
    ]  # fmt: skip
    if who == SUPER:
        return True
    if not found:
        return by_default
    if any(says(entry, AclPermission.DENY, who, host, operation) for entry in found):
        return False
    wanted = implying(operation) if implied else {operation}
    return any(
        says(entry, AclPermission.ALLOW, who, host, one) for entry in found for one in wanted
    )


def decide_by_type(
    bindings: set[AclBinding], who: KafkaPrincipal, host: str, operation: AclOperation,
    kind: ResourceType, *, by_default: bool,
) -> bool:  # fmt: skip
    """Whether there is a name, existing or not, for which it would be allowed."""

    def candidates() -> Iterator[str]:
        yield "new"
        for pattern, _ in bindings:
            yield pattern.name
            yield f"{pattern.name}-new"

    if by_default and who != SUPER:
        wildcard = ResourcePattern(kind, PatternType.LITERAL, "*")
        return not any(
            pattern == wildcard and says(entry, AclPermission.DENY, who, host, operation)
            for pattern, entry in bindings
        )
    return any(
        decide(bindings, who, host, operation, kind, name, by_default=False, implied=False)
        for name in candidates()
    )


def load(authorizer: AclAuthorizer, bindings: set[AclBinding]) -> None:
    for resource in {pattern for pattern, _ in bindings} | set(authorizer.patterns()):
        authorizer.update(resource, [entry for pattern, entry in bindings if pattern == resource])


@given(
    first=acls,
    then=acls,
    who=st.one_of(principals, st.just(SUPER)),
    host=st.sampled_from(tuple(HOSTS)),
    operation=operations,
    kind=st.sampled_from(TYPES),
    asked=st.lists(names, min_size=1, max_size=6),
    by_default=st.booleans(),
)
def test_decides_as_the_twin_before_and_after_changes(
    first: list[AclBinding], then: list[AclBinding], who: KafkaPrincipal, host: str,
    operation: AclOperation, kind: ResourceType, asked: list[str], *, by_default: bool,
) -> None:  # fmt: skip
    authorizer = AclAuthorizer([SUPER], allow_if_no_acl_found=by_default)
    for bindings in (set(first), set(then), set()):
        load(authorizer, bindings)
        for name in asked * 2:  # the second time from the cache
            assert authorizer.allows(who, host, operation, kind, name) is decide(
                bindings, who, host, operation, kind, name, by_default=by_default
            )
        for _ in range(2):
            assert authorizer.allows_by_type(who, host, operation, kind) is decide_by_type(
                bindings, who, host, operation, kind, by_default=by_default
            )


@given(acls, acls)
def test_only_a_change_moves_the_version(first: list[AclBinding], then: list[AclBinding]) -> None:
    authorizer = AclAuthorizer()
    for bindings in (set(first), set(then)):
        for resource in sorted({pattern for pattern, _ in bindings}):
            new = {entry for pattern, entry in bindings if pattern == resource}
            changes, before = new != authorizer.entries(resource), authorizer.version
            assert authorizer.update(resource, new) is changes
            assert (authorizer.version > before) is changes
            assert authorizer.entries(resource) == new


filters = st.builds(
    AclFilter,
    st.sampled_from((*TYPES, ResourceType.ANY, ResourceType.UNKNOWN)),
    st.sampled_from(PatternType),
    st.none() | names,
    st.none() | principals.map(str),
    st.none() | hosts,
    st.sampled_from(AclOperation),
    st.sampled_from(AclPermission),
)


def filter_matches(asked: AclFilter, binding: AclBinding) -> bool:
    pattern, entry = binding
    if asked.pattern is PatternType.MATCH:
        by_name = asked.name is None or matches_name(pattern, asked.name)
    else:
        by_name = asked.pattern in (PatternType.ANY, pattern.pattern) and (
            asked.name is None or asked.name == pattern.name
        )
    return (
        by_name
        and asked.type in (ResourceType.ANY, pattern.type)
        and asked.principal in (None, entry.principal)
        and asked.host in (None, entry.host)
        and asked.operation in (AclOperation.ANY, entry.operation)
        and asked.permission in (AclPermission.ANY, entry.permission)
    )


@given(filters, st.builds(AclBinding, patterns, entries))
def test_filters_pick_as_the_twin_does(asked: AclFilter, binding: AclBinding) -> None:
    pattern, entry = binding
    matches = asked.matches_pattern(pattern) and asked.matches_entry(entry)
    assert matches is filter_matches(asked, binding)
    patterns = asked.named_patterns()
    if matches and patterns is not None:
        assert pattern in patterns
