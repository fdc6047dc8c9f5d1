"""One connection to one broker: requests out, answers back, in order.

Invariants: one request at a time (a lock makes callers wait), so an answer always belongs to the
request before it; a connection that failed or timed out is closed and never used again; frames
longer than `frames.MAX_FRAME_BYTES` are refused before anything is allocated.
A session with an end is left for a new connection before that (KIP-368).
Mirrors: NetworkClient with max.in.flight.requests.per.connection = 1; KIP-35 and KIP-511.
"""

from __future__ import annotations

import ssl
from typing import TypeVar, cast

import trio

from ..protocol.api import API_TABLE, ApiKey
from ..protocol.errors import ErrorCode, ProtocolError
from ..protocol.messages.metadata import ApiVersionsRequest, ApiVersionsResponse
from ..protocol.schema import Message
from .errors import ClientError
from .exchanges import STREAM_ERRORS, Exchanges
from .security.connector import OPEN, Connector, Link, reach
from .security.tls import explained

# What may be missing where a connection is ended before anything was answered.
_HINTS = {
    "PLAINTEXT": "; if this port wants TLS or a login, give their settings (security.protocol)",
    "SSL": "; if this port wants a login, set security.protocol=SASL_SSL and sasl.*",
}

CLIENT_ID = "pybroker-client"
CLIENT_VERSION = "0.1"
CONNECT_TIMEOUT_SECONDS = 5.0
HANDSHAKE_TIMEOUT_SECONDS = 10.0  # a frozen broker's kernel still takes connections
REQUEST_TIMEOUT_SECONDS = 40.0

R = TypeVar("R", bound=Message)


class Connection:
    """Use `Connection.open`; close with `aclose`."""

    def __init__(self, link: Link, host: str, port: int, connector: Connector) -> None:
        self._link = link
        self._host, self._port = host, port
        self._connector = connector
        self._lock = trio.Lock()  # held from a request to its answer
        self._exchanges = Exchanges(CLIENT_ID)
        self._versions: dict[int, tuple[int, int]] = {}  # by API: the first and last one served
        self._serves_us = False  # it has answered more than ApiVersions, which anyone may ask
        self.is_open = True

    @property
    def _address(self) -> str:
        return f"{self._host}:{self._port}"

    @classmethod
    async def open(cls, host: str, port: int, connector: Connector = OPEN) -> Connection:
        """Connect, log in if need be, and agree on versions. Raises ClientError."""
        connection = cls(await _open_link(host, port, connector), host, port, connector)
        try:
            with trio.fail_after(HANDSHAKE_TIMEOUT_SECONDS):
                await connection._agree_on_versions()
        except trio.TooSlowError as error:
            await connection.aclose()
            raise _silent(connection._address) from error
        except BaseException:
            await connection.aclose()
            raise
        return connection

    async def aclose(self) -> None:
        self.is_open = False
        await trio.aclose_forcefully(self._link.stream)

    async def _agree_on_versions(self) -> None:
        key = ApiKey.API_VERSIONS
        request = ApiVersionsRequest(
            client_software_name=CLIENT_ID, client_software_version=CLIENT_VERSION
        )
        self._versions = {key: (0, API_TABLE[key].max_version)}
        answer = cast(ApiVersionsResponse, await self._exchange(self.version(key), request))
        if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
            answer = cast(ApiVersionsResponse, await self._exchange(0, ApiVersionsRequest()))
        if answer.error_code:
            raise ClientError(f"{self._address} refuses: {ErrorCode(answer.error_code).name}")
        self._versions = {
            api.api_key: (api.min_version, api.max_version) for api in answer.api_keys
        }

    def version(self, key: ApiKey) -> int:
        """The newest version of an API that both sides know. Raises ClientError."""
        ours = API_TABLE[key]
        theirs = self._versions.get(key)
        if theirs is not None:
            newest = min(ours.max_version, theirs[1])
            if newest >= max(ours.min_version, theirs[0]):
                return newest
        raise ClientError(f"{self._address} does not serve {ours.name} in a version we know")

    async def request(self, key: ApiKey, message: Message, answer_class: type[R]) -> R:
        """Send one request, wait for its answer. Raises ClientError."""
        answer = await self._exchange(self.version(key), message)
        assert isinstance(answer, answer_class)
        self._serves_us = True
        return answer

    async def _exchange(self, version: int, message: Message) -> Message:
        async with self._lock:
            if not self.is_open:
                raise ClientError(f"the connection to {self._address} is closed")
            try:
                if trio.current_time() >= self._link.good_until:
                    self._link.close()
                    self._link = await _open_link(self._host, self._port, self._connector)
                with trio.fail_after(REQUEST_TIMEOUT_SECONDS):
                    return await self._exchanges.ask(self._link.stream, message, version)
            except (*STREAM_ERRORS, ProtocolError, trio.TooSlowError) as error:
                await self.aclose()
                what = _reason(error) or "no answer in time"
                hint = "" if self._serves_us else _HINTS.get(self._connector.protocol, "")
                raise ClientError(
                    f"the connection to {self._address} failed: {what}{hint}"
                ) from error
            except (ClientError, trio.Cancelled):
                await self.aclose()
                raise


async def _open_link(host: str, port: int, connector: Connector) -> Link:
    """Raises ClientError."""
    address = f"{host}:{port}"
    try:
        with trio.fail_after(CONNECT_TIMEOUT_SECONDS):
            tcp = await reach(host, port)
    except (OSError, trio.TooSlowError) as error:
        raise ClientError(
            f"no broker answers at {address}; is one running? start one with: pybroker start"
        ) from error
    try:
        with trio.fail_after(HANDSHAKE_TIMEOUT_SECONDS):
            return await connector.secure(tcp, host, port, CLIENT_ID)
    except trio.TooSlowError as error:
        raise _silent(address) from error
    except STREAM_ERRORS as error:
        raise ClientError(f"the connection to {address} failed: {error}") from error


def _silent(address: str) -> ClientError:
    return ClientError(f"{address} takes connections, but does not answer; is its broker paused?")


def _reason(error: BaseException) -> str:
    """What TLS tells is behind the stream's own error."""
    cause = error.__cause__
    return explained(cause) if isinstance(cause, ssl.SSLError) else str(error)
