"""The metrics ports of brokers, read over HTTP; who does not answer has nothing to say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import trio

ANSWER_MAX_BYTES: Final = 64 * 1024 * 1024
ANSWER_SECONDS: Final = 5.0
PIECE_BYTES: Final = 256 * 1024

Address = tuple[str, int]


async def read_all(ports: Mapping[int, Address]) -> dict[int, str]:
    """By broker, what those who answer in time have written."""
    found: dict[int, str] = {}

    async def read(broker_id: int, address: Address) -> None:
        with trio.move_on_after(ANSWER_SECONDS):
            text = await _read(address)
            if text is not None:
                found[broker_id] = text

    async with trio.open_nursery() as nursery:
        for broker_id, address in ports.items():
            nursery.start_soon(read, broker_id, address)
    return found


class Answer(NamedTuple):
    is_ok: bool
    body: bytes


async def read_path(address: Address, path: str) -> Answer | None:
    """What a port says to a question; None if nobody answers in time."""
    with trio.move_on_after(ANSWER_SECONDS):
        return await _get(address, path)
    return None


async def _read(address: Address) -> str | None:
    answer = await _get(address, "/metrics")
    return answer.body.decode(errors="replace") if answer is not None and answer.is_ok else None


async def _get(address: Address, path: str) -> Answer | None:
    received = bytearray()
    try:
        async with await trio.open_tcp_stream(*address) as stream:
            await stream.send_all(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
            while chunk := await stream.receive_some(PIECE_BYTES):
                received += chunk
                if len(received) > ANSWER_MAX_BYTES:
                    return None
    except (OSError, trio.BrokenResourceError):
        return None
    head, found, body = bytes(received).partition(b"\r\n\r\n")
    return Answer(b" 200 " in head.split(b"\r\n", 1)[0], body) if found else None
