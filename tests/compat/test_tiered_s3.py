"""Object stores over HTTP: the contract of storage managers on moto's S3."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from moto.server import ThreadedMotoServer

from pybroker_kafka.storage.remote.loading import OBJECT_STORE, load
from pybroker_kafka.storage.remote.storage_manager import RemoteStorageError, RemoteStorageManager
from pybroker_kafka.testkit.tiered import Copied, RemoteStorageManagerTests

BUCKET = "history"
KEYS = {"access_key_id": "someone", "secret_access_key": "hunter2", "region": "us-east-1"}


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    boto3.client(
        "s3",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id="someone",
        aws_secret_access_key="hunter2",
    ).create_bucket(Bucket=BUCKET)
    yield url
    server.stop()


def manager_at(endpoint: str, bucket: str = BUCKET) -> RemoteStorageManager:
    configs = {"url": f"s3://{bucket}/tier", "endpoint": endpoint, "client.allow_http": "true"}
    return load(OBJECT_STORE, {**configs, **KEYS, "broker.id": "1", "retry.max": "1"})


class TestS3(RemoteStorageManagerTests):
    @pytest.fixture(autouse=True)
    def at(self, endpoint: str) -> None:
        self.endpoint = endpoint

    def make_manager(self, directory: Path) -> RemoteStorageManager:
        return manager_at(self.endpoint)


def test_a_bucket_that_is_not_there_is_an_error_of_the_store(tmp_path: Path, endpoint: str) -> None:
    manager = manager_at(endpoint, "nowhere")
    segment = Copied(tmp_path / "one")
    with pytest.raises(RemoteStorageError, match=r"nowhere|NoSuchBucket|404") as caught:
        segment.copy_to(manager)
    assert "hunter2" not in str(caught.value)
