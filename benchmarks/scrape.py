"""A metrics scrape of a broker with thousands of partitions: `python -m benchmarks.scrape`.

There is one broker with one topic. The benchmark scrapes its metrics port repeatedly, like
Prometheus, while a producer sends one record at a time and waits for the response. It measures the
seconds and the size of a scrape, the number of times that the broker's loop was blocked for 10 ms
or more (from the broker's own count), and the producer's 99th percentile with and without scrapes.
"""

from __future__ import annotations

import argparse
import re
import statistics
import threading
import time
import urllib.request

from kafka import KafkaProducer

from pybroker_kafka.local.cluster_state import load
from pybroker_kafka.testing import KafkaCluster

SCRAPES = 20
PAUSE_SECONDS = 0.5
STALLS = re.compile(r"^pybroker_loop_stalls_total (\S+)$", re.MULTILINE)


def scrape(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        return str(answer.read().decode())


def stalls(text: str) -> float:
    found = STALLS.search(text)
    assert found is not None
    return float(found[1])


class Load:
    """A producer of single records, each waited for."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._producer = KafkaProducer(bootstrap_servers=bootstrap)
        self._topic = topic
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.took_ms: list[float] = []

    def _run(self) -> None:
        while not self._is_over.is_set():
            began = time.perf_counter()
            self._producer.send(self._topic, b"x" * 100, partition=0).get(30)
            self.took_ms.append(1000 * (time.perf_counter() - began))

    def start(self) -> None:
        self._thread.start()

    def p99_ms(self, first: int = 0) -> float:
        return statistics.quantiles(self.took_ms[first:], n=100)[98]

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join()
        self._producer.close()


def measure(partitions: int) -> None:
    with KafkaCluster(metrics_port=0) as kafka:
        topic = kafka.topic("wide", partitions=partitions)
        (broker,) = load(kafka.data_dir).brokers
        running = Load(kafka.bootstrap, topic)
        running.start()
        at_first = stalls(scrape(broker.metrics_port))
        time.sleep(SCRAPES * PAUSE_SECONDS)
        alone, first = running.p99_ms(), len(running.took_ms)
        before = stalls(scrape(broker.metrics_port))
        seconds, text = [], ""
        for _ in range(SCRAPES):
            began = time.perf_counter()
            text = scrape(broker.metrics_port)
            seconds.append(time.perf_counter() - began)
            time.sleep(PAUSE_SECONDS)
        during, held = running.p99_ms(first), stalls(scrape(broker.metrics_port)) - before
        running.stop()
    print("| partitions | lines | MB | scrape | longest | loop held 10 ms; alone | p99; alone |")
    print("|---|---|---|---|---|---|---|")
    print(
        f"| {partitions} | {text.count(chr(10))} | {len(text) / 1e6:.1f} "
        f"| {1000 * statistics.median(seconds):.0f} ms | {1000 * max(seconds):.0f} ms "
        f"| {held:.0f}; {before - at_first:.0f} times | {during:.1f}; {alone:.1f} ms |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=5000)
    measure(parser.parse_args().partitions)


if __name__ == "__main__":
    main()
