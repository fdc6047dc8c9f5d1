"""A cancelled call and the next one: which of them has a result, and when the next one begins."""

from __future__ import annotations

from types import TracebackType

import pytest
import trio

from pybroker_kafka.client.errors import ClientError
from pybroker_kafka.client.hosted.host import Host

SECONDS = 60.0


class Client:
    """A client that notes its calls; one that is cancelled takes a while to end."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass

    async def work(self, name: str, begun: trio.Event | None = None) -> str:
        self.notes.append(f"{name} begins")
        if begun is not None:
            begun.set()
            with trio.CancelScope(shield=True):
                await trio.sleep(0.05)
        self.notes.append(f"{name} ends")
        return name


def test_a_call_in_turn_waits_for_the_end_of_a_cancelled_one() -> None:
    client = Client()
    host = Host(client)
    host.open().result(SECONDS)
    try:
        begun = trio.Event()
        cancelled = host.call_in_turn(client.work, "first", begun)
        host.call(begun.wait).result(SECONDS)
        cancelled.cancel()
        assert host.call(client.work, "beside").result(SECONDS) == "beside"
        assert host.call_in_turn(client.work, "second").result(SECONDS) == "second"
    finally:
        host.close(None).result(SECONDS)
    assert client.notes == [
        "first begins",
        *("beside begins", "beside ends"),
        "first ends",
        *("second begins", "second ends"),
    ]


def test_calls_that_have_not_begun_end_with_the_block_or_when_cancelled() -> None:
    client = Client()
    host = Host(client)
    host.open().result(SECONDS)
    begun = trio.Event()
    running = host.call_in_turn(client.work, "running", begun)
    host.call(begun.wait).result(SECONDS)
    cancelled = host.call_in_turn(client.work, "cancelled")
    assert cancelled.cancel()
    assert running.result(SECONDS) == "running"
    assert host.call_in_turn(client.work, "next").result(SECONDS) == "next"
    begun = trio.Event()
    last = host.call_in_turn(client.work, "last", begun)
    host.call(begun.wait).result(SECONDS)
    behind = host.call_in_turn(client.work, "behind")
    host.close(None).result(SECONDS)
    assert last.done()
    with pytest.raises(ClientError, match="the client has ended"):
        behind.result(SECONDS)
    begun_calls = [note for note in client.notes if note.endswith("begins")]
    assert begun_calls == ["running begins", "next begins", "last begins"]
