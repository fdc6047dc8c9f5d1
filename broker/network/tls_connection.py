"""A connection over TLS: the same frames, encrypted on the wire.

Job: `TlsConnection` puts OpenSSL between the socket and the buffers of a `Connection`. OpenSSL
works in memory (`ssl.MemoryBIO`): one system call takes in or sends up to PIECE_BYTES, where a
non-blocking `SSLSocket` needs two for each record in and one for each out. Measured, in CPU seconds
a GB: received 0.5 against 0.75, sent 0.4 with both; a small request costs the same (13 us).

Invariants:
- Received bytes are decrypted as far as there is room: `_Wire` holds more only while a whole
  request is in the buffer, or the buffer may not grow; `frame_ready` then continues. Epoll does not
  report these bytes.
- At most RECORDS_AT_ONCE records of one connection are decrypted before others have their turn; it
  continues when epoll reports room in the socket, which is at once.
- Encrypted bytes leave before anything else is encrypted; they are the first part of the queue
  meanwhile, so that a queue without parts has sent all.
- A handshake is a step of a round like a large request: it takes milliseconds, so `needed` is
  HANDSHAKE meanwhile and rounds serve others first (`Processor._pending`).
- No byte reaches the requests before the handshake is finished, which has a time limit.

Mirrors `SslTransportLayer`.
"""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
from typing import Any, Final

from ..security.tls.principal_mapping import NoRuleApplies
from ..security.tls.server_tls import ServerTls
from .bad_input import BadInput, describe_no_handshake
from .connection import Connection, Owner
from .connection_quotas import MemoryPool
from .down_conversion import DownConversion
from .receive_buffer import COMMON_BUFFER_BYTES, ReceiveMemory
from .request import ConnectionInfo
from .selector import WRITE, Selector
from .send_queue import MAX_SENT_BYTES_PER_ROUND, Rest, SendQueue

# Received, decrypted or encrypted at once; all connections share the memory for it. OpenSSL keeps
# what it has held in each direction, up to a third more for a connection that has moved much, and
# that is not counted among receive buffers. Twice as much is hardly faster.
PIECE_BYTES: Final = 128 * 1024
RECORD_BYTES: Final = 16 * 1024
# In a piece there may be thousands of records of a byte each, some microseconds for every one.
RECORDS_AT_ONCE: Final = 500
# While more than that of a large frame is missing, the kernel is to speak up only when so much has
# come: clients send record by record, and a round for each of 16 KB costs more than all else.
LOW_WATER_BYTES: Final = 128 * 1024
# Of what is missing, this may be in OpenSSL already: a record that is not whole.
HALF_READ_BYTES: Final = RECORD_BYTES + 1024
# `needed` during the handshake.
HANDSHAKE: Final = 1 << 40
HANDSHAKE_SECONDS: Final = 30.0
# The most bytes that TLS itself may produce (alerts, new keys) while nothing is sent.
MAX_CONTROL_BYTES: Final = 64 * 1024

_received: Final = memoryview(bytearray(PIECE_BYTES))
_plain: Final = memoryview(bytearray(PIECE_BYTES))


class _Wire:
    """The socket as the connection's `transport`: received bytes are decrypted."""

    __slots__ = ("ended", "fileno", "has_paused", "incoming", "outgoing", "socket", "tls")

    def __init__(self, sock: socket.socket, server: ServerTls) -> None:
        self.socket = sock
        self.fileno = sock.fileno
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = server.new_connection(self.incoming, self.outgoing)
        self.ended = False
        self.has_paused = False  # the last time, since there were many records

    def take_in(self) -> int:
        """Receive once; 0 at the end of the stream, BlockingIOError if there are no bytes."""
        count = self.socket.recv_into(_received)
        if count:
            self.incoming.write(_received[:count])
        return count

    def recv_into(self, target: memoryview) -> int:
        """Fill `target` as far as bytes are available; like a socket's `recv_into`."""
        if not self.incoming.pending and not self.tls.pending():
            if self.ended:
                return 0
            if not self.take_in():
                return 0
        return self.decrypt(target)

    def decrypt(self, target: memoryview) -> int:
        """Decrypt received bytes. BlockingIOError if that makes no byte."""
        tls, incoming = self.tls, self.incoming
        filled, size = 0, len(target)
        records_left = RECORDS_AT_ONCE
        # The stubs know of the other form of this call only, which gives bytes.
        read: Any = tls.read
        try:
            while filled < size and records_left:
                records_left -= 1
                count: int = read(size - filled, target[filled:])
                if not count:
                    self.ended = True
                    break
                filled += count
                if not incoming.pending and not tls.pending():
                    break
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            self.ended = True
        except ssl.SSLError as error:
            raise BadInput(f"a TLS record that cannot be read ({_reason(error)})") from None
        self.has_paused = not records_left
        if self.outgoing.pending > MAX_CONTROL_BYTES:
            raise BadInput("TLS records that request answers, and reads none")
        if not filled and not self.ended:
            raise BlockingIOError
        return filled

    def recv(self, size: int, flags: int) -> bytes:
        return self.socket.recv(size, flags)

    def close(self) -> None:
        self.socket.close()


class _Encrypted:
    """The first part of a queue: records that the socket has not taken yet."""

    __slots__ = ("data",)

    def __init__(self, data: memoryview) -> None:
        self.data = data

    def __len__(self) -> int:
        return len(self.data)


class TlsSendQueue(SendQueue):
    """The bytes to send to one client, encrypted piece by piece as they leave."""

    __slots__ = ("_wire",)

    def __init__(self, wire: _Wire) -> None:
        super().__init__(wire.socket)
        self._wire = wire

    def flush(self) -> bool:
        """Like `SendQueue.flush`, for up to MAX_SENT_BYTES_PER_ROUND."""
        out = self.parts
        left = MAX_SENT_BYTES_PER_ROUND
        if not out:
            self._add_control()
        goes_on = True
        while goes_on and out and left > 0:
            first = out[0]
            if not isinstance(first, _Encrypted):
                left -= self._encrypt()
                first = out[0]
                if not isinstance(first, _Encrypted):
                    goes_on = False  # it is `cold`
                    break
            goes_on = self._send(first)
            if goes_on:
                out.popleft()
                if not out:
                    self._add_control()
        self.blocked = bool(out)
        self.had_share = goes_on and self.blocked
        return not out

    def _send(self, records: _Encrypted) -> bool:
        """Whether the socket took all of them; else the rest stays."""
        try:
            sent = self._transport.send(records.data)
        except (BlockingIOError, InterruptedError):
            return False
        if sent == len(records.data):
            return True
        records.data = records.data[sent:]
        return False

    def _add_control(self) -> None:
        """Queue the records of TLS itself, when nothing else is queued."""
        records = self._wire.outgoing.read()
        if records:
            self.parts.append(_Encrypted(memoryview(records)))

    def _encrypt(self) -> int:
        """Make one piece of the parts at the front, and of it records in their place; returns how
        many bytes of them that were. Nothing is encrypted if the first part is `cold`."""
        out, wire = self.parts, self._wire
        size = 0
        first = out[0]
        if len(out) == 1 and isinstance(first, bytes) and len(first) <= RECORD_BYTES:
            wire.tls.write(first)
            size = len(first)
            out.clear()
        else:
            while out and size < PIECE_BYTES and self.cold is None:
                size += self._take(size)
            if not size and self.cold is not None:
                return 0
            for start in range(0, size, RECORD_BYTES):
                wire.tls.write(_plain[start : min(start + RECORD_BYTES, size)])
        self.size -= size
        out.appendleft(_Encrypted(memoryview(wire.outgoing.read())))
        return size

    def _take(self, at: int) -> int:
        """Move as much of the first part as has room to `_plain`; returns the number of bytes."""
        out: Any = self.parts
        part, room = out[0], PIECE_BYTES - at
        if isinstance(part, DownConversion):
            chunk = part.next_chunk()
            if not part.left:
                out.popleft()
            out.appendleft(chunk)
            return 0
        count = min(len(part), room)
        if isinstance(part, (bytes, bytearray, memoryview)):
            _plain[at : at + count] = memoryview(part)[:count]
            if count == len(part):
                out.popleft()
            else:
                out[0] = memoryview(part)[count:]
            return count
        position: int = part.position
        if not self._is_cached(part, position, len(part)):
            return 0
        count = min(count, self._cached_end - position)
        try:
            read = os.preadv(part.fileno(), [_plain[at : at + count]], position) if count else 0
        except OSError as error:
            part.read_failed(error)
            raise
        if read < count:
            # The file is shorter than the part: truncated under a reader.
            raise ConnectionAbortedError("a log segment shrank while it was being sent")
        if count == len(part):
            self._end_file()
        else:
            out[0] = Rest(part, position + count, len(part) - count)
        return count


class TlsConnection(Connection):
    __slots__ = ("_accepted_at", "_handshakes", "_low_water", "_server", "_wire")

    def __init__(
        self,
        server: ServerTls,
        sock: socket.socket,
        peer: ConnectionInfo,
        selector: Selector,
        owner: Owner,
        max_frame_bytes: int,
        now: float,
        receive_memory: ReceiveMemory | None = None,
        request_memory: MemoryPool | None = None,
    ) -> None:
        self._wire = _Wire(sock, server)
        super().__init__(
            self._wire, peer, selector, owner, max_frame_bytes, now, receive_memory, request_memory
        )
        self._server = server
        self._handshakes = True
        self._low_water = 1
        self._accepted_at = now
        self.needed = HANDSHAKE

    @staticmethod
    def new_send_queue(transport: Any) -> SendQueue:
        return TlsSendQueue(transport)

    # Input

    def receive(self) -> bool:
        if self._handshakes:
            try:
                if not self._wire.take_in():
                    return False
            except (BlockingIOError, InterruptedError):
                return True
            self._shake_hands()
            if self._handshakes:
                return True
        alive = Connection.receive(self)
        if self.needed > COMMON_BUFFER_BYTES or self._low_water != 1:
            self._set_low_water()
        return alive

    def _set_low_water(self) -> None:
        """How many bytes have to come before it is worth a round: never more than will come."""
        wanted = 1
        if not self._wire.incoming.pending:
            missing = self.needed - (self.end - self.start) - HALF_READ_BYTES
            wanted = max(1, min(missing, LOW_WATER_BYTES))
        if wanted != self._low_water:
            self._low_water = wanted
            self._wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, wanted)

    def frame_ready(self) -> bool:
        if self._handshakes:
            return False
        ready = Connection.frame_ready(self)
        wire = self._wire
        while not ready and (wire.incoming.pending or wire.tls.pending()):
            if not self._decrypt_more():
                return False
            ready = Connection.frame_ready(self)
            if wire.has_paused and not ready:
                self.watch(self.events | WRITE)
                break
        return ready

    def _decrypt_more(self) -> bool:
        """Of what was received with a frame before; False if there is no more, or no room."""
        if self.start == self.end:
            self.start = self.end = self.needed = 0
            if len(self.buffer) < self.first_bytes and not self._replace_buffer(self.first_bytes):
                return False
        if self.end == len(self.buffer) and not self._make_room():
            return False
        try:
            count = self._wire.decrypt(self.view[self.end :])
        except BlockingIOError:
            return False
        self.end += count
        return bool(count)

    # The handshake

    def _shake_hands(self) -> None:
        """One step. Raises BadInput, or OSError after it was closed."""
        wire = self._wire
        try:
            wire.tls.do_handshake()
        except ssl.SSLWantReadError:
            self._send_control()
            return
        except ssl.SSLError as error:
            self._send_control()
            self._refuse(error)
        try:
            self.peer.principal = self._server.principal_of(wire.tls)
        except NoRuleApplies as error:
            self.close(f"its certificate says who it is, but {error}")
            raise ConnectionAbortedError from None
        self._handshakes = False
        self.needed = 0
        self._send_control()

    def _refuse(self, error: Any) -> None:  # an SSLError, whose reason need not be a text
        problem = describe_no_handshake(error.reason or "")
        if problem is not None:
            raise BadInput(problem) from None
        self.close(f"its TLS handshake failed ({_reason(error)})")
        raise ConnectionAbortedError from None

    def _send_control(self) -> None:
        """Records of TLS itself leave at once, as far as the socket takes them."""
        if not self.out.blocked and not self.out.flush():
            self.watch(self.events | WRITE)

    def overdue(self, now: float) -> str | None:
        if self._handshakes and now - self._accepted_at > HANDSHAKE_SECONDS:
            return f"its TLS handshake was not finished in {HANDSHAKE_SECONDS:.0f} s"
        return None

    # The end

    def is_drained(self) -> bool:
        return False  # what is in the socket says so when it is decrypted

    def close(self, reason: str | None = None) -> None:
        if not self.closed and not self._handshakes and not self.out.parts:
            with contextlib.suppress(OSError):  # it waits for the other's farewell; we do not
                self._wire.tls.unwrap()
            with contextlib.suppress(OSError):
                self._wire.socket.send(self._wire.outgoing.read())
        super().close(reason)


def _reason(error: Any) -> str:
    return (error.reason or type(error).__name__).lower().replace("_", " ")
