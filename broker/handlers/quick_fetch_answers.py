"""Fetch responses of the commonest small kind, without building and encoding a message each time.

One partition without an error, with few records that have already been read, or none: such
responses differ in the session, three offsets and the records. The codec encodes one per partition
and version; later responses replace the numbers and the records.

Invariant: the bytes are those of the codec; a test compares them in all versions. For any other
response the result is None, and the codec encodes it.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any, Final

from ...protocol.api import API_TABLE, ApiKey
from ...protocol.apis.fetch import FetchableTopicResponse, FetchResponse, FetchResponsePartitionData
from ...protocol.framing import encode_response
from ...protocol.primitives import encode_uvarint
from ...replication.reader import is_plain
from ...replication.types import FetchEntry
from ...storage.files import FileSlice

MAX_TEMPLATES: Final = 10_000
MAX_RECORDS_BYTES: Final = 64 * 1024  # more are not worth a copy
FIRST_VERSION: Final = 4  # of records that are sent as they are stored
_FIRST_VERSION_WITH_START: Final = 5
_FIRST_VERSION_WITH_SESSION: Final = 7
_FIRST_VERSION_WITH_TOPIC_IDS: Final = 13

# Numbers that occur nowhere else in a response.
_HIGH: Final = 0x5A11C0DE5A11C0DE
_STABLE: Final = 0x5A22C0DE5A22C0DE
_START: Final = 0x5A33C0DE5A33C0DE
_SESSION: Final = 0x5A44C0DE
_RECORDS: Final = b"\x5a\x55\xc0\xde\x5a\x55\xc0\xde"
_CORRELATION_ID_END: Final = 8
_SIZE_BYTES: Final = 4
_INT32: Final = Struct(">i").pack

Pack = Callable[..., bytes]


class _Template:
    __slots__ = ("between", "flexible", "head", "middle", "numbers", "pack", "size", "tail")

    def __init__(self, version: int, topic: str, topic_id: bytes, index: int) -> None:
        partition = FetchResponsePartitionData(
            partition_index=index,
            high_watermark=_HIGH,
            last_stable_offset=_STABLE,
            log_start_offset=_START,
            aborted_transactions=None,
            records=_RECORDS,
        )
        if version >= _FIRST_VERSION_WITH_TOPIC_IDS:
            answer = FetchableTopicResponse(topic_id=topic_id, partitions=[partition])
        else:
            answer = FetchableTopicResponse(topic=topic, partitions=[partition])
        response = FetchResponse(responses=[answer])
        if version >= _FIRST_VERSION_WITH_SESSION:
            response.session_id = _SESSION
        parts: Any = encode_response(ApiKey.FETCH, version, 0, response)
        frame = b"".join([bytes(part) for part in parts])
        numbers = frame.index(_HIGH.to_bytes(8, "big"), _CORRELATION_ID_END)
        records = frame.index(_RECORDS, numbers)
        self.flexible = API_TABLE[ApiKey.FETCH].is_flexible(version)
        length_bytes = 1 if self.flexible else _SIZE_BYTES
        self.numbers = 3 if version >= _FIRST_VERSION_WITH_START else 2
        if version >= _FIRST_VERSION_WITH_SESSION:
            session = frame.index(_INT32(_SESSION), _CORRELATION_ID_END)
            self.head = frame[_CORRELATION_ID_END:session]
            self.between = frame[session + 4 : numbers]
            form = f">ii{len(self.head)}si{len(self.between)}sqqq"
        else:
            self.head = frame[_CORRELATION_ID_END:numbers]
            form = f">ii{len(self.head)}s{self.numbers}q"
        self.middle = frame[numbers + 8 * self.numbers : records - length_bytes]
        self.tail = frame[records + len(_RECORDS) :]
        # Without the size itself, the records and their length.
        self.size = len(frame) - _SIZE_BYTES - length_bytes - len(_RECORDS)
        self.pack: Pack = Struct(f"{form}{len(self.middle)}s").pack


class QuickFetchAnswers:
    __slots__ = ("_templates",)

    def __init__(self) -> None:
        self._templates: dict[tuple[int, str | bytes | None, int], _Template] = {}

    def frame(
        self,
        version: int,
        correlation_id: int,
        session_id: int,
        entry: FetchEntry,
        data: FetchResponsePartitionData,
    ) -> bytes | None:
        """The whole frame of a response without an error that has this partition only."""
        records: Any = data.records
        if type(records) is FileSlice:
            records = records.held
            if not records and len(data.records or b""):
                return None
            if len(records) > MAX_RECORDS_BYTES:
                return None
        elif records is None or len(records):
            return None
        if version < FIRST_VERSION or not is_plain(data):
            return None
        topic = entry.topic_id if version >= _FIRST_VERSION_WITH_TOPIC_IDS else entry.topic
        place = (version, topic, entry.partition)
        template = self._templates.get(place)
        if template is None:
            if len(self._templates) >= MAX_TEMPLATES:
                self._templates.clear()
            template = _Template(version, entry.topic or "", entry.topic_id, entry.partition)
            self._templates[place] = template
        count = len(records)
        length = encode_uvarint(count + 1) if template.flexible else _INT32(count)
        size = template.size + len(length) + count
        numbers = (data.high_watermark, data.last_stable_offset, data.log_start_offset)
        if version < _FIRST_VERSION_WITH_SESSION:
            head = template.pack(
                size, correlation_id, template.head, *numbers[: template.numbers], template.middle
            )
        else:
            head = template.pack(
                size, correlation_id, template.head, session_id, template.between, *numbers,
                template.middle,
            )  # fmt: skip
        return b"".join((head, length, records, template.tail))
