"""AlterConfigs v0-2 (the whole config of a resource) and IncrementalAlterConfigs v0-1 (KIP-339).

Rules: SEMANTICS 7. Any broker may change topic configs; they are written to ZooKeeper, and every
broker, this one too, is notified through /config/changes. The resulting whole configuration of a
resource is checked before it is written (`dynamic`, `log_config`). It must also fit into a znode
and into the answer to DescribeConfigs, which Kafka does not check.

Mirrors ConfigAdminManager and ZkAdminManager.alterConfigs.
Leaves out alter.config.policy.class.name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import trio

from ...protocol.acls import AclOperation
from ...protocol.api import ApiKey
from ...protocol.apis.alter_configs import (
    AlterConfigsResponse,
    AlterConfigsResponseAlterConfigsResourceResponse,
)
from ...protocol.apis.incremental_alter_configs import (
    IncrementalAlterConfigsResponse,
    IncrementalAlterConfigsResponseAlterConfigsResourceResponse,
)
from ...protocol.discarding import discard_all
from ...protocol.errors import ErrorCode, KafkaError
from ...replication.controller.znodes import encode_config
from ...storage.config_def import (
    ConfigDef,
    ConfigType,
    InvalidConfig,
    parse_integer,
    shortened,
)
from ...storage.log_config import TOPIC_CONFIGS, validate_topic_configs
from ...storage.table_configs import TABLE_CONFIGS
from ..config import ConfigError, dynamic, group_configs, passwords
from ..config.definitions import BROKER_CONFIGS, DYNAMIC_ONLY_CONFIGS
from ..config.kafka_config import KafkaConfig
from ..observability.client_subscriptions import DEFINITIONS as CLIENT_METRICS_CONFIGS
from ..observability.client_subscriptions import subscription_of
from ..quotas.entities import may_be_stored
from ..zk.config_store import (
    ConfigStore,
    NoController,
    broker_entity,
    client_metrics_entity,
    group_entity,
    topic_entity,
)
from . import loggers
from .describe_configs import (
    BROKER,
    BROKER_LOGGER,
    CLIENT_METRICS,
    GROUP,
    TOPIC,
    check_permitted,
)

if TYPE_CHECKING:
    from ...replication.metadata_cache import MetadataCache
    from ..config.tls_listeners import TlsListeners
    from ..network.request import Handler, Request


R = TypeVar("R")


class Operation(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Change(NamedTuple):
    name: str
    operation: int
    value: str | None


_OF_TOPICS = {**TOPIC_CONFIGS, **TABLE_CONFIGS}

MAX_VALUE_BYTES = 32767  # of a string on the wire
MAX_CONFIG_BYTES = 900_000  # of a znode: jute.maxbuffer is 1 MiB, for a whole request
MAX_CHANGES = 1000  # of one resource, which has no more configs


class AlterConfigsHandler:
    __slots__ = ("_broker_id", "_cache", "_config", "_is_of_4", "_store", "_tls")

    def __init__(
        self,
        config: KafkaConfig,
        broker_id: int,
        cache: MetadataCache,
        store: ConfigStore,
        tls: TlsListeners,
        is_of_4: Callable[[], bool] = lambda: False,
    ) -> None:
        self._config = config
        self._broker_id = broker_id
        self._cache = cache
        self._store = store
        self._tls = tls
        self._is_of_4 = is_of_4

    def handlers(self) -> Mapping[ApiKey, Handler]:
        return {
            ApiKey.ALTER_CONFIGS: self.alter_configs,
            ApiKey.INCREMENTAL_ALTER_CONFIGS: self.incremental_alter_configs,
        }

    async def alter_configs(self, request: Request) -> None:
        result = AlterConfigsResponseAlterConfigsResourceResponse
        results = await self._alter_all(request, result, incremental=False)
        request.respond(AlterConfigsResponse(responses=results))

    async def incremental_alter_configs(self, request: Request) -> None:
        result = IncrementalAlterConfigsResponseAlterConfigsResourceResponse
        results = await self._alter_all(request, result, incremental=True)
        request.respond(IncrementalAlterConfigsResponse(responses=results))

    async def _alter_all(
        self, request: Request, result: Callable[..., R], *, incremental: bool
    ) -> list[R]:
        """Alter one resource after the other; `result` makes an entry of the response."""
        body = request.body
        asked = await request.in_turns(_counts(body.resources))
        results = []
        pace = request.pace()
        for resource in body.resources:
            await pace()
            code, text = ErrorCode.NONE, None
            try:
                if asked[resource.resource_type, resource.resource_name] > 1:
                    raise _invalid("Each resource must appear at most once.")
                if len(resource.configs) > MAX_CHANGES:
                    raise _invalid(f"More than {MAX_CHANGES} configs of one resource.")
                changes = [
                    Change(c.name, c.config_operation if incremental else Operation.SET, c.value)
                    for c in resource.configs
                ]
                _check_changes(changes)
                await self._alter(
                    request,
                    resource.resource_type,
                    resource.resource_name,
                    changes,
                    incremental=incremental,
                    validate_only=body.validate_only,
                )
            except KafkaError as error:
                code, text = error.code, error.message
            except NoController:
                code = ErrorCode.BROKER_NOT_AVAILABLE
                text = "There is no controller at the moment; try again"
            results.append(
                result(
                    error_code=code,
                    error_message=text,
                    resource_type=resource.resource_type,
                    resource_name=resource.resource_name,
                )
            )
        await request.in_turns(discard_all(asked))
        return results

    async def _alter(
        self, request: Request, kind: int, name: str, changes: Sequence[Change], *,
        incremental: bool, validate_only: bool,
    ) -> None:  # fmt: skip
        if kind == BROKER_LOGGER and incremental:
            check_permitted(request, AclOperation.ALTER_CONFIGS, kind, name)
            if _node_id(name) != self._broker_id:
                raise _invalid(
                    f"Unexpected node id. Expected {self._broker_id}, but received {name}"
                )
            for change in changes:
                loggers.check(*change)
            if not validate_only:
                for change in changes:
                    loggers.apply(*change)
            return
        entity = self._entity_of(request, kind, name)
        stored = await self._store.read(entity)
        if kind == TOPIC:
            config = apply_changes(stored if incremental else {}, changes, _OF_TOPICS)
            try:
                validate_topic_configs(config, self._config.explicit(), stored)
            except InvalidConfig as error:
                resource = f"ConfigResource(type=TOPIC, name='{name}')"
                text = f"Invalid config value for resource {resource}: {error.message}"
                raise InvalidConfig(text) from None
            _check_size(config)
        elif kind == CLIENT_METRICS:
            config = apply_changes(stored if incremental else {}, changes, CLIENT_METRICS_CONFIGS)
            subscription_of(name, config)
            _check_size(config)
        elif kind == GROUP:
            definitions = group_configs.DEFINITIONS
            config = apply_changes(stored if incremental else {}, changes, definitions)
            group_configs.validate(self._config, config)
            _check_size(config)
        else:
            config = await self._broker_config(name, stored, changes, incremental=incremental)
        if not validate_only:
            await self._store.write(entity, config)

    def _entity_of(self, request: Request, kind: int, name: str) -> str:
        """The place of the config in the store; KafkaError if the client may not change it."""
        if kind == TOPIC:
            check_permitted(request, AclOperation.ALTER_CONFIGS, kind, name)
            self._check_topic(name)
            return topic_entity(name)
        if kind == BROKER:
            if name and _node_id(name) != self._broker_id:
                raise _invalid(
                    f"Unexpected broker id, expected {self._broker_id}, but received {name}"
                )
            check_permitted(request, AclOperation.ALTER_CONFIGS, kind, name)
            return broker_entity(name)
        if kind == CLIENT_METRICS and self._is_of_4():
            check_permitted(request, AclOperation.ALTER_CONFIGS, kind, name)
            if not may_be_stored(name):
                raise _invalid(f"No name of a subscription: {name!r}")
            return client_metrics_entity(name)
        if kind == GROUP and self._is_of_4():
            check_permitted(request, AclOperation.ALTER_CONFIGS, kind, name)
            if not name:
                raise _invalid("Default group resources are not allowed.")
            if not may_be_stored(name):
                raise _invalid(f"A group of this name cannot have configs: {name!r}")
            return group_entity(name)
        if kind == CLIENT_METRICS:
            raise _invalid(
                "AlterConfigs is only supported for topics and brokers, but resource type is "
                "CLIENT_METRICS"
            )
        raise _invalid(f"Unknown resource type {kind}")

    async def _broker_config(
        self, name: str, stored: dict[str, str], changes: Sequence[Change], *, incremental: bool
    ) -> dict[str, str]:
        """The config to store for this broker, or for all; key stores that it names are read."""
        per_broker = bool(name)
        known, kept, locked = stored, {}, {}
        if passwords.has_passwords(stored):
            known = await trio.to_thread.run_sync(passwords.readable, self._config, stored)
        if incremental:
            kept = dynamic.usable_for_alteration(self._config, known, per_broker=per_broker)
            # Passwords encoded with another secret: kept as they are, unless they are altered.
            altered = {change.name for change in changes}
            locked = {key: stored[key] for key in stored.keys() - known.keys() - altered}
        config = apply_changes(kept, changes, BROKER_CONFIGS)
        after = dynamic.check_alteration(self._config, known, config, per_broker=per_broker)
        try:
            if self._tls:
                await trio.to_thread.run_sync(self._tls.load, self._tls.wanted(after))
            _check_size(config)
            if passwords.has_passwords(config):
                config = await trio.to_thread.run_sync(passwords.writable, self._config, config)
        except ConfigError as error:
            raise _invalid(str(error)) from None
        return {**locked, **config}

    def _check_topic(self, topic: str) -> None:
        if not topic:
            raise _invalid("Default topic resources are not allowed.")
        if not self._cache.contains(topic):
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{topic}' does not exist."
            )


def _node_id(name: str) -> int:
    number = parse_integer(name)
    if number is None:
        raise _invalid(f"Node id must be an integer, but it is: {shortened(name)}")
    return number


def _counts(resources: Iterable[Any]) -> Generator[None, None, Counter[tuple[int, str]]]:
    counts: Counter[tuple[int, str]] = Counter()
    for resource in resources:
        counts[resource.resource_type, resource.resource_name] += 1
        yield
    return counts


def apply_changes(
    stored: Mapping[str, str], changes: Sequence[Change], definitions: Mapping[str, ConfigDef]
) -> dict[str, str]:
    """The config after the changes; APPEND and SUBTRACT work on the stored value or the default."""
    config = dict(stored)
    for name, operation, value in changes:
        if operation == Operation.DELETE:
            config.pop(name, None)
            continue
        assert value is not None, "checked before"
        if operation == Operation.SET:
            config[name] = value
            continue
        definition = definitions.get(name) or DYNAMIC_ONLY_CONFIGS.get(name)
        if definition is None or definition.type is not ConfigType.LIST:
            verb = "append" if operation == Operation.APPEND else "subtract"
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"Config value {verb} is not allowed for config key: {shortened(name)}",
            )
        members = [part for part in (config.get(name, definition.default) or "").split(",") if part]
        given = value.split(",")
        if operation == Operation.APPEND:
            members += [part for part in dict.fromkeys(given) if part not in members]
        else:
            members = [part for part in members if part not in given]
        config[name] = ",".join(members)
    return config


def _check_changes(changes: Sequence[Change]) -> None:
    if len({change.name for change in changes}) < len(changes):
        raise _invalid("Error due to duplicate config keys")
    nulls = [c.name for c in changes if c.value is None and c.operation != Operation.DELETE]
    if nulls:
        raise _invalid(f"Null value not supported for : {', '.join(nulls)}")
    for change in changes:
        if change.operation not in Operation.__members__.values():
            raise _invalid(f"Unknown operations type {change.operation}")


def _check_size(config: Mapping[str, str]) -> None:
    for name, text in config.items():
        if len(text.encode()) > MAX_VALUE_BYTES:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"{shortened(name)} would have more than {MAX_VALUE_BYTES} bytes",
            )
    if len(encode_config(config)) > MAX_CONFIG_BYTES:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"All configs together would have more than {MAX_CONFIG_BYTES} bytes",
        )


def _invalid(text: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, text)
