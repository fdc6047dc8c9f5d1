"""ACLs with the names in certificates: which are valid, and whose nodes they open."""

import pytest

from pybroker_kafka.protocol.zookeeper.constants import KeeperError, Perm, ZkCode
from pybroker_kafka.protocol.zookeeper.jute import ACL, Id
from pybroker_kafka.zookeeper.acl import check_acl, fix_acl

SCHEMES = frozenset({"digest", "x509"})
ANN = Id("x509", "CN=ann,O=Example")
IP = Id("ip", "127.0.0.1")


@pytest.mark.parametrize(
    "name",
    [
        "", "CN=ann", "cn=ann, O=Example", "CN=ann,OU=a\\,b,O=\"x, y\"", "CN=a+UID=b;C=DE",
        "1.2.840.113549.1.9.1=#1603612e62,CN=x", "OID.2.5.4.3=ann", "CN=",
    ],
)  # fmt: skip
def test_names_of_certificates(name: str) -> None:
    """As `new X500Principal(name)` takes them."""
    entry = ACL(31, Id("x509", name))
    assert fix_acl([entry], [], SCHEMES) == (entry,)
    with pytest.raises(KeeperError):  # a server without certificates
        fix_acl([entry], [])


@pytest.mark.parametrize("name", ["ann", "CN", "CN=a,", ",CN=a", "XX=a", "CN=a,b", 'CN="a', "=a"])
def test_names_of_nothing(name: str) -> None:
    with pytest.raises(KeeperError) as raised:
        fix_acl([ACL(31, Id("x509", name))], [], SCHEMES)
    assert raised.value.code is ZkCode.INVALID_ACL


def test_the_ids_of_who_asks() -> None:
    asked = [ACL(31, Id("auth", ""))]
    assert fix_acl(asked, [IP, ANN], SCHEMES) == (ACL(31, ANN),)
    with pytest.raises(KeeperError):
        fix_acl(asked, [IP, ANN])
    with pytest.raises(KeeperError):
        fix_acl(asked, [IP], SCHEMES)


def test_who_may_read() -> None:
    acl = (ACL(31, ANN),)
    check_acl(acl, Perm.READ, [IP, ANN])
    for other in (Id("x509", "CN=ann"), Id("digest", ANN.id), Id("sasl", "super")):
        with pytest.raises(KeeperError):
            check_acl(acl, Perm.READ, [IP, other])
