"""Java's names of cipher suites, as Kafka's ssl.cipher.suites has them, and OpenSSL's names.

Job: `openssl_name` of one suite; pure. The names of Java are those of IANA: TLS_ECDHE_RSA_WITH_
AES_256_GCM_SHA384 is ECDHE-RSA-AES256-GCM-SHA384. Names of OpenSSL are taken as they are. Leaves
out suites without encryption or without authentication, and those of RC4, DES and MD5: OpenSSL no
longer has most of them.
"""

from __future__ import annotations

import re
from typing import Final

TLS_1_3: Final = frozenset(
    {
        "TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256",
        "TLS_AES_128_CCM_SHA256", "TLS_AES_128_CCM_8_SHA256",
    }
)  # fmt: skip
# The suites of TLS 1.3 that OpenSSL offers by default.
OFFERED_TLS_1_3: Final = frozenset(
    {"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"}
)

_JAVA_NAME: Final = re.compile(
    r"(?:TLS|SSL)_(?P<exchange>RSA|DHE_RSA|DHE_DSS|ECDHE_RSA|ECDHE_ECDSA)_WITH_"
    r"(?P<cipher>AES_(?:128|256)_(?:CBC|GCM|CCM(?:_8)?)|CHACHA20_POLY1305"
    r"|CAMELLIA_(?:128|256)_CBC|ARIA_(?:128|256)_GCM)(?:_(?P<mac>SHA|SHA256|SHA384))?"
)
_OPENSSL_NAME: Final = re.compile(r"[A-Z0-9]+(?:-[A-Z0-9]+)+")


def openssl_name(suite: str) -> str | None:
    """The OpenSSL name of a suite; None if there is no such suite here. Not for suites of TLS 1.3,
    which keep their name."""
    if _OPENSSL_NAME.fullmatch(suite):
        return suite
    match = _JAVA_NAME.fullmatch(suite)
    if match is None:
        return None
    exchange, cipher, mac = match["exchange"], match["cipher"], match["mac"]
    parts = [] if exchange == "RSA" else [exchange.replace("_", "-")]
    if cipher == "CHACHA20_POLY1305":
        parts.append("CHACHA20-POLY1305")
    else:
        name, bits, mode = cipher.split("_", 2)
        parts.append(f"{name}{bits}" if name != "ARIA" else f"ARIA{bits}")
        if mode != "CBC":
            parts.append(mode.replace("CCM_8", "CCM8"))
        if mac is not None:
            parts.append(mac)
    return "-".join(parts)
