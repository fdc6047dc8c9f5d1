"""The table of a topic as a test reads it: whole, once the writer has caught up.

Invariant: the rows are those of all records that were committed when the test asked, and perhaps of
later ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import trio

from ..client.admin.tables import TABLE_CONFIG, TableReport, Tables, TableView
from ..client.cluster import Cluster
from ..local.cluster_state import ClusterError
from ..tables.errors import INSTALL
from ..tables.place import Place
from ..tables.reading import rows_of

if TYPE_CHECKING:
    import pyarrow as pa

POLL_SECONDS: Final = 0.25


class TableReading:
    """A question for the table of a topic, and what has been missing so far."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._view: TableView | None = None

    async def wait(self, cluster: Cluster) -> TableReport:
        """Wait until the table has all records of now, forever if need be. Raises ClusterError for
        a topic without a table, and where the format's library is not installed."""
        await cluster.led_topic(self._topic, wait_for_missing=True)
        ends: dict[int, int | None] | None = None
        while True:
            found = await Tables(cluster).list([self._topic])
            if not found:
                raise ClusterError(
                    f"topic {self._topic!r} has no table; make it with "
                    f'kafka.topic(..., config={{"{TABLE_CONFIG}": "iceberg", '
                    f'"{TABLE_CONFIG}.target.lag.ms": 100}})'
                )
            view = self._view = found[0]
            if view.report is not None and (view.report.advice or "").startswith(INSTALL):
                raise ClusterError(self.lack())
            if ends is None:
                ends = {number: one.end for number, one in view.places.items()}
                if None in ends.values():
                    ends = None
            if ends is not None and view.report is not None and _has(view, ends):
                return view.report
            await trio.sleep(POLL_SECONDS)

    def lack(self) -> str:
        view = self._view
        if view is None:
            return f"no answer about the table of topic {self._topic}"
        if view.report is None:
            return f"no writer of the table of topic {self._topic} has begun"
        error = view.report.error
        why = f": {error}; {view.report.advice}" if error else f", state {view.state}"
        return f"{view.lag} records of topic {self._topic} are not in its table{why}"


def _has(view: TableView, ends: dict[int, int | None]) -> bool:
    """A place without a lag may be before the end: only ends of transactions follow."""
    return all(
        one.lag == 0 or one.offset >= (ends.get(number) or 0) for number, one in view.places.items()
    )


def read(report: TableReport, topic: str, configs: Mapping[str, str]) -> pa.Table:
    """`configs` are those of the brokers. Raises ClusterError."""
    place = Place.reached(report.warehouse, report.name.split(".")[0], configs)
    try:
        return rows_of(report.format, place, topic)
    except ImportError as error:
        raise ClusterError(f"{error}: {INSTALL}") from None
