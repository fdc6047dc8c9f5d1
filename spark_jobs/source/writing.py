"""Writes rows to topics: the work of a task of a batch or of a stream's batch.

Job: writes the columns `value`, and `key`, `headers`, `topic`, `partition` if present, as records,
with a producer of the task's own. By default a task ends when all in-sync replicas have
acknowledged its records; Spark runs a failed task again, and its records are written again. The
official connector guarantees the same: at least once. Within a task no record is written twice
(idempotence).

Mirrors: KafkaWriter and KafkaRowWriter of Spark's connector. Leaves out: transactions, which Spark
could not commit together with its own batch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, Final

import trio
from pyspark.sql import Row
from pyspark.sql.types import BinaryType, DataType, IntegerType, StringType, StructType

from ...client.producer.delivery import Delivery
from ...client.producer.producer import Producer
from .columns import HEADERS_TYPE
from .limits import OptionError
from .options import SinkOptions

MAX_IN_FLIGHT = 10_000  # unacknowledged records of a task
_TYPES: Final[dict[str, tuple[DataType, ...]]] = {
    "key": (StringType(), BinaryType()),
    "value": (StringType(), BinaryType()),
    "headers": (HEADERS_TYPE,),
    "topic": (StringType(),),
    "partition": (IntegerType(),),
}


def check_columns(schema: StructType, options: SinkOptions) -> None:
    """Check the column types; other columns are left out. Raises OptionError if one cannot be
    written."""
    found = {column.name: column.dataType for column in schema.fields}
    if "value" not in found:
        raise OptionError("the column 'value' is missing: the sink writes it as the record's value")
    if "topic" not in found and options.topic is None:
        raise OptionError("name a topic: with the option 'topic', or a column 'topic'")
    for name, types in _TYPES.items():
        kind = found.get(name)
        if kind is not None and not any(_is_same(kind, wanted) for wanted in types):
            wanted_text = " or ".join(wanted.simpleString() for wanted in types)
            raise OptionError(
                f"the column {name!r} is {kind.simpleString()}, and must be {wanted_text}"
            )


def _is_same(one: DataType, other: DataType) -> bool:
    """Whether the types are the same, regardless of nullability."""
    return one.simpleString() == other.simpleString()


def write_rows(options: SinkOptions, rows: Iterator[Row]) -> int:
    """Write the rows; returns their number. Raises ClientError, OptionError."""
    return trio.run(_write, options, rows)


async def _write(options: SinkOptions, rows: Iterable[Row]) -> int:
    count = 0
    in_flight: deque[Delivery] = deque()
    async with Producer(
        options.bootstrap_servers, security=options.kafka, **options.producer()
    ) as producer:
        for row in rows:
            if len(in_flight) >= MAX_IN_FLIGHT:
                await in_flight.popleft().wait()
            in_flight.append(await _enqueue(producer, options.topic, row))
            count += 1
        await producer.flush()
        for delivery in in_flight:
            await delivery.wait()
    return count


async def _enqueue(producer: Producer, default_topic: str | None, row: Row) -> Delivery:
    columns = row.asDict()
    topic = default_topic or columns.get("topic")
    if topic is None:
        raise OptionError("a row has no topic; the option 'topic' names one for all rows")
    headers = columns.get("headers")
    return await producer.enqueue(
        topic,
        _as_bytes(columns["value"]),
        key=_as_bytes(columns.get("key")),
        partition=columns.get("partition"),
        headers=[(header["key"], _as_bytes(header["value"])) for header in headers or ()],
    )


def _as_bytes(content: Any) -> bytes | None:
    if content is None:
        return None
    return content.encode() if isinstance(content, str) else bytes(content)
