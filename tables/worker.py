"""The process that writes tables: `broker.tables` runs `python -m pybroker_kafka.tables.worker`.

It reads JSON lines from its standard input, each with the whole of its work, and writes JSON lines
to its standard output; it ends when its input ends: with its broker, also after a crash. It yields
to every other process.

In: `{"bootstrap": ..., "security": {...} or null, "place": {...}, "topics": {name: configs},
"drops": [[topic, topic id, format]]}`.
Out: `{"topic": ..., "offsets": {...}, "ends": {...}, "error": ... or null}` after each change, and
`{"dropped": topic id, "error": ... or null}` of each table of a deleted topic.

A table is dropped after the writer of its topic has ended, and before that of a new topic of the
same name begins.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import trio

from ..client.cluster import Cluster
from ..client.errors import ClientError
from ..storage.table_configs import TableSettings, table_settings
from .errors import problem_of
from .place import Place
from .reports import Reports
from .state import TableState
from .topic_table import table_of

NICENESS: Final = 10
RECEIVE_BYTES: Final = 1 << 16
RESTART_SECONDS: Final = 1.0
MAX_DROP_SECONDS: Final = 60.0

Message = dict[str, Any]


class Running(NamedTuple):
    configs: dict[str, str]
    scope: trio.CancelScope
    ended: trio.Event


class Worker:
    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self._base: Message = {}  # the last message without topics and drops
        self._running: dict[str, Running] = {}
        self._uses: dict[str, list[trio.Event]] = {}  # ends of writers and drops, by table
        self._drops: set[str] = set()  # ids of their topics

    def apply(self, message: Message) -> None:
        """Keep the tables of these topics, and of no others."""
        topics: dict[str, dict[str, str]] = message.pop("topics")
        drops: list[tuple[str, str, str]] = message.pop("drops")
        kept = topics if message == self._base else {}
        self._base = message
        for topic, running in list(self._running.items()):
            if kept.get(topic) != running.configs:
                running.scope.cancel()
                del self._running[topic]
        for topic, topic_id, kind in drops:
            if topic_id not in self._drops:
                before, ended = self._next(topic)
                self._nursery.start_soon(
                    _drop, kind, Place.from_json(message["place"]), topic, topic_id, before, ended
                )
        self._drops = {topic_id for _, topic_id, _ in drops}
        for topic, configs in topics.items():
            if topic not in self._running:
                before, ended = self._next(topic)
                running = self._running[topic] = Running(configs, trio.CancelScope(), ended)
                self._nursery.start_soon(self._run, topic, running, message, before)

    def _next(self, topic: str) -> tuple[list[trio.Event], trio.Event]:
        """The ends to wait for before the topic's table is used again, and that of this use."""
        name = Place.from_json(self._base["place"]).table_name(topic)
        before = [one for one in self._uses.get(name, ()) if not one.is_set()]
        ended = trio.Event()
        self._uses[name] = [*before, ended]
        return before, ended

    async def _run(
        self, topic: str, running: Running, base: Message, before: list[trio.Event]
    ) -> None:
        try:
            with running.scope:
                await _all_of(before)
                await self._keep(topic, running.configs, base)
        finally:
            running.ended.set()

    async def _keep(self, topic: str, configs: dict[str, str], base: Message) -> None:
        settings = table_settings(configs)
        assert settings is not None, configs
        place = Place.from_json(base["place"])
        while True:
            try:
                async with Cluster(base["bootstrap"], _log, security=base["security"]) as cluster:
                    await _write(cluster, place, topic, settings)
            except ClientError as error:
                _send({"topic": topic, "error": str(error)})
            await trio.sleep(RESTART_SECONDS)


async def _all_of(events: Iterable[trio.Event]) -> None:
    for event in events:
        await event.wait()


async def _drop(
    kind: str,
    place: Place,
    topic: str,
    topic_id: str,
    before: list[trio.Event],
    ended: trio.Event,
) -> None:
    await _all_of(before)
    pause = RESTART_SECONDS
    while True:
        problem = await trio.to_thread.run_sync(_problem_of_drop, kind, place, topic, topic_id)
        _send({"dropped": topic_id, "error": problem})
        if problem is None:
            break
        await trio.sleep(pause)
        pause = min(2 * pause, MAX_DROP_SECONDS)
    ended.set()


def _problem_of_drop(kind: str, place: Place, topic: str, topic_id: str) -> str | None:
    """Drop the table, in a thread; None: it is dropped."""
    try:
        table_of(kind, place, topic, topic_id).drop()
    except Exception as error:  # the formats' libraries raise all kinds
        return place.without_secrets(problem_of(error)[0])
    return None


async def _write(cluster: Cluster, place: Place, topic: str, settings: TableSettings) -> None:
    """Until cancelled."""
    reports = Reports(cluster, place, topic, _log)

    def report(state: TableState) -> None:
        _send(
            {
                "topic": topic,
                "offsets": state.offsets,
                "ends": state.ends,
                "error": state.error,
            }
        )
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
