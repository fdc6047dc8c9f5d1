"""Rules from principals to users, with the examples of Kafka's own tests and documentation."""

from __future__ import annotations

import pytest

from pybroker_kafka.broker.security.sasl.kerberos_names import NameRules

RULES = (
    "RULE:[1:$1](App\\..*)s/App\\.(.*)/$1/g",
    "RULE:[2:$1](App\\..*)s/App\\.(.*)/$1/g",
    "DEFAULT",
)


@pytest.mark.parametrize(
    ("rules", "principal", "name"),
    [
        (RULES, "App.service-name/example.com@REALM.COM", "service-name"),
        (RULES, "App.service-name@REALM.COM", "service-name"),
        (RULES, "user/host@REALM.COM", "user"),
        (RULES, "user/host@OTHER.COM", None),
        (("DEFAULT",), "alice@REALM.COM", "alice"),
        (("DEFAULT",), "alice", "alice"),
        (("DEFAULT",), "a@b@c", None),
        (("RULE:[1:$1@$0](.*@REALM.COM)s/@.*//",), "alice@REALM.COM", "alice"),
        (("RULE:[1:$1@$0]",), "alice@REALM.COM", None),
        (("RULE:[1:$1]/L",), "Alice@REALM.COM", "alice"),
        (("RULE:[2:$1]/U",), "Alice/h@REALM.COM", "ALICE"),
        (("RULE:[1:$1](A.*)/U", "RULE:[1:$1]/L"), "BOB@X", "bob"),
        (("RULE:[1:x$1]s/a/b/g",), "aaa@X", "xbbb"),
        (("RULE:[1:x$1]s/a/b/",), "aaa@X", "xbaa"),
        (("RULE:[2:$2.$1]",), "a/b@X", "b.a"),
        (("RULE:[2:$1]",), "a@X", None),
    ],
)
def test_a_name(rules: tuple[str, ...], principal: str, name: str | None) -> None:
    assert NameRules("REALM.COM", rules).short_name(principal) == name


@pytest.mark.parametrize(
    "rule",
    ["", "default", "RULE", "RULE:[1:$1", "RULE:[1:$1]x", "RULE:[1:$2]", "RULE:[1:$]",
     "RULE:[1:$1](()", "RULE:[1:$1]s/(/b/", "DEFAULT DEFAULT"],
)  # fmt: skip
def test_what_is_no_rule(rule: str) -> None:
    with pytest.raises(ValueError, match="Invalid rule"):
        NameRules("X", [rule])
