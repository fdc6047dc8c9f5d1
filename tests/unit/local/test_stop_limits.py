"""Whoever stops has less time than whoever kills waits."""

from __future__ import annotations

from typing import Any, cast

import trio
import trio.testing

from pybroker_kafka.broker.cluster.controlled_shutdown import HAND_OVER_TIMEOUT_S, hand_over
from pybroker_kafka.broker.cluster.controller_client import ControllerClient
from pybroker_kafka.broker.config import KafkaConfig
from pybroker_kafka.broker.config.loading import load_config
from pybroker_kafka.broker.zk.zookeeper_client import CLOSE_TIMEOUT_S
from pybroker_kafka.cli.nodes import STOP_WAIT_SECONDS
from pybroker_kafka.local.node_group import STOP_TIMEOUT_SECONDS
from pybroker_kafka.replication.metadata_cache import MetadataCache

SYSTEMD_SECONDS = 90.0  # DefaultTimeoutStopSec


def test_each_limit_is_within_the_next() -> None:
    assert HAND_OVER_TIMEOUT_S + CLOSE_TIMEOUT_S < STOP_TIMEOUT_SECONDS
    brokers_then_zookeeper = 2 * STOP_TIMEOUT_SECONDS
    assert brokers_then_zookeeper < STOP_WAIT_SECONDS < SYSTEMD_SECONDS


class _TwoBrokers:
    broker_id = 1

    def alive_brokers(self) -> list[int]:
        return [1, 2]


class _ControllerThatHangs:
    async def request(self, *_arguments: Any, **_options: Any) -> Any:
        await trio.sleep_forever()


async def test_a_controller_that_hangs_is_not_waited_for_longer(
    autojump_clock: trio.testing.MockClock,
) -> None:
    config: KafkaConfig = load_config(overrides={"zookeeper.connect": "127.0.0.1:1"})
    started = trio.current_time()
    done = await hand_over(
        config,
        cast(MetadataCache, _TwoBrokers()),
        cast(ControllerClient, _ControllerThatHangs()),
        lambda: 1,
    )
    assert not done
    assert trio.current_time() - started == HAND_OVER_TIMEOUT_S
