"""Logins that were valid once, with something changed: as many as are wanted, as fast as they go.

Job: `mutated_exchange` plays a login by any mechanism, up to a random step, with tokens, frames and
their order changed; `attack` plays many of them beside a good client.
Invariants: a seed gives the same exchanges; no login with a wrong password ever succeeds.

By hand: python -m tests.abuse.sasl_mutations --count 200000 --seed 1
"""

from __future__ import annotations

import argparse
import random
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pybroker_kafka.protocol.apis.api_versions import ApiVersionsRequest
from pybroker_kafka.protocol.apis.metadata import MetadataRequest
from pybroker_kafka.protocol.apis.sasl_authenticate import SaslAuthenticateRequest
from pybroker_kafka.protocol.apis.sasl_handshake import SaslHandshakeRequest
from pybroker_kafka.protocol.codec import encode
from pybroker_kafka.protocol.framing import encode_request_header
from pybroker_kafka.protocol.sasl import (
    MECHANISMS,
    OAuthBearerClient,
    PlainClient,
    SaslClient,
    SaslError,
    ScramClient,
)
from pybroker_kafka.protocol.schema import Message
from tests.abuse.beside import TABLE, Bystander, Row, bystander, format_table
from tests.abuse.mutations import EXTREMES, is_good
from tests.support.processes import free_port

WINDOW = 1_000  # exchanges between two looks at the good client
PATIENCE_SECONDS = 0.02
LAST = 99  # the correlation id of what only a known client may ask
KAFKA = "org.apache.kafka.common.security"
NAMES = ("PLAIN", *MECHANISMS, "OAUTHBEARER")


def secured(port: int) -> dict[str, str]:
    """A broker with a SASL listener behind `port`."""
    return {
        "listeners": f"PLAINTEXT://127.0.0.1:{port},USERS://127.0.0.1:{port + 1}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,USERS:SASL_PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": ",".join(NAMES),
        "listener.name.users.plain.sasl.jaas.config": (
            f'{KAFKA}.plain.PlainLoginModule required user_alice="secret";'
        ),
        "listener.name.users.oauthbearer.sasl.jaas.config": (
            f"{KAFKA}.oauthbearer.OAuthBearerLoginModule required;"
        ),
        "listener.name.users.connections.max.reauth.ms": "50",
        "connection.failed.authentication.delay.ms": "0",
    }


def client_of(mechanism: str, rng: random.Random) -> SaslClient:
    """One that must not get in: its password is wrong, its token has expired."""
    if mechanism == "PLAIN":
        return PlainClient("alice", "wrong")
    if mechanism == "OAUTHBEARER":
        return OAuthBearerClient("eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbGljZSIsImV4cCI6MX0.")
    return ScramClient(
        MECHANISMS[mechanism], "alice", "wrong", f"{rng.getrandbits(64):x}",
        by_token=rng.random() < 0.2,
    )  # fmt: skip


def changed(data: bytes, rng: random.Random) -> bytes:
    body = bytearray(data)
    at = rng.randrange(len(body) + 1)
    kind = rng.randrange(6)
    if kind == 0 and body:
        body[at % len(body)] ^= 1 << rng.randrange(8)
    elif kind == 1:
        extreme = rng.choice(EXTREMES)
        body[at : at + len(extreme)] = extreme
    elif kind == 2:
        del body[at:]
    elif kind == 3:
        body[at:at] = rng.randbytes(rng.choice((1, 8, 300)))
    elif kind == 4:
        body[at:at] = rng.choice((b",", b"=", b"\x01", b"\0", b"r=", b"n=", b"p=", b"m=x,", b"."))
    else:
        body[at:at] = body[at : at + rng.randint(1, 64)] * rng.randint(1, 9)
    return bytes(body)


def sized(frame: bytes) -> bytes:
    return len(frame).to_bytes(4, "big") + frame


def framed(request: Message, version: int, correlation_id: int = 1) -> bytes:
    key = request._spec.api_key
    return encode_request_header(key, version, correlation_id, "mutant") + encode(request, version)


class Mutant:
    """One connection."""

    def __init__(self, address: tuple[str, int], rng: random.Random) -> None:
        self._rng = rng
        self._socket = socket.create_connection(address, 10)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.settimeout(PATIENCE_SECONDS)

    def say(self, frame: bytes) -> bytes | None:
        """What is answered; None at the end, or if nothing is."""
        rng = self._rng
        if rng.random() < 0.3:
            frame = changed(frame, rng)
        data = sized(frame)
        if rng.random() < 0.05:
            data = changed(data, rng)
        try:
            self._socket.sendall(data)
            size = self._socket.recv(4, socket.MSG_WAITALL)
            if len(size) < 4:
                return None
            return self._socket.recv(int.from_bytes(size, "big"), socket.MSG_WAITALL)
        except OSError:
            return None

    def close(self) -> None:
        self._socket.close()


def mutated_exchange(address: tuple[str, int], rng: random.Random) -> None:
    mutant = Mutant(address, rng)
    try:
        _play(mutant, rng)
    finally:
        mutant.close()


def _play(mutant: Mutant, rng: random.Random) -> None:
    if rng.random() < 0.3:
        mutant.say(framed(ApiVersionsRequest(), 0))
    mechanism, version = rng.choice(NAMES), rng.choice((0, 1, 1, 1))
    if (
        rng.random() < 0.9
        and mutant.say(framed(SaslHandshakeRequest(mechanism=mechanism), version)) is None
    ):
        return
    other = rng.choice(NAMES) if rng.random() < 0.1 else mechanism
    mine = client_of(other, rng)
    answer = b""
    for _ in range(rng.choice((1, 2, 3, 4))):
        try:
            token = mine.step(answer)
        except SaslError:
            token = rng.randbytes(20)
        assert not mine.done or other in ("PLAIN", "OAUTHBEARER")
        if rng.random() < 0.3:
            token = changed(token, rng)
        if version == 0:
            found = mutant.say(token)
            answer = found or b""
        else:
            number = rng.choice((0, 1, 2))
            found = mutant.say(framed(SaslAuthenticateRequest(auth_bytes=token), number))
            answer = token_in(found or b"", number)
        if found is None:
            return
    # Nobody may have got in.
    answered = mutant.say(framed(MetadataRequest(topics=[]), 1, LAST))
    assert answered is None or answered[:4] != LAST.to_bytes(4, "big"), "a stranger was let in"


def token_in(answer: bytes, version: int) -> bytes:
    """The token of a SaslAuthenticate response without an error, as far as it is one."""
    if version == 2 or answer[4:8] != bytes(4):
        return b""
    size = int.from_bytes(answer[8:12], "big")
    return answer[12 : 12 + size]


def attack(good: Bystander, count: int, seed: int) -> Iterator[Row]:
    """Play `count` exchanges, a window at a time; what the good client saw of each."""
    address = ("127.0.0.1", good.broker.port + 1)
    for first in range(0, count, WINDOW):
        size = min(WINDOW, count - first)

        def play(first: int = first, size: int = size) -> None:
            rng = random.Random(f"{seed}-{first}")
            for _ in range(size):
                mutated_exchange(address, rng)

        yield good.measure(f"mutated logins from {first} (seed {seed})", play, is_good)
        assert good.broker.is_running, f"seed {seed}, from {first}: {good.broker.log_text[-3000:]}"
        assert good.complaints() == [], f"seed {seed}, from {first}: {good.complaints()[:5]}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    arguments = parser.parse_args()
    bad = 0
    port = free_port(2)
    with (
        tempfile.TemporaryDirectory() as directory,
        bystander(Path(directory), secured(port), port=port) as good,
    ):
        for row in attack(good, arguments.count, arguments.seed):
            bad += not is_good(row)
            print(format_table([row]).splitlines()[-1], "" if is_good(row) else "  TOO LONG",
                  flush=True)  # fmt: skip
    print(f"{arguments.count} logins, {len(TABLE)} windows, {bad} that held up the good client")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
