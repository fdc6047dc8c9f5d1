"""What a client without manners may cost: bounded memory, and no long step of the loop."""

from __future__ import annotations

from pathlib import Path

import trio

from pybroker_kafka.broker.handlers.shares import MAX_BATCHES
from pybroker_kafka.protocol.errors import ErrorCode, KafkaError
from pybroker_kafka.replication.share.acknowledging import Acknowledgement, acknowledge
from pybroker_kafka.replication.share.sessions import MAX_GROUPS_OF_CONNECTION
from tests.support.patience import Limit
from tests.support.replication import batch
from tests.support.share_leading import ShareBroker
from tests.unit.broker.share.test_share_leader import opened, part_of, run

ACCEPT = 1
# Generous: it tells the work of what was sent from that of all offsets between.
STEP_SECONDS = 2.0
RECORDS = 500


def test_many_and_wide_acknowledgements(tmp_path: Path) -> None:
    async def test(broker: ShareBroker) -> None:
        for _ in range(RECORDS // 100):
            broker.produced(9, batch(*[b"x"] * 100))
        await opened(broker, max_records=RECORDS)
        too_many = [(0, 0, [ACCEPT])] * (MAX_BATCHES + 1)
        part = part_of(await broker.share_acknowledge(1, too_many).wait())
        assert part.error_code == ErrorCode.INVALID_REQUEST
        limit = Limit(STEP_SECONDS)
        twice = [(0, 0, [ACCEPT])] * MAX_BATCHES
        part = part_of(await broker.share_acknowledge(2, twice).wait())
        assert part.error_code == ErrorCode.INVALID_RECORD_STATE
        for epoch, (first, last) in enumerate(((0, 2**63 - 1), (2**62, 2**63 - 1)), 3):
            part = part_of(await broker.share_acknowledge(epoch, [(first, last, [ACCEPT])]).wait())
            assert part.error_code == ErrorCode.INVALID_REQUEST
        types = [1 + offset % 2 for offset in range(RECORDS)]
        part = part_of(await broker.share_acknowledge(5, [(0, RECORDS - 1, types)]).wait())
        assert part.error_code == 0
        assert not limit.is_over
        (served,) = broker.shares.served.values()
        assert sum(len(each.runs) for each in served.machine.batches) <= RECORDS
        # All of them are behind the start, or done with: each is skipped, or the first refused.
        limit = Limit(STEP_SECONDS)
        old = [Acknowledgement(0, 0, [ACCEPT])] * MAX_BATCHES
        served.machine.start_offset = 1
        assert acknowledge(served.machine, "m", old, 0) is None
        assert not limit.is_over

    run(tmp_path, test)


def test_a_flood_of_sessions(tmp_path: Path) -> None:
    async def test(broker: ShareBroker) -> None:
        sessions = broker.shares.sessions
        for number in range(10):
            await opened(broker, f"m{number}")
        waiting = [
            broker.share_fetch(0, member=f"n{number}", max_wait_ms=1000) for number in range(500)
        ]
        await trio.lowlevel.checkpoint()
        assert (len(sessions.sessions), len(broker.shares.waiting)) == (10, 500)
        for call in waiting[250:]:
            call.known_waits[0].cancel()
        assert len(broker.shares.waiting) == 250
        for call in waiting[:250]:
            assert (await call.wait()).error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
        assert len(broker.shares.waiting) == 0
        # Partitions that do not exist count, as far as a session may hold them.
        many = broker.share_fetch(0, member="m1", partitions=tuple(range(5000)))
        assert (await many.wait()).error_code == ErrorCode.INVALID_REQUEST
        assert sessions.partition_count == 10

    run(tmp_path, test)


def test_one_connection_has_sessions_of_so_many_groups(tmp_path: Path) -> None:
    async def test(broker: ShareBroker) -> None:
        sessions = broker.shares.sessions
        connection = object()
        for number in range(MAX_GROUPS_OF_CONNECTION + 50):
            try:
                sessions.begin(
                    (f"g{number}", "m"), 0, (), (), acknowledges=False, connection=connection
                )
            except KafkaError:
                continue
        assert len(sessions.sessions) == MAX_GROUPS_OF_CONNECTION
        ended, groups = sessions.disconnected(connection)
        assert len(ended) == len(groups) == MAX_GROUPS_OF_CONNECTION

    run(tmp_path, test, sessions=1000)
