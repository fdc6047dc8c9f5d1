"""A client's end of a TLS connection, for big answers: received data is decrypted straight into the
caller's buffer.

Invariants: one task at a time sends, and one receives; encrypted data is sent in order, also if
both have some; an end of the connection without TLS's closing message is a normal end (frames have
their own lengths); an error of OpenSSL becomes the cause of a BrokenResourceError. After an error
or a cancellation the stream can only be closed.

Mirrors SslTransportLayer. Instead of `trio.SSLStream`, which receives 16 KiB at a time and copies
each: half the CPU time for frames of a megabyte.
"""

from __future__ import annotations

import ssl
from contextlib import suppress

import trio

FIRST_BUFFER_BYTES = 16 * 1024
MAX_BUFFER_BYTES = 256 * 1024
# The data encrypted at a time: this much waits in memory.
SEND_BYTES = 256 * 1024


class TlsStream(trio.abc.Stream):
    def __init__(
        self, transport: trio.SocketStream, context: ssl.SSLContext, server_hostname: str
    ) -> None:
        self._socket = transport.socket
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._incoming, self._outgoing, server_hostname=server_hostname
        )
        self._buffer = bytearray(FIRST_BUFFER_BYTES)
        self._flushing = trio.Lock()

    async def do_handshake(self) -> None:
        """Run the handshake. Raises ssl.SSLError or OSError."""
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                await self._flush()
                await self._receive()
            except ssl.SSLError:
                # Send the alert with the reason to the broker.
                with suppress(OSError):
                    await self._flush()
                raise
            else:
                await self._flush()
                return

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        rest = memoryview(data)
        await trio.lowlevel.checkpoint_if_cancelled()
        while rest:
            try:
                written = self._tls.write(rest[:SEND_BYTES])
            except ssl.SSLError as error:
                raise trio.BrokenResourceError(str(error)) from error
            rest = rest[written:]
            await self._flush()

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.wait_writable(self._socket)

    async def receive_into(self, view: memoryview) -> int:
        """The number of bytes received, 0 at the end. A checkpoint only if it has to wait."""
        while True:
            try:
                return int(self._tls.read(len(view), view))
            except ssl.SSLWantReadError:
                pass
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                return 0
            except ssl.SSLError as error:
                raise trio.BrokenResourceError(str(error)) from error
            # TLS may have messages of its own to send; a task that is sending sends them as well.
            if self._outgoing.pending and not self._flushing.locked():
                await self._flush()
            await self._receive()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        data = bytearray(max_bytes or FIRST_BUFFER_BYTES)
        count = await self.receive_into(memoryview(data))
        return bytes(data[:count])

    async def aclose(self) -> None:
        self.close()
        await trio.lowlevel.checkpoint()

    def close(self) -> None:
        """Close without TLS's closing message, which no broker waits for."""
        self._socket.close()

    async def _flush(self) -> None:
        async with self._flushing:
            while self._outgoing.pending:
                rest = memoryview(self._outgoing.read())
                while rest:
                    rest = rest[await self._socket.send(rest) :]

    async def _receive(self) -> None:
        count = await self._socket.recv_into(self._buffer)
        if not count:
            self._incoming.write_eof()
            return
        self._incoming.write(memoryview(self._buffer)[:count])
        if count == len(self._buffer) < MAX_BUFFER_BYTES:
            self._buffer = bytearray(2 * count)
