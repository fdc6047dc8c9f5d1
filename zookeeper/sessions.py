"""Sessions and their deadlines.

Mirrors `SessionTrackerImpl` and `ExpiryQueue`. A session lives until its deadline, which every
frame from its client moves on; deadlines are rounded up to the next multiple of the tick, so that
all sessions of one tick expire together and a touch within one tick changes nothing.

Invariant: no session expires before its deadline.

The password that a client must show to resume its session is computed from the session's id
(`passwords`).
"""

from __future__ import annotations

import hmac

from ..protocol.invariants import BrokenInvariant
from .passwords import PasswordOf

_MASK_56_BITS = (1 << 56) - 1


class Session:
    """A client's session: its time-out, its deadline, and the connection that holds it now."""

    __slots__ = ("connection", "deadline_ms", "session_id", "timeout_ms")

    def __init__(self, session_id: int, timeout_ms: int) -> None:
        # Never 0, and no other's; never changes.
        self.session_id = session_id
        # Negotiated when it was created or resumed: 2 to 20 ticks.
        self.timeout_ms = timeout_ms
        # Set by `touch`: a multiple of the tick, and its key in `_buckets`. -1: never set.
        self.deadline_ms = -1
        # The connection that has it now; None: its client is away.
        self.connection: object | None = None

    def __repr__(self) -> str:
        return f"Session({self.session_id:#x}, until {self.deadline_ms} ms)"


class SessionTable:
    __slots__ = (
        "_buckets",
        "_next_id",
        "_server_bits",
        "_tick_ms",
        "limits_ms",
        "password",
        "sessions",
    )

    def __init__(
        self,
        tick_ms: int,
        password: PasswordOf,
        now_ms: int,
        server_id: int = 0,
        limits_ms: tuple[int, int] | None = None,
    ) -> None:
        assert tick_ms > 0
        self.sessions: dict[int, Session] = {}
        self._tick_ms = tick_ms
        # The shortest and the longest time-out that a client can have.
        self.limits_ms = limits_ms or (2 * tick_ms, 20 * tick_ms)
        self.password = password
        self._buckets: dict[int, dict[int, None]] = {}
        # Like initializeNextSessionId: the time makes ids differ between two runs, the server's
        # number in the highest byte those of two members.
        self._next_id = ((now_ms << 24) & 0xFFFF_FFFF_FFFF_FFFF) >> 8
        self._server_bits = (server_id - 256 if server_id > 127 else server_id) << 56

    def of_the_same_kind(self, now_ms: int) -> SessionTable:
        """Another table, without any session yet."""
        table = SessionTable(self._tick_ms, self.password, now_ms, limits_ms=self.limits_ms)
        table._server_bits = self._server_bits
        return table

    def negotiate_ms(self, wanted_ms: int) -> int:
        """The client's wish, held between the limits: by default 2 and 20 ticks."""
        shortest_ms, longest_ms = self.limits_ms
        return min(max(wanted_ms, shortest_ms), longest_ms)

    def timeouts_ms(self) -> dict[int, int]:
        return {session.session_id: session.timeout_ms for session in self.sessions.values()}

    def next_id(self) -> int:
        bits = self._server_bits
        while self._next_id | bits in self.sessions or self._next_id == 0:
            self._next_id = (self._next_id + 1) & _MASK_56_BITS
        session_id = self._next_id
        self._next_id = (session_id + 1) & _MASK_56_BITS
        return session_id | bits

    def password_is_right(self, session_id: int, password: bytes | None) -> bool:
        return session_id != 0 and hmac.compare_digest(password or b"", self.password(session_id))

    def add(self, session_id: int, timeout_ms: int, now_ms: int) -> Session:
        session = self.sessions.get(session_id)
        if session is None:
            session = self.sessions[session_id] = Session(session_id, timeout_ms)
        session.timeout_ms = timeout_ms
        self.touch(session, now_ms)
        return session

    def touch(self, session: Session, now_ms: int) -> None:
        tick_ms = self._tick_ms
        deadline_ms = ((now_ms + session.timeout_ms) // tick_ms + 1) * tick_ms
        if deadline_ms == session.deadline_ms:
            return
        self._leave_bucket(session)
        session.deadline_ms = deadline_ms
        self._buckets.setdefault(deadline_ms, {})[session.session_id] = None

    def remove(self, session_id: int) -> Session | None:
        session = self.sessions.pop(session_id, None)
        if session is not None:
            self._leave_bucket(session)
        return session

    def expired(self, now_ms: int) -> list[Session]:
        """The sessions whose deadline has passed, in the order of their deadlines."""
        due = sorted(deadline for deadline in self._buckets if deadline <= now_ms)
        found = [self.sessions[key] for deadline in due for key in self._buckets[deadline]]
        if any(session.deadline_ms > now_ms for session in found):
            raise BrokenInvariant(f"sessions expire at {now_ms} ms, before their time: {found}")
        return found

    def next_deadline_ms(self) -> int | None:
        return min(self._buckets, default=None)

    def _leave_bucket(self, session: Session) -> None:
        bucket = self._buckets.get(session.deadline_ms)
        if bucket is None:
            return
        bucket.pop(session.session_id, None)
        if not bucket:
            del self._buckets[session.deadline_ms]
