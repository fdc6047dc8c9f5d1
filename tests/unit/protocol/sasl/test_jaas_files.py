"""JAAS files: what is read, what is refused, and that no secret is told."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybroker_kafka.protocol.sasl.jaas import (
    JaasError,
    LoginModule,
    parse_file,
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
    Client {{ {DIGEST} required username=kafka keyTab="/etc/k.keytab" url="file:/a/b"; }};
    Empty {{ }};
    """
    sections = parse_file(text)
    assert list(sections) == ["KafkaServer", "Client", "Empty"]
    plain, other = sections["KafkaServer"]
    assert plain.options == {
        "username": "admin",
        "password": 'it\'s "secret" // not a comment; {}',
        "user_admin": "bare",
    }
    assert (other.name, other.flag, other.options) == ("com.example.Other", "optional", {})
    options = {"username": "kafka", "keyTab": "/etc/k.keytab", "url": "file:/a/b"}
    assert sections["Client"] == [LoginModule(DIGEST, "required", options)]
    assert sections["Empty"] == []
    assert "secret" not in repr(sections)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("Client", r"no { where it is expected \(line 1\)"),
        ("Client {", "The section Client does not end"),
        ("Client { a.B required x=y; }", "no ; where"),
        ("Client {\n a.B sometimes; };", r"control flag in JAAS config \(line 2\)"),
        ("Client {\n a.B required\n x y; };", r"Value not specified for key 'x' .*\(line 3\)"),
        ("Client { a.B required x=1; };", "Value not specified for key 'x'"),
        ("Client { }; Client { };", "a second section Client"),
        ("{ };", "name of a section is expected"),
        ("Client { ; };", "name of a login module is expected"),
        ('Client { a.B required x="${secret}"; };', "are not replaced"),
    ],
)
def test_bad_files_say_where(text: str, complaint: str) -> None:
    with pytest.raises(JaasError, match=complaint):
        parse_file(text)


words = st.from_regex(r"[A-Za-z_$][A-Za-z0-9_.$-]{0,7}", fullmatch=True)
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
        section: [LoginModule(module, "required", options) for module, options in modules]
        for section, modules in sections.items()
    }
    assert parse_file(gap.join(parts)) == expected


@given(st.text('ab {};="\\/*\n$', max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(JaasError):
        parse_file(text)
