"""Of `apis/alter_user_scram_credentials.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..apis.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ..packed import write_i16_be, write_i32_be
from ..reader import Reader
from ..schema import made_by_readers
from ..writer import Writer

_AlterUserScramCredentialsRequest: Final[Any] = made_by_readers(AlterUserScramCredentialsRequest)
_AlterUserScramCredentialsResponse: Final[Any] = made_by_readers(AlterUserScramCredentialsResponse)
_AlterUserScramCredentialsResult: Final[Any] = made_by_readers(AlterUserScramCredentialsResult)
_ScramCredentialDeletion: Final[Any] = made_by_readers(ScramCredentialDeletion)
_ScramCredentialUpsertion: Final[Any] = made_by_readers(ScramCredentialUpsertion)


def read_ScramCredentialDeletion(r: Reader, version: i64) -> Any:
    m: Any = _ScramCredentialDeletion()
    m.name = r.string("name", False)
    m.mechanism = r.int8()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ScramCredentialDeletion(w: Writer, m: Any, version: i64) -> None:
    w.string("name", m.name, False)
    w.int8(m.mechanism)
    w.unknown_tags("ScramCredentialDeletion", m.unknown_tagged_fields)


def read_ScramCredentialUpsertion(r: Reader, version: i64) -> Any:
    m: Any = _ScramCredentialUpsertion()
    m.name = r.string("name", False)
    m.mechanism = r.int8()
    m.iterations = r.int32()
    m.salt = r.binary("salt", False)
    m.salted_password = r.binary("salted_password", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ScramCredentialUpsertion(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    w.string("name", m.name, False)
    w.int8(m.mechanism)
    write_i32_be(out, m.iterations)
    w.binary("salt", m.salt, False)
    w.binary("salted_password", m.salted_password, False)
    w.unknown_tags("ScramCredentialUpsertion", m.unknown_tagged_fields)


def read_AlterUserScramCredentialsRequest(r: Reader, version: i64) -> Any:
    m: Any = _AlterUserScramCredentialsRequest()
    count = r.count("deletions", False, 3)
    m.deletions = [read_ScramCredentialDeletion(r, version) for _ in range(count)]
    count = r.count("upsertions", False, 9)
    m.upsertions = [read_ScramCredentialUpsertion(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_AlterUserScramCredentialsRequest(w: Writer, m: Any, version: i64) -> None:
    deletions = m.deletions
    w.array("deletions", deletions, False)
    for item in deletions:
        write_ScramCredentialDeletion(w, item, version)
    upsertions = m.upsertions
    w.array("upsertions", upsertions, False)
    for item in upsertions:
        write_ScramCredentialUpsertion(w, item, version)
    w.unknown_tags("AlterUserScramCredentialsRequest", m.unknown_tagged_fields)


def read_AlterUserScramCredentialsResult(r: Reader, version: i64) -> Any:
    m: Any = _AlterUserScramCredentialsResult()
    m.user = r.string("user", False)
    m.error_code = r.int16()
    m.error_message = r.string("error_message", True)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_AlterUserScramCredentialsResult(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    w.string("user", m.user, False)
    write_i16_be(out, m.error_code)
    w.string("error_message", m.error_message, True)
    w.unknown_tags("AlterUserScramCredentialsResult", m.unknown_tagged_fields)


def read_AlterUserScramCredentialsResponse(r: Reader, version: i64) -> Any:
    m: Any = _AlterUserScramCredentialsResponse()
    m.throttle_time_ms = r.int32()
    count = r.count("results", False, 5)
    m.results = [read_AlterUserScramCredentialsResult(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_AlterUserScramCredentialsResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.throttle_time_ms)
    results = m.results
    w.array("results", results, False)
    for item in results:
        write_AlterUserScramCredentialsResult(w, item, version)
    w.unknown_tags("AlterUserScramCredentialsResponse", m.unknown_tagged_fields)
