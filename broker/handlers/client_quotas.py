"""DescribeClientQuotas v0-1 and AlterClientQuotas v0-1 (KIP-546).

An entity is a user, a client id, both, or an address; each name may be a null, the default of its
type. Descriptions are read from ZooKeeper, so that they contain all earlier alterations. An
alteration takes effect on each broker when it is notified: on the broker that was asked, before it
answers, as it appears to be in Apache Kafka, where a change of topics looks at ZooKeeper first. Any
broker serves both.

As in Kafka: byte rates must be whole numbers to within a millionth; any key can be removed, known
or not; the resulting whole config of an entity is checked when it is written, and so not with
`validate_only`; an address may be the name of a host that is known here, but no IPv6 address, whose
colons are not in the form in which it is looked up.

Mirrors ZkAdminManager.describeClientQuotas and alterClientQuotas. Requests are authorized before
they come here.
"""

from __future__ import annotations

import math
import socket
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import trio

from ...protocol.api import ApiKey
from ...protocol.apis.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntityData,
    AlterClientQuotasResponseEntryData,
    OpData,
)
from ...protocol.apis.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    DescribeClientQuotasResponseEntityData,
    DescribeClientQuotasResponseEntryData,
    ValueData,
)
from ...protocol.discarding import discard_all
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.zookeeper.operations import SessionExpired, ZkError
from ...storage.config_def import ConfigType, format_value
from ..network.request import Handler, Request
from ..quotas.entities import (
    CLIENT_KEYS,
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    IpEntity,
    desanitize,
    entity_at,
    ip_path,
    path_of,
    sanitize,
)
from ..zk.config_store import ConfigStore, NoController
from ..zk.quota_store import (
    CLIENTS,
    IPS,
    USERS,
    read_clients_of_users,
    read_kind,
    write_quotas,
)

USER, CLIENT_ID, IP = "user", "client-id", "ip"
EXACT, DEFAULT, ANY = 0, 1, 2
EPSILON = 1e-6
# Of one filter, and of one entity: more than there are kinds and keys, and no long loop.
MAX_PARTS = 100
SCRAM_KEYS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
_LONG_BOUND, _INT_BOUND = 2**63, 2**31
_CLIENT_TYPES: Mapping[str, ConfigType] = {
    PRODUCER_BYTE_RATE: ConfigType.LONG,
    CONSUMER_BYTE_RATE: ConfigType.LONG,
    REQUEST_PERCENTAGE: ConfigType.DOUBLE,
    CONTROLLER_MUTATION_RATE: ConfigType.DOUBLE,
}
_USER_TYPES = {**_CLIENT_TYPES, **dict.fromkeys(SCRAM_KEYS, ConfigType.STRING)}
_IP_TYPES = {CONNECTION_CREATION_RATE: ConfigType.INT}

# An entity as requests and responses have it: pairs of a type and a name.
Names: TypeAlias = dict[str, str | None]


class ClientQuotaHandlers:
    __slots__ = ("_resolvers", "_store")

    def __init__(self, store: ConfigStore) -> None:
        self._store = store
        self._resolvers = trio.CapacityLimiter(2)

    def handlers(self) -> Mapping[ApiKey, Handler]:
        return {
            ApiKey.DESCRIBE_CLIENT_QUOTAS: self.describe,
            ApiKey.ALTER_CLIENT_QUOTAS: self.alter,
        }

    # Describe

    async def describe(self, request: Request) -> None:
        body: DescribeClientQuotasRequest = request.body
        pace = request.pace()
        wanted = _components(body.components)
        entries = []
        for path, config in (await self._candidates(wanted, strict=body.strict)).items():
            await pace()
            names = _names_at(path)
            keys = {CONNECTION_CREATION_RATE} if IP in names else CLIENT_KEYS
            values = [
                ValueData(key=key, value=_double(key, text))
                for key, text in config.items()
                if key in keys
            ]
            if values and _matches(wanted, names, strict=body.strict):
                entity = [
                    DescribeClientQuotasResponseEntityData(entity_type=kind, entity_name=name)
                    for kind, name in names.items()
                ]
                entries.append(DescribeClientQuotasResponseEntryData(entity=entity, values=values))
        request.respond(DescribeClientQuotasResponse(error_message="", entries=entries))

    async def _candidates(
        self, wanted: Mapping[str, ComponentData], *, strict: bool
    ) -> dict[str, dict[str, str]]:
        """The configs of all entities that may match, and perhaps of others, by their paths."""
        found: dict[str, dict[str, str]] = {}
        if IP not in wanted and not (strict and not wanted):
            run = self._store.run
            exact = _exact_path(wanted)
            if exact is not None:
                found[exact] = await self._store.read(exact)
                if strict:
                    return found
            if USER in wanted or not strict:
                found.update(await run(read_kind(USERS)))
            if CLIENT_ID in wanted or not strict:
                found.update(await run(read_kind(CLIENTS)))
            if (USER in wanted and CLIENT_ID in wanted) or not strict:
                found.update(await run(read_clients_of_users()))
        if USER not in wanted and CLIENT_ID not in wanted and (IP in wanted or not strict):
            component = wanted.get(IP)
            if component is not None and component.match_type != ANY:
                path = ip_path(component.match if component.match_type == EXACT else None)
                found[path] = await self._store.read(path)
            else:
                found.update(await self._store.run(read_kind(IPS)))
        return found

    # Alter

    async def alter(self, request: Request) -> None:
        body: AlterClientQuotasRequest = request.body
        pace = request.pace()
        outcomes: dict[frozenset[tuple[str, str | None]], AlterClientQuotasResponseEntryData] = {}
        last_change = -1
        for entry in body.entries:
            await pace()
            names = {named.entity_type: named.entity_name for named in entry.entity[:MAX_PARTS]}
            code, text = ErrorCode.NONE, None
            try:
                change = await self._alter(names, entry, validate_only=body.validate_only)
                last_change = max(last_change, change)
            except KafkaError as error:
                code, text = error.code, error.message
            except NoController:
                code = ErrorCode.BROKER_NOT_AVAILABLE
                text = "There is no controller at the moment; try again"
            except (ZkError, SessionExpired, ValueError) as error:
                code, text = ErrorCode.UNKNOWN_SERVER_ERROR, str(error)
            outcomes[frozenset(names.items())] = AlterClientQuotasResponseEntryData(
                error_code=code,
                error_message=text,
                entity=[
                    AlterClientQuotasResponseEntityData(entity_type=kind, entity_name=name)
                    for kind, name in names.items()
                ],
            )
        await self._store.until_applied(last_change)
        answers = list(outcomes.values())
        await request.in_turns(discard_all(outcomes))
        request.respond(AlterClientQuotasResponse(entries=answers))

    async def _alter(
        self, names: Names, entry: AlterClientQuotasRequestEntryData, *, validate_only: bool
    ) -> int:
        """Returns the number of the change; -1 if there is none."""
        if max(len(entry.entity), len(entry.ops)) > MAX_PARTS:
            raise _invalid(f"More than {MAX_PARTS} names or operations of one entity")
        path, types = _place_of(names)
        if IP in names:
            await self._check_address(names[IP])
        config = await self._store.read(path)
        for operation in entry.ops:
            if operation.remove:
                config.pop(operation.key, None)
            else:
                config[operation.key] = _text_of(operation, types)
        if validate_only:
            return -1
        _check_whole(path, config)
        return await self._store.run(write_quotas(path, config))

    async def _check_address(self, name: str | None) -> None:
        if name is None:
            return
        host = sanitize(name)
        if not await trio.to_thread.run_sync(
            _is_known_host, host, limiter=self._resolvers, abandon_on_cancel=True
        ):
            raise _invalid(f"{host} is not a valid IP or resolvable host.")


def _components(components: Sequence[ComponentData]) -> dict[str, ComponentData]:
    """The filter components of a request, by the type of entity."""
    wanted: dict[str, ComponentData] = {}
    if len(components) > MAX_PARTS:
        raise _invalid(f"More than {MAX_PARTS} filter components")
    for component in components:
        if component.match_type not in (EXACT, DEFAULT, ANY) or (
            component.match_type == EXACT and component.match is None
        ):
            raise KafkaError(
                ErrorCode.UNKNOWN_SERVER_ERROR, f"Unexpected match type: {component.match_type}"
            )
    for component in components:
        kind = component.entity_type
        if kind == "":
            raise _invalid("Unexpected empty filter component entity type")
        if kind not in _FILTERS:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION, f"Custom entity type '{kind}' not supported"
            )
        if kind in wanted:
            raise _invalid(f"Duplicate {_FILTERS[kind]} filter component entity type")
        wanted[kind] = component
    if IP in wanted and len(wanted) > 1:
        raise _invalid(
            "Invalid entity filter component combination, IP filter component should not be used "
            "with user or clientId filter component."
        )
    return wanted


# The types with their names in errors, in Kafka's order of processing.
_FILTERS = {IP: "ip", CLIENT_ID: "client", USER: "user"}


def _exact_path(wanted: Mapping[str, ComponentData]) -> str | None:
    """The path of the entity whose names are all given; None if several may match."""
    names: list[str | None] = []
    for kind in (USER, CLIENT_ID):
        component = wanted.get(kind)
        if component is None:
            names.append("")
        elif component.match_type == ANY or component.match == "":
            return None
        else:
            names.append(component.match if component.match_type == EXACT else None)
    return None if names == ["", ""] else path_of((names[0], names[1]))


def _matches(wanted: Mapping[str, ComponentData], names: Names, *, strict: bool) -> bool:
    for kind in (USER, CLIENT_ID, IP):
        component = wanted.get(kind)
        if component is None:
            if strict and kind in names:
                return False
        elif kind not in names:
            return False
        elif component.match_type != ANY:
            expected = component.match if component.match_type == EXACT else None
            if names[kind] != expected:
                return False
    return True


def _names_at(path: str) -> Names:
    entity = entity_at(path)
    if isinstance(entity, IpEntity):
        return {IP: entity.name}
    assert entity is not None, f"{path} has no quotas"
    user, client = entity
    names: Names = {}
    if user != "":
        names[USER] = user
    if client != "":
        names[CLIENT_ID] = client
    return names


def _double(key: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"Unexpected client quota configuration value: {key} -> {text}",
        ) from None


def _place_of(names: Names) -> tuple[str, Mapping[str, ConfigType]]:
    """The path of an entity, and the keys that it may have."""
    if not names:
        raise _invalid("Invalid empty client quota entity")
    for kind in _FILTERS:
        if names.get(kind) == "":
            raise _invalid(f"Empty {kind} not supported")
    for kind in names:
        if kind not in _FILTERS:
            raise _invalid(f"Unhandled client quota entity type: {kind}")
    if IP in names:
        if len(names) > 1:
            raise _invalid(
                "Invalid quota entity combination, IP entity should not be used with user/client "
                "ID entity."
            )
        return ip_path(names[IP]), _IP_TYPES
    path = path_of((names.get(USER, ""), names.get(CLIENT_ID, "")))
    return path, _USER_TYPES if USER in names else _CLIENT_TYPES


def _text_of(operation: OpData, types: Mapping[str, ConfigType]) -> str:
    """The value as it is stored."""
    key, value = operation.key, operation.value
    kind = types.get(key)
    if kind is None:
        raise _invalid(f"Invalid configuration key {key}")
    if kind is ConfigType.STRING:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "Unexpected config type STRING")
    if kind is ConfigType.DOUBLE:
        return format_value(kind, value) or ""
    bound = _LONG_BOUND if kind is ConfigType.LONG else _INT_BOUND
    whole = _whole_number(value + EPSILON, bound)
    if abs(whole - value) > EPSILON:
        raise _invalid(f"Configuration {key} must be a {kind.name} value")
    return str(whole)


def _whole_number(value: float, bound: int) -> int:
    """Like a Java cast: NaN becomes 0, a value out of range the nearest bound."""
    if math.isnan(value):
        return 0
    return int(max(-bound, min(value, bound - 1)))


def _check_whole(path: str, config: Mapping[str, str]) -> None:
    """Check the resulting whole config of an entity, earlier keys included."""
    kind, _, name = path.partition("/")
    types: Mapping[str, ConfigType] = _IP_TYPES
    if kind != IPS:
        is_user = kind == USERS and "/clients" not in name and desanitize(name) is not None
        types = _USER_TYPES if is_user else _CLIENT_TYPES
    unknown = [key for key in config if key not in types]
    if unknown:
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"requirement failed: Unknown Dynamic Configuration: Set({', '.join(unknown)}).",
        )
    rate = config.get(CONNECTION_CREATION_RATE)
    if rate is not None and int(rate) < 0:
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"Invalid value {rate} for configuration {CONNECTION_CREATION_RATE}: "
            "Value must be at least 0",
        )


def _is_known_host(host: str) -> bool:
    try:
        socket.getaddrinfo(host, None)
    except (OSError, UnicodeError):
        return False
    return True


def _invalid(text: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, text)
