"""Clear errors for a client that is used outside of trio."""

from __future__ import annotations

from typing import NoReturn

import sniffio

from .errors import ClientError


def require_trio(name: str) -> None:
    """Check that trio runs the caller, which enters the block of a `name`. Raises ClientError."""
    try:
        library = sniffio.current_async_library()
    except sniffio.AsyncLibraryNotFoundError:
        library = "no loop"
    if library != "trio":
        raise ClientError(f"a {name} runs on trio, and here runs {library}: {_others(name)}")


def refuse_plain_with(name: str) -> NoReturn:
    """Raises ClientError: the block of a `name` is an `async with`."""
    raise ClientError(f"a {name} is used with `async with`, on trio: {_others(name)}")


def _others(name: str) -> str:
    if name not in ("Producer", "Consumer"):
        return "start it with trio.run, or use AsyncioAdmin or BlockingAdmin of pybroker_kafka"
    return (
        f"use Asyncio{name} under asyncio, and Blocking{name} in a thread without a loop; "
        "pybroker_kafka has both"
    )
