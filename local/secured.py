"""The security files of a local cluster: `DATA/security`, and the broker's keys that use them.

- `ca.pem`, `ca-key.pem`, `broker-N.pem`, `supervisor.pem`, of an ensemble `zookeeper-N.pem`: see
  `certificates`.
- `admin.password`, `user.password`, `zookeeper`, `token-secret`: made once, 32 random characters; a
  user whose file was removed gets another password at the next start.
- `admin/`, `user/`: settings of clients, ready to paste, written at each start: see `client_files`.

Clients connect over SASL_SSL with a SCRAM password. The brokers, and the supervisor when it makes
the two users, use the listener INTERNAL, which asks for a certificate of the cluster's authority,
so that no password has to be in ZooKeeper before the first broker starts. The embedded ZooKeepers
accept the secret in `zookeeper`, and members of an ensemble certificates of that authority.

Invariants: the directory is of mode 0700, its files of 0600; no secret leaves it but into the
memory of the cluster's processes. A data directory that has it is never started open, and no key
that security depends on can be given by --config.
"""

from __future__ import annotations

import re
import secrets
import socket
from collections.abc import Iterable, Mapping
from pathlib import Path

from .cluster_state import ClusterError
from .private_files import DIRECTORY_MODE, private_directory, write_private
from .zookeeper_nodes import MEMBER_PREFIX

DIRECTORY = "security"
ADMIN = "admin"
USER = "user"
CLIENT_PROPERTIES = "client.properties"
CLIENTS = "SASL_SSL"
INTERNAL = "INTERNAL"
MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256")
SECRET_BYTES = 24
# Further keys, beside those set here, that would weaken the security.
RESERVED_KEYS = (
    "advertised.listeners", "control.plane.listener.name", "security.inter.broker.protocol",
    "pybroker.allow.ineffective.security", "pybroker.zookeeper.credentials.file",
)  # fmt: skip
RESERVED_PREFIXES = ("listener.name.", "ssl.", "sasl.")
OWN_NAMES = ("localhost", "127.0.0.1", "::1")
# The subject of the certificates of brokers and supervisor; only the cluster's authority signs it.
MEMBER = "pybroker-cluster"
_SUPERVISOR = "supervisor"


class SecurityFiles:
    """The files of one data directory; `exists` says whether its cluster is a secured one."""

    def __init__(self, data_dir: Path) -> None:
        self.directory = data_dir / DIRECTORY
        self.zookeeper = self.directory / "zookeeper"
        self.authority = self.directory / "ca.pem"
        self._token_secret = self.directory / "token-secret"
        self.new_users: set[str] = set()  # users with passwords made by this start

    @property
    def exists(self) -> bool:
        return self.directory.exists()

    def prepare_secrets(self) -> None:
        """Raises ClusterError, OSError. Other users cannot enter the data directory from now on:
        the records and logs of a secured cluster are not for them either.
        """
        self.directory.parent.chmod(DIRECTORY_MODE)
        private_directory(self.directory)
        self._make(self.zookeeper, prefix="cluster:")
        self._make(self._token_secret)
        for user in (ADMIN, USER):
            private_directory(self.directory / user)
            if self._make(self._password_file(user)):
                self.new_users.add(user)

    @staticmethod
    def _make(path: Path, prefix: str = "") -> bool:
        """Make a missing file with a secret; returns whether it was missing."""
        if path.exists():
            return False
        write_private(path, f"{prefix}{secrets.token_urlsafe(SECRET_BYTES)}\n".encode())
        return True

    def prepare_certificates(self, broker_ids: Iterable[int], zookeepers: Iterable[str]) -> None:
        """Make the certificates that are missing, or end soon; `zookeepers`: the members of an
        ensemble."""
        from .certificates import prepare_certificates

        members = [*(_member(broker_id) for broker_id in broker_ids), *zookeepers, _SUPERVISOR]
        prepare_certificates(self.directory, MEMBER, members, {*OWN_NAMES, *own_hosts()})

    def password(self, user: str) -> str:
        """Raises ClusterError."""
        return self._read(self._password_file(user))

    def keep_password(self, user: str, password: str) -> None:
        """Write a password that has been changed in the cluster to its file."""
        write_private(self._password_file(user), f"{password}\n".encode())

    def _password_file(self, user: str) -> Path:
        return self.directory / f"{user}.password"

    @staticmethod
    def _read(path: Path) -> str:
        try:
            return path.read_text("utf-8").removesuffix("\n")
        except (OSError, ValueError):
            raise ClusterError(f"{path} cannot be read") from None

    # Settings

    def fixed_keys(self) -> Mapping[str, str]:
        """The broker's keys that are the same in all brokers, and secret in part."""
        clients, internal = (f"listener.name.{name.lower()}" for name in (CLIENTS, INTERNAL))
        return {
            "listener.security.protocol.map": f"{CLIENTS}:SASL_SSL,{INTERNAL}:SSL",
            "inter.broker.listener.name": INTERNAL,
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            **{
                f"{clients}.{mechanism.lower()}.sasl.jaas.config": f"{_scram_module()} required;"
                for mechanism in MECHANISMS
            },
            f"{internal}.ssl.client.auth": "required",
            f"{internal}.ssl.truststore.type": "PEM",
            f"{internal}.ssl.truststore.location": str(self.authority),
            f"{internal}.ssl.principal.mapping.rules": "DEFAULT",
            "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
            "allow.everyone.if.no.acl.found": "false",
            "super.users": f"User:{ADMIN};User:CN={MEMBER}",
            "zookeeper.set.acl": "true",
        }

    def check_overrides(self, overrides: Iterable[str]) -> None:
        """Raises ClusterError for a key that --secure answers for."""
        own = {*self.fixed_keys(), *RESERVED_KEYS, "listeners", "delegation.token.secret.key"}
        for key in overrides:
            if key in own or key.startswith(RESERVED_PREFIXES):
                raise ClusterError(
                    f"{key} is not for --config of a secured cluster, which sets it by itself; to "
                    "secure one by hand see docs/SECURITY.md"
                )

    def broker_keys(self, broker_id: int, host: str, port: int) -> Mapping[str, str]:
        """All keys for one broker."""
        stores = {}
        for name in (CLIENTS, INTERNAL):
            prefix = f"listener.name.{name.lower()}.ssl.keystore"
            stores[f"{prefix}.type"] = "PEM"
            stores[f"{prefix}.location"] = str(self.directory / f"{_member(broker_id)}.pem")
        return {
            **self.fixed_keys(),
            **stores,
            "listeners": f"{CLIENTS}://{host}:{port},{INTERNAL}://{host}:0",
            **self._secret_keys(),
        }

    def _secret_keys(self) -> Mapping[str, str]:
        """No keys before `prepare_secrets`: a configuration is checked before any file is made."""
        if not self._token_secret.exists():
            return {}
        return {"delegation.token.secret.key": self._read(self._token_secret)}

    def quorum_keys(self, zookeeper_id: int) -> Mapping[str, str]:
        """The keys of zoo.cfg for TLS between the members of an ensemble."""
        return {
            "ssl.quorum.keyStore.location": str(
                self.directory / f"{MEMBER_PREFIX}{zookeeper_id}.pem"
            ),
            "ssl.quorum.trustStore.location": str(self.authority),
        }

    def internal_settings(self) -> dict[str, str]:
        """The settings of a client that is a member of the cluster."""
        return {
            "security.protocol": "SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.directory / f"{_SUPERVISOR}.pem"),
            **self._trust(),
        }

    def client_settings(self, user: str) -> dict[str, str]:
        """The settings of a Java client, and of ours. Raises ClusterError."""
        return {
            "security.protocol": CLIENTS,
            "sasl.mechanism": MECHANISMS[0],
            "sasl.jaas.config": (
                f"{_scram_module()} required username={_quoted(user)} "
                f"password={_quoted(self.password(user))};"
            ),
            **self._trust(),
        }

    def _trust(self) -> dict[str, str]:
        return {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.authority)}


def _member(broker_id: int) -> str:
    return f"broker-{broker_id}"


def _scram_module() -> str:
    from ..protocol.sasl.jaas import MODULES

    return MODULES[MECHANISMS[0]]


def _quoted(text: str) -> str:
    """A text in quotes, escaped as in JAAS texts."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def own_hosts() -> list[str]:
    """The other names of this machine."""
    name = socket.gethostname()
    return [name] if re.fullmatch(r"[A-Za-z0-9.-]{1,63}", name) else []
