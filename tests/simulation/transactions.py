"""The simulated cluster with transactions: brokers with coordinators, tellers, committed readers.

`simulate_transactions(seed)` runs the same faults as `cluster.simulate`, over the topic `t` with
its partitions, `__transaction_state` and `__consumer_offsets`; all that holds for replication is
checked for the three of them. What is promised about transactions is checked by the book
(`transactional_clients.Book`).
"""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Any

from pybroker_kafka.broker.coordinators.marker_writer import MarkerWriter
from pybroker_kafka.broker.handlers.produce import ProduceHandler
from pybroker_kafka.broker.handlers.transactional_produce import TransactionalProduce
from pybroker_kafka.broker.handlers.transactions import TransactionHandlers
from pybroker_kafka.broker.handlers.txn_offset_commit import TxnOffsetCommitHandler
from pybroker_kafka.broker.handlers.write_txn_markers import WriteTxnMarkersHandler
from pybroker_kafka.coordinator.group.stable_fetch import Wanted
from pybroker_kafka.protocol.apis.add_offsets_to_txn import AddOffsetsToTxnRequest
from pybroker_kafka.protocol.apis.add_partitions_to_txn import AddPartitionsToTxnRequest
from pybroker_kafka.protocol.apis.end_txn import EndTxnRequest
from pybroker_kafka.protocol.apis.init_producer_id import InitProducerIdRequest
from pybroker_kafka.protocol.apis.offset_fetch import OffsetFetchRequest
from pybroker_kafka.protocol.apis.txn_offset_commit import TxnOffsetCommitRequest
from pybroker_kafka.protocol.apis.write_txn_markers import WriteTxnMarkersRequest
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, TopicPartition
from tests.simulation.broker import Broker, SimulatedRequest
from tests.simulation.clients import Client
from tests.simulation.cluster import TOPIC, Cluster, Result, run_cluster
from tests.simulation.coordinators import (
    REQUEST_TIMEOUT_MS,
    SimulatedGroups,
    SimulatedTransactions,
    Verifier,
)
from tests.simulation.network import Exchange
from tests.simulation.settings import Settings
from tests.simulation.transactional_clients import Book, CommittedReader, OffsetReader, Teller

DATA_PARTITIONS = 2
TELLERS = 3
FIRST_PRODUCER_ID = 5_000
ISOLATED_COORDINATORS_WEIGHT = 2
RESETS_WEIGHT = 6
BROKEN_CONNECTIONS_WEIGHT = 0  # beside what breaks connections between brokers anyway
LATE_SHARE = 0.5


class _FetchOffsets:
    """The token of an OffsetFetch for one group."""

    __slots__ = ("_request",)

    def __init__(self, request: SimulatedRequest) -> None:
        self._request = request

    def respond(self, answers: list[Any]) -> None:
        self._request.respond(answers[0])


class TransactionalBroker(Broker):
    cluster: TransactionalCluster

    def new_produce_handler(self) -> ProduceHandler:
        verifier: Any = Verifier(self)
        transactions = TransactionalProduce(self.replicas, verifier, lambda: True)
        return ProduceHandler(self.replicas, transactions)

    def start(self) -> None:
        super().start()
        replicas = self.replicas
        self.transactions = SimulatedTransactions(self)
        self.groups = self.new_groups()
        verifier: Any = Verifier(self)
        transactions: Any = self.transactions
        groups: Any = self.groups
        nothing: Any = None
        offsets = TxnOffsetCommitHandler(groups, replicas, verifier, lambda: True)
        self.markers = MarkerWriter(replicas, self.groups.on_markers, REQUEST_TIMEOUT_MS)
        markers = WriteTxnMarkersHandler(self.markers)
        handlers = TransactionHandlers(
            transactions, nothing, self.manager.metadata, offsets_partition_for=lambda _group: 0
        )
        self._handlers = handlers
        self._served: dict[type, Any] = {
            AddPartitionsToTxnRequest: handlers.add_partitions,
            AddOffsetsToTxnRequest: handlers.add_offsets,
            EndTxnRequest: handlers.end,
            InitProducerIdRequest: self._init_producer_id,
            WriteTxnMarkersRequest: markers.write,
            TxnOffsetCommitRequest: offsets.commit,
            OffsetFetchRequest: self._fetch_offsets,
        }
        self._replication.on_leadership.append(self._roles_changed)
        self._replication.on_stopped.append(
            lambda result: self._tell_coordinators((), result.stopped)
        )

    def new_groups(self) -> SimulatedGroups:
        return SimulatedGroups(self)

    def _roles_changed(self, result: Any) -> None:
        self._tell_coordinators(result.became_leader, result.became_follower)

    def _tell_coordinators(self, became_leader: Any, became_follower: Any) -> None:
        self.transactions.roles_changed(became_leader, became_follower)
        self.groups.roles_changed(became_leader, became_follower)

    def receive(self, exchange: Exchange) -> None:
        message = exchange.message
        if self.is_serving and type(message) in self._served:
            request = SimulatedRequest(exchange)
            for _ in self._served[type(message)](request) or ():
                pass  # such small requests are done in their first turn
        else:
            super().receive(exchange)

    def _init_producer_id(self, request: Any) -> None:
        """With a transactional id the handler has nothing to wait for."""
        coroutine: Any = self._handlers.init_producer_id(request)
        try:
            coroutine.send(None)
        except StopIteration:
            return
        raise AssertionError("InitProducerId waits")

    def _fetch_offsets(self, request: Any) -> None:
        (group,) = request.body.groups
        wanted = Wanted(group.group_id, [(TOPIC, [0])])
        groups = self.groups
        if request.body.require_stable:
            call = _FetchOffsets(request)
            groups.machine.fetch_stable_offsets(call, [wanted], groups.now_ms)
            groups.perform()
        else:
            request.respond(groups.machine.fetch_offsets(*wanted))


class TransactionalCluster(Cluster):
    brokers: dict[int, TransactionalBroker]  # type: ignore[assignment]

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._producer_ids = FIRST_PRODUCER_ID
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
        self.faults.add(self.faults.break_connections, BROKEN_CONNECTIONS_WEIGHT)

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

    def new_producer_id(self) -> int:
        self._producer_ids += 1
        return self._producer_ids

    def _reset_a_teller(self) -> None:
        if self.tellers:
            self.faults.reset(self.kernel.random.choice(self.tellers).process)

    def start_clients(self) -> None:
        for number in range(TELLERS):
            self.tellers.append(Teller(self, f"teller{number}"))
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


def simulate_transactions(seed: int) -> Result:
    """Run one seed to its end; whatever it found is in the result."""
    cluster = TransactionalCluster(seed)
    result = run_cluster(cluster)
    result.batches = sum(
        one.outcome is ErrorCode.NONE for one in cluster.book.transactions.values()
    )
    return result
