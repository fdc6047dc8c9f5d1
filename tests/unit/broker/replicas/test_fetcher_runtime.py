"""The tasks of fetchers over streams, in virtual time: a leader that is there, away, slow, cut."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from trio.testing import memory_stream_pair

from pybroker_kafka.broker.handlers.fetch import FetchHandler
from pybroker_kafka.broker.observability.metrics import BrokerMetrics
from pybroker_kafka.broker.replicas.fetcher_runtime import FetcherRuntime
from pybroker_kafka.broker.replicas.log_flusher import LogFlusher
from pybroker_kafka.client.frames import FrameReader
from pybroker_kafka.client.security.connector import Link
from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.framing import encode_response
from pybroker_kafka.replication.follower_steps import FetcherConfig
from pybroker_kafka.replication.metadata_cache import Endpoint
from pybroker_kafka.replication.types import FlushNeeded, ReplicatedAppend
from tests.support.followers import Node
from tests.support.frames import decode_request, joined
from tests.support.handlers import Call
from tests.support.replication import KEY, NOW, TOPIC, batch

LEADER, FOLLOWER = 1, 2


class Pair:
    """A leader that is asked over memory streams, and the follower's runtime."""

    def __init__(self, directory: Path, **topic_config: str) -> None:
        config = {name.replace("_", "."): value for name, value in topic_config.items()}
        self.leader, self.follower = (
            self._node(directory / str(broker), broker, config) for broker in (LEADER, FOLLOWER)
        )
        self.runtime = FetcherRuntime(
            self.follower.replica_runtime, "PLAINTEXT", connect=self._connect
        )
        self.follower.replica_runtime.on_flush = self.runtime.on_flush
        self.follower.orders.on_leadership.append(self.runtime.on_leadership)
        self.connections: list[trio.abc.Stream] = []
        self.asked: list[ApiKey] = []
        self.is_up = True
        self.is_mute = False
        self.epoch = 0
        self._nursery: trio.Nursery | None = None

    def _node(self, directory: Path, broker: int, config: dict[str, str]) -> Node:
        directory.mkdir()
        node = Node(directory, broker, FetcherConfig(), topic_config=config)
        node.replica_runtime.clock = lambda: NOW + int(trio.current_time() * 1000)
        node.fetches = FetchHandler(node.replica_runtime, node.sessions)
        node.cluster.publish(LEADER)
        return node

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            await nursery.start(self.leader.replica_runtime.run)
            await nursery.start(self.follower.replica_runtime.run)
            await nursery.start(self.runtime.run)
            yield
            nursery.cancel_scope.cancel()

    async def _connect(self, _endpoint: Endpoint) -> Link:
        if not self.is_up:
            raise OSError("nobody listens")
        ours, theirs = memory_stream_pair()
        assert self._nursery is not None
        self.connections.append(ours)
        self._nursery.start_soon(self._serve, theirs)
        return Link(ours)

    async def _serve(self, stream: trio.abc.Stream) -> None:
        frames = FrameReader()
        try:
            while True:
                frame = await frames.read(stream)
                header, message = decode_request(frame)
                key = ApiKey(header.api_key)
                self.asked.append(key)
                call = Call(self.leader.area_of(key), key, header.api_version, message)
                answer = await call.wait()
                if self.is_mute:
                    await trio.sleep_forever()
                parts = encode_response(key, header.api_version, header.correlation_id, answer)
                await stream.send_all(joined(parts))
        except trio.BrokenResourceError:
            await stream.aclose()

    async def cut(self) -> None:
        for stream in self.connections:
            await trio.aclose_forcefully(stream)
        self.connections.clear()

    def elect(self, leader: int = LEADER, partition: int = 0) -> None:
        self.epoch += 1
        for broker in (LEADER, FOLLOWER):
            self._tell(broker, leader, partition, self.epoch)

    def create(self, partition: int, *, told: Iterable[int] = (LEADER, FOLLOWER)) -> None:
        """A new partition, of which these brokers learn."""
        for broker in told:
            self._tell(broker, LEADER, partition, epoch=0)

    def _tell(self, broker: int, leader: int, partition: int, epoch: int) -> None:
        node = self.leader if broker == LEADER else self.follower
        node.cluster.now_ms = node.replica_runtime.clock()
        result = node.cluster.role(
            leader=leader,
            replicas=(LEADER, FOLLOWER),
            leader_epoch=epoch,
            partition=partition,
        )
        if node is self.follower:
            self.runtime.on_leadership(result)

    def produce(self, partition: int = 0, *, damaged: bool = False) -> None:
        node = self.leader
        entries = {(TOPIC, partition): batch()}
        node.manager.appends.append(
            "p", entries, ReplicatedAppend(1, 0, node.replica_runtime.clock())
        )
        if damaged:
            file = node.manager.partitions[TOPIC, partition].log.segments.active.log_file
            file.write_at(b"?", file.size() - 1)
        node.replica_runtime.apply_effects()

    def end(self, partition: int = 0) -> int:
        return self.follower.manager.partitions[TOPIC, partition].log.log_end_offset

    async def caught_up(self, partition: int = 0, look_every: float = 0.001) -> float:
        """Wait for it; how many seconds that took."""
        began = trio.current_time()
        wanted = self.leader.manager.partitions[TOPIC, partition].log.log_end_offset
        with trio.fail_after(60):
            while self.end(partition) < wanted:  # noqa: ASYNC110
                await trio.sleep(look_every)
        return trio.current_time() - began


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return Pair(tmp_path)


async def test_an_append_is_replicated_and_acknowledged_without_a_timer(
    pair: Pair, autojump_clock: trio.testing.MockClock
) -> None:
    async with pair.running():
        pair.elect()
        await trio.sleep(2)
        assert len(pair.asked) <= 6  # long polls, and nothing else
        for count in range(1, 4):
            pair.produce()
            assert await pair.caught_up() <= 0.002
            await trio.sleep(0.001)
            assert pair.leader.log.high_watermark == count


async def test_an_idle_poll_gives_way_to_a_new_partition(
    pair: Pair, autojump_clock: trio.testing.MockClock
) -> None:
    async with pair.running():
        pair.elect()
        await trio.sleep(2)
        pair.elect(partition=1)
        pair.produce(partition=1)
        assert await pair.caught_up(partition=1) < 0.05
        pair.produce()
        assert await pair.caught_up() <= 0.002


async def test_new_partitions_join_the_next_poll_and_break_none(
    pair: Pair, autojump_clock: trio.testing.MockClock
) -> None:
    async with pair.running():
        pair.elect()
        await trio.sleep(1)
        asked = len(pair.asked)
        for partition in range(1, 31):
            pair.create(partition)
            await trio.sleep(0.02)
        await trio.sleep(0.5)
        assert len(pair.connections) == 1
        assert len(pair.asked) - asked <= 4  # a poll lasts 500 ms
        for partition in range(1, 31):
            pair.produce(partition)
            assert await pair.caught_up(partition) <= 0.002


async def test_the_first_records_of_a_new_partition_do_not_wait_for_the_end_of_a_poll(
    pair: Pair, autojump_clock: trio.testing.MockClock
) -> None:
    async with pair.running():
        pair.elect()
        await trio.sleep(2)
        pair.create(1)
        await trio.sleep(0.1)
        pair.produce(1)
        assert await pair.caught_up(1) <= 0.002
        # The controller's word reaches the follower behind the records.
        pair.create(2, told=[LEADER])
        pair.produce(2)
        await trio.sleep(0.3)
        pair.create(2, told=[FOLLOWER])
        assert await pair.caught_up(2) <= 0.025
        await trio.sleep(1)
        asked = len(pair.asked)
        await trio.sleep(5)
        assert len(pair.asked) - asked <= 11
        assert len(pair.connections) == 1


async def test_a_cut_connection_is_opened_again(
    pair: Pair, autojump_clock: trio.testing.MockClock
) -> None:
    async with pair.running():
        pair.elect()
        await trio.sleep(1)
        await pair.cut()
        pair.produce()
        assert await pair.caught_up() < 0.1
        pair.is_up = False
        await pair.cut()
        await trio.sleep(20)
        pair.produce()
        pair.is_up = True
        assert await pair.caught_up(look_every=0.01) <= 1.1  # replica.fetch.backoff.ms


async def test_a_leader_that_does_not_answer_is_given_up_in_time(
    pair: Pair, autojump_clock: trio.testing.MockClock
) -> None:
    async with pair.running():
        pair.elect()
        await trio.sleep(1)
        pair.is_mute = True
        pair.produce()
        await trio.sleep(10)
        pair.is_mute = False
        assert await pair.caught_up(look_every=0.5) < 21  # replica.socket.timeout.ms


async def test_a_leader_that_comes_back_elsewhere_is_asked_at_once(
    pair: Pair, autojump_clock: trio.testing.MockClock
) -> None:
    async with pair.running():
        pair.follower.cluster.alive([FOLLOWER])
        pair.elect()
        pair.produce()
        await trio.sleep(20)
        assert not pair.connections
        pair.follower.cluster.alive([LEADER, FOLLOWER])
        pair.runtime.on_metadata(None)  # type: ignore[arg-type]
        assert await pair.caught_up() < 0.05


async def test_corrupt_records_stop_no_other_partition(
    pair: Pair, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with pair.running():
        for partition in range(2):
            pair.elect(partition=partition)
        await trio.sleep(1)
        file = pair.leader.log.segments.active.log_file
        pair.produce()
        await pair.caught_up()
        end = file.size()
        healthy = file.read_at(end, 0)
        pair.produce(damaged=True)
        for _ in range(20):
            pair.produce(partition=1)
            assert await pair.caught_up(partition=1) < 0.05
            await trio.sleep(0.1)
        assert pair.end() == 1
        assert pair.follower.log.segments.active.log_file.read_at(end + 1, 0) == healthy
        assert "invalid records from broker 1 for topic-0 at offset 1" in caplog.text
        assert "topic-1" not in caplog.text


async def test_a_fetcher_without_partitions_ends(
    pair: Pair, autojump_clock: trio.testing.MockClock
) -> None:
    async with pair.running():
        pair.elect()
        await trio.sleep(1)
        assert pair.runtime.fetchers.of_partition(KEY) is not None
        pair.elect(FOLLOWER)
        await trio.sleep(1)
        assert not pair.runtime.fetchers.fetchers
        pair.elect()
        pair.produce()
        await pair.caught_up()


async def test_a_follower_flushes_before_it_acknowledges(tmp_path: Path) -> None:
    """In real time, because threads flush."""
    pair = Pair(tmp_path, flush_messages="1")
    async with pair.running():
        pair.elect()
        pair.produce()
        with trio.fail_after(120):
            while pair.leader.log.high_watermark < 1:  # noqa: ASYNC110
                await trio.sleep(0.001)
        assert pair.follower.log.recovery_point == 1


async def test_a_partition_that_leaves_takes_its_flush_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A flush does not end; then its partition has another leader. In real time, because threads
    flush."""
    pair = Pair(tmp_path, flush_messages="1")
    request = LogFlusher.request

    def of_the_leader(flusher: LogFlusher, effect: FlushNeeded) -> None:
        if flusher is pair.leader.replica_runtime.flusher:
            request(flusher, effect)

    monkeypatch.setattr(LogFlusher, "request", of_the_leader)
    async with pair.running():
        pair.elect()
        pair.elect(partition=1)
        pair.produce()
        await pair.caught_up()
        pair.produce(1)
        await trio.sleep(0.1)
        assert pair.end(1) == 0
        pair.elect(FOLLOWER)
        await pair.caught_up(1)


async def test_another_number_of_fetchers(
    pair: Pair, autojump_clock: trio.testing.MockClock
) -> None:
    async with pair.running():
        for partition in range(4):
            pair.elect(partition=partition)
        await trio.sleep(1)
        assert len(pair.runtime.fetchers.fetchers) == 1
        pair.runtime.resize(3)
        await trio.sleep(1)
        assert len(pair.runtime.fetchers.fetchers) == 3
        for partition in range(4):
            pair.produce(partition)
            assert await pair.caught_up(partition) <= 0.002


async def test_gauges(pair: Pair, autojump_clock: trio.testing.MockClock) -> None:
    metrics = BrokerMetrics()
    pair.runtime.register_gauges(metrics)
    async with pair.running():
        pair.elect()
        await trio.sleep(1)
        pair.produce()
        await pair.caught_up()
        families = {family.name: family for family in metrics.collect()}
        (lag,) = families["kafka_server_fetcherlagmetrics_consumerlag"].samples
        assert lag.labels == {
            "clientId": "ReplicaFetcherThread-0-1",
            "topic": TOPIC,
            "partition": "0",
        }
        assert lag.value == 0
        (largest,) = families["kafka_server_replicafetchermanager_maxlag"].samples
        assert largest.value == 0
