"""CreateTopics v0-7, CreatePartitions v0-3, DeleteTopics v0-6.

Only the controller serves them; others answer NOT_CONTROLLER for every topic. Each topic has its
own outcome. The answer waits for the effect (leaders in this broker's metadata cache, or the topic
gone from it) until timeout_ms; after that it is REQUEST_TIMED_OUT, although the work continues.

Rules: SEMANTICS 5, SEMANTICS 6. Mirrors KafkaApis.handleCreateTopicsRequest,
handleCreatePartitionsRequest, handleDeleteTopicsRequest and ZkAdminManager. Leaves out policies.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from typing import TypeVar

import trio

from ...protocol.acls import CLUSTER_NAME, AclOperation, ResourceType
from ...protocol.api import ApiKey
from ...protocol.apis.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from ...protocol.apis.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ...protocol.apis.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from ...protocol.discarding import discard_all
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.uuids import ZERO_UUID
from ...protocol.zookeeper.operations import SessionExpired, ZkError
from ...replication.controller import topic_admin
from ...replication.controller.assignment import assign_added_partitions, usable_racks
from ...replication.controller.topic_import import IMPORT_CONFIG, take_import
from ...replication.controller.znodes import MalformedZnode, TopicAssignment
from ...replication.metadata_cache import MetadataCache
from ...storage.config_def import format_value
from ...storage.log_config import TOPIC_CONFIGS, LogConfig
from ..cluster.controller_runtime import ControllerRuntime
from ..cluster.metadata_waits import MetadataWaits
from ..cluster.topic_creation import UNSET, CreatedTopic, TopicCreator, WantedTopic
from ..config.kafka_config import ConfigSource, KafkaConfig
from ..network.request import Handler, Request
from ..quotas.client_quotas import MutationQuota
from ..zk.zookeeper_client import ZooKeeperClient
from .client_waits import waiting_for
from .metadata import may_create

CLUSTER_METADATA_TOPIC = "__cluster_metadata"
TOPIC_DELETION_DISABLED_SINCE_VERSION = 3
# The first versions whose clients know THROTTLING_QUOTA_EXCEEDED (KIP-599).
CREATE_TOPICS_STRICT_SINCE = 6
CREATE_PARTITIONS_STRICT_SINCE = 3
DELETE_TOPICS_STRICT_SINCE = 5
DELETION_GRACE_MS = 500
MAX_CONFIGS = 1000  # of one topic
MAX_PARTITIONS = 10_000
MAX_REPLICAS = 1000

T = TypeVar("T")
Outcome = KafkaError | None
Described = dict[tuple[tuple[str, str], ...], list[CreatableTopicConfigs]]
Assignment = CreatableReplicaAssignment | CreatePartitionsAssignment


class TopicHandlers:
    __slots__ = ("_cache", "_config", "_controller", "_creator", "_waits", "_zookeeper")

    def __init__(
        self,
        config: KafkaConfig,
        cache: MetadataCache,
        zookeeper: ZooKeeperClient,
        controller: ControllerRuntime,
        creator: TopicCreator,
        waits: MetadataWaits,
    ) -> None:
        self._config = config
        self._cache = cache
        self._zookeeper = zookeeper
        self._controller = controller
        self._creator = creator
        self._waits = waits

    def handlers(self) -> Mapping[ApiKey, Handler]:
        return {
            ApiKey.CREATE_TOPICS: self.create_topics,
            ApiKey.CREATE_PARTITIONS: self.create_partitions,
            ApiKey.DELETE_TOPICS: self.delete_topics,
        }

    # CreateTopics

    async def create_topics(self, request: Request) -> None:
        body: CreateTopicsRequest = request.body
        pace = request.pace()
        names = Counter(topic.name for topic in body.topics)
        deadline = trio.current_time() + body.timeout_ms / 1000
        results: dict[str, CreatableTopicResult] = {}
        created: dict[str, CreatedTopic] = {}
        answers_early = body.timeout_ms > 0 and not body.validate_only
        quota = request.mutation_quota(CREATE_TOPICS_STRICT_SINCE)
        described: Described = {}
        topics = body.topics
        for start in range(0, len(topics), topic_admin.GROUP_TOPICS):
            if answers_early and trio.current_time() >= deadline:
                answers_early = False
                await self._answer_late(request, results, created)
            wanted = []
            for topic in topics[start : start + topic_admin.GROUP_TOPICS]:
                await pace()
                result = CreatableTopicResult(name=topic.name, error_message=None)
                results[topic.name] = result
                try:
                    self._check_controller()
                    self._check_permitted(request, result, names[topic.name])
                    check_import_permitted(request, topic)
                    try:
                        self._creator.check_unknown(topic.name)
                        wanted.append(_wanted(topic))
                    except KafkaError:
                        result.topic_config_error_code = ErrorCode.NONE
                        raise
                except KafkaError as error:
                    result.error_code, result.error_message = error.code, error.message
            outcomes = await self._create(wanted, body.validate_only, quota)
            for one, outcome in zip(wanted, outcomes, strict=True):
                await pace()
                result = results[one.name]
                if isinstance(outcome, KafkaError):
                    result.topic_config_error_code = ErrorCode.NONE
                    result.error_code, result.error_message = outcome.code, outcome.message
                    continue
                created[one.name] = outcome
                if not request.answered and not result.topic_config_error_code:
                    self._describe(result, one.config, outcome, described)
        if request.answered:
            return
        if not body.validate_only:

            async def is_led(name: str) -> bool:
                count = created[name].partition_count
                return await self._waits.until_led(name, count, deadline)

            for name in await _late(request, created, is_led, body.timeout_ms):
                late = results[name] = CreatableTopicResult(name=name)
                late.topic_id = created[name].topic_id
                late.error_code = ErrorCode.REQUEST_TIMED_OUT
                late.error_message = ErrorCode.REQUEST_TIMED_OUT.description
        answers = [results[topic.name] for topic in body.topics]
        request.respond(CreateTopicsResponse(topics=answers))

    async def _answer_late(
        self, request: Request, results: Mapping[str, CreatableTopicResult],
        created: Mapping[str, CreatedTopic],
    ) -> None:  # fmt: skip
        """Answer before all topics are created, since the time is over; the creation continues."""
        answers = []
        pace = request.pace()
        for topic in request.body.topics:
            await pace()
            result = results.get(topic.name)
            if result is None or (
                topic.name in created
                and not self._cache.has_leaders(
                    topic.name, range(created[topic.name].partition_count)
                )
            ):
                result = CreatableTopicResult(name=topic.name)
                result.error_code = ErrorCode.REQUEST_TIMED_OUT
                result.error_message = ErrorCode.REQUEST_TIMED_OUT.description
            answers.append(result)
        request.body = CreateTopicsRequest()  # an answered request is emptied; this one is in use
        request.respond(CreateTopicsResponse(topics=answers))

    def _check_permitted(self, request: Request, result: CreatableTopicResult, count: int) -> None:
        """Check that the topic may be created, and mark configs that the answer may not contain."""
        name = result.name
        if name == CLUSTER_METADATA_TOPIC:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Creation of internal topic {CLUSTER_METADATA_TOPIC} is prohibited.",
            )
        if not request.permits(
            AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC, name, is_logged=False
        ):
            result.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        _check_once(count, "Found multiple entries for this topic.")
        if not may_create(name, request):
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")

    async def _create(
        self, wanted: Sequence[WantedTopic], validate_only: bool, quota: MutationQuota | None
    ) -> list[CreatedTopic | KafkaError]:
        before = None if quota is None else quota.take
        try:
            outcomes = await self._creator.create_all(
                wanted, validate_only=validate_only, before=before
            )
        except SessionExpired:
            return [KafkaError(ErrorCode.NOT_CONTROLLER) for _ in wanted]
        return [
            KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(outcome))
            if isinstance(outcome, ZkError)
            else outcome
            for outcome in outcomes
        ]

    def _describe(
        self,
        result: CreatableTopicResult,
        overrides: Mapping[str, str],
        created: CreatedTopic,
        described: Described,
    ) -> None:
        """Describe the created topic, defaults included (v5+, KIP-525). `described`: the configs of
        topics before, since most topics of a request are alike.
        """
        result.topic_id = created.topic_id
        result.num_partitions = created.partition_count
        result.replication_factor = created.replication_factor
        key = tuple(overrides.items())
        if key not in described:
            described[key] = self._configs_with(overrides)
        result.configs = described[key]

    def _configs_with(self, overrides: Mapping[str, str]) -> list[CreatableTopicConfigs]:
        stored, _ = take_import(overrides)
        config = LogConfig.from_overrides(stored, self._config.explicit())
        entries = []
        for definition in TOPIC_CONFIGS.values():
            source = ConfigSource.DEFAULT_CONFIG
            if definition.name in overrides:
                source = ConfigSource.TOPIC_CONFIG
            elif definition.synonyms:
                found = self._config.synonyms(definition.synonyms[0])
                source = found[0][2] if found else source
            entries.append(
                CreatableTopicConfigs(
                    name=definition.name,
                    value=format_value(definition.type, config.value(definition.name)),
                    read_only=False,
                    config_source=source,
                    is_sensitive=definition.sensitive,
                )
            )
        return entries

    # CreatePartitions

    async def create_partitions(self, request: Request) -> None:
        body: CreatePartitionsRequest = request.body
        pace = request.pace()
        names: Counter[str] = Counter()
        for topic in body.topics:
            await pace()
            names[topic.name] += 1
        deadline = trio.current_time() + body.timeout_ms / 1000
        quota = request.mutation_quota(CREATE_PARTITIONS_STRICT_SINCE)
        outcomes: dict[str, Outcome] = {}
        grown: dict[str, int] = {}
        for topic in body.topics:
            await pace()
            try:
                self._check_controller()
                _check_once(names[topic.name], "Duplicate topic in request.")
                if not request.permits(AclOperation.ALTER, ResourceType.TOPIC, topic.name):
                    text = "The topic authorization is failed."
                    raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, text)
                _check_count(topic.count, topic.assignments)
                await _guarded(self._grow(topic, body.validate_only, quota))
                outcomes[topic.name] = None
                grown[topic.name] = topic.count
            except KafkaError as error:
                outcomes[topic.name] = error.with_traceback(None)  # no cycle with this frame
        if not body.validate_only:

            async def is_led(name: str) -> bool:
                return await self._waits.until_led(name, grown[name], deadline)

            for name in await _late(request, grown, is_led, body.timeout_ms):
                outcomes[name] = KafkaError(ErrorCode.REQUEST_TIMED_OUT)
        results = []
        for name, outcome in outcomes.items():
            await pace()
            results.append(
                CreatePartitionsTopicResult(
                    name=name,
                    error_code=outcome.code if outcome else ErrorCode.NONE,
                    error_message=outcome.message if outcome else None,
                )
            )
        await request.in_turns(discard_all(outcomes))
        await request.in_turns(discard_all(names))
        request.respond(CreatePartitionsResponse(results=results))

    async def _grow(
        self, topic: CreatePartitionsTopic, validate_only: bool, quota: MutationQuota | None
    ) -> None:
        context = self._controller.machine.context
        if context.is_queued_for_deletion(topic.name):
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic is queued for deletion.")
        found = None
        # ZooKeeper is not asked for unknown names: there may be very many.
        if topic.name in context.assignments or self._cache.contains(topic.name):
            found = await self._zookeeper.run(topic_admin.read_assignment(topic.name))
        if found is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{topic.name}' does not exist."
            )
        current, version = found
        if any(replicas.is_being_reassigned for replicas in current.partitions.values()):
            raise KafkaError(
                ErrorCode.REASSIGNMENT_IN_PROGRESS,
                f"A partition reassignment is in progress for the topic '{topic.name}'.",
            )
        existing = len(current.partitions)
        if topic.count < existing:
            raise KafkaError(
                ErrorCode.INVALID_PARTITIONS,
                f"Topic currently has {existing} partitions, which is higher than the requested "
                f"{topic.count}.",
            )
        if topic.count == existing:
            raise KafkaError(
                ErrorCode.INVALID_PARTITIONS, f"Topic already has {existing} partitions."
            )
        added = self._added_replicas(topic, current)
        if not validate_only:
            if quota is not None:
                quota.take(topic.count - existing)
            flow = topic_admin.add_partitions(topic.name, current, version, added)
            await self._zookeeper.run(flow)

    def _added_replicas(
        self, topic: CreatePartitionsTopic, current: TopicAssignment
    ) -> Mapping[int, Sequence[int]]:
        brokers = self._cache.alive_brokers()
        existing = {index: a.replicas for index, a in current.partitions.items()}
        if topic.assignments is None:
            racks = usable_racks({broker_id: node.rack for broker_id, node in brokers.items()})
            return assign_added_partitions(existing, sorted(brokers), topic.count, racks=racks)
        lists = [list(assignment.broker_ids) for assignment in topic.assignments]
        increment = topic.count - len(existing)
        unknown = sorted({b for ids in lists for b in ids} - brokers.keys())
        new = dict(enumerate(lists, start=len(existing)))
        wrong = {p: len(ids) for p, ids in new.items() if len(ids) != len(existing[0])}
        if unknown:
            named = ", ".join(map(str, unknown))
            problem = f"Unknown broker(s) in replica assignment: {named}."
        elif len(lists) != increment:
            problem = (
                f"Increasing the number of partitions by {increment} but {len(lists)} assignments "
                "provided."
            )
        elif any(map(_is_odd, lists)):
            problem = next(_list_problem(p, ids) for p, ids in new.items() if _is_odd(ids))
        elif wrong:
            problem = (
                "Inconsistent replication factor between partitions, partition 0 has "
                f"{len(existing[0])} while partitions [{', '.join(map(str, wrong))}] have "
                f"replication factors [{', '.join(map(str, wrong.values()))}], respectively."
            )
        else:
            return new
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem)

    # DeleteTopics

    async def delete_topics(self, request: Request) -> None:
        body: DeleteTopicsRequest = request.body
        deadline = trio.current_time() + body.timeout_ms / 1000
        results, are_unambiguous = await request.in_turns(_asked(request))
        pace = request.pace()
        if not are_unambiguous:
            for result in results:
                await pace()
                result.error_code = ErrorCode.INVALID_REQUEST
            request.respond(DeleteTopicsResponse(responses=results))
            return
        quota = request.mutation_quota(DELETE_TOPICS_STRICT_SINCE)
        marked: dict[str, list[DeletableTopicResult]] = {}
        for result in results:
            await pace()
            try:
                self._check_controller()
                self._check_deletable(request)
                name = self._known_name(request, result)
                if name not in marked:
                    if quota is not None:
                        quota.take(self._cache.partition_count(name) or 0)
                    await _guarded(self._zookeeper.run(topic_admin.request_deletion(name)))
                marked.setdefault(name, []).append(result)
            except KafkaError as error:
                result.error_code = error.code  # Kafka leaves the message of v5 and later out

        async def is_gone(name: str) -> bool:
            return await self._waits.until_deleted(name, deadline)

        for name in await _late(request, marked, is_gone, body.timeout_ms):
            for result in marked[name]:
                result.error_code = ErrorCode.REQUEST_TIMED_OUT
        await self._finish_deletions(marked, deadline)
        request.respond(DeleteTopicsResponse(responses=results))

    async def _finish_deletions(self, names: Iterable[str], deadline: float) -> None:
        """A topic can be created again only when its znodes are gone, a moment after the cache.

        Waiting for that moment spares the next CreateTopics a TOPIC_ALREADY_EXISTS; a deletion
        that is held up by a dead broker is not waited for.
        """
        is_queued = self._controller.machine.context.is_queued_for_deletion
        grace_ends = trio.current_time() + DELETION_GRACE_MS / 1000
        with trio.CancelScope(deadline=min(deadline, grace_ends)):
            while any(is_queued(name) for name in names):
                await self._controller.event_processed()

    def _check_deletable(self, request: Request) -> None:
        if self._config.get_boolean("delete.topic.enable"):
            return
        if request.api_version < TOPIC_DELETION_DISABLED_SINCE_VERSION:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        raise KafkaError(ErrorCode.TOPIC_DELETION_DISABLED)

    def _known_name(self, request: Request, result: DeletableTopicResult) -> str:
        """The name of a topic that may be deleted, also set in `result`."""
        name = result.name
        if name is None:
            context = self._controller.machine.context
            topic_id = bytes(result.topic_id)
            name = context.topic_name(topic_id) or self._cache.topic_name(topic_id)
            if name is None:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
            if not request.permits(AclOperation.DESCRIBE, ResourceType.TOPIC, name):
                raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        is_known = result.name is None or self._cache.contains(name)
        result.name = name
        if not request.permits(AclOperation.DELETE, ResourceType.TOPIC, name):
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        if not is_known:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return name

    def _check_controller(self) -> None:
        if not self._controller.is_active:
            raise KafkaError(ErrorCode.NOT_CONTROLLER)


def _asked(request: Request) -> Generator[None, None, tuple[list[DeletableTopicResult], bool]]:
    """A result for each topic to delete, in any version, and whether none has both a name and an
    id."""
    body: DeleteTopicsRequest = request.body
    results = []
    are_unambiguous = True
    for name in body.topic_names:
        results.append(DeletableTopicResult(name=name, error_message=None))
        yield
    for topic in body.topics:
        topic_id = bytes(topic.topic_id)
        if topic.name is not None and topic_id != ZERO_UUID:
            are_unambiguous = False
        results.append(DeletableTopicResult(name=topic.name, topic_id=topic_id, error_message=None))
        yield
    return results, are_unambiguous


def _wanted(topic: CreatableTopic) -> WantedTopic:
    """Raises KafkaError for what no topic can be."""
    _check_size(topic)
    nulls = [config.name for config in topic.configs if config.value is None]
    if nulls:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Null value not supported for topic configs: {','.join(nulls)}",
        )
    if topic.assignments and (topic.num_partitions != UNSET or topic.replication_factor != UNSET):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "Both numPartitions or replicationFactor and replicasAssignments were set. "
            "Both cannot be used at the same time.",
        )
    if len({a.partition_index for a in topic.assignments}) != len(topic.assignments):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "A partition is assigned more than once."
        )
    return WantedTopic(
        topic.name,
        {config.name: config.value or "" for config in topic.configs},
        topic.num_partitions,
        topic.replication_factor,
        {a.partition_index: a.broker_ids for a in topic.assignments} or None,
    )


def _check_size(topic: CreatableTopic) -> None:
    """Refuse sizes that no topic has and that would cause long loops."""
    if len(topic.configs) > MAX_CONFIGS:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"More than {MAX_CONFIGS} configs.")
    _check_count(topic.num_partitions, topic.assignments)


def _check_count(count: int, assignments: Sequence[Assignment] | None) -> None:
    """The limit of Kafka's own (KRaft) controllers."""
    if max(count, len(assignments or ())) > MAX_PARTITIONS:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"More than {MAX_PARTITIONS} partitions cannot be created at once.",
        )
    if any(len(assignment.broker_ids) > MAX_REPLICAS for assignment in assignments or ()):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"More than {MAX_REPLICAS} replicas."
        )


def _is_odd(replicas: Sequence[int]) -> bool:
    return not replicas or len(set(replicas)) != len(replicas)


def _list_problem(partition: int, replicas: Sequence[int]) -> str:
    if not replicas:
        return f"Cannot have replication factor of 0 for partition id {partition}."
    return (
        "Duplicate brokers not allowed in replica assignment: "
        f"{', '.join(map(str, replicas))} for partition id {partition}."
    )


def check_import_permitted(request: Request, topic: CreatableTopic) -> None:
    """The id of a lost topic gives access to its records."""
    is_import = any(config.name == IMPORT_CONFIG for config in topic.configs)
    if is_import and not request.permits(AclOperation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Authorization failed.")


def _check_once(count: int, problem: str) -> None:
    if count > 1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, problem)


async def _guarded(work: Awaitable[T]) -> T:
    """Trouble with ZooKeeper as an error of the one topic concerned."""
    try:
        return await work
    except (ZkError, MalformedZnode) as error:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from error
    except SessionExpired as error:
        raise KafkaError(ErrorCode.NOT_CONTROLLER) from error


async def _late(
    request: Request,
    names: Iterable[str],
    is_done: Callable[[str], Awaitable[bool]],
    timeout_ms: int,
) -> list[str]:
    """The names not done in time, or when the client closes; all at once without a timeout."""
    if timeout_ms <= 0:
        return list(names)
    late = dict.fromkeys(names)
    with waiting_for(request):
        for name in names:
            if await is_done(name):
                del late[name]
    return list(late)
