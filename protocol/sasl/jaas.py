"""JAAS texts: the login module of a `sasl.jaas.config` and its options, and JAAS files.

Job: `login_module` parses a text that must have exactly one module, one that suits its mechanism;
`parse_file` the file that java.security.auth.login.config names, with modules in sections.

Invariants:
- Tokens are those of Java's StreamTokenizer as Kafka sets it up: words with `.`, `-`, `_` and `$`,
  quotes of both kinds with escapes, comments after `/` and `//` and between `/*` and `*/`; a value
  that begins with a digit must be quoted.
- No error and no repr quotes a value: it may be a password.

Mirrors `JaasConfig` and `JaasContext`, and for files `sun.security.provider.ConfigFile`. Beyond
them: a module that does not suit the mechanism is rejected at once, where Kafka fails every login.
Leaves out system properties inside of a file's values (`${...}`), which are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTHBEARER_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
DIGEST_MODULE = "org.apache.zookeeper.server.auth.DigestLoginModule"
KERBEROS_MODULE = "com.sun.security.auth.module.Krb5LoginModule"

MODULES: Mapping[str, str] = MappingProxyType(
    {
        "PLAIN": PLAIN_MODULE,
        "SCRAM-SHA-256": SCRAM_MODULE,
        "SCRAM-SHA-512": SCRAM_MODULE,
        "OAUTHBEARER": OAUTHBEARER_MODULE,
        "GSSAPI": KERBEROS_MODULE,
    }
)

_FLAGS = {"required", "requisite", "sufficient", "optional"}


class JaasError(ValueError):
    """The text is not valid JAAS; the message has the place, and quotes no value."""


@dataclass(frozen=True, slots=True)
class LoginModule:
    """A Java class by its name, and its options."""

    name: str
    flag: str
    options: Mapping[str, str] = field(repr=False)


class _Token(NamedTuple):
    """A word or a quoted text, both with `text`, or a single character."""

    text: str | None
    sign: str
    line: int


def login_module(text: str, mechanism: str) -> LoginModule:
    """The module of a text for one mechanism."""
    modules = parse(text)
    if len(modules) != 1:
        raise JaasError(
            f"JAAS config property contains {len(modules)} login modules, should be 1 module"
        )
    module = modules[0]
    expected = MODULES.get(mechanism)
    if expected is not None and module.name != expected:
        raise JaasError(f"the login module of {mechanism} is {expected}, not {module.name}")
    return module


def parse(text: str) -> list[LoginModule]:
    tokens = _tokens(text)
    modules = []
    for token in tokens:
        if token.text is None:
            raise _error("Login module not specified in JAAS config", token)
        modules.append(_module(token.text, tokens, token))
    if not modules:
        raise JaasError("Login module not specified in JAAS config")
    return modules


def parse_file(text: str) -> dict[str, list[LoginModule]]:
    """The modules of each section: `Name { module flag option="value"; };`."""
    tokens = _tokens(text)
    sections: dict[str, list[LoginModule]] = {}
    for token in tokens:
        if token.text is None:
            raise _error("The name of a section is expected", token)
        if token.text in sections:
            raise _error(f"There is a second section {token.text}", token)
        sections[token.text] = _section(tokens, token)
    return sections


def _section(tokens: Iterator[_Token], name: _Token) -> list[LoginModule]:
    modules: list[LoginModule] = []
    _expect("{", tokens, name)
    for token in tokens:
        if token.sign == "}":
            _expect(";", tokens, token)
            return modules
        if token.text is None:
            raise _error("The name of a login module is expected", token)
        module = _module(token.text, tokens, token)
        if any("${" in value for value in module.options.values()):
            raise _error("System properties in the values of this module are not replaced", token)
        modules.append(module)
    raise _error(f"The section {name.text} does not end", name)


def _expect(sign: str, tokens: Iterator[_Token], before: _Token) -> None:
    token = next(tokens, None)
    if token is None or token.sign != sign:
        raise _error(f"There is no {sign} where it is expected", token or before)


def _module(name: str, tokens: Iterator[_Token], last: _Token) -> LoginModule:
    """Parse the rest of a module behind its name, up to its semicolon."""
    token = next(tokens, None)
    if token is None:
        raise _error("Login module control flag not specified in JAAS config", last)
    if token.text is None:
        raise _error("Login module control flag is not available in the JAAS config", token)
    flag = token.text.lower()
    if flag not in _FLAGS:
        raise _error("Invalid login module control flag in JAAS config", token)
    options: dict[str, str] = {}
    for key in tokens:
        if key.sign == ";":
            return LoginModule(name, flag, options)
        if key.text is None:
            raise _error("Key of an option not specified in JAAS config", key)
        equals, value = next(tokens, None), next(tokens, None)
        if equals is None or equals.sign != "=" or value is None or value.text is None:
            raise _error(f"Value not specified for key '{key.text}' in JAAS config", key)
        options[key.text] = value.text
    raise _error("JAAS config entry not terminated by semi-colon", last)


def _error(message: str, token: _Token) -> JaasError:
    return JaasError(f"{message} (line {token.line})")


# The tokenizer. A word starts with a letter, `_`, `$` or what is beyond ASCII; digits, `.` and `-`
# may follow, and start a number, which is no text. Of `/` any use begins a comment.
_WORD = r"[A-Za-z_$\u00a0-\U0010ffff][A-Za-z_$\u00a0-\U0010ffff0-9.\-]*"
_NUMBER = r"-?(?:[0-9]+\.?[0-9]*|\.[0-9]*)"
# Compiled when a text is read: that takes 3 ms, and most brokers have none.
_TOKEN = (
    r"(?P<space>[\x00-\x20]+)"
    r"|(?P<comment>/\*(?:[^*]|\*(?!/))*(?:\*/)?|/[^\r\n]*)"
    rf"|(?P<word>{_WORD})"
    rf"|(?P<number>{_NUMBER})"
    r'|"(?P<double>(?:[^"\\\r\n]|\\[\s\S])*)"?'
    r"|'(?P<single>(?:[^'\\\r\n]|\\[\s\S])*)'?"
    r"|(?P<sign>[\s\S])"
)
_ESCAPE = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|[\s\S])")
_ESCAPED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def _tokens(text: str) -> Iterator[_Token]:
    line = 1
    for match in re.finditer(_TOKEN, text):
        kind = match.lastgroup
        if kind == "word":
            yield _Token(match[0], "", line)
        elif kind in ("double", "single"):
            yield _Token(_ESCAPE.sub(_unescaped, match[kind]), "", line)
        elif kind == "number":
            yield _Token(None, "number", line)
        elif kind == "sign":
            yield _Token(None, match[0], line)
        line += match[0].count("\n")


def _unescaped(match: re.Match[str]) -> str:
    escaped = match[1]
    if escaped[0] in "01234567":
        return chr(int(escaped, 8))
    return _ESCAPED.get(escaped, escaped)
