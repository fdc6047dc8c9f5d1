"""The simulated cluster with transactions: brokers with coordinators, tellers, committed readers.

`simulate_transactions(seed)` runs the same faults as `cluster.simulate`, over the topic `t` with
its partitions, `__transaction_state` and `__consumer_offsets`; all that holds for replication is
checked for the three of them. What is promised about transactions is checked by the book
(`transactional_clients.Book`).

`simulate_transactions_2(seed)` has transaction.version 2 and producers of that version. Brokers
have nothing there that Kafka's do not have: no proofs, and no sense for late requests, which are
ours for producers of before. What is promised holds all the same, by the epoch of each transaction.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from random import Random
from typing import Any
from unittest.mock import patch

import trio

from pybroker_kafka.broker.coordinators.coordinator_runtime import CoordinatorRuntime
from pybroker_kafka.broker.coordinators.group_runtime import GroupRuntime
from pybroker_kafka.broker.coordinators.marker_writer import MarkerWriter
from pybroker_kafka.broker.coordinators.producer_ids import ProducerIds, allocate_from_controller
from pybroker_kafka.broker.coordinators.topic_image import CachedTopics
from pybroker_kafka.broker.coordinators.transaction_runtime import TransactionRuntime
from pybroker_kafka.broker.coordinators.transaction_verifier import TransactionVerifier
from pybroker_kafka.broker.handlers.api_versions import ApiVersionsHandler
from pybroker_kafka.broker.handlers.group_offsets import GroupOffsetHandlers
from pybroker_kafka.broker.handlers.produce import ProduceHandler
from pybroker_kafka.broker.handlers.transactional_produce import TransactionalProduce
from pybroker_kafka.broker.handlers.transactions import TransactionHandlers
from pybroker_kafka.broker.handlers.txn_offset_commit import TxnOffsetCommitHandler
from pybroker_kafka.broker.handlers.write_txn_markers import WriteTxnMarkersHandler
from pybroker_kafka.coordinator.connection_order import ConnectionOrders, Sender
from pybroker_kafka.coordinator.group import transactions as group_transactions
from pybroker_kafka.coordinator.group.consumer.config import ConsumerGroupConfig
from pybroker_kafka.coordinator.group.core import GroupConfig
from pybroker_kafka.coordinator.group.share.config import ShareGroupConfig
from pybroker_kafka.coordinator.transaction.core import TransactionConfig
from pybroker_kafka.coordinator.transaction.metadata import RAISES_EPOCHS, TransactionMetadata
from pybroker_kafka.protocol.api import API_TABLE, ApiKey
from pybroker_kafka.protocol.apis.add_offsets_to_txn import AddOffsetsToTxnRequest
from pybroker_kafka.protocol.apis.add_partitions_to_txn import AddPartitionsToTxnRequest
from pybroker_kafka.protocol.apis.api_versions import ApiVersionsRequest
from pybroker_kafka.protocol.apis.end_txn import EndTxnRequest
from pybroker_kafka.protocol.apis.init_producer_id import InitProducerIdRequest
from pybroker_kafka.protocol.apis.offset_fetch import OffsetFetchRequest
from pybroker_kafka.protocol.apis.txn_offset_commit import TxnOffsetCommitRequest
from pybroker_kafka.protocol.apis.write_txn_markers import WriteTxnMarkersRequest
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.features import NOTHING_FINALIZED, Feature, Levels
from pybroker_kafka.protocol.schema import Message
from pybroker_kafka.protocol.topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, TopicPartition
from pybroker_kafka.replication.types import LeadershipResult, StopResult
from tests.simulation.broker import REQUEST_TIMEOUT_MS, Broker, SimulatedRequest
from tests.simulation.clients import Client
from tests.simulation.cluster import TOPIC, Cluster, Result, run_cluster
from tests.simulation.network import Exchange
from tests.simulation.settings import Settings
from tests.simulation.transactional_clients import (
    Book,
    CommittedReader,
    OffsetReader,
    Teller,
    Teller2,
)
from tests.simulation.wires import LISTENER

DATA_PARTITIONS = 2
TELLERS = 3
ABORT_CHECK_MS = 300
EXPIRY_CHECK_MS = 2_000  # of transactional ids and of committed offsets
LOAD_BYTES = 2_000
MAX_OWN_PARTITIONS = 1
ISOLATED_COORDINATORS_WEIGHT = 2
RESETS_WEIGHT = 6
LATE_SHARE = 0.5
# Of these requests those whose connection breaks, beside what breaks connections anyway.
BROKEN_MARKERS_SHARE = 0.0
BROKEN_ENDS_SHARE = 0.0
BROKEN_OFFSETS_SHARE = 0.0

SERVED = (
    ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.METADATA, ApiKey.OFFSET_COMMIT,
    ApiKey.OFFSET_FETCH, ApiKey.FIND_COORDINATOR, ApiKey.JOIN_GROUP, ApiKey.HEARTBEAT,
    ApiKey.LEAVE_GROUP, ApiKey.SYNC_GROUP, ApiKey.API_VERSIONS, ApiKey.INIT_PRODUCER_ID,
    ApiKey.OFFSET_FOR_LEADER_EPOCH, ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.END_TXN, ApiKey.TXN_OFFSET_COMMIT,
)  # fmt: skip


class TransactionalBroker(Broker):
    cluster: TransactionalCluster
    levels: Levels
    group_config = GroupConfig(offsets_retention_check_interval_ms=EXPIRY_CHECK_MS)
    consumer_config = ConsumerGroupConfig()
    share_config = ShareGroupConfig()

    def new_produce_handler(self) -> ProduceHandler:
        self._build_coordinators()
        transactions = TransactionalProduce(self.replicas, self.verifier, lambda: True)
        return ProduceHandler(self.replicas, transactions)

    def _build_coordinators(self) -> None:
        replicas, metadata = self.replicas, self.manager.metadata
        self._uuids = 0
        version = self.cluster.version
        self.levels = {Feature.TRANSACTION: version} if version else NOTHING_FINALIZED
        self.groups = GroupRuntime(
            replicas, self.group_config, clock=self.now_ms, commit_timeout_ms=REQUEST_TIMEOUT_MS,
            load_buffer_bytes=LOAD_BYTES, new_uuid=self._new_uuid,
            consumer_config=self.consumer_config, image=CachedTopics(metadata),
            share_config=self.share_config,
        )  # fmt: skip
        self.producer_ids = ProducerIds(
            allocate_from_controller(
                self.controller_client, self.broker_id, lambda: self.manager.leadership.broker_epoch
            )
        )
        markers = MarkerWriter(replicas, self.groups.on_markers, REQUEST_TIMEOUT_MS)
        self.transactions = TransactionRuntime(
            replicas,
            TransactionConfig(
                abort_timed_out_interval_ms=ABORT_CHECK_MS,
                remove_expired_interval_ms=EXPIRY_CHECK_MS,
                request_timeout_ms=REQUEST_TIMEOUT_MS,
                proves=version < RAISES_EPOCHS,
            ),
            self.producer_ids, markers, listener=LISTENER, clock=self.now_ms,
            load_buffer_bytes=LOAD_BYTES, connect=self.connect, version=lambda: version,
            markers_version=lambda: API_TABLE[ApiKey.WRITE_TXN_MARKERS].highest(self.levels),
        )  # fmt: skip
        self.transactions.markers.max_own_partitions = MAX_OWN_PARTITIONS
        self.verifier = TransactionVerifier(
            metadata, LISTENER, str(self.broker_id), self.transactions.machine.verify_partitions,
            self.transactions.add_partitions, connect=self.connect, timeout_ms=REQUEST_TIMEOUT_MS,
        )  # fmt: skip
        handlers = TransactionHandlers(
            self.transactions, self.producer_ids, metadata, offsets_partition_for=lambda _group: 0
        )
        self._init_producer_id = handlers.init_producer_id
        nothing: Any = None
        self.group_offsets = GroupOffsetHandlers(
            self.groups, metadata, zookeeper=nothing, offset_metadata_max_bytes=4_096
        )
        offsets = TxnOffsetCommitHandler(self.groups, replicas, self.verifier, lambda: True)
        self.served: dict[type[Message], Any] = {
            ApiVersionsRequest: ApiVersionsHandler(
                lambda: ((key, 0, API_TABLE[key].highest(self.levels)) for key in SERVED),
                lambda: (0 if self.levels else -1, self.levels),
            ).api_versions,
            AddPartitionsToTxnRequest: handlers.add_partitions,
            AddOffsetsToTxnRequest: handlers.add_offsets,
            EndTxnRequest: handlers.end,
            InitProducerIdRequest: self._start_init_producer_id,
            WriteTxnMarkersRequest: WriteTxnMarkersHandler(markers).write,
            TxnOffsetCommitRequest: offsets.commit,
            OffsetFetchRequest: self.group_offsets.fetch,
        }

    def _new_uuid(self) -> str:
        self._uuids += 1
        return f"{self.name}.{self.process.generation}.{self._uuids}"

    def build(self) -> None:
        super().build()
        orders = self.orders
        for coordinator in (self.groups, self.transactions):
            orders.on_leadership.append(partial(roles_changed, coordinator))
            orders.on_stopped.append(partial(stopped, coordinator))

    async def begin(self, nursery: trio.Nursery) -> None:
        await super().begin(nursery)
        await nursery.start(self.producer_ids.run)
        await nursery.start(self.verifier.run)
        await nursery.start(self.groups.run, 1)
        await nursery.start(self.transactions.run, 1)

    def receive(self, exchange: Exchange) -> None:
        message = exchange.message
        if self.is_serving and type(message) in self.served:
            request = SimulatedRequest(exchange)
            for _ in self.served[type(message)](request) or ():
                pass  # such small requests are done in their first turn
        else:
            super().receive(exchange)

    def _start_init_producer_id(self, request: Any) -> None:
        self.nursery.start_soon(self._init_producer_id, request)


def roles_changed(coordinator: CoordinatorRuntime[Any, Any], result: LeadershipResult) -> None:
    coordinator.on_leadership_change(result.became_leader, result.became_follower)


def stopped(coordinator: CoordinatorRuntime[Any, Any], result: StopResult) -> None:
    coordinator.on_leadership_change((), result.stopped)


class TransactionalCluster(Cluster):
    brokers: dict[int, TransactionalBroker]  # type: ignore[assignment]

    def __init__(self, seed: int, version: int = 0) -> None:
        """`version`: the transaction.version of the cluster and of its tellers."""
        self.version = version
        super().__init__(seed)
        self.book = Book(self)
        self.tellers: list[Teller] = []
        self.readers: list[CommittedReader] = []
        self.offset_readers: list[OffsetReader] = []
        # A coordinator that is none any more, and answers whoever has not heard of the new one.
        for topic in (TRANSACTIONS_TOPIC, OFFSETS_TOPIC):
            isolate = partial(self.faults.isolate_leader, (topic, 0))
            self.faults.add(isolate, ISOLATED_COORDINATORS_WEIGHT)
        self.network.late_share = LATE_SHARE
        self.faults.add(self._reset_a_teller, RESETS_WEIGHT)
        self.network.broken_shares = {
            WriteTxnMarkersRequest: BROKEN_MARKERS_SHARE,
            EndTxnRequest: BROKEN_ENDS_SHARE,
            TxnOffsetCommitRequest: BROKEN_OFFSETS_SHARE,
        }

    @property
    def data_keys(self) -> list[TopicPartition]:
        return [key for key in self.keys if key[0] == TOPIC]

    def new_settings(self, random: Random) -> Settings:
        settings = Settings(random)
        settings.partition_count = DATA_PARTITIONS
        settings.forbid_unclean_elections()
        return settings

    def new_keys(self) -> list[TopicPartition]:
        return [*super().new_keys(), (TRANSACTIONS_TOPIC, 0), (OFFSETS_TOPIC, 0)]

    def new_broker(self, broker_id: int) -> TransactionalBroker:
        return TransactionalBroker(self, broker_id)

    def _reset_a_teller(self) -> None:
        if self.tellers:
            self.faults.reset(self.kernel.random.choice(self.tellers).process)

    def start_clients(self) -> None:
        for number in range(TELLERS):
            teller = Teller if self.version < RAISES_EPOCHS else Teller2
            self.tellers.append(teller(self, f"teller{number}"))
            self.offset_readers.append(OffsetReader(self, f"teller{number}"))
        self.readers = [CommittedReader(self, f"reader{key[1]}", key) for key in self.data_keys]
        clients: list[Client] = [*self.tellers, *self.readers, *self.offset_readers]
        for client in clients:
            client.start()

    def stop_clients(self) -> None:
        for teller in self.tellers:
            teller.is_stopping = True

    @property
    def writing_clients(self) -> list[Teller]:
        return self.tellers

    def what_clients_miss(self) -> str:
        for key in (*self.data_keys, (OFFSETS_TOPIC, 0)):
            state = self.audit.ledger(key).state
            assert state is not None
            log = self.brokers[state.leader].manager.partitions[key].log
            if log.last_stable_offset != log.log_end_offset:
                return f"a transaction is open on {key}: {log}, LSO {log.last_stable_offset}"
        for reader in self.readers:
            end = self.audit.ledger(reader.key).end
            if reader.position != end:
                return f"{reader.name} is at {reader.position} of {end}"
        for offsets in self.offset_readers:
            if not offsets.is_settled:
                return f"the offsets of {offsets.group} are unstable"
        return ""

    def check_clients(self) -> None:
        self.book.check()


def simulate_transactions_2(seed: int) -> Result:
    """The same with producers of version 2, and without the protections of those of before."""
    with unprotected():
        return simulate_transactions(seed, RAISES_EPOCHS)


@contextmanager
def unprotected() -> Iterator[None]:
    """No request is too late for its receiver."""

    class NothingIsLate(ConnectionOrders[Sender]):
        def is_late(self, sender: Sender, connection: int) -> bool:
            return False

    with ExitStack() as stack:
        for one in (
            patch.object(TransactionMetadata, "is_late", lambda _self, _connection: False),
            patch.object(WriteTxnMarkersHandler, "_is_late", lambda _self, _request: False),
            patch.object(group_transactions, "ConnectionOrders", NothingIsLate),
        ):
            stack.enter_context(one)
        yield


def simulate_transactions(seed: int, version: int = 0) -> Result:
    """Run one seed to its end; whatever it found is in the result."""
    cluster = TransactionalCluster(seed, version)
    result = run_cluster(cluster)
    result.batches = sum(
        one.outcome is ErrorCode.NONE for one in cluster.book.transactions.values()
    )
    return result
