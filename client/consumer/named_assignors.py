"""The assignors by name; the members of a group agree on a name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from ..errors import SettingsError
from .assignments import Assignor
from .assignors import RangeAssignor, RoundRobinAssignor
from .sticky_assignors import CooperativeStickyAssignor, StickyAssignor

ASSIGNORS: Final[Mapping[str, Callable[[], Assignor]]] = {
    RangeAssignor.name: RangeAssignor,
    RoundRobinAssignor.name: RoundRobinAssignor,
    StickyAssignor.name: StickyAssignor,
    CooperativeStickyAssignor.name: CooperativeStickyAssignor,
}


def assignor_named(name: str) -> Assignor:
    """The assignor. Raises SettingsError for an unknown name."""
    make = ASSIGNORS.get(name)
    if make is None:
        raise SettingsError(f"there is no assignor {name!r}; name one of {', '.join(ASSIGNORS)}")
    return make()
