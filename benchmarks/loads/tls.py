"""Over TLS 1.3: small requests and bulk as without, and how many clients a second can come.

The certificate has an RSA key of 2048 bits. Clients do not look at it, so that what is measured is
the broker's share; they never resume a session. Handshakes are those of `openssl s_time`, one
after the other in each of its processes.
"""

from __future__ import annotations

import re
import shutil
import subprocess

from benchmarks.brokers import Cluster
from benchmarks.frames import (
    RECORD_BYTES,
    create_topic,
    delete_topic,
    produce_error_at,
    produce_frame,
    topic_name,
)
from benchmarks.loads.base import Bench, BrokerCpu, Figure, Figures, Load
from benchmarks.loads.bulk import CONSUMER, PRODUCER
from benchmarks.loads.requests import FIGURES, figures_of, send_requests
from benchmarks.loads.small_produce import MOST_PARTITIONS, SHAPES
from benchmarks.native import LeftOut, Lines, LoadError, bulk_consume, bulk_produce

CLIENT = {"security.protocol": "ssl", "enable.ssl.certificate.verification": "false"}
BULK_SHARE = 0.5  # of the size of a bulk load
COMERS = 2  # processes that shake hands
_COUNTED = re.compile(r"(\d+) connections in (\d+) real seconds")


def secured(cluster: Cluster) -> str:
    host, port = cluster.secured
    return f"{host}:{port}"


def small(bench: Bench, connections: int, in_flight: int) -> Figures:
    cluster = bench.cluster
    topic = topic_name("tls")
    partitions = min(connections, MOST_PARTITIONS)
    create_topic(cluster.bootstrap, topic, partitions)
    frames = [[produce_frame(topic, partition)] for partition in range(partitions)]
    answered = send_requests(
        bench,
        [Lines(cluster.secured, each) for each in frames],
        connections=connections,
        in_flight=in_flight,
        error_at=produce_error_at(topic),
        tls=True,
    )
    delete_topic(cluster.bootstrap, topic)
    return figures_of(answered)


def bulk(bench: Bench) -> Figures:
    cluster, records = bench.cluster, bench.pace.records(BULK_SHARE)
    topic = topic_name("tls-bulk")
    create_topic(cluster.bootstrap, topic, 1)
    cpu = BrokerCpu(cluster)
    settings = PRODUCER | CLIENT | {"compression.codec": "none", "acks": "1"}
    produced = bulk_produce(secured(cluster), topic, records, RECORD_BYTES, settings)
    produce_cpu = cpu.spent()
    cpu = BrokerCpu(cluster)
    settings = CONSUMER | CLIENT
    consumed = bulk_consume(secured(cluster), topic, records, RECORD_BYTES, 1, settings)
    consume_cpu = cpu.spent()
    delete_topic(cluster.bootstrap, topic)
    return {
        "produce MB/s": produced.rate,
        "produce broker CPU s/GB": produced.cost(produce_cpu),
        "consume MB/s": consumed.rate,
        "consume broker CPU s/GB": consumed.cost(consume_cpu),
    }


def handshakes(bench: Bench) -> Figures:
    openssl = shutil.which("openssl")
    if openssl is None:
        raise LeftOut("handshakes are made by openssl, which is not on PATH")
    cluster = bench.cluster
    seconds = max(2, round(bench.pace.seconds))
    command = [openssl, "s_time", "-connect", secured(cluster), "-new", "-time", str(seconds)]
    cpu = BrokerCpu(cluster)
    comers = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for _ in range(COMERS)
    ]
    total, rate = 0, 0.0
    for comer in comers:
        told = comer.communicate(timeout=seconds + 60)[0]
        counted = _COUNTED.search(told)
        if counted is None:
            raise LoadError(f"openssl s_time says {told[-300:]}")
        total += int(counted[1])
        rate += int(counted[1]) / int(counted[2])
    return {"handshakes/s": rate, "broker CPU us/handshake": cpu.spent() / total * 1e6}


def _small(connections: int, in_flight: int) -> Load:
    return Load(
        name=f"tls-{connections}x{in_flight}",
        family="tls",
        figures=FIGURES,
        run=lambda bench: small(bench, connections, in_flight),
        most_rounds=2,
    )


LOADS = [
    *(_small(*shape) for shape in SHAPES),
    Load(
        name="tls-bulk",
        family="tls",
        figures=(
            Figure("produce MB/s", more_is_better=True),
            Figure("produce broker CPU s/GB"),
            Figure("consume MB/s", more_is_better=True),
            Figure("consume broker CPU s/GB"),
        ),
        run=bulk,
        most_rounds=2,
    ),
    Load(
        name="tls-handshakes",
        family="tls",
        figures=(Figure("handshakes/s", more_is_better=True), Figure("broker CPU us/handshake")),
        run=handshakes,
        warms_up=False,
        most_rounds=1,
    ),
]
