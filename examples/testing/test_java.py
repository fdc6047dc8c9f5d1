"""A Java client, started by the test; KAFKA_CLIENTS is a folder with the jars of kafka-clients."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from pybroker_kafka.testing import KafkaCluster

JARS = os.environ.get("KAFKA_CLIENTS")
PROGRAM = Path(__file__).with_name("Orders.java")


@pytest.mark.skipif(JARS is None or shutil.which("java") is None, reason="needs java and jars")
def test_orders(kafka: KafkaCluster) -> None:
    orders = kafka.topic("orders")
    program = ["java", "-cp", f"{JARS}/*", str(PROGRAM), kafka.bootstrap, orders]
    subprocess.run(program, check=True, timeout=100)
    assert [(one.key, one.value) for one in kafka.records(orders)] == [(b"Java", b"one order")]
