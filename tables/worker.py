"""The process that writes tables: `broker.tables` runs `python -m pybroker_kafka.tables.worker`.

It reads JSON lines from its standard input, each with the whole of its work, and writes JSON lines
to its standard output; it ends when its input ends: with its broker, also after a crash. It yields
to every other process.

In: `{"bootstrap": ..., "security": {...} or null, "place": {...}, "topics": {name: configs}}`.
Out: `{"topic": ..., "offsets": {...}, "error": ... or null, ...}` after each change.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from typing import Any, Final

import trio

from ..client.cluster import Cluster
from ..client.errors import ClientError
from ..storage.table_configs import TableSettings, table_settings
from .errors import problem_of
from .place import Place
from .reports import Reports
from .state import TableState

NICENESS: Final = 10
RECEIVE_BYTES: Final = 1 << 16
RESTART_SECONDS: Final = 1.0

Message = dict[str, Any]


class Worker:
    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self._base: Message = {}  # the last message without topics
        self._running: dict[str, tuple[dict[str, str], trio.CancelScope]] = {}

    def apply(self, message: Message) -> None:
        """Keep the tables of these topics, and of no others."""
        topics: dict[str, dict[str, str]] = message.pop("topics")
        if message != self._base:
            topics_kept: dict[str, dict[str, str]] = {}
            self._base = message
        else:
            topics_kept = topics
        for topic, (configs, scope) in list(self._running.items()):
            if topics_kept.get(topic) != configs:
                scope.cancel()
                del self._running[topic]
        for topic, configs in topics.items():
            if topic not in self._running:
                scope = trio.CancelScope()
                self._running[topic] = (configs, scope)
                self._nursery.start_soon(self._keep, topic, configs, message, scope)

    async def _keep(
        self, topic: str, configs: dict[str, str], base: Message, scope: trio.CancelScope
    ) -> None:
        with scope:
            settings = table_settings(configs)
            assert settings is not None, configs
            place = Place.from_json(base["place"])
            while True:
                try:
                    async with Cluster(
                        base["bootstrap"], _log, security=base["security"]
                    ) as cluster:
                        await _write(cluster, place, topic, settings)
                except ClientError as error:
                    _send({"topic": topic, "error": str(error)})
                await trio.sleep(RESTART_SECONDS)


async def _write(cluster: Cluster, place: Place, topic: str, settings: TableSettings) -> None:
    """Until cancelled."""
    reports = Reports(cluster, place, topic, _log)

    def report(state: TableState) -> None:
        _send(asdict(state))
        reports.note(state)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(reports.run)
        try:
            from .writer import TopicWriter
        except ImportError as error:
            state = TableState(topic, settings.format)
            state.fail(problem_of(error))
            report(state)
            return
        await TopicWriter(cluster, place, topic, settings, report).run()


def _send(message: Message) -> None:
    data = memoryview(json.dumps(message).encode() + b"\n")
    while data:
        data = data[os.write(sys.stdout.fileno(), data) :]


def _log(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201


async def run() -> None:
    async with trio.open_nursery() as nursery:
        worker = Worker(nursery)
        source = trio.lowlevel.FdStream(os.dup(sys.stdin.fileno()))
        held = b""
        while data := await source.receive_some(RECEIVE_BYTES):
            *lines, held = (held + data).split(b"\n")
            if lines:
                worker.apply(json.loads(lines[-1]))
        os._exit(0)  # threads may be within a commit, which the table survives


def main() -> None:
    os.nice(NICENESS)
    try:
        trio.run(run)
    except (BrokenPipeError, KeyboardInterrupt):
        os._exit(0)


if __name__ == "__main__":
    main()
