"""The wall clock of a broker jumps, by days, and back or not: nothing is deleted, nothing expires.

By libfaketime, which is a real clock that is set, and by `KafkaCluster.set_clock`.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pybroker_kafka.protocol.apis.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from pybroker_kafka.protocol.records.builder import build_batch
from pybroker_kafka.protocol.records.record import SimpleRecord
from pybroker_kafka.testing import KafkaCluster
from tests.support import clock_file, faketime
from tests.support.processes import PYBROKER, free_port
from tests.support.wire import WireClient

DAY_SECONDS = 86_400
PRODUCER_ID = 4_711
EARLIEST, LATEST = -2, -1
BATCHES = 12
CONFIG = {
    "log.segment.bytes": "1024",
    "log.initial.task.delay.ms": "0",
    "log.retention.check.interval.ms": "500",
    "producer.id.expiration.check.interval.ms": "500",
    "offsets.retention.check.interval.ms": "500",
    "num.partitions": "1",
}
# Several intervals of all jobs, and looks at the clock.
A_WHILE_SECONDS = 3.0

SetClock = Callable[[int], None]


@contextlib.contextmanager
def by_the_test_kit(_home: Path) -> Iterator[tuple[str, Path, SetClock]]:
    with KafkaCluster(config=CONFIG) as kafka:

        def set_clock(ahead_seconds: int) -> None:
            kafka.set_clock(1, ahead=ahead_seconds)

        yield kafka.bootstrap, kafka.data_dir / "broker-1", set_clock


@contextlib.contextmanager
def by_libfaketime(home: Path) -> Iterator[tuple[str, Path, SetClock]]:
    if faketime.LIBRARY is None:
        pytest.skip(faketime.WHY_SKIPPED)
    clock, data, port = home / "clock", home / "data", free_port()
    clock_file.write(clock, 0)
    words = ["start", "--brokers", "1", "--data-dir", str(data), "--port", str(port)]
    words += ["--zookeeper-port", str(free_port())]
    for key, value in CONFIG.items():
        words += ["--config", f"{key}={value}"]
    with (home / "output").open("w+") as output:
        process = subprocess.Popen(
            [*PYBROKER, *words],
            env={**os.environ, **faketime.environment(clock)},
            stdout=output,
            stderr=output,
        )
        try:
            deadline = time.monotonic() + 60
            while "ready after" not in (told := (home / "output").read_text()):
                assert process.poll() is None, told
                assert time.monotonic() < deadline, told
                time.sleep(0.05)
            yield (
                f"127.0.0.1:{port}",
                data / "broker-1",
                lambda ahead_seconds: clock_file.write(clock, ahead_seconds),
            )
        finally:
            process.terminate()
            process.wait(60)


def batch(number: int, producer_id: int) -> bytes:
    return bytes(
        build_batch(
            [SimpleRecord(int(time.time() * 1000), None, b"%d" % number * 300)],
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=number if producer_id >= 0 else -1,
        )
    )


def offset_at(client: WireClient, topic: str, timestamp: int) -> int:
    request = ListOffsetsRequest(
        replica_id=-1,
        topics=[
            ListOffsetsTopic(
                name=topic,
                partitions=[ListOffsetsPartition(partition_index=0, timestamp=timestamp)],
            )
        ],
    )
    ((answer,),) = (t.partitions for t in client.call(request).topics)
    assert answer.error_code == 0, answer
    offset: int = answer.offset
    return offset


@pytest.mark.parametrize(
    ("cluster", "days"),
    [(by_libfaketime, 10), (by_the_test_kit, 10), (by_the_test_kit, -10), (by_the_test_kit, 3650)],
)
def test_a_clock_that_jumps_and_comes_back(cluster: object, tmp_path: Path, days: int) -> None:
    with (
        cluster(tmp_path) as (bootstrap, directory, set_clock),  # type: ignore[operator]
        contextlib.closing(WireClient(bootstrap)) as client,
    ):
        client.create_topic(name="orders")
        batches = [batch(number, PRODUCER_ID) for number in range(BATCHES)]
        offsets = [client.produce("orders", one).base_offset for one in batches]
        assert offsets == list(range(BATCHES))
        segments = sorted((directory / "orders-0").glob("*.log"))
        assert len(segments) > 2
        set_clock(days * DAY_SECONDS)
        time.sleep(A_WHILE_SECONDS)
        during = client.produce("orders", batches[-1])
        set_clock(0)
        time.sleep(A_WHILE_SECONDS)
        after = client.produce("orders", batches[-1])
        assert [(one.error_code, one.base_offset) for one in (during, after)] == (
            [(0, offsets[-1])] * 2
        )  # the retry of an acknowledged batch is no second one
        assert offset_at(client, "orders", EARLIEST) == 0
        assert offset_at(client, "orders", LATEST) == BATCHES
        assert sorted((directory / "orders-0").glob("*.log")) == segments
        assert not list((directory / "orders-0").glob("*.deleted"))
