"""kazoo clients of tests that end with their block."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from kazoo.client import KazooClient

START_SECONDS = 60


@contextlib.contextmanager
def started(client: KazooClient) -> Iterator[KazooClient]:
    client.start(timeout=START_SECONDS)
    try:
        yield client
    finally:
        client.stop()
        client.close()
