"""One connection to one broker: requests out, answers back, in order.

Invariants: one request at a time (a lock makes callers wait), so an answer always belongs to the
request before it; a connection that failed or timed out is closed and never used again; frames
longer than `frames.MAX_FRAME_BYTES` are refused before anything is allocated.
Mirrors: NetworkClient with max.in.flight.requests.per.connection = 1; KIP-35 and KIP-511.
Leaves out: TLS and SASL.
"""

from __future__ import annotations

from typing import TypeVar, cast

import trio

from ..protocol.api import API_TABLE, ApiKey
from ..protocol.errors import ErrorCode, ProtocolError
from ..protocol.messages.metadata import ApiVersionsRequest, ApiVersionsResponse
from ..protocol.schema import Message
from .exchanges import STREAM_ERRORS, Exchanges

CLIENT_ID = "pybroker-client"
CLIENT_VERSION = "0.1"
CONNECT_TIMEOUT_SECONDS = 5.0
HANDSHAKE_TIMEOUT_SECONDS = 10.0  # a frozen broker's kernel still takes connections
REQUEST_TIMEOUT_SECONDS = 40.0

R = TypeVar("R", bound=Message)


class ClientError(Exception):
    """The cluster cannot be reached or refuses; the message says what to do."""


class Connection:
    """Use `Connection.open`; close with `aclose`."""

    def __init__(self, stream: trio.SocketStream, address: str) -> None:
        self._stream = stream
        self._address = address
        self._lock = trio.Lock()  # held from a request to its answer
        self._exchanges = Exchanges(CLIENT_ID)
        self._versions: dict[int, tuple[int, int]] = {}  # by API: the first and last one served
        self.is_open = True

    @classmethod
    async def open(cls, host: str, port: int) -> Connection:
        """Connect and agree on versions. Raises ClientError."""
        address = f"{host}:{port}"
        try:
            with trio.fail_after(CONNECT_TIMEOUT_SECONDS):
                stream = await trio.open_tcp_stream(host, port)
        except (OSError, trio.TooSlowError) as error:
            raise ClientError(
                f"no broker answers at {address}; is one running? start one with: pybroker start"
            ) from error
        connection = cls(stream, address)
        try:
            with trio.fail_after(HANDSHAKE_TIMEOUT_SECONDS):
                await connection._agree_on_versions()
        except trio.TooSlowError as error:
            raise ClientError(
                f"{address} takes connections, but does not answer; is its broker paused?"
            ) from error
        except BaseException:
            await connection.aclose()
            raise
        return connection

    async def aclose(self) -> None:
        self.is_open = False
        await trio.aclose_forcefully(self._stream)

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
        return answer

    async def _exchange(self, version: int, message: Message) -> Message:
        async with self._lock:
            if not self.is_open:
                raise ClientError(f"the connection to {self._address} is closed")
            try:
                with trio.fail_after(REQUEST_TIMEOUT_SECONDS):
                    return await self._exchanges.ask(self._stream, message, version)
            except (*STREAM_ERRORS, ProtocolError, trio.TooSlowError) as error:
                await self.aclose()
                what = str(error) or "no answer in time"
                raise ClientError(f"the connection to {self._address} failed: {what}") from error
            except trio.Cancelled:
                await self.aclose()
                raise
