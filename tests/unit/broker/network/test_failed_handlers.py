"""What a handler raises becomes the answer; only a defect of ours leaves a traceback."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from pybroker.broker.network.dispatcher import Dispatcher
from pybroker.broker.observability.metrics import BrokerMetrics
from pybroker.protocol.errors import ErrorCode
from pybroker.protocol.zookeeper.constants import ZkCode
from pybroker.protocol.zookeeper.operations import SessionExpired, ZkError


class Asked:
    """A request that has no answer yet."""

    answered = closed = False

    def __init__(self) -> None:
        self.connection: Any = self
        self.failed: list[ErrorCode] = []

    def fail(self, code: ErrorCode, _message: str | None) -> None:
        self.failed.append(code)


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
    request: Any = Asked()
    with caplog.at_level(logging.INFO):
        Dispatcher(BrokerMetrics()).handler_failed(request, error)
    assert request.failed == [ErrorCode.UNKNOWN_SERVER_ERROR]
    (record,) = caplog.records
    assert bool(record.exc_info) is has_traceback
    assert not record.getMessage().endswith(": ")
