"""`python -m tests.torture.run --sequences 2000 --seed N`: sequences of what may happen to a local
cluster, some at once, each from a seed of its own; see `sequence` for what is checked.

A failing sequence is told at once with its seed, its steps and the ends of the logs, its directory
is kept, and `--seed SEED --sequences 1` makes the same choices again (the machine's timing is its
own).
Ends with a summary: times of the starts, and each line with which a start refused.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import resource
import selectors
import statistics
import sys
import tempfile
import time
import traceback
from collections import Counter
from dataclasses import asdict
from pathlib import Path

from tests.support.processes import hear_signals
from tests.torture import commands
from tests.torture.sequence import Report, Sequence


def main() -> int:
    hear_signals()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sequences", type=int, default=200)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--rounds", type=int, default=3, help="ends and starts in each sequence")
    parser.add_argument("--jobs", type=int, default=3, help="sequences at once")
    parser.add_argument("--ready-seconds", type=float, default=5.0, help="for an ordinary start")
    parser.add_argument("--tmpfs", action="store_true", help="small file systems, for full disks")
    parser.add_argument("--verbose", action="store_true", help="print the steps of every sequence")
    arguments = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="pybroker-torture-"))
    print(f"{arguments.sequences} sequences from seed {arguments.seed}, in {home}", flush=True)
    started = time.monotonic()
    reports = _run(arguments, home)
    failed = [report for report in reports if report.failure]
    _summarize(reports, time.monotonic() - started)
    if failed or len(reports) < arguments.sequences:
        print(f"FAILED seeds: {' '.join(str(report.seed) for report in failed)}")
        return 1
    home.rmdir()
    return 0


def _run(arguments: argparse.Namespace, home: Path) -> list[Report]:
    """Fork the jobs, and gather what they report."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    commands.prepare()
    pipes: dict[int, bytearray] = {}
    for job in range(arguments.jobs):
        read_end, write_end = os.pipe()
        if os.fork() == 0:
            os.close(read_end)
            _work(arguments, home, job, write_end)
        os.close(write_end)
        pipes[read_end] = bytearray()
    reports: list[Report] = []
    console = Console(file=sys.stdout, soft_wrap=True, highlight=False)
    columns = ("torture", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as progress, selectors.DefaultSelector() as selector:
        bar = progress.add_task("", total=arguments.sequences)
        for pipe in pipes:
            selector.register(pipe, selectors.EVENT_READ)
        while pipes:
            for key, _ in selector.select():
                assert isinstance(key.fileobj, int)
                chunk = os.read(key.fileobj, 1 << 16)
                *lines, rest = (bytes(pipes[key.fileobj]) + chunk).split(b"\n")
                pipes[key.fileobj] = bytearray(rest)
                if not chunk:
                    os.wait()
                    selector.unregister(key.fileobj)
                    del pipes[key.fileobj]
                for line in lines:
                    report = Report(**json.loads(line))
                    reports.append(report)
                    progress.advance(bar)
                    if report.failure or arguments.verbose:
                        progress.console.print(_told(report), markup=False)
    return reports


def _work(arguments: argparse.Namespace, home: Path, job: int, pipe: int) -> None:
    """In a forked process; never returns."""
    try:
        commands.end_with_parent()
        commands.prepare()
        for number in range(job, arguments.sequences, arguments.jobs):
            sequence = Sequence(
                arguments.seed + number,
                home / str(arguments.seed + number),
                rounds=arguments.rounds,
                ready_seconds=arguments.ready_seconds,
                tmpfs=arguments.tmpfs,
            )
            os.write(pipe, json.dumps(asdict(sequence.run())).encode() + b"\n")
    except KeyboardInterrupt:
        pass
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)


def _told(report: Report) -> str:
    steps = "\n  ".join(report.trace)
    verdict = report.failure or "passed"
    return f"\nseed {report.seed}:\n  {steps}\n{verdict}"


def _summarize(reports: list[Report], seconds: float) -> None:
    starts = sorted(start for report in reports for start in report.starts)
    refusals = Counter(
        re.sub(r"\d{4,}", "N", line) for report in reports for line in report.refusals
    )
    acknowledged = sum(report.acknowledged for report in reports)
    failed = sum(bool(report.failure) for report in reports)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_seconds = used.ru_utime + used.ru_stime
    print(f"{len(reports)} sequences in {seconds:.0f} s ({cpu_seconds:.0f} CPU s), {failed} failed")
    if starts:
        worst = ", ".join(f"{start:.2f}" for start in starts[-3:])
        median = statistics.median(starts)
        print(f"{len(starts)} starts ready after {median:.2f} s (median); the longest: {worst} s")
    print(f"{acknowledged} records acknowledged, and found after every start")
    for line, count in refusals.most_common():
        print(f"{count:5d} x {line}")


if __name__ == "__main__":
    sys.exit(main())
