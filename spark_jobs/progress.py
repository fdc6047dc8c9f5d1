"""The progress of a running pipeline: a line for each batch, a bar on a terminal, and Prometheus.

Job: a `StreamingQueryListener` is notified of each batch, asks the brokers how much is left (the
lag), and passes on a `Report`. `run` waits for queries, and stops them on a signal.

The brokers are asked for the lag, since Spark 4.0 does not report it for sources in Python. If they
do not answer, the lag is None; a pipeline never fails because of its progress.
"""

from __future__ import annotations

import json
import re
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Gauge, start_http_server
from pyspark.sql.streaming.listener import StreamingQueryListener
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from ..client.errors import ClientError
from .pipeline import MALFORMED, Options
from .source.catalogue import Catalogue
from .source.limits import LATEST, Offsets, offsets_from_json
from .source.options import SourceOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )
    from pyspark.sql.streaming.query import StreamingQuery

POLL_SECONDS = 0.25
MAX_ERROR_CHARACTERS = 3000
LAST_EVENTS_SECONDS = 10.0


@dataclass(slots=True, frozen=True)
class Report:
    """A batch that is done. `late` records came behind the watermark and were left out; `malformed`
    records did not parse; `lag` is the number of records behind the end of this batch."""

    query: str
    batch: int
    records: int
    seconds: float
    offsets: Mapping[tuple[str, int], int]
    lag: Mapping[str, int] | None = None  # by topic
    late: int = 0
    malformed: int = 0
    state_rows: int = 0
    state_bytes: int = 0
    watermark: datetime | None = None

    @property
    def rate(self) -> float:
        """Records per second."""
        return self.records / self.seconds if self.seconds else 0.0

    def line(self) -> str:
        words = [
            f"{self.query}: batch {self.batch}",
            f"{self.records:,} records",
            f"{self.rate:,.0f} records/s",
            "lag unknown" if self.lag is None else f"lag {sum(self.lag.values()):,}",
            f"{self.seconds:.1f} s",
        ]
        if self.state_rows:
            words.append(f"{self.state_rows:,} rows of state")
        if self.late:
            words.append(f"{self.late:,} late")
        if self.malformed:
            words.append(f"{self.malformed:,} malformed")
        return "  ".join(words)


def report_of(progress: Mapping[str, Any]) -> Report:
    """A report from the JSON of Spark's StreamingQueryProgress, without the lag."""
    offsets: Offsets = {}
    for source in progress["sources"]:
        found = source.get("endOffset")
        found = json.loads(found) if isinstance(found, str) else found
        # Sources other than topics have other offsets.
        if isinstance(found, dict) and all(isinstance(part, dict) for part in found.values()):
            offsets |= offsets_from_json(found)
    states = progress.get("stateOperators") or []
    observed = progress.get("observedMetrics") or {}
    malformed = [found for name, found in observed.items() if name.startswith(MALFORMED)]
    watermark = (progress.get("eventTime") or {}).get("watermark")
    return Report(
        query=progress.get("name") or "query",
        batch=progress["batchId"],
        records=progress["numInputRows"],
        seconds=progress.get("batchDuration", 0) / 1000,
        offsets=offsets,
        late=sum(state.get("numRowsDroppedByWatermark", 0) for state in states),
        malformed=sum(found.get("records") or 0 for found in malformed),
        state_rows=sum(state.get("numRowsTotal", 0) for state in states),
        state_bytes=sum(state.get("memoryUsedBytes", 0) for state in states),
        watermark=datetime.fromisoformat(watermark) if watermark else None,
    )


def lag_of(offsets: Mapping[tuple[str, int], int], ends: Offsets) -> dict[str, int]:
    """The number of offsets left to read, by topic."""
    found: dict[str, int] = {}
    for key, end in ends.items():
        found[key[0]] = found.get(key[0], 0) + max(0, end - offsets.get(key, 0))
    return found


def log_ends(options: Options, topics: Sequence[str]) -> Offsets:
    """The end of each partition of those topics that exist. Raises ClientError."""
    if not topics:
        return {}
    pattern = "|".join(re.escape(topic) for topic in topics)
    wanted = options.client() | {"subscribePattern": pattern}
    catalogue = Catalogue(SourceOptions.parse(wanted, streaming=True))
    return catalogue.offsets(dict.fromkeys(catalogue.partitions(), LATEST))


class Metrics:
    """The metrics of all queries of a process, for Prometheus."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        label = ("query",)

        def gauge(name: str, text: str, labels: Sequence[str] = label) -> Gauge:
            return Gauge(f"pybroker_spark_{name}", text, labels, registry=self.registry)

        def counter(name: str, text: str) -> Counter:
            return Counter(f"pybroker_spark_{name}", text, label, registry=self.registry)

        self._records = counter("records", "Records read")
        self._batches = counter("batches", "Batches done")
        self._late = counter("late_records", "Records behind the watermark, left out")
        self._malformed = counter("malformed_records", "Records that did not parse")
        self._rate = gauge("records_per_second", "Of the last batch")
        self._seconds = gauge("batch_seconds", "Of the last batch")
        self._state_rows = gauge("state_rows", "Rows that stateful operators hold")
        self._state_bytes = gauge("state_bytes", "Memory that they take")
        self._watermark = gauge("watermark_seconds", "The watermark, in seconds since 1970")
        self._lag = gauge("lag_records", "Records behind what was read", ("query", "topic"))

    def add(self, report: Report) -> None:
        name = report.query
        self._records.labels(name).inc(report.records)
        self._batches.labels(name).inc()
        self._late.labels(name).inc(report.late)
        self._malformed.labels(name).inc(report.malformed)
        self._rate.labels(name).set(report.rate)
        self._seconds.labels(name).set(report.seconds)
        self._state_rows.labels(name).set(report.state_rows)
        self._state_bytes.labels(name).set(report.state_bytes)
        if report.watermark is not None:
            self._watermark.labels(name).set(report.watermark.timestamp())
        for topic, lag in (report.lag or {}).items():
            self._lag.labels(name, topic).set(lag)


class ProgressListener(StreamingQueryListener):
    """Passes a report of each batch, with its lag, to all of `listeners`."""

    def __init__(self, options: Options, listeners: Sequence[Callable[[Report], None]]) -> None:
        self._options = options
        self._listeners = listeners
        self.ended = 0

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        pass

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        report = report_of(json.loads(event.progress.json))
        lag = self._lag(report)
        fields = {name: getattr(report, name) for name in Report.__slots__}
        report = Report(**{**fields, "lag": lag})
        for listener in self._listeners:
            listener(report)

    def _lag(self, report: Report) -> dict[str, int] | None:
        if not report.offsets:
            return None
        try:
            ends = log_ends(self._options, sorted({topic for topic, _ in report.offsets}))
        except (ClientError, OSError):
            return None
        return lag_of(report.offsets, ends)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        pass

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        self.ended += 1


class Display:
    """Lines, and below them on a terminal a bar: batches done, and the tasks of the current
    batch."""

    def __init__(self, session: SparkSession) -> None:
        self._tracker = session.sparkContext.statusTracker()
        self.console = Console(stderr=True, highlight=False, soft_wrap=True)
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[told]}"),
            TimeElapsedColumn(),
        )
        self.bar = Progress(
            *columns, console=self.console, transient=True, disable=not self.console.is_terminal
        )
        self._task = self.bar.add_task("waiting for Spark", total=None, told="")
        self.records = self.batches = self.malformed = self.late = 0

    def add(self, report: Report) -> None:
        self.records += report.records
        self.batches += 1
        self.malformed += report.malformed
        self.late += report.late
        self.console.print(report.line())

    def look(self) -> None:
        """Show the progress of the current batch."""
        tracker = self._tracker
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        found = [stage for stage in stages if stage is not None]
        done, tasks = sum(s.numCompletedTasks for s in found), sum(s.numTasks for s in found)
        told = f"{self.records:,} records, {done}/{tasks} tasks of a batch" if tasks else "waiting"
        self.bar.update(self._task, description="Spark", told=told)
        self.bar.update(self._task, total=tasks or None, completed=done)


def serve_metrics(port: int) -> Metrics:
    """Serve Prometheus metrics on this port; 0 takes a free one. Prints the address."""
    metrics = Metrics()
    server, _ = start_http_server(port, "127.0.0.1", registry=metrics.registry)
    sys.stderr.write(f"metrics: http://127.0.0.1:{server.server_port}/metrics\n")
    return metrics


def run(
    session: SparkSession, options: Options, begin: Callable[[], Sequence[StreamingQuery]]
) -> int:
    """Run the queries that `begin` starts to their end; returns the exit status.

    SIGINT and SIGTERM stop them in good order. The first error of a query stops the others, and is
    printed.
    """
    display = Display(session)
    listeners: list[Callable[[Report], None]] = [display.add]
    if options.metrics_port is not None:
        listeners.append(serve_metrics(options.metrics_port).add)
    listener = ProgressListener(options, listeners)
    session.streams.addListener(listener)
    told_to_stop: list[int] = []
    before = {
        number: signal.signal(number, lambda number, _frame: told_to_stop.append(number))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    started = time.monotonic()
    try:
        with display.bar:
            queries = list(begin())
            while any(query.isActive for query in queries) and not told_to_stop:
                if any(not q.isActive and q.exception() is not None for q in queries):
                    break
                display.look()
                time.sleep(POLL_SECONDS)
            for query in queries:
                query.stop()
            _drain(listener, len(queries))
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        session.streams.removeListener(listener)
    failed = [query for query in queries if query.exception() is not None]
    for query in failed:
        said = str(query.exception())[-MAX_ERROR_CHARACTERS:]
        display.console.print(f"{query.name}: {said}", markup=False)
    words = "stopped" if told_to_stop else "failed" if failed else "done"
    display.console.print(
        f"{words}: {display.records:,} records in {display.batches} batches, "
        f"{time.monotonic() - started:.1f} s; the next run continues from {options.checkpoint_dir}"
    )
    if display.malformed and options.dead_letter_topic is None:
        display.console.print(
            f"{display.malformed:,} records did not parse: --dead-letter-topic keeps them"
        )
    return 1 if failed else 0


def _drain(listener: ProgressListener, queries: int) -> None:
    """Wait for the last events: they arrive some time after the query has ended."""
    deadline = time.monotonic() + LAST_EVENTS_SECONDS
    while listener.ended < queries and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS / 5)
