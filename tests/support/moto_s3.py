"""moto's S3 in this process, as a store that fails in the way a test wants.

`MotoS3.before` and `after` are called around each request. Either may return the status of an
answer instead of moto's own: an answer before is one of a store that has done nothing, one behind
that of a store whose own answer is lost.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import boto3
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler, make_server

BUCKET = "history"
REGION = "us-east-1"
ACCESS_KEY, SECRET_KEY = "someone", "hunter2"


class _Silent(WSGIRequestHandler):
    def log(self, *_arguments: Any, **_options: Any) -> None:
        pass


def _failed(status: str, start: Any) -> list[bytes]:
    start(status, [("Content-Length", "0"), ("Connection", "close")])
    return [b""]


class MotoS3:
    def __init__(self) -> None:
        self._application = DomainDispatcherApplication(create_backend_app)
        self._server = self._at_port(0)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self.before: Callable[[str, str], str | None] = self.nothing
        self.after: Callable[[str, str], str | None] = self.nothing

    @staticmethod
    def nothing(_method: str, _path: str) -> None:
        return None

    def _at_port(self, port: int) -> BaseWSGIServer:
        return make_server("127.0.0.1", port, self._answer, threaded=True, request_handler=_Silent)

    def _answer(self, environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        status = self.before(method, path)
        if status is not None:
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            return _failed(status, start)
        begun: list[Any] = []
        answer = list(self._application(environ, lambda *what: begun.append(what)))
        status = self.after(method, path)
        if status is not None:
            return _failed(status, start)
        start(*begun[-1])
        return answer

    @contextmanager
    def running(self) -> Iterator[MotoS3]:
        self._start()
        try:
            self.client.create_bucket(Bucket=BUCKET)
            yield self
        finally:
            self._stop()

    def _start(self) -> None:
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def _stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @contextmanager
    def gone(self) -> Iterator[None]:
        """Connections are refused; what is stored is there again afterwards."""
        port = self._server.server_port
        self._stop()
        yield
        self._server = self._at_port(port)
        self._start()

    @property
    def client(self) -> Any:
        return boto3.client(
            "s3",
            endpoint_url=self.url,
            region_name=REGION,
            aws_access_key_id=ACCESS_KEY,
            aws_secret_access_key=SECRET_KEY,
        )

    @property
    def objects(self) -> list[str]:
        found = self.client.list_objects_v2(Bucket=BUCKET).get("Contents", [])
        return [one["Key"] for one in found]

    def configs(self, **more: str) -> dict[str, str]:
        """Those of the storage manager, without `url`."""
        return {
            "endpoint": self.url,
            "client.allow_http": "true",
            "region": REGION,
            "access_key_id": ACCESS_KEY,
            "secret_access_key": SECRET_KEY,
            "retry.max": "1",
            **more,
        }
