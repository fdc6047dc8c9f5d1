"""`listeners` and `advertised.listeners`: NAME://host:port, with commas between."""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping
from typing import NamedTuple

from .errors import ConfigError

_LISTENER = re.compile(
    r"(?P<name>[^:/]*)://(?:\[(?P<six>[0-9a-fA-F:.%]*)\]|(?P<host>[^:\[\]/]*)):(?P<port>-?\d+)"
)
WILDCARD_HOSTS = ("", "0.0.0.0", "::")
SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MAX_PORT = 65535


class Listener(NamedTuple):
    """One endpoint; an empty host is every address of the machine."""

    name: str
    security_protocol: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.name}://{host_and_port(self.host, self.port)}"


def host_and_port(host: str, port: int) -> str:
    """HOST:PORT; an address of IPv6 has brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_protocol_map(text: str) -> dict[str, str]:
    """`listener.security.protocol.map`."""
    protocols = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, colon, protocol = entry.partition(":")
        name, protocol = name.strip().upper(), protocol.strip().upper()
        if not colon or protocol not in SECURITY_PROTOCOLS:
            raise ConfigError(
                f"listener.security.protocol.map={text}: `{entry}` is not NAME:PROTOCOL with one "
                f"of {', '.join(SECURITY_PROTOCOLS)}"
            )
        protocols[name] = protocol
    return protocols


def parse_listeners(key: str, text: str, protocols: Mapping[str, str]) -> list[Listener]:
    """Parse a list of listeners and check that names are unique and known."""
    listeners = []
    for entry in filter(None, (part.strip() for part in text.split(","))):
        match = _LISTENER.fullmatch(entry)
        if match is None or not -1 <= int(match["port"]) <= MAX_PORT:
            raise ConfigError(
                f"{key}={text}: `{entry}` is not NAME://host:port, for example "
                "PLAINTEXT://localhost:9092"
            )
        name = match["name"].upper()
        if name not in protocols:
            raise ConfigError(
                f"{key}={text}: no security protocol is known for listener {name}; "
                "add it to listener.security.protocol.map"
            )
        host = match["six"] if match["six"] is not None else match["host"]
        listeners.append(Listener(name, protocols[name], host, int(match["port"])))
    if not listeners:
        raise ConfigError(f"{key} needs at least one listener, as in PLAINTEXT://localhost:9092")
    return listeners


def check_unique(key: str, listeners: list[Listener], *, ports: bool) -> None:
    """ConfigError if two listeners share a name, or with `ports` a port. One port may serve
    IPv4 and IPv6, by a listener each."""
    names = [listener.name for listener in listeners]
    if len(set(names)) < len(names):
        raise ConfigError(f"{key}: each listener needs a different name, got {', '.join(names)}")
    if not ports:
        return
    seen: dict[int, Listener] = {}
    for listener in listeners:
        other = seen.setdefault(listener.port, listener)
        if listener.port == 0 or other is listener:
            continue
        families = {":" in other.host, ":" in listener.host}
        if len(families) == 1 or not (other.host and listener.host):
            raise ConfigError(
                f"{key}: each listener needs a different port, {listener.port} is there twice"
            )


def default_advertised_host() -> str:
    """The name advertised to clients if neither listeners nor advertised.listeners has one."""
    name = socket.getfqdn()
    try:
        socket.getaddrinfo(name, None)
    except OSError:
        return "localhost"
    return name
