"""Makes logs durable when their topics ask for it (flush.messages, flush.ms), off the loop.

Group commit: one flush of a log at a time; the next flush covers records appended meanwhile, so a
burst of appends costs two fsyncs, not one each. Flushes of different logs run side by side, in at
most `MAX_FLUSH_THREADS` threads.

Mirrors the flush in UnifiedLog.append, which blocks the request thread in Kafka.
"""

from collections.abc import Callable

import trio

from ...protocol.errors import KafkaError
from ...protocol.topics import TopicPartition
from ...replication.types import FlushNeeded
from ...storage.descriptors import OutOfDescriptors

MAX_FLUSH_THREADS = 4
OUT_OF_DESCRIPTORS_PAUSE_SECONDS = 0.5


class LogFlusher:
    __slots__ = ("_failed", "_flushed", "_in_flight", "_limiter", "_nursery", "_wanted")

    def __init__(
        self,
        flushed: Callable[[FlushNeeded, int], None],
        failed: Callable[[FlushNeeded], None],
        max_threads: int = MAX_FLUSH_THREADS,
    ) -> None:
        self._flushed = flushed
        self._failed = failed
        self._limiter = trio.CapacityLimiter(max_threads)
        self._nursery: trio.Nursery | None = None
        self._in_flight: set[TopicPartition] = set()
        self._wanted: dict[TopicPartition, FlushNeeded] = {}

    def set_max_threads(self, max_threads: int) -> None:
        """`num.io.threads`, which may change while the broker runs."""
        self._limiter.total_tokens = max_threads

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Accept requests until cancelled; a flush that has begun is waited for."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            task_status.started()
            await trio.sleep_forever()

    def request(self, effect: FlushNeeded) -> None:
        key = (effect.topic, effect.partition)
        wanted = self._wanted.get(key)
        if wanted is None or wanted.log is not effect.log or wanted.offset < effect.offset:
            self._wanted[key] = effect
        if key not in self._in_flight:
            assert self._nursery is not None, "the flusher does not run"
            self._in_flight.add(key)
            self._nursery.start_soon(self._flush, key)

    async def _flush(self, key: TopicPartition) -> None:
        try:
            while key in self._wanted:
                effect = self._wanted.pop(key)
                # All records appended up to now are flushed with it.
                offset = max(effect.offset, effect.log.log_end_offset)
                try:
                    await trio.to_thread.run_sync(effect.log.flush, offset, limiter=self._limiter)
                except OutOfDescriptors:
                    await trio.sleep(OUT_OF_DESCRIPTORS_PAUSE_SECONDS)
                    self._wanted.setdefault(key, effect)
                except KafkaError:
                    self._failed(effect)
                else:
                    self._flushed(effect, offset)
        finally:
            self._in_flight.discard(key)
