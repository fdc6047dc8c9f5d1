"""Names of users, clients and principals in znodes: without characters that are special in
ZooKeeper or in a metric's name.

Mirrors org.apache.kafka.common.utils.Sanitizer: URL-encoded, with %20 for a blank and %2A for `*`.
"""

from __future__ import annotations

from urllib.parse import quote, unquote_to_bytes


def sanitize(name: str) -> str:
    """Only letters, digits, `-`, `_`, `.` and `%` are left."""
    return quote(name, safe="", errors="replace").replace("~", "%7E")


def desanitize(text: str) -> str:
    """The name before `sanitize`; invalid UTF-8 becomes replacement characters."""
    return unquote_to_bytes(text.replace("+", " ")).decode("utf-8", "replace")
