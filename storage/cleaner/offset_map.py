"""From a key to the last offset it was seen at, within a fixed amount of memory.

Few keys are kept as they are in a dictionary: exact, and several times faster than a table in
Python. Beyond a quarter of the memory all go over to a table of digests: 24 bytes a key (a digest
of 128 bits and an offset), open addressing with a second hash, as in Kafka. A table of `memory`
bytes has as many slots as Kafka's, so both clean a log in the same steps.

Mirrors: SkimpyOffsetMap, OffsetMap.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from hashlib import blake2b
from struct import Struct

BYTES_PER_SLOT = 24
NOT_FOUND = -1

# The memory of a key in a dictionary besides its own bytes: the objects of key and offset, the
# entry, and its share of the free entries.
_DICTIONARY_BYTES_PER_KEY = 150
_DICTIONARY_SHARE = 4
_HALVES = Struct(">QQ")
_DIGEST_BYTES = 16


class OffsetMap:
    __slots__ = (
        "_dictionary",
        "_dictionary_bytes",
        "_dictionary_limit",
        "_table",
        "latest_offset",
        "limit",
        "look_up",
        "slots",
    )

    def __init__(self, memory: int, load_factor: float) -> None:
        self.slots = memory // BYTES_PER_SLOT
        self.limit = int(self.slots * load_factor)
        assert self.limit > 0, "the dedupe buffer has no room for a single key"
        self.latest_offset = -1
        self._dictionary: dict[bytes, int] | None = {}
        self._dictionary_bytes = 0
        self._dictionary_limit = memory // _DICTIONARY_SHARE
        self._table: _Table | None = None
        # The offset of a key; None or NOT_FOUND if it is not in the map.
        self.look_up: Callable[[bytes], int | None] = self._dictionary.get

    def __len__(self) -> int:
        if self._dictionary is not None:
            return len(self._dictionary)
        assert self._table is not None
        return self._table.size

    @property
    def utilization(self) -> float:
        return len(self) / self.slots

    def put_all(self, keys: Sequence[bytes], offsets: Sequence[int]) -> bool:
        """Note keys with growing offsets. False if the map was full before the last key."""
        count = len(keys)
        if not count:
            return True
        fitting = self.limit - len(self)
        if fitting < count:
            return self._put_until_full(keys, offsets)
        self._put(keys, offsets)
        self.latest_offset = offsets[-1]
        return True

    def _put_until_full(self, keys: Sequence[bytes], offsets: Sequence[int]) -> bool:
        """A full map takes no more, not even a key that it has: the pass ends there."""
        for key, offset in zip(keys, offsets, strict=True):
            if len(self) >= self.limit:
                return False
            self._put((key,), (offset,))
            self.latest_offset = offset
        return True

    def _put(self, keys: Sequence[bytes], offsets: Sequence[int]) -> None:
        dictionary = self._dictionary
        if dictionary is None:
            assert self._table is not None
            self._table.put_all(keys, offsets)
            return
        before = len(dictionary)
        dictionary.update(zip(keys, offsets, strict=True))
        grown = len(dictionary) - before
        if grown:
            mean_size = sum(map(len, keys)) // len(keys)
            self._dictionary_bytes += grown * (_DICTIONARY_BYTES_PER_KEY + mean_size)
            if self._dictionary_bytes > self._dictionary_limit:
                self._go_over_to_table(dictionary)

    def _go_over_to_table(self, dictionary: dict[bytes, int]) -> None:
        table = _Table(self.slots, self.limit)
        self._dictionary = None
        self._table = table
        self.look_up = table.get
        while dictionary:
            key, offset = dictionary.popitem()
            table.put_all((key,), (offset,))


class _Table:
    """Three columns of 8 bytes; an offset of -1 marks a free slot."""

    __slots__ = ("_high", "_low", "_offsets", "_slots", "size")

    def __init__(self, slots: int, limit: int) -> None:
        # With a prime size every step visits every slot.
        self._slots = max(_prime_up_to(slots), 2)
        if self._slots <= limit:
            self._slots = _prime_from(limit + 1)
        self._high: array[int] = array("Q", bytes(8)) * self._slots
        self._low: array[int] = array("Q", bytes(8)) * self._slots
        self._offsets: array[int] = array("q", [NOT_FOUND]) * self._slots
        self.size = 0

    def put_all(self, keys: Sequence[bytes], offsets: Sequence[int]) -> None:
        highs, lows, found = self._high, self._low, self._offsets
        slots = self._slots
        unpack = _HALVES.unpack
        for key, offset in zip(keys, offsets, strict=True):
            high, low = unpack(blake2b(key, digest_size=_DIGEST_BYTES).digest())
            slot = high % slots
            step = 0
            while found[slot] >= 0:
                if highs[slot] == high and lows[slot] == low:
                    break
                step = step or low % (slots - 1) + 1
                slot = (slot + step) % slots
            else:
                highs[slot] = high
                lows[slot] = low
                self.size += 1
            found[slot] = offset

    def get(self, key: bytes) -> int:
        digest = blake2b(key, digest_size=_DIGEST_BYTES).digest()
        high: int
        low: int
        high, low = _HALVES.unpack(digest)
        highs, found = self._high, self._offsets
        slots = self._slots
        slot = high % slots
        step = 0
        while found[slot] >= 0:
            if highs[slot] == high and self._low[slot] == low:
                return found[slot]
            step = step or low % (slots - 1) + 1
            slot = (slot + step) % slots
        return NOT_FOUND


def _is_prime(number: int) -> bool:
    if number < 4:
        return number >= 2
    if number % 2 == 0:
        return False
    divisor = 3
    while divisor * divisor <= number:
        if number % divisor == 0:
            return False
        divisor += 2
    return True


def _prime_up_to(number: int) -> int:
    while number > 2 and not _is_prime(number):
        number -= 1
    return number


def _prime_from(number: int) -> int:
    while not _is_prime(number):
        number += 1
    return number
