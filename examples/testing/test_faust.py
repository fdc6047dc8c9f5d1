"""A Faust application (faust-streaming): an agent that shouts, from one topic to another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from pybroker_kafka.testing import KafkaCluster

faust: Any = pytest.importorskip("faust")


def test_an_agent(kafka: KafkaCluster) -> None:
    words, loud = kafka.topic("words"), kafka.topic("loud")

    async def run() -> list[bytes | None]:
        app = faust.App(
            "shouters",
            broker=f"kafka://{kafka.bootstrap}",
            value_serializer="raw",
            web_enabled=False,
        )

        # What @app.agent does above a function of a module.
        async def shout(stream: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
            async for word in stream:
                yield word.upper()

        source = app.topic(words, value_type=bytes)
        app.agent(source, sink=[app.topic(loud, value_type=bytes)])(shout)
        async with app:
            for word in (b"one", b"two"):
                await source.send(value=word)
            records = await asyncio.to_thread(kafka.records, loud, at_least=2)
            return [record.value for record in records]

    assert asyncio.run(run()) == [b"ONE", b"TWO"]
