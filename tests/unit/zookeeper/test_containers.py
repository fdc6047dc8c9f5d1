"""Container and TTL nodes go by themselves, in virtual time."""

from pybroker_kafka.protocol.zookeeper.constants import OPEN_ACL, Op, ZkCode
from pybroker_kafka.protocol.zookeeper.jute import CreateTTLRequest, DeleteRequest
from tests.support.zookeeper_machine import World


def test_a_container_goes_after_its_last_child_but_not_before_its_first() -> None:
    world = World(container_check_ms=1000)
    client = world.client(timeout_ms=2000)
    client.create("/c", flags=4, op=Op.CREATE_CONTAINER)
    for _ in range(3):
        world.advance(1500)
        assert client.children("/") == ["c", "zookeeper"]
    client.create("/c/child")
    world.advance(1500)
    assert client.children("/") == ["c", "zookeeper"]
    client.call(Op.DELETE, DeleteRequest("/c/child", -1))
    client.children("/", watch=True)
    world.advance(1000)
    assert client.events() == [(4, "/")]
    assert client.children("/") == ["zookeeper"]


def test_a_ttl_node_goes_when_it_is_not_written_to_and_has_no_children() -> None:
    world = World(container_check_ms=100)
    client = world.client(timeout_ms=2000)
    request = CreateTTLRequest("/t", b"", list(OPEN_ACL), 5, 1000)
    assert client.call(Op.CREATE_TTL, request).error == 0
    client.create("/t/child")
    world.advance(1500)
    assert client.children("/") == ["t", "zookeeper"]
    client.call(Op.DELETE, DeleteRequest("/t/child", -1))
    world.advance(150)
    assert client.children("/") == ["zookeeper"]


def test_a_ttl_request_with_another_mode_is_refused() -> None:
    client = World().client()
    for flags, ttl_ms in ((0, -1), (0, 5), (5, 0), (5, 1 << 40), (4, -1)):
        request = CreateTTLRequest("/t", b"", list(OPEN_ACL), flags, ttl_ms)
        assert client.call(Op.CREATE_TTL, request).error == ZkCode.BAD_ARGUMENTS


def test_without_such_nodes_there_is_nothing_to_wake_up_for() -> None:
    world = World()
    client = world.client()
    client.create("/plain")
    client.call(Op.CLOSE_SESSION)
    assert world.machine.next_deadline_ms() is None
