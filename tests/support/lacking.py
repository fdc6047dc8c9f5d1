"""What the test kit says of a topic without the records that a test asks for.

A time limit must pass for that; it is as short as a busy machine lets it be: one that has not even
found the leader within the limit is asked again, with more time.
"""

from __future__ import annotations

import pytest

from pybroker_kafka.testing import ClusterError, KafkaCluster

SECONDS = (0.2, 2.0, 20.0)


def refusal(kafka: KafkaCluster, topic: str, at_least: int = 0) -> str:
    """The message, without its limit, which it must name."""
    message = ""
    for seconds in SECONDS:
        with pytest.raises(ClusterError) as raised:
            kafka.records(topic, at_least=at_least, timeout=seconds)
        message = str(raised.value)
        if message == f"no answer of the cluster within {seconds:g} s":
            continue
        assert message.endswith(f" after {seconds:g} s"), message
        message = message.removesuffix(f" after {seconds:g} s")
        if not message.startswith("no leader of"):
            break
    return message
