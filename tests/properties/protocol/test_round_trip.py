"""Every message in every version: written, read back, and compared with the dumb twin."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pybroker_kafka.protocol.codec import decode, decode_from, encode, encode_parts
from pybroker_kafka.protocol.schema import Message
from tests.support.counts import report
from tests.support.frames import joined
from tests.support.message_factory import MessageFactory, all_messages, all_versions
from tests.support.reference_codec import reference_decode, reference_encode

EXAMPLES = 12  # for each message and version
counts = {"messages": 0, "examples": 0}


@pytest.fixture(scope="module", autouse=True)
def _print_counts(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    line = f"{counts['examples']} round trips of {counts['messages']} messages and versions"
    report(request.config, f"protocol: {line}, byte-equal to the reference codec")


@pytest.mark.parametrize("cls", all_messages(), ids=lambda cls: cls.__name__)
def test_every_version_reads_back_what_it_wrote(cls: type[Message]) -> None:
    for version in all_versions(cls):
        counts["messages"] += 1
        _round_trips(cls, version)


def _round_trips(cls: type[Message], version: int) -> None:
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.binary(max_size=600), st.integers(0, 3))
    def check(entropy: bytes, padding: int) -> None:
        counts["examples"] += 1
        message = MessageFactory(entropy).make(cls, version)
        data = encode(message, version)
        assert data == reference_encode(message, version)
        assert data == joined(encode_parts(message, version))

        padded = bytes(padding) + data + bytes(padding)
        read, end = decode_from(cls, version, padded, padding)
        assert end == padding + len(data)
        assert read == message
        assert encode(read, version) == data
        assert decode(cls, version, bytearray(data)) == message

        twin, size = reference_decode(cls, version, data)
        assert size == len(data)
        assert twin == read

    check()
