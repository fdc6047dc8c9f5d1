"""The mechanisms of a listener, from what its configuration says of them.

Mirrors the part of `SaslChannelBuilder` that makes callback handlers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from ....protocol.sasl.plain import PLAIN
from ....protocol.sasl.scram import MECHANISMS
from .login import LoginRules
from .mechanism import NewMechanism, ServerMechanism
from .plain import PlainPasswords, PlainServer
from .scram import ScramCredentials, ScramLogin, salt_text

_NONCE_BITS = 130


class MechanismConfig(NamedTuple):
    """`options` are those of its login module: passwords are among them."""

    options: Mapping[str, str]
    max_session_ms: int = 0

    def __repr__(self) -> str:
        return f"MechanismConfig(options=[hidden], max_session_ms={self.max_session_ms})"


def login_rules(
    configs: Mapping[str, MechanismConfig],
    scram: ScramCredentials,
    random_bits: Callable[[int], int],
) -> LoginRules:
    """`random_bits` gives a number of so many bits that nobody can foresee."""
    mechanisms: dict[str, NewMechanism] = {}
    for name, config in configs.items():
        if name == PLAIN:
            mechanisms[name] = partial(PlainServer, PlainPasswords(config.options))
        else:
            mechanisms[name] = _new_scram(name, scram, random_bits)
    return LoginRules(mechanisms, {name: config.max_session_ms for name, config in configs.items()})


def _new_scram(
    name: str, credentials: ScramCredentials, random_bits: Callable[[int], int]
) -> NewMechanism:
    kind = MECHANISMS[name]

    def new() -> ServerMechanism:
        return ScramLogin(kind, credentials, salt_text(random_bits(_NONCE_BITS)))

    return new
