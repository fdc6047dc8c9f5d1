"""Access control lists: the permissions of identities on a znode.

Mirrors `ZooKeeperServer.checkACL`, `PrepRequestProcessor.fixupACL`, `DigestAuthenticationProvider`
(SHA-1, ZooKeeper's default), `IPAuthenticationProvider`, `SASLAuthenticationProvider` and
`X509AuthenticationProvider`. Schemes: world, auth (only when an ACL is set; it means the ids of the
requester), ip, digest, and where a server has them (`access`) sasl and x509.

The user `super` of SASL may do what any other of SASL may. Left out: super users by a key.
"""

import hashlib
import hmac
import re
from base64 import b64encode
from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address

from ..protocol.zookeeper.constants import ANYONE, OPEN_ACL, KeeperError, Perm, ZkCode
from ..protocol.zookeeper.jute import ACL, Id
from .access import DIGEST, IP, OPEN_ACCESS, SASL, X509

Acl = tuple[ACL, ...]

# The attributes that Java knows by name in the text of a subject.
_ATTRIBUTES = (
    "CN|C|L|S|ST|O|OU|T|IP|STREET|DC|DNQUALIFIER|DNQ|SURNAME|GIVENNAME|INITIALS|GENERATION"
    "|EMAIL|EMAILADDRESS|UID|SERIALNUMBER"
)
_PAIR = rf'\s*(?i:{_ATTRIBUTES}|(?:OID\.)?\d+(?:\.\d+)+)\s*=(?:[^\\",;+]|\\.|"[^"]*")*'
_KERBEROS_NAME = re.compile(r"[^/@]*(/[^/@]*)?@[^/@]*")
_SUPER = "super"
_SUBJECT = re.compile(rf"(?:{_PAIR}(?:[,;+]{_PAIR})*)?", re.DOTALL)


def digest_id(credentials: bytes) -> Id:
    """`user:password` as the id that goes into ACLs: `user:base64(sha1(user:password))`."""
    user = credentials.split(b":", 1)[0]
    hashed = b64encode(hashlib.sha1(credentials, usedforsecurity=False).digest())
    return Id("digest", f"{user.decode(errors='replace')}:{hashed.decode()}")


def proves(credentials: bytes, identity: Id) -> bool:
    """Whether `credentials` are those of `identity`; compared in constant time."""
    shown = digest_id(credentials)
    return identity.scheme == "digest" and hmac.compare_digest(
        shown.id.encode(), identity.id.encode()
    )


def user_name(identity: Id) -> str:
    """The part of an id that whoAmI shows."""
    return identity.id.split(":", 1)[0] if identity.scheme == "digest" else identity.id


def check_acl(acl: Acl, wanted: int, identities: Iterable[Id]) -> None:
    """Raise NO_AUTH unless one entry grants one of the `wanted` permissions."""
    if acl is OPEN_ACL or not acl:
        return
    for entry in acl:
        if not entry.perms & wanted:
            continue
        if entry.id == ANYONE:
            return
        for identity in identities:
            if identity.scheme == entry.id.scheme and _matches(identity, entry.id.id):
                return
    raise KeeperError(ZkCode.NO_AUTH)


def may_read(acl: Acl, identities: Iterable[Id]) -> bool:
    try:
        check_acl(acl, Perm.READ, identities)
    except KeeperError:
        return False
    return True


def fix_acl(
    acl: Sequence[ACL] | None,
    identities: Sequence[Id],
    schemes: frozenset[str] = OPEN_ACCESS.schemes,
) -> Acl:
    """The ACL to store: checked, without duplicates, `auth` replaced by the requester's ids.
    `schemes`: those of `Access`."""
    fixed: list[ACL] = []
    for entry in dict.fromkeys(acl or ()):
        scheme, name = entry.id
        if entry.id == ANYONE:
            fixed.append(entry)
        elif scheme == "auth":  # the id is ignored: clients send an empty one, or none
            proven = [identity for identity in identities if identity.scheme in schemes]
            if not proven:
                raise KeeperError(ZkCode.INVALID_ACL)
            fixed += [ACL(entry.perms, identity) for identity in proven]
        elif scheme is not None and name is not None and _is_valid(scheme, name, schemes):
            fixed.append(entry)
        else:
            raise KeeperError(ZkCode.INVALID_ACL)
    if not fixed:
        raise KeeperError(ZkCode.INVALID_ACL)
    result = tuple(fixed)
    return OPEN_ACL if result == OPEN_ACL else result


def without_digests(acl: Acl) -> list[ACL]:
    """The ACL as getACL shows it to a client without permission to administer the node."""
    return [
        ACL(entry.perms, Id("digest", entry.id.id.split(":", 1)[0] + ":x"))
        if entry.id.scheme == "digest" and ":" in entry.id.id
        else entry
        for entry in acl
    ]


def _is_valid(scheme: str, name: str, schemes: frozenset[str]) -> bool:
    if scheme == IP:
        return _network(name) is not None
    if scheme not in schemes:
        return False
    if scheme == DIGEST:
        # Like Java's split(":"), which drops trailing empty parts.
        return len(name.rstrip(":").split(":")) == 2
    if scheme == SASL:
        return "@" not in name or _KERBEROS_NAME.fullmatch(name) is not None
    return scheme == X509 and _SUBJECT.fullmatch(name) is not None


def _matches(identity: Id, expression: str) -> bool:
    if identity.scheme != IP:
        is_super = identity.scheme == SASL and identity.id == _SUPER
        return is_super or identity.id == expression
    network = _network(expression)
    address = _address(identity.id)
    if network is None or address is None:
        return False
    base, bits = network
    if base.version != address.version:
        return False
    shift = base.max_prefixlen - bits
    return int(base) >> shift == int(address) >> shift


def _network(expression: str) -> tuple[IPv4Address | IPv6Address, int] | None:
    text, slash, bits_text = expression.partition("/")
    address = _address(text)
    if address is None:
        return None
    if not slash:
        return address, address.max_prefixlen
    try:
        bits = int(bits_text)
    except ValueError:
        return None
    return (address, bits) if 0 <= bits <= address.max_prefixlen else None


def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None
