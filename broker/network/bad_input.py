"""Describe in one line input that is not a Kafka request.

People point browsers, health checks and TLS clients at a Kafka port; the log line should say so
instead of "invalid receive size 1195725856".
"""

from __future__ import annotations

_HTTP_METHODS = (
    b"GET ", b"POST", b"PUT ", b"HEAD", b"DELE", b"OPTI", b"PATC", b"CONN", b"TRAC", b"PRI ",
)  # fmt: skip
_TLS_HANDSHAKE = 0x16
_TLS_MAJOR_VERSION = 0x03
_SHOWN_BYTES = 32


class BadInput(Exception):
    """The peer broke the wire protocol: its connection is closed, with this text in the log."""


def describe_frame_start(data: bytes, size: int, max_size: int, protocol: str) -> str:
    """Why the four bytes at the start of `data` cannot be the size of a request frame.

    `protocol` is the security protocol of the listener.
    """
    if data[:4] in _HTTP_METHODS:
        line = data.split(b"\r\n", 1)[0][:_SHOWN_BYTES]
        return f"an HTTP request ({line.decode('latin-1')!r}); this is a Kafka port"
    if len(data) >= 2 and data[0] == _TLS_HANDSHAKE and data[1] == _TLS_MAJOR_VERSION:
        return (
            f"a TLS handshake, but this listener speaks {protocol} "
            f"(set security.protocol={protocol} in the client)"
        )
    if data[:4] == b"SSH-":
        return "an SSH greeting; this is a Kafka port"
    if size < 0:
        return f"a frame of negative size {size} (first bytes {_shown(data)})"
    return (
        f"a frame of {size} bytes, more than socket.request.max.bytes={max_size} "
        f"(first bytes {_shown(data)})"
    )


def describe_no_handshake(reason: str) -> str | None:
    """The input in place of a TLS handshake, if OpenSSL's `reason` means that there was none."""
    if reason == "HTTP_REQUEST":
        return "an HTTP request; this is a Kafka port that speaks TLS"
    if reason in ("WRONG_VERSION_NUMBER", "UNKNOWN_PROTOCOL", "RECORD_LAYER_FAILURE",
                  "RECORD_TOO_SMALL", "PACKET_LENGTH_TOO_LONG"):  # fmt: skip
        return (
            "no TLS handshake, but this listener speaks SSL "
            "(set security.protocol=SSL in the client, or SASL_SSL where the listener says so)"
        )
    return None


def _shown(data: bytes) -> str:
    return data[:_SHOWN_BYTES].hex(" ", 4)
