"""Refused batches: the code of their partition, nothing appended, nothing else disturbed."""

from __future__ import annotations

import pytest

from pybroker_kafka.protocol.errors import ErrorCode
from tests.support.refused_batches import CASES, GOOD, ask, one
from tests.support.wire import WireClient
from tests.wire.test_offsets import LATEST, list_offsets


@pytest.mark.parametrize("name", CASES)
def test_one_partition_is_answered_and_the_others_go_on(kafka: WireClient, name: str) -> None:
    case = CASES[name]
    configs = {key.replace(".", "_"): value for key, value in case.configs.items()}
    topic = kafka.create_topic(partitions=2, **configs)
    for build in case.before:
        assert kafka.produce(topic.name, build()).error_code == 0
    before = list_offsets(kafka, 7, topic.name, LATEST).offset
    answer, good = ask(kafka, topic, case)
    assert ErrorCode(answer.error_code) is case.error, answer
    assert (good.error_code, good.base_offset) == (0, 0)
    assert answer.base_offset == (-1 if case.error else before)
    after = list_offsets(kafka, 7, topic.name, LATEST).offset
    assert after == (before if case.error else before + case.taken)
    # The partition takes the next batch at once.
    taken = kafka.produce(topic.name, one())
    assert (taken.error_code, taken.base_offset) == (0, after)
    assert kafka.produce(topic.name, one(), partition=GOOD).base_offset == 1
