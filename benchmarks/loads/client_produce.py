"""Producing with Python's clients: ours, aiokafka, kafka-python and confluent-kafka, one core each.

One partition; see `benchmarks.python_producers` for the settings, which are the same for all.
"""

from __future__ import annotations

import json
import subprocess
import sys

from benchmarks.frames import create_topic, delete_topic, topic_name
from benchmarks.loads.base import Bench, Figure, Figures, Load
from benchmarks.native import LoadError
from benchmarks.python_producers import CLIENTS

# By bytes of a value: how many records a second of the pace's time, so that each takes about that.
SIZES = {100: 40_000, 1024: 20_000}
LIMIT_SECONDS = 120.0


def produce(bench: Bench, value_bytes: int, records: int) -> Figures:
    figures: Figures = {}
    for name in CLIENTS:
        topic = topic_name("clients")
        create_topic(bench.cluster.bootstrap, topic, 1)
        words = [name, bench.cluster.bootstrap, topic, str(records), str(value_bytes)]
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.python_producers", *words],
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
            check=False,
        )
        if done.returncode:
            raise LoadError(f"{name}: {done.stderr[-300:]}")
        told = json.loads(done.stdout)
        figures[f"{name} records/s"] = told["records"] / told["seconds"]
        figures[f"{name} CPU us a record"] = told["cpu"] / told["records"] * 1e6
        delete_topic(bench.cluster.bootstrap, topic)
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
        name=f"clients-produce-{value_bytes}b",
        family="clients-produce",
        figures=tuple(figures),
        run=lambda bench: produce(bench, value_bytes, int(rate * bench.pace.seconds)),
        warms_up=False,
        most_rounds=1,
    )


LOADS = [_load(value_bytes, rate) for value_bytes, rate in SIZES.items()]
