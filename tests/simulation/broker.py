"""One simulated broker: the real machines, handlers and runtimes, as tasks of `virtual_trio`.

Real: LogManager and logs (on the simulated disk), their jobs and flushes, ReplicaManager, the
handlers of produce, fetch, offsets and control requests, ISR changes, fetch sessions, followers,
the controller with its channels, registration. Simulated: ZooKeeper's client (`zookeeper`), the
links between brokers (`wires`), and
- `server`, which begins with the real disk, sockets and kazoo; here is the order of its start;
- `broker.network`, which runs for clients only (`client_cluster`): here a request is an object, and
  three in a hundred take the form that they have on the wire.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import trio

from pybroker_kafka.broker.cluster.controller_client import ControllerClient
from pybroker_kafka.broker.cluster.controller_runtime import ControllerRuntime
from pybroker_kafka.broker.coordinators import marker_sender
from pybroker_kafka.broker.handlers.controller_orders import ControllerOrders
from pybroker_kafka.broker.handlers.controller_requests import ControllerRequestHandlers
from pybroker_kafka.broker.handlers.fetch import FetchHandler
from pybroker_kafka.broker.handlers.list_offsets import ListOffsetsHandler
from pybroker_kafka.broker.handlers.offset_for_leader_epoch import OffsetForLeaderEpochHandler
from pybroker_kafka.broker.handlers.produce import ProduceHandler
from pybroker_kafka.broker.network.request import ConnectionInfo, Request, Route, Wait
from pybroker_kafka.broker.network.turns import Turns
from pybroker_kafka.broker.observability.request_metrics import RequestMetrics
from pybroker_kafka.broker.replicas.alter_partition_sender import AlterPartitionSender
from pybroker_kafka.broker.replicas.fetcher_runtime import FetcherRuntime
from pybroker_kafka.broker.replicas.log_jobs import run_storage_jobs
from pybroker_kafka.broker.replicas.replica_runtime import ReplicaRuntime
from pybroker_kafka.broker.resources.clock import LOOK_SECONDS
from pybroker_kafka.broker.zk.registration import (
    RegistrationError,
    register_broker,
    register_in_session,
)
from pybroker_kafka.client.security.connector import Link
from pybroker_kafka.protocol import codec
from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.apis.allocate_producer_ids import AllocateProducerIdsRequest
from pybroker_kafka.protocol.apis.alter_partition import AlterPartitionRequest
from pybroker_kafka.protocol.apis.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
)
from pybroker_kafka.protocol.apis.controlled_shutdown import ControlledShutdownRequest
from pybroker_kafka.protocol.apis.fetch import FetchRequest, FetchResponse
from pybroker_kafka.protocol.apis.leader_and_isr import LeaderAndIsrRequest
from pybroker_kafka.protocol.apis.list_offsets import ListOffsetsRequest
from pybroker_kafka.protocol.apis.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from pybroker_kafka.protocol.apis.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from pybroker_kafka.protocol.apis.stop_replica import StopReplicaRequest
from pybroker_kafka.protocol.apis.update_metadata import UpdateMetadataRequest
from pybroker_kafka.protocol.apis.write_txn_markers import WriteTxnMarkersRequest
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.framing import decode_response
from pybroker_kafka.protocol.topics import SHARE_STATE_TOPIC, TopicPartition
from pybroker_kafka.protocol.wall_clock import WallClock
from pybroker_kafka.protocol.zookeeper.operations import Exists, Flow
from pybroker_kafka.replication.controller.config import ControllerConfig
from pybroker_kafka.replication.controller.znodes import BrokerRegistration
from pybroker_kafka.replication.fetch_session import FetchSessions
from pybroker_kafka.replication.follower_steps import FetcherConfig
from pybroker_kafka.replication.metadata_cache import Endpoint, MetadataCache
from pybroker_kafka.replication.replica_manager import ReplicaManager
from pybroker_kafka.replication.types import (
    ACKS_ALL,
    ReplicaConfig,
)
from pybroker_kafka.storage.files import FileSlice
from pybroker_kafka.storage.log_manager import LogManager, LogManagerConfig
from tests.simulation.disk import Disk
from tests.simulation.kernel import Process
from tests.simulation.network import Exchange
from tests.simulation.virtual_trio import TrioRun
from tests.simulation.wires import LISTENER, connect
from tests.simulation.zookeeper import SimulatedZooKeeper, ZooKeeperSession
from tests.support.frames import joined

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster

LOG_DIR = "/logs"
FRAME_SIZE_BYTES = 4
REQUEST_TIMEOUT_MS = 1_500
REREGISTER_MS = 200
RETENTION_CHECK_MS = 2_000
LONGEST_WORK_MS = 15  # of a thread that does not flush
CODEC_SHARE = 0.03
# Of collected records: followers are told of so many at once.
URGENT_BYTES = 500


class Produced(NamedTuple):
    """The answer of a produce, and what nobody can know who gets it."""

    response: ProduceResponse
    is_by_leader: bool

    def error_of(self, key: TopicPartition) -> ErrorCode:
        (code,) = (
            answer.error_code
            for topic in self.response.responses
            for answer in topic.partition_responses
            if (topic.name, answer.index) == key
        )
        return ErrorCode(code)


def produce_request(
    key: TopicPartition, records: bytes, timeout_ms: int, transactional_id: str | None = None
) -> ProduceRequest:
    """For one partition, with acks=all."""
    data = PartitionProduceData(index=key[1], records=memoryview(records))
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=ACKS_ALL,
        timeout_ms=timeout_ms,
        topic_data=[TopicProduceData(name=key[0], partition_data=[data])],
    )


class Sink:
    """What a request knows of its connection."""

    closed = False
    received_at = 0.0
    memo = None

    def __init__(self, number: int) -> None:
        self.peer = ConnectionInfo("127.0.0.1", 40_000, LISTENER, number=number)

    def add_wait(self, wait: Wait) -> None:
        """Whoever goes is not missed before its time is over, as in Kafka."""

    def remove_wait(self, wait: Wait) -> None:
        """As `add_wait`."""

    def fail(self, error: Exception) -> None:
        """It is logged, and so ends the run."""


@cache
def _route(key: ApiKey, version: int) -> Route:
    return Route(key, version, lambda _: None, RequestMetrics(key.name, version), Turns())


class SimulatedRequest(Request):
    """A request whose answer is no bytes. It is small: what a handler does otherwise is to be fair
    only."""

    __slots__ = ("_exchange", "_respond")

    def __init__(self, exchange: Exchange, respond: Callable[[Any], None] | None = None) -> None:
        """`respond` stands for the exchange's."""
        body = exchange.message
        client_id = "simulated"
        if isinstance(body, WriteTxnMarkersRequest):
            client_id = marker_sender.CLIENT_ID.format(exchange.source.name[1:])
        route = _route(ApiKey(type(body)._spec.api_key), exchange.version)
        sink: Any = Sink(exchange.number)
        super().__init__(sink, route, exchange.number, client_id, body, 0, 0.0)
        self._exchange = exchange
        self._respond = exchange.respond if respond is None else respond

    def respond(self, response: Any) -> None:
        self._respond(response)

    def respond_in_turns(self, response: Any) -> None:
        self._respond(response)

    def respond_encoded(self, frame: bytes) -> None:
        """The answer that a handler has put on the wire by itself."""
        correlation_id, response = decode_response(
            self.api_key, self.api_version, memoryview(frame)[FRAME_SIZE_BYTES:]
        )
        assert correlation_id == self.correlation_id
        self._respond(response)

    def appended(self) -> None:
        self._exchange.appended()

    def close(self) -> None:
        """The connection is closed; the requester notices."""
        exchange = self._exchange
        exchange.network.kernel.after(0, exchange.source, exchange.fail)


def _received(produce: ProduceRequest) -> ProduceRequest:
    """As it lies in the connection's buffer: the log writes offsets into the records."""
    return ProduceRequest(
        transactional_id=produce.transactional_id,
        acks=produce.acks,
        timeout_ms=produce.timeout_ms,
        topic_data=[
            TopicProduceData(
                name=topic.name,
                partition_data=[
                    PartitionProduceData(
                        index=partition.index,
                        records=memoryview(bytearray(joined([partition.records or b""]))),
                    )
                    for partition in topic.partition_data
                ],
            )
            for topic in produce.topic_data
        ],
    )


class Broker:
    def __init__(self, cluster: "Cluster", broker_id: int) -> None:
        self.cluster = cluster
        self.kernel = cluster.kernel
        self.broker_id = broker_id
        self.name = f"b{broker_id}"
        self.process = Process(self.name)
        self.process.alive = False
        self.disk = Disk()
        self.is_serving = False
        self.clock_ahead_ms = 0  # of its machine's wall clock
        # What the last life left in its session file.
        self.last_session: tuple[int, bytes] | None = None

    # Life

    def start(self) -> None:
        assert not self.process.alive
        self.process.alive = True
        kernel = self.kernel
        self.build()
        self.kernel.note(f"{self.name} starts, {self._describe_logs()}")
        self.cluster.audit.started(self)
        if self.last_session is not None and self.kernel.chance(0.7):
            self.session.end_session(self.last_session)
        else:
            self.session.start()
        TrioRun(kernel, self.process, self._run, self._thread_ms).step(lambda: None, ())

    def build(self) -> None:
        """All parts of a new life; nothing runs yet."""
        settings, kernel = self.cluster.settings, self.kernel
        self.wall = WallClock(self.clock_ahead_ms)
        self.log_manager = LogManager(
            [LOG_DIR], self.disk.revive(), settings.log_config, broker_id=self.broker_id,
            cluster_id="simulation",
            config=LogManagerConfig(
                validate_fully=True,
                initial_task_delay_ms=1_000, high_watermark_checkpoint_interval_ms=2_000,
                flush_offset_checkpoint_interval_ms=4_000,
                flush_start_offset_checkpoint_interval_ms=4_000,
                retention_check_interval_ms=RETENTION_CHECK_MS,
                producer_id_expiration_check_interval_ms=RETENTION_CHECK_MS,
            ),
            wall=self.wall,
        )  # fmt: skip
        self.log_manager.load(
            kernel.now_ms, {SHARE_STATE_TOPIC: settings.log_config_of(SHARE_STATE_TOPIC)}
        )
        assert self.log_manager.online_directories(), "no log directory could be opened"
        self.manager = ReplicaManager(
            ReplicaConfig(self.broker_id, replica_lag_time_max_ms=settings.replica_lag_ms),
            self.log_manager,
            MetadataCache(self.broker_id, "simulation"),
            settings.log_config_of,
            now_ms=kernel.now_ms,
        )
        self.replicas = ReplicaRuntime(self.manager, self.now_ms, urgent_bytes=URGENT_BYTES)
        self.fetchers = FetcherRuntime(
            self.replicas, LISTENER,
            FetcherConfig(truncates_on_fetch=settings.truncates_on_fetch),
            timeout_ms=REQUEST_TIMEOUT_MS, connect=self.connect,
        )  # fmt: skip
        self.session = ZooKeeperSession(
            kernel, self.cluster.network, self.cluster.zookeeper, self.process,
            settings.session_timeout_ms,
        )  # fmt: skip
        self.zookeeper = SimulatedZooKeeper(self.session)
        self.controller = ControllerRuntime(
            self.zookeeper,
            ControllerConfig(
                self.broker_id,
                unclean_leader_election_enable=settings.unclean_elections,
                leader_imbalance_check_interval_ms=3_000,
            ),
            clock=self.now_ms, wall=self.wall, new_topic_id=self.cluster.new_topic_id,
            register=self._register, listener=LISTENER, connect=self.connect,
            socket_timeout_ms=REQUEST_TIMEOUT_MS,
        )  # fmt: skip
        self.controller_client = ControllerClient(
            self.broker_id, self.manager.metadata, LISTENER, connect=self.connect,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
        )  # fmt: skip
        self.isr_changes = AlterPartitionSender(
            self.broker_id, self.replicas, self.controller_client, self.zookeeper
        )
        self.replicas.on_flush = self.fetchers.on_flush
        self.replicas.on_isr_change = self.isr_changes.propose
        sessions = FetchSessions(kernel.random.randint)
        self._fetches = FetchHandler(self.replicas, sessions)
        self._produces = self.new_produce_handler()
        self._offsets = ListOffsetsHandler(self.replicas)
        self._leader_epochs = OffsetForLeaderEpochHandler(self.manager)
        self.orders = ControllerOrders(self.replicas)
        self.orders.on_leadership.append(self._leadership_changed)
        self.orders.on_leadership.append(self.fetchers.on_leadership)
        self.orders.on_stopped.append(self.fetchers.on_stopped)
        self.orders.on_metadata.append(self.fetchers.on_metadata)
        requests = ControllerRequestHandlers(self.controller)
        self._controller_handlers: dict[type, Any] = {
            AlterPartitionRequest: requests.alter_partition,
            AllocateProducerIdsRequest: requests.allocate_producer_ids,
            AlterPartitionReassignmentsRequest: requests.alter_partition_reassignments,
            ControlledShutdownRequest: requests.controlled_shutdown,
        }
        self._session_ids: list[int] = []

    async def _run(self) -> None:
        async with trio.open_nursery() as nursery:
            self.nursery = nursery
            await self.begin(nursery)

    async def begin(self, nursery: trio.Nursery) -> None:
        """Start the runtimes."""
        await nursery.start(self.replicas.run)
        await nursery.start(self.fetchers.run)
        nursery.start_soon(self._join, nursery)
        nursery.start_soon(self.isr_changes.run)
        nursery.start_soon(self._watch_clock)
        nursery.start_soon(
            run_storage_jobs, self.log_manager, self.replicas, self.now_ms,
            trio.CapacityLimiter(1), lambda: None,
        )  # fmt: skip

    def now_ms(self) -> int:
        return self.kernel.now_ms

    def _thread_ms(self, work: Callable[..., object]) -> int:
        """A flush waits for the disk; other work does not have to."""
        is_flush = getattr(work, "__name__", "") == "flush"
        longest_ms = self.cluster.settings.longest_flush_ms if is_flush else LONGEST_WORK_MS
        return self.kernel.random.randint(0, longest_ms)

    async def connect(self, endpoint: Endpoint) -> Link:
        return await connect(self, endpoint)

    def new_produce_handler(self) -> ProduceHandler:
        return ProduceHandler(self.replicas)

    def _describe_logs(self) -> str:
        return " ".join(repr(log) for log in self.log_manager.logs()) or "no logs"

    def kill(self) -> None:
        """SIGKILL: the page cache stays."""
        self.process.kill()
        self.is_serving = False
        self.session.close()
        self.last_session = (self.session.session_id, self.session.password)
        self.cluster.network.process_died(self.name)

    def stop_cleanly(self) -> None:
        self.log_manager.clean_shutdown(self.manager.leadership.broker_epoch)
        self.kill()

    async def _join(self, nursery: trio.Nursery) -> None:
        """As `server`; whoever starts brokers tries again if that fails."""
        while not self.is_serving:
            try:
                connected = partial(self.zookeeper.execute_one, Exists("/"))
                await self.zookeeper.over_sessions(connected)
                await self._register()
            except RegistrationError:
                await trio.sleep(REREGISTER_MS / 1000)  # another life's session is not over yet
            else:
                self.is_serving = True
        await nursery.start(self.controller.run)
        if self.zookeeper.session[0] != self._session_ids[-1]:
            await self._register()

    async def _register(self) -> None:
        endpoint = Endpoint(LISTENER, LISTENER, self.name, 9000 + self.broker_id)
        registration = BrokerRegistration(self.broker_id, (endpoint,))

        def flow(session_id: int) -> Flow[int]:
            wall_ms = self.wall.at_ms(self.now_ms())
            return register_broker(registration, wall_ms, session_id, tuple(self._session_ids))

        epoch = await register_in_session(
            self.zookeeper, flow, lambda session: self._session_ids.append(session[0])
        )
        self.manager.leadership.broker_epoch = epoch
        self.kernel.note(f"{self.name} is registered with epoch {epoch}")

    @property
    def is_controller_idle(self) -> bool:
        """Whether its machine waits for an event."""
        return self.controller._events.statistics().tasks_waiting_receive > 0

    # Requests

    def call(
        self, target: int, message: Any, version: int, done: Callable[[Any], None],
        timeout_ms: int | None = REQUEST_TIMEOUT_MS,
    ) -> Exchange:  # fmt: skip
        server = self.cluster.brokers[target]
        return self.cluster.network.call(
            self.process, server.name, server, self._through_codec(message, version), version,
            done, timeout_ms,
        )  # fmt: skip

    def _through_codec(self, message: Any, version: int) -> Any:
        """Now and then a message takes the form that it has on the wire."""
        if not self.kernel.chance(CODEC_SHARE):
            return message
        return codec.decode(type(message), version, codec.encode(message, version))

    def receive(self, exchange: Exchange) -> None:
        if not self.is_serving:
            self.kernel.after(0, exchange.source, exchange.fail)
            return
        message = exchange.message
        handler = self._controller_handlers.get(type(message))
        if handler is not None:
            self.nursery.start_soon(handler, SimulatedRequest(exchange))
            return
        request: Any = SimulatedRequest(exchange, lambda answer: self._respond(exchange, answer))
        if isinstance(message, FetchRequest):
            self._fetches.fetch(request)
        elif isinstance(message, ProduceRequest):
            request.body = _received(message)
            self._produces.produce(request)
        elif isinstance(message, ListOffsetsRequest):
            self._offsets.list_offsets(request)
        elif isinstance(message, OffsetForLeaderEpochRequest):
            self._leader_epochs.offset_for_leader_epoch(request)
        elif isinstance(message, LeaderAndIsrRequest):
            self.cluster.audit.control_request(self, message)
            self.orders.leader_and_isr(request)
        elif isinstance(message, StopReplicaRequest):
            self.cluster.audit.control_request(self, message)
            self.orders.stop_replica(request)
        else:
            assert isinstance(message, UpdateMetadataRequest)
            self.cluster.audit.control_request(self, message)
            self.orders.update_metadata(request)

    def _respond(self, exchange: Exchange, response: Any) -> None:
        if isinstance(response, ProduceResponse):
            leads = self.cluster.audit.acknowledged(self, exchange.message, response)
            exchange.respond(Produced(response, leads))
            return
        if isinstance(response, FetchResponse):
            for topic in response.responses:
                for data in topic.partitions:
                    records = data.records
                    if isinstance(records, FileSlice):
                        data.records = memoryview(records.read())
        self.cluster.audit.control_response(self, exchange.message, response)
        exchange.respond(self._through_codec(response, exchange.version))

    # Followers

    def _leadership_changed(self, result: Any) -> None:
        for change in (*result.became_leader, *result.became_follower):
            role = "leads" if change.leader_id == self.broker_id else f"follows b{change.leader_id}"
            log = self.manager.partitions[change.topic, change.partition].log
            self.kernel.note(f"{self.name} {role} {log} in epoch {change.leader_epoch}")

    # The clock

    def look_at_clock(self) -> None:
        now_ms = self.kernel.now_ms
        self.wall.note(now_ms, now_ms + self.clock_ahead_ms)

    async def _watch_clock(self) -> None:
        while True:
            self.look_at_clock()
            await trio.sleep(LOOK_SECONDS)
