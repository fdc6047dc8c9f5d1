"""Routes to the data of pages, and the answers to requests that fail.

An error of a cluster is an answer with one line, never a traceback.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import trio
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ..client.errors import ClientError
from ..local.cluster_state import ClusterError
from .asked import Wrong

ANSWER_SECONDS: Final = 60.0

Answer = Callable[[Request], Awaitable[object]]


def asks(path: str, answer: Answer, *, write: bool = False) -> Route:
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
