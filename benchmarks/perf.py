"""perf (Linux) beside the broker that users start, while a load runs alone on it."""

from __future__ import annotations

import signal
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.brokers import BROKERS
from benchmarks.loads.base import FULL, Bench, Figures, Load
from benchmarks.run import warm_up

END_SECONDS = 30


def recorded(
    load: Load, seconds: float, record: Sequence[str], script: Sequence[str]
) -> tuple[Figures, list[str]]:
    """What the load measured, and the lines of `perf script`; both with these options."""
    with tempfile.TemporaryDirectory(prefix="pybroker-perf-") as place:
        cluster = BROKERS["pybroker"](Path(place) / "cluster", load.nodes)
        bench = Bench(FULL._replace(seconds=seconds), lambda _: cluster, cluster)
        data = str(Path(place) / "perf.data")
        try:
            cluster.start()
            if load.warms_up:
                warm_up(bench)
            pids = ",".join(map(str, cluster.broker_pids))
            perf = subprocess.Popen(["perf", "record", "-q", *record, "-p", pids, "-o", data])
            try:
                figures = load.run(bench)
            finally:
                perf.send_signal(signal.SIGINT)
                perf.wait(END_SECONDS)
        finally:
            cluster.kill()
        command = ["perf", "script", "-i", data, *script]
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return figures, told.splitlines()
