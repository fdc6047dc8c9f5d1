"""What a handler raises becomes the answer; only a defect of ours leaves a traceback."""

from __future__ import annotations

import logging
from time import perf_counter

import pytest

from pybroker_kafka.broker.network.dispatcher import Dispatcher
from pybroker_kafka.broker.network.request import Request, Route
from pybroker_kafka.broker.observability.metrics import BrokerMetrics
from pybroker_kafka.broker.observability.request_metrics import RequestMetrics
from pybroker_kafka.protocol.api import ApiKey, request_class
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.zookeeper.constants import ZkCode
from pybroker_kafka.protocol.zookeeper.operations import SessionExpired, ZkError
from tests.support.handlers import AtOnce, RecordingSink


@pytest.mark.parametrize(
    ("error", "has_traceback"),
    [
        (SessionExpired(), False),  # as a LeaderAndIsr meets it, which reads configs
        (ZkError(ZkCode.BAD_ARGUMENTS, "/config/users/.."), False),
        (KeyError("a defect"), True),
    ],
)
def test_what_zookeeper_refuses_is_one_line(
    caplog: pytest.LogCaptureFixture, error: Exception, has_traceback: bool
) -> None:
    key = ApiKey.LEADER_AND_ISR
    connection = RecordingSink("PLAINTEXT", 0, key, 0)
    route = Route(key, 0, lambda _: None, RequestMetrics(key.name, 0), AtOnce())
    body = request_class(key)()
    request = Request(connection, route, 1, "app", body, 100, perf_counter())
    with caplog.at_level(logging.INFO):
        Dispatcher(BrokerMetrics()).handler_failed(request, error)
    assert connection.answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    (record,) = caplog.records
    assert bool(record.exc_info) is has_traceback
    assert not record.getMessage().endswith(": ")
