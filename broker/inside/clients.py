"""The clients of this broker: their connections, and the metrics that they push (KIP-714).

A row a connection: client id, software as its ApiVersions said, address, login, idle time. A row a
client instance that pushed metrics, with its last values. Kafka has nothing like it; the values are
those of `observability.client_telemetry`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..network.connection import Connection
    from ..observability.client_telemetry import ClientValues

MOST_CONNECTIONS = 2000
MOST_INSTANCES = 500
MOST_VALUES = 10_000


def clients_of(
    connections: Iterable[Connection], values: ClientValues, now_seconds: float
) -> dict[str, Any]:
    """`now_seconds`: of the clock that connections are timed by (`perf_counter`)."""
    everyone = list(connections)
    return {
        "count": len(everyone),
        "connections": [
            {
                "client_id": one.client_id or "",
                "software": one.peer.software_name,
                "version": one.peer.software_version,
                "host": one.peer.host,
                "port": one.peer.port,
                "listener": one.peer.listener_name,
                "principal": str(one.peer.principal),
                "idle_ms": max(0, round((now_seconds - one.last_active) * 1000)),
            }
            for one in everyone[:MOST_CONNECTIONS]
        ],
        "instances": _instances(values),
    }


def _instances(values: ClientValues) -> list[Mapping[str, Any]]:
    pushed: defaultdict[str, list[tuple[str, str, float]]] = defaultdict(list)
    for (instance, _, metric, attributes), value in islice(values.rows(), MOST_VALUES):
        pushed[instance].append((metric, attributes, value))
    return [
        {
            "instance": instance,
            "client_id": facts.client_id or "",
            "software": facts.client_software_name,
            "version": facts.client_software_version,
            "host": facts.client_source_address,
            "pushes": pushes,
            "errors": errors,
            "values": pushed.get(instance, []),
        }
        for instance, facts, pushes, errors in islice(values.clients(), MOST_INSTANCES)
    ]
