"""What strangers do to listeners of TLS, before any request: a good client beside it goes on.

Half a second each, some a little more; those by hand are for `make abuse`.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from pybroker_kafka.protocol.apis.metadata import MetadataRequest
from tests.abuse.beside import MAX_MEASUREMENTS
from tests.abuse.secured import Secured, for_a_while
from tests.abuse.storms import send_what_goes
from tests.support.wire import WireClient

SECONDS = 0.5
TINY_RECORDS = 100_000
REQUEST = b"\0\0\0\x20\0\x12\0\0\0\0\0\1\0\x04test" + bytes(20)


def read_to_end(connection: socket.socket) -> bytes:
    """What is answered until the broker closes."""
    answer = b""
    with contextlib.suppress(ConnectionError):
        while data := connection.recv(65536):
            answer += data
    return answer


@pytest.mark.parametrize("listener", ["TLS", "SECURE"])
def test_plain_bytes(secured: Secured, listener: str) -> None:
    def once() -> int:
        for sent in (
            REQUEST,
            b"GET / HTTP/1.1\r\n\r\n",
            b"\xff" * 4096,
            b"\x16\x03\x01\xff\xff" * 99,
        ):
            with secured.raw(listener) as connection:
                connection.sendall(sent)
                read_to_end(connection)
        return 4

    secured.unharmed(f"plain bytes to {listener}", for_a_while(SECONDS, once))


@pytest.mark.parametrize("listener", ["PLAIN", "USERS"])
def test_handshakes_with_what_speaks_no_tls(secured: Secured, listener: str) -> None:
    hello = secured.hello()

    def once() -> int:
        with secured.raw(listener) as connection:
            connection.sendall(hello)
            read_to_end(connection)
        return 1

    secured.unharmed(f"TLS to {listener}", for_a_while(SECONDS, once))


@contextlib.contextmanager
def many(secured: Secured, listener: str, count: int) -> Iterator[list[socket.socket]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(secured.raw(listener)) for _ in range(count)]


@pytest.mark.parametrize(
    ("count", "share"), [(300, 0.5), (300, 1.0), (3000, 0.5), (3000, 1.0)],
    ids=["begun", "unread", "begun-by-hand", "unread-by-hand"],
)  # fmt: skip
def test_half_handshakes(secured: Secured, count: int, share: float) -> None:
    """Of the whole hello the broker has done its part, and signed."""
    hello = secured.hello()

    def abuse() -> int:
        with many(secured, "SECURE", count) as opened:
            for connection in opened:
                send_what_goes(connection, hello[: int(len(hello) * share)])
            time.sleep(SECONDS)
        return count

    secured.unharmed(f"{count} handshakes, {share:.0%} of a hello", abuse)


def storm(secured: Secured, listener: str, threads: int, seconds: float) -> int:
    """Whole handshakes, one after the other; how many."""
    context = secured.context()

    def once() -> int:
        with contextlib.suppress(OSError), secured.raw(listener) as connection:
            context.wrap_socket(connection, server_hostname="localhost").close()
        return 1

    with ThreadPoolExecutor(threads) as pool:
        runs = [pool.submit(for_a_while(seconds, once)) for _ in range(threads)]
        return sum(run.result() for run in runs)


@pytest.mark.parametrize("listener", ["TLS", "MUTUAL"])
def test_a_storm_of_handshakes(secured: Secured, listener: str) -> None:
    """To MUTUAL they have no certificate."""
    secured.unharmed(f"handshakes to {listener}", lambda: storm(secured, listener, 4, SECONDS))


@pytest.mark.parametrize(("version", "word"), [("tls1_2", b"R\n"), ("tls1_3", b"K\n")])
def test_renegotiation(secured: Secured, version: str, word: bytes) -> None:
    """Of TLS 1.2, and new keys of TLS 1.3, again and again."""

    def abuse() -> int:
        command = ["openssl", "s_client", f"-{version}", "-connect"]
        client = subprocess.Popen(
            [*command, f"127.0.0.1:{secured.port('TLS')}"],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        assert client.stdin is not None
        try:
            end = time.monotonic() + SECONDS
            while time.monotonic() < end:
                with contextlib.suppress(BrokenPipeError):
                    client.stdin.write(word)
                    client.stdin.flush()
                time.sleep(0.0005)
        finally:
            client.kill()
            client.wait()
            with contextlib.suppress(BrokenPipeError):
                client.stdin.close()
        return 1

    secured.unharmed(f"{word.decode().strip()} of s_client {version}", abuse)


def test_clients_that_never_read(secured: Secured) -> None:
    readers = 20

    def abuse() -> int:
        with contextlib.ExitStack() as stack:
            for _ in range(readers):
                lazy = stack.enter_context(secured.client("TLS"))
                frame = lazy.frame(MetadataRequest(topics=None), 9)
                lazy.socket.setblocking(False)
                with contextlib.suppress(BlockingIOError, ssl.SSLError):
                    for _ in range(50):
                        lazy.socket.send(frame * 100)
            time.sleep(SECONDS)
        return readers

    secured.unharmed(f"{readers} that never read over TLS", abuse)


def byte_by_byte(client: WireClient, data: bytes, pause: float) -> None:
    for byte in data:
        client.socket.sendall(bytes([byte]))
        if pause:
            time.sleep(pause)


def test_records_that_drip(secured: Secured) -> None:
    def abuse() -> int:
        with contextlib.ExitStack() as stack:
            dripping = [stack.enter_context(secured.client("TLS")) for _ in range(20)]
            with ThreadPoolExecutor(len(dripping)) as pool:
                for client in dripping:
                    frame = client.frame(MetadataRequest(topics=[]), 9)
                    pool.submit(byte_by_byte, client, frame, SECONDS / len(frame))
        return 20

    secured.unharmed("20 that send a byte now and then", abuse)


def test_tiny_records(secured: Secured) -> None:
    """Encrypted before, sent in large pieces: thousands of records at once."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = secured.context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with secured.raw("TLS") as connection:
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                connection.sendall(outgoing.read())
                incoming.write(connection.recv(65536))
        for byte in (TINY_RECORDS).to_bytes(4, "big") + bytes(TINY_RECORDS - 5):
            tls.write(bytes([byte]))
        pieces = iter(cut(outgoing.read(), MAX_MEASUREMENTS))

        def abuse() -> int:
            connection.sendall(next(pieces))
            time.sleep(SECONDS / 2)
            return 1

        secured.unharmed(f"{TINY_RECORDS // MAX_MEASUREMENTS} records of 1 B", abuse)


def cut(data: bytes, count: int) -> list[bytes]:
    size = -(-len(data) // count)
    return [data[at : at + size] for at in range(0, len(data), size)]
