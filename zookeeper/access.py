"""How clients of a server may prove who they are, and whether they have to.

Mirrors `ProviderRegistry` and `AuthenticationHelper`: the schemes that a server knows beside world
and auth. An ACL may name the ids of these schemes only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

IP, DIGEST, SASL, X509 = "ip", "digest", "sasl", "x509"


class Access(NamedTuple):
    schemes: frozenset[str] = frozenset({DIGEST})
    """Those by which a client proves an identity; ip is there without proof."""
    users: Mapping[str, str] | None = None
    """Names and passwords for SASL's DIGEST-MD5; None: there is no SASL."""
    required: frozenset[str] = frozenset()
    """A client needs an identity of one of these, if there are any, for each request."""
    keeps_failed: bool = False
    """Whether a client whose SASL login failed stays connected, as nobody."""

    def __repr__(self) -> str:
        return f"Access({sorted(self.schemes)}, required={sorted(self.required)})"


OPEN_ACCESS = Access()
