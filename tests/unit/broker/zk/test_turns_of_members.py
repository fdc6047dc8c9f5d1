"""How kazoo goes from member to member: each has its share of the session timeout, in turn."""

from __future__ import annotations

from typing import Any

import pytest
from kazoo.client import KazooClient

from pybroker_kafka.broker.zk.kazoo_parts import take_turns

HOSTS = ("127.0.0.1:21", "127.0.0.1:22", "127.0.0.1:23")


class Attempts:
    """Notes each attempt to connect, which fails."""

    def __init__(self, client: KazooClient) -> None:
        self.noted: list[tuple[int, float]] = []
        client.handler.create_connection = self.connect

    def connect(self, *, address: tuple[str, int], timeout: float, **_options: Any) -> None:
        self.noted.append((address[1], timeout))
        raise ConnectionRefusedError


def attempts_of(client: KazooClient, address: tuple[str, int], timeout: float) -> float:
    attempts = Attempts(client)
    take_turns(client)
    with pytest.raises(ConnectionRefusedError):
        client.handler.create_connection(address=address, timeout=timeout, hostname="x")
    ((_, seconds),) = attempts.noted
    return seconds


@pytest.mark.parametrize(
    ("members", "session_seconds", "seconds"),
    [(1, 18.0, 18.0), (3, 18.0, 6.0), (3, 4.0, 4.0 / 3), (3, 2.0, 1.0), (3, 0.5, 0.5)],
)
def test_an_attempt_takes_a_share_of_the_session(
    members: int, session_seconds: float, seconds: float
) -> None:
    client = KazooClient(hosts=",".join(HOSTS[:members]))
    assert attempts_of(client, ("127.0.0.1", 21), session_seconds) == pytest.approx(seconds)


def test_the_member_that_was_tried_last_comes_last() -> None:
    client = KazooClient(hosts=",".join(HOSTS), randomize_hosts=True)
    Attempts(client)
    take_turns(client)
    firsts: set[int] = set()
    last = 0
    for number in range(100):
        order = [port for _, _, port in client._connection._expand_client_hosts()]
        assert sorted(order) == [21, 22, 23]
        if number:
            assert order[-1] == last
        firsts.add(order[0])
        last = order[number % 3]
        with pytest.raises(ConnectionRefusedError):
            client.handler.create_connection(address=("127.0.0.1", last), timeout=9.0)
    assert firsts == {21, 22, 23}
