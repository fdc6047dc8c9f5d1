"""Produce v0-v2 and Fetch v0-v3: every format in every format, what is odd, what is refused.

The tests of `mixed` ask Apache Kafka the same and compare; here the answers stand in the test.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from pybroker_kafka.protocol.apis.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.records.batch import Compression, iter_batch_headers, read_records
from tests.support.old_formats import (
    FETCH_VERSIONS,
    FORMATS,
    RECORDS,
    Case,
    cases,
    expected_rows,
    observe,
    observe_odd_sets,
    observe_refusals,
)
from tests.support.processes import running_broker
from tests.support.wire import WireClient, batch, fetch_request
from tests.wire.transaction_steps import add, again, end, start, wait_for_state

INVALID, CORRUPT = ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE
UNKNOWN, NO_FORMAT = ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
NO_CODEC, NO_VERSION = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, ErrorCode.UNSUPPORTED_VERSION

ODD_CODES = {
    "two magics": INVALID,
    "two wrappers": INVALID,
    "a wrapper and a message": INVALID,
    "a message and a wrapper": INVALID,
    "a wrong CRC": CORRUPT,
    "a wrong CRC inside": CORRUPT,
    "another magic inside": INVALID,
    "a wrapper in a wrapper": INVALID,
    "an empty wrapper": INVALID,
    "a wrapper without a value": INVALID,
    "an unknown codec": UNKNOWN,
    "zstd": INVALID,
}


@pytest.fixture(scope="module")
def before_3_0(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WireClient]:
    """A broker that heeds message.format.version."""
    config = {"inter.broker.protocol.version": "2.8"}
    with (
        running_broker(tmp_path_factory.mktemp("formats"), config) as broker,
        WireClient(broker.bootstrap) as client,
    ):
        yield client


@pytest.fixture
def client(request: pytest.FixtureRequest, before_3_0: WireClient, kafka: WireClient) -> WireClient:
    """The broker whose topics can have the format that the test asks for."""
    return kafka if _stored_in(request) is None else before_3_0


def _stored_in(request: pytest.FixtureRequest) -> int | None:
    parameters = request.node.callspec.params
    case = parameters.get("case")
    stored: int | None = parameters["stored"] if case is None else case.stored
    return stored


@pytest.mark.parametrize("case", cases(0, 1, None), ids=str)
def test_every_format_in_every_format(client: WireClient, case: Case) -> None:
    seen = observe(client, case)
    assert (seen.pop("first produce"), seen.pop("second produce")) == ((0, 0), (0, len(RECORDS)))
    for version in FETCH_VERSIONS:
        for offset in (0, 2, 5):
            error, high_watermark, _, found = seen.pop(f"fetch v{version} from {offset}")
            assert (error, high_watermark) == (0, 2 * len(RECORDS))
            # What is larger after a conversion is cut off at the announced size.
            assert found == expected_rows(case, version, offset)[: len(found)]
            assert len(found) >= 3, (version, offset)
    assert not seen


@pytest.mark.parametrize("stored", [0, 1, 2, None])
def test_odd_sets(client: WireClient, stored: int | None) -> None:
    seen = observe_odd_sets(client, stored)
    for name, code in ODD_CODES.items():
        assert seen.pop(name) == (code, -1, []), name
    magic = 2 if stored is None else stored

    def rows(codec: str, *times: int, stamped: bool = True) -> list[tuple[Any, ...]]:
        return [(magic, codec, n, t if stamped and magic else -1) for n, t in enumerate(times)]

    found = {name: [row[:4] for row in rows] for name, (code, _, rows) in seen.items() if not code}
    created = [record.timestamp for record in RECORDS]
    assert found.pop("inner offsets with gaps") == rows("GZIP", 1000, 1004, 1009)
    assert found.pop("absolute inner offsets") == rows("GZIP", 1007, 1008, 1009)
    assert found.pop("a wrapper offset of zero") == rows("GZIP", 1000, 1001, 1002)
    assert found.pop("offsets of v0 inside") == rows("GZIP", 0, 0, 0, stamped=False)
    assert found.pop("a claimed append time") == rows("NONE", 5, 5, 5, 5)
    assert found.pop("a cut message") == rows("NONE", *created[:3])
    assert found.pop("a v2 batch") == rows("NONE", *created)
    assert found.pop("odd attributes") == rows("NONE", 1_700_000_000_000)
    assert found.pop("nothing") == []
    if magic == 1:
        assert found.pop("a time before 1970") == rows("NONE", -1)
    else:
        assert seen["a time before 1970"] == (UNKNOWN, -1, [])
    assert not found


@pytest.mark.parametrize("stored", [0, 1, 2, None])
def test_refusals(client: WireClient, stored: int | None) -> None:
    seen = observe_refusals(client, stored)
    magic = 2 if stored is None else stored
    for version in (3, 6, 7):
        headers, ids = (0, 0) if magic == 2 else (UNKNOWN, NO_FORMAT)
        assert seen[f"produce v{version} of headers"] == headers
        assert seen[f"produce v{version} of an idempotent producer"] == ids
    assert [seen[f"produce v{version} of zstd"] for version in (3, 6, 7)] == [
        NO_CODEC,
        NO_CODEC,
        0 if magic == 2 else UNKNOWN,
    ]
    for when, code in ((-1, 0), (-2, 0), (-3, NO_FORMAT), (-4, NO_FORMAT), (5, NO_FORMAT)):
        assert seen[f"offset at {when}"][0] == (0 if magic else code), when
    assert seen["produce to a zstd topic"] == (0 if magic == 2 else UNKNOWN)
    assert seen["produce to a compacted topic"] == INVALID
    assert seen["produce to a small limit"] == ErrorCode.MESSAGE_TOO_LARGE
    for version in range(11):
        zstd, high_watermark = seen[f"fetch v{version} from a zstd topic"]
        assert zstd == (0 if version >= 10 else NO_CODEC)
        assert high_watermark == (-1 if zstd else len(RECORDS) if magic == 2 else 0)
        refused = (version < 2 and magic >= 1) or (version < 4 and magic == 2)
        assert seen[f"fetch v{version} from without down-conversion"] == (
            (NO_VERSION, -1) if refused else (0, len(RECORDS))
        )


@pytest.mark.parametrize("version", range(4))
def test_old_consumers_see_all_data_and_no_markers(kafka: WireClient, version: int) -> None:
    """They have no isolation level: aborted records and open transactions are there to be read."""
    topic = kafka.create_topic()
    values: list[bytes] = []
    for number, committed in enumerate((True, False, None)):
        producer = start(kafka)
        assert set(add(kafka, producer, (topic.name, 0)).values()) == {0}
        data = batch(
            b"first %d" % number, b"second %d" % number, producer_id=producer.id,
            producer_epoch=producer.epoch, base_sequence=0, is_transactional=True,
            timestamp=int(time.time() * 1000),  # as that of markers, or they begin a new segment
        )  # fmt: skip
        answer = kafka.produce(topic.name, data, transactional_id=producer.name)
        assert answer.error_code == 0
        values += [b"first %d" % number, b"second %d" % number]
        if committed is not None:
            assert again(partial(end, kafka, producer, committed=committed), int) == 0
            wait_for_state(kafka, producer.name, "CompleteCommit", "CompleteAbort")
    found = kafka.fetch(topic, version=version)
    assert found.high_watermark == 8
    end_of_data = sum(h.size_in_bytes for _, h in iter_batch_headers(found.records))
    records = list(read_records(found.records[:end_of_data]))
    assert [record.value for record in records] == values[: len(records)]
    assert [record.offset for record in records] == [0, 1, 3, 4, 6, 7][: len(records)]
    assert len(records) >= 3
    # From a marker on, the records behind it.
    behind = read_records(kafka.fetch(topic, 2, version=version).records)
    assert next(behind).value == values[2]


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_many_partitions_at_once(kafka: WireClient, version: int) -> None:
    topics = [kafka.create_topic() for _ in range(5)]
    for number, topic in enumerate(topics[1:]):
        for codec in (Compression.NONE, Compression.GZIP):
            kafka.append(topic.name, b"value %d" % number * 20, compression=codec)
    answer = kafka.call(fetch_request(topics, 0, version=version), version)
    found = {topic.topic: topic.partitions[0] for topic in answer.responses}
    assert len(found[topics[0].name].records) == 0
    for number, topic in enumerate(topics[1:]):
        data = found[topic.name]
        assert (data.error_code, data.high_watermark) == (0, 2)
        assert next(read_records(data.records)).value == b"value %d" % number * 20


@pytest.mark.parametrize("stored", [0, 1])
def test_transactions_need_v2(before_3_0: WireClient, stored: int) -> None:
    topic = before_3_0.create_topic(message_format_version=FORMATS[stored])
    producer = start(before_3_0)
    assert set(add(before_3_0, producer, (topic.name, 0)).values()) == {0}
    data = batch(
        b"value", producer_id=producer.id, producer_epoch=producer.epoch, base_sequence=0,
        is_transactional=True,
    )  # fmt: skip
    answer = before_3_0.produce(topic.name, data, transactional_id=producer.name)
    assert answer.error_code == NO_FORMAT
    # Its marker cannot be written either; that must not keep the transaction from its end.
    assert again(lambda: end(before_3_0, producer, committed=False), int) == 0
    wait_for_state(before_3_0, producer.name, "CompleteAbort")
    assert before_3_0.fetch(topic, version=4).high_watermark == 0


@pytest.mark.parametrize("stored", [None, 1])
def test_the_format_is_shown_as_it_was_set(
    before_3_0: WireClient, kafka: WireClient, stored: int | None
) -> None:
    """Also where it does not count."""
    configs = {} if stored is None else {"message_format_version": FORMATS[stored]}
    for client in (before_3_0, kafka):
        topic = client.configured_topic(configs)
        resource = DescribeConfigsResource(
            resource_type=2,
            resource_name=topic.name,
            configuration_keys=["message.format.version"],
        )
        (result,) = client.call(DescribeConfigsRequest(resources=[resource])).results
        assert result.configs[0].value == ("3.0-IV1" if stored is None else FORMATS[stored])
