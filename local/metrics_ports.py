"""The metrics ports of brokers, read over HTTP; a port that does not answer is left out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import trio

ANSWER_MAX_BYTES: Final = 64 * 1024 * 1024
ANSWER_SECONDS: Final = 5.0
PIECE_BYTES: Final = 256 * 1024

Address = tuple[str, int]


async def read_all(ports: Mapping[int, Address], wanted: tuple[str, ...]) -> dict[int, str]:
    """By broker, the lines with the wanted beginnings; brokers that answer too late are left out.

    All lines of a broker with thousands of partitions would take more memory than all else here.
    """
    found: dict[int, str] = {}
    begins = tuple(each.encode() for each in wanted)

    async def read(broker_id: int, address: Address) -> None:
        lines = _Lines(begins)
        with trio.move_on_after(ANSWER_SECONDS):
            if await _get(address, "/metrics", lines.take) and lines.is_ok:
                found[broker_id] = lines.kept.decode(errors="replace")

    async with trio.open_nursery() as nursery:
        for broker_id, address in ports.items():
            nursery.start_soon(read, broker_id, address)
    return found


class _Lines:
    """The lines with the wanted beginnings, of an answer that comes in pieces."""

    def __init__(self, begins: tuple[bytes, ...]) -> None:
        self._begins = begins
        self._rest = bytearray()
        self._status = b""
        self.kept = bytearray()

    def take(self, piece: bytes) -> None:
        self._rest += piece
        end = self._rest.rfind(b"\n") + 1
        lines = bytes(self._rest[:end]).splitlines(keepends=True)
        del self._rest[:end]
        if lines and not self._status:
            self._status = lines[0]
        self.kept += b"".join(line for line in lines if line.startswith(self._begins))

    @property
    def is_ok(self) -> bool:
        return b" 200 " in self._status


class Answer(NamedTuple):
    is_ok: bool
    body: bytes


async def read_path(address: Address, path: str) -> Answer | None:
    """The answer of a port to a request; None if there is none in time."""
    received = bytearray()
    with trio.move_on_after(ANSWER_SECONDS):
        if await _get(address, path, received.extend):
            head, found, body = bytes(received).partition(b"\r\n\r\n")
            return Answer(b" 200 " in head.split(b"\r\n", 1)[0], body) if found else None
    return None


async def _get(address: Address, path: str, take: Callable[[bytes], None]) -> bool:
    """Whether the whole answer came; `take` is called with its pieces."""
    count = 0
    try:
        async with await trio.open_tcp_stream(*address) as stream:
            await stream.send_all(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
            while piece := await stream.receive_some(PIECE_BYTES):
                count += len(piece)
                if count > ANSWER_MAX_BYTES:
                    return False
                take(piece)
    except (OSError, trio.BrokenResourceError):
        return False
    return True
