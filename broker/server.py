"""One broker: its parts built in Kafka's start-up order, run together, stopped in order.

Start: ZooKeeper and cluster id, broker id, dynamic configs, log directories (recovery), replica
manager, sockets bound, registration (which gives the broker epoch), controller, coordinators,
config changes, and last the processing of connections. The broker is ready when the controller has
sent it metadata with itself alive, and the features of a new cluster are finalized: then a client
that connects finds a cluster.

Stop: controlled shutdown, config changes, sockets and handlers, coordinators, controller, replicas
(high watermarks), logs (flushed, checkpointed, marked clean), ZooKeeper session.

Mirrors `kafka.server.KafkaServer`.
"""

from __future__ import annotations

import functools
import logging
import os
import random
from collections.abc import Awaitable, Mapping
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple, Protocol

import trio

from ..protocol.features import NOTHING_FINALIZED, RELEASES, Levels
from ..protocol.zookeeper.constants import ZkCode
from ..protocol.zookeeper.operations import Flow, SessionExpired, ZkError
from ..replication.metadata_cache import MetadataUpdate
from ..storage.log_config import LogConfig
from ..storage.log_manager import LogManager
from . import settings
from .assembly import Parts, assemble
from .cluster.broker_connector import BrokerConnectors
from .cluster.controlled_shutdown import hand_over
from .cluster.parts import Ground
from .cluster.topic_config_cache import TopicConfigCache
from .config import ConfigError, KafkaConfig, dynamic, passwords
from .config.checks import check_config
from .config.listeners import host_and_port
from .config.sasl_config import uses_sasl
from .config.tls_listeners import TlsListeners
from .config_changes import ConfigChanges
from .coordinators.group_runtime import offsets_partition_count
from .coordinators.share_runtime import share_partition_count
from .coordinators.transaction_runtime import (
    transactions_partition_count,
)
from .observability.loop_watch import LoopWatch
from .observability.metrics import BrokerMetrics
from .replicas.log_jobs import STOPPING_THREADS, run_in_threads, run_storage_jobs
from .resources import heap
from .resources.clock import Clock
from .services import Services
from .zk.config_store import ConfigStore, NoController, broker_entity
from .zk.finalized_features import FinalizedFeatures
from .zk.registration import (
    RegistrationError,
    close_sessions_of_predecessors,
    ensure_top_level_paths,
    generate_broker_id,
    get_or_create_cluster_id,
    register_broker,
    register_in_session,
    remembered_sessions,
    save_sessions,
)
from .zk.zookeeper_client import ZooKeeperClient, ZooKeeperUnavailable, open_zookeeper
from .zk.zookeeper_security import zookeeper_security

logger = logging.getLogger("pybroker.broker.server")

READY_TIMEOUT_SECONDS = 60
SESSION_LOST = (
    "the ZooKeeper session expired while the broker was starting: start it again, and on a machine "
    "this busy with a longer zookeeper.session.timeout.ms"
)


NOT_OURS = (
    "the ACLs in ZooKeeper do not let this broker use {path}: the znodes belong to somebody else. "
    "Give it the login of the brokers that made them (zookeeper.ssl.keystore.location, "
    "pybroker.jaas.file or pybroker.zookeeper.credentials.file)"
)


# Where a socket that is bound to every address is reached on its own machine.
LOOPBACKS = {"0.0.0.0": "127.0.0.1", "::": "::1"}


class Companion(Protocol):
    """A task beside a broker in its process: the controls of tests."""

    async def run(self, broker: Broker) -> None:
        """Runs from the time the broker's sockets are served until it ends."""


class BoundAddresses(NamedTuple):
    """The addresses that `run_broker` reports when the broker is ready."""

    broker_id: int
    listeners: Mapping[str, tuple[str, int]]
    metrics_port: int | None
    release_lacked: str  # whose features the cluster could have and has not, or ""


async def run_broker(
    config: KafkaConfig,
    *,
    stop: trio.Event | None = None,
    metrics_address: tuple[str, int] | None = None,
    companion: Companion | None = None,
    task_status: trio.TaskStatus[BoundAddresses] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Run one broker until `stop` is set or the caller cancels.

    `stop` hands the leaderships over first (controlled shutdown); a cancelled broker closes its
    logs cleanly but does not. ConfigError, RegistrationError, StartupError, ZooKeeperUnavailable
    and OSError (a port in use) say why it cannot start.
    """
    check_config(config)
    try:
        async with open_zookeeper(
            config.zookeeper_connect,
            session_timeout_ms=config.get_int("zookeeper.session.timeout.ms"),
            connection_timeout_ms=config.zookeeper_connection_timeout_ms,
            security=zookeeper_security(config),
            follow_members=config.get_boolean("pybroker.zookeeper.follow.members"),
        ) as zookeeper:
            broker = Broker(config, zookeeper)
            broker.companion = companion
            stop = trio.Event() if stop is None else stop
            try:
                await broker.run(stop, metrics_address, task_status)
            finally:
                broker.files.release_spare_descriptors()
    except (SessionExpired, ZkError) as error:
        raise _in_plain_words(error) from None
    except BaseExceptionGroup as group:
        raise _in_plain_words(_only_error(group)) from None


def _in_plain_words(error: BaseException) -> BaseException:
    """A ZooKeeper error that the operator can mend as a plain message; other errors unchanged."""
    if isinstance(error, SessionExpired):
        return ZooKeeperUnavailable(SESSION_LOST)
    if isinstance(error, ZkError) and error.code is ZkCode.NO_AUTH:
        return ZooKeeperUnavailable(NOT_OURS.format(path=error.path))
    return error


def _only_error(error: BaseException) -> BaseException:
    """The only error inside nested exception groups; a group of several errors unchanged."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


class BrokerState(IntEnum):
    """Kafka's states, as far as they are visible here."""

    STARTING = 1
    RUNNING = 3
    PENDING_CONTROLLED_SHUTDOWN = 6


class Broker:
    """The parts of one running broker."""

    def __init__(self, config: KafkaConfig, zookeeper: ZooKeeperClient) -> None:
        self.config = config
        self.zookeeper = zookeeper
        self.clocks = Clock()
        self.clock = self.clocks.now_ms
        self.companion: Companion | None = None
        self.files = settings.storage_files()
        self.metrics = BrokerMetrics()
        self.loop_watch = LoopWatch(self.metrics)
        self.state = BrokerState.STARTING
        self.metrics.gauge("kafka_server_kafkaserver_brokerstate", lambda: self.state)
        self.store = ConfigStore(zookeeper)
        self.features = FinalizedFeatures(zookeeper)
        self.topic_configs = TopicConfigCache(config, self.store)
        self.background = trio.CapacityLimiter(config.get_int("background.threads"))
        self.sessions: list[int] = []  # ZooKeeper sessions that this process has had
        self._sessions_left: list[tuple[int, bytes]] = []  # of earlier runs, perhaps alive
        self.broker_id = -1
        self.broker_epoch = -1
        self.logs: LogManager | None = None
        self.is_loaded = False
        self.alive = trio.Event()  # the controller knows us
        self.parts: Parts  # from `_assemble` on
        self.changes: ConfigChanges

    # Start

    async def run(
        self,
        stop: trio.Event,
        metrics_address: tuple[str, int] | None,
        task_status: trio.TaskStatus[BoundAddresses],
    ) -> None:
        await self.zookeeper.over_sessions(self._identify)
        close = self._release_logs  # after a failure from here on
        try:
            await self._load_logs()
            self.is_loaded = True
            close = self._close_logs_cleanly  # nothing has been written yet
            self._assemble()
            addresses = self.parts.sockets.bind(self.parts.logins.guard(self.listeners))
            self.bound_addresses = addresses
            self.bound_ports = {name: address[1] for name, address in addresses.items()}
            async with trio.open_nursery() as nursery:
                services = Services(nursery)
                bound_metrics = await self._start_services(services, metrics_address)
                await self._wait_until_ready()
                heap.freeze_startup()
                self.state = BrokerState.RUNNING
                logger.info("Broker %d is ready on %s", self.broker_id, addresses)
                task_status.started(
                    BoundAddresses(self.broker_id, addresses, bound_metrics, self._release_lacked())
                )
                close = self._release_logs
                await stop.wait()
                await self._stop_services(services)
                nursery.cancel_scope.cancel()
            close = self._close_logs_cleanly
        except BaseException as error:
            if self.is_loaded and _is_cancellation(error):
                close = self._close_logs_cleanly
            raise
        finally:
            with trio.CancelScope(shield=True):
                await close()

    async def _identify(self) -> None:
        """Cluster id, broker id, and the dynamic configs, which may change all that follows."""
        run = self.zookeeper.run
        await run(ensure_top_level_paths())
        self.cluster_id = await run(get_or_create_cluster_id(os.urandom(16)))
        stored = settings.stored_broker_id(self.files, self.config.log_dirs)
        broker_id = self.config.broker_id if self.config.broker_id >= 0 else stored
        if broker_id < 0:
            broker_id = await run(generate_broker_id(self.config.get_int("reserved.broker.max.id")))
        self.broker_id = broker_id
        entities = [broker_entity(""), broker_entity(str(broker_id))]
        found = await self.store.read_many(entities)
        own = await self._own_configs(entities[1], found[entities[1]])
        dynamic.take_over(self.config, default=found[entities[0]], broker=own)
        self.tls = TlsListeners(self.config)
        self.listeners = settings.listener_specs(self.config, self.tls)

    async def _own_configs(self, entity: str, stored: dict[str, str]) -> dict[str, str]:
        """This broker's configs with readable passwords; those of an old secret are rewritten."""
        if not passwords.has_passwords(stored):
            return stored
        run = trio.to_thread.run_sync
        own = await run(passwords.readable, self.config, stored)
        if await run(passwords.was_written_with_another, self.config, stored):
            try:
                encrypted = await run(passwords.writable, self.config, own)
                await self.store.write(entity, {**stored, **encrypted})
            except (ConfigError, NoController) as error:
                logger.warning("Passwords of %s stay as they are: %s", entity, error)
        return own

    async def _load_logs(self) -> None:
        config = self.config
        topics = settings.hosted_topics(self.files, config.log_dirs)
        await self.zookeeper.over_sessions(lambda: self.topic_configs.load(topics))
        logs = self.logs = LogManager(
            config.log_dirs,
            self.files,
            LogConfig.from_overrides({}, config.explicit()),
            broker_id=self.broker_id,
            cluster_id=self.cluster_id,
            config=settings.log_manager_config(config),
            random_below=random.randrange,
            wall=self.clocks.wall,
        )
        configs = {topic: self.topic_configs.config_for(topic) for topic in topics}
        threads = config.get_int("num.recovery.threads.per.data.dir")
        await trio.to_thread.run_sync(logs.load, self.clock(), configs, run_in_threads(threads))
        self._sessions_left = remembered_sessions(self._session_dirs(), self.cluster_id)
        if not all(directory.cleanly_stopped for directory in logs.online_directories()):
            await self._close_sessions_left()

    async def _close_sessions_left(self) -> bool:
        """Close the ZooKeeper sessions of earlier runs; whether one was alive.

        We hold the directories' locks, so the owners of sessions remembered there are dead.
        """
        sessions, self._sessions_left = self._sessions_left, []
        return await close_sessions_of_predecessors(
            sessions,
            self.zookeeper.connect,
            session_timeout_ms=self.config.get_int("zookeeper.session.timeout.ms"),
            security=self.zookeeper.security,
        )

    def _assemble(self) -> None:
        assert self.logs is not None
        ground = Ground(
            config=self.config,
            clock=self.clock,
            trusted_ms=self.clocks.trusted_ms,
            metrics=self.metrics,
            zookeeper=self.zookeeper,
            store=self.store,
            features=self.features,
            topic_configs=self.topic_configs,
            logs=self.logs,
            broker_id=self.broker_id,
            cluster_id=self.cluster_id,
            tls=self.tls,
            connectors=BrokerConnectors(self.config, self.tls, self.broker_id),
        )
        self.parts = assemble(ground, self._register, self._address_of)
        self.parts.orders.on_metadata.append(self._metadata_changed)
        self.parts.orders.on_refused.append(self.alive.set)  # as Kafka's, it runs all the same
        self.changes = ConfigChanges(ground, self.parts, self.background)

    def _address_of(self, listener: str) -> str:
        """HOST:PORT at which this broker reaches its own listener."""
        host, port = self.bound_addresses[listener]
        return host_and_port(LOOPBACKS.get(host, host), port)

    async def _register(self) -> None:
        """Put this broker into /brokers/ids; also after its session has expired."""
        record = settings.registration(self.config, self.broker_id, self.bound_ports)

        def registration(session_id: int) -> Flow[int]:
            return register_broker(
                record,
                self.clocks.wall.at_ms(self.clock()),
                session_id,
                tuple(self.sessions),
                self.config.inter_broker_protocol.broker_node,
            )

        def registered() -> Awaitable[int]:
            return register_in_session(self.zookeeper, registration, self._remember_session)

        try:
            self.broker_epoch = await registered()
        except RegistrationError:
            # The last run stopped cleanly, but did not reach ZooKeeper to close its session.
            if not await self._close_sessions_left():
                raise
            self.broker_epoch = await registered()
        self.parts.replicas.manager.leadership.broker_epoch = self.broker_epoch

    def _remember_session(self, session: tuple[int, bytes]) -> None:
        # Those saved before have expired, were closed, or are in `_sessions_left`.
        save_sessions(self._session_dirs(), self.cluster_id, session)
        self.sessions.append(session[0])

    def _session_dirs(self) -> list[Path]:
        assert self.logs is not None
        return [Path(directory.path) for directory in self.logs.online_directories()]

    async def _start_services(
        self, services: Services, metrics_address: tuple[str, int] | None
    ) -> int | None:
        replicas, control, parts = self.parts.replicas, self.parts.control, self.parts
        groups, transactions, verifier, _, producer_ids, _, shares, persister, _ = (
            parts.coordinators
        )
        if parts.acls is not None:
            await services.start("acls", parts.acls.run, self.clock)
        await services.start("replicas", replicas.runtime.run)
        await services.start("fetchers", replicas.fetchers.run)
        await services.start("moves", replicas.mover.run)
        if parts.remote is not None:
            await services.start("remote reads", parts.remote.reads.run)
            await services.start("remote tasks", parts.remote.tasks.run)
            await services.start("remote take-overs", parts.remote.take_overs.run)
            await services.start("remote metadata", parts.remote.metadata.run)
        await self._register()
        offsets_partitions = await offsets_partition_count(self.zookeeper, self.config)
        await services.start("groups", groups.run, offsets_partitions)
        transaction_partitions = await transactions_partition_count(self.zookeeper, self.config)
        await services.start("transactions", transactions.run, transaction_partitions)
        await services.start("verifier", verifier.run)
        share_partitions = await share_partition_count(self.zookeeper, self.config)
        await services.start("shares", shares.run, share_partitions)
        await services.start("persister", persister.run)
        await services.start("share leader", parts.share_leader.run)
        await services.start("logins", parts.logins.run)
        if any(uses_sasl(spec.protocol) for spec in self.listeners):
            await self.zookeeper.over_sessions(self.changes.read_entities)  # logins need them
        await services.start("features", self.features.follow)
        await services.start("sockets", parts.sockets.run)
        await services.start("controller", control.controller.run)
        if self.zookeeper.session[0] != self.sessions[-1]:
            await self._register()  # it expired before the controller runtime watched it
        await services.start("topic creation", control.creator.run)
        await services.start("producer ids", producer_ids.run)
        services.spawn("isr changes", replicas.isr_changes.run)
        await services.start("configs", self.store.follow, self.changes.changed, self.clock)
        await self.zookeeper.over_sessions(self.changes.read_entities)
        services.spawn("key stores", self.changes.watch_key_stores)
        if parts.tokens.tokens.enabled:
            await services.start(
                "tokens",
                parts.tokens.run,
                lambda: control.controller.is_active,
                self.config.get_int("delegation.token.expiry.check.interval.ms"),
            )
        services.spawn("clock", self.clocks.watch)
        services.spawn(
            "storage",
            run_storage_jobs,
            self.logs,
            replicas.runtime,
            self.clock,
            self.background,
            parts.orders.retry_refused,
        )
        if self.companion is not None:
            services.spawn("companion", self.companion.run, self)
        services.spawn("heap", heap.freeze_now_and_then, parts.dispatcher.turns)
        await services.start("cleaner", parts.cleaner.run)
        if parts.tables is not None:
            await services.start("tables", parts.tables.run)
        return await self._serve_metrics(services, metrics_address)

    async def _serve_metrics(
        self, services: Services, address: tuple[str, int] | None
    ) -> int | None:
        """The bound port; None without an address."""
        if address is None:
            return None
        from .inside.views import Inside
        from .observability.metrics_http import serve_metrics

        host, port = address
        services.spawn("loop watch", self.loop_watch.run)
        inside = Inside(
            self.parts.replicas.manager,
            self.zookeeper,
            self.parts.coordinators.groups.machine.all_groups,
            self.parts.sockets.connections,
            self.parts.client_values,
            lambda: list(self.parts.share_leader.served.values()),
            self.clock,
            is_guarded=self.parts.acls is not None,
        )
        serve = functools.partial(
            serve_metrics, self.metrics, port, host=host, inside=inside.answer
        )
        bound: int = await services.start("metrics", serve)
        return bound

    async def _wait_until_ready(self) -> None:
        """Wait until the controller's metadata has this broker alive, and the features that a new
        cluster has are served, but not for long."""
        with trio.move_on_after(READY_TIMEOUT_SECONDS):
            await self.alive.wait()
            if self._wanted_levels():
                await self.features.exist.wait()
            self.parts.dispatcher.open()
            return
        self.parts.dispatcher.open()
        logger.warning(
            "No controller has spoken to broker %d within %d s; the start continues without one",
            self.broker_id, READY_TIMEOUT_SECONDS,
        )  # fmt: skip

    def _wanted_levels(self) -> Levels:
        if not self.config.inter_broker_protocol.has_features:
            return NOTHING_FINALIZED
        return RELEASES[self.config.get_string("pybroker.features")]

    def _release_lacked(self) -> str:
        """The release of `pybroker.features`, if the cluster is older and has not all of them."""
        levels = self.features.levels
        lacks = any(level > levels.get(name, 0) for name, level in self._wanted_levels().items())
        is_known = self.features.exist.is_set()
        return self.config.get_string("pybroker.features") if is_known and lacks else ""

    # While it runs

    def _metadata_changed(self, _update: MetadataUpdate) -> None:
        if self.parts.cache.is_alive(self.broker_id):
            self.alive.set()

    # Stop

    async def _stop_services(self, services: Services) -> None:
        self.state = BrokerState.PENDING_CONTROLLED_SHUTDOWN
        wanted = self.config.get_boolean("controlled.shutdown.enable")
        if wanted and self.zookeeper.is_connected:
            await hand_over(
                self.config,
                self.parts.cache,
                self.parts.control.client,
                lambda: self.broker_epoch,
            )
        await services.stop(
            "tables",
            "tokens",
            "features",
            "configs",
            "sockets",
            "logins",
            "verifier",
            "share leader",
            "transactions",
            "groups",
            "remote tasks",
            "remote reads",
            "remote take-overs",
            "remote metadata",
            "isr changes",
            "producer ids",
            "topic creation",
            "controller",
            "metrics",
            "loop watch",
            "cleaner",
            "heap",
            "storage",
            "fetchers",
            "moves",
            "replicas",
            "acls",
        )
        self.parts.control.client.close()

    async def _close_logs_cleanly(self) -> None:
        assert self.logs is not None
        try:
            run = run_in_threads(STOPPING_THREADS)
            await trio.to_thread.run_sync(self.logs.clean_shutdown, self.broker_epoch, run)
        except Exception:
            logger.exception("The logs were not closed cleanly")
            self.logs.release()

    async def _release_logs(self) -> None:
        """Release the logs as a crash would: the next start recovers them."""
        if self.logs is not None:
            self.logs.release()


def _is_cancellation(error: BaseException) -> bool:
    """Whether it is no failure of a part, after which nothing may be marked clean."""
    if isinstance(error, BaseExceptionGroup):
        return error.split(trio.Cancelled)[1] is None
    return isinstance(error, trio.Cancelled)


__all__ = ["BoundAddresses", "ConfigError", "run_broker"]
