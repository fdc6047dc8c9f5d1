"""How clients of a server may prove who they are, and whether they have to.

Mirrors `ProviderRegistry` and `AuthenticationHelper`: the schemes that a server knows beside world,
auth and ip. An ACL may name the ids of these schemes only.
"""

from __future__ import annotations

from typing import NamedTuple

DIGEST, X509 = "digest", "x509"


class Access(NamedTuple):
    schemes: frozenset[str] = frozenset({DIGEST})
    """Those by which a client proves an identity."""


OPEN_ACCESS = Access()
