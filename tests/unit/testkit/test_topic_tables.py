"""What `kafka.table` waits for, and what it does not wait for."""

from __future__ import annotations

from typing import Any, cast

import pytest

from pybroker_kafka.client.admin import tables
from pybroker_kafka.client.admin.tables import TableReport, TableView
from pybroker_kafka.client.cluster import Cluster
from pybroker_kafka.local.cluster_state import ClusterError
from pybroker_kafka.tables.errors import problem_of
from pybroker_kafka.testkit.topic_tables import TableReading


class OneTopic:
    async def led_topic(self, topic: str, *, wait_for_missing: bool) -> None:
        assert topic == "flights"


async def test_a_missing_library_is_reported_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    error, advice = problem_of(ImportError("No module named 'pyarrow'"))
    report = TableReport("iceberg", "kafka.flights", "/lake", 0, error=error, advice=advice)
    view = TableView("flights", {}, 1, report, {}, 0)

    async def listed(_self: Any, topics: list[str]) -> list[TableView]:
        return [view]

    monkeypatch.setattr(tables.Tables, "list", listed)
    with pytest.raises(ClusterError, match=r"No module named 'pyarrow'; pip install 'pybroker-ka"):
        await TableReading("flights").wait(cast("Cluster", OneTopic()))
