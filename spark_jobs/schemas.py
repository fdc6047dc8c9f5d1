"""What records say: values as columns by a schema, and a dead-letter topic for those that do not.

    parts = parse_json(records, "carrier STRING, dep_delay INT")
    flights = parts.good.select("parsed.*", "timestamp")
    parts.dead.writeStream.format("pybroker").option("topic", "flights-dead") ...

`records` are a source's: ours or the official connector's, batch or stream. No record vanishes:
each is in one of the two. A dead letter has the key and value as they came, its own headers (if
they were read: includeHeaders), and those in which Kafka Connect says what was wrong and where the
record stood, so that tools for Connect's dead letters read these, too.

A stream's two parts are two queries, each with its own checkpoint, and each reads the topic.
Mirrors: DeadLetterQueueReporter (KIP-298).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

HEADERS_PREFIX: Final = "__connect.errors."
STAGE: Final = "VALUE_CONVERTER"  # Connect's word for where it happened
_HEADERS_TYPE: Final = "array<struct<key: string, value: binary>>"
_CORRUPT: Final = "_corrupt"


class Parts(NamedTuple):
    """`good` has the source's columns and `parsed`, a struct; `dead` has key, value and headers,
    as a sink wants them."""

    good: DataFrame
    dead: DataFrame


def parse_json(
    records: DataFrame, ddl: str, *, required: Sequence[str] = (), count_as: str | None = None
) -> Parts:
    """Values that are JSON objects, by a schema such as `id BIGINT, name STRING`.

    Fields that the schema does not name are left out, missing ones are null. A field of another
    type, and a record without a value, is a dead letter; so is one where an SQL expression of
    `required`, such as `parsed.id`, is null. `count_as` is the name of an observation, with the
    number of dead letters as `records`, in the progress of a stream.
    """
    from pyspark.sql import functions as f

    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    value = f.col("value").cast("string")
    parsed = f.from_json(value, f"{ddl}, {_CORRUPT} STRING", options)
    problem = (
        f.when(f.col("value").isNull(), "the record has no value")
        .when(f.col("parsed").isNull(), "the value is empty")
        .when(f.col("parsed")[_CORRUPT].isNotNull(), f"the value is not JSON as {ddl} says")
    )
    for expression in required:
        problem = problem.when(f.expr(expression).isNull(), f"{expression} is missing or unusable")
    found = records.withColumn("parsed", parsed).withColumn("problem", problem)
    if count_as is not None:
        found = found.observe(count_as, f.count("problem").alias("records"))
    return _parts(found.withColumn("parsed", f.col("parsed").dropFields(_CORRUPT)))


def _parts(found: DataFrame) -> Parts:
    """By the column `problem`, a text or null."""
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
    """What Connect says of a dead letter, by the rest of the header's name."""
    from pyspark.sql import functions as f

    return {
        "topic": f.col("topic"),
        "partition": f.col("partition"),
        "offset": f.col("offset"),
        "stage": f.lit(STAGE),
        "exception.message": f.col("problem"),
    }
