"""The mechanisms of a listener, made from its configuration.

Mirrors the part of `SaslChannelBuilder` that makes callback handlers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from ....protocol.sasl.oauthbearer import OAUTHBEARER
from ....protocol.sasl.plain import PLAIN
from ....protocol.sasl.scram import MECHANISMS, salt_text
from .gssapi import GSSAPI, GssapiServer, KerberosConfig, KerberosCredentials
from .login import LoginRules
from .mechanism import NewMechanism, ServerMechanism
from .oauthbearer import OAuthBearerServer, TokenCheck
from .plain import PlainPasswords, PlainServer
from .scram import ScramCredentials, ScramLogin
from .signed_tokens import TokenRules
from .unsecured_tokens import UnsecuredTokens

_NONCE_BITS = 130


class MechanismConfig(NamedTuple):
    """`options` are those of its login module, with passwords. `tokens`: the valid tokens of
    OAUTHBEARER; `kerberos`: the broker's identity for GSSAPI.
    """

    options: Mapping[str, str]
    max_session_ms: int = 0
    tokens: UnsecuredTokens | TokenRules | None = None
    kerberos: KerberosConfig | None = None

    def __repr__(self) -> str:
        return f"MechanismConfig(options=[hidden], max_session_ms={self.max_session_ms})"


def login_rules(
    configs: Mapping[str, MechanismConfig],
    scram: ScramCredentials,
    random_bits: Callable[[int], int],
    check_signed: Callable[[TokenRules], TokenCheck],
) -> LoginRules:
    """`random_bits` returns an unpredictable number of so many bits; `check_signed` returns a check
    for signed tokens that has their keys. ValueError if the broker has no ticket key.
    """
    mechanisms: dict[str, NewMechanism] = {}
    for name, config in configs.items():
        if name == PLAIN:
            mechanisms[name] = partial(PlainServer, PlainPasswords(config.options))
        elif name == OAUTHBEARER:
            tokens = config.tokens
            assert tokens is not None
            check = check_signed(tokens) if isinstance(tokens, TokenRules) else tokens.check
            mechanisms[name] = partial(OAuthBearerServer, check)
        elif name == GSSAPI:
            assert config.kerberos is not None
            mechanisms[name] = partial(GssapiServer, KerberosCredentials(config.kerberos))
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
