"""JAAS texts: what Kafka's parser makes of them, and that no error shows a password."""

from __future__ import annotations

import pytest

from pybroker_kafka.protocol.sasl.jaas import (
    PLAIN_MODULE,
    SCRAM_MODULE,
    JaasError,
    login_module,
    parse,
)


def options(text: str) -> dict[str, str]:
    return dict(login_module(f"{PLAIN_MODULE} required {text};", "PLAIN").options)


def test_a_module_with_options() -> None:
    text = f"""{PLAIN_MODULE} required
        username="admin" password="admin-secret"
        user_admin="admin-secret"
        user_alice="alice-secret";"""
    module = login_module(text, "PLAIN")
    assert (module.name, module.flag) == (PLAIN_MODULE, "required")
    assert module.options == {
        "username": "admin", "password": "admin-secret", "user_admin": "admin-secret",
        "user_alice": "alice-secret",
    }  # fmt: skip
    assert "secret" not in repr(module)


def test_a_module_without_options() -> None:
    assert login_module(f"{SCRAM_MODULE} Required;", "SCRAM-SHA-512").options == {}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a=word", "word"),
        ("a = word", "word"),
        ("a=some-word.with_all$9", "some-word.with_all$9"),
        ("a=true", "true"),
        ("a='single \"quoted\"'", 'single "quoted"'),
        ('a="it\'s"', "it's"),
        (r'a="\"\\\n\t\101\7x\477"', '"\\\n\tA\x07x\x277'),
        ('a="a;b=c /*no*/ //comment"', "a;b=c /*no*/ //comment"),
        ('a=""', ""),
        ('a="ends with the line\nb=c', "ends with the line"),
        ("a=Zoë", "Zoë"),
        ("/* a=1 ** / */ a=word // b", "word"),
        ("a=word / b\n", "word"),
        ('a="x"a="y"', "y"),
    ],
)
def test_a_value(text: str, value: str) -> None:
    assert options(f"{text}\n")["a"] == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "Login module not specified in JAAS config"),
        ("// nothing", "Login module not specified in JAAS config"),
        ("; ", "Login module not specified in JAAS config (line 1)"),
        ("a.B", "Login module control flag not specified in JAAS config (line 1)"),
        ("a.B;", "Login module control flag is not available in the JAAS config (line 1)"),
        ("a.B always;", "Invalid login module control flag in JAAS config (line 1)"),
        ("a.B required", "JAAS config entry not terminated by semi-colon (line 1)"),
        ("a.B required\nx;", "Value not specified for key 'x' in JAAS config (line 2)"),
        ("a.B required x=;", "Value not specified for key 'x' in JAAS config (line 1)"),
        ("a.B required x=1;", "Value not specified for key 'x' in JAAS config (line 1)"),
        ("a.B required x=-1;", "Value not specified for key 'x' in JAAS config (line 1)"),
        ("a.B required x=", "Value not specified for key 'x' in JAAS config (line 1)"),
        ('a.B required = "secret";', "Key of an option not specified in JAAS config (line 1)"),
        ('a.B required x="secret"', "JAAS config entry not terminated by semi-colon (line 1)"),
    ],
)
def test_what_is_none(text: str, message: str) -> None:
    with pytest.raises(JaasError) as caught:
        parse(text)
    assert str(caught.value) == message


def test_there_must_be_one_module_and_the_right_one() -> None:
    with pytest.raises(JaasError, match="contains 2 login modules, should be 1 module"):
        login_module("a.B required; c.D optional;", "PLAIN")
    with pytest.raises(JaasError, match=f"of PLAIN is {PLAIN_MODULE}, not {SCRAM_MODULE}"):
        login_module(f"{SCRAM_MODULE} required;", "PLAIN")
