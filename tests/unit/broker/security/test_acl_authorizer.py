"""What AclAuthorizer decides, rule by rule; and how quickly, with thousands of ACLs."""

from __future__ import annotations

from time import process_time

import pytest

from pybroker_kafka.broker.security import acl_authorizer
from pybroker_kafka.broker.security.acl_authorizer import AclAuthorizer
from pybroker_kafka.broker.security.acls import AccessControlEntry, ResourcePattern
from pybroker_kafka.broker.security.authorizer import Authorizer
from pybroker_kafka.broker.security.principal import KafkaPrincipal, parse_principal
from pybroker_kafka.protocol.acls import (
    CLUSTER_NAME,
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
)

ALICE = KafkaPrincipal("User", "alice")
HOST = "10.0.0.1"
READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE
TOPIC = ResourceType.TOPIC
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED


def entry(
    operation: AclOperation, *, deny: bool = False, who: str = "User:alice", host: str = "*"
) -> AccessControlEntry:
    permission = AclPermission.DENY if deny else AclPermission.ALLOW
    return AccessControlEntry(who, host, operation, permission)


def authorizer(
    *acls: tuple[PatternType, str, AccessControlEntry], allow_if_no_acl_found: bool = False
) -> AclAuthorizer:
    made = AclAuthorizer(allow_if_no_acl_found=allow_if_no_acl_found)
    for pattern, name, acl in acls:
        resource = ResourcePattern(TOPIC, pattern, name)
        made.update(resource, {*made.entries(resource), acl})
    return made


def allows(made: Authorizer, operation: AclOperation = READ, name: str = "t") -> bool:
    return made.allows(ALICE, HOST, operation, TOPIC, name)


def test_nothing_is_allowed_without_acls_unless_everything_is() -> None:
    assert not allows(authorizer())
    assert allows(authorizer(allow_if_no_acl_found=True))
    another = (LITERAL, "t", entry(READ, who="User:bob"))
    assert not allows(authorizer(another, allow_if_no_acl_found=True))


def test_super_users_may_do_everything() -> None:
    made = AclAuthorizer([ALICE])
    made.update(ResourcePattern(TOPIC, LITERAL, "*"), [entry(AclOperation.ALL, deny=True)])
    assert allows(made)
    assert made.allows_by_type(ALICE, HOST, WRITE, TOPIC)
    by_token = ALICE._replace(token_authenticated=True)
    assert made.allows(by_token, HOST, AclOperation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME)
    assert not made.allows(KafkaPrincipal("Group", "alice"), HOST, READ, TOPIC, "t")


@pytest.mark.parametrize(("pattern", "name"), [(LITERAL, "t"), (LITERAL, "*"), (PREFIXED, "t")])
def test_deny_beats_allow(pattern: PatternType, name: str) -> None:
    granted = [
        (LITERAL, "t", entry(READ)),
        (PREFIXED, "t", entry(READ)),
        (LITERAL, "*", entry(READ)),
    ]
    assert allows(authorizer(*granted))
    assert not allows(authorizer(*granted, (pattern, name, entry(READ, deny=True))))


def test_operations_imply_others_if_allowed() -> None:
    made = authorizer((LITERAL, "t", entry(READ)))
    assert allows(made, DESCRIBE)
    assert not allows(made, AclOperation.DESCRIBE_CONFIGS)
    assert allows(
        authorizer((LITERAL, "t", entry(AclOperation.ALTER_CONFIGS))), AclOperation.DESCRIBE_CONFIGS
    )
    # To deny reading leaves describing; to deny describing leaves reading.
    denied = authorizer((LITERAL, "t", entry(WRITE)), (LITERAL, "t", entry(READ, deny=True)))
    assert allows(denied, DESCRIBE)
    denied = authorizer((LITERAL, "t", entry(READ)), (LITERAL, "t", entry(DESCRIBE, deny=True)))
    assert allows(denied)
    assert not allows(denied, DESCRIBE)


def test_a_prefix_named_as_the_wildcard_is_only_a_prefix() -> None:
    made = authorizer((PREFIXED, "*", entry(READ)))
    assert not allows(made)
    assert allows(made, name="*t")


def test_names_without_an_end_are_not_kept() -> None:
    made = authorizer((PREFIXED, "t", entry(READ)))
    assert allows(made, name="t" * 30_000)
    assert not made._decisions
    assert allows(made)
    assert len(made._decisions) == 1


def test_the_cache_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acl_authorizer, "MAX_DECISIONS", 10)
    made = authorizer((PREFIXED, "t", entry(READ)))
    for number in range(100):
        assert allows(made, name=f"t{number}")
        made.allows_by_type(ALICE, f"10.0.0.{number}", READ, TOPIC)
        assert len(made._decisions) <= 10
        assert len(made._by_type) <= 10


def test_thousands_of_acls_do_not_make_it_slow() -> None:
    made = AclAuthorizer()
    everyone = [entry(WRITE, who=f"User:user{number}") for number in range(5000)]
    for number, acl in enumerate(everyone):
        for pattern in (LITERAL, PREFIXED):
            made.update(ResourcePattern(TOPIC, pattern, f"topic-{number}"), [acl])
    made.update(ResourcePattern(TOPIC, PREFIXED, "shared"), everyone)
    began = process_time()
    for number in range(1000):
        who = KafkaPrincipal("User", f"user{number}")
        for name in (f"topic-{number}-x", "shared-x"):
            assert made.allows(who, HOST, WRITE, TOPIC, name)
            assert not made.allows(who, HOST, READ, TOPIC, name)
        assert made.allows_by_type(who, HOST, WRITE, TOPIC)
    assert process_time() - began < 2  # about 0.1 s; scanning would take minutes


@pytest.mark.parametrize("text", ["User:alice", "User:CN=a:b,O=x", "Group:", ":x"])
def test_principals_are_read_as_written(text: str) -> None:
    assert str(parse_principal(text)) == text


@pytest.mark.parametrize("text", ["", "alice"])
def test_what_is_no_principal(text: str) -> None:
    with pytest.raises(ValueError, match="User:alice"):
        parse_principal(text)
