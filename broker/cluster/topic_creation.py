"""Creating topics: the checks and the assignment that CreateTopics and auto creation share.

Job: compute an assignment of the requested topic over the alive brokers and write it to ZooKeeper.
- `TopicCreator.create_all`: topics, with all checks, in few transactions of ZooKeeper.
- `TopicCreator.create`: one topic; KafkaError if it cannot be created.
- `TopicCreator.auto_create`: for Metadata and FindCoordinator: starts a creation in the background
  and reports the answer once the topic is in ZooKeeper, or has failed. In plain ZooKeeper mode the
  broker that receives the request writes the znodes itself, controller or not.
Invariant: each started automatic creation reports once, after AUTO_CREATION_WAIT_MS at the latest;
the creation continues after that.

Mirrors kafka.server.ZkAdminManager.createTopics and DefaultAutoTopicCreationManager. Leaves out
create.topic.policy.class.name, whose classes are Java's, and mutation quotas for internal topics.
"""

import logging
import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import trio

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.topics import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC
from ...protocol.uuids import ZERO_UUID, new_uuid
from ...protocol.zookeeper.operations import SessionExpired, ZkError
from ...replication.controller import topic_admin
from ...replication.controller.assignment import assign_replicas, usable_racks
from ...replication.controller.topic_admin import NewTopic
from ...replication.controller.topic_import import IMPORT_CONFIG, TopicImport, take_import
from ...replication.metadata_cache import MetadataCache
from ...storage.log_config import LogConfig, validate_topic_configs
from ..config.kafka_config import KafkaConfig
from ..zk.zookeeper_client import ZooKeeperClient

logger = logging.getLogger("pybroker.broker.topics")

UNSET = -1
MAX_REFUSED_NAMES = 1_000
# Topics that are being created because clients have asked for them; requests for more have to be
# retried. Each is a few round trips to ZooKeeper and a few files.
MAX_AUTO_CREATIONS = 1_000
MAX_AUTO_CREATIONS_AT_ONCE = 4
AUTO_CREATION_WAIT_MS = 5_000

# Called with the error code for the answer to Metadata.
OnCreated = Callable[[ErrorCode], None]


class CreatedTopic(NamedTuple):
    """`topic_id` is zero if nothing was written (validate only), or topics have no ids."""

    topic_id: bytes
    partition_count: int
    replication_factor: int


TopicOutcome: TypeAlias = CreatedTopic | KafkaError | ZkError


class WantedTopic(NamedTuple):
    """UNSET sizes are the broker's defaults; an assignment, if there is one, has them itself."""

    name: str
    config: Mapping[str, str]
    partition_count: int = UNSET
    replication_factor: int = UNSET
    assignment: Mapping[int, Sequence[int]] | None = None


class TopicSettings(NamedTuple):
    partition_count: int
    replication_factor: int
    config: Mapping[str, str]


class _AutoCreation:
    """A topic that is being created, and the waiters for it."""

    __slots__ = ("_complete", "before", "done", "earlier", "settings")

    def __init__(
        self, settings: TopicSettings, before: Callable[[int], None] | None, complete: OnCreated
    ) -> None:
        self.settings = settings
        self.before = before
        self._complete: OnCreated | None = complete
        self.done = trio.Event()
        self.earlier: trio.Event | None = None  # it waits for it

    def finish(self, code: ErrorCode) -> None:
        complete, self._complete = self._complete, None
        if complete is not None:
            complete(code)


def random_uuid(generator: random.Random) -> bytes:
    """A random id, drawn as Kafka draws topic ids."""
    while (topic_id := new_uuid(generator.randbytes(16))) is None:
        pass
    return topic_id


class TopicCreator:
    def __init__(
        self,
        config: KafkaConfig,
        cache: MetadataCache,
        zookeeper: ZooKeeperClient,
        generator: random.Random,
    ) -> None:
        self._config = config
        self._cache = cache
        self._zookeeper = zookeeper
        self._wanted: dict[str, _AutoCreation] = {}
        self._wake = trio.Event()
        self._random = generator
        self._in_flight: set[str] = set()
        self._auto_limit = trio.CapacityLimiter(MAX_AUTO_CREATIONS_AT_ONCE)
        # Names that may collide come one after the other: of two that do the first is created.
        self._last_of_colliding = trio.Event()
        self._last_of_colliding.set()
        self._refused: set[str] = set()  # names whose refusal has been logged

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Create the topics of `auto_create` in the background, until cancelled."""
        async with trio.open_nursery() as nursery:
            task_status.started()
            while True:
                await self._wake.wait()
                self._wake = trio.Event()
                wanted, self._wanted = self._wanted, {}
                for topic, creation in wanted.items():
                    nursery.start_soon(self._create_in_background, topic, creation)

    # Explicit creation

    async def create(
        self, wanted: WantedTopic, *, before: Callable[[int], None] | None = None
    ) -> CreatedTopic:
        """As `create_all`. Raises KafkaError or ZkError."""
        (outcome,) = await self.create_all([wanted], before=before)
        if not isinstance(outcome, CreatedTopic):
            raise outcome
        return outcome

    async def create_all(
        self,
        wanted: Sequence[WantedTopic],
        *,
        validate_only: bool = False,
        before: Callable[[int], None] | None = None,
    ) -> list[TopicOutcome]:
        """Check everything, then write the znodes; one outcome a topic, whose names differ. The
        topics have no leaders yet when this returns.

        `before` is called with the number of partitions after all checks; it may refuse them.
        """
        outcomes: dict[str, TopicOutcome] = {}
        for group in groups_without_collisions(wanted):
            outcomes |= await self._create_group(group, before, validate_only=validate_only)
        return [outcomes[topic.name] for topic in wanted]

    async def _create_group(
        self,
        group: Sequence[WantedTopic],
        before: Callable[[int], None] | None,
        *,
        validate_only: bool,
    ) -> dict[str, TopicOutcome]:
        outcomes: dict[str, TopicOutcome] = {}
        named: dict[str, Mapping[int, Sequence[int]]] = {}
        for topic in group:
            try:
                named[topic.name] = self._named(topic)
            except KafkaError as error:
                outcomes[topic.name] = error.with_traceback(None)
        outcomes |= await self._zookeeper.run(topic_admin.check_new_topics(list(named)))
        explicit = self._config.explicit()
        new: list[NewTopic] = []
        for topic in group:
            if topic.name in outcomes:
                continue
            replicas = named[topic.name]
            try:
                config, imported = take_import(topic.config)
                topic_admin.check_replicas(replicas)
                validate_topic_configs(config, explicit)
                if imported is not None:
                    self._check_import(imported, len(replicas), config)
                if before is not None and not validate_only:
                    before(len(replicas))
            except KafkaError as error:
                outcomes[topic.name] = error.with_traceback(None)
                continue
            topic_id = None
            if imported is not None:
                topic_id = imported.topic_id
            elif not validate_only and self._config.inter_broker_protocol.has_topic_ids:
                topic_id = random_uuid(self._random)
            epochs = () if imported is None else imported.leader_epochs
            new.append(NewTopic(topic.name, topic_id, replicas, config, epochs))
        if not validate_only and new:
            outcomes |= await self._zookeeper.run(topic_admin.create_topics(new))
        for one in new:
            if one.name not in outcomes:
                size = len(one.assignment), len(one.assignment[0])
                outcomes[one.name] = CreatedTopic(one.topic_id or ZERO_UUID, *size)
                if not validate_only:
                    logger.info("topic %s is created with %d partitions", one.name, size[0])
        return outcomes

    def check_unknown(self, name: str) -> None:
        """Raises KafkaError for a topic that this broker knows already."""
        if self._cache.contains(name):
            raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")

    def _named(self, topic: WantedTopic) -> Mapping[int, Sequence[int]]:
        """The replicas of a topic whose name may be new. Raises KafkaError."""
        self.check_unknown(topic.name)
        replicas = topic.assignment or self.assign(topic.partition_count, topic.replication_factor)
        topic_admin.check_topic_name(topic.name)
        return replicas

    def _check_import(
        self, imported: TopicImport, partition_count: int, config: Mapping[str, str]
    ) -> None:
        if len(imported.leader_epochs) != partition_count:
            reason = f"{len(imported.leader_epochs)} epochs for {partition_count} partitions"
        elif self._cache.topic_name(imported.topic_id) is not None:
            reason = f"{self._cache.topic_name(imported.topic_id)} has this id"
        elif not LogConfig.from_overrides(config, self._config.explicit()).remote_storage_enable:
            reason = "the topic needs remote.storage.enable=true"
        elif not self._config.inter_broker_protocol.has_topic_ids:
            reason = "topics have no ids at this inter.broker.protocol.version"
        else:
            return
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{IMPORT_CONFIG}: {reason}")

    def assign(self, partition_count: int, replication_factor: int) -> dict[int, list[int]]:
        """Replicas over the alive brokers; UNSET takes the broker's default."""
        if partition_count == UNSET:
            partition_count = self._config.get_int("num.partitions")
        if replication_factor == UNSET:
            replication_factor = self._config.get_int("default.replication.factor")
        brokers = self._cache.alive_brokers()
        racks = usable_racks({broker_id: node.rack for broker_id, node in brokers.items()})
        count = max(1, len(brokers))
        return assign_replicas(
            sorted(brokers),
            partition_count,
            replication_factor,
            start_index=self._random.randrange(count),
            shift=self._random.randrange(count),
            racks=racks,
        )

    # Automatic creation

    def auto_create(
        self, topic: str, before: Callable[[int], None] | None, complete: OnCreated
    ) -> ErrorCode | None:
        """Start creating a topic that a client asked for.

        Returns the error code to answer with at once, or None: then `complete` is called with it.
        `before` charges the mutations to the first client that asked.
        """
        if topic in self._in_flight or len(self._in_flight) >= MAX_AUTO_CREATIONS:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        try:
            topic_admin.check_topic_name(topic)
            settings = self.settings_of(topic)
            alive = len(self._cache.alive_brokers())
            if settings.replication_factor > alive:
                raise KafkaError(
                    ErrorCode.INVALID_REPLICATION_FACTOR,
                    f"{settings.replication_factor} replicas are requested, "
                    f"{alive} broker(s) are alive.",
                )
        except KafkaError as error:
            self._log_refusal(topic, error.message)
            return error.code
        self._in_flight.add(topic)
        creation = self._wanted[topic] = _AutoCreation(settings, before, complete)
        if topic_admin.may_collide(topic):
            creation.earlier, self._last_of_colliding = self._last_of_colliding, creation.done
        self._wake.set()
        return None

    def _log_refusal(self, topic: str, problem: str) -> None:
        """Log once a name: clients ask again and again."""
        if topic not in self._refused:
            if len(self._refused) >= MAX_REFUSED_NAMES:
                self._refused.clear()
            self._refused.add(topic)
            logger.warning("topic %s is not created automatically: %s", topic, problem)

    def auto_create_internal(self, topic: str) -> None:
        """Like `auto_create`, for coordinators, which answer COORDINATOR_NOT_AVAILABLE anyway."""
        self.auto_create(topic, None, _ignore)

    def settings_of(self, topic: str) -> TopicSettings:
        """Size and configs of a topic that is created automatically."""
        value = self._config.value
        if topic == OFFSETS_TOPIC:
            return TopicSettings(
                value("offsets.topic.num.partitions"),
                value("offsets.topic.replication.factor"),
                {
                    "cleanup.policy": "compact",
                    "segment.bytes": str(value("offsets.topic.segment.bytes")),
                    "compression.type": "producer",
                },
            )
        if topic == TRANSACTIONS_TOPIC:
            return TopicSettings(
                value("transaction.state.log.num.partitions"),
                value("transaction.state.log.replication.factor"),
                {
                    "unclean.leader.election.enable": "false",
                    "compression.type": "uncompressed",
                    "cleanup.policy": "compact",
                    "min.insync.replicas": str(value("transaction.state.log.min.isr")),
                    "segment.bytes": str(value("transaction.state.log.segment.bytes")),
                },
            )
        if topic == SHARE_STATE_TOPIC:
            return TopicSettings(
                value("share.coordinator.state.topic.num.partitions"),
                value("share.coordinator.state.topic.replication.factor"),
                {
                    "cleanup.policy": "delete",
                    "compression.type": "producer",
                    "segment.bytes": str(value("share.coordinator.state.topic.segment.bytes")),
                    "min.insync.replicas": str(value("share.coordinator.state.topic.min.isr")),
                    "retention.ms": "-1",
                },
            )
        return TopicSettings(value("num.partitions"), value("default.replication.factor"), {})

    async def _create_in_background(self, topic: str, creation: _AutoCreation) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_answer_late, creation)
            try:
                if creation.earlier is not None:
                    await creation.earlier.wait()
                async with self._auto_limit:
                    code = await self._outcome(topic, creation)
            finally:
                creation.earlier = None
                creation.done.set()
                self._in_flight.discard(topic)
            creation.finish(code)
            nursery.cancel_scope.cancel()

    async def _outcome(self, topic: str, creation: _AutoCreation) -> ErrorCode:
        """Create it; LEADER_NOT_AVAILABLE if it exists now, or if a retry may succeed."""
        settings = creation.settings
        try:
            wanted = WantedTopic(
                topic, settings.config, settings.partition_count, settings.replication_factor
            )
            await self.create(wanted, before=creation.before)
        except KafkaError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                self._log_refusal(topic, error.message)
                return error.code
        except (ZkError, SessionExpired) as error:
            logger.warning("topic %s is not created automatically: %r", topic, error)
        return ErrorCode.LEADER_NOT_AVAILABLE


async def _answer_late(creation: _AutoCreation) -> None:
    await trio.sleep(AUTO_CREATION_WAIT_MS / 1000)
    creation.finish(ErrorCode.LEADER_NOT_AVAILABLE)


def _ignore(_: ErrorCode) -> None:
    pass


def groups_without_collisions(wanted: Iterable[WantedTopic]) -> list[list[WantedTopic]]:
    """Groups in whose topics no two may collide; of topics that do, each is a group later than the
    topic before it, so that the first is created. As many groups as topics that collide with each
    other.
    """
    groups: list[list[WantedTopic]] = []
    earlier: Counter[str] = Counter()
    for topic in wanted:
        name = topic_admin.metric_name(topic.name)
        if earlier[name] == len(groups):
            groups.append([])
        groups[earlier[name]].append(topic)
        earlier[name] += 1
    return groups
