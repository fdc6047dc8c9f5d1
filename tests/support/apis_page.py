"""docs/APIS.md, written from the pages of the APIs and from what the handlers say they answer."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

from pybroker_kafka.broker import handlers
from pybroker_kafka.protocol.api import API_TABLE, ApiKey, page

ROOM = Path(inspect.getfile(handlers)).parent

HEAD = """# The APIs

This page is written by `python -m tests.pages`; do not edit it. It has the APIs that a broker
serves: their versions, the page with their messages and all that is known about them, the handler,
and the release of Kafka that served them first, if that is after 0.10.0 and clients ask them. The
versions are those of Apache Kafka 3.9 with ZooKeeper. Those with a feature are of Kafka 4, and
served once that feature is finalized (`any`: once any feature is).

| API | versions | with a feature | page | handler | since |
|---|---|---|---|---|---|
"""


def apis_page() -> str:
    lines = []
    answered = answered_in()
    for key, spec in API_TABLE.items():
        files = ", ".join(f"`broker/handlers/{name}.py`" for name in answered.get(key, ()))
        of = f"`protocol/apis/{key.name.lower()}.py`"
        highest = spec.highest()
        versions = f"{spec.min_version}-{highest}" if highest >= spec.min_version else ""
        later = spec.later
        more = (
            "" if later is None else f"{later.version}-{spec.max_version} {later.feature or 'any'}"
        )
        lines.append(
            f"| {spec.name} ({int(key)}) | {versions} | {more} | {of} | {files} "
            f"| {page(key).since} |\n"
        )
    return HEAD + "".join(lines)


def answered_in() -> dict[ApiKey, tuple[str, ...]]:
    """The files whose `handlers()` names an API."""
    found: dict[ApiKey, tuple[str, ...]] = {}
    for api, name, _ in handlers_of_files():
        found[api] = (*found.get(api, ()), name)
    return found


def handlers_of_files() -> Iterator[tuple[ApiKey, str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """What `handlers()` of each file has: the API, the file, and its method."""
    for path in sorted(ROOM.glob("*.py")):
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
                yield api, path.stem, methods[value.attr]
