"""A producer that has nothing to send costs nothing."""

from __future__ import annotations

import trio
from trio.testing import wait_all_tasks_blocked

from pybroker_kafka import Producer

PATIENCE_SECONDS = 120


async def test_without_records_all_its_tasks_sleep() -> None:
    """Also before it has a producer id, for which it would have to ask somebody."""

    async def reach(_host: str, _port: int) -> trio.abc.Stream:
        raise ConnectionRefusedError

    async with Producer("nowhere:1", network=reach):
        with trio.fail_after(PATIENCE_SECONDS):
            await wait_all_tasks_blocked()
