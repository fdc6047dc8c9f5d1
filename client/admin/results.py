"""What administration answers: a value or an error an item, as Java's Admin has a future an item.

Invariant: every item that was asked for is in exactly one of `values` and `errors`.
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
    """By item: what was answered, or why not. `results[item]` is the one, or raises the other."""

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
        """The answer to an item; the value counts if there is no error."""
        if error is None:
            self.values[item] = value
        else:
            self.errors[item] = error


def refused(asked: Asked, code: int, message: str | None, what: str) -> Refused | None:
    """None if the code is 0."""
    try:
        asked.check(code, message, what)
    except Refused as error:
        return error
    return None
