"""A share session with one broker: the partitions it fetches, and acknowledgements for it; pure.

The broker knows the session by group and member; its epoch goes up with each request. Epoch 0
begins a session, -1 ends it: the broker then releases what the member has acquired and not
acknowledged.

Invariants: an acknowledgement is sent once, in the session in which its record was acquired; with a
lost session those that wait, or have no answer, are void, since the broker has released their
records. The broker's partitions equal `_known` once it has answered.

Mirrors: ShareSessionHandler and Acknowledgements of the Java client.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from enum import IntEnum
from typing import Final, NamedTuple

from ...protocol.errors import ErrorCode
from .membership import IdPartition

FIRST_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
MAX_EPOCH: Final = 2**31 - 1

_LOST: Final = frozenset(
    {
        ErrorCode.SHARE_SESSION_NOT_FOUND,
        ErrorCode.INVALID_SHARE_SESSION_EPOCH,
        ErrorCode.SHARE_SESSION_LIMIT_REACHED,
    }
)


class Acknowledge(IntEnum):
    """The result of a record. GAP is of offsets without a record."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class Run(NamedTuple):
    """Adjacent offsets with the same result."""

    first: int
    last: int
    kind: Acknowledge


Runs = dict[IdPartition, list[Run]]


class SessionStep(NamedTuple):
    """The session's fields of a request."""

    epoch: int
    added: list[IdPartition]
    forgotten: list[IdPartition]
    acknowledged: Runs

    @property
    def is_renewal(self) -> bool:
        return any(
            run.kind is Acknowledge.RENEW for runs in self.acknowledged.values() for run in runs
        )


class ShareSession:
    """See the module."""

    def __init__(self) -> None:
        self.epoch = FIRST_EPOCH
        self.number = 0  # of the session with this broker: those before it are lost
        self._known: frozenset[IdPartition] = frozenset()
        self._results: dict[IdPartition, dict[int, Acknowledge]] = {}
        self._sent: Collection[IdPartition] = ()  # that the request under way acknowledges
        self._void: set[IdPartition] = set()

    @property
    def is_open(self) -> bool:
        return self.epoch != FIRST_EPOCH

    def acknowledge(self, place: IdPartition, offset: int, kind: Acknowledge) -> None:
        """For the next request; the last result of an offset counts. One before it was for a
        delivery whose lock has ended, and is not stored."""
        results = self._results.setdefault(place, {})
        if results.get(offset, Acknowledge.RENEW) is not Acknowledge.RENEW:
            self._void.add(place)
        results[offset] = kind

    def not_stored(self, place: IdPartition) -> None:
        """Results of the partition were refused, or came after the session was lost."""
        self._void.add(place)

    def take_void(self) -> list[IdPartition]:
        """Partitions with results that are void, since the last time."""
        void, self._void = sorted(self._void), set()
        return void

    def fetch_step(self, wanted: Collection[IdPartition]) -> SessionStep:
        """The next ShareFetch: the first of a session has no acknowledgements."""
        known = self._known if self.is_open else frozenset()
        now = frozenset(wanted)
        self._known = now
        return SessionStep(self.epoch, sorted(now - known), sorted(known - now), self._take())

    def acknowledge_step(self) -> SessionStep | None:
        """A ShareAcknowledge; None without a session, or without results."""
        if not self.is_open or not self._results:
            return None
        return SessionStep(self.epoch, [], [], self._take())

    def final_step(self) -> SessionStep | None:
        """A ShareAcknowledge that ends the session; None without one."""
        if not self.is_open:
            return None
        step = SessionStep(FINAL_EPOCH, [], [], self._take())
        self._begin_anew()
        return step

    def _take(self) -> Runs:
        results, self._results = self._results, {}
        self._sent = results.keys()
        return {place: list(runs_of(found.items())) for place, found in results.items()}

    def on_answer(self, code: ErrorCode) -> bool:
        """Whether the session goes on."""
        if code in _LOST:
            self.on_lost()
            return False
        if code:
            self._void.update(self._sent)
        self._sent = ()
        self.epoch = self.epoch + 1 if self.epoch < MAX_EPOCH else 1
        return True

    def on_lost(self) -> None:
        """No answer has arrived, or the broker has dropped the session: the next begins another."""
        self._void.update(self._sent, self._results)
        self._begin_anew()

    def _begin_anew(self) -> None:
        self.epoch = FIRST_EPOCH
        self.number += 1
        self._known = frozenset()
        self._results = {}
        self._sent = ()


def runs_of(results: Iterable[tuple[int, Acknowledge]]) -> Iterator[Run]:
    """Offsets with their results, as runs in the order of offsets."""
    run: Run | None = None
    for offset, kind in sorted(results):
        if run is not None and offset == run.last + 1 and kind is run.kind:
            run = run._replace(last=offset)
            continue
        if run is not None:
            yield run
        run = Run(offset, offset, kind)
    if run is not None:
        yield run
