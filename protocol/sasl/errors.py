"""The errors of a failed login.

Mirrors `SaslException` and `SaslAuthenticationException`. The messages never contain a password, a
proof or a token.
"""

from __future__ import annotations

from ..errors import ProtocolError


class SaslError(ProtocolError):
    """A login failed; the reason is for the log only, since it may reveal which users exist."""


class SaslAuthenticationError(SaslError):
    """A login failed, and the other side may know why."""
