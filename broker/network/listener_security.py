"""The security steps of a listener before the first request of a new connection is handled.

Job: the seam between a connection and its TLS and SASL: `ListenerSecurity` defines for one listener
the steps before its requests.

Mirrors `ChannelBuilder`, with its `TransportLayer` and `Authenticator`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from .connection import Connection, Gatekeeper


class ListenerSecurity(NamedTuple):
    """Of one listener; a plain one has nothing of it.

    `new_connection` makes a Connection, or what takes its arguments and makes another kind of it.
    """

    new_connection: Callable[..., Connection] = Connection
    new_gatekeeper: Callable[[Connection], Gatekeeper] | None = None


OPEN = ListenerSecurity()
