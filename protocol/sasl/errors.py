"""The errors of a failed login.

Mirrors `SaslException` and `SaslAuthenticationException`. The messages never contain a password, a
proof or a token.
"""

from __future__ import annotations

from ..errors import ProtocolError


class SaslError(ProtocolError):
    """A login failed; the reason is for the log, since it may tell a stranger who exists."""


class SaslAuthenticationError(SaslError):
    """A login failed, and the other side may know why."""
