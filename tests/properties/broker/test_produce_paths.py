"""The short way of the usual produce request and the way of every other one: two brokers get the
same requests, one of them without the short way, and nobody can tell them apart."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pybroker_kafka.broker.handlers.produce import ProduceHandler
from pybroker_kafka.broker.network.request import Request
from pybroker_kafka.protocol.apis.produce import ProduceRequest
from pybroker_kafka.protocol.records.builder import build_batch
from pybroker_kafka.protocol.records.compression import Compression
from pybroker_kafka.protocol.records.record import SimpleRecord
from pybroker_kafka.replication.types import FlushNeeded
from tests.support.conversions import build_message_set
from tests.support.fields import fields_of
from tests.support.handlers import Call
from tests.support.replication import KEY, ME, NOW, TOPIC, batch
from tests.support.replication_handlers import HandlerBroker

INTERNAL = "__consumer_offsets"
CONFIGS: list[dict[str, str]] = [
    {},
    {},
    {"cleanup.policy": "compact"},
    {"message.timestamp.type": "LogAppendTime"},
    {"compression.type": "gzip"},
    {"max.message.bytes": "300"},
    {"flush.messages": "1"},
    {"min.insync.replicas": "2"},
    {"message.timestamp.after.max.ms": "1000"},
    {"segment.bytes": "400"},
]


class LongWay(ProduceHandler):
    __slots__ = ()

    def _produce_plain(self, request: Request, body: ProduceRequest) -> bool:
        return False


@dataclass(slots=True, frozen=True)
class Produce:
    version: int
    acks: int
    topic: str
    records: bytes | None
    client_id: str


@dataclass(slots=True, frozen=True)
class Follow:
    """The other replica fetches at the leader's end, less so many."""

    behind: int


@dataclass(slots=True, frozen=True)
class Pass:
    """So much time goes by."""

    ms: int


@dataclass(slots=True, frozen=True)
class Sync:
    """The disk has done what was asked of it."""


Step = Produce | Follow | Pass | Sync


@st.composite
def some_records(draw: st.DrawFn) -> bytes | None:
    kind = draw(st.integers(0, 11))
    if kind == 0:
        return draw(st.sampled_from([None, b"", bytes(30)]))
    keyed = draw(st.booleans())
    records = [
        SimpleRecord(NOW + draw(st.sampled_from([0, 0, 5, 5_000])), b"k" if keyed else None, value)
        for value in draw(st.lists(st.binary(max_size=40), min_size=1, max_size=4))
    ]
    if kind == 1:
        return bytes(build_message_set(records, magic=draw(st.integers(0, 1))))
    options: dict[str, Any] = {}
    if draw(st.integers(0, 2)) == 0:
        options = {
            "producer_id": draw(st.integers(1, 2)),
            "producer_epoch": draw(st.integers(0, 1)),
            "base_sequence": draw(st.integers(0, 6)),
            "is_transactional": draw(st.integers(0, 4)) == 0,
        }
    codec = draw(st.sampled_from([Compression.NONE, *Compression]))
    made = build_batch(records, compression=codec, **options)
    if kind == 2:
        made += batch(b"another")
    if kind == 3:
        made[draw(st.integers(0, len(made) - 1))] ^= draw(st.integers(1, 255))
    if kind == 4:
        del made[draw(st.integers(0, len(made))) :]
    return bytes(made)


steps = st.one_of(
    st.builds(
        Produce,
        st.integers(0, 11),
        st.sampled_from([1, 1, 1, -1, -1, 0, 2]),
        st.sampled_from([TOPIC] * 8 + ["nobody", INTERNAL]),
        some_records(),
        st.sampled_from(["client", "client", "__admin_client"]),
    ),
    st.builds(Follow, st.integers(0, 2)),
    st.builds(Pass, st.sampled_from([1, 500, 1_500])),
    st.just(Sync()),
)


class Side:
    """One of the two brokers, and all that it has answered."""

    def __init__(self, directory: Path, config: dict[str, str], replicas: tuple[int, ...]) -> None:
        directory.mkdir()
        self.directory = directory
        self.broker = HandlerBroker(directory, topic_config=config)
        self.broker.lead(replicas=replicas)
        self.broker.cluster.role(topic=INTERNAL, topic_id=b"o" * 16)
        self.calls: list[Call] = []
        self.flushes: list[FlushNeeded] = []
        flusher: Any = SimpleNamespace(request=self.flushes.append)
        self.broker.replica_runtime.flusher = flusher

    def take(self, step: Step) -> None:
        broker, cluster = self.broker, self.broker.cluster
        if isinstance(step, Produce):
            self.calls.append(
                broker.produce(
                    step.version,
                    step.records,
                    acks=step.acks,
                    topic=step.topic,
                    client_id=step.client_id,
                    transactional_id="t" if step.version >= 3 else None,
                )
            )
        elif isinstance(step, Follow):
            end = cluster.partition.log.log_end_offset
            cluster.follow(2, max(0, end - step.behind))
        elif isinstance(step, Sync):
            for effect in self.flushes:
                effect.log.flush(effect.offset)
                cluster.manager.flushed(*KEY, effect.offset, cluster.now_ms)
            self.flushes.clear()
        else:
            cluster.now_ms += step.ms
            cluster.manager.waiting.tick(cluster.now_ms)
        broker.replica_runtime.apply_effects()

    def state(self) -> Any:
        """Everything that can be seen from outside."""
        partition = self.broker.cluster.partition
        log = partition.log
        return (
            [call.answer for call in self.calls],
            (log.log_end_offset, log.high_watermark, log.last_stable_offset, log.log_start_offset),
            fields_of(partition.stats),
            [
                (conversions.count, conversions.total_bytes)
                for call in self.calls
                for conversions in [call.request.metrics.conversions]
            ],
            {
                path.relative_to(self.directory): path.read_bytes()
                for path in sorted(self.directory.rglob("*.log"))
            },
        )


@contextmanager
def two_sides(config: dict[str, str], replicas: tuple[int, ...]) -> Iterator[tuple[Side, Side]]:
    with tempfile.TemporaryDirectory() as directory:
        short = Side(Path(directory) / "short", config, replicas)
        long = Side(Path(directory) / "long", config, replicas)
        long.broker.produces = LongWay(long.broker.replica_runtime)
        yield short, long


@settings(max_examples=100)
@given(st.sampled_from(CONFIGS), st.sampled_from([(ME,), (ME, 2)]), st.lists(steps, max_size=8))
def test_both_ways_do_the_same(
    config: dict[str, str], replicas: tuple[int, ...], history: list[Step]
) -> None:
    with two_sides(config, replicas) as (short, long):
        for step in history:
            short.take(step)
            long.take(step)
            assert short.state() == long.state()
        assert KEY in short.broker.cluster.manager.partitions
