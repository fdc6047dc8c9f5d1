"""Of `apis/controlled_shutdown.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..apis.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)
from ..packed import write_i16_be, write_i32_be, write_i64_be
from ..reader import Reader
from ..schema import made_by_readers
from ..writer import Writer

_ControlledShutdownRequest: Final[Any] = made_by_readers(ControlledShutdownRequest)
_ControlledShutdownResponse: Final[Any] = made_by_readers(ControlledShutdownResponse)
_RemainingPartition: Final[Any] = made_by_readers(RemainingPartition)


def read_ControlledShutdownRequest(r: Reader, version: i64) -> Any:
    m: Any = _ControlledShutdownRequest()
    m.broker_id = r.int32()
    if version >= 2:
        m.broker_epoch = r.int64()
    else:
        m.broker_epoch = -1
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ControlledShutdownRequest(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.broker_id)
    if version >= 2:
        write_i64_be(out, m.broker_epoch)
    w.unknown_tags("ControlledShutdownRequest", m.unknown_tagged_fields)


def read_RemainingPartition(r: Reader, version: i64) -> Any:
    m: Any = _RemainingPartition()
    m.topic_name = r.string("topic_name", False)
    m.partition_index = r.int32()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_RemainingPartition(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    w.string("topic_name", m.topic_name, False)
    write_i32_be(out, m.partition_index)
    w.unknown_tags("RemainingPartition", m.unknown_tagged_fields)


def read_ControlledShutdownResponse(r: Reader, version: i64) -> Any:
    m: Any = _ControlledShutdownResponse()
    m.error_code = r.int16()
    count = r.count("remaining_partitions", False, 6)
    m.remaining_partitions = [read_RemainingPartition(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ControlledShutdownResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i16_be(out, m.error_code)
    remaining_partitions = m.remaining_partitions
    w.array("remaining_partitions", remaining_partitions, False)
    for item in remaining_partitions:
        write_RemainingPartition(w, item, version)
    w.unknown_tags("ControlledShutdownResponse", m.unknown_tagged_fields)
