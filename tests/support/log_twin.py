"""The dumb twin of a log: a list of batches, searched from the front."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class TwinBatch:
    base_offset: int
    timestamps: list[int]
    values: list[bytes]
    epoch: int
    producer: tuple[int, int, int] | None = None  # id, epoch, base sequence

    @property
    def last_offset(self) -> int:
        return self.base_offset + len(self.values) - 1

    @property
    def next_offset(self) -> int:
        return self.last_offset + 1

    def records(self) -> list[tuple[int, int, bytes]]:
        return [
            (self.base_offset + i, timestamp, value)
            for i, (timestamp, value) in enumerate(zip(self.timestamps, self.values, strict=True))
        ]


@dataclass(slots=True)
class TwinLog:
    batches: list[TwinBatch] = field(default_factory=list)
    start: int = 0
    end: int = 0
    flushed: int = 0

    def append(self, batch: TwinBatch) -> None:
        self.batches.append(batch)
        self.end = batch.next_offset

    def records(self) -> list[tuple[int, int, bytes]]:
        return [r for batch in self.batches for r in batch.records() if r[0] >= self.start]

    def truncate(self, offset: int) -> None:
        """Batches are dropped whole."""
        self.batches = [b for b in self.batches if b.last_offset < offset]
        self.end_at(offset)

    def end_at(self, offset: int) -> None:
        self.end = offset
        self.start = min(self.start, offset)
        self.flushed = min(self.flushed, offset)

    def restart_at(self, offset: int) -> None:
        self.batches = []
        self.start = self.end = self.flushed = offset

    def at_time(self, timestamp: int) -> tuple[int, int] | None:
        """(timestamp, offset) of the first record that is late enough."""
        return next(((t, o) for o, t, _ in self.records() if t >= timestamp), None)

    def epochs(self) -> list[tuple[int, int]]:
        """The first offset of each run of epochs, as batches show them."""
        found: list[tuple[int, int]] = []
        for batch in self.batches:
            if not found or found[-1][0] != batch.epoch:
                found.append((batch.epoch, batch.base_offset))
        return found

    def last_batches_of(self, producer_id: int) -> list[TwinBatch]:
        """The batches of a producer's newest epoch, at most five."""
        mine = [b for b in self.batches if b.producer and b.producer[0] == producer_id]
        if not mine:
            return []
        newest = mine[-1].producer
        assert newest is not None
        return [b for b in mine if b.producer and b.producer[1] == newest[1]][-5:]
