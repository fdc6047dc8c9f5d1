"""Results of administration: a value or an error for each item; Java's Admin has a future for each.

Invariant: every requested item is in exactly one of `values` and `errors`.
Mirrors: the *Result classes of org.apache.kafka.clients.admin.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from ..errors import Refused
from ..refusals import Asked

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Results(Generic[K, V]):
    """The value or the error of each item. `results[item]` returns the value or raises the
    error."""

    values: dict[K, V] = field(default_factory=dict)
    errors: dict[K, Refused] = field(default_factory=dict)

    def __getitem__(self, item: K) -> V:
        if item in self.errors:
            raise self.errors[item]
        return self.values[item]

    def all(self) -> dict[K, V]:
        """Every value. Raises the first Refused, if there is one."""
        for error in self.errors.values():
            raise error
        return self.values

    def put(self, item: K, value: V, error: Refused | None) -> None:
        """Add the answer for an item; the value is used if there is no error."""
        if error is None:
            self.values[item] = value
        else:
            self.errors[item] = error


def refused(asked: Asked, code: int, message: str | None, what: str) -> Refused | None:
    """The error for a code; None if the code is 0."""
    try:
        asked.check(code, message, what)
    except Refused as error:
        return error
    return None
