"""Message classes as values: constructors, defaults, equality, and what importing them costs."""

from __future__ import annotations

import subprocess
import sys
from copy import copy
from pathlib import Path
from typing import Any

import pytest

from pybroker_kafka.protocol.apis.fetch import FetchPartition, FetchRequest, ReplicaState
from pybroker_kafka.protocol.apis.join_group import JoinGroupRequest
from pybroker_kafka.protocol.apis.metadata import MetadataRequest
from pybroker_kafka.protocol.apis.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponseLeaderIdAndEpoch,
)
from pybroker_kafka.protocol.schema import (
    NO_TAGS,
    Message,
    Struct,
    array,
    int32,
    made_by_readers,
    message,
    shared_default,
    string,
    version_range,
)
from tests.support.message_factory import all_messages

ROOT = Path(__file__).resolve().parents[3]


def test_defaults_are_kafkas() -> None:
    request = FetchRequest()
    assert request.replica_id == -1
    assert request.max_bytes == 0x7FFFFFFF
    assert request.cluster_id is None
    assert request.topics == []
    assert request.rack_id == ""
    assert request.unknown_tagged_fields == {}
    assert JoinGroupRequest().rebalance_timeout_ms == -1


def test_arguments_are_named_and_known() -> None:
    partition: Any = FetchPartition
    assert partition(partition=3, fetch_offset=9).fetch_offset == 9
    with pytest.raises(TypeError):
        partition(3)
    with pytest.raises(TypeError):
        partition(no_such_field=3)


def test_instances_are_slotted_and_their_lists_their_own() -> None:
    one: Any = FetchRequest()
    other = FetchRequest()
    one.topics.append(None)
    assert other.topics == []
    with pytest.raises(AttributeError):
        one.no_such_field = 1
    for cls in all_messages():
        assert not hasattr(cls(), "__dict__"), cls.__name__


def test_equality_is_by_value() -> None:
    assert FetchPartition(partition=3) == FetchPartition(partition=3)
    assert FetchPartition(partition=3) != FetchPartition(partition=4)
    assert FetchPartition() != ReplicaState()
    assert MetadataRequest() != MetadataRequest(unknown_tagged_fields={1: b""})
    assert FetchPartition() != "FetchPartition()"
    with pytest.raises(TypeError):
        hash(FetchPartition())


def test_repr_names_class_and_fields() -> None:
    assert repr(ReplicaState(replica_id=3)) == "ReplicaState(replica_id=3, replica_epoch=-1)"
    tagged = ReplicaState(unknown_tagged_fields={7: b"x"})
    assert repr(tagged).endswith("unknown_tagged_fields={7: b'x'})")
    assert repr(ReplicaState._fields[0]) == "<int32 replica_id 15+>"


def test_an_absent_struct_is_shared_and_cannot_be_changed() -> None:
    response = PartitionProduceResponse()
    assert response.current_leader is PartitionProduceResponse().current_leader
    assert response.current_leader == ProduceResponseLeaderIdAndEpoch()
    assert repr(response.current_leader).startswith("ProduceResponseLeaderIdAndEpoch(")
    with pytest.raises(AttributeError, match="assign a new one"):
        response.current_leader.leader_id = 4
    assert shared_default(ReplicaState) is shared_default(ReplicaState)
    assert isinstance(shared_default(ReplicaState), ReplicaState)


def test_no_tags_cannot_be_changed() -> None:
    tags: Any = NO_TAGS
    with pytest.raises(TypeError):
        tags[1] = b""


def test_what_readers_make_is_of_the_class() -> None:
    bare = made_by_readers(FetchPartition)
    read = bare()
    assert type(read) is FetchPartition
    for field in FetchPartition._fields:
        setattr(read, field.name, field.default)
    read.unknown_tagged_fields = NO_TAGS
    assert read == FetchPartition()
    assert repr(read) == repr(FetchPartition())
    assert copy(read) == read


def test_a_definition_of_ones_own() -> None:
    class Pair(Struct):
        left: int = int32()
        right: str | None = string("1+", nullable="1+", default=None)

    @message(kind="data", valid="0-1", flexible="1+")
    class Pairs(Message):
        pairs: list[Pair] = array(Pair)

    assert Pairs(pairs=[Pair(left=1)]) == Pairs(pairs=[Pair(left=1, right=None)])
    assert Pairs._spec.api_key == -1
    assert [field.name for field in Pair._fields] == ["left", "right"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("none", (0, -1)), ("3+", (3, 32767)), ("0-2", (0, 2)), ("5", (5, 5))],
)
def test_version_ranges(text: str, expected: tuple[int, int]) -> None:
    assert version_range(text) == expected


def test_importing_one_page_does_not_import_the_others() -> None:
    """What start-up does not speak, it does not pay for."""
    script = """
import sys
from pybroker_kafka.protocol.api import API_TABLE, request_class
assert not [name for name in sys.modules if name.startswith("pybroker_kafka.protocol.apis.")]
request_class(0)
print(sorted(name for name in sys.modules if name.startswith("pybroker_kafka.protocol.apis.")))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "['pybroker_kafka.protocol.apis.produce']"
    assert ProduceRequest._spec.api_key == 0
