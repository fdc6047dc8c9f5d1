"""Which files of this folder are begun first: those that take long; and the Spark that some share.

Workers get whole files, so that a long one that is begun last has the others wait for its end. The
files that have their queries run by a session in the test process all go to one worker: a JVM, its
session and the first queries take 15 CPU seconds.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from pybroker_kafka.spark_jobs.session import kafka_session
from tests.spark_newest import CONNECTOR_VARIABLE, NO_CONNECTOR

# By the seconds that they take, the longest first.
LONG = (
    "test_page_blocks",
    "test_spark_sources",
    "test_spark",
    "test_learn",
    "test_zookeeper_ensembles",
    "test_console",
    "test_learn_browser",
    "test_cli",
    "test_testing",
    "test_share_consumer",
    "test_security_page",
    "test_consumer_protocol",
    "test_secure_cluster",
    "test_cli_records",
    "test_action",
    "test_consumer",
    "test_streams_groups",
    "test_zookeeper_java",
    "test_docker",
    "test_client_producer",
    "test_registry_instances",
    "test_examples",
    "test_frameworks_page",
    "test_testing_faults",
    "test_hosted_clients",
    "test_sasl_clients",
    "test_transactions",
    "test_mirror",
)
SHARE_A_SESSION = ("test_spark_sources", "test_spark")


class Scheduling(LoadFileScheduling):  # type: ignore[misc]
    """By file, and those that share a session as if they were one."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return "spark" if PurePath(file).stem in SHARE_A_SESSION else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling | None:
    return Scheduling(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    # Spark makes a folder `artifacts` where its JVM is started.
    with contextlib.chdir(tmp_path_factory.mktemp("spark")):
        session = kafka_session(
            "pybroker-tests",
            master="local[2]",
            shuffle_partitions=2,
            official_connector=os.environ.get(CONNECTOR_VARIABLE) != NO_CONNECTOR,
        )
    yield session
    session.stop()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    ranks = {name: rank for rank, name in enumerate(LONG)}
    items.sort(key=lambda item: ranks.get(item.path.stem, len(LONG)))
