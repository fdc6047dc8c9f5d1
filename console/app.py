"""The console's pages and the data for them: a Starlette application behind `Access`.

Invariants: every answer carries a Content-Security-Policy that allows nothing from elsewhere and no
inline script; a page's own files are read once, when the console starts. An error of a cluster is
an answer with one line, never a traceback.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

import trio
from starlette.applications import Starlette
from starlette.datastructures import Headers, QueryParams
from starlette.requests import Request
from starlette.responses import (
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from ..client.errors import ClientError
from ..local.cluster_state import ClusterError
from .access import Access, Asked
from .asked import Wrong, body_of
from .clients import client_list
from .collector import Collector
from .groups import group_details, group_list, order_group, topic_lags
from .inside import inside_of, replicas_of, zookeeper_says
from .live import TooMany
from .messages import produce_message, read_content, read_messages
from .nodes import node_command
from .security import (
    acl_list,
    order_acl,
    order_quota,
    order_token,
    order_user,
    quota_list,
    token_list,
    user_list,
)
from .share import share_group_details
from .tables import table_details, table_list
from .tiers import topic_tier
from .topics import order_topic, topic_configs, topic_details, topic_list
from .transactions import (
    hanging_transactions,
    order_transaction,
    producers_of,
    transaction_details,
    transaction_list,
)

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
ANSWER_SECONDS: Final = 60.0

Answer = Callable[[Request], Awaitable[object]]
Execute = Callable[[Collector, dict[str, Any]], Awaitable[object]]


def application(access: Access, collector: Collector, course: Course | None = None) -> ASGIApp:
    """The application for the web server; with the pages of the course, if there is one."""

    async def events(_request: Request) -> Response:
        try:
            messages = collector.live.follow()
        except TooMany:
            return PlainTextResponse("too many browsers look on", 503)
        return StreamingResponse(messages, media_type="text/event-stream")

    routes = [
        Route("/events", events),
        *_reading(collector),
        *_writing(collector),
        *([] if course is None else _learning(course)),
        *_own_files(),
    ]
    return _Guarded(Starlette(routes=routes), access)


def _reading(collector: Collector) -> list[Route]:
    def named(request: Request) -> str:
        return request.query_params.get("name", "")

    return [
        _asks("/api/topics", lambda _: topic_list(collector)),
        _asks("/api/topic", lambda request: topic_details(collector, named(request))),
        _asks("/api/tier", lambda request: topic_tier(collector, named(request))),
        _asks("/api/tables", lambda _: table_list(collector)),
        _asks("/api/table", lambda request: table_details(collector, named(request))),
        _asks("/api/lags", lambda request: topic_lags(collector, named(request))),
        _asks("/api/configs", lambda request: topic_configs(collector, named(request))),
        _asks("/api/messages", lambda request: read_messages(collector, request.query_params)),
        _asks("/api/content", lambda request: read_content(collector, request.query_params)),
        _asks("/api/series", lambda _: _series(collector)),
        _asks("/api/groups", lambda _: group_list(collector)),
        _asks("/api/group", lambda request: group_details(collector, named(request))),
        _asks("/api/share", lambda request: share_group_details(collector, named(request))),
        _asks("/api/clients", lambda _: client_list(collector)),
        _asks("/api/transactions", lambda _: transaction_list(collector)),
        _asks("/api/transaction", lambda request: transaction_details(collector, named(request))),
        _asks("/api/producers", lambda request: producers_of(collector, request.query_params)),
        _asks(
            "/api/hanging", lambda request: hanging_transactions(collector, request.query_params)
        ),
        _asks("/api/inside", lambda request: inside_of(collector, request.query_params)),
        _asks("/api/replicas", lambda request: replicas_of(collector, request.query_params)),
        _asks("/api/zookeeper", lambda request: zookeeper_says(collector, request.query_params)),
        _asks("/api/acls", lambda _: acl_list(collector)),
        _asks("/api/users", lambda _: user_list(collector)),
        _asks("/api/quotas", lambda _: quota_list(collector)),
        _asks("/api/tokens", lambda _: token_list(collector)),
    ]


async def _series(collector: Collector) -> object:
    return collector.series.all()


def _writing(collector: Collector) -> list[Route]:
    def orders(path: str, execute: Execute) -> Route:
        async def answer(request: Request) -> object:
            try:
                return await execute(collector, await body_of(request))
            finally:
                collector.shared.forget()

        return _asks(path, answer, write=True)

    return [
        orders("/api/nodes/command", node_command),
        orders("/api/topics/order", order_topic),
        orders("/api/messages/produce", produce_message),
        orders("/api/groups/order", order_group),
        orders("/api/transactions/order", order_transaction),
        orders("/api/acls/order", order_acl),
        orders("/api/users/order", order_user),
        orders("/api/quotas/order", order_quota),
        orders("/api/tokens/order", order_token),
    ]


def _learning(course: Course) -> list[Route]:
    from .learn import course_state, order_course

    async def order(request: Request) -> object:
        return await order_course(course, await body_of(request))

    async def state(_request: Request) -> object:
        return course_state(course)

    return [_asks("/api/learn", state), _asks("/api/learn/order", order, write=True)]


def _asks(path: str, answer: Answer, *, write: bool = False) -> Route:
    """A route that answers a page's request as JSON, or with a ready response; an error of the
    cluster is a line with status 502.
    """

    async def endpoint(request: Request) -> Response:
        try:
            with trio.fail_after(ANSWER_SECONDS):
                found = await answer(request)
        except trio.TooSlowError:
            return JSONResponse({"error": f"no answer in {ANSWER_SECONDS:.0f} s"}, 504)
        except Wrong as error:
            return JSONResponse({"error": str(error)}, 400)
        except (ClientError, ClusterError) as error:
            return JSONResponse({"error": str(error)}, 502)
        return found if isinstance(found, Response) else JSONResponse(found)

    return Route(path, endpoint, methods=["POST"] if write else ["GET"])


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
