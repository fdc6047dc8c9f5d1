"""What loads of small requests share: how they are sent, and the figures they give."""

from __future__ import annotations

from benchmarks.loads.base import Bench, Figure, Figures
from benchmarks.native import Answered, Lines, run_load

FIGURES = (
    Figure("requests/s", more_is_better=True),
    Figure("broker CPU us/request"),
    Figure("p99 ms"),
    Figure("client CPU us/request"),
)


def send_requests(
    bench: Bench,
    lines: list[Lines],
    *,
    connections: int,
    in_flight: int,
    error_at: int,
    tls: bool = False,
) -> Answered:
    """Ask for as long as the pace says; see `run_load` for the rest."""
    return run_load(
        lines,
        connections=connections,
        in_flight=in_flight,
        warm_up=bench.pace.warm_up,
        seconds=bench.pace.seconds,
        error_at=error_at,
        pids=bench.cluster.broker_pids,
        tls=tls,
    )


def figures_of(answered: Answered) -> Figures:
    return {
        "requests/s": answered.rate,
        "broker CPU us/request": answered.broker_us,
        "p99 ms": answered.p99_ms,
        "client CPU us/request": answered.client_us,
    }
