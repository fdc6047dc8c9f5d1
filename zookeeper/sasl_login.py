"""One step of a client's login by SASL. Servers without SASL do not load it.

Mirrors `ZooKeeperServer.processSasl` and `ZooKeeperSaslServer`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from ..protocol.errors import ProtocolError
from ..protocol.sasl.digest_md5 import NONCE_BYTES, DigestServer
from ..protocol.sasl.errors import SaslError

# Names of every ZooKeeper, in DIGEST-MD5.
SASL_SERVICE, SASL_NAME = "zookeeper", "zk-sasl-md5"


class SaslStep(NamedTuple):
    answer: bytes | None
    """None: the login has failed."""
    user: str | None
    """Who the client has just proved to be."""


def new_login(users: Mapping[str, str], entropy: Callable[[int], bytes]) -> DigestServer:
    return DigestServer(SASL_SERVICE, SASL_NAME, users, entropy(NONCE_BYTES))


def next_step(login: DigestServer, token: bytes) -> SaslStep:
    """Raises ProtocolError if the login is over."""
    if login.is_complete:
        raise ProtocolError("a SASL token after the login")
    try:
        return SaslStep(login.respond(token), login.user)
    except SaslError:
        return SaslStep(None, None)
