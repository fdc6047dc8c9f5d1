"""Commits of a group's offsets: on request, at intervals, before rebalances and at the end.

Invariant: a failed automatic commit is reported, but is no error: the records will be read again.

Mirrors: ConsumerCoordinator's maybeAutoCommitOffsets and onJoinPrepare.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import trio

from ...protocol.topics import TopicPartition
from ..errors import ClientError
from .fetcher import now_ms
from .offset_keeper import OffsetKeeper
from .offset_requests import Committed
from .options import ConsumerOptions
from .positions import Position
from .progress import Progress

Offsets = Mapping[TopicPartition, "int | Committed"]


class Commits:
    """The commits of one consumer; `report` is called with failures of automatic commits."""

    def __init__(
        self,
        options: ConsumerOptions,
        progress: Progress,
        offsets: OffsetKeeper,
        report: Callable[[str], None],
    ) -> None:
        self._options = options
        self._progress = progress
        self._offsets = offsets
        self._report = report
        self._is_automatic = options.auto_commit and options.group_id is not None
        self._due_ms = 0
        self._background: list[trio.Event] = []  # set once a commit of `soon` has its outcome
        self.nursery: trio.Nursery | None = None  # of the consumer, inside its block

    async def now(self, offsets: Offsets | None) -> None:
        """See `Consumer.commit`; the earlier commits of `soon` have their outcome first."""
        wanted, generation = self._wanted(offsets), self._offsets.generation
        await self.background()
        await self._offsets.commit(wanted, generation)

    async def background(self) -> None:
        """Wait until the commits of `soon` until now have their outcome."""
        for ended in list(self._background):
            await ended.wait()

    def soon(
        self, offsets: Offsets | None, on_done: Callable[[ClientError | None], None] | None
    ) -> None:
        """See `Consumer.commit_soon`."""
        if self.nursery is None:
            raise ClientError("a consumer is used with `async with`")
        ended = trio.Event()
        self._background.append(ended)
        wanted, generation = self._wanted(offsets), self._offsets.generation
        self.nursery.start_soon(self._run, wanted, generation, on_done, ended)

    async def _run(
        self,
        commits: dict[TopicPartition, Committed],
        generation: int,
        on_done: Callable[[ClientError | None], None] | None,
        ended: trio.Event,
    ) -> None:
        failure = None
        try:
            await self._offsets.commit(commits, generation)
        except ClientError as error:
            failure = error
        finally:
            self._background.remove(ended)
            ended.set()
        if on_done is not None:
            on_done(failure)
        elif failure is not None:
            self._report(str(failure))

    def start_if_due(self) -> None:
        """Start a commit in the background, every `auto_commit_interval_seconds`."""
        now = now_ms()
        if not self._is_automatic or now < self._due_ms:
            return
        self._due_ms = now + int(self._options.auto_commit_interval_seconds * 1000)
        if self._progress.committable():
            self.soon(None, None)

    async def before_rebalance(self) -> None:
        """Commit with a time limit: the group does not wait forever."""
        with trio.move_on_after(self._options.close_timeout_seconds):
            await self.by_itself()

    async def by_itself(self) -> None:
        """With auto_commit: commit until the coordinator confirms or refuses."""
        offsets = self._progress.committable()
        if not self._is_automatic or not offsets:
            return
        try:
            await self._offsets.commit(_committed(offsets), self._offsets.generation)
        except ClientError as error:
            self._report(str(error))

    def _wanted(self, offsets: Offsets | None) -> dict[TopicPartition, Committed]:
        if offsets is None:
            return _committed(self._progress.committable())
        return {
            tp: each if isinstance(each, Committed) else Committed(each)
            for tp, each in offsets.items()
        }


def _committed(positions: Mapping[TopicPartition, Position]) -> dict[TopicPartition, Committed]:
    return {tp: Committed(at.offset, "", at.epoch) for tp, at in positions.items()}
