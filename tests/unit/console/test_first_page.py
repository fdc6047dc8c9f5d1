"""The first page of the console: it does not wait for code of other pages, nor for the cluster."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from pybroker_kafka import console
from pybroker_kafka.client.errors import ClientError
from pybroker_kafka.console.shared import together
from tests.support.patience import eventually

STATIC = Path(console.__path__[0]) / "static"
STATICALLY = re.compile(r'^import [^"]*"\./([\w-]+\.js)"', re.MULTILINE)
LATER = re.compile(r'await import\("\./([\w-]+\.js)"\)')
PRELOADED = re.compile(r'<link rel="modulepreload" href="([\w-]+\.js)">')

# Nothing listens on port 9 of this cluster: no answer is waited for.
SERVED = """
import json, sys, trio
from pybroker_kafka.console.server import ConsoleOptions, serve_console

async def main():
    at = {}

    def announce(address):
        at["announced"] = list(sys.modules)
        nursery.start_soon(look, int(address.split(":")[2].split("/")[0]))

    async def look(port):
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            await stream.send_all(b"GET / HTTP/1.1\\r\\nHost: 127.0.0.1:%d\\r\\n\\r\\n" % port)
            assert b" 401 " in await stream.receive_some()
        at["served"] = list(sys.modules)
        nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        await serve_console(ConsoleOptions("127.0.0.1:9", {}, 0), announce)
    print(json.dumps(at))

trio.run(main)
"""
PACKAGE = "pybroker_kafka."
NOT_BEFORE_THE_ADDRESS = ("hypercorn", "starlette", f"{PACKAGE}console.collector")
OF_OTHER_PAGES = (
    *(f"{PACKAGE}console.{name}" for name in ("pages", "messages", "security", "tiers", "schemas")),
    *(f"{PACKAGE}{name}" for name in ("client.consumer", "client.producer", "storage", "learn")),
    "prometheus_client",
)


def _within(modules: list[str], parents: tuple[str, ...]) -> list[str]:
    return [name for name in modules if any(f"{name}.".startswith(f"{one}.") for one in parents)]


def test_the_address_comes_before_the_web_server_and_other_pages_code_when_asked_for() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SERVED],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=120,
    )
    at = json.loads(done.stdout)
    assert _within(at["announced"], (*NOT_BEFORE_THE_ADDRESS, *OF_OTHER_PAGES)) == []
    assert _within(at["served"], NOT_BEFORE_THE_ADDRESS) != []
    assert _within(at["served"], OF_OTHER_PAGES) == []


def _needs(script: str) -> set[str]:
    """The scripts that this one waits for."""
    found: set[str] = set()
    left = [script]
    while left:
        for one in STATICALLY.findall((STATIC / left.pop()).read_text()):
            if one not in found:
                found.add(one)
                left.append(one)
    return found


def test_a_browser_asks_at_once_for_all_scripts_that_the_first_page_needs() -> None:
    preloaded = PRELOADED.findall((STATIC / "index.html").read_text())
    assert set(preloaded) == _needs("app.js")


def test_scripts_of_other_pages_are_not_waited_for() -> None:
    later = LATER.findall((STATIC / "app.js").read_text())
    assert len(later) == len(set(later)) >= 11
    assert not _needs("app.js") & set(later)
    others = {one for each in later for one in _needs(each)}
    known = {"app.js", *_needs("app.js"), *later, *others}
    assert known == {file.name for file in STATIC.glob("*.js")}


async def test_questions_are_asked_side_by_side() -> None:
    asked: list[str] = []

    async def ask(name: str) -> str:
        asked.append(name)
        await eventually(lambda: len(asked) == 3)
        return name

    assert await together(lambda: ask("a"), lambda: ask("b"), lambda: ask("c")) == ("a", "b", "c")


async def test_the_error_of_one_question_is_raised_as_it_is() -> None:
    async def fail() -> None:
        raise ClientError("no answer")

    with pytest.raises(ClientError, match="no answer"):
        await together(trio.sleep_forever, fail, trio.sleep_forever)
