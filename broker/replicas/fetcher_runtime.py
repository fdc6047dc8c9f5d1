"""Runs the fetchers of this broker's follower partitions: a task and a connection for each.

Job: ask a fetcher for its next step, send it to its leader, pass on the answer. Wakes fetchers for
news: partitions to follow, a completed flush, a leader that can be reached again. An idle long poll
is cancelled when its fetcher gets partitions, for they would have to wait behind it. New partitions
do wait: they have no records yet, and a leader of ours answers the poll when the first ones come
(`replication.first_fetches`). A cancelled poll costs its connection and its fetch session.

Invariants: one exchange of a fetcher at a time; a fetcher without partitions ends; the effects and
completed operations of a fetcher's step are processed before it asks again.

Mirrors ReplicaFetcherManager, ReplicaFetcherThread.doWork, BrokerBlockingSender.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from math import inf

import trio

from ...protocol.schema import Message
from ...replication.follower_fetcher import FollowerFetcher
from ...replication.follower_fetchers import FollowerFetchers
from ...replication.follower_steps import Exchange, FetcherConfig, Wait
from ...replication.metadata_cache import Endpoint, MetadataUpdate
from ...replication.types import (
    FlushNeeded,
    LeadershipResult,
    RebuildFromTier,
    StopResult,
    TierState,
)
from ..cluster.broker_connection import BrokerConnection, ChannelError, Connect, connect_plaintext
from ..observability.metrics import BrokerMetrics
from ..resources import stopwatch
from .applied_replicas import AppliedReplicas

logger = logging.getLogger("pybroker.broker.fetcher")

# The shortest time of a long poll before it is cancelled, for any number of new partitions.
MIN_POLL_MS = 20
# After this time in one answer, other tasks get their turn before its next partition.
MAX_TURN_MS = 5
_MS = 1000


class FetcherRuntime:
    """Give it the role changes (`on_leadership`, `on_stopped`), metadata and flushes; `run` it."""

    __slots__ = (
        "_connect",
        "_listener",
        "_nursery",
        "_replicas",
        "_tasks",
        "_timeout_ms",
        "fetchers",
    )

    def __init__(
        self,
        replicas: AppliedReplicas,
        listener: str,
        config: FetcherConfig | None = None,
        *,
        fetchers_per_source: int = 1,
        timeout_ms: int = 30_000,
        connect: Connect = connect_plaintext,
    ) -> None:
        self._replicas = replicas
        self._listener = listener
        self._timeout_ms = timeout_ms
        self._connect = connect
        self._nursery: trio.Nursery | None = None
        self._tasks: dict[FollowerFetcher, _FetcherTask] = {}
        self.fetchers = FollowerFetchers(
            replicas.manager, config or FetcherConfig(), fetchers_per_source
        )

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            task_status.started()
            await trio.sleep_forever()

    def register_gauges(self, metrics: BrokerMetrics) -> None:
        fetchers, manager = "kafka_server_replicafetchermanager_", self._replicas.manager
        fetcher = {"clientId": "Replica"}
        metrics.gauge(fetchers + "maxlag", lambda: self.fetchers.max_lag, **fetcher)
        failed = fetchers + "failedpartitionscount"
        metrics.gauge(failed, lambda: self.fetchers.failed_count, **fetcher)
        metrics.gauge_family(
            "kafka_server_fetcherlagmetrics_consumerlag",
            ("clientId", "topic", "partition"),
            self._lags,
        )
        for name, quota in (("leader", manager.leader_quota), ("follower", manager.follower_quota)):
            metrics.gauge(f"kafka_server_{name}replication_byte_rate", quota.rate)

    def _lags(self) -> Iterator[tuple[tuple[str, ...], float]]:
        for (source_id, fetcher_id), fetcher in self.fetchers.fetchers.items():
            client_id = f"ReplicaFetcherThread-{fetcher_id}-{source_id}"
            for state in fetcher.table.states.values():
                yield (client_id, state.key[0], str(state.key[1])), state.lag

    # News for the fetchers

    def on_leadership(self, result: LeadershipResult) -> None:
        self.fetchers.stop(result.became_leader)
        self._begin(self.fetchers.follow(result.became_follower))

    def _begin(self, fetchers: Iterable[FollowerFetcher]) -> None:
        """These have something new to do."""
        for fetcher in fetchers:
            task = self._tasks.get(fetcher)
            if task is None:
                assert self._nursery is not None, "the fetchers do not run"
                task = self._tasks[fetcher] = _FetcherTask(self, fetcher)
                self._nursery.start_soon(task.run)
            elif fetcher.table.has_urgent_news:
                task.interrupt()
            else:
                task.wake.set()
        self._wake_relieved()

    def resize(self, fetchers_per_source: int) -> None:
        """num.replica.fetchers has changed: spread the partitions anew."""
        if fetchers_per_source != self.fetchers.fetchers_per_source:
            self._begin(self.fetchers.resize(fetchers_per_source))

    def on_stopped(self, result: StopResult) -> None:
        self.fetchers.stop(result.stopped)
        self._wake_relieved()

    def on_metadata(self, _update: MetadataUpdate) -> None:
        for fetcher, task in self._tasks.items():
            if task.endpoint != self.endpoint_of(fetcher):
                fetcher.hurry()
                task.wake.set()

    def on_flush(self, effect: FlushNeeded, offset: int | None) -> None:
        """A flush has ended, badly if there is no offset."""
        key = (effect.topic, effect.partition)
        fetcher = self.fetchers.of_partition(key)
        if fetcher is not None and (offset is None or fetcher.table.flushed(key, offset)):
            task = self._tasks.get(fetcher)
            if task is not None:
                task.wake.set()

    def tier_read(self, asked: RebuildFromTier, found: TierState | None) -> None:
        """The effect RebuildFromTier is done, without success if nothing was found."""
        fetcher = self.fetchers.of_partition(asked.key)
        if fetcher is None:
            return
        with self._replicas.applying:
            fetcher.tier_read(asked, found, self._replicas.clock())
        task = self._tasks.get(fetcher)
        if task is not None:
            task.interrupt()

    def _wake_relieved(self) -> None:
        """Partitions have left: a fetcher without any ends, and one that waited only for the flush
        of such a partition fetches the others."""
        for fetcher, task in self._tasks.items():
            if not fetcher.table.states or not fetcher.table.unflushed:
                task.wake.set()

    # For the tasks

    def endpoint_of(self, fetcher: FollowerFetcher) -> Endpoint | None:
        return self._replicas.manager.metadata.broker_endpoint(fetcher.source_id, self._listener)

    def new_connection(self, fetcher: FollowerFetcher, endpoint: Endpoint) -> BrokerConnection:
        broker_id = self._replicas.manager.config.broker_id
        return BrokerConnection(
            endpoint,
            f"broker-{broker_id}-fetcher-{fetcher.fetcher_id}",
            connect=self._connect,
            timeout_ms=self._timeout_ms,
            reuse_buffer=True,
        )

    @property
    def replicas(self) -> AppliedReplicas:
        return self._replicas

    def ended(self, fetcher: FollowerFetcher) -> None:
        del self._tasks[fetcher]
        self.fetchers.discard(fetcher)


class _FetcherTask:
    __slots__ = (
        "_connection",
        "_fetcher",
        "_is_failing",
        "_poll",
        "_polling_since",
        "_runtime",
        "endpoint",
        "wake",
    )

    def __init__(self, runtime: FetcherRuntime, fetcher: FollowerFetcher) -> None:
        self._runtime = runtime
        self._fetcher = fetcher
        self._connection: BrokerConnection | None = None
        self._is_failing = False
        self._poll: trio.CancelScope | None = None
        self._polling_since = -inf
        self.endpoint: Endpoint | None = None
        self.wake = trio.Event()

    def interrupt(self) -> None:
        """Partitions have come: do not let them wait behind an idle poll."""
        self.wake.set()
        if self._poll is not None:
            interrupted_at = self._polling_since + MIN_POLL_MS / _MS
            self._poll.deadline = min(self._poll.deadline, interrupted_at)

    async def run(self) -> None:
        fetcher, replicas = self._fetcher, self._runtime.replicas
        try:
            while fetcher.table.states:
                self.wake = trio.Event()
                with replicas.applying:
                    step = fetcher.next_step(replicas.clock())
                if isinstance(step, Wait):
                    await self._wait(step)
                else:
                    await self._exchange(step)
            self._runtime.ended(fetcher)
        finally:
            if self._connection is not None:
                self._connection.close()

    async def _wait(self, step: Wait) -> None:
        if not self._fetcher.table.states:
            return
        timeout_ms = (
            inf if step.until_ms is None else step.until_ms - self._runtime.replicas.clock()
        )
        with trio.move_on_after(max(0, timeout_ms) / _MS):
            await self.wake.wait()

    async def _exchange(self, step: Exchange) -> None:
        fetcher, clock = self._fetcher, self._runtime.replicas.clock
        endpoint = self._runtime.endpoint_of(fetcher)
        if endpoint != self.endpoint:
            if self._connection is not None:
                self._connection.close()
                self._connection = None
            self.endpoint = endpoint
        if endpoint is None:
            fetcher.failed(step, clock())
            return
        if self._connection is None:
            self._connection = self._runtime.new_connection(fetcher, endpoint)
        connection, now = self._connection, trio.current_time()
        deadline = now + connection.timeout_ms / _MS
        response = None
        trouble = ""
        with trio.CancelScope(deadline=deadline) as scope:
            if step.is_long_poll:
                self._poll, self._polling_since = scope, now
            try:
                response = await connection.request(step.request, step.version)
            except ChannelError as error:
                trouble = str(error)
            finally:
                self._poll = None
        if response is not None:
            self._is_failing = False
            await self._take(step, response)
        elif not trouble and scope.deadline < deadline:
            fetcher.abandoned()  # interrupted for something better
        else:
            level = logging.DEBUG if self._is_failing else logging.WARNING
            self._is_failing = True
            trouble = trouble or f"no answer within {connection.timeout_ms} ms"
            logger.log(level, "Fetching from broker %d: %s", fetcher.source_id, trouble)
            fetcher.failed(step, clock())

    async def _take(self, step: Exchange, response: Message) -> None:
        """Handle an answer; others get their turn if it is long (many small batches)."""
        replicas = self._runtime.replicas
        answer = self._fetcher.take_answer(step, response, replicas.clock())
        while not self._take_turn(answer):
            await trio.lowlevel.checkpoint()

    def _take_turn(self, answer: Iterator[None]) -> bool:
        """Whether the whole answer has been taken now."""
        turn_ends = stopwatch.now() + MAX_TURN_MS / _MS
        with self._runtime.replicas.applying:
            for _ in answer:
                if stopwatch.now() > turn_ends:
                    return False
        return True
