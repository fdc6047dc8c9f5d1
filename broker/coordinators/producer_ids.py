"""Producer ids for idempotent producers, in blocks of 1000 from the controller.

Job: hand out ids that no other producer of the cluster ever gets. The next block is asked for when
90 % of the current one are used, so that handing out rarely waits.

Invariants: an id is handed out once; at most one request for a block is under way.

Mirrors kafka.coordinator.transaction.RPCProducerIdManager (KIP-730) and ZkProducerIdManager.
"""

import logging
from collections.abc import Awaitable, Callable

import trio

from ...protocol.apis.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.zookeeper.operations import SessionExpired, ZkError
from ...replication.controller.requests import allocate_producer_ids
from ...replication.controller.znodes import PRODUCER_ID_BLOCK_SIZE, MalformedZnode
from ..cluster.controller_client import ControllerClient, ControllerUnavailable
from ..zk.zookeeper import ZooKeeper

logger = logging.getLogger("pybroker.broker.coordinators.producer_ids")

PREFETCH_BELOW_IDS = PRODUCER_ID_BLOCK_SIZE // 10
BLOCK_WAIT_MS = 500
RETRY_DELAY_MS = 50
ALLOCATE_PRODUCER_IDS_VERSION = 0

AllocateBlock = Callable[[], Awaitable[range]]


def allocate_from_controller(
    client: ControllerClient, broker_id: int, broker_epoch: Callable[[], int]
) -> AllocateBlock:
    """Ask the active controller for a block."""

    async def allocate() -> range:
        response = await client.request(
            lambda: AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=broker_epoch()),
            ALLOCATE_PRODUCER_IDS_VERSION,
        )
        assert isinstance(response, AllocateProducerIdsResponse)
        if response.error_code != ErrorCode.NONE:
            raise KafkaError(ErrorCode(response.error_code))
        start = response.producer_id_start
        return range(start, start + response.producer_id_len)

    return allocate


def allocate_from_zookeeper(zookeeper: ZooKeeper, broker_id: int) -> AllocateBlock:
    """Take a block oneself, as brokers do with an inter.broker.protocol.version below 3.0."""

    async def allocate() -> range:
        try:
            start = await zookeeper.run(allocate_producer_ids(broker_id))
        except (SessionExpired, ZkError, MalformedZnode) as error:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from error
        return range(start, start + PRODUCER_ID_BLOCK_SIZE)

    return allocate


class ProducerIds:
    def __init__(self, allocate: AllocateBlock) -> None:
        self._allocate = allocate
        self._current = range(0)
        self._next_block = range(0)
        self._arrived = trio.Event()
        self._wanted = trio.Event()

    async def next_id(self) -> int:
        """A new id; COORDINATOR_LOAD_IN_PROGRESS if no block arrives soon."""
        with trio.move_on_after(BLOCK_WAIT_MS / 1000):
            while not self._current and not self._next_block:
                self._ask_for_block()
                await self._arrived.wait()
        if not self._current:
            self._current, self._next_block = self._next_block, range(0)
        if not self._current:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        producer_id, self._current = self._current[0], self._current[1:]
        if not self._next_block and len(self._current) <= PREFETCH_BELOW_IDS:
            self._ask_for_block()
        return producer_id

    def _ask_for_block(self) -> None:
        self._wanted.set()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Fetch blocks as they are wanted, until cancelled."""
        task_status.started()
        while True:
            await self._wanted.wait()
            try:
                self._next_block = await self._allocate()
            except (KafkaError, ControllerUnavailable) as error:
                logger.warning("no block of producer ids yet: %s", error)
                await trio.sleep(RETRY_DELAY_MS / 1000)
                continue
            self._wanted = trio.Event()
            arrived, self._arrived = self._arrived, trio.Event()
            arrived.set()
