"""The simulated cluster with the real client of `pybroker_kafka.client` on trio.

`simulate_client(seed)` runs the faults of `transactions.simulate_transactions`, and those of the
way between a client and a broker, against producers, consumers and members of groups as users write
them (`client_apps`). What they were promised is checked by the judge (`client_judge`), and all that
holds for the cluster beside it.
"""

from __future__ import annotations

from itertools import count
from random import Random
from typing import Any
from unittest.mock import patch

import trio

from pybroker_kafka.broker.handlers.api_versions import ApiVersionsHandler
from pybroker_kafka.broker.handlers.consumer_groups import ConsumerGroupHandlers
from pybroker_kafka.broker.handlers.find_coordinator import FindCoordinatorHandler
from pybroker_kafka.broker.handlers.groups import GroupHandlers
from pybroker_kafka.broker.handlers.metadata import MetadataHandler
from pybroker_kafka.broker.network.connection_quotas import ConnectionQuotas
from pybroker_kafka.broker.network.dispatcher import Dispatcher
from pybroker_kafka.broker.network.socket_server import (
    ListenerSpec,
    SocketServer,
    SocketSettings,
)
from pybroker_kafka.broker.observability.metrics import BrokerMetrics
from pybroker_kafka.broker.share.group_settings import ShareSettings
from pybroker_kafka.client.consumer import epoch_member
from pybroker_kafka.client.share import state as share_state
from pybroker_kafka.coordinator.group.consumer.config import ConsumerGroupConfig
from pybroker_kafka.coordinator.group.core import GroupConfig
from pybroker_kafka.coordinator.group.share.config import ShareGroupConfig
from pybroker_kafka.coordinator.transaction.metadata import RAISES_EPOCHS
from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.features import Feature
from pybroker_kafka.protocol.topics import SHARE_STATE_TOPIC, TopicPartition
from pybroker_kafka.replication.metadata_cache import MetadataUpdate
from pybroker_kafka.replication.offsets import EARLIEST_TIMESTAMP
from pybroker_kafka.replication.share.limits import ShareLimits
from pybroker_kafka.replication.types import Isolation
from tests.simulation.client_apps import App, PlainSender, Sender
from tests.simulation.client_judge import Judge
from tests.simulation.client_members import Member
from tests.simulation.client_queues import QueueMember
from tests.simulation.client_transactions import CommittedReader, Teller
from tests.simulation.cluster import CALM_START_MS, CHECK_MS, CONVERGENCE_LIMIT_MS, Result
from tests.simulation.kernel import START_MS, Process
from tests.simulation.queue_book import QueueBook
from tests.simulation.settings import Settings
from tests.simulation.share_side import ShareSide
from tests.simulation.sockets import Ground, Socket, new_descriptors, simulated_sockets
from tests.simulation.streams import Host
from tests.simulation.transactions import (
    EXPIRY_CHECK_MS,
    SERVED,
    TransactionalBroker,
    TransactionalCluster,
    unprotected,
)
from tests.simulation.virtual_trio import TrioRun, simulated
from tests.simulation.wires import LISTENER

# After the last fault: for as long as clients wait for an answer, and then some.
CLIENTS_LIMIT_SECONDS = 150.0
CUTS_WEIGHT = 4
ISOLATED_LEADERS_WEIGHT = 3
SILENCES_WEIGHT = 4
REFUSALS_WEIGHT = 3
END_OF_TIME_MS = 2 * START_MS
SESSION_MS = 2_000  # of members by the consumer protocol
HEARTBEAT_MS = 300
ASSIGNMENT_INTERVAL_MS = 200
LONGEST_CUT_MS = 4_000
LOCKS_MS = (700, 1_500, 3_000)
DELIVERY_LIMITS = (2, 3, 5)
MOST_LOCKED = 100
QUEUES_SHARE = 0.6  # of seeds, where the cluster has share groups
IDLE_LIMITS_MS = (600_000, 600_000, 8_000)


class ServingBroker(TransactionalBroker):
    """Serves all that clients ask for."""

    cluster: ClientCluster

    group_config = GroupConfig(
        min_session_timeout_ms=1_000,
        initial_rebalance_delay_ms=200,
        offsets_retention_check_interval_ms=EXPIRY_CHECK_MS,
    )
    consumer_config = ConsumerGroupConfig(
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
        assignment_interval_ms=ASSIGNMENT_INTERVAL_MS,
    )

    share_config = ShareGroupConfig(
        session_timeout_ms=SESSION_MS, heartbeat_interval_ms=HEARTBEAT_MS
    )
    shares: ShareSide

    def build(self) -> None:
        super().build()
        metadata = self.manager.metadata
        topics = MetadataHandler(metadata, clock=self.now_ms)
        self.orders.on_metadata.append(topics.metadata_changed)
        coordinators = FindCoordinatorHandler(
            metadata,
            auto_create_topic=lambda _topic: None,
            group_partition_for=lambda _group: 0,
            transaction_partition_for=lambda _name: 0,
            share_partition_for=lambda _key: None,
        )
        members = GroupHandlers(self.groups)
        handlers: dict[ApiKey, Any] = {
            ApiKey.METADATA: topics.metadata,
            ApiKey.FIND_COORDINATOR: coordinators.find_coordinator,
            ApiKey.JOIN_GROUP: members.join,
            ApiKey.SYNC_GROUP: members.sync,
            ApiKey.HEARTBEAT: members.heartbeat,
            ApiKey.LEAVE_GROUP: members.leave,
            ApiKey.OFFSET_COMMIT: self.group_offsets.commit,
            ApiKey.PRODUCE: self._produces.produce,
            ApiKey.FETCH: self._fetches.fetch,
            ApiKey.LIST_OFFSETS: self._offsets.list_offsets,
            ApiKey.OFFSET_FOR_LEADER_EPOCH: self._leader_epochs.offset_for_leader_epoch,
            ApiKey.INIT_PRODUCER_ID: self._init_producer_id,
        }
        if self.cluster.has_consumer_protocol:
            self.levels = {**self.levels, Feature.GROUP: 1, Feature.SHARE: 1}
            heartbeats = ConsumerGroupHandlers(self.groups, lambda: self.levels)
            handlers[ApiKey.CONSUMER_GROUP_HEARTBEAT] = heartbeats.heartbeat
            self.shares = ShareSide(self)
            handlers |= self.shares.handlers
            self.orders.on_metadata.append(self._topics_changed)
        self._build_network(handlers)

    def _topics_changed(self, update: MetadataUpdate) -> None:
        self.groups.on_topics_changed(update.changed_topics | update.deleted_topics)

    def _build_network(self, handlers: dict[ApiKey, Any]) -> None:
        """What clients reach: other brokers' requests come on `wires`."""
        metrics = BrokerMetrics()
        dispatcher = Dispatcher(metrics)
        dispatcher.finalized(self.levels)
        versions = ApiVersionsHandler(
            dispatcher.served, lambda: (0 if self.levels else -1, self.levels)
        )
        handlers[ApiKey.API_VERSIONS] = versions.api_versions
        others = {ApiKey(kind._spec.api_key): handle for kind, handle in self.served.items()}
        dispatcher.register({key: others[key] for key in SERVED if key in others} | handlers)
        address = (self.name, 9000 + self.broker_id)
        self.ground = Ground(self, address)
        self._network = SocketServer(
            dispatcher, ConnectionQuotas(), self.cluster.socket_settings, metrics, self.ground.seam
        )
        # A wait in the kernel is one of all tasks.
        self._network.short_waits.others_wait = lambda: True
        self._network.bind([ListenerSpec(LISTENER, LISTENER, *address)])

    async def begin(self, nursery: trio.Nursery) -> None:
        await super().begin(nursery)
        if self.cluster.has_consumer_protocol:
            await self.shares.begin(nursery)
        await nursery.start(self._network.run)

    def kill(self) -> None:
        super().kill()
        for host in self.cluster.hosts:
            for connection in list(host.connections):
                if connection.broker is self and connection.is_up:
                    delay_ms = self.cluster.network.delay_ms()
                    self.kernel.after(delay_ms, None, connection.reset)


class ClientCluster(TransactionalCluster):
    brokers: dict[int, ServingBroker]  # type: ignore[assignment]

    def __init__(self, seed: int, version: int = 0) -> None:
        super().__init__(seed, version)
        # Users' programs, on all hosts.
        self.programs = TrioRun(self.kernel, Process("programs"), self._run)
        self.judge = Judge(self)
        draw = Random(seed)
        self.share_settings = ShareSettings(
            ShareLimits(draw.choice(LOCKS_MS), draw.choice(DELIVERY_LIMITS), MOST_LOCKED),
            EARLIEST_TIMESTAMP,
            False,
            draw.choice((Isolation.READ_UNCOMMITTED, Isolation.READ_COMMITTED)),
        )
        self.snapshot_updates = draw.choice((3, 20))
        limits = self.share_settings.limits
        self.queue_book = QueueBook(
            self, limits.delivery_count_limit, limits.record_lock_duration_ms
        )
        self.hosts: list[Host] = []
        self.descriptors = new_descriptors()
        self.sockets: dict[int, Socket] = {}
        random = self.kernel.random
        self.socket_settings = SocketSettings(
            network_threads=2,
            max_idle_ms=random.choice(IDLE_LIMITS_MS),
            queued_requests=random.choice((500, 500, 2)),
            queued_bytes=random.choice((-1, -1, 2_000)),
        )
        self.apps: list[App] = []
        for kind, weight in (
            (self._isolate_a_leader, ISOLATED_LEADERS_WEIGHT),
            (self._cut_host, CUTS_WEIGHT),
            (self._silence, SILENCES_WEIGHT),
            (self._refuse, REFUSALS_WEIGHT),
        ):
            self.faults.add(kind, weight)

    @property
    def has_consumer_protocol(self) -> bool:
        """And share groups."""
        return self.version >= RAISES_EPOCHS

    def new_keys(self) -> list[TopicPartition]:
        keys = super().new_keys()
        return [*keys, (SHARE_STATE_TOPIC, 0)] if self.has_consumer_protocol else keys

    def new_settings(self, random: Random) -> Settings:
        settings = super().new_settings(random)
        settings.broker_count = 3
        return settings

    def new_broker(self, broker_id: int) -> ServingBroker:
        return ServingBroker(self, broker_id)

    def new_host(self, name: str) -> Host:
        """Another machine with clients on it."""
        host = Host(self, name)
        self.hosts.append(host)
        return host

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{broker.name}:{9000 + number}" for number, broker in self.brokers.items())

    def has_all_written(self) -> bool:
        """Whether all users that write are through."""
        return all(app.is_done for app in self.apps if app.writes)

    # Faults between clients and brokers

    def _any_host(self) -> tuple[Host, str] | None:
        if not self.hosts:
            return None
        random = self.kernel.random
        return random.choice(self.hosts), random.choice(list(self.brokers.values())).name

    def _isolate_a_leader(self) -> None:
        self.faults.isolate_leader(self.kernel.random.choice(self.data_keys))

    def _reset_a_teller(self) -> None:
        """The connections of a client."""
        chosen = self._any_host()
        if chosen is not None:
            self.kernel.note(f"FAULT the connections of {chosen[0].name} are reset")
            for connection in list(chosen[0].connections):
                connection.reset()

    def _cut_host(self) -> None:
        chosen = self._any_host()
        if chosen is None:
            return
        host, broker = chosen
        names = [broker] if self.kernel.chance(0.8) else [b.name for b in self.brokers.values()]
        self.kernel.note(f"FAULT no network between {host.name} and {', '.join(names)}")
        for name in names:
            self.network.cut(host.name, name)
            delay_ms = self.kernel.random.randint(100, LONGEST_CUT_MS)
            self.kernel.after(delay_ms, None, self.network.mend, host.name, name)

    def _silence(self) -> None:
        chosen = self._any_host()
        if chosen is not None:
            host, broker = chosen
            self.kernel.note(f"FAULT answers of {broker} to {host.name} are lost")
            until_ms = self.kernel.now_ms + self.kernel.random.randint(20, 1_000)
            host.swallowed_until_ms[broker] = until_ms

    def _refuse(self) -> None:
        chosen = self._any_host()
        if chosen is not None:
            host, broker = chosen
            self.kernel.note(f"FAULT {broker} refuses {host.name}")
            until_ms = self.kernel.now_ms + self.kernel.random.randint(100, LONGEST_CUT_MS)
            host.refused_until_ms[broker] = until_ms
            for connection in list(host.connections):
                if connection.broker.name == broker:
                    connection.reset()

    # A run

    def run(self) -> None:
        programs = self.programs
        programs.step(lambda: None, ())
        self.kernel.run_until(END_OF_TIME_MS, lambda: programs.is_over)

    async def _run(self) -> None:
        kernel = self.kernel
        kernel.note(f"seed {self.seed}: {self.settings}")
        self.admin.start()
        self.admin.on_connected = self._set_up
        await trio.sleep(CALM_START_MS / 1000)
        self.apps = [
            kind(self, f"{kind.__name__.lower()}{n}") for n, kind in enumerate(app_kinds(self))
        ]
        has_queue = any(isinstance(app, QueueMember) for app in self.apps)
        if has_queue:
            self.queue_book.look()
        async with trio.open_nursery() as nursery:
            for app in self.apps:
                nursery.start_soon(self._run_app, app)
            self.faults.start()
            await trio.sleep(self.settings.faults_ms / 1000)
            kernel.note("all faults end")
            self.faults.end()
            for host in self.hosts:
                host.refused_until_ms.clear()
                host.swallowed_until_ms.clear()
            for app in self.apps:
                app.is_stopping = True
            await self._wait_for_apps()
        self._check_convergence()
        with trio.move_on_after(CONVERGENCE_LIMIT_MS / 1000):
            while not self._has_converged:  # noqa: ASYNC110
                await trio.sleep(CHECK_MS / 1000)
        if not self._has_converged:
            self.audit.fail(f"no convergence in {CONVERGENCE_LIMIT_MS} ms: {self.reason}")
        self.judge.check()
        if has_queue:
            self.queue_book.check()

    async def _run_app(self, app: App) -> None:
        await app.run()
        app.is_done = True
        self.kernel.note(f"{app.name} is through")

    async def _wait_for_apps(self) -> None:
        with trio.move_on_after(CLIENTS_LIMIT_SECONDS):
            while not all(app.is_done for app in self.apps):  # noqa: ASYNC110
                await trio.sleep(CHECK_MS / 1000)
        for app in self.apps:
            if not app.is_done:
                limit = CLIENTS_LIMIT_SECONDS
                self.audit.fail(f"{app.name} hangs: {app.state}, {limit:.0f} s after all faults")

    def what_clients_miss(self) -> str:
        return ""


def app_kinds(cluster: ClientCluster) -> list[type[App]]:
    """Of a seed: some that write, and some that read it."""
    random = cluster.kernel.random
    kinds: list[type[App]] = random.choices((Sender, PlainSender, Teller), (3, 1, 3), k=2)
    if random.random() < 0.5 or Teller in kinds:
        kinds.append(CommittedReader)
    if random.random() < 0.6:
        kinds += [Member] * random.randint(1, 3)
    if cluster.has_consumer_protocol and random.random() < QUEUES_SHARE:
        kinds += [QueueMember] * random.randint(1, 3)
    return kinds


def simulate_client_2(seed: int) -> Result:
    """The same with transaction.version 2, the consumer protocol of groups and queues, and without
    the protections of versions before."""
    with unprotected():
        return simulate_client(seed, RAISES_EPOCHS)


def simulate_queues(seed: int) -> Result:
    """The same with members of a queue in each seed."""
    with patch(f"{__name__}.QUEUES_SHARE", 1.0):
        return simulate_client_2(seed)


def simulate_client(seed: int, version: int = 0) -> Result:
    """Run one seed to its end; whatever it found is in the result."""
    cluster = ClientCluster(seed, version)
    kernel = cluster.kernel
    error: str | None = None
    ids = (f"member-{number}" for number in count())
    try:
        with (
            simulated(kernel, seed),
            simulated_sockets(cluster.network, cluster.sockets),
            patch.object(epoch_member, "new_member_id", lambda: next(ids)),
            patch.object(share_state, "new_member_id", lambda: next(ids)),
        ):
            cluster.run()
    except Exception as failure:
        error = f"{type(failure).__name__}: {failure}"
    apps = ", ".join(app.name for app in cluster.apps)
    result = Result(
        seed, kernel.digest, kernel.steps, kernel.now_ms - START_MS, cluster.judge.acknowledged,
        f"{cluster.settings}; {apps}", error,
    )  # fmt: skip
    if error is not None:
        result.trace = tuple(kernel.trace)
    return result
