"""`HANDLED_IN` names the file of each API that is registered, and only those."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from typing import Any

import pytest

from pybroker.broker import handlers, server
from pybroker.broker.assembly import assemble
from pybroker.broker.handlers import HANDLED_IN
from pybroker.broker.network.dispatcher import Dispatcher
from pybroker.protocol.api import ApiKey
from tests.support.in_process import broker, zookeeper

ROOM = Path(inspect.getfile(handlers)).parent


def answered_in() -> dict[ApiKey, tuple[str, ...]]:
    """The files whose `handlers()` names an API, with the methods of the same file."""
    found: dict[ApiKey, tuple[str, ...]] = {}
    for path in ROOM.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.ClassDef):
                continue
            methods = {
                method.name: method
                for method in node.body
                if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef)
            }
            if "handlers" not in methods:
                continue
            (table,) = (n for n in ast.walk(methods["handlers"]) if isinstance(n, ast.Dict))
            for key, value in zip(table.keys, table.values, strict=True):
                assert isinstance(key, ast.Attribute)
                assert isinstance(value, ast.Attribute)
                assert value.attr in methods, f"{path.name}: {value.attr} is not there"
                api = ApiKey[key.attr]
                found[api] = (*found.get(api, ()), path.stem)
    return found


def test_the_table_is_what_the_files_say() -> None:
    assert answered_in() == {key: (name,) for key, name in HANDLED_IN.items()}


async def test_a_broker_registers_what_the_table_has(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    parts: list[Any] = []

    def kept(*args: Any) -> Any:
        parts.append(assemble(*args))
        return parts[0]

    monkeypatch.setattr(server, "assemble", kept)
    async with zookeeper() as port, broker(port, tmp_path):
        dispatcher: Dispatcher = parts[0].dispatcher
        assert set(dispatcher.served()) == set(HANDLED_IN)
