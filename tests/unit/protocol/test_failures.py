"""Every served API in every version can say that a request failed as a whole.

`golden/failures.json` has a digest of such answers of each API, which were once made by functions
written for each by hand: `python -m tests.unit.protocol.test_failures` writes it anew.
"""

from __future__ import annotations

import json
import random
from hashlib import sha256
from typing import Any

import pytest

from pybroker_kafka.protocol import failures
from pybroker_kafka.protocol.api import API_TABLE, ApiKey, request_class, response_class
from pybroker_kafka.protocol.apis.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from pybroker_kafka.protocol.codec import decode, encode
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.failures import error_response, error_response_slices
from pybroker_kafka.protocol.schema import Struct
from tests.support.message_factory import MessageFactory
from tests.support.processes import ROOT
from tests.support.steps import finished

CASES = [
    (key, version)
    for key, spec in API_TABLE.items()
    for version in range(spec.min_version, spec.max_version + 1)
]
REQUESTS_PER_CASE = 30
GOLDEN = ROOT / "tests" / "golden" / "failures.json"
# Kafka's response of these versions has no place for an error of the whole request.
WITHOUT_A_PLACE = {(ApiKey.DESCRIBE_LOG_DIRS, version) for version in (0, 1, 2)}


class AnyRequest:
    """What `error_response` reads of a request."""

    def __init__(self, key: ApiKey, version: int, body: Any) -> None:
        self.api_key = key
        self.api_version = version
        self.body = body


def codes_in(value: Any) -> list[int]:
    """All error codes anywhere in a response."""
    found: list[int] = []
    if isinstance(value, list):
        for item in value:
            found += codes_in(item)
    elif isinstance(value, Struct):
        for field in value._fields:
            if field.name in ("error_code", "partition_error_code"):
                found.append(getattr(value, field.name))
            else:
                found += codes_in(getattr(value, field.name))
    return found


@pytest.mark.parametrize(
    ("key", "version"), CASES, ids=[f"{key.name}-{version}" for key, version in CASES]
)
def test_error_responses(key: ApiKey, version: int) -> None:
    seed = f"{key}-{version}"
    rng = random.Random(seed)
    # The first one has one element in every list, so that there is something to blame.
    drawn = [bytes([4]) * 2000, *(rng.randbytes(400) for _ in range(REQUESTS_PER_CASE))]
    for number, entropy in enumerate(drawn):
        body = MessageFactory(entropy).make(request_class(key), version)
        if key is ApiKey.PRODUCE:
            body.acks = 1
        request = AnyRequest(key, version, body)
        response = error_response(request, ErrorCode.KAFKA_STORAGE_ERROR)
        read = decode(response_class(key), version, encode(response, version))
        said = {code for code in codes_in(read) if code != ErrorCode.NONE}
        assert said <= {ErrorCode.KAFKA_STORAGE_ERROR}, (seed, body)
        if (key, version) not in WITHOUT_A_PLACE:
            # One that its version has no place for would end a request that is handled in parts.
            assert getattr(response, "error_code", 0) == getattr(read, "error_code", 0)
        if number == 0 and (key, version) not in WITHOUT_A_PLACE:
            assert said == {ErrorCode.KAFKA_STORAGE_ERROR}, (seed, body, response)


@pytest.mark.parametrize(
    ("key", "version"), CASES, ids=[f"{key.name}-{version}" for key, version in CASES]
)
def test_in_slices_it_is_the_same(
    key: ApiKey, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failures, "SLICE_ELEMENTS", 2)
    rng = random.Random(f"{key}-{version}")
    for _ in range(REQUESTS_PER_CASE):
        body = MessageFactory(rng.randbytes(400)).make(request_class(key), version)
        for field in type(body)._fields:  # five elements, where there are any
            items = getattr(body, field.name)
            if field.kind == "array" and items:
                setattr(body, field.name, (items * 5)[:5])
        request = AnyRequest(key, version, body)
        whole = error_response(request, ErrorCode.KAFKA_STORAGE_ERROR, "why")
        steps = error_response_slices(request, ErrorCode.KAFKA_STORAGE_ERROR, "why")
        assert finished(steps) == whole


def test_slices_are_small() -> None:
    resources = [DescribeConfigsResource(resource_name=f"{n}") for n in range(1201)]
    request = AnyRequest(ApiKey.DESCRIBE_CONFIGS, 4, DescribeConfigsRequest(resources=resources))
    steps = error_response_slices(request, ErrorCode.INVALID_REQUEST)
    assert len(list(steps)) == 3


def test_a_produce_without_acks_has_no_error_response() -> None:
    body = request_class(ApiKey.PRODUCE)(acks=0)  # type: ignore[call-arg]
    request = AnyRequest(ApiKey.PRODUCE, 9, body)
    assert error_response(request, ErrorCode.UNKNOWN_SERVER_ERROR) is None


def digest_of(key: ApiKey) -> str:
    """Of answers to requests of all versions, whose elements are chosen by a seed."""
    digest = sha256()
    spec = API_TABLE[key]
    for version in range(spec.min_version, spec.max_version + 1):
        rng = random.Random(f"{int(key)}-{version}")
        for entropy in (bytes([4]) * 2000, *(rng.randbytes(400) for _ in range(5))):
            body = MessageFactory(entropy).make(request_class(key), version)
            response = error_response(AnyRequest(key, version, body), ErrorCode.NOT_CONTROLLER)
            digest.update(b"none" if response is None else encode(response, version))
    return digest.hexdigest()[:32]


@pytest.mark.parametrize("key", list(ApiKey), ids=lambda key: key.name)
def test_answers_are_those_of_before(key: ApiKey) -> None:
    assert digest_of(key) == json.loads(GOLDEN.read_text())[key.name]


if __name__ == "__main__":
    GOLDEN.write_text(json.dumps({key.name: digest_of(key) for key in ApiKey}, indent=1) + "\n")
