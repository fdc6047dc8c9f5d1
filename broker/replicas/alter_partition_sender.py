"""ISR changes of the partitions that this broker leads, sent to the controller.

Job: send the AlterIsr effects that `replication.isr_proposals` collects, one request at a time, and
pass the decisions to the replica manager. With an inter.broker.protocol.version below 2.7-IV2 write
them to ZooKeeper (`isr_writes`), and notify the controller after a while without changes.

Also notifies the controller of a lost log directory, through a sequential znode.

Mirrors kafka.server.DefaultAlterPartitionManager, ZkAlterPartitionManager and
KafkaZkClient.propagateLogDirEvent.
"""

import logging
import math
from collections.abc import Iterable, Sequence

import trio

from ...protocol.apis.alter_partition import AlterPartitionResponse
from ...protocol.errors import ErrorCode
from ...protocol.topics import TopicPartition
from ...protocol.zookeeper.operations import Create, SessionExpired, ZkError
from ...replication.controller import znodes
from ...replication.controller.isr_writes import notify_controller, write_isr
from ...replication.inter_broker import NEWEST, InterBrokerProtocol
from ...replication.isr_proposals import IsrProposals
from ...replication.types import AlterIsr, FailedLogDir
from ..cluster.controller_client import ControllerClient, ControllerUnavailable
from ..zk.zookeeper import ZooKeeper
from .applied_replicas import AppliedReplicas

logger = logging.getLogger("pybroker.broker.isr")

RETRY_DELAY_MS = 50
# As in Kafka: the time that a notification waits for more changes, and its longest wait.
NOTIFICATION_LINGER_MS = 5_000
NOTIFICATION_MAX_DELAY_MS = 60_000
MOST_NAMED = 10  # in a line of the log: a slow broker can leave thousands of ISRs


class AlterPartitionSender:
    """Set the runtime's `on_isr_change` to `propose`, its `on_failed_log_dir` to
    `log_dir_failed`."""

    def __init__(
        self,
        broker_id: int,
        replicas: AppliedReplicas,
        client: ControllerClient,
        zookeeper: ZooKeeper,
        protocol: InterBrokerProtocol = NEWEST,
    ) -> None:
        self._asks_controller = protocol.has_alter_partition
        self._unannounced: set[TopicPartition] = set()
        self._first_unannounced_at = 0.0
        self._broker_id = broker_id
        self._replicas = replicas
        self._client = client
        self._zookeeper = zookeeper
        self._proposals = IsrProposals(broker_id, protocol.alter_partition)
        self._failed_log_dirs = 0
        self._wake = trio.Event()

    def propose(self, change: AlterIsr) -> None:
        self._proposals.propose(change)
        self._wake.set()

    def log_dir_failed(self, _failure: FailedLogDir) -> None:
        self._failed_log_dirs += 1
        self._wake.set()

    async def run(self) -> None:
        while True:
            with trio.move_on_after(self._quiet_seconds()):
                await self._wake.wait()
            self._wake = trio.Event()
            while self._failed_log_dirs:
                await self._announce_failed_log_dir()
            if not self._asks_controller:
                await self._write()
                continue
            while self._proposals.begin():
                await self._send()

    async def _announce_failed_log_dir(self) -> None:
        event = Create(
            f"{znodes.LOG_DIR_EVENTS}/log_dir_event_",
            znodes.encode_log_dir_event(self._broker_id),
            sequential=True,
        )
        try:
            await self._zookeeper.execute_one(event)
            self._failed_log_dirs = 0
        except SessionExpired:
            await trio.sleep(RETRY_DELAY_MS / 1000)

    # Without a controller

    def _quiet_seconds(self) -> float:
        """The time in seconds to wait for the next notification."""
        if not self._unannounced:
            return math.inf
        latest = self._first_unannounced_at + NOTIFICATION_MAX_DELAY_MS / 1000
        return max(0.0, min(NOTIFICATION_LINGER_MS / 1000, latest - trio.current_time()))

    async def _write(self) -> None:
        """Write the waiting proposals; if there are none, notify the controller of the written
        ones."""
        change = self._proposals.take()
        try:
            if change is None and self._unannounced:
                await self._zookeeper.run(notify_controller(self._unannounced))
                self._unannounced.clear()
            while change is not None:
                await self._write_one(change)
                change = self._proposals.take()
        except (SessionExpired, ZkError) as error:
            logger.warning("ISR changes are not written: %s", error)
            if change is not None:
                self._proposals.put_back(change)
            await trio.sleep(RETRY_DELAY_MS / 1000)
            self._wake.set()

    async def _write_one(self, change: AlterIsr) -> None:
        controller_epoch = self._replicas.manager.leadership.controller_epoch
        epoch = await self._zookeeper.run(write_isr(change, self._broker_id, controller_epoch))
        now_ms = self._replicas.clock()
        error = ErrorCode.INVALID_UPDATE_VERSION if epoch is None else ErrorCode.NONE
        if not self._unannounced:
            self._first_unannounced_at = trio.current_time()
        self._unannounced.add((change.topic, change.partition))
        with self._replicas.applying as manager:
            manager.isr_changes.altered(change, error, change.isr, epoch or 0, now_ms)
        if epoch is not None:
            _log_changes([(change, change.isr)])

    async def _send(self) -> None:
        try:
            response = await self._client.request(
                lambda: self._proposals.request(self._replicas.manager.leadership.broker_epoch),
                self._proposals.version,
            )
        except ControllerUnavailable as error:
            logger.warning("ISR changes are not answered: %s", error)
            response = AlterPartitionResponse(error_code=ErrorCode.NETWORK_EXCEPTION)
        assert isinstance(response, AlterPartitionResponse)
        now_ms = self._replicas.clock()
        decisions = self._proposals.answered(response)
        with self._replicas.applying as manager:
            for decided in decisions:
                manager.isr_changes.altered(*decided, now_ms)
        _log_changes(
            [(change, isr) for change, error, isr, _ in decisions if error is ErrorCode.NONE]
        )
        if response.error_code != ErrorCode.NONE:
            logger.info("AlterPartition: %s", ErrorCode(response.error_code).name)
            await trio.sleep(RETRY_DELAY_MS / 1000)


def _log_changes(changes: Sequence[tuple[AlterIsr, Iterable[int]]]) -> None:
    if not changes:
        return
    named = "; ".join(
        f"{change.topic}-{change.partition} is {','.join(map(str, isr))}"
        for change, isr in changes[:MOST_NAMED]
    )
    more = f"; and {len(changes) - MOST_NAMED} more" if len(changes) > MOST_NAMED else ""
    logger.info("ISR changed: %s%s", named, more)
