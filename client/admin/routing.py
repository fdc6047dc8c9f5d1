"""Sends administrative requests to leaders, coordinators, single brokers or all of them.

Each function groups the items by the responsible broker and asks each broker once. Items whose
answer is a retriable error are asked for again, after new metadata. Items without success within
`cluster.RETRY_TIMEOUT_SECONDS` fail with the last answer.
Mirrors: PartitionLeaderStrategy, CoordinatorStrategy and AllBrokersStrategy of the Java client.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Generic, NamedTuple, TypeVar

from ...protocol.apis.metadata import MetadataResponse
from ...protocol.errors import ErrorCode
from ...protocol.topics import TopicPartition
from ..cluster import Cluster, CoordinatorKind, retrying
from ..connection import Connection
from ..errors import ClientError, LoginError, Refused, Unsupported
from .results import Results, refused

T = TypeVar("T")
V = TypeVar("V")


class Answer(NamedTuple, Generic[V]):
    """A broker's answer for one item; the value is used if the code is 0."""

    code: int
    message: str | None
    value: V


class Purpose(NamedTuple):
    """Parts of error messages: `what` begins the line, `operation` is the one an ACL would have to
    allow."""

    operation: str
    what: str

    def error(self, cluster: Cluster, item: object, code: int, message: str | None) -> Refused:
        """The error of an item: a partition, or a name."""
        if isinstance(item, tuple):
            name, text = str(item[0]), f"{item[0]}-{item[1]}"
        else:
            name, text = str(item), repr(item)
        found = refused(cluster.asks(self.operation, name), code, message, f"{self.what} {text}")
        assert found is not None
        return found


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """The partitions of each topic, in order."""
    grouped: dict[str, list[int]] = defaultdict(list)
    for topic, partition in sorted(partitions):
        grouped[topic].append(partition)
    return grouped


async def ask_leaders(
    cluster: Cluster,
    partitions: Collection[TopicPartition],
    ask: Callable[
        [Connection, list[TopicPartition]], Awaitable[Mapping[TopicPartition, Answer[V]]]
    ],
    purpose: Purpose,
    *,
    wait: bool = True,
) -> Results[TopicPartition, V]:
    """Ask the leader of each partition; with `wait`, wait for partitions without a leader."""
    results: Results[TopicPartition, V] = Results()
    left = set(partitions)
    last: dict[TopicPartition, Refused] = {}
    async for _ in retrying():
        by_leader: dict[int, list[TopicPartition]] = defaultdict(list)
        for partition, found in _leaders(await _metadata(cluster, left), left).items():
            if isinstance(found, ErrorCode):
                last[partition] = purpose.error(cluster, partition, found, None)
                if found != ErrorCode.LEADER_NOT_AVAILABLE:
                    results.errors[partition] = last[partition]
            else:
                by_leader[found].append(partition)
        for leader, mine in by_leader.items():
            answers = await _ask_one(cluster, leader, sorted(mine), ask)
            _take(cluster, purpose, answers, results, last)
        left -= results.values.keys() | results.errors.keys()
        if not left or not wait:
            break
    results.errors.update({partition: last[partition] for partition in left})
    return results


async def _metadata(cluster: Cluster, partitions: Collection[TopicPartition]) -> MetadataResponse:
    return await cluster.metadata(sorted({topic for topic, _ in partitions}))


def _leaders(
    metadata: MetadataResponse, wanted: Collection[TopicPartition]
) -> dict[TopicPartition, int | ErrorCode]:
    """The leader of each partition, or the error if it has none."""
    found: dict[TopicPartition, int | ErrorCode] = dict.fromkeys(
        wanted, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )
    for topic in metadata.topics:
        name = topic.name or ""
        if topic.error_code:
            refusals = {p: ErrorCode(topic.error_code) for p in wanted if p[0] == name}
            found.update(refusals)
        for part in topic.partitions:
            if (name, part.partition_index) in found:
                leader = part.leader_id
                found[name, part.partition_index] = (
                    leader if leader >= 0 else ErrorCode.LEADER_NOT_AVAILABLE
                )
    return found


async def _ask_one(
    cluster: Cluster,
    broker_id: int,
    items: list[T],
    ask: Callable[[Connection, list[T]], Awaitable[Mapping[T, Answer[V]]]],
) -> Mapping[T, Answer[V] | ClientError]:
    """Ask one broker; if it cannot be reached, every item gets the error.

    Raises LoginError, Unsupported.
    """
    try:
        return dict(await ask(await cluster.connection(broker_id), items))
    except (LoginError, Unsupported):
        raise
    except ClientError as error:
        return dict.fromkeys(items, error)


def _take(
    cluster: Cluster,
    purpose: Purpose,
    answers: Mapping[T, Answer[V] | ClientError],
    results: Results[T, V],
    last: dict[T, Refused],
) -> None:
    """Put final answers into `results`, and retriable errors into `last`."""
    for item, answer in answers.items():
        if isinstance(answer, ClientError):
            last[item] = Refused(str(answer), ErrorCode.NETWORK_EXCEPTION)
            continue
        if not answer.code:
            results.values[item] = answer.value
            continue
        error = purpose.error(cluster, item, answer.code, answer.message)
        if error.code.retriable:
            last[item] = error
        else:
            results.errors[item] = error


async def ask_coordinators(
    cluster: Cluster,
    kind: CoordinatorKind,
    names: Collection[str],
    ask: Callable[[Connection, list[str]], Awaitable[Mapping[str, Answer[V]]]],
    purpose: Purpose,
) -> Results[str, V]:
    """Ask the coordinator of each group or transactional id."""
    results: Results[str, V] = Results()
    left = set(names)
    last: dict[str, Refused] = {}
    async for _ in retrying():
        connections: dict[int, Connection] = {}
        of: dict[int, list[str]] = defaultdict(list)
        for name in sorted(left):
            try:
                connection = await cluster.coordinator(kind, name)
            except (LoginError, Unsupported):
                raise
            except Refused as error:
                results.errors[name] = error
                continue
            except ClientError as error:
                results.errors[name] = Refused(str(error), ErrorCode.COORDINATOR_NOT_AVAILABLE)
                continue
            connections[id(connection)] = connection
            of[id(connection)].append(name)
        for number, connection in connections.items():
            try:
                answers: Mapping[str, Answer[V] | ClientError] = dict(
                    await ask(connection, of[number])
                )
            except Unsupported:
                raise
            except ClientError as error:
                answers = dict.fromkeys(of[number], error)
            _take(cluster, purpose, answers, results, last)
        left -= results.values.keys() | results.errors.keys()
        if not left:
            break
        for name in left:
            cluster.forget_coordinator(kind, name)
    results.errors.update({name: last[name] for name in left})
    return results


async def ask_brokers(
    cluster: Cluster,
    broker_ids: Collection[int] | None,
    ask: Callable[[Connection, int], Awaitable[V]],
) -> Results[int, V]:
    """Ask these brokers (None: all that are alive), each separately."""
    alive = sorted(broker.node_id for broker in (await cluster.metadata([])).brokers)
    results: Results[int, V] = Results()
    for broker_id in alive if broker_ids is None else broker_ids:
        try:
            results.values[broker_id] = await ask(await cluster.connection(broker_id), broker_id)
        except LoginError:
            raise
        except Refused as error:
            results.errors[broker_id] = error
        except ClientError as error:
            results.errors[broker_id] = Refused(str(error), ErrorCode.BROKER_NOT_AVAILABLE)
    return results
