"""Producing with Python's clients: ours, aiokafka, kafka-python and confluent-kafka, one core each.

One partition; see `benchmarks.python_producers` for the settings, which are the same for all.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from benchmarks.frames import create_topic, delete_topic, topic_name
from benchmarks.loads.base import Bench, Figure, Figures, Load
from benchmarks.native import LoadError
from benchmarks.python_producers import CLIENTS
from benchmarks.targets import client_figure

# By bytes of a value: how many records a second of the pace's time, so that each takes about that.
SIZES = {100: 40_000, 1024: 20_000}
LIMIT_SECONDS = 120.0

PURE = "-pure"  # of ours: nothing of it is compiled
NAMES = [*CLIENTS, "pybroker" + PURE]


def run_client(module: str, client: str, *words: str) -> Any:
    """What it prints. Raises LoadError if it fails."""
    pure = {"PYBROKER_COMPILED": "0"} if client.endswith(PURE) else {}
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{module}", client.removesuffix(PURE), *words],
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
        check=False,
        env=os.environ | pure,
    )
    if done.returncode:
        raise LoadError(f"{client}: {done.stderr[-300:]}")
    return json.loads(done.stdout)


def produce(bench: Bench, value_bytes: int, records: int) -> Figures:
    figures: Figures = {}
    for name in NAMES:
        topic = topic_name("clients")
        create_topic(bench.cluster.bootstrap, topic, 1)
        words = [bench.cluster.bootstrap, topic, str(records), str(value_bytes)]
        told = run_client("python_producers", name, *words)
        figures[f"{name} records/s"] = told["records"] / told["seconds"]
        figures[client_figure(name)] = told["cpu"] / told["records"] * 1e6
        delete_topic(bench.cluster.bootstrap, topic)
    return figures


def _load(value_bytes: int, rate: int) -> Load:
    figures = [
        figure
        for name in NAMES
        for figure in (
            Figure(f"{name} records/s", more_is_better=True),
            Figure(client_figure(name)),
        )
    ]
    return Load(
        name=f"clients-produce-{value_bytes}b",
        family="clients-produce",
        figures=tuple(figures),
        run=lambda bench: produce(bench, value_bytes, int(rate * bench.pace.seconds)),
        warms_up=False,
    )


LOADS = [_load(value_bytes, rate) for value_bytes, rate in SIZES.items()]
