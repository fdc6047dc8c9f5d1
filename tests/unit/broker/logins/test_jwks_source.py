"""The keys of tokens: read at once, again after a failure, and when a token names another."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import jwt
import pytest
import trio
from cryptography.hazmat.primitives.asymmetric import ec

from pybroker_kafka.broker.logins import jwks_source
from pybroker_kafka.broker.logins.jwks_source import MAX_BYTES, JwksSource, read_jwks
from pybroker_kafka.broker.security.sasl.signed_tokens import TokenRules
from tests.support.patience import eventually

KEY = ec.generate_private_key(ec.SECP256R1())


def jwks(*key_ids: str) -> bytes:
    public = jwt.algorithms.ECAlgorithm.to_jwk(KEY.public_key(), as_dict=True)
    return json.dumps({"keys": [{**public, "kid": key_id} for key_id in key_ids]}).encode()


def rules(url: str) -> TokenRules:
    return TokenRules(url, refresh_ms=3_600_000, retry_ms=10, retry_max_ms=20)


def test_over_http() -> None:
    class Server(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(jwks("one"))

        def log_message(self, *args: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Server)
    Thread(target=server.handle_request, daemon=True).start()
    assert read_jwks(f"http://127.0.0.1:{server.server_port}/keys") == jwks("one")
    server.server_close()


def test_what_is_not_read(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="http"):
        read_jwks("ftp://h/keys")
    with pytest.raises(OSError):
        read_jwks((tmp_path / "none").as_uri())
    (tmp_path / "large").write_bytes(b"x" * (MAX_BYTES + 1))
    with pytest.raises(ValueError, match="larger"):
        read_jwks((tmp_path / "large").as_uri())


async def test_again_after_a_failure_and_for_an_unknown_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(jwks_source, "MIN_WAIT_SECONDS", 0.01)
    path = tmp_path / "keys"
    source = JwksSource(rules(path.as_uri()))

    async def until(key_id: str) -> None:
        await eventually(lambda: source.keys.candidates("ES256", key_id))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(source.run)
        await trio.sleep(0.1)
        path.write_bytes(jwks("one"))
        await until("one")
        path.write_bytes(jwks("one", "two"))
        await until("two")
        nursery.cancel_scope.cancel()
    assert len(caplog.records) == 1
