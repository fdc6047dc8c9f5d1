"""ZooKeeper's four-letter words: the embedded server answers as the real one, line for line.

The same clients do the same to both; then each word is asked of both, and what must differ
(numbers of sessions, ports, times, sizes of files) is masked on both sides alike.
"""

import contextlib
import re
import socket
from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient

from tests.support.embedded_zookeeper import embedded_zookeeper
from tests.support.real_zookeeper import real_zookeeper

SERVED = "conf,cons,dirs,dump,envi,isro,mntr,ruok,srvr,stat,wchc,wchp,wchs"
REFUSED = ("crst", "srst", "gtmk", "stmk", "hash")
# Only a JVM has these.
NOT_OURS = re.compile(r"^(java\.|os\.memory\.)")
# These tell of the process and of the clock, not of what the clients did.
NOT_COMPARED = {
    "zk_version",
    "zk_packets_received",  # those that asked whether the real one is up are among them,
    "zk_packets_sent",  # and it counts each piece of a long answer
    "zk_min_latency",
    "zk_avg_latency",
    "zk_max_latency",
    "zk_uptime",
    "zk_open_file_descriptor_count",
    "zk_max_file_descriptor_count",
}


def ask(port: int, word: str) -> str:
    with socket.create_connection(("127.0.0.1", port), timeout=10) as sock:
        sock.sendall(word.encode())
        with sock.makefile("rb") as answer:
            return answer.read().decode()


@contextlib.contextmanager
def two_clients(port: int) -> Iterator[None]:
    """Two sessions with nodes, ephemeral nodes and watches, and no pings between."""
    first, second = (KazooClient(f"127.0.0.1:{port}", timeout=30) for _ in range(2))
    try:
        first.start()
        first.ensure_path("/a/b")
        for path in ("/e", "/e2"):
            first.create(path, b"x", ephemeral=True)
        for path in ("/a", "/a/b"):
            first.get(path, watch=print)
        first.get_children("/a", watch=print)
        first.exists("/nope", watch=print)
        second.start()
        second.get("/a", watch=print)
        second.ensure_path("/c")
        yield
    finally:
        for client in (first, second):
            client.stop()
            client.close()


def answers(port: int) -> dict[str, str]:
    with two_clients(port):
        return {word: ask(port, word) for word in (*SERVED.split(","), *REFUSED)}


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    with embedded_zookeeper(tmp_path_factory.mktemp("ours"), tick_ms=2000) as port:
        return answers(port)


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    with real_zookeeper(tmp_path_factory.mktemp("theirs"), words=SERVED) as port:
        return answers(port)


def masked(text: str) -> list[str]:
    """Lines with sessions numbered by their order, and ports, dates and times left out."""
    sessions = sorted(set(re.findall(r"0x[0-9a-f]{9,}", text)), key=lambda word: int(word, 16))
    for number, session in enumerate(sessions):
        text = text.replace(session, f"<session {number}>")
    for pattern, mask in (
        (r"127\.0\.0\.1:\d+", "<client>"),
        (r"\b(est|lresp|llat|minlat|avglat|maxlat)=\d+", r"\1=<time>"),
        (r"Latency min/avg/max: \d+/\d+\.\d+/\d+", "Latency min/avg/max: <times>"),
        (r"(Received|Sent): \d+", r"\1: <number>"),
        (r"Zookeeper version: 3\.9\.3-.*", "Zookeeper version: <version>"),
        (r"\b(\w*(?:Size=|_size: ))\d+", r"\1<bytes>"),
        (r"\b(clientPort=|clientPortListenBacklog=)-?\d+", r"\1<number>"),
        (r"\b(data(?:Log)?Dir=).*", r"\1<path>"),
    ):
        text = re.sub(pattern, mask, text)
    return text.split("\n")


@pytest.mark.parametrize("word", ["conf", "dirs", "isro", "ruok", "srvr", "wchs", *REFUSED])
def test_the_same_lines_in_the_same_order(
    word: str, ours: dict[str, str], theirs: dict[str, str]
) -> None:
    assert masked(ours[word]) == masked(theirs[word])


EXPIRE_AT = re.compile(r"^(\d+) expire at \w{3} \w{3} \d\d \d\d:\d\d:\d\d \w+ \d{4}:$")
SETS = re.compile(r"^(Connections|Session) Sets \((\d+)\)/\((\d+)\):$")


def without_buckets(lines: list[str]) -> list[str]:
    """A `dump` without the sets by which its sessions and connections expire: who was heard of in
    the same tick lies in one set, which the clock decides. Their sums must be right."""
    kept, sets, members = [], 0, 0
    for line in reversed(lines):
        if match := EXPIRE_AT.match(line):
            sets, members = sets + 1, members + int(match[1])
        elif match := SETS.match(line):
            assert (sets, members) == (int(match[2]), int(match[3]))
            sets = members = 0
            kept.append(f"{match[1]} Sets of {match[3]}:")
        else:
            kept.append(line)
    return kept


def test_dump_has_the_same_lines_whatever_the_clock_put_together(
    ours: dict[str, str], theirs: dict[str, str]
) -> None:
    mine, real = (without_buckets(masked(words["dump"])) for words in (ours, theirs))
    assert sorted(mine) == sorted(real)


@pytest.mark.parametrize("word", ["cons", "stat", "wchc", "wchp"])
def test_the_same_lines_where_the_order_is_that_of_a_java_set(
    word: str, ours: dict[str, str], theirs: dict[str, str]
) -> None:
    assert sorted(masked(ours[word])) == sorted(masked(theirs[word]))


def test_envi_has_what_does_not_belong_to_a_jvm(
    ours: dict[str, str], theirs: dict[str, str]
) -> None:
    def names(text: str) -> list[str]:
        head, *lines = text.splitlines()
        assert head == "Environment:"
        return [name for line in lines if not NOT_OURS.match(name := line.partition("=")[0])]

    assert [name for name in names(ours["envi"]) if name != "python.version"] == names(
        theirs["envi"]
    )
    assert re.search(r"^zookeeper\.version=3\.9\.3-", ours["envi"], re.MULTILINE)


def test_mntr_has_every_value_of_the_server_with_the_same_number(
    ours: dict[str, str], theirs: dict[str, str]
) -> None:
    def values(text: str) -> dict[str, str]:
        lines = (line.partition("\t") for line in text.splitlines())
        return {key: value for key, _, value in lines}

    mine, real = values(ours["mntr"]), values(theirs["mntr"])
    listed = list(real)
    # dumpMonitorValues comes first; ServerMetrics' counters follow it.
    assert mine.keys() == set(listed[: listed.index("zk_non_mtls_local_conn_count") + 1])
    assert {key: mine[key] for key in mine.keys() - NOT_COMPARED} == {
        key: real[key] for key in mine.keys() - NOT_COMPARED
    }
