"""SCRAM: the vectors of its RFCs, its messages, and what a server or a client does not believe."""

from __future__ import annotations

from base64 import b64encode

import pytest

from pybroker_kafka.protocol.sasl.errors import SaslAuthenticationError, SaslError
from pybroker_kafka.protocol.sasl.scram import (
    MAX_MESSAGE_BYTES,
    ClientFinal,
    ClientFirst,
    ScramCredential,
    ScramHash,
    ServerFinal,
    ServerFirst,
    credential_from_password,
    signed_text,
    xor,
)
from pybroker_kafka.protocol.sasl.scram_exchange import FoundCredential, ScramClient, ScramServer

SALT = b"fourteen bytes"
CREDENTIAL = credential_from_password(ScramHash.SHA_256, "secret", SALT)
# RFC 7677, section 3.
CLIENT_NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
RFC_SALT = bytes.fromhex("5b6d99689d12358eec a04b141236fa81".replace(" ", ""))
CLIENT_FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = (
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
)
CLIENT_FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def server(
    credential: ScramCredential = CREDENTIAL, *, is_decoy: bool = False, nonce: str = "server"
) -> ScramServer:
    found = FoundCredential(credential, is_decoy)
    return ScramServer(ScramHash.SHA_256, nonce, lambda name, by_token: found)


def client(password: str = "secret", name: str = "alice") -> ScramClient:
    return ScramClient(ScramHash.SHA_256, name, password, "client")


def talk(mine: ScramClient, theirs: ScramServer) -> None:
    token = mine.step(b"")
    while not mine.done:
        token = mine.step(theirs.step(token))


def test_the_exchange_of_rfc_7677() -> None:
    credential = credential_from_password(ScramHash.SHA_256, "pencil", RFC_SALT)
    theirs = server(credential, nonce=SERVER_NONCE)
    mine = ScramClient(ScramHash.SHA_256, "user", "pencil", CLIENT_NONCE)
    assert mine.step(b"") == CLIENT_FIRST
    assert theirs.step(CLIENT_FIRST) == SERVER_FIRST
    assert mine.step(SERVER_FIRST) == CLIENT_FINAL
    assert not theirs.done
    assert theirs.step(CLIENT_FINAL) == SERVER_FINAL
    assert mine.step(SERVER_FINAL) == b""
    assert mine.done
    assert theirs.done
    assert (theirs.username, theirs.by_token) == ("user", False)


def test_the_names_and_sizes_of_the_mechanisms() -> None:
    assert [(one.mechanism, one.size) for one in ScramHash] == [
        ("SCRAM-SHA-256", 32), ("SCRAM-SHA-512", 64),
    ]  # fmt: skip


def test_a_token_is_said_to_be_one() -> None:
    asked = []

    def credential_of(name: str, by_token: bool) -> FoundCredential:
        asked.append((name, by_token))
        return FoundCredential(CREDENTIAL)

    theirs = ScramServer(ScramHash.SHA_256, "server", credential_of)
    talk(ScramClient(ScramHash.SHA_256, "id-1", "secret", "client", by_token=True), theirs)
    assert asked == [("id-1", True)]
    assert theirs.by_token


@pytest.mark.parametrize("name", ["a", "a,b", "a=b", "=2C", "=", ",", "a=3Db"])
def test_a_name_with_commas_and_equals_signs_arrives_as_it_is(name: str) -> None:
    theirs = server()
    talk(client(name=name), theirs)
    assert theirs.username == name


def test_a_wrong_password_and_a_user_that_is_not_there_fail_alike() -> None:
    said = []
    for mine, theirs in ((client("wrong"), server()), (client(), server(is_decoy=True))):
        with pytest.raises(SaslError) as caught:
            talk(mine, theirs)
        assert not isinstance(caught.value, SaslAuthenticationError)
        assert not theirs.done
        said.append(str(caught.value))
    assert said[0] == said[1]


def test_who_has_failed_stays_failed() -> None:
    theirs = server()
    mine = client("wrong")
    final = mine.step(theirs.step(mine.step(b"")))
    for _ in range(2):
        with pytest.raises(SaslError):
            theirs.step(final)
    assert not theirs.done


def test_a_server_that_is_done_takes_no_more() -> None:
    theirs = server()
    talk(client(), theirs)
    with pytest.raises(SaslError):
        theirs.step(CLIENT_FIRST)
    assert not theirs.done


def test_another_authorization_id_is_refused_with_a_reason() -> None:
    with pytest.raises(SaslAuthenticationError, match="authorization id that is different"):
        server().step(b"n,a=bob,n=alice,r=client")
    theirs = server()
    assert theirs.step(b"n,a=alice,n=alice,r=client").startswith(b"r=clientserver,")


@pytest.mark.parametrize(
    "token",
    [
        b"", b"n", b"n,,", b"n,,n=,r=x", b"n,,n=a", b"n,,n=a,r=", b"y,,n=a,r=x", b"p=x,,n=a,r=x",
        b"n,,n=a=b,r=x", b"n,,n=a,r=x,", b"n,,n=a,r=x,t", b"n,,n=a,r=x,1=y", b"n,,n=a,r=x,t=",
        "n,,n=ä,r=x".encode(), b"n,,n=a,r=x y", b"n,,n=a\x00,r=x", b"n,,n=\xff,r=x",
        b"n,,n=a,r=x\n",
    ],
)  # fmt: skip
def test_what_is_no_first_message(token: bytes) -> None:
    with pytest.raises(SaslError):
        server().step(token)


@pytest.mark.parametrize(
    "token",
    [
        b"", b"c=biws,r=clientserver", b"c=biws,r=clientserver,p=", b"c=biws,r=clientserver,p=AAAA",
        b"c=biws,r=clientother,p=" + b64encode(bytes(32)), b"c=b,r=clientserver,p=AAAA",
        b"c=biws,r=clientserver,p=" + b64encode(bytes(64)),
    ],
)  # fmt: skip
def test_what_proves_nothing(token: bytes) -> None:
    theirs = server()
    theirs.step(b"n,,n=alice,r=client")
    with pytest.raises(SaslError):
        theirs.step(token)


def test_fewer_iterations_than_kafka_allows_let_nobody_in() -> None:
    weak = credential_from_password(ScramHash.SHA_256, "secret", SALT, 4095)
    with pytest.raises(SaslError, match="4095"):
        server(weak).step(b"n,,n=alice,r=client")


@pytest.mark.parametrize(
    "token",
    [
        b"", b"r=client,s=AAAA", b"r=other,s=AAAA,i=4096", b"r=client,s=AAAA,i=4095",
        b"r=client,s=AAAA,i=0", b"r=client,s=AAAA,i=200001", b"r=client,s=AAAA,i=99999999999",
        b"r=client,s=AAA,i=4096",
    ],
)  # fmt: skip
def test_what_a_client_does_not_compute_for(token: bytes) -> None:
    mine = client()
    mine.step(b"")
    with pytest.raises(SaslError):
        mine.step(token)


@pytest.mark.parametrize("token", [b"", b"v=", b"v=" + b64encode(bytes(32)), b"e=other-error"])
def test_a_server_that_does_not_know_the_password_is_not_believed(token: bytes) -> None:
    mine = client()
    mine.step(server().step(mine.step(b"")))
    with pytest.raises(SaslError):
        mine.step(token)
    assert not mine.done


def test_a_credential_is_written_as_in_zookeeper() -> None:
    credential = ScramCredential(b"salt", b"stored", b"server", 8192)
    text = "salt=c2FsdA==,stored_key=c3RvcmVk,server_key=c2VydmVy,iterations=8192"
    assert credential.to_text() == text
    assert ScramCredential.parse(text) == credential


@pytest.mark.parametrize(
    "text",
    ["", "salt", "=x", "salt=c2FsdA==", "salt=!,stored_key=,server_key=,iterations=1",
     "salt=,stored_key=,server_key=,iterations=x",
     "salt=,stored_key=,server_key=,iterations=1,more=2"],
)  # fmt: skip
def test_what_is_no_credential(text: str) -> None:
    with pytest.raises(ValueError, match=r"^no SCRAM credential$"):
        ScramCredential.parse(text)


def test_no_repr_shows_a_secret() -> None:
    theirs, mine = server(), client()
    first = mine.step(b"")
    answer = theirs.step(first)
    final = mine.step(answer)
    shown = " ".join(
        map(
            repr,
            (
                CREDENTIAL, ServerFirst.parse(answer), ClientFinal.parse(final),
                ServerFinal.parse(theirs.step(final)), ClientFirst.parse(first), mine, theirs,
            ),
        )
    )  # fmt: skip
    for secret in (b"secret", SALT, CREDENTIAL.stored_key, CREDENTIAL.server_key):
        assert repr(secret) not in shown
        assert b64encode(secret).decode() not in shown.replace(ServerFirst.parse(answer).text, "")


def test_long_messages_are_not_matched() -> None:
    """Strangers may send up to sasl.server.max.receive.size bytes; the loop would be held."""
    start = b"n,,n=alice,r="
    longest = start + b"x" * (MAX_MESSAGE_BYTES - len(start))
    assert ClientFirst.parse(longest).nonce == "x" * (MAX_MESSAGE_BYTES - len(start))
    with pytest.raises(SaslError, match="Invalid SCRAM client first message format"):
        ClientFirst.parse(longest + b"x")
    with pytest.raises(SaslError, match="Invalid SCRAM client final message format"):
        ClientFinal.parse(b"c=biws,r=abc,p=" + b"A" * MAX_MESSAGE_BYTES)


def final_with(nonce: str) -> bytes:
    """The right proof, whatever nonce it is of."""
    first, answer = ClientFirst.parse(CLIENT_FIRST), ServerFirst.parse(SERVER_FIRST)
    final, kind = ClientFinal.make(nonce), ScramHash.SHA_256
    client_key = kind.hmac(kind.salted_password("pencil", RFC_SALT, 4096), b"Client Key")
    signature = kind.hmac(kind.digest(client_key), signed_text(first, answer, final))
    return final.proved_by(xor(client_key, signature))


def test_a_nonce_as_old_librdkafka_sends_it() -> None:
    """Before 2.6.1, as kcat of Debian 12 has it: its own nonce twice. Kafka 3.9 takes it."""
    credential = credential_from_password(ScramHash.SHA_256, "pencil", RFC_SALT)
    whole = CLIENT_NONCE + SERVER_NONCE
    for nonce, is_taken in (
        (whole, True), (CLIENT_NONCE + whole, True), (SERVER_NONCE, False), (CLIENT_NONCE, False),
        (whole + "x", False), (whole[:-1], False), ("", False),
    ):  # fmt: skip
        theirs = server(credential, nonce=SERVER_NONCE)
        theirs.step(CLIENT_FIRST)
        if is_taken:
            theirs.step(final_with(nonce))
            assert theirs.done
        else:
            with pytest.raises(SaslError):
                theirs.step(final_with(nonce))
