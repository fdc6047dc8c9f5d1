"""The producers that a log knows: how many there may be, which go, and how they are frozen.

`freeze` keeps the producers as they are at one offset, however many: before a producer changes or
is dropped, its row is made. So a snapshot of very many is made in pieces, beside appends.

The number of producers is bounded (`ProducerLimits`): an idle one makes room for a new one, and is
unknown from then on, as if it had expired. If none is idle, a client's new producer must retry
later: the state of a producer that has just written is never dropped, or its retry could be stored
twice. A follower accepts all that its leader accepted, and drops the longest idle producer.

Invariants: a producer with an open transaction is never dropped; a frozen snapshot has the row of
each producer as it was when it was frozen.

Mirrors: the entries of ProducerStateManager. Beyond Kafka: the bound; and a producer expires by the
time since its last append, not by the timestamps in its records.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from ..protocol.errors import ErrorCode, KafkaError
from ..protocol.wall_clock import NOT_SEEN
from .log_config import MAX_IDS_OF_BROKER, MAX_IDS_OF_LOG
from .producer_entry import DROPPED, FrozenProducers, ProducerEntry

# Ids that a log may keep in any case, however many there are in others.
IDS_OF_ANY_LOG: Final = 1_000
# A producer that has been silent for so long sends nothing again: more than twice the time in
# which clients deliver a record or give up (delivery.timeout.ms, by default two minutes).
IDLE_MS: Final = 5 * 60 * 1000
# The minimum time for which a producer that was only read from disk is kept, regardless of its
# timestamps.
KEPT_AFTER_START_MS: Final = 10 * 60 * 1000
# Producers examined in one step: for room, for expiry.
_LOOKED_AT_FOR_ROOM: Final = 32
# Dropped producers that stay listed, beside as many as there are others.
_LISTED_BEYOND: Final = 1_000
_EXPIRED_PER_STEP: Final = 2_000
_LET_GO_PER_STEP: Final = 5_000


class ProducerLimits:
    """The limits of the number of ids; all logs of a broker share the object."""

    __slots__ = ("is_broker_full", "of_broker", "of_log")

    def __init__(self, of_log: int = MAX_IDS_OF_LOG, of_broker: int = MAX_IDS_OF_BROKER) -> None:
        self.of_log = of_log
        self.of_broker = of_broker
        # Set by the owner of the broker's count; until then only the log's own limit applies.
        self.is_broker_full = False


class ProducerTable:
    """The producers of one log, by id."""

    __slots__ = ("_frozen", "_generation", "_listed", "entries", "limits", "map_end_offset")

    def __init__(self, limits: ProducerLimits | None = None) -> None:
        self.limits = limits or ProducerLimits()
        # By producer id; those examined last for room are at the end.
        self.entries: dict[int, ProducerEntry] = {}
        # In the order of arrival; some dropped entries are still listed.
        self._listed: list[ProducerEntry] = []
        # The number of snapshots frozen so far, and the snapshots that may not be over.
        self._generation = 0
        self._frozen: list[FrozenProducers] = []
        # The batches below it are in the entries.
        self.map_end_offset = 0

    def _add(self, producer_id: int, epoch: int) -> ProducerEntry:
        if self._is_full():
            self._drop_longest_idle()
        entry = self.entries[producer_id] = ProducerEntry(producer_id, epoch)
        entry.generation = self._generation
        self._listed.append(entry)
        return entry

    def _take(self, entry: ProducerEntry) -> None:
        """Take over an entry of a snapshot."""
        entry.generation = self._generation
        self.entries[entry.producer_id] = entry
        self._listed.append(entry)

    def _clear_entries(self, map_end_offset: int) -> None:
        self.entries.clear()
        self._listed = []
        self.map_end_offset = map_end_offset

    def release_some(self) -> bool:
        """Forget some producers of a replaced state, since dropping all at once is slow; whether
        all are gone."""
        entries = self.entries
        for _ in range(min(_LET_GO_PER_STEP, len(entries))):
            entries.popitem()
        if all(frozen.is_over for frozen in self._frozen):  # else the list is theirs as well
            del self._listed[-_LET_GO_PER_STEP:]
        return not entries

    # Snapshots

    def freeze(self) -> FrozenProducers:
        """The producers as they are now, up to `map_end_offset`."""
        self._generation += 1
        frozen = FrozenProducers(self.map_end_offset, self._generation, self._listed)
        self._frozen = [earlier for earlier in self._frozen if not earlier.is_over]
        self._frozen.append(frozen)
        return frozen

    def _keep_frozen(self, entry: ProducerEntry) -> None:
        """Make the rows of a producer that changes for the first time since it was frozen."""
        for frozen in self._frozen:
            if entry.generation < frozen.generation:
                frozen.keep(entry)
        entry.generation = self._generation

    # Producers that go

    def _is_full(self) -> bool:
        limits, count = self.limits, len(self.entries)
        return count >= limits.of_log or (limits.is_broker_full and count >= IDS_OF_ANY_LOG)

    def _drop(self, entry: ProducerEntry) -> None:
        del self.entries[entry.producer_id]
        self._keep_frozen(entry)
        entry.generation = DROPPED
        if len(self._listed) > 2 * len(self.entries) + _LISTED_BEYOND:
            self._listed = list(self.entries.values())

    def _make_room(self, now_ms: int) -> bool:
        """Drop idle producers among those not examined for the longest time; whether there is room
        now for another producer."""
        entries = self.entries
        for entry in list(islice(entries.values(), _LOOKED_AT_FOR_ROOM)):
            is_idle = entry.seen_ms != NOT_SEEN and now_ms - entry.seen_ms >= IDLE_MS
            if is_idle and entry.current_txn_first_offset < 0:
                self._drop(entry)
            else:
                entries[entry.producer_id] = entries.pop(entry.producer_id)  # to the end
        return not self._is_full()

    def _no_room(self, where: str) -> KafkaError:
        """An error that every client retries without looking for another leader; librdkafka drops
        records on THROTTLING_QUOTA_EXCEEDED."""
        return KafkaError(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            f"{where} has {len(self.entries)} producer ids that were used in the last "
            f"{IDLE_MS // 60_000} minutes, and takes no other one now",
        )

    def _drop_longest_idle(self) -> None:
        """Drop one of the producers not examined for the longest time, unless each has an open
        transaction. For producers that were accepted already: by the leader, or earlier."""
        found: ProducerEntry | None = None
        for entry in islice(self.entries.values(), _LOOKED_AT_FOR_ROOM):
            if entry.current_txn_first_offset < 0 and (
                found is None or entry.seen_ms < found.seen_ms
            ):
                found = entry
        if found is not None:
            self._drop(found)

    def _expire_entries(
        self, now_ms: int, wall_ms: int | None, expiration_ms: int
    ) -> Iterator[int]:
        """Drop producers that were idle for too long, in steps; yields how many.

        The last write of a producer that was only read from disk is taken from its timestamp: at
        most `wall_ms`, the current time (None: unknown, so it is kept now), and not so long ago
        that it could not come back after this start.
        """
        oldest_ms = max(expiration_ms - KEPT_AFTER_START_MS, 0)
        listed = self._listed
        for start in range(0, len(listed), _EXPIRED_PER_STEP):
            count = 0
            for entry in listed[start : start + _EXPIRED_PER_STEP]:
                if (
                    entry.current_txn_first_offset >= 0
                    or self.entries.get(entry.producer_id) is not entry
                ):
                    continue
                if entry.seen_ms == NOT_SEEN:
                    if wall_ms is None:
                        continue
                    age_ms = min(max(wall_ms - entry.last_timestamp, 0), oldest_ms)
                    entry.seen_ms = now_ms - age_ms
                if now_ms - entry.seen_ms >= expiration_ms:
                    self._drop(entry)
                    count += 1
            yield count
