"""Handing leaderships over before a broker stops (SEMANTICS 8).

The controller is asked up to controlled.shutdown.max.retries times, and for HAND_OVER_TIMEOUT_S at
most, which is less than a process manager waits before it kills the broker (our supervisor 30 s,
systemd 90 s); the broker stops after any answer. The controller is not asked when no broker could
take over: no other broker is alive, or ZooKeeper, without which the controller changes nothing, is
out of reach.

Mirrors `KafkaServer.controlledShutdown`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

import trio

from ...protocol.apis.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)
from .controller_client import ControllerClient, ControllerUnavailable

if TYPE_CHECKING:
    from ...replication.metadata_cache import MetadataCache
    from ..config import KafkaConfig

logger = logging.getLogger("pybroker.broker.server")

CONTROLLED_SHUTDOWN_VERSION = 3
HAND_OVER_TIMEOUT_S = 20.0


async def hand_over(
    config: KafkaConfig,
    cache: MetadataCache,
    client: ControllerClient,
    broker_epoch: Callable[[], int],
) -> bool:
    """True if nothing is led here any more."""
    if not any(broker_id != cache.broker_id for broker_id in cache.alive_brokers()):
        return False
    with trio.move_on_after(HAND_OVER_TIMEOUT_S):
        return await _ask_controller(config, cache, client, broker_epoch)
    logger.warning("Controlled shutdown: not done after %.0f s; stopping", HAND_OVER_TIMEOUT_S)
    return False


async def _ask_controller(
    config: KafkaConfig,
    cache: MetadataCache,
    client: ControllerClient,
    broker_epoch: Callable[[], int],
) -> bool:
    retries = config.get_int("controlled.shutdown.max.retries")
    pause = config.get_int("controlled.shutdown.retry.backoff.ms") / 1000
    for attempt in range(retries):
        if attempt:
            await trio.sleep(pause)
        try:
            response = await client.request(
                lambda: ControlledShutdownRequest(
                    broker_id=cache.broker_id, broker_epoch=broker_epoch()
                ),
                CONTROLLED_SHUTDOWN_VERSION,
                timeout_ms=config.get_int("controller.socket.timeout.ms"),
            )
        except ControllerUnavailable as error:
            logger.warning("Controlled shutdown: %s", error)
            continue
        assert isinstance(response, ControlledShutdownResponse)
        if not response.error_code and not response.remaining_partitions:
            return True
        logger.warning(
            "Controlled shutdown: %d partitions are still led here",
            len(response.remaining_partitions),
        )
    return False
