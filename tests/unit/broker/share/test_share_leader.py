"""ShareFetch and ShareAcknowledge over real logs, with states in memory and trio's time."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.invariants import BrokenInvariant
from pybroker_kafka.replication.offsets import LATEST_TIMESTAMP
from pybroker_kafka.replication.share.in_flight import RecordState
from pybroker_kafka.replication.share.share_partition import Phase, SharePartition
from tests.support.replication import ME, batch
from tests.support.replication_handlers import values
from tests.support.share_leading import ShareBroker

Test = Callable[[ShareBroker], Awaitable[None]]
ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4


def run(directory: Path, test: Test, *, leads: bool = True, **options: Any) -> None:
    async def main() -> None:
        broker = ShareBroker(directory, **options)
        if leads:
            broker.lead()
        async with trio.open_nursery() as nursery:
            await broker.run(nursery)
            await test(broker)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def part_of(answer: Any) -> Any:
    assert answer.error_code == 0
    (topic,) = answer.responses
    (part,) = topic.partitions
    return part


def acquired(part: Any) -> list[tuple[int, int, int]]:
    return [
        (each.first_offset, each.last_offset, each.delivery_count) for each in part.acquired_records
    ]


async def opened(broker: ShareBroker, member: str = "m", **options: Any) -> None:
    """Open a session, and let the state be read."""
    answer = await broker.share_fetch(0, member=member, max_wait_ms=10, **options).wait()
    assert answer.error_code == 0


def test_records_are_accepted_once(tmp_path: Path) -> None:
    async def test(broker: ShareBroker) -> None:
        broker.produced(9, batch(b"a", b"b"))
        first = part_of(await broker.share_fetch(0, max_wait_ms=500).wait())
        assert acquired(first) == [(0, 1, 1)]
        assert values(first.records) == [b"a", b"b"]
        answer = await broker.share_acknowledge(1, [(0, 1, [ACCEPT])]).wait()
        assert part_of(answer).error_code == 0
        assert answer.acquisition_lock_timeout_ms == 1000
        assert broker.persister.states == {0: (2, 1), 1: (2, 1)}
        nothing = await broker.share_fetch(2, max_wait_ms=100).wait()
        assert nothing.responses == []
        call = broker.share_fetch(3, max_wait_ms=10_000)
        await trio.testing.wait_all_tasks_blocked()
        assert call.waits
        broker.produced(9, batch(b"c"))
        assert acquired(part_of(await call.wait())) == [(2, 2, 1)]

    run(tmp_path, test)


def test_a_fetch_acknowledges(tmp_path: Path) -> None:
    async def test(broker: ShareBroker) -> None:
        broker.produced(9, batch(b"a", b"b", b"c"))
        await opened(broker)
        part = part_of(
            await broker.share_fetch(1, acknowledge=[(0, 2, [ACCEPT, RELEASE, REJECT])]).wait()
        )
        assert (part.acknowledge_error_code, acquired(part)) == (0, [])
        part = part_of(await broker.share_fetch(2, max_wait_ms=100).wait())
        assert acquired(part) == [(1, 1, 2)]
        await broker.share_fetch(3, acknowledge=[(1, 1, [RELEASE])]).wait()
        assert acquired(part_of(await broker.share_fetch(4, max_wait_ms=100).wait())) == [(1, 1, 3)]
        await broker.share_fetch(5, acknowledge=[(1, 1, [RELEASE])]).wait()
        assert (await broker.share_fetch(6, max_wait_ms=100).wait()).responses == []
        assert broker.persister.states[1] == (RecordState.ARCHIVED, 3)

    run(tmp_path, test)


def test_locks_end(tmp_path: Path) -> None:
    async def test(broker: ShareBroker) -> None:
        broker.produced(9, batch(b"a"))
        await opened(broker)
        await opened(broker, "n")
        call = broker.share_fetch(1, member="n", max_wait_ms=5000)
        start = trio.current_time()
        assert acquired(part_of(await call.wait())) == [(0, 0, 2)]
        assert trio.current_time() - start == pytest.approx(1, abs=0.1)
        refused = part_of(await broker.share_acknowledge(1, [(0, 0, [ACCEPT])]).wait())
        assert refused.error_code == ErrorCode.INVALID_RECORD_STATE
        assert [served.lock_timeouts for served in broker.shares.served.values()] == [1]

    run(tmp_path, test)


def test_locks_are_renewed(tmp_path: Path) -> None:
    async def test(broker: ShareBroker) -> None:
        broker.produced(9, batch(b"a"))
        await opened(broker)
        for epoch in range(1, 6):
            await trio.sleep(0.6)
            answer = await broker.share_acknowledge(
                epoch, [(0, 0, [RENEW])], is_renew_ack=True
            ).wait()
            assert part_of(answer).error_code == 0
        answer = await broker.share_fetch(
            6, acknowledge=[(0, 0, [RENEW])], is_renew_ack=True, max_records=0, max_bytes=0,
            min_bytes=0,
        ).wait()  # fmt: skip
        assert part_of(answer).acknowledge_error_code == 0
        wrong = await broker.share_fetch(7, is_renew_ack=True).wait()
        assert wrong.error_code == ErrorCode.INVALID_REQUEST
        part = part_of(await broker.share_acknowledge(7, [(0, 0, [RENEW])]).wait())
        assert part.error_code == ErrorCode.INVALID_REQUEST
        part = part_of(await broker.share_acknowledge(8, [(0, 0, [RENEW])], version=1).wait())
        assert part.error_code == ErrorCode.INVALID_REQUEST
        assert part_of(await broker.share_acknowledge(9, [(0, 0, [ACCEPT])]).wait()).error_code == 0

    run(tmp_path, test)


def test_a_closed_session_and_a_closed_connection_give_back(tmp_path: Path) -> None:
    async def test(broker: ShareBroker) -> None:
        broker.produced(9, batch(b"a", b"b"))
        await opened(broker)
        assert (await broker.share_acknowledge(-1, [(0, 0, [ACCEPT])]).wait()).error_code == 0
        gone = await broker.share_acknowledge(1, []).wait()
        assert gone.error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
        call = broker.share_fetch(0, member="n", max_wait_ms=500)
        assert acquired(part_of(await call.wait())) == [(1, 1, 2)]
        (session,) = call.known_waits
        await opened(broker, "o")
        waiting = broker.share_fetch(1, member="o", max_wait_ms=500)
        session.cancel()
        assert acquired(part_of(await waiting.wait())) == [(1, 1, 3)]
        assert broker.shares.sessions.evictions == 1

    run(tmp_path, test)


def test_the_last_connection_of_a_group_frees_its_share_partitions(tmp_path: Path) -> None:
    async def test(broker: ShareBroker) -> None:
        broker.produced(9, batch(b"a"))
        call = broker.share_fetch(0, max_wait_ms=500)
        await call.wait()
        assert len(broker.shares.served) == 1
        (session,) = call.known_waits
        session.cancel()
        assert not broker.shares.served
        assert acquired(part_of(await broker.share_fetch(0, max_wait_ms=500).wait())) == [(0, 0, 2)]

    run(tmp_path, test)


def test_sessions(tmp_path: Path) -> None:
    async def test(broker: ShareBroker) -> None:
        code = ErrorCode.SHARE_SESSION_NOT_FOUND
        assert (await broker.share_fetch(1).wait()).error_code == code
        assert (await broker.share_fetch(-1).wait()).error_code == code
        code = ErrorCode.INVALID_SHARE_SESSION_EPOCH
        assert (await broker.share_acknowledge(0, []).wait()).error_code == code
        await opened(broker)
        assert (await broker.share_fetch(2).wait()).error_code == code
        answer = await broker.share_fetch(0, acknowledge=[(0, 0, [ACCEPT])]).wait()
        assert answer.error_code == ErrorCode.INVALID_REQUEST
        await opened(broker, "n")
        start = trio.current_time()
        refused = await broker.share_fetch(0, member="o", max_wait_ms=700).wait()
        assert refused.error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
        assert trio.current_time() - start == pytest.approx(0.7)
        for options in ({"group": None}, {"member": ""}, {"member": "x" * 37}):
            answer = await broker.share_fetch(0, **options).wait()
            assert answer.error_code == ErrorCode.INVALID_REQUEST
        broker.levels = {}
        answer = await broker.share_fetch(0).wait()
        assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION

    run(tmp_path, test, sessions=2)


def test_a_session_may_begin_before_the_broker_knows_the_topic(tmp_path: Path) -> None:
    async def test(broker: ShareBroker) -> None:
        part = part_of(await broker.share_fetch(0).wait())
        assert part.error_code == ErrorCode.UNKNOWN_TOPIC_ID
        broker.lead()
        broker.produced(9, batch(b"a"))
        assert acquired(part_of(await broker.share_fetch(1, max_wait_ms=500).wait())) == [(0, 0, 1)]

    run(tmp_path, test, leads=False)


def test_unknown_partitions(tmp_path: Path) -> None:
    async def test(broker: ShareBroker) -> None:
        part = part_of(await broker.share_fetch(0, topic_id=bytes(16)).wait())
        assert part.error_code == ErrorCode.UNKNOWN_TOPIC_ID
        part = part_of(await broker.share_fetch(0, partitions=(7,)).wait())
        assert part.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    run(tmp_path, test)


def test_a_new_leader(tmp_path: Path) -> None:
    async def test(broker: ShareBroker) -> None:
        broker.produced(9, batch(b"a", b"b"))
        await opened(broker)
        waiting = broker.share_fetch(1, max_wait_ms=60_000)
        broker.cluster.publish(2, leader_epoch=1)
        with broker.replica_runtime.applying:
            broker.cluster.role(2, replicas=(ME, 2), leader_epoch=1)
        part = part_of(await waiting.wait())
        assert part.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (part.current_leader.leader_id, part.current_leader.leader_epoch) == (2, 1)
        answer = await broker.share_acknowledge(2, [(0, 0, [ACCEPT])]).wait()
        assert part_of(answer).error_code in (
            ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        )  # fmt: skip
        with broker.replica_runtime.applying:
            broker.cluster.role(replicas=(ME, 2), isr=(ME,), leader_epoch=2)
        part = part_of(await broker.share_fetch(3, max_wait_ms=100).wait())
        assert acquired(part) == [(0, 1, 1)]  # nothing was stored

    run(tmp_path, test)


def test_a_leader_that_goes_on_keeps_its_state(tmp_path: Path) -> None:
    async def test(broker: ShareBroker) -> None:
        broker.produced(9, batch(b"a"))
        await opened(broker)
        with broker.replica_runtime.applying:
            broker.cluster.role(leader_epoch=1)
        assert part_of(await broker.share_acknowledge(1, [(0, 0, [ACCEPT])]).wait()).error_code == 0

    run(tmp_path, test)


@pytest.mark.parametrize(
    ("stored", "told"),
    [
        (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.GROUP_ID_NOT_FOUND),
        (ErrorCode.UNSUPPORTED_VERSION, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_failed_writes(tmp_path: Path, stored: ErrorCode, told: ErrorCode) -> None:
    async def test(broker: ShareBroker) -> None:
        broker.produced(9, batch(b"a"))
        await opened(broker)
        broker.persister.error = stored
        part = part_of(await broker.share_acknowledge(1, [(0, 0, [ACCEPT])]).wait())
        assert part.error_code == told
        broker.persister.error = ErrorCode.NONE
        part = part_of(await broker.share_fetch(2, max_wait_ms=5000).wait())
        is_kept = told in (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.UNKNOWN_SERVER_ERROR)
        assert acquired(part) == [(0, 0, 2 if is_kept else 1)]

    run(tmp_path, test)


def test_a_failed_read_is_told_and_tried_again(tmp_path: Path) -> None:
    async def test(broker: ShareBroker) -> None:
        broker.produced(9, batch(b"a"))
        broker.persister.error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        part = part_of(await broker.share_fetch(0, max_wait_ms=500).wait())
        assert part.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        broker.persister.error = ErrorCode.NONE
        assert acquired(part_of(await broker.share_fetch(1, max_wait_ms=500).wait())) == [(0, 0, 1)]

    run(tmp_path, test)


def test_changes_are_stored_in_order_and_together(tmp_path: Path) -> None:
    async def test(broker: ShareBroker) -> None:
        broker.produced(9, batch(*[b"x"] * 9))
        await opened(broker)
        held = broker.persister.held = trio.Event()
        calls = [
            broker.share_acknowledge(epoch, [(offset, offset, [ACCEPT])])
            for epoch, offset in enumerate((2, 0, 1, 5), 1)
        ]
        twice = broker.share_acknowledge(5, [(2, 2, [ACCEPT])])
        assert part_of(twice.answer).error_code == ErrorCode.INVALID_RECORD_STATE
        await trio.testing.wait_all_tasks_blocked()
        assert all(call.waits for call in calls)
        held.set()
        for call in calls:
            assert part_of(await call.wait()).error_code == 0
        assert [len(write.state_batches) for write in broker.persister.writes] == [2, 2]
        assert broker.persister.start_offset == 0
        await broker.share_acknowledge(6, [(3, 3, [ACCEPT])]).wait()
        assert broker.persister.start_offset == 3

    run(tmp_path, test)


def test_the_first_offset(tmp_path: Path) -> None:
    async def test(broker: ShareBroker) -> None:
        broker.produced(9, batch(b"old"))
        broker.settings = broker.settings._replace(reset=LATEST_TIMESTAMP)
        await opened(broker)
        broker.produced(9, batch(b"new"))
        part = part_of(await broker.share_fetch(1, max_wait_ms=100).wait())
        assert acquired(part) == [(1, 1, 1)]

    run(tmp_path, test)


def test_limits_of_bytes_and_records(tmp_path: Path) -> None:
    async def test(broker: ShareBroker) -> None:
        for _ in range(4):
            broker.produced(9, batch(b"a", b"b", b"c"))
        await opened(broker, max_records=0)
        part = part_of(
            await broker.share_fetch(1, max_records=4, share_acquire_mode=1, max_wait_ms=100).wait()
        )
        assert acquired(part) == [(0, 3, 1)]
        assert values(part.records) == [b"a", b"b", b"c"] * 2
        part = part_of(await broker.share_fetch(2, max_records=4).wait())
        assert acquired(part) == [(4, 5, 1), (6, 8, 1)]
        part = part_of(await broker.share_fetch(3, max_bytes=1).wait())
        assert acquired(part) == [(9, 11, 1)]
        waiting = broker.share_fetch(4, min_bytes=200, max_wait_ms=5000)
        broker.produced(9, batch(b"d"))
        await trio.testing.wait_all_tasks_blocked()
        assert waiting.waits
        broker.produced(9, batch(b"e" * 200))
        assert acquired(part_of(await waiting.wait())) == [(12, 13, 1)]

    run(tmp_path, test)


def test_retention_moves_the_start(tmp_path: Path) -> None:
    async def test(broker: ShareBroker) -> None:
        for _ in range(3):
            broker.produced(9, batch(b"a"))
        await opened(broker, max_records=1)
        broker.cluster.partition.log.maybe_increment_log_start_offset(2)
        assert (await broker.share_fetch(1, max_wait_ms=100).wait()).responses == []
        part = part_of(await broker.share_fetch(2, max_wait_ms=100).wait())
        assert acquired(part) == [(2, 2, 1)]

    run(tmp_path, test)


def test_many_members_wait_for_one_record(tmp_path: Path) -> None:
    async def test(broker: ShareBroker) -> None:
        calls = []
        for index in range(100):
            member = f"m{index}"
            await opened(broker, member)
            calls.append(broker.share_fetch(1, member=member, max_wait_ms=60_000))
        await trio.testing.wait_all_tasks_blocked()
        broker.produced(9, batch(b"a"))
        await trio.testing.wait_all_tasks_blocked()
        assert [call.waits for call in calls] == [False] + [True] * 99
        for _ in range(99):
            broker.produced(9, batch(b"a"))
        await trio.testing.wait_all_tasks_blocked()
        assert any(not call.waits for call in calls[1:])

    run(tmp_path, test, sessions=200)


def test_invalid_acknowledgements(tmp_path: Path) -> None:
    async def test(broker: ShareBroker) -> None:
        broker.produced(9, batch(b"a", b"b", b"c"))
        await opened(broker)
        wrong: list[list[tuple[int, int, list[int]]]] = [
            [(2, 1, [1])],
            [(0, 1, [1]), (0, 2, [1])],
            [(0, 1, [])],
            [(0, 2, [1, 1])],
            [(0, 1, [5])],
            [(0, 1, [-1])],
            [(0, 2**62, [1])],
            [(7, 9, [1])],
        ]
        for epoch, batches in enumerate(wrong, 1):
            part = part_of(await broker.share_acknowledge(epoch, batches).wait())
            assert part.error_code == ErrorCode.INVALID_REQUEST, batches
        epoch = len(wrong) + 1
        part = part_of(await broker.share_acknowledge(epoch, [(0, 2, [1])], member="m").wait())
        assert part.error_code == 0

    run(tmp_path, test)


def test_connections_that_close_after_its_end_store_nothing(tmp_path: Path) -> None:
    """A broker stops its parts at once: sessions may end behind the leader."""

    async def main() -> None:
        broker = ShareBroker(tmp_path)
        broker.lead()
        async with trio.open_nursery() as nursery:
            await broker.run(nursery)
            broker.produced(9, batch(b"a"))
            answer = await broker.share_fetch(0, max_wait_ms=500).wait()
            assert acquired(part_of(answer)) == [(0, 0, 1)]
            nursery.cancel_scope.cancel()
        assert broker.shares.end_session(("group", "m"))

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


# Planted violations


@pytest.mark.parametrize(
    ("break_it", "fact"),
    [
        (lambda leader, served: leader._locks.cancel(served), "no timer"),
        (lambda leader, served: leader._groups.clear(), "no group"),
        (lambda _leader, served: setattr(served.machine, "phase", Phase.FENCED), "FENCED"),
    ],
)
def test_a_broken_leader_is_found(
    tmp_path: Path, break_it: Callable[[Any, Any], None], fact: str
) -> None:
    async def test(broker: ShareBroker) -> None:
        broker.produced(9, batch(b"a"))
        await broker.share_fetch(0, max_wait_ms=500).wait()
        broker.shares.check()
        (served,) = broker.shares.served.values()
        break_it(broker.shares, served)
        with pytest.raises(BrokenInvariant, match=fact):
            broker.shares.check()

    run(tmp_path, test)


def test_two_states_of_a_partition_that_store_are_found(tmp_path: Path) -> None:
    async def test(broker: ShareBroker) -> None:
        broker.produced(9, batch(b"a"))
        await broker.share_fetch(0, max_wait_ms=500).wait()
        (served,) = broker.shares.served.values()
        broker.shares._storing[served.key] = trio.Event()
        with pytest.raises(BrokenInvariant, match="predecessor"):
            broker.shares.end_session(("group", "m"))

    run(tmp_path, test)


def test_a_change_that_is_answered_too_early_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SharePartition, "written", lambda *_args, **_how: False)

    async def test(broker: ShareBroker) -> None:
        broker.produced(9, batch(b"a"))
        await broker.share_fetch(0, max_wait_ms=500).wait()
        broker.share_acknowledge(1, [(0, 0, [ACCEPT])])
        await trio.sleep(1)

    with pytest.RaisesGroup(pytest.RaisesGroup(BrokenInvariant)):
        run(tmp_path, test)
