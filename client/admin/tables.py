"""Tables of topics, as their writers report them: offsets and lag, snapshot, files, errors.

The writer of a topic's table commits its offsets as the group `pybroker-table-TOPIC`, so each tool
for consumer groups shows the table's lag. The metadata of partition 0's offset is a `TableReport`,
that of every other one has the partition's offsets in the newest snapshots. The table's own offsets
alone say where a writer continues; the group is for people.

Kafka has nothing like it; sinks of Kafka Connect have such a group as well.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Final, NamedTuple

import trio

from ...protocol.topics import TopicPartition
from ..cluster import Cluster
from .config_types import Alteration, ConfigOperation, ConfigResource, ResourceKind
from .configs import Configs
from .group_offsets import CommittedOffset, GroupOffsets
from .records import LATEST, Records

if TYPE_CHECKING:
    from ...protocol.apis.metadata import MetadataResponseTopic
    from ..consumer.consumer import Consumer  # imported for records that wait alone

GROUP_PREFIX: Final = "pybroker-table-"
TABLE_CONFIG: Final = "pybroker.table"
TABLE_CONFIGS: Final = tuple(
    f"{TABLE_CONFIG}{name}"
    for name in (
        "",
        ".schema",
        ".target.lag.ms",
        ".mode",
        ".partition.by",
        ".dead.letter.topic",
        ".on.delete",
    )
)
REQUESTS: Final = ("compaction", "generation")  # configs, and what a report has of them
POLL_SECONDS: Final = 0.5
MAX_TEXT_LENGTH: Final = 700  # of an error
MAX_REPORT_BYTES: Final = 4000  # brokers take 4096 bytes of metadata
SNAPSHOTS_TOLD: Final = 10
SILENT_MS: Final = 180_000  # a writer reports each minute
GRACE_MS: Final = 2_000  # beside the target lag: a commit
OLDEST_SECONDS: Final = 5.0


class TableSnapshot(NamedTuple):
    """A state that the table had."""

    name: str  # Delta: the version
    committed_ms: int | None
    operation: str
    rows: int | None  # of the whole table
    files: int | None


@dataclass(frozen=True, slots=True)
class TableReport:
    """What a writer says of its table; times in ms since 1970."""

    format: str
    name: str  # in the catalogue, as kafka.flights
    warehouse: str
    reported_ms: int
    snapshot: str | None = None  # Delta: the version
    committed_ms: int | None = None
    whole_ms: int | None = None  # when the table last had all records
    rows: int | None = None
    files: int | None = None
    size_bytes: int | None = None
    dead_letters: int = 0
    compaction: int = 0  # the highest numbers that were asked for and are done
    generation: int = 0
    error: str | None = None
    advice: str | None = None  # what to do about the error
    snapshots: tuple[TableSnapshot, ...] = ()  # the newest first
    offsets: tuple[int | None, ...] = ()  # of partition 0 in each of them


def group_of(topic: str) -> str:
    return GROUP_PREFIX + topic


def report_text(report: TableReport) -> str:
    """A report as the metadata of an offset. What is too long loses snapshots, then words."""
    length = MAX_TEXT_LENGTH
    while True:
        short = replace(
            report,
            error=report.error and report.error[:length],
            advice=report.advice and report.advice[:length],
        )
        text = json.dumps(asdict(short), separators=(",", ":"), ensure_ascii=False)
        if len(text.encode()) <= MAX_REPORT_BYTES or not length:
            return text
        if report.snapshots:
            report = replace(report, snapshots=report.snapshots[:-1], offsets=report.offsets[:-1])
        else:
            length //= 2


def history_text(offsets: Iterable[int | None]) -> str:
    """The offsets of a partition in the newest snapshots, as the metadata of its offset."""
    return json.dumps(list(offsets), separators=(",", ":"))


def history_of(text: str) -> tuple[int | None, ...]:
    """() for other metadata."""
    try:
        found = json.loads(text)
    except ValueError:
        return ()
    return tuple(found) if isinstance(found, list) else ()


def report_of(text: str) -> TableReport | None:
    """None for a text that is no report, or that of another version."""
    try:
        found = json.loads(text)
        known = {one.name for one in fields(TableReport)}
        found = {name: value for name, value in found.items() if name in known}
        found["snapshots"] = tuple(TableSnapshot(*one) for one in found.get("snapshots", ()))
        found["offsets"] = tuple(found.get("offsets", ()))
        return TableReport(**found)
    except (ValueError, TypeError, AttributeError):
        return None


@dataclass(frozen=True, slots=True)
class TablePlace:
    """One partition: the first offset that the table lacks, and the end of committed records."""

    offset: int
    end: int | None  # None: the partition does not answer
    lag: int | None
    oldest_ms: int | None = None  # the time of the first record that the table lacks


@dataclass(frozen=True, slots=True)
class TableView:
    """The table of one topic, as known at `now_ms`."""

    topic: str
    configs: Mapping[str, str]
    leader: int  # of partition 0, whose process writes the table; -1: none
    report: TableReport | None
    places: Mapping[int, TablePlace]
    now_ms: int
    history: Mapping[int, tuple[int | None, ...]] = field(default_factory=dict)  # by partition

    @property
    def snapshots(self) -> list[tuple[TableSnapshot, dict[int, int]]]:
        """The newest first, each with the first offset of each partition that it lacks."""
        if self.report is None:
            return []
        return [
            (
                snapshot,
                {
                    number: offset
                    for number, offsets in self.history.items()
                    if place < len(offsets) and (offset := offsets[place]) is not None
                },
            )
            for place, snapshot in enumerate(self.report.snapshots)
        ]

    @property
    def lag(self) -> int | None:
        """In records."""
        known = [one.lag for one in self.places.values() if one.lag is not None]
        return sum(known) if known else None

    @property
    def lag_ms(self) -> int | None:
        """The age of the oldest record that the table lacks; 0 if it lacks none. Its timestamp may
        be the producer's, so it counts for no longer than the table has lacked any record."""
        if self.lag == 0:
            return 0
        oldest = [one.oldest_ms for one in self.places.values() if one.oldest_ms is not None]
        if not oldest:
            return None
        whole_ms = None if self.report is None else self.report.whole_ms
        return max(0, self.now_ms - max(min(oldest), whole_ms or 0))

    @property
    def target_lag_ms(self) -> int:
        return int(self.configs[TABLE_CONFIG + ".target.lag.ms"])

    @property
    def state(self) -> str:
        """current, behind, failed, silent, or missing: no writer has reported yet."""
        if self.report is None:
            return "missing"
        if self.now_ms - self.report.reported_ms > SILENT_MS:
            return "silent"
        if self.report.error is not None:
            return "failed"
        if (self.lag_ms or 0) > self.target_lag_ms + GRACE_MS:
            return "behind"
        return "current"

    @property
    def advice(self) -> str | None:
        """What to do, by the state."""
        broker = "no broker leads partition 0" if self.leader < 0 else f"broker {self.leader}"
        match self.state:
            case "missing" | "silent" if self.leader < 0:
                return f"{broker}, so nobody writes the table: start the brokers of this partition"
            case "missing" | "silent":
                return (
                    f"the writer is a process of {broker}: see the log of that broker; the user of "
                    f"pybroker.table.client. needs READ on group {group_of(self.topic)}"
                )
            case "failed":
                return None if self.report is None else self.report.advice
            case "behind":
                return "the writer is at work, or waits for processor time: look again"
        return None


class Tables:
    """`Tables(cluster)`; each method raises ClientError if the cluster does not answer."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def list(self, topics: Iterable[str] | None = None) -> list[TableView]:
        """The tables of these topics (None: of all), by topic; topics without a table are left
        out."""
        found = await self._cluster.metadata(None if topics is None else list(topics))
        there = {one.name: one for one in found.topics if one.name and not one.error_code}
        configs = await self._configs(there)
        return [
            await self._view(there[topic], configs[topic])
            for topic in sorted(configs)
            if configs[topic].get(TABLE_CONFIG, "none") != "none"
        ]

    async def compact(self, topic: str) -> int:
        """Ask the writer of a topic's table to merge all small files; a number for `done`. Raises
        ClientError, also if the table cannot."""
        return await self._request(topic, "compaction")

    async def rebuild(self, topic: str) -> int:
        """Ask the writer to write the table anew; otherwise as `compact`."""
        return await self._request(topic, "generation")

    async def _request(self, topic: str, name: str) -> int:
        resource, config = ConfigResource(ResourceKind.TOPIC, topic), f"{TABLE_CONFIG}.{name}"
        configs = Configs(self._cluster)
        (found,) = (await configs.describe([resource], names=[config])).all().values()
        report = await self.report(topic)
        done = 0 if report is None else int(getattr(report, name))
        number = 1 + max([done, *(int(one.value or 0) for one in found)])
        (
            await configs.alter({resource: [Alteration(config, ConfigOperation.SET, str(number))]})
        ).all()
        return number

    async def report(self, topic: str) -> TableReport | None:
        """What the writer said last."""
        committed = (await GroupOffsets(self._cluster).list(group_of(topic))).values
        return report_of(committed.get((topic, 0), CommittedOffset(0)).metadata)

    async def done(
        self, topic: str, name: str, number: int, on_error: Callable[[TableReport], None]
    ) -> TableReport:
        """Wait until the request of this number is done, `name` being one of REQUESTS; each other
        error of the writer is passed on."""
        assert name in REQUESTS, name
        error = None
        while True:
            report = await self.report(topic)
            if report is not None and getattr(report, name) >= number:
                return report
            if report is not None and report.error != error:
                error = report.error
                if error is not None:
                    on_error(report)
            await trio.sleep(POLL_SECONDS)

    async def _configs(self, topics: Collection[str]) -> dict[str, dict[str, str]]:
        if not topics:
            return {}
        asked = [ConfigResource(ResourceKind.TOPIC, name) for name in topics]
        answered = await Configs(self._cluster).describe(asked, names=TABLE_CONFIGS)
        return {
            resource.name: {one.name: one.value or "" for one in entries}
            for resource, entries in answered.values.items()
        }

    async def _view(self, topic: MetadataResponseTopic, configs: dict[str, str]) -> TableView:
        name = topic.name or ""
        numbers = sorted(one.partition_index for one in topic.partitions)
        ends = await Records(self._cluster).offsets(
            {(name, number): LATEST for number in numbers}, read_committed=True, wait=False
        )
        committed = (await GroupOffsets(self._cluster).list(group_of(name))).values
        nothing = CommittedOffset(0)
        report = report_of(committed.get((name, 0), nothing).metadata)
        history = {
            number: history_of(committed.get((name, number), nothing).metadata)
            for number in numbers
            if number
        }
        if report is not None:
            history[0] = report.offsets
        places = {}
        for number in numbers:
            offset = committed.get((name, number), nothing).offset
            end = ends.values.get((name, number))
            lag = None if end is None else max(0, end.offset - offset)
            places[number] = TablePlace(offset, None if end is None else end.offset, lag)
        return TableView(
            topic=name,
            configs=configs,
            leader=next((one.leader_id for one in topic.partitions if not one.partition_index), -1),
            report=report,
            places=await self._with_oldest(name, places),
            now_ms=int(time.time() * 1000),
            history=dict(sorted(history.items())),
        )

    async def _with_oldest(
        self, topic: str, places: Mapping[int, TablePlace]
    ) -> dict[int, TablePlace]:
        """With the time of the first record that the table lacks. A partition in which nothing but
        ends of transactions follow has no lag."""
        found = dict(places)
        waiting = {(topic, number): one for number, one in places.items() if one.lag}
        if not waiting:
            return found
        from ..consumer.consumer import Consumer

        async with Consumer(
            self._cluster,
            auto_offset_reset="earliest",
            auto_commit=False,
            isolation_level="read_committed",
            max_partition_fetch_bytes=1,  # a batch, however large
        ) as consumer:
            await consumer.assign(waiting)
            for place, one in waiting.items():
                consumer.seek(place, one.offset)
            with trio.move_on_after(OLDEST_SECONDS):
                while waiting:
                    for record in await consumer.poll(0.1, 1):
                        place = record.topic, record.partition
                        if place in waiting:
                            one = waiting.pop(place)
                            found[place[1]] = replace(one, oldest_ms=record.timestamp)
                            consumer.pause(place)
                    for place in _passed(consumer, waiting):
                        found[place[1]] = replace(waiting.pop(place), lag=0)
        return found


def _passed(
    consumer: Consumer, waiting: Mapping[TopicPartition, TablePlace]
) -> list[TopicPartition]:
    """Partitions that were read to their end without a record."""
    return [
        place
        for place, one in waiting.items()
        if (at := consumer.position(place)) is not None and at >= (one.end or 0)
    ]
