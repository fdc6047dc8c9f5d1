"""The paths and payloads of ACLs in ZooKeeper.

Literal patterns are nodes below /kafka-acl/<Type>, prefixed ones below /kafka-acl-extended; changes
are announced by sequence nodes, apart for the two kinds. Payloads are as Apache Kafka 3.9 writes
them; any other payload raises only MalformedZnode, where Kafka reads broken JSON as no ACLs: the
lost ones might deny something.

Mirrors the ZkAclStore and ZkAclChangeStore of kafka.zk.ZkData, and AclEntry's JSON.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Generator, Iterable
from enum import Enum
from itertools import islice
from typing import Any, Final, TypeVar

from ...protocol.acls import AclOperation, AclPermission, PatternType, ResourceType
from ...replication.controller.znodes import MalformedZnode
from ..security.acls import AccessControlEntry, ResourcePattern
from ..security.principal import parse_principal

VERSION = 1
ROOTS: Final = {
    PatternType.LITERAL: "/kafka-acl",
    PatternType.PREFIXED: "/kafka-acl-extended/prefixed",
}
CHANGES: Final = {
    PatternType.LITERAL: "/kafka-acl-changes",
    PatternType.PREFIXED: "/kafka-acl-extended-changes",
}
STORED_TYPES: Final = tuple(kind for kind in ResourceType if kind > ResourceType.ANY)
CHANGE_PREFIX: Final = "acl_changes_"
ENTRIES_AT_ONCE: Final = 500  # in a step: a millisecond or two

E = TypeVar("E", bound=Enum)


def _names(values: type[E]) -> dict[E, str]:
    """TRANSACTIONAL_ID is written as TransactionalId."""
    return {value: value.name.title().replace("_", "") for value in values}


_TYPE_NAMES = _names(ResourceType)
_OPERATION_NAMES = _names(AclOperation)
_PERMISSION_NAMES = _names(AclPermission)


def _by_name(names: dict[E, str]) -> dict[str, E]:
    return {name.upper(): value for value, name in names.items()}


_TYPES = _by_name(_TYPE_NAMES)
_OPERATIONS = _by_name(_OPERATION_NAMES)
_PERMISSIONS = _by_name(_PERMISSION_NAMES)


def type_path(kind: ResourceType, pattern: PatternType) -> str:
    return f"{ROOTS[pattern]}/{_TYPE_NAMES[kind]}"


def resource_path(resource: ResourcePattern) -> str:
    return f"{type_path(resource.type, resource.pattern)}/{resource.name}"


def type_of(name: str) -> ResourceType:
    """The type of a node's name; UNKNOWN for other names."""
    return _TYPES.get(name.upper(), ResourceType.UNKNOWN)


def change_path(pattern: PatternType) -> str:
    """The path of the next change; ZooKeeper appends its number."""
    return f"{CHANGES[pattern]}/{CHANGE_PREFIX}"


# Payloads: the ACLs of one resource may take tens of milliseconds; hence the steps


def encoding(entries: Iterable[AccessControlEntry]) -> Generator[None, None, bytes]:
    """The payload of these entries, sorted."""
    left = iter(entries)
    pieces = []
    while piece := sorted(islice(left, ENTRIES_AT_ONCE)):
        pieces.append(piece)
        if len(piece) == ENTRIES_AT_ONCE:
            yield
    ordered = heapq.merge(*pieces)
    texts = []
    while items := [_item(entry) for entry in islice(ordered, ENTRIES_AT_ONCE)]:
        texts.append(_to_json(items)[1:-1])
        if len(items) == ENTRIES_AT_ONCE:
            yield
    return f'{{"version":{VERSION},"acls":[{",".join(texts)}]}}'.encode()


def _item(entry: AccessControlEntry) -> dict[str, str]:
    return {
        "principal": entry.principal,
        "permissionType": _PERMISSION_NAMES[entry.permission],
        "operation": _OPERATION_NAMES[entry.operation],
        "host": entry.host,
    }


def decoding(data: bytes | None) -> Generator[None, None, frozenset[AccessControlEntry]]:
    """No data means no entries. Unknown values, of a newer broker for example, become UNKNOWN.
    Raises MalformedZnode."""
    if not data:
        return frozenset()
    try:
        payload = json.loads(data)
        if payload["version"] != VERSION:
            raise ValueError(f"its version is {payload['version']!r}")
        left = iter(payload["acls"])
        entries: set[AccessControlEntry] = set()
        while items := list(islice(left, ENTRIES_AT_ONCE)):
            entries.update(map(_entry, items))
            if len(items) == ENTRIES_AT_ONCE:
                yield
        return frozenset(entries)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise MalformedZnode(f"ACLs: {type(error).__name__} {error}") from None


def _entry(item: dict[str, Any]) -> AccessControlEntry:
    principal, host = item["principal"], item["host"]
    if not isinstance(host, str):
        raise TypeError("a host that is no text")
    return AccessControlEntry(
        str(parse_principal(principal)),
        host,
        _OPERATIONS.get(item["operation"].upper(), AclOperation.UNKNOWN),
        _PERMISSIONS.get(item["permissionType"].upper(), AclPermission.UNKNOWN),
    )


def encode_change(resource: ResourcePattern) -> bytes:
    if resource.pattern is PatternType.LITERAL:
        return f"{resource.type.name}:{resource.name}".encode()
    return _encode(
        {
            "version": VERSION,
            "resourceType": resource.type.name,
            "name": resource.name,
            "patternType": resource.pattern.name,
        }
    )


def decode_change(pattern: PatternType, data: bytes | None) -> ResourcePattern:
    """The resource of a change below the changes of `pattern`."""
    try:
        text = (data or b"").decode()
        if pattern is PatternType.LITERAL:
            kind, colon, name = text.partition(":")
            if not colon:
                raise ValueError(f"{text[:80]!r} names no resource")
        else:
            payload = json.loads(text)
            kind, name = payload["resourceType"], payload["name"]
            if payload["version"] > VERSION or payload["patternType"].upper() != pattern.name:
                raise ValueError(f"{text[:200]!r} is not known")
        resource = ResourcePattern(type_of(kind.replace("_", "")), pattern, name)
        if resource.type not in STORED_TYPES or not name or not isinstance(name, str):
            raise ValueError(f"{text[:200]!r} names no resource")
        return resource
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise MalformedZnode(f"a change of ACLs: {type(error).__name__} {error}") from None


def _encode(payload: object) -> bytes:
    return _to_json(payload).encode()


def _to_json(payload: object) -> str:
    return json.dumps(payload, separators=(",", ":"), ensure_ascii=False)
