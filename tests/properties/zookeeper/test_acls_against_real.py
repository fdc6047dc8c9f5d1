"""ACLs: random requests of three sessions with several identities, to the real one and to ours.

Compared as in `test_against_real`: errors, bodies, zxids, ACL versions, and the events that each
session may hear of. Left out: schemes and ids that are null, over which the real one trips, and
addresses of version 6, of which it knows none.
"""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pybroker_kafka.protocol.zookeeper.constants import Op
from pybroker_kafka.protocol.zookeeper.jute import (
    ACL,
    AuthPacket,
    CheckVersionRequest,
    CreateRequest,
    DeleteRequest,
    Id,
    PathRequest,
    PathWatchRequest,
    SetACLRequest,
    SetDataRequest,
)
from pybroker_kafka.zookeeper.acl import digest_id
from tests.properties.zookeeper.test_against_real import Ports, Side
from tests.support.embedded_zookeeper import embedded_zookeeper
from tests.support.real_zookeeper import real_zookeeper

SESSIONS = 3
_tops = itertools.count()


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ports]:
    directory: Path = tmp_path_factory.mktemp("zookeepers")
    with (
        real_zookeeper(directory / "real", container_check_ms=60_000) as real,
        embedded_zookeeper(tick_ms=2000, container_check_ms=60_000) as ours,
    ):
        yield Ports(real, ours)


ANYONE = Id("world", "anyone")
USERS = [b"ann:a", b"bob:b", b"eve:with:colons"]
CREDENTIALS = [*USERS, *USERS, b"nocolon", b":p", b"u:", "jos\u00e9:\u00fc".encode()]
IDS = [digest_id(user) for user in CREDENTIALS]
ODD_IDS = [
    Id("digest", "nocolon"),
    Id("digest", "a:b:c"),
    Id("digest", "a:"),
    Id("digest", ":b"),
    Id("digest", ""),
    Id("world", "x"),
    Id("world", ""),
    Id("ip", "127.0.0.1"),
    Id("ip", "127.0.0.1/0"),
    Id("ip", "127.0.0.2"),
    Id("ip", "127.0.0.2/8"),
    Id("ip", "10.0.0.1/32"),
    Id("ip", "0.0.0.0/1"),
    Id("ip", "127.0.0.1/33"),
    Id("ip", "127.0.0.1/-1"),
    Id("ip", "127.0.0.1/x"),
    Id("ip", "127.0.0.1/"),
    Id("ip", "127.0.0"),
    Id("ip", "256.0.0.1"),
    Id("auth", "anything"),
    Id("super", "x"),
    Id("sasl", "kafka"),
    Id("x509", "CN=x"),
    Id("", ""),
    Id("Digest", "a:b"),
]
ids = st.one_of(
    st.just(ANYONE),
    st.sampled_from(IDS),
    st.sampled_from(IDS),
    st.just(Id("auth", "")),
    st.sampled_from(ODD_IDS),
)
permissions = st.sampled_from([0, 1, 2, 4, 8, 16, 15, 17, 31, 31, 63, -1])
acls = st.one_of(
    st.lists(st.builds(ACL, permissions, ids), max_size=4),
    st.lists(st.builds(ACL, permissions, st.sampled_from([ANYONE, *IDS])), min_size=1, max_size=2),
    st.just([ACL(31, Id("auth", "")), ACL(1, ANYONE)]),
    st.just([ACL(31, Id("auth", ""))]),
    st.none(),
)
paths = st.sampled_from(["{top}/a", "{top}/a", "{top}/b", "{top}/a/c", "{top}/b/d"])
versions = st.sampled_from([-1, -1, -1, 0, 1, 2])
data = st.sampled_from([b"", b"x"])

logins = st.tuples(
    st.just(Op.AUTH),
    st.builds(AuthPacket, st.just(0), st.just("digest"), st.sampled_from(CREDENTIALS)),
)
creates = st.tuples(
    st.sampled_from([Op.CREATE, Op.CREATE2]),
    st.builds(CreateRequest, paths, data, acls, st.sampled_from([0, 0, 0, 1, 2])),
)
changes = st.one_of(
    st.tuples(st.just(Op.SET_DATA), st.builds(SetDataRequest, paths, data, versions)),
    st.tuples(st.just(Op.DELETE), st.builds(DeleteRequest, paths, versions)),
)
checks = st.tuples(st.just(Op.CHECK), st.builds(CheckVersionRequest, paths, versions))
set_acls = st.tuples(st.just(Op.SET_ACL), st.builds(SetACLRequest, paths, acls, versions))
reads = st.one_of(
    st.tuples(st.just(Op.GET_ACL), st.builds(PathRequest, paths)),
    st.tuples(
        st.sampled_from([Op.GET_DATA, Op.EXISTS, Op.GET_CHILDREN, Op.GET_CHILDREN2]),
        st.builds(PathWatchRequest, paths, st.booleans()),
    ),
    st.tuples(st.just(Op.GET_ALL_CHILDREN_NUMBER), st.builds(PathRequest, paths)),
    st.tuples(st.just(Op.WHO_AM_I), st.none()),
)
# Without an ACL, Java's multi fails before it is a multi.
plain_creates = creates.filter(lambda part: part[1].acl is not None)
multis = st.tuples(
    st.just(Op.MULTI), st.lists(st.one_of(plain_creates, changes, checks), max_size=4)
)
steps = st.lists(
    st.tuples(
        st.integers(0, SESSIONS - 1),
        st.one_of(logins, creates, creates, changes, set_acls, set_acls, reads, reads, multis),
    ),
    min_size=1,
    max_size=30,
)


@pytest.mark.nightly
@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(program=steps)
def test_the_same_is_allowed(ports: Ports, program: list[tuple[int, tuple[Op, object]]]) -> None:
    top = f"/p{next(_tops)}"
    real, ours = Side(ports.real, top, SESSIONS), Side(ports.ours, top, SESSIONS)
    try:
        for number, (op, request) in program:
            expected = real.ask(number, op, request)
            assert ours.ask(number, op, request) == expected, (number, op.name, request)
    finally:
        left = real.close(), ours.close()
    assert left[0] == left[1]
