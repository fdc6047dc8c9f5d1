"""Where a transaction stands: what is in it, and what may happen next.

Pure. `MOVES` has the legal steps. What fails in a transaction dooms it: it can only be aborted, and
its numbers begin anew under another epoch (KIP-360). A fence or a refusal of the id is the end.
Mirrors: TransactionManager's states. Leaves out KIP-890 part 2, which our brokers do not speak.
"""

from __future__ import annotations

from enum import Enum
from types import MappingProxyType
from typing import Final

from ...protocol.invariants import BrokenInvariant
from ..errors import ClientError, TransactionAborted


class State(Enum):
    NEW = "not initialised"
    READY = "outside a transaction"
    OPEN = "in a transaction"
    DOOMED = "in a transaction that can only be aborted"
    COMMITTING = "being committed"
    ABORTING = "being aborted"
    DEAD = "at its end"


MOVES: Final = MappingProxyType(
    {
        State.NEW: {State.READY, State.DEAD},
        State.READY: {State.OPEN, State.DEAD},
        State.OPEN: {State.DOOMED, State.COMMITTING, State.ABORTING, State.DEAD},
        State.DOOMED: {State.ABORTING, State.DEAD},
        State.COMMITTING: {State.READY, State.DOOMED, State.DEAD},
        State.ABORTING: {State.READY, State.DEAD},
        State.DEAD: set[State](),
    }
)

Partition = tuple[str, int]


class Transaction:
    """Of one producer, one after the other."""

    def __init__(self) -> None:
        self.state = State.NEW  # `move` sets it, along MOVES
        self.error: Exception | None = None  # why it is doomed, or dead
        self.added: set[Partition] = set()  # the coordinator knows them
        self.missing: set[Partition] = set()  # it is to be told of them
        self.has_offsets = False
        self.needs_epoch = False

    def move(self, state: State) -> None:
        if state not in MOVES[self.state]:
            raise BrokenInvariant(f"a transaction goes from {self.state} to {state}")
        self.state = state

    def begin(self) -> None:
        """Raises ClientError if there is one already, or never will be."""
        if self.state is not State.READY:
            raise self._misuse("begin")
        self.move(State.OPEN)
        self.error = None
        self.added.clear()
        self.missing.clear()
        self.has_offsets = False

    def check_open(self, what: str) -> None:
        """Raises TransactionAborted if it is doomed, ClientError if there is none."""
        if self.state is State.DOOMED:
            raise TransactionAborted(f"the transaction can only be aborted: {self.error}")
        if self.state is not State.OPEN:
            raise self._misuse(what)

    def use(self, topic: str, partition: int) -> bool:
        """Records go there; whether the coordinator is to be told."""
        place = (topic, partition)
        if place in self.added or place in self.missing:
            return False
        self.missing.add(place)
        return True

    def may_send(self, topic: str, partition: int) -> bool:
        return (topic, partition) in self.added and self.state in (State.OPEN, State.COMMITTING)

    @property
    def is_lost(self) -> bool:
        """What is not sent yet need not be."""
        return self.state in (State.DOOMED, State.ABORTING)

    def batch_failed(self, error: Exception, *, is_numbered: bool) -> None:
        """Some of its records are not there, and their numbers with them, if they have any."""
        self.doom(error)
        self.needs_epoch |= is_numbered

    def doom(self, error: Exception) -> None:
        """It can only be aborted now."""
        if self.state in (State.OPEN, State.COMMITTING):
            self.move(State.DOOMED)
            self.error = error

    def end(self, error: Exception) -> None:
        """There will be no other."""
        if self.state is not State.DEAD:
            self.move(State.DEAD)
            self.error = error

    @property
    def is_known_to_coordinator(self) -> bool:
        """Otherwise nobody has to be told of its end."""
        return bool(self.added) or self.has_offsets

    def _misuse(self, what: str) -> ClientError:
        if self.state is State.DEAD:
            return ClientError(f"cannot {what}: the producer has ended: {self.error}")
        return ClientError(f"cannot {what}: this producer is {self.state.value}")
