"""What stands in for librt where it is not there does the same."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from pybroker_kafka.protocol import packed, packed_plain

NUMBERS = (0, 1, -1, 127, -129, 32767, -32768, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63))
ODD: tuple[Any, ...] = (32768, 2**31, 2**63, -(2**63) - 1, None, "1")
FORMS = ("i16", "i32", "i64", "f64")


def outcome(action: Callable[[], Any]) -> Any:
    try:
        return action()
    except (OverflowError, TypeError, ValueError):
        return "refused"
    except IndexError:
        return "past the end"


@pytest.mark.parametrize("form", FORMS)
def test_numbers(form: str) -> None:
    for value in (*NUMBERS, *ODD) if form != "f64" else (0.0, -1.5, 1e300, 3, "1", None):
        found = []
        for module in (packed, packed_plain):
            out = module.BytesWriter()
            write = getattr(module, f"write_{form}_be")
            done = outcome(partial(write, out, value))
            found.append((done, out.getvalue()))
        assert found[0] == found[1], value


@pytest.mark.parametrize("form", FORMS)
def test_reading(form: str) -> None:
    data = bytes(range(250, 256)) + bytes(range(12))
    for position in range(20):
        one, other = (
            outcome(partial(getattr(module, f"read_{form}_be"), data, position))
            for module in (packed, packed_plain)
        )
        assert one == other, position


def test_bytes_that_grow() -> None:
    for out in (packed.BytesWriter(), packed_plain.BytesWriter()):
        out.append(200)
        out.write(b"abc")
        out.write(bytearray(b"de"))
        assert len(out) == 6
        out.truncate(3)
        assert out.getvalue() == b"\xc8ab"
