"""A cluster as a client sees it: bootstrap, metadata, and a connection to each broker in use.

Metadata is fetched when it is needed and kept until a request shows that it is stale: callers then
fetch the topic again, bounded by `retrying`. A request that any broker can answer goes to one
broker after the other until one answers, so that a dead broker only causes a delay.
Mirrors: Metadata and ClusterConnectionStates of the Java client.
"""

from __future__ import annotations

import socket
from collections import defaultdict
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import suppress
from enum import IntEnum
from functools import partial
from types import TracebackType
from typing import TypeVar

import trio

from ..protocol.api import ApiKey
from ..protocol.apis.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ..protocol.apis.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ..protocol.errors import ErrorCode
from ..protocol.schema import Message
from .connection import REQUEST_TIMEOUT_SECONDS, Connection, Connections, Question
from .errors import ClientError, ConnectionFailed, LoginError, Refused, Unsupported
from .hedging import first_answer
from .metadata import Leader, MetadataCache
from .refusals import Asked, NotAllowed
from .releases import TRANSACTIONS_SINCE, too_old
from .running import require_trio
from .security.connector import OPEN, Reach
from .security.settings import connector_from

RETRY_BACKOFF_SECONDS = 0.1
PATIENCE_SECONDS = 1.0  # then another broker is asked as well: this one may be paused
SILENCE_SECONDS = 10.0  # then a metadata request to a broker fails
RETRY_TIMEOUT_SECONDS = 30.0
LEADERLESS_NOTICE_SECONDS = 1.0  # a new topic and a quick failover take less
UNREACHED_TOLD_SECONDS = 3.0  # a broker that is not reached may just be down for a moment
LEADERLESS_TIMEOUT_SECONDS = 10.0  # for partitions all of whose brokers are absent

FIRST_OF_TRANSACTIONS = 1  # of FindCoordinator
FIRST_WITH_MANY_KEYS = 4
FIRST_THAT_CREATES_IF_TOLD = 4  # of Metadata: before it, brokers that create topics always do

R = TypeVar("R", bound=Message)


def now_ms() -> int:
    """The clock for waits of clients, in ms; it is not related to timestamps."""
    return int(trio.current_time() * 1000)


async def retrying() -> AsyncIterator[float]:
    """Attempts with a pause between, for RETRY_TIMEOUT_SECONDS; yields the seconds left."""
    deadline = trio.current_time() + RETRY_TIMEOUT_SECONDS
    while (remaining := deadline - trio.current_time()) > 0:
        yield remaining
        await trio.sleep(RETRY_BACKOFF_SECONDS)


class CoordinatorKind(IntEnum):
    """The kind of key that a broker coordinates: a group id, or a transactional id."""

    GROUP = 0
    TRANSACTION = 1

    @property
    def label(self) -> str:
        return "group" if self is CoordinatorKind.GROUP else "transactional id"


class Cluster:
    """`async with Cluster("host:port,host:port") as cluster: ...`

    `report` is called with a line of text about a long wait or a problem in the background.
    `security` has the settings of Kafka's clients for TLS and logins: security.protocol, sasl.* and
    ssl.*. `network` opens streams of bytes instead of TCP, for tests that simulate a network.
    Its connections may be used by many tasks at once, inside the block.
    """

    def __init__(
        self,
        bootstrap: str,
        report: Callable[[str], None] | None = None,
        *,
        security: Mapping[str, str] | None = None,
        network: Reach | None = None,
    ) -> None:
        self.report = report or _discard
        self._connector = connector_from(security) if security else OPEN
        if network is not None:
            self._connector = self._connector._replace(reach=network)
        self._bootstrap = [parse_address(text) for text in bootstrap.split(",") if text.strip()]
        if not self._bootstrap:
            raise ClientError("name at least one broker as HOST:PORT")
        self._opened = Connections()
        # By broker and purpose; opened by one task at a time.
        self._connections: dict[tuple[int, str], Connection] = {}
        self._opening: defaultdict[tuple[int, str], trio.Lock] = defaultdict(trio.Lock)
        self._purposes = 0
        self._any: Connection | None = None
        self._any_opening: defaultdict[str, trio.Lock] = defaultdict(trio.Lock)  # by address
        self._addresses: dict[int, tuple[str, int]] = {}
        # Of brokers, which they advertise: since when they are not reached, and reported ones.
        self._unreached: dict[tuple[str, int], float] = {}
        self._told_unreached: set[tuple[str, int]] = set()
        self._coordinators: dict[tuple[CoordinatorKind, str], int] = {}
        self.controller_id = -1
        self.cache = MetadataCache()

    async def __aenter__(self) -> Cluster:
        require_trio("Cluster")
        await self._opened.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._opened.__aexit__(kind, error, trace)

    def asks(self, operation: str, name: str = "") -> Asked:
        """The principal and the operation, to explain a refusal."""
        login = self._connector.login
        who = None if login is None or login.user is None else f"User:{login.user}"
        return Asked(who, operation, name)

    async def ask_anyone(
        self,
        key: ApiKey,
        message: Question,
        answer_class: type[R],
        *,
        newest: int | None = None,
        timeout_seconds: float = REQUEST_TIMEOUT_SECONDS,
    ) -> R:
        """The answer of the first broker that responds within the timeout. A broker that closes the
        new connection before it answers is asked once more; `newest` is the highest version to
        use. Raises ClientError."""
        limit = timeout_seconds
        if self._any is not None and self._any.is_open:
            with suppress(ClientError):
                return await self._any.request(
                    key, message, answer_class, newest=newest, timeout_seconds=limit
                )
        failure: ClientError | None = None
        for host, port in dict.fromkeys([*self._bootstrap, *self._addresses.values()]):
            for _attempt in range(2):
                found = None
                try:
                    found = await self._open_any(host, port)
                    return await found.request(
                        key, message, answer_class, newest=newest, timeout_seconds=limit
                    )
                except ClientError as error:
                    failure = failure or error
                    if found is None or not _was_closed(error):
                        break
        assert failure is not None
        raise failure

    async def ask_soonest(
        self,
        key: ApiKey,
        message: Question,
        answer_class: type[R],
        *,
        timeout_seconds: float = REQUEST_TIMEOUT_SECONDS,
    ) -> R:
        """Like `ask_anyone`, for requests without effect: while one broker is silent, others are
        asked too."""
        known = self._any
        last = None if known is None or not known.is_open else known.address

        async def ask(open_: Callable[[], Awaitable[Connection]]) -> R:
            connection = await open_()
            begun = trio.current_time()
            try:
                return await connection.request(
                    key, message, answer_class, timeout_seconds=timeout_seconds
                )
            except trio.Cancelled:
                # Another broker was faster: close this connection, unless another request waits on
                # it.
                is_silent = trio.current_time() - begun >= PATIENCE_SECONDS
                if is_silent and connection.in_flight_count == 1:
                    connection.close()
                raise

        def attempts() -> Iterator[Callable[[], Awaitable[R]]]:
            later = []
            if known is not None and last is not None:
                yield partial(ask, partial(_at_once, known))
            for host, port in dict.fromkeys([*self._bootstrap, *self._addresses.values()]):
                attempt = partial(ask, partial(self._open_any, host, port))
                if f"{host}:{port}" == last:
                    later.append(attempt)
                else:
                    yield attempt
            yield from later

        return await first_answer(attempts(), PATIENCE_SECONDS)

    async def _open_any(self, host: str, port: int) -> Connection:
        """One connection to this address for all tasks that need it at the same time."""
        async with self._any_opening[f"{host}:{port}"]:
            known = self._any
            if known is not None and known.is_open and known.address == f"{host}:{port}":
                return known
            connection = await self._opened.open(host, port, self._connector)
            known = self._any
            if known is not None and known.is_open and not known.in_flight_count:
                known.close()
            self._any = connection
            return connection

    async def connection(self, broker_id: int, purpose: str = "") -> Connection:
        """A connection to one broker that the last metadata named. Raises ClientError.

        A broker answers the requests of one connection in order, including a fetch that waits for
        records: callers that cannot wait behind others use a `purpose` of their own.
        """
        key = (broker_id, purpose)
        existing = self._connections.get(key)
        if existing is not None and existing.is_open:
            return existing
        async with self._opening[key]:
            existing = self._connections.get(key)
            if existing is not None and existing.is_open:
                return existing
            address = self._addresses.get(broker_id)
            if address is None:
                raise ClientError(f"broker {broker_id} is not alive")
            try:
                connection = await self._opened.open(*address, self._connector)
            except ClientError as error:
                raise self._not_reached(broker_id, address, error) from error
            self._unreached.pop(address, None)
            self._connections[key] = connection
            return connection

    def _not_reached(
        self, broker_id: int, address: tuple[str, int], error: ClientError
    ) -> ClientError:
        """The error for a broker that is not reached at the address that it advertises. Callers
        retry, so after a while the error is reported by `report`."""
        cause = error.__cause__
        is_unreached = isinstance(cause, OSError | trio.TooSlowError)
        if address in self._bootstrap or not is_unreached or isinstance(error, LoginError):
            return error
        host, port = address
        text = (
            f"broker {broker_id} says that it is reached at {host}:{port}, and from here it is "
            f"not: {error}; if it runs, set its advertised.listeners to an address that clients "
            "reach (`pybroker doctor` shows each step)"
        )
        since = self._unreached.setdefault(address, trio.current_time())
        is_certain = isinstance(cause, socket.gaierror)
        is_due = is_certain or trio.current_time() - since >= UNREACHED_TOLD_SECONDS
        if is_due and address not in self._told_unreached:
            self._told_unreached.add(address)
            self.report(text)
        return ConnectionFailed(text) if isinstance(error, ConnectionFailed) else ClientError(text)

    def new_purpose(self, name: str) -> str:
        """A unique purpose, for a user that shares the cluster but not a connection."""
        self._purposes += 1
        return f"{name} {self._purposes}"

    def close_connections(self, purpose: str) -> None:
        """Close the connections of a purpose, if any; requests in flight fail."""
        for key in [key for key in self._connections if key[1] == purpose]:
            self._connections.pop(key).close()
            self._opening.pop(key, None)

    async def coordinator(
        self, kind: CoordinatorKind, key: str, purpose: str = "coordinator"
    ) -> Connection:
        """A connection to the coordinator of a group or a transactional id, for this purpose.

        The coordinator is looked up once; call `forget_coordinator` when it responds
        NOT_COORDINATOR. Waits until there is a coordinator. Raises ClientError.
        """
        problem = ""
        async for _ in retrying():
            try:
                broker_id = self._coordinators.get((kind, key))
                if broker_id is None:
                    broker_id, problem = await self._find_coordinator(kind, key)
                if broker_id is not None:
                    return await self.connection(broker_id, purpose)
            except (LoginError, Refused, Unsupported):
                raise
            except ClientError as error:
                if not self._addresses:
                    raise
                problem = str(error)
            self.forget_coordinator(kind, key)
        raise ClientError(f"{kind.label} {key!r} has no coordinator: {problem}")

    def forget_coordinator(self, kind: CoordinatorKind, key: str) -> None:
        """After NOT_COORDINATOR, or without an answer: the next `coordinator` looks it up again."""
        self._coordinators.pop((kind, key), None)

    async def _find_coordinator(self, kind: CoordinatorKind, key: str) -> tuple[int | None, str]:
        """The coordinator's broker id, or the reason why there is none yet. Raises ClientError."""

        def question(version: int) -> FindCoordinatorRequest:
            if version >= FIRST_WITH_MANY_KEYS:
                return FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
            if version < FIRST_OF_TRANSACTIONS and kind is CoordinatorKind.TRANSACTION:
                raise too_old("transactions", TRANSACTIONS_SINCE)
            return FindCoordinatorRequest(key_type=kind, key=key)

        answer = await self.ask_soonest(ApiKey.FIND_COORDINATOR, question, FindCoordinatorResponse)
        found = answer.coordinators[0] if answer.coordinators else answer
        code = ErrorCode(found.error_code)
        if code.retriable:
            return None, found.error_message or code.description
        self.asks("describe", key).check(code, found.error_message, f"{kind.label} {key!r}")
        # The broker may be newer than the last metadata, or have a new address.
        self._addresses[found.node_id] = (found.host, found.port)
        self._coordinators[kind, key] = found.node_id
        return found.node_id, ""

    async def metadata(
        self, topics: Sequence[str] | None, *, create_missing: bool = False
    ) -> MetadataResponse:
        """Brokers and the named topics (None: all). Raises ClientError.

        Brokers before 0.11 may create the topics that a request names: unless `create_missing`,
        they are asked for all topics instead.
        """
        names = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        asks_all = False

        def question(version: int) -> MetadataRequest:
            nonlocal asks_all
            asks_all = version < FIRST_THAT_CREATES_IF_TOLD and not create_missing and bool(names)
            if version >= FIRST_THAT_CREATES_IF_TOLD:
                return MetadataRequest(topics=names, allow_auto_topic_creation=create_missing)
            if names is None or asks_all:
                return MetadataRequest(topics=None if version else [])
            return MetadataRequest(topics=names)

        answer = await self.ask_soonest(
            ApiKey.METADATA, question, MetadataResponse, timeout_seconds=SILENCE_SECONDS
        )
        if asks_all and topics is not None:
            answer.topics = named_topics(answer, topics)
        self._addresses = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
        self.cache.update(answer, now_ms())
        self.controller_id = answer.controller_id
        return answer

    async def leader(self, topic: str, partition: int) -> Leader:
        """The leader of a partition, from `cache`; fetched if it is unknown or stale.

        Waits until there is a leader. Raises ClientError.
        """
        if not self.cache.to_ask([topic], now_ms()):
            known = self.cache.leader(topic, partition)
            if known is not None:
                return known
        wait = LeaderlessWait(self.report)
        async for _ in retrying():
            found = await self.topic(topic)
            known = self.cache.leader(topic, partition)
            if known is not None:
                return known
            if partition >= len(found.partitions):
                raise ClientError(f"topic {topic!r} has no partition {partition}")
            wait.go_on(found, [partition])
        raise ClientError(why_leaderless(found, [partition]))

    async def topic(
        self, name: str, *, create_missing: bool = False, wait_for_missing: bool = False
    ) -> MetadataResponseTopic:
        """A topic as it is; some of its partitions may have no leader. Raises ClientError.

        `wait_for_missing` suits a topic that was just created: the broker may not know it yet. A
        cluster that has answered before is given time to come back.
        """
        problem = ""
        async for _ in retrying():
            try:
                answer = await self.metadata([name], create_missing=create_missing)
            except LoginError:
                raise
            except ClientError as error:
                if not self._addresses:
                    raise
                problem = str(error)
                continue
            (found,) = answer.topics
            code = ErrorCode(found.error_code)
            if code == ErrorCode.NONE:
                return found
            is_missing = code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if is_missing and not create_missing and not wait_for_missing:
                raise ClientError(
                    f"there is no topic {name!r}; create it with: pybroker topics create {name}"
                )
            if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                asked = self.asks(await self._denied_of_topic(name, create_missing), name)
                raise NotAllowed(asked.refusal(code) or "", code)
            # A broker that has just started may know no brokers, and finds too few for a new topic.
            if not code.retriable and answer.brokers:
                raise ClientError(f"topic {name!r}: {code.description}")
            problem = f"topic {name!r} is not ready: {code.description}"
        raise ClientError(problem)

    async def _denied_of_topic(self, name: str, create_missing: bool) -> str:
        """The denied operation: "create" if we may see that the topic is missing, otherwise
        "describe"."""
        if create_missing:
            (found,) = (await self.metadata([name])).topics
            if found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                return "create"
        return "describe"

    async def led_topic(
        self,
        name: str,
        *,
        create_missing: bool = False,
        wait_for_missing: bool = False,
        any_partition: bool = False,
    ) -> MetadataResponseTopic:
        """A topic all of whose partitions have leaders, or any of them; waits. Raises ClientError.

        If no broker that may lead is alive, the wait is short.
        """
        wait = LeaderlessWait(self.report)
        async for _ in retrying():
            found = await self.topic(
                name, create_missing=create_missing, wait_for_missing=wait_for_missing
            )
            leaderless = partitions_without_leader(found)
            if not leaderless or (any_partition and len(leaderless) < len(found.partitions)):
                return found
            wait.go_on(found, leaderless)
        raise ClientError(why_leaderless(found, leaderless))

    async def ask_controller(self, key: ApiKey, message: Question, answer_class: type[R]) -> R:
        """Send to the controller, as administration must be; to its successor, if the broker is not
        the controller any more. Raises ClientError."""
        problem = "the cluster has no controller"
        refusal: R | None = None
        async for _ in retrying():
            await self.metadata([])
            if self.controller_id < 0:
                continue
            try:
                connection = await self.connection(self.controller_id)
            except LoginError:
                raise
            except ClientError as error:  # it has died, and its successor is not known yet
                problem = str(error)
                continue
            answer = await connection.request(key, message, answer_class)
            if not _is_of_no_controller(answer):
                return answer
            refusal = answer
        if refusal is not None:
            return refusal
        raise ClientError(problem)


# Lists of answers of a controller, whose elements have an error each.
_RESULTS = ("topics", "responses", "results")


def _is_of_no_controller(answer: object) -> bool:
    """Whether the broker has done nothing, since it was not the controller any more."""
    results = [one for name in _RESULTS for one in getattr(answer, name, None) or ()]
    return any(
        getattr(one, "error_code", 0) == ErrorCode.NOT_CONTROLLER for one in (answer, *results)
    )


def _was_closed(error: ClientError) -> bool:
    """Whether the broker closed the connection, as it does when a login has expired."""
    return isinstance(error, ConnectionFailed) and isinstance(
        error.__cause__, trio.BrokenResourceError
    )


def named_topics(answer: MetadataResponse, names: Sequence[str]) -> list[MetadataResponseTopic]:
    """The entries of these topics in a response with all topics, as if they had been requested."""
    known = {topic.name: topic for topic in answer.topics}
    missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return [
        known.get(name) or MetadataResponseTopic(name=name, error_code=missing) for name in names
    ]


def partitions_without_leader(topic: MetadataResponseTopic) -> set[int]:
    return {part.partition_index for part in topic.partitions if part.leader_id < 0}


class LeaderlessWait:
    """A wait for leaders: it reports a delay once, and ends early if no broker can lead."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self._began: float | None = None
        self._has_told = False

    def go_on(self, topic: MetadataResponseTopic, partitions: Collection[int]) -> None:
        """Continue the wait. Raises ClientError if no broker that may lead is alive."""
        now = trio.current_time()
        if self._began is None:
            self._began = now
        waited = now - self._began
        if waited > LEADERLESS_TIMEOUT_SECONDS and _abandoned(topic, partitions):
            raise ClientError(f"{why_leaderless(topic, partitions)}; start these brokers")
        if waited > LEADERLESS_NOTICE_SECONDS and not self._has_told:
            self._has_told = True
            self._report(f"waiting: {why_leaderless(topic, partitions)}")


def _abandoned(
    topic: MetadataResponseTopic, partitions: Collection[int]
) -> list[MetadataResponsePartition]:
    """Partitions without a live replica that may lead: only members of the ISR may."""
    return [
        part
        for part in topic.partitions
        if part.partition_index in partitions and set(part.isr_nodes) <= set(part.offline_replicas)
    ]


def why_leaderless(topic: MetadataResponseTopic, partitions: Collection[int]) -> str:
    """One line about partitions without a leader: which, and why."""
    lost = _abandoned(topic, partitions)
    if not lost:
        return f"{topic.name}-{min(partitions)} has no leader yet"
    absent = ", ".join(map(str, lost[0].isr_nodes))
    more = f", nor are those of {len(lost) - 1} more partitions" if len(lost) > 1 else ""
    return (
        f"{topic.name}-{lost[0].partition_index} has no leader: none of the brokers in sync "
        f"({absent}) is there{more}"
    )


def _discard(_line: str) -> None:
    pass


def parse_address(text: str) -> tuple[str, int]:
    """`host:port` or `[v6]:port`. Raises ClientError."""
    host, separator, port = text.strip().rpartition(":")
    if not separator or not port.isdigit() or not 0 < int(port) < 65536:
        raise ClientError(f"{text.strip()!r} is not HOST:PORT")
    return host.strip("[]"), int(port)


async def _at_once(connection: Connection) -> Connection:
    return connection
