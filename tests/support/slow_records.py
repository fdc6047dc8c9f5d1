"""One record encoded by itself, field by field: the dumb twin of `loops/encode`."""

from __future__ import annotations

from pybroker_kafka.protocol.records.loops.varint import encode_varlong
from pybroker_kafka.protocol.records.record import Headers


def encode_record(
    offset_delta: int,
    timestamp_delta: int,
    key: bytes | None,
    value: bytes | None,
    headers: Headers,
) -> bytes:
    """One record with its length in front."""
    parts = [
        b"\0",
        encode_varlong(timestamp_delta),
        encode_varlong(offset_delta),
        b"\x01" if key is None else encode_varlong(len(key)),
        key or b"",
        b"\x01" if value is None else encode_varlong(len(value)),
        value or b"",
        encode_varlong(len(headers)),
    ]
    for name, content in headers:
        name_bytes = name.encode()
        parts.append(encode_varlong(len(name_bytes)))
        parts.append(name_bytes)
        if content is None:
            parts.append(b"\x01")
        else:
            parts.append(encode_varlong(len(content)))
            parts.append(content)
    body = b"".join(parts)
    return encode_varlong(len(body)) + body
