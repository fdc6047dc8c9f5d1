"""ApiVersions: exactly what is served is advertised, and all of it has a test here."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

import pytest

import tests.wire
from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.apis.api_versions import ApiVersionsRequest
from pybroker_kafka.protocol.apis.envelope import EnvelopeRequest
from pybroker_kafka.protocol.apis.metadata import MetadataRequest
from pybroker_kafka.protocol.errors import ErrorCode
from tests.support.wire import COVERED, WireClient, covers

# Every API that is served, with the newest version that Apache Kafka 3.9 has in ZooKeeper mode;
# the oldest is 0 everywhere.
SERVED = {
    ApiKey.PRODUCE: 11,
    ApiKey.FETCH: 17,
    ApiKey.LIST_OFFSETS: 9,
    ApiKey.METADATA: 12,
    ApiKey.LEADER_AND_ISR: 7,
    ApiKey.STOP_REPLICA: 4,
    ApiKey.UPDATE_METADATA: 8,
    ApiKey.CONTROLLED_SHUTDOWN: 3,
    ApiKey.OFFSET_COMMIT: 9,
    ApiKey.OFFSET_FETCH: 9,
    ApiKey.FIND_COORDINATOR: 6,
    ApiKey.JOIN_GROUP: 9,
    ApiKey.HEARTBEAT: 4,
    ApiKey.LEAVE_GROUP: 5,
    ApiKey.SYNC_GROUP: 5,
    ApiKey.DESCRIBE_GROUPS: 5,
    ApiKey.LIST_GROUPS: 5,
    ApiKey.SASL_HANDSHAKE: 1,
    ApiKey.API_VERSIONS: 4,
    ApiKey.CREATE_TOPICS: 7,
    ApiKey.DELETE_TOPICS: 6,
    ApiKey.DELETE_RECORDS: 2,
    ApiKey.INIT_PRODUCER_ID: 5,
    ApiKey.ADD_PARTITIONS_TO_TXN: 5,
    ApiKey.ADD_OFFSETS_TO_TXN: 4,
    ApiKey.END_TXN: 4,
    ApiKey.WRITE_TXN_MARKERS: 1,
    ApiKey.TXN_OFFSET_COMMIT: 4,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: 4,
    ApiKey.DESCRIBE_ACLS: 3,
    ApiKey.CREATE_ACLS: 3,
    ApiKey.DELETE_ACLS: 3,
    ApiKey.DESCRIBE_CONFIGS: 4,
    ApiKey.ALTER_CONFIGS: 2,
    ApiKey.ALTER_REPLICA_LOG_DIRS: 2,
    ApiKey.DESCRIBE_LOG_DIRS: 4,
    ApiKey.SASL_AUTHENTICATE: 2,
    ApiKey.CREATE_PARTITIONS: 3,
    ApiKey.CREATE_DELEGATION_TOKEN: 3,
    ApiKey.RENEW_DELEGATION_TOKEN: 2,
    ApiKey.EXPIRE_DELEGATION_TOKEN: 2,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: 3,
    ApiKey.DELETE_GROUPS: 2,
    ApiKey.ELECT_LEADERS: 2,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: 1,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: 0,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: 0,
    ApiKey.OFFSET_DELETE: 0,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: 1,
    ApiKey.ALTER_CLIENT_QUOTAS: 1,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: 0,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: 0,
    ApiKey.ALTER_PARTITION: 3,
    ApiKey.UPDATE_FEATURES: 1,
    ApiKey.ENVELOPE: 0,
    ApiKey.DESCRIBE_CLUSTER: 1,
    ApiKey.DESCRIBE_PRODUCERS: 0,
    ApiKey.DESCRIBE_TRANSACTIONS: 0,
    ApiKey.LIST_TRANSACTIONS: 1,
    ApiKey.ALLOCATE_PRODUCER_IDS: 0,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: 0,
    ApiKey.CONSUMER_GROUP_DESCRIBE: 0,
}


def ranges(answer: Any) -> dict[int, tuple[int, int]]:
    return {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}


def ask(version: int) -> ApiVersionsRequest:
    if version < 3:
        return ApiVersionsRequest()
    return ApiVersionsRequest(client_software_name="wire-test", client_software_version="1.0.0")


def test_what_is_served_is_advertised_and_nothing_else(kafka: WireClient) -> None:
    answer = kafka.call(ask(4), 4)
    keys = [api.api_key for api in answer.api_keys]
    assert len(keys) == len(set(keys))
    assert ranges(answer) == {key: (0, newest) for key, newest in SERVED.items()}


def test_everything_advertised_has_a_test(kafka: WireClient) -> None:
    for module in pkgutil.iter_modules(tests.wire.__path__):
        importlib.import_module(f"tests.wire.{module.name}")
    missing = [ApiKey(key).name for key in ranges(kafka.call(ask(4), 4)) if key not in COVERED]
    assert missing == []


@covers(ApiKey.API_VERSIONS)
def test_the_same_answer_in_every_version(kafka: WireClient) -> None:
    versions = kafka.versions(ApiKey.API_VERSIONS)
    first = ranges(kafka.call(ask(0), 0))
    for version in versions:
        answer = kafka.call(ask(version), version)
        assert (answer.error_code, answer.throttle_time_ms) == (0, 0)
        assert ranges(answer) == first
        assert (answer.supported_features, answer.finalized_features) == ([], [])
        assert not answer.zk_migration_ready


@pytest.mark.parametrize("version", [5, 99, 32767, -1])
def test_an_unknown_version_is_answered_in_version_0(kafka: WireClient, version: int) -> None:
    kafka.post_bytes(ApiKey.API_VERSIONS, version, b"\x00\x05whatever this is")
    answer = kafka.receive(ApiKey.API_VERSIONS, 0)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert ranges(answer) == {ApiKey.API_VERSIONS: (0, 4)}
    # The connection goes on.
    assert kafka.call(ask(4), 4).error_code == 0


@pytest.mark.parametrize(
    ("name", "software_version"),
    [("", "1"), ("wire", ""), ("-wire", "1"), ("wire", "1."), ("wi re", "1"), ("ü", "1")],
)
def test_names_of_client_software(kafka: WireClient, name: str, software_version: str) -> None:
    for version in kafka.versions(ApiKey.API_VERSIONS, first=3):
        request = ApiVersionsRequest(
            client_software_name=name, client_software_version=software_version
        )
        answer = kafka.call(request, version)
        assert (answer.error_code, answer.api_keys) == (ErrorCode.INVALID_REQUEST, [])
        good = ApiVersionsRequest(client_software_name="a", client_software_version="1.0-b.2")
        assert kafka.call(good, version).error_code == 0


@pytest.mark.parametrize("client_id", [None, "", "ä" * 100])
def test_any_client_id(kafka: WireClient, client_id: str | None) -> None:
    with kafka.another(client_id) as other:
        for version in other.versions(ApiKey.METADATA):
            assert len(other.call(MetadataRequest(topics=[]), version).brokers) == 1


@covers(ApiKey.ENVELOPE)
def test_nothing_is_forwarded(kafka: WireClient) -> None:
    (version,) = kafka.versions(ApiKey.ENVELOPE)
    kafka.post(EnvelopeRequest(request_data=b"x", client_host_address=b"1234"), version)
    assert kafka.is_closed_by_broker()


def test_requests_in_a_row_are_answered_in_order(kafka: WireClient) -> None:
    """Many versions sent at once: one answer each, in the form and order of the requests."""
    rounds = 20
    posted = [
        (version, kafka.post(ask(version), version))
        for _ in range(rounds)
        for version in range(SERVED[ApiKey.API_VERSIONS] + 1)
    ]
    for version, correlation_id in posted:
        answer = kafka.receive(ApiKey.API_VERSIONS, version, correlation_id)
        assert answer.error_code == 0


@pytest.mark.parametrize("key", sorted(set(SERVED) - {ApiKey.API_VERSIONS}))
def test_a_version_too_new_closes_the_connection(kafka: WireClient, key: ApiKey) -> None:
    with kafka.another() as other:
        other.post_bytes(key, SERVED[key] + 1, bytes(40))
        assert other.is_closed_by_broker()
