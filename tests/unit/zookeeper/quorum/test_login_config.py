"""The logins of zoo.cfg and a JAAS file: what they make, and refusals without a secret."""

import pytest

from pybroker_kafka.protocol.sasl.jaas import parse_file
from pybroker_kafka.zookeeper.access import OPEN_ACCESS, Access
from pybroker_kafka.zookeeper.quorum.login_config import (
    LoginConfigError,
    MemberLogin,
    client_access,
    is_provider,
    member_login,
)

MODULE = "org.apache.zookeeper.server.auth.DigestLoginModule required"
SECTIONS = parse_file(
    f"""
    Server {{ {MODULE} user_ann="secret-1" user_super="secret-2"; }};
    QuorumServer {{ {MODULE} user_zk="secret-3"; }};
    QuorumLearner {{ {MODULE} username="zk" password="secret-3"; }};
    Kerberos {{ com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true; }};
    Plain {{ org.apache.kafka.common.security.plain.PlainLoginModule required user_a="secret-4"; }};
    Empty {{ {MODULE}; }};
    """
)
SASL = "quorum.auth.enableSasl"
LEARNER, SERVER = "quorum.auth.learnerRequireSasl", "quorum.auth.serverRequireSasl"


def test_clients() -> None:
    assert client_access({}, {}) == OPEN_ACCESS
    users = {"ann": "secret-1", "super": "secret-2"}
    found = client_access({"sessionRequireClientSASLAuth": "true"}, SECTIONS)
    assert found == Access(frozenset({"digest", "sasl"}), users, frozenset({"sasl"}))
    assert "secret" not in repr(found)
    enforced = {"enforce.auth.enabled": "true", "enforce.auth.schemes": "digest, x509"}
    secure = {**enforced, "secureClientPort": "2281", "allowSaslFailedClients": "true"}
    schemes = frozenset({"digest", "x509"})
    assert client_access(secure, {}) == Access(schemes, None, schemes, True)


def test_schemes_of_acls_for_clients_of_other_members() -> None:
    keys = {
        "authProvider.1": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
        "authProvider.x509": "org.apache.zookeeper.server.auth.X509AuthenticationProvider",
        "authProvider.2": "org.example.Own",
    }
    assert client_access(keys, {}).schemes == {"digest", "sasl", "x509"}
    assert [is_provider(key, value) for key, value in keys.items()] == [True, True, False]


def test_members() -> None:
    assert member_login({}, SECTIONS) is None
    found = member_login({SASL: "true", LEARNER: "true", SERVER: "true"}, SECTIONS)
    assert found == MemberLogin({"zk": "secret-3"}, ("zk", "secret-3"), True)
    assert "secret" not in repr(found)
    first_step = member_login({SASL: "true"}, SECTIONS)
    assert first_step == MemberLogin({"zk": "secret-3"}, None, False)


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ({"sasl.serverconfig": "None"}, "sasl.serverconfig=None: the JAAS file has no such"),
        ({"sasl.serverconfig": "Kerberos"}, "section Kerberos of the JAAS file is for Kerberos"),
        ({"sasl.serverconfig": "Plain"}, "Plain of the JAAS file has no org.apache.zookeeper"),
        ({"sasl.serverconfig": "Empty"}, "Empty of the JAAS file has no user_NAME"),
        ({"enforce.auth.enabled": "true"}, "needs enforce.auth.schemes"),
        (
            {"enforce.auth.enabled": "true", "enforce.auth.schemes": "ip,world"},
            "cannot log in by world",
        ),
        ({SERVER: "true"}, "needs quorum.auth.enableSasl=true"),
        ({LEARNER: "true"}, "needs quorum.auth.enableSasl=true"),
        ({SASL: "true", SERVER: "true"}, "needs quorum.auth.learnerRequireSasl"),
        ({SASL: "true", "quorum.auth.server.saslLoginContext": "None"}, "a section None"),
        ({SASL: "true", "quorum.auth.learner.saslLoginContext": "Kerberos"}, "for Kerberos"),
        ({SASL: "true", "quorum.auth.learner.saslLoginContext": "Server"}, "needs username and"),
    ],
)
def test_refusals(keys: dict[str, str], reason: str) -> None:
    def read() -> None:
        client_access(keys, SECTIONS)
        member_login(keys, SECTIONS)

    with pytest.raises(LoginConfigError, match=reason) as raised:
        read()
    assert "secret" not in str(raised.value)


def test_a_login_that_is_wanted_and_cannot_be() -> None:
    with pytest.raises(LoginConfigError, match="by sasl here"):
        client_access({"sessionRequireClientSASLAuth": "true"}, {})
