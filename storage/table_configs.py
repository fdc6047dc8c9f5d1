"""Topic configs of ours: a topic whose records are kept in a table as well, of Iceberg or Delta.

Apache Kafka does not have these keys, so a topic on which none is set is described without them.
`table_settings` has the values of a topic; `None` if it has no table.

Leaves out: the schemas themselves, which the process that writes tables reads.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ..protocol.errors import KafkaError
from .config_def import (
    LONG_MAX,
    ConfigDef,
    ConfigType,
    Importance,
    InvalidConfig,
    InvalidValue,
    OneOf,
    Range,
    RangeOr,
    shortened,
    topic_config,
)

TABLE: Final = "pybroker.table"
WAREHOUSE: Final = "pybroker.table.warehouse"  # the broker's key without which there are no tables
CATALOG: Final = "pybroker.table.catalog"  # the broker's key of Iceberg's catalogue
CLIENT_PREFIX: Final = "pybroker.table.client."  # settings of the clients that write tables
COMPACTION: Final = "pybroker.table.compaction"
GENERATION: Final = "pybroker.table.generation"
ON_DELETE: Final = "pybroker.table.on.delete"
RAW: Final = "raw"
KEEP: Final = "keep"
DROP: Final = "drop"
NONE: Final = "none"

MAX_SUBJECT_LENGTH: Final = 255
MAX_TARGET_LAG_MS: Final = 7 * 24 * 3_600_000
MAX_NUMBER: Final = 2**31 - 1
MAX_FILE_BYTES: Final = 1024 * 1024 * 1024
MIN_RETENTION_MS: Final = 60_000  # a query has so long for its files
_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_PARTITION_FIELD = re.compile(
    r"(?P<plain>[A-Za-z_]\w*)"
    r"|(?P<period>year|month|day|hour)\(\s*(?P<of_period>[A-Za-z_]\w*)\s*\)"
    r"|(?P<width>bucket|truncate)\(\s*(?P<number>[1-9]\d{0,8})\s*,\s*(?P<of_width>[A-Za-z_]\w*)\s*\)",
    re.ASCII,
)
_COMMA = re.compile(r"\s*,\s*(?![^(]*\))", re.ASCII)  # outside of parentheses


@dataclass(slots=True, frozen=True)
class PartitionField:
    """One field by which a table is partitioned: a column, or a function of one."""

    column: str
    function: str = "identity"  # or year, month, day, hour, bucket, truncate
    number: int = 0  # of buckets, or the width


def _partition_field(text: str) -> PartitionField:
    found = _PARTITION_FIELD.fullmatch(text)
    if found is None:
        raise InvalidValue(
            "Each field is a column, year(column), month(column), day(column), hour(column), "
            f"bucket(number, column) or truncate(width, column), not {shortened(text)}"
        )
    if found["plain"]:
        return PartitionField(found["plain"])
    if found["period"]:
        return PartitionField(found["of_period"], found["period"])
    return PartitionField(found["of_width"], found["width"], int(found["number"]))


def _partition_fields(value: str) -> tuple[PartitionField, ...]:
    return tuple(map(_partition_field, _COMMA.split(value))) if value else ()


def _check_partition_fields(value: Any) -> None:
    _partition_fields(value)


def _schema(value: Any) -> None:
    if not value:
        raise InvalidValue("It is raw, a subject of the schema registry, or a schema as JSON")
    if value.startswith("{"):
        try:
            found = json.loads(value)
        except (ValueError, RecursionError):
            raise InvalidValue("The schema is no JSON") from None
        if found.get("type") not in ("record", "object"):
            raise InvalidValue(
                'A schema is an Avro record ("type": "record") or a JSON Schema of an object '
                '("type": "object")'
            )
    elif len(value) > MAX_SUBJECT_LENGTH:
        raise InvalidValue(
            f"A subject of the schema registry has at most {MAX_SUBJECT_LENGTH} characters"
        )


def _dead_letter_topic(value: Any) -> None:
    if value and (not _TOPIC_NAME.fullmatch(value) or value in (".", "..")):
        raise InvalidValue("It is not the name of a topic")


TABLE_CONFIGS: Mapping[str, ConfigDef] = {
    definition.name: definition
    for definition in (
        topic_config(
            TABLE,
            ConfigType.STRING,
            NONE,
            OneOf((NONE, "iceberg", "delta")),
            "The format of the topic's table; none: it has no table.",
            importance=Importance.LOW,
        ),
        topic_config(
            "pybroker.table.schema",
            ConfigType.STRING,
            RAW,
            _schema,
            "The columns: raw has key, value, headers, timestamp, partition and offset; a subject "
            "of the schema registry, or a schema as JSON, has the fields of the value. Of "
            "Protobuf it is the file's first message, or the one of subject#message.",
            importance=Importance.LOW,
        ),
        topic_config(
            "pybroker.table.partition.by",
            ConfigType.STRING,
            "",
            _check_partition_fields,
            "Fields by which the table is partitioned, such as day(timestamp), "
            "bucket(16, key), carrier.",
            importance=Importance.LOW,
        ),
        topic_config(
            "pybroker.table.target.lag.ms",
            ConfigType.LONG,
            "60000",
            Range(100, MAX_TARGET_LAG_MS),
            "The time within which a committed record is in the table.",
            importance=Importance.LOW,
        ),
        topic_config(
            "pybroker.table.mode",
            ConfigType.STRING,
            "append",
            OneOf(("append", "upsert")),
            "append: each record is a row. upsert: each key is one row, that of its last record; "
            "a record without a value deletes it.",
            importance=Importance.LOW,
        ),
        topic_config(
            "pybroker.table.dead.letter.topic",
            ConfigType.STRING,
            "",
            _dead_letter_topic,
            "The topic for records that do not fit the schema; empty: the table stops before one.",
            importance=Importance.LOW,
        ),
        topic_config(
            "pybroker.table.file.bytes",
            ConfigType.INT,
            "33554432",
            Range(0, MAX_FILE_BYTES),
            "The size up to which small files of the table are merged; 0: they are not.",
            importance=Importance.LOW,
        ),
        topic_config(
            "pybroker.table.snapshot.retention.ms",
            ConfigType.LONG,
            "86400000",
            RangeOr(MIN_RETENTION_MS, LONG_MAX, -1),
            "The age after which snapshots of the table are removed, with the files that only they "
            "have; -1: none is.",
            importance=Importance.LOW,
        ),
        topic_config(
            ON_DELETE,
            ConfigType.STRING,
            KEEP,
            OneOf((KEEP, DROP)),
            "keep: the table stays when its topic is deleted. drop: it is removed with its files.",
            importance=Importance.LOW,
        ),
        topic_config(
            COMPACTION,
            ConfigType.INT,
            "0",
            Range(0, MAX_NUMBER),
            "A higher number than before has all small files merged once: pybroker tables compact.",
            importance=Importance.LOW,
        ),
        topic_config(
            GENERATION,
            ConfigType.INT,
            "0",
            Range(0, MAX_NUMBER),
            "A higher number than before has the table written anew: pybroker tables rebuild.",
            importance=Importance.LOW,
        ),
    )
}


@dataclass(slots=True, frozen=True)
class TableSettings:
    """The table of one topic, as its configs ask for it."""

    format: str  # iceberg or delta
    schema: str
    partition_by: tuple[PartitionField, ...]
    target_lag_ms: int
    upserts: bool
    dead_letter_topic: str
    file_bytes: int  # 0: files are not merged
    snapshot_retention_ms: int  # -1: snapshots do not expire
    is_dropped: bool  # with its topic
    compaction: int
    generation: int


def table_settings(overrides: Mapping[str, str]) -> TableSettings | None:
    """The table that a topic's configs ask for. Raises KafkaError(INVALID_CONFIG)."""
    if TABLE_CONFIGS.keys().isdisjoint(overrides):
        return None
    values = {
        name: definition.parse(overrides.get(name, definition.default))
        for name, definition in TABLE_CONFIGS.items()
    }
    if values[TABLE] == NONE:
        return None
    settings = TableSettings(
        format=values[TABLE],
        schema=values["pybroker.table.schema"],
        partition_by=_partition_fields(values["pybroker.table.partition.by"]),
        target_lag_ms=values["pybroker.table.target.lag.ms"],
        upserts=values["pybroker.table.mode"] == "upsert",
        dead_letter_topic=values["pybroker.table.dead.letter.topic"],
        file_bytes=values["pybroker.table.file.bytes"],
        snapshot_retention_ms=values["pybroker.table.snapshot.retention.ms"],
        is_dropped=values[ON_DELETE] == DROP,
        compaction=values[COMPACTION],
        generation=values[GENERATION],
    )
    _check_together(settings)
    return settings


def _check_together(settings: TableSettings) -> None:
    columns = [field.column for field in settings.partition_by]
    if len(set(columns)) < len(columns):
        raise InvalidConfig("pybroker.table.partition.by names a column twice")
    functions = [field for field in settings.partition_by if field.function != "identity"]
    if settings.format == "delta" and functions:
        raise InvalidConfig(
            "pybroker.table.partition.by: tables of Delta are partitioned by columns alone, not by "
            f"{functions[0].function}({functions[0].column})"
        )
    if settings.format == "delta" and settings.generation:
        raise InvalidConfig(
            f"{GENERATION}: a table of Delta is not rebuilt, since deltalake makes no commit of "
            "several writes, which readers would see as a whole or not at all"
        )
    if settings.compaction and not settings.file_bytes:
        raise InvalidConfig(f"{COMPACTION}: pybroker.table.file.bytes is 0, so no file is merged")


def validate_table_configs(
    overrides: Mapping[str, str | None], broker_values: Mapping[str, str]
) -> None:
    """Check the table configs of a topic, each for itself and together; others are not looked at.
    Raises KafkaError(INVALID_CONFIG)."""
    texts = {
        name: text for name, text in overrides.items() if name in TABLE_CONFIGS and text is not None
    }
    if not texts:
        return
    settings = table_settings(texts)
    if settings is None:
        return
    warehouse = broker_values.get(WAREHOUSE)
    if not warehouse:
        raise InvalidConfig(
            f"Tables are disabled in the broker: {WAREHOUSE} is not set. Topic cannot be "
            "configured with a table."
        )
    if "://" not in warehouse:
        return
    if settings.format == "iceberg" and not (
        broker_values.get(CATALOG) or broker_values.get(f"{CATALOG}.uri")
    ):
        raise InvalidConfig(
            f"{TABLE}=iceberg: {WAREHOUSE} is an object store, so the broker needs {CATALOG}, the "
            "URL of a catalogue"
        )
    if settings.is_dropped and settings.format == "delta":
        raise InvalidConfig(
            f"{ON_DELETE}=drop: a table of Delta is dropped only if {WAREHOUSE} is a directory, "
            f"not {shortened(warehouse)}"
        )


def usable_settings(overrides: Mapping[str, str]) -> TableSettings | KafkaError | None:
    """The settings of stored configs, which may have been written by anything; an error if they
    cannot be used."""
    try:
        return table_settings(overrides)
    except KafkaError as error:
        return error
