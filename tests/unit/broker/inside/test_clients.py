"""The views of clients and of records in flight, out of the objects of a broker."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from pybroker_kafka.broker.inside.clients import clients_of
from pybroker_kafka.broker.inside.in_flight import MOST_RUNS, records_in_flight
from pybroker_kafka.broker.network.request import ConnectionInfo
from pybroker_kafka.broker.observability.client_subscriptions import ClientFacts
from pybroker_kafka.broker.observability.client_telemetry import ClientValues, Point
from pybroker_kafka.broker.share.share_leader import Served
from pybroker_kafka.replication.share.in_flight import InFlightBatch, RecordState, Run
from pybroker_kafka.replication.share.limits import ShareLimits
from pybroker_kafka.replication.share.share_partition import Phase, SharePartition


def test_clients_have_their_software_and_what_they_pushed() -> None:
    peer = ConnectionInfo("10.0.0.1", 4711, "PLAINTEXT")
    peer.software_name, peer.software_version = "apache-kafka-java", "4.3.1"
    connection: Any = SimpleNamespace(client_id=None, peer=peer, last_active=7.5)
    values = ClientValues()
    facts = ClientFacts("shop", "librdkafka", "2.16.0", "10.0.0.2", "99")
    values.add(bytes(15) + b"\1", facts, [Point("latency.avg", "node=1", 5.0, False)])
    values.failed(bytes(15) + b"\2", facts)
    told = clients_of([connection], values, 8.0)
    assert told["count"] == 1
    (row,) = told["connections"]
    assert (row["client_id"], row["software"], row["version"]) == ("", "apache-kafka-java", "4.3.1")
    assert row["idle_ms"] == 500
    first, second = told["instances"]
    assert (first["client_id"], first["host"], first["pushes"]) == ("shop", "10.0.0.2", 1)
    assert first["values"] == [("latency.avg", "node=1", 5.0)]
    assert (second["errors"], second["values"]) == (1, [])


def served(group: str, *runs: Run) -> Served:
    machine = SharePartition(0, ShareLimits())
    machine.phase = Phase.ACTIVE
    for run in runs:
        machine.batches.add(InFlightBatch(run))
    return Served((group, bytes(16), 3), "jobs", 0, machine)


def test_records_in_flight_have_their_locks_and_deliveries() -> None:
    runs = (
        Run(10, 14, RecordState.ACQUIRED, 2, "member", 31_000),
        Run(15, 15, RecordState.AVAILABLE, 5),
    )
    (row,) = records_in_flight([served("other"), served("queue", *runs)], "queue", 1_000)
    assert (row["topic"], row["partition"], row["phase"]) == ("jobs", 3, "active")
    assert row["counts"] == {"acquired": 5, "available": 1}
    assert row["runs"][0] == {
        "first": 10, "last": 14, "state": "acquired", "deliveries": 2, "member": "member",
        "lock_ms": 30_000, "is_stored": True,
    }  # fmt: skip
    assert row["runs"][1]["lock_ms"] is None


def test_only_so_many_runs_are_told() -> None:
    runs = [Run(n, n, RecordState.AVAILABLE, 1) for n in range(MOST_RUNS + 5)]
    (row,) = records_in_flight([served("queue", *runs)], "queue", 0)
    assert (row["run_count"], len(row["runs"])) == (MOST_RUNS + 5, MOST_RUNS)
