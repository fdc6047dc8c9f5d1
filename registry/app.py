"""The registry as an ASGI application: logins, limits, endpoints, and forwarding to the primary.

Invariants: every answer is JSON, an error has `error_code` and `message`; an unexpected exception
is logged and ends one request. A secondary that has forwarded a write has it in its own content
before it answers; a read that finds nothing is tried again once the content has caught up.
"""

from __future__ import annotations

import json
import logging
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import trio
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from .access import CHALLENGE, is_allowed
from .calls import CONTENT_TYPE, MAX_BODY_BYTES, Call, answer_type, split_path
from .election import Identity
from .errors import NOT_FOUND, Rejected, forwarding_failed, unknown_leader
from .forwarding import FORWARDED, HEADERS, Forwarded, Sent, forward
from .handlers import Endpoint, Plain, find
from .instance import Instance

_log: Final = logging.getLogger("pybroker.registry")


@dataclass(frozen=True)
class Settings:
    """`users` empty: no logins. `facts`: answers of /v1/metadata, by their last part."""

    users: Mapping[str, bytes] = field(default_factory=dict)
    forward_tls: ssl.SSLContext | None = None
    facts: Mapping[str, object] = field(default_factory=dict)


class Application:
    """See the module."""

    def __init__(self, instance: Instance, settings: Settings) -> None:
        self._instance = instance
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        request = HttpRequest(scope, receive)
        kind = answer_type(request.headers.get("accept", ""))
        try:
            if kind is None:
                raise Rejected(406, 406, "HTTP 406 Not Acceptable")
            response = await self._answer(request, kind)
        except Rejected as error:
            body = {"error_code": error.code, "message": error.message}
            response = _json(body, kind or CONTENT_TYPE, error.status)
            if error.status == 401:
                response.headers["www-authenticate"] = CHALLENGE
        except ClientDisconnect:
            return
        except Exception:
            _log.exception("%s %s", request.method, scope["path"])
            body = {"error_code": 500, "message": "Internal Server Error"}
            response = _json(body, kind or CONTENT_TYPE, 500)
        await response(scope, receive, send)

    async def _answer(self, request: HttpRequest, kind: str) -> Response:
        users = self._settings.users
        if users and not is_allowed(users, request.headers.get("authorization", "")):
            raise Rejected(401, 401, "Unauthorized")
        path = split_path(request.scope.get("raw_path") or request.scope["path"].encode())
        if path[:2] == ("v1", "metadata") and request.method == "GET":
            if len(path) != 3 or path[2] not in self._settings.facts:
                raise Rejected(404, 404, "HTTP 404 Not Found")
            return _json(self._settings.facts[path[2]], kind)
        context = None
        if path[0] == "contexts" and len(path) > 2:
            context, path = _context(path[1]), path[2:]
        method = "GET" if request.method == "HEAD" else request.method
        endpoint, names = find(method, path)
        call = Call(request, path, context, await _body(request), names)
        if endpoint.write is None:
            return _json(await self._read(endpoint, call), kind)
        return await self._write(endpoint, call, kind)

    async def _read(self, endpoint: Endpoint, call: Call) -> Any:
        assert endpoint.read is not None
        reads = self._instance.reads
        try:
            return endpoint.read(reads, call)
        except Rejected as error:
            if error.status != NOT_FOUND or error.code < 40400:
                raise
        await self._instance.store.catch_up()
        return endpoint.read(reads, call)

    async def _write(self, endpoint: Endpoint, call: Call, kind: str) -> Response:
        decide = endpoint.write
        assert decide is not None
        primary = await self._instance.wait_for_primary()
        if primary.url == self._instance.identity.url:
            answer = await self._instance.change(lambda writes: decide(writes, call))
            return _json(endpoint.shape(answer), kind)
        if FORWARDED in call.http.headers:
            raise unknown_leader("the request was forwarded to an instance that is not primary")
        request = call.http
        headers = {name: request.headers[name] for name in HEADERS if name in request.headers}
        target = request.scope["raw_path"].decode("ascii")
        if request.scope["query_string"]:
            target += "?" + request.scope["query_string"].decode("ascii")
        sent = Sent(request.method, target, headers, call.body)
        forwarded = await self._forward(primary, sent)
        if forwarded.status == 200:
            await self._instance.store.catch_up()
        content_type = forwarded.content_type or kind
        return Response(forwarded.body, forwarded.status, media_type=content_type)

    async def _forward(self, primary: Identity, sent: Sent) -> Forwarded:
        """The answer of the primary, as long as it is the primary. Raises Rejected."""
        found: Forwarded | Rejected | None = None

        async def watch(scope: trio.CancelScope) -> None:
            await self._instance.wait_for_change(primary)
            scope.cancel()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch, nursery.cancel_scope)
            try:
                found = await trio.to_thread.run_sync(
                    forward, primary, sent, self._settings.forward_tls, abandon_on_cancel=True
                )
            except Rejected as error:  # the nursery would raise it in a group
                found = error
            nursery.cancel_scope.cancel()
        if found is None:
            raise forwarding_failed(f"{primary.url} is not primary any more; try again")
        if isinstance(found, Rejected):
            raise found
        return found


def _context(given: str) -> str:
    """`:.eu:`, `.eu` or `:.eu` in a path."""
    found = given.strip(":")
    return found if found.startswith(".") else f".{found}"


async def _body(request: HttpRequest) -> bytes:
    """Raises Rejected."""
    found = bytearray()
    async for chunk in request.stream():
        found += chunk
        if len(found) > MAX_BODY_BYTES:
            raise Rejected(413, 413, f"the body has more than {MAX_BODY_BYTES} bytes")
    return bytes(found)


def _json(value: Any, kind: str, status: int = 200) -> Response:
    if isinstance(value, Plain):
        return Response(value.encode(), status, media_type=kind)
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return Response(text.encode(), status, media_type=kind)


async def _lifespan(receive: Receive, send: Send) -> None:
    while (message := await receive())["type"] != "lifespan.shutdown":
        if message["type"] == "lifespan.startup":
            await send({"type": "lifespan.startup.complete"})
    await send({"type": "lifespan.shutdown.complete"})
