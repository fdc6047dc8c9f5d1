"""The state of a transaction: its partitions, and its legal steps.

Pure. `MOVES` has the legal steps. A failure in a transaction dooms it: it can only be aborted, and
its numbers begin anew under another epoch (KIP-360). A fence or a refusal of the id ends the
producer.

With transaction version 2 (KIP-890, part 2) the brokers add what is written to the transaction, and
its end raises the epoch. A connection to a broker that was made before the cluster had it does not
offer it: there, partitions are added as before.
Mirrors: TransactionManager's states.
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
    """The transactions of one producer, one after the other."""

    def __init__(self) -> None:
        self.state = State.NEW  # `move` sets it, along MOVES
        self.error: Exception | None = None  # the reason why it is doomed, or dead
        self.added: set[Partition] = set()  # the coordinator knows these
        self.missing: set[Partition] = set()  # to be added at the coordinator
        self.has_offsets = False
        self.has_sent = False  # something that a broker adds by itself
        self.needs_epoch = False
        self.is_version_2 = False  # the cluster has it, and our epoch is one of version 2

    def move(self, state: State) -> None:
        if state not in MOVES[self.state]:
            raise BrokenInvariant(f"a transaction goes from {self.state} to {state}")
        self.state = state

    def begin(self) -> None:
        """Begin. Raises ClientError if one is open, or none can be any more."""
        if self.state is not State.READY:
            raise self._misuse("begin")
        self.move(State.OPEN)
        self.error = None
        self.added.clear()
        self.missing.clear()
        self.has_offsets = False
        self.has_sent = False

    def check_open(self, what: str) -> None:
        """Raises TransactionAborted if it is doomed, ClientError if there is none."""
        if self.state is State.DOOMED:
            raise TransactionAborted(f"the transaction can only be aborted: {self.error}")
        if self.state is not State.OPEN:
            raise self._misuse(what)

    def use(self, topic: str, partition: int) -> bool:
        """Record a partition in use; whether the coordinator must be asked to add it."""
        return not self.is_version_2 and self.must_add(topic, partition)

    def must_add(self, topic: str, partition: int) -> bool:
        """Record that the broker of this partition does not add it; as `use`."""
        place = (topic, partition)
        if place in self.added or place in self.missing:
            return False
        self.missing.add(place)
        return True

    def may_send(self, topic: str, partition: int) -> bool:
        place = (topic, partition)
        is_known = place in self.added or (self.is_version_2 and place not in self.missing)
        return is_known and self.state in (State.OPEN, State.COMMITTING)

    @property
    def is_lost(self) -> bool:
        """Whether unsent batches can be dropped."""
        return self.state in (State.DOOMED, State.ABORTING)

    def batch_failed(self, error: Exception, *, is_numbered: bool) -> None:
        """Some records are lost, and their numbers too, if they have any."""
        self.doom(error)
        self.needs_epoch |= is_numbered

    def doom(self, error: Exception) -> None:
        """From now on it can only be aborted."""
        if self.state in (State.OPEN, State.COMMITTING):
            self.move(State.DOOMED)
            self.error = error

    def end(self, error: Exception) -> None:
        """There will be no further transaction."""
        if self.state is not State.DEAD:
            self.move(State.DEAD)
            self.error = error

    @property
    def is_known_to_coordinator(self) -> bool:
        """Whether the coordinator knows it; if not, its end needs no request."""
        return bool(self.added) or self.has_offsets or self.has_sent

    def _misuse(self, what: str) -> ClientError:
        if self.state is State.DEAD:
            return ClientError(f"cannot {what}: the producer has ended: {self.error}")
        return ClientError(f"cannot {what}: this producer is {self.state.value}")
