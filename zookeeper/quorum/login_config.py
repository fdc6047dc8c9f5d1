"""The logins in zoo.cfg and in its JAAS file: those of clients, and those between members.

Job: `client_access` and `member_login`. A JAAS file is named by `pybroker.jaas.file` in zoo.cfg, or
as for Apache ZooKeeper by the JVM's option -Djava.security.auth.login.config, in SERVER_JVMFLAGS,
JVMFLAGS or KAFKA_OPTS. Its section Server has the users of clients (`user_NAME="password"`),
QuorumServer those of members, and QuorumLearner the name and password of this one.

Invariant: no error and no repr has a password.

Mirrors `ServerCnxnFactory.configureSaslLogin`, `AuthenticationHelper` and the keys `quorum.auth.*`
of `QuorumPeerConfig`. Leaves out Kerberos, which is refused, and super users.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

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
_CLIENT_KEYS = frozenset(
    {
        "sasl.serverconfig",
        "sessionRequireClientSASLAuth",
        "enforce.auth.enabled",
        "enforce.auth.schemes",
        "allowSaslFailedClients",
        "pybroker.jaas.file",
    }
)
_MEMBER_KEYS = frozenset(
    {
        "quorum.auth.enableSasl",
        "quorum.auth.learnerRequireSasl",
        "quorum.auth.serverRequireSasl",
        "quorum.auth.learner.saslLoginContext",
        "quorum.auth.server.saslLoginContext",
        "quorum.auth.kerberos.servicePrincipal",
        "quorum.cnxn.threads.size",
    }
)
LOGIN_KEYS = _CLIENT_KEYS | _MEMBER_KEYS


class LoginConfigError(ValueError):
    """The keys and the JAAS file do not go together; the text names the key, and no secret."""


class MemberLogin(NamedTuple):
    """How members log in at each other."""

    users: Mapping[str, str]
    """Names and passwords of the members that connect to this one."""
    own: tuple[str, str] | None
    """The name and the password with which this one connects; None: it does not log in."""
    is_required: bool
    """Whether a member that does not log in is refused."""

    def __repr__(self) -> str:
        return f"MemberLogin({sorted(self.users)}, is_required={self.is_required})"


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


def member_login(properties: Mapping[str, str], sections: Sections) -> MemberLogin | None:
    """None without quorum.auth.enableSasl. Raises LoginConfigError."""
    is_enabled = is_true(properties, "quorum.auth.enableSasl")
    learner_logs_in = is_true(properties, "quorum.auth.learnerRequireSasl")
    server_requires = is_true(properties, "quorum.auth.serverRequireSasl")
    for key, is_on in (("learner", learner_logs_in), ("server", server_requires)):
        if is_on and not is_enabled:
            raise LoginConfigError(
                f"quorum.auth.{key}RequireSasl=true needs quorum.auth.enableSasl=true"
            )
    if server_requires and not learner_logs_in:
        raise LoginConfigError(
            "quorum.auth.serverRequireSasl=true needs quorum.auth.learnerRequireSasl=true"
        )
    if not is_enabled:
        return None
    server = properties.get("quorum.auth.server.saslLoginContext", "QuorumServer")
    learner = properties.get("quorum.auth.learner.saslLoginContext", "QuorumLearner")
    for name in (server, learner):
        if name not in sections:
            raise LoginConfigError(
                f"quorum.auth.enableSasl=true needs a JAAS file with a section {name}"
            )
    options = _digest_module(learner, sections[learner]).options
    user, password = options.get("username"), options.get("password")
    if not user or not password:
        raise LoginConfigError(
            f"the section {learner} of the JAAS file needs username and password"
        )
    return MemberLogin(
        _users(server, sections[server]),
        (user, password) if learner_logs_in else None,
        server_requires,
    )


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
