"""The pytest plugin: the fixture `kafka`, the marker of the same name, options.

Invariants: nothing of the broker is imported, and no process started, unless a test that is to run
wants a cluster; then the fork server, whose start takes a moment, starts while others run. A
cluster is shared by all tests of a session (with xdist, of a worker) that want one like it, as long
as they leave it whole; what a test has made goes with the test.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .cluster import KafkaCluster
    from .coroutines import AsyncKafkaCluster
    from .pool import ClusterPool

CLUSTER_MODULE = "pybroker_kafka.testkit.cluster"
MARKER = (
    "kafka(brokers=1, config={}, zookeepers=1, secure=False, network=False, fresh=False, keep=[]): "
    "the cluster that the fixture `kafka` gives to this test; fresh: one that no other test uses; "
    "keep: names of what stays on it after the test, with * and ?, or True for all"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options, and the ini file's keys, that shape `kafka` where no marker does."""
    group = parser.getgroup("kafka", "Kafka clusters of pybroker")
    group.addoption(
        "--kafka-brokers", type=int, metavar="N", help="How many brokers the fixture kafka has."
    )
    group.addoption(
        "--kafka-config",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="A key of server.properties for its brokers; may be repeated.",
    )
    group.addoption("--kafka-secure", action="store_true", help="Clients log in, over TLS.")
    group.addoption(
        "--kafka-keep",
        action="append",
        default=[],
        metavar="NAME",
        help="What tests make with this name stays for the next ones (* and ? as in a shell).",
    )
    parser.addini(
        "kafka_keep",
        "Names of what stays on the cluster after a test.",
        type="linelist",
        default=[],
    )
    parser.addini("kafka_secure", "Clients log in, over TLS.", type="bool", default=False)
    parser.addini("kafka_brokers", "How many brokers the fixture kafka has.", default="1")
    parser.addini(
        "kafka_config", "Keys of server.properties, KEY=VALUE a line.", type="linelist", default=[]
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARKER)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Start the fork server if a test uses `kafka_clusters`; another plugin's `kafka` does not."""
    wanted = any("kafka_clusters" in getattr(one, "fixturenames", ()) for one in session.items)
    if wanted and not session.config.option.collectonly:
        from .launching import shared_launcher

        shared_launcher()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """The stories of the clusters of a test that has failed go into its report."""
    report = yield
    if report.failed and (cluster := sys.modules.get(CLUSTER_MODULE)) is not None:
        values = {id(value): value for value in getattr(item, "funcargs", {}).values()}
        running = [one for one in values.values() if isinstance(one, cluster.KafkaCluster)]
        stories = [one.tell_story() for one in running if one.is_running]
        while cluster.failures:
            stories.append(cluster.failures.popleft())
        report.sections += [("Kafka cluster", story) for story in stories]
    return report


@pytest.fixture(scope="session")
def kafka_clusters(request: pytest.FixtureRequest) -> Iterator[ClusterPool]:
    """The clusters of this session, by their options."""
    from .pool import ClusterPool, default_options

    pool = ClusterPool(default_options(request.config))
    yield pool
    pool.close()


@pytest.fixture(scope="session")
def kafka_cluster(kafka_clusters: ClusterPool) -> KafkaCluster:
    """The session's cluster, for fixtures that live longer than a test."""
    return kafka_clusters.take({})


@pytest.fixture
def kafka(request: pytest.FixtureRequest, kafka_clusters: ClusterPool) -> Iterator[KafkaCluster]:
    """A Kafka cluster: `kafka.bootstrap`, `kafka.topic("orders")`, `kafka.records(...)`."""
    wanted: dict[str, Any] = {}
    for marker in reversed(list(request.node.iter_markers("kafka"))):
        if marker.args:
            raise pytest.UsageError("the marker kafka takes keywords only, such as brokers=3")
        wanted.update(marker.kwargs)
    cluster = kafka_clusters.take(wanted)
    yield cluster
    kafka_clusters.give_back(cluster)


@pytest.fixture
def async_kafka(kafka: KafkaCluster) -> AsyncKafkaCluster:
    """The same cluster, its methods as coroutines: `await async_kafka.records(...)`."""
    from .coroutines import AsyncKafkaCluster

    return AsyncKafkaCluster(kafka)
