"""Each API has one handler, and a broker registers all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pybroker.broker import server
from pybroker.broker.assembly import assemble
from pybroker.broker.network.dispatcher import Dispatcher
from pybroker.protocol.api import ApiKey
from tests.support.apis_page import answered_in
from tests.support.in_process import broker, zookeeper


def test_every_api_is_answered_in_one_file() -> None:
    answered = answered_in()
    assert set(answered) == set(ApiKey)
    assert all(len(files) == 1 for files in answered.values()), answered


async def test_a_broker_registers_all_of_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    parts: list[Any] = []

    def kept(*args: Any) -> Any:
        parts.append(assemble(*args))
        return parts[0]

    monkeypatch.setattr(server, "assemble", kept)
    async with zookeeper() as port, broker(port, tmp_path):
        dispatcher: Dispatcher = parts[0].dispatcher
        assert set(dispatcher.served()) == set(ApiKey)
