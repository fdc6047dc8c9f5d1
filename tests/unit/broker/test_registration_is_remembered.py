"""A broker that is killed while it registers leaves a session that its successor can close."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import pybroker_kafka.broker.server
from pybroker_kafka.broker.zk.registration import load_session, register_broker
from tests.support.in_process import broker, zookeeper


async def test_the_session_is_remembered_before_the_node_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remembered: list[int | None] = []

    def looked_at(record: Any, wall_ms: int, session_id: int, *rest: Any) -> Any:
        sessions = [load_session(place.parent) for place in tmp_path.rglob("meta.properties")]
        remembered.extend(session[0] if session else None for session in sessions)
        remembered.append(session_id)
        return register_broker(record, wall_ms, session_id, *rest)

    monkeypatch.setattr(pybroker_kafka.broker.server, "register_broker", looked_at)
    async with zookeeper() as port, broker(port, tmp_path):
        pass
    assert len(remembered) == 2
    assert remembered[0] == remembered[1]
