"""Clients that ask much and read nothing: what waits for them is bounded, and the others go on."""

from __future__ import annotations

import time

from pybroker_kafka.protocol.apis.metadata import MetadataRequest
from tests.abuse.beside import Bystander, assert_unharmed
from tests.abuse.storms import connections, resident_mb, send_what_goes, settled_mb
from tests.support.wire import WireClient

READERS = 40
REQUESTS = 1_000
RECEIVE_BUFFER_BYTES = 4096
SECONDS = 1.0
# For each reader: the answers of one turn, and requests that are not handled yet.
READER_MB = 0.6
SLACK_MB = 30


def test_slow_readers(shared: Bystander) -> None:
    pid = shared.broker.pid
    with WireClient(shared.bootstrap) as client:
        frame = client.frame(MetadataRequest(topics=None), 9)
    before = resident_mb(pid)
    largest = before

    def abuse() -> None:
        nonlocal largest
        with connections(shared.broker.port, READERS, RECEIVE_BUFFER_BYTES) as opened:
            for connection in opened:
                send_what_goes(connection, frame * REQUESTS)
            end = time.monotonic() + SECONDS
            while time.monotonic() < end:
                largest = max(largest, resident_mb(pid))
                time.sleep(0.05)

    assert_unharmed(shared, f"{READERS} that read no answer", abuse)
    assert largest < before + READERS * READER_MB + SLACK_MB
    assert settled_mb(pid, before + SLACK_MB) <= before + SLACK_MB
