"""At most once, at least once, exactly once: words counted in three ways, under SIGKILL.

One query counts the words of each batch and writes the counts in three ways. The ways differ in
how they combine two steps, to write a batch and to note that it is written:

    at most once     note the batch as begun, then append it; skip a batch that is noted
    at least once    append the batch; Spark notes it afterwards, or else runs it again
    exactly once     the same, but overwrite the place of the batch: a repetition changes nothing

This program produces text and starts the query in a process of its own. It kills the process with
SIGKILL in the middle of a batch and starts it again, several times, then lets it finish. At the end
it counts the lost and the duplicated words of each way and draws them. The process reports each
step, so that kills fall between the two steps. The text is the Python reference from `pydoc`.

    pybroker start
    python -m pybroker_kafka.spark_jobs.pipelines.word_count_exactly_once \\
        --bootstrap-servers localhost:9092

The exit status is 1 if the third way did not count exactly once.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

# Named in full: spark-submit runs this file alone, as a script.
from pybroker_kafka.spark_jobs import pipeline

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

NAME = "word-count"
AT_MOST, AT_LEAST, EXACTLY = MODES = ("at-most-once", "at-least-once", "exactly-once")
# The steps after which kills come, in turn. NOTED: at-most-once has noted a batch, and nothing of
# it is written; WRITTEN: all three have written it, and Spark has not noted it as done.
NOTED, WRITTEN = STEPS = ("noted", "written")
LINES_A_CHUNK = 50
CHUNK_SECONDS = 0.05
_WORD = re.compile(r"[a-z]+")


@dataclass(slots=True, frozen=True, kw_only=True)
class WordOptions(pipeline.Options):
    """`pause_ms` is the pause of a batch after each step, so that kills fall there."""

    kills: int = 4
    lines: int = 4000
    pause_ms: int = 1000
    plot: str | None = None
    work: bool = False


@dataclass(slots=True)
class Outcome:
    """The result of one way to count, over all words."""

    counted: int
    lost: int
    doubled: int


def outcome(expected: Counter[str], counted: Counter[str]) -> Outcome:
    return Outcome(
        counted.total(),
        lost=(expected - counted).total(),
        doubled=(counted - expected).total(),
    )


def text_lines(count: int) -> list[str]:
    """Lines of English text, from the reference that comes with Python."""
    from pydoc_data.topics import topics

    lines = [line for text in topics.values() for line in str(text).splitlines() if line.strip()]
    return (lines * (count // len(lines) + 1))[:count]


def words_of(lines: Sequence[str]) -> Counter[str]:
    """The counts that all three ways should reach."""
    return Counter(word for line in lines for word in _WORD.findall(line.lower()))


@dataclass(slots=True)
class Counting:
    """The query, and its work on each batch."""

    session: SparkSession
    options: WordOptions

    def begin(self) -> list[StreamingQuery]:
        from pyspark.sql import functions as f

        words = f.regexp_extract_all(f.lower(f.col("value").cast("string")), f.lit("[a-z]+"), 0)
        rows = pipeline.read_topic(self.session, self.options).select(
            f.explode(words).alias("word")
        )
        writer = rows.writeStream.foreachBatch(self.write_batch)
        return [pipeline.start(writer, self.options, NAME)]

    def write_batch(self, batch: DataFrame, batch_id: int) -> None:
        counts = batch.groupBy("word").count().coalesce(1).persist()
        noted = Path(self.options.output_dir) / "noted" / str(batch_id)
        if not noted.exists():
            noted.parent.mkdir(parents=True, exist_ok=True)
            noted.touch()
            self._tell(batch_id, NOTED)
            counts.write.mode("append").parquet(self.directory(AT_MOST))
        counts.write.mode("append").parquet(self.directory(AT_LEAST))
        pipeline.write_parquet(counts, batch_id, self.directory(EXACTLY))
        self._tell(batch_id, WRITTEN)
        counts.unpersist()

    def directory(self, mode: str) -> str:
        return f"{self.options.output_dir}/{mode}"

    def _tell(self, batch_id: int, step: str) -> None:
        sys.stderr.write(f"{NAME}: batch {batch_id} {step}\n")
        sys.stderr.flush()
        if self.options.continuous:
            time.sleep(self.options.pause_ms / 1000)

    def result(self, mode: str) -> Counter[str]:
        rows = self.session.read.parquet(self.directory(mode)).groupBy("word").sum("count")
        return Counter({row[0]: row[1] for row in rows.collect()})


def work(options: WordOptions) -> int:
    """Run the query, in the process that is killed."""
    with pipeline.spark(options, NAME) as session:
        from pybroker_kafka.spark_jobs.progress import run

        return run(session, options, Counting(session, options).begin)


class Worker:
    """The process that runs the query; its child processes end with it."""

    def __init__(self, options: WordOptions, *more: str) -> None:
        command = [
            sys.executable,
            "-P",
            "-m",
            "pybroker_kafka.spark_jobs.pipelines.word_count_exactly_once",
        ]
        command += [*sys.argv[1:], "--work", "--input-topic", options.input_topic]
        command += ["--output-dir", options.output_dir]
        self._process = subprocess.Popen(
            [*command, *more],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )

    def read_until(self, pattern: str | None) -> bool:
        """Show its output until a line matches `pattern`; False if it ended before, or if `pattern`
        is None."""
        assert self._process.stderr is not None
        for line in self._process.stderr:
            sys.stderr.write(f"    {line}")
            if pattern is not None and re.search(pattern, line):
                return True
        return False

    def kill(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def end(self) -> int:
        return self._process.wait()


def run_under_kills(options: WordOptions, lines: Sequence[str]) -> None:
    """Feed the lines while workers are killed. Raises RuntimeError if a worker ends by itself, or
    if the last run fails."""
    from pybroker_kafka.spark_jobs.flights import produce

    records = [(b"", line.encode()) for line in lines]
    step = max(1, len(records) // (options.kills + 1))
    done = 0
    for number in range(options.kills):
        step_of_kill = STEPS[number % len(STEPS)]
        # Some records before it starts, so that it has a first batch; the others come while it
        # works.
        produce(options.bootstrap_servers, options.input_topic, records[done : done + step // 2])
        rest = records[done + step // 2 : done + step]
        done += step
        worker = Worker(options, "--continuous", "--trigger-interval", "0 seconds")
        feeding = threading.Thread(target=_feed, args=(options, rest))
        feeding.start()
        _say(f"kill {number + 1} of {options.kills} comes when a batch is {step_of_kill}")
        if not worker.read_until(rf"batch \d+ {step_of_kill}"):
            raise RuntimeError("it ended by itself")
        time.sleep(random.uniform(0, options.pause_ms / 2000))
        worker.kill()
        _say("killed")
        feeding.join()
    produce(options.bootstrap_servers, options.input_topic, records[done:])
    _say("now to the end")
    worker = Worker(options)
    worker.read_until(None)
    if worker.end() != 0:
        raise RuntimeError("the last run failed")


def _feed(options: WordOptions, records: Sequence[tuple[bytes, bytes]]) -> None:
    from pybroker_kafka.spark_jobs.flights import produce

    rate = LINES_A_CHUNK / CHUNK_SECONDS
    produce(options.bootstrap_servers, options.input_topic, records, rate)


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def show(expected: Counter[str], outcomes: dict[str, Outcome]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"{expected.total():,} words, counted under kills")
    for column in ("", "counted", "lost", "doubled"):
        table.add_column(column, justify="left" if column == "" else "right")
    for mode, found in outcomes.items():
        table.add_row(mode, f"{found.counted:,}", f"{found.lost:,}", f"{found.doubled:,}")
    Console(highlight=False).print(table)


def draw(expected: Counter[str], outcomes: dict[str, Outcome], path: str, kills: int) -> None:
    """Draw the words lost, below the line, and doubled, above it, for each way."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, 5))
    names = list(outcomes)
    doubles = [found.doubled for found in outcomes.values()]
    losses = [found.lost for found in outcomes.values()]
    doubled = axes.bar(names, doubles, color="tab:orange")
    lost = axes.bar(names, [-n for n in losses], color="tab:red")
    for name, found in outcomes.items():
        if not (found.doubled or found.lost):
            axes.annotate(f"all {found.counted:,} right", (name, 0), ha="center", va="bottom")
    axes.bar_label(doubled, [f"{n:,} doubled" if n else "" for n in doubles])
    axes.bar_label(lost, [f"{n:,} lost" if n else "" for n in losses])
    axes.axhline(0, color="black", linewidth=0.8)
    axes.margins(y=0.15)
    axes.set_ylabel("words too many, or too few")
    axes.set_title(f"{expected.total():,} words, {kills} kills with SIGKILL")
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _options() -> WordOptions:
    parser = pipeline.parser(__doc__ or "", input_topic="", output_dir=NAME)
    parser.add_argument("--kills", type=int, default=4, metavar="N")
    parser.add_argument(
        "--lines", type=int, default=4000, metavar="N", help="lines of text to count"
    )
    parser.add_argument(
        "--pause-ms", type=int, default=1000, help="pause of a batch between its steps"
    )
    parser.add_argument("--plot", metavar="FILE", help="draw the result to FILE, as a PNG")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options = pipeline.options_of(parser.parse_args())
    # Each run has a topic and a directory of its own; otherwise it would count the rest of others.
    run = uuid.uuid4().hex[:6]
    options["input_topic"] = options["input_topic"] or f"{NAME}-{run}"
    if not options["work"]:
        options["output_dir"] = f"{options['output_dir']}/{run}"
    return WordOptions(**options)


def main() -> int:
    options = _options()
    if options.work:
        return work(options)
    lines = text_lines(options.lines)
    expected = words_of(lines)
    run_under_kills(options, lines)
    with pipeline.spark(options, NAME) as session:
        counting = Counting(session, options)
        counted = {mode: counting.result(mode) for mode in MODES}
    outcomes = {mode: outcome(expected, found) for mode, found in counted.items()}
    show(expected, outcomes)
    Path(options.output_dir).mkdir(parents=True, exist_ok=True)
    path = options.plot or f"{options.output_dir}/delivery.png"
    draw(expected, outcomes, path, options.kills)
    _say(f"picture: {path}")
    return 0 if counted[EXACTLY] == expected else 1


if __name__ == "__main__":
    sys.exit(main())
