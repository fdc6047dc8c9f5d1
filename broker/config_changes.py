"""Applies dynamic configs of topics, brokers, clients and users to the running parts of a broker.

Mirrors DynamicBrokerConfig's reconfigurables, TopicConfigHandler and UserConfigHandler.
"""

from __future__ import annotations

import logging

import trio

from ..protocol.errors import KafkaError
from ..protocol.sanitized_names import desanitize
from ..storage.log_config import LogConfig
from . import settings
from .assembly import Parts
from .cluster.parts import Ground
from .config import ConfigError, dynamic, passwords
from .coordinators.group_runtime import consumer_group_config, streams_group_config
from .quotas.entities import CONNECTION_CREATION_RATE, Entity, IpEntity, entity_at
from .replicas.parts import apply_replication_quotas
from .zk.config_store import CLIENT_METRICS, GROUPS, broker_entity, read_all_of, topic_entity
from .zk.quota_store import read_all_quotas

logger = logging.getLogger("pybroker.broker.server")

KEY_STORE_SECONDS = 15.0  # between two looks at their files


class ConfigChanges:
    __slots__ = ("_addresses", "_background", "_ground", "_parts", "_tls_problem")

    def __init__(self, ground: Ground, parts: Parts, background: trio.CapacityLimiter) -> None:
        """`background` limits the threads of background jobs."""
        self._ground = ground
        self._parts = parts
        self._background = background
        self._tls_problem = ""  # logged already
        self._addresses: dict[str, str] = {}  # of hosts whose connections are limited

    async def changed(self, entity: str, values: dict[str, str]) -> None:
        """An entity of the config store has these values now."""
        ground, parts = self._ground, self._parts
        kind, _, name = entity.partition("/")
        if entity == topic_entity(name):
            with parts.replicas.runtime.applying:
                ground.topic_configs.changed(name, values)
            parts.control.controller.topic_config_changed(name, values)
        elif (quoted := entity_at(entity)) is not None:
            await self._apply_entity(quoted, values)
        elif kind == CLIENT_METRICS:
            self._apply_client_metrics(name, values)
        elif kind == GROUPS:
            self._apply_group(name, values)
        elif kind == "brokers":
            if entity == broker_entity(""):
                changed = dynamic.take_over(ground.config, default=values)
            elif name == str(ground.broker_id):
                if passwords.has_passwords(values):
                    values = await trio.to_thread.run_sync(
                        passwords.readable, ground.config, values
                    )
                changed = dynamic.take_over(ground.config, broker=values)
            else:
                return
            if changed:
                logger.info("Dynamic configs changed: %s", ", ".join(sorted(changed)))
                if "max.connections.per.ip.overrides" in changed:
                    parts.sockets.quotas.max_per_ip_overrides = await trio.to_thread.run_sync(
                        settings.connections_by_address, ground.config
                    )
                with parts.replicas.runtime.applying:
                    self._apply()
                await parts.logins.refresh()
            await self.refresh_tls()

    async def refresh_tls(self) -> None:
        """Use the present keys and key store files for new connections, if they are valid."""
        tls = self._ground.tls
        if not tls:
            return
        try:
            loaded = await trio.to_thread.run_sync(tls.load, tls.wanted(self._ground.config))
        except ConfigError as error:
            if str(error) != self._tls_problem:
                logger.error("TLS keeps its present configuration: %s", error)
            self._tls_problem = str(error)
            return
        self._tls_problem = ""
        for name in tls.apply(loaded):
            logger.info("New connections to listener %s get its changed key stores", name)

    async def watch_key_stores(self) -> None:
        """A file may be replaced without a word to us."""
        while self._ground.tls:
            await trio.sleep(KEY_STORE_SECONDS)
            await self.refresh_tls()

    async def read_entities(self) -> None:
        """Apply all stored configs of clients, users (with their credentials), addresses, groups,
        and subscriptions to metrics of clients; the config store reports later changes.
        """
        for kind, apply in (
            (CLIENT_METRICS, self._apply_client_metrics),
            (GROUPS, self._apply_group),
        ):
            for entity, values in (await self._ground.store.run(read_all_of(kind))).items():
                apply(entity.partition("/")[2], values)
                await trio.lowlevel.checkpoint()  # there may be very many
        for entity, values in (await self._ground.store.run(read_all_quotas())).items():
            quoted = entity_at(entity)
            if quoted is not None:
                await self._apply_entity(quoted, values)
            await trio.lowlevel.checkpoint()  # there may be very many

    def _apply_client_metrics(self, name: str, values: dict[str, str]) -> None:
        try:
            self._parts.client_instances.changed(desanitize(name), values)
        except KafkaError as error:
            logger.error("The subscription %s to metrics of clients: %s", name, error.message)

    def _apply_group(self, name: str, values: dict[str, str]) -> None:
        try:
            self._parts.coordinators.group_configs.changed(desanitize(name), values)
        except KafkaError as error:
            logger.error("The configs of the group %s: %s", name, error.message)

    async def _apply_entity(self, entity: Entity | IpEntity, values: dict[str, str]) -> None:
        if isinstance(entity, IpEntity):
            await self._apply_rate(entity.name, values.get(CONNECTION_CREATION_RATE))
        else:
            self._parts.quotas.apply(entity, values)
            user, client = entity
            if user and client == "":
                self._parts.logins.scram.apply(user, values)

    async def _apply_rate(self, name: str | None, rate: str | None) -> None:
        """Limit the connections a second from an address, or from each; a name may be a host's,
        whose address may have changed since the limit was set.
        """
        rates = self._parts.sockets.quotas.rates
        address = None
        try:
            limit = None if rate is None else float(rate)
            if name is not None and limit is not None:
                address = await trio.to_thread.run_sync(
                    settings.address_of, name, limiter=self._background
                )
        except (OSError, ValueError) as error:
            logger.error("The connection rate %s of the address %s: %s", rate, name, error)
            return
        if name is not None and name in self._addresses:
            rates.limit_address(self._addresses.pop(name), None)
        if address is not None and name is not None:
            self._addresses[name] = address
        if name is None or address is not None:
            rates.limit_address(address, limit)

    def _apply(self) -> None:
        config, parts = self._ground.config, self._parts
        quotas, replicas = parts.sockets.quotas, parts.replicas
        self._ground.topic_configs.broker_defaults_changed()
        self._ground.logs.default_config = LogConfig.from_overrides({}, config.explicit())
        quotas.max_connections = config.get_int("max.connections")
        quotas.max_by_listener = settings.by_listener(config, "max.connections")
        quotas.max_per_ip = config.get_int("max.connections.per.ip")
        quotas.rates.of_broker = config.get_int("max.connection.creation.rate")
        quotas.rates.by_listener = settings.by_listener(config, "max.connection.creation.rate")
        apply_replication_quotas(config, replicas.manager)
        machine = parts.coordinators.groups.machine
        machine.consumer_config_changed(consumer_group_config(config))
        machine.streams_config_changed(streams_group_config(config))
        replicas.fetchers.resize(config.get_int("num.replica.fetchers"))
        self._background.total_tokens = config.get_int("background.threads")
        parts.cleaner.configs_changed()
        if parts.remote is not None:
            parts.remote.configs_changed(config, replicas)
        replicas.runtime.flusher.set_max_threads(config.get_int("num.io.threads"))
        parts.control.controller.unclean_default_changed(
            config.get_boolean("unclean.leader.election.enable")
        )
