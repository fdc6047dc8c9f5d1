"""Collections as Kafka's error messages show them: the texts of Scala's `toString`.

Tools and tests read them (`Cannot update these configs dynamically: Set(broker.rack)`). A set of up
to four elements keeps the order in which they came; a larger one is a HashSet, whose order follows
the elements' hashes and is not reproduced here.

Mirrors: toString of Scala 2.13's ArrayBuffer and immutable Set, and the order of java.util's
Properties.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .java_hash import java_string_hash

_LARGEST_SMALL_SET = 4
_SMALLEST_TABLE = 16


def buffer_text(elements: Iterable[object]) -> str:
    return f"ArrayBuffer({', '.join(map(str, elements))})"


def set_text(elements: Sequence[object]) -> str:
    kind = "Set" if len(elements) <= _LARGEST_SMALL_SET else "HashSet"
    return f"{kind}({', '.join(map(str, elements))})"


def mutable_set_text(elements: Iterable[object]) -> str:
    return f"HashSet({', '.join(map(str, elements))})"


def hash_ordered(names: Iterable[str]) -> list[str]:
    """In the order in which a hash table of Java's or Scala's lists that many names."""
    listed = list(names)
    slots = _SMALLEST_TABLE
    while 4 * len(listed) >= 3 * slots:
        slots *= 2

    def place(name: str) -> tuple[int, int]:
        value = java_string_hash(name)
        value ^= (value & 0xFFFFFFFF) >> 16
        return value & (slots - 1), value

    return sorted(listed, key=place)
