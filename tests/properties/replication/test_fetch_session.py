"""Fetch sessions against a dumb twin that keeps the client's full view.

The twin is a client without sessions: after each accepted request it knows every partition that it
asks for, and the last data of each. With a session, the client applies only what the response
holds; both views must agree after every round, and the order of reading must be fair.
"""

from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pybroker_kafka.protocol.apis.fetch import FetchResponsePartitionData
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.replication.fetch_session import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    Answer,
    FetchContext,
    FetchSessions,
    SessionKey,
    next_epoch,
)
from pybroker_kafka.replication.reader import error_data
from pybroker_kafka.replication.types import FetchEntry

_PARTITIONS = st.integers(0, 5)
_ROUNDS = st.lists(
    st.tuples(
        st.dictionaries(_PARTITIONS, st.integers(0, 100), max_size=4),  # changed fetch offsets
        st.sets(_PARTITIONS, max_size=2),  # forgotten
        st.dictionaries(  # what happens on the broker: (HW moves, log start moves, records, error)
            _PARTITIONS,
            st.tuples(st.integers(0, 2), st.integers(0, 1), st.booleans(), st.booleans()),
            max_size=4,
        ),
        st.sampled_from(["next", "next", "next", "repeat", "skip", "unknown id"]),
    ),
    max_size=25,
)


@dataclass
class Broker:
    """What a read would find, by partition."""

    high_watermark: dict[int, int] = field(default_factory=dict)
    log_start: dict[int, int] = field(default_factory=dict)
    records: dict[int, bool] = field(default_factory=dict)
    error: dict[int, bool] = field(default_factory=dict)

    def read(self, partition: int) -> FetchResponsePartitionData:
        if self.error.get(partition):
            return error_data(partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        data = error_data(partition, ErrorCode.NONE)
        data.high_watermark = self.high_watermark.get(partition, 0)
        data.log_start_offset = self.log_start.get(partition, 0)
        data.records = b"records" if self.records.get(partition) else b""
        return data


def _view(data: FetchResponsePartitionData) -> tuple[int, int, int]:
    return data.error_code, data.high_watermark, data.log_start_offset


def _entries(offsets: dict[int, int]) -> dict[SessionKey, FetchEntry]:
    return {
        ("topic", partition): FetchEntry("topic", partition, fetch_offset=offset, max_bytes=10)
        for partition, offset in offsets.items()
    }


@settings(max_examples=300, deadline=None)
@given(rounds=_ROUNDS, start=st.dictionaries(_PARTITIONS, st.integers(0, 9), min_size=1))
def test_agrees_with_full_fetches(rounds: list[tuple[Any, ...]], start: dict[int, int]) -> None:
    ids = iter(range(100, 1000))
    sessions = FetchSessions(lambda low, high: next(ids), slots=4)
    broker = Broker()

    def send(
        session_id: int, epoch: int, changes: dict[int, int], forgotten: set[int]
    ) -> tuple[FetchContext, ErrorCode, int, Answer]:
        context = sessions.begin(
            session_id,
            epoch,
            _entries(changes),
            [("topic", partition) for partition in forgotten],
            is_follower=False,
            uses_topic_ids=False,
            now_ms=0,
        )
        results = [broker.read(entry.partition) for entry in context.entries]
        return context, *context.finish(results)

    wanted = dict(start)
    context, error, session_id, answer = send(NO_SESSION, INITIAL_EPOCH, wanted, set())
    assert error is ErrorCode.NONE
    assert session_id == 100
    view = {entry.partition: _view(data) for entry, data in answer}
    epoch = 1
    order = list(start)
    for changes, forgotten, events, kind in rounds:
        for partition, (hw_moves, start_moves, records, fails) in events.items():
            broker.high_watermark[partition] = broker.high_watermark.get(partition, 0) + hw_moves
            broker.log_start[partition] = broker.log_start.get(partition, 0) + start_moves
            broker.records[partition] = records
            broker.error[partition] = fails
        if kind == "unknown id":
            _, error, closed_id, answer = send(7, epoch, changes, forgotten)
            assert (error, closed_id) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, NO_SESSION)
            assert not answer
            continue
        if kind != "next":
            wrong = epoch + 1 if kind == "skip" else max(epoch - 1, 1)
            if wrong != epoch:
                _, error, closed_id, answer = send(session_id, wrong, changes, forgotten)
                assert (error, closed_id) == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, NO_SESSION)
                assert not answer
            continue
        order += [partition for partition in changes if partition not in wanted]
        wanted.update(changes)
        for partition in forgotten:
            if wanted.pop(partition, None) is not None:
                order.remove(partition)
                view.pop(partition, None)
        context, error, answered_id, answer = send(session_id, epoch, changes, forgotten)
        assert error is ErrorCode.NONE
        if not wanted:
            assert answered_id == NO_SESSION
            assert len(sessions) == 0
            return
        assert answered_id == session_id
        assert [entry.partition for entry in context.entries] == order
        assert {entry.partition: entry.fetch_offset for entry in context.entries} == wanted
        with_records = [entry.partition for entry, data in answer if data.records]
        order = [partition for partition in order if partition not in with_records] + with_records
        view.update({entry.partition: _view(data) for entry, data in answer})
        assert view == {partition: _view(broker.read(partition)) for partition in wanted}
        must_be_sent = {p for p in wanted if broker.records.get(p) or broker.error.get(p)}
        must_be_sent = {p for p in must_be_sent if broker.read(p).records or broker.error.get(p)}
        assert must_be_sent <= {entry.partition for entry, _ in answer}
        epoch = next_epoch(epoch)


@settings(max_examples=200, deadline=None)
@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["create", "create", "use", "close"]),
            st.booleans(),
            st.integers(1, 4),
            st.sampled_from([0, 1, 60_000, 121_000]),
            st.integers(0, 20),
        ),
        max_size=50,
    )
)
def test_eviction_agrees_with_the_rule(steps: list[tuple[Any, ...]]) -> None:
    """The twin keeps plain tuples and states the rule of KIP-227 directly."""
    slots = 3
    ids = iter(range(1, 1000))
    sessions = FetchSessions(lambda low, high: next(ids), slots=slots)
    twin: dict[int, dict[str, int | bool]] = {}
    now_ms = 0
    for action, privileged, size, wait_ms, pick in steps:
        now_ms += wait_ms
        changes: dict[SessionKey, FetchEntry] = {
            ("t", partition): FetchEntry("t", partition, fetch_offset=0, max_bytes=1)
            for partition in range(size)
        }
        if action == "create":
            context = sessions.begin(
                0, INITIAL_EPOCH, changes, [], is_follower=privileged, uses_topic_ids=False,
                now_ms=now_ms,
            )  # fmt: skip
            results = [error_data(entry.partition, ErrorCode.NONE) for entry in context.entries]
            _, session_id, _ = context.finish(results)
            expected = len(twin) < slots
            if not expected:
                idle = min(twin, key=lambda s: (twin[s]["used"], twin[s]["turn"]))
                if now_ms - twin[idle]["used"] > 120_000:
                    del twin[idle]
                    expected = True
                else:
                    weak = [
                        (s["privileged"], s["size"], key)
                        for key, s in twin.items()
                        if s["used"] - s["created"] > 120_000
                        or (privileged and not s["privileged"])
                    ]
                    if weak and (privileged, size, 0) >= min(weak):
                        del twin[min(weak)[2]]
                        expected = True
            assert (session_id != NO_SESSION) is expected
            if expected:
                twin[session_id] = {
                    "privileged": privileged, "size": size, "created": now_ms, "used": now_ms,
                    "epoch": 1, "turn": next(ids),
                }  # fmt: skip
        elif twin:
            session_id = sorted(twin)[pick % len(twin)]
            if action == "close":
                sessions.begin(
                    session_id, FINAL_EPOCH, {}, [], is_follower=False, uses_topic_ids=False,
                    now_ms=now_ms,
                )  # fmt: skip
                del twin[session_id]
            else:
                context = sessions.begin(
                    session_id, int(twin[session_id]["epoch"]), {}, [], is_follower=False,
                    uses_topic_ids=False, now_ms=now_ms,
                )  # fmt: skip
                assert context.error_code is ErrorCode.NONE
                twin[session_id]["used"] = now_ms
                twin[session_id]["turn"] = next(ids)
                twin[session_id]["epoch"] = next_epoch(int(twin[session_id]["epoch"]))
        assert len(sessions) == len(twin)
        assert sessions.partition_count == sum(int(s["size"]) for s in twin.values())
