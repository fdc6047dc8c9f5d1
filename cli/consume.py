"""`pybroker consume`: the records of topics, from anywhere to anywhere, as text or JSON lines.

Without --group every partition is read, and nothing is committed. With it this is a member of the
group: it shares the partitions with the others, begins at the committed offsets, and commits.
Mirrors: kcat -C and -G, kafka-console-consumer.
"""

from __future__ import annotations

import functools
import os
import re
import sys
import time
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple

import click
import trio

from ..client.admin.rows import place_text
from ..client.schemas import schema_of
from .completion import complete_groups, complete_topics
from .interrupt import Interrupt, run_interruptible
from .meter import Meter, count_text
from .options import UserError
from .places import find_topics, parse_place, partitions_of
from .record_format import RecordText, Template, json_line
from .registry import registry_at
from .starts import End, Start, parse_end, parse_start
from .target import Target, client_options, report

if TYPE_CHECKING:
    from ..client.admin.admin import Admin
    from ..client.consumer.consumer import Consumer
    from ..client.consumer.received import Received
    from ..client.schemas import Registry
    from ..protocol.topics import TopicPartition

POLL_SECONDS = 0.5
POLL_RECORDS = 10_000
SILENCE_SECONDS = 1.0  # then records hidden by an open transaction are reported


Line = Callable[[RecordText], bytes]


class Wish(NamedTuple):
    """The topics, the bounds and the mode of reading."""

    topics: tuple[str, ...]
    partitions: tuple[int, ...] | None
    group: str | None
    start: Start
    end: End
    committed: bool
    max_records: int | None
    timeout_seconds: float | None


@click.command(
    epilog="""\b
Examples:
  pybroker consume greetings -o beginning
  pybroker consume users -o -10 --until end --format '%p %o %k %v'
  pybroker consume users --partition 0 -o 42 --json
  pybroker consume users orders --group dashboards
  pybroker consume '^user.*' -o @2026-11-23T04:00 --until @2026-11-23T05:00
  pybroker consume orders -o @-1h30m --until end
\b
Fields of --format:
  %t topic   %p partition   %o offset   %k key   %v value   %h headers
  %T timestamp in ms   %d as a date   %K length of the key   %V of the value
  %{v:hex} %{v:base64} %{v:json}, and so for k   %% a percent sign
  \\t a tab   \\n a line end   \\r   \\0   \\xHH any byte   \\\\ a backslash
"""
)
@click.argument(
    "topics", nargs=-1, required=True, metavar="TOPIC...", shell_complete=complete_topics
)
@click.option(
    "-g",
    "--group",
    metavar="NAME",
    help="Read as a member of this group and commit offsets.",
    shell_complete=complete_groups,
)
@click.option(
    "-o",
    "--offset",
    "start",
    metavar="WHERE",
    help="Where to start: beginning, end, OFFSET, -N (the last N records of each partition) or "
    "@TIME. With --group: beginning or end, for partitions without a committed offset.  "
    "[default: end]",
)
@click.option(
    "--until", metavar="WHERE", help="Where to stop: end (the present end of the log) or @TIME."
)
@click.option(
    "--partition", "places", metavar="LIST", help="Read only these partitions, for example 0,2,5-7."
)
@click.option("--from-beginning", is_flag=True, help="Read all records, not only new ones.")
@click.option(
    "--since-ms",
    type=click.IntRange(0),
    metavar="MS",
    help="Start at this timestamp, in ms since 1970.",
)
@click.option("--max-records", type=click.IntRange(1), metavar="N", help="Stop after N records.")
@click.option(
    "--timeout-ms",
    type=click.IntRange(1),
    metavar="MS",
    help="Stop if no record arrives for MS milliseconds.",
)
@click.option(
    "--committed",
    is_flag=True,
    help="Read only committed records of transactions (read_committed).",
)
@click.option("--json", "as_json", is_flag=True, help="JSON lines, which produce can read.")
@click.option(
    "--format", "line_format", default="%v", show_default=True, help="Format of a line; see below."
)
@click.option(
    "--null",
    "null_text",
    default="null",
    show_default=True,
    metavar="TEXT",
    help="Text to print for a null key or value.",
)
@click.option(
    "--registry",
    metavar="URL",
    help="Decode Avro, Protobuf and JSON Schema to JSON with this schema registry; needs the "
    "extra pybroker-kafka[schemas].",
)
@click.option("-q", "--quiet", is_flag=True, help="Do not show the rate while reading.")
@client_options
def consume(
    target: Target,
    topics: tuple[str, ...],
    group: str | None,
    start: str | None,
    until: str | None,
    places: str | None,
    from_beginning: bool,
    since_ms: int | None,
    max_records: int | None,
    timeout_ms: int | None,
    committed: bool,
    as_json: bool,
    line_format: str,
    null_text: str,
    registry: str | None,
    quiet: bool,
) -> None:
    """Print the records of TOPICs, one per line, until Ctrl-C; then print their number.

    A TOPIC that begins with ^ is a regular expression for topic names.
    """
    starts = {
        "--from-beginning": (from_beginning, Start(word="beginning")),
        "--since-ms": (since_ms is not None, Start(at_ms=since_ms)),
        "--offset": (start is not None, Start()),
    }
    given = {name: value for name, (is_given, value) in starts.items() if is_given}
    if len(given) > 1:
        raise UserError(f"{' and '.join(given)} say where to start; give only one of them")
    begin = next(iter(given.values()), Start(word="end"))
    if start is not None:
        begin = parse_start(start)
    partitions = None
    if places is not None:
        partitions = tuple(parse_place(f"_:{places}")[1] or ())
        if group is not None:
            raise UserError("a group divides the partitions itself; leave out --partition")
    if group is not None and begin.word is None:
        raise UserError(
            "with --group it begins at what is committed, else at -o beginning or -o end; put the "
            f"group elsewhere with: pybroker groups reset {group}"
        )
    end = parse_end(until)
    wish = Wish(
        topics,
        partitions,
        group,
        begin,
        end,
        committed,
        max_records,
        None if timeout_ms is None else timeout_ms / 1000,
    )
    template = Template(line_format, null_text)
    line = json_line if as_json else template.line
    reading = _Reading(wish, line, registry_at(registry) if registry else None, is_quiet=quiet)
    try:
        work = functools.partial(reading.run, target)
        run_interruptible(work)
    except BrokenPipeError:  # the reader has closed the pipe; Python would write again at its end
        with open(os.devnull, "wb") as null:
            os.dup2(null.fileno(), sys.stdout.fileno())
    finally:
        reading.meter.close()
    report(f"read {count_text(reading.count)} from {', '.join(topics)}")


class _Reading:
    """One run: the printed records, and the offsets where it ends."""

    def __init__(
        self, wish: Wish, line: Line, registry: Registry | None, *, is_quiet: bool
    ) -> None:
        self._wish = wish
        self._line = line
        self._registry = registry
        self._ends: dict[TopicPartition, int] = {}
        self._last_seen = 0.0
        self._has_told = False
        self.count = 0
        self.meter = Meter(time.monotonic(), is_shown=not is_quiet and not sys.stdout.isatty())

    async def run(self, target: Target, interrupt: Interrupt) -> None:
        """Run until the wanted end, or Ctrl-C."""
        wish = self._wish
        is_from_start = wish.start.word == "beginning"
        async with (
            target.opened() as admin,
            target.consumer(
                group_id=wish.group,
                auto_offset_reset="earliest" if is_from_start else "latest",
                isolation_level="read_committed" if wish.committed else "read_uncommitted",
                allow_auto_create_topics=False,
            ) as consumer,
        ):
            await interrupt.unless_told(functools.partial(self._begin, admin, consumer))
            if not interrupt.is_told:
                await self._read(interrupt, admin, consumer)

    async def _begin(self, admin: Admin, consumer: Consumer) -> None:
        """Raises UserError, ClientError."""
        wish = self._wish
        names = await self._names(admin)
        for name in names:
            await admin.client.led_topic(name, any_partition=True)
        there = partitions_of(await find_topics(admin, names)) if names else []
        self._ends = await self._find_ends(admin, there)
        if wish.group is not None:
            pattern = _pattern(wish.topics)
            await consumer.subscribe(names if pattern is None else pattern)
            return
        if wish.partitions is not None:
            for name in names:
                count = sum(topic == name for topic, _ in there)
                missing = [n for n in wish.partitions if n >= count]
                if missing:
                    raise UserError(f"topic {name!r} has no partition {missing[0]}: it has {count}")
            there = [place for place in there if place[1] in wish.partitions]
            self._ends = {place: end for place, end in self._ends.items() if place in there}
        await consumer.assign(there)
        await self._seek(admin, consumer, there)

    async def _names(self, admin: Admin) -> list[str]:
        """The named topics, and the topics that match patterns. Raises UserError."""
        plain = [name for name in self._wish.topics if not name.startswith("^")]
        patterns = [name for name in self._wish.topics if name.startswith("^")]
        for name in plain:
            await admin.client.topic(name)  # raises if it does not exist
        if patterns:
            matching = [_compiled(text) for text in patterns]
            for topic in await find_topics(admin, None):
                name = topic.name or ""
                if not topic.is_internal and any(one.match(name) for one in matching):
                    plain.append(name)
            if not plain:
                raise UserError(f"no topic matches {' or '.join(patterns)}")
        return sorted(set(plain))

    async def _find_ends(
        self, admin: Admin, there: Collection[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """The offsets at which reading ends; none for partitions that are read forever."""
        from ..client.admin.records import LATEST, all_at

        end = self._wish.end
        if not end.at_end and end.at_ms is None:
            return {}
        records = admin.records
        committed = self._wish.committed
        ends = (await records.offsets(all_at(there, LATEST), read_committed=committed)).all()
        found = {place: one.offset for place, one in ends.items()}
        if end.at_ms is not None:
            at_time = (await records.offsets(all_at(there, end.at_ms))).all()
            found |= {place: one.offset for place, one in at_time.items() if one.offset >= 0}
        return found

    async def _seek(
        self, admin: Admin, consumer: Consumer, there: Collection[TopicPartition]
    ) -> None:
        from ..client.admin.records import EARLIEST, LATEST, all_at

        start = self._wish.start
        if start.word is not None:
            if start.word == "beginning":
                await consumer.seek_to_beginning()
            else:
                await consumer.seek_to_end()
            return
        if start.at_ms is not None:
            await consumer.seek_to_timestamp(start.at_ms)
            return
        records = admin.records
        first = (await records.offsets(all_at(there, EARLIEST))).all()
        ends = (await records.offsets(all_at(there, LATEST))).all()
        for place in there:
            offset = start.offset_in(first[place].offset, ends[place].offset)
            if offset is not None:
                consumer.seek(place, offset)

    async def _read(self, interrupt: Interrupt, admin: Admin, consumer: Consumer) -> None:
        wish = self._wish
        self._last_seen = trio.current_time()
        output = sys.stdout.buffer
        while not self._is_over(consumer):
            left = POLL_RECORDS if wish.max_records is None else wish.max_records - self.count
            received = await interrupt.unless_told(
                functools.partial(consumer.poll, POLL_SECONDS, min(POLL_RECORDS, left))
            )
            if received is None:
                return
            now = trio.current_time()
            records = self._up_to_the_end(consumer, received)
            if records:
                if self._registry is not None:
                    records = await _described(self._registry, records)
                lines = b"".join(map(self._line, records))
                try:
                    output.write(lines)
                    output.flush()
                except OSError:  # the group continues with the records that were not shown
                    _give_back(consumer, received[0])
                    raise
                self._last_seen, self._has_told = now, False
                self.count += len(records)
                self.meter.add(len(records), len(lines), time.monotonic())
            else:
                await self._tell_what_is_open(admin, consumer, now)
            if self.count == wish.max_records:
                return
            if wish.timeout_seconds is not None and now - self._last_seen >= wish.timeout_seconds:
                return

    def _up_to_the_end(self, consumer: Consumer, received: Sequence[Received]) -> list[RecordText]:
        """The wanted records of a poll; a group continues with the others."""
        if not received:
            return []
        place = (received[0].topic, received[0].partition)
        end = self._ends.get(place)
        records = [RecordText(*one) for one in received if end is None or one.offset < end]
        if len(records) < len(received):
            _give_back(consumer, received[len(records)])
            consumer.pause(place)
        return records

    def _is_over(self, consumer: Consumer) -> bool:
        """Whether every assigned partition is at its end."""
        wish = self._wish
        if not wish.end.at_end and wish.end.at_ms is None:
            return False
        mine: Collection[TopicPartition] = consumer.assignment
        if wish.group is not None and not mine:
            return not self._ends
        positions = {place: consumer.position(place) for place in mine}
        return all(
            (position := positions[place]) is not None and position >= end
            for place, end in self._ends.items()
            if place in positions
        )

    async def _tell_what_is_open(self, admin: Admin, consumer: Consumer, now: float) -> None:
        """With --committed: report records behind open transactions, once a silence."""
        if not self._wish.committed or self._has_told or now - self._last_seen < SILENCE_SECONDS:
            return
        from ..client.admin.records import LATEST, all_at

        self._has_told = True
        mine = sorted(consumer.assignment)
        records = admin.records
        stable = await records.offsets(all_at(mine, LATEST), read_committed=True, wait=False)
        ends = await records.offsets(all_at(mine, LATEST), wait=False)
        for place in sorted(stable.values.keys() & ends.values.keys()):
            open_at, end = stable.values[place].offset, ends.values[place].offset
            if open_at < end:
                where = f"{place[0]}:{place[1]}"
                report(
                    f"{place_text(place)}: a transaction is open since offset {open_at}, which "
                    f"hides {end - open_at} offsets; see: pybroker producers {where}"
                )


def _give_back(consumer: Consumer, record: Received) -> None:
    """Do not commit this record and the following ones in its partition."""
    place = (record.topic, record.partition)
    if place in consumer.assignment:
        consumer.seek(place, record.offset)


async def _described(registry: Registry, records: list[RecordText]) -> list[RecordText]:
    """The records with keys and values as JSON where they have a schema. Raises UserError."""
    numbers = {schema_of(data) for one in records for data in (one.key, one.value)}
    await registry.load(number for number in numbers if number is not None)
    return [
        one._replace(key=registry.decode(one.key), value=registry.decode(one.value))
        for one in records
    ]


def _compiled(text: str) -> re.Pattern[str]:
    """Raises UserError."""
    try:
        return re.compile(text)
    except re.error as error:
        raise UserError(f"{text!r} is no pattern: {error}") from None


def _pattern(topics: Sequence[str]) -> re.Pattern[str] | None:
    """The pattern of a group, which also matches new topics; None if all are names."""
    if not any(name.startswith("^") for name in topics):
        return None
    parts = [
        _compiled(name).pattern if name.startswith("^") else f"^{re.escape(name)}$"
        for name in topics
    ]
    return re.compile("|".join(f"(?:{part})" for part in parts))
