"""The name in a certificate as text, as Java writes it: RFC 2253, the most specific part first.

Job: `rfc2253` of a DER Name, and `subject_name` of a whole certificate. ACLs, super users and
mapping rules are written against this text, so it is Java's to the letter: only nine kinds of
attributes have a name, others are an OID with the value in hex; `,=+<>#;"\\` and spaces at the ends
are escaped.

Invariants: bad DER raises only MalformedName. Pure; each value is read once.

Mirrors `X500Principal.getName()`.
"""

from __future__ import annotations

from typing import Final

_KEYWORDS: Final = {
    "2.5.4.3": "CN", "2.5.4.6": "C", "2.5.4.7": "L", "2.5.4.8": "ST", "2.5.4.10": "O",
    "2.5.4.11": "OU", "2.5.4.9": "STREET", "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}  # fmt: skip
_SEQUENCE, _SET, _OID = 0x30, 0x31, 0x06
# String types. Java reads all of them as UTF-8, even BMPString, and so do we.
_STRINGS: Final = frozenset({0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E})
_ESCAPED: Final = frozenset(',=+<>#;"\\')
MAX_PARTS: Final = 200


class MalformedName(Exception):
    """The bytes are no Name in DER."""


def subject_name(certificate: bytes) -> str:
    """The name of the owner of a certificate in DER. Raises MalformedName."""
    from cryptography import x509

    try:
        subject = x509.load_der_x509_certificate(certificate).subject.public_bytes()
    except ValueError:
        raise MalformedName("no certificate") from None
    return rfc2253(subject)


def rfc2253(der: bytes) -> str:
    """The text of a Name. Raises MalformedName."""
    content, end = _element(der, 0, _SEQUENCE)
    if end != len(der):
        raise MalformedName("bytes behind the name")
    parts: list[str] = []
    at = 0
    while at < len(content):
        relative, at = _element(content, at, _SET)
        inner, values = 0, []
        while inner < len(relative):
            attribute, inner = _element(relative, inner, _SEQUENCE)
            values.append(_attribute(attribute))
        parts.append("+".join(values))
        if len(parts) > MAX_PARTS:
            raise MalformedName("too many parts")
    return ",".join(reversed(parts))


def _attribute(data: bytes) -> str:
    oid, end = _element(data, 0, _OID)
    dotted = _dotted(oid)
    raw = data[end:]
    tag = raw[0] if raw else 0
    value, value_end = _element(raw, 0, tag)
    if value_end != len(raw):
        raise MalformedName("bytes behind a value")
    keyword = _KEYWORDS.get(dotted)
    if keyword is None or tag not in _STRINGS:
        return f"{keyword or dotted}=#{raw.hex()}"
    return f"{keyword}={_escaped(value.decode('utf-8', 'replace'))}"


def _escaped(text: str) -> str:
    body = text.lstrip(" ")
    leading = len(text) - len(body)
    stripped = body.rstrip(" ")
    trailing = len(body) - len(stripped)
    inner = "".join(
        f"\\{char}" if char in _ESCAPED else "\\00" if char == "\0" else char for char in stripped
    )
    return "\\ " * leading + inner + "\\ " * trailing


def _element(data: bytes, at: int, tag: int) -> tuple[bytes, int]:
    """The content of the DER element at `at`, and where the next one is."""
    if at + 2 > len(data) or data[at] != tag:
        raise MalformedName("an element is missing")
    size, start = data[at + 1], at + 2
    if size >= 0x80:
        width = size & 0x7F
        if not 1 <= width <= 4 or start + width > len(data):
            raise MalformedName("a length is wrong")
        size = int.from_bytes(data[start : start + width], "big")
        start += width
    if start + size > len(data):
        raise MalformedName("an element is cut short")
    return data[start : start + size], start + size


def _dotted(oid: bytes) -> str:
    if not oid or oid[-1] & 0x80:
        raise MalformedName("an object identifier is cut short")
    numbers: list[int] = []
    value = 0
    for byte in oid:
        value = value << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(value)
            value = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))
