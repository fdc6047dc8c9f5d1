"""Consuming with Python's clients: ours, aiokafka, kafka-python and confluent-kafka, one core each.

One partition, written once and read by each; see `benchmarks.python_consumers` for the settings.
"""

from __future__ import annotations

from benchmarks.frames import create_topic, delete_topic, topic_name
from benchmarks.loads.base import Bench, Figure, Figures, Load
from benchmarks.loads.client_produce import PURE, run_client
from benchmarks.native import LoadError
from benchmarks.python_consumers import CLIENTS
from benchmarks.targets import client_figure

# By bytes of a value: how many records a second of the pace's time.
SIZES = {100: 100_000, 1024: 50_000}
NAMES = [*CLIENTS, "pybroker" + PURE]


def consume(bench: Bench, value_bytes: int, records: int) -> Figures:
    bootstrap = bench.cluster.bootstrap
    topic = topic_name("clients")
    create_topic(bootstrap, topic, 1)
    words = [bootstrap, topic, str(records), str(value_bytes)]
    run_client("python_producers", "confluent-kafka", *words)
    figures: Figures = {}
    for name in NAMES:
        told = run_client("python_consumers", name, bootstrap, topic, str(records))
        if told["value_bytes"] != told["records"] * value_bytes:
            raise LoadError(f"{name} has read other values: {told}")
        figures[f"{name} records/s"] = told["records"] / told["seconds"]
        figures[client_figure(name)] = told["cpu"] / told["records"] * 1e6
    delete_topic(bootstrap, topic)
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
        name=f"clients-consume-{value_bytes}b",
        family="clients-consume",
        figures=tuple(figures),
        run=lambda bench: consume(bench, value_bytes, int(rate * bench.pace.seconds)),
        warms_up=False,
    )


LOADS = [_load(value_bytes, rate) for value_bytes, rate in SIZES.items()]
