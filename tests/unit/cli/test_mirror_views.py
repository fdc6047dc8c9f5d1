"""What is shown of a mirror's flows: rows, a table, metrics."""

from __future__ import annotations

from io import StringIO

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from rich.console import Console

from pybroker_kafka.cli.mirror_views import FlowRates, MirrorMetrics, flows_table
from pybroker_kafka.client.mirror.stats import FlowStats


def flow() -> FlowStats:
    made = FlowStats("A", "B", state="running", topics=2, partition_count=3, lag=7)
    made.add(("A.t", 0), 10, 1000, 5)
    made.add(("A.t", 1), 5, 500, 3)
    return made


def test_rates_are_evened_out() -> None:
    stats = FlowStats("A", "B")
    rates = FlowRates(stats, now=0.0)
    for second in range(1, 60):
        stats.records += 100
        stats.bytes += 1000
        rates.look(float(second))
    row = rates.row()
    assert abs(rates.records - 100) < 1
    assert abs(rates.bytes - 1000) < 10
    assert (row["flow"], row["records"], row["newest_age_ms"]) == ("A->B", 5900, None)


def test_the_row_of_a_flow() -> None:
    row = FlowRates(flow(), now=0.0).row()
    assert (row["records"], row["bytes"], row["lag"], row["newest_age_ms"]) == (15, 1500, 7, 3)
    assert (row["topics"], row["partitions"], row["state"]) == (2, 3, "running")


def test_the_table_has_a_line_a_flow() -> None:
    rates = [FlowRates(flow(), now=0.0), FlowRates(FlowStats("B", "A", copies=False), now=0.0)]
    shown = StringIO()
    Console(file=shown, width=100).print(flows_table(rates))
    lines = shown.getvalue().splitlines()
    assert any("A->B" in line and "running" in line and "1.5 kB" in line for line in lines)
    assert any("B->A" in line and "starting" in line for line in lines)


def test_metrics() -> None:
    registry = CollectorRegistry()
    registry.register(MirrorMetrics([flow()]))
    lines = generate_latest(registry).decode().splitlines()
    name = "kafka_connect_mirror_mirrorsourceconnector"
    place = '{partition="1",source="A",target="B",topic="A.t"}'
    assert f"{name}_record_count_total{place} 5.0" in lines
    assert f"{name}_byte_count_total{place} 500.0" in lines
    assert f"{name}_replication_latency_ms{place} 3.0" in lines
    assert 'pybroker_mirror_lag{flow="A->B"} 7.0' in lines
    assert 'pybroker_mirror_running{flow="A->B"} 1.0' in lines
    assert 'pybroker_mirror_batches_total{flow="A->B"} 2.0' in lines
