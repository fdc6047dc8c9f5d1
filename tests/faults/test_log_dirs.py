"""Three brokers with three log directories each: records deleted on all replicas, a replica moved
between directories under load and over a SIGKILL, a directory that fails, a topic deletion cut
short by SIGKILL, and the last directory of a broker.

The tests share a cluster, in this order; each leaves it whole, but for the last.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from pybroker_kafka.protocol.apis.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from pybroker_kafka.protocol.apis.delete_topics import DeleteTopicsRequest, DeleteTopicState
from pybroker_kafka.protocol.apis.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from pybroker_kafka.protocol.errors import ErrorCode
from tests.faults.directories import content, directory_of, give_directories, move, paths_of
from tests.support.cluster import Cluster, cluster
from tests.support.repeated import repeated
from tests.support.wire import WireClient, batch
from tests.wire.test_offsets import DEBUG_REPLICA, EARLIEST, list_offsets

RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
BROKER, SET, DELETE = 4, 0, 1
VALUE = b"x" * 50_000

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def jbod(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("jbod"), prepare=give_directories) as started:
        yield started


class Load:
    """Appends numbers with acks=all until it is stopped; remembers which were acknowledged."""

    def __init__(self, jbod: Cluster, topic: str) -> None:
        self._jbod = jbod
        self._topic = topic
        self._number = 0
        self._running = repeated(self._append, 0.02)
        self.acknowledged: set[bytes] = set()

    def __enter__(self) -> Load:
        self._running.__enter__()
        return self

    def __exit__(self, *raised: Any) -> None:
        self._running.__exit__(*raised)

    def _append(self) -> None:
        self._number += 1
        value = f"{self._number} ".encode() * 100
        with suppress(OSError, AssertionError, KeyError):
            leader = self._jbod.partitions(self._topic)[0].leader
            with WireClient(self._jbod.nodes[leader].bootstrap) as client:
                if client.produce(self._topic, batch(value)).error_code == 0:
                    self.acknowledged.add(value)


def set_rate(jbod: Cluster, node: int, rate: str | None) -> None:
    config = IncrementalAlterConfigsRequestAlterableConfig(
        name=RATE, config_operation=SET if rate else DELETE, value=rate
    )
    resource = IncrementalAlterConfigsRequestAlterConfigsResource(
        resource_type=BROKER, resource_name="", configs=[config]
    )
    mark = len(jbod.nodes[node].log_text)
    answer: Any = jbod.ask(node, IncrementalAlterConfigsRequest(resources=[resource]))
    assert answer.responses[0].error_code == 0, answer
    jbod.wait_for(lambda: RATE in jbod.nodes[node].log_text[mark:], "the broker knows its rate")


def lose(path: str) -> None:
    """At once: a broker that writes meanwhile finds nothing to write to."""
    os.rename(path, path + ".lost")
    shutil.rmtree(path + ".lost")


def records(jbod: Cluster, node: int, topic: str) -> bytes:
    (path,) = directory_of(jbod, node, topic)
    return content(path, topic)


def fill(jbod: Cluster, topic: str, count: int) -> None:
    """Refused, by a leader that does not know of it yet, is not appended."""
    for _ in range(count):
        jbod.wait_for(lambda: append(jbod, topic) == 0, f"{topic} is appended to")


def append(jbod: Cluster, topic: str) -> int:
    with WireClient(jbod.nodes[jbod.leader(topic)].bootstrap) as client:
        code: int = client.produce(topic, batch(VALUE)).error_code
        return code


def test_records_are_deleted_when_all_replicas_have_deleted_them(jbod: Cluster) -> None:
    jbod.create_topic("records", assignment={0: [1, 2, 3]})
    fill(jbod, "records", 10)

    def delete(offset: int, timeout_ms: int) -> Any:
        part = DeleteRecordsPartition(partition_index=0, offset=offset)
        topic = DeleteRecordsTopic(name="records", partitions=[part])
        request = DeleteRecordsRequest(topics=[topic], timeout_ms=timeout_ms)
        with closing(WireClient(jbod.nodes[1].bootstrap)) as client:
            return client.call(request).topics[0].partitions[0]

    answer = delete(4, 15_000)
    assert (answer.error_code, answer.low_watermark) == (0, 4)
    for node in jbod.nodes:
        with WireClient(jbod.nodes[node].bootstrap) as client:
            found = list_offsets(client, 7, "records", EARLIEST, replica_id=DEBUG_REPLICA)
            assert (found.error_code, found.offset) == (0, 4), node
    jbod.pause(3)
    answer = delete(7, 500)
    jbod.resume(3)
    assert (answer.error_code, answer.low_watermark) == (ErrorCode.REQUEST_TIMED_OUT, 4)
    answer = delete(7, 15_000)
    assert (answer.error_code, answer.low_watermark) == (0, 7)
    jbod.wait_for_isr("records")


@pytest.mark.parametrize("node", [1, 2], ids=["leader", "follower"])
def test_a_move_goes_on_after_a_crash(jbod: Cluster, node: int) -> None:
    topic = f"moving-{node}"
    jbod.create_topic(topic, assignment={0: [1, 2, 3]}, config={"segment.bytes": "1000000"})
    fill(jbod, topic, 60)
    with Load(jbod, topic) as load:
        set_rate(jbod, node, "300000")
        (home,) = directory_of(jbod, node, topic)
        target = next(path for path in paths_of(jbod, node) if path != home)
        assert move(jbod, node, topic, target) == 0

        def is_under_way() -> bool:
            found = directory_of(jbod, node, topic)
            return target in found and found[target].partition_size > 0

        jbod.wait_for(is_under_way, "the copy has begun")
        jbod.kill(node)
        assert len(list(Path(target).glob(f"{topic}-0.*-future"))) == 1
        jbod.start(node)
        jbod.wait_for(lambda: set(directory_of(jbod, node, topic)) == {home, target}, "both logs")
        set_rate(jbod, node, None)
        jbod.wait_for(lambda: set(directory_of(jbod, node, topic)) == {target}, "the new home")
        before = len(load.acknowledged)
        jbod.wait_for(lambda: len(load.acknowledged) > before + 5, "more records")
    jbod.wait_for_isr(topic)
    assert not list(Path(home).glob(f"{topic}-0"))
    jbod.wait_for(
        lambda: records(jbod, 1, topic) == records(jbod, 2, topic) == records(jbod, 3, topic),
        "three equal copies",
    )
    stored = records(jbod, node, topic)
    assert all(value in stored for value in load.acknowledged)


def test_a_directory_that_fails_takes_only_its_own_partitions_along(jbod: Cluster) -> None:
    homes = {f"spread-{index}": path for index, path in enumerate(paths_of(jbod, 2))}
    for name, path in homes.items():
        assert move(jbod, 2, name, path) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION  # not yet
        jbod.create_topic(name, assignment={0: [2, 1, 3]})
        fill(jbod, name, 2)
        assert list(directory_of(jbod, 2, name)) == [path]
    lost, *others = homes
    lose(homes[lost])
    jbod.wait_for(lambda: jbod.partitions(lost)[0].leader in (1, 3), "another leader")
    for name in others:
        assert jbod.partitions(name)[0].leader == 2
        fill(jbod, name, 1)
    fill(jbod, lost, 3)

    def offline() -> list[int]:
        (found,) = jbod.metadata(lost, 1).topics
        return list(found.partitions[0].offline_replicas)

    jbod.wait_for(lambda: offline() == [2], "the replica is offline in the metadata")
    jbod.wait_for_isr(lost, {1, 3})
    jbod.kill(2)
    jbod.start(2)
    for name in homes:
        jbod.wait_for_isr(name)
    jbod.wait_for(lambda: records(jbod, 2, lost) == records(jbod, 1, lost), "the replica again")


def test_a_deletion_goes_on_after_a_crash(jbod: Cluster) -> None:
    jbod.create_topic("doomed", assignment={0: [3, 2, 1], 1: [2, 1, 3], 2: [1, 3, 2]})
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name="doomed")], timeout_ms=10_000)
    node = 3 if jbod.controller() != 3 else 2
    with WireClient(jbod.nodes[jbod.controller()].bootstrap) as client:
        client.post(request, 6)
        time.sleep(0.05)  # anywhere in the middle of it
        jbod.kill(node)
    jbod.start(node)

    def left() -> list[Path]:
        return [
            found
            for broker in jbod.nodes
            for path in paths_of(jbod, broker)
            for found in Path(path).glob("doomed-*")
            if not found.name.endswith("-delete")
        ]

    def remembering() -> list[int]:
        return [
            broker
            for broker in jbod.nodes
            if "doomed" in {topic.name for topic in jbod.metadata(node=broker).topics}
        ]

    try:
        jbod.wait_for(lambda: not left() and not remembering(), "it is deleted and forgotten")
    except AssertionError as error:
        raise AssertionError(f"{error}; left {left()}, in metadata of {remembering()}") from None
    jbod.create_topic("doomed", assignment={0: [3, 2, 1]})
    fill(jbod, "doomed", 1)


def test_a_broker_without_any_directory_ends(jbod: Cluster) -> None:
    jbod.create_topic("survivor", assignment={0: [3, 1, 2]})
    fill(jbod, "survivor", 1)
    for path in paths_of(jbod, 3):
        lose(path)
    jbod.wait_for(lambda: not jbod.nodes[3].is_running, "the broker ends")
    assert "none of the specified log dirs" in jbod.nodes[3].log_text
    jbod.wait_for(lambda: jbod.partitions("survivor")[0].leader in (1, 2), "another leader")
    fill(jbod, "survivor", 1)
