"""Jute: every record comes back as it was, and damaged bytes raise nothing but ProtocolError."""

import contextlib
import random
import tracemalloc
from typing import Any, get_args, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pybroker_kafka.protocol.errors import ProtocolError
from pybroker_kafka.protocol.zookeeper import jute
from pybroker_kafka.protocol.zookeeper.constants import OPEN_ACL, Op
from pybroker_kafka.protocol.zookeeper.jute import ACL, Id, Stat
from pybroker_kafka.zookeeper import txn_bytes
from pybroker_kafka.zookeeper.quorum import packets
from pybroker_kafka.zookeeper.txn_bytes import decode_txn
from tests.support import examples
from tests.support.zookeeper_machine import World
from tests.unit.zookeeper.test_wal import busy_world

# Modules whose records are tried, beside those of clients and logs.
IMPORTED = (packets, txn_bytes)
MUTATIONS = examples.of(100)  # of each example; over all record types about 50 000

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
int32 = st.integers(-(1 << 31), (1 << 31) - 1)
int64 = st.integers(-(1 << 63), (1 << 63) - 1)
ids = st.builds(Id, text, text)
acl = st.builds(ACL, int32, ids)
stats = st.builds(Stat, int64, int64, int64, int64, int32, int32, int32, int64, int32, int32, int64)
LONG_FIELDS = (
    "zxid_seen",
    "session_id",
    "relative_zxid",
    "ttl_ms",
    "config_id",
    "zxid",
    "time_ms",
    "owner",
)


def records_in(hint: Any) -> list[Any]:
    """The types of records in the type of a field."""
    if hint in jute.record_types():
        return [hint]
    return [found for part in get_args(hint) for found in records_in(part)]


def values_of(cls: Any) -> st.SearchStrategy[Any]:
    """A strategy for a record, from the types of its fields."""
    if cls is Stat:
        return stats
    if cls is ACL:
        return acl
    if cls is Id:
        return ids
    fields: list[st.SearchStrategy[Any]] = []
    for name, hint in get_type_hints(cls).items():
        if hint is int:
            fields.append(int64 if name.endswith(LONG_FIELDS) else int32)
        elif hint is bool:
            fields.append(st.booleans())
        elif hint is Stat:
            fields.append(stats)
        elif "ACL" in str(hint):
            acls = st.lists(acl, max_size=3)
            fields.append(acls.map(tuple) if "tuple" in str(hint) else acls)
        elif elements := records_in(hint):
            lists = st.lists(values_of(elements[0]), max_size=3)
            fields.append(lists | st.none() if type(None) in get_args(hint) else lists)
        elif "list[str]" in str(hint):
            fields.append(st.lists(text, max_size=3))
        elif "bytes" in str(hint):
            fields.append(st.binary(max_size=20) | st.none())
        else:
            assert "str" in str(hint), (cls, name, hint)
            fields.append(text | st.none())
    return st.tuples(*fields).map(lambda values: cls(*values))


def same(left: Any, right: Any) -> bool:
    if isinstance(left, tuple | list) and isinstance(right, tuple | list):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right)


@pytest.mark.parametrize("cls", jute.record_types(), ids=lambda cls: cls.__name__)
@given(data=st.data())
@settings(max_examples=60)
def test_round_trip_and_every_prefix(cls: type[Any], data: st.DataObject) -> None:
    value = data.draw(values_of(cls))
    encoded = jute.encode(value)
    decoded, end = jute.decode_from(cls, encoded, 0)
    assert same(decoded, value)
    assert end == len(encoded)
    for size in range(len(encoded)):
        with pytest.raises(ProtocolError):
            jute.decode(cls, encoded[:size])


@pytest.mark.parametrize("cls", jute.record_types(), ids=lambda cls: cls.__name__)
@given(data=st.data(), rng=st.randoms(use_true_random=False))
@settings(max_examples=10)
def test_mutated_records_raise_only_protocol_errors(
    cls: type, data: st.DataObject, rng: random.Random
) -> None:
    encoded = jute.encode(data.draw(values_of(cls)))
    for _ in range(MUTATIONS):
        with contextlib.suppress(ProtocolError):
            jute.decode(cls, mutated(encoded, rng))


def test_mutated_transactions_raise_only_protocol_errors() -> None:
    rng = random.Random(20_241_121)
    records = busy_world().records
    refused = 0
    for _ in range(5000):
        try:
            decode_txn(mutated(rng.choice(records), rng))
        except ProtocolError:
            refused += 1
    assert 0 < refused < 5000


def mutated(encoded: bytes, rng: random.Random) -> bytes:
    result = bytearray(encoded)
    for _ in range(rng.randint(1, 3)):
        result[rng.randrange(len(result))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF))
    return bytes(result)


def test_a_length_or_count_is_checked_before_anything_is_allocated() -> None:
    huge = b"\x7f\xff\xff\xff"
    tracemalloc.start()
    for cls, encoded in (
        (jute.PathRequest, huge),
        (jute.PathsResponse, huge),
        (jute.SetWatches, bytes(8) + huge),
        (jute.WhoAmIResponse, huge + bytes(100)),
    ):
        with pytest.raises(ProtocolError, match="are left"):
            jute.decode(cls, encoded)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100_000


def test_mutated_frames_never_break_the_machine() -> None:
    """A client sends garbage in place of requests; another one is served as before."""
    rng = random.Random(20_241_122)
    world = World()
    frames = _request_frames()
    for number in range(8000):
        if number % 50 == 0:
            client = world.client()
        frame = mutated(rng.choice(frames), rng)
        try:
            world.machine.receive(client.connection, frame, world.now_ms)
        except ProtocolError:
            client.drop()
            client = world.client()
        world.settle()
        if client.is_closed:
            client = world.client()
    survivor = world.client()
    survivor.create("/alive", b"yes")
    assert "alive" in survivor.children("/")


def _request_frames() -> list[bytes]:
    """One frame for every kind of request, taken from a client that sends them all."""
    frames: list[bytes] = []
    world = World()
    client = world.client()
    receive = world.machine.receive

    class Tap:
        """Stands where the machine is called, to see the frames."""

        def __getattr__(self, name: str) -> Any:
            return getattr(machine, name)

        def receive(self, connection: Any, frame: bytes, now_ms: int) -> None:
            frames.append(frame)
            receive(connection, frame, now_ms)

    machine = world.machine
    world.machine = Tap()  # type: ignore[assignment]
    client.create("/a", b"x")
    client.create("/a/s-", b"x", flags=2)
    client.create("/c", b"x", flags=4, op=Op.CREATE_CONTAINER)
    client.call(Op.CREATE_TTL, jute.CreateTTLRequest("/t", b"", list(OPEN_ACL), 5, 1000))
    client.call(Op.SET_DATA, jute.SetDataRequest("/a", b"y", -1))
    client.call(Op.SET_ACL, jute.SetACLRequest("/a", list(OPEN_ACL), -1))
    client.call(Op.DELETE, jute.DeleteRequest("/c", -1))
    for op in (Op.EXISTS, Op.GET_DATA, Op.GET_CHILDREN, Op.GET_CHILDREN2):
        client.call(op, jute.PathWatchRequest("/a", True))
    for op in (Op.GET_ACL, Op.SYNC, Op.GET_EPHEMERALS, Op.GET_ALL_CHILDREN_NUMBER):
        client.call(op, jute.PathRequest("/a"))
    for op in (Op.ADD_WATCH, Op.CHECK_WATCHES, Op.REMOVE_WATCHES):
        client.call(op, jute.WatchRequest("/a", 1))
    client.multi(
        (Op.CREATE, jute.CreateRequest("/m", b"", list(OPEN_ACL), 0)),
        (Op.CHECK, jute.CheckVersionRequest("/m", 0)),
        (Op.DELETE, jute.DeleteRequest("/m", 0)),
    )
    client.call(Op.SET_WATCHES2, jute.SetWatches2(0, ["/a"], ["/b"], ["/a"], ["/a"], ["/a"]))
    client.call(Op.SET_WATCHES, jute.SetWatches(0, ["/a"], ["/b"], ["/a"]))
    client.call(Op.AUTH, jute.AuthPacket(0, "digest", b"u:p"))
    client.call(Op.RECONFIG, jute.ReconfigRequest("", "", None, -1))
    client.call(Op.WHO_AM_I)
    client.call(Op.PING)
    client.call(Op.CLOSE_SESSION)
    assert len(frames) >= 25
    return frames
