"""The logins of clients in zoo.cfg and in its JAAS file.

Job: `client_access`. A JAAS file is named by `pybroker.jaas.file` in zoo.cfg, or as for Apache
ZooKeeper by the JVM's option -Djava.security.auth.login.config, in SERVER_JVMFLAGS, JVMFLAGS or
KAFKA_OPTS. Its section Server has the users (`user_NAME="password"`).

Invariant: no error and no repr has a password.

Mirrors `ServerCnxnFactory.configureSaslLogin` and `AuthenticationHelper`. Leaves out Kerberos,
which is refused, and super users.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ..access import IP, OPEN_ACCESS, SASL, X509, Access

if TYPE_CHECKING:
    from ...protocol.sasl.jaas import LoginModule

Sections = Mapping[str, "Sequence[LoginModule]"]

_USER_PREFIX = "user_"
_PROVIDERS = {
    "X509AuthenticationProvider": X509,
    "SASLAuthenticationProvider": SASL,
}
_PROVIDER_KEY = "authProvider."
LOGIN_KEYS = frozenset(
    {
        "sasl.serverconfig",
        "sessionRequireClientSASLAuth",
        "enforce.auth.enabled",
        "enforce.auth.schemes",
        "allowSaslFailedClients",
        "pybroker.jaas.file",
    }
)


class LoginConfigError(ValueError):
    """The keys and the JAAS file do not go together; the text names the key, and no secret."""


def is_provider(key: str, value: str) -> bool:
    """Whether this names one of ZooKeeper's own schemes, which are there without it."""
    return key.startswith(_PROVIDER_KEY) and value.rpartition(".")[2] in _PROVIDERS


def client_access(properties: Mapping[str, str], sections: Sections) -> Access:
    """Raises LoginConfigError."""
    schemes = set(OPEN_ACCESS.schemes)
    schemes |= {
        _PROVIDERS[value.rpartition(".")[2]]
        for key, value in properties.items()
        if is_provider(key, value)
    }
    if "secureClientPort" in properties:
        schemes.add(X509)
    users = None
    name = properties.get("sasl.serverconfig", "Server")
    if name in sections:
        users = _users(name, sections[name])
        schemes.add(SASL)
    elif "sasl.serverconfig" in properties:
        raise LoginConfigError(f"sasl.serverconfig={name}: the JAAS file has no such section")
    required = _required(properties)
    if not required <= schemes | {IP} or (SASL in required and users is None):
        lacking = ", ".join(sorted(required - schemes - {IP})) or SASL
        raise LoginConfigError(
            f"enforce.auth.schemes: clients cannot log in by {lacking} here; sasl needs a JAAS "
            "file with a section Server"
        )
    keeps_failed = is_true(properties, "allowSaslFailedClients")
    if users is None and not required and schemes == OPEN_ACCESS.schemes:
        return OPEN_ACCESS
    return Access(frozenset(schemes), users, required, keeps_failed)


def is_true(properties: Mapping[str, str], key: str) -> bool:
    return properties.get(key, "false").lower() == "true"


def _required(properties: Mapping[str, str]) -> frozenset[str]:
    if is_true(properties, "sessionRequireClientSASLAuth"):
        return frozenset({SASL})
    if not is_true(properties, "enforce.auth.enabled"):
        return frozenset()
    text = properties.get("enforce.auth.schemes", "")
    schemes = frozenset(part.strip() for part in text.split(",") if part.strip())
    if not schemes:
        raise LoginConfigError("enforce.auth.enabled=true needs enforce.auth.schemes")
    return schemes


def _users(name: str, modules: Sequence[LoginModule]) -> dict[str, str]:
    options = _digest_module(name, modules).options
    users = {
        key.removeprefix(_USER_PREFIX): password
        for key, password in options.items()
        if key.startswith(_USER_PREFIX)
    }
    if not users:
        raise LoginConfigError(f'the section {name} of the JAAS file has no user_NAME="password"')
    return users


def _digest_module(name: str, modules: Sequence[LoginModule]) -> LoginModule:
    # Servers without a JAAS file do not load it.
    from ...protocol.sasl.jaas import DIGEST_MODULE, KERBEROS_MODULE

    for module in modules:
        if module.name == KERBEROS_MODULE:
            raise LoginConfigError(
                f"the section {name} of the JAAS file is for Kerberos, which ZooKeeper does not "
                f"log in with here; use {DIGEST_MODULE}"
            )
    for module in modules:
        if module.name == DIGEST_MODULE:
            return module
    raise LoginConfigError(f"the section {name} of the JAAS file has no {DIGEST_MODULE}")
