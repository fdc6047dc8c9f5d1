"""Rows of administration, as commands print them and the console sends them; pure.

A row is a dictionary; its keys are a table's head, and the fields of `--json`. Times are in ms
since 1970, and a partition is in its usual form, `flights-0`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from ...protocol.topics import TopicPartition

if TYPE_CHECKING:
    from ...protocol.sasl.scram import ScramHash
    from .acls import Acl
    from .config_types import ConfigEntry
    from .group_offsets import CommittedOffset
    from .groups import GroupDescription, GroupMember, ListedGroup
    from .quotas import EntityQuotas
    from .records import OffsetFound
    from .results import Results
    from .share_groups import ShareOffset
    from .tokens import Token
    from .transactions import ActiveProducer, ListedTransaction, TransactionDescription

Row: TypeAlias = dict[str, Any]


def place_text(place: TopicPartition) -> str:
    """A partition in the usual form: `flights-0`."""
    return f"{place[0]}-{place[1]}"


def acl_rows(acls: Iterable[Acl]) -> list[Row]:
    """ACLs in words: `{"permission": "allow", "principal": "User:alice", "operation": ...}`."""
    from ...protocol.acls import AclOperation, AclPermission, PatternType, ResourceType

    rows = [
        {
            "permission": AclPermission(acl.permission).name.lower(),
            "principal": acl.principal,
            "operation": AclOperation(acl.operation).name.lower(),
            "resource": ResourceType(acl.resource_type).name.lower().replace("_", "-"),
            "name": acl.resource_name,
            "pattern": PatternType(acl.pattern_type).name.lower(),
            "host": acl.host,
        }
        for acl in acls
    ]
    return sorted(rows, key=lambda row: (row["resource"], row["name"], row["principal"]))


def user_rows(users: Mapping[str, Mapping[ScramHash, int]]) -> list[Row]:
    """A row a user and mechanism."""
    return [
        {"user": user, "mechanism": kind.mechanism, "iterations": iterations}
        for user, kinds in sorted(users.items())
        for kind, iterations in sorted(kinds.items(), key=lambda pair: pair[0].mechanism)
    ]


def quota_rows(entities: Iterable[EntityQuotas]) -> list[Row]:
    """A row a quota of an entity: types with names, None: a type's default."""
    return [
        {"entity": dict(one.entity), "quota": key, "value": value}
        for one in entities
        for key, value in sorted(one.quotas.items())
    ]


def token_row(token: Token) -> Row:
    """A token without its HMAC, which is a password."""
    return {
        "token_id": token.token_id,
        "owner": ":".join(token.owner),
        "renewers": [":".join(who) for who in token.renewers],
        "issued_ms": token.issued_ms,
        "expires_ms": token.expires_ms,
        "ends_ms": token.ends_ms,
    }


def config_row(entry: ConfigEntry) -> Row:
    return {"key": entry.name, "value": entry.value, "source": entry.source.name.lower()}


def group_rows(found: Results[int, tuple[ListedGroup, ...]]) -> list[Row]:
    """A row a group, of all coordinators that answered."""
    rows = [
        {
            "group": one.group_id,
            "state": one.state,
            "type": one.group_type,
            "protocol": one.protocol_type,
            "coordinator": one.coordinator,
        }
        for some in found.values.values()
        for one in some
    ]
    return sorted(rows, key=lambda row: str(row["group"]))


def member_rows(group: GroupDescription) -> list[Row]:
    """A row a member."""
    return [
        {
            "group": group.group_id,
            "member": one.member_id,
            "instance": one.instance_id,
            "client": one.client_id,
            "host": one.host,
            "partitions": [place_text(place) for place in one.assignment],
            **(_progress(one) if group.is_consumer_group else {}),
            **({"epoch": one.epoch} if group.is_share_group else {}),
            **(_tasks(one) if group.is_streams_group else {}),
        }
        for one in group.members
    ]


def _progress(member: GroupMember) -> Row:
    """A member of the consumer protocol on its way to its target."""
    target, owned = set(member.target), set(member.assignment)
    return {
        "epoch": member.epoch,
        "to come": [place_text(place) for place in sorted(target - owned)],
        "to go": [place_text(place) for place in sorted(owned - target)],
    }


def _tasks(member: GroupMember) -> Row:
    """A member of a Streams application: its tasks, as subtopology_partition."""
    target, active = set(member.target_tasks), set(member.active_tasks)
    return {
        "epoch": member.epoch,
        "process": member.process,
        "tasks": list(member.active_tasks),
        "standby": list(member.standby_tasks),
        "to come": sorted(target - active),
        "to go": sorted(active - target),
    }


def lag_rows(
    group: GroupDescription,
    committed: Mapping[TopicPartition, CommittedOffset],
    ends: Mapping[TopicPartition, OffsetFound],
) -> list[tuple[TopicPartition, Row]]:
    """A row a partition that is assigned or has a committed offset; an unknown end is None."""
    owners: dict[TopicPartition, GroupMember] = {
        place: member for member in group.members for place in member.assignment
    }
    rows = []
    for place in sorted(committed.keys() | owners.keys()):
        offset = committed[place].offset if place in committed else None
        end = ends[place].offset if place in ends else None
        owner = owners.get(place)
        row = {
            "group": group.group_id,
            "partition": place_text(place),
            "offset": offset,
            "end": end,
            "lag": None if end is None or offset is None else end - offset,
            "client": owner.client_id if owner else None,
            "host": owner.host if owner else None,
        }
        rows.append((place, row))
    return rows


def share_rows(group: str, offsets: Mapping[TopicPartition, ShareOffset]) -> list[Row]:
    """As `lag_rows`, of a share group, whose members share partitions."""
    return [
        {
            "group": group,
            "partition": place_text(place),
            "offset": None if one.start_offset < 0 else one.start_offset,
            "end": None,
            "lag": None if one.lag < 0 else one.lag,
            "client": None,
            "host": None,
        }
        for place, one in sorted(offsets.items())
    ]


def transaction_rows(found: Results[int, tuple[ListedTransaction, ...]]) -> list[Row]:
    """A row a transactional id, of all coordinators that answered."""
    rows = [
        {
            "transactional_id": one.transactional_id,
            "state": one.state,
            "producer_id": one.producer_id,
            "coordinator": one.coordinator,
        }
        for some in found.values.values()
        for one in some
    ]
    return sorted(rows, key=lambda row: str(row["transactional_id"]))


def transaction_row(one: TransactionDescription) -> Row:
    return {
        "transactional_id": one.transactional_id,
        "state": one.state,
        "producer_id": one.producer_id,
        "epoch": one.producer_epoch,
        "timeout_ms": one.timeout_ms,
        "began_ms": one.began_ms if one.began_ms >= 0 else None,
        "partitions": [place_text(place) for place in sorted(one.partitions)],
    }


def producer_row(place: TopicPartition, one: ActiveProducer) -> Row:
    """A producer that has written to a partition, and the begin of its open transaction."""
    return {
        "partition": place_text(place),
        "producer_id": one.producer_id,
        "epoch": one.producer_epoch,
        "last_sequence": one.last_sequence,
        "last_ms": one.last_timestamp_ms,
        "open_since_offset": one.first_offset if one.first_offset >= 0 else None,
    }
