"""The data of the page of clients: connections, and the metrics that clients push (KIP-714).

It comes from the brokers' metrics ports. Connections of one client are one row: those with its
client id, software, address and login.
"""

from __future__ import annotations

from typing import Any, Final

import trio
from starlette.datastructures import QueryParams

from .asked import Wrong
from .collector import Collector
from .inside import inside_of

CLIENTS_SECONDS: Final = 2.0
ROWS_MAX: Final = 1000
_SAME: Final = ("client_id", "software", "version", "host", "principal")


async def client_list(collector: Collector) -> dict[str, Any]:
    """The clients, and the metrics of those that push some. Raises Wrong."""

    async def ask() -> dict[str, Any]:
        told, problem = await _told(collector)
        return {
            "clients": merged(told)[:ROWS_MAX],
            "connections": sum(one["count"] for one in told.values()),
            "pushed": pushed(told)[:ROWS_MAX],
            "problem": problem,
        }

    return await collector.shared.get("clients", CLIENTS_SECONDS, ask)


async def _told(collector: Collector) -> tuple[dict[int, Any], str]:
    told: dict[int, Any] = {}
    problems: list[str] = []

    async def read(broker: int) -> None:
        try:
            asked = QueryParams({"view": "clients", "broker": str(broker)})
            told[broker] = await inside_of(collector, asked)
        except Wrong as error:
            problems.append(str(error))

    async with trio.open_nursery() as nursery:
        for broker in collector.view.brokers:
            nursery.start_soon(read, broker)
    return told, "" if told or not problems else problems[0]


def merged(told: dict[int, Any]) -> list[dict[str, Any]]:
    """A row a client, by client id, with its brokers and connections; pure."""
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    for broker, one in sorted(told.items()):
        for each in one["connections"]:
            key = tuple(each[name] for name in _SAME)
            row = found.setdefault(
                key,
                {**dict(zip(_SAME, key, strict=True)), "brokers": [], "connections": 0,
                 "idle_ms": each["idle_ms"]},
            )  # fmt: skip
            if broker not in row["brokers"]:
                row["brokers"].append(broker)
            row["connections"] += 1
            row["idle_ms"] = min(row["idle_ms"], each["idle_ms"])
    return [found[key] for key in sorted(found)]


def pushed(told: dict[int, Any]) -> list[dict[str, Any]]:
    """A row a client instance: it pushes to one broker at a time; pure.

    `latency_ms`: the largest average latency among its values; `failures`: the sum of its counts
    of errors.
    """
    found: dict[str, dict[str, Any]] = {}
    for broker, one in sorted(told.items()):
        for each in one["instances"]:
            before = found.get(each["instance"])
            if before is not None and before["pushes"] >= each["pushes"]:
                continue
            names = [(metric, value) for metric, _, value in each["values"]]
            latencies = [value for metric, value in names if is_latency(metric)]
            failures = [value for metric, value in names if is_error(metric)]
            found[each["instance"]] = {
                **each,
                "broker": broker,
                "latency_ms": max(latencies, default=None),
                "failures": sum(failures) if failures else None,
            }
    return sorted(found.values(), key=lambda row: (row["client_id"], row["instance"]))


def is_latency(metric: str) -> bool:
    """`org.apache.kafka.producer.node.request.latency.avg`, for one."""
    return metric.endswith((".latency.avg", ".latency.time.avg"))


def is_error(metric: str) -> bool:
    return ".error" in metric and not metric.endswith((".rate", ".ratio", ".avg", ".max"))
