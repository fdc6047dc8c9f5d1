"""zoo.cfg of a member: its servers, its limits, its directory.

Mirrors `QuorumPeerConfig.parseProperties` of 3.9. Keys that change what a member promises and that
we do not have are refused with the reason; others that we do not have are named in `ignored`, so
that the command can tell them.

    server.N=host:quorumPort:electionPort[:participant|:observer][;[clientHost:]clientPort]

The keys `ssl.quorum.*` (TLS between members) and `ssl.*` (TLS at the client port) are read by
`broker.zookeeper.x509_keys`.

Leaves out: groups and weights, reconfiguration (reconfigEnabled, dynamicConfigFile), local
sessions, several addresses of one server: each is refused.
"""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from ..access import OPEN_ACCESS, Access
from .login_config import (
    LOGIN_KEYS,
    LoginConfigError,
    MemberLogin,
    Sections,
    client_access,
    is_provider,
    is_true,
    member_login,
)

DEFAULT_TICK_MS = 3000
DEFAULT_CLIENT_CONNECTIONS = 60
MAX_SERVER_ID = 255

_NO_LISTS = "lists of revoked certificates are not read here"
_NO_OCSP = "OCSP is not asked here"
_REFUSED = {
    "dynamicConfigFile": "the members of an ensemble are fixed here",
    "localSessionsEnabled": "all sessions are those of the whole ensemble here",
    "client.portUnification": "a client port takes connections of one kind, with TLS or without",
    "sslQuorumReloadCertFiles": "certificates are read at the start",
    "ssl.quorum.crl": _NO_LISTS,
    "ssl.quorum.ocsp": _NO_OCSP,
    "ssl.crl": _NO_LISTS,
    "ssl.ocsp": _NO_OCSP,
    "multiAddress.enabled": "a member has one address here",
}
QUORUM_TLS_PREFIX = "ssl.quorum."
CLIENT_TLS_PREFIX = "ssl."
_TLS_KEYS = frozenset(
    {
        "keyStore.location",
        "keyStore.password",
        "keyStore.passwordPath",
        "keyStore.type",
        "trustStore.location",
        "trustStore.password",
        "trustStore.passwordPath",
        "trustStore.type",
        "protocol",
        "enabledProtocols",
        "ciphersuites",
        "clientAuth",
        "hostnameVerification",
    }
)
_KNOWN = frozenset(
    {
        "dataDir",
        "dataLogDir",
        "clientPort",
        "clientPortAddress",
        "secureClientPort",
        "secureClientPortAddress",
        "serverCnxnFactory",
        "tickTime",
        "initLimit",
        "syncLimit",
        "maxClientCnxns",
        "peerType",
        "reconfigEnabled",
        "standaloneEnabled",
        "electionAlg",
        "syncEnabled",
        "4lw.commands.whitelist",
        "admin.enableServer",
        "minSessionTimeout",
        "maxSessionTimeout",
        "sslQuorum",
        "portUnification",
        "readonlymode.enabled",
    }
)


class ConfigurationError(Exception):
    """zoo.cfg cannot be used; the message has the key and the reason."""


class Server(NamedTuple):
    """A line `server.N` of zoo.cfg."""

    server_id: int
    host: str
    quorum_port: int
    election_port: int
    is_observer: bool = False
    client_address: tuple[str, int] | None = None

    def __str__(self) -> str:
        role = "observer" if self.is_observer else "participant"
        text = f"{_bracketed(self.host)}:{self.quorum_port}:{self.election_port}:{role}"
        if self.client_address is not None:
            text += f";{_bracketed(self.client_address[0])}:{self.client_address[1]}"
        return text


class QuorumTlsConfig(NamedTuple):
    """TLS between members: the keys `ssl.quorum.*`."""

    keys: Mapping[str, str]
    connects: bool = True
    """Whether our own connections are with TLS (`sslQuorum`)."""
    takes_plain: bool = False
    """Whether connections without TLS are accepted, too (`portUnification`)."""

    def __repr__(self) -> str:
        return f"QuorumTlsConfig({sorted(self.keys)}, {self.connects}, {self.takes_plain})"


class SecurePort(NamedTuple):
    """The port of clients with TLS, and the keys `ssl.*`."""

    host: str
    port: int
    keys: Mapping[str, str]

    def __repr__(self) -> str:
        return f"SecurePort({self.host!r}, {self.port}, {sorted(self.keys)})"


class EnsembleConfig(NamedTuple):
    data_dir: Path
    client_host: str
    client_port: int | None
    """None: there is the one with TLS alone."""
    tick_ms: int
    init_limit: int
    sync_limit: int
    max_client_connections: int
    my_id: int
    servers: Mapping[int, Server]
    """By id; empty: one server alone."""
    ignored: tuple[str, ...] = ()
    session_limits_ms: tuple[int, int] | None = None
    """Shortest and longest; None: 2 and 20 ticks."""
    detours: Mapping[int, Server] = MappingProxyType({})
    """Members that are reached at other ports than their own: through the proxy of a test."""
    log_dir: Path | None = None
    """`dataLogDir`: where the logs are, if not in `data_dir`."""
    tls: QuorumTlsConfig | None = None
    """None: no TLS between members."""
    secure_port: SecurePort | None = None
    access: Access = OPEN_ACCESS
    member_login: MemberLogin | None = None
    reads_alone: bool = False
    """`readonlymode.enabled`"""

    @property
    def voters(self) -> frozenset[int]:
        return frozenset(s.server_id for s in self.servers.values() if not s.is_observer)

    @property
    def is_observer(self) -> bool:
        return self.servers[self.my_id].is_observer

    @property
    def reached(self) -> Mapping[int, Server]:
        """The servers at the addresses by which this member connects to them."""
        return {**self.servers, **self.detours}

    @property
    def text(self) -> bytes:
        """The members as `/zookeeper/config` and notifications have them."""
        lines = [f"server.{number}={self.servers[number]}" for number in sorted(self.servers)]
        return "\n".join([*lines, "version=0"]).encode()


def parse_properties(text: str) -> dict[str, str]:
    """The keys and values of a Java properties file, as far as zoo.cfg uses it."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        line = line.strip()
        if not line or line[0] in "#!":
            continue
        key, separator, value = line.partition("=")
        if not separator:
            raise ConfigurationError(f"the line {line!r} has no value")
        found[key.strip()] = value.strip()
    return found


def parse_config(
    properties: Mapping[str, str],
    my_id_text: str | None,
    sections: Sections = MappingProxyType({}),
) -> EnsembleConfig:
    """`my_id_text`: the content of the file `myid` in dataDir, None without one; `sections`: those
    of the JAAS file."""
    for key, why in _REFUSED.items():
        if _is_set(properties, key):
            raise ConfigurationError(f"{key} cannot be set: {why}")
    if properties.get("reconfigEnabled", "false").lower() == "true":
        raise ConfigurationError("reconfigEnabled=true: the members of an ensemble are fixed here")
    data_dir = properties.get("dataDir")
    if not data_dir:
        raise ConfigurationError("dataDir is not set")
    servers, ignored = _sorted(properties)
    my_id = _my_id(my_id_text, servers)
    own = servers.get(my_id)
    secure_port = _secure_port(properties)
    client_port = _number(properties, "clientPort", 0) if "clientPort" in properties else None
    client_host = properties.get("clientPortAddress", "0.0.0.0")
    if own is not None and own.client_address is not None:
        client_host, client_port = own.client_address
    elif client_port is None and secure_port is None:
        raise ConfigurationError("clientPort is not set")
    if servers and all(server.is_observer for server in servers.values()):
        raise ConfigurationError("no server is a participant")
    tick_ms = _number(properties, "tickTime", DEFAULT_TICK_MS, least=1)
    shortest_ms = _number(properties, "minSessionTimeout", 2 * tick_ms)
    longest_ms = _number(properties, "maxSessionTimeout", 20 * tick_ms)
    if shortest_ms > longest_ms:
        raise ConfigurationError("minSessionTimeout is larger than maxSessionTimeout")
    try:
        access = client_access(properties, sections)
        login = member_login(properties, sections) if servers else None
    except LoginConfigError as error:
        raise ConfigurationError(str(error)) from None
    return EnsembleConfig(
        data_dir=Path(data_dir),
        log_dir=Path(log_dir) if (log_dir := properties.get("dataLogDir")) else None,
        client_host=client_host,
        client_port=client_port,
        tick_ms=tick_ms,
        init_limit=_number(properties, "initLimit", None if len(servers) > 1 else 10, least=1),
        sync_limit=_number(properties, "syncLimit", None if len(servers) > 1 else 5, least=1),
        max_client_connections=_number(properties, "maxClientCnxns", DEFAULT_CLIENT_CONNECTIONS),
        my_id=my_id,
        servers=servers,
        ignored=ignored,
        session_limits_ms=(shortest_ms, longest_ms),
        tls=_quorum_tls(properties),
        secure_port=secure_port,
        access=access,
        member_login=login,
        reads_alone=is_true(properties, "readonlymode.enabled"),
    )


def _is_set(properties: Mapping[str, str], key: str) -> bool:
    return properties.get(key, "false").lower() != "false"


def _sorted(properties: Mapping[str, str]) -> tuple[dict[int, Server], tuple[str, ...]]:
    """The servers, and the keys without effect here. Raises ConfigurationError for those that
    cannot be."""
    servers: dict[int, Server] = {}
    ignored: list[str] = []
    for key, value in properties.items():
        if key.startswith(("group.", "weight.")):
            raise ConfigurationError(f"{key}: each member has one vote here")
        if key.startswith("server."):
            server = parse_server(key, value)
            servers[server.server_id] = server
        elif key.startswith(QUORUM_TLS_PREFIX) and key not in _REFUSED:
            if key.removeprefix(QUORUM_TLS_PREFIX) not in _TLS_KEYS:
                raise ConfigurationError(f"{key}: there is no such key here")
        elif key.startswith(CLIENT_TLS_PREFIX) and "secureClientPort" in properties:
            if key.removeprefix(CLIENT_TLS_PREFIX) not in _TLS_KEYS and key not in _REFUSED:
                raise ConfigurationError(f"{key}: there is no such key here")
        elif key not in _KNOWN | LOGIN_KEYS and key not in _REFUSED and not is_provider(key, value):
            ignored.append(key)
    return servers, tuple(ignored)


def _quorum_tls(properties: Mapping[str, str]) -> QuorumTlsConfig | None:
    connects = properties.get("sslQuorum", "false").lower() == "true"
    takes_plain = properties.get("portUnification", "false").lower() == "true"
    if not connects and not takes_plain:
        return None
    keys = {key: text for key, text in properties.items() if key.startswith(QUORUM_TLS_PREFIX)}
    return QuorumTlsConfig(keys, connects, takes_plain)


def _secure_port(properties: Mapping[str, str]) -> SecurePort | None:
    host = properties.get("secureClientPortAddress")
    if "secureClientPort" not in properties:
        if host is not None:
            raise ConfigurationError("secureClientPortAddress is set, and secureClientPort is not")
        return None
    keys = {
        key: text
        for key, text in properties.items()
        if key.startswith(CLIENT_TLS_PREFIX) and not key.startswith(QUORUM_TLS_PREFIX)
    }
    return SecurePort(host or "0.0.0.0", _number(properties, "secureClientPort", None), keys)


def _my_id(text: str | None, servers: Mapping[int, Server]) -> int:
    if not servers:
        return 0
    if text is None:
        raise ConfigurationError("dataDir has no file myid with this server's number")
    try:
        my_id = int(text.strip())
    except ValueError:
        raise ConfigurationError(f"the file myid has {text.strip()!r}, not a number") from None
    if my_id not in servers:
        raise ConfigurationError(f"the file myid has {my_id}, and there is no server.{my_id}")
    return my_id


def _number(properties: Mapping[str, str], key: str, default: int | None, *, least: int = 0) -> int:
    text = properties.get(key)
    if text is None:
        if default is None:
            raise ConfigurationError(f"{key} is not set")
        return default
    try:
        number = int(text)
    except ValueError:
        raise ConfigurationError(f"{key}={text} is not a number") from None
    if number < least:
        raise ConfigurationError(f"{key}={text} is less than {least}")
    return number


def parse_server(key: str, value: str) -> Server:
    """A line `server.N`. Raises ConfigurationError."""
    try:
        server_id = int(key.removeprefix("server."))
    except ValueError:
        raise ConfigurationError(f"{key} has no number") from None
    if not 0 <= server_id <= MAX_SERVER_ID:
        raise ConfigurationError(f"{key}: numbers go from 0 to {MAX_SERVER_ID}")
    if "|" in value:
        raise ConfigurationError(f"{key}={value}: a member has one address here")
    addresses, _, client = value.partition(";")
    host, numbers = _split_host(addresses)
    parts = numbers.split(":")
    try:
        quorum_port, election_port = int(parts[0]), int(parts[1])
        role = parts[2].lower() if len(parts) > 2 else "participant"
        if role not in ("participant", "observer") or len(parts) > 3 or not host:
            raise ValueError(value)
        return Server(
            server_id,
            host,
            quorum_port,
            election_port,
            role == "observer",
            _client_address(client) if client else None,
        )
    except (ValueError, IndexError):
        raise ConfigurationError(
            f"{key}={value} is not host:port:port[:participant|observer][;[host:]port]"
        ) from None


def _client_address(text: str) -> tuple[str, int]:
    host, port = _split_host(text) if ":" in text else ("0.0.0.0", text)
    return host, int(port)


def _split_host(text: str) -> tuple[str, str]:
    """The host, which may be an IPv6 address in brackets, and what is behind its colon."""
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        return host, rest.removeprefix(":")
    host, _, rest = text.partition(":")
    return host, rest


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
