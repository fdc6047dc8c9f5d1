"""Find out what answers at an address: a broker, TLS, ZooKeeper, a web server, or nothing.

One question a connection, each with a limit of time, so that the first answer comes within seconds
even where packets vanish. Used to explain why a client gets no further; nothing is changed.
"""

from __future__ import annotations

import socket
import ssl
from enum import Enum
from typing import Final, NamedTuple

import trio

STEP_SECONDS: Final = 3.0
_PLAIN_SECONDS: Final = 1.0  # for the answer to plain text, before TLS is tried
_ANSWER_BYTES: Final = 64
_ENOUGH_BYTES: Final = 8  # to tell what it is
# ApiVersions in version 0: size, key, version, correlation id 7, client id "doctor".
_API_VERSIONS: Final = b"\x00\x00\x00\x10\x00\x12\x00\x00\x00\x00\x00\x07\x00\x06doctor"
_CORRELATION: Final = b"\x00\x00\x00\x07"
_ALERT: Final = 0x15  # the first byte of TLS's error


class Peer(Enum):
    KAFKA = "Kafka's protocol"
    TLS = "TLS"
    ZOOKEEPER = "ZooKeeper"
    HTTP = "a web server"
    UNKNOWN = "something that does not speak Kafka's protocol"


class Unreached(NamedTuple):
    """Why no connection is made."""

    reason: str


async def peer_at(host: str, port: int) -> Peer | Unreached:
    """Find out what listens at an address."""
    reason = await why_unreached(host, port)
    if reason is not None:
        return Unreached(reason)
    answer = await _asked(host, port, _API_VERSIONS, _PLAIN_SECONDS)
    if answer[4:8] == _CORRELATION:
        return Peer.KAFKA
    if answer[:5] == b"HTTP/":
        return Peer.HTTP
    if answer[:1] == bytes([_ALERT]) or await _speaks_tls(host, port):
        return Peer.TLS
    words = await _asked(host, port, b"srvr", _PLAIN_SECONDS)
    if words.startswith(b"Zookeeper") or b"srvr is not executed" in words:
        return Peer.ZOOKEEPER
    page = await _asked(host, port, b"GET / HTTP/1.0\r\n\r\n", _PLAIN_SECONDS)
    return Peer.HTTP if page[:5] == b"HTTP/" else Peer.UNKNOWN


async def why_unreached(host: str, port: int) -> str | None:
    """The reason why this machine makes no connection to an address; None: it makes one."""
    try:
        with trio.fail_after(STEP_SECONDS):
            stream = await trio.open_tcp_stream(host, port)
    except socket.gaierror:
        return f"this machine cannot resolve the name {host!r}"
    except trio.TooSlowError:
        return f"no answer within {STEP_SECONDS:.0f} s: a firewall, a wrong address, or no route"
    except OSError as error:
        refused = isinstance(_first_cause(error), ConnectionRefusedError)
        return "nobody listens there" if refused else str(error.strerror or error)
    await trio.aclose_forcefully(stream)
    return None


def _first_cause(error: BaseException) -> BaseException:
    """trio's error of all addresses has those of each in a group."""
    cause = error.__cause__
    while isinstance(cause, BaseExceptionGroup):
        cause = cause.exceptions[0]
    return cause or error


async def _asked(host: str, port: int, question: bytes, seconds: float) -> bytes:
    """The first bytes of an answer; empty if there is none."""
    answer = b""
    with trio.move_on_after(seconds):
        try:
            async with await trio.open_tcp_stream(host, port) as stream:
                await stream.send_all(question)
                while len(answer) < _ENOUGH_BYTES:
                    more = await stream.receive_some(_ANSWER_BYTES)
                    if not more:
                        break
                    answer += more
        except (OSError, trio.BrokenResourceError):
            pass
    return answer


async def _speaks_tls(host: str, port: int) -> bool:
    """Whether a handshake begins; its certificate does not matter, nor whether it wants one."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with trio.move_on_after(STEP_SECONDS):
        try:
            stream = trio.SSLStream(await trio.open_tcp_stream(host, port), context)
            try:
                await stream.do_handshake()
            finally:
                await trio.aclose_forcefully(stream)
        except trio.BrokenResourceError as error:
            cause = error.__cause__
            return isinstance(cause, ssl.SSLError) and "WRONG_VERSION" not in str(cause.reason)
        except OSError:
            return False
        return True
    return False
