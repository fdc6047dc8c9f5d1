"""Consuming with Python's clients: ours, aiokafka, kafka-python and confluent-kafka, one core each.

One partition, written once and read by each; see `benchmarks.python_consumers` for the settings.
"""

from __future__ import annotations

import json
import subprocess
import sys

from benchmarks.frames import create_topic, delete_topic, topic_name
from benchmarks.loads.base import Bench, Figure, Figures, Load
from benchmarks.native import LoadError
from benchmarks.python_consumers import CLIENTS

# By bytes of a value: how many records a second of the pace's time.
SIZES = {100: 100_000, 1024: 50_000}
LIMIT_SECONDS = 120.0


def _run(module: str, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", module, *words],
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
        check=False,
    )
    if done.returncode:
        raise LoadError(f"{words[0]}: {done.stderr[-300:]}")
    return done.stdout


def consume(bench: Bench, value_bytes: int, records: int) -> Figures:
    bootstrap = bench.cluster.bootstrap
    topic = topic_name("clients")
    create_topic(bootstrap, topic, 1)
    words = ["confluent-kafka", bootstrap, topic, str(records), str(value_bytes)]
    _run("benchmarks.python_producers", *words)
    figures: Figures = {}
    for name in CLIENTS:
        told = json.loads(_run("benchmarks.python_consumers", name, bootstrap, topic, str(records)))
        figures[f"{name} records/s"] = told["records"] / told["seconds"]
        figures[f"{name} CPU us a record"] = told["cpu"] / told["records"] * 1e6
    delete_topic(bootstrap, topic)
    return figures


def _load(value_bytes: int, rate: int) -> Load:
    figures = [
        figure
        for name in CLIENTS
        for figure in (
            Figure(f"{name} records/s", more_is_better=True),
            Figure(f"{name} CPU us a record"),
        )
    ]
    return Load(
        name=f"clients-consume-{value_bytes}b",
        family="clients-consume",
        figures=tuple(figures),
        run=lambda bench: consume(bench, value_bytes, int(rate * bench.pace.seconds)),
        warms_up=False,
        most_rounds=1,
    )


LOADS = [_load(value_bytes, rate) for value_bytes, rate in SIZES.items()]
