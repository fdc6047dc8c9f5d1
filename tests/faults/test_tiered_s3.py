"""Tiered topics on the S3 server of `moto`, and what goes wrong between a broker and its store.

- SIGKILL before and behind each request of a copy: no acknowledged record is lost, and all that
  the store has goes with the topic, or ten minutes later.
- SIGKILL at the steps of a deletion, by DeleteRecords and with the topic: what is left is read, and
  at the end nothing is left over.
- A store that answers 503 for a while, or whose answers are lost: copies go on later.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
import trio
from click.testing import CliRunner
from kazoo.client import KazooClient

from pybroker_kafka.broker.config.loading import load_config
from pybroker_kafka.broker.server import run_broker
from pybroker_kafka.cli.main import main
from pybroker_kafka.local.tier import tier_keys
from pybroker_kafka.protocol.apis.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from pybroker_kafka.protocol.apis.delete_topics import DeleteTopicsRequest
from pybroker_kafka.replication.remote import expiry
from tests.support.moto_s3 import BUCKET, MotoS3
from tests.support.nightly import chosen
from tests.support.patience import until
from tests.support.processes import BrokerProcess, zookeeper_process
from tests.support.wire import Topic, WireClient
from tests.unit.broker.remote.test_tiered_broker import (
    EARLIEST,
    EARLIEST_LOCAL,
    LATEST_TIERED,
    TIERED,
    offset_of,
)

PREFIX = "tier"
PUTS = 5  # requests for a segment without aborted transactions
LATEST = -1
BATCHES = 6  # at least a segment
DELETES = 6  # requests for a segment, each a POST; one of them is for its missing transaction index


@pytest.fixture(scope="module")
def store() -> Iterator[MotoS3]:
    with MotoS3().running() as store:
        yield store


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with zookeeper_process(tmp_path_factory.mktemp("zookeeper")) as connect:
        yield connect


@pytest.fixture(scope="module")
def tiered(
    store: MotoS3, zookeeper: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BrokerProcess]:
    process = BrokerProcess(tmp_path_factory.mktemp("tiered"), zookeeper, configs_of(store))
    process.start()
    yield process
    process.kill()


def configs_of(store: MotoS3) -> dict[str, str]:
    return {
        **tier_keys(f"s3://{BUCKET}/{PREFIX}", 1, {}),
        **{f"rsm.config.{name}": text for name, text in store.configs().items()},
        "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
        "remote.log.manager.task.interval.ms": "50",
        "log.retention.check.interval.ms": "100",
        "log.initial.task.delay.ms": "0",
    }


def verify(store: MotoS3, bootstrap: str) -> list[dict[str, Any]]:
    """The findings of `pybroker tier verify`."""
    command = ["tier", "verify", "--json", "--bootstrap-server", bootstrap]
    command += ["--tier", f"s3://{BUCKET}/{PREFIX}"]
    for name, text in store.configs().items():
        command += ["--tier-config", f"{name}={text}"]
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 0, done.output
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


class Kill:
    """SIGKILL at the number-th request of a kind from now on, before or behind it."""

    def __init__(
        self, store: MotoS3, broker: BrokerProcess, method: str, number: int, *, behind: bool
    ) -> None:
        self._store, self._broker = store, broker
        self._method, self._left = method, number
        if behind:
            store.after = self.after
        else:
            store.before = self.before

    def before(self, method: str, _path: str) -> str | None:
        return "503 Slow Down" if self._is_now(method) else None

    def after(self, method: str, _path: str) -> None:
        self._is_now(method)

    def _is_now(self, method: str) -> bool:
        if method != self._method:
            return False
        self._left -= 1
        if self._left == 0:
            self._broker.kill()
        return self._left == 0

    def play(self) -> None:
        """Wait for it, and start the broker again."""
        until(lambda: not self._broker.is_running)
        self._store.before, self._store.after = MotoS3.nothing, MotoS3.nothing
        self._broker.start()


class Ledger:
    def __init__(self, broker: BrokerProcess) -> None:
        self._bootstrap = broker.bootstrap
        self.count = 0
        self.start = 0
        with WireClient(self._bootstrap) as kafka:
            self.topic: Topic = kafka.configured_topic(TIERED)

    def fill(self, batches: int = BATCHES) -> None:
        with WireClient(self._bootstrap) as kafka:
            for _ in range(batches):
                kafka.append(self.topic.name, b"x" * 50 + b"%d" % self.count)
                self.count += 1

    def count_again(self) -> None:
        """After a kill: what was written last may be there, or not, if it was not acknowledged."""
        with WireClient(self._bootstrap) as kafka:
            written = offset_of(kafka, self.topic, LATEST)
        assert written in (self.count, self.count + 1)
        self.count = written

    def check(self) -> None:
        """Each acknowledged record is there, and all but the newest segments are in the tier."""
        with WireClient(self._bootstrap) as kafka:
            until(lambda: offset_of(kafka, self.topic, EARLIEST_LOCAL) > self.count - 2 * BATCHES)
            until(lambda: offset_of(kafka, self.topic, LATEST_TIERED) > self.count - 2 * BATCHES)
            offset = self.start
            while offset < self.count:
                for record in kafka.read(self.topic, offset):
                    if record.offset == offset:
                        assert record.value == b"x" * 50 + b"%d" % offset
                        offset += 1

    def delete_records(self) -> None:
        """Those of a segment, at least. A kill may bring some back."""
        with WireClient(self._bootstrap) as kafka:
            self.start = offset_of(kafka, self.topic, EARLIEST) + BATCHES
            part = DeleteRecordsPartition(partition_index=0, offset=self.start)
            topic = DeleteRecordsTopic(name=self.topic.name, partitions=[part])
            kafka.call(DeleteRecordsRequest(topics=[topic], timeout_ms=30_000))

    def delete(self) -> None:
        with WireClient(self._bootstrap) as kafka:
            kafka.call(DeleteTopicsRequest(topic_names=[self.topic.name], timeout_ms=30_000), 3)


@pytest.mark.parametrize("behind", chosen([False, True], [False]), ids=["before", "behind"])
def test_sigkill_in_each_request_of_a_copy(
    store: MotoS3, tiered: BrokerProcess, behind: bool
) -> None:
    ledger = Ledger(tiered)
    for number in range(1, PUTS + 1):
        kill = Kill(store, tiered, "PUT", number, behind=behind)
        with suppress(ConnectionError):
            ledger.fill()
        kill.play()
        ledger.count_again()
        ledger.check()
    ledger.delete()
    until(lambda: store.objects == [])


def test_what_a_killed_copy_has_stored_is_accounted_for(
    store: MotoS3, tiered: BrokerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten minutes later it is gone; until then `tier verify` names it."""
    ledger = Ledger(tiered)
    kill = Kill(store, tiered, "PUT", PUTS - 1, behind=True)
    with suppress(ConnectionError):
        ledger.fill()
    kill.play()
    ledger.count_again()
    ledger.fill()
    ledger.check()
    (orphan,) = verify(store, tiered.bootstrap)
    assert (orphan["fault"], "COPY_SEGMENT_STARTED" in orphan["text"]) == ("unfinished", True)
    assert not orphan["text"].endswith(" 0 bytes are stored")
    tiered.kill()
    monkeypatch.setattr(expiry, "ORPHAN_AGE_MS", 0)
    config = load_config(tiered.log_dir.parent / "server.properties")

    async def scenario() -> None:
        stop = trio.Event()
        async with trio.open_nursery() as nursery:
            await nursery.start(partial(run_broker, config, stop=stop))
            is_clean = partial(until, lambda: not verify(store, tiered.bootstrap))
            await trio.to_thread.run_sync(is_clean)
            stop.set()

    trio.run(scenario)
    tiered.start()
    ledger.check()
    assert verify(store, tiered.bootstrap) == []
    ledger.delete()
    until(lambda: store.objects == [])


@pytest.mark.nightly
def test_sigkill_at_the_steps_of_a_deletion(store: MotoS3, tiered: BrokerProcess) -> None:
    ledger = Ledger(tiered)
    for number in (1, 2, DELETES):
        ledger.fill(3 * BATCHES)
        ledger.check()
        kill = Kill(store, tiered, "POST", number, behind=number == DELETES)
        with suppress(ConnectionError):
            ledger.delete_records()
        kill.play()
        ledger.check()
    ledger.delete()
    until(lambda: store.objects == [])


@pytest.mark.parametrize("number", chosen([1, DELETES, DELETES + 1], [DELETES]))
def test_sigkill_in_the_deletion_of_a_topic(
    store: MotoS3, tiered: BrokerProcess, number: int
) -> None:
    ledger = Ledger(tiered)
    ledger.fill(3 * BATCHES)
    ledger.check()
    kill = Kill(store, tiered, "POST", number, behind=number == DELETES)
    with suppress(ConnectionError):
        ledger.delete()
    kill.play()
    until(lambda: store.objects == [])


@pytest.mark.nightly
def test_a_topic_is_deleted_while_its_leader_is_down(
    store: MotoS3, zookeeper: str, tiered: BrokerProcess
) -> None:
    """The controller asks a broker that has no role for the partition."""
    ledger = Ledger(tiered)
    ledger.fill(3 * BATCHES)
    ledger.check()
    tiered.kill()
    client = KazooClient(zookeeper)
    client.start(timeout=60)
    client.create(f"/admin/delete_topics/{ledger.topic.name}")
    client.stop()
    client.close()
    tiered.start()
    until(lambda: store.objects == [])


def test_a_store_that_is_away_or_loses_answers(store: MotoS3, tiered: BrokerProcess) -> None:
    ledger = Ledger(tiered)
    store.before = lambda *_: "503 Slow Down"
    ledger.fill(3 * BATCHES)
    until(lambda: "failed, and is tried again" in tiered.log_text)
    assert "hunter2" not in tiered.log_text
    store.before = MotoS3.nothing
    ledger.check()
    lost = iter([True, False, True, True, False])
    store.after = lambda method, _: "500 Lost" if method == "PUT" and next(lost, False) else None
    ledger.fill(3 * BATCHES)
    ledger.check()
    store.after = MotoS3.nothing
    ledger.delete()
    until(lambda: store.objects == [])
