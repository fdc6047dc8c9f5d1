"""Measured rates of real clients beside their quotas, on our broker and on Apache Kafka.

By hand: `python -m tests.compat.quota_table [seconds]`; it prints a table. Each client id has a
quota of its own; the four clients run at the same time on one broker, then on the other. The time
is three rounds of the windows: what a round lets through it does at its beginning, so that in any
other time, on either broker, clients get up to a tenth more.
"""

from __future__ import annotations

import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pybroker_kafka.protocol.apis.metadata import MetadataRequest
from tests.support.apache_kafka import ApacheKafkaProcess
from tests.support.processes import BrokerProcess, zookeeper_process
from tests.support.quota_loads import BATCH_BYTES, LOADS, VALUE
from tests.support.wire import WireClient
from tests.wire.test_client_quotas import alter

QUOTA = 500_000
SECONDS = 33.0


def measured(kind: type[BrokerProcess], seconds: float, quota: int = QUOTA) -> dict[str, float]:
    with (
        tempfile.TemporaryDirectory() as place,
        zookeeper_process(Path(place) / "zookeeper") as connect,
    ):
        broker = kind(Path(place) / "broker", connect)
        try:
            broker.start()
            return rates(broker.bootstrap, seconds, quota)
        finally:
            broker.kill()


def rates(bootstrap: str, seconds: float, quota: int) -> dict[str, float]:
    """Bytes a second of each client."""
    with WireClient(bootstrap) as wire:
        # Apache Kafka says that it is ready before its controller has spoken to it.
        while not wire.call(MetadataRequest(topics=[])).brokers:
            time.sleep(0.05)
        for name in LOADS:
            wire.create_topic(name=name.replace(" ", "-"))
            if name.endswith("consumes"):
                # What the first windows let through comes on top. A fetch gets a whole batch at
                # least: with large ones the last answer alone would be a tenth of the rate.
                for _ in range(int((seconds + 11) * quota / BATCH_BYTES) + 1):
                    wire.append(name.replace(" ", "-"), *[VALUE] * (BATCH_BYTES // len(VALUE)))
            key = "producer_byte_rate" if name.endswith("produces") else "consumer_byte_rate"
            alter(wire, {"client-id": name.replace(" ", "-")}, {key: float(quota)})
    with ThreadPoolExecutor(len(LOADS)) as pool:
        running = {
            name: pool.submit(
                load, bootstrap, name.replace(" ", "-"), name.replace(" ", "-"), seconds
            )
            for name, load in LOADS.items()
        }
        return {name: future.result() for name, future in running.items()}


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS
    ours, theirs = measured(BrokerProcess, seconds), measured(ApacheKafkaProcess, seconds)
    print(f"quota {QUOTA} B/s, {seconds:.0f} s; values only, in per cent of the quota")
    print(f"{'':24}{'pybroker':>12}{'Apache Kafka':>14}")
    for name in LOADS:
        print(f"{name:24}{100 * ours[name] / QUOTA:11.1f}%{100 * theirs[name] / QUOTA:13.1f}%")


if __name__ == "__main__":
    main()
