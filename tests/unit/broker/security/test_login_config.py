"""JAAS files: what is read, what is refused, and that no secret is told."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybroker.broker.security.login_config import (
    MAX_CHARACTERS,
    BadLoginConfig,
    LoginModule,
    parse_login_config,
)

DIGEST = "org.apache.zookeeper.server.auth.DigestLoginModule"


def test_sections_modules_and_options() -> None:
    text = f"""
    // for the broker
    KafkaServer {{
        org.apache.kafka.common.security.plain.PlainLoginModule required
        username="admin"
        password="it's \\"secret\\" // not a comment; {{}}"
        user_admin=bare;
        com.example.Other OPTIONAL;
    }};
    /* and for
       ZooKeeper */
    Client {{ {DIGEST} required username=kafka keyTab="/etc/k.keytab" url=file:/a/b; }};
    Empty {{ }};
    """
    sections = parse_login_config(text)
    assert list(sections) == ["KafkaServer", "Client", "Empty"]
    plain, other = sections["KafkaServer"]
    assert plain.options == {
        "username": "admin",
        "password": 'it\'s "secret" // not a comment; {}',
        "user_admin": "bare",
    }
    assert (other.name, other.flag, other.options) == ("com.example.Other", "optional", {})
    options = {"username": "kafka", "keyTab": "/etc/k.keytab", "url": "file:/a/b"}
    assert sections["Client"] == (LoginModule(DIGEST, "required", options),)
    assert sections["Empty"] == ()
    assert "secret" not in repr(sections)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("Client", "ends in the middle"),
        ("Client {", "ends in the middle"),
        ("Client { a.B required x=1; }", "ends in the middle"),
        ("Client {\n a.B sometimes; };", "line 2: after a module stands one of"),
        ("Client {\n a.B required\n x 1; };", "line 3: = is expected"),
        ('Client { a.B required x="1\n"; };', "line 1: it cannot be read"),
        ("Client { }; Client { };", "a second section Client"),
        ("{ };", "an unexpected {"),
        ('Client { a.B required x="${secret}"; };', "not replaced here"),
        (" " * (MAX_CHARACTERS + 1), "more than"),
    ],
)
def test_bad_files_say_where(text: str, complaint: str) -> None:
    with pytest.raises(BadLoginConfig, match=complaint):
        parse_login_config(text)


words = st.text("abcXYZ019._-$:@", min_size=1, max_size=8).filter(lambda text: "${" not in text)
texts = st.text("ab \\\"'{};=/*\n", max_size=8)


def quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


@given(
    sections=st.dictionaries(
        words,
        st.lists(st.tuples(words, st.dictionaries(words, texts, max_size=3)), max_size=2),
        max_size=3,
    ),
    gap=st.sampled_from([" ", "\n", " // comment\n", " /* x */ "]),
)
def test_what_is_written_is_read(
    sections: dict[str, list[tuple[str, dict[str, str]]]], gap: str
) -> None:
    parts = []
    for section, modules in sections.items():
        parts += [section, "{"]
        for module, options in modules:
            parts += [module, "required"]
            for name, value in options.items():
                parts += [name, "=", quoted(value)]
            parts.append(";")
        parts += ["}", ";"]
    expected = {
        section: tuple(LoginModule(module, "required", options) for module, options in modules)
        for section, modules in sections.items()
    }
    assert parse_login_config(gap.join(parts)) == expected


@given(st.text('ab {};="\\/*\n$', max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(BadLoginConfig):
        parse_login_config(text)
