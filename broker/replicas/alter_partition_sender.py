"""ISR changes of the partitions that this broker leads, sent to the controller.

Job: collect the AlterIsr effects of the replica manager and send them in one AlterPartition (v3)
at a time; give each its answer. Trouble with the request as a whole (no controller, stale broker
epoch) is tried again, as the partition stays as it is until an answer comes.

Also tells the controller of a lost log directory, through a sequential znode.

Mirrors kafka.server.DefaultAlterPartitionManager and KafkaZkClient.propagateLogDirEvent.
"""

import logging
from collections.abc import Iterable

import trio

from ...protocol.errors import ErrorCode
from ...protocol.messages.cluster import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    BrokerState,
)
from ...replication.controller import znodes
from ...replication.controller.operations import Create, SessionExpired
from ...replication.types import AlterIsr, FailedLogDir
from ..cluster.controller_client import ControllerClient, ControllerUnavailable
from ..cluster.zookeeper_client import ZooKeeperClient
from .replica_runtime import ReplicaShell

log = logging.getLogger("pybroker.broker.isr")

ALTER_PARTITION_VERSION = 3
RETRY_DELAY_MS = 50


class AlterPartitionSender:
    """Set `shell.on_isr_change` to `propose` and `shell.on_failed_log_dir` to `log_dir_failed`."""

    def __init__(
        self,
        broker_id: int,
        shell: ReplicaShell,
        client: ControllerClient,
        zookeeper: ZooKeeperClient,
    ) -> None:
        self._broker_id = broker_id
        self._shell = shell
        self._client = client
        self._zookeeper = zookeeper
        # The latest proposal of each partition: there is one in flight at most.
        self._waiting: dict[tuple[bytes, int], AlterIsr] = {}
        self._failed_log_dirs = 0
        self._wake = trio.Event()

    def propose(self, change: AlterIsr) -> None:
        self._waiting[change.topic_id, change.partition] = change
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
            while self._waiting:
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
        proposals, self._waiting = self._waiting, {}
        try:
            response = await self._client.request(
                lambda: self._request(proposals.values()), ALTER_PARTITION_VERSION
            )
        except ControllerUnavailable as error:
            log.warning("ISR changes are not answered: %s", error)
            response = AlterPartitionResponse(error_code=ErrorCode.NETWORK_EXCEPTION)
        assert isinstance(response, AlterPartitionResponse)
        if response.error_code != ErrorCode.NONE:
            log.info("AlterPartition: %s", ErrorCode(response.error_code).name)
            self._waiting = {**proposals, **self._waiting}
            await trio.sleep(RETRY_DELAY_MS / 1000)
            return
        answered = {
            (bytes(topic.topic_id), answer.partition_index): answer
            for topic in response.topics
            for answer in topic.partitions
        }
        for key, proposal in proposals.items():
            answer = answered.get(key)
            if answer is None:
                self._waiting.setdefault(key, proposal)  # not even an error: ask again
            else:
                self._apply(proposal, answer)
        self._shell.settle()

    def _request(self, proposals: Iterable[AlterIsr]) -> AlterPartitionRequest:
        topics: dict[bytes, AlterPartitionRequestTopicData] = {}
        for proposal in proposals:
            topic = topics.get(proposal.topic_id)
            if topic is None:
                topic = AlterPartitionRequestTopicData(topic_id=proposal.topic_id, partitions=[])
                topics[proposal.topic_id] = topic
            topic.partitions.append(
                AlterPartitionRequestPartitionData(
                    partition_index=proposal.partition,
                    leader_epoch=proposal.leader_epoch,
                    partition_epoch=proposal.partition_epoch,
                    new_isr_with_epochs=[
                        BrokerState(broker_id=broker_id) for broker_id in proposal.isr
                    ],
                )
            )
        return AlterPartitionRequest(
            broker_id=self._broker_id,
            broker_epoch=self._shell.manager.leadership.broker_epoch,
            topics=list(topics.values()),
        )

    def _apply(self, proposal: AlterIsr, answer: AlterPartitionResponsePartitionData) -> None:
        self._shell.manager.isr_changes.altered(
            proposal,
            ErrorCode(answer.error_code),
            answer.isr,
            answer.partition_epoch,
            self._shell.clock(),
        )
