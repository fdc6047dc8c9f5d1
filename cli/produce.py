"""`pybroker produce`: lines, JSON lines, hexadecimal or whole files to topics.

Lines are split as bytes, so that any text passes unchanged. Records are sent whenever the input
pauses; a bad line, or a refused record, ends the command, and the records before it are written.
Mirrors: kcat -P and kafka-console-producer.
"""

from __future__ import annotations

import functools
import os
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import trio

from ..protocol.records.compression import Compression
from .completion import complete_topics
from .interrupt import Interrupt, run_interruptible
from .meter import Meter, count_text
from .options import UserError
from .record_format import Headers
from .record_input import RecordInput, parse_header, parse_hex, parse_json
from .registry import registry_at
from .target import Target, client_options, report

if TYPE_CHECKING:
    from ..client.producer import Delivery, Producer
    from ..client.schemas import Registry

READ_BYTES = 1 << 16
MAX_WHOLE_BYTES = 1 << 30
SHOWN_DELIVERIES = 10_000  # of --show, that are not acknowledged yet


class Reading(NamedTuple):
    """The way from input to records."""

    form: str
    separator: bytes | None
    record_end: bytes
    null: bytes | None
    key: bytes | None
    headers: Headers

    def record(self, line: bytes, number: int) -> RecordInput:
        """Raises UserError, which names the line."""
        if self.form == "json":
            found = parse_json(line, number)
            return found._replace(
                headers=[*self.headers, *found.headers],
                key=self.key if found.key is None else found.key,
            )
        key = self.key
        if self.separator is not None:
            head, separator, tail = line.partition(self.separator)
            if not separator:
                raise UserError(
                    f"line {number} has no {self.separator.decode()!r} between key and value: "
                    f"{line[:80]!r}"
                )
            key, line = head, tail
        if self.form == "hex":
            key = key if key is None or self.separator is None else parse_hex(key, number)
            return RecordInput(key, self._data(line, number), self.headers)
        key = None if key is not None and key == self.null else key
        return RecordInput(key, self._data(line, number), self.headers)

    def _data(self, line: bytes, number: int) -> bytes | None:
        if self.null is not None and line == self.null:
            return None
        return parse_hex(line, number) if self.form == "hex" else line


async def _read_input() -> bytes:
    """Read in a thread, since standard input may be a file, which cannot be waited for."""
    return await trio.to_thread.run_sync(os.read, 0, READ_BYTES, abandon_on_cancel=True)


async def _pieces(interrupt: Interrupt, end: bytes) -> AsyncIterator[list[bytes]]:
    """Standard input as lists of lines: what one read returned, up to its last line end."""
    rest = b""
    while chunk := await interrupt.unless_told(_read_input):
        *lines, rest = (rest + chunk).split(end)
        if lines:
            yield lines
    if rest and not interrupt.is_told:
        yield [rest]


def _of_files(files: tuple[Path, ...], end: bytes, *, is_whole: bool) -> Iterator[list[bytes]]:
    """Raises UserError."""
    for file in files:
        try:
            if file.stat().st_size > MAX_WHOLE_BYTES:
                raise UserError(f"{file} is larger than 1 GiB; give it on standard input")
            data = file.read_bytes()
        except OSError as error:
            raise UserError(f"{file} cannot be read: {error.strerror}") from None
        if is_whole:
            yield [data]
            continue
        lines = data.split(end)
        yield lines if lines[-1] else lines[:-1]


async def _input(
    interrupt: Interrupt, files: tuple[Path, ...], end: bytes, *, is_whole: bool
) -> AsyncIterator[list[bytes]]:
    """Lines of the files, or of standard input if there are none. Raises UserError."""
    for lines in _of_files(files, end, is_whole=is_whole):
        yield lines
    if not files:
        async for lines in _pieces(interrupt, end):
            yield lines


@click.command(
    epilog="""\b
Examples:
  echo hello | pybroker produce greetings
  pybroker produce users --key-separator : < users.txt
  pybroker produce users --input json < users.jsonl
  pybroker produce users --key alice --null '' < /dev/null
  pybroker produce pictures --input whole cat.png dog.png --header type=png
"""
)
@click.argument("topic", shell_complete=complete_topics)
@click.argument(
    "files",
    nargs=-1,
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="[FILE]...",
)
@click.option(
    "--input",
    "form",
    type=click.Choice(["lines", "json", "hex", "whole"]),
    default="lines",
    show_default=True,
    help="What a record is: a line of text, a line of JSON, a line of hexadecimal digits, or a "
    "whole file.",
)
@click.option("--key", metavar="TEXT", help="Key of the records that have none.")
@click.option(
    "--key-separator", metavar="TEXT", help="Text between the key and the value of a line."
)
@click.option(
    "--record-separator",
    default=r"\n",
    show_default=True,
    metavar="TEXT",
    help="Text that ends a record.",
)
@click.option(
    "--header",
    "headers",
    multiple=True,
    metavar="NAME=VALUE",
    help="Add a header to every record; may be repeated.",
)
@click.option("--null", metavar="TEXT", help="Text that stands for a null key or value.")
@click.option(
    "--partition",
    type=click.IntRange(0),
    help="Write to this partition. Default: chosen by the key.",
)
@click.option(
    "--compression",
    default="none",
    show_default=True,
    type=click.Choice([codec.name.lower() for codec in Compression]),
)
@click.option("--acks", type=click.Choice(["all", "1", "0"]), default="all", show_default=True)
@click.option("--transactional-id", metavar="ID", help="Write all records in one transaction.")
@click.option(
    "--registry",
    metavar="URL",
    help="Address of the schema registry; needs the extra pybroker-kafka[schemas].",
)
@click.option("--schema", "schema", type=click.IntRange(0), metavar="ID", help="Encode "
              "values, given as JSON, with this schema of the registry.")  # fmt: skip
@click.option("--show", is_flag=True, help="Print the PARTITION and OFFSET of each record.")
@client_options
def produce(
    target: Target,
    topic: str,
    files: tuple[Path, ...],
    form: str,
    key: str | None,
    key_separator: str | None,
    record_separator: str,
    headers: tuple[str, ...],
    null: str | None,
    partition: int | None,
    compression: str,
    acks: str,
    transactional_id: str | None,
    registry: str | None,
    schema: int | None,
    show: bool,
) -> None:
    """Write each line of standard input, or of FILEs, as a record to TOPIC.

    A missing topic is created. By default all in-sync replicas acknowledge every record. With
    --key-separator, a line without the separator is an error; the records before it are written.
    --input json takes what consume --json prints; a line's own topic and offset are not used.
    Ctrl-C waits for the acknowledgements of records that were sent, then stops; with
    --transactional-id it aborts the transaction.
    """
    end = _unescaped(record_separator)
    if form == "whole" and not files:
        raise UserError("--input whole takes files: each of them is a record")
    if acks != "all" and transactional_id is not None:
        raise UserError("a transaction takes --acks all")
    if (registry is None) != (schema is None):
        raise UserError("--registry and --schema go together")
    schemas = None if registry is None else registry_at(registry)
    reading = Reading(
        form,
        key_separator.encode() if key_separator else None,
        end,
        None if null is None else null.encode(),
        None if key is None else key.encode(),
        [parse_header(text) for text in headers],
    )
    writing = _Writing(topic, partition, reading, show=show)
    writing.registry, writing.schema = schemas, schema or 0
    settings: dict[str, Any] = {
        "compression": compression,
        "acks": acks if acks == "all" else int(acks),
        "idempotence": None if acks == "all" else False,
        "transactional_id": transactional_id,
    }

    async def run(interrupt: Interrupt) -> None:
        if schemas is not None:
            await schemas.load([schema or 0])
        async with target.producer(**settings) as producer:
            pieces = _input(interrupt, files, end, is_whole=form == "whole")
            await writing.run(interrupt, producer, pieces, in_one=transactional_id is not None)

    try:
        run_interruptible(run)
    finally:
        writing.meter.close()
    report(f"wrote {count_text(writing.count)} to {topic}")


class _Writing:
    """The records read and written so far."""

    def __init__(self, topic: str, partition: int | None, reading: Reading, *, show: bool) -> None:
        self._topic, self._partition = topic, partition
        self._reading = reading
        self._show = show
        self.registry: Registry | None = None
        self.schema = 0  # of the registry, if there is one
        self._read = 0
        self._deliveries: deque[Delivery] = deque()
        self.count = 0
        self.meter = Meter(time.monotonic())

    async def run(
        self,
        interrupt: Interrupt,
        producer: Producer,
        pieces: AsyncIterator[list[bytes]],
        *,
        in_one: bool,
    ) -> None:
        """Write all pieces, until Ctrl-C; `in_one` transaction, which Ctrl-C aborts."""
        await interrupt.unless_told(functools.partial(producer.prepare, self._topic))
        if in_one:
            producer.begin_transaction()
        async for lines in pieces:
            await self.write(producer, lines)
        await self.settle(producer)
        if not in_one:
            return
        if interrupt.is_told:
            await producer.abort_transaction()
            self.count = 0
        else:
            await producer.commit_transaction()

    async def write(self, producer: Producer, lines: list[bytes]) -> None:
        """Write the lines. Raises UserError for a bad line, once all before it are written."""
        size = 0
        for line in lines:
            self._read += 1
            try:
                record = self._reading.record(line, self._read)
                if self.registry is not None:
                    value = self.registry.encode(self.schema, record.value)
                    record = record._replace(value=value)
            except UserError as error:
                await self.settle(producer)
                told = f"{error.message}; the lines before it are written"
                raise UserError(told) from None
            delivery = await producer.enqueue(
                self._topic,
                record.value,
                key=record.key,
                partition=self._partition if record.partition is None else record.partition,
                headers=record.headers,
                timestamp_ms=record.timestamp_ms,
            )
            self._deliveries.append(delivery)
            size += len(line)
            if len(self._deliveries) >= SHOWN_DELIVERIES:
                await self._acknowledge()
        self.meter.add(len(lines), size, time.monotonic())
        await self._acknowledge(only_done=True)

    async def settle(self, producer: Producer) -> None:
        """Wait until all records are acknowledged. Raises ClientError."""
        await producer.flush()
        await self._acknowledge()

    async def _acknowledge(self, *, only_done: bool = False) -> None:
        while self._deliveries and (not only_done or self._deliveries[0].is_done):
            written = await self._deliveries.popleft().wait()
            self.count += 1
            if self._show:
                click.echo(f"{written.partition} {written.offset}")


def _unescaped(text: str) -> bytes:
    """`\\n`, `\\t`, `\\0`, `\\xHH`. Raises UserError."""
    try:
        made = text.encode("latin-1", "backslashreplace").decode("unicode_escape").encode("latin-1")
    except (UnicodeDecodeError, UnicodeEncodeError):
        made = b""
    if not made:
        raise UserError(f"--record-separator {text!r} is no text with escapes, as \\n or \\x00")
    return made
