"""Clients of several brokers in one list, and the metrics that they push."""

from __future__ import annotations

from typing import Any

from pybroker_kafka.console.clients import is_error, merged, pushed

PREFIX = "org.apache.kafka."


def connection(client_id: str, idle_ms: int = 0, host: str = "10.0.0.1") -> dict[str, Any]:
    return {
        "client_id": client_id,
        "software": "apache-kafka-java",
        "version": "4.3.1",
        "host": host,
        "port": 1,
        "listener": "PLAINTEXT",
        "principal": "User:ANONYMOUS",
        "idle_ms": idle_ms,
    }


def instance(name: str, pushes: int, *values: tuple[str, float]) -> dict[str, Any]:
    told = [(PREFIX + metric, "", value) for metric, value in values]
    return {"instance": name, "client_id": "c", "pushes": pushes, "errors": 0, "values": told}


def test_connections_of_a_client_are_one_row() -> None:
    told = {
        2: {"connections": [connection("b"), connection("a", 50)]},
        1: {"connections": [connection("a", 70), connection("a", 90), connection("a", host="x")]},
    }
    rows = [(r["client_id"], r["brokers"], r["connections"], r["idle_ms"]) for r in merged(told)]
    assert rows == [("a", [1, 2], 3, 50), ("a", [1], 1, 0), ("b", [2], 1, 0)]


def test_of_a_client_that_went_to_another_broker_the_newest_push_counts() -> None:
    told = {
        1: {"instances": [instance("x", 3, ("producer.node.request.latency.avg", 7.0))]},
        2: {"instances": [instance("x", 1, ("producer.node.request.latency.avg", 9.0))]},
    }
    (row,) = pushed(told)
    assert (row["broker"], row["latency_ms"], row["failures"]) == (1, 7.0, None)


def test_latency_is_the_largest_average_and_errors_are_summed() -> None:
    values = (
        ("producer.node.request.latency.avg", 5.0),
        ("producer.request.latency.max", 80.0),
        ("consumer.coordinator.commit.latency.avg", 6.0),
        ("producer.record.error.total", 2.0),
        ("producer.record.error.rate", 0.5),
    )
    (row,) = pushed({1: {"instances": [instance("x", 1, *values)]}})
    assert (row["latency_ms"], row["failures"]) == (6.0, 2.0)
    assert not is_error(PREFIX + "producer.connection.creation.total")
