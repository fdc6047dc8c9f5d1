"""What strangers do to listeners with logins: nobody is let in, and a good client goes on.

About half a second each, a quarter for odd messages.
"""

from __future__ import annotations

import contextlib
import json
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from pybroker_kafka.protocol.apis.api_versions import ApiVersionsRequest
from pybroker_kafka.protocol.apis.metadata import MetadataRequest
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.sasl import OAuthBearerClient, PlainClient
from pybroker_kafka.protocol.sasl.oauthbearer import MAX_MESSAGE_BYTES
from tests.abuse.secured import DELAY_MS, PASSWORDS, Secured, for_a_while
from tests.support.patience import fair
from tests.support.sasl_client import authenticate, handshake, log_in, talk
from tests.support.wire import WireClient

SECONDS = 0.45
IN_SECONDS = 1.0  # a good login beside a storm; its connection and handshake included
MAX_RECEIVE_BYTES = 524_288


@contextlib.contextmanager
def strangers(secured: Secured, count: int, listener: str = "USERS") -> Iterator[list[WireClient]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(secured.client(listener, None)) for _ in range(count)]


def test_many_that_never_log_in(secured: Secured) -> None:
    count = 300

    def abuse() -> int:
        with strangers(secured, count) as waiting:
            for number, client in enumerate(waiting):
                if number % 3 == 1:
                    client.call(ApiVersionsRequest(), 0)
                elif number % 3 == 2:
                    handshake(client, "SCRAM-SHA-256")
            time.sleep(SECONDS)
        return count

    secured.unharmed(f"{count} that never log in", abuse)


@pytest.mark.parametrize("sent_bytes", [100, MAX_RECEIVE_BYTES - 100])
def test_huge_frames(secured: Secured, sent_bytes: int) -> None:
    """Larger than is taken: closed at once. As large as is taken, and never whole: it waits."""
    count = 100
    size = MAX_RECEIVE_BYTES + 1 if sent_bytes == 100 else MAX_RECEIVE_BYTES

    def abuse() -> int:
        with strangers(secured, count) as sending:
            for client in sending:
                with contextlib.suppress(ConnectionError):
                    client.socket.sendall(size.to_bytes(4, "big") + bytes(sent_bytes))
            time.sleep(SECONDS)
        return count

    secured.unharmed(f"{sent_bytes} B of a frame of {size} B", abuse)


def failing(secured: Secured, mechanism: str, name: str, password: str) -> Callable[[], int]:
    """One login that must fail."""

    def once() -> int:
        with secured.client("USERS", None) as client:
            answer = log_in(client, mechanism, name, password)
            assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        return 1

    return once


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
@pytest.mark.parametrize("name", ["alice", "nobody"])
def test_a_storm_of_wrong_passwords(secured: Secured, mechanism: str, name: str) -> None:
    """Clients with the right password get in meanwhile, sooner than the others are refused."""
    took: list[float] = []

    def abuse() -> int:
        with ThreadPoolExecutor(20) as pool:
            storm = [
                pool.submit(for_a_while(SECONDS, failing(secured, mechanism, name, "wrong")))
                for _ in range(20)
            ]
            while not all(run.done() for run in storm):
                began = fair.now()
                secured.client("SECURE", "bob").close()
                took.append(fair.now() - began)
                time.sleep(0.05)
            return sum(run.result() for run in storm)

    secured.unharmed(f"wrong passwords of {name}, {mechanism}", abuse)
    assert sorted(took)[len(took) // 2] < DELAY_MS / 1000
    assert max(took) < IN_SECONDS


SCRAM_MESSAGES = {
    "a nonce of 400 kB": [b"n,,n=alice,r=" + b"x" * 400_000],
    "a name of 400 kB": [b"n,,n=" + b"x" * 400_000 + b",r=abc"],
    "a name of escapes": [b"n,,n=" + b"=2C" * 130_000 + b",r=abc"],
    "extensions": [b"n,,n=alice,r=abc" + b",a=b" * 100_000],
    "a wrong nonce": [b"n,,n=alice,r=abc", b"c=biws,r=" + b"y" * 400_000 + b",p=AAAA"],
    "a long proof": [b"n,,n=alice,r=abc", b"c=biws,r=abc,p=" + b"A" * 400_000],
    "a long binding": [b"n,,n=alice,r=abc", b"c=" + b"A" * 400_000 + b",r=abc,p=AAAA"],
    "iterations": [b"n,,n=alice,r=abc,i=2147483647", b"r=abc,s=QUFB,i=2147483647"],
    "commas": [b"," * 500_000],
    "equals": [b"=" * 500_000],
    "zeros": [b"\0" * 500_000],
}


@pytest.mark.parametrize("what", SCRAM_MESSAGES)
def test_odd_scram(secured: Secured, what: str) -> None:
    def once() -> int:
        with secured.client("USERS", None) as client:
            handshake(client, "SCRAM-SHA-256")
            for message in SCRAM_MESSAGES[what]:
                if authenticate(client, message).error_code:
                    break
            else:
                # A long nonce alone is allowed; it is not in.
                client.post(MetadataRequest(topics=[]), 0)
                assert client.is_closed_by_broker()
        return 1

    with ThreadPoolExecutor(4) as pool:

        def abuse() -> int:
            runs = [pool.submit(for_a_while(SECONDS / 3, once)) for _ in range(4)]
            return sum(run.result() for run in runs)

        secured.unharmed(f"SCRAM: {what}", abuse)


def encoded(text: str) -> str:
    return urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


def token(claims: str, header: str = '{"alg":"none"}') -> str:
    return f"{encoded(header)}.{encoded(claims)}."


LONG = 90_000  # before it is encoded: what is decoded
TOO_LONG = 380_000
DEEP = LONG // 2
TOKENS = {
    "claims": json.dumps({"sub": "x", "exp": 1, **{f"c{n}": n for n in range(5_000)}}),
    "deep lists": '{"sub":"x","exp":1,"d":' + "[" * DEEP + "]" * DEEP + "}",
    "deep maps": '{"a":' * (LONG // 6) + "1" + "}" * (LONG // 6),
    "a long number": '{"sub":"x","exp":' + "9" * LONG + "}",
    "a long subject": json.dumps({"sub": "x" * (LONG - 100), "exp": 99999999999}),
    "scopes": json.dumps({"sub": "x", "exp": 1, "scope": ["s"] * (LONG // 6)}),
    "numbers": json.dumps({"sub": "x", "exp": 1, "n": [1.5e300] * (LONG // 10)}),
    "escapes": '{"sub":"' + "\\u0041" * (LONG // 6) + '","exp":1}',
    "no token": "x" * TOO_LONG,
    "dots": "." * TOO_LONG,
    "many dots": "." * LONG,
}


@pytest.mark.parametrize("what", TOKENS)
def test_long_tokens(secured: Secured, what: str) -> None:
    text = TOKENS[what]
    if what not in ("no token", "dots", "many dots"):
        text = token(text)
        assert len(text) < MAX_MESSAGE_BYTES - 1000
    assert len(text) < MAX_RECEIVE_BYTES - 1000

    def once() -> int:
        with secured.client("USERS", None) as client:
            handshake(client, "OAUTHBEARER")
            with contextlib.suppress(ConnectionError):
                talk(client, OAuthBearerClient(text))
        return 1

    secured.unharmed(f"OAUTHBEARER, {what}", for_a_while(SECONDS / 3, once))


def test_a_storm_of_new_logins(secured: Secured) -> None:
    """Of one that is in already: once a second it may, else it is refused and stays."""

    def abuse() -> int:
        with secured.client("USERS") as client:
            end = time.monotonic() + SECONDS
            refused = 0
            while time.monotonic() < end:
                if handshake(client, "PLAIN").error_code == ErrorCode.ILLEGAL_SASL_STATE:
                    refused += 1
                    continue
                mine = PlainClient("alice", PASSWORDS["alice"])
                assert talk(client, mine).error_code == 0
            assert refused > 10
            assert client.call(MetadataRequest(topics=[]), 9).brokers
        return 1

    secured.unharmed("logins again and again", abuse)


def test_a_storm_of_logins(secured: Secured) -> None:
    """Right ones, by the most costly mechanism, over TLS."""

    def once() -> int:
        secured.client("SECURE").close()
        return 1

    with ThreadPoolExecutor(4) as pool:

        def abuse() -> int:
            runs = [pool.submit(for_a_while(SECONDS, once)) for _ in range(4)]
            return sum(run.result() for run in runs)

        secured.unharmed("logins that succeed", abuse)
