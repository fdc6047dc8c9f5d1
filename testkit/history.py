"""The changes of leaders and in-sync replicas, as the controller sent them to a broker.

Each broker of a test's cluster remembers the changes that it saw; all of them are merged for the
story of a failed test, so that a broker that is dead by then is not missed.
Invariants: pure; a change is one line however many brokers saw it, with the earliest time.
Leaves out: topics of the broker's own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any, NamedTuple

from ..replication.metadata_cache import MetadataCache, MetadataUpdate, PartitionState

MAX_CHANGES = 100  # with the longest of names an answer of controls can have them


class Change(NamedTuple):
    """A new state of a partition, or of the set of brokers; `version` tells one from another."""

    at_ms: int  # of the machine's clock
    what: str
    version: tuple[int, ...]
    text: str


class History:
    """The last changes that one broker saw."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, int], PartitionState] = {}
        self.changes: deque[Change] = deque(maxlen=MAX_CHANGES)

    def note(self, cache: MetadataCache, update: MetadataUpdate, now_ms: int) -> None:
        """Note the changes that the controller has just sent."""
        for place in update.deleted_partitions:
            self._seen.pop(place, None)
        for topic in update.changed_topics:
            if topic.startswith("__"):
                continue
            for number, state in cache.partitions(topic).items():
                before = self._seen.get((topic, number))
                if before is None or _shown(before) != _shown(state):
                    version = (state.leader_epoch, state.zk_version)
                    name = f"{topic}-{number}"
                    self.changes.append(Change(now_ms, name, version, f"{name}: {_text(state)}"))
                    self._seen[topic, number] = state


def _shown(state: PartitionState) -> tuple[int, int, tuple[int, ...]]:
    return state.leader, state.leader_epoch, state.isr


def _text(state: PartitionState) -> str:
    leader = f"leader {state.leader}" if state.leader >= 0 else "no leader"
    in_sync = ", ".join(map(str, sorted(state.isr)))
    return f"{leader} (epoch {state.leader_epoch}), in sync {in_sync}"


def merged(histories: Iterable[Iterable[Change]]) -> list[Change]:
    """The changes that any of them saw, in order."""
    first: dict[tuple[str, tuple[int, ...], str], Change] = {}
    for history in histories:
        for change in history:
            key = (change.what, change.version, change.text)
            known = first.get(key)
            if known is None or change.at_ms < known.at_ms:
                first[key] = change
    return sorted(first.values())


def from_answers(answers: Iterable[Any]) -> list[Change]:
    """The changes that brokers have sent as JSON."""
    return merged(
        [Change(at_ms, what, tuple(version), text) for at_ms, what, version, text in one]
        for one in answers
    )
