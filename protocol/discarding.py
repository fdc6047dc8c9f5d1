"""Free large messages in slices.

Job: `discard` empties the long lists of a message, some hundred elements between two yields. When
the last reference to a message of a hundred thousand elements is dropped, all of them are freed at
once, which takes tens of milliseconds. Invariants: only lists of more than SLICE_ELEMENTS elements
are emptied, and their elements are not changed: they may be in use elsewhere.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final

SLICE_ELEMENTS: Final = 500


def discard(message: Any) -> Generator[None, None, None]:
    """Empty all long lists in a message that is not used again."""
    for field in type(message)._fields:
        if field.kind != "array":
            continue
        items = getattr(message, field.name, None)
        if not items:
            continue
        if len(items) > SLICE_ELEMENTS:
            yield from discard_list(items)
        elif not isinstance(field.element, str):
            for item in items:
                yield from discard(item)


def discard_list(items: list[Any]) -> Generator[None, None, None]:
    """Empty a large list."""
    while items:
        del items[-SLICE_ELEMENTS:]
        yield


def discard_all(items: dict[Any, Any] | set[Any]) -> Generator[None, None, None]:
    """Empty a large collection."""
    pop = items.popitem if isinstance(items, dict) else items.pop
    while items:
        for _ in range(min(SLICE_ELEMENTS, len(items))):
            pop()
        yield
