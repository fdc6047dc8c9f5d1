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
    """The security of one listener; a plain listener has none.

    `new_connection` is Connection, or a function with its arguments that makes a subclass of it.
    """

    new_connection: Callable[..., Connection] = Connection
    new_gatekeeper: Callable[[Connection], Gatekeeper] | None = None


OPEN = ListenerSecurity()
