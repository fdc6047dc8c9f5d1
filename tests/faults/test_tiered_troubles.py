"""What an operator of a tiered topic may meet, under load and with real processes.

- A store that is away: it refuses each request, or each connection. TIER_AWAY_SECONDS=600 for the
  ten minutes of a real outage; some seconds otherwise.
- Wrong credentials.
- A local disk that is full while the store is away: the broker ends, and goes on where there is
  room again.

Each time no acknowledged record is lost, and `tier verify` accounts for each object at the end.
Beside a store that fails, appends go on, and the log names the error in at most two lines for each
attempt.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.faults import test_tiered_s3 as s3
from tests.faults.test_tiered_s3 import Ledger
from tests.support.moto_s3 import SECRET_KEY, MotoS3
from tests.support.nightly import chosen
from tests.support.patience import WAIT_SECONDS, until
from tests.support.processes import BrokerProcess, zookeeper_process
from tests.support.sick_disk import SickDisk, why_not

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


def most_lines() -> float:
    """Two for each attempt: the copy that failed, and what it left. Others for what begins."""
    return 20 + 2 * AWAY_SECONDS / TASK_SECONDS


class LoadedLedger(Ledger):
    """Appends a batch each `BATCH_SECONDS` in a thread, and remembers the slowest."""

    slowest_seconds = 0.0

    def __enter__(self) -> LoadedLedger:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(BATCH_SECONDS):
            began = time.monotonic()
            self.fill(1)
            self.slowest_seconds = max(self.slowest_seconds, time.monotonic() - began)

    def check_went_on(self) -> None:
        """A batch a second at least was acknowledged, on however busy a machine."""
        assert self.count > AWAY_SECONDS


@pytest.mark.parametrize(
    "how", chosen(["refuses requests", "refuses connections"], ["refuses connections"])
)
def test_a_store_is_away_under_load(store: MotoS3, broker: BrokerProcess, how: str) -> None:
    broker.start()
    ledger = LoadedLedger(broker)
    ledger.fill(3)
    ledger.check()
    before = len(broker.log_text.splitlines())
    with ledger:
        if how == "refuses requests":
            store.before = lambda *_: "503 Slow Down"
            time.sleep(AWAY_SECONDS)
            store.before = MotoS3.nothing
        else:
            with store.gone():
                time.sleep(AWAY_SECONDS)
        written = ledger.count
    lines = broker.log_text.splitlines()[before:]
    print(f"{how}: {written} batches in {AWAY_SECONDS:.0f} s, the slowest took", end=" ")
    print(f"{ledger.slowest_seconds:.3f} s; {len(lines)} lines of log, such as {lines[-1:]}")
    ledger.check_went_on()
    assert any(FAILED in line for line in lines)
    assert len(lines) < most_lines(), "\n".join(lines[:40])
    ledger.check()
    assert_accounted_for(store, broker)
    ledger.delete()
    until(lambda: store.objects == [], seconds=WAIT_SECONDS + AWAY_SECONDS)


def test_wrong_credentials(store: MotoS3, broker: BrokerProcess) -> None:
    """The store answers 403, as S3 does for a key that it does not know."""
    store.before = lambda *_: "403 Forbidden"
    broker.start()
    ledger = LoadedLedger(broker)
    before = len(broker.log_text.splitlines())
    with ledger:
        until(lambda: FAILED in broker.log_text)
        time.sleep(AWAY_SECONDS)
    lines = broker.log_text.splitlines()[before:]
    print(f"{len(lines)} lines of log, such as {lines[-1:]}")
    ledger.check_went_on()
    assert "403" in broker.log_text
    assert SECRET_KEY not in broker.log_text
    assert len(lines) < most_lines(), "\n".join(lines[:40])
    broker.kill()
    store.before = MotoS3.nothing
    broker.start()
    ledger.check()
    assert_accounted_for(store, broker)
    ledger.delete()
    until(lambda: store.objects == [])


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
