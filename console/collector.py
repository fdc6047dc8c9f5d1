"""The only reader of the cluster: looks at it again and again, and sends the news to all browsers.

However many browsers are open, the cluster is asked once. A look that takes long is followed by a
pause that is longer still, so that a large or a busy cluster is asked less often.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from functools import cached_property
from heapq import nlargest
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import trio

from ..client.admin.admin import Admin
from ..client.cluster import Cluster
from ..client.errors import ClientError
from ..local.metrics_ports import read_all
from ..protocol.api import ApiKey
from ..protocol.apis.metadata import MetadataRequest, MetadataResponse
from .asked import Wrong
from .cluster_view import (
    NOTHING_YET,
    ClusterView,
    Happening,
    Placed,
    changed_topics,
    happenings,
    rolled,
    view_of,
)
from .ensemble import elections
from .history import Counters, Series, Timeline
from .live import Live
from .measured import PLOTTED, Measured, Rolls, measured
from .node_logs import NodeLogs
from .processes import Processes
from .shared import Shared

if TYPE_CHECKING:
    from ..client.schemas import Registry
    from .schemas import Schemas

LOOK_SECONDS: Final = 0.4
LOOK_LONGEST_SECONDS: Final = 10.0
FEW_PARTITIONS: Final = 500  # cheap to ask for, however long an answer takes on a busy machine
PAUSE_PER_LOOK: Final = 15  # at most a sixteenth of the time is spent on asking
FIRST_LOOK_SECONDS: Final = 1.0  # then the first page shows an empty cluster
ANSWER_SECONDS: Final = 2.0  # then another broker is asked
NODES_SECONDS: Final = 1.0
METRICS_SECONDS: Final = 2.0
GROUPS_PLOTTED: Final = 20  # those with the largest lag
FIRST_THAT_NEED_NOT_CREATE: Final = 4  # of Metadata


def now_ms() -> int:
    return int(time.time() * 1000)


class Collector:
    """`run` looks; browsers follow `live`. `data_dir`: of a cluster on this machine."""

    def __init__(
        self,
        cluster: Cluster,
        security: Mapping[str, str],
        data_dir: Path | None,
        facts: Mapping[str, Any],
        registry: Registry | None,
        metrics: Mapping[int, tuple[str, int]],
    ) -> None:
        self.cluster = cluster
        self.admin = Admin(cluster)
        self.shared = Shared()
        self._registry = registry
        self._metrics = metrics
        self._logs = NodeLogs()
        self._rolls = Rolls()
        self.security = security
        self.data_dir = data_dir
        self._processes = None if data_dir is None else Processes(data_dir)
        self._facts = facts
        self._asked: int | None = None  # the broker that answered last
        self._has_looked = trio.Event()
        self.view = NOTHING_YET
        self.nodes: list[dict[str, Any]] = []
        self.problem = ""
        self.timeline = Timeline()
        self.series = Series()
        self._counters = Counters()
        self.live = Live(self.everything)

    @cached_property
    def schemas(self) -> Schemas:
        """Imported by the first page that reads records."""
        from .schemas import Schemas

        return Schemas(self._registry)

    @property
    def bootstrap(self) -> str:
        """The addresses of the present brokers, as far as they are known."""
        known = [f"{one.host}:{one.port}" for one in self.view.brokers.values()]
        return ",".join(known) or str(self._facts["bootstrap"])

    def everything(self) -> dict[str, Any]:
        """The first message to a browser."""
        return {
            "kind": "all",
            "facts": self._facts,
            "topics": self.view.topics,
            "events": self.timeline.all(),
            **self._summary(),
        }

    def _summary(self) -> dict[str, Any]:
        return {
            "cluster_id": self.view.cluster_id,
            "controller": self.view.controller,
            "controller_epoch": self._logs.controller_epoch,
            "brokers": self.view.brokers,
            "nodes": self.nodes,
            "problem": self.problem,
        }

    async def first_look(self) -> None:
        """Wait until the cluster was looked at once, but not for one that is silent."""
        with trio.move_on_after(FIRST_LOOK_SECONDS):
            await self._has_looked.wait()

    async def run(self) -> None:
        """Look until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._look_at_cluster)
            if self._processes is not None:
                nursery.start_soon(self._look_at_nodes, self._processes)
            if self._processes is not None or self._metrics:
                nursery.start_soon(self._look_at_metrics)

    async def _look_at_cluster(self) -> None:
        while True:
            began = trio.current_time()
            try:
                self._take(view_of(await self._metadata()))
            except ClientError as error:
                self._fail(str(error))
            self._has_looked.set()
            took = trio.current_time() - began
            count = sum(map(len, self.view.topics.values()))
            longest = LOOK_SECONDS if count <= FEW_PARTITIONS else LOOK_LONGEST_SECONDS
            await trio.sleep(min(max(LOOK_SECONDS, PAUSE_PER_LOOK * took), longest))

    async def _metadata(self) -> MetadataResponse:
        """Metadata from the broker that answered last, or from any that does. Raises
        ClientError.
        """
        known = list(self.view.brokers)
        if self._asked in known:
            known.remove(self._asked)
            known.insert(0, self._asked)
        for broker_id in known:
            try:
                connection = await self.cluster.connection(broker_id, "console")
                answer = await connection.request(
                    ApiKey.METADATA, _all_topics, MetadataResponse, timeout_seconds=ANSWER_SECONDS
                )
            except ClientError:
                continue
            self._asked = broker_id
            if {b.node_id: (b.host, b.port) for b in answer.brokers} != {
                number: (one.host, one.port) for number, one in self.view.brokers.items()
            }:
                await self.cluster.metadata([])  # where brokers are reached from now on
            return answer
        return await self.cluster.metadata(None)

    async def partitions(self, topic: str) -> tuple[Placed | None, ...]:
        """The partitions of a topic, also of a new one. Raises Wrong, ClientError."""
        if topic not in self.view.topics:
            self._take(view_of(await self._metadata()))
        found = self.view.topics.get(topic)
        if found is None:
            raise Wrong(f"there is no topic {topic!r}")
        return found

    def _take(self, new: ClusterView) -> None:
        old, self.view = self.view, new
        changed = changed_topics(old, new)
        had_problem, self.problem = self.problem, ""
        if changed or had_problem or old[:3] != new[:3]:
            self.live.send({"kind": "cluster", "topics": changed, **self._summary()})
        self.tell(happenings(old, new))

    def _fail(self, problem: str) -> None:
        if not self.problem:
            self.tell([Happening("offline", f"no broker answers: {problem}")])
        self.problem = problem
        self.live.send({"kind": "cluster", "topics": {}, **self._summary()})

    def tell(self, happened: list[Happening]) -> None:
        """Keep these for the timeline, and show them."""
        if happened:
            events = self.timeline.add(happened, now_ms())
            self.live.send({"kind": "events", "events": events})

    def metrics_ports(self) -> dict[int, tuple[str, int]]:
        """The metrics ports of brokers that run here, and the configured ones."""
        return {**self._metrics} | {
            row["id"]: (row["host"], row["metrics_port"])
            for row in self.nodes
            if row["metrics_port"] and row["status"] == "running"
        }

    async def _look_at_metrics(self) -> None:
        while True:
            began = trio.current_time()
            texts = await read_all(self.metrics_ports(), PLOTTED)
            self._take_metrics({number: measured(text) for number, text in texts.items()})
            self.tell(rolled(self._rolls.look(texts)))
            took = trio.current_time() - began
            await trio.sleep(max(METRICS_SECONDS, PAUSE_PER_LOOK * took))

    def _take_metrics(self, found: dict[int, Measured]) -> None:
        now = now_ms()
        totals = {
            f"{name}/s · broker {number}": total
            for number, one in found.items()
            for name, total in one.totals.items()
        }
        values = self._counters.rates(totals, now)
        for number, one in found.items():
            values |= {f"{name} · broker {number}": value for name, value in one.gauges.items()}
        lags: dict[str, float] = {}
        for one in found.values():
            for group, lag in one.lags.items():
                lags[group] = lags.get(group, 0) + lag
        largest = nlargest(GROUPS_PLOTTED, lags.items(), key=itemgetter(1))
        values |= {f"lag · {group}": lag for group, lag in largest}
        for number, one in found.items():
            for api, stages in sorted(one.stages.items()):
                for quantile, ms in stages.get("total", {}).items():
                    values[f"{api} {quantile} · broker {number}"] = ms
        self.series.add({name: one for name, one in values.items() if math.isfinite(one)}, now)
        if found:
            brokers = {
                number: {"gauges": one.gauges, "purgatory": one.purgatory, "stages": one.stages}
                for number, one in sorted(found.items())
            }
            self.live.send({"kind": "metrics", "brokers": brokers})

    async def _look_at_nodes(self, processes: Processes) -> None:
        while True:
            rows = await trio.to_thread.run_sync(processes.look)
            before = {row["name"]: (row["status"], row["pid"]) for row in self.nodes}
            elected = elections(self.nodes, rows)
            self.nodes = rows
            self.tell(
                [
                    Happening("node", f"{row['name']} is {row['status']}, process {row['pid']}")
                    for row in rows
                    if row["name"] in before and before[row["name"]] != (row["status"], row["pid"])
                ]
                + elected
            )
            self.live.send({"kind": "nodes", "nodes": rows})
            await self._look_at_logs({row["name"]: row["log"] for row in rows})
            await trio.sleep(NODES_SECONDS)

    async def _look_at_logs(self, files: Mapping[str, str]) -> None:
        epoch = self._logs.controller_epoch
        self.tell(await trio.to_thread.run_sync(self._logs.look, files))
        if epoch != self._logs.controller_epoch:
            self.live.send({"kind": "cluster", "topics": {}, **self._summary()})


def _all_topics(version: int) -> MetadataRequest:
    if version >= FIRST_THAT_NEED_NOT_CREATE:
        return MetadataRequest(topics=None, allow_auto_topic_creation=False)
    return MetadataRequest(topics=None if version else [])
