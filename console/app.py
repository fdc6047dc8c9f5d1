"""The console's pages and the data for them: a Starlette application behind `Access`.

Invariants: every answer carries a Content-Security-Policy that allows nothing from elsewhere and no
inline script; a page's own files are read once, when the console starts. What only later pages need
(`pages`) is imported when one of them asks for it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from starlette.applications import Starlette
from starlette.datastructures import Headers, QueryParams
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from .access import Access, Asked
from .answers import asks
from .asked import body_of
from .collector import Collector
from .live import TooMany
from .topics import topic_list

if TYPE_CHECKING:  # few consoles have the course
    from ..learn.course import Course

KINDS: Final = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
}
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS: Final = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}

POLICY_VIOLATION: Final = 1008  # of websockets, RFC 6455


def application(access: Access, collector: Collector, course: Course | None = None) -> ASGIApp:
    """The application for the web server; with the pages of the course, if there is one."""

    async def events(_request: Request) -> Response:
        try:
            messages = collector.live.follow()
        except TooMany:
            return PlainTextResponse("too many browsers look on", 503)
        await collector.first_look()
        return StreamingResponse(messages, media_type="text/event-stream")

    routes = [
        Route("/events", events),
        asks("/api/topics", lambda _: topic_list(collector)),
        asks("/api/series", lambda _: _series(collector)),
        *([] if course is None else _learning(course)),
        Mount("/api", _Later(collector)),
        *_own_files(),
    ]
    return _Guarded(Starlette(routes=routes), access)


async def _series(collector: Collector) -> object:
    return collector.series.all()


class _Later:
    """The routes of `pages`."""

    def __init__(self, collector: Collector) -> None:
        self._collector = collector
        self._router: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._router is None:
            from .pages import router

            self._router = router(self._collector)
        await self._router(scope, receive, send)


def _learning(course: Course) -> list[Route]:
    from .learn import course_state, order_course

    async def order(request: Request) -> object:
        return await order_course(course, await body_of(request))

    async def state(_request: Request) -> object:
        return course_state(course)

    return [asks("/api/learn", state), asks("/api/learn/order", order, write=True)]


def _own_files() -> list[Route]:
    """The pages' scripts and styles; `/` is index.html."""
    routes = []
    for file in files(__package__).joinpath("static").iterdir():
        kind = KINDS[file.name.rpartition(".")[2]]
        path = "/" if file.name == "index.html" else f"/{file.name}"
        routes.append(Route(path, _file(file.read_bytes(), kind)))
    return routes


def _file(content: bytes, kind: str) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(_request: Request) -> Response:
        return Response(content, media_type=kind)

    return endpoint


class _Guarded:
    """Every request is judged before the application sees it; every answer has our headers."""

    def __init__(self, inner: Starlette, access: Access) -> None:
        self._inner = inner
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._inner(scope, receive, send)
            return
        if scope["type"] == "websocket":  # the console serves none
            await receive()
            await send({"type": "websocket.close", "code": POLICY_VIOLATION})
            return
        if scope["type"] != "http":
            return

        async def send_guarded(message: Any) -> None:
            if message["type"] == "http.response.start":
                names = {name for name, _ in message["headers"]}
                extra = [(k.encode(), v.encode()) for k, v in HEADERS.items()]
                message["headers"] = [
                    *message["headers"],
                    *(pair for pair in extra if pair[0] not in names),
                ]
            await send(message)

        answer = self._judged(scope)
        await (answer or self._inner)(scope, receive, send_guarded)

    def _judged(self, scope: Scope) -> Response | None:
        """An answer instead of the application's; None: it may answer."""
        headers = Headers(scope=scope)
        token = QueryParams(scope["query_string"]).get("token")
        asked = Asked(scope["method"], headers, token)
        denied = self._access.refusal(asked)
        if denied is not None:
            return PlainTextResponse(denied.why + "\n", denied.status)
        if not self._access.brings_token(asked):
            return None
        home = RedirectResponse("/", 303)
        home.set_cookie(
            self._access.cookie_name, self._access.session, httponly=True, samesite="strict"
        )
        return home
