"""One kind of quota: the limit and the usage of each client.

Job: `find` returns the meter of a user and a client id, or None if no quota limits them. The most
specific quota counts: user and client id, user and any client, the user, any user and this client
id, any user and any client, any user, the client id, any client. The quota decides which clients
share a meter: all client ids of a user share a quota of the user alone, a default is for each by
itself.

A limit may change, go, and come back: usage recorded under it stays, and counts by the limit at the
time of the next question. A bucket that is asked for while it has no limit is full then.

Invariants: a client without a limit gets no meter and costs a look-up. Defaults make at most
MAX_METERS meters; if more clients come within the windows (one that invents names), the new ones
share one meter for each default. A client's own quota always has its own meter. Meters that were
not used for FORGET_AFTER_MS are forgotten, or earlier, if the room is needed, as soon as a meter
without a past would give the same answers.

Mirrors ClientQuotaManager with DefaultQuotaCallback. Leaves out its rates of unlimited clients.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final, Generic, Protocol, TypeVar

from ...replication.sampled_sum import SampledSum
from .entities import Entity

MAX_METERS: Final = 5_000
MAX_KNOWN: Final = 10_000
UNLIMITED: Final = float(2**63 - 1)
MAX_NAME_LENGTH: Final = 256  # of client ids that are worth remembering
WAIT_SAMPLES: Final = 2
WAIT_WINDOW_MS: Final = 30_000
FORGET_AFTER_MS: Final = 3_600_000
# How often meters are looked at for that, and how many of them.
SWEEP_MS: Final = 60_000
FULL_SWEEP_MS: Final = 1_000
SWEPT_AT_ONCE: Final = 250


class Meter(Protocol):
    """The usage under a quota."""

    limit: float

    def is_forgettable(self, now_ms: float) -> bool:
        """Whether a new meter would give the same answers."""

    def refresh(self, now_ms: float) -> None:
        """Called when a client is looked up while there is no limit."""


M = TypeVar("M", bound=Meter)


class Metered(Generic[M]):
    """A meter with its entity."""

    __slots__ = ("_wait_ms", "_waits", "entity", "meter", "used_ms")

    def __init__(self, entity: tuple[str, str], meter: M) -> None:
        self.entity = entity
        self.meter = meter
        self.used_ms = 0.0
        self._waits: SampledSum | None = None
        self._wait_ms: SampledSum | None = None

    def throttled(self, wait_ms: int, now_ms: float) -> None:
        """A client got this throttle time."""
        if self._waits is None or self._wait_ms is None:
            self._waits = SampledSum(WAIT_SAMPLES, WAIT_WINDOW_MS)
            self._wait_ms = SampledSum(WAIT_SAMPLES, WAIT_WINDOW_MS)
        self._waits.record(1, now_ms)
        self._wait_ms.record(wait_ms, now_ms)

    def average_wait_ms(self, now_ms: float) -> float:
        """The average of the waits of the last minute; 0 without any."""
        if self._waits is None or self._wait_ms is None:
            return 0.0
        return self._wait_ms.total(now_ms) / max(self._waits.total(now_ms), 1)


class Limits(Generic[M]):
    """The quotas of one kind, and the meters of clients that have one."""

    __slots__ = (
        "_kinds",
        "_known",
        "_limits",
        "_meters",
        "_new_meter",
        "_shared",
        "_swept_ms",
    )

    def __init__(self, new_meter: Callable[[float, float], M]) -> None:
        """`new_meter` takes the limit and the time."""
        self._new_meter = new_meter
        self._limits: dict[Entity, float] = {}
        # The kinds of all entities ever applied: whether of a user, and of a client id.
        self._kinds: set[tuple[bool, bool]] = set()
        self._meters: dict[tuple[str, str], Metered[M]] = {}
        self._shared: dict[Entity, Metered[M]] = {}
        self._known: dict[tuple[str, str], Metered[M] | None] = {}
        self._swept_ms = 0.0

    def __bool__(self) -> bool:
        """Whether there is any limit."""
        return bool(self._limits)

    def __iter__(self) -> Iterator[Metered[M]]:
        """The meters with a limit now."""
        for metered in self._meters.values():
            if metered.meter.limit != UNLIMITED:
                yield metered
        yield from self._shared.values()

    def set(self, entity: Entity, limit: float | None) -> None:
        """The quota of `entity` from now on; None takes it away."""
        self._kinds.add((entity[0] != "", entity[1] != ""))
        if limit is None or math.isnan(limit):
            if self._limits.pop(entity, None) is None:
                return
        else:
            self._limits[entity] = limit
        self._known.clear()
        self._shared.clear()
        for key, metered in self._meters.items():
            of = self._entity_of(*key)
            limits = of is not None and bucket_of(of, *key) == key
            metered.meter.limit = self._limits[of] if limits and of is not None else UNLIMITED

    def limit_of(self, user: str, client: str) -> float | None:
        entity = self._entity_of(user, client)
        return None if entity is None else self._limits[entity]

    def find(self, user: str, client: str, now_ms: float) -> Metered[M] | None:
        """The meter of a client; None if it has no limit."""
        try:
            found = self._known[user, client]
        except KeyError:
            found = self._find(user, client, now_ms)
        if found is not None:
            found.used_ms = now_ms
        return found

    def _find(self, user: str, client: str, now_ms: float) -> Metered[M] | None:
        entity = self._entity_of(user, client)
        found = None
        if entity is not None:
            key = bucket_of(entity, user, client)
            found = self._meters.get(key)
            if found is None:
                found = self._add(entity, key, now_ms)
        else:
            former = self._meters.get(self._bucket_without_limit(user, client))
            if former is not None:
                former.meter.refresh(now_ms)
        if len(client) <= MAX_NAME_LENGTH:
            if len(self._known) >= MAX_KNOWN:
                self._known.clear()
            self._known[user, client] = found
        return found

    def _add(self, entity: Entity, key: tuple[str, str], now_ms: float) -> Metered[M]:
        limit = self._limits[entity]
        if None in entity and (len(key[1]) > MAX_NAME_LENGTH or not self._has_room(now_ms)):
            shared = self._shared.get(entity)
            if shared is None:
                names = tuple("<others>" if name is None else name for name in entity)
                shared = Metered((names[0], names[1]), self._new_meter(limit, now_ms))
                self._shared[entity] = shared
            return shared
        added = self._meters[key] = Metered(key, self._new_meter(limit, now_ms))
        return added

    def _has_room(self, now_ms: float) -> bool:
        meters = self._meters
        is_full = len(meters) >= MAX_METERS
        if now_ms - self._swept_ms >= (FULL_SWEEP_MS if is_full else SWEEP_MS):
            self._swept_ms = now_ms
            kept = {}
            for key in list(islice(meters, SWEPT_AT_ONCE)):
                metered = meters.pop(key)
                if now_ms - metered.used_ms < FORGET_AFTER_MS and not (
                    is_full and metered.meter.is_forgettable(now_ms)
                ):
                    kept[key] = metered
            meters.update(kept)  # behind the others, whose turn is next
            self._known.clear()
        return len(meters) < MAX_METERS

    def _bucket_without_limit(self, user: str, client: str) -> tuple[str, str]:
        """The clients that Kafka measures together without a limit, by the kinds of quotas ever
        set.
        """
        if len(self._kinds) == 1:
            of_user, of_client = next(iter(self._kinds))
            return (user if of_user else "", client if of_client else "")
        return ("", client)

    def _entity_of(self, user: str, client: str) -> Entity | None:
        """The entity whose quota counts for a client; without an id it has no client id's quota."""
        limits = self._limits
        if not limits:
            return None
        if client:
            order: tuple[Entity, ...] = (
                (user, client), (user, None), (user, ""), (None, client), (None, None), (None, ""),
                ("", client), ("", None),
            )  # fmt: skip
        else:
            order = ((user, ""), (None, ""))
        for entity in order:
            if entity in limits:
                return entity
        return None


def bucket_of(entity: Entity, user: str, client: str) -> tuple[str, str]:
    """The clients that are measured together under the quota of `entity`."""
    return ("" if entity[0] == "" else user, "" if entity[1] == "" else client)
