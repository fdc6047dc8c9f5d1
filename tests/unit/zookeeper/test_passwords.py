"""Passwords of sessions: who makes which, before and after one server grows into an ensemble."""

from pybroker_kafka.zookeeper.passwords import member_password, passwords_of, session_password

SECRET = b"0123456789abcdef"
CREDENTIALS = b"cluster:secret"
OF_ONE_ALONE = 0x0001_8F00_0000_0007
OF_MEMBER_2 = (2 << 56) | 0x18F00_0000_0007
OF_MEMBER_200 = OF_ONE_ALONE | ((200 - 256) << 56)


def test_a_session_has_the_password_of_the_server_that_made_it() -> None:
    password_of = passwords_of(SECRET, None)
    assert password_of(OF_ONE_ALONE) == session_password(SECRET, OF_ONE_ALONE)
    for session_id in (OF_MEMBER_2, OF_MEMBER_200):
        assert password_of(session_id) == member_password(session_id)


def test_those_of_a_closed_ensemble_cannot_be_computed_without_its_credentials() -> None:
    password_of = passwords_of(SECRET, CREDENTIALS)
    assert password_of(OF_ONE_ALONE) == session_password(SECRET, OF_ONE_ALONE)
    assert password_of(OF_MEMBER_2) != member_password(OF_MEMBER_2)
    assert password_of(OF_MEMBER_2) == passwords_of(b"of another server", CREDENTIALS)(OF_MEMBER_2)
    assert password_of(OF_MEMBER_2) != passwords_of(SECRET, b"cluster:other")(OF_MEMBER_2)


def test_an_ensemble_with_a_member_0_has_one_kind() -> None:
    assert passwords_of(None, None)(OF_ONE_ALONE) == member_password(OF_ONE_ALONE)
