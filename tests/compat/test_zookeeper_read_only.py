"""A member that has lost the others of its ensemble, and serves clients which only read."""

from __future__ import annotations

from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NotReadOnlyCallError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import KeeperState

from tests.support.ensembles import ensemble, four_letter_answer
from tests.support.nightly import chosen
from tests.support.patience import until
from tests.support.real_zookeeper import jars

OURS, TWO_REAL = ("ours", "ours", "ours"), ("ours", "real", "real")


@pytest.mark.parametrize("kinds", chosen([OURS, TWO_REAL], [OURS]), ids="-".join)
def test_a_member_without_the_others(tmp_path: Path, kinds: tuple[str, ...]) -> None:
    if "real" in kinds and jars() is None:
        pytest.skip("no Java, or no pyspark with ZooKeeper's jars")
    with ensemble(tmp_path, kinds, settings={"readonlymode.enabled": "true"}) as running:
        running.launch()
        running.await_leader()
        with running.client(1) as client:
            client.create("/there", b"kept")
            client.sync("/")
        running.kill(2)
        running.kill(3)
        port = running.members[1].port
        until(lambda: four_letter_answer(port, b"isro") == "ro")
        assert "READ-ONLY mode" in four_letter_answer(port, b"srvr")
        assert "Mode: read-only" in four_letter_answer(port, b"stat")
        reader = KazooClient(f"127.0.0.1:{port}", read_only=True)
        writer = KazooClient(f"127.0.0.1:{port}", connection_retry={"max_tries": 0})
        try:
            reader.start(timeout=60)
            assert reader.client_state == KeeperState.CONNECTED_RO
            assert reader.get("/there")[0] == b"kept"
            for refused in (reader.create, reader.delete, reader.sync):
                with pytest.raises(NotReadOnlyCallError):
                    refused("/there")
            with pytest.raises(KazooTimeoutError):
                writer.start(timeout=1)
            running.launch(2)
            running.await_leader(1, 2)
            until(lambda: reader.client_state == KeeperState.CONNECTED)
            reader.retry(reader.create, "/again")
        finally:
            for one in (reader, writer):
                one.stop()
                one.close()
