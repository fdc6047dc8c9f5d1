"""`pybroker produce` and `pybroker consume`: lines of standard input to a topic, and back.

Lines are split as bytes, so that any text passes unchanged. `produce` sends what it has read
whenever the input pauses, or once a batch is full; a batch that is refused ends the command.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator

import click

from broker.cli.options import UserError, bootstrap_option, run_client, user_errors
from client.cluster import Cluster
from protocol.records.compression import Compression
from protocol.records.record import Record, SimpleRecord

BATCH_MAX_BYTES = 512 * 1024
READ_BYTES = 1 << 16


def _lines() -> Iterator[list[bytes]]:
    """Standard input as lists of lines: what one read returned, up to its last line end."""
    rest = b""
    while chunk := os.read(0, READ_BYTES):
        *lines, rest = (rest + chunk).split(b"\n")
        if lines:
            yield lines
    if rest:
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
@user_errors
def produce(topic: str, key_separator: str | None, compression: str, bootstrap: str) -> None:
    """Write each line of standard input as a record to TOPIC.

    The topic is created if it is missing. Every record is acknowledged by all in-sync replicas. A
    line without a key, where one is asked for, ends it; what came before is written.
    """
    from client.producer import Producer

    separator = key_separator.encode() if key_separator else None

    async def run() -> int:
        written = 0
        bad_line: bytes | None = None
        async with Cluster(bootstrap) as cluster:
            producer = Producer(cluster, topic, compression=Compression[compression.upper()])
            await producer.start()
            for lines in _lines():
                batch: list[SimpleRecord] = []
                size = 0
                for line in lines:
                    record = _to_record(line, separator)
                    if record is None:
                        bad_line = line
                        break
                    batch.append(record)
                    size += len(line)
                    if size >= BATCH_MAX_BYTES:
                        await producer.send(batch)
                        written += len(batch)
                        batch, size = [], 0
                if batch:
                    await producer.send(batch)
                    written += len(batch)
                if bad_line is not None:
                    raise UserError(
                        f"line {written + 1} has no {key_separator!r} between key and value: "
                        f"{bad_line[:80]!r}; the lines before it are written"
                    )
        return written

    written = run_client(run)
    click.echo(f"wrote {written:,} record{'s' if written != 1 else ''} to {topic}", err=True)


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
    help="%k key, %v value, %p partition, %o offset, %T timestamp in ms, %% a percent sign.",
)
@bootstrap_option
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
    bootstrap: str,
) -> None:
    """Print the records of TOPIC, one a line, until Ctrl-C."""
    import trio

    from client.consumer import EARLIEST, LATEST, Consumer

    if (partition is None) != (offset is None):
        raise UserError("--partition and --offset go together")
    start = since_ms if since_ms is not None else EARLIEST if from_beginning else LATEST
    pieces = _parse_format(line_format)

    async def run() -> None:
        remaining = max_records
        async with Cluster(bootstrap) as cluster:
            consumer = Consumer(cluster, topic)
            await consumer.start()
            if partition is not None and offset is not None:
                consumer.seek_partition(partition, offset)
            else:
                await consumer.seek(start)
            last_seen = trio.current_time()
            while timeout_ms is None or trio.current_time() - last_seen < timeout_ms / 1000:
                received = await consumer.poll()
                if remaining is not None:
                    received = received[:remaining]
                    remaining -= len(received)
                out = [_format_record(pieces, partition, record) for partition, record in received]
                if out:
                    sys.stdout.buffer.write(b"\n".join(out) + b"\n")
                    sys.stdout.buffer.flush()
                    last_seen = trio.current_time()
                if remaining == 0:
                    return

    run_client(run)


def _format_record(pieces: list[str], partition: int, record: Record) -> bytes:
    fields = {
        "%k": bytes(record.key or b""),
        "%v": bytes(record.value or b""),
        "%p": b"%d" % partition,
        "%o": b"%d" % record.offset,
        "%T": b"%d" % record.timestamp,
    }
    return b"".join([fields[piece] if piece in fields else piece.encode() for piece in pieces])


def _parse_format(text: str) -> list[str]:
    """Literal pieces and `%x` pieces of a line format; `%%` becomes the piece `%`."""
    pieces = []
    position = 0
    while position < len(text):
        if text[position] != "%":
            end = text.find("%", position)
            end = len(text) if end < 0 else end
            pieces.append(text[position:end])
            position = end
            continue
        letter = text[position + 1 : position + 2]
        if letter not in ("k", "v", "p", "o", "T", "%"):
            raise UserError(f"--format has no %{letter}; see pybroker consume --help")
        pieces.append("%" if letter == "%" else f"%{letter}")
        position += 2
    return pieces
