"""The functions that `packed` takes from librt, for interpreters without a build of librt."""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct, error


class BytesWriter:
    """Bytes that grow."""

    __slots__ = ("_data",)

    def __init__(self) -> None:
        self._data = bytearray()

    def append(self, byte: int, /) -> None:
        self._data.append(byte)

    def write(self, data: bytes | bytearray, /) -> None:
        self._data += data

    def getvalue(self) -> bytes:
        return bytes(self._data)

    def truncate(self, size: int, /) -> None:
        del self._data[size:]

    def __len__(self) -> int:
        return len(self._data)


def _reader(letter: str) -> Callable[[bytes, int], int]:
    layout = Struct(f">{letter}")
    unpack, size = layout.unpack_from, layout.size

    def read(data: bytes, position: int, /) -> int:
        if position + size > len(data):
            raise IndexError("past the end")
        number: int = unpack(data, position)[0]
        return number

    return read


def _writer(letter: str) -> Callable[[BytesWriter, int], None]:
    pack = Struct(f">{letter}").pack

    def write(out: BytesWriter, number: int, /) -> None:
        try:
            out.write(pack(number))
        except error as problem:
            raise ValueError(str(problem)) from None

    return write


read_i16_be = _reader("h")
read_i32_be = _reader("i")
read_i64_be = _reader("q")
read_f64_be = _reader("d")
write_i16_be = _writer("h")
write_i32_be = _writer("i")
write_i64_be = _writer("q")
write_f64_be = _writer("d")
