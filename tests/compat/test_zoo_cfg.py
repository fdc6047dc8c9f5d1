"""The keys of a zoo.cfg that names no other servers have effect in `pybroker zookeeper`."""

from __future__ import annotations

from pathlib import Path

from tests.support.ensembles import four_letter_answer
from tests.support.processes import PYBROKER, ServerProcess, free_port
from tests.support.raw_zookeeper import RawClient

LIMITS_MS = (1500, 2500)


def test_one_server_keeps_its_limits(tmp_path: Path) -> None:
    port = free_port()
    zoo_cfg = tmp_path / "zoo.cfg"
    zoo_cfg.write_text(
        f"dataDir={tmp_path / 'data'}\nclientPort={port}\nclientPortAddress=127.0.0.1\n"
        f"tickTime=500\nminSessionTimeout={LIMITS_MS[0]}\nmaxSessionTimeout={LIMITS_MS[1]}\n"
        "maxClientCnxns=7\n"
    )
    server = ServerProcess([*PYBROKER, "zookeeper", str(zoo_cfg)], tmp_path / "log")
    server.start()
    try:
        for asked_ms, given_ms in ((100, LIMITS_MS[0]), (2000, 2000), (60_000, LIMITS_MS[1])):
            client = RawClient(port, timeout_ms=asked_ms)
            assert client.response.timeout_ms == given_ms
            client.sock.close()
        told = dict(
            line.split("=", 1) for line in four_letter_answer(port, b"conf").splitlines() if line
        )
    finally:
        server.kill()
    assert (told["tickTime"], told["maxClientCnxns"]) == ("500", "7")
    assert (told["minSessionTimeout"], told["maxSessionTimeout"]) == ("1500", "2500")
