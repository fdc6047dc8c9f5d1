"""A refusal names the ACL that was missing, and the command that adds it."""

import pytest

from pybroker_kafka.client.errors import ClientError
from pybroker_kafka.client.refusals import Asked, NotAllowed
from pybroker_kafka.protocol.errors import ErrorCode


def test_the_missing_acl_is_named() -> None:
    with pytest.raises(NotAllowed) as refused:
        Asked("User:alice", "create", "big data").check(
            ErrorCode.TOPIC_AUTHORIZATION_FAILED, "no", "cannot create it"
        )
    assert str(refused.value) == (
        "cannot create it: User:alice is not allowed CREATE on topic 'big data': an ACL is "
        "missing, or one denies it; who administers the cluster can add it with: pybroker acls "
        "add --allow User:alice --operation create --topic 'big data'"
    )


def test_who_it_is_may_be_unknown() -> None:
    refusal = Asked(None, "describe").refusal(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    assert refusal is not None
    assert refusal.startswith("this client is not allowed DESCRIBE on the cluster: ")
    assert refusal.endswith("--allow PRINCIPAL --operation describe --cluster")


def test_what_is_switched_off_is_advised() -> None:
    asked = Asked(None, "alter")
    asked.check(0, None, "nothing is wrong")
    with pytest.raises(ClientError, match=r"pybroker start --secure"):
        asked.check(ErrorCode.SECURITY_DISABLED, None, "cannot add an ACL")
    with pytest.raises(ClientError, match=r"cannot: it is so \(INVALID_REQUEST\)$"):
        asked.check(ErrorCode.INVALID_REQUEST, "it is so", "cannot")
