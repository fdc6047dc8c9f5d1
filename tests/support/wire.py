"""A blocking Kafka client of a few lines for tests: it says exactly what is on the wire.

Job: one connection that sends any request in any version and checks the frame that comes back
(size, correlation id, no byte left over); short forms for what most tests need (a topic, a produce,
a fetch); and a registry of the APIs that have a test.
Invariants: nothing is retried, except `coordinator`, which waits for the group coordinator to
exist; versions come from the broker's own ApiVersions answer.
Leaves out: what the codec does, which is tested elsewhere against independent codecs.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from struct import Struct
from typing import Any, NamedTuple, TypeVar

from pybroker_kafka.protocol.api import API_TABLE, ApiKey, response_class
from pybroker_kafka.protocol.apis.api_versions import ApiVersionsRequest
from pybroker_kafka.protocol.apis.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from pybroker_kafka.protocol.apis.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ReplicaState,
)
from pybroker_kafka.protocol.apis.find_coordinator import FindCoordinatorRequest
from pybroker_kafka.protocol.apis.metadata import MetadataRequest
from pybroker_kafka.protocol.apis.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from pybroker_kafka.protocol.codec import decode_from
from pybroker_kafka.protocol.framing import encode_request
from pybroker_kafka.protocol.records.batch import read_records
from pybroker_kafka.protocol.records.builder import build_batch
from pybroker_kafka.protocol.records.record import Record, SimpleRecord
from pybroker_kafka.protocol.schema import Message
from pybroker_kafka.protocol.uuids import ZERO_UUID
from tests.support.frames import joined

TIMEOUT_SECONDS = 120.0
COORDINATOR_WAIT_SECONDS = 120.0
MAX_BYTES = 1 << 20
LAST_PRODUCE_WITH_NAMES = 12
GROUP, TRANSACTION = 0, 1  # kinds of coordinators
_SIZE = Struct(">i")
_HEAD = Struct(">hhi")

# The tests of each API, filled by `covers`; test_advertised asks whether one is missing.
COVERED: dict[ApiKey, list[str]] = {}

T = TypeVar("T", bound=Callable[..., Any])


def covers(*keys: ApiKey) -> Callable[[T], T]:
    """Marks a test that sends every advertised version of these APIs."""

    def register(test: T) -> T:
        for key in keys:
            COVERED.setdefault(key, []).append(test.__name__)
        return test

    return register


class Topic(NamedTuple):
    name: str
    id: bytes


class Node(NamedTuple):
    id: int
    host: str
    port: int


def unique(prefix: str = "topic") -> str:
    return f"{prefix}-{uuid.uuid4().hex[:12]}"


def batch(
    *values: bytes, timestamp: int = 1_000, key: bytes | None = b"k", **options: Any
) -> bytes:
    """A v2 batch of one record a value; timestamps go up by one."""
    records = [SimpleRecord(timestamp + i, key, value) for i, value in enumerate(values)]
    return bytes(build_batch(records, **options))


class WireClient:
    """One connection, over TLS with a context; the name in the certificate is localhost.
    `exchanges` keeps the last requests and responses, for failing tests."""

    def __init__(
        self,
        bootstrap: str,
        client_id: str | None = "wire-test",
        tls: ssl.SSLContext | None = None,
        source: str | None = None,
    ) -> None:
        """`source` is the address from which it connects, if that matters."""
        host, _, port = bootstrap.rpartition(":")
        self.bootstrap = bootstrap
        self.client_id = client_id
        self.socket = socket.create_connection(
            (host, int(port)), TIMEOUT_SECONDS, None if source is None else (source, 0)
        )
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.tls = tls
        if tls is not None:
            try:
                self.socket = tls.wrap_socket(self.socket, server_hostname="localhost")
            except BaseException:
                self.socket.close()
                raise
        self.exchanges: deque[str] = deque(maxlen=8)
        self.advertised: dict[int, range] = {}
        self._correlation_id = 0

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> WireClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def another(self, client_id: str | None = "wire-other") -> WireClient:
        """A second connection to the same broker."""
        return WireClient(self.bootstrap, client_id, self.tls)

    # Frames

    def post(self, request: Message, version: int) -> int:
        """Send without waiting; returns the correlation id."""
        self._correlation_id += 1
        key = request._spec.api_key
        self.exchanges.append(f"-> {ApiKey(key).name} v{version}: {request!r}"[:2000])
        self.socket.sendall(self.frame(request, version))
        return self._correlation_id

    def frame(self, request: Message, version: int) -> bytes:
        """The bytes of a request with the correlation id of the last one posted."""
        key, sender = request._spec.api_key, self.client_id
        parts = encode_request(key, version, self._correlation_id, sender, request)
        return joined(parts)

    def post_bytes(self, key: int, version: int, body: bytes, client_id: bytes = b"wire") -> int:
        """Send a body as it is under a header of version 1."""
        self._correlation_id += 1
        header = _HEAD.pack(key, version, self._correlation_id)
        frame = header + len(client_id).to_bytes(2, "big") + client_id + body
        self.exchanges.append(f"-> {key} v{version}: {body!r}")
        self.socket.sendall(_SIZE.pack(len(frame)) + frame)
        return self._correlation_id

    def receive(self, key: int, version: int, correlation_id: int | None = None) -> Any:
        """The next response, which must be that of the given request to its last byte."""
        (size,) = _SIZE.unpack(self.exactly(4))
        frame = self.exactly(size)
        expected = self._correlation_id if correlation_id is None else correlation_id
        assert _SIZE.unpack_from(frame)[0] == expected
        start = 4 + (_response_header_has_tags(key, version))
        response, end = decode_from(response_class(ApiKey(key)), version, frame, start)
        self.exchanges.append(f"<- {response!r}"[:2000])
        assert end == len(frame), f"{len(frame) - end} bytes too many in {response!r}"
        return response

    def call(self, request: Message, version: int | None = None) -> Any:
        """Send and wait for the response; without a version, in the newest one advertised."""
        if version is None:
            version = self.versions(request._spec.api_key)[-1]
        self.post(request, version)
        return self.receive(request._spec.api_key, version)

    def exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            chunk = self.socket.recv(size - len(data))
            if not chunk:
                raise ConnectionError("closed by the broker")
            data += chunk
        return bytes(data)

    def is_closed_by_broker(self) -> bool:
        """Waits for the end of the connection; a byte instead of it is a failure."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True

    @contextlib.contextmanager
    def timeout(self, seconds: float) -> Iterator[None]:
        self.socket.settimeout(seconds)
        try:
            yield
        finally:
            self.socket.settimeout(TIMEOUT_SECONDS)

    # What most tests need

    def me(self) -> Any:
        """The broker of this connection as Metadata has it. One that a test has made up, and that
        is gone again, is listed for a moment, too."""
        brokers = self.call(MetadataRequest(topics=[])).brokers
        (me,) = [one for one in brokers if self.bootstrap.endswith(f":{one.port}")]
        return me

    def versions(self, key: int, first: int = 0, last: int = 1000) -> range:
        """The advertised versions of an API, cut to those from `first` to `last`."""
        if not self.advertised:
            answer = self.call(ApiVersionsRequest(), 0)
            self.exchanges.clear()
            assert answer.error_code == 0
            for api in answer.api_keys:
                self.advertised[api.api_key] = range(api.min_version, api.max_version + 1)
        known = self.advertised[key]
        return range(max(known.start, first), min(known.stop, last + 1))

    def create_topic(self, partitions: int = 1, name: str | None = None, **configs: str) -> Topic:
        """A new topic; config names with underscores instead of dots."""
        return self.configured_topic(configs, partitions, name)

    def configured_topic(
        self, configs: Mapping[str, str], partitions: int = 1, name: str | None = None
    ) -> Topic:
        topic = CreatableTopic(
            name=name or unique(),
            num_partitions=partitions,
            replication_factor=1,
            configs=[
                CreatableTopicConfig(name=key.replace("_", "."), value=value)
                for key, value in configs.items()
            ],
        )
        (result,) = self.call(CreateTopicsRequest(topics=[topic], timeout_ms=15_000)).topics
        assert result.error_code == 0, result
        return Topic(topic.name, result.topic_id)

    def produce(
        self,
        topic: str,
        records: bytes | None,
        *,
        partition: int = 0,
        version: int | None = None,
        acks: int = -1,
        transactional_id: str | None = None,
        topic_id: bytes = ZERO_UUID,
    ) -> Any:
        """Append to one partition; the partition's response (None with acks=0)."""
        request = produce_request(topic, records, partition, acks, transactional_id)
        request.topic_data[0].topic_id = topic_id
        if version is None:
            version = self.versions(ApiKey.PRODUCE, last=LAST_PRODUCE_WITH_NAMES)[-1]
        if acks == 0:
            self.post(request, version)
            return None
        ((answer,),) = (t.partition_responses for t in self.call(request, version).responses)
        assert answer.index == partition
        return answer

    def append(self, topic: str, *values: bytes, partition: int = 0, **options: Any) -> int:
        """Append one batch that must be accepted; its base offset."""
        answer = self.produce(topic, batch(*values, **options), partition=partition)
        assert answer.error_code == 0, answer
        offset: int = answer.base_offset
        return offset

    def fetch(
        self, topic: Topic, offset: int = 0, version: int | None = None, **options: Any
    ) -> Any:
        """Fetch from one partition without waiting; the partition's response."""
        response = self.call(fetch_request(topic, offset, version=version, **options), version)
        ((answer,),) = (t.partitions for t in response.responses)
        return answer

    def read(self, topic: Topic, offset: int = 0, partition: int = 0) -> list[Record]:
        """The records from an offset on."""
        answer = self.fetch(topic, offset, partition=partition)
        assert answer.error_code == 0, answer
        return records_of(answer)

    def coordinator(self, key: str, key_type: int = GROUP) -> Node:
        """A key's coordinator, once it exists (the first look-up creates its topic)."""
        deadline = time.monotonic() + COORDINATOR_WAIT_SECONDS
        while True:
            request = FindCoordinatorRequest(coordinator_keys=[key], key_type=key_type)
            (found,) = self.call(request).coordinators
            if found.error_code == 0:
                return Node(found.node_id, found.host, found.port)
            assert time.monotonic() < deadline, found
            time.sleep(0.05)


def _response_header_has_tags(key: int, version: int) -> bool:
    return key != ApiKey.API_VERSIONS and API_TABLE[ApiKey(key)].is_flexible(version)


def records_of(answer: Any) -> list[Record]:
    return list(read_records(answer.records or b""))


def produce_request(
    topic: str,
    records: bytes | None,
    partition: int = 0,
    acks: int = -1,
    transactional_id: str | None = None,
) -> ProduceRequest:
    data = PartitionProduceData(index=partition, records=records)
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=10_000,
        topic_data=[TopicProduceData(name=topic, partition_data=[data])],
    )


def fetch_request(
    topic: Topic | Sequence[Topic],
    offset: int = 0,
    *,
    version: int | None = None,
    partition: int = 0,
    max_bytes: int = MAX_BYTES,
    partition_max_bytes: int = MAX_BYTES,
    max_wait_ms: int = 0,
    min_bytes: int = 0,
    replica_id: int = -1,
    replica_epoch: int = -1,
    isolation_level: int = 0,
    session: tuple[int, int] = (0, -1),
    forgotten: Sequence[Any] = (),
    **options: Any,
) -> FetchRequest:
    """A fetch of one partition, or of partition 0 of several topics, in the form of a version."""
    topics = [topic] if isinstance(topic, Topic) else topic
    request = FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        session_id=session[0],
        session_epoch=session[1],
        forgotten_topics_data=list(forgotten),
        topics=[
            FetchTopic(
                topic=one.name,
                topic_id=one.id,
                partitions=[
                    FetchPartition(
                        partition=partition,
                        fetch_offset=offset,
                        partition_max_bytes=partition_max_bytes,
                        **options,
                    )
                ],
            )
            for one in topics
        ],
    )
    if replica_id != -1:
        if version is None or version >= 15:
            request.replica_state = ReplicaState(replica_id=replica_id, replica_epoch=replica_epoch)
        else:
            request.replica_id = replica_id
    return request
