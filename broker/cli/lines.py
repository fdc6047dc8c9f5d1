"""`pybroker produce` and `pybroker consume`: lines of standard input to a topic, and back.

Lines are split as bytes, so that any text passes unchanged. `produce` sends what it has read
whenever the input pauses, or once a batch is full; a batch that is refused ends the command.
"""

from __future__ import annotations

import functools
import os
import re
import sys
import time
from collections.abc import AsyncIterator, Iterator

import click
import trio

from ...client.cluster import Cluster
from ...client.producer import Producer
from ...client.topic_reader import EARLIEST, LATEST, TopicReader
from ...protocol.records.compression import Compression
from ...protocol.records.record import Record, SimpleRecord
from .interrupt import Interrupt, interruptible
from .options import UserError, bootstrap_option, command_config_option, run_client, user_errors

BATCH_MAX_BYTES = 512 * 1024
READ_BYTES = 1 << 16
DELIVERY_TIMEOUT_MS = 30_000


def _tell(line: str) -> None:
    click.echo(line, err=True)


async def _read_input() -> bytes:
    """In a thread, since standard input may be a file, which cannot be waited for."""
    return await trio.to_thread.run_sync(os.read, 0, READ_BYTES, abandon_on_cancel=True)


async def _lines(interrupt: Interrupt) -> AsyncIterator[list[bytes]]:
    """Standard input as lists of lines: what one read returned, up to its last line end."""
    rest = b""
    while chunk := await interrupt.unless_told(_read_input):
        *lines, rest = (rest + chunk).split(b"\n")
        if lines:
            yield lines
    if rest and not interrupt.is_told:
        yield [rest]


def _to_record(line: bytes, separator: bytes | None) -> SimpleRecord | None:
    """None if the line has no key."""
    key: bytes | None = None
    if separator is not None:
        head, found, tail = line.partition(separator)
        if not found:
            return None
        key, line = head, tail
    return SimpleRecord(int(time.time() * 1000), key, line)


@click.command(
    epilog="""\b
Examples:
  echo hello | pybroker produce greetings
  pybroker produce users --key-separator : < users.txt
"""
)
@click.argument("topic")
@click.option("--key-separator", metavar="TEXT", help="Lines are KEY, this text, VALUE.")
@click.option(
    "--compression",
    default="none",
    show_default=True,
    type=click.Choice([codec.name.lower() for codec in Compression]),
)
@bootstrap_option
@command_config_option
@user_errors
def produce(
    topic: str,
    key_separator: str | None,
    compression: str,
    bootstrap: str,
    security: dict[str, str],
) -> None:
    """Write each line of standard input as a record to TOPIC.

    The topic is created if it is missing. Every record is acknowledged by all in-sync replicas. A
    line without a key, where one is asked for, ends it; what came before is written. Ctrl-C ends it
    once what is under way is acknowledged.
    """
    separator = key_separator.encode() if key_separator else None
    written = 0

    async def write(producer: Producer, batch: list[SimpleRecord]) -> None:
        nonlocal written
        await producer.send_all(topic, batch)
        written += len(batch)

    async def run(interrupt: Interrupt) -> None:
        async with Producer(
            bootstrap,
            compression=compression,
            delivery_timeout_ms=DELIVERY_TIMEOUT_MS,
            tell=_tell,
            security=security,
        ) as producer:
            await interrupt.unless_told(functools.partial(producer.prepare, topic))
            async for lines in _lines(interrupt):
                batch: list[SimpleRecord] = []
                size = 0
                for line in lines:
                    record = _to_record(line, separator)
                    if record is None:
                        await write(producer, batch)
                        raise UserError(
                            f"line {written + 1} has no {key_separator!r} between key and value: "
                            f"{line[:80]!r}; the lines before it are written"
                        )
                    batch.append(record)
                    size += len(line)
                    if size >= BATCH_MAX_BYTES:
                        await write(producer, batch)
                        batch, size = [], 0
                await write(producer, batch)

    run_client(functools.partial(interruptible, run))
    click.echo(f"wrote {_count(written)} to {topic}", err=True)


def _count(records: int) -> str:
    return f"{records:,} record{'s' if records != 1 else ''}"


@click.command(
    epilog="""\b
Examples:
  pybroker consume greetings --from-beginning
  pybroker consume users --from-beginning --max-records 10 --format '%p %o %k %v'
  pybroker consume users --partition 0 --offset 42
"""
)
@click.argument("topic")
@click.option("--from-beginning", is_flag=True, help="All records, not only new ones.")
@click.option("--partition", type=click.IntRange(0), help="Only this partition; with --offset.")
@click.option("--offset", type=click.IntRange(0), help="Start here; with --partition.")
@click.option("--since-ms", type=click.IntRange(0), metavar="MS", help="Start at this timestamp.")
@click.option("--max-records", type=click.IntRange(1), metavar="N", help="End after N records.")
@click.option("--timeout-ms", type=click.IntRange(1), metavar="MS", help="End after a silence.")
@click.option(
    "--format",
    "line_format",
    default="%v",
    show_default=True,
    help="%k key, %v value, %p partition, %o offset, %T timestamp in ms, %% a percent sign; "
    r"\t a tab, \n a line end, \r, \0, \xHH any byte, \\ a backslash.",
)
@click.option(
    "--null",
    "null_text",
    default="null",
    show_default=True,
    metavar="TEXT",
    help="Stands for a key or a value that is not there.",
)
@bootstrap_option
@command_config_option
@user_errors
def consume(
    topic: str,
    from_beginning: bool,
    partition: int | None,
    offset: int | None,
    since_ms: int | None,
    max_records: int | None,
    timeout_ms: int | None,
    line_format: str,
    null_text: str,
    bootstrap: str,
    security: dict[str, str],
) -> None:
    """Print the records of TOPIC, one a line, until Ctrl-C; then how many there were."""
    if (partition is None) != (offset is None):
        raise UserError("--partition and --offset go together")
    starts = {
        "--from-beginning": from_beginning,
        "--since-ms": since_ms is not None,
        "--partition with --offset": partition is not None,
    }
    given = [name for name, is_given in starts.items() if is_given]
    if len(given) > 1:
        raise UserError(f"{' and '.join(given)} say where to start; give only one of them")
    start = since_ms if since_ms is not None else EARLIEST if from_beginning else LATEST
    template = _Template(line_format, null_text)
    count = 0

    async def run(interrupt: Interrupt) -> None:
        nonlocal count
        async with Cluster(bootstrap, _tell, security=security) as cluster:
            consumer = TopicReader(cluster, topic)

            async def begin() -> None:
                await consumer.start()
                if partition is not None and offset is not None:
                    consumer.seek_partition(partition, offset)
                else:
                    await consumer.seek(start)

            await interrupt.unless_told(begin)
            last_seen = trio.current_time()
            while timeout_ms is None or trio.current_time() - last_seen < timeout_ms / 1000:
                received = await interrupt.unless_told(consumer.poll)
                if received is None:
                    return
                if max_records is not None:
                    received = received[: max_records - count]
                if received:
                    sys.stdout.buffer.write(b"".join(template.line(*one) for one in received))
                    sys.stdout.buffer.flush()
                    last_seen = trio.current_time()
                    count += len(received)
                if count == max_records:
                    return

    run_client(functools.partial(interruptible, run))
    click.echo(f"read {_count(count)} from {topic}", err=True)


class _Template:
    """A line format: literal pieces, and fields of a record between them."""

    def __init__(self, text: str, null_text: str) -> None:
        self._pieces = list(_parse_format(text))
        self._null = null_text.encode()

    def line(self, partition: int, record: Record) -> bytes:
        fields = {
            "%k": self._null if record.key is None else bytes(record.key),
            "%v": self._null if record.value is None else bytes(record.value),
            "%p": b"%d" % partition,
            "%o": b"%d" % record.offset,
            "%T": b"%d" % record.timestamp,
        }
        pieces = [fields[piece] if isinstance(piece, str) else piece for piece in self._pieces]
        return b"".join(pieces) + b"\n"


_ESCAPES = {"t": b"\t", "n": b"\n", "r": b"\r", "0": b"\0", "\\": b"\\"}
_SPECIAL = re.compile(r"%(?P<field>.?)|\\(?:x(?P<byte>[0-9a-fA-F]{2})|(?P<escape>.?))", re.DOTALL)


def _parse_format(text: str) -> Iterator[str | bytes]:
    """Bytes as they are, and the names of fields (`%k`)."""
    position = 0
    for match in _SPECIAL.finditer(text):
        yield text[position : match.start()].encode()
        position = match.end()
        field, byte, escape = match["field"], match["byte"], match["escape"]
        if field == "%":
            yield b"%"
        elif field is not None and field != "" and field in "kvpoT":
            yield f"%{field}"
        elif byte is not None:
            yield bytes.fromhex(byte)
        elif escape in _ESCAPES:
            yield _ESCAPES[escape]
        else:
            raise UserError(f"--format has no {match[0]}; see pybroker consume --help")
    yield text[position:].encode()
