"""The metrics ports of brokers, read over HTTP; who does not answer has nothing to say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

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


async def _read(address: Address) -> str | None:
    received = bytearray()
    try:
        async with await trio.open_tcp_stream(*address) as stream:
            await stream.send_all(b"GET /metrics HTTP/1.1\r\nHost: metrics\r\n\r\n")
            while chunk := await stream.receive_some(PIECE_BYTES):
                received += chunk
                if len(received) > ANSWER_MAX_BYTES:
                    return None
    except (OSError, trio.BrokenResourceError):
        return None
    head, _, body = bytes(received).partition(b"\r\n\r\n")
    return body.decode(errors="replace") if b" 200 " in head.split(b"\r\n", 1)[0] else None
