"""ISR changes of the partitions that this broker leads, sent to the controller.

Job: send what `replication.isr_proposals` collects of the AlterIsr effects, one request at a time,
and tell the replica manager what was decided.

Also tells the controller of a lost log directory, through a sequential znode.

Mirrors kafka.server.DefaultAlterPartitionManager and KafkaZkClient.propagateLogDirEvent.
"""

import logging
from collections.abc import Iterable, Sequence

import trio

from ...protocol.errors import ErrorCode
from ...protocol.messages.cluster import AlterPartitionResponse
from ...protocol.zookeeper.operations import Create, SessionExpired
from ...replication.controller import znodes
from ...replication.isr_proposals import ALTER_PARTITION_VERSION, IsrProposals
from ...replication.types import AlterIsr, FailedLogDir
from ..cluster.controller_client import ControllerClient, ControllerUnavailable
from ..cluster.zookeeper_client import ZooKeeperClient
from .settled_replicas import SettledReplicas

logger = logging.getLogger("pybroker.broker.isr")

RETRY_DELAY_MS = 50
MOST_NAMED = 10  # in a line of the log: a broker that falls behind can leave thousands of ISRs


class AlterPartitionSender:
    """Set the runtime's `on_isr_change` to `propose`, its `on_failed_log_dir` to
    `log_dir_failed`."""

    def __init__(
        self,
        broker_id: int,
        replicas: SettledReplicas,
        client: ControllerClient,
        zookeeper: ZooKeeperClient,
    ) -> None:
        self._broker_id = broker_id
        self._replicas = replicas
        self._client = client
        self._zookeeper = zookeeper
        self._proposals = IsrProposals(broker_id)
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
            await self._wake.wait()
            self._wake = trio.Event()
            while self._failed_log_dirs:
                await self._announce_failed_log_dir()
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

    async def _send(self) -> None:
        try:
            response = await self._client.request(
                lambda: self._proposals.request(self._replicas.manager.leadership.broker_epoch),
                ALTER_PARTITION_VERSION,
            )
        except ControllerUnavailable as error:
            logger.warning("ISR changes are not answered: %s", error)
            response = AlterPartitionResponse(error_code=ErrorCode.NETWORK_EXCEPTION)
        assert isinstance(response, AlterPartitionResponse)
        now_ms = self._replicas.clock()
        decisions = self._proposals.answered(response)
        with self._replicas.settling as manager:
            for decided in decisions:
                manager.isr_changes.altered(*decided, now_ms)
        _tell([(change, isr) for change, error, isr, _ in decisions if error is ErrorCode.NONE])
        if response.error_code != ErrorCode.NONE:
            logger.info("AlterPartition: %s", ErrorCode(response.error_code).name)
            await trio.sleep(RETRY_DELAY_MS / 1000)


def _tell(changes: Sequence[tuple[AlterIsr, Iterable[int]]]) -> None:
    if not changes:
        return
    named = "; ".join(
        f"{change.topic}-{change.partition} is {','.join(map(str, isr))}"
        for change, isr in changes[:MOST_NAMED]
    )
    more = f"; and {len(changes) - MOST_NAMED} more" if len(changes) > MOST_NAMED else ""
    logger.info("ISR changed: %s%s", named, more)
