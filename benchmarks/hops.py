"""The function calls of one request in the broker: `PYBROKER_COMPILED=0 python -m benchmarks.hops`.

    PYBROKER_COMPILED=0 python -m benchmarks.hops             how many, and in how many files
    PYBROKER_COMPILED=0 python -m benchmarks.hops --calls     each of them, in their order

It shows the way of a request to a reader of the code, and how long that way is. A broker runs in
this process, from its sources. One connection sends one request at a time; the shortest way of many
counts. All calls of functions of this package in the thread of the broker count, from before the
request is there until after its answer is; a coroutine that goes on counts again, and so does
what the interpreter calls itself, such as `__init__`. Calls of libraries and of C do not count.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from struct import Struct
from types import CodeType, FrameType
from typing import Any, NamedTuple

import trio

import pybroker_kafka
from benchmarks.frames import create_topic, produce_frame, small_fetch_frame
from pybroker_kafka.compiled import LOOPS, REQUEST_PATH, is_compiled
from tests.support.in_process import broker, zookeeper
from tests.support.wire import WireClient

TOPIC = "counted"
ONE_RECORD_BYTES = 1100
WARM_UP_REQUESTS = 50
REQUESTS = 50
PACKAGE = Path(str(pybroker_kafka.__file__)).parent
NOT_THE_PRODUCT = {".venv", "tests", "benchmarks"}

_LENGTH = Struct(">i")
FRAMES: dict[str, Callable[[], bytes]] = {
    "produce": lambda: produce_frame(TOPIC, 0),
    "fetch": lambda: small_fetch_frame(TOPIC, 0, 0, ONE_RECORD_BYTES),
}


class Call(NamedTuple):
    file: str
    function: str


class Tracer:
    """Records the calls of the thread of a trio loop."""

    def __init__(self, token: trio.lowlevel.TrioToken) -> None:
        self._token = token
        self._codes: list[CodeType] = []

    def calls(self, work: Callable[[], None]) -> list[Call]:
        """The calls while `work` runs in this thread."""
        self._in_the_loop(self._begin)
        work()
        self._in_the_loop(self._end)
        found = []
        for code in self._codes:
            path = Path(code.co_filename)
            if path.is_relative_to(PACKAGE):
                inside = path.relative_to(PACKAGE)
                if inside.parts[0] not in NOT_THE_PRODUCT:
                    found.append(Call(str(inside), code.co_qualname))
        return found

    def _begin(self) -> None:
        self._codes.clear()
        sys.setprofile(self._record)

    def _end(self) -> None:
        sys.setprofile(None)

    def _record(self, frame: FrameType, event: str, _argument: Any) -> None:
        if event == "call":
            self._codes.append(frame.f_code)

    def _in_the_loop(self, function: Callable[[], None]) -> None:
        done = threading.Event()

        def run() -> None:
            function()
            done.set()

        self._token.run_sync_soon(run)
        done.wait()


@asynccontextmanager
async def served(directory: Path) -> AsyncIterator[str]:
    async with zookeeper() as port, broker(port, directory) as running:
        yield f"127.0.0.1:{running.port}"


async def count(directory: Path) -> dict[str, list[Call]]:
    async with served(directory) as bootstrap:
        tracer = Tracer(trio.lowlevel.current_trio_token())
        return await trio.to_thread.run_sync(shortest_ways, bootstrap, tracer)


def shortest_ways(bootstrap: str, tracer: Tracer) -> dict[str, list[Call]]:
    create_topic(bootstrap, TOPIC, 1)
    found = {}
    with WireClient(bootstrap) as client:
        for kind, frame in FRAMES.items():

            def ask(request: bytes = frame()) -> None:
                client.socket.sendall(request)
                (length,) = _LENGTH.unpack(client.exactly(_LENGTH.size))
                client.exactly(length)

            for _ in range(WARM_UP_REQUESTS):
                ask()
            found[kind] = min((tracer.calls(ask) for _ in range(REQUESTS)), key=len)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--calls", action="store_true", help="print each call")
    given = parser.parse_args()
    if is_compiled(LOOPS) or is_compiled(REQUEST_PATH):
        parser.error("compiled functions are not seen: begin with PYBROKER_COMPILED=0")
    with tempfile.TemporaryDirectory() as directory:
        found = trio.run(count, Path(directory))
    print("| request | calls | functions | files |")
    print("|---|---|---|---|")
    for kind, calls in found.items():
        files = {call.file for call in calls}
        print(f"| {kind} | {len(calls)} | {len(set(calls))} | {len(files)} |")
    if given.calls:
        for kind, calls in found.items():
            print(f"\n{kind}:")
            for number, call in enumerate(calls, 1):
                print(f"{number:4} {call.file:50} {call.function}")


if __name__ == "__main__":
    main()
