"""The options of the source and of the sink, read and checked once.

Names, defaults and refusals are the official connector's; a refusal names the alternative. A name
that neither knows is refused here; the connector ignores it. Names are not case-sensitive.
`kafka.*` options go to the client: TLS and logins, `isolation.level`, `max.partition.fetch.bytes`.

Pure. Mirrors: KafkaSourceProvider of Spark's connector.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from ...protocol.topics import TopicPartition
from ...storage.table_places import is_place_key
from .limits import (
    EARLIEST,
    LATEST,
    AtOffsets,
    AtTimestamps,
    Everywhere,
    NoMatch,
    OffsetLimit,
    OptionError,
    parse_offset_limit,
    parse_partitions,
    parse_timestamps,
)

if TYPE_CHECKING:
    from ...client.producer.settings import Options as ProducerOptions

    class ProducerArguments(ProducerOptions, total=False):
        """The arguments of `Producer` that the sink's options set."""

        acks: str
        compression: str


DEFAULT_MAX_TRIGGER_DELAY_MS: Final = 15 * 60 * 1000
DEFAULT_POLL_TIMEOUT_MS: Final = 120_000  # spark.network.timeout, as the connector has it

_STRATEGIES: Final = ("subscribe", "subscribePattern", "assign")
_KNOWN: Final = frozenset(
    name.lower()
    for name in (
        *_STRATEGIES,
        "startingOffsets",
        "endingOffsets",
        "startingOffsetsByTimestamp",
        "endingOffsetsByTimestamp",
        "startingTimestamp",
        "endingTimestamp",
        "startingOffsetsByTimestampStrategy",
        "failOnDataLoss",
        "minPartitions",
        "maxRecordsPerPartition",
        "maxOffsetsPerTrigger",
        "minOffsetsPerTrigger",
        "maxTriggerDelay",
        "includeHeaders",
        "history",
        "historyWarehouse",
        "historyCatalog",
        "kafkaConsumer.pollTimeoutMs",
        "fetchOffset.numRetries",
        "fetchOffset.retryIntervalMs",
        "groupIdPrefix",
        "topic",
        # options of Spark's own readers and writers
        "path",
        "checkpointLocation",
        "queryName",
    )
)
_REFUSED_KAFKA: Final = {
    "auto.offset.reset": "use the option startingOffsets: Spark keeps a query's offsets",
    "key.deserializer": "keys are bytes; use column functions to read them",
    "value.deserializer": "values are bytes; use column functions to read them",
    "enable.auto.commit": "offsets are kept in the query's checkpoint",
    "interceptor.classes": "they are Java classes",
}
_REFUSED_KAFKA_SINK: Final = {
    "key.serializer": "keys are strings or bytes",
    "value.serializer": "values are strings or bytes",
    "interceptor.classes": "they are Java classes",
}
# Settings of Java's producer, and the numeric arguments of ours that they set.
_PRODUCER_NUMBERS: Final = {
    "batch.size": "batch_size",
    "buffer.memory": "buffer_memory",
    "compression.gzip.level": "compression_level",
    "compression.lz4.level": "compression_level",
    "compression.zstd.level": "compression_level",
    "delivery.timeout.ms": "delivery_timeout_ms",
    "linger.ms": "linger_ms",
    "max.block.ms": "max_block_ms",
    "max.in.flight.requests.per.connection": "max_in_flight",
    "max.request.size": "max_request_size",
    "request.timeout.ms": "request_timeout_ms",
}
_DURATION = re.compile(r"\s*(\d+)\s*([a-z]*)\s*\Z")
_UNIT_MS: Final = {
    "": 1,
    "ms": 1,
    "s": 1000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}


class Options:
    """Option names without regard to case. Values are texts."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._found = {name.lower(): value for name, value in options.items()}

    def text(self, name: str) -> str | None:
        return self._found.get(name.lower())

    def place_settings(self) -> dict[str, str]:
        """Those of the tables' catalogue and store, named as the broker's keys."""
        return {name: text for name, text in self._found.items() if is_place_key(name)}

    def flag(self, name: str, default: bool) -> bool:
        text = self.text(name)
        if text is None:
            return default
        if text.strip().lower() not in ("true", "false"):
            raise OptionError(f"option {name!r} is true or false, not {text!r}")
        return text.strip().lower() == "true"

    def positive(self, name: str) -> int | None:
        """A positive number, or None if it is not set. Raises OptionError."""
        text = self.text(name)
        if text is None:
            return None
        if not text.strip().isdecimal() or int(text) <= 0:
            raise OptionError(f"option {name!r} must be a positive number, not {text!r}")
        return int(text)

    def duration_ms(self, name: str, default: int) -> int:
        """`90s`, `15m`, or a number of ms. Raises OptionError."""
        text = self.text(name)
        if text is None:
            return default
        match = _DURATION.match(text.lower())
        if match is None or match[2] not in _UNIT_MS:
            raise OptionError(f"option {name!r} is a time such as 90s or 15m, not {text!r}")
        return int(match[1]) * _UNIT_MS[match[2]]

    def kafka(self) -> dict[str, str]:
        """The client's settings, without the prefix `kafka.`."""
        return {
            name.removeprefix("kafka."): value
            for name, value in self._found.items()
            if name.startswith("kafka.")
        }

    def unknown(self) -> list[str]:
        return sorted(
            name
            for name in self._found
            if name not in _KNOWN and not name.startswith("kafka.") and not is_place_key(name)
        )


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """How a query reads. Exactly one of `topics`, `pattern` and `assigned` is set.

    `kafka` holds the client's settings, with `bootstrap.servers` and secrets: it is not in the
    repr.
    """

    topics: tuple[str, ...] | None
    pattern: str | None
    assigned: frozenset[TopicPartition] | None
    start: OffsetLimit
    end: OffsetLimit
    kafka: Mapping[str, str] = field(repr=False)
    fail_on_data_loss: bool = True
    include_headers: bool = False
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_ms: int = DEFAULT_MAX_TRIGGER_DELAY_MS
    poll_timeout_ms: int = DEFAULT_POLL_TIMEOUT_MS
    has_history: bool = False  # from the topics' tables
    history_warehouse: str | None = None  # None: as the table's writer reports it
    history_catalog: str | None = field(default=None, repr=False)
    history_settings: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def bootstrap_servers(self) -> str:
        return self.kafka["bootstrap.servers"]

    @property
    def is_read_committed(self) -> bool:
        return self.kafka.get("isolation.level", "").strip().lower() == "read_committed"

    @property
    def is_limited(self) -> bool:
        """Whether a trigger may have to leave records for the next one."""
        return (self.max_offsets_per_trigger or self.min_offsets_per_trigger) is not None

    @classmethod
    def parse(cls, texts: Mapping[str, str], *, streaming: bool) -> SourceOptions:
        """Raises OptionError."""
        options = Options(texts)
        topics, pattern, assigned = _strategy(options)
        kafka = _client_settings(options, _REFUSED_KAFKA)
        level = kafka.get("isolation.level", "read_uncommitted").strip().lower()
        if level not in ("read_committed", "read_uncommitted"):
            raise OptionError(f"kafka.isolation.level={level!r} is not a level of Kafka")
        _check_unknown(options)
        start, end = _limits(options, streaming)
        has_history = _has_history(options, kafka, start)
        if has_history:
            kafka["isolation.level"] = "read_committed"
        found = cls(
            topics=topics,
            pattern=pattern,
            assigned=assigned,
            start=start,
            end=end,
            kafka=kafka,
            fail_on_data_loss=options.flag("failOnDataLoss", True),
            include_headers=options.flag("includeHeaders", False),
            min_partitions=options.positive("minPartitions"),
            max_records_per_partition=options.positive("maxRecordsPerPartition"),
            max_offsets_per_trigger=options.positive("maxOffsetsPerTrigger"),
            min_offsets_per_trigger=options.positive("minOffsetsPerTrigger"),
            max_trigger_delay_ms=options.duration_ms(
                "maxTriggerDelay", DEFAULT_MAX_TRIGGER_DELAY_MS
            ),
            poll_timeout_ms=options.positive("kafkaConsumer.pollTimeoutMs")
            or DEFAULT_POLL_TIMEOUT_MS,
            has_history=has_history,
            history_warehouse=options.text("historyWarehouse"),
            history_catalog=options.text("historyCatalog"),
            history_settings=options.place_settings(),
        )
        least, most = found.min_offsets_per_trigger, found.max_offsets_per_trigger
        if least is not None and most is not None and least > most:
            raise OptionError(
                f"minOffsetsPerTrigger ({least}) is higher than maxOffsetsPerTrigger ({most})"
            )
        return found


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """How a query writes: `topic`, if set, is for every row. `kafka` as in SourceOptions."""

    topic: str | None
    kafka: Mapping[str, str] = field(repr=False)

    @property
    def bootstrap_servers(self) -> str:
        return self.kafka["bootstrap.servers"]

    @classmethod
    def parse(cls, texts: Mapping[str, str]) -> SinkOptions:
        """Raises OptionError."""
        options = Options(texts)
        found = cls(None, _client_settings(options, _REFUSED_KAFKA_SINK))
        _check_unknown(options)
        found.producer()
        topic = options.text("topic")
        return found if topic is None else replace(found, topic=topic.strip())

    def producer(self) -> ProducerArguments:
        """The settings of the client's producer. Raises OptionError."""
        found: ProducerArguments = {
            "acks": self.kafka.get("acks", "all").strip(),
            "compression": self.kafka.get("compression.type", "none").strip(),
            "idempotence": self.kafka.get("enable.idempotence", "true").strip().lower() == "true",
        }
        if found["acks"] not in ("all", "-1"):
            found["idempotence"] = False
        for key, name in _PRODUCER_NUMBERS.items():
            text = self.kafka.get(key)
            if text is None:
                continue
            if not text.strip().isdecimal():
                raise OptionError(f"option 'kafka.{key}' is a number, not {text!r}")
            found[name] = int(text)  # type: ignore[literal-required]
        return found


def _strategy(
    options: Options,
) -> tuple[tuple[str, ...] | None, str | None, frozenset[TopicPartition] | None]:
    named = [name for name in _STRATEGIES if options.text(name) is not None]
    if len(named) != 1:
        word = "one" if not named else "only one"
        raise OptionError(f"give {word} of the options {', '.join(_STRATEGIES)}")
    name = named[0]
    text = (options.text(name) or "").strip()
    if name == "assign":
        return None, None, parse_partitions(name, text)
    if name == "subscribePattern":
        if not text:
            raise OptionError("option 'subscribePattern' is empty")
        try:
            re.compile(text)
        except re.error as error:
            raise OptionError(f"option 'subscribePattern': {error}") from None
        return None, text, None
    topics = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not topics:
        raise OptionError(f"option 'subscribe' names no topic: {text!r}")
    return topics, None, None


def _has_history(options: Options, kafka: Mapping[str, str], start: OffsetLimit) -> bool:
    """Whether tables have the history; they have committed records. Raises OptionError."""
    word = (options.text("history") or "brokers").strip().lower()
    if word not in ("table", "brokers"):
        raise OptionError(f"option 'history' is table or brokers, not {word!r}")
    if word == "brokers":
        return False
    if start == Everywhere(LATEST):
        raise OptionError(
            "history=table: a stream that starts at the latest offset reads no history; set "
            "startingOffsets, to earliest for instance"
        )
    if kafka.get("isolation.level", "read_committed").strip().lower() != "read_committed":
        raise OptionError(
            "history=table reads committed records alone: leave out kafka.isolation.level, or set "
            "it to read_committed"
        )
    return True


def _client_settings(options: Options, refused: Mapping[str, str]) -> dict[str, str]:
    kafka = options.kafka()
    for key, reason in refused.items():
        if key in kafka:
            raise OptionError(f"option 'kafka.{key}' is not supported: {reason}")
    if not kafka.get("bootstrap.servers", "").strip():
        raise OptionError("option 'kafka.bootstrap.servers' must be given, as host:port,host:port")
    return kafka


def _check_unknown(options: Options) -> None:
    """Refuse unknown options: a typing error in a limit must not pass. The connector ignores
    them."""
    unknown = options.unknown()
    if unknown:
        raise OptionError(
            f"there is no option {unknown[0]!r}; the options are those of Spark's Kafka connector: "
            + ", ".join(sorted(_KNOWN))
        )


def _limits(options: Options, streaming: bool) -> tuple[OffsetLimit, OffsetLimit]:
    strategy = (options.text("startingOffsetsByTimestampStrategy") or "error").strip().lower()
    if strategy not in ("error", "latest"):
        raise OptionError("option 'startingOffsetsByTimestampStrategy' is error or latest")
    start = _limit(options, "starting", NoMatch(strategy), LATEST if streaming else EARLIEST)
    if streaming:
        for name in ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"):
            if options.text(name) is not None:
                raise OptionError(f"option {name!r} is for batch queries: a stream has no end")
        return start, Everywhere(LATEST)
    end = _limit(options, "ending", NoMatch.LATEST, LATEST)
    if start == Everywhere(LATEST) or (
        isinstance(start, AtOffsets) and LATEST in start.offsets.values()
    ):
        raise OptionError("a batch query cannot start at the latest offset: it would read nothing")
    if end == Everywhere(EARLIEST) or (
        isinstance(end, AtOffsets) and EARLIEST in end.offsets.values()
    ):
        raise OptionError("a batch query cannot end at the earliest offset: it would read nothing")
    if isinstance(start, AtOffsets) and isinstance(end, AtOffsets):
        _check_order(start.offsets, end.offsets)
    return start, end


def _limit(options: Options, side: str, no_match: NoMatch, default: int) -> OffsetLimit:
    """A time for all partitions wins over times per partition, and these win over offsets."""
    text = options.text(f"{side}Timestamp")
    if text is not None:
        if not text.strip().isdecimal():
            raise OptionError(f"option '{side}Timestamp' is a time in ms, not {text!r}")
        return AtTimestamps(int(text), no_match)
    name = f"{side}OffsetsByTimestamp"
    text = options.text(name)
    if text is not None:
        return parse_timestamps(name, text, no_match)
    name = f"{side}Offsets"
    text = options.text(name)
    return Everywhere(default) if text is None else parse_offset_limit(name, text)


def _check_order(start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> None:
    if start.keys() != end.keys():
        raise OptionError("startingOffsets and endingOffsets name different partitions")
    for (topic, partition), first in start.items():
        last = end[topic, partition]
        if 0 <= last < first:
            raise OptionError(
                f"{topic}-{partition}: the starting offset {first} is above the ending one {last}"
            )
