"""Logins, frame by frame, of the blocking client of wire tests."""

from __future__ import annotations

import secrets
from typing import Any

from pybroker_kafka.protocol.apis.sasl_authenticate import SaslAuthenticateRequest
from pybroker_kafka.protocol.apis.sasl_handshake import SaslHandshakeRequest
from pybroker_kafka.protocol.sasl import MECHANISMS, PlainClient, SaslClient, ScramClient
from tests.support.wire import WireClient


def sasl_client(mechanism: str, name: str, password: str) -> SaslClient:
    if mechanism == "PLAIN":
        return PlainClient(name, password)
    return ScramClient(MECHANISMS[mechanism], name, password, secrets.token_hex(16))


def handshake(client: WireClient, mechanism: str, version: int = 1) -> Any:
    return client.call(SaslHandshakeRequest(mechanism=mechanism), version)


def authenticate(client: WireClient, token: bytes, version: int = 2) -> Any:
    return client.call(SaslAuthenticateRequest(auth_bytes=token), version)


def talk(client: WireClient, mine: SaslClient, version: int = 2) -> Any:
    """The last answer, which is that of a success or of a refusal."""
    answer = authenticate(client, mine.step(b""), version)
    while not answer.error_code:
        token = mine.step(bytes(answer.auth_bytes))
        if mine.done:
            break
        answer = authenticate(client, token, version)
    return answer


def log_in(client: WireClient, mechanism: str, name: str, password: str) -> Any:
    assert handshake(client, mechanism).error_code == 0
    return talk(client, sasl_client(mechanism, name, password))


def bare(client: WireClient, token: bytes) -> bytes:
    """A token without a header, and its answer."""
    client.socket.sendall(len(token).to_bytes(4, "big") + token)
    size = int.from_bytes(client.exactly(4), "big")
    return client.exactly(size)
