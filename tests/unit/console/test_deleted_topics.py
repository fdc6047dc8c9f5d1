"""A topic that is deleted between two questions of a page is left out; the page is answered."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import trio

from pybroker_kafka.client.admin.records import EARLIEST, LATEST
from pybroker_kafka.console.cluster_view import ClusterView, Placed
from pybroker_kafka.console.shared import Shared
from pybroker_kafka.console.topics import topic_list

LED = Placed(leader=1, epoch=0, replicas=(1,), isr=(1,), offline=())
BEFORE = ClusterView("id", 1, {}, {"kept": (LED,), "deleted": (LED,), "made anew": (LED, LED)})
AFTER = ClusterView("id", 1, {}, {"kept": (LED,), "made anew": (LED,)})


class Records:
    """The view changes when the first offsets are asked for."""

    def __init__(self, collector: Any) -> None:
        self.collector = collector
        self.asked: list[set[tuple[str, int]]] = []

    async def offsets(self, wanted: dict[tuple[str, int], int], **_options: Any) -> Any:
        self.collector.view = AFTER
        self.asked.append(set(wanted))
        offset = {LATEST: 5, EARLIEST: 2}
        values = {p: SimpleNamespace(offset=offset[at]) for p, at in wanted.items()}
        return SimpleNamespace(values=values)


async def test_the_list_of_topics() -> None:
    async def sizes() -> Any:
        return {}

    collector: Any = SimpleNamespace(
        view=BEFORE, shared=Shared(), first_look=trio.lowlevel.checkpoint
    )
    records = Records(collector)
    collector.admin = SimpleNamespace(records=records, log_dirs=SimpleNamespace(sizes=sizes))
    rows = await topic_list(collector)
    before, after = records.asked
    assert before - after == {("deleted", 0), ("made anew", 1)}
    assert after == {("kept", 0), ("made anew", 0)}
    # Of the others either the first or the last offset is known: both are asked for at once.
    counts = {row["name"]: row["records"] for row in rows}
    assert counts.pop("kept") == 3
    assert counts in ({"deleted": 5, "made anew": 8}, {"deleted": 0, "made anew": 3})
