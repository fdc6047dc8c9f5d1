"""What stands before the handlers for a test is in nobody's way when it is gone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pybroker_kafka.broker.network.request import Request
from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.framing import decode_response
from tests.support.network import heartbeat, running_network


async def test_requests_are_intercepted_until_they_are_not() -> None:
    def refuse_heartbeats(
        key: ApiKey, handle: Callable[[Request], Any]
    ) -> Callable[[Request], Any]:
        if key is not ApiKey.HEARTBEAT:
            return handle
        return lambda request: request.fail(ErrorCode.REBALANCE_IN_PROGRESS)

    async with running_network() as network:
        client = await network.connect()

        async def error(group: str) -> int:
            await client.send(heartbeat(group, 1))
            frame = await client.receive_frame()
            assert frame is not None
            answer: Any = decode_response(ApiKey.HEARTBEAT, 4, frame)[1]
            code: int = answer.error_code
            return code

        routes = network.dispatcher._routes
        assert await error("before") == 0
        (before,) = (route.handle for route in routes.values())
        network.dispatcher.intercept_with(refuse_heartbeats)
        assert await error("refused") == ErrorCode.REBALANCE_IN_PROGRESS
        network.dispatcher.intercept_with(None)
        assert await error("after") == 0
        (after,) = (route.handle for route in routes.values())
        assert after == before
        assert network.heartbeats.seen == ["before", "after"]
