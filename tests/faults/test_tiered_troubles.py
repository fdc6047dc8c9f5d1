"""What an operator of a tiered topic may meet, under load and with real processes.

- A store that is away: it refuses each request, or each connection. TIER_AWAY_SECONDS=600 for the
  ten minutes of a real outage; some seconds otherwise.
- Wrong credentials.
- A local disk that is full while the store is away: the broker ends, and goes on where there is
  room again.
- A local disk that is full below cached indexes of the tier: look-ups go on, without files.

Each time no acknowledged record is lost, and `tier verify` accounts for each object at the end.
Beside a store that fails, appends go on, and the log names the error in at most two lines for each
attempt.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from pybroker_kafka.storage.log_directory import REMOTE_INDEX_DIRECTORY
from tests.faults import test_tiered_s3 as s3
from tests.faults.test_tiered_s3 import BATCHES, Ledger
from tests.support.moto_s3 import SECRET_KEY, MotoS3
from tests.support.nightly import chosen
from tests.support.patience import WAIT_SECONDS, until
from tests.support.processes import BrokerProcess, zookeeper_process
from tests.support.repeated import repeated
from tests.support.sick_disk import SickDisk, why_not
from tests.support.wire import WireClient
from tests.unit.broker.remote.test_tiered_broker import offset_of

AWAY_SECONDS = float(os.environ.get("TIER_AWAY_SECONDS", "3"))
BATCH_SECONDS = 0.1
TASK_SECONDS = 0.25
FAILED = "failed, and is tried again"

pytestmark = pytest.mark.timeout(300 + 4 * AWAY_SECONDS)


@pytest.fixture(scope="module")
def store() -> Iterator[MotoS3]:
    with MotoS3().running() as store:
        yield store


def configs_of(store: MotoS3) -> dict[str, str]:
    interval_ms = f"{1000 * TASK_SECONDS:.0f}"
    return {**s3.configs_of(store), "remote.log.manager.task.interval.ms": interval_ms}


@pytest.fixture
def broker(store: MotoS3, tmp_path: Path) -> Iterator[BrokerProcess]:
    """In a cluster of its own; it is not started."""
    with zookeeper_process(tmp_path / "zookeeper") as connect:
        process = BrokerProcess(tmp_path / "broker", connect, configs_of(store))
        yield process
        process.kill()


def assert_accounted_for(store: MotoS3, broker: BrokerProcess) -> None:
    """What is left of copies that failed has its name, and no bytes."""
    for one in s3.verify(store, broker.bootstrap):
        assert one["fault"] == "unfinished", one
        assert one["text"].endswith(" 0 bytes are stored"), one


class Outage:
    """A time in which the store fails: a batch each `BATCH_SECONDS` is appended, and the log is
    counted."""

    def __init__(self, broker: BrokerProcess, ledger: Ledger) -> None:
        self._broker, self._ledger = broker, ledger
        self._began = time.monotonic()
        self._lines_before = len(broker.log_text.splitlines())
        self._took_seconds: list[float] = []

    def pass_by(self) -> None:
        """AWAY_SECONDS, and until an attempt of a copy has failed."""
        with repeated(self._append, BATCH_SECONDS):
            time.sleep(AWAY_SECONDS)
            until(lambda: any(FAILED in line for line in self._lines()))

    def _append(self) -> None:
        began = time.monotonic()
        self._ledger.fill(1)
        self._took_seconds.append(time.monotonic() - began)

    def _lines(self) -> list[str]:
        return self._broker.log_text.splitlines()[self._lines_before :]

    def check(self) -> None:
        """A batch a second at least was acknowledged, on however busy a machine; an attempt wrote
        two lines: of the copy that failed, and of what it left. The others are of what begins."""
        lines, seconds = self._lines(), time.monotonic() - self._began
        print(f"{len(self._took_seconds)} batches in {seconds:.0f} s, the slowest took", end=" ")
        print(f"{max(self._took_seconds):.3f} s; {len(lines)} lines of log, such as {lines[-1:]}")
        assert len(self._took_seconds) >= AWAY_SECONDS
        assert len(lines) < 20 + 2 * seconds / TASK_SECONDS, "\n".join(lines[:40])
        assert SECRET_KEY not in self._broker.log_text


@pytest.mark.parametrize(
    "how", chosen(["refuses requests", "refuses connections"], ["refuses connections"])
)
def test_a_store_is_away_under_load(store: MotoS3, broker: BrokerProcess, how: str) -> None:
    broker.start()
    ledger = Ledger(broker)
    ledger.fill(3)
    ledger.check()
    outage = Outage(broker, ledger)
    if how == "refuses requests":
        store.before = lambda *_: "503 Slow Down"
        outage.pass_by()
        store.before = MotoS3.nothing
    else:
        with store.gone():
            outage.pass_by()
    outage.check()
    ledger.check()
    assert_accounted_for(store, broker)
    ledger.delete()
    until(lambda: store.objects == [], seconds=WAIT_SECONDS + AWAY_SECONDS)


@pytest.mark.nightly
def test_wrong_credentials(store: MotoS3, broker: BrokerProcess) -> None:
    """The store answers 403, as S3 does for a key that it does not know."""
    store.before = lambda *_: "403 Forbidden"
    broker.start()
    ledger = Ledger(broker)
    outage = Outage(broker, ledger)
    outage.pass_by()
    outage.check()
    assert "403" in broker.log_text
    broker.kill()
    store.before = MotoS3.nothing
    broker.start()
    ledger.check()
    assert_accounted_for(store, broker)
    ledger.delete()
    until(lambda: store.objects == [])


@pytest.mark.nightly
@pytest.mark.skipif(bool(why_not()), reason=why_not() or "it can be sick")
def test_a_full_local_disk(store: MotoS3, broker: BrokerProcess, tmp_path: Path) -> None:
    """It fills while the store is away: the one log directory fails, and the broker ends."""
    disk = SickDisk(tmp_path / "sick")
    disk.ail(broker)
    broker.start()
    ledger = Ledger(broker)
    store.before = lambda *_: "503 Slow Down"
    ledger.fill(3)
    disk.says(*(f"{what} {errno.ENOSPC} */broker/data/*" for what in ("write", "create")))
    with suppress(ConnectionError, AssertionError):
        ledger.fill(3)
    until(lambda: not broker.is_running)
    assert "No space left on device" in broker.log_text
    disk.heal()
    store.before = MotoS3.nothing
    broker.start()
    ledger.count_again()
    ledger.fill(3)
    ledger.check()
    assert_accounted_for(store, broker)
    ledger.delete()
    until(lambda: store.objects == [])


@pytest.mark.skipif(bool(why_not()), reason=why_not() or "it can be sick")
@pytest.mark.nightly
def test_a_full_disk_below_cached_indexes(
    store: MotoS3, broker: BrokerProcess, tmp_path: Path
) -> None:
    """A look-up by time reads an index of the tier. Without room for its files it answers from
    memory, each time; with room again it keeps them."""
    disk = SickDisk(tmp_path / "sick")
    disk.ail(broker)
    full = f"{errno.ENOSPC} */{REMOTE_INDEX_DIRECTORY}/*"
    disk.says(f"create {full}")
    broker.start()
    ledger = Ledger(broker)
    ledger.fill(4 * BATCHES)
    ledger.check()
    directory = next((tmp_path / "broker").rglob(REMOTE_INDEX_DIRECTORY))
    with WireClient(broker.bootstrap) as kafka:
        (first, *_) = kafka.read(ledger.topic)
        for operation in ("create", "write", "rename"):
            disk.says(f"{operation} {full}")
            assert offset_of(kafka, ledger.topic, first.timestamp) == 0
            assert finished_files(directory) == []
            ledger.fill(1)
        disk.heal()
        assert offset_of(kafka, ledger.topic, first.timestamp) == 0
        assert finished_files(directory)
    ledger.check()
    ledger.delete()
    until(lambda: store.objects == [])


def finished_files(directory: Path) -> list[str]:
    """Of the cache, without those that could not be written or renamed."""
    return sorted(path.name for path in directory.iterdir() if path.suffix != ".tmp")
