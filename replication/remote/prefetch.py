"""Which ranges of remote segments are read ahead of consumers, and how long they are kept.

A read that begins where an earlier one of its partition went on is taken for the same reader: both
are of one *stream*. From the second read on, a stream has *ranges*: bytes of its segments that are
being read from the store, or are in memory until the reader has passed them.

Invariants:
- The ranges of all streams have at most `max_bytes` together, those that load and those that were
  dropped while they loaded included.
- At most `max_loading` ranges load at once, so that each has a thread from its beginning: a reader
  never waits for one that waits for the store's answer to somebody else.
- The ranges of a stream follow one another without gaps, over the end of a segment as well.
- They reach `MOST_AHEAD` of the largest ranges beyond its reader, or as far as one read if that is
  more, and less than a range further; at first as far as a read, then twice as far with each one.
- A range of which a read has failed belongs to no stream.

A stream is dropped `IDLE_MS` after its last read: its reader has gone, or begun elsewhere. It is
dropped `STALE_MS` after it, if another one needs the memory. A stream that reads on keeps its
ranges, however many others would like to have some: those read as if nothing was read ahead.

Mirrors: nothing of Apache Kafka's, which leaves it to storage plugins.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

from ...protocol.invariants import BrokenInvariant
from ...storage.remote.segments import RemoteLogSegmentMetadata

RANGE_BYTES: Final = 4 * 1024 * 1024  # the most of one request
LEAST_SHARE: Final = 16  # of that, for readers whose reads are small
MOST_AHEAD: Final = 4
IDLE_MS: Final = 15_000  # longer than the windows of the quota
STALE_MS: Final = 1_000
MAX_STREAMS: Final = 256

# The next segment of a log, if the tier has it.
Following: TypeAlias = Callable[[RemoteLogSegmentMetadata], RemoteLogSegmentMetadata | None]


class Range:
    """Bytes of a segment, from `start` up to `end`."""

    __slots__ = ("end", "is_dropped", "is_loading", "segment", "start")

    def __init__(self, segment: RemoteLogSegmentMetadata, start: int, end: int) -> None:
        self.segment = segment
        self.start = start
        self.end = end
        self.is_loading = True
        self.is_dropped = False  # no stream has it any more

    @property
    def size(self) -> int:
        return self.end - self.start


class Plan(NamedTuple):
    """What a read has led to."""

    kept: Range | None  # the bytes of the read itself stay in memory
    to_load: list[Range]


class _Stream:
    __slots__ = ("ahead_bytes", "end", "ranges", "read_ms", "segment", "start")

    def __init__(self, segment: RemoteLogSegmentMetadata, start: int, end: int, ms: int) -> None:
        # The last read: of its segment, from the beginning of a batch on; the last may be cut.
        self.segment = segment
        self.start = start
        self.end = end
        self.read_ms = ms
        self.ahead_bytes = 0  # how far the ranges shall reach beyond `end`; 0: there are none
        self.ranges: deque[Range] = deque()

    def goes_on_at(self, segment: RemoteLogSegmentMetadata, start: int) -> bool:
        mine = self.segment
        if segment.segment_id == mine.segment_id:
            return self.start <= start <= self.end
        return (
            segment.topic_id_partition == mine.topic_id_partition
            and segment.start_offset == mine.end_offset + 1
            and self.end >= mine.segment_size_bytes
            and start == 0
        )

    def is_behind(self, one: Range) -> bool:
        """Whether the reader has passed a range."""
        if one.segment.segment_id == self.segment.segment_id:
            return one.end <= self.start
        return one.segment.start_offset < self.segment.start_offset

    def bytes_beyond(self) -> int:
        """Of ranges, or of parts of them, that the reader has not read yet."""
        mine = self.segment.segment_id
        return sum(
            max(0, one.end - max(one.start, self.end)) if one.segment.segment_id == mine
            else one.size
            for one in self.ranges
        )  # fmt: skip


class Prefetch:
    __slots__ = (
        "_least_bytes", "_max_loading", "_range_bytes", "_streams", "held_bytes", "loading",
        "max_bytes",
    )  # fmt: skip

    def __init__(self, max_bytes: int, max_loading: int, range_bytes: int = RANGE_BYTES) -> None:
        self.max_bytes = max_bytes  # may change; 0: nothing is read ahead
        self._max_loading = max_loading
        self._range_bytes = range_bytes
        self._least_bytes = range_bytes // LEAST_SHARE
        self._streams: list[_Stream] = []
        self.held_bytes = 0
        self.loading = 0

    @property
    def is_idle(self) -> bool:
        return not self._streams

    @property
    def loading_bytes(self) -> int:
        """Of the ranges of streams."""
        return sum(one.size for stream in self._streams for one in stream.ranges if one.is_loading)

    def ranges_of(self, segment: RemoteLogSegmentMetadata) -> list[Range]:
        """Those that a read of the segment may use; the ones that were asked for first come
        first."""
        return [
            one
            for stream in self._streams
            for one in stream.ranges
            if one.segment.segment_id == segment.segment_id
        ]

    def read(
        self,
        segment: RemoteLogSegmentMetadata,
        start: int,
        end: int,
        following: Following,
        now_ms: int,
        most_bytes: int,
    ) -> Plan:
        """A reader got the bytes from `start` to `end`; at most `most_bytes` may be asked for."""
        self.expire(now_ms)
        if not self.max_bytes:
            return Plan(None, [])
        stream = self._stream_at(segment, start)
        if stream is None:
            self._begin(_Stream(segment, start, end, now_ms))
            return Plan(None, [])
        goes_on = start > stream.start or segment.segment_id != stream.segment.segment_id
        stream.segment, stream.start, stream.end, stream.read_ms = segment, start, end, now_ms
        while stream.ranges and stream.is_behind(stream.ranges[0]):
            self._drop(stream.ranges.popleft())
        if goes_on:
            least = min(max(end - start, self._least_bytes), self._range_bytes)
            most = max(MOST_AHEAD * self._range_bytes, end - start)
            stream.ahead_bytes = min(max(2 * stream.ahead_bytes, least), most)
        kept = self._keep(stream)
        to_load = self._extend(stream, following, most_bytes) if stream.ranges else []
        if kept is not None and not to_load:
            self._drop(stream.ranges.pop())
            return Plan(None, [])
        return Plan(kept, to_load)

    def loaded(self, one: Range) -> None:
        """The range is in memory."""
        self.loading -= 1
        one.is_loading = False
        if one.is_dropped:
            self.held_bytes -= one.size

    def failed(self, one: Range) -> None:
        """It could not be read; what follows it is of no use to its reader before it is."""
        self.loading -= 1
        one.is_loading = False
        self.held_bytes -= one.size
        for stream in self._streams:
            if one in stream.ranges:
                while (last := stream.ranges.pop()) is not one:
                    self._drop(last)
                stream.ahead_bytes = 0
        one.is_dropped = True

    def expire(self, now_ms: int) -> None:
        """Drop what no reader has read for a while."""
        self._drop_streams(stream for stream in self._streams if now_ms - stream.read_ms >= IDLE_MS)

    def resize(self, max_bytes: int) -> None:
        """The limit has changed: without memory for them all, ranges go at once."""
        self.max_bytes = max_bytes
        if self.held_bytes > max_bytes:
            self._drop_streams(self._streams)

    def check(self) -> None:
        """Thorough check of the invariants."""
        ranges = [one for stream in self._streams for one in stream.ranges]
        if sum(one.size for one in ranges) > self.held_bytes:
            raise BrokenInvariant(f"{self.held_bytes} bytes are too few")
        if any(one.is_dropped for one in ranges):
            raise BrokenInvariant("a stream has a range that was dropped")
        for stream in self._streams:
            for before, after in pairwise(stream.ranges):
                if (before.segment, before.end) == (after.segment, after.start):
                    continue
                if before.end != before.segment.segment_size_bytes or after.start:
                    raise BrokenInvariant(f"a gap before {after.start} of {after.segment}")

    # Steps

    def _begin(self, stream: _Stream) -> None:
        """Perhaps of a reader that reads on; of very many, the one that was read the longest time
        ago gives way, unless it has ranges."""
        if len(self._streams) >= MAX_STREAMS:
            without = [one for one in self._streams if not one.ranges]
            if not without:
                return
            self._streams.remove(min(without, key=lambda one: one.read_ms))
        self._streams.append(stream)

    def _stream_at(self, segment: RemoteLogSegmentMetadata, start: int) -> _Stream | None:
        found = [one for one in self._streams if one.goes_on_at(segment, start)]
        return max(found, key=lambda one: (one.segment.start_offset, one.start), default=None)

    def _keep(self, stream: _Stream) -> Range | None:
        """Keep the bytes of the last read, if its ranges do not have all of them: the next read
        begins among them."""
        mine = [one for one in stream.ranges if one.segment.segment_id == stream.segment.segment_id]
        if not stream.ahead_bytes or any(one.start < stream.end <= one.end for one in mine):
            return None
        if stream.start == stream.end:
            return None
        while stream.ranges:
            self._drop(stream.ranges.pop())
        kept = Range(stream.segment, stream.start, stream.end)
        if not self._make_room(stream, kept.size):
            return None
        kept.is_loading = False
        self.held_bytes += kept.size
        stream.ranges.append(kept)
        return kept

    def _extend(self, stream: _Stream, following: Following, most_bytes: int) -> list[Range]:
        """Ask for the ranges that are missing ahead of the reader."""
        to_load: list[Range] = []
        while self.loading < self._max_loading:
            missing = stream.ahead_bytes - stream.bytes_beyond()
            last = stream.ranges[-1]
            segment: RemoteLogSegmentMetadata | None = last.segment
            start = last.end
            if missing > 0 and start >= last.segment.segment_size_bytes:
                segment, start = following(last.segment), 0
            if missing <= 0 or segment is None:
                break
            most = min(stream.ahead_bytes, self._range_bytes)
            size = min(most, segment.segment_size_bytes - start)
            if size > most_bytes or not self._make_room(stream, size):
                break
            one = Range(segment, start, start + size)
            most_bytes -= size
            self.held_bytes += size
            self.loading += 1
            stream.ranges.append(one)
            to_load.append(one)
        return to_load

    def _make_room(self, stream: _Stream, size: int) -> bool:
        """Whether a stream may have so many bytes more: within its share, and within the limit,
        which streams without a recent read make room for."""
        reading = sum(bool(one.ranges) or one is stream for one in self._streams)
        own = sum(one.size for one in stream.ranges)
        if own and own + size > max(self.max_bytes // reading, 2 * self._least_bytes):
            return False
        if self.held_bytes + size > self.max_bytes:
            stale_ms = stream.read_ms - STALE_MS
            self._drop_streams(
                one for one in self._streams if one is not stream and one.read_ms <= stale_ms
            )
        return self.held_bytes + size <= self.max_bytes

    def _drop_streams(self, streams: Iterable[_Stream]) -> None:
        for stream in list(streams):
            self._streams.remove(stream)
            for one in stream.ranges:
                self._drop(one)

    def _drop(self, one: Range) -> None:
        one.is_dropped = True
        if not one.is_loading:
            self.held_bytes -= one.size
