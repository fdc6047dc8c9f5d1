"""Of `apis/describe_user_scram_credentials.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..apis.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
    UserName,
)
from ..packed import write_i16_be, write_i32_be
from ..reader import Reader
from ..schema import made_by_readers
from ..writer import Writer

_CredentialInfo: Final[Any] = made_by_readers(CredentialInfo)
_DescribeUserScramCredentialsRequest: Final[Any] = made_by_readers(
    DescribeUserScramCredentialsRequest
)
_DescribeUserScramCredentialsResponse: Final[Any] = made_by_readers(
    DescribeUserScramCredentialsResponse
)
_DescribeUserScramCredentialsResult: Final[Any] = made_by_readers(
    DescribeUserScramCredentialsResult
)
_UserName: Final[Any] = made_by_readers(UserName)


def read_UserName(r: Reader, version: i64) -> Any:
    m: Any = _UserName()
    m.name = r.string("name", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_UserName(w: Writer, m: Any, version: i64) -> None:
    w.string("name", m.name, False)
    w.unknown_tags("UserName", m.unknown_tagged_fields)


def read_DescribeUserScramCredentialsRequest(r: Reader, version: i64) -> Any:
    m: Any = _DescribeUserScramCredentialsRequest()
    count = r.count("users", True, 2)
    m.users = None if count < 0 else [read_UserName(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DescribeUserScramCredentialsRequest(w: Writer, m: Any, version: i64) -> None:
    users = m.users
    w.array("users", users, True)
    for item in users or ():
        write_UserName(w, item, version)
    w.unknown_tags("DescribeUserScramCredentialsRequest", m.unknown_tagged_fields)


def read_CredentialInfo(r: Reader, version: i64) -> Any:
    m: Any = _CredentialInfo()
    m.mechanism = r.int8()
    m.iterations = r.int32()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_CredentialInfo(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    w.int8(m.mechanism)
    write_i32_be(out, m.iterations)
    w.unknown_tags("CredentialInfo", m.unknown_tagged_fields)


def read_DescribeUserScramCredentialsResult(r: Reader, version: i64) -> Any:
    m: Any = _DescribeUserScramCredentialsResult()
    m.user = r.string("user", False)
    m.error_code = r.int16()
    m.error_message = r.string("error_message", True)
    count = r.count("credential_infos", False, 6)
    m.credential_infos = [read_CredentialInfo(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DescribeUserScramCredentialsResult(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    w.string("user", m.user, False)
    write_i16_be(out, m.error_code)
    w.string("error_message", m.error_message, True)
    credential_infos = m.credential_infos
    w.array("credential_infos", credential_infos, False)
    for item in credential_infos:
        write_CredentialInfo(w, item, version)
    w.unknown_tags("DescribeUserScramCredentialsResult", m.unknown_tagged_fields)


def read_DescribeUserScramCredentialsResponse(r: Reader, version: i64) -> Any:
    m: Any = _DescribeUserScramCredentialsResponse()
    m.throttle_time_ms = r.int32()
    m.error_code = r.int16()
    m.error_message = r.string("error_message", True)
    count = r.count("results", False, 6)
    m.results = [read_DescribeUserScramCredentialsResult(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DescribeUserScramCredentialsResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.throttle_time_ms)
    write_i16_be(out, m.error_code)
    w.string("error_message", m.error_message, True)
    results = m.results
    w.array("results", results, False)
    for item in results:
        write_DescribeUserScramCredentialsResult(w, item, version)
    w.unknown_tags("DescribeUserScramCredentialsResponse", m.unknown_tagged_fields)
