"""The state of one share consumer, which all its parts share: the lowest of its layers.

The layers, bottom to top; each knows only those below it:

    state                         sessions, records that wait or are held, and the signals of tasks
    results, fetching, heartbeats    what goes to the brokers, and comes from them
    consumer                      the calls

A part that needs another task to run rings its bell here, so that the two do not know each other.

Invariants: a record waits in `buffer`, is held by the application, or is neither; records that wait
longer than their lock are not handed out; a result belongs to the session in which its record was
acquired.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final, NamedTuple

import trio

from ...protocol.errors import ErrorCode
from ..cluster import Cluster, now_ms
from ..consumer.background import Bell
from ..consumer.epoch_member import new_member_id
from ..consumer.topics_view import TopicsView
from .membership import IdPartition, ShareMembership
from .options import ShareOptions
from .records import SharedRecord
from .session import Acknowledge, ShareSession

REFRESH_MS: Final = 100

# Of a partition that another broker leads, or that there is no more.
STALE: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)


class Held(NamedTuple):
    """A record, the session in which it was acquired, and the end of its lock."""

    record: SharedRecord
    place: IdPartition
    node: int
    session: int
    until_ms: int


class ShareConsumerState:
    """See the module."""

    def __init__(self, cluster: Cluster, options: ShareOptions) -> None:
        self.cluster = cluster
        self.options = options
        self.purpose = cluster.new_purpose("share")
        self.member = ShareMembership(options.group_id, new_member_id(), options.rack)
        self.view = TopicsView()
        self.metadata_due_ms = 0
        self.sessions: dict[int, ShareSession] = {}  # by broker
        self._turns: dict[int, trio.Lock] = {}  # one request at a time in a session
        self.buffer: deque[Held] = deque()
        self.held: dict[tuple[str, int, int], Held] = {}  # handed out, without a result
        self.is_waiting = False  # a call waits for records
        self.bell = Bell()  # of the fetches: there is something to do
        self.beats = Bell()  # of the heartbeats
        self.arrived = Bell()  # of the call that waits
        self.failure: Exception | None = None  # that the next call for records raises

    def session(self, node: int) -> ShareSession:
        return self.sessions.setdefault(node, ShareSession())

    def turn(self, node: int) -> trio.Lock:
        return self._turns.setdefault(node, trio.Lock())

    def fail(self, error: Exception) -> None:
        """Let the next call for records raise this."""
        self.failure = error
        self.arrived.ring()

    # Metadata

    def refresh(self) -> None:
        """Have the metadata looked up soon."""
        self.refresh_soon()
        self.bell.ring()

    def refresh_soon(self) -> None:
        """`refresh` for the fetches themselves, which would never wait if they rang their own
        bell."""
        self.metadata_due_ms = min(self.metadata_due_ms, now_ms() + REFRESH_MS)

    def name(self, place: IdPartition) -> str:
        return f"{self.view.name_of(place[0]) or place[0].hex()}-{place[1]}"

    def problem(self, place: IdPartition, code: int) -> str:
        """The text for results that a broker has refused."""
        error = ErrorCode(code)
        if error in STALE:
            self.refresh()
        return f"results of {self.name(place)}: {error.description} ({error.name})"

    # Records

    def take(self, count: int) -> list[SharedRecord]:
        """Hand out records from the buffer whose locks hold."""
        now = now_ms()
        found: list[SharedRecord] = []
        while self.buffer and len(found) < count:
            held = self.buffer.popleft()
            if held.until_ms <= now or self.session(held.node).number != held.session:
                continue
            self.held[key_of(held.record)] = held
            found.append(held.record)
        return found

    def take_back(self, records: Iterable[SharedRecord]) -> None:
        """Records that did not reach the application: they are handed out again."""
        held = [self.held.pop(key_of(record), None) for record in records]
        self.buffer.extendleft(each for each in reversed(held) if each is not None)

    def note(self, held: Held, kind: Acknowledge) -> None:
        """Note the result of a record, for the next request to its broker."""
        session = self.session(held.node)
        if session.number == held.session:
            session.acknowledge(held.place, held.record.offset, kind)
        else:
            session.not_stored(held.place)

    def accept_held(self) -> None:
        """Without explicit results, records that were handed out are accepted."""
        if self.options.acknowledgement == "implicit":
            for held in self.held.values():
                self.note(held, Acknowledge.ACCEPT)
            self.held.clear()


def key_of(record: SharedRecord) -> tuple[str, int, int]:
    return record.topic, record.partition, record.offset
