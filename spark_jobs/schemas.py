"""Values of records as columns by a schema, and dead letters for values that do not parse.

    parts = parse_json(records, "carrier STRING, dep_delay INT")
    flights = parts.good.select("parsed.*", "timestamp")
    parts.dead.writeStream.format("pybroker").option("topic", "flights-dead") ...

`records` come from a source: ours or the official connector, batch or stream. No record is lost:
each is in one of the two parts. A dead letter has the key and value as read, its own headers (if
they were read: includeHeaders), and Kafka Connect's headers with the error and the record's topic,
partition and offset, so that tools for Connect's dead letters can read these, too.

A stream's two parts are two queries, each with its own checkpoint, and each reads the topic.
Mirrors: DeadLetterQueueReporter (KIP-298).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from ..client.schemas import Registry, SchemaError, schema_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

HEADERS_PREFIX: Final = "__connect.errors."
STAGE: Final = "VALUE_CONVERTER"  # Connect's name for the stage that failed
_HEADERS_TYPE: Final = "array<struct<key: string, value: binary>>"
_CORRUPT: Final = "_corrupt"
_TEXT: Final = "_text"
_TOLD: Final = "_told"


class Parts(NamedTuple):
    """`good` has the source's columns and `parsed`, a struct; `dead` has key, value and headers, as
    a sink expects them."""

    good: DataFrame
    dead: DataFrame


def parse_json(
    records: DataFrame,
    ddl: str,
    *,
    registry: str | None = None,
    required: Sequence[str] = (),
    count_as: str | None = None,
) -> Parts:
    """Parse values that are JSON objects, by a schema such as `id BIGINT, name STRING`.

    Fields that the schema does not name are left out, missing ones are null. A record with a field
    of another type, or without a value, is a dead letter; so is a record for which an SQL
    expression of `required`, such as `parsed.id`, is null. `count_as` is the name of an
    observation, with the number of dead letters as `records`, in the progress of a stream.

    With `registry`, http://USER:PASSWORD@HOST:PORT of a schema registry, values are Avro, Protobuf
    or JSON with a schema, as Confluent's serializers write them: a zero byte, the schema's id. Each
    value is first converted to JSON, by the version of the schema that it was written with: `bytes`
    are BINARY, Protobuf's numbers of 64 bits BIGINT, and fields not set in a message have their
    defaults. A value without an id, with an id unknown to the registry, or that does not match its
    schema, is a dead letter; a registry that does not answer fails the query. Executors need `pip
    install pybroker-kafka[schemas]`.
    """
    from pyspark.sql import functions as f

    if registry is None:
        texts = records.withColumn(_TEXT, f.col("value").cast("string"))
        return _parse(texts.withColumn(_TOLD, f.lit(None)), ddl, required, count_as)
    read = f.udf(functools.partial(_read_registered, registry), f"{_TEXT} STRING, {_TOLD} STRING")
    # Otherwise, Spark would call Python twice: for the rows, and for the filter.
    told = records.withColumn("_read", read.asNondeterministic()(f.col("value")))
    return _parse(told.select("*", "_read.*").drop("_read"), ddl, required, count_as)


def _read_registered(url: str, value: bytearray | None) -> tuple[str | None, str | None]:
    """In a worker: a value as JSON, or the problem with it. Raises RegistryError."""
    if value is None:
        return None, None
    data = bytes(value)
    number = schema_of(data)
    if number is None:
        return None, "the value does not begin with the id of a schema"
    try:
        registry = _registry(url)
        registry.load_now(number)
        text = registry.decode(data, plain=True)
    except SchemaError as error:
        return None, str(error)
    return None if text is None else text.decode(), None


@functools.cache
def _registry(url: str) -> Registry:
    return Registry(url)


def _parse(records: DataFrame, ddl: str, required: Sequence[str], count_as: str | None) -> Parts:
    """The parts of records with JSON in the column _TEXT, or a problem in the column _TOLD."""
    from pyspark.sql import functions as f

    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    parsed = f.from_json(f.col(_TEXT), f"{ddl}, {_CORRUPT} STRING", options)
    problem = (
        f.when(f.col("value").isNull(), "the record has no value")
        .when(f.col(_TOLD).isNotNull(), f.col(_TOLD))
        .when(f.col("parsed").isNull(), "the value is empty")
        .when(f.col("parsed")[_CORRUPT].isNotNull(), f"the value is not JSON of the schema {ddl}")
    )
    for expression in required:
        problem = problem.when(f.expr(expression).isNull(), f"{expression} is missing or unusable")
    found = records.withColumn("parsed", parsed).withColumn("problem", problem)
    found = found.drop(_TEXT, _TOLD)
    if count_as is not None:
        found = found.observe(count_as, f.count("problem").alias("records"))
    return _parts(found.withColumn("parsed", f.col("parsed").dropFields(_CORRUPT)))


def _parts(found: DataFrame) -> Parts:
    """Split by the column `problem`, a text or null."""
    from pyspark.sql import functions as f

    good = found.where(f.col("problem").isNull()).drop("problem")
    headers = f.array(
        *(
            f.struct(
                f.lit(HEADERS_PREFIX + name).alias("key"),
                f.encode(value.cast("string"), "UTF-8").alias("value"),
            )
            for name, value in _about().items()
        )
    ).cast(_HEADERS_TYPE)
    if "headers" in found.columns:
        own = f.coalesce(f.col("headers"), f.array().cast(_HEADERS_TYPE))
        headers = f.concat(own.cast(_HEADERS_TYPE), headers)
    dead = found.where(f.col("problem").isNotNull())
    return Parts(good, dead.select("key", "value", headers.alias("headers")))


def _about() -> dict[str, Column]:
    """The values of Connect's headers of a dead letter, by the name without its prefix."""
    from pyspark.sql import functions as f

    return {
        "topic": f.col("topic"),
        "partition": f.col("partition"),
        "offset": f.col("offset"),
        "stage": f.lit(STAGE),
        "exception.message": f.col("problem"),
    }
