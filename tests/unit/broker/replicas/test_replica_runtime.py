"""The runtime of the replica manager: flushes in groups, timers, answers that fail."""

import threading
from pathlib import Path
from typing import Any

import trio

from pybroker_kafka.broker.replicas.log_flusher import LogFlusher
from pybroker_kafka.broker.replicas.replica_runtime import ReplicaRuntime
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.replication.types import FlushNeeded, Parked, ReplicatedAppend
from pybroker_kafka.storage.files import DataFile, Files
from pybroker_kafka.storage.log_producers import PIECES_FOR_APPENDS
from pybroker_kafka.storage.producer_rebuild import BATCHES_AT_ONCE
from tests.support.patience import eventually
from tests.support.replication import ME, TOPIC, ReplicaCluster, batch


class SlowDisk(Files):
    """Every fsync of a data file waits for the test's permission."""

    def __init__(self) -> None:
        super().__init__()
        self.may_sync = threading.Semaphore(0)
        self.syncs = 0
        self.error: OSError | None = None

    def open(self, path: str, *, create: bool = False) -> DataFile:
        file = super().open(path, create=create)
        return _SlowFile(file, self) if path.endswith(".log") else file


class _SlowFile(DataFile):
    __slots__ = ("_disk", "_file")

    def __init__(self, file: DataFile, disk: SlowDisk) -> None:
        super().__init__(file.fileno(), file.path)
        self._file = file
        self._disk = disk

    def sync(self) -> None:
        self._disk.may_sync.acquire()
        self._disk.syncs += 1
        if self._disk.error is not None:
            raise self._disk.error
        super().sync()

    def __del__(self) -> None:
        """The descriptor belongs to the file inside."""


class Token:
    def __init__(self) -> None:
        self.results: list[Any] = []

    def complete(self, result: Any) -> None:
        self.results.append(result)


async def test_appends_during_a_flush_share_the_next_one(tmp_path: Path) -> None:
    disk = SlowDisk()
    cluster = ReplicaCluster(tmp_path, files=disk, topic_config={"flush.messages": "1"})
    cluster.role()
    runtime = ReplicaRuntime(cluster.manager, lambda: cluster.now_ms)
    tokens = [Token() for _ in range(20)]
    async with trio.open_nursery() as nursery:
        await nursery.start(runtime.run)
        assert isinstance(cluster.produce(tokens[0], acks=1), Parked)
        runtime.apply_effects()
        await trio.sleep(0.02)  # the first flush is under way, and stuck
        for token in tokens[1:]:
            assert isinstance(cluster.produce(token), Parked)
            runtime.apply_effects()
        assert not any(token.results for token in tokens)
        disk.may_sync.release()
        await eventually(lambda: tokens[0].results)
        assert not any(token.results for token in tokens[1:])
        disk.may_sync.release(10)
        await eventually(lambda: all(token.results for token in tokens))
        assert disk.syncs == 2
        nursery.cancel_scope.cancel()


async def test_a_failed_flush_takes_the_directory_offline(tmp_path: Path) -> None:
    disk = SlowDisk()
    disk.error = OSError("the disk is broken")
    disk.may_sync.release(10)
    cluster = ReplicaCluster(tmp_path, files=disk, topic_config={"flush.messages": "1"})
    cluster.role()
    failed: list[Any] = []
    runtime = ReplicaRuntime(
        cluster.manager, lambda: cluster.now_ms, on_failed_log_dir=failed.append
    )
    token = Token()
    async with trio.open_nursery() as nursery:
        await nursery.start(runtime.run)
        cluster.produce(token, acks=1)
        runtime.apply_effects()
        await eventually(lambda: token.results)
        nursery.cancel_scope.cancel()
    (result,) = token.results
    assert result[TOPIC, 0].error_code.name == "KAFKA_STORAGE_ERROR"
    assert [failure.partitions for failure in failed] == [((TOPIC, 0),)]


async def test_flushes_of_different_logs_do_not_wait_for_each_other() -> None:
    flushed: list[int] = []
    gate = threading.Event()

    class StandInLog:
        log_end_offset = 5

        def __init__(self, waits: bool) -> None:
            self.waits = waits

        def flush(self, offset: int) -> None:
            if self.waits:
                gate.wait(5)

    flusher = LogFlusher(
        lambda effect, offset: flushed.append(effect.partition), lambda effect: None
    )
    async with trio.open_nursery() as nursery:
        await nursery.start(flusher.run)
        for partition, waits in ((0, True), (1, False)):
            log: Any = StandInLog(waits)
            flusher.request(FlushNeeded(TOPIC, partition, 5, log))
        with trio.fail_after(120):
            while flushed != [1]:  # noqa: ASYNC110
                await trio.sleep(0.001)
            gate.set()
            while flushed != [1, 0]:  # noqa: ASYNC110
                await trio.sleep(0.001)
        nursery.cancel_scope.cancel()


async def test_appends_are_refused_while_the_producers_of_a_log_are_rebuilt(
    cluster: ReplicaCluster,
) -> None:
    """With an error that clients retry; a task does the rebuild."""
    cluster.role(leader=2, replicas=(ME, 2))
    log = cluster.partition.log
    for number in range(BATCHES_AT_ONCE * (PIECES_FOR_APPENDS + 5)):
        follower_batch = batch(b"v")
        follower_batch[:8] = number.to_bytes(8, "big")
        log.append_as_follower(follower_batch, now_ms=0)
    log.truncate_to(log.log_end_offset - 1)
    cluster.role(leader_epoch=1, replicas=(ME, 2), isr=(ME,))
    runtime = ReplicaRuntime(cluster.manager, lambda: cluster.now_ms)
    order = ReplicatedAppend(1, 1_000, cluster.now_ms)

    def append() -> ErrorCode:
        result = runtime.append_one((TOPIC, 0), cluster.partition, batch(), order, Token, ())
        assert result is not None
        return result.error_code

    async with trio.open_nursery() as nursery:
        await nursery.start(runtime.run)
        assert [append(), append()] == [ErrorCode.NOT_ENOUGH_REPLICAS] * 2
        while log.producers.is_being_rebuilt:
            await trio.lowlevel.checkpoint()
        assert append() is ErrorCode.NONE
        nursery.cancel_scope.cancel()


def test_an_answer_that_fails_does_not_keep_others_from_theirs(cluster: ReplicaCluster) -> None:
    class Broken:
        def complete(self, result: Any) -> None:
            raise RuntimeError("the client is gone")

    cluster.role()
    runtime = ReplicaRuntime(cluster.manager, lambda: cluster.now_ms)
    token = Token()
    cluster.fetch(Broken(), 0)
    cluster.fetch(token, 0)
    cluster.produce("p")
    runtime.apply_effects()
    assert len(token.results) == 1
