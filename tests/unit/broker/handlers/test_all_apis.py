"""Each API has one handler, and a broker registers all of them."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

from pybroker_kafka.broker import server
from pybroker_kafka.broker.assembly import assemble
from pybroker_kafka.broker.network.dispatcher import Dispatcher
from pybroker_kafka.protocol.api import API_TABLE, ApiKey, page
from pybroker_kafka.protocol.api_page import Handling
from pybroker_kafka.protocol.features import Feature
from tests.support.apis_page import answered_in, handlers_of_files
from tests.support.in_process import broker, zookeeper


def test_every_api_is_answered_in_one_file() -> None:
    answered = answered_in()
    assert set(answered) == set(ApiKey)
    assert all(len(files) == 1 for files in answered.values()), answered


@pytest.mark.parametrize(
    ("key", "method"), [(key, method) for key, _, method in handlers_of_files()]
)
def test_a_handler_works_as_its_page_says(
    key: ApiKey, method: ast.FunctionDef | ast.AsyncFunctionDef
) -> None:
    handling = Handling.AT_ONCE
    if isinstance(method, ast.AsyncFunctionDef):
        handling = Handling.WAITS
    elif any(isinstance(node, ast.Yield | ast.YieldFrom) for node in ast.walk(method)):
        handling = Handling.IN_TURNS
    assert page(key).handling is handling


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
        of_39 = [spec.key for spec in API_TABLE.values() if spec.highest() >= spec.min_version]
        assert [key for key, _, _ in dispatcher.served()] == of_39
        dispatcher.finalized(dict.fromkeys(Feature, 1))
        assert [key for key, _, _ in dispatcher.served()] == list(ApiKey)
