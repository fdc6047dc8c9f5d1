"""Producers that retry and keep a ledger of what was acknowledged, and consumers at the HW.

A producer has one batch under way. It sends it again until a leader says that it is safe, with the
same sequence number if it is idempotent: then an answer of the leader that the sequence is wrong is
a fault of the cluster (a zombie may say so: it does not know what its successor took). They learn
where the leader is from whichever broker they ask.
"""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from pybroker_kafka.protocol.apis.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchResponsePartitionData,
    FetchTopic,
)
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.records.batch import read_batch_header
from pybroker_kafka.protocol.records.builder import build_batch
from pybroker_kafka.protocol.records.record import SimpleRecord
from pybroker_kafka.protocol.topics import TopicPartition
from pybroker_kafka.replication.types import Isolation
from tests.simulation.broker import Produced, produce_request
from tests.simulation.kernel import Process
from tests.support.frames import joined

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster

RETRY_MS = 60
PRODUCE_TIMEOUT_MS = 1_200
REQUEST_TIMEOUT_MS = 1_500
PRODUCE_VERSION = 9
FETCH_VERSION = 17
FETCH_WAIT_MS = 400

_WRONG_SEQUENCE = (
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.INVALID_PRODUCER_EPOCH,
)


class Client:
    def __init__(self, cluster: "Cluster", name: str, key: TopicPartition) -> None:
        self.cluster = cluster
        self.kernel = cluster.kernel
        self.process = Process(name)
        self.name = name
        self.key = key
        self._leader: int | None = None

    def start(self) -> None:
        raise AssertionError

    def later(self, delay_ms: int, run: Any, *args: Any) -> None:
        self.kernel.after(delay_ms, self.process, run, *args)

    def find_leader(self) -> int | None:
        if self._leader is None:
            self._leader = self.ask_for_leader(self.key)
        return self._leader

    def ask_for_leader(self, key: TopicPartition) -> int | None:
        """Ask some broker's metadata; it may be old."""
        brokers = [b for b in self.cluster.brokers.values() if b.is_serving]
        if not brokers:
            return None
        metadata = self.kernel.random.choice(brokers).manager.metadata
        state = metadata.partition_state(*key)
        return None if state is None or state.leader < 0 else state.leader

    def forget_leader(self) -> None:
        self._leader = None

    def call(self, target: int, message: Any, version: int, done: Any) -> None:
        server = self.cluster.brokers[target]
        self.cluster.network.call(
            self.process, server.name, server, message, version, done, REQUEST_TIMEOUT_MS
        )


class Producer(Client):
    def __init__(
        self, cluster: "Cluster", name: str, key: TopicPartition, producer_id: int, pause_ms: int
    ) -> None:
        super().__init__(cluster, name, key)
        self.producer_id = producer_id
        self.pause_ms = pause_ms
        self.sent: list[int] = []
        self.acknowledged: list[int] = []
        self.is_stopping = False
        self.is_idle = False
        self._epoch = 0
        self._sequence = 0
        self._records = b""
        self._record_count = 0
        self._tries = 0

    @property
    def is_idempotent(self) -> bool:
        return self.producer_id >= 0

    def start(self) -> None:
        self.later(self.kernel.random.randint(0, 200), self._next)

    def _next(self) -> None:
        if self.is_stopping:
            self.is_idle = True
            return
        random = self.kernel.random
        self._record_count = random.randint(1, 4)
        number = len(self.sent)
        values = [b"%s-%d-%d" % (self.name.encode(), number, i) for i in range(self._record_count)]
        batch = build_batch(
            [SimpleRecord(self.kernel.now_ms, b"k", value) for value in values],
            producer_id=self.producer_id,
            producer_epoch=self._epoch if self.is_idempotent else -1,
            base_sequence=self._sequence if self.is_idempotent else -1,
        )
        self._records = bytes(batch)
        self.sent.append(read_batch_header(batch).crc)
        self._tries = 0
        self._send()

    def _send(self) -> None:
        leader = self.find_leader()
        if leader is None:
            self.later(RETRY_MS, self._send)
            return
        self._tries += 1
        request = produce_request(self.key, self._records, PRODUCE_TIMEOUT_MS)
        self.call(leader, request, PRODUCE_VERSION, self._done)

    def _done(self, answer: Produced | None) -> None:
        error = ErrorCode.NETWORK_EXCEPTION if answer is None else answer.error_of(self.key)
        if not error:
            self.acknowledged.append(self.sent[-1])
            self._sequence += self._record_count
            self.later(self.kernel.random.randint(0, self.pause_ms), self._next)
            return
        if error in _WRONG_SEQUENCE:
            is_real_leader = answer is not None and answer.is_by_leader
            if is_real_leader and not self.cluster.settings.unclean_elections:
                self.cluster.audit.fail(
                    f"{self.name} is told {ErrorCode(error).name} for sequence {self._sequence} "
                    f"of {self.key} in try {self._tries}"
                )
            if not self.cluster.settings.unclean_elections:
                self.forget_leader()
                self.later(RETRY_MS, self._send)
                return
            # What it built on is lost: go on as another epoch, as Kafka's producer does.
            self._epoch += 1
            self._sequence = 0
            self.sent.pop()
            self.later(RETRY_MS, self._next)
            return
        self.forget_leader()
        self.later(RETRY_MS, self._send)


class Reader(Client, ABC):
    """Fetches a partition from its leader, or now and then from whichever replica it asks."""

    isolation = Isolation.READ_UNCOMMITTED
    longest_start_ms = 500
    longest_pause_ms = 100

    def __init__(self, cluster: "Cluster", name: str, key: TopicPartition) -> None:
        super().__init__(cluster, name, key)
        self.position = 0

    def start(self) -> None:
        self.later(self.kernel.random.randint(0, self.longest_start_ms), self._fetch)

    @abstractmethod
    def read(self, data: FetchResponsePartitionData) -> None:
        """Look at what came, and move the position."""

    def _fetch(self) -> None:
        target = self.find_leader()
        if self.kernel.chance(0.2):
            target = self.kernel.random.choice(list(self.cluster.brokers))
        if target is None:
            self.later(RETRY_MS, self._fetch)
            return
        topic, partition = self.key
        asked = FetchPartition(
            partition=partition,
            fetch_offset=self.position,
            partition_max_bytes=self.kernel.random.choice((1, 500, 1 << 20)),
        )
        request = FetchRequest(
            max_wait_ms=FETCH_WAIT_MS,
            min_bytes=1,
            session_epoch=-1,
            isolation_level=self.isolation,
            topics=[
                FetchTopic(topic=topic, topic_id=self.cluster.topic_ids[topic], partitions=[asked])
            ],
        )
        self.call(target, request, FETCH_VERSION, self._fetched)

    def _fetched(self, response: FetchResponse | None) -> None:
        data = None
        if response is not None and not response.error_code and response.responses:
            data = response.responses[0].partitions[0]
        if data is None or data.error_code:
            self.forget_leader()
            self.later(RETRY_MS, self._fetch)
            return
        self.read(data)
        self.later(self.kernel.random.randint(0, self.longest_pause_ms), self._fetch)


class Consumer(Reader):
    """Reads all that is below the high watermark; the audit compares it with what was written."""

    def __init__(self, cluster: "Cluster", name: str, key: TopicPartition) -> None:
        super().__init__(cluster, name, key)
        self.batches = 0

    def read(self, data: FetchResponsePartitionData) -> None:
        records = joined([data.records or b""])
        self.position, batches = self.cluster.audit.consumed(
            self.name, self.key, self.position, records
        )
        self.batches += batches
