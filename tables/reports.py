"""Reports of a table to the cluster, as the offsets of a group: see `client.admin.tables`.

Invariants: they are sent at most once in INTERVAL_SECONDS and at least once in EVERY_SECONDS,
beside the writer, which does not wait for them. A cluster that refuses them stops no table. Dead
letters are counted on from the last report of the process before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import trio

from ..client.admin.group_offsets import CommittedOffset, GroupOffsets
from ..client.admin.tables import TableReport, group_of, history_text, report_of, report_text
from ..client.cluster import Cluster
from ..client.errors import ClientError
from .place import Place
from .state import TableState, now_ms

INTERVAL_SECONDS: Final = 1.0
EVERY_SECONDS: Final = 60.0


class Reports:
    def __init__(
        self, cluster: Cluster, place: Place, topic: str, log: Callable[[str], None]
    ) -> None:
        self._offsets = GroupOffsets(cluster)
        self._place = place
        self._topic = topic
        self._log = log
        self._state: TableState | None = None
        self._changed = trio.Event()
        self._before: dict[int, int] | None = None  # offsets of the last report; None: not read
        self._dead_letters_before = 0
        self._problem = ""

    def note(self, state: TableState) -> None:
        """The state has changed."""
        self._state = state
        self._changed.set()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            with trio.move_on_after(EVERY_SECONDS):
                await self._changed.wait()
            self._changed = trio.Event()
            if self._state is not None:
                try:
                    await self._send(self._state)
                    self._problem = ""
                except ClientError as error:
                    if str(error) != self._problem:
                        self._problem = str(error)
                        self._log(f"the state of the table of {self._topic} is not told: {error}")
            await trio.sleep(INTERVAL_SECONDS)

    async def _send(self, state: TableState) -> None:
        """Raises ClientError."""
        if self._before is None:
            self._before = await self._last()
        offsets = {0: 0, **self._before, **state.offsets}
        text = report_text(self._report(state))
        committed = {
            (self._topic, partition): CommittedOffset(
                offset, metadata=history_text(_history(state, partition)) if partition else text
            )
            for partition, offset in offsets.items()
        }
        (await self._offsets.alter(group_of(self._topic), committed)).all()

    async def _last(self) -> dict[int, int]:
        """The offsets of the last report. Raises ClientError."""
        found = (await self._offsets.list(group_of(self._topic))).all()
        if (self._topic, 0) in found:
            report = report_of(found[self._topic, 0].metadata)
            self._dead_letters_before = 0 if report is None else report.dead_letters
        return {
            partition: one.offset
            for (topic, partition), one in found.items()
            if topic == self._topic
        }

    def _report(self, state: TableState) -> TableReport:
        facts = state.facts
        return TableReport(
            format=state.format,
            name=f"{self._place.namespace}.{self._place.table_name(self._topic)}",
            warehouse=self._place.warehouse,
            reported_ms=now_ms(),
            snapshot=facts.snapshot,
            committed_ms=facts.committed_ms,
            whole_ms=state.whole_ms,
            rows=facts.rows,
            files=facts.files,
            size_bytes=facts.size_bytes,
            dead_letters=self._dead_letters_before + state.dead_letters,
            compaction=facts.compaction,
            generation=facts.generation,
            error=state.error,
            advice=state.advice,
            snapshots=tuple(one.told for one in facts.snapshots),
            offsets=_history(state, 0),
        )


def _history(state: TableState, partition: int) -> tuple[int | None, ...]:
    return tuple(one.offsets.get(partition) for one in state.facts.snapshots)
