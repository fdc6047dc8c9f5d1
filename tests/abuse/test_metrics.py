"""Scrapes that begin and never end, on the metrics port: real ones are answered, clients go on."""

from __future__ import annotations

import time
import urllib.request

from tests.abuse.beside import Bystander, assert_unharmed
from tests.abuse.storms import connections, send_what_goes

SCRAPES = 300
SECONDS = 1.0


def scrape(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        text: str = answer.read().decode()
    return text


def test_half_open_scrapes(shared: Bystander) -> None:
    port = shared.metrics_port

    def abuse() -> None:
        with connections(port, SCRAPES) as opened:
            for connection in opened:
                send_what_goes(connection, b"GET /metrics HTTP/1.1\r\n")
            end = time.monotonic() + SECONDS
            while time.monotonic() < end:
                assert "kafka_server_" in scrape(port)
                time.sleep(0.2)

    assert_unharmed(shared, f"{SCRAPES} half-open scrapes", abuse)
